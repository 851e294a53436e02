//! One job, from its slot to its report: the outcome of the command, and its delivery to the
//! server.

use super::WorkerContext;
use super::run::{self, CommandOutput, ExitReason, OUTPUT_MAX_BYTES, Task};
use super::worker_state::SlotGuard;
use crate::cli::escape::truncate_front;
use crate::model::id::JobId;
use crate::model::job::{Encoding, Payload};
use crate::model::worker::WorkerId;
use crate::protocol::http::lightjq::messages::{Done, Outcome, Reason};
use crate::reactor::Clock;
use crate::wire::msgpack::{from_json, push_integer, push_map, push_nil, push_text};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;
use tracing::{debug, info, warn};

/// Exit statuses after which the job is not retried: `EX_USAGE` and `EX_DATAERR` of sysexits.
const FINAL_EXIT_STATUSES: [i32; 2] = [64, 65];

/// Bytes of stderr in the message of a failure.
const MESSAGE_MAX_BYTES: usize = 4 * 1024;

/// Bytes of a message in the log.
const LOGGED_MAX_BYTES: usize = 400;

/// The backoff between attempts to deliver a report: the first, and the longest.
const REPORT_BACKOFF_MIN: Duration = Duration::from_millis(200);
const REPORT_BACKOFF_MAX: Duration = Duration::from_secs(5);

/// After this many attempts, about ten minutes, a report is dropped.
const REPORT_ATTEMPTS_MAX: u32 = 120;

/// A job that was accepted.
pub(super) struct Job {
    pub(super) id: JobId,
    pub(super) name: String,
    pub(super) timeout: Option<Duration>,
    /// Its argument, as JSON.
    pub(super) input: Vec<u8>,
    /// The worker's id when the job came, if the worker was registered.
    pub(super) worker: Option<WorkerId>,
    pub(super) slot: SlotGuard,
}

/// The outcome of a job, with the value that the report borrows.
struct JobOutcome {
    value: Vec<u8>,
    failure: Option<Failure>,
}

struct Failure {
    reason: Reason,
    should_retry: bool,
    message: String,
    /// How the command ended, if the message is its stderr.
    end: Option<String>,
}

impl JobOutcome {
    fn success(value: Vec<u8>) -> Self {
        Self { value, failure: None }
    }

    /// `detail` is the cause for programs.
    fn failure(should_retry: bool, message: String, detail: Option<(&str, i32)>) -> Self {
        let mut value = Vec::new();
        match detail {
            Some((name, number)) => {
                push_map(&mut value, 1);
                push_text(&mut value, name);
                push_integer(&mut value, number);
            }
            None => push_nil(&mut value),
        }
        let reason = Reason::Other;
        Self { value, failure: Some(Failure { reason, should_retry, message, end: None }) }
    }

    /// The failure of a command that ended with this on stderr.
    fn ended(should_retry: bool, end: String, stderr: String, detail: Option<(&str, i32)>) -> Self {
        if stderr.is_empty() {
            return Self::failure(should_retry, end, detail);
        }
        let mut outcome = Self::failure(should_retry, stderr, detail);
        if let Some(failure) = &mut outcome.failure {
            failure.end = Some(end);
        }
        outcome
    }

    fn timeout(message: String) -> Self {
        let mut outcome = Self::failure(true, message, None);
        if let Some(failure) = &mut outcome.failure {
            failure.reason = Reason::Timeout;
        }
        outcome
    }

    fn report(&self, job_id: JobId, finished_at: Option<i64>) -> Vec<u8> {
        let value = Payload { encoding: Encoding::MsgPack, bytes: &self.value };
        let outcome = match &self.failure {
            None => Outcome::Success { result: value },
            Some(Failure { reason, should_retry, message, .. }) => Outcome::Failure {
                reason: *reason,
                should_retry: *should_retry,
                error: value,
                message,
            },
        };
        let mut body = Vec::new();
        Done { job_id, finished_at, outcome }.write(&mut body);
        body
    }

    fn is_timeout(&self) -> bool {
        self.failure.as_ref().is_some_and(|failure| failure.reason == Reason::Timeout)
    }
}

/// Runs a job and reports its outcome. Its slot is freed after the report.
pub(super) fn run_job(context: &WorkerContext, job: Job) {
    let Job { id, name, timeout, input, worker, slot } = job;
    let number = id.0.to_string();
    let timeout = match (timeout, context.settings.timeout) {
        (Some(asked), Some(most)) => Some(asked.min(most)),
        (asked, most) => asked.or(most),
    };
    let (command, name) = (&*context.settings.command, &*name);
    let task = Task { command, id: &number, name, timeout, input: &input };
    debug!(job = id.0, name, "begins");
    let outcome = match run::run(&task, &context.state) {
        Ok(CommandOutput { end: ExitReason::Cancelled, .. }) => {
            return warn!(job = id.0, name, "killed: the worker stops; the job goes back");
        }
        Ok(run) => outcome_of(&run, timeout, context.settings.text),
        Err(error) => {
            JobOutcome::failure(true, format!("the command cannot be run: {error}"), None)
        }
    };
    drop(input);
    if let Some(failure) = &outcome.failure {
        log_failure(id, name, failure);
    } else {
        debug!(job = id.0, name, "done");
    }
    report(context, id, worker, &outcome);
    drop(slot);
}

/// Logs a failure, truncated; the server gets the whole message.
fn log_failure(id: JobId, name: &str, failure: &Failure) {
    let stderr = truncate_front(&failure.message, LOGGED_MAX_BYTES);
    let why = match &failure.end {
        Some(end) => format!("{end}: {stderr}"),
        None => stderr.into_owned(),
    };
    if failure.should_retry {
        info!(
            job = id.0,
            name, why, "failed: tried again after 1, 2, 4, ... s while it has tries left"
        );
    } else {
        warn!(job = id.0, name, why, "failed for good: it is not tried again");
    }
}

/// The outcome of a command that has ended.
fn outcome_of(run: &CommandOutput, timeout: Option<Duration>, text: bool) -> JobOutcome {
    let failed = |status: &ExitStatus| {
        let (end, detail) = match (status.code(), status.signal()) {
            (Some(code), _) => (format!("exit status {code}"), Some(("exit_status", code))),
            (None, Some(signal)) => (format!("ended by signal {signal}"), Some(("signal", signal))),
            (None, None) => (status.to_string(), None),
        };
        let should_retry = status.code().is_none_or(|code| !FINAL_EXIT_STATUSES.contains(&code));
        let stderr = last_lines(&run.stderr_tail);
        JobOutcome::ended(should_retry, end, stderr, detail)
    };
    match &run.end {
        ExitReason::Exited(status) if !status.success() => failed(status),
        ExitReason::Exited(_) => match result(&run.output, text) {
            Ok(value) => JobOutcome::success(value),
            Err(message) => JobOutcome::failure(false, message, None),
        },
        ExitReason::TimedOut | ExitReason::Cancelled => {
            let time = timeout.unwrap_or_default();
            let stderr = last_lines(&run.stderr_tail);
            let end = if stderr.is_empty() { stderr } else { format!(": {stderr}") };
            JobOutcome::timeout(format!("timeout after {}{end}", humantime::format_duration(time)))
        }
        ExitReason::OutputTooLarge => {
            let message = format!("the command printed more than {OUTPUT_MAX_BYTES} bytes");
            JobOutcome::failure(false, message, None)
        }
    }
}

/// The command's output as a result.
fn result(output: &[u8], text: bool) -> Result<Vec<u8>, String> {
    let mut value = Vec::new();
    if text {
        let output = std::str::from_utf8(output)
            .map_err(|_| "the command printed something that is not UTF-8".to_owned())?;
        push_text(&mut value, output.strip_suffix('\n').unwrap_or(output));
        return Ok(value);
    }
    if output.trim_ascii().is_empty() {
        push_nil(&mut value);
        return Ok(value);
    }
    from_json(output, &mut value).map_err(|why| {
        let start = String::from_utf8_lossy(&output[..output.len().min(80)]).into_owned();
        format!("the command printed no JSON ({why}): it begins with {start:?}")
    })?;
    Ok(value)
}

/// The last lines of stderr.
fn last_lines(stderr_tail: &[u8]) -> String {
    let stderr_tail = stderr_tail.trim_ascii_end();
    let mut last = &stderr_tail[stderr_tail.len().saturating_sub(MESSAGE_MAX_BYTES)..];
    if last.len() < stderr_tail.len()
        && let Some(line) = last.iter().position(|&byte| byte == b'\n')
    {
        last = &last[line + 1..];
    }
    String::from_utf8_lossy(last).into_owned()
}

/// Reports to the server, with retries. A result that the server rejects becomes a failure.
fn report(context: &WorkerContext, id: JobId, worker: Option<WorkerId>, outcome: &JobOutcome) {
    let Some(worker) = worker.or_else(|| context.state.wait_for_worker_id()) else { return };
    let finished_at = i64::try_from(Clock::start().sample().wall.0).ok();
    let mut body = outcome.report(id, finished_at);
    let mut is_result = outcome.failure.is_none();
    let mut backoff = REPORT_BACKOFF_MIN;
    for _ in 0..REPORT_ATTEMPTS_MAX {
        let why = match context.server.report(worker, &body) {
            Ok(answer) => match answer.status {
                200..300 => return,
                404 if outcome.is_timeout() => {
                    return debug!(job = id.0, "the server knew of the timeout");
                }
                404 => {
                    context.state.invalidate_registration();
                    let why = answer.explain();
                    return warn!(job = id.0, why, "the server does not wait for this report");
                }
                408 | 429 | 500.. => answer.explain(),
                _ if is_result => {
                    let why = answer.explain();
                    warn!(job = id.0, why, "the server does not take this result");
                    let message = format!("the server does not take the result: {why}");
                    body = JobOutcome::failure(false, message, None).report(id, finished_at);
                    is_result = false;
                    continue;
                }
                _ => {
                    let why = answer.explain();
                    return warn!(job = id.0, why, "the server does not take this report");
                }
            },
            Err(why) => why,
        };
        let pause = humantime::format_duration(backoff);
        warn!(job = id.0, why, "a report was not delivered: trying again in {pause}");
        if !context.state.sleep_or_cancel(backoff) {
            return warn!(job = id.0, "a report is lost: the worker stops");
        }
        backoff = (backoff * 2).min(REPORT_BACKOFF_MAX);
    }
    warn!(job = id.0, "a report is given up: the server tries the job again after its timeout");
}
