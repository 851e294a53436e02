//! One connection: a session with its buffers, and how far its end has come.

use super::permission_check::Access;
use crate::base::buf::{InBuf, Input, OutBuf};
use crate::base::limits::{
    OUTPUT_HIGH_WATER_BYTES, POOLED_BUFFER_MAX_BYTES, STALLED_INPUT_MAX_BYTES,
};
use crate::base::time::Now;
use crate::base::timer_queue::TimerId;
use crate::model::driver::{Incident, Protocol};
use crate::model::reply::{Completion, Reply};
use crate::protocol::{Session, SessionAction, SessionContext};

/// How a connection came to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    /// Accepted from a client.
    Inbound,
    /// The server is connecting to another server. A deadline is armed; nothing is read or sent.
    Dialing,
    /// The server has connected to another server.
    Outbound,
}

/// The receiving direction of a connection. It only moves forward.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ReadSide {
    Open,
    /// The peer sends nothing beyond what is in the socket buffer.
    PeerClosed,
    /// Everything that the peer has sent is in the input buffer or was processed.
    Eof,
}

/// The one armed timer of a connection, and what happens when it fires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Deadline {
    /// The session's own deadline is checked; the timer is at or before it.
    Session(TimerId),
    /// The connection ends: a connect, flush or linger timeout.
    Close(TimerId),
}

impl Deadline {
    #[inline]
    pub(super) fn timer(self) -> TimerId {
        match self {
            Self::Session(timer) | Self::Close(timer) => timer,
        }
    }
}

/// A connection without its socket.
#[expect(
    clippy::struct_excessive_bools,
    reason = "three facts that do not exclude each other, and membership in two queues"
)]
#[derive(Debug)]
pub(super) struct Connection {
    /// The protocol of the listener that accepted it.
    pub(super) protocol: Protocol,
    pub(super) session: Session,
    pub(super) direction: Direction,
    /// Received, and not yet consumed by the session.
    pub(super) input: InBuf,
    /// To be sent.
    pub(super) output: OutBuf,
    pub(super) read_side: ReadSide,
    pub(super) deadline: Option<Deadline>,
    /// The input may hold whole requests, but the session takes none at the moment.
    pub(super) stalled: bool,
    /// The server closes it: further input is discarded, and it ends once all output is flushed.
    pub(super) closing: bool,
    /// Nothing can be sent any more: output is dropped.
    pub(super) broken: bool,
    /// In [`RunQueues::dirty`](super::run_queues::RunQueues::dirty).
    pub(super) dirty: bool,
    /// What [`Server::buffer_bytes`](super::Server) contains of [`Connection::buffer_bytes`].
    pub(super) counted_bytes: usize,
    /// Who its client is; `None` without users.
    pub(super) access: Option<Box<Access>>,
    /// In [`RunQueues::resumable`](super::run_queues::RunQueues::resumable).
    pub(super) resumable: bool,
}

impl Connection {
    pub(super) fn new(protocol: Protocol, session: Session) -> Self {
        Self {
            protocol,
            session,
            direction: Direction::Inbound,
            input: InBuf::default(),
            output: OutBuf::default(),
            read_side: ReadSide::Open,
            deadline: None,
            stalled: false,
            closing: false,
            broken: false,
            dirty: false,
            counted_bytes: 0,
            access: None,
            resumable: false,
        }
    }

    /// Bytes of an unfinished request, and of unsent replies if these are more than a pooled buffer
    /// holds. O(1).
    #[inline]
    pub(super) fn buffer_bytes(&self) -> usize {
        let unsent = self.output.len();
        let unsent = if unsent > POOLED_BUFFER_MAX_BYTES { unsent } else { 0 };
        self.input.len() + unsent + self.session.buffered_bytes()
    }

    /// Brings `sum`, which is that of all connections, up to date. O(1).
    #[inline]
    pub(super) fn count_buffers(&mut self, sum: &mut usize) {
        let bytes = self.buffer_bytes();
        if bytes != self.counted_bytes {
            *sum = *sum - self.counted_bytes + bytes;
            self.counted_bytes = bytes;
        }
    }

    /// Whether the peer has shut down its sending side.
    #[inline]
    pub(super) fn is_peer_closed(&self) -> bool {
        self.read_side != ReadSide::Open
    }

    #[inline]
    pub(super) fn is_eof(&self) -> bool {
        self.read_side == ReadSide::Eof
    }

    /// Whether either side has begun to close.
    #[inline]
    pub(super) fn is_ending(&self) -> bool {
        self.is_peer_closed() || self.closing
    }

    /// Whether the session has a command that it submits by itself. After the peer has closed only
    /// the replies to its requests are still due.
    pub(super) fn may_submit_pending(&self) -> bool {
        self.session.has_pending_submit() && !self.is_peer_closed()
    }

    /// Lets the session consume its next request.
    #[inline(always)]
    pub(super) fn poll_command<'s, 'i: 's>(
        &mut self,
        input: &mut Input<'i>,
        context: &'s mut SessionContext,
    ) -> SessionAction<'s> {
        self.session.poll_command(input, context, &mut self.output)
    }

    /// Lets the session write a reply.
    #[inline(always)]
    pub(super) fn handle_reply(
        &mut self,
        completion: &mut Completion<'_>,
        now: Now,
    ) -> Option<Incident> {
        let serial = completion.ticket.serial;
        if let Some(access) = &mut self.access
            && let Some(reply) = access.hide(serial, &completion.reply)
        {
            let reply = &mut Reply::Manage(&reply);
            return self.session.handle_reply(serial, reply, now, &mut self.output);
        }
        self.session.handle_reply(serial, &mut completion.reply, now, &mut self.output)
    }

    /// Its client has taken leave: it ends with its last reply.
    #[cold]
    pub(super) fn end_input(&mut self) {
        self.closing = true;
        self.read_side = ReadSide::Eof;
    }

    /// Whether everything that the peer gets is sent.
    pub(super) fn is_finished(&self) -> bool {
        if self.direction == Direction::Outbound && matches!(self.session, Session::Call(_)) {
            // The worker does not read the rest of the request.
            return self.is_eof() && !self.stalled;
        }
        self.is_eof() && !self.stalled && self.session.is_settled() && self.output.is_empty()
    }

    /// Whether the deadline of the session no longer counts, because a flush or linger timeout
    /// takes its place.
    #[inline]
    pub(super) fn is_leaving(&self) -> bool {
        self.is_ending() && self.direction != Direction::Outbound
    }

    pub(super) fn check_invariants(&self) {
        assert!(!self.stalled || !self.input.is_empty(), "stalled without input");
        assert!(!self.broken || self.is_peer_closed(), "broken output, but the peer is expected");
        let dialing = self.direction == Direction::Dialing;
        assert!(
            !dialing || matches!(self.deadline, Some(Deadline::Close(_))),
            "a dialing connection has no timeout"
        );
        assert!(!dialing || !self.is_peer_closed(), "a dialing connection was closed by the peer");
        let below = self.output.len() <= OUTPUT_HIGH_WATER_BYTES;
        assert!(
            !(self.may_submit_pending() && below) || self.resumable,
            "a pending submit is not scheduled"
        );
        let unscheduled = self.session.wants_poll() && below && !self.resumable;
        assert!(!unscheduled, "a session that wants to be polled is not scheduled");
        let session_timer = matches!(self.deadline, Some(Deadline::Session(_)));
        assert!(!session_timer || !self.is_leaving(), "a leaving connection has a session timer");
        assert!(
            below || self.session.open_subscription().is_none(),
            "an open pop above the high-water mark"
        );
        let waits = self.session.pending_serial().is_some();
        assert!(!self.is_finished(), "a finished connection was left open");
        let behind = if waits && self.stalled { self.input.len() } else { 0 };
        assert!(
            behind <= 2 * STALLED_INPUT_MAX_BYTES,
            "too much input is buffered behind a waiting reserve"
        );
    }
}
