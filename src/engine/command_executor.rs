//! The seam between the server and its engine: what the server asks of it.
//!
//! The contract is that of the module [`engine`](super): callers act on completions only. The
//! server is generic over it, so that each call is resolved and inlined at compile time.

use crate::base::time::{Mono, Now};
use crate::journal::LogStats;
use crate::model::command::Command;
use crate::model::driver::{Link, LogLine};
use crate::model::id::{ClientId, JobId, Ticket};
use crate::model::reply::Completion;
use crate::model::stats::ServerStats;
use crate::store::Counts;
use std::fmt::Debug;

/// Executes commands: each ticket completes exactly once, at once or later, in any order.
pub trait CommandExecutor: Debug {
    /// Executes a command. See the module for when its ticket completes.
    fn submit(&mut self, ticket: Ticket, command: &Command<'_>, now: Now);

    /// Work since the last call beside what the size of a command tells, in the unit of
    /// `INPUT_WORK_PER_PASS`. O(1).
    fn take_work(&mut self) -> usize;

    /// Such work of waits and pops that was not taken yet. O(1).
    fn noted_work(&self) -> usize;

    /// Whether a pop that has just been submitted takes several passes, though it does not wait:
    /// after such a pop there is work ([`CommandExecutor::take_work`]) above `EXTRA_WORK_PER_TURN`.
    /// Also true for one that waits.
    fn is_deferred(&self, ticket: Ticket) -> bool;

    /// Cancels a waiting reserve or long poll. Without effect if its reply is already decided.
    fn cancel(&mut self, ticket: Ticket, now: Now);

    /// Ends a client: cancels its commands and requeues its reserved jobs, over several passes if
    /// there are many. [`CommandExecutor::poll_disconnected`] reports when they are back. O(jobs of
    /// the client), bounded in a pass.
    fn disconnect_client(&mut self, client: ClientId, now: Now);

    /// A client that was disconnected and whose jobs are back, each once: now another client may
    /// have its index. O(1).
    fn poll_disconnected(&mut self) -> Option<ClientId>;

    /// A client has closed its sending side: each of its queries gets one turn at most, after those
    /// of all other clients.
    fn half_close_client(&mut self, client: ClientId);

    /// A pass is about to begin: notes what the last ones have changed, for rates and histories.
    /// O(1), or a bounded number of queues.
    fn sample(&mut self, now: Now);

    /// Begins a pass: resets the store's budgets for a pass and fires up to
    /// `STORE_DEADLINES_PER_PASS` timers. [`CommandExecutor::poll_timeout`] says whether some are
    /// left.
    fn expire(&mut self, now: Now);

    /// Ends a pass: runs the query scheduler, compacts a little, hands batches to the disk, and
    /// takes in its completions.
    fn commit(&mut self, now: Now);

    /// Sets how many bytes the buffers of connections take.
    fn set_buffer_bytes(&mut self, bytes: u64);

    /// Refuses all puts from now on, or takes them again. It ends with the process.
    fn set_draining(&mut self, draining: bool);

    /// The next completion. Those of one client that do not wait for the disk come in the order in
    /// which the store produced them.
    fn poll_completion(&mut self) -> Option<Completion<'_>>;

    /// The latest moment of the next [`CommandExecutor::expire`] and [`CommandExecutor::commit`].
    /// O(1), exact.
    #[must_use]
    fn poll_timeout(&self) -> Option<Mono>;

    /// The next line for the operator's log.
    fn poll_log_line(&mut self) -> Option<LogLine>;

    /// The I/O error that has stopped the journal: no gated reply is completed after it.
    #[must_use]
    fn fatal_error(&self) -> Option<String>;

    /// Whether that error is that another server leads.
    fn has_lost_lead(&self) -> bool {
        false
    }

    /// Why nothing is carried out now, if that is so: a sentence without its full stop.
    fn unavailable(&self) -> Option<String> {
        None
    }

    /// While that is so: a client whose command was carried out, but whose reply will not come
    /// soon, if ever. Each is named once a reply.
    fn take_given_up(&mut self) -> Option<ClientId> {
        None
    }

    /// The connection to where jobs are kept, if they are kept behind one.
    fn link(&mut self) -> Option<&mut dyn Link> {
        None
    }

    /// Whether replies are gated.
    #[must_use]
    fn awaits_disk(&self) -> bool;

    /// Starts to write and sync everything. The caller goes on with [`CommandExecutor::commit`]
    /// until
    /// [`CommandExecutor::is_closed`].
    fn close(&mut self, now: Now);

    /// Whether everything is durable after [`CommandExecutor::close`], or the journal has failed.
    #[must_use]
    fn is_closed(&self) -> bool;

    /// Writes the engine's counters into `stats`. O(segments).
    fn stats(&self, stats: &mut ServerStats);

    /// Statistics of the journal, if there is one. O(segments).
    #[must_use]
    fn journal_stats(&self) -> Option<LogStats>;

    /// The number of jobs, queues, workers and constraints in the store.
    #[must_use]
    fn counts(&self) -> Counts;

    /// How many jobs a client has reserved, counted up to `most`. O(most).
    #[must_use]
    fn reserved_by(&self, client: ClientId, most: usize) -> usize;

    /// The queue of a job, and whether this client has reserved it; `None`: there is no such job.
    /// O(1).
    #[must_use]
    fn job_queue(&self, id: JobId, client: ClientId) -> Option<(&[u8], bool)>;

    /// Asserts every invariant. O(everything): for tests and the simulator.
    fn check_invariants(&self);

    /// Whether a ticket waits in the store. A gated reply does not count. O(waiting reserves of
    /// the client).
    #[doc(hidden)]
    #[must_use]
    fn is_waiting(&self, ticket: Ticket) -> bool;
}
