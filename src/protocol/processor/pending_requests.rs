//! Submitted commands, and the log lines that their replies cause.
//!
//! Invariant: with replies in order nothing is allocated for a command, once as many were pending
//! as now.

use super::message::{Verb, WorkSignal};
use crate::base::names::shown_text;
use crate::model::driver::{LogLine, Severity};
use crate::model::id::JobId;
use crate::model::reply::{Rejection, Reply};
use std::collections::VecDeque;

/// The kind of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Put,
    Works(WorkSignal),
    Finish,
    Delete,
    GiveBack,
    Enlist,
    Resume,
    /// A step of the list that is being written.
    List,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Put => Verb::Add.name(),
            Self::Works(deed) => Verb::Works(deed).name(),
            Self::Finish => Verb::Finished.name(),
            Self::Delete => Verb::Delete.name(),
            Self::GiveBack | Self::Enlist | Self::Resume | Self::List => "the queue",
        }
    }
}

#[derive(Debug)]
struct Entry {
    kind: Kind,
    /// The name of its job.
    name: Vec<u8>,
    answered: bool,
}

/// Serials of commands are below this; those of reserves are at or above it.
pub(super) const TAKE: u32 = 1 << 31;

/// Names of at most this many bytes are kept for reuse.
const KEPT: usize = 256;

/// Pending commands, oldest first.
#[derive(Debug, Default)]
pub(super) struct PendingRequests {
    first: u32,
    entries: VecDeque<Entry>,
    spare: Vec<Vec<u8>>,
}

impl PendingRequests {
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// The serial of a command of this kind about the job of this name. O(name).
    pub(super) fn add(&mut self, kind: Kind, name: &[u8]) -> u32 {
        let mut kept = self.spare.pop().unwrap_or_default();
        kept.extend_from_slice(name);
        // Proof: there are never more than `IN_FLIGHT_MAX` and those that a reply leads to.
        let ahead = u32::try_from(self.entries.len()).expect("few requests are under way");
        self.entries.push_back(Entry { kind, name: kept, answered: false });
        self.first.wrapping_add(ahead) & !TAKE
    }

    /// The kind of the command with this serial, and the log line that its reply causes.
    pub(super) fn take(&mut self, serial: u32, reply: &Reply<'_>) -> (Kind, Option<LogLine>) {
        let ahead = (serial.wrapping_sub(self.first) & !TAKE) as usize;
        let entry = self.entries.get_mut(ahead).expect("a reply to a request under way");
        assert!(!entry.answered, "a request was answered twice");
        entry.answered = true;
        let mut name = std::mem::take(&mut entry.name);
        let kind = entry.kind;
        let remark = remark(kind, &name, reply);
        if name.capacity() <= KEPT {
            name.clear();
            self.spare.push(name);
        }
        while self.entries.front().is_some_and(|entry| entry.answered) {
            self.entries.pop_front();
            self.first = self.first.wrapping_add(1) & !TAKE;
        }
        (kind, remark)
    }
}

fn remark(kind: Kind, name: &[u8], reply: &Reply<'_>) -> Option<LogLine> {
    match reply {
        Reply::NoJob => Some(no_job(kind, name)),
        Reply::Rejected(refusal) => Some(refused(kind, name, *refusal)),
        _ => None,
    }
}

#[cold]
fn no_job(kind: Kind, name: &[u8]) -> LogLine {
    let name = shown_text(name);
    let text = format!("{}: there is no job '{name}' in this queue", kind.name());
    LogLine { severity: Severity::Warn, text }
}

#[cold]
fn refused(kind: Kind, name: &[u8], refusal: Rejection) -> LogLine {
    let (kind, name) = (kind.name(), shown_text(name));
    let (severity, why) = match refusal {
        Rejection::NameTaken(JobId(id)) => {
            (Severity::Error, format!("there is a job '{name}' already, number {id}"))
        }
        Rejection::Full => (Severity::Error, format!("there is no place left for '{name}'")),
        Rejection::DiskFull => (
            Severity::Error,
            format!("the disk is full: '{name}' cannot be kept until jobs go or space is made"),
        ),
        Rejection::NotReserved(_) => (
            Severity::Warn,
            format!("job '{name}' is not dispatched: it waits in its queue, or has ended"),
        ),
        Rejection::ReservedByAnother(_) => (
            Severity::Warn,
            format!("job '{name}' is being worked on by another protocol's client"),
        ),
        Rejection::LeaseExpired(_)
        | Rejection::NotBuried(_)
        | Rejection::QueueExists
        | Rejection::LogFull
        | Rejection::TooLate(_) => (Severity::Warn, format!("job '{name}' is in another state")),
    };
    LogLine { severity, text: format!("{kind}: {why}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_name_is_cut_in_the_log() {
        for (kind, reply) in [
            (Kind::Delete, Reply::NoJob),
            (Kind::Put, Reply::Rejected(Rejection::NameTaken(JobId(7)))),
        ] {
            let remark = remark(kind, &b"x".repeat(900_000), &reply).unwrap();
            assert!(remark.text.contains("xxx...(900000 bytes)'"), "{}", remark.text);
            assert!(remark.text.len() < 1_200, "{}", remark.text);
        }
    }

    #[test]
    fn answers_in_any_order_meet_their_requests_and_memory_is_used_again() {
        let mut asked = PendingRequests { first: TAKE - 2, ..PendingRequests::default() };
        for round in 0..3 {
            let serials: Vec<u32> =
                ["a", "b", "c", "d"].map(|name| asked.add(Kind::Delete, name.as_bytes())).into();
            assert!(serials.iter().all(|&serial| serial < TAKE), "round {round}");
            for number in [2, 0, 1, 3] {
                let (kind, remark) = asked.take(serials[number], &Reply::NoJob);
                let name = ["a", "b", "c", "d"][number];
                let text = format!("del_job: there is no job '{name}' in this queue");
                assert_eq!(kind, Kind::Delete);
                assert_eq!(remark, Some(LogLine { severity: Severity::Warn, text }));
            }
            assert_eq!((asked.len(), asked.spare.len()), (0, 4));
        }
    }
}
