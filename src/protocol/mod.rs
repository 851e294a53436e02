//! L4: sessions. A session is the state machine of one connection: it turns bytes into commands and
//! replies into bytes.
//!
//! A session owns no socket and no buffer. The server offers input to [`Session::poll_command`],
//! one request at a time, and passes replies to [`Session::handle_reply`] in the order in which the
//! engine gives them; the session sends them in the order of its requests. A session may also have
//! a command of its own ([`Session::has_pending_submit`]), which precedes further input; want a
//! turn without input ([`Session::wants_poll`]); or have a timeout ([`Session::deadline`]).
//! Protocols name the model and the codecs, never the store, the engine or each other.

pub mod beanstalkd;
pub mod http;
pub mod job_centre;
mod matcher;
mod operations;
mod ordered_replies;
pub mod pinpriq;
pub mod processor;
mod query_text;
mod queue_listing;
mod rejected;
mod session_access;
mod session_action;
mod session_settings;

use crate::base::buf::{Input, OutBuf};
use crate::base::strings::StringList;
use crate::base::time::{Mono, Now};
use crate::model::command::Command;
use crate::model::driver::{Incident, Protocol};
use crate::model::job::{JobOptions, Packet};
use crate::model::reply::Reply;
use crate::model::show::{CloseOutcome, ConnectionPage};
use crate::model::stats::{BusWorkerStats, ServerStats};
use crate::wire::json::Parser;
pub use queue_listing::WorkerRows;
pub use session_action::{
    AdminRequest, Authentication, BrowserRequest, Caller, Closing, Credential, Reloading,
    SessionAction, StatsKind, TimeoutAction,
};
pub use session_settings::SessionSettings;
use std::sync::Arc;
use std::vec::IntoIter;

/// What all sessions share.
#[derive(Debug)]
pub struct SessionContext {
    /// Settings: they change between runs of the server only.
    pub settings: SessionSettings,
    /// Memory that is reused from request to request.
    scratch: SessionScratch,
    /// Whether clients have to say who they are.
    pub has_users: bool,
    /// This server waits to lead, and answers nothing but that: the name of the one that leads, or
    /// an empty text.
    pub standby: Option<Box<str>>,
    /// The turn of the session that runs.
    pub turn: SessionTurn,
}

/// Parsers and buffers. Between two requests nothing in them counts but the cache.
#[derive(Debug, Default)]
struct SessionScratch {
    /// The parser of requests.
    json: Parser,
    /// The parser of payloads inside of messages.
    payload: Parser,
    request_cache: job_centre::RequestCache,
    /// Options of the put that is being parsed.
    options: JobOptions,
    /// Queues of the pop that is being parsed.
    queues: StringList,
    http: http::Scratch,
    beanstalkd: beanstalkd::Scratch,
    /// The arguments of the request of the native API that is being submitted.
    native: Option<Arc<operations::Args>>,
    /// What the command of a line of the native API borrows.
    native_line: job_centre::NativeScratch,
}

/// The names of the operations that are line requests.
#[cfg(test)]
pub(crate) fn line_operations() -> impl Iterator<Item = &'static str> {
    operations::operations().filter(|row| row.line.is_some()).map(|row| row.name)
}

/// One turn of a session: a call that lets it parse and submit.
#[derive(Debug, Default)]
pub struct SessionTurn {
    /// Work of this turn, as a session counts it: see `SUBSCRIPTION_NAMES_PER_TURN` and
    /// `PROCESSOR_WORK_PER_TURN`.
    work: usize,
    /// The time of this turn.
    now: Now,
    /// The answer to [`SessionAction::FetchCaller`]; within it, `None`: there are no users.
    pub caller: Option<Option<Caller>>,
    /// The answer to [`SessionAction::Browser`]: the id of a session, if one has begun.
    pub browser: Option<Option<String>>,
    /// The answer to [`SessionAction::FetchStats`].
    pub stats: Option<Box<ServerStats>>,
    /// The answer to [`AdminRequest::Reload`].
    pub reload: Option<Reloading>,
    /// The answer to [`SessionAction::Authenticate`].
    pub authentication: Option<Authentication>,
    /// The answer to [`SessionAction::FetchWorkers`].
    pub workers: Option<WorkerRows>,
    /// The answer to [`ConnectionRequest::List`](crate::model::show::ConnectionRequest::List).
    pub connections: Option<Box<ConnectionPage>>,
    /// The answer to [`ConnectionRequest::Close`](crate::model::show::ConnectionRequest::Close).
    pub closed: Option<CloseOutcome>,
}

impl SessionContext {
    /// Default settings; `max_request` in bytes.
    #[must_use]
    pub fn new(max_request: usize) -> Self {
        let settings = SessionSettings::new(max_request);
        let (scratch, turn) = (SessionScratch::default(), SessionTurn::default());
        Self { settings, scratch, has_users: false, standby: None, turn }
    }

    /// Begins the turn of a session: its work is counted from 0. Returns that of the last turn.
    #[inline]
    pub fn begin_turn(&mut self, now: Now) -> usize {
        self.turn.now = now;
        std::mem::take(&mut self.turn.work)
    }
}

/// The session of one connection.
#[derive(Debug)]
pub enum Session {
    /// Unboxed: the hot path.
    JobCentre(job_centre::Session),
    /// Binary packets.
    Pinpriq(Box<pinpriq::Session>),
    /// HTTP/1.1: Jobq, LightJQ, metrics.
    Http(Box<http::Session>),
    /// A connection of a dispatcher to its worker.
    Call(Box<http::dispatch::WorkerConnection>),
    /// Lines and bodies.
    Beanstalkd(Box<beanstalkd::Session>),
    /// Messages as JSON lines; at most one session.
    Processor(Box<processor::Session>),
    /// A connection beyond `--max-clients`.
    Rejected,
}

const _: () = assert!(size_of::<Session>() <= 40, "rarely used session state is boxed");

impl Session {
    /// A session for a new connection.
    #[must_use]
    pub fn new(protocol: Protocol, now: Now) -> Self {
        match protocol {
            Protocol::JobCentre => Self::JobCentre(job_centre::Session::default()),
            Protocol::Pinpriq => Self::Pinpriq(Box::default()),
            Protocol::Http => Self::Http(Box::new(http::Session::new(now))),
            Protocol::Processor => Self::processor(&processor::Settings::default(), now),
            Protocol::Beanstalkd => Self::Beanstalkd(Box::default()),
        }
    }

    /// A session of a beanstalkd client.
    #[must_use]
    pub fn beanstalkd(context: &SessionContext) -> Self {
        Self::Beanstalkd(Box::new(beanstalkd::Session::new(context)))
    }

    /// A session of the processor with these settings.
    #[must_use]
    pub fn processor(settings: &processor::Settings, now: Now) -> Self {
        Self::Processor(Box::new(processor::Session::new(settings, now)))
    }

    /// A session for a connection beyond `--max-clients`: writes an error if the protocol has one,
    /// and discards its input.
    #[must_use]
    pub fn reject(protocol: Protocol, max_clients: usize, out: &mut OutBuf) -> Self {
        match protocol {
            Protocol::JobCentre => job_centre::write_full(max_clients, out.tail()),
            // These protocols have no error reply.
            Protocol::Pinpriq | Protocol::Processor => {}
            Protocol::Http => http::write_full(max_clients, out.tail()),
            Protocol::Beanstalkd => beanstalkd::write_full(out.tail()),
        }
        Self::Rejected
    }

    /// The bytes of an unfinished request, or of unwritten answers, that it holds itself. O(1).
    #[must_use]
    #[inline]
    pub fn buffered_bytes(&self) -> usize {
        if let Self::JobCentre(_) = self { 0 } else { self.buffered_bytes_cold() }
    }

    fn buffered_bytes_cold(&self) -> usize {
        match self {
            Self::Http(session) => session.buffered_bytes(),
            Self::Pinpriq(session) => session.buffered_bytes(),
            Self::Beanstalkd(session) => session.buffered_bytes(),
            _ => 0,
        }
    }

    /// Takes out the packets of answers that are not written, before the session is dropped: to
    /// free all of them may take several passes.
    #[must_use]
    pub fn take_packets(&mut self) -> Vec<IntoIter<Packet>> {
        if let Self::Pinpriq(session) = self { session.take_packets() } else { Vec::new() }
    }

    /// The queues that its client uses and watches: one that is used, unless it is empty, and those
    /// that are watched.
    #[must_use]
    pub fn interest(&self) -> Option<(Box<[u8]>, StringList)> {
        if let Self::Beanstalkd(session) = self { Some(session.interest()) } else { None }
    }

    /// A session for a connection that is closed for this reason: writes an error if the protocol
    /// has one, and discards its input.
    #[must_use]
    pub fn close_with(protocol: Protocol, why: Closing<'_>, out: &mut OutBuf) -> Self {
        rejected::write_closing(protocol, why, out.tail());
        Self::Rejected
    }

    /// Parses the next request in `input`.
    #[inline(always)]
    pub fn poll_command<'s, 'i: 's>(
        &mut self,
        input: &mut Input<'i>,
        shared: &'s mut SessionContext,
        out: &mut OutBuf,
    ) -> SessionAction<'s> {
        match self {
            Self::JobCentre(session) => session.poll_command(input, shared, out),
            Self::Pinpriq(session) => session.poll_command(input, shared, out),
            Self::Http(session) => session.poll_command(input, shared, out),
            Self::Call(session) => session.poll_command(input, shared, out),
            Self::Beanstalkd(session) => session.poll_command(input, shared, out),
            Self::Processor(session) => session.poll_command(input, shared, out),
            Self::Rejected => rejected::poll_command(input),
        }
    }

    /// The command that is due (see [`Session::has_pending_submit`]) and its serial. `None`: the
    /// work of this turn is at its bound; the command is due again in the next one.
    #[inline(never)]
    pub fn poll_pending_submit<'s>(
        &'s mut self,
        shared: &'s mut SessionContext,
        out: &mut OutBuf,
    ) -> Option<(u32, Command<'s>)> {
        match self {
            Self::Pinpriq(session) => session.poll_pending_submit(shared, out),
            _ => None,
        }
    }

    /// Handles the reply to the command with this serial; popped packets are taken out of it.
    /// Returns an incident for the log if the protocol cannot tell the client.
    #[inline]
    pub fn handle_reply(
        &mut self,
        serial: u32,
        reply: &mut Reply<'_>,
        now: Now,
        out: &mut OutBuf,
    ) -> Option<Incident> {
        match self {
            Self::JobCentre(session) => {
                session.handle_reply(serial, reply, out);
                None
            }
            Self::Pinpriq(session) => session.handle_reply(serial, reply, out),
            Self::Http(session) => {
                session.handle_reply(serial, reply);
                None
            }
            Self::Call(session) => {
                session.handle_reply(reply, out);
                None
            }
            Self::Beanstalkd(session) => {
                session.handle_reply(serial, reply, out);
                None
            }
            Self::Processor(session) => session.handle_reply(serial, reply, now, out),
            // Its client has left the queues that its former session used: see `close_with`.
            Self::Rejected => None,
        }
    }

    /// The command with this serial takes several passes, though it is not to wait: what the client
    /// has sent behind it must not be executed before it.
    pub fn handle_deferral(&mut self, serial: u32) {
        match self {
            Self::JobCentre(session) => session.handle_deferral(serial),
            Self::Pinpriq(session) => session.handle_deferral(serial),
            Self::Beanstalkd(session) => session.handle_deferral(serial),
            _ => {}
        }
    }

    /// The serial of a wait that has to be cancelled when the peer half-closes.
    #[must_use]
    pub fn pending_serial(&self) -> Option<u32> {
        match self {
            Self::JobCentre(session) => session.waits_for(),
            Self::Pinpriq(session) => session.open_subscription(),
            Self::Http(session) => session.waits_for(),
            Self::Beanstalkd(session) => session.waits_for(),
            Self::Call(_) | Self::Processor(_) | Self::Rejected => None,
        }
    }

    /// The serial of an open pop, which has to be cancelled while the peer does not read: no
    /// request waits for it.
    #[must_use]
    pub fn open_subscription(&self) -> Option<u32> {
        match self {
            Self::Pinpriq(session) => session.open_subscription(),
            Self::JobCentre(_)
            | Self::Http(_)
            | Self::Call(_)
            | Self::Beanstalkd(_)
            | Self::Processor(_)
            | Self::Rejected => None,
        }
    }

    /// Whether a command is due without further input. Unless the peer has closed or the output is
    /// above the high-water mark, it is submitted before any other session's next request.
    #[must_use]
    #[inline]
    pub fn has_pending_submit(&self) -> bool {
        match self {
            Self::Pinpriq(session) => session.has_pending_submit(),
            _ => false,
        }
    }

    /// Whether it has something to do in its next turn without further input: write more of a
    /// response, submit the next command, or end.
    #[must_use]
    #[inline]
    pub fn wants_poll(&self) -> bool {
        match self {
            Self::Http(session) => session.wants_poll(),
            Self::Pinpriq(session) => session.wants_poll(),
            Self::Processor(session) => session.wants_poll(),
            Self::Beanstalkd(session) => session.wants_poll(),
            Self::JobCentre(session) => session.wants_poll(),
            _ => false,
        }
    }

    /// Whether it may ever have a deadline.
    #[must_use]
    #[inline]
    pub fn is_timed(&self) -> bool {
        matches!(self, Self::Http(_) | Self::Call(_) | Self::Processor(_))
    }

    /// When its client times out, as of its last turn.
    #[must_use]
    pub fn deadline(&self) -> Option<Mono> {
        match self {
            Self::Http(session) => session.deadline(),
            Self::Call(session) => session.deadline(),
            Self::Processor(session) => session.deadline(),
            Self::JobCentre(_) | Self::Pinpriq(_) | Self::Beanstalkd(_) | Self::Rejected => None,
        }
    }

    /// Handles the end of its deadline.
    pub fn handle_timeout(
        &mut self,
        shared: &mut SessionContext,
        out: &mut OutBuf,
    ) -> TimeoutAction {
        match self {
            Self::Http(session) => session.handle_timeout(shared, out),
            Self::Call(session) => session.handle_timeout(),
            Self::Processor(session) => {
                session.handle_timeout(shared.turn.now);
                TimeoutAction::Rearm
            }
            Self::JobCentre(_) | Self::Pinpriq(_) | Self::Beanstalkd(_) | Self::Rejected => {
                TimeoutAction::Rearm
            }
        }
    }

    /// The serial of a wait that has to be cancelled before anything else that is due now. The
    /// server calls this after [`Session::handle_timeout`] until it returns `None`.
    pub fn poll_called_off(&mut self) -> Option<u32> {
        match self {
            Self::Processor(session) => session.poll_called_off(),
            _ => None,
        }
    }

    /// Its output no longer reaches the peer.
    pub fn handle_broken_output(&mut self) {
        match self {
            Self::Pinpriq(session) => session.handle_broken_output(),
            Self::Http(session) => session.handle_broken_output(),
            Self::Processor(session) => session.handle_broken_output(),
            Self::JobCentre(_) | Self::Beanstalkd(_) | Self::Call(_) | Self::Rejected => {}
        }
    }

    /// The connection ends: so does a response that would go on as long as its client reads it.
    /// Returns whether there is one, whose end is to be written.
    pub fn end_stream(&mut self) -> bool {
        match self {
            Self::Http(session) => session.end_stream(),
            _ => false,
        }
    }

    /// No more input will arrive; the rest is offered once more.
    pub fn handle_eof(&mut self) {
        if let Self::Processor(session) = self {
            session.handle_eof();
        }
    }

    /// Workers of a queue from a slot on; only the processor has any. The number of slots is
    /// bounded.
    #[must_use]
    pub fn worker_page(&self, queue: &[u8], from: u32) -> WorkerRows {
        match self {
            Self::Processor(session) => session.worker_page(queue, from),
            _ => WorkerRows::default(),
        }
    }

    /// The bus workers by queue. O(queues).
    #[must_use]
    pub fn bus_workers(&self) -> Vec<BusWorkerStats> {
        match self {
            Self::Processor(session) => session.bus_workers(),
            _ => Vec::new(),
        }
    }

    /// Asserts the invariants. O(all): for tests.
    pub fn check_invariants(&self) {
        if let Self::Processor(session) = self {
            session.check_invariants();
        }
    }

    /// Whether it accepts input.
    #[must_use]
    #[inline]
    pub fn wants_input(&self) -> bool {
        match self {
            Self::JobCentre(session) => session.wants_input(),
            Self::Pinpriq(session) => session.wants_input(),
            Self::Http(session) => session.wants_input(),
            Self::Beanstalkd(session) => session.wants_input(),
            Self::Processor(session) => session.wants_input(),
            Self::Call(_) | Self::Rejected => true,
        }
    }

    /// Whether every request so far has been answered.
    #[must_use]
    #[inline]
    pub fn is_settled(&self) -> bool {
        match self {
            Self::JobCentre(session) => session.is_settled(),
            Self::Pinpriq(session) => session.is_settled(),
            Self::Http(session) => session.is_settled(),
            Self::Beanstalkd(session) => session.is_settled(),
            Self::Processor(session) => session.is_settled(),
            Self::Call(_) | Self::Rejected => true,
        }
    }
}
