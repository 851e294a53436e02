//! The rules of constraints, one by one.

use super::{Harness, argument, ms, names, on};
use crate::model::command::{Command, Wait};
use crate::model::consumer::ConsumerCommand;
use crate::model::id::{ClientId, JobId, Ticket};
use crate::model::job::{Encoding, JobOptions, Payload, Priority, Status, TieBreak};
use crate::model::snapshot::{PersistedStatus, Record};
use crate::model::worker::{Compare, Condition, ConstraintReply, Scalar, WorkerCommand};
use crate::store::{Effects, Outcome, RecordKey, Store};

fn status(harness: &Harness, id: JobId) -> Status {
    harness.store.job_info(harness.store.slot(id).unwrap()).status
}

#[test]
fn running_count_stays_at_the_limit_and_later_jobs_are_reserved() {
    let mut harness = Harness::new();
    harness.set_constraint(&on("c", "slow").running(2));
    let slow: Vec<JobId> = (0..4).map(|_| harness.put("slow", "{}")).collect();
    let free = harness.put("free", "{}");
    assert_eq!(harness.reserve(1, &["slow", "free"]), Some(slow[0]));
    assert_eq!(harness.reserve(1, &["slow", "free"]), Some(slow[1]));
    assert_eq!(harness.reserve(1, &["slow", "free"]), Some(free), "the jobs behind go on");
    assert_eq!(harness.reserve(1, &["slow", "free"]), None);
    assert_eq!(status(&harness, slow[2]), Status::Blocked);
    assert_eq!(
        harness.store.state(harness.store.slot(slow[2]).unwrap()).stage,
        PersistedStatus::Waiting
    );
    harness.delete(slow[0]);
    assert_eq!(harness.reserve(1, &["slow"]), Some(slow[2]));
    harness.release(1, slow[1]);
    assert_eq!(harness.reserve(1, &["slow"]), Some(slow[1]), "it has kept its place");
    // However a job leaves its holder, its place is free.
    harness.fx.clear();
    harness.store.disconnect_client(super::client(1), harness.now, &mut harness.fx);
    harness.store.check_invariants();
    assert_eq!(harness.reserve(2, &["slow"]), Some(slow[1]));
    for event in [Command::Bury { id: slow[1], lease: None }, Command::Kick { id: slow[1] }] {
        harness.apply(2, &event);
        harness.store.check_invariants();
    }
    assert_eq!(harness.reserve(2, &["slow"]), Some(slow[1]));
    assert_eq!(harness.reserve(2, &["slow"]), Some(slow[2]));
    assert_eq!(harness.reserve(2, &["slow"]), None);
}

/// Capacity is consumed by a reservation; no client reserves from `idle`.
#[test]
fn ready_job_without_consumer_uses_no_capacity() {
    let mut harness = Harness::new();
    harness.set_constraint(&on("c", "*").running(1));
    harness.put_with("idle", 9, "{}", None);
    let job = harness.put("busy", "{}");
    assert_eq!(harness.reserve(1, &["busy"]), Some(job));
    let next = harness.put("busy", "{}");
    assert_eq!(harness.wait(2, "busy"), []);
    harness.delete(job);
    assert_eq!(harness.jobs().iter().map(|&(_, id)| id).collect::<Vec<_>>(), [next]);
    assert_eq!(harness.reserve(3, &["idle"]), None, "now it runs");
    harness.store.check_invariants();
}

#[test]
fn more_urgent_job_put_later_is_reserved_first() {
    let mut harness = Harness::new();
    harness.set_constraint(&on("c", "q").running(1).per("h"));
    let first = harness.put("q", "{\"h\":1}");
    let late = harness.put_with("q", -1, "{\"h\":1}", None);
    let urgent = harness.put_with("q", 5, "{\"h\":1}", None);
    let other = harness.put_with("q", -5, "{\"h\":2}", None);
    assert_eq!(harness.reserve(1, &["q"]), Some(urgent));
    let more = harness.put_with("q", 7, "{\"h\":1}", None);
    assert_eq!(harness.reserve(1, &["q"]), Some(other), "another limiter");
    for expected in [more, first, late] {
        let held = if expected == more {
            urgent
        } else if expected == first {
            more
        } else {
            first
        };
        harness.delete(held);
        assert_eq!(harness.reserve(1, &["q"]), Some(expected));
        harness.store.check_invariants();
    }
}

#[test]
fn rate_is_exact_to_the_nanosecond() {
    let mut harness = Harness::new();
    // 3 in 1 s, two at once after a rest.
    harness.set_constraint(&on("c", "q").rate(3, 1_000, 2));
    for _ in 0..10 {
        harness.put("q", "{}");
    }
    let begin = harness.now.mono.0;
    for _ in 0..2 {
        let job = harness.reserve(1, &["q"]).unwrap();
        harness.delete(job);
    }
    assert_eq!(harness.reserve(1, &["q"]), None);
    for number in 1..=8_u64 {
        let at = begin + (number * 1_000_000_000).div_ceil(3);
        assert_eq!(harness.store.next_deadline().map(|at| at.0), Some(at));
        harness.now.mono.0 = at - 1;
        assert_eq!(harness.reserve(1, &["q"]), None);
        harness.now.mono.0 = at;
        harness.settle();
        let job = harness.reserve(1, &["q"]).unwrap();
        harness.delete(job);
        if number < 8 {
            assert_eq!(harness.reserve(1, &["q"]), None);
        }
        harness.store.check_invariants();
    }
    assert_eq!(harness.store.counts().jobs, 0);
}

/// A limiter without jobs stays while its token bucket is not full.
#[test]
fn limiter_lives_until_its_last_job_is_gone_and_its_bucket_full() {
    let mut harness = Harness::new();
    harness.set_constraint(&on("c", "q").running(1).rate(1, 1_000, 1).per("h"));
    for host in 0..1_000 {
        let job = harness.put("q", &format!("{{\"h\":{host}}}"));
        assert_eq!(harness.reserve(1, &["q"]), Some(job));
        harness.delete(job);
    }
    assert_eq!(harness.store.constraints.limiters.len(), 1_000);
    let again = harness.put("q", "{\"h\":1}");
    assert_eq!(harness.reserve(1, &["q"]), None, "its token is spent");
    harness.advance_to(ms(1_001));
    assert_eq!(harness.store.constraints.limiters.len(), 1);
    assert_eq!(harness.reserve(1, &["q"]), Some(again));
    harness.delete(again);
    harness.advance_to(ms(2_001));
    assert_eq!(harness.store.constraints.limiters.len(), 0);
    assert_eq!(harness.store.constraints.class_index.len(), 0);
    assert_eq!(harness.store.counts().deadlines, 0);
    harness.store.check_invariants();
}

#[test]
fn constraint_is_set_changed_shown_and_removed() {
    let mut harness = Harness::new();
    let none = on("c", "q").running(0);
    assert_eq!(
        harness.remove_constraint("c"),
        Some(Outcome::Constraint(ConstraintReply::NoConstraint))
    );
    assert_eq!(
        harness.set_constraint(&none),
        Some(Outcome::Constraint(ConstraintReply::Set { new: true }))
    );
    assert_eq!(
        harness.set_constraint(&none),
        Some(Outcome::Constraint(ConstraintReply::Set { new: false }))
    );
    let said = |harness: &mut Harness| match harness
        .apply(0, &Command::Work(WorkerCommand::GetConstraint { name: "c" }))[0]
        .1
    {
        Outcome::ConstraintFound(number) => Some(harness.store.constraint(number).clone()),
        Outcome::Constraint(ConstraintReply::NoConstraint) => None,
        other => panic!("{other:?}"),
    };
    assert_eq!(said(&mut harness), Some(none));
    let jobs: Vec<JobId> = (0..3).map(|_| harness.put("q", "{}")).collect();
    harness.wait(1, "q");
    assert_eq!(harness.jobs(), []);
    let some = on("c", "q").running(1);
    assert_eq!(
        harness.set_constraint(&some),
        Some(Outcome::Constraint(ConstraintReply::Set { new: false }))
    );
    assert_eq!(harness.jobs().len(), 1, "the change acts at once");
    assert_eq!(harness.reserve(2, &["q"]), None);
    // Another matcher: the jobs are free.
    harness.set_constraint(&on("c", "other").running(0));
    assert_eq!(harness.reserve(2, &["q"]), Some(jobs[1]));
    // And back: two run already.
    harness.set_constraint(&some);
    assert_eq!(harness.reserve(2, &["q"]), None);
    harness.store.check_invariants();
    harness.delete(jobs[0]);
    assert_eq!(harness.reserve(2, &["q"]), None);
    assert_eq!(harness.remove_constraint("c"), Some(Outcome::Constraint(ConstraintReply::Removed)));
    assert_eq!(said(&mut harness), None);
    assert_eq!(harness.reserve(2, &["q"]), Some(jobs[2]));
    assert_eq!(harness.store.counts().constraints, 0);
    let all = &harness.store.constraints;
    assert_eq!((all.states.len(), all.limiters.len(), all.classes.len()), (0, 0, 0));
    harness.store.check_invariants();
}

#[test]
fn set_constraint_beyond_the_maximum_is_rejected() {
    let mut harness = Harness::new();
    for number in 0..crate::base::limits::CONSTRAINTS_MAX {
        let one = on(&number.to_string(), "q").running(1);
        harness.set_constraint(&one);
    }
    let refused = harness.set_constraint(&on("another", "q").running(1));
    assert_eq!(refused, Some(Outcome::Constraint(ConstraintReply::Full)));
    harness.settle();
    let job = harness.put("q", "{}");
    assert_eq!(harness.reserve(1, &["q"]), Some(job));
    harness.put("q", "{}");
    assert_eq!(harness.reserve(1, &["q"]), None);
    harness.store.check_invariants();
}

#[test]
fn ttl_removes_a_blocked_job() {
    let mut harness = Harness::new();
    harness.set_constraint(&on("c", "q").running(0));
    let options = JobOptions { ttl_ms: 50, ..JobOptions::default() };
    let ids = [0, 1].map(|_| harness.put_with("q", 0, "{}", Some(&options)));
    let lasting = harness.put("q", "{}");
    harness.advance_to(ms(60));
    assert!(ids.iter().all(|&id| harness.store.slot(id).is_none()));
    assert_eq!(status(&harness, lasting), Status::Blocked);
    let delayed = JobOptions { delay_ms: 10, ..JobOptions::default() };
    let later = harness.put_with("q", 1, "{}", Some(&delayed));
    harness.advance_to(ms(80));
    assert_eq!(status(&harness, later), Status::Blocked);
    harness.store.check_invariants();
}

#[test]
fn pop_takes_a_token_and_packets_take_none() {
    let mut harness = Harness::new();
    harness.set_constraint(&on("c", "q").running(1).rate(1, 1_000, 1));
    harness.put("q", "{}");
    harness.put("q", "{}");
    let queues = names(&["q"]);
    let pop = Command::Pop { queues: queues.from(0), wait: Wait::No };
    let popped = |harness: &mut Harness| match harness.apply(1, &pop)[0].1 {
        Outcome::Packets { count, .. } => count,
        Outcome::NoJob => 0,
        other => panic!("{other:?}"),
    };
    assert_eq!(popped(&mut harness), 1);
    assert_eq!(popped(&mut harness), 0, "the token is spent");
    let packet = Command::Put {
        queue: b"q",
        priority: Priority::Small(0),
        tie_break: TieBreak::Lifo,
        payload: Payload { encoding: Encoding::Packet { key_len: 1 }, bytes: b"kpayload" },
        options: None,
    };
    harness.apply(0, &packet);
    harness.apply(0, &packet);
    assert_eq!(popped(&mut harness), 2);
    harness.advance_to(ms(1_001));
    assert_eq!(popped(&mut harness), 1);
    harness.store.check_invariants();
}

#[test]
fn payloads_of_all_encodings_and_indexed_queues_are_matched() {
    let mut harness = Harness::new();
    let values = vec![Scalar::Integer(7)];
    let matcher = vec![Condition { path: argument("user.id"), op: Compare::Equal, values }];
    let mut constraint = on("c", "*").running(0);
    constraint.matcher = matcher;
    harness.set_constraint(&constraint);
    let packed = b"\x81\xa4user\x81\xa2id\x07";
    let put = |encoding, bytes| Command::Put {
        queue: b"q",
        priority: Priority::Small(0),
        tie_break: TieBreak::Fifo,
        payload: Payload { encoding, bytes },
        options: None,
    };
    harness.apply(0, &put(Encoding::MsgPack, packed));
    harness.apply(0, &put(Encoding::JsonLine, b"{\"user\":{\"id\":7}}"));
    assert_eq!(harness.reserve(1, &["q"]), None);
    let watch = crate::model::indexed_queue::IndexedCommand::List { queue: b"q" };
    harness.apply(0, &Command::Indexed(watch));
    let add = crate::model::indexed_queue::IndexedCommand::Put {
        queue: b"q",
        payload: b"{\"user\":{\"id\":7}}",
        state: b"null",
    };
    harness.apply(0, &Command::Indexed(add));
    harness.apply(0, &put(Encoding::Json, b"{\"user\":{\"id\":7}}"));
    assert_eq!(harness.reserve(1, &["q"]), None);
    harness.store.check_invariants();
    let other = harness.put("q", "{\"user\":{\"id\":8}}");
    assert_eq!(harness.reserve(1, &["q"]), Some(other));
    // The queue goes with what is held back in it.
    harness.delete(other);
    harness.apply(
        0,
        &Command::Indexed(crate::model::indexed_queue::IndexedCommand::DropQueue { queue: b"q" }),
    );
    assert_eq!(harness.store.counts().jobs, 0);
    harness.store.check_invariants();
}

/// A second store, restored from the records of the first.
fn recovered(harness: &Harness) -> Harness {
    let mut store = Store::new(8);
    let jobs = harness.store.jobs.iter().map(|(slot, _)| RecordKey::Job(slot));
    let mut keys: Vec<RecordKey> = jobs.collect();
    keys.reverse();
    // Constraints come between their jobs.
    let constraints = harness.store.constraints.records.iter();
    for (slot, _) in constraints {
        keys.insert(keys.len() / 2, RecordKey::Constraint(slot));
    }
    for key in keys {
        match harness.store.base_record(key) {
            Record::Job(job) => {
                store.restore(&job, harness.now);
            }
            Record::Constraint(id, constraint) => {
                // Twice, as when it was moved in the journal.
                store.restore_constraint(id, &on("x", "nothing").running(9), harness.now);
                store.restore_constraint(id, &constraint, harness.now);
            }
            other => panic!("{other:?}"),
        }
    }
    store.skip_ids(harness.store.next_id());
    store.finish_restore(harness.now);
    Harness { store, fx: Effects::default(), now: harness.now, serial: 0 }
}

#[test]
fn recovered_constraint_limits_and_starts_without_tokens() {
    let mut harness = Harness::new();
    harness.set_constraint(&on("few", "q").running(1));
    harness.set_constraint(&on("seldom", "r").rate(1, 100, 5));
    let jobs: Vec<JobId> = (0..3).map(|_| harness.put("q", "{}")).collect();
    harness.put("r", "{}");
    harness.put("r", "{}");
    assert_eq!(harness.reserve(1, &["q"]), Some(jobs[0]));
    let mut again = recovered(&harness);
    again.store.check_invariants();
    assert_eq!(again.store.counts().constraints, 2);
    assert_eq!(again.reserve(1, &["q"]), Some(jobs[0]), "it is not reserved any more");
    assert_eq!(again.reserve(1, &["q"]), None);
    assert_eq!(again.reserve(1, &["r"]), None, "who knows what was started just before");
    let end = crate::base::time::Now {
        mono: again.now.mono.after(std::time::Duration::from_millis(100)),
        ..again.now
    };
    again.advance_to(end);
    assert!(again.reserve(1, &["r"]).is_some());
    assert_eq!(again.reserve(1, &["r"]), None);
    // What was removed before the restart stays so.
    let id = again.store.constraints.record_ids().max().unwrap();
    assert!(again.store.undo_restore(id).is_some());
    again.settle();
    assert_eq!(again.reserve(1, &["q"]), Some(jobs[1]));
    again.store.check_invariants();
}

#[test]
fn waiter_gets_the_most_urgent_job_when_capacity_returns() {
    let mut harness = Harness::new();
    harness.set_constraint(&on("c", "*").running(1));
    let [a, b] = ["a", "b"].map(|queue| harness.put(queue, "{}"));
    assert_eq!(harness.wait(1, "a").len(), 1);
    assert_eq!(harness.wait(2, "b"), []);
    assert_eq!(harness.wait(3, "a"), []);
    let urgent = harness.put_with("a", 1, "{}", None);
    harness.store.check_invariants();
    harness.delete(a);
    let ticket = |index, serial| Ticket { client: ClientId { index, generation: 1 }, serial };
    let found = harness.jobs();
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].0.client, found[0].1), (ticket(3, 0).client, urgent));
    harness.delete(urgent);
    assert_eq!(harness.jobs().iter().map(|&(_, id)| id).collect::<Vec<_>>(), [b]);
    harness.store.check_invariants();
}

/// An unused limiter has a timer for its full bucket; a job blocked there then waits for the next
/// token only.
#[test]
fn partly_full_bucket_unblocks_at_the_next_token() {
    let mut harness = Harness::new();
    harness.set_constraint(&on("c", "q").rate(1, 100, 5));
    for _ in 0..5 {
        let id = harness.put("q", "{}");
        assert_eq!(harness.reserve(1, &["q"]), Some(id));
        harness.delete(id);
    }
    let id = harness.put("q", "{}");
    assert_eq!(harness.wait(1, "q"), []);
    harness.store.check_invariants();
    harness.advance_to(ms(101));
    assert_eq!(harness.jobs().first().map(|&(_, id)| id), Some(id));
    harness.store.check_invariants();
}

/// A job without a priority has no limiters, so those of its priority have to be found when it gets
/// one, whatever its state.
#[test]
fn job_that_gets_a_priority_while_it_is_held_is_limited() {
    let priority = Priority::Small(5);
    let delayed = JobOptions { delay_ms: 1_000, ..JobOptions::default() };
    for buries in [true, false] {
        let mut harness = Harness::new();
        harness.set_constraint(&on("c", "q").running(0));
        let put = Command::Put {
            queue: b"q",
            priority: Priority::Unselected,
            tie_break: TieBreak::Fifo,
            payload: Payload { encoding: Encoding::Json, bytes: b"{}" },
            // A job without a priority that is not delayed cannot be reserved.
            options: Some(&delayed),
        };
        let (_, Outcome::Put(id)) = harness.apply(0, &put)[0] else { panic!("it is put") };
        harness.apply(1, &Command::Consumer(ConsumerCommand::ReserveJob { id }));
        assert_eq!(harness.jobs().first().map(|&(_, id)| id), Some(id));
        if buries {
            harness.apply(1, &Command::Consumer(ConsumerCommand::Bury { id, priority }));
            harness.store.check_invariants();
            harness.apply(0, &Command::Consumer(ConsumerCommand::KickJob { id }));
        } else {
            let release = ConsumerCommand::Release { id, priority, delay_ms: 0 };
            harness.apply(1, &Command::Consumer(release));
        }
        harness.store.check_invariants();
        assert_eq!(harness.reserve(2, &["q"]), None, "the constraint permits no job");
        harness.remove_constraint("c");
        harness.settle();
        assert_eq!(harness.reserve(2, &["q"]), Some(id));
    }
}
