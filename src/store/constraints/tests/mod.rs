//! Tests of constraints: what they block, and the cost in steps.

mod budgets;
mod constraint_model;
mod eligibility;
mod large;
mod lifecycle;
mod oracle;
mod order;

use crate::base::strings::StringList;
use crate::base::time::{Mono, Now, Wall};
use crate::model::command::{Command, Wait};
use crate::model::id::{ClientId, JobId, Ticket};
use crate::model::job::{Encoding, JobOptions, Payload, Priority, TieBreak};
use crate::model::worker::{Compare, Condition, Constraint, Path, Rate, Scalar, WorkerCommand};
use crate::store::{Effects, Outcome, Store};

/// A store, the time, and the serial of the next ticket.
struct Harness {
    store: Store,
    fx: Effects,
    now: Now,
    serial: u32,
}

fn client(index: u32) -> ClientId {
    ClientId { index, generation: 1 }
}

fn names(queues: &[&str]) -> StringList {
    let mut names = StringList::default();
    for queue in queues {
        names.push(queue.as_bytes());
    }
    names
}

fn ms(ms: u64) -> Now {
    Now { mono: Mono(ms * 1_000_000), wall: Wall(1_700_000_000_000 + ms) }
}

impl Harness {
    fn new() -> Self {
        Self { store: Store::new(7), fx: Effects::default(), now: ms(1), serial: 0 }
    }

    fn ticket(&mut self, index: u32) -> Ticket {
        self.serial += 1;
        Ticket { client: client(index), serial: self.serial }
    }

    /// Executes a command and returns its outcomes.
    fn apply(&mut self, index: u32, command: &Command<'_>) -> Vec<(Ticket, Outcome)> {
        let ticket = self.ticket(index);
        self.fx.clear();
        self.store.apply(ticket, command, self.now, &mut self.fx);
        self.fx.outcomes.clone()
    }

    fn put_with(
        &mut self,
        queue: &str,
        priority: i64,
        json: &str,
        options: Option<&JobOptions>,
    ) -> JobId {
        let put = Command::Put {
            queue: queue.as_bytes(),
            priority: Priority::Small(priority),
            tie_break: TieBreak::Fifo,
            payload: Payload { encoding: Encoding::Json, bytes: json.as_bytes() },
            options,
        };
        match self.apply(0, &put)[0] {
            (_, Outcome::Put(id)) => id,
            other => panic!("{other:?}"),
        }
    }

    fn put(&mut self, queue: &str, json: &str) -> JobId {
        self.put_with(queue, 0, json, None)
    }

    /// Reserves without wait: the job, if there is one.
    fn reserve(&mut self, index: u32, queues: &[&str]) -> Option<JobId> {
        let names = names(queues);
        let reserve = Command::Reserve { queues: names.from(0), wait: Wait::No };
        let outcomes = self.apply(index, &reserve);
        match outcomes[0].1 {
            Outcome::Job(slot) => Some(self.store.view(slot).id),
            Outcome::NoJob => None,
            other => panic!("{other:?}"),
        }
    }

    /// Reserves and waits forever; returns the jobs reserved at once.
    fn wait(&mut self, index: u32, queue: &str) -> Vec<(Ticket, JobId)> {
        let names = names(&[queue]);
        self.apply(index, &Command::Reserve { queues: names.from(0), wait: Wait::Forever });
        self.jobs()
    }

    /// The jobs reserved by the last call.
    fn jobs(&self) -> Vec<(Ticket, JobId)> {
        let each = self.fx.outcomes.iter().filter_map(|&(ticket, outcome)| match outcome {
            Outcome::Job(slot) => Some((ticket, self.store.view(slot).id)),
            _ => None,
        });
        each.collect()
    }

    fn delete(&mut self, id: JobId) -> Vec<(Ticket, Outcome)> {
        self.apply(0, &Command::Delete { id })
    }

    fn release(&mut self, index: u32, id: JobId) {
        self.apply(index, &Command::Release { id, lease: None });
    }

    /// The answer, if it is in force at once.
    fn set_constraint(&mut self, constraint: &Constraint) -> Option<Outcome> {
        let set = WorkerCommand::SetConstraint(constraint);
        self.apply(0, &Command::Work(set)).last().map(|&(_, outcome)| outcome)
    }

    /// The answer, if it is in force at once.
    fn remove_constraint(&mut self, name: &str) -> Option<Outcome> {
        let remove = WorkerCommand::RemoveConstraint { name };
        self.apply(0, &Command::Work(remove)).last().map(|&(_, outcome)| outcome)
    }

    /// Advances the time to `end` and fires each deadline at its moment.
    fn advance_to(&mut self, end: Now) {
        while let Some(at) = self.store.next_deadline().filter(|&at| at <= end.mono) {
            let passed = Mono(at.0.max(self.now.mono.0)).0 - self.now.mono.0;
            self.now.mono = Mono(self.now.mono.0 + passed);
            self.fx.clear();
            self.store.expire(64, self.now, &mut self.fx);
        }
        self.now = Now { mono: end.mono.max(self.now.mono), wall: end.wall };
    }

    fn settle(&mut self) {
        self.advance_to(self.now);
    }

    /// Constraint steps taken by `work`.
    fn steps<T>(&mut self, work: impl FnOnce(&mut Self) -> T) -> (u64, T) {
        let before = self.store.constraints.steps;
        let result = work(self);
        (self.store.constraints.steps - before, result)
    }
}

fn argument(path: &str) -> Path {
    Path::Argument(path.split('.').map(Into::into).collect())
}

/// A constraint on all jobs of queues whose name matches.
fn on(name: &str, queues: &str) -> Constraint {
    let values = vec![Scalar::Text(queues.into())];
    let matcher = vec![Condition { path: Path::Name, op: Compare::Equal, values }];
    Constraint { name: name.into(), matcher, max_running: None, rate: None, per: None }
}

impl Constraint {
    fn running(self, most: u32) -> Self {
        Self { max_running: Some(most), ..self }
    }

    fn rate(self, count: u32, period_ms: u64, burst: u32) -> Self {
        Self { rate: Some(Rate { count, period_ms, burst }), ..self }
    }

    fn per(self, path: &str) -> Self {
        Self { per: Some(argument(path)), ..self }
    }
}
