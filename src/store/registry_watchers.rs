//! Waiting requests of dispatchers for changes of the worker registry: for the next registrations,
//! and for the end of an attachment.

use super::reservations::Reservations;
use super::worker_registry::Workers;
use super::{Effects, Outcome};
use crate::model::id::{ClientId, Ticket};
use crate::model::owned::OwnedReply;
use crate::model::worker::WorkerId;
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

    /// Removes what a client that has ended waits for, unanswered. O(n).
    pub(super) fn disconnect_client(&mut self, client: ClientId) {
        self.registration.retain(|(ticket, _)| ticket.client != client);
        while self.take_detach(client).is_some() {}
    }

    /// Answers with the workers from this id on; if there are none, waits for the next one. O(log
    /// w), and O(bytes) for each worker of a page.
    pub(super) fn await_workers(
        &mut self,
        ticket: Ticket,
        from: WorkerId,
        workers: &Workers,
        fx: &mut Effects,
    ) {
        debug_assert!(!self.contains(ticket), "a ticket waits once");
        let page = workers.page(from);
        if page.is_empty() {
            self.registration.push((ticket, from));
        } else {
            fx.reply(ticket, OwnedReply::Workers(page));
        }
    }

    /// Answers the requests for which this registration is the first. O(requests).
    pub(super) fn notify_registration(
        &mut self,
        worker: WorkerId,
        workers: &Workers,
        fx: &mut Effects,
    ) {
        debug_assert!(workers.find(worker).is_some(), "the worker is registered");
        let waits = |&mut (_, from): &mut (Ticket, WorkerId)| from <= worker;
        for (ticket, from) in self.registration.extract_if(.., waits) {
            fx.reply(ticket, OwnedReply::Workers(workers.page(from)));
        }
    }

    /// Answers when the client is attached to no worker. O(log n).
    pub(super) fn await_detach(
        &mut self,
        ticket: Ticket,
        reservations: &Reservations,
        fx: &mut Effects,
    ) {
        if reservations.worker_of(ticket.client).is_some() {
            let is_new = self.detach.insert(ticket);
            debug_assert!(is_new, "a ticket waits once");
        } else {
            fx.answer(ticket, Outcome::Done);
        }
    }

    /// Answers the requests that wait for the end of the client's attachment. O(log n) each.
    pub(super) fn notify_detach(&mut self, client: ClientId, fx: &mut Effects) {
        while let Some(ticket) = self.take_detach(client) {
            fx.answer(ticket, Outcome::Done);
        }
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
