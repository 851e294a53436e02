//! The limit on memory (`--max-memory`): which commands are refused, and the log line about it.
//!
//! What is in use is what the store and the server say: [`Store::memory_bytes`], and
//! `CommandExecutor::set_buffer_bytes`. Beyond the limit nothing is put; everything else goes on,
//! so that jobs that are deleted make room.

use super::disk_space::{dependency_bytes, imported_bytes, schedule_bytes};
use crate::base::rate_limited_counter::RateLimitedCounter;
use crate::base::time::{Mono, Now};
use crate::model::command::Command;
use crate::model::consumer::ConsumerCommand;
use crate::model::driver::{LogLine, Severity};
use crate::model::id::Ticket;
use crate::model::indexed_queue::{IndexedCommand, IndexedReply};
use crate::model::manage::{ManageCommand, ManageReply, NewJob};
use crate::model::reply::Rejection;
use crate::model::schedule::ScheduleCommand;
use crate::model::transfer::ImportedJob;
use crate::model::worker::WorkerCommand;
use crate::store::{Effects, JOB_MEMORY_BYTES, Outcome, Store};
use std::time::Duration;

/// Shortest time between two log entries about refused puts.
const NOTICE_INTERVAL: Duration = Duration::from_mins(1);

/// One part in this many may be in use beyond the limit after a restart.
const RESTORE_SHARE: u64 = 16;

/// The limit, and what was refused because of it.
#[derive(Debug)]
pub(super) struct MemoryLimit {
    limit: u64,
    refused: u64,
    refusals: RateLimitedCounter,
    line: Option<LogLine>,
}

/// The bytes that a command adds to the jobs, their histories and the declared queues. `None`: it
/// is none that puts something there.
fn bytes_added(command: &Command<'_>) -> Option<usize> {
    match command {
        Command::Put { payload, .. } => Some(payload.bytes.len()),
        Command::Work(WorkerCommand::PutByName { job, payload, .. }) => {
            Some(job.name.len() + payload.bytes.len())
        }
        Command::Indexed(IndexedCommand::Put { payload, state, .. }) => {
            Some(payload.len() + state.len())
        }
        Command::Indexed(IndexedCommand::CreateQueue { queue }) => {
            Some(queue.map_or(0, <[u8]>::len))
        }
        Command::Consumer(ConsumerCommand::Pause { queue, for_ms: 1.., .. })
        | Command::Manage(
            ManageCommand::Pause { queue, .. } | ManageCommand::SetIndex { queue, on: true },
        ) => Some(queue.len()),
        Command::Manage(ManageCommand::Put { job, .. }) => Some(new_job_bytes(job)),
        Command::Manage(ManageCommand::PutMany { jobs, .. }) => {
            let each = |job: &NewJob| new_job_bytes(job) + JOB_MEMORY_BYTES;
            Some(jobs.iter().map(each).sum())
        }
        Command::Manage(ManageCommand::Import([])) => None,
        Command::Manage(ManageCommand::Import(jobs)) => {
            let each = |job: &ImportedJob| {
                let after = 5 * (dependency_bytes(&job.job) + job.after_here.len() * 8);
                imported_bytes(job) + after + JOB_MEMORY_BYTES
            };
            Some(jobs.iter().map(each).sum())
        }
        Command::Manage(ManageCommand::Change { change, .. }) => {
            change.payload.as_ref().map(|(_, bytes)| bytes.len())
        }
        Command::Manage(ManageCommand::Schedule(command)) => schedule_bytes(command),
        Command::Indexed(IndexedCommand::AppendEvent { event, .. }) => Some(event.len()),
        _ => None,
    }
}

/// The bytes of a job to put; an id that it waits for takes some six times those of its record.
fn new_job_bytes(job: &NewJob) -> usize {
    job.payload.len() + 6 * dependency_bytes(job)
}

/// Answers a command for which there is no memory.
#[cold]
pub(super) fn answer_full(ticket: Ticket, command: &Command<'_>, fx: &mut Effects) {
    match command {
        Command::Indexed(_) => fx.reply(ticket, IndexedReply::MemoryFull),
        Command::Manage(_) => fx.reply(ticket, ManageReply::Rejected(Rejection::MemoryFull)),
        _ => fx.answer(ticket, Outcome::Rejected(Rejection::MemoryFull)),
    }
}

/// Whether a command puts jobs: one that is refused while the server is being drained.
pub(super) fn is_put(command: &Command<'_>) -> bool {
    matches!(
        command,
        Command::Put { .. }
            | Command::Work(WorkerCommand::PutByName { .. })
            | Command::Indexed(IndexedCommand::Put { .. })
            | Command::Manage(
                ManageCommand::Put { .. }
                    | ManageCommand::PutMany { .. }
                    | ManageCommand::Import(_)
                    | ManageCommand::Schedule(ScheduleCommand::Run { .. })
            )
    )
}

/// Answers a put while the server is being drained.
#[cold]
pub(super) fn answer_draining(ticket: Ticket, command: &Command<'_>, fx: &mut Effects) {
    match command {
        Command::Indexed(_) => fx.reply(ticket, IndexedReply::Draining),
        Command::Manage(_) => fx.reply(ticket, ManageReply::Rejected(Rejection::Draining)),
        _ => fx.answer(ticket, Outcome::Rejected(Rejection::Draining)),
    }
}

/// Why the store that is being restored is too large, if it is. A store that was within the limit
/// may take a little more after a restart.
pub(super) fn check_restored(limit: u64, store: &Store) -> Option<String> {
    let used = store.memory_bytes();
    (used > limit.saturating_add(limit / RESTORE_SHARE)).then(|| {
        format!(
            "the jobs in the journal take more memory than the {limit} bytes of --max-memory: \
             give more, or start without a limit and delete jobs. Nothing was changed"
        )
    })
}

impl MemoryLimit {
    /// `limit` in bytes.
    pub(super) fn new(limit: u64) -> Self {
        let refusals = RateLimitedCounter::new(NOTICE_INTERVAL);
        Self { limit, refused: 0, refusals, line: None }
    }

    pub(super) fn limit_bytes(&self) -> u64 {
        self.limit
    }

    /// Commands refused since the start.
    pub(super) fn refused(&self) -> u64 {
        self.refused
    }

    /// Whether there is memory for a command; `buffers`: bytes of the connections' buffers. A
    /// refusal is noted for the log. O(1).
    pub(super) fn admits(&mut self, command: &Command<'_>, store: &Store, buffers: u64) -> bool {
        let Some(bytes) = bytes_added(command) else { return true };
        let needed = store.memory_bytes() + buffers + (JOB_MEMORY_BYTES + bytes) as u64;
        if needed <= self.limit {
            return true;
        }
        self.refused += 1;
        self.refusals.count();
        false
    }

    /// Whether there is memory for this many bytes more.
    pub(super) fn fits(&self, bytes: usize, store: &Store, buffers: u64) -> bool {
        store.memory_bytes() + buffers + bytes as u64 <= self.limit
    }

    /// The bytes that are left.
    pub(super) fn room(&self, store: &Store, buffers: u64) -> u64 {
        self.limit.saturating_sub(store.memory_bytes() + buffers)
    }

    /// Makes the log line about refusals, if one is due.
    pub(super) fn update(&mut self, now: Now) {
        if let Some(count) = self.refusals.take_report(now.mono) {
            let text = format!(
                "puts are refused ({count} since the last line like this): jobs and buffers would \
                 take more than the {} bytes of --max-memory; gets and deletes go on",
                self.limit
            );
            self.line = Some(LogLine { severity: Severity::Warn, text });
        }
    }

    /// When [`MemoryLimit::update`] has to be called.
    pub(super) fn poll_timeout(&self) -> Option<Mono> {
        self.refusals.next_report()
    }

    pub(super) fn poll_log_line(&mut self) -> Option<LogLine> {
        self.line.take()
    }
}
