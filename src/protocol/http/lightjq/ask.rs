//! From requests to commands.

use super::messages::{
    Done, FieldError as Wrong, NewJob, read_constraint, read_constraint_json, read_worker,
    read_worker_json,
};
use super::{HttpError, Operation, RequestParams};
use crate::base::address_set::AddressSet;
use crate::base::strings::StringList;
use crate::model::command::Command;
use crate::model::id::JobId;
use crate::model::job::{JobOptions, Priority, Retry, TieBreak};
use crate::model::worker::{Constraint, WorkerCommand};
use crate::wire::msgpack::{DEPTH_MAX, Error};
use crate::wire::url;

/// A request with its head and its body.
#[derive(Clone, Copy, Debug)]
pub(in crate::protocol::http) struct Request<'a> {
    pub(in crate::protocol::http) operation: Operation,
    /// The job in the path, or [`JobId::NEVER`].
    pub(in crate::protocol::http) job: JobId,
    pub(in crate::protocol::http) details: RequestParams,
    /// The name of the constraint in the path, UTF-8; another operation has none.
    pub(in crate::protocol::http) name: &'a [u8],
    pub(in crate::protocol::http) body: &'a [u8],
}

/// Reused memory, and the setting that puts need.
#[derive(Debug, Default)]
pub(in crate::protocol::http) struct Scratch {
    /// How long results are retained (`--result-ttl`), in milliseconds.
    pub(in crate::protocol::http) result_ttl_ms: u64,
    options: JobOptions,
    names: StringList,
    constraint: Option<Constraint>,
    /// A JSON body as MessagePack.
    packed: Vec<u8>,
}

/// A buffer of at most this many bytes is kept.
const KEPT: usize = 64 * 1024;

impl Scratch {
    /// Frees large buffers.
    pub(in crate::protocol::http) fn shrink(&mut self) {
        self.constraint = None;
        if self.packed.capacity() > KEPT {
            self.packed = Vec::new();
        }
    }
}

/// Reads the command of a request. O(body).
///
/// # Errors
/// What is wrong with the body.
pub(in crate::protocol::http) fn parse<'a>(
    request: Request<'a>,
    scratch: &'a mut Scratch,
) -> Result<Command<'a>, HttpError> {
    let Request { operation, job: id, details, name, body } = request;
    // Proof: the router rejects a constraint name that is not UTF-8, and only constraints have
    // names.
    let name = || std::str::from_utf8(name).expect("the name of a constraint is UTF-8");
    Ok(Command::Work(match operation {
        Operation::Put => {
            let Scratch { result_ttl_ms, options, packed, .. } = scratch;
            let job =
                if details.is_json { NewJob::read_json(body, packed) } else { NewJob::read(body) };
            let job = job.map_err(|wrong| bad(&wrong, body, details.is_json))?;
            return Ok(put(&job, *result_ttl_ms, options));
        }
        Operation::GetStatus => WorkerCommand::GetStatus { id },
        Operation::Await => WorkerCommand::AwaitResult { id, wait_ms: details.wait_ms },
        Operation::Cancel => WorkerCommand::Cancel { id },
        Operation::Register => {
            let Scratch { names, packed, .. } = scratch;
            let worker = if details.is_json {
                read_worker_json(body, packed, names)
            } else {
                read_worker(body, names)
            };
            WorkerCommand::Register(worker.map_err(|wrong| bad(&wrong, body, details.is_json))?)
        }
        Operation::Deregister => WorkerCommand::Deregister { worker: details.worker },
        Operation::Report => {
            let packed = &mut scratch.packed;
            let done =
                if details.is_json { Done::read_json(body, packed) } else { Done::read(body) };
            let done = done.map_err(|wrong| bad(&wrong, body, details.is_json))?;
            WorkerCommand::Report { worker: details.worker, id: done.job_id, report: done.report() }
        }
        Operation::GetConstraint => WorkerCommand::GetConstraint { name: name() },
        Operation::SetConstraint => {
            let read = if details.is_json { read_constraint_json } else { read_constraint };
            let constraint =
                read(name(), body).map_err(|wrong| bad(&wrong, body, details.is_json))?;
            WorkerCommand::SetConstraint(scratch.constraint.insert(constraint))
        }
        Operation::RemoveConstraint => WorkerCommand::RemoveConstraint { name: name() },
    }))
}

/// Refuses a worker whose URL has an address that is not called. A name is checked at each call.
///
/// # Errors
/// Which addresses are called, and what would permit this one.
pub(in crate::protocol::http) fn permit<'a>(
    command: Command<'a>,
    worker_net: &AddressSet,
) -> Result<Command<'a>, HttpError> {
    let Command::Work(WorkerCommand::Register(worker)) = &command else { return Ok(command) };
    let address = url::parse(worker.url).ok().and_then(|url| url.host.parse().ok());
    match address.and_then(|address| worker_net.refusal(address)) {
        Some(why) => Err(HttpError::new(403, why)),
        None => Ok(command),
    }
}

#[cold]
fn bad(wrong: &Wrong, body: &[u8], is_json: bool) -> HttpError {
    let why = match wrong {
        // The place in the error is one in the translation.
        Wrong::Body(Error::TooDeep { .. }) if is_json => format!(
            "the body is nested too deep: more than {DEPTH_MAX} levels of arrays and objects"
        ),
        Wrong::Body(_) if !is_json && body.trim_ascii_start().starts_with(b"{") => {
            "the body looks like JSON and is read as MessagePack: send Content-Type: \
             application/json with it"
                .to_owned()
        }
        _ => wrong.to_string(),
    };
    HttpError::new(400, why)
}

fn put<'a>(job: &NewJob<'a>, ttl: u64, options: &'a mut JobOptions) -> Command<'a> {
    *options = JobOptions {
        lease_ms: job.timeout_ms,
        retry: Some(Retry {
            limit: job.max_retry,
            first_ms: 1000,
            factor: 2,
            max_ms: 3_600_000,
            jitter_percent: 10,
        }),
        result_retention_ms: if job.keep_result { ttl } else { 0 },
        dead_retention_ms: ttl,
        tracked: true,
        result_once: true,
        ..JobOptions::default()
    };
    Command::Put {
        queue: job.name.as_bytes(),
        priority: Priority::Small(-i64::from(job.priority)),
        tie_break: TieBreak::Fifo,
        payload: job.argument,
        options: Some(options),
    }
}
