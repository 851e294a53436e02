//! Queues that are idle: without jobs, waiters and index. The [`IDLE_QUEUES_MAX`] most recent ones
//! are kept, so that a queue which is empty for a moment is not made again for each job.
//!
//! A pass drops [`IDLE_QUEUES_DROPPED_PER_PASS`] of them at most: a waiter that ends may leave
//! thousands of queues, whose memory is no longer in any cache. The surplus is dropped in the next
//! passes, and is pending work until then. Their list is linked through the queues: a table would
//! be copied whole, in one pass, where it grows with a million of them.

use super::Queues;
use crate::base::limits::{IDLE_QUEUES_DROPPED_PER_PASS, IDLE_QUEUES_MAX};
use crate::base::slab_index::PackedOption;
use crate::store::idx::QueueIdx;
use crate::store::rare_counts::RareStatus;

/// The queues that were listed as idle, the oldest entry first.
#[derive(Debug, Default)]
pub(super) struct IdleList {
    first: PackedOption<QueueIdx>,
    last: PackedOption<QueueIdx>,
    len: usize,
}

impl Queues {
    /// A new pass may drop idle queues again. O(1).
    #[inline]
    pub(in crate::store) fn begin_pass(&mut self) {
        self.idle_drops_left = IDLE_QUEUES_DROPPED_PER_PASS;
    }

    /// Whether there are more idle queues than are kept. O(1).
    #[inline]
    pub(in crate::store) fn has_idle_surplus(&self) -> bool {
        self.idle.len > IDLE_QUEUES_MAX
    }

    /// Lists a queue as idle if it is, and drops the one that was listed first if there are too
    /// many. O(1).
    pub(in crate::store) fn list_if_idle(&mut self, queue: QueueIdx) {
        let record = &mut self.slots[queue];
        if record.listed || !record.is_idle() {
            return;
        }
        record.listed = true;
        debug_assert!(record.next_idle.is_none(), "a queue that is not in the list has no next");
        match self.idle.last.expand() {
            None => self.idle.first = queue.into(),
            Some(last) => self.slots[last].next_idle = queue.into(),
        }
        self.idle.last = queue.into();
        self.idle.len += 1;
        debug_assert!(self.idle.len <= self.slots.len(), "a queue is in the idle list once");
        self.drop_idle_surplus(1);
    }

    /// Takes the oldest entry out of the list. O(1).
    fn pop_idle(&mut self) -> Option<QueueIdx> {
        let oldest = self.idle.first.expand()?;
        let record = &mut self.slots[oldest];
        debug_assert!(record.listed, "a queue knows that it is in the idle list");
        record.listed = false;
        self.idle.first = std::mem::take(&mut record.next_idle);
        if self.idle.first.is_none() {
            debug_assert_eq!(self.idle.last, oldest.into(), "the list ends with its last entry");
            self.idle.last = PackedOption::NONE;
        }
        self.idle.len -= 1;
        Some(oldest)
    }

    /// Asserts that the list has each queue that is marked as listed, and no other. O(queues).
    pub(super) fn check_idle_list(&self) {
        let next = |&queue: &QueueIdx| self.slots[queue].next_idle.expand();
        let entries = std::iter::successors(self.idle.first.expand(), next);
        let marked = |&queue: &QueueIdx| self.slots[queue].listed;
        let (mut len, mut last) = (0, PackedOption::NONE);
        for queue in entries.take_while(marked).take(self.slots.len() + 1) {
            (len, last) = (len + 1, queue.into());
        }
        assert_eq!(len, self.idle.len, "the idle list is wrong");
        assert_eq!(last, self.idle.last, "the idle list ends elsewhere");
        let listed = self.slots.iter().filter(|(_, queue)| queue.listed).count();
        assert_eq!(listed, len, "a queue is marked as idle and is not in the list");
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
            let Some(oldest) = self.pop_idle() else { return };
            self.idle_drops_left -= 1;
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
