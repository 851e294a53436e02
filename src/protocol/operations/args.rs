//! Requests, parsed: from fields to arguments that borrow nothing.

use super::action_fields::{ActionAnswer, action, change_of, number, query, queue_action};
use super::cursor::{action_cursor, job_cursor, queue_cursor, search_cursor, search_tag};
use super::fields::{DURATION_MAX_MS, Fields, query_object};
use super::problem::{Problem, ProblemKind};
use super::put_fields::{new_job, priority};
use super::schedules::{self, ScheduleArgs};
use super::show_args::{self, ShowArgs};
use super::table::{Method, Operation, OperationRow, PathPart};
use crate::base::api_limits::{DEPENDENCIES_PER_REQUEST_MAX, GLOB_MAX_BYTES};
use crate::base::strings::StringList;
use crate::base::time::Now;
use crate::model::action::{ActionSpec, JobChange};
use crate::model::command::Wait;
use crate::model::external_id::Fraction;
use crate::model::id::JobId;
use crate::model::job::{Encoding, LeaseToken};
use crate::model::manage::{
    JobCursor, JobState, LeaseTerms, ManageCommand, NewJob, QueueOrder, ReserveTerms, RunReport,
};
use crate::model::query::Query;
use crate::protocol::BrowserRequest;
use crate::wire::json::elements;
use std::sync::Arc;

/// Most jobs of one request: of an array of puts, and of a reserve.
pub(super) const JOBS_PER_REQUEST_MAX: usize = 1_000;

/// Longest wait of a request, in milliseconds.
const WAIT_MAX_MS: u64 = 60_000;

/// Longest text of an error, in bytes: what is longer is cut.
pub(in crate::protocol) const ERROR_MAX_BYTES: usize = 64 * 1024;

/// What stands in the path of a request.
#[derive(Clone, Debug)]
pub(in crate::protocol) struct PathArgs {
    /// Or [`JobId::NEVER`].
    pub(in crate::protocol) job: JobId,
    /// Name of the queue or schedule: any bytes.
    pub(in crate::protocol) queue: Vec<u8>,
}

/// A request, parsed.
#[derive(Debug)]
pub(in crate::protocol) enum Args {
    ShowJob { id: JobId },
    Result { id: JobId, wait_ms: u64 },
    Report { id: JobId, token: Option<LeaseToken>, report: RunReport },
    ListQueues { glob: Option<Vec<u8>>, behind: Option<Vec<u8>>, limit: usize },
    RankQueues { glob: Option<Vec<u8>>, order: QueueOrder, limit: usize },
    ListJobs { queue: Vec<u8>, state: Option<JobState>, from: JobCursor, limit: usize },
    Pause { queue: Vec<u8>, for_ms: Option<u64> },
    Resume { queue: Vec<u8> },
    Verb { id: JobId, verb: JobVerb },
    Change { id: JobId, change: Box<JobChange> },
    DropQueue { queue: Vec<u8>, force: bool },
    Act { spec: Box<ActionSpec>, answer: ActionAnswer },
    ListActions { below: Option<u64>, limit: usize },
    ShowAction { id: u64 },
    CancelAction { id: u64 },
    SetIndex { queue: Vec<u8>, on: bool },
    Search { queue: Vec<u8>, query: Arc<Query>, tag: u32, behind: JobId, limit: usize },
    PeekQueue { queue: Vec<u8>, state: Option<JobState>, from: JobCursor },
    Backup,
    Export { queue: Option<Vec<u8>>, state: Option<JobState> },
    Import,
    ShowServer,
    Drain { on: bool },
    Reload,
    Me,
    Browser(BrowserRequest),
    ShowQueue { queue: Vec<u8> },
    Put { queue: Vec<u8>, job: Box<NewJob> },
    Schedule(ScheduleArgs),
    Show(ShowArgs),
    PutMany { queue: Vec<u8>, jobs: Vec<NewJob>, rejected: Vec<Option<Problem>> },
    Reserve { queues: StringList, terms: ReserveTerms, shows_run: bool },
}

/// What is done to a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::protocol) enum JobVerb {
    Bury,
    Cancel,
    Delete,
    Kick,
}

impl JobVerb {
    /// The command that does it to this job.
    pub(super) fn command(self, id: JobId) -> ManageCommand<'static> {
        match self {
            Self::Bury => ManageCommand::Bury { id },
            Self::Cancel => ManageCommand::Cancel { id },
            Self::Delete => ManageCommand::Remove { id },
            Self::Kick => ManageCommand::Kick { id },
        }
    }
}

/// Parses a request over HTTP. `query`: the query string of the target.
pub(in crate::protocol) fn parse(
    row: &'static OperationRow,
    path: PathArgs,
    query: &str,
    body: &[u8],
    now: Now,
) -> Result<Args, Problem> {
    if matches!(row.method, Method::Get | Method::Delete) {
        let object = query_object(query, &["limit", "wait_ms", "force"])?;
        let fields = Fields::of_object(object.as_bytes(), row.fields)?;
        return parse_fields(row, path, &fields, now);
    }
    if !query.is_empty() {
        let object = query_object(query, &[])?;
        Fields::of_object(object.as_bytes(), &[])?;
    }
    if row.operation == Operation::Put {
        return put(path.queue, body, now);
    }
    if row.operation == Operation::SetSchedule {
        return schedules::set(&path.queue, body, now).map(Args::Schedule);
    }
    parse_fields(row, path, &Fields::of_object(body, row.fields)?, now)
}

/// The fields of a line: those of the path too.
pub(super) fn line_fields(row: &'static OperationRow) -> Vec<&'static str> {
    let of_path = row.path.iter().filter_map(|part| match part {
        PathPart::Is(_) | PathPart::Schedule | PathPart::Constraint => None,
        PathPart::Action => Some("action"),
        PathPart::Job | PathPart::Connection => Some("id"),
        PathPart::Queue => Some("queue"),
    });
    let own = if row.operation == Operation::Change { &["fields"] } else { row.fields };
    of_path.chain(own.iter().copied()).collect()
}

/// Parses a line request.
pub(super) fn parse_line_fields(
    row: &'static OperationRow,
    fields: &Fields<'_>,
    now: Now,
) -> Result<Args, Problem> {
    let mut path = PathArgs { job: JobId::NEVER, queue: Vec::new() };
    if row.path.contains(&PathPart::Job) || row.path.contains(&PathPart::Connection) {
        let wanted = match row.line {
            Some("kick" | "peek") => "an integer, or say 'queue'",
            Some("cancel") => "an integer, or say 'action'",
            _ => "an integer, written without fraction or exponent",
        };
        path.job = fields.job_id("id")?.ok_or_else(|| Problem::missing("id", wanted))?;
    }
    if row.path.contains(&PathPart::Queue) {
        let queue = fields.string("queue")?;
        path.queue = queue.ok_or_else(|| Problem::missing("queue", "a string"))?.into_bytes();
    }
    if row.path.contains(&PathPart::Action) {
        let number = fields.integer("action", 0, u64::MAX)?;
        let number = number.ok_or_else(|| Problem::missing("action", "the number of an action"))?;
        path.queue = number.to_string().into_bytes();
    }
    parse_fields(row, path, fields, now)
}

fn parse_fields(
    row: &'static OperationRow,
    path: PathArgs,
    fields: &Fields<'_>,
    now: Now,
) -> Result<Args, Problem> {
    let PathArgs { job: id, queue } = path;
    Ok(match row.operation {
        Operation::ShowJob => Args::ShowJob { id },
        Operation::Result => {
            let wait_ms = fields.duration_between("wait_ms", 0, WAIT_MAX_MS)?.unwrap_or(0);
            Args::Result { id, wait_ms }
        }
        Operation::Bury => Args::Verb { id, verb: JobVerb::Bury },
        Operation::Cancel => Args::Verb { id, verb: JobVerb::Cancel },
        Operation::DeleteJob => Args::Verb { id, verb: JobVerb::Delete },
        Operation::Kick => Args::Verb { id, verb: JobVerb::Kick },
        Operation::Change => Args::Change { id, change: Box::new(change_of(fields, now)?) },
        Operation::Act => {
            let spec = Box::new(action(fields, now)?);
            Args::Act { spec, answer: ActionAnswer::Details }
        }
        Operation::ListActions => {
            let limit = fields.limit()?;
            let below = fields.string("cursor")?.map(|text| action_cursor(&text)).transpose()?;
            Args::ListActions { below, limit }
        }
        Operation::ShowAction => Args::ShowAction { id: number(&queue) },
        Operation::CancelAction => Args::CancelAction { id: number(&queue) },
        Operation::Backup => Args::Backup,
        Operation::Export => {
            let words = JobState::ALL.map(|state| (state.name(), state));
            let queue = fields.string("queue")?.map(String::into_bytes);
            Args::Export { queue, state: fields.word("state", &words)? }
        }
        // Its body is read by `Import`.
        Operation::Import => Args::Import,
        Operation::ShowServer => Args::ShowServer,
        Operation::Me => Args::Me,
        Operation::OpenSession => Args::Browser(BrowserRequest::Open),
        Operation::CloseSession => Args::Browser(BrowserRequest::Close),
        Operation::Drain => {
            let missing = || Problem::missing("on", "true or false");
            Args::Drain { on: fields.bool("on")?.ok_or_else(missing)? }
        }
        Operation::Reload => Args::Reload,
        Operation::Reserve => return reserve(fields),
        Operation::Complete
        | Operation::Fail
        | Operation::Release
        | Operation::Touch
        | Operation::Progress => return report(row.operation, id, fields),
        Operation::CloseConnection => {
            let number = if queue.is_empty() { id.0 } else { number(&queue) };
            Args::Show(ShowArgs::Close { number })
        }
        Operation::QueueHistory
        | Operation::ServerHistory
        | Operation::Stream
        | Operation::ListWorkers
        | Operation::ListConnections
        | Operation::ListConstraints
        | Operation::ShowConstraint
        | Operation::SetConstraint
        | Operation::RemoveConstraint => {
            return show_args::parse(row.operation, queue, fields).map(Args::Show);
        }
        _ => return parse_queue_fields(row.operation, queue, fields),
    })
}

/// Parses a request about a queue.
fn parse_queue_fields(
    operation: Operation,
    queue: Vec<u8>,
    fields: &Fields<'_>,
) -> Result<Args, Problem> {
    Ok(match operation {
        Operation::Pause => {
            let for_ms = fields.duration_between("for_ms", 1, DURATION_MAX_MS)?;
            Args::Pause { queue, for_ms }
        }
        Operation::Resume => Args::Resume { queue },
        Operation::ShowQueue => Args::ShowQueue { queue },
        Operation::DeleteQueue => {
            let force = fields.bool("force")?.unwrap_or(false);
            Args::DropQueue { queue, force }
        }
        Operation::SetIndex => Args::SetIndex { queue, on: true },
        Operation::DeleteIndex => Args::SetIndex { queue, on: false },
        Operation::Search => return search(queue, fields),
        Operation::Purge | Operation::KickQueue | Operation::Move => {
            let (spec, answer) = queue_action(operation, queue, fields)?;
            Args::Act { spec: Box::new(spec), answer }
        }
        Operation::PeekQueue => {
            let state = fields.state("state")?.or(Some(JobState::Ready));
            Args::PeekQueue { queue, state, from: JobCursor::Start }
        }
        Operation::ListQueues => return list_queues(fields),
        Operation::ListJobs => return list_jobs(queue, fields),
        Operation::ListSchedules
        | Operation::ShowSchedule
        | Operation::RemoveSchedule
        | Operation::RunSchedule => {
            return schedules::parse(operation, queue, fields).map(Args::Schedule);
        }
        other => unreachable!("{other:?} is not about a queue"),
    })
}

/// Parses what became of a run.
fn report(operation: Operation, id: JobId, fields: &Fields<'_>) -> Result<Args, Problem> {
    let report = match operation {
        Operation::Complete => RunReport::Complete {
            result: fields.raw("result").map(|text| (Encoding::Json, text.as_bytes().into())),
        },
        Operation::Fail => {
            let error = fields.string("error")?.unwrap_or_else(|| "Error".to_owned());
            let message = fields.string("message")?.unwrap_or_default();
            let retry = fields.bool("retry")?.unwrap_or(true);
            let delay_ms = fields.duration("delay_ms")?;
            RunReport::Fail { error: cut(error), message: cut(message), retry, delay_ms }
        }
        Operation::Release => {
            let priority = fields.integer("pri", i64::MIN, i64::MAX)?.map(priority);
            let delay_ms = fields.duration("delay_ms")?.unwrap_or(0);
            RunReport::Release { priority, delay_ms }
        }
        Operation::Touch => RunReport::Touch { ttr_ms: ttr(fields)? },
        _ => {
            let progress = fields.fraction("progress")?.and_then(Fraction::new);
            let message = fields.string("message")?.map(cut);
            RunReport::Progress { progress, message }
        }
    };
    // A line without a token is about a job that its connection holds.
    let is_by_token = !fields.is_line() || fields.text("token").is_some();
    let token = is_by_token.then(|| token(fields)).transpose()?;
    Ok(Args::Report { id, token, report })
}

fn list_queues(fields: &Fields<'_>) -> Result<Args, Problem> {
    let glob = fields.short_string("match", GLOB_MAX_BYTES)?.map(String::into_bytes);
    let orders =
        [("name", None), ("ready", Some(QueueOrder::Ready)), ("oldest", Some(QueueOrder::Oldest))];
    let order = fields.word("sort", &orders)?.flatten();
    let limit = fields.limit()?;
    let behind = fields.string("cursor")?;
    if let Some(order) = order {
        return match behind {
            Some(_) => Err(fields.wrong("cursor", "absent: with this 'sort' there is one page")),
            None => Ok(Args::RankQueues { glob, order, limit }),
        };
    }
    let behind = behind.map(|text| queue_cursor(&text)).transpose()?;
    Ok(Args::ListQueues { glob, behind, limit })
}

fn list_jobs(queue: Vec<u8>, fields: &Fields<'_>) -> Result<Args, Problem> {
    let state = fields.state("state")?;
    let limit = fields.limit()?;
    let from = fields.string("cursor")?;
    let from = from.map(|text| job_cursor(&text, &queue, state)).transpose()?;
    let from = from.unwrap_or_default();
    Ok(Args::ListJobs { queue, state, from, limit })
}

fn search(queue: Vec<u8>, fields: &Fields<'_>) -> Result<Args, Problem> {
    let wanted = "an array of [OP, EXPR, EXPR]";
    let text = fields.text("query").ok_or_else(|| Problem::missing("query", wanted))?;
    let query = query(text, "query")?;
    let limit = fields.limit()?;
    let tag = search_tag(&queue, text);
    let behind = fields.string("cursor")?;
    let behind = behind.map(|cursor| search_cursor(&cursor, tag)).transpose()?;
    let behind = behind.unwrap_or(JobId(0));
    Ok(Args::Search { queue, query, tag, behind, limit })
}

fn cut(mut text: String) -> Box<str> {
    if text.len() > ERROR_MAX_BYTES {
        let end = (0..=ERROR_MAX_BYTES).rev().find(|&end| text.is_char_boundary(end));
        text.truncate(end.unwrap_or(0));
    }
    text.into()
}

pub(super) fn ttr(fields: &Fields<'_>) -> Result<Option<u64>, Problem> {
    fields.duration_between("ttr_ms", 1, DURATION_MAX_MS)
}

/// Tokens are 16 hexadecimal digits. What is none names no lease.
fn token(fields: &Fields<'_>) -> Result<LeaseToken, Problem> {
    let wanted = "the 'token' of the job as the reserve has answered it";
    let Some(text) = fields.string("token")? else {
        return Err(Problem::missing("token", wanted));
    };
    let is_token = text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let number = is_token.then(|| u64::from_str_radix(&text, 16).ok()).flatten();
    number.map(LeaseToken).ok_or_else(|| {
        Problem::new(ProblemKind::StaleToken, "this is not the token of a lease of the job")
    })
}

fn put(queue: Vec<u8>, body: &[u8], now: Now) -> Result<Args, Problem> {
    let first = body.iter().find(|byte| !b" \t\r\n".contains(byte));
    if first != Some(&b'[') {
        let job = new_job(body, now)?;
        return Ok(Args::Put { queue, job: Box::new(job) });
    }
    let whole = crate::wire::json::value(body)
        .map_err(|error| Problem::new(ProblemKind::InvalidJson, format!("the body {error}")))?;
    let list = elements(whole).unwrap_or_default();
    if !(1..=JOBS_PER_REQUEST_MAX).contains(&list.len()) {
        let detail = format!(
            "the body must be an object, or an array of 1 to {JOBS_PER_REQUEST_MAX} of them"
        );
        return Err(Problem::new(ProblemKind::InvalidField, detail));
    }
    let (mut jobs, mut rejected) = (Vec::new(), Vec::new());
    let mut after = 0;
    for text in list {
        match new_job(text.as_bytes(), now).and_then(|job| check_after(job, &mut after)) {
            Ok(job) => {
                jobs.push(job);
                rejected.push(None);
            }
            Err(problem) => rejected.push(Some(problem)),
        }
    }
    Ok(Args::PutMany { queue, jobs, rejected })
}

/// Counts what the jobs of an array wait for.
fn check_after(job: NewJob, all: &mut usize) -> Result<NewJob, Problem> {
    let own = job.dependencies.as_ref().map_or(0, |new| new.after.len());
    if *all + own > DEPENDENCIES_PER_REQUEST_MAX {
        let most = DEPENDENCIES_PER_REQUEST_MAX;
        let wanted = format!("shorter: the jobs of one array may wait for {most} jobs together");
        return Err(Problem::wrong("after", &wanted));
    }
    *all += own;
    Ok(job)
}

fn reserve(fields: &Fields<'_>) -> Result<Args, Problem> {
    let wanted = "an array of 1 to 1000 queue names";
    let names = fields.strings("queues", 1..=1_000)?;
    let names = names.ok_or_else(|| Problem::missing("queues", wanted))?;
    let mut queues = StringList::default();
    for name in &names {
        queues.push(name.as_bytes());
    }
    let wait_ms = fields.duration_between("wait_ms", 0, WAIT_MAX_MS)?.unwrap_or(0);
    let limit = fields.integer("limit", 1_u32, 1_000)?.unwrap_or(1) as usize;
    let lease = Some(LeaseTerms { ttr_ms: ttr(fields)?, worker: worker(fields)? });
    let wait = if wait_ms == 0 { Wait::No } else { Wait::Milliseconds(wait_ms) };
    Ok(Args::Reserve { queues, terms: ReserveTerms { limit, wait, lease }, shows_run: true })
}

/// The name that a worker gives itself; empty: none.
pub(super) fn worker(fields: &Fields<'_>) -> Result<Box<str>, Problem> {
    Ok(fields.short_string("worker", 1_024)?.unwrap_or_default().into())
}
