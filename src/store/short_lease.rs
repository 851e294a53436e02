//! Leases of whole seconds, kept beside the payload: a job that was put with nothing else is simple
//! until it is reserved, and costs no memory more than one without.

use super::idx::JobIdx;
use super::job::{Job, PLAIN, SHORT_LEASE};
use super::job_ext::NEVER;
use super::payload_head::PayloadHead;
use super::{Due, Store};
use crate::base::thin::Either;
use crate::base::time::Now;
use std::time::Duration;

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
        self.head().map_or(0, |head| u64::from(head.lease_s) * 1_000)
    }

    /// Whether nothing has to be updated when it is removed while it is reserved, but its deadline
    /// and what is updated for a simple job: its rare fields are those of its first lease.
    #[inline]
    pub(super) fn is_simple_but_for_lease(&self) -> bool {
        self.has_short_lease()
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

    /// What is known of when it was put beside [`Job::put_at`], in milliseconds.
    pub(super) fn put_at_more_ms(&self) -> u64 {
        self.head().map_or(0, |head| u64::from(head.created_32nds) * 1_000 / 32)
    }

    /// Moves the lease from the head of its payload to its options, if it is there.
    pub(super) fn unpack_lease(&mut self) {
        if self.has_short_lease() {
            let lease_ms = self.lease_ms();
            self.id_and_flags &= !SHORT_LEASE;
            let ext = self.ext_mut_or_insert();
            ext.counts_leases = true;
            ext.work.get_or_insert_default().options.lease_ms = lease_ms;
        }
    }
}

impl Store {
    /// Starts the first lease of a reserved job that is simple, but for its length. O(1) if the
    /// leases in use have few lengths, or else O(log d).
    #[inline(never)]
    pub(super) fn start_short_lease(&mut self, slot: JobIdx, now: Now) {
        let job = &mut self.jobs[slot];
        let lease_ms = job.lease_ms();
        let ext = job.ext_mut_or_insert();
        ext.counts_leases = true;
        ext.lease.0 = 1;
        let at = now.mono.after(Duration::from_millis(lease_ms));
        ext.timer = self.deadlines.arm(at, Due::Job(slot));
    }
}
