//! Rows and counts for display, and the invariants.

use super::links::{AGE, ASKS};
use super::{NONE, PendingPop, Queue, Worker, WorkerTable};
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
        let records = (from..stop).filter_map(|place| self.workers.get(place));
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
        let mut takes = 0;
        for (place, worker) in self.workers.iter() {
            takes += usize::from(worker.take != PendingPop::None);
            if worker.queue == NONE {
                assert!(
                    worker.take == PendingPop::Ended && !worker.asks,
                    "a forgotten worker stays"
                );
                continue;
            }
            assert_eq!(self.find(&worker.uuid), Some(place), "a worker is not found");
            let idle_alone = !worker.busy && worker.take == PendingPop::None;
            assert_eq!(worker.asks, idle_alone, "an idle worker neither asks nor has a reserve");
            let at_home = worker.stands_in == worker.queue && !worker.busy;
            assert!(worker.take != PendingPop::Open || at_home, "a reserve waits in another queue");
        }
        assert_eq!(takes, self.takes, "takes are miscounted");
        for (place, queue) in self.queues.iter() {
            let here = || self.workers.iter().filter(move |(_, worker)| worker.queue == place);
            let busy = here().filter(|(_, worker)| worker.busy).count();
            let counted = (queue.idle as usize, queue.busy as usize);
            assert_eq!(counted, (here().count() - busy, busy), "workers are miscounted");
            let listed = self.dispatching.contains(&place);
            assert_eq!(listed, queue.dispatching, "a queue is dispatched in secret");
        }
        let mut seen = Mono::default();
        let (mut worker, mut count) = (self.age.first, 0);
        while worker != NONE {
            let record = &self.workers[worker];
            assert!(record.seen >= seen, "a worker is older than the one before it");
            (seen, worker, count) = (record.seen, record.links[AGE].next, count + 1);
        }
        assert_eq!((count, count), (self.len(), self.lined[AGE]), "a worker does not age");
        let asking = self.workers.iter().filter(|(_, worker)| worker.asks).count();
        assert_eq!(asking, self.lined[ASKS], "those who ask are miscounted");
    }
}
