//! "No job" that is answered later: a reserve or pop that does not wait, and whose queues may still
//! turn out to have a job for it.

use super::idx::WaiterIdx;
use super::waiters::WaiterKind;
use super::{Due, Effects, Outcome, Store};
use crate::base::limits::{EXTRA_WORK_PER_TURN, SCAN_CHECK_INTERVAL_MS};
use crate::base::strings::Strings;
use crate::base::time::Now;
use crate::model::id::Ticket;
use std::time::Duration;

impl Store {
    /// Answers a reserve or pop that does not wait and has found no job: at once, or when the scans
    /// of its queues are complete. O(1), or O(q).
    #[inline(always)]
    pub(super) fn answer_no_job(
        &mut self,
        ticket: Ticket,
        kind: WaiterKind,
        names: Strings<'_>,
        now: Now,
        fx: &mut Effects,
    ) {
        if self.constraints.unfinished_scan() {
            return self.defer_empty_reply(ticket, kind, names, now);
        }
        fx.answer(ticket, Outcome::NoJob);
    }

    /// Defers the answer of a reserve or pop that does not wait and has found no job, but whose
    /// scan is incomplete: "no job" is answered when all scans have ended, or, looked at each
    /// [`SCAN_CHECK_INTERVAL_MS`], when those of its own queues have ([`Store::defer_further`]).
    /// That takes a pass or two as a rule. Meanwhile it is an ordinary waiter; a pop then only gets
    /// jobs that a pop can carry. O(q).
    #[cold]
    fn defer_empty_reply(
        &mut self,
        ticket: Ticket,
        kind: WaiterKind,
        names: Strings<'_>,
        now: Now,
    ) {
        let waiter = self.enqueue_waiter(ticket, kind, names);
        let at = now.mono.after(Duration::from_millis(SCAN_CHECK_INTERVAL_MS));
        self.waiters[waiter].timer = self.deadlines.arm(at, Due::Waiter(waiter));
        self.waiters.set_deferred(waiter);
        self.constraints.defer_reply(waiter, ticket);
        // The client's next request waits: see `Store::is_deferred`.
        self.waiters.note_work(EXTRA_WORK_PER_TURN + 1);
    }

    /// Whether a waiter whose time is over waits further: a reserve or pop that does not wait of
    /// itself, while one of its queues may still turn out to have a job for it. Such a queue is on
    /// hold or in a scan, and both come to an end. O(queues of the waiter + log d).
    pub(super) fn defer_further(&mut self, waiter: WaiterIdx, now: Now) -> bool {
        let defers = self.waiters[waiter].is_deferred()
            && self.waiters.queues_of(waiter).any(|queue| {
                let has_classes = self.queues[queue].class_count > 0;
                self.is_hold_brief(queue) || self.constraints.may_find_more(queue, has_classes)
            });
        if defers {
            debug_assert!(
                self.waiters[waiter].timer.is_none(),
                "a waiter gets a new timeout when the former one has fired"
            );
            let at = now.mono.after(Duration::from_millis(SCAN_CHECK_INTERVAL_MS));
            self.waiters[waiter].timer = self.deadlines.arm(at, Due::Waiter(waiter));
        }
        defers
    }
}
