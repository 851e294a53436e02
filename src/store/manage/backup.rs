//! Backups: the store keeps their steps until the engine takes them, which has the journal.

use crate::model::backup::{BackupReply, BackupStep};
use crate::model::id::{ClientId, Ticket};
use crate::model::manage::ManageReply;
use crate::store::{Effects, Store};

impl Store {
    /// Keeps a step for the engine; without a journal it is refused. O(1).
    pub(super) fn note_backup(&mut self, ticket: Ticket, step: BackupStep, fx: &mut Effects) {
        if fx.keeps_changes {
            self.backup_steps.push((ticket, step));
            return;
        }
        let why = "the server keeps its jobs in memory only: start it with --data";
        fx.reply(ticket, ManageReply::Backup(Box::new(BackupReply::Refused(why))));
    }

    /// Whether there are steps for the engine. O(1).
    #[must_use]
    pub fn has_backup_steps(&self) -> bool {
        !self.backup_steps.is_empty()
    }

    /// Takes the steps out. O(1).
    #[must_use]
    pub fn take_backup_steps(&mut self) -> Vec<(Ticket, BackupStep)> {
        std::mem::take(&mut self.backup_steps)
    }

    /// Drops the steps of a client that has ended. O(steps).
    pub fn drop_backup_steps(&mut self, client: ClientId) {
        self.backup_steps.retain(|(ticket, _)| ticket.client != client);
    }
}
