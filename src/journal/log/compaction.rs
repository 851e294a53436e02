//! Compaction: the base records of the oldest segment are appended again until no record in it is
//! live. First in, first out: a deletion record therefore outlives the base record that it deletes,
//! and no segment between others is ever freed.
//!
//! It starts when the segments in use hold more than one and a half times the live bytes and one
//! segment. The unused ends of segments do not count, because moving records would leave such ends
//! again. The amount moved ([`Pacer`]) follows the amount appended, more of it the nearer the
//! directory is to its bound, in the batches that are written anyway, so compaction causes no syncs
//! of its own. Where too little is appended it makes a step at intervals, so that it ends without
//! traffic too. What a busy disk has delayed is caught up on in small amounts per pass.

use super::Journal;
use super::pacer::Pacer;
use crate::base::time::{Mono, Now};
use crate::journal::limits::{COMPACTION_BACKLOG_BYTES, JOURNAL_RESERVE_LIVE_DIVISOR};

#[derive(Debug)]
pub(super) struct Compaction {
    due: bool,
    pacer: Pacer,
    /// The record key that the caller has to append now.
    moving: Option<u32>,
    /// Bytes of moved base records in the open batch.
    moved_bytes: u64,
}

impl Compaction {
    pub(super) fn new(now: Mono) -> Self {
        Self { due: false, pacer: Pacer::new(now), moving: None, moved_bytes: 0 }
    }
}

impl Journal {
    /// Notes that a record was appended, by compaction or not.
    #[inline]
    pub(super) fn on_append(&mut self, record_key: Option<u32>, bytes: u32) {
        let moving = self.compaction.moving.take();
        debug_assert!(
            moving.is_none() || moving == record_key,
            "the record that compaction moves is not the next one appended"
        );
        if moving.is_some() && moving == record_key {
            self.batch.moved += 1;
            debug_assert!(
                self.batch.moved <= self.batch.count,
                "more records were moved into a batch than it has"
            );
            self.compaction.moved_bytes += u64::from(bytes);
            self.counters.moved_bytes += u64::from(bytes);
        }
    }

    /// Notes that a batch of `bytes` bytes was sealed.
    pub(super) fn on_seal(&mut self, bytes: u64) {
        let compaction = &mut self.compaction;
        let moved = std::mem::take(&mut compaction.moved_bytes);
        assert!(moved < bytes, "more bytes were moved into a batch than it has");
        let appended = bytes - moved;
        if compaction.due {
            compaction.pacer.on_append(appended);
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
        let has_clients = self.batch.client_count() > 0;
        if !self.compaction.pacer.permits(has_clients) || !self.can_move() {
            return None;
        }
        debug_assert!(self.compaction.moving.is_none(), "the last record named was not appended");
        let oldest = self.live_index.oldest(self.head);
        let index = self.live_index.segment_index(oldest);
        debug_assert!(
            self.live_index.segments[index].live.count > 0,
            "compaction moves from a segment without live records"
        );
        let record_key = self.live_index.first_record_key(index)?;
        let bytes =
            self.live_index.bytes(record_key).expect("a listed record key has a base record");
        debug_assert!(oldest < self.head, "the records of the head are not moved");
        self.compaction.pacer.spend(u64::from(bytes));
        self.compaction.moving = Some(record_key);
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
        due.then(|| self.compaction.pacer.next_step())
    }

    /// Grants a step if one is due.
    pub(super) fn step_compaction(&mut self, now: Now) {
        if self.compaction.due {
            self.compaction.pacer.step(now.mono);
        }
    }

    /// Whether compaction is due. Until it ends the directory may exceed its bound.
    #[must_use]
    pub fn is_compacting(&self) -> bool {
        self.compaction.due
    }

    /// Decides whether compaction is due, and its pace. O(segments that are to be freed).
    pub(super) fn drive(&mut self) {
        let (live, usual) = (self.live_index.live_bytes, self.options.segment_bytes);
        let head = &self.live_index.segments[self.live_index.segment_index(self.head)];
        assert!(
            live >= head.live.bytes + self.live_index.open_bytes(),
            "the head and the open batch have more live bytes than there are"
        );
        let live_behind = live - head.live.bytes - self.live_index.open_bytes();
        // Segments before the oldest live record are freed without compaction.
        let oldest = self.live_index.segment_index(self.live_index.oldest(self.head));
        debug_assert_eq!(
            live_behind > 0,
            self.live_index.first_epoch + (oldest as u64) < self.head,
            "the live bytes before the head are those of the segments before it"
        );
        let unneeded: u64 = self.live_index.segments.iter().take(oldest).map(|old| old.used).sum();
        assert!(unneeded <= self.allocator.behind_bytes, "a segment behind the head is in use");
        let behind = self.allocator.behind_bytes - unneeded;
        // The head counts with its whole size, and the next segment as far as the head is filled.
        let chain = behind + head.size + head.used;
        let excess = chain.saturating_sub(live + live / 2 + usual);
        let low_on_space = self.allocator.full && self.free_bytes() < 2 * usual;
        // The dead bytes must exceed what the headers of new batches take, or compaction would not
        // end; on a full disk they always do: see `Journal::has_capacity`.
        let sealed_live = live - self.live_index.open_bytes();
        assert!(sealed_live <= behind + head.used, "live records exceed their segments");
        let dead = behind + head.used - sealed_live;
        let least =
            usual * 3 / 8 + live / if low_on_space { JOURNAL_RESERVE_LIVE_DIVISOR } else { 8 };

        let compaction = &mut self.compaction;
        compaction.due = (excess > 0 || low_on_space) && live_behind > 0 && dead >= least;
        if !compaction.due {
            compaction.pacer.stop();
            return;
        }
        let excess = (!low_on_space).then_some(excess);
        compaction.pacer.begin_pass(excess, live.max(usual) / 2, usual);
    }
}
