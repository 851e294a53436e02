//! Compaction: the base records of the oldest segment are appended anew until nothing in it is
//! needed. First in, first out: so a record that says that an owner is gone outlives that owner's
//! base record, and no hole ever opens in the middle.
//!
//! It begins when the segments in use hold half as much again as what is live, and one segment.
//! How much is moved in a pass follows what was appended in it, the more the nearer the directory
//! is to its bound, and the time that went by, so that it comes to its end without traffic too.
//!
//! A round is over when every segment that there was at its beginning is gone. If it has won next
//! to nothing, because records are so large that segments cannot be filled, there is a pause until
//! more has died.

use super::Journal;
use crate::base::limits::{
    JOURNAL_MOVE_BACKLOG, JOURNAL_MOVE_RATE, JOURNAL_MOVE_STEP, JOURNAL_PACE_MAX, JOURNAL_PACE_MIN,
};
use crate::base::time::{Mono, Now};

#[derive(Debug)]
struct Round {
    /// Every segment before this one goes.
    end: u64,
    /// Bytes in use at its beginning.
    chain: u64,
    /// Dead bytes at its beginning.
    dead: u64,
    /// Bytes that the owner had appended by then.
    appended: u64,
}

#[derive(Debug)]
pub(super) struct Compaction {
    due: bool,
    /// Bytes that may be moved.
    credit: u64,
    /// Bytes to be moved for each byte appended.
    pace: u64,
    last: Mono,
    /// Who was named and has to be appended now.
    moving: Option<u32>,
    /// Bytes that were appended and not moved.
    appended: u64,
    round: Option<Round>,
    /// No round begins with fewer dead bytes than this.
    pause: u64,
}

impl Compaction {
    pub(super) fn new(now: Mono) -> Self {
        Self {
            due: false,
            credit: 0,
            pace: JOURNAL_PACE_MIN,
            last: now,
            moving: None,
            appended: 0,
            round: None,
            pause: 0,
        }
    }
}

impl Journal {
    /// Counts a record of so many bytes that was appended.
    #[inline]
    pub(super) fn appended(&mut self, owner: Option<u32>, bytes: u32) {
        let compaction = &mut self.compaction;
        let moving = compaction.moving.take();
        if moving.is_some() && moving == owner {
            self.counts.moved_bytes += u64::from(bytes);
        } else {
            compaction.appended += u64::from(bytes);
            if compaction.due {
                compaction.credit += u64::from(bytes) * compaction.pace;
            }
        }
    }

    /// The next owner whose base record must be appended anew, now, as it stands. O(segments
    /// without a live record) at worst.
    pub fn next_to_move(&mut self) -> Option<u32> {
        if !self.compaction.due || self.compaction.credit == 0 || !self.can_move() {
            return None;
        }
        let oldest = self.ledger.oldest(self.head);
        let owner = self.ledger.first_owner(self.ledger.at(oldest))?;
        let bytes = self.ledger.bytes(owner).expect("a listed owner has a base record");
        self.compaction.credit = self.compaction.credit.saturating_sub(u64::from(bytes));
        self.compaction.moving = Some(owner);
        Some(owner)
    }

    /// Bytes of the base records in the oldest segment that has any.
    pub(super) fn oldest_live(&self) -> u64 {
        let oldest = self.ledger.oldest(self.head);
        self.ledger.segments[self.ledger.at(oldest)].live.bytes
    }

    fn can_move(&self) -> bool {
        let fits = || self.free_bytes() >= self.oldest_live() + self.pending_bytes();
        self.fault.is_none()
            && !self.is_closing()
            && self.pending_bytes() < JOURNAL_MOVE_BACKLOG
            && self.ledger.segments[self.ledger.at(self.head)].ready
            && self.ledger.oldest(self.head) < self.head
            && (!self.space.full || fits())
    }

    pub(super) fn compaction_timer(&self) -> Option<Mono> {
        let due = self.compaction.due && self.can_move();
        due.then(|| self.compaction.last.after(JOURNAL_MOVE_STEP))
    }

    /// Whether compaction has work to do: the directory may be beyond its bound until it is done.
    #[must_use]
    pub fn is_compacting(&self) -> bool {
        self.compaction.due
    }

    /// Decides whether compaction is due, and how fast it goes.
    pub(super) fn tend_compaction(&mut self, now: Now) {
        let (live, usual) = (self.ledger.live_bytes, self.options.segment_bytes);
        let head = &self.ledger.segments[self.ledger.at(self.head)];
        let live_behind = live - head.live.bytes - self.ledger.open_bytes();
        let dead = self.space.behind_bytes - live_behind;
        let (chain, used) =
            (self.space.behind_bytes + head.size, self.space.behind_bytes + head.used);
        self.end_round(used, dead);

        let excess = chain.saturating_sub(live + live / 2 + usual);
        let starved = self.space.full && self.free_bytes() < 2 * usual && dead >= usual / 2;
        let compaction = &mut self.compaction;
        let elapsed = now.mono.0.saturating_sub(compaction.last.0);
        compaction.last = now.mono;
        compaction.due = (excess > 0 || starved) && live_behind > 0 && dead > compaction.pause;
        if !compaction.due {
            compaction.credit = 0;
            return;
        }
        let room = live.max(usual) / 2;
        let step = (JOURNAL_PACE_MAX - JOURNAL_PACE_MIN) * excess / room;
        compaction.pace =
            if starved { JOURNAL_PACE_MAX } else { JOURNAL_PACE_MAX.min(JOURNAL_PACE_MIN + step) };
        let elapsed = u128::from(elapsed).min(JOURNAL_MOVE_STEP.as_nanos());
        let credit = (elapsed * u128::from(JOURNAL_MOVE_RATE) / 1_000_000_000) as u64;
        compaction.credit = usual.min(compaction.credit + credit);
        if compaction.round.is_none() {
            let appended = compaction.appended;
            compaction.round = Some(Round { end: self.head, chain: used, dead, appended });
        }
    }

    fn end_round(&mut self, used: u64, dead: u64) {
        let oldest = self.ledger.oldest(self.head);
        let live = self.ledger.live_bytes;
        let compaction = &mut self.compaction;
        if dead < compaction.pause / 2 {
            compaction.pause = 0;
        }
        if compaction.round.as_ref().is_none_or(|round| oldest < round.end) {
            return;
        }
        let Some(round) = compaction.round.take() else { return };
        let grown = compaction.appended - round.appended;
        let won = (round.chain + grown).saturating_sub(used);
        let futile = won < round.dead / 4;
        compaction.pause = if futile { dead + self.options.segment_bytes.max(live / 4) } else { 0 };
    }
}
