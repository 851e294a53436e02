//! Watched queues: what is asked about them, and what other doors do to their jobs.
//!
//! `tests/it/engine_sim` judges everything at random; here are the cases that it cannot reach:
//! many jobs, full logs, names by chance, pages of queues.

mod harness;
mod limits;
mod searches;

use harness::{A, B, Harness};
use jobcentre::model::event::EventKind;
use jobcentre::model::job::{Encoding, JobOptions, Retry};
use jobcentre::model::query::{Expr, Op, Query, Term};
use jobcentre::model::reply::{Rejection, Reply};
use std::sync::Arc;

/// The query that asks for a state.
fn state_is(literal: &str) -> Arc<Query> {
    let (left, right) = (Expr::Text("state".into()), Expr::Text(literal.into()));
    Arc::new(Query { terms: vec![Term { op: Op::Is, left, right }] })
}

#[test]
fn queues_are_declared_listed_and_dropped() {
    let mut shop = Harness::new();
    assert_eq!(shop.queues(), [("default".to_owned(), 0)]);
    assert_eq!(shop.list(b"q"), None);
    assert_eq!(shop.declare(b"q"), Reply::Queue(b"q"));
    assert_eq!(shop.declare(b"q"), Reply::Rejected(Rejection::QueueExists));
    assert_eq!(shop.declare(b"default"), Reply::Rejected(Rejection::QueueExists));
    shop.put(b"other", b"1");
    assert_eq!(shop.declare(b"other"), Reply::Rejected(Rejection::QueueExists));
    shop.put(b"q", b"2");
    shop.put(b"default", b"3");
    let mut queues = shop.queues();
    queues.sort();
    let named = |name: &str, jobs| (name.to_owned(), jobs);
    assert_eq!(queues, [named("default", 1), named("other", 1), named("q", 1)]);
    for (name, jobs) in [(&b"other"[..], 1), (b"q", 1), (b"default", 1), (b"default", 0)] {
        assert_eq!(shop.drop_queue(name), Reply::QueueDropped { jobs, more: false });
    }
    assert_eq!(shop.drop_queue(b"q"), Reply::NoQueue);
    assert_eq!(shop.drop_queue(b"other"), Reply::NoQueue);
    assert_eq!(shop.queues(), [named("default", 0)]);
    assert_eq!(shop.counts(), (0, 0));
}

#[test]
fn a_queue_without_a_name_gets_one_by_chance() {
    let mut shop = Harness::new();
    let first = shop.declare_some();
    let second = shop.declare_some();
    assert_ne!(first, second);
    assert_eq!(shop.queues().len(), 3);
    assert_eq!(shop.list(&first).unwrap().len(), 0);
}

#[test]
fn states_advance_and_the_log_tells_everything() {
    let mut shop = Harness::new();
    shop.declare(b"q");
    let row = shop.put_watched(b"q", b"{\"n\":1}", b"\"NEW\"");
    assert_eq!((&*row.payload, &*row.state, row.version), (&b"{\"n\":1}"[..], &b"\"NEW\""[..], 1));
    assert_eq!((row.encoding, row.urgency.as_deref()), (Encoding::Json, Some("0")));
    let id = row.id;
    assert_eq!(shop.advance(b"q", id, b"\"OLD\"", b"1"), Reply::Conflict(&row.state));
    shop.pass(5_000);
    let Reply::Row(advanced) = shop.advance(b"q", id, b"\"NEW\"", b"2") else { panic!() };
    assert_eq!((&*advanced.state, advanced.version), (&b"2"[..], 2));
    assert_eq!(advanced.modified, row.modified + 5);
    let Reply::Row(noted) = shop.note(b"q", id, b"[\"hello\"]") else { panic!() };
    assert_eq!(noted.events.newest().unwrap().kind, EventKind::User(Box::from(*b"[\"hello\"]")));
    shop.take(A, b"q");
    shop.release(A, id);
    shop.take(B, b"q");
    shop.forget(B);
    let tags: Vec<_> = shop.tags(b"q", id);
    let expected = "job_created job_state_advanced user_event job_taken job_aborted job_taken \
                    job_abandoned";
    assert_eq!(tags.join(" "), expected);
    assert_eq!(shop.note(b"default", id, b"1"), Reply::NoJob, "it is in another queue");
    assert_eq!(shop.note(b"no queue", id, b"1"), Reply::NoQueue);
    assert_eq!(shop.delete(b"default", id), Reply::NoJob);
    assert_eq!(shop.delete(b"q", id), Reply::Done);
    assert_eq!(shop.delete(b"q", id), Reply::NoJob);
}

#[test]
fn failures_retries_and_kicks_are_logged() {
    let mut shop = Harness::new();
    shop.declare(b"q");
    let retry = Retry { limit: 1, first_ms: 10, factor: 1, max_ms: 10, jitter_percent: 0 };
    let terms = JobOptions {
        lease_ms: 50,
        retry: Some(retry),
        result_retention_ms: 5,
        ..JobOptions::default()
    };
    let id = shop.put_with(b"q", b"1", &terms);
    shop.take(A, b"q");
    shop.pass(50);
    shop.pass(10);
    shop.take(A, b"q");
    shop.fail(A, id);
    shop.kick(id);
    shop.take(A, b"q");
    shop.bury(A, id);
    shop.kick_queue(b"q");
    shop.take(A, b"q");
    shop.finish(A, id);
    let expected = "job_created job_taken job_expired job_retried job_due job_taken job_failed \
                    job_buried job_kicked job_taken job_buried job_kicked job_taken job_finished";
    assert_eq!(shop.tags(b"q", id).join(" "), expected);
    shop.pass(5);
    assert_eq!(shop.list(b"q"), Some(vec![]), "what was kept is gone");
}

#[test]
fn jobs_from_before_are_recorded_when_they_are_asked_for() {
    let mut shop = Harness::new();
    let first = shop.put(b"q", b"1");
    let packet = shop.put_packet(b"q", b"key", b"value");
    shop.take(A, b"q");
    shop.pass(3_000);
    let rows = shop.list(b"q").unwrap();
    assert_eq!(rows.iter().map(|row| row.id).collect::<Vec<_>>(), [first, packet]);
    assert!(rows.iter().all(|row| *row.state == *b"null" && row.events.len() == 1));
    assert!(rows.iter().all(|row| row.modified == harness::START / 1_000));
    assert_eq!(
        (&*rows[1].payload, rows[1].encoding),
        (&b"keyvalue"[..], Encoding::Packet { key_len: 3 })
    );
    assert_eq!(rows[1].urgency, None);
    shop.release(A, first);
    assert_eq!(shop.tags(b"q", first), ["job_created", "job_aborted"]);
    let ids: Vec<_> = shop.list(b"q").unwrap().iter().map(|row| row.id).collect();
    assert_eq!(ids, [packet, first], "longest untouched first");
    assert_eq!(shop.pop(b"q"), [&b"1"[..]], "a job with a record leaves like others");
}

#[test]
fn polls_take_the_longest_untouched_and_finds_stop_at_their_limit() {
    let mut shop = Harness::new();
    shop.declare(b"q");
    let ids: Vec<_> = (0..5).map(|_| shop.put_watched(b"q", b"1", b"\"NEW\"").id).collect();
    shop.pass(1_000);
    shop.note(b"q", ids[0], b"1");
    let everything = Arc::new(Query::default());
    let found = shop.find(b"q", &everything, Some(2));
    assert_eq!(found, ids[1..3]);
    assert_eq!(shop.find(b"q", &everything, Some(0)), []);
    assert_eq!(shop.find(b"q", &everything, None).len(), 5);
    // A state is JSON text, and the column has it as it is.
    let new = state_is("'\"NEW\"'");
    for id in [1, 2, 3, 4, 0] {
        let Reply::Row(row) = shop.poll(b"q", &new, b"\"BUSY\"") else { panic!() };
        assert_eq!((row.id, &*row.state), (ids[id], &b"\"BUSY\""[..]));
    }
    assert_eq!(shop.poll(b"q", &new, b"1"), Reply::NoJob);
    assert_eq!(shop.find(b"q", &new, None), []);
    assert_eq!(shop.find(b"q", &state_is("'\"BUSY\"'"), None).len(), 5);
}

#[test]
fn a_queue_is_watched_until_it_is_gone() {
    let mut shop = Harness::new();
    let id = shop.put(b"q", b"1");
    assert_eq!(shop.tags(b"q", id), ["job_created"]);
    shop.take(A, b"q");
    shop.finish(A, id);
    assert_eq!(shop.list(b"q"), None);
    let id = shop.put(b"q", b"1");
    shop.take(A, b"q");
    assert_eq!(shop.tags(b"q", id), ["job_created"], "nobody watched when it was taken");
    shop.declare(b"r");
    let id = shop.put(b"r", b"1");
    shop.take(A, b"r");
    assert_eq!(shop.tags(b"r", id), ["job_created", "job_taken"]);
}

#[test]
fn dropped_jobs_are_gone_for_their_holders_and_waiters_stay() {
    let mut shop = Harness::new();
    shop.declare(b"q");
    let ids: Vec<_> = (0..3).map(|_| shop.put_watched(b"q", b"1", b"null").id).collect();
    shop.take(A, b"q");
    assert_eq!(shop.drop_queue(b"q"), Reply::QueueDropped { jobs: 3, more: false });
    assert_eq!(shop.finish(A, ids[0]), Reply::NoJob);
    shop.wait(B, b"q");
    shop.declare(b"q");
    assert_eq!(shop.drop_queue(b"q"), Reply::QueueDropped { jobs: 0, more: false });
    let id = shop.put(b"q", b"2");
    assert_eq!(shop.finish(B, id), Reply::Done, "it went to who had waited");
}

#[test]
fn a_job_that_goes_to_a_waiter_at_once_is_answered_as_it_was_put() {
    let mut shop = Harness::new();
    shop.declare(b"q");
    shop.wait(B, b"q");
    let row = shop.put_watched(b"q", b"1", b"null");
    assert_eq!(row.events.len(), 1);
    assert_eq!(shop.tags(b"q", row.id), ["job_created", "job_taken"]);
}
