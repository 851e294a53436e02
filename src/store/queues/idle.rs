//! Queues that are idle: without jobs, waiters and index. The [`IDLE_QUEUES_MAX`] most recent ones
//! are kept, so that a queue which is empty for a moment is not made again for each job.
//!
//! A pass drops [`IDLE_QUEUES_DROPPED_PER_PASS`] of them at most: a waiter that ends may leave
//! thousands of queues, whose memory is no longer in any cache. The surplus is dropped in the next
//! passes, and is pending work until then.

use super::Queues;
use crate::base::limits::{IDLE_QUEUES_DROPPED_PER_PASS, IDLE_QUEUES_MAX};
use crate::store::idx::QueueIdx;
use crate::store::rare_counts::RareStatus;

impl Queues {
    /// A new pass may drop idle queues again. O(1).
    #[inline]
    pub(in crate::store) fn begin_pass(&mut self) {
        self.idle_drops_left = IDLE_QUEUES_DROPPED_PER_PASS;
    }

    /// Whether there are more idle queues than are kept. O(1).
    #[inline]
    pub(in crate::store) fn has_idle_surplus(&self) -> bool {
        self.idle.len() > IDLE_QUEUES_MAX
    }

    /// Lists a queue as idle if it is, and drops the one that was listed first if there are too
    /// many. O(1).
    pub(in crate::store) fn list_if_idle(&mut self, queue: QueueIdx) {
        let record = &mut self.slots[queue];
        if record.listed || !record.is_idle() {
            return;
        }
        record.listed = true;
        self.idle.push_back(queue);
        debug_assert!(self.idle.len() <= self.slots.len(), "a queue is in the idle list once");
        self.drop_idle_surplus(1);
    }

    /// Drops what the pass may still drop of the idle queues that are too many. O(1) each.
    #[inline]
    pub(in crate::store) fn end_pass(&mut self) {
        if self.has_idle_surplus() {
            self.drop_idle_surplus(IDLE_QUEUES_DROPPED_PER_PASS);
        }
    }

    fn drop_idle_surplus(&mut self, most: usize) {
        for _ in 0..most.min(self.idle_drops_left) {
            if !self.has_idle_surplus() {
                return;
            }
            let Some(oldest) = self.idle.pop_front() else { return };
            self.idle_drops_left -= 1;
            debug_assert!(self.slots[oldest].listed, "a queue knows that it is in the idle list");
            self.slots[oldest].listed = false;
            if self.slots[oldest].is_idle() {
                self.drop_idle(oldest);
            }
        }
    }

    fn drop_idle(&mut self, queue: QueueIdx) {
        let record = &self.slots[queue];
        assert!(record.ready.is_empty(), "an idle queue holds a ready job");
        debug_assert!(
            RareStatus::ALL.iter().all(|&status| record.counts.get(status) == 0),
            "a queue without jobs counts none in a status"
        );
        debug_assert!(
            record.excluded.is_none() && record.buried.first().is_none(),
            "a queue without jobs has none in a heap or a list"
        );
        debug_assert!(
            record.ttl_jobs == 0 && record.class_count == 0 && record.delays.first().is_none(),
            "a queue without jobs counts none"
        );
        if record.is_listed {
            let known = self.names.remove(&record.name);
            debug_assert_eq!(known, Some(queue), "a listed queue is found by its name");
        }
        self.by_name.remove(record.hash, |entry| entry.queue == queue, |entry| entry.hash);
        self.flows_forgotten = true;
        if let Some(queue) = self.slots.remove(queue) {
            self.name_bytes -= queue.name.len();
            self.histories -= usize::from(queue.history.is_some());
        }
        debug_assert_eq!(self.by_name.len(), self.slots.len(), "a queue goes with its name");
        debug_assert!(
            !self.slots.is_empty()
                || self.name_bytes == 0 && self.histories == 0 && self.names.is_empty(),
            "without queues nothing of them is counted or listed"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn surplus_of_idle_queues_is_dropped_over_several_passes() {
        let mut queues = Queues::new(7);
        let rounds = 3;
        let surplus = rounds * IDLE_QUEUES_DROPPED_PER_PASS;
        let name = |number: usize| format!("q{number}").into_bytes();
        for number in 0..IDLE_QUEUES_MAX + surplus + IDLE_QUEUES_DROPPED_PER_PASS {
            let queue = queues.find_or_add(&name(number));
            queues.list_if_idle(queue);
        }
        queues.check_invariants();
        for left in (0..rounds).rev() {
            assert!(queues.has_idle_surplus());
            queues.begin_pass();
            queues.end_pass();
            queues.end_pass();
            assert_eq!(queues.len(), IDLE_QUEUES_MAX + left * IDLE_QUEUES_DROPPED_PER_PASS);
            queues.check_invariants();
        }
        assert!(!queues.has_idle_surplus());
        assert!(queues.find(&name(surplus)).is_none(), "the oldest are dropped");
    }
}
