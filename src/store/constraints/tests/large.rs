//! Cost with many jobs, in steps: jobs, classes and waitlists moved or checked.

use super::{Harness, on};
use crate::base::limits::{CONSTRAINT_SCAN_JOBS_PER_PASS, CONSTRAINT_STEPS_PER_PASS};
use crate::base::time::Mono;
use crate::model::id::JobId;

const MANY: u64 = 100_000;

/// Blocks [`MANY`] jobs by one constraint.
fn block_many(harness: &mut Harness) {
    harness.set_constraint(&on("c", "held").running(1));
    for _ in 0..=MANY {
        harness.put("held", "{\"h\":1}");
    }
    assert!(harness.reserve(9, &["held"]).is_some());
    assert_eq!(harness.reserve(9, &["held"]), None);
}

#[test]
fn blocked_jobs_cost_other_queues_no_steps() {
    let mut harness = Harness::new();
    block_many(&mut harness);
    let (steps, ()) = harness.steps(|harness| {
        for _ in 0..1_000 {
            let job = harness.put("free", "{\"h\":1}");
            assert_eq!(harness.reserve(1, &["free"]), Some(job));
            harness.release(1, job);
            assert_eq!(harness.reserve(1, &["held", "free"]), Some(job));
            harness.delete(job);
            assert_eq!(harness.reserve(1, &["held", "free"]), None);
        }
    });
    assert_eq!(steps, 0);
    assert_eq!(harness.store.next_deadline(), None, "nothing is left to be done");
}

#[test]
fn start_and_delete_cost_the_same_with_many_blocked_jobs() {
    let mut harness = Harness::new();
    block_many(&mut harness);
    let mut held = JobId(1);
    for _ in 0..100 {
        let (steps, next) = harness.steps(|harness| {
            harness.delete(held);
            let next = harness.reserve(9, &["held"]);
            assert_eq!(harness.reserve(9, &["held"]), None);
            next
        });
        held = next.unwrap();
        assert!(steps <= 12, "{steps} steps for one job");
    }
    let (steps, _) = harness.steps(|harness| harness.delete(JobId(MANY / 2)));
    assert!(steps <= 2, "{steps} steps for a delete");
    harness.store.check_invariants();
}

/// Jobs with one limiter for all and one for each host.
#[test]
fn jobs_of_two_limiters_do_not_move_between_their_waitlists() {
    let mut harness = Harness::new();
    harness.set_constraint(&on("all", "q").running(10));
    harness.set_constraint(&on("host", "q").running(1).per("h"));
    let hosts = 2_000;
    for number in 0..hosts * 3 {
        harness.put("q", &format!("{{\"h\":{}}}", number % hosts));
    }
    let mut held: std::collections::VecDeque<JobId> =
        (0..10).map(|_| harness.reserve(1, &["q"]).unwrap()).collect();
    assert_eq!(harness.reserve(1, &["q"]), None);
    harness.store.check_invariants();
    let (mut most, mut run) = (0, 10);
    while let Some(job) = held.pop_front() {
        let (steps, ()) = harness.steps(|harness| {
            harness.delete(job);
            if let Some(job) = harness.reserve(1, &["q"]) {
                held.push_back(job);
                run += 1;
            }
            harness.reserve(1, &["q"]);
        });
        most = most.max(steps);
    }
    assert_eq!(run, hosts * 3);
    assert!(most <= 60, "{most} steps for one job");
    harness.store.check_invariants();
}

#[test]
fn changed_constraint_reevaluates_a_bounded_number_of_jobs_a_pass() {
    let mut harness = Harness::new();
    let jobs = 5_000;
    for _ in 0..jobs {
        harness.put("q", "{}");
    }
    let bound = CONSTRAINT_SCAN_JOBS_PER_PASS as u64 * 4 + CONSTRAINT_STEPS_PER_PASS + 8;
    let (steps, _) = harness.steps(|harness| harness.set_constraint(&on("c", "q").running(2)));
    assert!(steps <= bound, "{steps} steps at once");
    assert_eq!(harness.store.next_deadline(), Some(Mono(0)), "it goes on in the next pass");
    // A job that comes meanwhile obeys already.
    harness.put("new", "{}");
    harness.set_constraint(&on("d", "new").running(0));
    let mut passes = 0;
    while harness.store.next_deadline().is_some() {
        let (steps, ()) = harness.steps(|harness| {
            harness.fx.clear();
            harness.store.expire(64, harness.now, &mut harness.fx);
        });
        assert!(steps <= bound, "{steps} steps at once");
        passes += 1;
        assert!(passes < 100, "it never ends");
    }
    harness.store.check_invariants();
    assert!(harness.reserve(1, &["q"]).is_some() && harness.reserve(1, &["q"]).is_some());
    assert_eq!(harness.reserve(1, &["q", "new"]), None);
    harness.remove_constraint("c");
    harness.settle();
    for _ in 2..jobs {
        assert!(harness.reserve(1, &["q"]).is_some());
    }
    harness.store.check_invariants();
}

/// A pass executes many commands; the scan continues once.
#[test]
fn scan_continues_once_a_pass_not_once_a_command() {
    let mut harness = Harness::new();
    for _ in 0..3 * CONSTRAINT_SCAN_JOBS_PER_PASS {
        harness.put("q", "{}");
    }
    harness.set_constraint(&on("c", "q").running(2));
    let begun = harness.store.constraints.scan_pos;
    for _ in 0..10 {
        let job = harness.put("free", "{}");
        assert_eq!(harness.reserve(1, &["free"]), Some(job));
        harness.delete(job);
    }
    assert_eq!(harness.store.constraints.scan_pos, begun);
    assert_eq!(harness.store.next_deadline(), Some(Mono(0)), "it goes on in the next pass");
    harness.fx.clear();
    harness.store.expire(64, harness.now, &mut harness.fx);
    let (round, place) = harness.store.constraints.scan_pos;
    assert_eq!(
        (round, place - begun.1),
        (begun.0, u32::try_from(CONSTRAINT_SCAN_JOBS_PER_PASS).unwrap())
    );
    harness.settle();
    assert!(harness.reserve(1, &["q"]).is_some() && harness.reserve(1, &["q"]).is_some());
    assert_eq!(harness.reserve(1, &["q"]), None);
    harness.store.check_invariants();
}

/// All are unblocked in the end.
#[test]
fn raised_limit_unblocks_a_bounded_number_of_queues_a_pass() {
    let mut harness = Harness::new();
    harness.set_constraint(&on("c", "*").running(0));
    let queues = 5_000;
    for number in 0..queues {
        harness.put(&format!("q{number}"), "{}");
    }
    let bound = CONSTRAINT_SCAN_JOBS_PER_PASS as u64 * 4 + CONSTRAINT_STEPS_PER_PASS + 8;
    let (steps, _) =
        harness.steps(|harness| harness.set_constraint(&on("c", "*").running(u32::MAX)));
    assert!(steps <= bound, "{steps} steps at once");
    harness.settle();
    for number in 0..queues {
        assert!(harness.reserve(1, &[&format!("q{number}")]).is_some());
    }
    harness.store.check_invariants();
}

/// Until all jobs are evaluated, the number of running ones is unknown.
#[test]
fn new_constraint_lets_no_job_start_before_its_scan_has_ended() {
    let mut harness = Harness::new();
    for _ in 0..3 * CONSTRAINT_SCAN_JOBS_PER_PASS {
        harness.put("other", "{}");
    }
    let held = [0, 1, 2].map(|_| {
        harness.put("q", "{}");
        harness.reserve(1, &["q"]).unwrap()
    });
    harness.set_constraint(&on("c", "q").running(3));
    let job = harness.put("q", "{}");
    let (_, reserved) = harness.try_reserve(1, "q");
    assert_eq!(reserved, None, "three run, and are not counted yet");
    harness.settle();
    assert_eq!(harness.reserve(1, &["q"]), None);
    harness.delete(held[0]);
    assert_eq!(harness.reserve(1, &["q"]), Some(job));
    harness.store.check_invariants();
}
