//! Reservations of several jobs, and leases under tokens: they do not end with a connection.

use crate::base::api_limits::{ANSWER_BYTES_ENOUGH, RESERVE_COMPARED_MAX, TTR_DEFAULT_MS};
use crate::base::heap::{HeapEntry, orders_before};
use crate::base::strings::Strings;
use crate::base::time::Now;
use crate::model::id::{JobId, Ticket};
use crate::model::job::{LeaseToken, Status};
use crate::model::manage::{JobDetails, LeaseTerms, ManageReply, ReserveTerms};
use crate::store::job_ext::TokenLease;
use crate::store::{Effects, JobIdx, Store};

impl Store {
    /// Reserves jobs up to the limit and answers with them, unless there is none. It takes no more
    /// with `ANSWER_BYTES_ENOUGH`, nor when it has compared `RESERVE_COMPARED_MAX` queues. O(limit
    /// log n + `RESERVE_COMPARED_MAX` + q + bytes).
    pub(super) fn reserve_more(
        &mut self,
        ticket: Ticket,
        first: Option<JobId>,
        queues: Strings<'_>,
        terms: &ReserveTerms,
        now: Now,
        fx: &mut Effects,
    ) -> bool {
        let mut jobs: Vec<JobDetails> = Vec::new();
        let mut next = first.and_then(|id| self.held_by(ticket, id));
        let (mut bytes, mut compared) = (0, 0);
        while jobs.len() < terms.limit && bytes < ANSWER_BYTES_ENOUGH {
            if compared >= RESERVE_COMPARED_MAX && !jobs.is_empty() {
                break;
            }
            compared += queues.len();
            let found = next.take().or_else(|| self.reserve_best(ticket, queues, now, fx));
            let Some(slot) = found else { break };
            let lease = terms.lease.as_ref();
            let token = lease.map(|terms| self.lease_under_token(slot, terms, now, fx));
            let mut details = self.details(slot, now);
            if let Some(lease) = &mut details.lease {
                lease.token = token;
            }
            bytes += details.text_bytes();
            jobs.push(details);
            // What this job has made way for may be more urgent than the next one.
            self.settle_constraints(now, fx);
        }
        let any = !jobs.is_empty();
        if any {
            fx.reply(ticket, ManageReply::Jobs(jobs.into()));
        }
        any
    }

    /// The job with this id, if the client has reserved it. O(1).
    pub(in crate::store) fn held_by(&self, ticket: Ticket, id: JobId) -> Option<JobIdx> {
        let found = self.ids.find(id.0);
        found.filter(|&slot| self.has_reserved(ticket.client, &self.jobs[slot]))
    }

    /// Reserves the most urgent job of the queues for the client, and does not answer. O(q + log
    /// n).
    fn reserve_best(
        &mut self,
        ticket: Ticket,
        queues: Strings<'_>,
        now: Now,
        fx: &mut Effects,
    ) -> Option<JobIdx> {
        let mut best: Option<HeapEntry<JobIdx>> = None;
        for name in queues {
            let Some(queue) = self.queues.find(name) else { continue };
            let head = self.head_for_client(queue, (ticket.client, false), now, fx);
            if let Some(entry) = head
                && best.is_none_or(|best| orders_before(&entry, &best, &self.jobs))
            {
                best = Some(entry);
            }
        }
        let slot = best?.slot;
        debug_assert_eq!(self.jobs[slot].status(), Status::Ready, "the head of a heap is ready");
        let queue = self.jobs[slot].queue;
        self.unlink_cold(slot);
        self.count_reserved(slot);
        self.reserve_for_client(slot, ticket.client, now, fx);
        self.rematch_queue(queue, now, fx);
        Some(slot)
    }

    /// Turns the reservation of a connection into a lease under a token. O(log d).
    fn lease_under_token(
        &mut self,
        slot: JobIdx,
        terms: &LeaseTerms,
        now: Now,
        fx: &mut Effects,
    ) -> LeaseToken {
        debug_assert!(
            self.jobs[slot].token_lease().is_none(),
            "a reservation gets one token at most"
        );
        debug_assert!(
            self.reservations.client_of(&self.jobs[slot]).is_some(),
            "a reservation of a connection gets a token"
        );
        let own = self.jobs[slot].options().lease_ms;
        let own = if own > 0 { own } else { TTR_DEFAULT_MS };
        let lease_ms = terms.ttr_ms.unwrap_or(own);
        let token = LeaseToken(self.rng.next_u64());
        self.reservations.unlink(slot, &mut self.jobs);
        let (since, worker) = (now.wall, terms.worker.clone());
        self.jobs.change(slot, |job| {
            job.set_worker(None);
            job.runs_mut().lease = Some(TokenLease { token, since, worker, lease_ms });
        });
        self.reservations.link_token(slot, &mut self.jobs);
        self.watchers.end_reservation(slot, &mut self.deadlines);
        self.jobs.disarm(slot, &mut self.deadlines);
        self.start_lease(slot, now);
        debug_assert!(
            !self.jobs[slot].timer().is_none() && self.jobs[slot].worker().is_none(),
            "a lease under a token has an end, and no registered worker"
        );
        fx.mark_state_dirty(slot, &self.jobs[slot]);
        token
    }
}
