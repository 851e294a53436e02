//! The seam between a core and its driver: the server as seen by the owner of the sockets.
//!
//! The reactor is one driver, the simulator another; the server is one core, the echo server of the
//! benches another. One pass: [`Core::begin_pass`], input and ends of connections,
//! [`Core::finish_pass`], then
//! [`Core::poll_touched`] until it returns `None`, writing the output of each connection named,
//! then [`Core::poll_notice`] and [`Core::poll_action`] until they return `None`.
//!
//! A core may also open connections: it names a client of its own making in [`Action::Connect`],
//! and the driver answers once, by [`Core::handle_connected`] or [`Core::handle_connect_failed`].
//! From then on that client is like any other. Until then nothing is read or sent for it, and the
//! core may cancel by [`Action::Close`]; timeouts are the core's business.

use crate::base::time::{Mono, Now, Wall};
use crate::model::forward::ForwardStats;
use crate::model::id::{ClientId, JobId};
use crate::model::peer::Peer;
use crate::model::rejection::Rejection;
use crate::model::reload::ReloadReport;
use crate::model::worker::WorkerId;
use std::fmt;
use std::sync::Arc;

/// The protocol of a listener.
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
    /// The protocol of beanstalkd (`docs/protocols/beanstalkd.md`).
    Beanstalkd,
}

impl Protocol {
    /// All protocols, ordered by [`Self::number`].
    pub const ALL: [Self; 5] =
        [Self::JobCentre, Self::Pinpriq, Self::Http, Self::Processor, Self::Beanstalkd];

    /// Index into [`Self::ALL`].
    #[must_use]
    #[inline]
    pub fn number(self) -> usize {
        self as usize
    }

    /// Name in logs and metrics labels.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::JobCentre => "job-centre",
            Self::Pinpriq => "pinpriq",
            Self::Http => "http",
            Self::Processor => "processor",
            Self::Beanstalkd => "beanstalkd",
        }
    }

    /// Default TCP port; 0: not a TCP protocol.
    #[must_use]
    pub fn default_port(self) -> u16 {
        match self {
            Self::JobCentre => 11400,
            Self::Pinpriq => 11401,
            Self::Http => 11480,
            Self::Processor => 0,
            Self::Beanstalkd => 11300,
        }
    }
}

/// A server to connect to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Target {
    /// Host name or address; IPv6 without brackets.
    pub host: Box<str>,
    /// TCP port.
    pub port: u16,
    /// Whether to use TLS, with a certificate for `host`.
    pub tls: bool,
}

/// Why a connection to a [`Target`] failed. Most carry the system's message. Displays
/// as a sentence without its full stop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConnectError {
    /// The queue of DNS lookups is full.
    Busy,
    /// The settings permit none of the addresses; the message names one.
    Forbidden(Box<str>),
    /// This system has no descriptor, port or memory left for another connection.
    NoRoom(Box<str>),
    /// The name resolves to no address.
    Name(Box<str>),
    /// No address accepts a connection; the message is that of the last one.
    Unreachable(Box<str>),
    /// The TLS handshake failed: certificate or protocol.
    Tls(Box<str>),
}

impl ConnectError {
    /// Whether the cause is local, so that nothing is known of the other server.
    #[must_use]
    pub fn is_ours(&self) -> bool {
        matches!(self, Self::Busy | Self::NoRoom(_))
    }
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Busy => f.write_str("too many names are being looked up at the moment"),
            Self::Forbidden(why) => f.write_str(why),
            Self::NoRoom(why) => write!(f, "there is no room here for another connection: {why}"),
            Self::Name(why) => write!(f, "the name cannot be resolved: {why}"),
            Self::Unreachable(why) => write!(f, "no connection: {why}"),
            Self::Tls(why) => write!(f, "no secure connection: {why}"),
        }
    }
}

/// What a driver has to do, mostly to a connection. It closes only what an action names, or what it
/// has reported by [`Core::handle_reset`] or [`Core::handle_connect_failed`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Connect this client, just made by the core, to a server.
    Connect(ClientId, Arc<Target>),
    /// Close and forget it, or stop connecting it.
    Close(ClientId),
    /// Shut down the sending side; go on reading.
    ShutdownWrite(ClientId),
    /// Read once more what can be, and call [`Core::handle_reload`].
    Reload,
}

/// An event caused by a client that no reply can report, so that the log does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Incident {
    /// A job was rejected, and its protocol has no reply to a put.
    JobDropped(Rejection),
    /// A pop selected this job, which is too large for its protocol: the job stays.
    TooLarge(JobId),
    /// A client exceeded the number of subscriptions. It is disconnected.
    TooManySubscriptions,
    /// A client sent this byte, which begins no request. It is disconnected.
    UnknownRequest(u8),
    /// This many connections were rejected beyond `--max-clients`.
    ClientsRejected(u64),
    /// A client speaks another protocol than its listener, perhaps HTTP from a web page. It is
    /// disconnected, and nothing that it sent is executed.
    OtherProtocol,
    /// A registered worker was deregistered after repeated failures of deliveries.
    WorkerDropped(WorkerId),
    /// The unfinished request or unsent replies of a client, of this many bytes, were the largest
    /// of those that exceeded their bound together. It is disconnected.
    BuffersFull(usize),
    /// A client has shown a token that no user has, or none within the time that it has for it.
    NotAuthenticated,
    /// A request that was not executed, whose protocol has no reply for that: a sentence.
    Denied(Box<str>),
    /// A line that a protocol logs in place of a reply.
    LogLine(Box<LogLine>),
}

/// A line of the log, never suppressed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLine {
    /// Level of the log entry.
    pub severity: Severity,
    /// A sentence, without line ends.
    pub text: String,
}

/// Level of a [`LogLine`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// A request was not executed.
    Error,
    /// Unexpected, and handled.
    Warn,
    /// For information.
    Info,
}

/// An incident for the log. Frequent ones are counted but not all logged, except for
/// [`Incident::LogLine`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// The client that caused it, if one did.
    pub client: Option<ClientId>,
    /// Kind and details.
    pub incident: Incident,
    /// Incidents of this kind since the start, this one included.
    pub total: u64,
}

/// What a driver has to do to the connection of a [`Link`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkAction {
    /// Connect it; [`Link::handle_connected`] or [`Link::handle_lost`] follows.
    Connect(Arc<Target>),
    /// Close and forget it, or stop connecting it.
    Close,
}

/// The one connection of an engine to the place where it keeps its jobs, as seen by the owner of
/// the socket. It is no client, and outlives them in a shutdown.
pub trait Link {
    /// The next action.
    fn poll_action(&mut self) -> Option<LinkAction>;

    /// It is connected.
    fn handle_connected(&mut self, now: Now);

    /// It could not be connected, or is lost: a sentence without its full stop.
    fn handle_lost(&mut self, why: &str, now: Now);

    /// Bytes were received.
    fn handle_input(&mut self, bytes: &[u8], now: Now);

    /// The bytes to send, oldest first.
    fn output(&self) -> &[u8];

    /// This many bytes of the output were sent.
    fn handle_sent(&mut self, count: usize);

    /// What is said when the end is not waited for any longer: a sentence.
    fn late(&self) -> String;

    /// This server is to end: another one may read what it keeps, so as to go on at once. False:
    /// there is nothing to wait for.
    fn offer_lead(&mut self, _now: Now) -> bool {
        false
    }

    /// Whether the end is to wait for the server to which that was offered.
    fn offers_lead(&mut self, _now: Now) -> bool {
        false
    }
}

/// A state machine behind connections. No call blocks, and nothing happens between calls.
pub trait Core {
    /// A protocol is served at this address.
    fn handle_listening(&mut self, _protocol: Protocol, _address: &str) {}

    /// A pass begins, before its input.
    fn begin_pass(&mut self, _now: Now) {}

    /// What is known of the other end of a connection that was accepted: before its input.
    fn handle_peer(&mut self, _client: ClientId, _peer: Peer, _now: Now) {}

    /// A connection was accepted. `None`: the table of connections is full, close it without a
    /// reply.
    fn handle_open(&mut self, protocol: Protocol, now: Now) -> Option<ClientId>;

    /// A connection was accepted that is not served: it is told why in the words of its protocol,
    /// and closed. `None`: close it without a reply.
    fn handle_refused(&mut self, _protocol: Protocol, _why: &str, _now: Now) -> Option<ClientId> {
        None
    }

    /// Bytes were received, while [`Core::wants_input`] was true.
    fn handle_input(&mut self, client: ClientId, bytes: &[u8], now: Now);

    /// The peer has shut down its sending side; bytes may still be unread.
    fn handle_peer_closed(&mut self, client: ClientId, now: Now);

    /// All received bytes have been passed to [`Core::handle_input`].
    fn handle_eof(&mut self, client: ClientId, now: Now);

    /// `count` bytes of the output were sent.
    fn handle_sent(&mut self, client: ClientId, count: usize, now: Now);

    /// Writing failed; input received before may still be passed in.
    fn handle_broken_output(&mut self, client: ClientId, now: Now);

    /// The connection was reset, and the driver has closed it.
    fn handle_reset(&mut self, client: ClientId, now: Now);

    /// An [`Action::Connect`] succeeded.
    fn handle_connected(&mut self, _client: ClientId, _now: Now) {}

    /// An [`Action::Connect`] failed, and the driver has forgotten the client.
    fn handle_connect_failed(&mut self, _client: ClientId, _why: &ConnectError, _now: Now) {}

    /// Graceful shutdown: requests that have arrived are served, and each connection counts as
    /// ended by its peer once the driver has passed in what had arrived. Closing outbound
    /// connections that are not yet established is left to the core.
    fn handle_shutdown(&mut self, now: Now);

    /// Whether a connection is read to its end even in a shutdown: it does not count as ended by
    /// its peer before.
    fn survives_shutdown(&self, _client: ClientId) -> bool {
        false
    }

    /// Ends the pass: fires deadlines, sends replies that are durable, resumes sessions.
    fn finish_pass(&mut self, now: Now);

    /// Whether the core accepts input of this connection now.
    fn wants_input(&self, client: ClientId) -> bool;

    /// Whether the core takes more input in this pass. If not, the driver reads on in the next
    /// one: so the work of a pass is bounded, however many connections have input.
    fn has_budget(&self) -> bool {
        true
    }

    /// The work of this pass so far, in the unit of
    /// [`INPUT_WORK_PER_PASS`](crate::base::limits::INPUT_WORK_PER_PASS); 0 if the core does not
    /// count it. O(1).
    fn pass_work(&self) -> usize {
        0
    }

    /// Bytes of input that are kept because their request is not complete, or not to be handled
    /// yet. O(1).
    fn unconsumed_input(&self, _client: ClientId) -> usize {
        0
    }

    /// The bytes to send, oldest first.
    fn output(&self, client: ClientId) -> &[u8];

    /// A connection whose output or [`Core::wants_input`] may have changed since it was last
    /// returned, in the order of the changes.
    fn poll_touched(&mut self) -> Option<ClientId>;

    /// The next action on a connection.
    fn poll_action(&mut self) -> Option<Action>;

    /// The next notice for the log.
    fn poll_notice(&mut self) -> Option<Notice> {
        None
    }

    /// When the core has to be called again at the latest; a past moment means now.
    fn poll_timeout(&self, now: Now) -> Option<Mono>;

    /// A fatal error after which the driver has to stop, as a sentence.
    fn failure(&self) -> Option<String> {
        None
    }

    /// The connection to the place where jobs are kept, if they are kept behind one.
    fn link(&mut self) -> Option<&mut dyn Link> {
        None
    }

    /// Whether replies wait for the disk.
    fn awaits_disk(&self) -> bool {
        false
    }

    /// The last connection is gone: makes durable what must be. The driver runs passes until
    /// [`Core::is_closed`].
    fn handle_close(&mut self, _now: Now) {}

    /// Whether the driver may end, after [`Core::handle_close`].
    fn is_closed(&self) -> bool {
        true
    }

    /// Reports a pass that lasted from `from` to `to`, for the busy fraction of the loop.
    fn record_pass(&mut self, _from: Mono, _to: Mono, _cpu_ns: Option<u64>) {}

    /// Reports the resident memory, in bytes.
    fn record_memory(&mut self, _resident: u64) {}

    /// Reports the processor time of the process, in microseconds.
    fn record_processor(&mut self, _user_us: u64, _system_us: u64) {}

    /// Reports when the certificate of TLS listeners expires.
    fn record_certificate(&mut self, _expires: Wall) {}

    /// Reports TLS handshakes of clients that are complete, and that have failed.
    fn record_handshakes(&mut self, _complete: u64, _failed: u64) {}

    /// Reports the connections that are forwarded to another server.
    fn record_forwards(&mut self, _stats: ForwardStats) {}

    /// No new jobs are to be taken from now on. False: this server takes none anyway.
    fn handle_drain(&mut self) -> bool {
        true
    }

    /// An [`Action::Reload`] is done.
    fn handle_reload(&mut self, _report: ReloadReport) {}

    /// Number of open connections.
    fn connections(&self) -> usize;

    /// Of these, outbound connections and dispatchers.
    fn calls(&self) -> usize {
        0
    }
}
