//! The requests as lines. What is left out of a request has the server's default.

use std::time::Duration;

use serde::Serialize;
use serde_json::value::RawValue;

use crate::error::{Error, Result};

/// A line with its end, and whether it may be sent twice.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub(crate) bytes: Vec<u8>,
    /// Twice is as good as once: it may be repeated when its answer was lost.
    pub(crate) repeatable: bool,
}

#[derive(Serialize)]
struct Request<'a, F: Serialize> {
    request: &'a str,
    #[serde(flatten)]
    fields: F,
}

/// Milliseconds; a short time does not become "none".
pub(crate) fn milliseconds(time: Duration) -> u64 {
    let whole = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    if whole == 0 && !time.is_zero() { 1 } else { whole }
}

/// A request of any name with any fields.
pub(crate) fn line(name: &str, fields: impl Serialize) -> Result<Line> {
    let mut bytes = serde_json::to_vec(&Request { request: name, fields })
        .map_err(|wrong| Error::payload(&wrong))?;
    bytes.push(b'\n');
    Ok(Line { bytes, repeatable: is_repeatable(name) })
}

/// A job that was handed out goes back with its connection, so a get may be repeated, too.
fn is_repeatable(name: &str) -> bool {
    const NAMES: [&str; 12] = [
        "get", "peek", "result", "queues", "list", "stats", "pause", "resume", "drain", "cancel",
        "change", "bury",
    ];
    NAMES.contains(&name)
}

#[derive(Serialize)]
struct OfId {
    id: u64,
}

/// `peek`, `cancel`, `bury`, `kick`, `delete`, `abort` of a job.
pub(crate) fn of_id(name: &str, id: u64) -> Result<Line> {
    line(name, OfId { id })
}

#[derive(Serialize)]
struct Get<'a> {
    queues: &'a [String],
    limit: usize,
    /// The answer has how often each job was run.
    attempts: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    timeout: Option<u64>,
}

pub(crate) fn get(queues: &[String], limit: usize, wait: Duration) -> Result<Line> {
    let timeout = (!wait.is_zero()).then(|| milliseconds(wait));
    line("get", Get { queues, limit, attempts: true, timeout })
}

#[derive(Serialize)]
struct Done<'a> {
    id: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<&'a RawValue>,
}

pub(crate) fn done(id: u64, result: Option<&RawValue>) -> Result<Line> {
    line("done", Done { id, result })
}

#[derive(Serialize)]
struct Fail<'a> {
    id: u64,
    error: &'a str,
    message: &'a str,
    retry: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    delay: Option<u64>,
}

pub(crate) fn fail(id: u64, failure: &crate::Failure) -> Result<Line> {
    let crate::Failure { error, message, retry, delay } = failure;
    line("fail", Fail { id, error, message, retry: *retry, delay: delay.map(milliseconds) })
}

#[derive(Serialize)]
struct Touch {
    id: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    ttr: Option<u64>,
}

pub(crate) fn touch(id: u64, ttr: Option<Duration>) -> Result<Line> {
    line("touch", Touch { id, ttr: ttr.map(milliseconds) })
}

#[derive(Serialize)]
struct Progress<'a> {
    id: u64,
    progress: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<&'a str>,
}

pub(crate) fn progress(id: u64, part: f64, message: Option<&str>) -> Result<Line> {
    line("progress", Progress { id, progress: part, message })
}

#[derive(Serialize)]
struct WaitForResult {
    id: u64,
    timeout: u64,
}

pub(crate) fn result(id: u64, wait: Duration) -> Result<Line> {
    line("result", WaitForResult { id, timeout: milliseconds(wait) })
}

#[derive(Serialize)]
struct Auth<'a> {
    token: &'a str,
}

pub(crate) fn auth(token: &str) -> Result<Line> {
    line("auth", Auth { token })
}

#[derive(Serialize)]
struct OfQueue<'a> {
    queue: &'a str,
}

/// `stats`, `pause`, `resume` of a queue.
pub(crate) fn of_queue(name: &str, queue: &str) -> Result<Line> {
    line(name, OfQueue { queue })
}

#[derive(Serialize)]
struct Drain {
    on: bool,
}

pub(crate) fn drain(on: bool) -> Result<Line> {
    line("drain", Drain { on })
}
