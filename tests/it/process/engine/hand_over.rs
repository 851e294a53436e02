//! A leader that is told to end hands over to a server that waits, which has read all by then.

use super::Redis;
use super::leaders::{Ledger, compare, job, load};
use crate::support::{Program, Server, number, until};

/// A server that leads, or waits to, with the usual lease.
fn start(redis: &Redis, name: &str, flags: &[&str]) -> Server {
    let url = redis.url();
    let all = ["--engine", &url, "--server-name", name];
    Server::start(&[&all[..], flags].concat())
}

/// A server that waits, and is known to do so.
fn stand_by(redis: &Redis, name: &str) -> Server {
    let server = start(redis, name, &[]);
    until("a server that waits", || {
        let status = Program::output(&["engine", "status", "--engine", &redis.url()], &[]);
        String::from_utf8_lossy(&status.stdout).contains(&format!("waiting to lead: {name}"))
    });
    server
}

/// Whether the server says that it had read everything before it began to lead.
fn has_followed(server: &Server) -> bool {
    let leads = |line: &String| line.contains("this server leads");
    let line = server.log_lines().into_iter().find(leads).expect("it does not lead");
    match (line.contains("\"read_before\":true"), line.contains("\"read_before\":false")) {
        (true, false) => true,
        (false, true) => false,
        _ => panic!("{line}"),
    }
}

#[test]
fn nothing_answered_is_lost_when_leaders_hand_over_under_load() {
    let Some(redis) = Redis::start() else { return };
    let mut leader = start(&redis, "s0", &[]);
    leader.wait_for_log("\"serving\"");
    let mut ledger = Ledger::default();
    for round in 0..3 {
        let next = stand_by(&redis, &format!("s{}", round + 1));
        ledger.merge(load(leader.address, round, || {
            leader.signal("TERM");
            assert!(leader.wait().success());
        }));
        next.wait_for_log("\"serving\"");
        assert!(has_followed(&next), "{:?}", leader.log_lines());
        leader = next;
    }
    compare(&leader, &ledger);
}

#[test]
fn what_clients_hold_is_ready_at_the_server_that_was_handed_the_lead() {
    let Some(redis) = Redis::start() else { return };
    let mut leader = start(&redis, "first", &[]);
    leader.wait_for_log("\"serving\"");
    let mut client = leader.connect();
    for value in [3, 6, 9] {
        client.ask(&job(value));
    }
    let get = crate::support::get("q");
    assert_eq!(number(&client.ask(&get), "id"), 1);
    let next = stand_by(&redis, "second");
    leader.signal("TERM");
    leader.wait_for_log("it leads next");
    next.wait_for_log("\"serving\"");
    // The client has not closed its connection: the next one does not wait for it.
    assert!(has_followed(&next));
    assert_eq!(number(&next.connect().ask(&get), "id"), 1);
    drop(client);
    assert!(leader.wait().success());
}

#[test]
fn leader_ends_without_a_hand_over_if_no_server_follows_or_that_is_the_setting() {
    let Some(redis) = Redis::start() else { return };
    let mut leader = start(&redis, "first", &["--engine-hand-over", "0s"]);
    leader.wait_for_log("\"serving\"");
    leader.connect().ask(&job(3));
    let mut second = stand_by(&redis, "second");
    leader.signal("TERM");
    assert!(leader.wait().success());
    second.wait_for_log("\"serving\"");
    assert!(!has_followed(&second));
    // This one is known to wait, and stands still.
    let third = stand_by(&redis, "third");
    third.signal("STOP");
    second.signal("TERM");
    assert!(second.wait().success());
    third.signal("CONT");
    third.wait_for_log("\"serving\"");
    assert!(!has_followed(&third));
    assert_eq!(number(&third.connect().ask(&crate::support::get("q")), "id"), 1);
}

#[test]
fn second_signal_ends_the_wait_for_a_hand_over() {
    let Some(redis) = Redis::start() else { return };
    let mut leader =
        start(&redis, "first", &["--engine-hand-over", "1h", "--engine-lease", "1min"]);
    leader.wait_for_log("\"serving\"");
    let mut second = stand_by(&redis, "second");
    // It follows, and will never have read everything.
    redis.ask(&[
        b"HSET",
        b"jc:{0bku}:meta",
        b"successor",
        b"x",
        b"successor_until",
        b"99999999999999",
    ]);
    leader.signal("TERM");
    leader.wait_for_log("handing over");
    assert!(leader.is_alive());
    assert!(leader.connect().ask(&job(3)).contains("\"id\":1"), "it serves meanwhile");
    leader.signal("TERM");
    assert!(leader.wait().success());
    assert!(second.is_alive());
}

#[test]
fn server_that_waits_outlives_the_loss_of_the_functions() {
    let Some(redis) = Redis::start() else { return };
    let mut leader = start(&redis, "first", &[]);
    leader.wait_for_log("\"serving\"");
    leader.connect().ask(&job(3));
    let mut second = stand_by(&redis, "second");
    // Until it was the one that missed them, and not the leader.
    until("a server that misses the functions", || {
        redis.ask(&[b"FUNCTION", b"FLUSH"]);
        second.log_lines().iter().any(|line| line.contains("its functions are gone"))
    });
    assert!(second.is_alive());
    leader.signal("TERM");
    assert!(leader.wait().success());
    second.wait_for_log("\"serving\"");
    assert_eq!(number(&second.connect().ask(&crate::support::get("q")), "id"), 1);
}
