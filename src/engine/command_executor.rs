//! The seam between the server and its engine: what the server asks of it.
//!
//! The contract is that of the module [`engine`](super): callers act on completions only. The
//! server is generic over it, so that each call is resolved and inlined at compile time.

use super::Engine;
use crate::base::time::{Mono, Now};
use crate::journal::LogStats;
use crate::model::command::Command;
use crate::model::driver::LogLine;
use crate::model::id::{ClientId, Ticket};
use crate::model::reply::Completion;
use crate::model::stats::ServerStats;
use crate::store::Counts;
use std::fmt::Debug;

/// Executes commands: each ticket completes exactly once, at once or later, in any order.
pub trait CommandExecutor: Debug {
    /// As [`Engine::submit`].
    fn submit(&mut self, ticket: Ticket, command: &Command<'_>, now: Now);

    /// As [`Engine::cancel`].
    fn cancel(&mut self, ticket: Ticket, now: Now);

    /// As [`Engine::disconnect_client`].
    fn disconnect_client(&mut self, client: ClientId, now: Now);

    /// As [`Engine::half_close_client`].
    fn half_close_client(&mut self, client: ClientId);

    /// As [`Engine::expire`].
    fn expire(&mut self, now: Now);

    /// As [`Engine::commit`].
    fn commit(&mut self, now: Now);

    /// As [`Engine::poll_completion`].
    fn poll_completion(&mut self) -> Option<Completion<'_>>;

    /// As [`Engine::poll_timeout`].
    fn poll_timeout(&self) -> Option<Mono>;

    /// As [`Engine::poll_log_line`].
    fn poll_log_line(&mut self) -> Option<LogLine>;

    /// As [`Engine::fatal_error`].
    fn fatal_error(&self) -> Option<String>;

    /// As [`Engine::awaits_disk`].
    fn awaits_disk(&self) -> bool;

    /// As [`Engine::close`].
    fn close(&mut self, now: Now);

    /// As [`Engine::is_closed`].
    fn is_closed(&self) -> bool;

    /// As [`Engine::stats`].
    fn stats(&self, stats: &mut ServerStats);

    /// As [`Engine::journal_stats`].
    fn journal_stats(&self) -> Option<LogStats>;

    /// As [`Engine::counts`].
    fn counts(&self) -> Counts;

    /// As [`Engine::check_invariants`].
    fn check_invariants(&self);

    /// As [`Engine::is_waiting`]: for tests.
    #[doc(hidden)]
    fn is_waiting(&self, ticket: Ticket) -> bool;
}

impl CommandExecutor for Engine {
    #[inline(always)]
    fn submit(&mut self, ticket: Ticket, command: &Command<'_>, now: Now) {
        self.submit(ticket, command, now);
    }

    fn cancel(&mut self, ticket: Ticket, now: Now) {
        self.cancel(ticket, now);
    }

    fn disconnect_client(&mut self, client: ClientId, now: Now) {
        self.disconnect_client(client, now);
    }

    fn half_close_client(&mut self, client: ClientId) {
        self.half_close_client(client);
    }

    fn expire(&mut self, now: Now) {
        self.expire(now);
    }

    fn commit(&mut self, now: Now) {
        self.commit(now);
    }

    #[inline(always)]
    fn poll_completion(&mut self) -> Option<Completion<'_>> {
        self.poll_completion()
    }

    fn poll_timeout(&self) -> Option<Mono> {
        self.poll_timeout()
    }

    fn poll_log_line(&mut self) -> Option<LogLine> {
        self.poll_log_line()
    }

    fn fatal_error(&self) -> Option<String> {
        self.fatal_error()
    }

    fn awaits_disk(&self) -> bool {
        self.awaits_disk()
    }

    fn close(&mut self, now: Now) {
        self.close(now);
    }

    fn is_closed(&self) -> bool {
        self.is_closed()
    }

    fn stats(&self, stats: &mut ServerStats) {
        self.stats(stats);
    }

    fn journal_stats(&self) -> Option<LogStats> {
        self.journal_stats()
    }

    fn counts(&self) -> Counts {
        self.counts()
    }

    fn check_invariants(&self) {
        self.check_invariants();
    }

    fn is_waiting(&self, ticket: Ticket) -> bool {
        self.is_waiting(ticket)
    }
}
