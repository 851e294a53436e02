//! Chance against a judge who keeps lists and looks at everything: who takes gets the first of all
//! jobs that may run and that he may have, nobody waits for one, and no limit is passed.
//!
//! Where there are so few steps that most takes cannot look at everything at once, who takes gets
//! some job that may run, and hears that there is none only when there is none.

use super::law::Law;
use super::{Shop, argument, client, names, on};
use crate::base::rng::Rng;
use crate::base::time::Mono;
use crate::model::command::{Command, Wait};
use crate::model::id::{JobId, Ticket};
use crate::model::job::{Encoding, JobOptions, Payload, Priority, Retry, Status, TieBreak};
use crate::model::worker::{
    Compare, Condition, Constraint, RunOutcome, Scalar, Worker, WorkerCommand, WorkerId,
};
use crate::store::Outcome;
use crate::store::constraints::BudgetLimits;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::ops::Range;

const QUEUES: [&str; 3] = ["a", "b", "c"];

/// What somebody takes from: these queues, or whatever is followed.
#[derive(Clone, Debug)]
enum Want {
    Queues(Vec<&'static str>),
    Any,
}

/// These clients act for workers of the list.
const SERVING: [u32; 2] = [2, 3];

struct Court {
    shop: Shop,
    laws: Vec<Law>,
    rng: Rng,
    waiting: Vec<(Ticket, Want)>,
    /// Takes that do not wait, and are still to be answered.
    asking: Vec<(Ticket, Want)>,
    hurried: bool,
    deferred: usize,
    workers: Vec<WorkerId>,
    /// When the jobs that were started last were, in changes of constraints.
    paid: BTreeMap<JobId, u64>,
    started: usize,
    given_back: usize,
    refused: usize,
}

impl Court {
    fn new(seed: u64, hurried: bool) -> Self {
        let mut court = Self {
            shop: Shop::new(),
            laws: Vec::new(),
            rng: Rng::new(seed),
            waiting: Vec::new(),
            asking: Vec::new(),
            hurried,
            deferred: 0,
            workers: Vec::new(),
            paid: BTreeMap::new(),
            started: 0,
            given_back: 0,
            refused: 0,
        };
        if hurried {
            court.shop.store.constraints.allowance = BudgetLimits { each: 1, pass: 1 };
        }
        for holder in SERVING {
            let url = format!("http://w{holder}");
            let worker = Worker { name: "w", url: &url, max_jobs: 1, queues: None };
            let told = court.work(0, &WorkerCommand::Register(worker));
            let Outcome::Worker(id) = told else { panic!("{told:?}") };
            court.workers.push(id);
            court.serve(holder);
        }
        court
    }

    fn work(&mut self, holder: u32, work: &WorkerCommand<'_>) -> Outcome {
        let outcomes = self.shop.apply(holder, &Command::Work(*work));
        outcomes.first().map_or(Outcome::NoJob, |&(_, outcome)| outcome)
    }

    fn worker(&self, holder: u32) -> Option<WorkerId> {
        let place = SERVING.iter().position(|&serving| serving == holder)?;
        Some(self.workers[place])
    }

    fn serve(&mut self, holder: u32) {
        if let Some(worker) = self.worker(holder) {
            assert_eq!(self.work(holder, &WorkerCommand::Attach { worker }), Outcome::Done);
        }
    }

    fn pick<T: Copy>(&mut self, all: &[T]) -> T {
        all[usize::try_from(self.rng.below(all.len() as u64)).unwrap()]
    }

    fn may_run(&self, slot: u32) -> bool {
        let store = &self.shop.store;
        self.laws.iter().all(|law| {
            let Some(value) = law.value(store, slot) else { return true };
            let most = law.constraint.max_running.map_or(usize::MAX, |most| most as usize);
            let tokens = law.tokens(&value, self.shop.now.mono.0);
            law.running(store, &value) < most && tokens.is_none_or(|left| left >= 0)
        })
    }

    /// The job that a take is to get.
    fn best(&self, holder: u32, want: &Want) -> Option<JobId> {
        let store = &self.shop.store;
        let worker = self.worker(holder);
        let mut best: Option<u32> = None;
        for (slot, job) in store.jobs.iter().filter(|(slot, _)| store.is_job(*slot)) {
            let name = std::str::from_utf8(&store.queues[job.queue].name).unwrap();
            let waits = matches!(job.status, Status::Ready | Status::Blocked);
            let wanted = match want {
                Want::Queues(queues) => queues.contains(&name),
                Want::Any => job.is_tracked(),
            };
            if waits
                && wanted
                && worker.is_none_or(|worker| !job.excluded_workers().contains(&worker))
                && !job.is_expired(self.shop.now)
                && self.may_run(slot)
                && best.is_none_or(|best| store.jobs.order(slot, best) == Ordering::Less)
            {
                best = Some(slot);
            }
        }
        best.map(|slot| JobId(store.jobs[slot].id))
    }

    /// Looks at what the last call has brought about.
    fn judge(&mut self) {
        for &(ticket, outcome) in &self.shop.fx.outcomes.clone() {
            self.waiting.retain(|&(waiting, _)| waiting != ticket);
            if let Some(at) = self.asking.iter().position(|&(asking, _)| asking == ticket) {
                let (_, want) = self.asking.swap_remove(at);
                let missed = self.best(ticket.client.index, &want);
                assert!(outcome != Outcome::NoJob || missed.is_none(), "it missed {missed:?}");
            }
            let Outcome::Job(slot) = outcome else { continue };
            self.started += 1;
            let store = &self.shop.store;
            self.paid.insert(store.view(slot).id, store.constraints.changes);
            for law in &mut self.laws {
                let Some(value) = law.value(store, slot.0) else { continue };
                law.starts.push((self.shop.now.mono.0, value.clone(), false));
                law.tokens(&value, self.shop.now.mono.0);
                if let Some(most) = law.constraint.max_running {
                    let running = law.running(store, &value);
                    assert!(running <= most as usize, "{running} run of {most}");
                }
            }
        }
        self.shop.fx.outcomes.clear();
        self.shop.store.check_invariants();
    }

    /// Lets everything happen that is due now.
    fn settle(&mut self) {
        self.judge();
        while self.shop.store.next_deadline().is_some_and(|at| at <= self.shop.now.mono) {
            self.shop.fx.clear();
            self.shop.store.expire(3, self.shop.now, &mut self.shop.fx);
            self.judge();
        }
        for (ticket, want) in &self.waiting {
            let found = self.best(ticket.client.index, want);
            assert_eq!(found, None, "{ticket:?} waits for a job that may run");
        }
        assert!(self.asking.is_empty(), "{:?} are not answered", self.asking);
    }

    fn a_constraint(&mut self) -> Constraint {
        let name = self.pick(&["x", "y", "z"]);
        let mut constraint = on(name, self.pick(&["a", "*", "b"]));
        if self.rng.one_in(3) {
            let values = vec![Scalar::Integer(1)];
            constraint.matcher =
                vec![Condition { path: argument("u"), op: Compare::LessOrEqual, values }];
        }
        if self.rng.one_in(2) {
            constraint = constraint.per(self.pick(&["h", "u", "none"]));
        }
        if self.rng.below(3) > 0 {
            constraint = constraint.running(self.pick(&[0, 1, 1, 2, 3]));
        }
        if constraint.max_running.is_none() || self.rng.one_in(3) {
            let burst = self.pick(&[1, 2, 4]);
            constraint = constraint.rate(self.pick(&[1, 3]), self.pick(&[7, 50]), burst);
        }
        constraint
    }

    fn legislate(&mut self) {
        if self.rng.one_in(3) {
            let name = self.pick(&["x", "y", "z"]);
            self.shop.free(name);
            self.laws.retain(|law| *law.constraint.name != *name);
            return;
        }
        let mut new = self.a_constraint();
        let begun = self.shop.now.mono.0;
        let known = self.laws.iter_mut().find(|law| law.constraint.name == new.name);
        match known {
            Some(law) if self.rng.one_in(2) => {
                new = Constraint { max_running: new.max_running, ..law.constraint.clone() };
                law.constraint = new.clone();
            }
            Some(law)
                if (&law.constraint.matcher, &law.constraint.per) == (&new.matcher, &new.per) =>
            {
                new.rate = law.constraint.rate;
                law.constraint = new.clone();
            }
            Some(law) => *law = Law { constraint: new.clone(), begun, starts: Vec::new() },
            None => self.laws.push(Law { constraint: new.clone(), begun, starts: Vec::new() }),
        }
        self.shop.constrain(&new);
    }

    fn put(&mut self) {
        let (h, u) = (self.rng.below(3), self.rng.below(3));
        let json =
            if self.rng.one_in(8) { "{}".to_owned() } else { format!("{{\"h\":{h},\"u\":{u}}}") };
        let retry = Retry { limit: 2, first_ms: 5, factor: 2, max_ms: 20, jitter_percent: 0 };
        let options = JobOptions {
            ttl_ms: self.pick(&[0, 0, 30]),
            delay_ms: self.pick(&[0, 0, 9]),
            lease_ms: self.pick(&[0, 12]),
            retry: self.pick(&[None, Some(retry)]),
            result_retention_ms: self.pick(&[0, 10]),
            dead_retention_ms: self.pick(&[0, 20]),
            tracked: self.rng.one_in(2),
            result_once: false,
        };
        let priority = match self.rng.below(12) {
            0 => Priority::Big("18446744073709551616"),
            1 => Priority::Big("99446744073709551616"),
            number => Priority::Small(i64::try_from(number % 4).unwrap() - 2),
        };
        let queue = self.pick(&QUEUES);
        let options = self.rng.one_in(2).then_some(options);
        let put = Command::Put {
            queue: queue.as_bytes(),
            priority,
            tie_break: TieBreak::Fifo,
            payload: Payload { encoding: Encoding::Json, bytes: json.as_bytes() },
            options: options.as_ref(),
        };
        self.shop.apply(0, &put);
    }

    fn take_any(&mut self, holder: u32) {
        let expected = self.best(holder, &Want::Any);
        let outcomes = self.shop.apply(holder, &Command::Work(WorkerCommand::ReserveAny));
        let ticket = Ticket { client: client(holder), serial: self.shop.serial };
        let found = outcomes.iter().find(|(told, _)| *told == ticket);
        let found = found.map(|&(_, outcome)| match outcome {
            Outcome::Job(slot) => self.shop.store.view(slot).id,
            other => panic!("{other:?}"),
        });
        assert!(self.hurried || found == expected, "{found:?} of all, not {expected:?}");
        if found.is_none() {
            self.waiting.push((ticket, Want::Any));
        }
    }

    fn take(&mut self) {
        let queues: Vec<&'static str> =
            QUEUES.into_iter().filter(|_| self.rng.below(2) == 0).collect();
        let holder = u32::try_from(1 + self.rng.below(3)).unwrap();
        if self.rng.one_in(3) {
            self.take_any(holder);
        } else if self.rng.below(3) > 0 {
            self.take_at_once(holder, &queues);
        } else {
            let list = names(&queues);
            let wait = self.pick(&[Wait::Forever, Wait::Milliseconds(15)]);
            self.shop.apply(holder, &Command::Reserve { queues: list.from(0), wait });
            let ticket = Ticket { client: client(holder), serial: self.shop.serial };
            self.waiting.push((ticket, Want::Queues(queues)));
        }
    }

    /// A take that does not wait.
    fn take_at_once(&mut self, holder: u32, queues: &[&'static str]) {
        let want = Want::Queues(queues.to_vec());
        let expected = self.best(holder, &want);
        let list = names(queues);
        self.shop.apply(holder, &Command::Reserve { queues: list.from(0), wait: Wait::No });
        let ticket = Ticket { client: client(holder), serial: self.shop.serial };
        let told = self.shop.fx.outcomes.iter().find(|(told, _)| *told == ticket);
        let found = match told {
            Some(&(_, Outcome::Job(slot))) => Some(self.shop.store.view(slot).id),
            Some((_, Outcome::NoJob)) => None,
            Some(other) => panic!("{other:?}"),
            None => {
                assert!(self.hurried, "it was not answered at once");
                self.deferred += 1;
                self.asking.push((ticket, want));
                return;
            }
        };
        let is_right = found == expected || (self.hurried && found.is_some());
        assert!(is_right, "it took {found:?}, not {expected:?}");
    }

    /// Something happens to some job.
    fn touch(&mut self) {
        let id = JobId(1 + self.rng.below(self.shop.store.next_id().0));
        let holder =
            self.shop.store.ids.find(id.0).map_or(1, |slot| self.shop.store.jobs[slot].holder);
        let holder = if holder == u32::MAX { 1 } else { holder };
        if self.worker(holder).is_some() && self.rng.one_in(2) {
            return self.work_on(holder, id);
        }
        if self.rng.one_in(8) {
            let waits = self.shop.store.ids.find(id.0).is_some_and(|slot| {
                let job = &self.shop.store.jobs[slot];
                job.waits() && !job.is_expired_waiting(self.shop.now)
            });
            let told = self.work(0, &WorkerCommand::Cancel { id });
            assert_eq!(told == Outcome::Done, waits, "{told:?}");
            return;
        }
        let result = Payload { encoding: Encoding::Json, bytes: b"1" };
        let command = match self.rng.below(8) {
            0 => Command::Delete { id },
            1 | 2 => Command::Finish { id, lease: None, result },
            3 => Command::Fail { id, lease: None, retry: true, error: result },
            4 => Command::Bury { id, lease: None },
            5 => Command::Kick { id },
            6 => Command::Touch { id, lease: None },
            _ => Command::Release { id, lease: None },
        };
        self.shop.apply(holder, &command);
    }

    /// A worker gives a job back, or will not have it.
    fn work_on(&mut self, holder: u32, id: JobId) {
        let Some(slot) = self.shop.store.ids.find(id.0) else { return };
        let (lease, never_again) = (self.shop.store.jobs[slot].lease(), self.rng.one_in(2));
        if self.rng.one_in(3) {
            let worker = self.worker(holder).unwrap();
            let error = Payload { encoding: Encoding::Json, bytes: b"1" };
            let report = RunOutcome::Rejected { error, message: "no", lease };
            let told = self.work(holder, &WorkerCommand::Report { worker, id, report });
            self.refused += usize::from(told == Outcome::Done);
            return;
        }
        let job = &self.shop.store.jobs[slot];
        let held = job.status == Status::Reserved && job.holder == holder;
        if held && self.paid.get(&id) == Some(&self.shop.store.constraints.changes) {
            self.given_back += 1;
            for law in &mut self.laws {
                if let Some(value) = law.value(&self.shop.store, slot) {
                    law.starts.push((self.shop.now.mono.0, value, true));
                }
            }
        }
        self.shop.apply(
            holder,
            &Command::Work(WorkerCommand::ReturnUnstarted { id, lease, exclude: never_again }),
        );
    }

    fn step(&mut self) {
        match self.rng.below(20) {
            0 => self.legislate(),
            1..=6 => self.put(),
            7..=11 => self.take(),
            12..=16 => self.touch(),
            17 => {
                let holder = u32::try_from(1 + self.rng.below(3)).unwrap();
                let gone = client(holder);
                self.waiting.retain(|(ticket, _)| ticket.client != gone);
                self.shop.fx.clear();
                self.shop.store.disconnect_client(gone, self.shop.now, &mut self.shop.fx);
                self.settle();
                self.serve(holder);
            }
            _ => {
                let passed = self.rng.below(12_000_000);
                let end = Mono(self.shop.now.mono.0 + passed);
                while let Some(at) = self.shop.store.next_deadline().filter(|&at| at <= end) {
                    self.shop.now.mono = at.max(self.shop.now.mono);
                    self.settle();
                }
                self.shop.now.mono = end;
            }
        }
        self.settle();
    }

    /// A job that this client holds.
    fn held_by(&self, holder: u32) -> Option<JobId> {
        let mut jobs = self.shop.store.jobs.iter();
        let held = jobs.find(|(_, job)| job.status == Status::Reserved && job.holder == holder);
        held.map(|(_, job)| JobId(job.id))
    }

    /// Everything ends once nothing forbids it for ever.
    fn end(&mut self) {
        for number in 0..self.laws.len() {
            let law = &mut self.laws[number].constraint;
            if law.max_running == Some(0) {
                law.max_running = Some(1);
                let constraint = law.clone();
                self.shop.constrain(&constraint);
                self.settle();
            }
        }
        for holder in 1..=3 {
            self.waiting.clear();
            self.shop.fx.clear();
            self.shop.store.disconnect_client(client(holder), self.shop.now, &mut self.shop.fx);
            self.settle();
        }
        for _ in 0..20_000 {
            self.take_at_once(1, &QUEUES);
            self.settle();
            if let Some(id) = self.held_by(1) {
                self.shop.delete(id);
                self.settle();
                continue;
            }
            let Some(at) = self.shop.store.next_deadline() else { break };
            self.shop.now.mono = at;
            self.settle();
        }
        let left = self.shop.store.jobs.iter();
        let left = left.filter(|(slot, _)| self.shop.store.is_job(*slot));
        let left: Vec<Status> = left.map(|(_, job)| job.status).collect();
        assert!(left.iter().all(|&status| status == Status::Buried), "{left:?} never ended");
    }
}

fn judge_all(seeds: Range<u64>, hurried: bool) -> usize {
    let (mut started, mut given_back, mut refused, mut deferred) = (0, 0, 0, 0);
    for seed in seeds {
        let mut court = Court::new(seed, hurried);
        for _ in 0..3 {
            court.legislate();
            court.settle();
        }
        for _ in 0..200 {
            court.step();
        }
        court.end();
        started += court.started;
        given_back += court.given_back;
        refused += court.refused;
        deferred += court.deferred;
    }
    assert!(started > 5_000, "only {started} jobs were started");
    assert!(given_back > 100, "only {given_back} jobs were given back in time");
    assert!(refused > 100, "only {refused} jobs were refused");
    deferred
}

#[test]
fn whatever_happens_the_judge_finds_nothing() {
    assert_eq!(judge_all(0..150, false), 0);
}

#[test]
fn nothing_is_missed_where_there_are_few_steps() {
    let deferred = judge_all(0..150, true);
    assert!(deferred > 100, "only {deferred} takes were answered later");
}
