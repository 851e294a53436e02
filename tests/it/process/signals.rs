//! Graceful shutdown: received requests are answered, and a second signal ends the server at once.
//! Other signals end nothing.

use super::slow_readers::slow_reader;
use crate::support::{Client, NO_JOB, Server, TempDir, get, number, put, until, wait};
use socket2::SockRef;
use std::io::{ErrorKind, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

#[test]
fn signal_ends_the_server_after_replies_to_received_requests() {
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
        assert!(TcpStream::connect(server.address).is_err(), "the listener is closed");
    }
}

#[test]
fn signal_ends_a_server_without_clients() {
    let mut server = Server::start(&[]);
    server.signal("TERM");
    assert_eq!(server.wait().code(), Some(0));
}

#[test]
fn server_in_shutdown_accepts_no_clients() {
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
fn second_signal_ends_the_server_at_once() {
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
fn client_that_never_reads_delays_shutdown_for_a_bounded_time() {
    let mut server = Server::start(&[]);
    let _slow = slow_reader(&server);
    server.connect().settle();
    server.signal("TERM");
    assert_eq!(server.wait().code(), Some(0));
    server.wait_for_log("did not take their answers in time");
}

/// Sends `words` again and again until the connection ends; whether that was by a reset.
fn send_without_end(mut stream: TcpStream, words: &[u8]) -> bool {
    loop {
        match stream.write_all(words) {
            Ok(()) => {}
            Err(error) => return error.kind() == ErrorKind::ConnectionReset,
        }
    }
}

/// Signals a server whose client goes on sending `words` and reads what it gets: all that it got
/// until the connection ended.
fn stop_while_sending(server: &mut Server, mut client: Client, words: &str) -> String {
    let sending = client.stream().try_clone().unwrap();
    let words = words.repeat(200).into_bytes();
    let sender = thread::spawn(move || send_without_end(sending, &words));
    let mut answers = client.receive_count(100_000);
    server.signal("TERM");
    answers.extend_from_slice(client.receive_all().as_bytes());
    assert_eq!(server.wait().code(), Some(0));
    sender.join().unwrap();
    server.wait_for_log("stopped: every");
    String::from_utf8(answers).unwrap()
}

#[test]
fn client_that_keeps_sending_at_shutdown_gets_a_reply_to_every_executed_request() {
    let dir = TempDir::new();
    let mut server = Server::start(&["--data", dir.text(), "--fsync", "10ms"]);
    let client = server.connect();
    let answers = stop_while_sending(&mut server, client, &(put("q", 1, "{}") + "\n"));
    assert!(answers.ends_with("}\n"), "half an answer");
    let answers = answers.lines().count();
    let server = Server::start(&["--data", dir.text()]);
    let (mut client, mut jobs) = (server.connect(), 0);
    let gets = format!("{}\n", get("q")).repeat(answers + 1);
    for reply in client.exchange(gets.as_bytes(), answers + 1) {
        jobs += usize::from(reply != NO_JOB);
    }
    assert_eq!(jobs, answers, "answers for other puts than were carried out");
}

#[test]
fn http_client_that_keeps_sending_at_shutdown_gets_complete_replies() {
    let mut server = Server::start(&["--http", ":0"]);
    let client = Client::connect(server.address_of("http"));
    let words = "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let answers = stop_while_sending(&mut server, client, words);
    let mut pieces = answers.split("HTTP/1.1 200 OK\r\n").skip(1);
    // But for the date all are like the first one.
    let body = |piece: &str| piece.split_once("\r\n\r\n").map(|(_, body)| body.to_owned());
    let first = pieces.next().and_then(body).unwrap();
    assert!(pieces.all(|piece| body(piece).as_ref() == Some(&first)), "half an answer");
}

#[test]
fn requests_of_a_slow_reader_after_a_shutdown_began_are_not_executed() {
    let dir = TempDir::new();
    let mut server = Server::start(&["--data", dir.text()]);
    let mut client = server.connect();
    SockRef::from(client.stream()).set_recv_buffer_size(65_536).unwrap();
    let sending = client.stream().try_clone().unwrap();
    let words = format!("{}\n{}\n", put("q", 1, "{}"), get("none")).repeat(200);
    let sent = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&sent);
    thread::spawn(move || {
        let mut sending = sending;
        while sending.write_all(words.as_bytes()).is_ok() {
            count.fetch_add(1, Ordering::Relaxed);
        }
    });
    // Every buffer on the way is full.
    let mut before = 0;
    until("the sender has to wait", || {
        thread::sleep(Duration::from_millis(300));
        let now = sent.load(Ordering::Relaxed);
        now > 0 && std::mem::replace(&mut before, now) == now
    });
    server.signal("TERM");
    server.wait_for_log("stopping");
    let mut answers = 0_usize;
    while client.try_receive().is_some() {
        answers += 1;
        if answers.is_multiple_of(1_000) {
            thread::sleep(Duration::from_millis(20));
        }
    }
    assert_eq!(server.wait().code(), Some(0));
    // And not because its time was over.
    server.wait_for_log("stopped: every");
}

#[test]
fn signals_that_end_nothing_are_logged_at_intervals() {
    let mut server = Server::start(&[]);
    for signal in ["HUP", "USR1", "USR2", "ALRM"] {
        for _ in 0..10 {
            server.signal(signal);
        }
        server.wait_for_log(&format!("SIG{signal}"));
        let names_signal = |line: &&String| line.contains(&format!("SIG{signal}"));
        let lines = server.log_lines();
        assert!(lines.iter().filter(names_signal).count() < 10, "{lines:?}");
    }
    server.wait_for_log("nothing to reload");
    server.connect().settle();
    assert!(server.is_alive());
    server.signal("TERM");
    assert_eq!(server.wait().code(), Some(0));
}
