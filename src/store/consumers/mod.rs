//! Commands of clients that reserve jobs by their connections: what is theirs is theirs alone, and
//! a wait for a job ends before one of their leases does.

mod lease_waits;

use super::{Effects, Outcome, Store};
use crate::base::time::Now;
use crate::model::id::{JobId, Ticket};
use crate::model::job::Status;

impl Store {
    /// Deletes a job, unless another one than its client has reserved it. O(log n).
    #[inline]
    pub(super) fn delete_own(&mut self, ticket: Ticket, id: JobId, now: Now, fx: &mut Effects) {
        let own = self.ids.find(id.0).is_some_and(|slot| {
            let job = &self.jobs[slot];
            match job.status() {
                Status::Reserved => self.reservations.holds(ticket.client, job),
                Status::Completed | Status::Popped => false,
                _ => true,
            }
        });
        if own {
            self.delete(ticket, id, now, fx);
        } else {
            fx.answer(ticket, Outcome::NoJob);
        }
    }
}
