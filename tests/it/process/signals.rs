//! Stopping: what was received is answered, and a second signal ends it at once.

use super::readers::slow_reader;
use crate::support::{NO_JOB, Server, get, number, put, until, wait};
use std::net::TcpStream;

#[test]
fn a_signal_ends_the_server_after_it_has_answered_what_was_received() {
    for signal in ["TERM", "INT"] {
        let mut server = Server::start(&[]);
        let (mut asking, mut waiting, mut idle) =
            (server.connect(), server.connect(), server.connect());
        waiting.send(&wait("q"));
        waiting.send(&put("behind", 1, "{}"));
        assert_eq!(idle.ask(&get("none")), NO_JOB);
        asking.settle();
        // The server finds the requests and the signal at the same time.
        server.signal("STOP");
        asking.send_bytes(format!("{}\n", put("other", 1, "{}")).repeat(500).as_bytes());
        asking.send_bytes(b"{\"half a line");
        server.signal(signal);
        server.signal("CONT");

        for id in 1..=500 {
            assert_eq!(number(&asking.receive(), "id"), id);
        }
        assert_eq!(asking.receive_all(), "");
        assert_eq!(waiting.receive_all(), "", "a waiting get is dropped, and all behind it");
        assert_eq!(idle.receive_all(), "");
        assert_eq!(server.wait().code(), Some(0));
        server.wait_for_log("stopped: everything received was answered");
        assert!(TcpStream::connect(server.address).is_err(), "nobody listens any more");
    }
}

#[test]
fn a_signal_ends_a_server_without_clients() {
    let mut server = Server::start(&[]);
    server.signal("TERM");
    assert_eq!(server.wait().code(), Some(0));
}

#[test]
fn a_stopping_server_does_not_take_new_clients() {
    let mut server = Server::start(&[]);
    let mut slow = slow_reader(&server);
    server.signal("TERM");
    server.wait_for_log("stopping");
    until("closed listeners", || TcpStream::connect(server.address).is_err());
    assert!(server.is_alive(), "the listeners are closed while answers are flushed");
    // The slow one reads at last, and gets all that it has asked for.
    let mut answers = 0;
    while slow.try_receive().is_some() {
        answers += 1;
    }
    assert!(answers > 1, "{answers} answers");
    assert_eq!(server.wait().code(), Some(0));
}

#[test]
fn a_second_signal_ends_the_server_at_once() {
    for (first, second) in [("TERM", "TERM"), ("INT", "TERM")] {
        let mut server = Server::start(&[]);
        let _slow = slow_reader(&server);
        server.connect().settle();
        server.signal(first);
        server.wait_for_log("stopping");
        server.signal(second);
        assert_eq!(server.wait().code(), Some(0));
        server.wait_for_log("second signal");
        server.wait_for_log("stopped at once");
    }
}

#[test]
fn a_client_that_never_reads_does_not_hold_the_server_up_forever() {
    let mut server = Server::start(&[]);
    let _slow = slow_reader(&server);
    server.connect().settle();
    server.signal("TERM");
    assert_eq!(server.wait().code(), Some(0));
    server.wait_for_log("did not take their answers in time");
}
