//! Why commands are declined.

use crate::model::id::JobId;

/// Why the store declines a command on jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rejection {
    /// The job table is full, or the ids are used up.
    Full,
    /// The journal has no space for another job, or for retaining a result.
    DiskFull,
    /// Jobs and buffers take as much memory as the settings allow.
    MemoryFull,
    /// The server is being drained: it takes no new jobs.
    Draining,
    /// Another client has reserved the job.
    ReservedByAnother(JobId),
    /// The job is not reserved.
    NotReserved(JobId),
    /// The client has reserved the job, but under a later epoch than it names.
    LeaseExpired(JobId),
    /// A kick of a job that is not buried.
    NotBuried(JobId),
    /// A new job is to wait for a job whose id was never given out.
    UnknownJob(JobId),
    /// A put that waits for others is to replace this job, which has its key.
    ReplaceAfter(JobId),
    /// A put into a group is to replace this job, which has its key.
    ReplaceInGroup(JobId),
    /// This job has the external id.
    NameTaken(JobId),
}
