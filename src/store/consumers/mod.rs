//! Commands of clients that reserve jobs by their connections: what is theirs is theirs alone, and
//! a wait for a job ends before one of their leases does.

mod commands;
mod interest;
mod lease_waits;

use super::{Effects, Outcome, Store};
use crate::base::time::Now;
use crate::model::consumer::ConsumerCommand;
use crate::model::id::{JobId, Ticket};
use crate::model::job::Status;

impl Store {
    #[inline(never)]
    pub(super) fn consumer_command(
        &mut self,
        ticket: Ticket,
        command: &ConsumerCommand<'_>,
        now: Now,
        fx: &mut Effects,
    ) {
        match *command {
            ConsumerCommand::ReserveJob { id } => self.reserve_job(ticket, id, now, fx),
            ConsumerCommand::Release { id, priority, delay_ms } => {
                self.release_with(ticket, (id, priority, delay_ms), now, fx);
            }
            ConsumerCommand::Bury { id, priority } => {
                self.bury_with(ticket, (id, priority), now, fx);
            }
            ConsumerCommand::KickJob { id } => self.kick_one(ticket, id, now, fx),
            ConsumerCommand::KickFirst { queue, among, limit } => {
                self.kick_first(ticket, (queue, among, limit), now, fx);
            }
            ConsumerCommand::PeekFirst { queue, among } => {
                self.peek_first(ticket, (queue, among), now, fx);
            }
            ConsumerCommand::JobStats { id } => self.job_stats(ticket, id, now, fx),
            ConsumerCommand::QueueStats { queue, exists } => {
                self.queue_stats(ticket, (queue, exists), now, fx);
            }
            ConsumerCommand::QueueNames { from } => self.queue_names(ticket, from, fx),
            ConsumerCommand::Totals => self.queue_totals(ticket, fx),
            ConsumerCommand::Pause { queue, exists, for_ms } => {
                self.pause_used(ticket, (queue, exists, for_ms), now, fx);
            }
            ConsumerCommand::Use { queue, former } => {
                self.use_queue(queue, former, fx);
                fx.answer(ticket, Outcome::Done);
            }
            ConsumerCommand::Watch { queue } => {
                self.watch_queue(queue);
                fx.answer(ticket, Outcome::Done);
            }
            ConsumerCommand::Leave { used, watched } => {
                self.leave_queues(used, watched, fx);
                fx.answer(ticket, Outcome::Done);
            }
        }
    }

    /// Deletes a job, unless another one than its client has reserved it. O(log n).
    #[inline]
    pub(super) fn delete_own(&mut self, ticket: Ticket, id: JobId, now: Now, fx: &mut Effects) {
        let (jobs, reservations) = (&self.jobs, &self.reservations);
        let found = self.ids.remove_if(id.0, |slot| {
            let job = &jobs[slot];
            match job.status() {
                Status::Reserved => reservations.is_holder(ticket.client, job),
                Status::Completed | Status::Popped => false,
                _ => true,
            }
        });
        match found {
            Some(slot) => self.delete_found(ticket, (id, slot), now, fx),
            None => fx.answer(ticket, Outcome::NoJob),
        }
    }
}
