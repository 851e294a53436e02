//! What a shell drives: the server, seen from whoever owns the sockets.
//!
//! The reactor is one such shell, the simulator another; the server is one core, the echo of the
//! benches another. One pass goes: inputs and ends of connections, [`Core::finish_pass`], then
//! [`Core::poll_touched`] until it is dry, and for each of those the output, then
//! [`Core::poll_notice`] and [`Core::poll_action`] until they are dry.
//!
//! A core may also call other servers: it names a client of its own making in [`Action::Connect`],
//! and the shell answers once, by [`Core::handle_connected`] or [`Core::handle_connect_failed`].
//! From then on that client is like any other. Until then nothing is read or sent for it, and the
//! core calls it off by [`Action::Close`]; how long to wait is the core's affair.

use crate::base::time::{Mono, Now};
use crate::model::id::{ClientId, JobId};
use crate::model::worker::WorkerId;
use std::fmt;
use std::sync::Arc;

/// By which protocol a connection comes in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// JSON lines (`docs/protocols/job-centre.md`).
    JobCentre,
    /// Binary packets (`docs/protocols/pinpriq.md`).
    Pinpriq,
    /// HTTP: Jobq, LightJQ and others (`docs/protocols/README.md`, "HTTP").
    Http,
    /// Messages on standard input and output (`docs/protocols/processor.md`): one connection at
    /// most.
    Processor,
}

impl Protocol {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 4] = [Self::JobCentre, Self::Pinpriq, Self::Http, Self::Processor];

    /// Its place among all.
    #[must_use]
    #[inline]
    pub fn number(self) -> usize {
        self as usize
    }

    /// Its name in logs.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::JobCentre => "job-centre",
            Self::Pinpriq => "pinpriq",
            Self::Http => "http",
            Self::Processor => "processor",
        }
    }

    /// The port that is meant for it; 0: it has none.
    #[must_use]
    pub fn default_port(self) -> u16 {
        match self {
            Self::JobCentre => 11400,
            Self::Pinpriq => 11401,
            Self::Http => 11480,
            Self::Processor => 0,
        }
    }
}

/// Another server that a core calls.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Target {
    /// Its name, or its address in numbers; of IPv6 without brackets.
    pub host: Box<str>,
    /// Its port.
    pub port: u16,
    /// Whether it is spoken to by TLS, its certificate being for `host`.
    pub tls: bool,
}

/// Why there is no connection to a [`Target`]. Each kind but the first carries what the system
/// says; displays as a sentence without its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConnectError {
    /// Very many names are being looked up.
    Busy,
    /// This system has no descriptor, port or memory left for another connection.
    NoRoom(Box<str>),
    /// Its name leads to no address.
    Name(Box<str>),
    /// None of its addresses answers; this is about the last of them.
    Unreachable(Box<str>),
    /// It answers, but does not prove who it is, or cannot speak TLS.
    Tls(Box<str>),
}

impl ConnectError {
    /// Whether the cause is here, and nothing is known of the other server.
    #[must_use]
    pub fn is_ours(&self) -> bool {
        matches!(self, Self::Busy | Self::NoRoom(_))
    }
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Busy => f.write_str("too many names are being looked up at the moment"),
            Self::NoRoom(why) => write!(f, "there is no room here for another connection: {why}"),
            Self::Name(why) => write!(f, "the name cannot be resolved: {why}"),
            Self::Unreachable(why) => write!(f, "no connection: {why}"),
            Self::Tls(why) => write!(f, "no secure connection: {why}"),
        }
    }
}

/// What a shell is to do to a connection. It closes for good only what it is told to close, or
/// what it has reported by [`Core::handle_reset`] or [`Core::handle_connect_failed`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Connect this client, which the core has just made, to another server.
    Connect(ClientId, Arc<Target>),
    /// Close it and forget it, or stop connecting it.
    Close(ClientId),
    /// Tell the peer that nothing more will be sent; go on reading.
    ShutdownWrite(ClientId),
}

/// What goes wrong although its client cannot be told, so that the operator has to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Incident {
    /// There was no place left for a job, and its protocol has no answer to a put.
    JobDropped,
    /// A client would have popped this job, which is too large for its protocol: the job stays.
    TooLarge(JobId),
    /// A client has subscribed to too many queues. It is sent away.
    TooManySubscriptions,
    /// A client has sent a byte that begins no request, so nothing behind it makes sense. It is
    /// sent away.
    UnknownRequest(u8),
    /// So many clients came while as many were served as may be, and were refused.
    ClientsRefused(u64),
    /// A client speaks another protocol than its listener, HTTP perhaps: a web page may be behind
    /// it. It is sent away, and nothing of what it sent is carried out.
    OtherProtocol,
    /// A worker could not be made to take jobs, again and again. It was dropped.
    WorkerDropped(WorkerId),
    /// What a protocol says in its log instead of an answer.
    LogLine(Box<LogLine>),
}

/// A line of the log. Each one is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLine {
    /// How bad it is.
    pub severity: Severity,
    /// A sentence, without a line end in it.
    pub text: String,
}

/// How bad it is what a line of the log tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// Something that was asked for was not done.
    Error,
    /// Something is not as it should be.
    Warn,
    /// It is good to know.
    Info,
}

/// Trouble with a client, or of the core's own, for the log. Not all of much trouble is told,
/// except for remarks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// Whose trouble it is, if a client's.
    pub client: Option<ClientId>,
    /// What it is.
    pub incident: Incident,
    /// How often there was trouble of this kind, this time included.
    pub total: u64,
}

/// A state machine behind connections. No call blocks; nothing is done behind the shell's back.
pub trait Core {
    /// A connection was accepted. `None`: there is no room even to say so, close it.
    fn handle_open(&mut self, protocol: Protocol, now: Now) -> Option<ClientId>;

    /// Bytes came in. Only what [`Core::wants_input`] asked for.
    fn handle_input(&mut self, client: ClientId, bytes: &[u8], now: Now);

    /// The peer will send nothing more, though bytes may still be unread.
    fn handle_peer_closed(&mut self, client: ClientId, now: Now);

    /// The last byte has been handed over.
    fn handle_eof(&mut self, client: ClientId, now: Now);

    /// `count` bytes of the output have been sent.
    fn handle_sent(&mut self, client: ClientId, count: usize, now: Now);

    /// Nothing more can be sent; what the peer sent before may still be handed over.
    fn handle_broken_output(&mut self, client: ClientId, now: Now);

    /// The connection is gone without farewell, and the shell has closed it.
    fn handle_reset(&mut self, client: ClientId, now: Now);

    /// A client that the core wanted to be connected is.
    fn handle_connected(&mut self, _client: ClientId, _now: Now) {}

    /// A client that the core wanted to be connected cannot be, and the shell has forgotten it.
    fn handle_connect_failed(&mut self, _client: ClientId, _why: &ConnectError, _now: Now) {}

    /// Serve what was received, then end: each connection counts as ended by its peer once the
    /// shell has handed over what had arrived. Those that are not yet connected are the core's to
    /// close.
    fn handle_shutdown(&mut self, now: Now);

    /// Whether a connection is to be heard to its own end even in a stop: it does not count as
    /// ended by its peer before.
    fn survives_shutdown(&self, _client: ClientId) -> bool {
        false
    }

    /// Ends the pass: what is due, what is durable, what can go on.
    fn finish_pass(&mut self, now: Now);

    /// Whether input of this connection would be taken now.
    fn wants_input(&self, client: ClientId) -> bool;

    /// The bytes to be sent, oldest first.
    fn output(&self, client: ClientId) -> &[u8];

    /// A connection whose output or appetite may have changed since it was last named.
    fn poll_touched(&mut self) -> Option<ClientId>;

    /// Something to be done to a connection.
    fn poll_action(&mut self) -> Option<Action>;

    /// Something that the operator should know. A core without secrets has nothing to tell.
    fn poll_notice(&mut self) -> Option<Notice> {
        None
    }

    /// When the core wants to be called again at the latest. Past moments mean at once.
    fn poll_timeout(&self, now: Now) -> Option<Mono>;

    /// What went wrong so badly that the shell has to give up, in a sentence.
    fn failure(&self) -> Option<String> {
        None
    }

    /// Whether answers wait for the disk, so that their clients cannot take them yet.
    fn awaits_disk(&self) -> bool {
        false
    }

    /// Begins the end, when the last connection is gone: what must last is made to last. The shell
    /// goes on with passes until [`Core::is_closed`].
    fn handle_close(&mut self, _now: Now) {}

    /// Whether the shell may end, after [`Core::handle_close`].
    fn is_closed(&self) -> bool {
        true
    }

    /// The pass that began at `from` is over, at `to`: how busy the loop is.
    fn record_pass(&mut self, _from: Mono, _to: Mono) {}

    /// So many bytes of memory are in use.
    fn record_memory(&mut self, _resident: u64) {}

    /// How many connections there are.
    fn connections(&self) -> usize;

    /// How many of them are no clients, but calls to other servers and whoever makes them.
    fn calls(&self) -> usize {
        0
    }
}
