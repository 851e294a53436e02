//! Lists of registered workers and constraints.

use crate::base::api_limits::{ANSWER_BYTES_ENOUGH, RESERVED_JOBS_COUNTED, SCANNED_PER_PAGE};
use crate::base::time::Now;
use crate::model::id::{ClientId, Ticket};
use crate::model::manage::ManageReply;
use crate::model::show::{ConstraintPage, WorkerDetails, WorkerPage};
use crate::model::worker::{OwnedWorker, WorkerId};
use crate::store::{Effects, Store};

impl Store {
    /// How many jobs a client has reserved, counted up to `most`. O(most).
    #[must_use]
    pub fn reserved_by(&self, client: ClientId, most: usize) -> usize {
        self.reservations.count_of(client, most, &self.jobs)
    }

    /// Answers with workers from this id on. O(limit log w + bytes + `SCANNED_PER_PAGE`).
    pub(super) fn list_workers(
        &self,
        ticket: Ticket,
        from: WorkerId,
        limit: usize,
        fx: &mut Effects,
    ) {
        let mut page = WorkerPage::default();
        let (mut looked, mut bytes) = (0, 0);
        for (place, entry) in self.workers.iter_from(from) {
            if page.workers.len() >= limit
                || looked >= SCANNED_PER_PAGE
                || bytes >= ANSWER_BYTES_ENOUGH
            {
                page.next = Some(entry.id);
                break;
            }
            let Some(worker) = &entry.registered else { continue };
            let reserved = match entry.client {
                Some(client) => self.reserved_by(client, RESERVED_JOBS_COUNTED),
                None => {
                    self.reservations.count_of_detached(place, RESERVED_JOBS_COUNTED, &self.jobs)
                }
            };
            let view = worker.view();
            let names = view.queues.into_iter().flatten().map(<[u8]>::len).sum::<usize>();
            looked += 1 + reserved;
            bytes += view.name.len() + view.url.len() + names;
            let worker = OwnedWorker::new(entry.id, &view);
            let last_reserved = entry.last_reserved;
            page.workers.push(WorkerDetails { worker, reserved, last_reserved });
        }
        fx.reply(ticket, ManageReply::Workers(Box::new(page)));
    }

    /// Answers with constraints behind this name. O(limit log c + bytes + `SCANNED_PER_PAGE`).
    pub(super) fn list_constraints(
        &self,
        ticket: Ticket,
        (behind, limit): (Option<&str>, usize),
        now: Now,
        fx: &mut Effects,
    ) {
        let mut page = ConstraintPage::default();
        let (mut looked, mut bytes) = (0, 0);
        for constraint in self.constraints.behind(behind) {
            if page.constraints.len() >= limit
                || looked >= SCANNED_PER_PAGE
                || bytes >= ANSWER_BYTES_ENOUGH
            {
                page.more = true;
                break;
            }
            let details = self.constraints.details(constraint, SCANNED_PER_PAGE, now);
            looked += details.keys.min(SCANNED_PER_PAGE);
            bytes += details.constraint.bytes();
            page.constraints.push(details);
        }
        fx.reply(ticket, ManageReply::Constraints(Box::new(page)));
    }
}
