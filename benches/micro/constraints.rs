//! Constraints in the store: the cost of blocked jobs for other queues.
//!
//! One operation of `unrelated` is a put, a reserve and a delete in a queue that no constraint
//! selects: without constraints, with one that blocks no job, and with one that blocks 100,000
//! jobs. The last two should differ only by the cache misses of the larger store. One operation of
//! `held_back` is the end of a running job and the start of the next blocked one.

use crate::{NOW, ROUND, sized};
use divan::Bencher;
use jobcentre::base::strings::StringList;
use jobcentre::model::command::{Command, Wait};
use jobcentre::model::id::{ClientId, JobId, Ticket};
use jobcentre::model::job::{Encoding, Payload, Priority, TieBreak};
use jobcentre::model::worker::{Compare, Condition, Constraint, Path, Scalar, WorkerCommand};
use jobcentre::store::{Effects, Outcome, Store};
use std::fmt;

const PARKED: usize = 100_000;

#[derive(Clone, Copy)]
enum Case {
    Without,
    Idle,
    Parked,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Without => "no constraint",
            Self::Idle => "one that holds nothing back",
            Self::Parked => "one that holds 100,000 back",
        })
    }
}

const TICKET: Ticket = Ticket { client: ClientId { index: 1, generation: 1 }, serial: 1 };

const JOB: Payload<'static> =
    Payload { encoding: Encoding::Json, bytes: b"{\"n\":12345,\"data\":\"as long as many jobs\"}" };

struct Harness {
    store: Store,
    effects: Effects,
}

impl Harness {
    fn new(constrained: bool) -> Self {
        let mut harness = Self { store: Store::new(1), effects: Effects::default() };
        if constrained {
            let values = vec![Scalar::Text("held".into())];
            let matcher = vec![Condition { path: Path::Name, op: Compare::Equal, values }];
            let (name, max_running) = ("c".into(), Some(1));
            let constraint = Constraint { name, matcher, max_running, rate: None, per: None };
            harness.apply(&Command::Work(WorkerCommand::SetConstraint(&constraint)));
        }
        harness
    }

    fn apply(&mut self, command: &Command<'_>) -> Outcome {
        self.store.apply(TICKET, command, NOW, &mut self.effects);
        let outcome = self.effects.outcomes[0].1;
        self.effects.clear();
        outcome
    }

    fn put(&mut self, queue: &[u8]) -> JobId {
        let (priority, tie_break) = (Priority::Small(0), TieBreak::Fifo);
        match self.apply(&Command::Put { queue, priority, tie_break, payload: JOB, options: None })
        {
            Outcome::Put(id) => id,
            other => panic!("{other:?}"),
        }
    }

    fn take(&mut self, queue: &StringList) -> JobId {
        match self.apply(&Command::Reserve { queues: queue.from(0), wait: Wait::No }) {
            Outcome::Job(slot) => self.store.view(slot).id,
            other => panic!("{other:?}"),
        }
    }

    fn fill(&mut self, jobs: usize) {
        for _ in 0..=jobs {
            self.put(b"held");
        }
    }
}

fn name(name: &[u8]) -> StringList {
    let mut names = StringList::default();
    names.push(name);
    names
}

#[divan::bench(args = [Case::Without, Case::Idle, Case::Parked])]
fn unrelated(bencher: Bencher<'_, '_>, case: Case) {
    let mut harness = Harness::new(!matches!(case, Case::Without));
    if matches!(case, Case::Parked) {
        harness.fill(sized(PARKED));
    }
    let queue = name(b"free");
    bencher.bench_local(|| {
        for _ in 0..ROUND {
            harness.put(b"free");
            let id = harness.take(&queue);
            harness.apply(&Command::Delete { id });
        }
    });
}

#[divan::bench(args = [1_000, PARKED])]
fn held_back(bencher: Bencher<'_, '_>, jobs: usize) {
    let mut harness = Harness::new(true);
    harness.fill(sized(jobs));
    let queue = name(b"held");
    let mut held = harness.take(&queue);
    bencher.bench_local(|| {
        for _ in 0..ROUND {
            harness.apply(&Command::Delete { id: held });
            harness.put(b"held");
            held = harness.take(&queue);
        }
    });
}
