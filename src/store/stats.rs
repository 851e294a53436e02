//! Counts of jobs and queues. Scans over all jobs and queues run in bounded steps and keep no
//! state, so that they cost nothing unless asked for.

use super::idx::QueueIdx;
use super::jobs::Jobs;
use super::queues::Queues;
use super::state_machine::JobEvent;
use super::{Effects, Store};
use crate::base::limits::{
    QUEUE_NAMES_PER_CHUNK_BYTES, STATS_QUEUES_PER_STEP, STATS_SLOTS_PER_STEP,
};
use crate::base::slab_index::SlabIndex;
use crate::base::time::Now;
use crate::model::id::Ticket;
use crate::model::job::Status;
use crate::model::owned::OwnedReply;
use crate::model::stats::{JobCounter, QueueCount, StatsPage, StatsScan, StatusCounts, StoreStats};
use crate::model::worker::WorkerId;
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use hashbrown::hash_map::Entry;

/// A job without its content: its slot and its place (44), its entries in a heap (20) and in the
/// table of ids (5), the head of its payload (11), and what the allocator adds to that.
pub const JOB_MEMORY_BYTES: usize = 88;

/// A deadline: its places in the timer queue (40), and the rare fields of its job (64).
const DEADLINE_MEMORY_BYTES: usize = 104;

/// A waiter in one queue, or a watcher.
const WAITER_MEMORY_BYTES: usize = 128;

/// Numbers of things in the store, for tests and statistics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Jobs in any status.
    pub jobs: usize,
    /// Constraints that are set.
    pub constraints: usize,
    /// Declared queues.
    pub declared: usize,
    /// Paused queues.
    pub paused: usize,
    /// Schedules.
    pub schedules: usize,
    /// Keys that stay taken after the completion of their jobs.
    pub past_keys: usize,
    /// Runs that were completed under a token, and are remembered.
    pub past_runs: usize,
    /// Records of jobs that were lost while others wait for them.
    pub losses: usize,
    /// Registered workers.
    pub workers: usize,
    /// Known queues, idle ones included.
    pub queues: usize,
    /// Waiting reserves and pops.
    pub waiters: usize,
    /// Job watchers.
    pub watchers: usize,
    /// Armed deadlines.
    pub deadlines: usize,
}

impl Queues {
    /// A page of the queues that exist, with their numbers of jobs. O(limit).
    fn count_page(&self, from: u32) -> StatsPage {
        let mut page = StatsPage::default();
        let end = self.end();
        let stop = end.min(from.saturating_add(STATS_SLOTS_PER_STEP));
        let (mut place, mut bytes) = (from, 0);
        while place < stop
            && page.queues.len() < STATS_QUEUES_PER_STEP
            && bytes < QUEUE_NAMES_PER_CHUNK_BYTES
        {
            if let Some(queue) = self.get(QueueIdx::from_slot(place))
                && (queue.jobs > 0 || queue.index.is_some())
            {
                bytes += queue.name.len();
                let (serial, name) = (queue.serial, (*queue.name).into());
                page.queues.push(QueueCount { serial, name, jobs: queue.jobs });
            }
            place += 1;
        }
        page.next = (place < end).then_some(place);
        page
    }

    /// The numbers of jobs of each status in a page of the job table, by queue; `bus_worker` is the
    /// worker whose jobs are counted apart. O(limit).
    fn count_jobs(
        &self,
        from: u32,
        bus_worker: Option<WorkerId>,
        jobs: &Jobs,
        now: Now,
    ) -> StatsPage {
        let end = jobs.end();
        let stop = end.min(from.saturating_add(STATS_SLOTS_PER_STEP));
        let mut numbers: HashMap<QueueIdx, usize, _> =
            HashMap::with_hasher(FixedState::with_seed(0));
        let mut tallies: Vec<(u64, StatusCounts)> = Vec::new();
        for place in from..stop {
            let Some((_, job)) = jobs.at(place) else { continue };
            let number = match numbers.entry(job.queue) {
                Entry::Occupied(entry) => *entry.get(),
                Entry::Vacant(entry) => {
                    tallies.push((self[job.queue].serial, StatusCounts::default()));
                    *entry.insert(tallies.len() - 1)
                }
            };
            let tally = &mut tallies[number].1;
            tally.count(job.counted_status());
            match job.status() {
                Status::Ready => tally.oldest_ms = tally.oldest_ms.max(job.ready_for(now)),
                Status::Reserved => {
                    let ours = bus_worker.is_some() && job.worker() == bus_worker;
                    let processing = job.progress().is_some();
                    tally.dispatched += u64::from(ours && !processing);
                    tally.processing += u64::from(ours && processing);
                }
                _ => {}
            }
        }
        StatsPage { counts: tallies, next: (stop < end).then_some(stop), ..StatsPage::default() }
    }
}

impl Store {
    /// Answers with one page of a scan. O(limit).
    pub(super) fn scan_stats(&self, ticket: Ticket, scan: StatsScan, now: Now, fx: &mut Effects) {
        let page = match scan {
            StatsScan::Queues(from) => self.queues.count_page(from),
            StatsScan::Jobs(from) => {
                self.queues.count_jobs(from, self.workers.bus_worker(), &self.jobs, now)
            }
        };
        fx.reply(ticket, OwnedReply::Stats(Box::new(page)));
    }

    /// O(1).
    #[must_use]
    pub fn counts(&self) -> Counts {
        Counts {
            jobs: self.jobs.len(),
            constraints: self.constraints.len(),
            declared: self.queues.declared().len(),
            paused: self.pauses.len(),
            schedules: self.schedules.len(),
            past_keys: self.unique_keys.past_len(),
            past_runs: self.past_runs.completed_len(),
            losses: self.dependencies.losses(),
            workers: self.workers.len(),
            queues: self.queues.len(),
            waiters: self.waiters.len(),
            watchers: self.watchers.len(),
            deadlines: self.deadlines.len(),
        }
    }

    /// The bytes that jobs, queues, deadlines and waiters take, nearly: what the allocator adds is
    /// estimated, and constraints, workers and snapshots of queries are left out. O(1).
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        let jobs = self.jobs.content_bytes() + self.jobs.len() * JOB_MEMORY_BYTES;
        let jobs = jobs + self.large_pops.packet_bytes() + self.unique_keys.memory_bytes();
        let jobs = jobs + self.past_runs.memory_bytes();
        let jobs = jobs + self.dependencies.memory_bytes();
        let deadlines = self.deadlines.len() * DEADLINE_MEMORY_BYTES;
        let waiters = self.waiters.len() + self.waiters.paused() + self.watchers.len();
        let waiters = waiters * WAITER_MEMORY_BYTES;
        let jobs = jobs + self.history_bytes();
        (jobs + self.queues.memory_bytes() + deadlines + waiters + self.schedules.bytes()) as u64
    }

    /// The counters that are kept all the time. O(`QUEUES_COUNTED_AT_ONCE`).
    #[must_use]
    pub fn stats(&self) -> StoreStats {
        let counts = self.counts();
        let mut totals = self.totals.clone();
        // Each reserved or popped job was ready before, and is counted in `ready_ms`.
        let popped = totals.counters[JobCounter::Popped as usize];
        totals.counters[JobCounter::Reserved as usize] = totals.ready_ms.count() - popped;
        StoreStats {
            jobs: counts.jobs as u64,
            queues: counts.queues as u64,
            waiters: counts.waiters as u64,
            totals,
            rates: self.server_rates(),
            counts: self.job_counts(),
        }
    }
}

/// The counter of an event.
#[inline(always)]
pub(super) fn count(event: JobEvent) -> JobCounter {
    match event {
        JobEvent::Release => JobCounter::Released,
        JobEvent::Touch => JobCounter::Touched,
        JobEvent::Finish => JobCounter::Finished,
        JobEvent::Fail { .. } => JobCounter::Failed,
        JobEvent::Bury => JobCounter::Buried,
        JobEvent::Kick => JobCounter::Kicked,
        JobEvent::TimerFired => JobCounter::TimerFired,
    }
}
