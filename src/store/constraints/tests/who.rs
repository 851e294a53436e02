//! Who may take what is held back, and what goes back as if it had never been handed out.

use super::{Shop, client, ms, names, on};
use crate::base::limits::CONSTRAINT_SCAN_JOBS_PER_PASS;
use crate::base::time::Mono;
use crate::model::command::{Command, Wait};
use crate::model::id::JobId;
use crate::model::job::{Encoding, JobOptions, LeaseEpoch, Payload, Retry};
use crate::model::worker::{RunOutcome, Worker, WorkerCommand, WorkerId};
use crate::store::Outcome;

fn followed() -> JobOptions {
    let retry = Retry { limit: 3, first_ms: 10, factor: 2, max_ms: 90, jitter_percent: 0 };
    JobOptions { retry: Some(retry), tracked: true, ..JobOptions::default() }
}

impl Shop {
    /// A client that acts for a worker of its own.
    fn worker(&mut self, index: u32) -> WorkerId {
        let url = format!("http://w{index}");
        let worker = Worker { name: "w", url: &url, max_jobs: 9, queues: None };
        let told = self.apply(0, &Command::Work(WorkerCommand::Register(worker)));
        let Outcome::Worker(worker) = told[0].1 else { panic!("{told:?}") };
        let told = self.apply(index, &Command::Work(WorkerCommand::Attach { worker }));
        assert_eq!(told[0].1, Outcome::Done);
        worker
    }

    /// The job of whatever is followed that a client gets at once.
    fn take_any(&mut self, index: u32) -> Option<JobId> {
        self.apply(index, &Command::Work(WorkerCommand::ReserveAny));
        self.jobs().first().map(|&(_, id)| id)
    }

    fn give_back(&mut self, index: u32, id: JobId, never_again: bool) {
        let slot = self.store.ids.find(id.0).unwrap();
        let lease = self.store.jobs[slot].lease();
        let told = self.apply(
            index,
            &Command::Work(WorkerCommand::ReturnUnstarted { id, lease, exclude: never_again }),
        );
        assert_eq!(told[0].1, Outcome::Done);
    }
}

#[test]
fn a_job_of_another_door_does_not_stand_before_followed_ones() {
    let mut shop = Shop::new();
    shop.constrain(&on("c", "q").running(1));
    let other = shop.put_with("q", 9, "{}", None);
    let followed = shop.put_with("q", 0, "{}", Some(&followed()));
    assert_eq!(shop.take_any(1), Some(followed));
    assert_eq!(shop.take(2, &["q"]), None, "one runs");
    assert_eq!(shop.take_any(1), None);
    shop.store.check_invariants();
    // Who waits for any is not served with it either.
    shop.delete(followed);
    assert_eq!(shop.jobs(), []);
    assert_eq!(shop.take(2, &["q"]), Some(other));
    shop.store.check_invariants();
}

#[test]
fn who_takes_any_waits_for_room_like_everybody_else() {
    let mut shop = Shop::new();
    shop.constrain(&on("c", "*").running(1));
    let [a, b] = ["a", "b"].map(|queue| shop.put_with(queue, 0, "{}", Some(&followed())));
    let urgent = shop.put_with("c", 5, "{}", Some(&followed()));
    assert_eq!(shop.take_any(1), Some(urgent));
    assert_eq!(shop.take_any(2), None);
    assert_eq!(shop.take_any(3), None);
    shop.store.check_invariants();
    shop.delete(urgent);
    assert_eq!(shop.jobs(), [(crate::model::id::Ticket { client: client(2), serial: 6 }, a)]);
    shop.delete(a);
    assert_eq!(shop.jobs().iter().map(|&(_, id)| id).collect::<Vec<_>>(), [b]);
    shop.store.check_invariants();
}

#[test]
fn what_a_worker_refuses_does_not_stand_in_its_way() {
    let mut shop = Shop::new();
    shop.worker(1);
    shop.constrain(&on("c", "q").running(1));
    let jobs = [3, 2, 1].map(|number| shop.put_with("q", number, "{}", Some(&followed())));
    for id in &jobs[..2] {
        assert_eq!(shop.take_any(1), Some(*id));
        shop.give_back(1, *id, true);
        shop.store.check_invariants();
    }
    assert_eq!(shop.take_any(1), Some(jobs[2]), "the others are not offered again");
    assert_eq!(shop.take_any(2), None, "one runs");
    shop.store.check_invariants();
    shop.delete(jobs[2]);
    assert_eq!(shop.jobs()[0].1, jobs[0], "who is no worker may have what was refused");
    assert_eq!(shop.take_any(1), None);
    shop.delete(jobs[0]);
    assert_eq!(shop.jobs(), []);
    assert_eq!(shop.take(2, &["q"]), Some(jobs[1]));
    shop.store.check_invariants();
}

#[test]
fn a_refused_try_comes_back_for_others() {
    let mut shop = Shop::new();
    let worker = shop.worker(1);
    shop.constrain(&on("c", "q").running(1).per("h"));
    let id = shop.put_with("q", 0, "{\"h\":1}", Some(&followed()));
    assert_eq!(shop.take_any(1), Some(id));
    let error = Payload { encoding: Encoding::Json, bytes: b"1" };
    let report = RunOutcome::Rejected { error, message: "no", lease: LeaseEpoch(1) };
    shop.apply(0, &Command::Work(WorkerCommand::Report { worker, id, report }));
    assert_eq!(shop.take_any(1), None);
    shop.pass_until(ms(1_000));
    assert_eq!(shop.jobs(), [], "it waits for somebody else");
    let behind = shop.put_with("q", 0, "{\"h\":1}", Some(&followed()));
    assert_eq!(shop.jobs()[0].1, behind, "and lets others pass");
    assert_eq!(shop.take_any(2), None);
    shop.delete(behind);
    assert_eq!(shop.jobs()[0].1, id);
    shop.store.check_invariants();
}

#[test]
fn what_was_given_back_has_taken_no_token() {
    let mut shop = Shop::new();
    shop.worker(1);
    shop.constrain(&on("c", "q").rate(1, 1_000, 1));
    let id = shop.put_with("q", 0, "{}", Some(&followed()));
    for _ in 0..3 {
        assert_eq!(shop.take_any(1), Some(id));
        shop.give_back(1, id, false);
    }
    assert_eq!(shop.take_any(1), Some(id));
    // A release is another matter: it may have been worked on.
    shop.release(1, id);
    assert_eq!(shop.take(2, &["q"]), None);
    shop.pass_until(ms(1_001));
    assert_eq!(shop.take(2, &["q"]), Some(id));
    shop.release(2, id);
    // What has started under other rules gives nothing back.
    shop.free("c");
    assert_eq!(shop.take_any(1), Some(id));
    shop.constrain(&on("c", "q").rate(1, 1_000, 1));
    let other = shop.put("q", "{}");
    assert_eq!(shop.take(2, &["q"]), Some(other));
    shop.give_back(1, id, false);
    assert_eq!(shop.take(2, &["q"]), None);
    shop.store.check_invariants();
}

/// Handed out while a new constraint has not come to it: it has not paid there.
#[test]
fn what_started_before_it_was_matched_gives_nothing_back() {
    let mut shop = Shop::new();
    shop.worker(1);
    for _ in 0..3 * CONSTRAINT_SCAN_JOBS_PER_PASS {
        shop.put("other", "{}");
    }
    let id = shop.put_with("q", 0, "{}", Some(&followed()));
    shop.constrain(&on("c", "q").rate(1, 1_000_000, 1));
    assert_eq!(shop.take_any(1), Some(id));
    shop.settle();
    let next = shop.put("q", "{}");
    assert_eq!(shop.take(2, &["q"]), Some(next));
    shop.give_back(1, id, false);
    assert_eq!(shop.take(2, &["q"]), None);
    shop.store.check_invariants();
}

/// Whoever takes any job passes a bounded number of those by that may not run, and waits; the rest
/// is passed by later.
#[test]
fn a_take_of_any_passes_a_bounded_number_of_jobs_by() {
    let mut shop = Shop::new();
    shop.constrain(&on("c", "q*").running(1));
    let queues = 3_000;
    for number in 0..queues {
        shop.put_with(&format!("q{number}"), 1, "{}", Some(&followed()));
    }
    let free = shop.put_with("free", 0, "{}", Some(&followed()));
    assert!(shop.take(9, &["q7"]).is_some());
    let (steps, found) = shop.steps(|shop| shop.take_any(1));
    assert!(steps <= 3_000, "{steps} steps at once");
    assert_eq!(found, None, "not yet");
    assert_eq!(shop.store.next_deadline(), Some(Mono(0)), "it goes on in the next pass");
    let mut got = Vec::new();
    while shop.store.next_deadline() == Some(Mono(0)) {
        let (steps, ()) = shop.steps(|shop| {
            shop.fx.clear();
            shop.store.expire(64, shop.now, &mut shop.fx);
        });
        assert!(steps <= 3_000, "{steps} steps at once");
        got.extend(shop.jobs().into_iter().map(|(_, id)| id));
    }
    assert_eq!(got, [free]);
    let (steps, found) = shop.steps(|shop| shop.take_any(1));
    assert_eq!((steps, found), (0, None));
    shop.store.check_invariants();
}

/// A waiting take of several queues that are held back costs nothing while nothing changes.
#[test]
fn who_waits_costs_nothing() {
    let mut shop = Shop::new();
    shop.constrain(&on("c", "held").running(0));
    for _ in 0..1_000 {
        shop.put_with("held", 0, "{}", Some(&followed()));
    }
    assert_eq!(shop.take_any(1), None);
    let list = names(&["held"]);
    shop.apply(2, &Command::Reserve { queues: list.from(0), wait: Wait::Forever });
    let (steps, ()) = shop.steps(|shop| {
        for _ in 0..100 {
            let id = shop.put_with("free", 0, "{}", Some(&followed()));
            assert_eq!(shop.jobs()[0].1, id);
            shop.delete(id);
            assert_eq!(shop.take_any(1), None);
        }
    });
    assert_eq!(steps, 0);
    shop.store.check_invariants();
}
