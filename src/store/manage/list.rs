//! Lists of the jobs of a queue by state, in pages of bounded cost, without an index.
//!
//! What is there from the first page to the last and keeps its state, queue, priority and time is
//! shown exactly once: a page goes on behind a key, and the walk by id leaves out what has a key up
//! to the last one.

use super::details::state_of;
use crate::base::api_limits::{
    ANSWER_BYTES_ENOUGH, LISTED_ENTRIES_PER_STEP, LISTED_IN_ORDER_MAX, LISTED_JOBS_PER_STEP,
};
use crate::base::heap::HeapEntry;
use crate::base::time::Now;
use crate::model::job::{Priority, Status};
use crate::model::manage::{JobCursor, JobDetails, JobPage, JobState, ListKey};
use crate::store::idx::QueueIdx;
use crate::store::{Due, JobIdx, Store};
use std::cmp::Reverse;

impl Store {
    /// A page of the jobs of a queue. It is at its end with the job with which
    /// it has `ANSWER_BYTES_ENOUGH`. O(limit + bytes + `LISTED_JOBS_PER_STEP` +
    /// `LISTED_ENTRIES_PER_STEP`).
    pub(super) fn job_page(
        &self,
        (queue, wanted): (QueueIdx, Option<JobState>),
        from: &JobCursor,
        limit: usize,
        now: Now,
    ) -> JobPage {
        let (behind, shown) = match from {
            JobCursor::Start => (None, 0),
            JobCursor::Ordered(key, shown) => (Some(key), *shown),
            JobCursor::ById(id, bound) => {
                return self.page_by_id((queue, wanted), (*id, bound.as_ref()), limit, now);
            }
        };
        let counts = self.queues[queue].status_counts();
        let left = LISTED_IN_ORDER_MAX.saturating_sub(shown) as usize;
        let (slots, others) = match wanted {
            Some(JobState::Ready) => {
                (self.ready_in_order(queue, behind, limit.min(left)), counts.group_only)
            }
            Some(JobState::Scheduled) => (self.delayed_in_order(queue, behind, limit.min(left)), 0),
            _ => return self.page_by_id((queue, wanted), (1, None), limit, now),
        };
        let (mut slots, whole) = slots;
        let (jobs, looked) = self.listed(&slots, now);
        let cut = looked < slots.len();
        slots.truncate(looked);
        let last = slots.last().map(|&slot| self.list_key(slot)).or_else(|| behind.cloned());
        let count = u32::try_from(slots.len()).unwrap_or(u32::MAX);
        let shown = shown.saturating_add(count);
        let next = match last {
            _ if whole && !cut && others == 0 => return JobPage { jobs, next: None },
            Some(key) if (cut || slots.len() == limit) && shown < LISTED_IN_ORDER_MAX => {
                JobCursor::Ordered(key, shown)
            }
            last => JobCursor::ById(1, last),
        };
        JobPage { jobs, next: Some(next) }
    }

    /// The first of these jobs, up to `ANSWER_BYTES_ENOUGH`, without those that are expired; and
    /// how many were looked at.
    fn listed(&self, slots: &[JobIdx], now: Now) -> (Vec<JobDetails>, usize) {
        let (mut jobs, mut bytes) = (Vec::new(), 0);
        for (number, &slot) in slots.iter().enumerate() {
            if bytes >= ANSWER_BYTES_ENOUGH {
                return (jobs, number);
            }
            if !self.jobs[slot].is_expired_waiting(now) {
                let job = self.details(slot, now);
                bytes += job.text_bytes();
                jobs.push(job);
            }
        }
        (jobs, slots.len())
    }

    /// The key of a ready or delayed job in its list. O(digits).
    fn list_key(&self, slot: JobIdx) -> ListKey {
        let job = &self.jobs[slot];
        if job.status() == Status::Delayed {
            let (rank, tie) = job.ext().map_or((0, 0), |ext| self.deadlines.order(ext.timer));
            return ListKey { rank, digits: None, tie };
        }
        let digits = match job.priority() {
            Priority::Big(digits) => Some(Reverse((digits.len(), digits.into()))),
            Priority::Small(_) | Priority::Unselected => None,
        };
        let HeapEntry { rank, tie, .. } = job.entry(slot);
        ListKey { rank, digits, tie }
    }

    /// Ready jobs behind a key, in the order of hand-out, as far as a step goes; and whether that
    /// is to the end.
    fn ready_in_order(
        &self,
        queue: QueueIdx,
        behind: Option<&ListKey>,
        limit: usize,
    ) -> (Vec<JobIdx>, bool) {
        let record = &self.queues[queue];
        let key = |entry: &HeapEntry<JobIdx>| self.list_key(entry.slot);
        let mut heaps = vec![record.ready.in_order(key).peekable()];
        heaps.extend(
            record
                .excluded
                .iter()
                .flat_map(|excluded| excluded.iter())
                .map(|heap| heap.ready.in_order(key).peekable()),
        );
        let mut found = Vec::new();
        for _ in 0..LISTED_ENTRIES_PER_STEP {
            let first = heaps
                .iter_mut()
                .filter_map(|heap| heap.peek().map(key).map(|key| (key, heap)))
                .min_by(|(a, _), (b, _)| a.cmp(b));
            let Some((key, heap)) = first else { return (found, true) };
            let Some(entry) = heap.next() else { return (found, true) };
            if behind.is_none_or(|behind| *behind < key) {
                found.push(entry.slot);
            }
            if found.len() >= limit {
                break;
            }
        }
        (found, false)
    }

    /// The same of delayed jobs, by their moments.
    fn delayed_in_order(
        &self,
        queue: QueueIdx,
        behind: Option<&ListKey>,
        limit: usize,
    ) -> (Vec<JobIdx>, bool) {
        let mut found = Vec::new();
        for ((rank, tie), due) in self.deadlines.in_order().take(LISTED_ENTRIES_PER_STEP) {
            let Due::Job(slot) = due else { continue };
            let job = &self.jobs[slot];
            let behind = behind.is_none_or(|behind| (behind.rank, behind.tie) < (rank, tie));
            if behind && job.queue == queue && job.counted_status() == Status::Delayed {
                found.push(slot);
            }
            if found.len() >= limit {
                return (found, false);
            }
        }
        (found, self.deadlines.len() <= LISTED_ENTRIES_PER_STEP)
    }

    /// Jobs from an id on, without those that were shown in order.
    fn page_by_id(
        &self,
        (queue, wanted): (QueueIdx, Option<JobState>),
        (from, bound): (u64, Option<&ListKey>),
        limit: usize,
        now: Now,
    ) -> JobPage {
        let (mut page, mut bytes) = (JobPage::default(), 0);
        let all = self.count_in(queue, wanted);
        if all == 0 {
            return page;
        }
        let next = self.ids.visit(from, LISTED_JOBS_PER_STEP, |_, slot| {
            let job = &self.jobs[slot];
            let fits = wanted.is_none_or(|wanted| state_of(job) == wanted);
            if job.queue != queue || !fits || job.is_expired_waiting(now) {
                return true;
            }
            let in_order = matches!(job.counted_status(), Status::Ready | Status::Delayed);
            if in_order && bound.is_some_and(|bound| self.list_key(slot) <= *bound) {
                return true;
            }
            let job = self.details(slot, now);
            bytes += job.text_bytes();
            page.jobs.push(job);
            page.jobs.len() < limit && bytes < ANSWER_BYTES_ENOUGH
        });
        if (page.jobs.len() as u64) < all {
            page.next = next.map(|id| JobCursor::ById(id, bound.cloned()));
        }
        page
    }

    /// The number of jobs of a queue in a state. O(exclusion sets).
    fn count_in(&self, queue: QueueIdx, wanted: Option<JobState>) -> u64 {
        let counts = self.queues[queue].status_counts();
        match wanted {
            None => u64::from(self.queues[queue].jobs),
            Some(JobState::Scheduled) => counts.delayed,
            Some(JobState::Ready) => counts.ready + counts.group_only,
            Some(JobState::Blocked) => counts.blocked,
            Some(JobState::Reserved) => counts.reserved,
            Some(JobState::Buried) => counts.buried,
            Some(JobState::Completed) => counts.completed,
        }
    }
}
