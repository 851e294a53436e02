//! F4: sessions, one for each connection, turn bytes into commands and replies into bytes.
//!
//! A session owns no socket and no buffer. The server offers it input by [`Session::poll_command`],
//! one request at a time, and hands it replies by [`Session::handle_reply`] in whatever order the
//! engine gives them; a session sends them in the order of its requests. A session may also have a
//! command of its own to submit ([`Session::has_pending_submit`]), and [`Session::poll_command`]
//! returns it before anything from the input; or something to do in a turn of its own
//! ([`Session::wants_poll`]), or a limit to its patience ([`Session::deadline`]). Protocols know
//! the model and the codecs, never the store, the engine or each other.

pub mod http;
pub mod job_centre;
mod ordered_replies;
pub mod pinpriq;
pub mod processor;
mod queue_listing;
mod rejected;

use crate::base::buf::{Input, OutBuf};
use crate::base::limits::RESULT_TTL_DEFAULT;
use crate::base::strings::StringList;
use crate::base::time::{Mono, Now};
use crate::model::command::Command;
use crate::model::driver::{Incident, Protocol};
use crate::model::indexed_queue::IndexedCommand;
use crate::model::job::JobOptions;
use crate::model::reply::Reply;
use crate::model::stats::{BusWorkerStats, ServerStats};
use crate::model::worker::WorkerCommand;
use crate::wire::json::Parser;
pub use queue_listing::WorkerRows;

/// What sessions share: settings, and memory that is reused from request to request.
#[derive(Debug)]
pub struct SessionContext {
    /// The longest request, in bytes.
    pub max_request: usize,
    /// Names by which clients may know the HTTP listener, besides `localhost` and addresses.
    pub http_names: Vec<Box<str>>,
    /// How long results and errors of jobs are kept for whoever follows them, in milliseconds.
    pub result_ttl_ms: u64,
    /// The JSON parser.
    pub json: Parser,
    /// Requests of Job Centre clients that were asked before.
    memo: job_centre::RequestCache,
    /// The options of the put that is being parsed.
    options: JobOptions,
    /// The queues of the pop that is being parsed.
    queues: StringList,
    /// Work for subscriptions in this turn: see `SUBSCRIPTION_WORK_PER_TURN`.
    work: usize,
    /// The moment of this turn.
    now: Now,
    /// What the server has counted, for a session that has asked for it.
    pub figures: Option<Box<ServerStats>>,
    /// What HTTP requests are read into, and their answers written.
    http: http::Scratch,
    /// What the operator has decided about the processor.
    pub processor: processor::Settings,
    /// The JSON parser for the payloads of messages.
    payload: Parser,
    /// Workers of a queue, for a session that has asked for them.
    pub members: Option<WorkerRows>,
}

impl SessionContext {
    /// Settings, and memory that is empty yet.
    #[must_use]
    pub fn new(max_request: usize) -> Self {
        Self {
            max_request,
            http_names: Vec::new(),
            result_ttl_ms: RESULT_TTL_DEFAULT.as_secs() * 1000,
            json: Parser::default(),
            memo: job_centre::RequestCache::default(),
            options: JobOptions::default(),
            queues: StringList::default(),
            work: 0,
            now: Now::default(),
            figures: None,
            http: http::Scratch::default(),
            processor: processor::Settings::default(),
            payload: Parser::default(),
            members: None,
        }
    }

    /// A session is going to be offered input, or asked for what it owes.
    #[inline]
    pub fn begin_turn(&mut self, now: Now) {
        self.work = 0;
        self.now = now;
    }
}

/// What came of offering input to a session.
#[derive(Debug)]
pub enum SessionAction<'a> {
    /// It needs more input.
    NeedInput,
    /// It takes no input until it has got a reply.
    Stalled,
    /// It has dealt with a request by itself; offer the rest.
    Continue,
    /// It has made much work: offer the rest in its next turn, which it is to have even if there is
    /// none.
    Yield,
    /// Submit this command under this serial, then offer the rest.
    Submit(u32, Command<'a>),
    /// Write what the server has counted into [`SessionContext::figures`], then offer the rest.
    FetchStats,
    /// The same with `Command::Watch`.
    Watch(u32, IndexedCommand<'a>),
    /// The same with `Command::Work`.
    Work(u32, WorkerCommand<'a>),
    /// Call off the take with this serial, if it still waits, then offer the rest.
    Cancel(u32),
    /// Write some of the processor's workers of this queue into [`SessionContext::members`], from
    /// this place on, then offer the rest.
    FetchWorkers(&'a [u8], u32),
    /// The operator is to know this; offer the rest.
    Log(Incident),
    /// It is done with its client: offer the rest, which is passed over, and send the client away
    /// once it has got all its replies.
    Close,
    /// It can make nothing of its input: offer the rest, which is passed over, and send the client
    /// away once it has got all its replies.
    ProtocolError(Incident),
}

/// What becomes of a client that was too slow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeoutAction {
    /// It gets another chance: there is a later deadline.
    Rearm,
    /// It has been told as far as that makes sense; it is sent away once it has got its replies.
    Close,
    /// It takes nothing: it is cut off.
    Abort,
}

/// The session of one connection.
#[derive(Debug)]
pub enum Session {
    /// JSON lines.
    JobCentre(job_centre::Session),
    /// Binary packets.
    Pinpriq(Box<pinpriq::Session>),
    /// HTTP.
    Http(Box<http::Session>),
    /// Who acts for a worker of the list; without a peer.
    Agent(Box<http::dispatch::WorkerDispatcher>),
    /// A connection to such a worker.
    Call(Box<http::dispatch::WorkerConnection>),
    /// Messages.
    Processor(Box<processor::Session>),
    /// A client that is sent away.
    Rejected,
}

const _: () = assert!(size_of::<Session>() <= 32, "what few sessions need is boxed");

impl Session {
    /// A session for a new connection.
    #[must_use]
    pub fn new(protocol: Protocol, now: Now) -> Self {
        match protocol {
            Protocol::JobCentre => Self::JobCentre(job_centre::Session::default()),
            Protocol::Pinpriq => Self::Pinpriq(Box::default()),
            Protocol::Http => Self::Http(Box::new(http::Session::new(now))),
            Protocol::Processor => Self::processor(&processor::Settings::default(), now),
        }
    }

    /// A session of the processor, which speaks like this.
    #[must_use]
    pub fn processor(settings: &processor::Settings, now: Now) -> Self {
        Self::Processor(Box::new(processor::Session::new(settings, now)))
    }

    /// A session for a connection that there is no place for: says so, if its protocol can, and
    /// passes over its input.
    #[must_use]
    pub fn reject(protocol: Protocol, max_clients: usize, out: &mut OutBuf) -> Self {
        match protocol {
            Protocol::JobCentre => job_centre::write_full(max_clients, out.tail()),
            // Nothing that this protocol sends could be taken for a farewell.
            Protocol::Pinpriq | Protocol::Processor => {}
            Protocol::Http => http::write_full(max_clients, out.tail()),
        }
        Self::Rejected
    }

    /// Takes the next request from `input`.
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
            Self::Processor(session) => session.poll_command(input, shared, out),
            Self::Agent(_) | Self::Rejected => rejected::poll_command(input),
        }
    }

    /// Takes the command that it owes (see [`Session::has_pending_submit`]), as it would before the
    /// next request.
    #[inline(never)]
    pub fn poll_pending_submit<'s, 'i: 's>(
        &mut self,
        nothing: &mut Input<'i>,
        shared: &'s mut SessionContext,
        out: &mut OutBuf,
    ) -> SessionAction<'s> {
        self.poll_command(nothing, shared, out)
    }

    /// Takes the reply to the request with this serial. What is returned could not be told to the
    /// client.
    #[inline]
    pub fn handle_reply(
        &mut self,
        serial: u32,
        reply: &Reply<'_>,
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
            Self::Agent(session) => {
                session.handle_reply(serial, reply);
                None
            }
            Self::Call(session) => {
                session.handle_reply(reply, out);
                None
            }
            Self::Processor(session) => session.handle_reply(serial, reply, now, out),
            Self::Rejected => unreachable!("a refused session submits nothing"),
        }
    }

    /// The serial of what waits and has to be called off now that the peer sends nothing more.
    #[must_use]
    pub fn pending_serial(&self) -> Option<u32> {
        match self {
            Self::JobCentre(session) => session.waits_for(),
            Self::Pinpriq(session) => session.open_subscription(),
            Self::Http(session) => session.waits_for(),
            Self::Agent(_) | Self::Call(_) | Self::Processor(_) | Self::Rejected => None,
        }
    }

    /// The serial of a take that has to be called off while the peer does not read what it is sent:
    /// one that no request waits for.
    #[must_use]
    pub fn open_subscription(&self) -> Option<u32> {
        match self {
            Self::Pinpriq(session) => session.open_subscription(),
            Self::JobCentre(_)
            | Self::Http(_)
            | Self::Agent(_)
            | Self::Call(_)
            | Self::Processor(_)
            | Self::Rejected => None,
        }
    }

    /// Whether it would submit a command even without further input. Unless its peer has closed or
    /// has too much to read, this is to be done before anybody else's next request.
    #[must_use]
    #[inline]
    pub fn has_pending_submit(&self) -> bool {
        match self {
            Self::Pinpriq(session) => session.has_pending_submit(),
            _ => false,
        }
    }

    /// Whether it would do something in its next turn even without further input: write more of an
    /// answer, ask again, or end.
    #[must_use]
    #[inline]
    pub fn wants_poll(&self) -> bool {
        match self {
            Self::Http(session) => session.wants_poll(),
            Self::Processor(session) => session.wants_poll(),
            _ => false,
        }
    }

    /// Whether it ever has a deadline.
    #[must_use]
    #[inline]
    pub fn is_timed(&self) -> bool {
        matches!(self, Self::Http(_) | Self::Agent(_) | Self::Call(_) | Self::Processor(_))
    }

    /// When its client will have been too slow, as things stand after its last turn.
    #[must_use]
    pub fn deadline(&self) -> Option<Mono> {
        match self {
            Self::Http(session) => session.deadline(),
            Self::Agent(session) => session.deadline(),
            Self::Call(session) => session.deadline(),
            Self::Processor(session) => session.deadline(),
            Self::JobCentre(_) | Self::Pinpriq(_) | Self::Rejected => None,
        }
    }

    /// Its deadline is over.
    pub fn handle_timeout(
        &mut self,
        shared: &mut SessionContext,
        out: &mut OutBuf,
    ) -> TimeoutAction {
        match self {
            Self::Http(session) => session.handle_timeout(shared, out),
            Self::Agent(session) => {
                session.handle_timeout();
                TimeoutAction::Rearm
            }
            Self::Call(session) => session.handle_timeout(),
            Self::Processor(session) => {
                session.handle_timeout(shared.now);
                TimeoutAction::Rearm
            }
            Self::JobCentre(_) | Self::Pinpriq(_) | Self::Rejected => TimeoutAction::Rearm,
        }
    }

    /// A take that is to be called off before anything else is due at this moment, if there is one:
    /// to be asked for after [`Session::handle_timeout`], until there is none.
    pub fn poll_called_off(&mut self) -> Option<u32> {
        match self {
            Self::Processor(session) => session.poll_called_off(),
            _ => None,
        }
    }

    /// What it writes reaches its peer no more.
    pub fn handle_broken_output(&mut self) {
        match self {
            Self::Pinpriq(session) => session.handle_broken_output(),
            Self::Http(session) => session.handle_broken_output(),
            Self::Processor(session) => session.handle_broken_output(),
            Self::JobCentre(_) | Self::Agent(_) | Self::Call(_) | Self::Rejected => {}
        }
    }

    /// Nothing will come in behind what is there: it is offered once more.
    pub fn handle_eof(&mut self) {
        if let Self::Processor(session) = self {
            session.handle_eof();
        }
    }

    /// Some of the workers of a queue, from a place on; nobody but the processor has any.
    #[must_use]
    pub fn worker_page(&self, queue: &[u8], from: u32) -> WorkerRows {
        match self {
            Self::Processor(session) => session.worker_page(queue, from),
            _ => WorkerRows::default(),
        }
    }

    /// The workers of the processor by their queues. O(queues).
    #[must_use]
    pub fn bus_workers(&self) -> Vec<BusWorkerStats> {
        match self {
            Self::Processor(session) => session.bus_workers(),
            _ => Vec::new(),
        }
    }

    /// Asserts what always holds. O(everything): for tests.
    pub fn check_invariants(&self) {
        if let Self::Processor(session) = self {
            session.check_invariants();
        }
    }

    /// Whether it would take input.
    #[must_use]
    #[inline]
    pub fn wants_input(&self) -> bool {
        match self {
            Self::JobCentre(session) => session.wants_input(),
            Self::Pinpriq(session) => session.wants_input(),
            Self::Http(session) => session.wants_input(),
            Self::Processor(session) => session.wants_input(),
            Self::Agent(_) | Self::Call(_) | Self::Rejected => true,
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
            Self::Processor(session) => session.is_settled(),
            Self::Agent(_) | Self::Call(_) | Self::Rejected => true,
        }
    }
}
