//! Jobs as clients see them.

use super::{JobIdx, Store};
use crate::model::id::{ClientId, JobId};
use crate::model::reply::{JobInfo, JobView};

impl Store {
    /// The job in `slot`, as clients see it. O(1).
    ///
    /// # Panics
    /// If the slot is from before the last command and its job was removed.
    #[must_use]
    #[inline]
    pub fn view(&self, slot: JobIdx) -> JobView<'_> {
        let job = &self.jobs[slot];
        job.view(&self.queues[job.queue].name)
    }

    /// The queue of a job, and whether this client has reserved it. O(1).
    #[must_use]
    pub fn job_queue(&self, id: JobId, client: ClientId) -> Option<(&[u8], bool)> {
        let job = &self.jobs[self.ids.find(id.0)?];
        Some((&self.queues[job.queue].name, self.reservations.has_reserved(client, job)))
    }

    /// The job in `slot` with status, deadline, options and result. O(1).
    ///
    /// # Panics
    /// As [`Store::view`].
    #[must_use]
    pub fn job_info(&self, slot: JobIdx) -> JobInfo<'_> {
        let job = &self.jobs[slot];
        JobInfo {
            job: self.view(slot),
            status: job.status(),
            due: job.due(&self.deadlines),
            lease_ms: job.options().lease_ms,
            retries: job.retries(),
            result: job.result(),
        }
    }
}
