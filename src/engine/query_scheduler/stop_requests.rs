//! The stages by which a turn is ended for which others wait.

use super::{LATE_FRACTION, Query, QueryScheduler};
use crate::base::limits::QUERY_TURN_TIMEOUT;
use crate::base::time::Mono;
use crate::engine::query_turns::Rank;
use crate::model::id::ClientId;
use crate::model::row::RowKey;
use crate::query::{FreeLane, QueryExecutor, QueryTask, ResultShape, StopRequest, Task, TaskState};
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
    /// What is made of the rows that it finds.
    shape: ResultShape,
    /// The row at which the turn started.
    pub(super) start: Bound<RowKey>,
    pub(super) stop: StopRequest,
    /// When it was requested.
    stop_since: Mono,
}

impl BusyLane {
    pub(super) fn new(
        free: FreeLane,
        client: ClientId,
        query: u64,
        rank: Rank,
        task: &Task,
        now: Mono,
    ) -> Self {
        let FreeLane { lane, has_share } = free;
        let (start, stop, client_gone) = (task.progress.place(), StopRequest::None, false);
        let (task, shape) = (Arc::downgrade(&task.work), task.progress.shape);
        let query = Some(query);
        Self {
            lane,
            has_share,
            client,
            query,
            client_gone,
            rank,
            task,
            shape,
            start,
            stop,
            stop_since: now,
        }
    }

    pub(super) fn request_stop(
        &mut self,
        stop: StopRequest,
        executor: &mut dyn QueryExecutor,
        now: Mono,
    ) {
        assert!(stop > self.stop, "a stop request is less urgent than the one before");
        assert!(self.stop_since <= now, "the monotonic clock runs back");
        (self.stop, self.stop_since) = (stop, now);
        executor.request_stop(self.lane, stop);
    }

    /// The next stop request and when it is due, if the first waiting client has the rank `best`;
    /// `None` if it stays.
    fn next_stop(&self, best: Rank, stuck: u32) -> Option<(StopRequest, Mono)> {
        let better = best < self.rank;
        if best.half_closed && !self.rank.half_closed {
            return None;
        }
        let stuck = if better { 0 } else { stuck.min(TIMEOUT_DOUBLINGS_MAX) };
        let later = self.stop_since.after(QUERY_TURN_TIMEOUT * (1 << stuck));
        Some(match self.stop {
            StopRequest::None | StopRequest::AtStepLimit if better => {
                (StopRequest::BeforeNextRow, self.stop_since)
            }
            StopRequest::None => (StopRequest::AtStepLimit, self.stop_since),
            StopRequest::AtStepLimit => (StopRequest::BeforeNextRow, later),
            StopRequest::BeforeNextRow => (StopRequest::Now, later),
            // The scheduler does not wait for the lane.
            StopRequest::Now | StopRequest::Cancel => {
                (StopRequest::Cancel, self.stop_since.after(QUERY_TURN_TIMEOUT))
            }
        })
    }
}

impl QueryScheduler {
    /// Requests an earlier end of the turn, if others wait, and moves late queries to lanes with a
    /// share. O(busy lanes), and O(queries log queries) if some are moved.
    pub(super) fn update_stop_requests(&mut self, now: Mono) {
        if !self.blocked {
            self.next_check = None;
        }
        self.move_late_queries(now);
        let (Some(executor), Some(lane)) = (&mut self.executor, self.turn_lane) else { return };
        let Some(out) = self.busy_lanes.iter_mut().find(|out| out.lane == lane) else { return };
        let Some(best) = self.turns.best_rank() else { return };
        let stuck = out.query.and_then(|number| self.queries.get(&number));
        let stuck = stuck.map_or(0, |query: &Query| query.turns_without_progress);
        while let Some((stop, at)) = out.next_stop(best, stuck) {
            if now < at {
                self.next_check = Some(self.next_check.map_or(at, |look| look.min(at)));
                return;
            }
            if stop == StopRequest::Cancel {
                // The lane stays busy.
                self.turn_lane = None;
                self.next_check = Some(now);
                return;
            }
            out.request_stop(stop, executor.as_mut(), now);
        }
    }

    /// Takes late queries from lanes without a share: those run on idle processors only.
    fn move_late_queries(&mut self, now: Mono) {
        let Some(executor) = &mut self.executor else { return };
        let mut moved = false;
        for out in self.busy_lanes.iter_mut().filter(|out| !out.has_share) {
            let Some(number) = out.query else { continue };
            let Some(query) = self.queries.get_mut(&number).filter(|_| !out.rank.half_closed)
            else {
                continue;
            };
            if !executor.find(true).is_some_and(|free| free.has_share) {
                break;
            }
            let part = self.timeout / LATE_FRACTION;
            let (late, anew) = (query.arrived.after(part), query.arrived.after(part).after(part));
            if now >= late && out.stop < StopRequest::Now {
                out.request_stop(StopRequest::Now, executor.as_mut(), now);
            }
            if now >= anew {
                // Without a task the turn has just ended.
                let Some(work) = out.task.upgrade() else { continue };
                debug_assert!(query.task.is_none(), "a lane has the task of its query");
                let mut progress = TaskState::default();
                progress.shape = out.shape;
                query.task = Some(Task { work, progress });
                out.query = None;
                out.request_stop(StopRequest::Cancel, executor.as_mut(), now);
                self.turn_lane = self.turn_lane.filter(|&lane| lane != out.lane);
                self.turns.requeue(out.client, number, true, query.arrived);
                self.next_check = Some(now);
                moved = true;
                continue;
            }
            let at = if now < late { late } else { anew };
            self.next_check = Some(self.next_check.map_or(at, |look| look.min(at)));
        }
        if moved {
            self.limit_started(now);
        }
    }
}
