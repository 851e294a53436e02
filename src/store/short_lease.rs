//! Leases of whole seconds, kept beside the payload: a job that was put with nothing else is simple
//! until it is reserved, and costs no memory more than one without.
//!
//! The deadline of its first lease is in its slot, if its priority leaves room there: most jobs are
//! deleted before it ends. Whatever else becomes of a job moves it to the rare fields first.

use super::idx::JobIdx;
use super::job::{Job, LEASED, PLAIN, SHORT_LEASE};
use super::job_ext::{JobExt, NEVER};
use super::payload_head::PayloadHead;
use super::rank::rank;
use super::{Due, Store};
use crate::base::thin::Either;
use crate::base::time::Now;
use crate::base::timer_queue::TimerId;
use crate::model::job::{LeaseEpoch, Status};

/// A rank from here on leaves the upper half of its field to a handle, if it is less than 2^32
/// larger: that of a priority of beanstalkd.
const FIRST_PACKED: u64 = rank(0);

const LOW_HALF: u64 = u32::MAX as u64;

impl Job {
    /// Whether a reservation of it needs nothing but its links.
    #[inline]
    pub(super) fn is_simple_to_reserve(&self) -> bool {
        self.id_and_flags & (PLAIN | SHORT_LEASE) == PLAIN
    }

    /// Whether its lease is in the head of its payload: it has no
    /// [`RunState`](super::job_ext::RunState), and was put with no other options.
    #[inline]
    pub(super) fn has_short_lease(&self) -> bool {
        self.id_and_flags & SHORT_LEASE != 0
    }

    /// The length of its lease in milliseconds; 0: none.
    pub(super) fn lease_ms(&self) -> u64 {
        if !self.has_short_lease() {
            return self.work().map_or(0, |work| work.options.lease_ms);
        }
        debug_assert!(
            self.head().is_some_and(|head| head.lease_s > 0),
            "a short lease is beside the payload"
        );
        self.head().map_or(0, |head| u64::from(head.lease_s) * 1_000)
    }

    /// Whether nothing has to be updated when it is removed while it is reserved, but its deadline
    /// and what is updated for a simple job: its rare fields are those of its first lease.
    #[inline]
    pub(super) fn is_simple_but_for_lease(&self) -> bool {
        self.is_leased()
            || self.has_short_lease()
                && self.ext().is_some_and(|ext| {
                    ext.class.is_none() && ext.expires == NEVER && ext.row().is_none()
                })
    }

    fn head(&self) -> Option<PayloadHead> {
        match self.body.get() {
            Either::Bytes(payload) => Some(PayloadHead::of(payload)),
            Either::Boxed(ext) => ext.head(),
        }
    }

    /// Whether the deadline of its first lease is in its slot.
    #[inline]
    pub(super) fn is_leased(&self) -> bool {
        self.id_and_flags & LEASED != 0
    }

    /// Its priority as a heap key.
    #[inline]
    pub(super) fn rank(&self) -> u64 {
        if self.is_leased() { (self.rank & LOW_HALF) + FIRST_PACKED } else { self.rank }
    }

    /// The deadline of its status, or none.
    #[inline]
    pub(super) fn timer(&self) -> TimerId {
        if self.is_leased() {
            debug_assert!(
                !self.is_simple() && self.ext().is_none(),
                "a deadline is in the slot of a job without rare fields"
            );
            return TimerId::from_bits((self.rank >> 32) as u32);
        }
        self.ext().map_or(TimerId::NONE, |ext| ext.timer)
    }

    /// Keeps the deadline of the first lease of a simple job, in its slot if there is room.
    #[inline]
    fn pack_timer(&mut self, timer: TimerId) {
        debug_assert!(self.is_simple() && self.has_short_lease(), "it has had a lease before");
        debug_assert!(!timer.is_none(), "a lease has a deadline");
        let (rank, packed) = (self.rank, self.rank.wrapping_sub(FIRST_PACKED));
        if packed > LOW_HALF {
            return self.set_first_lease(timer);
        }
        self.rank = packed | u64::from(timer.bits()) << 32;
        self.id_and_flags = self.id_and_flags & !PLAIN | LEASED;
        debug_assert!(
            self.rank() == rank && self.timer() == timer,
            "priority and deadline are read from one field as they were written"
        );
    }

    /// Moves the deadline from its slot to the rare fields, if it is there.
    #[inline]
    pub(super) fn unpack_timer(&mut self) {
        if self.is_leased() {
            self.unpack_timer_cold();
        }
    }

    #[cold]
    fn unpack_timer_cold(&mut self) {
        let timer = self.timer();
        self.rank = self.rank();
        self.id_and_flags &= !LEASED;
        self.set_first_lease(timer);
        debug_assert!(self.timer() == timer, "a deadline moves to the rare fields unchanged");
    }

    /// Keeps the deadline of its first lease among the rare fields.
    #[cold]
    fn set_first_lease(&mut self, timer: TimerId) {
        self.id_and_flags &= !PLAIN;
        let ext = self.body.boxed_with(JobExt::new);
        debug_assert!(ext.timer.is_none() && ext.lease.0 == 0, "a first lease follows no other");
        (ext.counts_leases, ext.lease, ext.timer) = (true, LeaseEpoch(1), timer);
    }

    /// Counts one more reservation, if the job has lease epochs.
    pub(super) fn count_lease(&mut self) {
        debug_assert_eq!(self.status(), Status::Reserved, "a lease begins with a reservation");
        if let Some(ext) = self.ext_mut()
            && ext.counts_leases
        {
            ext.lease.0 = ext.lease.0.wrapping_add(1);
        }
    }

    /// What is known of when it was put beside [`Job::put_at`], in milliseconds.
    pub(super) fn put_at_more_ms(&self) -> u64 {
        self.head().map_or(0, |head| u64::from(head.created_32nds) * 1_000 / 32)
    }

    /// Moves the lease from the head of its payload to its options, if it is there.
    pub(super) fn unpack_lease(&mut self) {
        if self.has_short_lease() {
            debug_assert!(self.work().is_none(), "a job with a short lease has no other options");
            let lease_ms = self.lease_ms();
            self.id_and_flags &= !SHORT_LEASE;
            let ext = self.ext_mut_or_insert();
            ext.counts_leases = true;
            ext.work.get_or_insert_default().options.lease_ms = lease_ms;
            debug_assert_eq!(self.lease_ms(), lease_ms, "a lease moves with its length");
        }
    }
}

impl Store {
    /// Starts the first lease of a reserved job that is simple, but for its length. O(1) if the
    /// leases in use have few lengths, or else O(log d).
    #[inline(never)]
    pub(super) fn start_short_lease(&mut self, slot: JobIdx, now: Now) {
        let job = &mut self.jobs[slot];
        debug_assert_eq!(job.status(), Status::Reserved, "only reservations have leases");
        let at = now.mono.after_seconds(job.head().map_or(0, |head| u32::from(head.lease_s)));
        debug_assert!(at > now.mono, "a lease ends later than it begins");
        job.pack_timer(self.deadlines.arm(at, Due::Job(slot)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::slab_index::SlabIndex;
    use crate::base::time::Mono;
    use crate::base::timer_queue::TimerQueue;
    use crate::model::job::{Encoding, Payload, Priority, TieBreak};
    use crate::store::idx::QueueIdx;

    /// A job whose first lease has begun.
    fn leased(priority: Priority<'_>, timer: TimerId) -> Job {
        let payload = Payload { encoding: Encoding::Bytes, bytes: b"x" };
        let (queue, now) = (QueueIdx::from_slot(0), Now::default());
        let mut job = Job::new(1, queue, priority, TieBreak::Fifo, (payload, 120), now);
        assert!(!job.is_leased() && job.is_simple() && job.timer().is_none());
        job.pack_timer(timer);
        job
    }

    #[test]
    fn priority_and_lease_are_the_same_in_a_slot_and_beside_it() {
        let mut deadlines = TimerQueue::default();
        let few: Vec<TimerId> = (0..3).map(|number| deadlines.arm(Mono(number), 0)).collect();
        for timer in [few[2], TimerId::from_bits(0), TimerId::from_bits(u32::MAX - 1)] {
            for (number, has_room) in [
                (0, true),
                (-1, true),
                (-i64::from(u32::MAX), true),
                (-i64::from(u32::MAX) - 1, false),
                (1, false),
                (i64::MAX - 1, false),
                (i64::MIN + 1, false),
            ] {
                let mut job = leased(Priority::Small(number), timer);
                assert_eq!((job.is_leased(), job.ext().is_none()), (has_room, has_room));
                for _ in 0..2 {
                    assert_eq!(job.priority(), Priority::Small(number));
                    assert_eq!(job.view(b"q").priority, Priority::Small(number));
                    assert_eq!((job.timer(), job.lease(), job.id()), (timer, LeaseEpoch(1), 1));
                    assert_eq!(job.view(b"q").lease, LeaseEpoch(1));
                    assert_eq!(job.options().lease_ms, 120_000);
                    assert!(!job.is_simple() && job.counts_leases() && !job.is_group_only());
                    job.ext_mut_or_insert();
                    assert!(!job.is_leased());
                }
            }
        }
    }

    #[test]
    fn new_priority_moves_the_deadline_out_of_the_slot() {
        let timer = TimerId::from_bits(7);
        let mut job = leased(Priority::Small(-5), timer);
        job.set_priority(Priority::Small(9));
        assert_eq!((job.priority(), job.timer()), (Priority::Small(9), timer));
    }
}
