//! LightJQ (`docs/protocols/lightjq.md`): pushers and workers over HTTP.
//!
//! What is asked is read straight into the words of the store (`ask`), and what is answered is
//! written where the store's reply is still at hand (`told`). Nothing is asked twice: a request
//! leads to one command and one reply.

mod answer;
mod ask;
pub mod messages;
mod schema;
#[cfg(test)]
mod tests;

pub(super) use answer::{Response, respond};
pub(super) use ask::{Request, Scratch, parse};
pub(super) use schema::{describe, error, parameters, webhook};

use super::media::{self, Said};
use super::response::{HttpError, JSON, MSGPACK};
use crate::base::limits::POLLING_DEFAULT;
use crate::model::worker::WorkerId;
use crate::wire::http::RequestHead;
use percent_encoding::percent_decode_str;

/// The calls of `docs/protocols/lightjq.md`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    Put,
    Follow,
    Await,
    Cancel,
    Enlist,
    Dismiss,
    Report,
    Show,
    Constrain,
    Free,
}

impl Operation {
    /// Whether it is for whoever names a worker in the head.
    pub(super) fn names_worker(self) -> bool {
        matches!(self, Self::Dismiss | Self::Report)
    }
}

/// What the head of a request says to an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RequestParams {
    /// Who asks.
    pub(super) worker: WorkerId,
    /// How long an answer may take, in milliseconds.
    pub(super) wait_ms: u64,
    /// The body is JSON, and not MessagePack.
    pub(super) is_json: bool,
}

impl RequestParams {
    /// Ids begin at 1, so that this is nobody's.
    pub(super) const NONE: Self = Self { worker: WorkerId(0), wait_ms: 0, is_json: false };
}

/// The field of the head that names a worker.
pub(super) const WORKER_FIELD: &str = "worker-id";

/// The parameter of the target that says how long to wait.
pub(super) const WAIT_PARAMETER: &str = "timeout";

/// The media type of the answer: what is wanted of JSON and MessagePack; if nothing is said about
/// that, what the body is said to be; MessagePack otherwise.
pub(super) fn kind(head: &RequestHead<'_>) -> &'static str {
    let asked_in = match media::said(head.content_type) {
        Said::Json => JSON,
        _ => MSGPACK,
    };
    head.accept.and_then(media::wanted).unwrap_or(asked_in)
}

/// Reads what the head of a request says to an operation.
pub(super) fn request_params(
    operation: Operation,
    head: &RequestHead<'_>,
) -> Result<RequestParams, HttpError> {
    let has_body = matches!(
        operation,
        Operation::Put | Operation::Enlist | Operation::Report | Operation::Constrain
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

/// How long the target says to wait. Of two such parameters the last one counts.
fn wait_ms(target: &str) -> Result<u64, HttpError> {
    let mut wait = POLLING_DEFAULT.as_secs() * 1000;
    let query = target.split_once('?').map_or("", |(_, query)| query);
    for parameter in query.split('&') {
        let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        if percent_decode_str(name).eq(WAIT_PARAMETER.bytes()) {
            // Digits and dots need no percents.
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

/// Seconds in digits, with or without a fraction; what is too long for 64 bits is for ever.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it saturates")]
fn milliseconds(seconds: &str) -> Option<u64> {
    let plain = seconds.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let number: f64 = seconds.parse().ok().filter(|_| plain)?;
    Some((number * 1000.0).ceil() as u64)
}
