//! Single cases, told one by one.

use super::{Shop, argument, ms, names, on};
use crate::model::command::{Command, Wait};
use crate::model::id::{ClientId, JobId, Ticket};
use crate::model::job::{Encoding, JobOptions, Payload, Priority, Status, TieBreak};
use crate::model::snapshot::{PersistedStatus, Record};
use crate::model::worker::{Compare, Condition, Scalar, WorkerCommand};
use crate::store::{Effects, Outcome, Store};

fn status(shop: &Shop, id: JobId) -> Status {
    shop.store.job_info(shop.store.slot(id).unwrap()).status
}

#[test]
fn no_more_run_than_may_and_what_is_behind_goes_on() {
    let mut shop = Shop::new();
    shop.constrain(&on("c", "slow").running(2));
    let slow: Vec<JobId> = (0..4).map(|_| shop.put("slow", "{}")).collect();
    let free = shop.put("free", "{}");
    assert_eq!(shop.take(1, &["slow", "free"]), Some(slow[0]));
    assert_eq!(shop.take(1, &["slow", "free"]), Some(slow[1]));
    assert_eq!(shop.take(1, &["slow", "free"]), Some(free), "the jobs behind go on");
    assert_eq!(shop.take(1, &["slow", "free"]), None);
    assert_eq!(status(&shop, slow[2]), Status::Blocked);
    assert_eq!(shop.store.state(shop.store.slot(slow[2]).unwrap()).stage, PersistedStatus::Waiting);
    shop.delete(slow[0]);
    assert_eq!(shop.take(1, &["slow"]), Some(slow[2]));
    shop.release(1, slow[1]);
    assert_eq!(shop.take(1, &["slow"]), Some(slow[1]), "it has kept its place");
    // However a job leaves its holder, its place is free.
    shop.fx.clear();
    shop.store.disconnect_client(super::client(1), shop.now, &mut shop.fx);
    shop.store.check_invariants();
    assert_eq!(shop.take(2, &["slow"]), Some(slow[1]));
    for event in [Command::Bury { id: slow[1], lease: None }, Command::Kick { id: slow[1] }] {
        shop.apply(2, &event);
        shop.store.check_invariants();
    }
    assert_eq!(shop.take(2, &["slow"]), Some(slow[1]));
    assert_eq!(shop.take(2, &["slow"]), Some(slow[2]));
    assert_eq!(shop.take(2, &["slow"]), None);
}

/// Room is taken by who starts, not by who might: nobody is interested in `idle`.
#[test]
fn a_job_that_nobody_takes_stands_in_nobodys_way() {
    let mut shop = Shop::new();
    shop.constrain(&on("c", "*").running(1));
    shop.put_with("idle", 9, "{}", None);
    let job = shop.put("busy", "{}");
    assert_eq!(shop.take(1, &["busy"]), Some(job));
    let next = shop.put("busy", "{}");
    assert_eq!(shop.wait(2, "busy"), []);
    shop.delete(job);
    assert_eq!(shop.jobs().iter().map(|&(_, id)| id).collect::<Vec<_>>(), [next]);
    assert_eq!(shop.take(3, &["idle"]), None, "now it runs");
    shop.store.check_invariants();
}

#[test]
fn a_more_urgent_job_goes_first_whenever_it_comes() {
    let mut shop = Shop::new();
    shop.constrain(&on("c", "q").running(1).per("h"));
    let first = shop.put("q", "{\"h\":1}");
    let late = shop.put_with("q", -1, "{\"h\":1}", None);
    let urgent = shop.put_with("q", 5, "{\"h\":1}", None);
    let other = shop.put_with("q", -5, "{\"h\":2}", None);
    assert_eq!(shop.take(1, &["q"]), Some(urgent));
    let more = shop.put_with("q", 7, "{\"h\":1}", None);
    assert_eq!(shop.take(1, &["q"]), Some(other), "another bucket");
    for expected in [more, first, late] {
        let held = if expected == more {
            urgent
        } else if expected == first {
            more
        } else {
            first
        };
        shop.delete(held);
        assert_eq!(shop.take(1, &["q"]), Some(expected));
        shop.store.check_invariants();
    }
}

#[test]
fn a_rate_is_kept_to_the_nanosecond() {
    let mut shop = Shop::new();
    // 3 in 1 s, two at once after a rest.
    shop.constrain(&on("c", "q").rate(3, 1_000, 2));
    for _ in 0..10 {
        shop.put("q", "{}");
    }
    let begin = shop.now.mono.0;
    for _ in 0..2 {
        let job = shop.take(1, &["q"]).unwrap();
        shop.delete(job);
    }
    assert_eq!(shop.take(1, &["q"]), None);
    for number in 1..=8_u64 {
        let at = begin + (number * 1_000_000_000).div_ceil(3);
        assert_eq!(shop.store.next_deadline().map(|at| at.0), Some(at));
        shop.now.mono.0 = at - 1;
        assert_eq!(shop.take(1, &["q"]), None);
        shop.now.mono.0 = at;
        shop.settle();
        let job = shop.take(1, &["q"]).unwrap();
        shop.delete(job);
        if number < 8 {
            assert_eq!(shop.take(1, &["q"]), None);
        }
        shop.store.check_invariants();
    }
    assert_eq!(shop.store.counts().jobs, 0);
}

/// A bucket that is empty is forgotten, but not what it has spent.
#[test]
fn buckets_come_and_go_with_their_values() {
    let mut shop = Shop::new();
    shop.constrain(&on("c", "q").running(1).rate(1, 1_000, 1).per("h"));
    for host in 0..1_000 {
        let job = shop.put("q", &format!("{{\"h\":{host}}}"));
        assert_eq!(shop.take(1, &["q"]), Some(job));
        shop.delete(job);
    }
    assert_eq!(shop.store.constraints.limiters.len(), 1_000);
    let again = shop.put("q", "{\"h\":1}");
    assert_eq!(shop.take(1, &["q"]), None, "its token is spent");
    shop.pass_until(ms(1_001));
    assert_eq!(shop.store.constraints.limiters.len(), 1);
    assert_eq!(shop.take(1, &["q"]), Some(again));
    shop.delete(again);
    shop.pass_until(ms(2_001));
    assert_eq!(shop.store.constraints.limiters.len(), 0);
    assert_eq!(shop.store.constraints.class_index.len(), 0);
    assert_eq!(shop.store.counts().deadlines, 0);
    shop.store.check_invariants();
}

#[test]
fn constraints_are_set_changed_shown_and_removed() {
    let mut shop = Shop::new();
    let none = on("c", "q").running(0);
    assert_eq!(shop.free("c"), Outcome::NoConstraint);
    assert_eq!(shop.constrain(&none), Outcome::Constrained { new: true });
    assert_eq!(shop.constrain(&none), Outcome::Constrained { new: false });
    let said = |shop: &mut Shop| match shop
        .apply(0, &Command::Work(WorkerCommand::GetConstraint { name: "c" }))[0]
        .1
    {
        Outcome::Constraint(number) => Some(shop.store.constraint(number).clone()),
        Outcome::NoConstraint => None,
        other => panic!("{other:?}"),
    };
    assert_eq!(said(&mut shop), Some(none));
    let jobs: Vec<JobId> = (0..3).map(|_| shop.put("q", "{}")).collect();
    shop.wait(1, "q");
    assert_eq!(shop.jobs(), []);
    let some = on("c", "q").running(1);
    assert_eq!(shop.constrain(&some), Outcome::Constrained { new: false });
    assert_eq!(shop.jobs().len(), 1, "the change acts at once");
    assert_eq!(shop.take(2, &["q"]), None);
    // Another matcher: the jobs are free.
    shop.constrain(&on("c", "other").running(0));
    assert_eq!(shop.take(2, &["q"]), Some(jobs[1]));
    // And back: two run already.
    shop.constrain(&some);
    assert_eq!(shop.take(2, &["q"]), None);
    shop.store.check_invariants();
    shop.delete(jobs[0]);
    assert_eq!(shop.take(2, &["q"]), None);
    assert_eq!(shop.free("c"), Outcome::Done);
    assert_eq!(said(&mut shop), None);
    assert_eq!(shop.take(2, &["q"]), Some(jobs[2]));
    assert_eq!(shop.store.counts().constraints, 0);
    let all = &shop.store.constraints;
    assert_eq!((all.rules.len(), all.limiters.len(), all.classes.len()), (0, 0, 0));
    shop.store.check_invariants();
}

#[test]
fn there_are_so_many_constraints_and_no_more() {
    let mut shop = Shop::new();
    for number in 0..crate::base::limits::CONSTRAINTS_MAX {
        let one = on(&number.to_string(), "q").running(1);
        assert_eq!(shop.constrain(&one), Outcome::Constrained { new: true });
    }
    let refused = shop.constrain(&on("another", "q").running(1));
    assert_eq!(refused, Outcome::Refused(crate::model::reply::Rejection::Full));
    shop.settle();
    let job = shop.put("q", "{}");
    assert_eq!(shop.take(1, &["q"]), Some(job));
    shop.put("q", "{}");
    assert_eq!(shop.take(1, &["q"]), None);
    shop.store.check_invariants();
}

#[test]
fn a_time_to_live_ends_for_a_job_that_is_held_back_too() {
    let mut shop = Shop::new();
    shop.constrain(&on("c", "q").running(0));
    let options = JobOptions { ttl_ms: 50, ..JobOptions::default() };
    let ids = [0, 1].map(|_| shop.put_with("q", 0, "{}", Some(&options)));
    let lasting = shop.put("q", "{}");
    shop.pass_until(ms(60));
    assert!(ids.iter().all(|&id| shop.store.slot(id).is_none()));
    assert_eq!(status(&shop, lasting), Status::Blocked);
    let delayed = JobOptions { delay_ms: 10, ..JobOptions::default() };
    let later = shop.put_with("q", 1, "{}", Some(&delayed));
    shop.pass_until(ms(80));
    assert_eq!(status(&shop, later), Status::Blocked);
    shop.store.check_invariants();
}

#[test]
fn a_pop_starts_and_ends_a_job_and_packets_are_free() {
    let mut shop = Shop::new();
    shop.constrain(&on("c", "q").running(1).rate(1, 1_000, 1));
    shop.put("q", "{}");
    shop.put("q", "{}");
    let queues = names(&["q"]);
    let pop = Command::Pop { queues: queues.from(0), wait: Wait::No };
    let popped = |shop: &mut Shop| match shop.apply(1, &pop)[0].1 {
        Outcome::Packets { count, .. } => count,
        Outcome::NoJob => 0,
        other => panic!("{other:?}"),
    };
    assert_eq!(popped(&mut shop), 1);
    assert_eq!(popped(&mut shop), 0, "the token is spent");
    let packet = Command::Put {
        queue: b"q",
        priority: Priority::Small(0),
        tie_break: TieBreak::Lifo,
        payload: Payload { encoding: Encoding::Packet { key_len: 1 }, bytes: b"kpayload" },
        options: None,
    };
    shop.apply(0, &packet);
    shop.apply(0, &packet);
    assert_eq!(popped(&mut shop), 2);
    shop.pass_until(ms(1_001));
    assert_eq!(popped(&mut shop), 1);
    shop.store.check_invariants();
}

#[test]
fn arguments_and_watched_queues_are_matched() {
    let mut shop = Shop::new();
    let values = vec![Scalar::Integer(7)];
    let matcher = vec![Condition { path: argument("user.id"), op: Compare::Equal, values }];
    let mut constraint = on("c", "*").running(0);
    constraint.matcher = matcher;
    shop.constrain(&constraint);
    let packed = b"\x81\xa4user\x81\xa2id\x07";
    let put = |encoding, bytes| Command::Put {
        queue: b"q",
        priority: Priority::Small(0),
        tie_break: TieBreak::Fifo,
        payload: Payload { encoding, bytes },
        options: None,
    };
    shop.apply(0, &put(Encoding::MsgPack, packed));
    shop.apply(0, &put(Encoding::JsonLine, b"{\"user\":{\"id\":7}}"));
    assert_eq!(shop.take(1, &["q"]), None);
    let watch = crate::model::indexed_queue::IndexedCommand::List { queue: b"q" };
    shop.apply(0, &Command::Indexed(watch));
    let add = crate::model::indexed_queue::IndexedCommand::Put {
        queue: b"q",
        payload: b"{\"user\":{\"id\":7}}",
        state: b"null",
    };
    shop.apply(0, &Command::Indexed(add));
    shop.apply(0, &put(Encoding::Json, b"{\"user\":{\"id\":7}}"));
    assert_eq!(shop.take(1, &["q"]), None);
    shop.store.check_invariants();
    let other = shop.put("q", "{\"user\":{\"id\":8}}");
    assert_eq!(shop.take(1, &["q"]), Some(other));
    // The queue goes with what is held back in it.
    shop.delete(other);
    shop.apply(
        0,
        &Command::Indexed(crate::model::indexed_queue::IndexedCommand::DropQueue { queue: b"q" }),
    );
    assert_eq!(shop.store.counts().jobs, 0);
    shop.store.check_invariants();
}

/// Everything goes through its records into another store.
fn restarted(shop: &Shop) -> Shop {
    let mut store = Store::new(8);
    let end = shop.store.jobs.end();
    // Later places first, so that constraints come between their jobs.
    for slot in (0..end).rev().filter_map(|place| shop.store.job_at(place)) {
        match shop.store.base_record(slot) {
            Record::Job(job) => {
                store.restore(&job, shop.now);
            }
            Record::Constraint(id, constraint) => {
                // Twice, as when it was moved in the journal.
                store.restore_constraint(id, &on("x", "nothing").running(9), shop.now);
                store.restore_constraint(id, &constraint, shop.now);
            }
            other => panic!("{other:?}"),
        }
    }
    store.skip_ids(shop.store.next_id());
    store.finish_restore(shop.now);
    Shop { store, fx: Effects::default(), now: shop.now, serial: 0 }
}

#[test]
fn constraints_hold_after_a_restart_and_begin_without_tokens() {
    let mut shop = Shop::new();
    shop.constrain(&on("few", "q").running(1));
    shop.constrain(&on("seldom", "r").rate(1, 100, 5));
    let jobs: Vec<JobId> = (0..3).map(|_| shop.put("q", "{}")).collect();
    shop.put("r", "{}");
    shop.put("r", "{}");
    assert_eq!(shop.take(1, &["q"]), Some(jobs[0]));
    let mut again = restarted(&shop);
    again.store.check_invariants();
    assert_eq!(again.store.counts().constraints, 2);
    assert_eq!(again.take(1, &["q"]), Some(jobs[0]), "nobody holds it any more");
    assert_eq!(again.take(1, &["q"]), None);
    assert_eq!(again.take(1, &["r"]), None, "who knows what was started just before");
    let end = crate::base::time::Now {
        mono: again.now.mono.after(std::time::Duration::from_millis(100)),
        ..again.now
    };
    again.pass_until(end);
    assert!(again.take(1, &["r"]).is_some());
    assert_eq!(again.take(1, &["r"]), None);
    // What was removed before the restart stays so.
    let id = *again.store.constraints.by_id.keys().next_back().unwrap();
    assert!(again.store.undo_restore(JobId(id)).is_some());
    again.settle();
    assert_eq!(again.take(1, &["q"]), Some(jobs[1]));
    again.store.check_invariants();
}

#[test]
fn who_waits_gets_the_job_when_there_is_room() {
    let mut shop = Shop::new();
    shop.constrain(&on("c", "*").running(1));
    let [a, b] = ["a", "b"].map(|queue| shop.put(queue, "{}"));
    assert_eq!(shop.wait(1, "a").len(), 1);
    assert_eq!(shop.wait(2, "b"), []);
    assert_eq!(shop.wait(3, "a"), []);
    let urgent = shop.put_with("a", 1, "{}", None);
    shop.store.check_invariants();
    shop.delete(a);
    let ticket = |index, serial| Ticket { client: ClientId { index, generation: 1 }, serial };
    let found = shop.jobs();
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].0.client, found[0].1), (ticket(3, 0).client, urgent));
    shop.delete(urgent);
    assert_eq!(shop.jobs().iter().map(|&(_, id)| id).collect::<Vec<_>>(), [b]);
    shop.store.check_invariants();
}

/// A bucket that nobody needs is remembered until it is full; whoever sleeps there then waits for
/// the next token and no longer.
#[test]
fn a_rest_of_tokens_does_not_make_anybody_wait_longer() {
    let mut shop = Shop::new();
    shop.constrain(&on("c", "q").rate(1, 100, 5));
    for _ in 0..5 {
        let id = shop.put("q", "{}");
        assert_eq!(shop.take(1, &["q"]), Some(id));
        shop.delete(id);
    }
    let id = shop.put("q", "{}");
    assert_eq!(shop.wait(1, "q"), []);
    shop.store.check_invariants();
    shop.pass_until(ms(101));
    assert_eq!(shop.jobs().first().map(|&(_, id)| id), Some(id));
    shop.store.check_invariants();
}
