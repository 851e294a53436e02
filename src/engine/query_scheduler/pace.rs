//! How a turn is ended that others wait for.

use super::{LATE, Query, QueryScheduler};
use crate::base::limits::QUERY_PATIENCE;
use crate::base::time::Mono;
use crate::engine::query_turns::Rank;
use crate::model::id::ClientId;
use crate::model::row::RowKey;
use crate::query::{Pace, QueryExecutor, QueryTask, Spot, Task, TaskState};
use std::ops::Bound;
use std::sync::{Arc, Weak};

/// Patience with a query that gets nowhere is doubled so many times at most.
const DOUBLED_MAX: u32 = 8;

/// A lane in use.
#[derive(Debug)]
pub(super) struct Out {
    pub(super) lane: usize,
    pub(super) has_share: bool,
    pub(super) client: ClientId,
    /// The search, unless nobody waits for it any more.
    pub(super) query: Option<u64>,
    /// Its client has ended.
    pub(super) gone: bool,
    /// How its client stood when the turn began.
    rank: Rank,
    /// The lane owns it.
    work: Weak<QueryTask>,
    /// Where the turn began.
    pub(super) from: Bound<RowKey>,
    pub(super) pace: Pace,
    /// Since when it has this pace.
    since: Mono,
}

impl Out {
    pub(super) fn new(
        spot: Spot,
        client: ClientId,
        query: u64,
        rank: Rank,
        task: &Task,
        now: Mono,
    ) -> Self {
        let Spot { lane, has_share } = spot;
        let work = Arc::downgrade(&task.work);
        let (from, pace, gone) = (task.progress.place(), Pace::GoOn, false);
        let query = Some(query);
        Self { lane, has_share, client, query, gone, rank, work, from, pace, since: now }
    }

    pub(super) fn set(&mut self, pace: Pace, helper: &mut dyn QueryExecutor, now: Mono) {
        (self.pace, self.since) = (pace, now);
        helper.say(self.lane, pace);
    }

    /// The pace that follows on this one if the best of those that wait stands like this, and
    /// when; `None` if nothing follows.
    fn next(&self, best: Rank, stuck: u32) -> Option<(Pace, Mono)> {
        let better = best < self.rank;
        if best.leaving && !self.rank.leaving {
            return None;
        }
        let stuck = if better { 0 } else { stuck.min(DOUBLED_MAX) };
        let later = self.since.after(QUERY_PATIENCE * (1 << stuck));
        Some(match self.pace {
            Pace::GoOn | Pace::Share if better => (Pace::Leave, self.since),
            Pace::GoOn => (Pace::Share, self.since),
            Pace::Share => (Pace::Leave, later),
            Pace::Leave => (Pace::GiveBack, later),
            // It is not waited for.
            Pace::GiveBack | Pace::Drop => (Pace::Drop, self.since.after(QUERY_PATIENCE)),
        })
    }
}

impl QueryScheduler {
    /// Ends the turn step by step, if others wait; and moves searches that have waited for long to
    /// a lane with a share of its own.
    pub(super) fn press(&mut self, now: Mono) {
        if !self.blocked {
            self.look = None;
        }
        self.press_late(now);
        let (Some(helper), Some(lane)) = (&mut self.helper, self.turn) else { return };
        let Some(out) = self.out.iter_mut().find(|out| out.lane == lane) else { return };
        let Some(best) = self.turns.best() else { return };
        let stuck = out.query.and_then(|number| self.known.get(&number));
        let stuck = stuck.map_or(0, |query: &Query| query.stuck);
        while let Some((pace, at)) = out.next(best, stuck) {
            if now < at {
                self.look = Some(self.look.map_or(at, |look| look.min(at)));
                return;
            }
            if pace == Pace::Drop {
                // The lane stays in use.
                self.turn = None;
                self.look = Some(now);
                return;
            }
            out.set(pace, helper.as_mut(), now);
        }
    }

    /// Takes what has waited for long from lanes that get only what others leave.
    fn press_late(&mut self, now: Mono) {
        let Some(helper) = &mut self.helper else { return };
        for out in self.out.iter_mut().filter(|out| !out.has_share) {
            let Some(number) = out.query else { continue };
            let Some(query) = self.known.get_mut(&number).filter(|_| !out.rank.leaving) else {
                continue;
            };
            if !helper.find(true).is_some_and(|spot| spot.has_share) {
                return;
            }
            let part = self.timeout / LATE;
            let (late, anew) = (query.came.after(part), query.came.after(part).after(part));
            if now >= late && out.pace < Pace::GiveBack {
                out.set(Pace::GiveBack, helper.as_mut(), now);
            }
            if now >= anew {
                // If it is gone the turn has just ended.
                let Some(work) = out.work.upgrade() else { continue };
                query.task = Some(Task { work, progress: TaskState::default() });
                out.query = None;
                out.set(Pace::Drop, helper.as_mut(), now);
                self.turn = self.turn.filter(|&lane| lane != out.lane);
                self.turns.put_back(out.client, number, true, query.came);
                self.look = Some(now);
                continue;
            }
            let at = if now < late { late } else { anew };
            self.look = Some(self.look.map_or(at, |look| look.min(at)));
        }
    }
}
