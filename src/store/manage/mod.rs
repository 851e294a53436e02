//! Commands of the native API. `details` makes the views that it shows, `pause` keeps the paused
//! queues, `schedules` the schedules, `jobs` changes single jobs and `actions` many.

mod action_list;
mod actions;
mod awaiters;
mod backup;
mod completed_runs;
mod details;
mod index;
mod jobs;
mod keys;
mod leases;
mod list;
mod pause;
mod put;
mod ranked;
mod reports;
mod rewrites;
mod schedules;
mod search;
mod show;
mod transfer;

use super::idx::QueueIdx;
use super::waiters::WaiterKind;
use super::{Effects, JobIdx, Store};
use crate::base::time::Now;
use crate::model::flow::HistoryStep;
use crate::model::id::{JobId, Ticket};
use crate::model::manage::{HistoryDetails, ManageCommand, ManageReply, Missing};
pub(super) use actions::Actions;
pub(super) use details::state_counts;
pub(super) use index::IndexWork;
pub(super) use jobs::Verb;
pub(super) use pause::{Pauses, whole_seconds_until};
pub(super) use ranked::Rankings;
pub use rewrites::RewriteLimit;
pub use schedules::ScheduleHold;
pub(super) use schedules::Schedules;

impl Store {
    #[inline(never)]
    pub(super) fn manage_command(
        &mut self,
        ticket: Ticket,
        command: &ManageCommand<'_>,
        now: Now,
        fx: &mut Effects,
    ) {
        match *command {
            ManageCommand::Show { id } => {
                let Some(slot) = self.find_or_answer(ticket, id, now, fx) else { return };
                let mut job = self.details_and_terms(slot, now);
                if let Some(terms) = &mut job.terms {
                    terms.history = self.history_of(slot);
                }
                fx.reply(ticket, ManageReply::Job(Box::new(job)));
            }
            ManageCommand::Queue { queue } => self.show_queue(ticket, queue, now, fx),
            ManageCommand::Queues { behind, glob, limit } => {
                let page = self.queue_page(behind, glob, limit, now);
                fx.reply(ticket, ManageReply::Queues(Box::new(page)));
            }
            ManageCommand::Ranked { order, glob, limit } => {
                self.ranked(ticket, (order, glob), limit, now, fx);
            }
            ManageCommand::Put { queue, job } => self.put_native(ticket, queue, job, now, fx),
            ManageCommand::PutMany { queue, jobs } => {
                let puts = jobs.iter().map(|job| self.put_one(queue, job, now, fx));
                let outcomes = puts.collect();
                fx.reply(ticket, ManageReply::Puts(outcomes));
            }
            ManageCommand::ReserveMore { first, queues, terms } => {
                if !self.reserve_more(ticket, first, queues, terms, now, fx) {
                    self.wait_or_answer(ticket, WaiterKind::Reserve, queues, terms.wait, now, fx);
                }
            }
            ManageCommand::Jobs { queue, state, from, limit } => {
                let Some(queue) = self.known_queue_or_answer(ticket, queue, fx) else { return };
                let page = self.job_page((queue, state), from, limit, now);
                fx.reply(ticket, ManageReply::JobPage(Box::new(page)));
            }
            ManageCommand::Report { id, token, report } => {
                self.report_run(ticket, (id, token), report, now, fx);
            }
            ManageCommand::AwaitEnd { id, wait_ms } => {
                self.await_end(ticket, id, wait_ms, now, fx);
            }
            ManageCommand::Pause { queue, for_ms } => self.pause(ticket, queue, for_ms, now, fx),
            ManageCommand::Resume { queue } => self.resume(ticket, queue, now, fx),
            ManageCommand::Bury { id } => self.manage_job(ticket, id, Verb::Bury, now, fx),
            ManageCommand::Kick { id } => self.manage_job(ticket, id, Verb::Kick, now, fx),
            ManageCommand::Remove { id } => self.manage_job(ticket, id, Verb::Remove, now, fx),
            ManageCommand::Cancel { id } => self.manage_job(ticket, id, Verb::Cancel, now, fx),
            ManageCommand::Change { id, change } => {
                self.manage_job(ticket, id, Verb::Change(change), now, fx);
            }
            ManageCommand::Act(spec) => self.act(ticket, spec, now, fx),
            ManageCommand::DropQueue { queue, force } => {
                self.drop_queue(ticket, queue, force, now, fx);
            }
            ManageCommand::ShowAction { id } => self.show_action(ticket, id, fx),
            ManageCommand::ListActions { below, limit } => {
                self.list_actions(ticket, below, limit, fx);
            }
            ManageCommand::CancelAction { id } => self.cancel_action(ticket, id, now, fx),
            ManageCommand::Schedule(ref schedule) => {
                self.schedule_command(ticket, schedule, now, fx);
            }
            _ => self.data_command(ticket, command, now, fx),
        }
    }

    /// Indexes, searches, lists about the server, and jobs on their way in and out.
    fn data_command(
        &mut self,
        ticket: Ticket,
        command: &ManageCommand<'_>,
        now: Now,
        fx: &mut Effects,
    ) {
        match *command {
            ManageCommand::SetIndex { queue, on: true } => self.index_on(ticket, queue, fx),
            ManageCommand::SetIndex { queue, on: false } => self.index_off(ticket, queue, fx),
            ManageCommand::Search { queue, query, behind, limit } => {
                self.search_page(ticket, queue, query, (behind, limit), now, fx);
            }
            ManageCommand::Workers { from, limit } => self.list_workers(ticket, from, limit, fx),
            ManageCommand::Constraints { behind, limit } => {
                self.list_constraints(ticket, (behind, limit), now, fx);
            }
            ManageCommand::History { queue, step } => {
                self.show_history(ticket, queue, step, now, fx);
            }
            ManageCommand::Export { queue, state, from } => {
                self.export(ticket, (queue, state), from, now, fx);
            }
            ManageCommand::Import(jobs) => self.import(ticket, jobs, now, fx),
            ManageCommand::EndImport => {
                self.end_import(ticket.client);
                self.settle_constraints(now, fx);
                fx.reply(ticket, ManageReply::Done);
            }
            ManageCommand::Backup(step) => self.note_backup(ticket, step, fx),
            _ => unreachable!("handled by the caller"),
        }
    }

    /// The job with this id. If there is none, answers the ticket. O(1).
    fn find_or_answer(
        &mut self,
        ticket: Ticket,
        id: JobId,
        now: Now,
        fx: &mut Effects,
    ) -> Option<JobIdx> {
        let slot = self.find_cold(id, now, fx);
        if slot.is_none() {
            let known = self.ids.was_given_out(id.0);
            let missing = if known { Missing::Gone } else { Missing::NeverGivenOut };
            fx.reply(ticket, ManageReply::Missing(missing));
        }
        slot
    }

    /// The queue of this name. If nothing is known of it, answers the ticket. O(name).
    fn known_queue_or_answer(
        &self,
        ticket: Ticket,
        name: &[u8],
        fx: &mut Effects,
    ) -> Option<QueueIdx> {
        let queue = self.queues.find(name).filter(|&queue| self.queues[queue].is_listed());
        if queue.is_none() {
            fx.reply(ticket, ManageReply::Missing(Missing::Queue));
        }
        queue
    }

    fn show_queue(&self, ticket: Ticket, queue: &[u8], now: Now, fx: &mut Effects) {
        let Some(queue) = self.known_queue_or_answer(ticket, queue, fx) else { return };
        self.answer_queue(ticket, queue, now, fx);
    }

    /// Answers with what has happened in a queue, or in the server. O(steps).
    fn show_history(
        &self,
        ticket: Ticket,
        queue: Option<&[u8]>,
        step: HistoryStep,
        now: Now,
        fx: &mut Effects,
    ) {
        let queue = match queue {
            None => None,
            Some(name) => match self.known_queue_or_answer(ticket, name, fx) {
                None => return,
                queue => queue,
            },
        };
        let waits = if queue.is_none() { self.waits(step) } else { Vec::new() };
        let steps = self.history(queue, step);
        let details = HistoryDetails { step, until: now.wall, steps, waits };
        fx.reply(ticket, ManageReply::History(Box::new(details)));
    }

    /// Runs pending work of constraints, so that a reply shows what has come of its command.
    pub(super) fn settle_constraints(&mut self, now: Now, fx: &mut Effects) {
        if self.constraints.is_pending() {
            self.run_pending(now, fx);
        }
    }

    /// Answers with a job, without its terms. O(bytes).
    fn answer_details(&self, ticket: Ticket, slot: JobIdx, now: Now, fx: &mut Effects) {
        fx.reply(ticket, ManageReply::Job(Box::new(self.details(slot, now))));
    }

    /// Answers with the counters of a queue. O(exclusion sets + waiters of the queue).
    fn answer_queue(&self, ticket: Ticket, queue: QueueIdx, now: Now, fx: &mut Effects) {
        fx.reply(ticket, ManageReply::Queue(Box::new(self.queue_details(queue, now))));
    }
}

#[cfg(test)]
mod tests;
