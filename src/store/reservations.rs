//! Who holds which jobs, and which takes of a client wait: two lists to a client, both linked
//! through the things themselves, so that holding costs no memory beyond the job.
//!
//! A client may act for a worker of the list; then what it holds is the worker's. What is held by a
//! worker for whom nobody acts is in a list of the worker's own.
//!
//! Invariant: a record belongs to the client of its generation; of anybody else it says nothing.

use super::jobs::{Job, Jobs, NONE};
use super::waiters::Waiters;
use crate::model::id::{ClientId, Ticket};

#[derive(Clone, Copy, Debug)]
struct ClientEntry {
    generation: u32,
    job: u32,
    waiter: u32,
    /// The place of the worker for whom the client acts.
    worker: u32,
}

const VACANT: ClientEntry = ClientEntry { generation: 0, job: NONE, waiter: NONE, worker: NONE };

/// Marks the place of a worker where a client's index would stand: clients are far fewer.
const DETACHED: u32 = 1 << 31;

/// Records of clients by their index.
#[derive(Debug, Default)]
pub(super) struct Reservations {
    records: Vec<ClientEntry>,
    /// The first job of each worker for whom nobody acts, by the worker's place.
    detached_heads: Vec<u32>,
}

impl Reservations {
    /// The record of `client`, made if need be. O(1) amortised.
    fn record(&mut self, client: ClientId) -> &mut ClientEntry {
        let index = client.index as usize;
        if index >= self.records.len() {
            self.records.resize(index + 1, VACANT);
        }
        let record = &mut self.records[index];
        if record.generation != client.generation {
            assert!(
                record.job == NONE && record.waiter == NONE && record.worker == NONE,
                "a client ended without being forgotten"
            );
            record.generation = client.generation;
        }
        record
    }

    fn known(&self, client: ClientId) -> Option<&ClientEntry> {
        let record = self.records.get(client.index as usize)?;
        (record.generation == client.generation).then_some(record)
    }

    /// Whether `client` holds `job`, which somebody does.
    pub(super) fn holds(&self, client: ClientId, job: &Job) -> bool {
        job.holder == client.index && self.known(client).is_some()
    }

    /// Adds a job to those that `client` holds. O(1).
    #[inline(always)]
    pub(super) fn link(&mut self, client: ClientId, slot: u32, jobs: &mut Jobs) {
        let record = self.record(client);
        let next = std::mem::replace(&mut record.job, slot);
        let job = &mut jobs[slot];
        (job.holder, job.place, job.next) = (client.index, NONE, next);
        if next != NONE {
            jobs[next].place = slot;
        }
    }

    /// Adds a job to those of the worker at `place`, for whom nobody acts. O(1) amortised.
    pub(super) fn link_detached(&mut self, place: u32, slot: u32, jobs: &mut Jobs) {
        let index = place as usize;
        if index >= self.detached_heads.len() {
            self.detached_heads.resize(index + 1, NONE);
        }
        let next = std::mem::replace(&mut self.detached_heads[index], slot);
        let job = &mut jobs[slot];
        (job.holder, job.place, job.next) = (DETACHED | place, NONE, next);
        if next != NONE {
            jobs[next].place = slot;
        }
    }

    /// One of the jobs of the worker at `place`, if nobody acts for it. O(1).
    pub(super) fn first_detached(&self, place: u32) -> Option<u32> {
        self.detached_heads.get(place as usize).copied().filter(|&slot| slot != NONE)
    }

    /// The place of the worker for whom `client` acts. O(1).
    pub(super) fn worker_of(&self, client: ClientId) -> Option<u32> {
        self.known(client).map(|record| record.worker).filter(|&place| place != NONE)
    }

    /// Lets `client` act for the worker at `place`, or for none. O(1) amortised.
    pub(super) fn set_worker(&mut self, client: ClientId, place: Option<u32>) {
        self.record(client).worker = place.unwrap_or(NONE);
    }

    /// Takes a job from its holder. O(1).
    pub(super) fn unlink(&mut self, slot: u32, jobs: &mut Jobs) {
        let job = &mut jobs[slot];
        let (previous, next, holder) = (job.place, job.next, job.holder);
        (job.holder, job.place, job.next) = (NONE, NONE, NONE);
        if previous == NONE {
            let first = match holder & DETACHED {
                0 => &mut self.records[holder as usize].job,
                _ => &mut self.detached_heads[(holder ^ DETACHED) as usize],
            };
            assert!(*first == slot, "a held job is not in its holder's list");
            *first = next;
        } else {
            jobs[previous].next = next;
        }
        if next != NONE {
            jobs[next].place = previous;
        }
    }

    /// One of the jobs that `client` holds. O(1).
    pub(super) fn first_job(&self, client: ClientId) -> Option<u32> {
        self.known(client).map(|record| record.job).filter(|&slot| slot != NONE)
    }

    /// One of the takes of `client` that wait. O(1).
    pub(super) fn first_waiter(&self, client: ClientId) -> Option<u32> {
        self.known(client).map(|record| record.waiter).filter(|&waiter| waiter != NONE)
    }

    /// The waiting take with this ticket, if it waits. O(takes of the client that wait).
    pub(super) fn waiter(&self, ticket: Ticket, waiters: &Waiters) -> Option<u32> {
        let mut waiter = self.first_waiter(ticket.client)?;
        while waiters[waiter].ticket != ticket {
            waiter = Some(waiters[waiter].next).filter(|&next| next != NONE)?;
        }
        Some(waiter)
    }

    /// Adds a take to those of `client` that wait. O(1).
    #[inline(always)]
    pub(super) fn add_waiter(&mut self, client: ClientId, waiter: u32, waiters: &mut Waiters) {
        let record = self.record(client);
        let next = std::mem::replace(&mut record.waiter, waiter);
        (waiters[waiter].previous, waiters[waiter].next) = (NONE, next);
        if next != NONE {
            waiters[next].previous = waiter;
        }
    }

    /// Takes a waiting take from its client. O(1).
    pub(super) fn remove_waiter(&mut self, waiter: u32, waiters: &mut Waiters) {
        let (previous, next) = (waiters[waiter].previous, waiters[waiter].next);
        if previous == NONE {
            let client = waiters[waiter].ticket.client;
            self.records[client.index as usize].waiter = next;
        } else {
            waiters[previous].next = next;
        }
        if next != NONE {
            waiters[next].previous = previous;
        }
    }

    /// The client is gone and holds nothing any more.
    pub(super) fn end(&mut self, client: ClientId) {
        if self.known(client).is_some() {
            let record = &mut self.records[client.index as usize];
            let nothing = record.job == NONE && record.waiter == NONE && record.worker == NONE;
            assert!(nothing, "an ended client holds something");
            *record = VACANT;
        }
    }

    /// The jobs in the list of client number `index`. O(jobs held).
    pub(super) fn jobs_of(&self, index: u32, jobs: &Jobs) -> Vec<u32> {
        let first = self.records.get(index as usize).map_or(NONE, |record| record.job);
        Self::list(first, jobs)
    }

    /// The jobs of the worker at `place`, if nobody acts for it. O(jobs held).
    pub(super) fn jobs_detached(&self, place: u32, jobs: &Jobs) -> Vec<u32> {
        Self::list(self.detached_heads.get(place as usize).copied().unwrap_or(NONE), jobs)
    }

    fn list(first: u32, jobs: &Jobs) -> Vec<u32> {
        let follow = |&slot: &u32| Some(jobs[slot].next).filter(|&next| next != NONE);
        std::iter::successors(Some(first).filter(|&slot| slot != NONE), follow).collect()
    }

    /// The holder that the jobs of the worker at `place` have when nobody acts for it.
    pub(super) fn detached_holder(place: u32) -> u32 {
        DETACHED | place
    }

    /// How many clients there are records for, for checks.
    pub(super) fn len(&self) -> usize {
        self.records.len()
    }
}
