//! The job table: all jobs, by slot. As the position map of their heaps it tells each job where it
//! is there.

use super::Due;
use super::idx::{JobIdx, QueueIdx};
use super::job::Job;
use crate::base::heap::{PositionMap, orders_before};
use crate::base::paged::PagedSlab;
use crate::base::prefetch::prefetch_at;
use crate::base::slab_index::{PackedOption, SlabIndex};
use crate::base::time::Mono;
use crate::base::timer_queue::TimerQueue;
use crate::model::job::Status;
use std::cell::Cell;
use std::cmp::Ordering;
use std::ops::{Index, IndexMut};

/// How much of a payload is prefetched; the processor itself notices when more is read.
const PREFETCHED_PAYLOAD_BYTES: usize = 128;

impl Job {
    /// The bytes that it holds beside its slot: payload, result and texts, and its row. Fields of
    /// fixed size are left out. O(1).
    #[inline]
    pub(super) fn content_bytes(&self) -> usize {
        match self.ext() {
            None => self.payload().bytes.len(),
            Some(ext) => ext.content_bytes(),
        }
    }
}

/// All jobs, by slot.
#[derive(Debug, Default)]
pub(super) struct Jobs {
    /// Beside each job is its place: see [`Job`].
    slots: PagedSlab<Job, JobIdx, u32>,
    /// [`Job::content_bytes`] of all jobs.
    content_bytes: usize,
    /// Digits of priorities compared so far, since last taken: a long priority makes each move in a
    /// heap dear.
    compared_bytes: Cell<usize>,
}

impl Jobs {
    /// Digits of priorities compared since the last call. O(1).
    #[inline]
    pub(super) fn take_compared_bytes(&self) -> usize {
        self.compared_bytes.take()
    }

    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    #[inline(always)]
    pub(super) fn insert(&mut self, job: Job) -> JobIdx {
        debug_assert!(!job.is_linked(), "a job that enters the table is in no list");
        debug_assert!(job.timer().is_none(), "a job gets a deadline when it is in the table");
        self.content_bytes += job.content_bytes();
        self.slots.insert(job)
    }

    /// Changes a job in what [`Job::content_bytes`] counts.
    pub(super) fn change<R>(&mut self, slot: JobIdx, change: impl FnOnce(&mut Job) -> R) -> R {
        let job = &mut self.slots[slot];
        let before = job.content_bytes();
        let result = change(job);
        self.content_bytes = self.content_bytes - before + job.content_bytes();
        result
    }

    /// The bytes that the jobs hold beside their slots.
    pub(super) fn content_bytes(&self) -> usize {
        self.content_bytes
    }

    #[inline(always)]
    pub(super) fn remove(&mut self, slot: JobIdx) -> Job {
        let job = self.slots.remove(slot).expect("a job was removed twice");
        debug_assert!(!job.is_linked(), "a job that leaves the table is in no list");
        debug_assert!(
            self.content_bytes >= job.content_bytes(),
            "the bytes of a job are in the sum of all"
        );
        self.content_bytes -= job.content_bytes();
        job
    }

    /// The position of a job in the heap that it is in: one of ready jobs, or that of its class.
    #[inline(always)]
    pub(super) fn heap_position(&self, slot: JobIdx) -> u32 {
        debug_assert!(self[slot].is_in_heap(), "only ready and blocked jobs are in heaps");
        self.slots.beside(slot)
    }

    /// The job before this one in the list of its holder, or of buried jobs.
    #[inline(always)]
    pub(super) fn previous(&self, slot: JobIdx) -> PackedOption<JobIdx> {
        debug_assert!(self[slot].is_in_list(), "only reserved and buried jobs are in lists");
        PackedOption::from_bits(self.slots.beside(slot))
    }

    #[inline(always)]
    pub(super) fn set_previous(&mut self, slot: JobIdx, previous: PackedOption<JobIdx>) {
        debug_assert!(self[slot].is_in_list(), "only reserved and buried jobs are in lists");
        self.slots.set_beside(slot, previous.bits());
        debug_assert!(previous != slot.into(), "no job is its own neighbour in a list");
    }

    /// One more than the largest slot in use.
    pub(super) fn end(&self) -> u32 {
        self.slots.end()
    }

    pub(super) fn get(&self, slot: JobIdx) -> Option<&Job> {
        self.slots.get(slot)
    }

    /// The job in the slot with this number: for walks over the table.
    pub(super) fn at(&self, number: u32) -> Option<(JobIdx, &Job)> {
        let slot = JobIdx::from_slot(number);
        Some((slot, self.slots.get(slot)?))
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (JobIdx, &Job)> {
        self.slots.iter()
    }

    /// Arms the deadline of a job's status. O(log d), O(1) on average.
    pub(super) fn arm(&mut self, slot: JobIdx, at: Mono, deadlines: &mut TimerQueue<Due>) {
        debug_assert_ne!(self[slot].status(), Status::Popped, "a popped job has no deadline");
        let ext = self[slot].ext_mut_or_insert();
        assert!(ext.timer.is_none(), "a job has two deadlines");
        ext.timer = deadlines.arm(at, Due::Job(slot));
    }

    /// Cancels the deadline of a job's status, if it has one. O(log d), O(1) on average.
    pub(super) fn disarm(&mut self, slot: JobIdx, deadlines: &mut TimerQueue<Due>) {
        let job = &mut self[slot];
        job.unpack_timer();
        if let Some(ext) = job.ext_mut()
            && !ext.timer.is_none()
        {
            deadlines.cancel(std::mem::take(&mut ext.timer));
        }
        debug_assert!(self[slot].timer().is_none(), "a deadline is cancelled where it is kept");
    }

    /// Whether this slot has a job of the queue that has no row, and that no pop has taken.
    pub(super) fn lacks_row(&self, slot: JobIdx, queue: QueueIdx) -> bool {
        let job = self.get(slot).filter(|job| job.queue == queue && job.status() != Status::Popped);
        job.is_some_and(|job| job.row().is_none())
    }

    /// The order in which two jobs are handed out: `Less` if `a` is first.
    pub(super) fn order(&self, a: JobIdx, b: JobIdx) -> Ordering {
        let (first, second) = (self[a].entry(a), self[b].entry(b));
        if orders_before(&first, &second, self) {
            Ordering::Less
        } else if orders_before(&second, &first, self) {
            Ordering::Greater
        } else {
            Ordering::Equal
        }
    }
}

impl Index<JobIdx> for Jobs {
    type Output = Job;
    #[inline]
    fn index(&self, slot: JobIdx) -> &Job {
        &self.slots[slot]
    }
}

impl IndexMut<JobIdx> for Jobs {
    #[inline]
    fn index_mut(&mut self, slot: JobIdx) -> &mut Job {
        &mut self.slots[slot]
    }
}

impl PositionMap for Jobs {
    type Index = JobIdx;

    #[inline]
    fn moved(&mut self, slot: JobIdx, position: u32) {
        debug_assert!(self[slot].is_in_heap(), "only ready and blocked jobs are in heaps");
        self.slots.set_beside(slot, position);
    }

    #[inline]
    fn approaches(&self, slot: JobIdx, next: bool) {
        if next {
            prefetch_at(self.slots[slot].payload_address(), PREFETCHED_PAYLOAD_BYTES);
        } else {
            self.slots.prefetch(slot);
        }
    }

    #[cold]
    fn compare_exactly(&self, a: JobIdx, b: JobIdx) -> Ordering {
        debug_assert_eq!(self[a].rank(), self[b].rank(), "digits decide between equal ranks");
        // Of digits without leading zeros, longer ones are larger; larger is more urgent.
        let key = |slot: JobIdx| self[slot].digits().map(|digits| (digits.len(), digits));
        let (a, b) = (key(a), key(b));
        let compared = a.map_or(0, |(len, _)| len).min(b.map_or(0, |(len, _)| len));
        self.compared_bytes.set(self.compared_bytes.get() + compared);
        b.cmp(&a)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::time::Now;
    use crate::model::job::{Encoding, LEAST_PRIORITY, Payload, Priority, TieBreak};
    use crate::store::idx::QueueIdx;

    fn job(priority: Priority<'_>) -> Job {
        let payload = Payload { encoding: Encoding::Json, bytes: b"{}" };
        Job::new(1, QueueIdx::from_slot(0), priority, TieBreak::Fifo, (payload, 0), Now::default())
    }

    #[test]
    fn priorities_round_trip_and_order_jobs() {
        let rising = [
            Priority::Big(LEAST_PRIORITY),
            Priority::Small(i64::MIN + 1),
            Priority::Small(-1),
            Priority::Small(0),
            Priority::Small(i64::MAX - 1),
            Priority::Big("9223372036854775807"),
            Priority::Big("9223372036854775808"),
            Priority::Big("18446744073709551615"),
            Priority::Big("18446744073709551616"),
            Priority::Big("100000000000000000000000000000"),
        ];
        let mut jobs = Jobs::default();
        let slots = rising.map(|priority| jobs.insert(job(priority)));
        for (place, (&slot, priority)) in slots.iter().zip(rising).enumerate() {
            assert_eq!(jobs[slot].priority(), priority);
            for &less in &slots[..place] {
                assert_eq!(jobs.order(slot, less), Ordering::Less, "the more urgent leaves first");
                assert_eq!(jobs.order(less, slot), Ordering::Greater);
            }
        }
    }
}
