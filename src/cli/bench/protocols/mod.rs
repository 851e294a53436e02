//! Encoding of requests and parsing of replies. Other protocols and servers are measured with the
//! same generator, jobs and checks through [`Codec`].

mod authentication;
mod beanstalkd;
mod echo;
mod job_centre;
mod jobq;
mod pinpriq;
mod redis;

use super::content::Content;
use crate::cli::client_token::ClientToken;
use crate::model::driver::Protocol;
use clap::ValueEnum;
use std::io::{Read, Write};

/// The protocols that can be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum BenchProtocol {
    /// JSON lines.
    JobCentre,
    /// The requests of Job Centre at a server that sends every line back: the floor.
    Echo,
    /// The networked priority queue. A push has no answer, so a put lasts until something behind it
    /// is answered: if need be a pop of an empty queue, one for all pushes that are written
    /// together, and not counted itself. A pop is final: nothing is deleted.
    Pinpriq,
    /// beanstalkd's text protocol; queues are tubes.
    Beanstalkd,
    /// Three Lua scripts over a sorted set per queue.
    Redis,
    /// `GET /health` for every request: what HTTP itself costs.
    Health,
    /// Jobq over HTTP: a put is `POST job`, a get `GET job/{id}` of a job that was put. Nothing is
    /// taken: the jobs stay, so a drain reads each of them once.
    Jobq,
}

impl BenchProtocol {
    /// Whether a delivered job is deleted by a request. Otherwise its delivery deletes it.
    pub(super) fn deletes(self) -> bool {
        !matches!(self, Self::Pinpriq | Self::Jobq)
    }

    /// Whether a get takes the most urgent job of its queue, and finds none when all are taken.
    pub(super) fn takes(self) -> bool {
        !matches!(self, Self::Echo | Self::Health | Self::Jobq)
    }

    /// Whether a client of it can say by a token who it is.
    pub(super) fn authenticates(self) -> bool {
        matches!(self, Self::JobCentre | Self::Beanstalkd | Self::Health | Self::Jobq)
    }

    /// The default address of a server of this protocol.
    pub(super) fn default_address(self) -> String {
        let port = match self {
            Self::JobCentre | Self::Echo => Protocol::JobCentre.default_port(),
            Self::Pinpriq => Protocol::Pinpriq.default_port(),
            Self::Health | Self::Jobq => Protocol::Http.default_port(),
            Self::Beanstalkd => 11300,
            Self::Redis => 6379,
        };
        format!("127.0.0.1:{port}")
    }

    /// The message about an unexpected reply, with a hint if the reply is of another protocol of
    /// this server.
    #[cold]
    pub(super) fn explain(self, why: String, reply: &[u8]) -> String {
        let http = matches!(self, Self::Health | Self::Jobq);
        let hint = if !http && reply.starts_with(b"HTTP/1.") {
            "this port speaks HTTP (--protocol jobq); lines are at the server's --listen, \
             127.0.0.1:11400 unless set"
        } else if http && reply.starts_with(b"{\"status\":") {
            "this port speaks JSON lines (--protocol job-centre); HTTP is at the server's --http, \
             127.0.0.1:11480 unless set"
        } else {
            return why;
        };
        format!("{hint} ({why})")
    }

    /// The number of different priorities.
    pub(super) fn priorities_max(self) -> u64 {
        if self == Self::Pinpriq { pinpriq::PRIORITIES_MAX } else { PRIORITIES_MAX }
    }

    /// The longest job.
    pub(super) fn payload_max(self) -> usize {
        if self == Self::Pinpriq { pinpriq::PAYLOAD_MAX_BYTES } else { usize::MAX }
    }
}

const PRIORITIES_MAX: u64 = 1_000_000_000;

/// A request, whatever the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Request {
    /// Put the job with this number.
    Put { seq: u64 },
    /// Reserve the most urgent job of a queue. `seq` is the job that an echo stands for, `id` is
    /// its id, for protocols in which a get names its job.
    Get { queue: u64, seq: u64, id: u64, wait: bool },
    /// Delete the job that was delivered under this id.
    Delete { seq: u64, id: u64 },
}

/// A job as it was delivered; a field that a protocol does not show is absent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Job<'a> {
    pub(super) id: u64,
    pub(super) text: &'a [u8],
    pub(super) priority: Option<u64>,
    pub(super) queue: Option<&'a [u8]>,
}

/// A reply, whatever the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer<'a> {
    Put {
        id: u64,
    },
    Job(Job<'a>),
    Deleted,
    NoJob,
    /// The request itself, or a reply that stands for it.
    Echo,
    /// Not a reply to a request: ignored.
    Unsolicited,
}

/// `None`: the reply is incomplete. Otherwise the reply and its length. An error is a message about
/// an invalid reply.
pub(super) type Parsed<'a> = Result<Option<(usize, Answer<'a>)>, String>;

/// Encoder and parser of one protocol, with the constant parts of requests prepared.
#[derive(Debug)]
pub(super) struct Codec {
    pub(super) content: Content,
    names: Vec<String>,
    protocol: ProtocolCodec,
    /// What a connection sends first.
    authentication: Vec<u8>,
}

#[derive(Debug)]
enum ProtocolCodec {
    JobCentre(job_centre::JobCentreCodec),
    Echo(job_centre::JobCentreCodec),
    /// With the request for a receipt.
    Pinpriq(Vec<u8>),
    Beanstalkd,
    Redis(redis::RespCodec),
    /// With the request.
    Health(Vec<u8>),
    Jobq(jobq::HttpCodec),
}

impl Codec {
    /// For queues named `prefix` and a number, and connections that authenticate by `token`.
    pub(super) fn new(
        protocol: BenchProtocol,
        content: Content,
        prefix: &str,
        token: Option<&ClientToken>,
    ) -> Self {
        let authentication = token.map(|token| authentication::request(protocol, token));
        let names: Vec<String> =
            (0..content.queues()).map(|number| format!("{prefix}{number}")).collect();
        let protocol = match protocol {
            BenchProtocol::JobCentre => {
                ProtocolCodec::JobCentre(job_centre::JobCentreCodec::new(&names))
            }
            BenchProtocol::Echo => ProtocolCodec::Echo(job_centre::JobCentreCodec::new(&names)),
            BenchProtocol::Pinpriq => ProtocolCodec::Pinpriq(pinpriq::receipt(prefix)),
            BenchProtocol::Beanstalkd => ProtocolCodec::Beanstalkd,
            BenchProtocol::Redis => ProtocolCodec::Redis(redis::RespCodec::new(prefix, &names)),
            BenchProtocol::Health => ProtocolCodec::Health(jobq::health(token)),
            BenchProtocol::Jobq => {
                ProtocolCodec::Jobq(jobq::HttpCodec::new(&names, content.size(), token))
            }
        };
        Self { content, names, protocol, authentication: authentication.unwrap_or_default() }
    }

    /// The name of a queue.
    pub(super) fn name(&self, queue: u64) -> &str {
        &self.names[queue_index(queue)]
    }

    /// Says who the client is, where the protocol does so once for a connection, and waits for the
    /// answer.
    pub(super) fn authenticate(&self, stream: &mut (impl Read + Write)) -> Result<(), String> {
        if self.authentication.is_empty() {
            return Ok(());
        }
        let answer = exchange(stream, &self.authentication, 1)?;
        authentication::check(&answer)
    }

    /// Sends the requests that precede the first one, and waits for their replies.
    pub(super) fn set_up(&self, stream: &mut (impl Read + Write)) -> Result<(), String> {
        let (request, replies) = match &self.protocol {
            ProtocolCodec::JobCentre(_)
            | ProtocolCodec::Echo(_)
            | ProtocolCodec::Pinpriq(_)
            | ProtocolCodec::Health(_) => {
                return Ok(());
            }
            ProtocolCodec::Jobq(codec) => return codec.set_up(stream, &self.names),
            ProtocolCodec::Beanstalkd => beanstalkd::set_up_requests(&self.names),
            ProtocolCodec::Redis(_) => redis::set_up_requests(),
        };
        let received = exchange(stream, &request, replies)?;
        match &self.protocol {
            ProtocolCodec::Beanstalkd => beanstalkd::check_set_up(&received),
            ProtocolCodec::Redis(_) => redis::check_set_up(&received),
            _ => Ok(()),
        }
    }

    /// Encodes a request. `state` belongs to the connection, initially 0, for protocols whose
    /// requests depend on earlier ones.
    #[inline]
    pub(super) fn write(&self, request: &Request, state: &mut u64, out: &mut Vec<u8>) {
        match &self.protocol {
            ProtocolCodec::JobCentre(lines) => lines.write(request, &self.content, out),
            ProtocolCodec::Echo(lines) => echo::write(request, lines, &self.content, out),
            ProtocolCodec::Pinpriq(_) => {
                pinpriq::write(request, &self.names, &self.content, state, out);
            }
            ProtocolCodec::Beanstalkd => {
                beanstalkd::write(request, &self.names, &self.content, state, out);
            }
            ProtocolCodec::Redis(commands) => commands.write(request, &self.content, out),
            ProtocolCodec::Health(request) => out.extend_from_slice(request),
            ProtocolCodec::Jobq(heads) => heads.write(request, &self.content, out),
        }
    }

    /// Appends a request for a receipt if the server sends no reply to `last`, the last request
    /// that is written. Returns whether it did.
    #[inline]
    pub(super) fn ask_receipt(&self, last: &Request, out: &mut Vec<u8>) -> bool {
        match (&self.protocol, last) {
            (ProtocolCodec::Pinpriq(receipt), Request::Put { .. }) => {
                out.extend_from_slice(receipt);
                true
            }
            _ => false,
        }
    }

    /// Parses the reply to `request` at the front of `bytes`. `receipt`: the request was followed
    /// by one for a receipt.
    #[inline]
    pub(super) fn parse<'a>(
        &self,
        request: &Request,
        receipt: bool,
        bytes: &'a [u8],
    ) -> Parsed<'a> {
        match &self.protocol {
            ProtocolCodec::JobCentre(_) => job_centre::parse(request, self.content.size(), bytes),
            ProtocolCodec::Echo(lines) => echo::parse(request, lines, &self.content, bytes),
            ProtocolCodec::Pinpriq(_) => pinpriq::parse(request, receipt, bytes),
            ProtocolCodec::Beanstalkd => beanstalkd::parse(request, bytes),
            ProtocolCodec::Redis(_) => redis::parse(request, bytes),
            ProtocolCodec::Health(_) => jobq::parse_health(request, bytes),
            ProtocolCodec::Jobq(_) => jobq::parse(request, &self.content, bytes),
        }
    }
}

/// Sends requests, and receives this many lines of replies, which are short.
fn exchange(
    stream: &mut (impl Read + Write),
    request: &[u8],
    lines: usize,
) -> Result<Vec<u8>, String> {
    let error = |cause| format!("the server did not answer the set-up: {cause}");
    stream.write_all(request).map_err(error)?;
    let mut received = Vec::new();
    let mut byte = [0; 1];
    let mut missing = lines;
    while missing > 0 {
        stream.read_exact(&mut byte).map_err(error)?;
        received.push(byte[0]);
        missing -= usize::from(byte[0] == b'\n');
    }
    Ok(received)
}

/// Queues are counted from 0.
fn queue_index(queue: u64) -> usize {
    usize::try_from(queue).unwrap_or(usize::MAX)
}

/// Splits off a line and its length with the line end; `\r` is not part of it.
#[inline]
fn split_line(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let end = memchr::memchr(b'\n', bytes)?;
    let line = &bytes[..end];
    Some((end + 1, line.strip_suffix(b"\r").unwrap_or(line)))
}

/// The message about a reply that does not fit its request.
#[cold]
fn unexpected(request: &Request, reply: &[u8]) -> String {
    let name = match request {
        Request::Put { .. } => "put",
        Request::Get { .. } => "get",
        Request::Delete { .. } => "delete",
    };
    format!("the server answered a {name} with {}", super::job_tracker::quote(reply))
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) const PUT: Request = Request::Put { seq: 1 };
    pub(super) const GET: Request = Request::Get { queue: 0, seq: 0, id: 0, wait: false };
    pub(super) const DELETE: Request = Request::Delete { seq: 1, id: 5 };

    /// Asserts that a reply is parsed only when its last byte has arrived.
    pub(super) fn parse_byte_by_byte(
        parse: impl for<'a> Fn(&'a [u8]) -> Parsed<'a>,
        reply: &[u8],
    ) -> String {
        let parse = |bytes: &[u8]| {
            parse(bytes).map(|found| found.map(|(used, answer)| (used, format!("{answer:?}"))))
        };
        for end in 0..reply.len() {
            assert_eq!(parse(&reply[..end]), Ok(None), "{end} bytes");
        }
        let (used, answer) = parse(&reply.repeat(2)).unwrap().unwrap();
        assert_eq!(used, reply.len());
        answer
    }

    #[test]
    fn line_ends_with_or_without_carriage_return() {
        assert_eq!(split_line(b"a\r\nb"), Some((3, &b"a"[..])));
        assert_eq!(split_line(b"a\nb"), Some((2, &b"a"[..])));
        assert_eq!(split_line(b"a\r"), None);
    }
}
