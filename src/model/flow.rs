//! Flows: how many jobs pass through a queue, or the server, and how fast.

use crate::model::job_state::JobState;

/// A kind of change that is counted for each queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowKind {
    /// Jobs that were put.
    Put,
    /// Jobs that were handed out.
    Reserved,
    /// Jobs whose runs were done: finished, deleted while they were reserved, or popped.
    Completed,
    /// Runs that were reported as failed.
    Failed,
}

impl FlowKind {
    /// In the order of [`Rates`].
    pub const ALL: [Self; 4] = [Self::Put, Self::Reserved, Self::Completed, Self::Failed];

    /// Name in answers.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Put => "put",
            Self::Reserved => "reserved",
            Self::Completed => "completed",
            Self::Failed => "failed",
        }
    }
}

/// Changes a second over the last minute, in thousandths, by [`FlowKind`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rates(pub [u64; FlowKind::ALL.len()]);

/// The length of a step of a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HistoryStep {
    /// Five seconds.
    Short,
    /// One minute.
    Long,
}

impl HistoryStep {
    /// With their names in requests.
    pub const ALL: [(&'static str, Self); 2] = [("5s", Self::Short), ("1m", Self::Long)];

    /// Its length in milliseconds.
    #[must_use]
    pub fn milliseconds(self) -> u64 {
        match self {
            Self::Short => 5_000,
            Self::Long => 60_000,
        }
    }
}

/// What happened in one step: changes by [`FlowKind`], then the ready jobs at its end.
pub type StepCounts = [u32; FlowKind::ALL.len() + 1];

/// How long the jobs that were reserved or popped in a step had been ready, in milliseconds: the
/// median and the 99th percentile. [`NO_WAIT`]: there were none.
pub type StepWaits = [u32; 2];

/// See [`StepWaits`].
pub const NO_WAIT: u32 = u32::MAX;

/// Numbers of jobs by state, in the order of [`JobState::ALL`].
pub type StateCounts = [u64; JobState::ALL.len()];
