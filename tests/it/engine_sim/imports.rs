//! Jobs of another server: what the engine is asked, and what the oracle is. And how they are
//! drawn.

use super::requests::QUEUES;
use super::run_requests::NativeJob;
use crate::oracle::imports::{Imported, Stage};
use crate::oracle::types::{Load, Queue, Text};
use crate::oracle::{NewJob, Oracle};
use crate::rng::TestRng;
use jobcentre::base::time::Wall;
use jobcentre::model::job::JobOptions;
use jobcentre::model::manage::{ErrorDetails, NewJob as EngineJob, OnDuplicate};
use jobcentre::model::transfer::{ImportedJob, ImportedStage};

/// A job of another server.
#[derive(Clone, Debug)]
pub(super) struct ForeignJob {
    job: NativeJob,
    attempts: u32,
    error: Option<u64>,
    stage: Stage,
    /// The places of jobs before it that it waits for.
    after_here: Vec<u32>,
    waits: bool,
}

const ERROR: (&str, &str) = ("E", "it broke");

impl ForeignJob {
    pub(super) fn for_engine(&self, queue: Queue) -> ImportedJob {
        let (error, message) = ERROR;
        ImportedJob {
            id: None,
            queue: QUEUES[queue].into(),
            job: self.engine_job(),
            after_here: self.after_here.clone().into(),
            waits: self.waits,
            created_at: None,
            stage: match &self.stage {
                Stage::Waiting => ImportedStage::Waiting,
                Stage::Buried => ImportedStage::Buried(None),
                Stage::Completed(result, kept_ms) => ImportedStage::Completed {
                    result: result.as_ref().map(|it| (it.encoding, it.text.bytes().into())),
                    kept_ms: *kept_ms,
                },
            },
            attempts: self.attempts,
            retries: 0,
            last_error: self.error.map(|at| ErrorDetails {
                error: error.into(),
                message: message.into(),
                at: Some(Wall(at)),
            }),
        }
    }

    fn engine_job(&self) -> EngineJob {
        let mut job = self.job.for_engine();
        if !self.after_here.is_empty() {
            let runs_if_lost = self.job.deps.runs_if_lost;
            job.dependencies.get_or_insert_default().runs_if_lost = runs_if_lost;
        }
        job
    }

    pub(super) fn for_oracle(&self, queue: Queue) -> Imported {
        let text = |text: &str| Text::new(text.as_bytes());
        let (error, message) = ERROR;
        let job = self.job.for_oracle(queue);
        // One without options is a plain job.
        let options = job.options.filter(|options| *options != JobOptions::default());
        Imported {
            job: NewJob { options, ..job },
            attempts: self.attempts,
            error: self.error.map(|at| (text(error), text(message), Wall(at))),
            stage: self.stage.clone(),
            after_here: self.after_here.iter().map(|&place| place as usize).collect(),
            waits: self.waits,
        }
    }
}

/// These jobs with something that has become of them. What is drawn follows from the moment, so
/// that all else that is drawn stays as it was.
pub(super) fn foreign(
    jobs: Vec<NativeJob>,
    oracle: &Oracle,
    durations: &[u64],
) -> Result<Vec<ForeignJob>, Vec<NativeJob>> {
    let mut rng = TestRng::new(oracle.now.mono.0 ^ (oracle.jobs.len() as u64) << 40);
    if rng.percent(50) {
        return Err(jobs);
    }
    let mut foreign = |before: usize, mut job: NativeJob| {
        if let Some(key) = &mut job.key {
            key.on_duplicate = OnDuplicate::Reject;
        }
        let most = job.options.max_attempts.min(4) as usize;
        let attempts = if most > 0 { rng.below(most) } else { rng.below(3) };
        let result = rng.percent(50).then(|| Load::json("{\"r\":1}"));
        let stage = match rng.below(4) {
            0 | 1 => Stage::Waiting,
            2 => Stage::Buried,
            _ => Stage::Completed(result, (*rng.pick(durations)).max(1)),
        };
        let error = rng.percent(40).then(|| 1 + rng.below(1_000_000) as u64);
        let after_here = match rng.below(2 * before + 1) {
            place if place < before => vec![u32::try_from(place).unwrap()],
            _ => Vec::new(),
        };
        let (attempts, waits) = (u32::try_from(attempts).unwrap(), rng.percent(70));
        ForeignJob { job, attempts, error, stage, after_here, waits }
    };
    Ok(jobs.into_iter().enumerate().map(|(before, job)| foreign(before, job)).collect())
}
