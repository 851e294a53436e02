//! Rows and counts for display, and the invariants.

use super::links::{BY_AGE, LISTED};
use super::{NONE, Queue, Reserve, Worker, WorkerTable};
use crate::base::limits::{METRICS_NAME_MAX_BYTES, METRICS_QUEUES_MAX};
use crate::base::time::Mono;
use crate::model::stats::BusWorkerStats;
use crate::protocol::queue_listing::{WorkerRow, WorkerRows};

impl WorkerTable {
    /// The workers of a queue in up to `limit` slots from `from` on. O(limit).
    pub(in crate::protocol::processor) fn worker_rows(
        &self,
        queue: &[u8],
        from: u32,
        limit: u32,
    ) -> WorkerRows {
        let Some(queue) = self.find_queue(queue) else { return WorkerRows::default() };
        let end = self.workers.end();
        let stop = end.min(from.saturating_add(limit));
        let records = (from..stop).filter_map(|slot| self.workers.get(slot));
        let here = records.filter(|record| record.queue == queue);
        let list = here.map(|Worker { uuid, busy, seen_at, .. }| WorkerRow {
            uuid: uuid.clone(),
            busy: *busy,
            seen: *seen_at,
        });
        WorkerRows { list: list.collect(), next: (stop < end).then_some(stop) }
    }

    /// Counts of idle and busy workers of up to [`METRICS_QUEUES_MAX`] queues. O(queues).
    pub(in crate::protocol::processor) fn stats(&self) -> Vec<BusWorkerStats> {
        let queues = self.queues.iter().map(|(_, queue)| queue);
        let short = queues.filter(|queue| queue.name.len() <= METRICS_NAME_MAX_BYTES);
        let figures = short.map(|Queue { name, idle, busy, .. }| BusWorkerStats {
            queue: name.clone(),
            idle: u64::from(*idle),
            busy: u64::from(*busy),
        });
        figures.take(METRICS_QUEUES_MAX).collect()
    }

    /// Asserts the invariants. O(all).
    pub(in crate::protocol::processor) fn check_invariants(&self) {
        let mut open_reserves = 0;
        for (slot, worker) in self.workers.iter() {
            open_reserves += usize::from(worker.reserve != Reserve::None);
            if worker.queue == NONE {
                assert!(
                    worker.reserve == Reserve::Cancelling && !worker.is_listed,
                    "an expired worker without a reserve is kept"
                );
                continue;
            }
            assert_eq!(self.find(&worker.uuid), Some(slot), "a worker is not found");
            let idle_alone = !worker.busy && worker.reserve == Reserve::None;
            assert_eq!(
                worker.is_listed, idle_alone,
                "an idle worker is listed unless it has a reserve"
            );
            let in_own_queue = worker.reserve_queue == worker.queue && !worker.busy;
            assert!(
                worker.reserve != Reserve::Open || in_own_queue,
                "a reserve waits in another queue"
            );
        }
        assert_eq!(open_reserves, self.open_reserves, "number of open reserves");
        for (slot, queue) in self.queues.iter() {
            let here = || self.workers.iter().filter(move |(_, worker)| worker.queue == slot);
            let busy = here().filter(|(_, worker)| worker.busy).count();
            let counted = (queue.idle as usize, queue.busy as usize);
            assert_eq!(
                counted,
                (here().count() - busy, busy),
                "numbers of idle and busy workers of a queue"
            );
            let listed = self.dispatching.contains(&slot);
            assert_eq!(
                listed, queue.dispatching,
                "the dispatching flag and the dispatching list differ"
            );
        }
        let mut seen = Mono::default();
        let (mut worker, mut count) = (self.age.first, 0);
        while worker != NONE {
            let record = &self.workers[worker];
            assert!(record.seen >= seen, "a worker is older than the one before it");
            (seen, worker, count) = (record.seen, record.links[BY_AGE].next, count + 1);
        }
        assert_eq!(
            (count, count),
            (self.len(), self.list_lens[BY_AGE]),
            "length of the list by age"
        );
        let listed = self.workers.iter().filter(|(_, worker)| worker.is_listed).count();
        assert_eq!(listed, self.list_lens[LISTED], "lengths of the lists of idle workers");
    }
}
