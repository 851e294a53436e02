//! Backups: one at a time, for one client. Its files are parts of the journal's segments, which are
//! held back until it ends or its client does, and which are read beside the loop.

use super::Engine;
use super::journal_gate::JournalGate;
use crate::base::time::Now;
use crate::journal::BatchSeq;
use crate::journal::disk::{SegmentPart, SegmentReader};
use crate::model::backup::{BackupFile, BackupReply, BackupStep};
use crate::model::id::{ClientId, Ticket};
use crate::model::manage::ManageReply;
use crate::store::Effects;
use std::collections::VecDeque;
use std::fmt;

/// The file that says that a directory without a segment is damaged.
const LOCK: (&str, &[u8]) = ("lock", b"used\n");

/// The backup of one client, if there is one.
pub(super) struct Backups {
    reader: Box<dyn SegmentReader>,
    running: Option<Running>,
    /// The tickets of the reads under way; `None`: its client has ended.
    reads: VecDeque<Option<Ticket>>,
}

struct Running {
    client: ClientId,
    /// Answered once this batch is durable.
    begins: Option<(Ticket, Vec<BackupFile>, BatchSeq)>,
}

impl fmt::Debug for Backups {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Backups").field("reads", &self.reads.len()).finish_non_exhaustive()
    }
}

impl Engine {
    /// Carries out steps of backups, and answers them.
    #[cold]
    pub(super) fn run_backups(&mut self, now: Now) {
        self.effects.prepare();
        for (ticket, step) in self.store.take_backup_steps() {
            if let (Some(backups), Some(journal)) = (&mut self.backups, &mut self.journal) {
                backups.execute((ticket, step), journal, &mut self.effects);
            } else {
                let why = "this server makes no backups";
                reply(&mut self.effects, ticket, BackupReply::Refused(why));
            }
        }
        if let (Some(backups), Some(journal)) = (&mut self.backups, &self.journal) {
            backups.advance(journal, &mut self.effects);
        }
        self.write_changes(false, now);
    }
}

impl Backups {
    pub(super) fn new(reader: Box<dyn SegmentReader>) -> Self {
        Self { reader, running: None, reads: VecDeque::new() }
    }

    /// Whether there is something to look at in each pass. O(1).
    pub(super) fn is_active(&self) -> bool {
        self.running.is_some() || !self.reads.is_empty()
    }

    /// Executes a step. O(segments) at its begin, else O(1).
    pub(super) fn execute(
        &mut self,
        (ticket, step): (Ticket, BackupStep),
        journal: &mut JournalGate,
        fx: &mut Effects,
    ) {
        let is_own = self.running.as_ref().is_some_and(|run| run.client == ticket.client);
        match step {
            BackupStep::Begin if self.running.is_some() => {
                let why = "another backup is being made: wait until it has ended";
                reply(fx, ticket, BackupReply::Refused(why));
            }
            BackupStep::Begin => {
                let (segments, until) = journal.begin_copy();
                let mut files: Vec<BackupFile> = segments
                    .into_iter()
                    .map(|copy| BackupFile {
                        number: copy.epoch,
                        name: copy.name,
                        size: copy.size,
                        head: copy.head,
                    })
                    .collect();
                if !files.is_empty() {
                    let (name, head) = (LOCK.0.to_owned(), LOCK.1.to_vec());
                    files.insert(0, BackupFile { number: 0, name, size: 5, head });
                }
                let begins = Some((ticket, files, until));
                self.running = Some(Running { client: ticket.client, begins });
            }
            BackupStep::Read { number, offset, length } if is_own => {
                self.reader.submit(SegmentPart { epoch: number, offset, length });
                self.reads.push_back(Some(ticket));
            }
            BackupStep::End if is_own => {
                self.end(journal);
                reply(fx, ticket, BackupReply::Ended);
            }
            BackupStep::Read { .. } | BackupStep::End => {
                reply(fx, ticket, BackupReply::Refused("this client makes no backup"));
            }
        }
    }

    /// Answers what can be answered now. O(reads that have ended).
    pub(super) fn advance(&mut self, journal: &JournalGate, fx: &mut Effects) {
        let durable = journal.durable();
        if let Some(running) = &mut self.running
            && let Some((ticket, files, _)) =
                running.begins.take_if(|(_, _, until)| *until <= durable)
        {
            reply(fx, ticket, BackupReply::Files(files));
        }
        while let Some(read) = self.reader.poll() {
            debug_assert!(!self.reads.is_empty(), "a read that ends was submitted");
            let ticket = self.reads.pop_front().flatten();
            let Some(ticket) = ticket else { continue };
            reply(
                fx,
                ticket,
                match read {
                    Ok(bytes) => BackupReply::Bytes(bytes),
                    Err(error) => BackupReply::Failed(error.to_string()),
                },
            );
        }
    }

    /// A client has ended, and with it its backup. O(reads).
    pub(super) fn remove_client(&mut self, client: ClientId, journal: &mut JournalGate) {
        for read in &mut self.reads {
            read.take_if(|ticket| ticket.client == client);
        }
        if self.running.as_ref().is_some_and(|running| running.client == client) {
            self.end(journal);
        }
        debug_assert!(
            !self.reads.iter().flatten().any(|ticket| ticket.client == client),
            "a read of a client that has ended would be answered"
        );
    }

    fn end(&mut self, journal: &mut JournalGate) {
        debug_assert!(self.running.is_some(), "only a backup that runs ends");
        self.running = None;
        journal.end_copy();
    }
}

/// Answers a step.
pub(super) fn reply(fx: &mut Effects, ticket: Ticket, answer: BackupReply) {
    fx.reply(ticket, ManageReply::Backup(Box::new(answer)));
}
