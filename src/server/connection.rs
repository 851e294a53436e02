//! One connection: a session with its buffers, and how far its end has come.

use crate::base::buf::{InBuf, OutBuf};
use crate::base::limits::{OUTPUT_HIGH_WATER_BYTES, STALLED_INPUT_MAX_BYTES};
use crate::base::time::Now;
use crate::base::timer_queue::TimerId;
use crate::model::driver::{Incident, Protocol};
use crate::model::reply::Completion;
use crate::protocol::Session;

/// How a connection came to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// A client has come.
    Inbound,
    /// Another server is being called. A deadline is armed, and nothing is read or sent.
    Dialing,
    /// Another server was called and has answered.
    Outbound,
    /// There is none: the session acts for a worker. The shell is never told of it.
    Internal,
}

/// A connection as the server sees it: no socket.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a fact of its own, none excludes another"
)]
#[derive(Debug)]
pub(super) struct Connection {
    /// By which it came in.
    pub(super) protocol: Protocol,
    pub(super) session: Session,
    pub(super) way: Origin,
    /// What was received and not yet taken by the session.
    pub(super) input: InBuf,
    /// What is to be sent.
    pub(super) output: OutBuf,
    /// When the server loses patience with the peer, if it is counting.
    pub(super) deadline: TimerId,
    /// The deadline is at or before that of the session, and nothing else is waited for.
    pub(super) timed: bool,
    /// The input may hold whole requests, but the session takes none at the moment.
    pub(super) stalled: bool,
    /// The peer will send nothing beyond what is in the socket.
    pub(super) peer_closed: bool,
    /// Everything that the peer has sent is in `input` or served.
    pub(super) eof: bool,
    /// Its client is sent away: what comes in is passed over, and it ends once all is flushed.
    pub(super) over: bool,
    /// Nothing can be sent any more: output is dropped.
    pub(super) broken: bool,
    /// Stands in the list of touched connections.
    pub(super) touched: bool,
    /// Stands in the list of connections whose buffered input is to be taken up.
    pub(super) resumed: bool,
}

impl Connection {
    pub(super) fn new(protocol: Protocol, session: Session) -> Self {
        Self {
            protocol,
            session,
            way: Origin::Inbound,
            input: InBuf::default(),
            output: OutBuf::default(),
            deadline: TimerId::NONE,
            timed: false,
            stalled: false,
            peer_closed: false,
            eof: false,
            over: false,
            broken: false,
            touched: false,
            resumed: false,
        }
    }

    /// Whether its session owes a command, and its peer has not closed: then nothing is owed to it
    /// any more but what its requests lead to, as long as there are any.
    pub(super) fn is_kept_waiting(&self) -> bool {
        self.session.has_pending_submit() && !self.peer_closed
    }

    /// Lets the session write a reply.
    #[inline]
    pub(super) fn handle_reply(
        &mut self,
        completion: &Completion<'_>,
        now: Now,
    ) -> Option<Incident> {
        let serial = completion.ticket.serial;
        self.session.handle_reply(serial, &completion.reply, now, &mut self.output)
    }

    /// Whether the peer has got all that it will get.
    pub(super) fn is_finished(&self) -> bool {
        if self.way == Origin::Outbound && matches!(self.session, Session::Call(_)) {
            // Nobody reads the rest of a request.
            return self.eof && !self.stalled;
        }
        self.eof && !self.stalled && self.session.is_settled() && self.output.is_empty()
    }

    /// Whether its session's deadline counts no more: another is waited for.
    #[inline]
    pub(super) fn is_leaving(&self) -> bool {
        (self.peer_closed || self.over) && self.way != Origin::Outbound
    }

    pub(super) fn check_invariants(&self) {
        assert!(self.peer_closed || !self.eof, "the end was seen before the close");
        assert!(!self.stalled || !self.input.is_empty(), "stalled without input");
        let connecting = self.way == Origin::Dialing;
        assert!(!connecting || !self.deadline.is_none(), "nobody ends a call that nobody answers");
        assert!(!connecting || !self.peer_closed, "a call that has ended goes on");
        let room = self.output.len() <= OUTPUT_HIGH_WATER_BYTES;
        assert!(!(self.is_kept_waiting() && room) || self.resumed, "a command is owed for long");
        let put_off = self.session.wants_poll() && room && !self.resumed;
        assert!(!put_off, "a session has waited for its turn for long");
        assert!(!self.timed || !self.deadline.is_none(), "a session counts without a deadline");
        assert!(!self.timed || !self.is_leaving(), "two reasons for a deadline");
        assert!(
            room || self.session.open_subscription().is_none(),
            "a take stands above high water"
        );
        let waits = self.session.pending_serial().is_some();
        assert!(!self.is_finished(), "a finished connection was left open");
        let behind = if waits && self.stalled { self.input.len() } else { 0 };
        assert!(
            behind <= 2 * STALLED_INPUT_MAX_BYTES,
            "too much is buffered behind a waiting take"
        );
    }
}
