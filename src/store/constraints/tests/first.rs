//! Who goes first where several may go at once: of all jobs that may run, and that somebody waits
//! for, the most urgent.

use super::{Shop, argument, client, ms, names, on};
use crate::base::limits::CONSTRAINT_SCAN_JOBS_PER_PASS;
use crate::model::command::{Command, Wait};
use crate::model::id::JobId;
use crate::model::job::{Encoding, JobOptions, Payload, Priority, TieBreak};
use crate::model::worker::{
    Compare, Condition, Constraint, RunOutcome, Scalar, Worker, WorkerCommand, WorkerId,
};
use crate::store::Outcome;

impl Shop {
    /// Lets a client wait for a job of several queues.
    fn wait_in(&mut self, index: u32, queues: &[&str]) -> Vec<JobId> {
        let names = names(queues);
        self.apply(index, &Command::Reserve { queues: names.from(0), wait: Wait::Forever });
        self.ids()
    }

    /// The jobs that the last call has handed out.
    fn ids(&self) -> Vec<JobId> {
        self.jobs().into_iter().map(|(_, id)| id).collect()
    }

    /// One job that runs, and two that the constraint `c` on all queues holds back, of which a
    /// client wants one: the less urgent is the first in every order but that of priority.
    fn held_back(&mut self) -> (JobId, JobId) {
        self.constrain(&on("c", "*").running(1));
        let held = self.put("held", "{}");
        assert_eq!(self.take(9, &["held"]), Some(held));
        self.put_with("q0", 5, "{}", None);
        assert_eq!(self.wait_in(1, &["q0", "q1"]), []);
        let urgent = self.put_with("q1", 9, "{}", None);
        assert_eq!(self.ids(), []);
        (held, urgent)
    }

    fn end_of(&mut self, index: u32) -> Vec<JobId> {
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
fn removing_a_constraint_hands_out_the_most_urgent_job() {
    let mut shop = Shop::new();
    let (_, urgent) = shop.held_back();
    shop.free("c");
    assert_eq!(shop.ids(), [urgent]);
    shop.store.check_invariants();
}

#[test]
fn changing_a_constraint_hands_out_the_most_urgent_job() {
    let others = |queues: &str| on("c", queues).running(1);
    let changes: [Constraint; 4] = [
        others("nothing"),
        others("held"),
        on("c", "*").running(2),
        on("c", "*").running(1).per("h"),
    ];
    for (number, change) in changes.into_iter().enumerate() {
        let mut shop = Shop::new();
        let (_, urgent) = shop.held_back();
        // With a limit for each value the job that runs is of another one.
        let urgent = if number == 3 {
            shop.put_with("q0", 7, "{\"h\":1}", None);
            shop.put_with("q1", 11, "{\"h\":1}", None)
        } else {
            urgent
        };
        shop.constrain(&change);
        assert_eq!(shop.ids(), [urgent], "{change:?}");
        shop.store.check_invariants();
    }
}

/// More jobs than are matched anew at once, the most urgent one last.
#[test]
fn removing_a_constraint_from_many_jobs_hands_out_the_most_urgent_one() {
    let mut shop = Shop::new();
    let (_, _) = shop.held_back();
    for _ in 0..3 * CONSTRAINT_SCAN_JOBS_PER_PASS {
        shop.put_with("q0", 6, "{}", None);
    }
    let urgent = shop.put_with("q1", 10, "{}", None);
    shop.free("c");
    assert_eq!(shop.ids(), [urgent]);
    shop.settle();
    shop.store.check_invariants();
}

/// The limit of the old constraint must not be passed while the new one is not known to all jobs.
#[test]
fn replacing_a_constraint_lets_nothing_start_before_the_new_one_is_known() {
    let mut shop = Shop::new();
    shop.constrain(&on("c", "q*").running(1));
    let jobs: Vec<JobId> =
        (0..3 * CONSTRAINT_SCAN_JOBS_PER_PASS).map(|_| shop.put("q", "{}")).collect();
    let last = shop.put("other", "{}");
    let running = shop.put_with("q", 1, "{}", None);
    assert_eq!(shop.take(1, &["q"]), Some(running));
    shop.constrain(&on("c", "*").running(1));
    shop.delete(running);
    assert_eq!(shop.take(1, &["q"]), None, "who knows how many run");
    shop.settle();
    assert_eq!(shop.take(1, &["q", "other"]), Some(jobs[0]));
    assert_eq!(shop.take(1, &["q", "other"]), None);
    shop.delete(jobs[0]);
    assert_eq!(shop.take(1, &["other"]), Some(last));
    shop.store.check_invariants();
}

/// Room in two buckets at once, whichever is looked at first.
#[test]
fn of_two_constraints_with_room_the_one_with_the_most_urgent_job_is_served() {
    for (near, far) in [(5, 9), (9, 5)] {
        let mut shop = Shop::new();
        shop.constrain(&on("all", "*").running(2));
        shop.constrain(&on("q0", "q0").running(1));
        let [other, held] = ["other", "q0"].map(|queue| shop.put(queue, "{}"));
        assert_eq!(shop.take(9, &["q0"]), Some(held));
        let near = (near, shop.put_with("q0", near, "{}", None));
        assert_eq!(shop.take(8, &["q0"]), None, "it waits for room in its queue");
        assert_eq!(shop.take(9, &["other"]), Some(other));
        let far = (far, shop.put_with("q1", far, "{}", None));
        assert_eq!(shop.wait_in(1, &["q0", "q1"]), [], "it waits for room among all");
        shop.delete(held);
        assert_eq!(shop.ids(), [near.max(far).1]);
        shop.store.check_invariants();
    }
}

/// What a client held goes back, and makes room for something more urgent.
#[test]
fn the_end_of_a_client_hands_out_what_is_more_urgent_than_what_goes_back() {
    let mut shop = Shop::new();
    shop.constrain(&on("c", "q*").running(1));
    let free = shop.put("free", "{}");
    let held = shop.put("q0", "{}");
    assert_eq!(shop.take(9, &["free"]), Some(free));
    assert_eq!(shop.take(9, &["q0"]), Some(held));
    let urgent = shop.put_with("q1", 5, "{}", None);
    assert_eq!(shop.wait_in(1, &["free", "q1"]), []);
    assert_eq!(shop.end_of(9), [urgent]);
    assert_eq!(shop.wait_in(1, &["free"]), [free]);
}

#[test]
fn dismissing_a_worker_hands_out_what_is_more_urgent_than_what_it_held() {
    let mut shop = Shop::new();
    let worker = Worker { name: "w", url: "http://w", max_jobs: 9, queues: None };
    let told = shop.apply(9, &Command::Work(WorkerCommand::Register(worker)));
    let Outcome::Worker(worker) = told[0].1 else { panic!("{told:?}") };
    shop.apply(9, &Command::Work(WorkerCommand::Attach { worker }));
    shop.constrain(&on("c", "q*").running(1));
    let followed = JobOptions { tracked: true, ..JobOptions::default() };
    let mut put = |queue, priority| shop.put_with(queue, priority, "{}", Some(&followed));
    let [free, held, urgent] = [put("free", 1), put("q0", 1), put("q1", 0)];
    for expected in [free, held] {
        shop.apply(9, &Command::Work(WorkerCommand::ReserveAny));
        assert_eq!(shop.ids(), [expected]);
    }
    shop.apply(1, &Command::Work(WorkerCommand::ReserveAny));
    assert_eq!(shop.ids(), []);
    let more = shop.put_with("q1", 5, "{}", Some(&followed));
    assert_eq!(shop.ids(), []);
    shop.apply(0, &Command::Work(WorkerCommand::Deregister { worker: WorkerId(worker.0) }));
    assert_eq!(shop.ids(), [more]);
    shop.delete(more);
    for expected in [free, held] {
        shop.apply(1, &Command::Work(WorkerCommand::ReserveAny));
        assert_eq!(shop.ids(), [expected]);
    }
    shop.delete(held);
    assert_eq!(shop.take(1, &["q1"]), Some(urgent));
    shop.store.check_invariants();
}

/// Two rates bring a token at the same moment.
#[test]
fn tokens_of_one_moment_go_to_the_most_urgent_job() {
    for (first, second) in [(5, 9), (9, 5)] {
        let mut shop = Shop::new();
        for name in ["q0", "q1"] {
            shop.constrain(&on(name, name).rate(1, 100, 1));
            let spent = shop.put(name, "{}");
            assert_eq!(shop.take(9, &[name]), Some(spent));
        }
        let first = (first, shop.put_with("q0", first, "{}", None));
        let second = (second, shop.put_with("q1", second, "{}", None));
        assert_eq!(shop.wait_in(1, &["q0", "q1"]), []);
        // A pass that comes late: both are due, and looked at one after the other.
        shop.now = ms(101);
        let found = shop.expire();
        assert_eq!(found, [first.max(second).1]);
        assert_eq!(shop.take(2, &["q0", "q1"]), Some(first.min(second).1));
    }
}

/// A token has come, and the pass has not got to that yet.
#[test]
fn a_job_that_comes_together_with_a_token_does_not_pass_a_more_urgent_one() {
    let mut shop = Shop::new();
    shop.constrain(&on("c", "q*").rate(1, 100, 1));
    let spent = shop.put("q", "{}");
    assert_eq!(shop.take(9, &["q"]), Some(spent));
    let urgent = shop.put_with("q0", 9, "{}", None);
    assert_eq!(shop.wait_in(1, &["q0", "q1"]), []);
    shop.now = ms(101);
    let late = shop.put_with("q1", 5, "{}", None);
    assert_eq!(shop.ids(), [urgent]);
    assert_eq!(shop.expire(), []);
    shop.store.check_invariants();
    shop.pass_until(ms(201));
    assert_eq!(shop.take(1, &["q1"]), Some(late));
}

/// Time ends for two jobs in the same moment; the one that goes back first makes room, and who
/// waits is served before the other one comes back.
#[test]
fn what_is_due_in_one_pass_is_done_in_its_order() {
    let mut shop = Shop::new();
    shop.constrain(&on("c", "q*").running(1));
    let [short, long] = [10, 20].map(|lease_ms| JobOptions { lease_ms, ..JobOptions::default() });
    let held = shop.put_with("q0", 0, "{}", Some(&short));
    let free = shop.put_with("free", 9, "{}", Some(&long));
    assert_eq!(shop.take(9, &["q0"]), Some(held));
    assert_eq!(shop.take(9, &["free"]), Some(free));
    let waiting = shop.put_with("q1", 5, "{}", None);
    assert_eq!(shop.wait_in(1, &["free", "q1"]), []);
    shop.now = ms(50);
    assert_eq!(shop.expire(), [waiting]);
    assert_eq!(shop.wait_in(2, &["free"]), [free]);
}

/// The end of a time to live and the end of a wait for news fall together: they keep their order
/// when a constraint looks at the job anew.
#[test]
fn a_changed_constraint_does_not_change_the_order_of_what_is_due() {
    let mut shop = Shop::new();
    let options = JobOptions { ttl_ms: 2, ..JobOptions::default() };
    let id = shop.put_with("q", 0, "{}", Some(&options));
    shop.apply(1, &Command::Work(WorkerCommand::AwaitResult { id, wait_ms: 2 }));
    for most in [1, 0] {
        shop.constrain(&on("c", "q").running(most));
    }
    shop.free("c");
    shop.now = ms(3);
    shop.expire();
    let told: Vec<Outcome> = shop.fx.outcomes.iter().map(|&(_, outcome)| outcome).collect();
    assert_eq!(told, [Outcome::Gone], "its time was over before that of the wait");
}

/// A refusal, a failure and an end: whatever makes room, the most urgent goes.
#[test]
fn reports_of_workers_hand_out_the_most_urgent_job() {
    let payload = Payload { encoding: Encoding::Json, bytes: b"1" };
    for number in 0..3 {
        let mut shop = Shop::new();
        let worker = Worker { name: "w", url: "http://w", max_jobs: 9, queues: None };
        let told = shop.apply(9, &Command::Work(WorkerCommand::Register(worker)));
        let Outcome::Worker(worker) = told[0].1 else { panic!("{told:?}") };
        shop.apply(9, &Command::Work(WorkerCommand::Attach { worker }));
        let (held, urgent) = shop.held_back();
        let lease = shop.store.jobs[shop.store.ids.find(held.0).unwrap()].lease();
        let report = match number {
            0 => RunOutcome::Success { result: payload },
            1 => RunOutcome::Failure { retry: true, error: payload, message: "no" },
            _ => RunOutcome::Rejected { lease, error: payload, message: "no" },
        };
        shop.apply(9, &Command::Work(WorkerCommand::Report { worker, id: held, report }));
        assert_eq!(shop.ids(), [urgent]);
        shop.store.check_invariants();
    }
}

/// A bucket wakes one job for each that may be wanted: when nobody wants it any more the next one
/// has its turn, which somebody else waits for.
#[test]
fn a_job_that_nobody_wants_any_more_does_not_keep_others_asleep() {
    let about = |name: &str| {
        let values = vec![Scalar::Integer(1)];
        let matcher = vec![Condition { path: argument(name), op: Compare::Equal, values }];
        Constraint { matcher, ..on(name, "*").running(1) }
    };
    let mut shop = Shop::new();
    shop.constrain(&about("c"));
    shop.constrain(&about("d"));
    let held = shop.put("held", "{\"c\":1,\"d\":1}");
    assert_eq!(shop.take(9, &["held"]), Some(held));
    shop.put_with("q0", 5, "{\"c\":1}", None);
    let other = shop.put_with("q1", 1, "{\"c\":1}", None);
    let best = shop.put_with("r", 9, "{\"d\":1}", None);
    assert_eq!(shop.wait_in(1, &["q0", "r"]), []);
    assert_eq!(shop.wait_in(2, &["q1"]), []);
    shop.delete(held);
    assert_eq!(shop.ids(), [best, other]);
    shop.store.check_invariants();
}

impl Shop {
    fn put_large(&mut self, queue: &str, priority: i64) -> JobId {
        self.put_with(queue, priority, &format!("\"{}\"", "x".repeat(70_000)), None)
    }

    /// A packet, which no constraint holds back.
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

    /// How many pops the last call has answered.
    fn popped(&self) -> usize {
        let packets = |&&(_, outcome): &&(_, Outcome)| matches!(outcome, Outcome::Packets { .. });
        self.fx.outcomes.iter().filter(packets).count()
    }

    fn wait_for_pop(&mut self, index: u32, queue: &str) {
        let names = names(&[queue]);
        self.apply(index, &Command::Pop { queues: names.from(0), wait: Wait::Forever });
    }
}

/// A pop waits behind a job that is too large for it, until that one is held back: then it need not
/// wait for it, whatever it is that holds it back.
#[test]
fn a_pop_does_not_wait_behind_a_large_job_that_is_held_back() {
    for number in 0..6 {
        let mut shop = Shop::new();
        if number > 0 {
            shop.constrain(&on("c", "*").running(1).rate(1, 100, 1));
        }
        let other = shop.put("other", "{}");
        if number % 2 == 1 {
            shop.wait_for_pop(1, "q");
        }
        shop.put_large("q", 5);
        if number != 5 {
            shop.put_packet("q");
        }
        if number % 2 == 0 {
            shop.wait_for_pop(1, "q");
        }
        assert_eq!(shop.popped(), 0, "{number}: it is not held back yet");
        match number {
            0 => assert_eq!(
                shop.constrain(&on("c", "q").running(0)),
                Outcome::Constrained { new: true }
            ),
            1 => assert_eq!(shop.take(2, &["other"]), Some(other)),
            2 => {
                shop.wait_for_pop(2, "other");
                assert_eq!(shop.popped(), 2, "its token is spent");
                continue;
            }
            3 => assert_eq!(
                shop.constrain(&on("c", "*").running(0).rate(1, 100, 1)),
                Outcome::Constrained { new: false }
            ),
            4 => assert_eq!(
                shop.constrain(&on("c", "q").running(0)),
                Outcome::Constrained { new: false }
            ),
            _ => {
                shop.take(2, &["other"]);
                shop.put_packet("q");
            }
        }
        assert_eq!(shop.popped(), 1, "{number}");
        shop.settle();
        shop.store.check_invariants();
    }
}
