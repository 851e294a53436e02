//! The stages by which a turn is ended for which others wait.

use super::{LATE_FRACTION, Query, QueryScheduler};
use crate::base::limits::QUERY_TURN_TIMEOUT;
use crate::base::time::Mono;
use crate::engine::query_turns::Rank;
use crate::model::id::ClientId;
use crate::model::row::RowKey;
use crate::query::{Pace, QueryExecutor, QueryTask, Spot, Task, TaskState};
use std::ops::Bound;
use std::sync::{Arc, Weak};

/// The timeouts of a query that makes no progress are doubled at most this many times.
const TIMEOUT_DOUBLINGS_MAX: u32 = 8;

/// A lane that evaluates a query.
#[derive(Debug)]
pub(super) struct BusyLane {
    pub(super) lane: usize,
    pub(super) has_share: bool,
    pub(super) client: ClientId,
    /// The query; `None` once it is answered.
    pub(super) query: Option<u64>,
    /// Its client has been disconnected.
    pub(super) client_gone: bool,
    /// The rank of its client when the turn started.
    rank: Rank,
    /// The query's task, which the lane owns.
    task: Weak<QueryTask>,
    /// The row at which the turn started.
    pub(super) start: Bound<RowKey>,
    pub(super) pace: Pace,
    /// Since when the lane has this pace.
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

    pub(super) fn set_pace(&mut self, pace: Pace, executor: &mut dyn QueryExecutor, now: Mono) {
        assert!(pace > self.pace, "a turn is to end later than it was told before");
        assert!(self.pace_since <= now, "the monotonic clock runs back");
        (self.pace, self.pace_since) = (pace, now);
        executor.say(self.lane, pace);
    }

    /// The next pace and when it is due, if the first waiting client has the rank `best`; `None` if
    /// the pace stays.
    fn next_pace(&self, best: Rank, stuck: u32) -> Option<(Pace, Mono)> {
        let better = best < self.rank;
        if best.half_closed && !self.rank.half_closed {
            return None;
        }
        let stuck = if better { 0 } else { stuck.min(TIMEOUT_DOUBLINGS_MAX) };
        let later = self.pace_since.after(QUERY_TURN_TIMEOUT * (1 << stuck));
        Some(match self.pace {
            Pace::GoOn | Pace::Share if better => (Pace::Leave, self.pace_since),
            Pace::GoOn => (Pace::Share, self.pace_since),
            Pace::Share => (Pace::Leave, later),
            Pace::Leave => (Pace::GiveBack, later),
            // The scheduler does not wait for the lane.
            Pace::GiveBack | Pace::Drop => (Pace::Drop, self.pace_since.after(QUERY_TURN_TIMEOUT)),
        })
    }
}

impl QueryScheduler {
    /// Moves the turn to its next pace, if others wait, and late queries to lanes with a share.
    /// O(busy lanes).
    pub(super) fn update_pace(&mut self, now: Mono) {
        if !self.blocked {
            self.next_check = None;
        }
        self.move_late_queries(now);
        let (Some(executor), Some(lane)) = (&mut self.executor, self.turn_lane) else { return };
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
                // The lane stays busy.
                self.turn_lane = None;
                self.next_check = Some(now);
                return;
            }
            out.set_pace(pace, executor.as_mut(), now);
        }
    }

    /// Takes late queries from lanes without a share: those run on idle processors only.
    fn move_late_queries(&mut self, now: Mono) {
        let Some(executor) = &mut self.executor else { return };
        for out in self.busy_lanes.iter_mut().filter(|out| !out.has_share) {
            let Some(number) = out.query else { continue };
            let Some(query) = self.queries.get_mut(&number).filter(|_| !out.rank.half_closed)
            else {
                continue;
            };
            if !executor.find(true).is_some_and(|spot| spot.has_share) {
                return;
            }
            let part = self.timeout / LATE_FRACTION;
            let (late, anew) = (query.arrived.after(part), query.arrived.after(part).after(part));
            if now >= late && out.pace < Pace::GiveBack {
                out.set_pace(Pace::GiveBack, executor.as_mut(), now);
            }
            if now >= anew {
                // Without a task the turn has just ended.
                let Some(work) = out.task.upgrade() else { continue };
                query.task = Some(Task { work, progress: TaskState::default() });
                out.query = None;
                out.set_pace(Pace::Drop, executor.as_mut(), now);
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
