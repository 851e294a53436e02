//! Compaction: the base records of the oldest segment are appended again until no record in it is
//! live. First in, first out: a deletion record therefore outlives the base record that it deletes,
//! and no segment between others is ever freed.
//!
//! It starts when the segments in use hold more than one and a half times the live bytes and one
//! segment. The amount moved follows the amount appended, more of it the nearer the directory is to
//! its bound, in the batches that are written anyway, so compaction causes no syncs of its own.
//! Where too little is appended it makes a step at intervals, so that it ends without traffic too.
//! What a busy disk has delayed is caught up on in small amounts per pass. The unused ends of
//! segments do not count, because moving records would leave such ends again.

use super::Journal;
use crate::base::limits::{
    COMPACTION_BACKLOG_BYTES, COMPACTION_PASS_BYTES, COMPACTION_RATE_MAX, COMPACTION_RATE_MIN,
    COMPACTION_STEP_BYTES, COMPACTION_STEP_INTERVAL, JOURNAL_RESERVE_LIVE_DIVISOR,
};
use crate::base::time::{Mono, Now};

#[derive(Debug)]
pub(super) struct Compaction {
    due: bool,
    /// Bytes that may be moved in all.
    byte_budget: u64,
    /// Bytes that may be moved in this pass, if it appends records of clients.
    pass_budget: u64,
    /// Bytes that may be moved in any case.
    step_budget: u64,
    /// Bytes to move for what was appended since the last pass.
    requested: u64,
    /// The same since the last step.
    requested_since_step: u64,
    /// Bytes to move for each byte appended.
    rate: u64,
    last_step: Mono,
    /// The record key that the caller has to append now.
    moving: Option<u32>,
    /// Bytes of moved base records in the open batch.
    moved_bytes: u64,
}

impl Compaction {
    pub(super) fn new(now: Mono) -> Self {
        Self {
            due: false,
            byte_budget: 0,
            pass_budget: 0,
            step_budget: 0,
            requested: 0,
            requested_since_step: 0,
            rate: COMPACTION_RATE_MIN,
            last_step: now,
            moving: None,
            moved_bytes: 0,
        }
    }
}

impl Journal {
    /// Notes that a record was appended, by compaction or not.
    #[inline]
    pub(super) fn on_append(&mut self, record_key: Option<u32>, bytes: u32) {
        let moving = self.compaction.moving.take();
        if moving.is_some() && moving == record_key {
            self.batch.moved += 1;
            self.compaction.moved_bytes += u64::from(bytes);
            self.counters.moved_bytes += u64::from(bytes);
        }
    }

    /// Notes that a batch of `bytes` bytes was sealed.
    pub(super) fn on_seal(&mut self, bytes: u64) {
        let compaction = &mut self.compaction;
        let appended = bytes - std::mem::take(&mut compaction.moved_bytes);
        if compaction.due {
            compaction.byte_budget += appended * compaction.rate;
            compaction.requested += appended * compaction.rate;
            compaction.requested_since_step += appended * compaction.rate;
        }
    }

    /// The next record key whose base record the caller must append again now, in its present
    /// state. Like [`Self::maybe_seal`], only between two commands. O(segments without a live
    /// record).
    pub fn next_to_move(&mut self) -> Option<u32> {
        if !self.compaction.due {
            return None;
        }
        self.maybe_seal();
        let Compaction { byte_budget, pass_budget: pass, step_budget: step, .. } = self.compaction;
        let here = if self.batch.client_count() > 0 { pass.max(step) } else { step };
        if byte_budget.min(here) == 0 || !self.can_move() {
            return None;
        }
        let oldest = self.live_index.oldest(self.head);
        let record_key = self.live_index.first_record_key(self.live_index.segment_index(oldest))?;
        let bytes =
            self.live_index.bytes(record_key).expect("a listed record key has a base record");
        let compaction = &mut self.compaction;
        for rest in
            [&mut compaction.byte_budget, &mut compaction.pass_budget, &mut compaction.step_budget]
        {
            *rest = rest.saturating_sub(u64::from(bytes));
        }
        compaction.moving = Some(record_key);
        Some(record_key)
    }

    /// Live bytes of the oldest segment that has any.
    pub(super) fn oldest_live(&self) -> u64 {
        let oldest = self.live_index.oldest(self.head);
        self.live_index.segments[self.live_index.segment_index(oldest)].live.bytes
    }

    fn can_move(&self) -> bool {
        let fits = || self.free_bytes() >= self.oldest_live() + self.pending_bytes();
        self.disk_error.is_none()
            && !self.is_closing()
            && self.pending_bytes() < COMPACTION_BACKLOG_BYTES.min(self.options.segment_bytes / 4)
            && self.live_index.segments[self.live_index.segment_index(self.head)].ready
            && self.live_index.oldest(self.head) < self.head
            && (!self.allocator.full || fits())
    }

    pub(super) fn compaction_timer(&self) -> Option<Mono> {
        let due = self.compaction.due && self.can_move();
        due.then(|| self.compaction.last_step.after(COMPACTION_STEP_INTERVAL))
    }

    /// Grants a step if one is due, less what was requested since the last step.
    pub(super) fn step_compaction(&mut self, now: Now) {
        let compaction = &mut self.compaction;
        if compaction.due && compaction.last_step.after(COMPACTION_STEP_INTERVAL) <= now.mono {
            compaction.last_step = now.mono;
            compaction.step_budget = COMPACTION_STEP_BYTES;
            let requested = std::mem::take(&mut compaction.requested_since_step);
            compaction.byte_budget += COMPACTION_STEP_BYTES.saturating_sub(requested);
        }
    }

    /// Whether compaction is due. Until it ends the directory may exceed its bound.
    #[must_use]
    pub fn is_compacting(&self) -> bool {
        self.compaction.due
    }

    /// Decides whether compaction is due, and its rate. O(segments that are to be freed).
    pub(super) fn drive(&mut self) {
        let (live, usual) = (self.live_index.live_bytes, self.options.segment_bytes);
        let head = &self.live_index.segments[self.live_index.segment_index(self.head)];
        let live_behind = live - head.live.bytes - self.live_index.open_bytes();
        // Segments before the oldest live record are freed without compaction.
        let oldest = self.live_index.segment_index(self.live_index.oldest(self.head));
        let unneeded: u64 = self.live_index.segments.iter().take(oldest).map(|old| old.used).sum();
        let behind = self.allocator.behind_bytes - unneeded;
        // The head counts with its whole size, and the next segment as far as the head is filled.
        let chain = behind + head.size + head.used;
        let excess = chain.saturating_sub(live + live / 2 + usual);
        let starved = self.allocator.full && self.free_bytes() < 2 * usual;
        // The dead bytes must exceed what the headers of new batches take, or compaction would not
        // end; on a full disk they always do: see `Journal::has_capacity`.
        let dead = behind + head.used - (live - self.live_index.open_bytes());
        let least = usual * 3 / 8 + live / if starved { JOURNAL_RESERVE_LIVE_DIVISOR } else { 8 };

        let compaction = &mut self.compaction;
        compaction.due = (excess > 0 || starved) && live_behind > 0 && dead >= least;
        if !compaction.due {
            compaction.byte_budget = 0;
            return;
        }
        let room = live.max(usual) / 2;
        let step = (COMPACTION_RATE_MAX - COMPACTION_RATE_MIN) * excess / room;
        compaction.rate = if starved {
            COMPACTION_RATE_MAX
        } else {
            COMPACTION_RATE_MAX.min(COMPACTION_RATE_MIN + step)
        };
        compaction.byte_budget = usual.min(compaction.byte_budget);
        compaction.pass_budget =
            COMPACTION_PASS_BYTES.max(std::mem::take(&mut compaction.requested));
    }
}
