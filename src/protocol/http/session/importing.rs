//! An import whose body is being read.

use crate::base::limits::{HTTP_BODY_MIN_BYTES_PER_SECOND, HTTP_BODY_TIMEOUT};
use crate::base::time::Mono;
use crate::model::reply::Reply;
use crate::protocol::operations::{Import, Problem};
use crate::wire::http::Body;
use std::time::Duration;

/// An import whose body is being read.
#[derive(Debug)]
pub(super) struct Importing {
    pub(super) body: Body,
    pub(super) lines: Import,
    /// Bytes of the body so far.
    pub(super) received: u64,
    pub(super) since: Mono,
    /// The body has ended.
    pub(super) is_whole: bool,
    /// A batch was put: to be looked at without further input.
    pub(super) is_due: bool,
    /// Why the whole import is refused.
    pub(super) refused: Option<Problem>,
}

impl Importing {
    /// Whether it goes on without input.
    pub(super) fn is_due(&self) -> bool {
        self.is_due
    }

    /// The same after the reply to a batch.
    pub(super) fn replied(mut self: Box<Self>, reply: &Reply<'_>) -> Box<Self> {
        self.refused = self.lines.handle_reply(reply);
        self.is_due = true;
        self
    }

    /// When the client times out. Each second has to bring [`HTTP_BODY_MIN_BYTES_PER_SECOND`].
    pub(super) fn deadline(&self) -> Mono {
        let earned = Duration::from_secs(self.received / HTTP_BODY_MIN_BYTES_PER_SECOND);
        self.since.after(HTTP_BODY_TIMEOUT).after(earned)
    }
}
