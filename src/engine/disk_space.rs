//! SpaceNotices on the disk: what makes it less, and what the operator is told when there is none.
//!
//! A disk that is full is told at once, and so is the first put that is refused for it; that things
//! are better is told once they have been so for [`SPACE_SETTLED`]. So there are three lines in
//! that time at most.

use crate::base::limits::{JOURNAL_RESERVE_PER_JOB_BYTES, SPACE_SETTLED};
use crate::base::time::Mono;
use crate::journal::Journal;
use crate::journal::disk::DiskError;
use crate::model::command::Command;
use crate::model::driver::{LogLine, Severity};
use crate::model::indexed_queue::IndexedCommand;
use crate::model::worker::{self, Condition, Constraint, Path, Scalar, WorkerCommand};
use std::cmp::Ordering;

/// By how many bytes a command makes what is live grow beyond what is in reserve for each job.
pub(super) fn live_bytes_added(command: &Command<'_>) -> Option<usize> {
    match command {
        Command::Put { queue, payload, .. } => Some(queue.len() + payload.bytes.len()),
        Command::Finish { result: note, .. } | Command::Fail { error: note, .. } => {
            beyond_reserve(note.bytes.len())
        }
        Command::Work(WorkerCommand::Report { report, .. }) => match report {
            worker::RunOutcome::Success { result } => beyond_reserve(result.bytes.len()),
            worker::RunOutcome::Failure { error, message, .. }
            | worker::RunOutcome::Rejected { error, message, .. } => {
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

/// What a job notes, if that is more than is in reserve for it.
fn beyond_reserve(bytes: usize) -> Option<usize> {
    (bytes as u64 > JOURNAL_RESERVE_PER_JOB_BYTES).then_some(bytes)
}

/// No less than a constraint takes.
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

/// How it stands with the space, from good to bad.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum SpaceState {
    #[default]
    Enough,
    /// There was none for the next segment; what is there still takes puts.
    Full,
    /// Puts are refused.
    Rejecting,
}

/// What the operator knows, and is to be told.
#[derive(Debug, Default)]
pub(super) struct SpaceNotices {
    state: SpaceState,
    /// Since when it is so.
    since: Mono,
    /// What was told last.
    reported: SpaceState,
    /// How large the record was that was refused last, if puts are being refused, and how many
    /// bytes were lacking for it.
    last_rejection: Option<(usize, u64)>,
    /// Whether it was refused in this pass.
    rejected_now: bool,
    /// How many were refused since it was told that they are.
    rejected_count: u64,
    line: Option<LogLine>,
}

impl SpaceNotices {
    /// A record of so many bytes was refused, for which so many were lacking.
    #[cold]
    pub(super) fn note_rejection(&mut self, bytes: usize, lacking: u64) {
        self.last_rejection = Some((bytes, lacking));
        self.rejected_now = true;
        self.rejected_count += 1;
    }

    /// Sees how it stands, at the end of each pass. O(1) as long as there is space.
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
        let lacking = match self.last_rejection {
            Some((_, then)) if self.rejected_now => then,
            refused => refused.map_or(0, |(bytes, _)| journal.missing_bytes(bytes)),
        };
        self.set_state(journal.shortage(), lacking, journal.stats().free_bytes, now);
    }

    /// There is no more space for this reason, if any; so many bytes are lacking for what was
    /// refused last, and so many can be written to.
    fn set_state(&mut self, shortage: Option<&DiskError>, lacking: u64, left: u64, now: Mono) {
        if lacking == 0 {
            self.last_rejection = None;
        }
        let state = match (shortage, lacking) {
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
            self.line = Some(self.log_line(&why, lacking, left));
            self.reported = state;
            if state < SpaceState::Rejecting {
                self.rejected_count = 0;
            }
        }
    }

    /// When there is something to be told, unless it changes until then.
    pub(super) fn poll_timeout(&self) -> Option<Mono> {
        match self.state.cmp(&self.reported) {
            Ordering::Less => Some(self.since.after(SPACE_SETTLED)),
            Ordering::Equal => None,
            Ordering::Greater => Some(self.since),
        }
    }

    fn log_line(&self, why: &str, lacking: u64, left: u64) -> LogLine {
        let refused = self.rejected_count;
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

    /// What is told when it stands like this at some millisecond: whether there is a shortage, and
    /// how many bytes are lacking for what was refused.
    fn tell(space: &mut SpaceNotices, ms: u64, full: bool, lacking: u64) -> Option<String> {
        let (operation, file) = ("make", "a.seg".to_owned());
        let fault = DiskError { operation, file, error: "no space".to_owned() };
        if lacking > 0 {
            space.note_rejection(100, lacking);
        }
        space.set_state(full.then_some(&fault), lacking, 77, Mono(ms * MS));
        space.poll_log_line().map(|remark| remark.text)
    }

    #[test]
    fn bad_news_are_told_at_once_and_good_ones_when_they_last() {
        let space = &mut SpaceNotices::default();
        assert_eq!(tell(space, 5, false, 0), None);
        let full = tell(space, 10, true, 0).unwrap();
        assert!(full.contains("cannot make a.seg: no space. ") && full.contains("77"), "{full}");
        assert_eq!(space.poll_timeout(), None, "nothing is to be told");
        assert_eq!(tell(space, 2_000, true, 0), None);
        let refused = tell(space, 2_001, true, 555).unwrap();
        assert!(refused.contains("refused") && refused.contains("needs 555 bytes"), "{refused}");
        assert_eq!(tell(space, 4_000, true, 0), None);
        assert_eq!(space.poll_timeout(), Some(Mono(5_000 * MS)));
        assert_eq!(tell(space, 4_100, true, 555), None, "it has not lasted");
        assert_eq!(tell(space, 4_000, true, 0), None);
        let taken = tell(space, 5_000, true, 0).unwrap();
        assert!(taken.contains("taken again (2 were refused)"), "{taken}");
        assert_eq!(tell(space, 7_000, false, 0), None);
        assert_eq!(tell(space, 8_000, false, 0).unwrap(), "there is space for the journal again");
        assert_eq!((tell(space, 9_999, false, 0), space.poll_timeout()), (None, None));
    }

    #[test]
    fn what_changes_to_and_fro_fills_no_log() {
        let space = &mut SpaceNotices::default();
        let told = (0..10_000).filter(|&ms| {
            let full = ms % 20 < 15;
            tell(space, ms, full, if full { ms % 3 } else { 0 }).is_some()
        });
        assert_eq!(told.count(), 2, "that it is full, and that puts are refused");
        // Each state lasts, but not for long.
        let space = &mut SpaceNotices::default();
        let told = (0..10_000).filter(|&ms| tell(space, ms, ms / 300 % 2 == 0, 0).is_some());
        assert_eq!(told.count(), 1);
        // And for longer.
        let space = &mut SpaceNotices::default();
        let told = (0..11_000).filter(|&ms| tell(space, ms, ms / 1_100 % 2 == 0, 0).is_some());
        assert_eq!(told.count(), 10);
    }
}
