//! Reserves that end before a lease of their client does.
//!
//! Of a client with more than `LEASES_WATCHED_MAX` reserved jobs, those that it reserved last are
//! looked at.

use crate::base::limits::{LEASE_MARGIN, LEASES_WATCHED_MAX};
use crate::base::strings::Strings;
use crate::base::time::{Mono, Now};
use crate::model::id::{ClientId, Ticket};
use crate::store::idx::WaiterIdx;
use crate::store::waiters::WaiterKind;
use crate::store::{Due, Effects, Outcome, Store};
use std::time::Duration;

impl Store {
    /// When the first lease of a client comes to its margin. O(jobs of the client, up to
    /// `LEASES_WATCHED_MAX`).
    fn first_margin(&mut self, client: ClientId) -> Option<Mono> {
        let first = self.reservations.first_job(client)?;
        let jobs = std::iter::successors(Some(first), |&slot| self.jobs[slot].next().expand());
        let mut looked = 0;
        let ends = jobs.take(LEASES_WATCHED_MAX).filter_map(|slot| {
            looked += 1;
            self.jobs[slot].due(&self.deadlines)
        });
        let end = ends.min()?;
        self.waiters.note_work(looked);
        Some(Mono(end.0.saturating_sub(margin_ns())))
    }

    /// Makes a waiter of a reserve that found no job, or answers it: at once if a lease of its
    /// client is in its margin, or if it does not wait. O(q + jobs of the client).
    #[cold]
    pub(in crate::store) fn wait_until_lease_ends(
        &mut self,
        ticket: Ticket,
        names: Strings<'_>,
        wait_ms: u64,
        now: Now,
        fx: &mut Effects,
    ) {
        let margin = self.first_margin(ticket.client);
        if margin.is_some_and(|margin| margin <= now.mono) {
            return fx.answer(ticket, Outcome::LeaseEnding);
        }
        if wait_ms == 0 {
            return self.answer_no_job(ticket, WaiterKind::Reserve, names, now, fx);
        }
        let waiter = self.enqueue_waiter(ticket, WaiterKind::Reserve, names);
        let until = match wait_ms {
            u64::MAX => Mono(u64::MAX),
            _ => now.mono.after(Duration::from_millis(wait_ms)),
        };
        self.waiters[waiter].until = Some(until);
        self.arm_lease_wait(waiter, margin);
    }

    /// Arms the deadline of a waiter: its own, or that of the first lease.
    fn arm_lease_wait(&mut self, waiter: WaiterIdx, margin: Option<Mono>) {
        let until = self.waiters[waiter].until.unwrap_or(Mono(u64::MAX));
        let at = margin.map_or(until, |margin| margin.min(until));
        debug_assert!(
            self.waiters[waiter].timer.is_none()
                && self.waiters[waiter].kind == WaiterKind::Reserve,
            "a reserve gets a new timeout when the former one has fired"
        );
        if at < Mono(u64::MAX) {
            self.waiters[waiter].timer = self.deadlines.arm(at, Due::Waiter(waiter));
        }
    }

    /// The deadline of a waiter has fired. O(queues of the waiter + log d).
    pub(in crate::store) fn waiter_due(&mut self, waiter: WaiterIdx, now: Now, fx: &mut Effects) {
        let outcome = match self.waiters[waiter].until {
            Some(until) => self.lease_wait_due(waiter, until, now),
            None => (!self.defer_further(waiter, now)).then_some(Outcome::NoJob),
        };
        if let Some(outcome) = outcome {
            let (_, ticket) = self.end_wait(waiter);
            fx.answer(ticket, outcome);
        }
    }

    /// The deadline of a waiter has fired that waits until a lease ends. Returns the answer, or
    /// `None` if it goes on waiting: the lease was over before. O(jobs of the client).
    #[cold]
    fn lease_wait_due(&mut self, waiter: WaiterIdx, until: Mono, now: Now) -> Option<Outcome> {
        let margin = self.first_margin(self.waiters[waiter].ticket.client);
        if margin.is_some_and(|margin| margin <= now.mono) {
            return Some(Outcome::LeaseEnding);
        }
        if until <= now.mono {
            return Some(Outcome::NoJob);
        }
        self.arm_lease_wait(waiter, margin);
        None
    }
}

/// [`LEASE_MARGIN`] in nanoseconds.
fn margin_ns() -> u64 {
    u64::try_from(LEASE_MARGIN.as_nanos()).unwrap_or(u64::MAX)
}
