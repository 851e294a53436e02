//! Order of several jobs that may start at once: of those that have a waiter, the most urgent.

use super::{Harness, argument, client, ms, names, on};
use crate::base::limits::CONSTRAINT_SCAN_JOBS_PER_PASS;
use crate::model::command::{Command, Wait};
use crate::model::id::JobId;
use crate::model::job::{Encoding, JobOptions, Payload, Priority, TieBreak};
use crate::model::worker::{
    Compare, Condition, Constraint, ConstraintReply, RunOutcome, Scalar, TrackedReply, Worker,
    WorkerCommand, WorkerId,
};
use crate::store::Outcome;

impl Harness {
    /// Reserves from several queues and waits forever.
    fn wait_in(&mut self, index: u32, queues: &[&str]) -> Vec<JobId> {
        let names = names(queues);
        self.apply(index, &Command::Reserve { queues: names.from(0), wait: Wait::Forever });
        self.ids()
    }

    /// The jobs reserved by the last call.
    fn ids(&self) -> Vec<JobId> {
        self.jobs().into_iter().map(|(_, id)| id).collect()
    }

    /// One running job, and two jobs blocked by the constraint `c` on all queues, for which one
    /// client waits: the less urgent is first in every order but that of priority.
    fn with_blocked_jobs(&mut self) -> (JobId, JobId) {
        self.set_constraint(&on("c", "*").running(1));
        let held = self.put("held", "{}");
        assert_eq!(self.reserve(9, &["held"]), Some(held));
        self.put_with("q0", 5, "{}", None);
        assert_eq!(self.wait_in(1, &["q0", "q1"]), []);
        let urgent = self.put_with("q1", 9, "{}", None);
        assert_eq!(self.ids(), []);
        (held, urgent)
    }

    fn disconnect(&mut self, index: u32) -> Vec<JobId> {
        self.fx.clear();
        self.store.disconnect_client(client(index), self.now, &mut self.fx);
        self.store.check_invariants();
        self.ids()
    }

    fn expire(&mut self) -> Vec<JobId> {
        self.fx.clear();
        self.store.expire(64, self.now, &mut self.fx);
        self.store.check_invariants();
        self.ids()
    }
}

#[test]
fn removed_constraint_reserves_the_most_urgent_job() {
    let mut harness = Harness::new();
    let (_, urgent) = harness.with_blocked_jobs();
    harness.remove_constraint("c");
    assert_eq!(harness.ids(), [urgent]);
    harness.store.check_invariants();
}

#[test]
fn changed_constraint_reserves_the_most_urgent_job() {
    let others = |queues: &str| on("c", queues).running(1);
    let changes: [Constraint; 4] = [
        others("nothing"),
        others("held"),
        on("c", "*").running(2),
        on("c", "*").running(1).per("h"),
    ];
    for (number, change) in changes.into_iter().enumerate() {
        let mut harness = Harness::new();
        let (_, urgent) = harness.with_blocked_jobs();
        // With a limit for each value the job that runs is of another one.
        let urgent = if number == 3 {
            harness.put_with("q0", 7, "{\"h\":1}", None);
            harness.put_with("q1", 11, "{\"h\":1}", None)
        } else {
            urgent
        };
        harness.set_constraint(&change);
        assert_eq!(harness.ids(), [urgent], "{change:?}");
        harness.store.check_invariants();
    }
}

/// More jobs than are evaluated in one pass, the most urgent one last.
#[test]
fn removed_constraint_of_many_jobs_reserves_the_most_urgent_job() {
    let mut harness = Harness::new();
    let (_, _) = harness.with_blocked_jobs();
    for _ in 0..3 * CONSTRAINT_SCAN_JOBS_PER_PASS {
        harness.put_with("q0", 6, "{}", None);
    }
    let urgent = harness.put_with("q1", 10, "{}", None);
    harness.remove_constraint("c");
    assert_eq!(harness.ids(), [urgent]);
    harness.settle();
    harness.store.check_invariants();
}

/// The old limit must not be exceeded while the new constraint is not evaluated for all jobs.
#[test]
fn replaced_constraint_lets_no_job_start_before_the_scan_has_ended() {
    let mut harness = Harness::new();
    harness.set_constraint(&on("c", "q*").running(1));
    let jobs: Vec<JobId> =
        (0..3 * CONSTRAINT_SCAN_JOBS_PER_PASS).map(|_| harness.put("q", "{}")).collect();
    let last = harness.put("other", "{}");
    let running = harness.put_with("q", 1, "{}", None);
    assert_eq!(harness.reserve(1, &["q"]), Some(running));
    harness.set_constraint(&on("c", "*").running(1));
    harness.delete(running);
    let (ticket, reserved) = harness.try_reserve(1, "q");
    assert_eq!(reserved, None, "how many run is not known yet");
    let answers = harness.run_scan();
    let found = answers.iter().find(|answer| answer.0 == ticket).unwrap().1;
    assert_eq!(harness.id_of(found), jobs[0]);
    assert_eq!(harness.reserve(1, &["q", "other"]), None);
    harness.delete(jobs[0]);
    assert_eq!(harness.reserve(1, &["other"]), Some(last));
    harness.store.check_invariants();
}

/// Two limiters gain capacity at once, in both orders.
#[test]
fn of_two_limiters_with_capacity_the_more_urgent_job_is_reserved() {
    for (near, far) in [(5, 9), (9, 5)] {
        let mut harness = Harness::new();
        harness.set_constraint(&on("all", "*").running(2));
        harness.set_constraint(&on("q0", "q0").running(1));
        let [other, held] = ["other", "q0"].map(|queue| harness.put(queue, "{}"));
        assert_eq!(harness.reserve(9, &["q0"]), Some(held));
        let near = (near, harness.put_with("q0", near, "{}", None));
        assert_eq!(harness.reserve(8, &["q0"]), None, "it waits for room in its queue");
        assert_eq!(harness.reserve(9, &["other"]), Some(other));
        let far = (far, harness.put_with("q1", far, "{}", None));
        assert_eq!(harness.wait_in(1, &["q0", "q1"]), [], "it waits for room among all");
        harness.delete(held);
        assert_eq!(harness.ids(), [near.max(far).1]);
        harness.store.check_invariants();
    }
}

/// The released job gives capacity to a more urgent one.
#[test]
fn disconnect_reserves_the_more_urgent_job_before_the_released_one() {
    let mut harness = Harness::new();
    harness.set_constraint(&on("c", "q*").running(1));
    let free = harness.put("free", "{}");
    let held = harness.put("q0", "{}");
    assert_eq!(harness.reserve(9, &["free"]), Some(free));
    assert_eq!(harness.reserve(9, &["q0"]), Some(held));
    let urgent = harness.put_with("q1", 5, "{}", None);
    assert_eq!(harness.wait_in(1, &["free", "q1"]), []);
    assert_eq!(harness.disconnect(9), [urgent]);
    assert_eq!(harness.wait_in(1, &["free"]), [free]);
}

#[test]
fn deregister_reserves_the_more_urgent_job_before_the_released_one() {
    let mut harness = Harness::new();
    let worker = Worker { name: "w", url: "http://w", max_jobs: 9, queues: None };
    let answered = harness.apply(9, &Command::Work(WorkerCommand::Register(worker)));
    let Outcome::Registered(worker) = answered[0].1 else { panic!("{answered:?}") };
    harness.apply(9, &Command::Work(WorkerCommand::Attach { worker }));
    harness.set_constraint(&on("c", "q*").running(1));
    let tracked = JobOptions { tracked: true, ..JobOptions::default() };
    let mut put = |queue, priority| harness.put_with(queue, priority, "{}", Some(&tracked));
    let [free, held, urgent] = [put("free", 1), put("q0", 1), put("q1", 0)];
    for expected in [free, held] {
        harness.apply(9, &Command::Work(WorkerCommand::ReserveAny));
        assert_eq!(harness.ids(), [expected]);
    }
    harness.apply(1, &Command::Work(WorkerCommand::ReserveAny));
    assert_eq!(harness.ids(), []);
    let more = harness.put_with("q1", 5, "{}", Some(&tracked));
    assert_eq!(harness.ids(), []);
    harness.apply(0, &Command::Work(WorkerCommand::Deregister { worker: WorkerId(worker.0) }));
    assert_eq!(harness.ids(), [more]);
    harness.delete(more);
    for expected in [free, held] {
        harness.apply(1, &Command::Work(WorkerCommand::ReserveAny));
        assert_eq!(harness.ids(), [expected]);
    }
    harness.delete(held);
    assert_eq!(harness.reserve(1, &["q1"]), Some(urgent));
    harness.store.check_invariants();
}

/// Two token buckets have a token at the same moment.
#[test]
fn tokens_due_at_one_moment_go_to_the_most_urgent_job() {
    for (first, second) in [(5, 9), (9, 5)] {
        let mut harness = Harness::new();
        for name in ["q0", "q1"] {
            harness.set_constraint(&on(name, name).rate(1, 100, 1));
            let spent = harness.put(name, "{}");
            assert_eq!(harness.reserve(9, &[name]), Some(spent));
        }
        let first = (first, harness.put_with("q0", first, "{}", None));
        let second = (second, harness.put_with("q1", second, "{}", None));
        assert_eq!(harness.wait_in(1, &["q0", "q1"]), []);
        // A pass that comes late: both are due, and looked at one after the other.
        harness.now = ms(101);
        let found = harness.expire();
        assert_eq!(found, [first.max(second).1]);
        assert_eq!(harness.reserve(2, &["q0", "q1"]), Some(first.min(second).1));
    }
}

/// The token is due and its timer has not fired yet.
#[test]
fn job_put_when_a_token_is_due_does_not_overtake_a_more_urgent_one() {
    let mut harness = Harness::new();
    harness.set_constraint(&on("c", "q*").rate(1, 100, 1));
    let spent = harness.put("q", "{}");
    assert_eq!(harness.reserve(9, &["q"]), Some(spent));
    let urgent = harness.put_with("q0", 9, "{}", None);
    assert_eq!(harness.wait_in(1, &["q0", "q1"]), []);
    harness.now = ms(101);
    let late = harness.put_with("q1", 5, "{}", None);
    assert_eq!(harness.ids(), [urgent]);
    assert_eq!(harness.expire(), []);
    harness.store.check_invariants();
    harness.advance_to(ms(201));
    assert_eq!(harness.reserve(1, &["q1"]), Some(late));
}

/// Two leases end at the same moment: the first release gives capacity, and a waiter is matched
/// before the second job comes back.
#[test]
fn deadlines_of_one_pass_fire_in_order() {
    let mut harness = Harness::new();
    harness.set_constraint(&on("c", "q*").running(1));
    let [short, long] = [10, 20].map(|lease_ms| JobOptions { lease_ms, ..JobOptions::default() });
    let held = harness.put_with("q0", 0, "{}", Some(&short));
    let free = harness.put_with("free", 9, "{}", Some(&long));
    assert_eq!(harness.reserve(9, &["q0"]), Some(held));
    assert_eq!(harness.reserve(9, &["free"]), Some(free));
    let waiting = harness.put_with("q1", 5, "{}", None);
    assert_eq!(harness.wait_in(1, &["free", "q1"]), []);
    harness.now = ms(50);
    assert_eq!(harness.expire(), [waiting]);
    assert_eq!(harness.wait_in(2, &["free"]), [free]);
}

/// The end of a ttl and the end of a watch fall together; they keep their order when the job is
/// evaluated again.
#[test]
fn changed_constraint_keeps_the_order_of_deadlines() {
    let mut harness = Harness::new();
    let options = JobOptions { ttl_ms: 2, ..JobOptions::default() };
    let id = harness.put_with("q", 0, "{}", Some(&options));
    harness.apply(1, &Command::Work(WorkerCommand::AwaitResult { id, wait_ms: 2 }));
    for most in [1, 0] {
        harness.set_constraint(&on("c", "q").running(most));
    }
    harness.remove_constraint("c");
    harness.now = ms(3);
    harness.expire();
    let answered: Vec<Outcome> = harness.fx.outcomes.iter().map(|&(_, outcome)| outcome).collect();
    assert_eq!(
        answered,
        [Outcome::Tracked(TrackedReply::Deleted)],
        "its time was over before that of the wait"
    );
}

/// Rejection, failure and success all give capacity to the most urgent job.
#[test]
fn worker_report_reserves_the_most_urgent_job() {
    let payload = Payload { encoding: Encoding::Json, bytes: b"1" };
    for number in 0..3 {
        let mut harness = Harness::new();
        let worker = Worker { name: "w", url: "http://w", max_jobs: 9, queues: None };
        let answered = harness.apply(9, &Command::Work(WorkerCommand::Register(worker)));
        let Outcome::Registered(worker) = answered[0].1 else { panic!("{answered:?}") };
        harness.apply(9, &Command::Work(WorkerCommand::Attach { worker }));
        let (held, urgent) = harness.with_blocked_jobs();
        let lease = harness.store.jobs[harness.store.ids.find(held.0).unwrap()].lease();
        let report = match number {
            0 => RunOutcome::Success { result: payload },
            1 => RunOutcome::Failure { retry: true, error: payload, message: "no" },
            _ => RunOutcome::Rejected { lease, error: payload, message: "no" },
        };
        harness.apply(9, &Command::Work(WorkerCommand::Report { worker, id: held, report }));
        assert_eq!(harness.ids(), [urgent]);
        harness.store.check_invariants();
    }
}

/// A limiter is paused for a job that may have a waiter; when that waiter got another job, the next
/// waitlist is unblocked for another waiter.
#[test]
fn unblocked_job_without_waiter_does_not_keep_others_blocked() {
    let about = |name: &str| {
        let values = vec![Scalar::Integer(1)];
        let matcher = vec![Condition { path: argument(name), op: Compare::Equal, values }];
        Constraint { matcher, ..on(name, "*").running(1) }
    };
    let mut harness = Harness::new();
    harness.set_constraint(&about("c"));
    harness.set_constraint(&about("d"));
    let held = harness.put("held", "{\"c\":1,\"d\":1}");
    assert_eq!(harness.reserve(9, &["held"]), Some(held));
    harness.put_with("q0", 5, "{\"c\":1}", None);
    let other = harness.put_with("q1", 1, "{\"c\":1}", None);
    let best = harness.put_with("r", 9, "{\"d\":1}", None);
    assert_eq!(harness.wait_in(1, &["q0", "r"]), []);
    assert_eq!(harness.wait_in(2, &["q1"]), []);
    harness.delete(held);
    assert_eq!(harness.ids(), [best, other]);
    harness.store.check_invariants();
}

impl Harness {
    fn put_large(&mut self, queue: &str, priority: i64) -> JobId {
        self.put_with(queue, priority, &format!("\"{}\"", "x".repeat(70_000)), None)
    }

    /// A packet, which no constraint blocks.
    fn put_packet(&mut self, queue: &str) {
        self.apply(
            0,
            &Command::Put {
                queue: queue.as_bytes(),
                priority: Priority::Small(0),
                tie_break: TieBreak::Fifo,
                payload: Payload { encoding: Encoding::Packet { key_len: 1 }, bytes: b"kpacket" },
                options: None,
            },
        );
    }

    /// Number of pops answered by the last call.
    fn popped(&self) -> usize {
        let packets = |&&(_, outcome): &&(_, Outcome)| matches!(outcome, Outcome::Packets { .. });
        self.fx.outcomes.iter().filter(packets).count()
    }

    fn wait_for_pop(&mut self, index: u32, queue: &str) {
        let names = names(&[queue]);
        self.apply(index, &Command::Pop { queues: names.from(0), wait: Wait::Forever });
    }
}

/// A pop waits behind a job that is too large for it only while that job may run.
#[test]
fn pop_does_not_wait_behind_a_large_blocked_job() {
    for number in 0..6 {
        let mut harness = Harness::new();
        if number > 0 {
            harness.set_constraint(&on("c", "*").running(1).rate(1, 100, 1));
        }
        let other = harness.put("other", "{}");
        if number % 2 == 1 {
            harness.wait_for_pop(1, "q");
        }
        harness.put_large("q", 5);
        if number != 5 {
            harness.put_packet("q");
        }
        if number % 2 == 0 {
            harness.wait_for_pop(1, "q");
        }
        assert_eq!(harness.popped(), 0, "{number}: it is not held back yet");
        match number {
            0 => assert_eq!(
                harness.set_constraint(&on("c", "q").running(0)),
                Some(Outcome::Constraint(ConstraintReply::Set { new: true }))
            ),
            1 => assert_eq!(harness.reserve(2, &["other"]), Some(other)),
            2 => {
                harness.wait_for_pop(2, "other");
                assert_eq!(harness.popped(), 2, "its token is spent");
                continue;
            }
            3 => assert_eq!(
                harness.set_constraint(&on("c", "*").running(0).rate(1, 100, 1)),
                Some(Outcome::Constraint(ConstraintReply::Set { new: false }))
            ),
            4 => assert_eq!(
                harness.set_constraint(&on("c", "q").running(0)),
                Some(Outcome::Constraint(ConstraintReply::Set { new: false }))
            ),
            _ => {
                harness.reserve(2, &["other"]);
                harness.put_packet("q");
            }
        }
        assert_eq!(harness.popped(), 1, "{number}");
        harness.settle();
        harness.store.check_invariants();
    }
}
