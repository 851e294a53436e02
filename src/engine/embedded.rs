//! The store in this process, in memory: what is submitted completes at once.

use super::query_scheduler::QueryScheduler;
use super::reply_for;
use crate::base::limits::EXPIRED_PER_PASS;
use crate::base::time::{Mono, Now};
use crate::model::command::Command;
use crate::model::id::{ClientId, Ticket};
use crate::model::reply::Completion;
use crate::model::stats::ServerStats;
use crate::store::{Counts, Effects, Store};

/// The embedded engine.
#[derive(Debug)]
pub struct Embedded {
    store: Store,
    effects: Effects,
    queries: QueryScheduler,
}

impl Embedded {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            store: Store::new(seed),
            effects: Effects::default(),
            queries: QueryScheduler::default(),
        }
    }

    #[inline(always)]
    pub(super) fn submit(&mut self, ticket: Ticket, command: &Command<'_>, now: Now) {
        self.effects.prepare();
        self.store.apply(ticket, command, now, &mut self.effects);
        if !self.effects.searches.is_empty() {
            self.queries.take(now, &mut self.effects);
        }
    }

    pub(super) fn cancel(&mut self, ticket: Ticket, _now: Now) {
        self.effects.prepare();
        self.store.cancel(ticket, &mut self.effects);
    }

    pub(super) fn disconnect_client(&mut self, client: ClientId, now: Now) {
        self.effects.prepare();
        self.store.disconnect_client(client, now, &mut self.effects);
        self.queries.forget(client, now);
    }

    pub(super) fn expire(&mut self, now: Now) {
        self.store.begin_pass();
        if self.next_deadline().is_some_and(|at| at <= now.mono) {
            self.effects.prepare();
            self.store.expire(EXPIRED_PER_PASS, now, &mut self.effects);
        }
    }

    /// Ends a pass: in memory there is nothing but queries that go on behind it.
    pub(super) fn commit(&mut self, now: Now) {
        if !self.queries.is_idle() {
            self.effects.prepare();
            self.queries.advance(&mut self.store, now, &mut self.effects);
        }
    }

    pub(super) fn queries(&mut self) -> &mut QueryScheduler {
        &mut self.queries
    }

    #[inline]
    fn next_deadline(&self) -> Option<Mono> {
        self.store.next_deadline()
    }

    /// When something is due next, in the store or among the queries.
    #[inline]
    pub(super) fn poll_timeout(&self) -> Option<Mono> {
        [self.next_deadline(), self.queries.poll_timeout()].into_iter().flatten().min()
    }

    #[inline(always)]
    pub(super) fn poll_completion(&mut self) -> Option<Completion<'_>> {
        let (ticket, outcome) = self.effects.next_outcome()?;
        Some(Completion { ticket, reply: reply_for(outcome, &self.store, &self.effects) })
    }

    pub(super) fn store(&self) -> &Store {
        &self.store
    }

    pub(super) fn counts(&self) -> Counts {
        self.store.counts()
    }

    pub(super) fn stats(&self, figures: &mut ServerStats) {
        figures.store = self.store.stats();
        figures.queries = self.queries.figures();
    }

    pub(super) fn check_invariants(&self) {
        self.effects.assert_drained();
        self.store.check_invariants();
        self.queries.check_invariants();
    }
}
