//! F4: engines carry out commands. *Everything is op to exactly one completion.*
//!
//! The contract, whatever the engine:
//! - [`Engine::submit`] takes a command; its ticket comes back once from
//!   [`Engine::poll_completion`], at once or after any number of passes. No caller may assume
//!   which.
//! - After each call that changes something, completions are polled until there are none: they
//!   borrow what they show from the engine, and are good until the next call.
//! - [`Engine::cancel`] makes a waiting take complete as `Reply::Cancelled`, unless its job is
//!   already on the way.
//! - [`Engine::forget`] ends a client: none of its tickets comes back, and what it held is ready
//!   again.
//! - [`Engine::expire`] lets time pass: jobs become ready, leases and waits end, some jobs go.
//! - [`Engine::commit`] ends a pass. An engine that keeps a journal answers only what is durable.

mod embedded;
mod record;

use crate::base::time::{Mono, Now};
use crate::model::command::Command;
use crate::model::id::{ClientId, Ticket};
use crate::model::reply::Completion;
use crate::store::Counts;
use embedded::Embedded;

/// The engines there are.
#[derive(Debug)]
pub enum Engine {
    /// The store in this process.
    Embedded(Embedded),
}

impl Engine {
    /// An engine over a store in memory. `seed` is entropy for its hashes.
    #[must_use]
    pub fn in_memory(seed: u64) -> Self {
        Self::Embedded(Embedded::new(seed))
    }

    /// Hands a command over.
    #[inline]
    pub fn submit(&mut self, ticket: Ticket, command: &Command<'_>, now: Now) {
        match self {
            Self::Embedded(engine) => engine.submit(ticket, command, now),
        }
    }

    /// Calls a take off, if it still waits.
    pub fn cancel(&mut self, ticket: Ticket, now: Now) {
        match self {
            Self::Embedded(engine) => engine.cancel(ticket, now),
        }
    }

    /// Ends a client.
    pub fn forget(&mut self, client: ClientId, now: Now) {
        match self {
            Self::Embedded(engine) => engine.forget(client, now),
        }
    }

    /// Handles a bounded number of things whose time has come; [`Engine::poll_timeout`] tells
    /// whether some are left.
    pub fn expire(&mut self, now: Now) {
        match self {
            Self::Embedded(engine) => engine.expire(now),
        }
    }

    /// Ends a pass.
    pub fn commit(&mut self, _now: Now) {
        match self {
            // In memory there is nothing to make durable.
            Self::Embedded(_) => {}
        }
    }

    /// The next completion, in the order in which things happened.
    #[inline(always)]
    pub fn poll_completion(&mut self) -> Option<Completion<'_>> {
        match self {
            Self::Embedded(engine) => engine.poll_completion(),
        }
    }

    /// When the engine wants [`Engine::expire`] and [`Engine::commit`] to be called at the latest.
    /// O(1), exact.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Mono> {
        match self {
            Self::Embedded(engine) => engine.next_deadline(),
        }
    }

    /// How much there is in the store.
    #[must_use]
    pub fn counts(&self) -> Counts {
        match self {
            Self::Embedded(engine) => engine.counts(),
        }
    }

    /// Asserts every invariant. O(everything): for tests and the simulator.
    pub fn check_invariants(&self) {
        match self {
            Self::Embedded(engine) => engine.check_invariants(),
        }
    }
}
