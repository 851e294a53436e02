//! How a turn is ended that others wait for.

use super::{LATE_FRACTION, Query, QueryScheduler};
use crate::base::limits::QUERY_PATIENCE;
use crate::base::time::Mono;
use crate::engine::query_turns::Rank;
use crate::model::id::ClientId;
use crate::model::row::RowKey;
use crate::query::{Pace, QueryExecutor, QueryTask, Spot, Task, TaskState};
use std::ops::Bound;
use std::sync::{Arc, Weak};

/// Patience with a query that gets nowhere is doubled so many times at most.
const TIMEOUT_DOUBLINGS_MAX: u32 = 8;

/// A lane in use.
#[derive(Debug)]
pub(super) struct BusyLane {
    pub(super) lane: usize,
    pub(super) has_share: bool,
    pub(super) client: ClientId,
    /// The search, unless nobody waits for it any more.
    pub(super) query: Option<u64>,
    /// Its client has ended.
    pub(super) client_gone: bool,
    /// How its client stood when the turn began.
    rank: Rank,
    /// The lane owns it.
    task: Weak<QueryTask>,
    /// Where the turn began.
    pub(super) start: Bound<RowKey>,
    pub(super) pace: Pace,
    /// Since when it has this pace.
    pace_since: Mono,
}

impl BusyLane {
    pub(super) fn new(
        spot: Spot,
        client: ClientId,
        query: u64,
        rank: Rank,
        task: &Task,
        now: Mono,
    ) -> Self {
        let Spot { lane, has_share } = spot;
        let (start, pace, client_gone) = (task.progress.place(), Pace::GoOn, false);
        let task = Arc::downgrade(&task.work);
        let query = Some(query);
        Self {
            lane,
            has_share,
            client,
            query,
            client_gone,
            rank,
            task,
            start,
            pace,
            pace_since: now,
        }
    }

    pub(super) fn set_pace(&mut self, pace: Pace, helper: &mut dyn QueryExecutor, now: Mono) {
        (self.pace, self.pace_since) = (pace, now);
        helper.say(self.lane, pace);
    }

    /// The pace that follows on this one if the best of those that wait stands like this, and
    /// when; `None` if nothing follows.
    fn next_pace(&self, best: Rank, stuck: u32) -> Option<(Pace, Mono)> {
        let better = best < self.rank;
        if best.half_closed && !self.rank.half_closed {
            return None;
        }
        let stuck = if better { 0 } else { stuck.min(TIMEOUT_DOUBLINGS_MAX) };
        let later = self.pace_since.after(QUERY_PATIENCE * (1 << stuck));
        Some(match self.pace {
            Pace::GoOn | Pace::Share if better => (Pace::Leave, self.pace_since),
            Pace::GoOn => (Pace::Share, self.pace_since),
            Pace::Share => (Pace::Leave, later),
            Pace::Leave => (Pace::GiveBack, later),
            // It is not waited for.
            Pace::GiveBack | Pace::Drop => (Pace::Drop, self.pace_since.after(QUERY_PATIENCE)),
        })
    }
}

impl QueryScheduler {
    /// Ends the turn step by step, if others wait; and moves searches that have waited for long to
    /// a lane with a share of its own.
    pub(super) fn update_pace(&mut self, now: Mono) {
        if !self.blocked {
            self.next_check = None;
        }
        self.move_late_queries(now);
        let (Some(helper), Some(lane)) = (&mut self.executor, self.turn_lane) else { return };
        let Some(out) = self.busy_lanes.iter_mut().find(|out| out.lane == lane) else { return };
        let Some(best) = self.turns.best_rank() else { return };
        let stuck = out.query.and_then(|number| self.queries.get(&number));
        let stuck = stuck.map_or(0, |query: &Query| query.stuck_turns);
        while let Some((pace, at)) = out.next_pace(best, stuck) {
            if now < at {
                self.next_check = Some(self.next_check.map_or(at, |look| look.min(at)));
                return;
            }
            if pace == Pace::Drop {
                // The lane stays in use.
                self.turn_lane = None;
                self.next_check = Some(now);
                return;
            }
            out.set_pace(pace, helper.as_mut(), now);
        }
    }

    /// Takes what has waited for long from lanes that get only what others leave.
    fn move_late_queries(&mut self, now: Mono) {
        let Some(helper) = &mut self.executor else { return };
        for out in self.busy_lanes.iter_mut().filter(|out| !out.has_share) {
            let Some(number) = out.query else { continue };
            let Some(query) = self.queries.get_mut(&number).filter(|_| !out.rank.half_closed)
            else {
                continue;
            };
            if !helper.find(true).is_some_and(|spot| spot.has_share) {
                return;
            }
            let part = self.timeout / LATE_FRACTION;
            let (late, anew) = (query.arrived.after(part), query.arrived.after(part).after(part));
            if now >= late && out.pace < Pace::GiveBack {
                out.set_pace(Pace::GiveBack, helper.as_mut(), now);
            }
            if now >= anew {
                // If it is gone the turn has just ended.
                let Some(work) = out.task.upgrade() else { continue };
                query.task = Some(Task { work, progress: TaskState::default() });
                out.query = None;
                out.set_pace(Pace::Drop, helper.as_mut(), now);
                self.turn_lane = self.turn_lane.filter(|&lane| lane != out.lane);
                self.turns.requeue(out.client, number, true, query.arrived);
                self.next_check = Some(now);
                continue;
            }
            let at = if now < late { late } else { anew };
            self.next_check = Some(self.next_check.map_or(at, |look| look.min(at)));
        }
    }
}
