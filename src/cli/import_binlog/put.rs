//! The jobs of a binlog, put into a data directory: through the engine and its journal.

use super::files::{BinlogDirectory, BinlogFile};
use super::staging::Target;
use super::survey::{BinlogJob, Survey};
use crate::base::api_limits::{IMPORT_BYTES_PER_BATCH, IMPORT_JOBS_PER_BATCH};
use crate::base::limits::JOB_ID_END;
use crate::base::time::{Now, Wall};
use crate::cli::data_dir;
use crate::cli::passes::{close, run_commands};
use crate::cli::progress_line::ProgressLine;
use crate::cli::{bench::float, entropy};
use crate::engine::Engine;
use crate::journal::SyncMode;
use crate::model::command::Command;
use crate::model::id::JobId;
use crate::model::job::{Encoding, JobOptions, OwnedPriority};
use crate::model::manage::{ManageCommand, ManageReply, NewJob, PutOutcome};
use crate::model::reply::{Rejection, Reply};
use crate::model::transfer::{ImportedJob, ImportedStage};
use crate::reactor::{Clock, LoopWaker, ServiceManager};
use crate::wire::binlog::{BODY_END, BinlogState};
use std::path::Path;

/// Batches that are submitted before the disk is waited for.
const BATCHES_TOGETHER: usize = 16;
/// Ids above this one leave too few for what comes later.
const ID_MAX: u64 = JOB_ID_END / 2;

/// What is added to each id. Ids wrap around: a difference of two numbers of 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct IdShift(u64);

impl IdShift {
    fn apply(self, id: u64) -> u64 {
        id.wrapping_add(self.0)
    }

    /// For people: what is added to an id.
    pub(super) fn difference(self) -> i64 {
        self.0.cast_signed()
    }
}

/// Puts all jobs into a data directory. Returns what was added to their ids: 0 unless
/// `new_ids` permits another number. O(jobs log jobs + bytes).
///
/// # Errors
/// A sentence for the operator.
pub(super) fn put_jobs(
    survey: &Survey,
    directory: &BinlogDirectory,
    target: &Target<'_>,
    new_ids: bool,
) -> Result<IdShift, String> {
    let mut clock = Clock::start();
    let wake = LoopWaker::default();
    let seed = entropy::random_u64();
    let engine = data_dir::open(
        target.path(),
        (SyncMode::Always, None),
        seed,
        &mut clock,
        &mut ServiceManager::default(),
        &wake,
    );
    let mut engine = engine.map_err(|error| error.to_string())?;
    let shift = id_shift(survey, engine.next_id(), target.data, new_ids)?;
    engine.skip_ids(JobId(shift.apply(survey.next_id)));
    let mut progress = ProgressLine::new();
    let total = survey.jobs.len();
    let mut jobs = Bodies { directory, files: Vec::new() };
    let mut order = in_order(survey);
    let mut done = 0;
    while !order.is_empty() {
        let now = clock.sample();
        let mut batches = Vec::new();
        while batches.len() < BATCHES_TOGETHER && !order.is_empty() {
            batches.push(jobs.batch(survey, shift, &mut order, now)?);
        }
        put_batches(&mut engine, &batches, &mut clock)
            .map_err(|why| target.explain_end(&why, done))?;
        done += batches.iter().map(Vec::len).sum::<usize>();
        if progress.is_due(now.mono.0) {
            let part = float(done as u64) / float(total as u64);
            progress.show(now.mono.0, "import", part, format_args!("{done} of {total} jobs"));
        }
    }
    close(&mut engine, &mut || clock.sample())
        .map_err(|error| target.explain_end(&error.to_string(), done))?;
    Ok(shift)
}

/// What to add to the ids. Jobs keep their ids where no id from the lowest one on was given out.
fn id_shift(survey: &Survey, next: JobId, data: &Path, new_ids: bool) -> Result<IdShift, String> {
    let lowest = survey.jobs.keys().next().copied().unwrap_or(survey.next_id);
    let keeps = next.0 <= lowest && survey.next_id <= ID_MAX;
    if keeps {
        return Ok(IdShift(0));
    }
    let data = data.display();
    if !new_ids {
        return Err(format!(
            "the jobs of the binlog cannot keep their ids ({lowest} to {}): {data} has given out \
             ids up to {} already. If this binlog was imported before, to the end, there is \
             nothing to do; if that import ended early, remove {data} if it has no other jobs, and \
             import again. Else import into a new directory, or add --new-ids. Nothing was put",
            survey.next_id - 1,
            next.0 - 1
        ));
    }
    let shift = IdShift(next.0.wrapping_sub(lowest));
    if survey.next_id - lowest > ID_MAX || shift.apply(survey.next_id) > ID_MAX {
        return Err(format!(
            "the ids of the binlog are too far apart for {data}: from {lowest} to {}. Nothing was \
             put",
            survey.next_id - 1
        ));
    }
    Ok(shift)
}

/// The jobs in the order of putting, the last one first: by id, then the buried ones in the order
/// of burying.
fn in_order(survey: &Survey) -> Vec<u64> {
    let is_buried = |job: &BinlogJob| job.fields.state == BinlogState::Buried;
    let ids = |buried: bool| {
        let jobs = survey.jobs.iter().filter(move |(_, job)| is_buried(job) == buried);
        jobs.map(|(&id, job)| (job.buried, id))
    };
    let mut buried: Vec<_> = ids(true).collect();
    buried.sort_unstable();
    let mut order: Vec<u64> = ids(false).chain(buried).map(|(_, id)| id).collect();
    order.reverse();
    order
}

/// Reads bodies where they are.
struct Bodies<'a> {
    directory: &'a BinlogDirectory,
    /// Those that are open, by their place in the directory.
    files: Vec<Option<BinlogFile>>,
}

impl Bodies<'_> {
    /// The next jobs: at least one, and not more than a batch. They leave `order`.
    fn batch(
        &mut self,
        survey: &Survey,
        shift: IdShift,
        order: &mut Vec<u64>,
        now: Now,
    ) -> Result<Vec<ImportedJob>, String> {
        let (mut jobs, mut bytes) = (Vec::new(), 0);
        while jobs.len() < IMPORT_JOBS_PER_BATCH && bytes < IMPORT_BYTES_PER_BATCH {
            let Some(id) = order.pop() else { break };
            let job = &survey.jobs[&id];
            let body = self.body(job)?;
            bytes += body.len();
            let tube = &survey.tubes[job.tube];
            jobs.push(imported(job, shift.apply(id), tube, body, now));
        }
        Ok(jobs)
    }

    fn body(&mut self, job: &BinlogJob) -> Result<Box<[u8]>, String> {
        let (number, path) = (job.body.file, &self.directory.files[job.body.file].1);
        if self.files.len() <= number {
            self.files.resize_with(number + 1, || None);
        }
        let file = match &mut self.files[number] {
            Some(file) => file,
            none => none.insert(BinlogFile::open(path)?),
        };
        let length = job.fields.body_bytes as usize;
        let bytes = file.bytes(job.body.offset, length)?;
        match bytes.strip_suffix(BODY_END) {
            Some(body) if bytes.len() == length => Ok(body.into()),
            _ => Err(format!(
                "{}, byte {}: the body of job {} has changed while it was read: does a beanstalkd \
                 run there?",
                path.display(),
                job.body.offset,
                job.fields.id
            )),
        }
    }
}

/// A job as the store takes it.
fn imported(job: &BinlogJob, id: u64, tube: &[u8], body: Box<[u8]>, now: Now) -> ImportedJob {
    let fields = &job.fields;
    let delay_ms = match fields.state {
        BinlogState::Delayed => (fields.deadline_ns / 1_000_000).saturating_sub(now.wall.0),
        _ => 0,
    };
    let options = JobOptions { delay_ms, lease_ms: fields.ttr_ms, ..JobOptions::default() };
    let stage = match fields.state {
        BinlogState::Buried => ImportedStage::Buried(None),
        _ => ImportedStage::Waiting,
    };
    ImportedJob {
        id: Some(JobId(id)),
        queue: tube.into(),
        job: NewJob {
            priority: OwnedPriority::Number(-i64::from(fields.pri)),
            encoding: Encoding::Bytes,
            payload: body,
            options,
            key: None,
            dependencies: None,
        },
        after_here: Box::default(),
        waits: false,
        created_at: Some(Wall(fields.created_ns / 1_000_000)),
        stage,
        retries: 0,
        attempts: fields.timeouts,
        last_error: None,
    }
}

/// Puts jobs and waits until they are durable.
fn put_batches(
    engine: &mut Engine,
    batches: &[Vec<ImportedJob>],
    clock: &mut Clock,
) -> Result<(), String> {
    let mut refused = None;
    let commands = batches.iter().map(|batch| Command::Manage(ManageCommand::Import(batch)));
    run_commands(engine, commands, &mut || clock.sample(), |_, reply| {
        let why = match reply {
            Reply::Manage(ManageReply::Rejected(why)) => Some(explain_rejection(*why)),
            Reply::Manage(ManageReply::Puts(outcomes)) => outcomes.iter().find_map(refusal),
            other => Some(format!("the store has answered {other:?}")),
        };
        if refused.is_none() {
            refused = why;
        }
    })
    .map_err(|error| error.to_string())?;
    refused.map_or(Ok(()), Err)
}

fn refusal(outcome: &PutOutcome) -> Option<String> {
    match outcome {
        PutOutcome::Added(_) => None,
        PutOutcome::Duplicate(id) | PutOutcome::KeyTaken(id) => {
            Some(format!("there is a job {} already", id.0))
        }
        PutOutcome::Rejected(why) => Some(explain_rejection(*why)),
    }
}

fn explain_rejection(why: Rejection) -> String {
    match why {
        Rejection::DiskFull => "the disk is full".to_owned(),
        Rejection::Full => "there is no room for more jobs".to_owned(),
        other => format!("a job was refused ({other:?})"),
    }
}
