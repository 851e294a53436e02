//! Disk space: the bytes that a command adds, and the log lines about a full disk.
//!
//! A full disk is logged at once, and so is the first put that is rejected because of it. An
//! improvement is logged once it has lasted for [`SPACE_REPORT_DELAY`], so at most three lines are
//! logged in that time.

use crate::base::limits::SPACE_REPORT_DELAY;
use crate::base::time::Mono;
use crate::journal::Journal;
use crate::journal::disk::DiskError;
use crate::journal::limits::JOURNAL_RESERVE_PER_JOB_BYTES;
use crate::model::action::{ActionVerb, JobChange};
use crate::model::command::Command;
use crate::model::consumer::ConsumerCommand;
use crate::model::driver::{LogLine, Severity};
use crate::model::id::Ticket;
use crate::model::indexed_queue::{IndexedCommand, IndexedReply};
use crate::model::manage::{ManageCommand, ManageReply, NewJob, RunReport};
use crate::model::reply::Rejection;
use crate::model::schedule::{ScheduleCommand, Timing};
use crate::model::transfer::{ImportedJob, ImportedStage};
use crate::model::worker::{
    Condition, Constraint, ConstraintReply, Path, RunOutcome, Scalar, WorkerCommand, WorkerReply,
};
use crate::store::{Effects, Outcome, Store};
use std::cmp::Ordering;

/// The live bytes that a command adds beyond the space reservation of each job. `None`: it adds
/// none. O(1), but O(bytes) for a constraint or a worker.
pub(super) fn live_bytes_added(command: &Command<'_>) -> Option<usize> {
    match command {
        Command::Put { queue, payload, .. } => Some(queue.len() + payload.bytes.len()),
        Command::Finish { result: note, .. } | Command::Fail { error: note, .. } => {
            beyond_reserve(note.bytes.len())
        }
        Command::Work(WorkerCommand::Report { report, .. }) => match report {
            RunOutcome::Success { result } => beyond_reserve(result.bytes.len()),
            RunOutcome::Failure { error, message, .. }
            | RunOutcome::Rejected { error, message, .. } => {
                beyond_reserve(error.bytes.len() + message.len())
            }
        },
        Command::Indexed(watch) => match *watch {
            IndexedCommand::Put { queue, payload, state } => {
                Some(queue.len() + payload.len() + state.len())
            }
            IndexedCommand::CreateQueue { queue } => Some(queue.map_or(0, <[u8]>::len)),
            IndexedCommand::Poll { state, .. } => Some(2 * state.len()),
            IndexedCommand::CompareAndSetState { old, new, .. } => Some(old.len() + new.len()),
            IndexedCommand::AppendEvent { event, .. } => Some(event.len()),
            _ => None,
        },
        Command::Consumer(ConsumerCommand::Pause { queue, for_ms: 1.., .. })
        | Command::Manage(
            ManageCommand::Pause { queue, .. } | ManageCommand::SetIndex { queue, on: true },
        ) => Some(queue.len()),
        Command::Manage(ManageCommand::Put { queue, job }) => Some(new_job_bytes(queue, job)),
        Command::Manage(ManageCommand::PutMany { queue, jobs }) => {
            let each = |job| new_job_bytes(queue, job) + PUT_OVERHEAD_BYTES;
            Some(jobs.iter().map(each).sum())
        }
        Command::Manage(ManageCommand::Import([])) => None,
        Command::Manage(ManageCommand::Import(jobs)) => {
            let each = |job| imported_bytes(job) + PUT_OVERHEAD_BYTES;
            Some(jobs.iter().map(each).sum())
        }
        Command::Manage(ManageCommand::Report { report, .. }) => match report {
            RunReport::Complete { result } => {
                beyond_reserve(result.as_ref().map_or(0, |(_, bytes)| bytes.len()))
            }
            RunReport::Fail { error, message, .. } => beyond_reserve(error.len() + message.len()),
            RunReport::Progress { message: Some(message), .. } => beyond_reserve(message.len()),
            _ => None,
        },
        Command::Manage(ManageCommand::Change { change, .. }) => Some(change_bytes(change)),
        Command::Manage(ManageCommand::Act(spec)) => match &spec.verb {
            ActionVerb::Move { to } => Some(to.len()),
            ActionVerb::Change(change) => Some(change_bytes(change)),
            ActionVerb::Delete | ActionVerb::Kick | ActionVerb::Bury => None,
        },
        Command::Manage(ManageCommand::Schedule(command)) => schedule_bytes(command),
        Command::Work(WorkerCommand::SetConstraint(constraint)) => {
            Some(constraint_bytes(constraint))
        }
        Command::Work(WorkerCommand::PutByName { job, payload, .. }) => {
            Some(job.queue.len() + job.name.len() + payload.bytes.len())
        }
        Command::Work(WorkerCommand::Register(worker)) => {
            let names = worker.queues.into_iter().flatten().map(|name| name.len() + 5);
            Some(worker.name.len() + worker.url.len() + names.sum::<usize>())
        }
        _ => None,
    }
}

/// Whether a command's bytes stay in the store: the result of a job without retention does not.
/// O(1).
pub(super) fn is_retained(command: &Command<'_>, store: &Store) -> bool {
    let success = |report: &RunOutcome<'_>| matches!(report, RunOutcome::Success { .. });
    let id = match command {
        Command::Finish { id, .. }
        | Command::Manage(ManageCommand::Report {
            id, report: RunReport::Complete { .. }, ..
        }) => id,
        Command::Work(WorkerCommand::Report { id, report, .. }) if success(report) => id,
        _ => return true,
    };
    store.options(*id).is_some_and(|options| options.result_retention_ms > 0)
}

/// The bytes of a job that a command writes anew. O(1).
pub(super) fn bytes_rewritten(command: &Command<'_>, store: &Store) -> usize {
    let Command::Manage(ManageCommand::Change { id, change }) = command else { return 0 };
    let kept = store.slot(*id).filter(|_| change.payload.is_none());
    kept.map_or(0, |slot| store.view(slot).payload.bytes.len())
}

/// The bytes that a change adds to a job.
pub(super) fn change_bytes(change: &JobChange) -> usize {
    let payload = change.payload.as_ref().map_or(0, |(_, bytes)| bytes.len());
    payload + change.queue.as_ref().map_or(0, |name| name.len())
}

/// An upper bound of the bytes of a schedule's record; of a run, without those of its job.
pub(super) fn schedule_bytes(command: &ScheduleCommand<'_>) -> Option<usize> {
    match command {
        ScheduleCommand::Set { schedule } => {
            let cron = if let Timing::Cron(text) = &schedule.timing { text.len() } else { 10 };
            let texts = schedule.name.len() + cron + schedule.timezone.len();
            let job = schedule.queue.len() + schedule.job.payload.len() + schedule.job_text.len();
            // Numbers, and the lengths of texts.
            Some(texts + job + dependency_bytes(&schedule.job) + 200)
        }
        ScheduleCommand::Run { .. } => Some(0),
        _ => None,
    }
}
/// The bytes of the record of a job beside its payload and texts, and its space reservation.
const PUT_OVERHEAD_BYTES: usize = 512;

/// The bytes of a job to put; its key, with the queue's name, may stay after it.
fn new_job_bytes(queue: &[u8], job: &NewJob) -> usize {
    let key = job.key.as_ref().map_or(0, |key| 2 * key.bytes.len() + queue.len());
    queue.len() + job.payload.len() + key + dependency_bytes(job)
}

/// The bytes of what a job waits for, and of its group.
pub(super) fn dependency_bytes(job: &NewJob) -> usize {
    let Some(new) = &job.dependencies else { return 0 };
    let name = |name: &Option<Box<[u8]>>| name.as_ref().map_or(0, |name| name.len() + 20);
    new.after.len() * 8 + name(&new.group) + name(&new.after_group)
}

/// The bytes of a job of an import.
pub(super) fn imported_bytes(imported: &ImportedJob) -> usize {
    let result = match &imported.stage {
        ImportedStage::Completed { result: Some((_, bytes)), .. } => bytes.len(),
        _ => 0,
    };
    let error =
        imported.last_error.as_ref().map_or(0, |last| last.error.len() + last.message.len());
    let after = imported.after_here.len() * 8;
    new_job_bytes(&imported.queue, &imported.job) + after + result + error
}

/// Answers a command that has no space on the disk.
#[cold]
pub(super) fn answer_full(ticket: Ticket, command: &Command<'_>, fx: &mut Effects) {
    match command {
        Command::Indexed(_) => fx.reply(ticket, IndexedReply::DiskFull),
        Command::Manage(_) => fx.reply(ticket, ManageReply::Rejected(Rejection::DiskFull)),
        Command::Work(WorkerCommand::Register(_)) => {
            fx.answer(ticket, Outcome::Worker(WorkerReply::DiskFull));
        }
        Command::Work(WorkerCommand::SetConstraint(_)) => {
            fx.answer(ticket, Outcome::Constraint(ConstraintReply::DiskFull));
        }
        _ => fx.answer(ticket, Outcome::Rejected(Rejection::DiskFull)),
    }
}

/// The bytes of a result or error, if they exceed the job's space reservation.
fn beyond_reserve(bytes: usize) -> Option<usize> {
    (bytes as u64 > JOURNAL_RESERVE_PER_JOB_BYTES).then_some(bytes)
}

/// An upper bound of the bytes of a constraint's record. O(bytes).
fn constraint_bytes(constraint: &Constraint) -> usize {
    let path = |path: &Path| match path {
        Path::Name => 1,
        Path::Argument(keys) => 2 + keys.iter().map(|key| 10 + key.len()).sum::<usize>(),
    };
    let value = |value: &Scalar| match value {
        Scalar::Text(text) => 11 + text.len(),
        _ => 20,
    };
    let condition = |condition: &Condition| {
        path(&condition.path) + 11 + condition.values.iter().map(value).sum::<usize>()
    };
    let conditions: usize = constraint.matcher.iter().map(condition).sum();
    constraint.name.len() + constraint.per.as_ref().map_or(0, path) + conditions
}

/// The state of the disk, from good to bad.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum SpaceState {
    #[default]
    Enough,
    /// There was no space for the next segment; the prepared segments still take puts.
    Full,
    /// Puts are rejected.
    Rejecting,
}

/// What has been logged about disk space, and what is to be logged.
#[derive(Debug, Default)]
pub(super) struct SpaceNotices {
    state: SpaceState,
    /// Since when `state` has its value.
    since: Mono,
    /// The state in the last log line.
    reported: SpaceState,
    /// While puts are rejected: the bytes of the record that was rejected last, and how many bytes
    /// of space were missing for it.
    last_rejection: Option<(usize, u64)>,
    /// Whether a record was rejected in this pass.
    rejected_now: bool,
    /// Rejections since the log line that reported the first.
    rejected_count: u64,
    line: Option<LogLine>,
}

impl SpaceNotices {
    /// Notes that a record of `bytes` bytes was rejected, for which `missing` bytes were missing.
    #[cold]
    pub(super) fn note_rejection(&mut self, bytes: usize, missing: u64) {
        assert!(missing > 0, "a record is rejected although there is space for it");
        self.last_rejection = Some((bytes, missing));
        self.rejected_now = true;
        self.rejected_count += 1;
    }

    /// Updates the state at the end of a pass. O(1) while there is space, else O(segments).
    #[inline]
    pub(super) fn update(&mut self, journal: &Journal, now: Mono) {
        if journal.shortage().is_some()
            || self.rejected_now
            || self.state > SpaceState::Enough
            || self.reported > SpaceState::Enough
        {
            self.update_cold(journal, now);
        }
    }

    #[cold]
    fn update_cold(&mut self, journal: &Journal, now: Mono) {
        let missing = match self.last_rejection {
            Some((_, then)) if self.rejected_now => then,
            refused => refused.map_or(0, |(bytes, _)| journal.missing_bytes(bytes)),
        };
        self.set_state(journal.shortage(), missing, journal.stats().free_bytes, now);
    }

    /// `shortage`: why there is no space. `missing`: the bytes missing for the record that was
    /// rejected last. `left`: the bytes that can still be written.
    fn set_state(&mut self, shortage: Option<&DiskError>, missing: u64, left: u64, now: Mono) {
        debug_assert!(
            missing == 0 || self.last_rejection.is_some(),
            "bytes are missing for a record that was rejected"
        );
        if missing == 0 {
            self.last_rejection = None;
        }
        let state = match (shortage, missing) {
            _ if self.rejected_now => SpaceState::Rejecting,
            (None, _) => SpaceState::Enough,
            (Some(_), 0) => SpaceState::Full,
            (Some(_), _) => SpaceState::Rejecting,
        };
        self.rejected_now = false;
        if state != self.state {
            (self.state, self.since) = (state, now);
        }
        if self.poll_timeout().is_some_and(|at| at <= now) {
            let why = shortage.map_or_else(|| "the disk was full".to_owned(), ToString::to_string);
            self.line = Some(self.log_line(&why, missing, left));
            self.reported = state;
            if state < SpaceState::Rejecting {
                self.rejected_count = 0;
            }
        }
    }

    /// When the next log line is due, unless the state changes before. O(1).
    pub(super) fn poll_timeout(&self) -> Option<Mono> {
        match self.state.cmp(&self.reported) {
            Ordering::Less => Some(self.since.after(SPACE_REPORT_DELAY)),
            Ordering::Equal => None,
            Ordering::Greater => Some(self.since),
        }
    }

    fn log_line(&self, why: &str, missing: u64, left: u64) -> LogLine {
        assert!(self.state != self.reported, "the state of the disk was logged already");
        let (lacking, refused) = (missing, self.rejected_count);
        let (severity, text) = match (self.state, self.reported) {
            (SpaceState::Rejecting, _) => (
                Severity::Warn,
                format!(
                    "puts are refused, there is no space for them: {why}. The journal needs \
                     {lacking} bytes more to take them; gets and deletes go on"
                ),
            ),
            (SpaceState::Full, SpaceState::Rejecting) => (
                Severity::Info,
                format!("puts are taken again ({refused} were refused), but space is short: {why}"),
            ),
            (SpaceState::Full, _) => (
                Severity::Warn,
                format!(
                    "there is no space for more of the journal: {why}. Puts are taken as long as \
                     the {left} bytes last that it has left, but for what deletes need"
                ),
            ),
            (SpaceState::Enough, SpaceState::Rejecting) => (
                Severity::Info,
                format!("there is space again: puts are taken ({refused} were refused)"),
            ),
            (SpaceState::Enough, _) => {
                (Severity::Info, "there is space for the journal again".to_owned())
            }
        };
        LogLine { severity, text }
    }

    pub(super) fn poll_log_line(&mut self) -> Option<LogLine> {
        self.line.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// The log line at a millisecond: whether there is a shortage, and how many bytes are missing
    /// for the rejected record.
    fn log_at(space: &mut SpaceNotices, ms: u64, full: bool, missing: u64) -> Option<String> {
        let (operation, file) = ("make", "a.seg".to_owned());
        let error = DiskError { operation, file, error: "no space".to_owned() };
        if missing > 0 {
            space.note_rejection(100, missing);
        }
        space.set_state(full.then_some(&error), missing, 77, Mono(ms * MS));
        space.poll_log_line().map(|line| line.text)
    }

    #[test]
    fn full_disk_is_logged_at_once_and_an_improvement_once_it_lasts() {
        let space = &mut SpaceNotices::default();
        assert_eq!(log_at(space, 5, false, 0), None);
        let full = log_at(space, 10, true, 0).unwrap();
        assert!(full.contains("cannot make a.seg: no space. ") && full.contains("77"), "{full}");
        assert_eq!(space.poll_timeout(), None, "no line is due");
        assert_eq!(log_at(space, 2_000, true, 0), None);
        let refused = log_at(space, 2_001, true, 555).unwrap();
        assert!(refused.contains("refused") && refused.contains("needs 555 bytes"), "{refused}");
        assert_eq!(log_at(space, 4_000, true, 0), None);
        assert_eq!(space.poll_timeout(), Some(Mono(5_000 * MS)));
        assert_eq!(log_at(space, 4_100, true, 555), None, "it has not lasted");
        assert_eq!(log_at(space, 4_000, true, 0), None);
        let taken = log_at(space, 5_000, true, 0).unwrap();
        assert!(taken.contains("taken again (2 were refused)"), "{taken}");
        assert_eq!(log_at(space, 7_000, false, 0), None);
        assert_eq!(log_at(space, 8_000, false, 0).unwrap(), "there is space for the journal again");
        assert_eq!((log_at(space, 9_999, false, 0), space.poll_timeout()), (None, None));
    }

    #[test]
    fn flapping_state_logs_a_bounded_number_of_lines() {
        let space = &mut SpaceNotices::default();
        let lines = (0..10_000).filter(|&ms| {
            let full = ms % 20 < 15;
            log_at(space, ms, full, if full { ms % 3 } else { 0 }).is_some()
        });
        assert_eq!(lines.count(), 2, "the full disk, and the rejected puts");
        // Each state lasts, but not for long.
        let space = &mut SpaceNotices::default();
        let lines = (0..10_000).filter(|&ms| log_at(space, ms, ms / 300 % 2 == 0, 0).is_some());
        assert_eq!(lines.count(), 1);
        // And for longer.
        let space = &mut SpaceNotices::default();
        let lines = (0..11_000).filter(|&ms| log_at(space, ms, ms / 1_100 % 2 == 0, 0).is_some());
        assert_eq!(lines.count(), 10);
    }
}
