//! What it costs when there are many, in steps: jobs, strands and groups that are moved or looked
//! at.

use super::{Shop, on};
use crate::base::limits::{CONSTRAINT_SCAN_JOBS_PER_PASS, CONSTRAINT_STEPS_PER_PASS};
use crate::base::time::Mono;
use crate::model::id::JobId;

const MANY: u64 = 100_000;

/// Jobs that one constraint holds back.
fn crowd(shop: &mut Shop) {
    shop.constrain(&on("c", "held").running(1));
    for _ in 0..=MANY {
        shop.put("held", "{\"h\":1}");
    }
    assert!(shop.take(9, &["held"]).is_some());
    assert_eq!(shop.take(9, &["held"]), None);
}

#[test]
fn others_pay_nothing_for_what_is_held_back() {
    let mut shop = Shop::new();
    crowd(&mut shop);
    let (steps, ()) = shop.steps(|shop| {
        for _ in 0..1_000 {
            let job = shop.put("free", "{\"h\":1}");
            assert_eq!(shop.take(1, &["free"]), Some(job));
            shop.release(1, job);
            assert_eq!(shop.take(1, &["held", "free"]), Some(job));
            shop.delete(job);
            assert_eq!(shop.take(1, &["held", "free"]), None);
        }
    });
    assert_eq!(steps, 0);
    assert_eq!(shop.store.next_deadline(), None, "nothing is left to be done");
}

#[test]
fn one_that_runs_or_goes_costs_the_same_however_many_wait() {
    let mut shop = Shop::new();
    crowd(&mut shop);
    let mut held = JobId(1);
    for _ in 0..100 {
        let (steps, next) = shop.steps(|shop| {
            shop.delete(held);
            let next = shop.take(9, &["held"]);
            assert_eq!(shop.take(9, &["held"]), None);
            next
        });
        held = next.unwrap();
        assert!(steps <= 12, "{steps} steps for one job");
    }
    let (steps, _) = shop.steps(|shop| shop.delete(JobId(MANY / 2)));
    assert!(steps <= 2, "{steps} steps for a delete");
    shop.store.check_invariants();
}

/// Jobs that obey a limit for all and one for each host do not run to and fro between the two.
#[test]
fn jobs_between_two_limits_are_not_tried_in_vain() {
    let mut shop = Shop::new();
    shop.constrain(&on("all", "q").running(10));
    shop.constrain(&on("host", "q").running(1).per("h"));
    let hosts = 2_000;
    for number in 0..hosts * 3 {
        shop.put("q", &format!("{{\"h\":{}}}", number % hosts));
    }
    let mut held: std::collections::VecDeque<JobId> =
        (0..10).map(|_| shop.take(1, &["q"]).unwrap()).collect();
    assert_eq!(shop.take(1, &["q"]), None);
    shop.store.check_invariants();
    let (mut most, mut run) = (0, 10);
    while let Some(job) = held.pop_front() {
        let (steps, ()) = shop.steps(|shop| {
            shop.delete(job);
            if let Some(job) = shop.take(1, &["q"]) {
                held.push_back(job);
                run += 1;
            }
            shop.take(1, &["q"]);
        });
        most = most.max(steps);
    }
    assert_eq!(run, hosts * 3);
    assert!(most <= 60, "{most} steps for one job");
    shop.store.check_invariants();
}

#[test]
fn a_change_reaches_existing_jobs_a_bounded_number_at_a_time() {
    let mut shop = Shop::new();
    let jobs = 5_000;
    for _ in 0..jobs {
        shop.put("q", "{}");
    }
    let bound = CONSTRAINT_SCAN_JOBS_PER_PASS as u64 * 4 + CONSTRAINT_STEPS_PER_PASS + 8;
    let (steps, _) = shop.steps(|shop| shop.constrain(&on("c", "q").running(2)));
    assert!(steps <= bound, "{steps} steps at once");
    assert_eq!(shop.store.next_deadline(), Some(Mono(0)), "it goes on in the next pass");
    // A job that comes meanwhile obeys already.
    shop.put("new", "{}");
    shop.constrain(&on("d", "new").running(0));
    let mut passes = 0;
    while shop.store.next_deadline().is_some() {
        let (steps, ()) = shop.steps(|shop| {
            shop.fx.clear();
            shop.store.expire(64, shop.now, &mut shop.fx);
        });
        assert!(steps <= bound, "{steps} steps at once");
        passes += 1;
        assert!(passes < 100, "it never ends");
    }
    shop.store.check_invariants();
    assert!(shop.take(1, &["q"]).is_some() && shop.take(1, &["q"]).is_some());
    assert_eq!(shop.take(1, &["q", "new"]), None);
    shop.free("c");
    shop.settle();
    for _ in 2..jobs {
        assert!(shop.take(1, &["q"]).is_some());
    }
    shop.store.check_invariants();
}

/// A pass carries out many commands: the sweep goes on with the pass, not with each of them.
#[test]
fn a_sweep_goes_on_once_a_pass_however_much_is_asked() {
    let mut shop = Shop::new();
    for _ in 0..3 * CONSTRAINT_SCAN_JOBS_PER_PASS {
        shop.put("q", "{}");
    }
    shop.constrain(&on("c", "q").running(2));
    let begun = shop.store.constraints.scan_pos;
    for _ in 0..10 {
        let job = shop.put("free", "{}");
        assert_eq!(shop.take(1, &["free"]), Some(job));
        shop.delete(job);
    }
    assert_eq!(shop.store.constraints.scan_pos, begun);
    assert_eq!(shop.store.next_deadline(), Some(Mono(0)), "it goes on in the next pass");
    shop.fx.clear();
    shop.store.expire(64, shop.now, &mut shop.fx);
    let (round, place) = shop.store.constraints.scan_pos;
    assert_eq!(
        (round, place - begun.1),
        (begun.0, u32::try_from(CONSTRAINT_SCAN_JOBS_PER_PASS).unwrap())
    );
    shop.settle();
    assert!(shop.take(1, &["q"]).is_some() && shop.take(1, &["q"]).is_some());
    assert_eq!(shop.take(1, &["q"]), None);
    shop.store.check_invariants();
}

/// A refill wakes many queues: a bounded number at a time, and all in the end.
#[test]
fn room_wakes_a_bounded_number_of_queues_at_a_time() {
    let mut shop = Shop::new();
    shop.constrain(&on("c", "*").running(0));
    let queues = 5_000;
    for number in 0..queues {
        shop.put(&format!("q{number}"), "{}");
    }
    let bound = CONSTRAINT_SCAN_JOBS_PER_PASS as u64 * 4 + CONSTRAINT_STEPS_PER_PASS + 8;
    let (steps, _) = shop.steps(|shop| shop.constrain(&on("c", "*").running(u32::MAX)));
    assert!(steps <= bound, "{steps} steps at once");
    shop.settle();
    for number in 0..queues {
        assert!(shop.take(1, &[&format!("q{number}")]).is_some());
    }
    shop.store.check_invariants();
}

/// Before all jobs are matched nobody knows how many run: until then nothing new starts.
#[test]
fn a_new_constraint_lets_nothing_start_before_it_has_counted() {
    let mut shop = Shop::new();
    for _ in 0..3 * CONSTRAINT_SCAN_JOBS_PER_PASS {
        shop.put("other", "{}");
    }
    let held = [0, 1, 2].map(|_| {
        shop.put("q", "{}");
        shop.take(1, &["q"]).unwrap()
    });
    shop.constrain(&on("c", "q").running(3));
    let job = shop.put("q", "{}");
    assert_eq!(shop.take(1, &["q"]), None, "three run, and nobody has counted them yet");
    shop.settle();
    assert_eq!(shop.take(1, &["q"]), None);
    shop.delete(held[0]);
    assert_eq!(shop.take(1, &["q"]), Some(job));
    shop.store.check_invariants();
}
