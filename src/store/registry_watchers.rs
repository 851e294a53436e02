//! Waiting requests of dispatchers for changes of the worker registry: for the next registrations,
//! and for the end of an attachment.

use super::{Effects, Outcome, Store};
use crate::base::limits::WORKERS_PER_PAGE;
use crate::base::strings::Strings;
use crate::base::time::Now;
use crate::model::command::Wait;
use crate::model::id::{ClientId, Ticket};
use crate::model::owned::OwnedReply;
use crate::model::worker::{OwnedWorker, WorkerId, WorkerReply};
use std::collections::BTreeSet;

/// Invariant: a client with a ticket in `detach` is attached to a worker.
#[derive(Debug, Default)]
pub(super) struct RegistryWatchers {
    /// Wait for a worker with this id or a later one. One for each server: searched in O(n).
    registration: Vec<(Ticket, WorkerId)>,
    /// Wait for the end of the attachment of their client.
    detach: BTreeSet<Ticket>,
}

impl RegistryWatchers {
    /// O(log n), and O(n) for those of registrations.
    pub(super) fn contains(&self, ticket: Ticket) -> bool {
        self.detach.contains(&ticket)
            || self.registration.iter().any(|&(waiting, _)| waiting == ticket)
    }

    /// Removes a ticket; whether it was there. As [`RegistryWatchers::contains`].
    pub(super) fn remove(&mut self, ticket: Ticket) -> bool {
        let found = self.contains(ticket);
        self.registration.retain(|&(waiting, _)| waiting != ticket);
        self.detach.remove(&ticket);
        found
    }

    /// Removes what a client without attachment has.
    #[inline]
    pub(super) fn disconnect_client(&mut self, client: ClientId) {
        self.registration.retain(|(ticket, _)| ticket.client != client);
    }

    /// Takes one ticket that waits for the end of the client's attachment. O(log n).
    fn take_detach(&mut self, client: ClientId) -> Option<Ticket> {
        let whole = Ticket { client, serial: 0 }..=Ticket { client, serial: u32::MAX };
        let ticket = *self.detach.range(whole).next()?;
        self.detach.remove(&ticket);
        Some(ticket)
    }

    /// The clients that wait for the end of their attachment. For checks.
    pub(super) fn attached(&self) -> impl Iterator<Item = ClientId> {
        self.detach.iter().map(|ticket| ticket.client)
    }
}

impl Store {
    /// O(log w), and O(bytes) for each worker of a page.
    pub(super) fn await_workers(&mut self, ticket: Ticket, from: WorkerId, fx: &mut Effects) {
        let page = self.worker_page(from);
        if page.is_empty() {
            self.registry_watchers.registration.push((ticket, from));
        } else {
            fx.reply(ticket, OwnedReply::Workers(page));
        }
    }

    fn worker_page(&self, from: WorkerId) -> Box<[OwnedWorker]> {
        let workers = self.workers.iter_from(from).filter_map(|(_, entry)| {
            let worker = entry.registered.as_ref()?;
            Some(OwnedWorker::new(entry.id, &worker.view()))
        });
        workers.take(WORKERS_PER_PAGE).collect()
    }

    /// Answers the requests for which this registration is the first. O(requests).
    pub(super) fn notify_registration(&mut self, worker: WorkerId, fx: &mut Effects) {
        let waits = |&mut (_, from): &mut (Ticket, WorkerId)| from <= worker;
        let tickets: Vec<_> = self.registry_watchers.registration.extract_if(.., waits).collect();
        for (ticket, from) in tickets {
            fx.reply(ticket, OwnedReply::Workers(self.worker_page(from)));
        }
    }

    /// O(log n).
    pub(super) fn await_detach(&mut self, ticket: Ticket, fx: &mut Effects) {
        if self.reservations.worker_of(ticket.client).is_some() {
            self.registry_watchers.detach.insert(ticket);
        } else {
            fx.answer(ticket, Outcome::Done);
        }
    }

    /// Answers the requests that wait for the end of the client's attachment. O(log n) each.
    pub(super) fn notify_detach(&mut self, client: ClientId, fx: &mut Effects) {
        while let Some(ticket) = self.registry_watchers.take_detach(client) {
            fx.answer(ticket, Outcome::Done);
        }
    }

    /// The same for a client that ends: they stay unanswered.
    pub(super) fn drop_detach(&mut self, client: ClientId) {
        while self.registry_watchers.take_detach(client).is_some() {}
    }

    /// Reserves a job for a worker, if the client is attached to it. As a reserve.
    #[inline(never)]
    pub(super) fn reserve_for(
        &mut self,
        ticket: Ticket,
        worker: WorkerId,
        queues: Option<Strings<'_>>,
        now: Now,
        fx: &mut Effects,
    ) {
        if self.worker_of(ticket.client) != Some(worker) {
            return fx.answer(ticket, Outcome::Worker(WorkerReply::NoWorker));
        }
        match queues {
            Some(queues) => self.reserve(ticket, queues, Wait::Forever, now, fx),
            None => self.reserve_any(ticket, now, fx),
        }
    }
}
