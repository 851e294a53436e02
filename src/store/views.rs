//! Jobs as clients see them.

use super::{JobIdx, Store};
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
