//! Queues that clients use and watch: they exist as long as they have jobs, users or watchers, and
//! what is counted of them goes with them.

use crate::base::api_limits::{QUEUE_WAITERS_COUNTED, QUEUES_COUNTED_AT_ONCE};
use crate::base::limits::{
    QUEUE_NAMES_PER_CHUNK_BYTES, STATS_SLOTS_PER_STEP, URGENT_JOBS_COUNTED, WAIT_NODE_WORK,
};
use crate::base::slab_index::SlabIndex;
use crate::base::strings::Strings;
use crate::base::time::Now;
use crate::model::consumer::{ConsumerReply, QueueNames, QueueStats, QueueTotals, URGENT_ABOVE};
use crate::model::flow::FlowKind;
use crate::model::id::Ticket;
use crate::model::stats::JobCounter;
use crate::store::idx::QueueIdx;
use crate::store::manage::state_counts;
use crate::store::queue_interest::Interest;
use crate::store::queues::{DEFAULT, Queue};
use crate::store::rank::rank;
use crate::store::{Effects, Outcome, Store};

impl Queue {
    /// Whether it has jobs, users or watchers. O(1).
    fn is_in_use(&self) -> bool {
        self.jobs > 0 || self.has_interest()
    }

    /// Ready jobs of high priority, counted up to a number. O(that number).
    fn urgent(&self, most: usize) -> usize {
        let above = rank(URGENT_ABOVE);
        let (mut count, mut places) = (0, vec![0]);
        // Below an entry that is not urgent there is none.
        while let Some(place) = places.pop()
            && count < most
        {
            if self.ready.rank_at(place).is_some_and(|rank| rank < above) {
                count += 1;
                places.extend(self.ready.below(place));
            }
        }
        count
    }

    /// All jobs ever put, since its counters began. O(1).
    fn put_total(&self) -> u64 {
        self.put_before_walk + u64::from(self.flow.get(FlowKind::Put))
    }
}

impl Store {
    /// Makes a queue that is used or watched, and counts that. O(name).
    fn enter(&mut self, name: &[u8], count: impl FnOnce(&mut Interest)) {
        let queue = self.queues.find_or_add_noted(name, &mut self.waiters);
        let record = &mut self.queues[queue];
        let (is_new, put_before) = (!record.is_in_use(), record.put_total());
        let interest = record.interest.get_or_insert_default();
        if is_new {
            **interest =
                Interest { put_before, owns_pause: interest.owns_pause, ..Interest::default() };
        }
        count(interest);
        debug_assert!(interest.is_any(), "a queue that is entered has users or watchers");
    }

    /// Counts that a queue is not used or watched any more. A queue without jobs is forgotten, and
    /// its pause if it was that of its clients. O(name + log q).
    fn leave(&mut self, name: &[u8], count: impl FnOnce(&mut Interest), fx: &mut Effects) {
        let Some(queue) = self.queues.find(name) else { return };
        let record = &mut self.queues[queue];
        let Some(interest) = &mut record.interest else { return };
        count(interest);
        if interest.is_any() || record.jobs > 0 {
            return;
        }
        let owns_pause = interest.owns_pause;
        record.interest = None;
        if owns_pause {
            self.end_pause(queue, fx);
        }
        self.queues.list_if_idle(queue);
    }

    /// A client uses another queue than before. O(name).
    pub(super) fn use_queue(&mut self, queue: &[u8], former: &[u8], fx: &mut Effects) {
        if !queue.is_empty() {
            self.enter(queue, |interest| interest.using += 1);
        }
        if !former.is_empty() {
            self.leave(former, |interest| interest.using -= 1, fx);
        }
    }

    /// A client watches a queue. O(name).
    pub(super) fn watch_queue(&mut self, queue: &[u8]) {
        self.enter(queue, |interest| interest.watching += 1);
    }

    /// A client leaves queues. O(names).
    pub(super) fn leave_queues(&mut self, used: &[u8], watched: Strings<'_>, fx: &mut Effects) {
        self.waiters.note_work(watched.len() * WAIT_NODE_WORK);
        if !used.is_empty() {
            self.leave(used, |interest| interest.using -= 1, fx);
        }
        for queue in watched {
            self.leave(queue, |interest| interest.watching -= 1, fx);
        }
    }

    /// Answers with what is counted of a queue. O(`URGENT_JOBS_COUNTED`).
    pub(super) fn queue_stats(
        &mut self,
        ticket: Ticket,
        (name, exists): (&[u8], bool),
        now: Now,
        fx: &mut Effects,
    ) {
        let found = self.queues.find(name);
        let found = found.filter(|&queue| exists || self.queues[queue].is_in_use());
        let Some(queue) = found else {
            if exists {
                return fx.reply(ticket, ConsumerReply::Queue(Box::default()));
            }
            return fx.answer(ticket, Outcome::NoJob);
        };
        let record = &self.queues[queue];
        let own = Interest::default();
        let interest = record.interest.as_deref().unwrap_or(&own);
        let urgent = record.urgent(URGENT_JOBS_COUNTED);
        let (pause_s, pause_left_s) = self.pause_seconds(queue, now).unwrap_or_default();
        let put = record.put_total().saturating_sub(interest.put_before);
        let stats = QueueStats {
            counts: state_counts(record),
            urgent: urgent as u64,
            put: put.max(u64::from(record.jobs)),
            using: u64::from(interest.using),
            watching: u64::from(interest.watching),
            waiting: self.waiters.count_of(record.waiters, QUEUE_WAITERS_COUNTED) as u64,
            pauses: u64::from(interest.pauses),
            pause_s,
            pause_left_s,
        };
        self.waiters.note_work(urgent);
        fx.reply(ticket, ConsumerReply::Queue(Box::new(stats)));
    }

    /// Answers with some names of queues in use. O(`STATS_SLOTS_PER_STEP`).
    pub(super) fn queue_names(&self, ticket: Ticket, from: u32, fx: &mut Effects) {
        let mut page = QueueNames::default();
        let end = self.queues.end();
        let stop = end.min(from.saturating_add(STATS_SLOTS_PER_STEP));
        let mut place = from;
        while place < stop && page.names.total() < QUEUE_NAMES_PER_CHUNK_BYTES {
            let queue = self.queues.get(QueueIdx::from_slot(place));
            if let Some(queue) = queue.filter(|queue| queue.is_in_use()) {
                page.names.push(&queue.name);
            }
            place += 1;
        }
        page.next = (place < end).then_some(place);
        fx.reply(ticket, ConsumerReply::Names(Box::new(page)));
    }

    /// Answers with what is counted of all queues. O(`QUEUES_COUNTED_AT_ONCE` +
    /// `URGENT_JOBS_COUNTED`).
    pub(super) fn queue_totals(&mut self, ticket: Ticket, fx: &mut Effects) {
        let (mut urgent, mut looked, mut queues) = (0, 0, 0);
        for place in 0..self.queues.end().min(QUEUES_COUNTED_AT_ONCE) {
            let Some(queue) = self.queues.get(QueueIdx::from_slot(place)) else { continue };
            looked += 1;
            queues += usize::from(queue.is_in_use() && *queue.name != *DEFAULT);
            urgent += queue.urgent(URGENT_JOBS_COUNTED.saturating_sub(urgent));
        }
        let others = self.queues.len() - looked;
        let counter = |counter: JobCounter| self.totals.counters[counter as usize];
        let totals = QueueTotals {
            counts: self.job_counts(),
            urgent: urgent as u64,
            // The default one exists always.
            queues: (queues + others + 1) as u64,
            put: counter(JobCounter::Put),
            timeouts: self.totals.leases_ended,
        };
        self.waiters.note_work(urgent + looked);
        fx.reply(ticket, ConsumerReply::Totals(Box::new(totals)));
    }

    /// Pauses a queue that is in use, or ends its pause. O(name + log q + log d).
    pub(super) fn pause_used(
        &mut self,
        ticket: Ticket,
        (name, exists, for_ms): (&[u8], bool, u64),
        now: Now,
        fx: &mut Effects,
    ) {
        let in_use = |queue| self.queues[queue].is_in_use();
        if !exists && !self.queues.find(name).is_some_and(in_use) {
            return fx.answer(ticket, Outcome::NoJob);
        }
        let queue = if for_ms == 0 {
            let queue = self.queues.find_or_add(name);
            self.end_pause(queue, fx);
            queue
        } else {
            match self.set_pause(name, Some(for_ms), now, fx) {
                Ok(queue) => queue,
                Err(rejection) => return fx.answer(ticket, Outcome::Rejected(rejection)),
            }
        };
        let interest = self.queues[queue].interest.get_or_insert_default();
        interest.pauses = interest.pauses.saturating_add(1);
        interest.owns_pause = for_ms > 0;
        fx.answer(ticket, Outcome::Done);
        self.queues.list_if_idle(queue);
    }
}
