//! Waiting reserves in the store: the cost of matching or cancelling one of many waiters, and of
//! one that waits in many queues.
//!
//! One operation of `serve` is a put that a waiting client gets, its delete, and the client's next
//! wait; of `cancel`, one cancelled wait and a new one. `serve_without_waiting` is the same with a
//! reserve that finds the job.

use crate::{NOW, ROUND, sized};
use divan::Bencher;
use jobcentre::base::rng::Rng;
use jobcentre::base::slab::SlabKey;
use jobcentre::base::strings::StringList;
use jobcentre::model::command::{Command, Wait};
use jobcentre::model::id::{JobId, Ticket};
use jobcentre::model::job::{Encoding, Payload, Priority, TieBreak};
use jobcentre::store::{Effects, Outcome, Store};
use std::fmt;

#[derive(Clone, Copy)]
struct Case {
    waiters: usize,
    queues: usize,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} waiters, {} queues", self.waiters, self.queues)
    }
}

fn cases() -> impl Iterator<Item = Case> {
    let of = |waiters| [1, 100].map(|queues| Case { waiters, queues });
    [1, 1_000, 10_000].into_iter().flat_map(of)
}

/// A store, waiting clients, and client 0, which puts.
struct Crowd {
    store: Store,
    effects: Effects,
    names: StringList,
    serials: Vec<u32>,
    next_id: u64,
}

const JOB: Payload<'static> =
    Payload { encoding: Encoding::Json, bytes: b"{\"n\":12345,\"data\":\"as long as many jobs\"}" };

impl Crowd {
    fn new(case: Case) -> Self {
        let mut names = StringList::default();
        for queue in 0..case.queues {
            names.push(format!("queue{queue}").as_bytes());
        }
        let waiters = sized(case.waiters);
        let mut crowd = Self {
            store: Store::new(1),
            effects: Effects::default(),
            names,
            serials: vec![0; waiters + 1],
            next_id: 1,
        };
        for client in 1..=waiters {
            crowd.wait(client);
        }
        crowd
    }

    /// Hands a command over and returns the last outcome, which is the client's own unless a waiter
    /// was served.
    fn apply(&mut self, client: usize, command: &Command<'_>) -> Option<(Ticket, Outcome)> {
        let ticket = ticket(client, self.serials[client]);
        self.store.apply(ticket, command, NOW, &mut self.effects);
        let last = self.effects.outcomes.pop();
        self.effects.outcomes.clear();
        last
    }

    fn wait(&mut self, client: usize) {
        self.serials[client] += 1;
        let names = std::mem::take(&mut self.names);
        let outcome =
            self.apply(client, &Command::Reserve { queues: names.from(0), wait: Wait::Forever });
        assert!(outcome.is_none());
        self.names = names;
    }

    /// Puts a job; returns the waiter that got it, if there was one.
    fn put(&mut self) -> Option<usize> {
        let priority = Priority::Small(7);
        let tie_break = TieBreak::Fifo;
        self.next_id += 1;
        match self.apply(
            0,
            &Command::Put { queue: b"queue0", priority, tie_break, payload: JOB, options: None },
        ) {
            Some((ticket, Outcome::Job(_))) => Some(ticket.client.index as usize),
            _ => None,
        }
    }

    /// Deletes the job that was put last.
    fn delete(&mut self, client: usize) {
        let id = JobId(self.next_id - 1);
        let outcome = self.apply(client, &Command::Delete { id });
        assert!(matches!(outcome, Some((_, Outcome::Done))));
    }

    fn cancel(&mut self, client: usize) {
        self.store.cancel(ticket(client, self.serials[client]), &mut self.effects);
        let (_, outcome) = self.effects.outcomes.pop().expect("the client waits");
        assert_eq!(outcome, Outcome::Cancelled);
    }
}

fn ticket(client: usize, serial: u32) -> Ticket {
    let index = u32::try_from(client).expect("a small number");
    Ticket { client: SlabKey { index, generation: 1 }, serial }
}

#[divan::bench(args = cases())]
fn serve(bencher: Bencher, case: Case) {
    let mut crowd = Crowd::new(case);
    bencher.bench_local(|| {
        for _ in 0..ROUND {
            let client = crowd.put().expect("there is a waiter");
            crowd.delete(client);
            crowd.wait(client);
        }
    });
}

#[divan::bench(args = [1, 100])]
fn serve_without_waiting(bencher: Bencher, queues: usize) {
    let mut crowd = Crowd::new(Case { waiters: 1, queues });
    crowd.cancel(1);
    let names = std::mem::take(&mut crowd.names);
    bencher.bench_local(|| {
        for _ in 0..ROUND {
            assert_eq!(crowd.put(), None);
            let taken = crowd.apply(1, &Command::Reserve { queues: names.from(0), wait: Wait::No });
            assert!(matches!(taken, Some((_, Outcome::Job(_)))));
            crowd.delete(1);
        }
    });
}

#[divan::bench(args = cases())]
fn cancel(bencher: Bencher, case: Case) {
    let mut crowd = Crowd::new(case);
    let mut rng = Rng::new(5);
    let waiters = crowd.serials.len() as u64 - 1;
    bencher.bench_local(|| {
        for _ in 0..ROUND {
            let client = 1 + usize::try_from(rng.below(waiters)).expect("a small number");
            crowd.cancel(client);
            crowd.wait(client);
        }
    });
}
