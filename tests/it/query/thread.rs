//! The real thread: it answers, it stops in time, and it ends.

use super::{query, row, snapshot, text};
use jobcentre::model::query::{Expr, Op, Query};
use jobcentre::query::{Found, Helper, Work};
use jobcentre::reactor::Wake;
use jobcentre::reactor::query::QueryThread;
use std::sync::Arc;
use std::time::Duration;

fn work(query: Arc<Query>) -> Work {
    let rows = snapshot((0..20_000).map(|id| row(id, "{\"a\":1}", "null")));
    Work { rows, query, limit: None }
}

/// Takes very long: a piece with a wildcard that is found nowhere, in a long text.
fn slow() -> Work {
    let long = "printf('%.*c', 1000000, 'a') LIKE '%' || printf('%.*c', 40000, 'a') || '_b%'";
    work(query([(text(long), Op::Is, text("2"))]))
}

fn wait(thread: &mut QueryThread) -> Found {
    loop {
        if let Some(found) = thread.poll() {
            return found;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn it_answers() {
    let mut thread = QueryThread::new(Duration::from_mins(10), &Wake::default());
    for limit in [3, 5] {
        let even = query([(text("id % 2"), Op::Is, Expr::Number("0".into()))]);
        thread.start(Work { limit: Some(limit), ..work(even) });
        assert_eq!(wait(&mut thread).map(|found| found.len() as u64), Ok(limit));
    }
    assert_eq!(thread.poll(), None);
}

#[test]
fn it_stops_what_takes_too_long() {
    let mut thread = QueryThread::new(Duration::from_millis(50), &Wake::default());
    thread.start(slow());
    let why = "the query took longer than 50ms (--query-timeout) and was stopped";
    assert_eq!(wait(&mut thread), Err(why.to_owned()));
    assert_eq!(thread.timed_out(), 1);
    thread.start(work(query([])));
    assert_eq!(wait(&mut thread).map(|found| found.len()), Ok(20_000));
}

#[test]
fn what_takes_longer_than_a_quarter_of_its_time_goes_on_elsewhere() {
    let mut thread = QueryThread::new(Duration::from_mins(1), &Wake::default());
    thread.start(slow());
    // Under way in either thread, it is dropped.
    thread.stop();
    assert!(wait(&mut thread).is_err());
    assert_eq!(thread.timed_out(), 0);
    let mut thread = QueryThread::new(Duration::from_millis(4), &Wake::default());
    for _ in 0..20 {
        // Some end in the first thread and some in the second, and some in neither.
        thread.start(work(query([(text("id % 2"), Op::Is, text("0"))])));
        match wait(&mut thread) {
            Ok(found) => assert_eq!(found.len(), 10_000),
            Err(why) => assert!(why.contains("4ms (--query-timeout)"), "{why}"),
        }
    }
}

#[test]
fn it_stops_what_nobody_waits_for() {
    let mut thread = QueryThread::new(Duration::from_mins(10), &Wake::default());
    thread.start(slow());
    thread.stop();
    assert!(wait(&mut thread).is_err());
    thread.start(slow());
    // Its end ends the query.
    drop(thread);
}
