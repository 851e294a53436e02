//! The store in this process, in memory: what is submitted completes at once.

use crate::base::time::Now;
use crate::model::command::Command;
use crate::model::id::{ClientId, Ticket};
use crate::model::reply::{Completion, Reply};
use crate::store::{Counts, Effects, Outcome, Store};

/// The embedded engine.
#[derive(Debug)]
pub struct Embedded {
    store: Store,
    effects: Effects,
}

impl Embedded {
    pub(super) fn new(seed: u64) -> Self {
        Self { store: Store::new(seed), effects: Effects::default() }
    }

    #[inline]
    pub(super) fn submit(&mut self, ticket: Ticket, command: &Command<'_>, now: Now) {
        self.assert_drained();
        self.store.apply(ticket, command, now, &mut self.effects);
    }

    pub(super) fn cancel(&mut self, ticket: Ticket, _now: Now) {
        self.assert_drained();
        self.store.cancel(ticket, &mut self.effects);
    }

    pub(super) fn forget(&mut self, client: ClientId, _now: Now) {
        self.assert_drained();
        self.store.forget(client, &mut self.effects);
    }

    #[inline]
    pub(super) fn poll_completion(&mut self) -> Option<Completion<'_>> {
        let (ticket, outcome) = self.effects.outcomes.pop_front()?;
        let reply = match outcome {
            Outcome::Cancelled => Reply::Cancelled,
            Outcome::Done => Reply::Done,
            Outcome::Job(slot) => Reply::Job(self.store.view(slot)),
            Outcome::NoJob => Reply::NoJob,
            Outcome::Put(id) => Reply::Put(id),
            Outcome::Refused(refusal) => Reply::Refused(refusal),
        };
        Some(Completion { ticket, reply })
    }

    pub(super) fn counts(&self) -> Counts {
        self.store.counts()
    }

    pub(super) fn check_invariants(&self) {
        self.assert_drained();
        self.store.check_invariants();
    }

    fn assert_drained(&self) {
        assert!(self.effects.outcomes.is_empty(), "completions show what the next call may change");
    }
}
