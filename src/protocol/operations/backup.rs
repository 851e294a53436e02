//! `POST /backup`: an archive of the files of a data directory, made as its client reads it.

use super::answer::Next;
use super::problem::{Problem, ProblemKind};
use crate::base::api_limits::BACKUP_PART_BYTES;
use crate::base::time::Now;
use crate::model::backup::{BackupFile, BackupReply, BackupStep};
use crate::wire::tar;
use std::collections::VecDeque;

/// The media type of backups.
pub(in crate::protocol) const TAR: &str = "application/x-tar";

/// How far a backup is.
#[derive(Debug, Default)]
pub(super) struct BackupStream {
    /// Those that are left; the first one is being read.
    files: VecDeque<BackupFile>,
    /// Bytes of the first one that are written.
    written: u64,
    begun: bool,
    /// In Unix seconds.
    now: u64,
}

impl BackupStream {
    /// The next step of the engine.
    pub(super) fn step(&self) -> BackupStep {
        let Some(file) = self.files.front().filter(|_| self.begun) else {
            return if self.begun { BackupStep::End } else { BackupStep::Begin };
        };
        let left = usize::try_from(file.size - self.written).unwrap_or(usize::MAX);
        let length = left.min(BACKUP_PART_BYTES);
        BackupStep::Read { number: file.number, offset: self.written, length }
    }

    /// Notes the time, which the files of the archive get.
    pub(super) fn note_time(&mut self, now: Now) {
        self.now = now.wall.0 / 1_000;
    }

    /// What follows its answer. O(bytes).
    pub(super) fn handle(&mut self, reply: &BackupReply) -> Next {
        let mut body = Vec::new();
        match reply {
            BackupReply::Files(files) => {
                (self.files, self.begun) = (files.clone().into(), true);
                self.begin_file(&mut body);
            }
            BackupReply::Bytes(bytes) => {
                body.extend_from_slice(bytes);
                self.written += bytes.len() as u64;
                self.end_file(&mut body);
            }
            BackupReply::Ended => {
                tar::push_end(&mut body);
                return Next::Part { body, media_type: TAR, is_last: true };
            }
            BackupReply::Refused(why) => {
                return Next::Problem(Problem::new(ProblemKind::WrongState, *why));
            }
            BackupReply::Failed(_) => return Next::Abort,
        }
        Next::Part { body, media_type: TAR, is_last: false }
    }

    /// Writes headers and first bytes up to a file of which more has to be read.
    fn begin_file(&mut self, body: &mut Vec<u8>) {
        let Some(file) = self.files.front() else { return };
        tar::push_header(body, &file.name, file.size, self.now);
        body.extend_from_slice(&file.head);
        self.written = file.head.len() as u64;
        self.end_file(body);
    }

    /// Goes on with the next file if the first one is written.
    fn end_file(&mut self, body: &mut Vec<u8>) {
        let is_over = |file: &mut BackupFile| file.size <= self.written;
        if let Some(file) = self.files.pop_front_if(is_over) {
            tar::push_padding(body, file.size);
            self.begin_file(body);
        }
    }
}
