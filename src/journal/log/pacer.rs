//! The pace of the work beside the clients' batches: moving live records, and preparing the next
//! segment.
//!
//! Both follow the bytes that clients append, and nothing here measures a speed. They are bounded
//! in two units, because they compete with clients for two things:
//! - Records are moved by the loop, in a pass of which nothing else is served. [`Pacer`] bounds the
//!   bytes of a pass; time only grants a small step where too little is appended.
//! - The next segment is filled with zeros by a thread of the disk, where the zeros delay syncs.
//!   [`prefill_target`] says how many bytes are needed by now; the disk, which alone knows how long
//!   a write takes, spreads them over time by pauses.
//!
//! What group commit delays (`io_queue`) and the retries on a full disk (`segment_allocator`) are
//! single moments, not a pace.

use crate::base::time::Mono;
use crate::journal::disk::PrefillTarget;
use crate::journal::limits::{
    COMPACTION_PASS_BYTES, COMPACTION_RATE_MAX, COMPACTION_RATE_MIN, COMPACTION_STEP_BYTES,
    COMPACTION_STEP_INTERVAL,
};

/// The bytes that compaction may move.
#[derive(Debug)]
pub(super) struct Pacer {
    /// In all.
    total: u64,
    /// In this pass, if it appends records of clients.
    pass: u64,
    /// In any case.
    step: u64,
    /// For what was appended since the last pass.
    requested: u64,
    /// The same since the last step.
    requested_since_step: u64,
    /// For each byte appended.
    rate: u64,
    last_step: Mono,
}

impl Pacer {
    pub(super) fn new(now: Mono) -> Self {
        Self {
            total: 0,
            pass: 0,
            step: 0,
            requested: 0,
            requested_since_step: 0,
            rate: COMPACTION_RATE_MIN,
            last_step: now,
        }
    }

    /// Clients have appended this many bytes.
    pub(super) fn on_append(&mut self, bytes: u64) {
        self.total += bytes * self.rate;
        self.requested += bytes * self.rate;
        self.requested_since_step += bytes * self.rate;
    }

    /// Whether a record may be moved now. `has_clients`: the open batch has records of clients, so
    /// that it is written anyway.
    pub(super) fn permits(&self, has_clients: bool) -> bool {
        let here = if has_clients { self.pass.max(self.step) } else { self.step };
        self.total.min(here) > 0
    }

    /// This many bytes are moved. The last record may exceed what is left.
    pub(super) fn spend(&mut self, bytes: u64) {
        debug_assert!(bytes > 0, "compaction would not advance: it moves no bytes");
        debug_assert!(self.permits(true), "a record is moved although the pace does not permit it");
        for rest in [&mut self.total, &mut self.pass, &mut self.step] {
            *rest = rest.saturating_sub(bytes);
        }
    }

    /// When the next step is due.
    pub(super) fn next_step(&self) -> Mono {
        self.last_step.after(COMPACTION_STEP_INTERVAL)
    }

    /// Grants a step if one is due, less what was requested since the last step.
    pub(super) fn step(&mut self, now: Mono) {
        debug_assert!(self.last_step <= now, "the clock of passes goes back");
        if self.next_step() <= now {
            self.last_step = now;
            self.step = COMPACTION_STEP_BYTES;
            let requested = std::mem::take(&mut self.requested_since_step);
            self.total += COMPACTION_STEP_BYTES.saturating_sub(requested);
        }
    }

    /// Compaction is not due: nothing is left to move.
    pub(super) fn stop(&mut self) {
        self.total = 0;
    }

    /// The pace of the next pass. `excess` of `room`: how far the directory is from where
    /// compaction began to its bound, in bytes; `None`: the disk is full. `most`: no more is moved
    /// in all.
    pub(super) fn begin_pass(&mut self, excess: Option<u64>, room: u64, most: u64) {
        assert!(room > 0, "compaction begins where the directory is at its bound");
        let rate = |excess: u64| {
            COMPACTION_RATE_MIN + (COMPACTION_RATE_MAX - COMPACTION_RATE_MIN) * excess / room
        };
        self.rate =
            excess.map_or(COMPACTION_RATE_MAX, |excess| rate(excess).min(COMPACTION_RATE_MAX));
        assert!(
            (COMPACTION_RATE_MIN..=COMPACTION_RATE_MAX).contains(&self.rate),
            "compaction would not end, or slow down clients more than permitted"
        );
        self.total = self.total.min(most);
        self.pass = COMPACTION_PASS_BYTES.max(std::mem::take(&mut self.requested));
        debug_assert!(self.step <= COMPACTION_STEP_BYTES, "a step is bounded");
    }
}

/// How far the next segment is to be filled when the head has `used` bytes: twice as far, so that
/// it is ready when the head is half full.
pub(super) fn prefill_target(used: u64, batches_wait: bool) -> PrefillTarget {
    if batches_wait { PrefillTarget::Immediately } else { PrefillTarget::Bytes(2 * used) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(steps: u32) -> Mono {
        Mono(0).after(COMPACTION_STEP_INTERVAL * steps)
    }

    #[test]
    fn moved_bytes_follow_appended_ones() {
        let mut pacer = Pacer::new(after(0));
        pacer.begin_pass(Some(0), 100, u64::MAX);
        assert!(!pacer.permits(true), "nothing was appended");
        pacer.on_append(1000);
        pacer.begin_pass(Some(0), 100, u64::MAX);
        assert!(pacer.permits(true) && !pacer.permits(false));
        pacer.spend(1000 * COMPACTION_RATE_MIN - 1);
        assert!(pacer.permits(true));
        pacer.spend(1);
        assert!(!pacer.permits(true));
    }

    #[test]
    fn pace_rises_toward_the_bound_and_is_highest_on_a_full_disk() {
        let mut pacer = Pacer::new(after(0));
        for (excess, rate) in [
            (Some(0), COMPACTION_RATE_MIN),
            (Some(100), COMPACTION_RATE_MAX),
            (Some(1000), COMPACTION_RATE_MAX),
            (None, COMPACTION_RATE_MAX),
        ] {
            pacer.begin_pass(excess, 100, u64::MAX);
            assert_eq!(pacer.rate, rate, "{excess:?}");
        }
    }

    #[test]
    fn steps_need_no_appends_and_do_not_add_to_them() {
        let mut pacer = Pacer::new(after(0));
        pacer.step(after(0));
        assert!(!pacer.permits(false), "no step is due");
        pacer.step(after(1));
        assert!(pacer.permits(false));
        pacer.spend(COMPACTION_STEP_BYTES);
        assert!(!pacer.permits(false));
        pacer.on_append(COMPACTION_STEP_BYTES);
        let total = pacer.total;
        pacer.step(after(2));
        assert_eq!(pacer.total, total);
        pacer.stop();
        assert!(!pacer.permits(true) && !pacer.permits(false));
    }
}
