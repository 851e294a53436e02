//! One job, from its place to its report: what an end of the command means, and how the master
//! hears of it.

use super::WorkerContext;
use super::run::{CommandOutput, ExitReason, OUTPUT_MAX, Task, run};
use super::worker_state::SlotGuard;
use crate::cli::shown::last_of;
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

/// Exit statuses after which another try is of no use: `EX_USAGE` and `EX_DATAERR` of sysexits.
const HOPELESS: [i32; 2] = [64, 65];

/// How much of stderr goes into a message.
const MESSAGE_MAX: usize = 4 * 1024;

/// How much of a message is logged.
const LOGGED_MAX: usize = 400;

/// Waits between the tries to deliver a report: the first, and the longest.
const RETRY_FIRST: Duration = Duration::from_millis(200);
const RETRY_MOST: Duration = Duration::from_secs(5);

/// How long an undelivered report is kept: about ten minutes.
const TRIES: u32 = 120;

/// A job that was accepted.
pub(super) struct Job {
    pub(super) id: JobId,
    pub(super) name: String,
    pub(super) timeout: Option<Duration>,
    /// Its argument, as JSON.
    pub(super) input: Vec<u8>,
    /// Under which number of the worker it came, if that was known already.
    pub(super) worker: Option<WorkerId>,
    pub(super) place: SlotGuard,
}

/// What came of a job, with what the report borrows.
struct Verdict {
    value: Vec<u8>,
    failure: Option<Failure>,
}

struct Failure {
    reason: Reason,
    should_retry: bool,
    message: String,
    /// How the command ended, where the message is what it said.
    end: Option<String>,
}

impl Verdict {
    fn success(value: Vec<u8>) -> Self {
        Self { value, failure: None }
    }

    /// `detail` is what went wrong, for programs.
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

    /// A failure of a command that ended so and said something, or nothing.
    fn ended(should_retry: bool, end: String, said: String, detail: Option<(&str, i32)>) -> Self {
        if said.is_empty() {
            return Self::failure(should_retry, end, detail);
        }
        let mut verdict = Self::failure(should_retry, said, detail);
        if let Some(failure) = &mut verdict.failure {
            failure.end = Some(end);
        }
        verdict
    }

    fn timeout(message: String) -> Self {
        let mut verdict = Self::failure(true, message, None);
        if let Some(failure) = &mut verdict.failure {
            failure.reason = Reason::Timeout;
        }
        verdict
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

/// Runs a job and reports. Its place is free when the master has heard of it.
pub(super) fn work(shop: &WorkerContext, job: Job) {
    let Job { id, name, timeout, input, worker, place } = job;
    let number = id.0.to_string();
    let timeout = match (timeout, shop.plan.timeout) {
        (Some(asked), Some(most)) => Some(asked.min(most)),
        (asked, most) => asked.or(most),
    };
    let (command, name) = (&*shop.plan.command, &*name);
    let task = Task { command, id: &number, name, timeout, input: &input };
    debug!(job = id.0, name, "begins");
    let verdict = match run(&task, &shop.desk) {
        Ok(CommandOutput { end: ExitReason::Cancelled, .. }) => {
            return warn!(job = id.0, name, "killed: the worker stops; the job goes back");
        }
        Ok(ran) => judge(&ran, timeout, shop.plan.text),
        Err(error) => Verdict::failure(true, format!("the command cannot be run: {error}"), None),
    };
    drop(input);
    if let Some(failure) = &verdict.failure {
        tell(id, name, failure);
    } else {
        debug!(job = id.0, name, "done");
    }
    deliver(shop, id, worker, &verdict);
    drop(place);
}

/// Logs a failure, in one line: the master gets the whole message.
fn tell(id: JobId, name: &str, failure: &Failure) {
    let said = last_of(&failure.message, LOGGED_MAX);
    let why = match &failure.end {
        Some(end) => format!("{end}: {said}"),
        None => said.into_owned(),
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

/// What the end of a command means.
fn judge(ran: &CommandOutput, timeout: Option<Duration>, text: bool) -> Verdict {
    let failed = |status: &ExitStatus| {
        let (what, detail) = match (status.code(), status.signal()) {
            (Some(code), _) => (format!("exit status {code}"), Some(("exit_status", code))),
            (None, Some(signal)) => (format!("ended by signal {signal}"), Some(("signal", signal))),
            (None, None) => (status.to_string(), None),
        };
        let again = status.code().is_none_or(|code| !HOPELESS.contains(&code));
        let said = tail(&ran.errors);
        Verdict::ended(again, what, said, detail)
    };
    match &ran.end {
        ExitReason::Exited(status) if !status.success() => failed(status),
        ExitReason::Exited(_) => match result(&ran.output, text) {
            Ok(value) => Verdict::success(value),
            Err(message) => Verdict::failure(false, message, None),
        },
        ExitReason::TimedOut | ExitReason::Cancelled => {
            let time = timeout.unwrap_or_default();
            let said = tail(&ran.errors);
            let end = if said.is_empty() { said } else { format!(": {said}") };
            Verdict::timeout(format!("timeout after {}{end}", humantime::format_duration(time)))
        }
        ExitReason::OutputTooLarge => {
            let message = format!("the command printed more than {OUTPUT_MAX} bytes");
            Verdict::failure(false, message, None)
        }
    }
}

/// What a command printed, as a result.
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

/// The last lines of what was printed on stderr.
fn tail(errors: &[u8]) -> String {
    let errors = errors.trim_ascii_end();
    let mut last = &errors[errors.len().saturating_sub(MESSAGE_MAX)..];
    if last.len() < errors.len()
        && let Some(line) = last.iter().position(|&byte| byte == b'\n')
    {
        last = &last[line + 1..];
    }
    String::from_utf8_lossy(last).into_owned()
}

/// Tells the master, again and again if need be. What it does not take as a result becomes a
/// failure.
fn deliver(shop: &WorkerContext, id: JobId, worker: Option<WorkerId>, verdict: &Verdict) {
    let Some(worker) = worker.or_else(|| shop.desk.worker()) else { return };
    let finished_at = i64::try_from(Clock::start().sample().wall.0).ok();
    let mut body = verdict.report(id, finished_at);
    let mut is_result = verdict.failure.is_none();
    let mut rest = RETRY_FIRST;
    for _ in 0..TRIES {
        let why = match shop.master.report(worker, &body) {
            Ok(answer) => match answer.status {
                200..300 => return,
                404 if verdict.is_timeout() => {
                    return debug!(job = id.0, "the master knew of the timeout");
                }
                404 => {
                    shop.desk.doubt();
                    let why = answer.explain();
                    return warn!(job = id.0, why, "the master does not wait for this report");
                }
                408 | 429 | 500.. => answer.explain(),
                _ if is_result => {
                    let why = answer.explain();
                    warn!(job = id.0, why, "the master does not take this result");
                    let message = format!("the master does not take the result: {why}");
                    body = Verdict::failure(false, message, None).report(id, finished_at);
                    is_result = false;
                    continue;
                }
                _ => {
                    let why = answer.explain();
                    return warn!(job = id.0, why, "the master does not take this report");
                }
            },
            Err(why) => why,
        };
        let pause = humantime::format_duration(rest);
        warn!(job = id.0, why, "a report was not delivered: trying again in {pause}");
        if !shop.desk.sleep_or_end(rest) {
            return warn!(job = id.0, "a report is lost: the worker stops");
        }
        rest = (rest * 2).min(RETRY_MOST);
    }
    warn!(job = id.0, "a report is given up: the server tries the job again after its timeout");
}
