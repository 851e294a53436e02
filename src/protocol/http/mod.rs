//! HTTP/1.1 (`docs/protocols/README.md`, "HTTP"): sessions that read requests, route them, and
//! write responses, short ones whole and long ones in chunks.
//!
//! ```text
//!          head           body               command               reply
//!   Head --------> Body --------> (execute) ---------> Submitted ---------> Answered, Paging, ..
//!    ^  \______________________________/|                  ^                  |  |
//!    |   body is complete in the input  | no command       +-- next command --+  | long response
//!    |                                  v                                        v
//!    +------------------------------ response <----------------------------- Streaming
//!                                       |  `Connection: close`, or no keep-alive
//!                                       +--> Over: further input is discarded
//! ```
//!
//! Invariants:
//! - one request at a time: the following ones wait in the input;
//! - a body that is complete in the input is read from there; another one is collected, bounded by
//!   `--max-request` and `HTTP_BODY_EXTRA_BYTES`;
//! - a long response is written from a snapshot, one chunk in a turn, and never while the output is
//!   above the high-water mark;
//! - a request that two parsers could read differently ends the connection.

pub mod dispatch;
mod guard;
mod health;
mod index;
mod jobq;
pub mod lightjq;
mod live;
mod media;
mod metrics;
mod native;
mod openapi;
mod processor_status;
mod request;
mod response;
mod route;
mod route_error;
mod session;
mod session_cookie;
#[cfg(test)]
mod tests;
mod ui;

pub use health::is_served_by_standby;
pub(super) use response::{write_closing, write_full};
pub use session::Session;
pub use ui::Settings as UiSettings;

use crate::base::time::Wall;
use crate::model::transfer::ImportedJob;
use std::ops::Range;
use std::time::{Duration, UNIX_EPOCH};

/// A long response, written one chunk in a turn.
trait Long: std::fmt::Debug + Send + Sync {
    /// Writes the next chunk into `text`, which is empty: about
    /// [`HTTP_CHUNK_BYTES`](crate::base::limits::HTTP_CHUNK_BYTES) bytes. `true`: it was the last
    /// one.
    fn fill(&mut self, text: &mut Vec<u8>) -> bool;
}

/// Memory that all connections reuse from request to request.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    /// The name of the queue or of the constraint in the path of the current request.
    queue: Vec<u8>,
    /// The query string of the current request.
    query_text: String,
    /// Whether the request that creates a queue names it.
    named: bool,
    /// The body, if it was collected.
    body: Vec<u8>,
    /// The range of the payload or the event in the body.
    text: Range<usize>,
    /// The expected and the new state of a job; canonical JSON.
    old: Vec<u8>,
    new: Vec<u8>,
    /// The batch of an import that is being submitted.
    imported: Vec<ImportedJob>,
    /// The query of the current paged request.
    query: Option<jobq::SharedQuery>,
    /// The body of the response, or a chunk of it.
    answer: Vec<u8>,
    date: Date,
    lightjq: lightjq::Scratch,
    /// The frames of event streams.
    frames: live::Frames,
}

/// Buffers beyond this many bytes are freed.
const KEPT: usize = 128 * 1024;

impl Scratch {
    /// Frees large buffers.
    fn shrink(&mut self) {
        for bytes in [&mut self.body, &mut self.old, &mut self.new, &mut self.answer] {
            if bytes.capacity() > KEPT {
                *bytes = Vec::new();
            }
        }
        self.imported = Vec::new();
        self.lightjq.shrink();
    }
}

/// The `Date` field, formatted once a second.
#[derive(Debug, Default)]
struct Date {
    second: Option<u64>,
    text: String,
}

impl Date {
    fn at(&mut self, wall: Wall) -> &str {
        let second = wall.0 / 1000;
        if self.second != Some(second) {
            // HTTP dates end with the year 9999: later times are written as its last second.
            let second_said = second.min(LAST_SECOND);
            self.text = httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(second_said));
            self.second = Some(second);
        }
        &self.text
    }
}

/// The last second of the year 9999.
const LAST_SECOND: u64 = 253_402_300_799;
