//! Bounds of one command and of one pass, in steps.

use super::{Harness, argument, client, ms, names, on};
use crate::base::limits::{
    CONSTRAINT_SCAN_JOBS_PER_PASS, CONSTRAINT_STEPS_PER_COMMAND, CONSTRAINT_STEPS_PER_PASS,
    CONSTRAINTS_MAX, SCAN_CHECK_INTERVAL_MS,
};
use crate::base::time::Mono;
use crate::model::command::{Command, Wait};
use crate::model::id::{JobId, Ticket};
use crate::model::job::JobOptions;
use crate::model::worker::{Compare, Condition, Constraint, ConstraintReply, Scalar};
use crate::store::Outcome;

/// Most steps of one command: its own, those of the pass, and those of the operation begun last.
const STEPS_AT_ONCE: u64 = CONSTRAINT_STEPS_PER_PASS + 4 * CONSTRAINT_STEPS_PER_COMMAND;

impl Harness {
    /// A reserve without wait, and its outcome if it comes at once.
    pub(super) fn try_reserve(&mut self, index: u32, queue: &str) -> (Ticket, Option<Outcome>) {
        let list = names(&[queue]);
        let answered =
            self.apply(index, &Command::Reserve { queues: list.from(0), wait: Wait::No });
        let ticket = Ticket { client: client(index), serial: self.serial };
        let own = answered.into_iter().find(|&(answered, _)| answered == ticket);
        (ticket, own.map(|(_, outcome)| outcome))
    }

    /// One pass; returns its outcomes and asserts its bound.
    fn run_pass(&mut self) -> Vec<(Ticket, Outcome)> {
        let (steps, ()) = self.steps(|harness| {
            harness.fx.clear();
            harness.store.expire(64, harness.now, &mut harness.fx);
        });
        assert!(steps <= STEPS_AT_ONCE, "{steps} steps in a pass");
        self.fx.outcomes.clone()
    }

    /// Passes until something is answered or no work is left.
    pub(super) fn run_passes(&mut self) -> (usize, Vec<(Ticket, Outcome)>) {
        let mut passes = 0;
        while self.store.next_deadline() == Some(Mono(0)) {
            passes += 1;
            assert!(passes < 1_000, "it never ends");
            let answered = self.run_pass();
            if !answered.is_empty() {
                return (passes, answered);
            }
        }
        (passes, Vec::new())
    }

    /// Passes until nothing is pending; returns their outcomes.
    pub(super) fn run_scan(&mut self) -> Vec<(Ticket, Outcome)> {
        let mut outcomes = Vec::new();
        while self.store.next_deadline() == Some(Mono(0)) {
            self.fx.clear();
            self.store.expire(64, self.now, &mut self.fx);
            outcomes.extend_from_slice(&self.fx.outcomes);
        }
        outcomes
    }

    pub(super) fn id_of(&self, outcome: Outcome) -> JobId {
        let Outcome::Job(slot) = outcome else { panic!("{outcome:?}") };
        self.store.view(slot).id
    }
}

/// A constraint on all jobs whose `u` is at most 1.
fn on_small(name: &str) -> Constraint {
    let values = vec![Scalar::Integer(1)];
    let matcher = vec![Condition { path: argument("u"), op: Compare::LessOrEqual, values }];
    Constraint { matcher, ..on(name, "*") }
}

/// Puts jobs of one user, each with a host value of its own and so each in the ready heap; then
/// lowers the limit to 0.
fn put_ready_then_block(harness: &mut Harness, jobs: u64) {
    harness.set_constraint(&on_small("host").running(2).per("h"));
    for number in 0..jobs {
        harness.put("q", &format!("{{\"h\":{number},\"u\":1}}"));
    }
    harness.set_constraint(&on_small("host").running(0).per("h"));
    harness.settle();
}

#[test]
fn shared_limit_blocks_classes_with_own_limiters_together() {
    let mut harness = Harness::new();
    harness.set_constraint(&on("host", "q").running(1).per("h"));
    harness.set_constraint(&on("user", "q").running(1).per("u"));
    for number in 0..20_000 {
        harness.put("q", &format!("{{\"h\":{number},\"u\":1}}"));
    }
    let first = harness.reserve(1, &["q"]).unwrap();
    let (steps, second) = harness.steps(|harness| harness.reserve(1, &["q"]));
    assert_eq!(second, None);
    assert!(steps <= 8, "{steps} steps in one reserve");
    let (steps, _) = harness.steps(|harness| harness.delete(first));
    assert!(steps <= 16, "{steps} steps in one delete");
    assert!(harness.reserve(1, &["q"]).is_some());
    harness.store.check_invariants();
}

#[test]
fn reserve_removes_a_bounded_number_of_expired_jobs_and_misses_no_job() {
    let mut harness = Harness::new();
    let options = JobOptions { ttl_ms: 10, ..JobOptions::default() };
    for _ in 0..5_000 {
        harness.put_with("q", 1, "{}", Some(&options));
    }
    let live = harness.put_with("q", 0, "{}", None);
    // No deadline has fired yet.
    harness.now = ms(100);
    let (steps, (ticket, answered)) = harness.steps(|harness| harness.try_reserve(1, "q"));
    assert!(steps <= STEPS_AT_ONCE, "{steps} steps in one reserve");
    assert_eq!(answered, None, "the live job is not found yet");
    let left = u64::try_from(harness.store.counts().jobs).unwrap();
    assert!((5_001 - STEPS_AT_ONCE..5_001).contains(&left), "{left} jobs are left");
    harness.store.check_invariants();
    let (passes, answers) = harness.run_passes();
    assert!(passes > 2, "{passes} passes");
    let [(answered, found)] = answers[..] else { panic!("{answers:?}") };
    assert_eq!((answered, harness.id_of(found)), (ticket, live));
    harness.store.check_invariants();
}

#[test]
fn reserve_without_wait_scans_a_bounded_number_and_misses_no_job() {
    let mut harness = Harness::new();
    put_ready_then_block(&mut harness, 5_000);
    let free = harness.put_with("q", -1, "{\"u\":9}", None);
    let (steps, (ticket, answered)) = harness.steps(|harness| harness.try_reserve(1, "q"));
    assert!(steps <= STEPS_AT_ONCE, "{steps} steps in one reserve");
    assert_eq!(answered, None, "it is not known yet");
    harness.store.check_invariants();
    // Others who ask in the same pass have their own few steps.
    let (steps, (other, answered)) = harness.steps(|harness| harness.try_reserve(2, "q"));
    assert!(steps <= 4 * CONSTRAINT_STEPS_PER_COMMAND, "{steps} steps in another reserve");
    assert_eq!(answered, None);
    let (passes, answers) = harness.run_passes();
    assert!(passes > 3, "{passes} passes");
    let [(first, found), (second, Outcome::NoJob)] = answers[..] else { panic!("{answers:?}") };
    assert_eq!((first, harness.id_of(found), second), (ticket, free, other));
    harness.store.check_invariants();
    assert_eq!(harness.try_reserve(1, "q").1, Some(Outcome::NoJob), "now it is known at once");
    let (steps, _) = harness.steps(|harness| harness.try_reserve(1, "q"));
    assert_eq!(steps, 0);
    assert_eq!(harness.store.counts().deadlines, 0);
    harness.store.check_invariants();
}

#[test]
fn pop_and_waiting_reserve_scan_a_bounded_number() {
    let mut harness = Harness::new();
    put_ready_then_block(&mut harness, 5_000);
    let [first, second] = [2, 1].map(|number| harness.put_with("q", number - 9, "{\"u\":9}", None));
    let (steps, found) = harness.steps(|harness| harness.wait(1, "q"));
    assert!(steps <= STEPS_AT_ONCE, "{steps} steps in one reserve");
    assert_eq!(found, []);
    let list = names(&["q"]);
    let pop = Command::Pop { queues: list.from(0), wait: Wait::No };
    let (steps, answered) = harness.steps(|harness| harness.apply(2, &pop));
    assert!(steps <= 4 * CONSTRAINT_STEPS_PER_COMMAND, "{steps} steps in one pop");
    assert_eq!(answered, []);
    let (_, answers) = harness.run_passes();
    let [(_, found), (_, Outcome::Packets { count: 1, .. })] = answers[..] else {
        panic!("{answers:?}");
    };
    assert_eq!(harness.id_of(found), first);
    assert!(harness.store.slot(second).is_none(), "it was popped");
    harness.store.check_invariants();
}

/// A reserve without wait is not answered only because time is over, but when the scan of its queue
/// has ended.
#[test]
fn deferred_reply_is_sent_when_the_scan_has_ended() {
    let mut harness = Harness::new();
    put_ready_then_block(&mut harness, 5_000);
    let (ticket, answered) = harness.try_reserve(1, "q");
    assert_eq!(answered, None);
    harness.now.mono = Mono(harness.now.mono.0 + SCAN_CHECK_INTERVAL_MS * 1_000_000);
    assert_eq!(harness.run_pass(), []);
    harness.store.check_invariants();
    assert_eq!(harness.run_passes().1, [(ticket, Outcome::NoJob)]);
    put_ready_then_block(&mut harness, 5_000);
    // Or called off, or its client gone.
    let (ticket, answered) = harness.try_reserve(2, "q");
    assert_eq!(answered, None);
    harness.fx.clear();
    harness.store.cancel(ticket, &mut harness.fx);
    assert_eq!(harness.fx.outcomes, [(ticket, Outcome::Cancelled)]);
    assert_eq!(harness.try_reserve(3, "q").1, None);
    harness.fx.clear();
    harness.store.disconnect_client(client(3), harness.now, &mut harness.fx);
    assert_eq!(harness.run_passes().1, []);
    harness.store.check_invariants();
    assert_eq!(harness.store.counts().deadlines, 0);
}

/// Steps of unblocking are bounded for all commands of a pass together.
#[test]
fn commands_of_one_pass_share_its_budget() {
    let mut harness = Harness::new();
    harness.set_constraint(&on("c", "q*").running(0));
    for number in 0..5_000 {
        harness.put(&format!("q{number}"), "{}");
    }
    harness.set_constraint(&on("c", "q*").running(u32::MAX));
    harness.settle();
    harness.set_constraint(&on("c", "q*").running(0));
    harness.settle();
    for number in 0..5_000 {
        assert_eq!(harness.reserve(1, &[&format!("q{number}")]), None);
    }
    harness.run_pass();
    let commands = 30;
    let (steps, ()) = harness.steps(|harness| {
        harness.set_constraint(&on("c", "q*").running(u32::MAX));
        for _ in 1..commands {
            let job = harness.put("other", "{}");
            assert_eq!(harness.reserve(1, &["other"]), Some(job));
            harness.delete(job);
        }
    });
    let bound = CONSTRAINT_STEPS_PER_PASS + 3 * commands * (CONSTRAINT_STEPS_PER_COMMAND + 4);
    assert!(steps <= bound, "{steps} steps of {commands} commands");
    harness.settle();
    for number in 0..5_000 {
        assert!(harness.reserve(1, &[&format!("q{number}")]).is_some());
    }
    harness.store.check_invariants();
}

/// Capacity that the blocked waitlists have not been given yet is not overlooked.
#[test]
fn reserve_without_wait_gets_a_job_that_is_about_to_be_unblocked() {
    let mut harness = Harness::new();
    harness.set_constraint(&on("all", "q*").running(0));
    for number in 0..3_000 {
        harness.put(&format!("q{number}"), "{}");
    }
    let last = harness.put_with("q", -9, "{}", None);
    harness.set_constraint(&on("all", "q*").running(u32::MAX));
    let (ticket, answered) = harness.try_reserve(1, "q");
    assert_eq!(answered, None, "it sleeps still");
    let (_, mut answers) = harness.run_passes();
    answers.retain(|&(_, outcome)| {
        !matches!(outcome, Outcome::Constraint(ConstraintReply::Set { .. }))
    });
    let [(first, found)] = answers[..] else { panic!("{answers:?}") };
    assert_eq!((first, harness.id_of(found)), (ticket, last));
    harness.settle();
    harness.store.check_invariants();
}

/// More jobs than one pass evaluates: until all are, some of them go by the constraints from
/// before.
#[test]
fn changed_constraint_is_answered_when_it_is_in_force_for_all_jobs() {
    let mut harness = Harness::new();
    let jobs: Vec<JobId> =
        (0..3 * CONSTRAINT_SCAN_JOBS_PER_PASS).map(|_| harness.put("q", "{}")).collect();
    for (constraint, new) in [(on("c", "q").running(1), true), (on("c", "q*").running(1), false)] {
        assert_eq!(harness.set_constraint(&constraint), None);
        let answers = harness.run_scan();
        let [(_, answer)] = answers[..] else { panic!("{answers:?}") };
        assert_eq!(answer, Outcome::Constraint(ConstraintReply::Set { new }));
    }
    assert_eq!(harness.reserve(1, &["q"]), Some(jobs[0]));
    assert_eq!(harness.reserve(1, &["q"]), None);
    assert_eq!(harness.set_constraint(&on("c", "no")), None);
    harness.store.disconnect_client(client(0), harness.now, &mut harness.fx);
    let answers = harness.run_scan();
    assert_eq!(answers, [], "its client has ended");
    harness.store.check_invariants();
}

/// Each change extends the scan: the answers to earlier ones do not wait for that.
#[test]
fn constraint_changes_in_each_pass_do_not_delay_the_answer_to_the_first() {
    const PASSES: usize = 5;
    let mut harness = Harness::new();
    for _ in 0..PASSES * CONSTRAINT_SCAN_JOBS_PER_PASS {
        harness.put("q", "{}");
    }
    assert_eq!(harness.set_constraint(&on("0", "q").running(1)), None);
    let answered = (1..3 * PASSES).find(|number| {
        harness.set_constraint(&on(&number.to_string(), "q").running(1));
        harness.fx.clear();
        harness.store.expire(64, harness.now, &mut harness.fx);
        !harness.fx.outcomes.is_empty()
    });
    assert!(answered.is_some_and(|passes| passes <= PASSES + 1), "{answered:?}");
    let answers = harness.fx.outcomes.len() + harness.run_scan().len();
    assert_eq!(Some(answers - 1), answered, "one answer for each change");
    harness.store.check_invariants();
}

/// Constraints that are set one after the other evaluate a bounded number of jobs in a pass.
#[test]
fn constraint_changes_of_one_pass_share_its_scan_budget() {
    let mut harness = Harness::new();
    for _ in 0..20 * CONSTRAINT_SCAN_JOBS_PER_PASS {
        harness.put("q", "{}");
    }
    let before = harness.store.constraints.scan_pos;
    for number in 0..50 {
        harness.set_constraint(&on(&number.to_string(), "q").running(1));
    }
    let after = harness.store.constraints.scan_pos;
    assert_eq!(
        (after.0, after.1 - before.1),
        (0, u32::try_from(CONSTRAINT_SCAN_JOBS_PER_PASS).unwrap())
    );
    harness.settle();
    assert!(harness.reserve(1, &["q"]).is_some());
    assert_eq!(harness.reserve(1, &["q"]), None);
    harness.store.check_invariants();
}

/// Only limiters with blocked waitlists are rechecked.
#[test]
fn changed_limits_reevaluate_no_job() {
    let mut harness = Harness::new();
    let (hosts, jobs) = (2_000, 5);
    harness.set_constraint(&on("c", "q*").running(0).per("h"));
    for number in 0..hosts * jobs {
        harness.put(&format!("q{}", number % 2), &format!("{{\"h\":{}}}", number % hosts));
    }
    let sweep = harness.store.constraints.scan_until;
    let (steps, _) =
        harness.steps(|harness| harness.set_constraint(&on("c", "q*").running(1).per("h")));
    assert!(steps <= STEPS_AT_ONCE, "{steps} steps at once");
    let (steps, ()) = harness.steps(Harness::settle);
    assert!(steps <= 6 * hosts, "{steps} steps for {hosts} limiters");
    assert_eq!(harness.store.constraints.scan_until, sweep, "no job is matched anew");
    for _ in 0..hosts {
        assert!(harness.reserve(1, &["q0", "q1"]).is_some());
        harness.run_pass();
    }
    harness.store.check_invariants();
    for queue in ["q0", "q1"] {
        let (ticket, answered) = harness.try_reserve(1, queue);
        let answered =
            answered.map_or_else(|| harness.run_passes().1, |answered| vec![(ticket, answered)]);
        assert_eq!(answered, [(ticket, Outcome::NoJob)]);
    }
    // While it goes on, it is changed again, and removed.
    harness.set_constraint(&on("c", "q*").running(2).per("h"));
    harness.set_constraint(&on("c", "q*").running(3).per("h"));
    harness.store.check_invariants();
    harness.remove_constraint("c");
    harness.settle();
    harness.store.check_invariants();
    for _ in hosts..hosts * jobs {
        assert!(harness.reserve(1, &["q0", "q1"]).is_some());
        harness.run_pass();
    }
    let all = &harness.store.constraints;
    assert_eq!((all.states.len(), all.limiters.len(), all.changed_limits.len()), (0, 0, 0));
}

/// Read once for each condition, this payload would amount to 8 * 10^9 bytes.
#[test]
fn payload_is_read_once_for_all_conditions() {
    let mut harness = Harness::new();
    let condition = |number: usize| {
        let path = argument(&format!("x{}.{}", number % 7, number));
        Condition { path, op: Compare::Equal, values: vec![Scalar::Nil] }
    };
    for number in 0..CONSTRAINTS_MAX {
        let matcher = (0..32).map(|own| condition(32 * number + own)).collect();
        let constraint = Constraint { matcher, ..on(&number.to_string(), "*") };
        let constraint = constraint.running(1).per(&format!("x1.{number}"));
        harness.set_constraint(&constraint);
    }
    harness.settle();
    let many = "{\"y\":[1,2,3]},".repeat(1 << 16);
    let ids = [0, 1].map(|_| harness.put("q", &format!("{{\"x\":[{many}1],\"x1\":{{\"1\":2}}}}")));
    let bound = harness.store.constraints.classes.iter().map(|(_, class)| class.limiters.len());
    // The one whose condition asks for `x1.1` is not about them.
    assert_eq!(bound.collect::<Vec<_>>(), [CONSTRAINTS_MAX - 1]);
    assert_eq!(harness.reserve(1, &["q"]), Some(ids[0]));
    assert_eq!(harness.reserve(1, &["q"]), None);
    harness.store.check_invariants();
}
