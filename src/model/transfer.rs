//! Jobs on their way out of a server and into another one: exports and imports.

use crate::base::time::Wall;
use crate::model::id::JobId;
use crate::model::job::Encoding;
use crate::model::job_details::{ErrorDetails, JobDetails};
use crate::model::new_job::NewJob;

/// Some jobs of an export, by id.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExportPage {
    /// In the order of ids, with their terms.
    pub jobs: Vec<JobDetails>,
    /// Where the next part begins; `None`: this was the last one.
    pub next: Option<JobId>,
}

/// A job of an import.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportedJob {
    /// The id that it gets: the caller knows that no job had it. If a job has it, this one is a
    /// duplicate. `None`: the next one.
    pub id: Option<JobId>,
    /// Queue name: any bytes.
    pub queue: Box<[u8]>,
    /// The job as a put would make it: with the delay that is left, and the time to live.
    pub job: NewJob,
    /// Jobs that it was put after and that come before it in the same list: their places there.
    pub after_here: Box<[u32]>,
    /// Whether it waits for what it was put after; else it was let go on the other server.
    pub waits: bool,
    /// When it was put; `None`: now.
    pub created_at: Option<Wall>,
    /// What it is to be when it is there.
    pub stage: ImportedStage,
    /// Attempts that have ended; of a tracked job without `max_attempts` those follow from the
    /// retries.
    pub attempts: u32,
    /// Number of retries begun so far.
    pub retries: u32,
    /// Its last error.
    pub last_error: Option<ErrorDetails>,
}

/// What an imported job is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ImportedStage {
    /// Ready, blocked, or scheduled by its delay.
    Waiting,
    /// Put away, and kept for this number of milliseconds; `None`: until it is kicked or deleted.
    Buried(Option<u64>),
    /// Kept for its result, for this number of milliseconds.
    Completed {
        /// Its result.
        result: Option<(Encoding, Box<[u8]>)>,
        /// From now on.
        kept_ms: u64,
    },
}
