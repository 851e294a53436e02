//! Reserved jobs and waiters of each client: two lists per client, linked through the jobs and
//! waiters, so that a reservation costs no memory beyond the job.
//!
//! A client may be attached to a registered worker; its reservations are then the worker's.
//! Reservations of a worker without a client (*detached*) are in a list of the worker.
//!
//! Invariant: an entry belongs to the client with its generation; of other generations it says
//! nothing.

use super::idx::{WaiterIdx, WorkerIdx};
use super::jobs::{Job, Jobs, NONE};
use super::waiters::Waiters;
use crate::base::slab_index::{PackedOption, SlabIndex};
use crate::model::id::{ClientId, Ticket};
use crate::model::job::Status;

#[derive(Clone, Copy, Debug)]
struct ClientEntry {
    generation: u32,
    job: u32,
    waiter: PackedOption<WaiterIdx>,
    /// The worker to which the client is attached.
    worker: PackedOption<WorkerIdx>,
}

const VACANT: ClientEntry = ClientEntry {
    generation: 0,
    job: NONE,
    waiter: PackedOption::NONE,
    worker: PackedOption::NONE,
};

/// The lists of all clients, by the client's index.
#[derive(Debug, Default)]
pub(super) struct Reservations {
    records: Vec<ClientEntry>,
    /// The first job of each detached worker, by the worker's slot.
    detached_heads: Vec<u32>,
}

impl Reservations {
    /// Marks a worker's slot in `Job::holder`, where otherwise a client's index is. Both are
    /// smaller.
    pub(super) const DETACHED: u32 = 1 << 31;

    /// The entry of `client`, made if there is none. O(1) amortised.
    fn record(&mut self, client: ClientId) -> &mut ClientEntry {
        let index = client.index as usize;
        if index >= self.records.len() {
            self.records.resize(index + 1, VACANT);
        }
        let record = &mut self.records[index];
        if record.generation != client.generation {
            assert!(
                record.job == NONE && record.waiter.is_none() && record.worker.is_none(),
                "an earlier client with this index still has entries"
            );
            record.generation = client.generation;
        }
        record
    }

    fn known(&self, client: ClientId) -> Option<&ClientEntry> {
        let record = self.records.get(client.index as usize)?;
        (record.generation == client.generation).then_some(record)
    }

    /// Whether `client` has reserved `job`, which is reserved.
    pub(super) fn holds(&self, client: ClientId, job: &Job) -> bool {
        job.holder == client.index && self.known(client).is_some()
    }

    /// Adds a job to the client's list. O(1).
    #[inline(always)]
    pub(super) fn link(&mut self, client: ClientId, slot: u32, jobs: &mut Jobs) {
        debug_assert_eq!(jobs[slot].status, Status::Reserved, "only reserved jobs are in a list");
        let record = self.record(client);
        let next = std::mem::replace(&mut record.job, slot);
        let job = &mut jobs[slot];
        (job.holder, job.place, job.next) = (client.index, NONE, next);
        if next != NONE {
            jobs[next].place = slot;
        }
    }

    /// Adds a job to the list of the detached worker at `place`. O(1) amortised.
    pub(super) fn link_detached(&mut self, place: WorkerIdx, slot: u32, jobs: &mut Jobs) {
        debug_assert_eq!(jobs[slot].status, Status::Reserved, "only reserved jobs are in a list");
        let index = place.slot() as usize;
        if index >= self.detached_heads.len() {
            self.detached_heads.resize(index + 1, NONE);
        }
        let next = std::mem::replace(&mut self.detached_heads[index], slot);
        let job = &mut jobs[slot];
        (job.holder, job.place, job.next) = (Self::detached_holder(place), NONE, next);
        if next != NONE {
            jobs[next].place = slot;
        }
    }

    /// One of the jobs of the worker at `place`, if it is detached. O(1).
    pub(super) fn first_detached(&self, place: WorkerIdx) -> Option<u32> {
        self.detached_heads.get(place.slot() as usize).copied().filter(|&slot| slot != NONE)
    }

    /// The worker to which `client` is attached. O(1).
    pub(super) fn worker_of(&self, client: ClientId) -> Option<WorkerIdx> {
        self.known(client)?.worker.expand()
    }

    /// Sets the worker of `client`, or none. O(1) amortised.
    pub(super) fn set_worker(&mut self, client: ClientId, place: Option<WorkerIdx>) {
        self.record(client).worker = place.into();
    }

    /// Takes a reserved job out of its list. O(1).
    pub(super) fn unlink(&mut self, slot: u32, jobs: &mut Jobs) {
        let job = &mut jobs[slot];
        let (previous, next, holder) = (job.place, job.next, job.holder);
        (job.holder, job.place, job.next) = (NONE, NONE, NONE);
        if previous == NONE {
            let first = match holder & Self::DETACHED {
                0 => &mut self.records[holder as usize].job,
                _ => &mut self.detached_heads[(holder ^ Self::DETACHED) as usize],
            };
            assert!(*first == slot, "a reserved job is not in its client's list");
            *first = next;
        } else {
            jobs[previous].next = next;
        }
        if next != NONE {
            jobs[next].place = previous;
        }
    }

    /// One of the jobs that `client` has reserved. O(1).
    pub(super) fn first_job(&self, client: ClientId) -> Option<u32> {
        self.known(client).map(|record| record.job).filter(|&slot| slot != NONE)
    }

    /// One of the waiters of `client`. O(1).
    pub(super) fn first_waiter(&self, client: ClientId) -> Option<WaiterIdx> {
        self.known(client)?.waiter.expand()
    }

    /// The waiter with this ticket. O(waiters of the client).
    pub(super) fn waiter(&self, ticket: Ticket, waiters: &Waiters) -> Option<WaiterIdx> {
        let mut waiter = self.first_waiter(ticket.client)?;
        while waiters[waiter].ticket != ticket {
            waiter = waiters[waiter].next.expand()?;
        }
        Some(waiter)
    }

    /// Adds a waiter to the client's list. O(1).
    #[inline(always)]
    pub(super) fn add_waiter(
        &mut self,
        client: ClientId,
        waiter: WaiterIdx,
        waiters: &mut Waiters,
    ) {
        let record = self.record(client);
        let next = std::mem::replace(&mut record.waiter, waiter.into());
        (waiters[waiter].previous, waiters[waiter].next) = (PackedOption::NONE, next);
        if let Some(next) = next.expand() {
            waiters[next].previous = waiter.into();
        }
    }

    /// Takes a waiter out of its client's list. O(1).
    pub(super) fn remove_waiter(&mut self, waiter: WaiterIdx, waiters: &mut Waiters) {
        let (previous, next) = (waiters[waiter].previous, waiters[waiter].next);
        match previous.expand() {
            None => {
                let client = waiters[waiter].ticket.client;
                self.records[client.index as usize].waiter = next;
            }
            Some(previous) => waiters[previous].next = next,
        }
        if let Some(next) = next.expand() {
            waiters[next].previous = previous;
        }
    }

    /// Drops the entry of a client that has no reservations and waiters any more.
    pub(super) fn end(&mut self, client: ClientId) {
        if self.known(client).is_some() {
            let record = &mut self.records[client.index as usize];
            let empty = record.job == NONE && record.waiter.is_none() && record.worker.is_none();
            assert!(empty, "an ended client still has entries");
            *record = VACANT;
        }
    }

    /// The jobs in the list of the client with this index. O(jobs in the list).
    pub(super) fn jobs_of(&self, index: u32, jobs: &Jobs) -> Vec<u32> {
        let first = self.records.get(index as usize).map_or(NONE, |record| record.job);
        Self::list(first, jobs)
    }

    /// The jobs of the worker at `place`, if it is detached. O(jobs in the list).
    pub(super) fn jobs_detached(&self, place: WorkerIdx, jobs: &Jobs) -> Vec<u32> {
        Self::list(self.detached_heads.get(place.slot() as usize).copied().unwrap_or(NONE), jobs)
    }

    fn list(first: u32, jobs: &Jobs) -> Vec<u32> {
        let follow = |&slot: &u32| Some(jobs[slot].next).filter(|&next| next != NONE);
        std::iter::successors(Some(first).filter(|&slot| slot != NONE), follow).collect()
    }

    /// The value of `Job::holder` for jobs of the detached worker at `place`.
    pub(super) fn detached_holder(place: WorkerIdx) -> u32 {
        Self::DETACHED | place.slot()
    }

    /// The number of entries. For checks.
    pub(super) fn len(&self) -> usize {
        self.records.len()
    }
}
