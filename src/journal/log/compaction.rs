//! Compaction: the base records of the oldest segment are appended anew until nothing in it is
//! needed. First in, first out: so a record that says that an owner is gone outlives that owner's
//! base record, and no hole ever opens in the middle.
//!
//! It begins when the segments in use are filled with half as much again as what is live, and one
//! segment. How much is moved follows what is appended, the more the nearer the directory is to its
//! bound, and goes to the disk along with it: nobody waits for a sync that is there for compaction
//! alone. Where too little is appended a step is made every now and then, so that it comes to its
//! end without traffic too. What could not be moved while the disk was busy is made up for a little
//! in each pass, never all at once. The unfilled ends of segments do not count: moving would leave
//! such ends again.

use super::Journal;
use crate::base::limits::{
    COMPACTION_BACKLOG_BYTES, COMPACTION_PASS_BYTES, COMPACTION_RATE_MAX, COMPACTION_RATE_MIN,
    COMPACTION_STEP_BYTES, COMPACTION_STEP_INTERVAL, JOURNAL_SPARE_FRACTION,
};
use crate::base::time::{Mono, Now};

#[derive(Debug)]
pub(super) struct Compaction {
    due: bool,
    /// Bytes that may be moved.
    byte_budget: u64,
    /// How many of them in this pass, if it appends something.
    pass_budget: u64,
    /// How many of them in any case.
    step_budget: u64,
    /// What has been appended since the last pass calls for so many ..
    requested: u64,
    /// .. and since the last step.
    requested_since_step: u64,
    /// Bytes to be moved for each byte appended.
    rate: u64,
    /// When the last step was made.
    last_step: Mono,
    /// Who was named and has to be appended now.
    moving: Option<u32>,
    /// Bytes of base records that were moved into the open batch.
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
    /// Notes that a record of so many bytes was appended, by compaction or else.
    #[inline]
    pub(super) fn on_append(&mut self, owner: Option<u32>, bytes: u32) {
        let moving = self.compaction.moving.take();
        if moving.is_some() && moving == owner {
            self.batch.moved += 1;
            self.compaction.moved_bytes += u64::from(bytes);
            self.counters.moved_bytes += u64::from(bytes);
        }
    }

    /// Notes that a batch of so many bytes was sealed.
    pub(super) fn on_seal(&mut self, bytes: u64) {
        let compaction = &mut self.compaction;
        let appended = bytes - std::mem::take(&mut compaction.moved_bytes);
        if compaction.due {
            compaction.byte_budget += appended * compaction.rate;
            compaction.requested += appended * compaction.rate;
            compaction.requested_since_step += appended * compaction.rate;
        }
    }

    /// The next owner whose base record must be appended anew, now, as it stands. Like
    /// [`Self::maybe_seal`], it is for between two commands. O(segments without a live record) at
    /// worst.
    pub fn next_to_move(&mut self) -> Option<u32> {
        if !self.compaction.due {
            return None;
        }
        self.maybe_seal();
        let Compaction { byte_budget: credit, pass_budget: pass, step_budget: step, .. } =
            self.compaction;
        let here = if self.batch.client_count() > 0 { pass.max(step) } else { step };
        if credit.min(here) == 0 || !self.can_move() {
            return None;
        }
        let oldest = self.live_index.oldest(self.head);
        let owner = self.live_index.first_record_key(self.live_index.segment_index(oldest))?;
        let bytes = self.live_index.bytes(owner).expect("a listed owner has a base record");
        let compaction = &mut self.compaction;
        for rest in
            [&mut compaction.byte_budget, &mut compaction.pass_budget, &mut compaction.step_budget]
        {
            *rest = rest.saturating_sub(u64::from(bytes));
        }
        compaction.moving = Some(owner);
        Some(owner)
    }

    /// Bytes of the base records in the oldest segment that has any.
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

    /// Allows a step if it is time for one: what was appended since the last one has been called
    /// for already.
    pub(super) fn step_compaction(&mut self, now: Now) {
        let compaction = &mut self.compaction;
        if compaction.due && compaction.last_step.after(COMPACTION_STEP_INTERVAL) <= now.mono {
            compaction.last_step = now.mono;
            compaction.step_budget = COMPACTION_STEP_BYTES;
            let called = std::mem::take(&mut compaction.requested_since_step);
            compaction.byte_budget += COMPACTION_STEP_BYTES.saturating_sub(called);
        }
    }

    /// Whether compaction has work to do: the directory may be beyond its bound until it is done.
    #[must_use]
    pub fn is_compacting(&self) -> bool {
        self.compaction.due
    }

    /// Decides whether compaction is due, and how fast it goes. O(segments that nobody needs).
    pub(super) fn drive(&mut self) {
        let (live, usual) = (self.live_index.live_bytes, self.options.segment_bytes);
        let head = &self.live_index.segments[self.live_index.segment_index(self.head)];
        let live_behind = live - head.live.bytes - self.live_index.open_bytes();
        // Segments that nobody needs any more go by themselves.
        let oldest = self.live_index.segment_index(self.live_index.oldest(self.head));
        let doomed: u64 = self.live_index.segments.iter().take(oldest).map(|old| old.used).sum();
        let behind = self.allocator.behind_bytes - doomed;
        // The head counts whole, and the more it is filled, the next one too.
        let chain = behind + head.size + head.used;
        let excess = chain.saturating_sub(live + live / 2 + usual);
        let starved = self.allocator.full && self.free_bytes() < 2 * usual;
        // What is to be won must be more than what the heads of new batches take, lest it goes on
        // and on; on a full disk there is always so much: see `Journal::has_capacity`.
        let dead = behind + head.used - (live - self.live_index.open_bytes());
        let least = usual * 3 / 8 + live / if starved { JOURNAL_SPARE_FRACTION } else { 8 };

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
