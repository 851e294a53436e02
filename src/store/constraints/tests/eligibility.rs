//! Eligibility of blocked jobs, and jobs returned unstarted.

use super::{Harness, client, ms, names, on};
use crate::base::limits::CONSTRAINT_SCAN_JOBS_PER_PASS;
use crate::base::time::Mono;
use crate::model::command::{Command, Wait};
use crate::model::id::JobId;
use crate::model::job::{Encoding, JobOptions, LeaseEpoch, Payload, Retry};
use crate::model::worker::{RunOutcome, Worker, WorkerCommand, WorkerId};
use crate::store::Outcome;

fn tracked() -> JobOptions {
    let retry = Retry { limit: 3, first_ms: 10, factor: 2, max_ms: 90, jitter_percent: 0 };
    JobOptions { retry: Some(retry), tracked: true, ..JobOptions::default() }
}

impl Harness {
    /// Registers a worker and attaches a client to it.
    fn worker(&mut self, index: u32) -> WorkerId {
        let url = format!("http://w{index}");
        let worker = Worker { name: "w", url: &url, max_jobs: 9, queues: None };
        let answered = self.apply(0, &Command::Work(WorkerCommand::Register(worker)));
        let Outcome::Registered(worker) = answered[0].1 else { panic!("{answered:?}") };
        let answered = self.apply(index, &Command::Work(WorkerCommand::Attach { worker }));
        assert_eq!(answered[0].1, Outcome::Owned(0));
        worker
    }

    /// The tracked job of any queue that a client gets at once.
    fn reserve_any(&mut self, index: u32) -> Option<JobId> {
        self.apply(index, &Command::Work(WorkerCommand::ReserveAny));
        self.jobs().first().map(|&(_, id)| id)
    }

    fn return_unstarted(&mut self, index: u32, id: JobId, exclude: bool) {
        let slot = self.store.ids.find(id.0).unwrap();
        let lease = self.store.jobs[slot].lease();
        let answered = self
            .apply(index, &Command::Work(WorkerCommand::ReturnUnstarted { id, lease, exclude }));
        assert_eq!(answered[0].1, Outcome::Done);
    }
}

#[test]
fn untracked_head_does_not_block_tracked_jobs() {
    let mut harness = Harness::new();
    harness.set_constraint(&on("c", "q").running(1));
    let other = harness.put_with("q", 9, "{}", None);
    let tracked = harness.put_with("q", 0, "{}", Some(&tracked()));
    assert_eq!(harness.reserve_any(1), Some(tracked));
    assert_eq!(harness.reserve(2, &["q"]), None, "one runs");
    assert_eq!(harness.reserve_any(1), None);
    harness.store.check_invariants();
    // Who waits for any is not served with it either.
    harness.delete(tracked);
    assert_eq!(harness.jobs(), []);
    assert_eq!(harness.reserve(2, &["q"]), Some(other));
    harness.store.check_invariants();
}

#[test]
fn reserve_any_waits_for_capacity() {
    let mut harness = Harness::new();
    harness.set_constraint(&on("c", "*").running(1));
    let [a, b] = ["a", "b"].map(|queue| harness.put_with(queue, 0, "{}", Some(&tracked())));
    let urgent = harness.put_with("c", 5, "{}", Some(&tracked()));
    assert_eq!(harness.reserve_any(1), Some(urgent));
    assert_eq!(harness.reserve_any(2), None);
    assert_eq!(harness.reserve_any(3), None);
    harness.store.check_invariants();
    harness.delete(urgent);
    assert_eq!(harness.jobs(), [(crate::model::id::Ticket { client: client(2), serial: 6 }, a)]);
    harness.delete(a);
    assert_eq!(harness.jobs().iter().map(|&(_, id)| id).collect::<Vec<_>>(), [b]);
    harness.store.check_invariants();
}

#[test]
fn excluded_job_does_not_block_the_next_job_for_its_worker() {
    let mut harness = Harness::new();
    harness.worker(1);
    harness.set_constraint(&on("c", "q").running(1));
    let jobs = [3, 2, 1].map(|number| harness.put_with("q", number, "{}", Some(&tracked())));
    for id in &jobs[..2] {
        assert_eq!(harness.reserve_any(1), Some(*id));
        harness.return_unstarted(1, *id, true);
        harness.store.check_invariants();
    }
    assert_eq!(harness.reserve_any(1), Some(jobs[2]), "the others are not offered again");
    assert_eq!(harness.reserve_any(2), None, "one runs");
    harness.store.check_invariants();
    harness.delete(jobs[2]);
    assert_eq!(harness.jobs()[0].1, jobs[0], "who is no worker may have what was refused");
    assert_eq!(harness.reserve_any(1), None);
    harness.delete(jobs[0]);
    assert_eq!(harness.jobs(), []);
    assert_eq!(harness.reserve(2, &["q"]), Some(jobs[1]));
    harness.store.check_invariants();
}

#[test]
fn rejected_job_is_ready_for_other_workers_after_backoff() {
    let mut harness = Harness::new();
    let worker = harness.worker(1);
    harness.set_constraint(&on("c", "q").running(1).per("h"));
    let id = harness.put_with("q", 0, "{\"h\":1}", Some(&tracked()));
    assert_eq!(harness.reserve_any(1), Some(id));
    let error = Payload { encoding: Encoding::Json, bytes: b"1" };
    let report = RunOutcome::Rejected { error, message: "no", lease: LeaseEpoch(1) };
    harness.apply(0, &Command::Work(WorkerCommand::Report { worker, id, report }));
    assert_eq!(harness.reserve_any(1), None);
    harness.advance_to(ms(1_000));
    assert_eq!(harness.jobs(), [], "it waits for another client");
    let behind = harness.put_with("q", 0, "{\"h\":1}", Some(&tracked()));
    assert_eq!(harness.jobs()[0].1, behind, "and lets others pass");
    assert_eq!(harness.reserve_any(2), None);
    harness.delete(behind);
    assert_eq!(harness.jobs()[0].1, id);
    harness.store.check_invariants();
}

#[test]
fn job_returned_unstarted_refunds_its_token() {
    let mut harness = Harness::new();
    harness.worker(1);
    harness.set_constraint(&on("c", "q").rate(1, 1_000, 1));
    let id = harness.put_with("q", 0, "{}", Some(&tracked()));
    for _ in 0..3 {
        assert_eq!(harness.reserve_any(1), Some(id));
        harness.return_unstarted(1, id, false);
    }
    assert_eq!(harness.reserve_any(1), Some(id));
    // A release is another matter: it may have been worked on.
    harness.release(1, id);
    assert_eq!(harness.reserve(2, &["q"]), None);
    harness.advance_to(ms(1_001));
    assert_eq!(harness.reserve(2, &["q"]), Some(id));
    harness.release(2, id);
    // What has started under other rules gives nothing back.
    harness.remove_constraint("c");
    assert_eq!(harness.reserve_any(1), Some(id));
    harness.set_constraint(&on("c", "q").rate(1, 1_000, 1));
    let other = harness.put("q", "{}");
    assert_eq!(harness.reserve(2, &["q"]), Some(other));
    harness.return_unstarted(1, id, false);
    assert_eq!(harness.reserve(2, &["q"]), None);
    harness.store.check_invariants();
}

/// A job reserved before the scan has reached it took no token of the new constraint.
#[test]
fn job_started_before_the_scan_refunds_no_token() {
    let mut harness = Harness::new();
    harness.worker(1);
    for _ in 0..3 * CONSTRAINT_SCAN_JOBS_PER_PASS {
        harness.put("other", "{}");
    }
    let id = harness.put_with("q", 0, "{}", Some(&tracked()));
    harness.set_constraint(&on("c", "q").rate(1, 1_000_000, 1));
    assert_eq!(harness.reserve_any(1), Some(id));
    harness.settle();
    let next = harness.put("q", "{}");
    assert_eq!(harness.reserve(2, &["q"]), Some(next));
    harness.return_unstarted(1, id, false);
    assert_eq!(harness.reserve(2, &["q"]), None);
    harness.store.check_invariants();
}

/// The rest is scanned in later passes, while the reserve waits.
#[test]
fn reserve_any_scans_a_bounded_number_of_jobs() {
    let mut harness = Harness::new();
    harness.set_constraint(&on("c", "q*").running(1));
    let queues = 3_000;
    for number in 0..queues {
        harness.put_with(&format!("q{number}"), 1, "{}", Some(&tracked()));
    }
    let free = harness.put_with("free", 0, "{}", Some(&tracked()));
    assert!(harness.reserve(9, &["q7"]).is_some());
    let (steps, found) = harness.steps(|harness| harness.reserve_any(1));
    assert!(steps <= 3_000, "{steps} steps at once");
    assert_eq!(found, None, "not yet");
    assert_eq!(harness.store.next_deadline(), Some(Mono(0)), "it goes on in the next pass");
    let mut got = Vec::new();
    while harness.store.next_deadline() == Some(Mono(0)) {
        let (steps, ()) = harness.steps(|harness| {
            harness.fx.clear();
            harness.store.expire(64, harness.now, &mut harness.fx);
        });
        assert!(steps <= 3_000, "{steps} steps at once");
        got.extend(harness.jobs().into_iter().map(|(_, id)| id));
    }
    assert_eq!(got, [free]);
    let (steps, found) = harness.steps(|harness| harness.reserve_any(1));
    assert_eq!((steps, found), (0, None));
    harness.store.check_invariants();
}

/// A waiting reserve of blocked queues costs nothing while nothing changes.
#[test]
fn waiter_of_blocked_queues_costs_no_steps() {
    let mut harness = Harness::new();
    harness.set_constraint(&on("c", "held").running(0));
    for _ in 0..1_000 {
        harness.put_with("held", 0, "{}", Some(&tracked()));
    }
    assert_eq!(harness.reserve_any(1), None);
    let list = names(&["held"]);
    harness.apply(2, &Command::Reserve { queues: list.from(0), wait: Wait::Forever });
    let (steps, ()) = harness.steps(|harness| {
        for _ in 0..100 {
            let id = harness.put_with("free", 0, "{}", Some(&tracked()));
            assert_eq!(harness.jobs()[0].1, id);
            harness.delete(id);
            assert_eq!(harness.reserve_any(1), None);
        }
    });
    assert_eq!(steps, 0);
    harness.store.check_invariants();
}
