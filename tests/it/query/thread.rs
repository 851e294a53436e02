//! The real threads: they answer, stop in time, and end. The clock is the test's.

use super::{query, row, snapshot, text};
use jobcentre::base::time::Mono;
use jobcentre::model::query::{Expr, Op, Query};
use jobcentre::query::{Found, Helper, Work, value_max};
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

const MINUTE: Duration = Duration::from_mins(1);

/// The moment at which so much of a minute is over. What begins, begins at 0.
fn at(part: f64) -> Mono {
    Mono(0).after(MINUTE.mul_f64(part))
}

fn thread() -> QueryThread {
    QueryThread::new(MINUTE, value_max(0), &Wake::default())
}

/// What comes of it at this moment, if something does.
fn wait(thread: &mut QueryThread, now: Mono) -> Found {
    loop {
        if let Some(found) = thread.poll(now) {
            return found;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn wait_until_free(thread: &mut QueryThread) {
    while !thread.is_free() {
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn even() -> Arc<Query> {
    query([(text("id % 2"), Op::Is, Expr::Number("0".into()))])
}

/// It can be asked again, and answers.
fn assert_well(thread: &mut QueryThread) {
    wait_until_free(thread);
    assert_eq!((thread.poll(at(9.0)), thread.poll_timeout()), (None, None));
    thread.start(work(even()), at(0.0));
    assert_eq!(wait(thread, at(0.1)).map(|found| found.len()), Ok(10_000));
}

#[test]
fn it_answers() {
    let mut thread = thread();
    for limit in [3, 5] {
        thread.start(Work { limit: Some(limit), ..work(even()) }, at(0.0));
        assert_eq!(wait(&mut thread, at(0.1)).map(|found| found.len() as u64), Ok(limit));
        assert!(thread.is_free());
    }
    assert_eq!(thread.poll(at(9.0)), None);
    assert_eq!(thread.timed_out(), 0);
}

#[test]
fn what_takes_too_long_is_answered_in_time_wherever_it_is() {
    let why = "the query took longer than 1m (--query-timeout) and was stopped";
    // Each list has the moments at which the loop looks: the first thread may have noticed nothing.
    let moments: [&[f64]; 5] = [&[], &[0.1], &[0.25], &[0.25, 0.5], &[0.3, 0.9]];
    for looks in moments {
        let mut thread = thread();
        thread.start(slow(), at(0.0));
        assert_eq!(thread.poll_timeout(), Some(at(0.25)));
        for &look in looks {
            assert_eq!(thread.poll(at(look)), None);
            let next = thread.poll_timeout().unwrap();
            assert!(next > at(look) && next <= at(1.0), "{next:?}");
        }
        assert_eq!(thread.poll(at(1.0)), Some(Err(why.to_owned())), "at once");
        assert_eq!(thread.timed_out(), 1);
        // The next does not wait for the first thread, if that is held up.
        assert_well(&mut thread);
        assert_well(&mut thread);
    }
}

#[test]
fn a_query_is_answered_in_full_wherever_it_ends() {
    let mut thread = thread();
    for round in 0..40 {
        thread.start(work(even()), at(0.0));
        // Some end in the first thread, some go on in the second, some begin anew there.
        let found = (0..round).find_map(|_| thread.poll(at(0.1)));
        let found = found.or_else(|| thread.poll(at(0.25)));
        let found = found.or_else(|| thread.poll(at(0.5)));
        let found = found.unwrap_or_else(|| wait(&mut thread, at(0.6)));
        assert_eq!(found.map(|found| found.len()), Ok(10_000));
        wait_until_free(&mut thread);
    }
    assert_eq!(thread.timed_out(), 0);
}

#[test]
fn it_goes_on_in_the_second_thread() {
    let mut thread = thread();
    thread.start(slow(), at(0.0));
    assert_eq!(thread.poll(at(0.25)), None);
    // It was told to give it back, and does.
    while thread.poll_timeout() != Some(at(1.0)) {
        assert_eq!(thread.poll(at(0.26)), None);
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(thread.poll(at(0.99)), None);
    assert!(thread.poll(at(1.0)).is_some_and(|found| found.is_err()));
    assert_well(&mut thread);
}

#[test]
fn it_stops_what_nobody_waits_for() {
    let mut thread = thread();
    for looks in [&[][..], &[0.25], &[0.25, 0.5]] {
        thread.start(slow(), at(0.0));
        for &look in looks {
            assert_eq!(thread.poll(at(look)), None);
        }
        thread.stop();
        assert_eq!((thread.poll(at(9.0)), thread.poll_timeout()), (None, None));
        assert_well(&mut thread);
    }
    assert_eq!(thread.timed_out(), 0);
    thread.start(slow(), at(0.0));
    // Its end ends the query.
    drop(thread);
}
