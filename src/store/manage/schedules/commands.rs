//! Commands on schedules.

use super::Schedules;
use crate::base::api_limits::{NEXT_RUNS_SHOWN, SCHEDULES_MAX, SCHEDULES_PER_PAGE};
use crate::base::time::{Now, Wall};
use crate::model::id::Ticket;
use crate::model::manage::{ManageReply, PutOutcome};
use crate::model::rejection::Rejection;
use crate::model::schedule::{
    Schedule, ScheduleCommand, ScheduleDetails, ScheduleReply, ScheduleState,
};
use crate::store::idx::ScheduleIdx;
use crate::store::{DirtyRecord, Effects, RecordKey, Store};
use std::ops::Bound;

fn reply(ticket: Ticket, reply: ScheduleReply, fx: &mut Effects) {
    fx.reply(ticket, ManageReply::Schedule(Box::new(reply)));
}

impl Schedules {
    /// Everything that is shown of a schedule. O(bytes + days until its last shown moment).
    fn details(&self, place: ScheduleIdx, wall: Wall) -> ScheduleDetails {
        let entry = &self.slots[place];
        let first = match entry.state.next {
            Some(at) if at <= wall && self.skips(entry, at, wall) => {
                let in_time = self.newest_in_time(entry, wall).map(|_| wall);
                in_time.or_else(|| entry.next_after(wall))
            }
            next => next.map(|at| at.max(wall)),
        };
        let later = |&at: &Wall| entry.next_after(at);
        let next_runs = std::iter::successors(first, later).take(NEXT_RUNS_SHOWN).collect();
        let (schedule, last_run) = (entry.schedule.clone(), entry.state.last_run);
        ScheduleDetails { schedule, last_run, next_runs, last_failure: entry.last_failure }
    }

    /// A page of all schedules. O(log s), and for each that is shown the cost of its details.
    fn page(&self, behind: Option<&[u8]>, limit: usize, wall: Wall) -> ScheduleReply {
        let start = behind.map_or(Bound::Unbounded, Bound::Excluded);
        let mut rest = self.by_name.range::<[u8], _>((start, Bound::Unbounded));
        let limit = limit.min(SCHEDULES_PER_PAGE);
        let shown = rest.by_ref().take(limit);
        let schedules: Vec<_> = shown.map(|(_, &place)| self.details(place, wall)).collect();
        let last = schedules.last().map(|details| details.schedule.name.clone());
        ScheduleReply::Page { next: last.filter(|_| rest.next().is_some()), schedules }
    }
}

impl Store {
    /// Executes a command on schedules.
    pub(in crate::store::manage) fn schedule_command(
        &mut self,
        ticket: Ticket,
        command: &ScheduleCommand<'_>,
        now: Now,
        fx: &mut Effects,
    ) {
        let name = match *command {
            ScheduleCommand::List { behind, limit } => {
                return reply(ticket, self.schedules.page(behind, limit, now.wall), fx);
            }
            ScheduleCommand::Set { schedule } => {
                return self.set_schedule(ticket, schedule, now, fx);
            }
            ScheduleCommand::Show { name }
            | ScheduleCommand::Remove { name }
            | ScheduleCommand::Run { name } => name,
        };
        let Some(&place) = self.schedules.by_name.get(name) else {
            return reply(ticket, ScheduleReply::Missing, fx);
        };
        match command {
            ScheduleCommand::Run { .. } => self.run_schedule(ticket, place, now, fx),
            ScheduleCommand::Remove { .. } => {
                let id = self.schedules.remove(place);
                self.arm_schedules(now);
                fx.mark_dirty(DirtyRecord::Gone(RecordKey::Schedule(place), id));
                reply(ticket, ScheduleReply::Removed, fx);
            }
            _ => {
                let details = Box::new(self.schedules.details(place, now.wall));
                reply(ticket, ScheduleReply::Schedule { details, made: false }, fx);
            }
        }
    }

    /// Makes or changes a schedule. If its timing stays, its next moment does. O(bytes + log s +
    /// days until its last shown moment).
    fn set_schedule(&mut self, ticket: Ticket, schedule: &Schedule, now: Now, fx: &mut Effects) {
        let known = self.schedules.by_name.get(&schedule.name).copied();
        if known.is_none() && self.schedules.len() >= SCHEDULES_MAX {
            return reply(ticket, ScheduleReply::TooMany, fx);
        }
        if known.is_none() && self.ids.is_exhausted() {
            return fx.reply(ticket, ManageReply::Rejected(Rejection::Full));
        }
        let fresh = ScheduleState { next: None, anchor: now.wall, last_run: None };
        let place = match known {
            None => {
                let id = self.ids.take_hidden();
                self.schedules.insert(id, schedule.clone(), fresh)
            }
            Some(place) => {
                let entry = &self.schedules.slots[place];
                let former = &entry.schedule;
                let stays = (&former.timing, &former.timezone)
                    == (&schedule.timing, &schedule.timezone)
                    && former.paused == schedule.paused;
                let state = entry.state;
                let changed = ScheduleState { last_run: state.last_run, ..fresh };
                let kept = if stays { state } else { changed };
                self.schedules.replace(place, schedule.clone(), kept);
                self.schedules.set_next(place, kept.next);
                place
            }
        };
        let entry = &self.schedules.slots[place];
        if entry.state.next.is_none() {
            let next = entry.next_after(now.wall);
            self.schedules.set_next(place, next);
        }
        debug_assert!(
            !schedule.paused || self.schedules.slots[place].state.next.is_none(),
            "a paused schedule has no next moment"
        );
        self.arm_schedules(now);
        self.write_schedule(place, fx);
        let details = Box::new(self.schedules.details(place, now.wall));
        reply(ticket, ScheduleReply::Schedule { details, made: known.is_none() }, fx);
    }

    /// Puts the job of a schedule now. O(log n).
    fn run_schedule(&mut self, ticket: Ticket, place: ScheduleIdx, now: Now, fx: &mut Effects) {
        let (queue, job) = self.schedules.put_of(place);
        let reply = self.put_and_show(&queue, &job, now, fx);
        if let ManageReply::Job(job) = &reply {
            self.schedules.slots[place].note_put(now.wall, PutOutcome::Added(job.id));
            self.write_schedule(place, fx);
        }
        fx.reply(ticket, reply);
    }
}
