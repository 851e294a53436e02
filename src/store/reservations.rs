//! Reserved jobs and waiters of each client: two lists per client, linked through the jobs and
//! waiters, so that a reservation costs no memory beyond the job.
//!
//! A client may be attached to a registered worker; its reservations are then the worker's.
//! Reservations of a worker without a client (*detached*) are in a list of the worker, and those
//! under tokens, which end with no client, in one list.
//!
//! When a worker is deregistered, its client's list may become the worker's in one step. Then the
//! jobs behind the head still name the client as their holder until they are the head: see
//! `disconnects`.
//!
//! Invariant: an entry belongs to the client with its generation; of other generations it says
//! nothing. The head of a worker's list names the worker as its holder.

use super::idx::{Holder, HolderKind, JobIdx, WaiterIdx, WorkerIdx};
use super::job::Job;
use super::jobs::Jobs;
use super::state_machine::Caller;
use super::waiters::Waiters;
use crate::base::slab_index::{PackedOption, SlabIndex};
use crate::model::id::{ClientId, Ticket};
use crate::model::job::{LeaseEpoch, Status};

#[derive(Clone, Copy, Debug)]
struct ClientEntry {
    generation: u32,
    job: PackedOption<JobIdx>,
    waiter: PackedOption<WaiterIdx>,
    /// The worker to which the client is attached.
    worker: PackedOption<WorkerIdx>,
}

const VACANT: ClientEntry = ClientEntry {
    generation: 0,
    job: PackedOption::NONE,
    waiter: PackedOption::NONE,
    worker: PackedOption::NONE,
};

/// The lists of all clients, by the client's index.
#[derive(Debug, Default)]
pub(super) struct Reservations {
    records: Vec<ClientEntry>,
    /// The first job of each detached worker, by the worker's slot.
    detached_heads: Vec<PackedOption<JobIdx>>,
    /// The first job that is reserved under a token.
    token_head: PackedOption<JobIdx>,
}

impl Reservations {
    /// The entry of `client`, made if there is none. O(1) amortised.
    fn record(&mut self, client: ClientId) -> &mut ClientEntry {
        let index = client.index as usize;
        if index >= self.records.len() {
            self.records.resize(index + 1, VACANT);
        }
        let record = &mut self.records[index];
        if record.generation != client.generation {
            assert!(
                record.job.is_none() && record.waiter.is_none() && record.worker.is_none(),
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

    /// Whether `client` has reserved `job`, if that is reserved. Of other jobs it says nothing.
    pub(super) fn is_holder(&self, client: ClientId, job: &Job) -> bool {
        job.has_holder(Holder::client(client.index)) && self.known(client).is_some()
    }

    /// Whether `client` has reserved `job`. O(1).
    pub(super) fn has_reserved(&self, client: ClientId, job: &Job) -> bool {
        job.status() == Status::Reserved && self.is_holder(client, job)
    }

    /// The client that has reserved a reserved job, if one has. O(1).
    pub(super) fn client_of(&self, job: &Job) -> Option<ClientId> {
        let HolderKind::Client(index) = job.holder().kind() else { return None };
        let generation = self.records.get(index as usize)?.generation;
        Some(ClientId { index, generation })
    }

    /// How `job`, if it is reserved, regards this client, which believes the present lease epoch to
    /// be `lease`. O(1).
    #[inline(always)]
    pub(super) fn caller(&self, client: ClientId, job: &Job, lease: Option<LeaseEpoch>) -> Caller {
        if !self.is_holder(client, job) {
            Caller::OtherClient
        } else if lease.is_some_and(|lease| lease != job.lease()) {
            Caller::FormerReserver
        } else {
            Caller::Reserver
        }
    }

    /// Adds a job to the client's list. O(1).
    #[inline(always)]
    pub(super) fn link(&mut self, client: ClientId, slot: JobIdx, jobs: &mut Jobs) {
        debug_assert_eq!(jobs[slot].status(), Status::Reserved, "only reserved jobs are in a list");
        debug_assert!(jobs[slot].token_lease().is_none(), "a job with a token is of no client");
        let record = self.record(client);
        let next = std::mem::replace(&mut record.job, slot.into());
        Self::link_first(slot, Holder::client(client.index), next, jobs);
    }

    /// Adds a job to the list of the detached worker at `place`. O(1) amortised.
    pub(super) fn link_detached(&mut self, place: WorkerIdx, slot: JobIdx, jobs: &mut Jobs) {
        debug_assert_eq!(jobs[slot].status(), Status::Reserved, "only reserved jobs are in a list");
        debug_assert!(jobs[slot].worker().is_some(), "a worker's list has jobs of workers");
        let next = std::mem::replace(self.detached_head(place), slot.into());
        Self::link_first(slot, Holder::detached(place), next, jobs);
    }

    fn detached_head(&mut self, place: WorkerIdx) -> &mut PackedOption<JobIdx> {
        let index = place.slot() as usize;
        if index >= self.detached_heads.len() {
            self.detached_heads.resize(index + 1, PackedOption::NONE);
        }
        &mut self.detached_heads[index]
    }

    /// Makes the client's list that of the worker at `place`, which has none. All but the first job
    /// still name the client as their holder. O(1) amortised.
    pub(super) fn move_to_worker(&mut self, client: ClientId, place: WorkerIdx, jobs: &mut Jobs) {
        let first = std::mem::take(&mut self.record(client).job);
        let head = self.detached_head(place);
        assert!(head.is_none(), "a worker with a client has a list of its own");
        *head = first;
        if let Some(first) = first.expand() {
            debug_assert!(
                jobs[first].has_holder(Holder::client(client.index))
                    && jobs.previous(first).is_none(),
                "the head of a client's list names the client, and none before it"
            );
            jobs[first].set_holder(Holder::detached(place));
        }
    }

    /// Adds a job to the list of those that are reserved under tokens. O(1).
    pub(super) fn link_token(&mut self, slot: JobIdx, jobs: &mut Jobs) {
        debug_assert_eq!(jobs[slot].status(), Status::Reserved, "only reserved jobs are in a list");
        debug_assert!(jobs[slot].token_lease().is_some(), "the list of tokens has jobs with one");
        let next = std::mem::replace(&mut self.token_head, slot.into());
        Self::link_first(slot, Holder::TOKEN, next, jobs);
    }

    /// The jobs that are reserved under tokens. O(jobs in the list): for checks.
    pub(super) fn jobs_under_tokens(&self, jobs: &Jobs) -> Vec<JobIdx> {
        Self::list(self.token_head.expand(), jobs)
    }

    /// Links the new head of a holder's list to the former one. O(1).
    #[inline(always)]
    fn link_first(slot: JobIdx, holder: Holder, next: PackedOption<JobIdx>, jobs: &mut Jobs) {
        let job = &mut jobs[slot];
        job.set_holder(holder);
        debug_assert!(job.next().is_none(), "a job is in one list of reserved jobs");
        job.set_next(next);
        jobs.set_previous(slot, PackedOption::NONE);
        if let Some(next) = next.expand() {
            debug_assert!(jobs.previous(next).is_none(), "the head of a list has none before it");
            debug_assert!(jobs[next].has_holder(holder), "the head of a list names its holder");
            jobs.set_previous(next, slot.into());
        }
    }

    /// One of the jobs of the worker at `place`, if it is detached. O(1).
    pub(super) fn first_detached(&self, place: WorkerIdx) -> Option<JobIdx> {
        self.detached_heads.get(place.slot() as usize)?.expand()
    }

    /// The worker to which `client` is attached. O(1).
    pub(super) fn worker_of(&self, client: ClientId) -> Option<WorkerIdx> {
        self.known(client)?.worker.expand()
    }

    /// Sets the worker of `client`, or none: [`Workers`](super::worker_registry::Workers) keeps the
    /// reverse. O(1) amortised.
    pub(super) fn set_worker(&mut self, client: ClientId, place: Option<WorkerIdx>) {
        let record = self.record(client);
        debug_assert!(
            place.is_none() || record.worker.is_none(),
            "a client is attached to one worker at most"
        );
        record.worker = place.into();
    }

    /// Takes a reserved job out of its list. O(1).
    pub(super) fn unlink(&mut self, slot: JobIdx, jobs: &mut Jobs) {
        let previous = jobs.previous(slot);
        let job = &mut jobs[slot];
        let (next, holder) = (job.next(), job.holder());
        job.clear_links();
        if let Some(previous) = previous.expand() {
            debug_assert!(
                jobs[previous].next() == slot.into(),
                "neighbours in a list of reserved jobs name each other"
            );
            jobs[previous].set_next(next);
        } else {
            let first = match holder.kind() {
                HolderKind::Client(index) => &mut self.records[index as usize].job,
                HolderKind::Detached(worker) => {
                    if let Some(next) = next.expand() {
                        jobs[next].set_holder(holder);
                    }
                    &mut self.detached_heads[worker.slot() as usize]
                }
                HolderKind::Token => &mut self.token_head,
            };
            assert!(*first == slot.into(), "a reserved job is not in its client's list");
            *first = next;
            debug_assert!(
                next.expand().is_none_or(|next| jobs[next].has_holder(holder)),
                "the new head of a list names its holder"
            );
        }
        if let Some(next) = next.expand() {
            debug_assert!(
                jobs.previous(next) == slot.into(),
                "neighbours in a list of reserved jobs name each other"
            );
            jobs.set_previous(next, previous);
        }
    }

    /// One of the jobs that `client` has reserved. O(1).
    pub(super) fn first_job(&self, client: ClientId) -> Option<JobIdx> {
        self.known(client)?.job.expand()
    }

    /// Whether `client` has reserved more than `count` jobs. O(count).
    pub(super) fn has_more_jobs(&self, client: ClientId, count: usize, jobs: &Jobs) -> bool {
        Self::has_more(self.first_job(client), count, jobs)
    }

    /// The same of the worker at `place`, if it is detached. O(count).
    pub(super) fn has_more_detached(&self, place: WorkerIdx, count: usize, jobs: &Jobs) -> bool {
        Self::has_more(self.first_detached(place), count, jobs)
    }

    fn has_more(first: Option<JobIdx>, count: usize, jobs: &Jobs) -> bool {
        std::iter::successors(first, |&slot| jobs[slot].next().expand()).nth(count).is_some()
    }

    /// One of the waiters of `client`. O(1).
    pub(super) fn first_waiter(&self, client: ClientId) -> Option<WaiterIdx> {
        self.known(client)?.waiter.expand()
    }

    /// The waiter with this ticket. O(waiters of the client).
    pub(super) fn waiter(&self, ticket: Ticket, waiters: &Waiters) -> Option<WaiterIdx> {
        let mut waiter = self.first_waiter(ticket.client)?;
        while waiters[waiter].ticket != ticket || waiters[waiter].is_paused() {
            waiter = waiters[waiter].next.expand()?;
        }
        Some(waiter)
    }

    /// The client's pop that is answered and kept. O(waiters of the client).
    pub(super) fn paused_pop(&self, client: ClientId, waiters: &Waiters) -> Option<WaiterIdx> {
        let first = self.first_waiter(client);
        let mut all = std::iter::successors(first, |&waiter| waiters[waiter].next.expand());
        all.find(|&waiter| waiters[waiter].is_paused())
    }

    /// Adds a waiter to the client's list. O(1).
    #[inline(always)]
    pub(super) fn add_waiter(
        &mut self,
        client: ClientId,
        waiter: WaiterIdx,
        waiters: &mut Waiters,
    ) {
        debug_assert_eq!(
            waiters[waiter].ticket.client, client,
            "a client's list has its own waiters"
        );
        debug_assert!(
            waiters[waiter].previous.is_none() && waiters[waiter].next.is_none(),
            "a waiter is in one client's list"
        );
        let record = self.record(client);
        let next = std::mem::replace(&mut record.waiter, waiter.into());
        (waiters[waiter].previous, waiters[waiter].next) = (PackedOption::NONE, next);
        if let Some(next) = next.expand() {
            debug_assert!(
                waiters[next].previous.is_none() && waiters[next].ticket.client == client,
                "the former head is a waiter of the client, with none before it"
            );
            waiters[next].previous = waiter.into();
        }
    }

    /// Takes a waiter out of its client's list. O(1).
    pub(super) fn remove_waiter(&mut self, waiter: WaiterIdx, waiters: &mut Waiters) {
        let (previous, next) = (waiters[waiter].previous, waiters[waiter].next);
        match previous.expand() {
            None => {
                let client = waiters[waiter].ticket.client;
                debug_assert_eq!(
                    self.first_waiter(client),
                    Some(waiter),
                    "the first waiter of a client is the head of its list"
                );
                self.records[client.index as usize].waiter = next;
            }
            Some(previous) => {
                debug_assert!(
                    waiters[previous].next == waiter.into(),
                    "neighbours in a list of waiters name each other"
                );
                waiters[previous].next = next;
            }
        }
        if let Some(next) = next.expand() {
            debug_assert!(
                waiters[next].previous == waiter.into(),
                "neighbours in a list of waiters name each other"
            );
            waiters[next].previous = previous;
        }
    }

    /// Drops the entry of a client that has no reservations and waiters any more.
    pub(super) fn end(&mut self, client: ClientId) {
        if self.known(client).is_some() {
            let record = &mut self.records[client.index as usize];
            let empty = record.job.is_none() && record.waiter.is_none() && record.worker.is_none();
            assert!(empty, "an ended client still has entries");
            *record = VACANT;
        }
    }

    /// The jobs in the list of the client with this index. O(jobs in the list).
    pub(super) fn jobs_of(&self, index: u32, jobs: &Jobs) -> Vec<JobIdx> {
        Self::list(self.records.get(index as usize).and_then(|record| record.job.expand()), jobs)
    }

    /// The jobs of the worker at `place`, if it is detached. O(jobs in the list).
    pub(super) fn jobs_detached(&self, place: WorkerIdx, jobs: &Jobs) -> Vec<JobIdx> {
        Self::list(self.first_detached(place), jobs)
    }

    fn list(first: Option<JobIdx>, jobs: &Jobs) -> Vec<JobIdx> {
        std::iter::successors(first, |&slot| jobs[slot].next().expand()).collect()
    }

    /// How many jobs a client has reserved, counted up to `most`. O(most).
    pub(super) fn count_of(&self, client: ClientId, most: usize, jobs: &Jobs) -> usize {
        let first = self.known(client).and_then(|record| record.job.expand());
        std::iter::successors(first, |&slot| jobs[slot].next().expand()).take(most).count()
    }

    /// The same of the worker at `place`, if it is detached. O(most).
    pub(super) fn count_of_detached(&self, place: WorkerIdx, most: usize, jobs: &Jobs) -> usize {
        let first = self.first_detached(place);
        std::iter::successors(first, |&slot| jobs[slot].next().expand()).take(most).count()
    }

    /// The number of entries. For checks.
    pub(super) fn len(&self) -> usize {
        self.records.len()
    }
}
