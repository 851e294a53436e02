//! Submitted commands, and the log lines that their replies cause.
//!
//! Invariant: with replies in order nothing is allocated for a command, once as many were pending
//! as now.

use super::message::{Verb, WorkSignal};
use crate::base::names::shown_text;
use crate::model::driver::{LogLine, Severity};
use crate::model::id::JobId;
use crate::model::reply::{Rejection, Reply};
use crate::model::worker::WorkerReply;
use std::collections::VecDeque;

/// The kind of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequestKind {
    Put,
    Works(WorkSignal),
    Finish,
    Delete,
    ReturnUnstarted,
    Register,
    Attach,
    /// A step of the list that is being written.
    List,
}

impl RequestKind {
    fn name(self) -> &'static str {
        match self {
            Self::Put => Verb::Add.name(),
            Self::Works(signal) => Verb::Works(signal).name(),
            Self::Finish => Verb::Finished.name(),
            Self::Delete => Verb::Delete.name(),
            Self::ReturnUnstarted | Self::Register | Self::Attach | Self::List => "the queue",
        }
    }
}

#[derive(Debug)]
struct Entry {
    kind: RequestKind,
    /// The name of its job.
    name: Vec<u8>,
    answered: bool,
}

/// Serials of commands are below this; those of reserves are at or above it.
pub(super) const RESERVE: u32 = 1 << 31;

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
    pub(super) fn add(&mut self, kind: RequestKind, name: &[u8]) -> u32 {
        let mut buf = self.spare.pop().unwrap_or_default();
        buf.extend_from_slice(name);
        // Proof: there are never more than `IN_FLIGHT_MAX` and those that a reply leads to.
        let distance =
            u32::try_from(self.entries.len()).expect("at most IN_FLIGHT_MAX requests are pending");
        self.entries.push_back(Entry { kind, name: buf, answered: false });
        self.first.wrapping_add(distance) & !RESERVE
    }

    /// The kind of the command with this serial, and the log line that its reply causes.
    pub(super) fn take(
        &mut self,
        serial: u32,
        reply: &Reply<'_>,
    ) -> (RequestKind, Option<LogLine>) {
        let distance = (serial.wrapping_sub(self.first) & !RESERVE) as usize;
        let entry = self.entries.get_mut(distance).expect("a reply to no pending request");
        assert!(!entry.answered, "a second reply to one request");
        entry.answered = true;
        let mut name = std::mem::take(&mut entry.name);
        let kind = entry.kind;
        let log_line = log_line(kind, &name, reply);
        if name.capacity() <= KEPT {
            name.clear();
            self.spare.push(name);
        }
        while self.entries.front().is_some_and(|entry| entry.answered) {
            self.entries.pop_front();
            self.first = self.first.wrapping_add(1) & !RESERVE;
        }
        (kind, log_line)
    }
}

fn log_line(kind: RequestKind, name: &[u8], reply: &Reply<'_>) -> Option<LogLine> {
    match reply {
        Reply::NoJob => Some(no_job(kind, name)),
        Reply::Rejected(rejection) => Some(rejected(kind, name, *rejection)),
        Reply::Worker(WorkerReply::Full) => Some(rejected(kind, name, Rejection::Full)),
        Reply::Worker(WorkerReply::DiskFull) => Some(rejected(kind, name, Rejection::DiskFull)),
        _ => None,
    }
}

#[cold]
fn no_job(kind: RequestKind, name: &[u8]) -> LogLine {
    let name = shown_text(name);
    let text = format!("{}: there is no job '{name}' in this queue", kind.name());
    LogLine { severity: Severity::Warn, text }
}

#[cold]
fn rejected(kind: RequestKind, name: &[u8], rejection: Rejection) -> LogLine {
    let (kind, name) = (kind.name(), shown_text(name));
    let (severity, why) = match rejection {
        Rejection::NameTaken(JobId(id)) => {
            (Severity::Error, format!("there is a job '{name}' already, number {id}"))
        }
        Rejection::Full => (Severity::Error, format!("there is no place left for '{name}'")),
        Rejection::DiskFull => (
            Severity::Error,
            format!("the disk is full: '{name}' cannot be kept until jobs go or space is made"),
        ),
        Rejection::MemoryFull => (
            Severity::Error,
            format!("there is no memory for '{name}' (--max-memory) until jobs go"),
        ),
        Rejection::Draining => (
            Severity::Error,
            format!("the server is being drained and takes no new jobs: '{name}' was not added"),
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
        | Rejection::UnknownJob(_)
        | Rejection::ReplaceAfter(_)
        | Rejection::ReplaceInGroup(_) => {
            (Severity::Warn, format!("job '{name}' is in another state"))
        }
    };
    LogLine { severity, text: format!("{kind}: {why}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_name_is_shortened_in_the_log() {
        for (kind, reply) in [
            (RequestKind::Delete, Reply::NoJob),
            (RequestKind::Put, Reply::Rejected(Rejection::NameTaken(JobId(7)))),
        ] {
            let log_line = log_line(kind, &b"x".repeat(900_000), &reply).unwrap();
            assert!(log_line.text.contains("xxx...(900000 bytes)'"), "{}", log_line.text);
            assert!(log_line.text.len() < 1_200, "{}", log_line.text);
        }
    }

    #[test]
    fn replies_in_any_order_match_requests_and_reuse_memory() {
        let mut asked = PendingRequests { first: RESERVE - 2, ..PendingRequests::default() };
        for round in 0..3 {
            let serials: Vec<u32> = ["a", "b", "c", "d"]
                .map(|name| asked.add(RequestKind::Delete, name.as_bytes()))
                .into();
            assert!(serials.iter().all(|&serial| serial < RESERVE), "round {round}");
            for number in [2, 0, 1, 3] {
                let (kind, log_line) = asked.take(serials[number], &Reply::NoJob);
                let name = ["a", "b", "c", "d"][number];
                let text = format!("del_job: there is no job '{name}' in this queue");
                assert_eq!(kind, RequestKind::Delete);
                assert_eq!(log_line, Some(LogLine { severity: Severity::Warn, text }));
            }
            assert_eq!((asked.len(), asked.spare.len()), (0, 4));
        }
    }
}
