//! HTTP/1.1 (`docs/protocols/README.md`, "HTTP"): sessions that read requests, find out what is
//! asked, and write answers, short ones whole and long ones in pieces.
//!
//! ```text
//!          head           body                question            reply
//!   Head --------> Body --------> (perform) ----------> Asked ------------> Answered
//!    ^  \______________________________/|                 ^                  |  |
//!    |    body is whole in the input    | by itself       |   not yet, pages |  | rows left
//!    |                                  v                 +------ Again <----+  v
//!    +-------------------------------- answer <----------------------------- Streaming
//!                                       |  the connection is not to be kept
//!                                       +--> Over: what follows is passed over
//! ```
//!
//! Invariants:
//! - one request at a time: those behind it wait in the input;
//! - a request that is whole in the input is carried out from there; only one that is not is
//!   collected, bounded by `--max-request` and `HTTP_BODY_EXTRA_BYTES`;
//! - a long answer is made of a snapshot, a piece in a turn, and never while much is unsent;
//! - a request that two readers could understand differently ends the connection.

pub mod dispatch;
mod guard;
mod health;
mod index;
mod jobq;
pub mod lightjq;
mod media;
mod metrics;
mod openapi;
mod processor_status;
mod request;
mod response;
mod route;
mod session;
#[cfg(test)]
mod tests;

pub(super) use response::write_full;
pub use session::Session;

use crate::base::time::Wall;
use std::ops::Range;
use std::time::{Duration, UNIX_EPOCH};

/// A long answer, written a piece in a turn.
trait Long: std::fmt::Debug + Send + Sync {
    /// Writes the next piece into `text`, which is empty: about
    /// [`HTTP_CHUNK_BYTES`](crate::base::limits::HTTP_CHUNK_BYTES) bytes. Whether it was the last.
    fn fill(&mut self, text: &mut Vec<u8>) -> bool;
}

/// Memory that is reused from request to request, of whatever connection.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    /// The name of the queue, or of the constraint, in the path of the request in hand.
    queue: Vec<u8>,
    /// Whether the queue to be declared has a name of its own.
    named: bool,
    /// The body, if that was collected.
    body: Vec<u8>,
    /// Where in the body the payload or the event is.
    text: Range<usize>,
    /// The state that a job has to have, and the one that it gets; canonical.
    old: Vec<u8>,
    new: Vec<u8>,
    /// The question that is asked until it is answered.
    query: Option<jobq::SharedQuery>,
    /// The answer's body, or a piece of it.
    answer: Vec<u8>,
    date: Date,
    /// What requests of LightJQ are read into.
    lightjq: lightjq::Scratch,
}

/// Memory beyond this is given back.
const KEPT: usize = 128 * 1024;

impl Scratch {
    /// Gives large memory back.
    fn shrink(&mut self) {
        for bytes in [&mut self.body, &mut self.old, &mut self.new, &mut self.answer] {
            if bytes.capacity() > KEPT {
                *bytes = Vec::new();
            }
        }
        self.lightjq.shrink();
    }
}

/// The time of day as HTTP writes it, made once a second.
#[derive(Debug, Default)]
struct Date {
    second: Option<u64>,
    text: String,
}

impl Date {
    fn at(&mut self, wall: Wall) -> &str {
        let second = wall.0 / 1000;
        if self.second != Some(second) {
            // Beyond the year 9999 HTTP has no words: the last moment is said from then on.
            let second_said = second.min(LAST_SECOND);
            self.text = httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(second_said));
            self.second = Some(second);
        }
        &self.text
    }
}

/// The end of the year 9999.
const LAST_SECOND: u64 = 253_402_300_799;
