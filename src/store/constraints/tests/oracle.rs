//! Random commands against a naive oracle: a reserve gets the most urgent job that may run and for
//! which it is eligible, no waiter is eligible for a job that may run, and no limit is exceeded.
//!
//! With a tight step budget most reserves cannot scan everything at once: then a reserve gets some
//! job that may run, and "no job" only when there is none.

use super::constraint_model::ConstraintModel;
use super::{Harness, argument, client, names, on};
use crate::base::rng::Rng;
use crate::base::time::Mono;
use crate::model::command::{Command, Wait};
use crate::model::id::{JobId, Ticket};
use crate::model::job::{Encoding, JobOptions, Payload, Priority, Retry, Status, TieBreak};
use crate::model::worker::{
    Compare, Condition, Constraint, RunOutcome, Scalar, TrackedReply, Worker, WorkerCommand,
    WorkerId,
};
use crate::store::Outcome;
use crate::store::constraints::BudgetLimits;
use crate::store::idx::{Holder, HolderKind, JobIdx};
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::ops::Range;

const QUEUES: [&str; 3] = ["a", "b", "c"];

/// What a client reserves from: these queues, or any tracked job.
#[derive(Clone, Debug)]
enum Source {
    Queues(Vec<&'static str>),
    Any,
}

/// Clients that are attached to registered workers.
const ATTACHED: [u32; 2] = [2, 3];

struct Oracle {
    harness: Harness,
    models: Vec<ConstraintModel>,
    rng: Rng,
    waiting: Vec<(Ticket, Source)>,
    /// Reserves without wait that are not answered yet.
    deferred_tickets: Vec<(Ticket, Source)>,
    tight_budget: bool,
    deferred: usize,
    workers: Vec<WorkerId>,
    /// Constraint revision at the last start of each job.
    charged_revision: BTreeMap<JobId, u64>,
    started: usize,
    returned: usize,
    refused: usize,
}

impl Oracle {
    fn new(seed: u64, tight_budget: bool) -> Self {
        let mut oracle = Self {
            harness: Harness::new(),
            models: Vec::new(),
            rng: Rng::new(seed),
            waiting: Vec::new(),
            deferred_tickets: Vec::new(),
            tight_budget,
            deferred: 0,
            workers: Vec::new(),
            charged_revision: BTreeMap::new(),
            started: 0,
            returned: 0,
            refused: 0,
        };
        if tight_budget {
            oracle.harness.store.constraints.limits = BudgetLimits { per_command: 1, per_pass: 1 };
        }
        for holder in ATTACHED {
            let url = format!("http://w{holder}");
            let worker = Worker { name: "w", url: &url, max_jobs: 1, queues: None };
            let answered = oracle.work(0, &WorkerCommand::Register(worker));
            let Outcome::Registered(id) = answered else { panic!("{answered:?}") };
            oracle.workers.push(id);
            oracle.attach(holder);
        }
        oracle
    }

    fn work(&mut self, holder: u32, work: &WorkerCommand<'_>) -> Outcome {
        let outcomes = self.harness.apply(holder, &Command::Work(*work));
        outcomes.first().map_or(Outcome::NoJob, |&(_, outcome)| outcome)
    }

    fn worker(&self, holder: u32) -> Option<WorkerId> {
        let place = ATTACHED.iter().position(|&attached| attached == holder)?;
        Some(self.workers[place])
    }

    fn attach(&mut self, holder: u32) {
        if let Some(worker) = self.worker(holder) {
            assert_eq!(self.work(holder, &WorkerCommand::Attach { worker }), Outcome::Owned(0));
        }
    }

    fn pick<T: Copy>(&mut self, all: &[T]) -> T {
        all[usize::try_from(self.rng.below(all.len() as u64)).unwrap()]
    }

    fn has_capacity(&self, slot: JobIdx) -> bool {
        let store = &self.harness.store;
        self.models.iter().all(|model| {
            let Some(value) = model.value(store, slot) else { return true };
            let most = model.constraint.max_running.map_or(usize::MAX, |most| most as usize);
            let tokens = model.tokens(&value, self.harness.now.mono.0);
            model.running(store, &value) < most && tokens.is_none_or(|left| left >= 0)
        })
    }

    /// The job that a reserve has to get.
    fn best(&self, holder: u32, source: &Source) -> Option<JobId> {
        let store = &self.harness.store;
        let worker = self.worker(holder);
        let mut best: Option<JobIdx> = None;
        for (slot, job) in store.jobs.iter() {
            let name = std::str::from_utf8(&store.queues[job.queue].name).unwrap();
            let waits = matches!(job.status(), Status::Ready | Status::Blocked);
            let is_in_source = match source {
                Source::Queues(queues) => queues.contains(&name),
                Source::Any => job.is_tracked(),
            };
            if waits
                && is_in_source
                && worker.is_none_or(|worker| !job.excluded_workers().contains(&worker))
                && !job.is_expired(self.harness.now)
                && self.has_capacity(slot)
                && best.is_none_or(|best| store.jobs.order(slot, best) == Ordering::Less)
            {
                best = Some(slot);
            }
        }
        best.map(|slot| JobId(store.jobs[slot].id()))
    }

    /// Checks the outcomes of the last call.
    fn check_outcomes(&mut self) {
        for &(ticket, outcome) in &self.harness.fx.outcomes.clone() {
            self.waiting.retain(|&(waiting, _)| waiting != ticket);
            if let Some(at) = self
                .deferred_tickets
                .iter()
                .position(|&(deferred_tickets, _)| deferred_tickets == ticket)
            {
                let (_, source) = self.deferred_tickets.swap_remove(at);
                let missed = self.best(ticket.client.index, &source);
                assert!(outcome != Outcome::NoJob || missed.is_none(), "it missed {missed:?}");
            }
            let Outcome::Job(slot) = outcome else { continue };
            self.started += 1;
            let store = &self.harness.store;
            self.charged_revision.insert(store.view(slot).id, store.constraints.revision);
            for model in &mut self.models {
                let Some(value) = model.value(store, slot) else { continue };
                model.starts.push((self.harness.now.mono.0, value.clone(), false));
                model.tokens(&value, self.harness.now.mono.0);
                if let Some(most) = model.constraint.max_running {
                    let running = model.running(store, &value);
                    assert!(running <= most as usize, "{running} run of {most}");
                }
            }
        }
        self.harness.fx.outcomes.clear();
        self.harness.store.check_invariants();
    }

    /// Fires all deadlines that are due.
    fn settle(&mut self) {
        self.check_outcomes();
        while self.harness.store.next_deadline().is_some_and(|at| at <= self.harness.now.mono) {
            self.harness.fx.clear();
            self.harness.store.expire(3, self.harness.now, &mut self.harness.fx);
            self.check_outcomes();
        }
        for (ticket, source) in &self.waiting {
            let found = self.best(ticket.client.index, source);
            assert_eq!(found, None, "{ticket:?} waits for a job that may run");
        }
        assert!(self.deferred_tickets.is_empty(), "{:?} are not answered", self.deferred_tickets);
    }

    fn random_constraint(&mut self) -> Constraint {
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

    fn change_constraints(&mut self) {
        if self.rng.one_in(3) {
            let name = self.pick(&["x", "y", "z"]);
            self.harness.remove_constraint(name);
            self.models.retain(|model| *model.constraint.name != *name);
            return;
        }
        let mut new = self.random_constraint();
        let set_at = self.harness.now.mono.0;
        let known = self.models.iter_mut().find(|model| model.constraint.name == new.name);
        match known {
            Some(model) if self.rng.one_in(2) => {
                new = Constraint { max_running: new.max_running, ..model.constraint.clone() };
                model.constraint = new.clone();
            }
            Some(model)
                if (&model.constraint.matcher, &model.constraint.per)
                    == (&new.matcher, &new.per) =>
            {
                new.rate = model.constraint.rate;
                model.constraint = new.clone();
            }
            Some(model) => {
                *model = ConstraintModel { constraint: new.clone(), set_at, starts: Vec::new() }
            }
            None => self.models.push(ConstraintModel {
                constraint: new.clone(),
                set_at,
                starts: Vec::new(),
            }),
        }
        self.harness.set_constraint(&new);
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
            max_attempts: 0,
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
        self.harness.apply(0, &put);
    }

    fn reserve_any(&mut self, holder: u32) {
        let expected = self.best(holder, &Source::Any);
        let outcomes = self.harness.apply(holder, &Command::Work(WorkerCommand::ReserveAny));
        let ticket = Ticket { client: client(holder), serial: self.harness.serial };
        let found = outcomes.iter().find(|(answered, _)| *answered == ticket);
        let found = found.map(|&(_, outcome)| match outcome {
            Outcome::Job(slot) => self.harness.store.view(slot).id,
            other => panic!("{other:?}"),
        });
        assert!(self.tight_budget || found == expected, "{found:?} of all, not {expected:?}");
        if found.is_none() {
            self.waiting.push((ticket, Source::Any));
        }
    }

    fn reserve(&mut self) {
        let queues: Vec<&'static str> =
            QUEUES.into_iter().filter(|_| self.rng.below(2) == 0).collect();
        let holder = u32::try_from(1 + self.rng.below(3)).unwrap();
        if self.rng.one_in(3) {
            self.reserve_any(holder);
        } else if self.rng.below(3) > 0 {
            self.reserve_without_wait(holder, &queues);
        } else {
            let list = names(&queues);
            let wait = self.pick(&[Wait::Forever, Wait::Milliseconds(15)]);
            self.harness.apply(holder, &Command::Reserve { queues: list.from(0), wait });
            let ticket = Ticket { client: client(holder), serial: self.harness.serial };
            self.waiting.push((ticket, Source::Queues(queues)));
        }
    }

    /// A reserve that does not wait.
    fn reserve_without_wait(&mut self, holder: u32, queues: &[&'static str]) {
        let source = Source::Queues(queues.to_vec());
        let expected = self.best(holder, &source);
        let list = names(queues);
        self.harness.apply(holder, &Command::Reserve { queues: list.from(0), wait: Wait::No });
        let ticket = Ticket { client: client(holder), serial: self.harness.serial };
        let answered = self.harness.fx.outcomes.iter().find(|(answered, _)| *answered == ticket);
        let found = match answered {
            Some(&(_, Outcome::Job(slot))) => Some(self.harness.store.view(slot).id),
            Some((_, Outcome::NoJob)) => None,
            Some(other) => panic!("{other:?}"),
            None => {
                assert!(self.tight_budget, "it was not answered at once");
                self.deferred += 1;
                self.deferred_tickets.push((ticket, source));
                return;
            }
        };
        let is_right = found == expected || (self.tight_budget && found.is_some());
        assert!(is_right, "it took {found:?}, not {expected:?}");
    }

    /// A random command on a random job.
    fn act_on_job(&mut self) {
        let id = JobId(1 + self.rng.below(self.harness.store.next_id().0));
        let store = &self.harness.store;
        let job = store.ids.find(id.0).map(|slot| &store.jobs[slot]);
        let holder = job.filter(|job| job.status() == Status::Reserved);
        let holder = match holder.map(|job| job.holder().kind()) {
            Some(HolderKind::Client(index)) => index,
            Some(HolderKind::Detached(_) | HolderKind::Token) | None => 1,
        };
        if self.worker(holder).is_some() && self.rng.one_in(2) {
            return self.return_or_reject(holder, id);
        }
        if self.rng.one_in(8) {
            let waits = self.harness.store.ids.find(id.0).is_some_and(|slot| {
                let job = &self.harness.store.jobs[slot];
                job.waits() && !job.is_expired_waiting(self.harness.now)
            });
            let answered = self.work(0, &WorkerCommand::Cancel { id });
            assert_eq!(answered == Outcome::Tracked(TrackedReply::Removed), waits, "{answered:?}");
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
        self.harness.apply(holder, &command);
    }

    /// A registered worker returns a job unstarted, or rejects it.
    fn return_or_reject(&mut self, holder: u32, id: JobId) {
        let Some(slot) = self.harness.store.ids.find(id.0) else { return };
        let (lease, exclude) = (self.harness.store.jobs[slot].lease(), self.rng.one_in(2));
        if self.rng.one_in(3) {
            let worker = self.worker(holder).unwrap();
            let error = Payload { encoding: Encoding::Json, bytes: b"1" };
            let report = RunOutcome::Rejected { error, message: "no", lease };
            let answered = self.work(holder, &WorkerCommand::Report { worker, id, report });
            self.refused += usize::from(answered == Outcome::Done);
            return;
        }
        let job = &self.harness.store.jobs[slot];
        let held = job.status() == Status::Reserved && job.has_holder(Holder::client(holder));
        if held && self.charged_revision.get(&id) == Some(&self.harness.store.constraints.revision)
        {
            self.returned += 1;
            for model in &mut self.models {
                if let Some(value) = model.value(&self.harness.store, slot) {
                    model.starts.push((self.harness.now.mono.0, value, true));
                }
            }
        }
        self.harness
            .apply(holder, &Command::Work(WorkerCommand::ReturnUnstarted { id, lease, exclude }));
    }

    fn step(&mut self) {
        match self.rng.below(20) {
            0 => self.change_constraints(),
            1..=6 => self.put(),
            7..=11 => self.reserve(),
            12..=16 => self.act_on_job(),
            17 => {
                let holder = u32::try_from(1 + self.rng.below(3)).unwrap();
                let gone = client(holder);
                self.waiting.retain(|(ticket, _)| ticket.client != gone);
                self.harness.fx.clear();
                self.harness.store.disconnect_client(gone, self.harness.now, &mut self.harness.fx);
                self.settle();
                self.attach(holder);
            }
            _ => {
                let passed = self.rng.below(12_000_000);
                let end = Mono(self.harness.now.mono.0 + passed);
                while let Some(at) = self.harness.store.next_deadline().filter(|&at| at <= end) {
                    self.harness.now.mono = at.max(self.harness.now.mono);
                    self.settle();
                }
                self.harness.now.mono = end;
            }
        }
        self.settle();
    }

    /// A job reserved by this client.
    fn held_by(&self, holder: u32) -> Option<JobId> {
        let mut jobs = self.harness.store.jobs.iter();
        let held = jobs.find(|(_, job)| {
            job.status() == Status::Reserved && job.has_holder(Holder::client(holder))
        });
        held.map(|(_, job)| JobId(job.id()))
    }

    /// Reserves and deletes all jobs, once no limit is 0.
    fn drain(&mut self) {
        for number in 0..self.models.len() {
            let model = &mut self.models[number].constraint;
            if model.max_running == Some(0) {
                model.max_running = Some(1);
                let constraint = model.clone();
                self.harness.set_constraint(&constraint);
                self.settle();
            }
        }
        for holder in 1..=3 {
            self.waiting.clear();
            self.harness.fx.clear();
            self.harness.store.disconnect_client(
                client(holder),
                self.harness.now,
                &mut self.harness.fx,
            );
            self.settle();
        }
        for _ in 0..20_000 {
            self.reserve_without_wait(1, &QUEUES);
            self.settle();
            if let Some(id) = self.held_by(1) {
                self.harness.delete(id);
                self.settle();
                continue;
            }
            let Some(at) = self.harness.store.next_deadline() else { break };
            self.harness.now.mono = at;
            self.settle();
        }
        let left = self.harness.store.jobs.iter();
        let left: Vec<Status> = left.map(|(_, job)| job.status()).collect();
        assert!(left.iter().all(|&status| status == Status::Buried), "{left:?} never ended");
    }
}

fn simulate(seeds: Range<u64>, tight_budget: bool) -> usize {
    let (mut started, mut returned, mut refused, mut deferred) = (0, 0, 0, 0);
    for seed in seeds {
        let mut oracle = Oracle::new(seed, tight_budget);
        for _ in 0..3 {
            oracle.change_constraints();
            oracle.settle();
        }
        for _ in 0..200 {
            oracle.step();
        }
        oracle.drain();
        started += oracle.started;
        returned += oracle.returned;
        refused += oracle.refused;
        deferred += oracle.deferred;
    }
    assert!(started > 1_500, "only {started} jobs were started");
    assert!(returned > 30, "only {returned} jobs were given back in time");
    assert!(refused > 30, "only {refused} jobs were refused");
    deferred
}

#[test]
fn random_commands_agree_with_the_oracle() {
    assert_eq!(simulate(0..50, false), 0);
}

#[test]
fn random_commands_with_tight_budget_miss_no_job() {
    let deferred = simulate(0..50, true);
    assert!(deferred > 30, "only {deferred} takes were answered later");
}
