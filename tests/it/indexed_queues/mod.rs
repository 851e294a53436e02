//! Indexed queues: commands on them, and what other protocols do to their jobs.
//!
//! `tests/it/engine_sim` checks random runs; here are the cases that it cannot reach: many jobs,
//! full histories, random names, pages of queues.

mod harness;
mod limits;
mod searches;

use harness::{A, B, Harness};
use jobcentre::model::event::EventKind;
use jobcentre::model::indexed_queue::{IndexedPage, IndexedReply};
use jobcentre::model::job::{Encoding, JobOptions, Retry};
use jobcentre::model::owned::OwnedReply;
use jobcentre::model::query::{Expr, Op, Query, Term};
use jobcentre::model::reply::Reply;
use std::sync::Arc;

/// The query that asks for a state.
fn state_is(literal: &str) -> Arc<Query> {
    let (left, right) = (Expr::Text("state".into()), Expr::Text(literal.into()));
    Arc::new(Query { terms: vec![Term { op: Op::Is, left, right }] })
}

#[test]
fn queues_are_created_listed_and_dropped() {
    let mut harness = Harness::new();
    assert_eq!(harness.queues(), [("default".to_owned(), 0)]);
    assert_eq!(harness.list(b"q"), None);
    assert_eq!(harness.declare(b"q"), IndexedReply::Queue((*b"q").into()));
    assert_eq!(harness.declare(b"q"), IndexedReply::QueueExists);
    assert_eq!(harness.declare(b"default"), IndexedReply::QueueExists);
    harness.put(b"other", b"1");
    assert_eq!(harness.declare(b"other"), IndexedReply::QueueExists);
    harness.put(b"q", b"2");
    harness.put(b"default", b"3");
    let mut queues = harness.queues();
    queues.sort();
    let named = |name: &str, jobs| (name.to_owned(), jobs);
    assert_eq!(queues, [named("default", 1), named("other", 1), named("q", 1)]);
    for (name, jobs) in [(&b"other"[..], 1), (b"q", 1), (b"default", 1), (b"default", 0)] {
        assert_eq!(
            harness.drop_queue(name),
            OwnedReply::IndexedPage(IndexedPage::QueueDropped { jobs, more: false })
        );
    }
    assert_eq!(harness.drop_queue(b"q"), OwnedReply::Indexed(IndexedReply::NoQueue));
    assert_eq!(harness.drop_queue(b"other"), OwnedReply::Indexed(IndexedReply::NoQueue));
    assert_eq!(harness.queues(), [named("default", 0)]);
    assert_eq!(harness.counts(), (0, 0));
}

#[test]
fn queue_created_without_a_name_gets_a_random_one() {
    let mut harness = Harness::new();
    let first = harness.declare_some();
    let second = harness.declare_some();
    assert_ne!(first, second);
    assert_eq!(harness.queues().len(), 3);
    assert_eq!(harness.list(&first).unwrap().len(), 0);
}

#[test]
fn state_changes_are_in_the_history() {
    let mut harness = Harness::new();
    harness.declare(b"q");
    let row = harness.put_watched(b"q", b"{\"n\":1}", b"\"NEW\"");
    assert_eq!((&*row.payload, &*row.state, row.version), (&b"{\"n\":1}"[..], &b"\"NEW\""[..], 1));
    assert_eq!((row.encoding, row.priority.as_deref()), (Encoding::Json, Some("0")));
    let id = row.id;
    assert_eq!(
        harness.advance(b"q", id, b"\"OLD\"", b"1"),
        IndexedReply::Conflict(row.state.clone())
    );
    harness.pass(5_000);
    let IndexedReply::Row(advanced) = harness.advance(b"q", id, b"\"NEW\"", b"2") else { panic!() };
    assert_eq!((&*advanced.state, advanced.version), (&b"2"[..], 2));
    assert_eq!(advanced.modified, row.modified + 5);
    let IndexedReply::Row(noted) = harness.note(b"q", id, b"[\"hello\"]") else { panic!() };
    assert_eq!(noted.events.newest().unwrap().kind, EventKind::User(Box::from(*b"[\"hello\"]")));
    harness.take(A, b"q");
    harness.release(A, id);
    harness.take(B, b"q");
    harness.forget(B);
    let tags: Vec<_> = harness.tags(b"q", id);
    let expected = "job_created job_state_advanced user_event job_taken job_aborted job_taken \
                    job_abandoned";
    assert_eq!(tags.join(" "), expected);
    assert_eq!(harness.note(b"default", id, b"1"), IndexedReply::NoJob, "it is in another queue");
    assert_eq!(harness.note(b"no queue", id, b"1"), IndexedReply::NoQueue);
    assert_eq!(harness.delete(b"default", id), IndexedReply::NoJob);
    assert_eq!(harness.delete(b"q", id), IndexedReply::Done);
    assert_eq!(harness.delete(b"q", id), IndexedReply::NoJob);
}

#[test]
fn failures_retries_and_kicks_are_in_the_history() {
    let mut harness = Harness::new();
    harness.declare(b"q");
    let retry = Retry { limit: 1, first_ms: 10, factor: 1, max_ms: 10, jitter_percent: 0 };
    let options = JobOptions {
        lease_ms: 50,
        retry: Some(retry),
        result_retention_ms: 5,
        ..JobOptions::default()
    };
    let id = harness.put_with(b"q", b"1", &options);
    harness.take(A, b"q");
    harness.pass(50);
    harness.take(A, b"q");
    harness.fail(A, id);
    harness.pass(10);
    harness.take(A, b"q");
    harness.fail(A, id);
    harness.kick(id);
    harness.take(A, b"q");
    harness.bury(A, id);
    harness.kick_queue(b"q");
    harness.take(A, b"q");
    harness.finish(A, id);
    let expected = "job_created job_taken job_expired job_taken job_failed job_retried job_due \
                    job_taken job_failed job_buried job_kicked job_taken job_buried job_kicked \
                    job_taken job_finished";
    assert_eq!(harness.tags(b"q", id).join(" "), expected);
    harness.pass(5);
    assert_eq!(harness.list(b"q"), Some(vec![]), "what was kept is gone");
}

#[test]
fn first_query_indexes_existing_jobs() {
    let mut harness = Harness::new();
    let first = harness.put(b"q", b"1");
    let packet = harness.put_packet(b"q", b"key", b"value");
    harness.take(A, b"q");
    harness.pass(3_000);
    let rows = harness.list(b"q").unwrap();
    assert_eq!(rows.iter().map(|row| row.id).collect::<Vec<_>>(), [first, packet]);
    assert!(rows.iter().all(|row| *row.state == *b"null" && row.events.len() == 1));
    assert!(rows.iter().all(|row| row.modified == harness::START / 1_000));
    assert_eq!(
        (&*rows[1].payload, rows[1].encoding),
        (&b"keyvalue"[..], Encoding::Packet { key_len: 3 })
    );
    assert_eq!(rows[1].priority, None);
    harness.release(A, first);
    assert_eq!(harness.tags(b"q", first), ["job_created", "job_aborted"]);
    let ids: Vec<_> = harness.list(b"q").unwrap().iter().map(|row| row.id).collect();
    assert_eq!(ids, [packet, first], "longest untouched first");
    assert_eq!(harness.pop(b"q"), [&b"1"[..]], "a job with a record leaves like others");
}

#[test]
fn poll_claims_the_least_recently_changed_and_find_stops_at_its_limit() {
    let mut harness = Harness::new();
    harness.declare(b"q");
    let ids: Vec<_> = (0..5).map(|_| harness.put_watched(b"q", b"1", b"\"NEW\"").id).collect();
    harness.pass(1_000);
    harness.note(b"q", ids[0], b"1");
    let everything = Arc::new(Query::default());
    let found = harness.find(b"q", &everything, Some(2));
    assert_eq!(found, ids[1..3]);
    assert_eq!(harness.find(b"q", &everything, Some(0)), []);
    assert_eq!(harness.find(b"q", &everything, None).len(), 5);
    // A state is JSON text, and the column has it as it is.
    let new = state_is("'\"NEW\"'");
    for id in [1, 2, 3, 4, 0] {
        let IndexedReply::Row(row) = harness.poll(b"q", &new, b"\"BUSY\"") else { panic!() };
        assert_eq!((row.id, &*row.state), (ids[id], &b"\"BUSY\""[..]));
    }
    assert_eq!(harness.poll(b"q", &new, b"1"), IndexedReply::NoJob);
    assert_eq!(harness.find(b"q", &new, None), []);
    assert_eq!(harness.find(b"q", &state_is("'\"BUSY\"'"), None).len(), 5);
}

#[test]
fn queue_stays_indexed_until_it_is_dropped() {
    let mut harness = Harness::new();
    let id = harness.put(b"q", b"1");
    assert_eq!(harness.tags(b"q", id), ["job_created"]);
    harness.take(A, b"q");
    harness.finish(A, id);
    assert_eq!(harness.list(b"q"), None);
    let id = harness.put(b"q", b"1");
    harness.take(A, b"q");
    assert_eq!(
        harness.tags(b"q", id),
        ["job_created"],
        "the queue was not indexed when it was reserved"
    );
    harness.declare(b"r");
    let id = harness.put(b"r", b"1");
    harness.take(A, b"r");
    assert_eq!(harness.tags(b"r", id), ["job_created", "job_taken"]);
}

#[test]
fn drop_of_a_queue_deletes_reserved_jobs_and_keeps_waiters() {
    let mut harness = Harness::new();
    harness.declare(b"q");
    let ids: Vec<_> = (0..3).map(|_| harness.put_watched(b"q", b"1", b"null").id).collect();
    harness.take(A, b"q");
    assert_eq!(
        harness.drop_queue(b"q"),
        OwnedReply::IndexedPage(IndexedPage::QueueDropped { jobs: 3, more: false })
    );
    assert_eq!(harness.finish(A, ids[0]), Reply::NoJob);
    harness.wait(B, b"q");
    harness.declare(b"q");
    assert_eq!(
        harness.drop_queue(b"q"),
        OwnedReply::IndexedPage(IndexedPage::QueueDropped { jobs: 0, more: false })
    );
    let id = harness.put(b"q", b"2");
    assert_eq!(harness.finish(B, id), Reply::Done, "the waiter reserved it");
}

#[test]
fn put_reply_of_a_job_reserved_at_once_shows_it_as_put() {
    let mut harness = Harness::new();
    harness.declare(b"q");
    harness.wait(B, b"q");
    let row = harness.put_watched(b"q", b"1", b"null");
    assert_eq!(row.events.len(), 1);
    assert_eq!(harness.tags(b"q", row.id), ["job_created", "job_taken"]);
}
