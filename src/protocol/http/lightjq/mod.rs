//! LightJQ (`docs/protocols/lightjq.md`): tracked jobs and workers over HTTP.
//!
//! A request is parsed into a command without copies (`ask`), and the response is written from the
//! reply while it is borrowed (`answer`). A request takes one command and has one reply.

mod answer;
mod ask;
pub mod messages;
mod schema;
#[cfg(test)]
mod tests;

pub(super) use answer::{Response, respond};
pub(super) use ask::{Request, Scratch, parse, permit};
pub(super) use schema::{describe, error, parameters, webhook};

use super::media::{self, Said};
use super::response::{HttpError, JSON, MSGPACK};
use crate::base::limits::POLL_WAIT_DEFAULT;
use crate::model::worker::WorkerId;
use crate::wire::http::RequestHead;
use percent_encoding::percent_decode_str;

/// The operations of `docs/protocols/lightjq.md`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    Put,
    GetStatus,
    Await,
    Cancel,
    Register,
    Deregister,
    Report,
    GetConstraint,
    SetConstraint,
    RemoveConstraint,
}

impl Operation {
    /// Whether the request names a worker in its head.
    pub(super) fn names_worker(self) -> bool {
        matches!(self, Self::Deregister | Self::Report)
    }
}

/// The parameters in the head of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RequestParams {
    /// The worker that sends the request.
    pub(super) worker: WorkerId,
    /// The longest wait of a long poll, in milliseconds.
    pub(super) wait_ms: u64,
    /// The body is JSON; otherwise MessagePack.
    pub(super) is_json: bool,
}

impl RequestParams {
    /// No parameters; ids begin at 1, so there is no worker 0.
    pub(super) const NONE: Self = Self { worker: WorkerId(0), wait_ms: 0, is_json: false };
}

/// The header field that names a worker.
pub(super) const WORKER_FIELD: &str = "worker-id";

/// The query parameter with the longest wait, in seconds.
pub(super) const WAIT_PARAMETER: &str = "timeout";

/// The media type of the response: the one that `Accept` prefers; without a preference that of the
/// body; MessagePack by default.
pub(super) fn kind(head: &RequestHead<'_>) -> &'static str {
    let asked_in = match media::said(head.content_type) {
        Said::Json => JSON,
        _ => MSGPACK,
    };
    head.accept.and_then(media::wanted).unwrap_or(asked_in)
}

/// Reads the parameters in the head of a request.
pub(super) fn request_params(
    operation: Operation,
    head: &RequestHead<'_>,
) -> Result<RequestParams, HttpError> {
    let has_body = matches!(
        operation,
        Operation::Put | Operation::Register | Operation::Report | Operation::SetConstraint
    );
    let said = media::said(head.content_type);
    if has_body && said == Said::Other {
        let why = format!("the body has another Content-Type than {MSGPACK} or {JSON}");
        return Err(HttpError::new(415, why));
    }
    let mut details = RequestParams { is_json: said == Said::Json, ..RequestParams::NONE };
    if operation.names_worker() {
        let Some(id) = head.worker_id else {
            let why = format!("field '{WORKER_FIELD}' of the head is missing: say which worker");
            return Err(HttpError::new(400, why));
        };
        details.worker = messages::worker_id(id).unwrap_or(details.worker);
    }
    if operation == Operation::Await {
        details.wait_ms = wait_ms(head.target)?;
    }
    Ok(details)
}

/// The longest wait in milliseconds; of repeated parameters the last one counts.
fn wait_ms(target: &str) -> Result<u64, HttpError> {
    let mut wait = POLL_WAIT_DEFAULT.as_secs() * 1000;
    let query = target.split_once('?').map_or("", |(_, query)| query);
    for parameter in query.split('&') {
        let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        if percent_decode_str(name).eq(WAIT_PARAMETER.bytes()) {
            // Percent-encoding is not needed for digits and dots.
            wait = milliseconds(value).ok_or_else(|| {
                let why = format!(
                    "parameter '{WAIT_PARAMETER}' must be a number of seconds, such as 5 or 0.5"
                );
                HttpError::new(400, why)
            })?;
        }
    }
    Ok(wait)
}

/// Seconds in digits with an optional fraction, as milliseconds; beyond 64 bits: the maximum.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it saturates")]
fn milliseconds(seconds: &str) -> Option<u64> {
    let plain = seconds.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let number: f64 = seconds.parse().ok().filter(|_| plain)?;
    Some((number * 1000.0).ceil() as u64)
}
