//! How requests are written and replies are read: the seam behind which other
//! protocols and servers are measured with the same generator, the same jobs and the same checks.

mod beanstalkd;
mod echo;
mod job_centre;
mod jobq;
mod pinpriq;
mod redis;

use super::content::Content;
use crate::model::driver::Protocol;
use clap::ValueEnum;
use std::io::{Read, Write};
use std::net::TcpStream;

/// The protocols there are.
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
    /// Whether a job that was handed out is deleted by a request. Otherwise it is gone by then.
    pub(super) fn deletes(self) -> bool {
        !matches!(self, Self::Pinpriq | Self::Jobq)
    }

    /// Whether a get takes the most urgent job of its queue, and finds none when all are taken.
    pub(super) fn takes(self) -> bool {
        !matches!(self, Self::Echo | Self::Health | Self::Jobq)
    }

    /// Where a server that speaks it listens if nothing else is said.
    pub(super) fn usual_address(self) -> String {
        let port = match self {
            Self::JobCentre | Self::Echo => Protocol::JobCentre.default_port(),
            Self::Pinpriq => Protocol::Pinpriq.default_port(),
            Self::Health | Self::Jobq => Protocol::Http.default_port(),
            Self::Beanstalkd => 11300,
            Self::Redis => 6379,
        };
        format!("127.0.0.1:{port}")
    }

    /// What is wrong with what a server said, and why, if that was another protocol of this
    /// program's.
    #[cold]
    pub(super) fn explain(self, why: String, said: &[u8]) -> String {
        let http = matches!(self, Self::Health | Self::Jobq);
        let hint = if !http && said.starts_with(b"HTTP/1.") {
            "this port speaks HTTP (--protocol jobq); lines are at the server's --listen, \
             127.0.0.1:11400 unless set"
        } else if http && said.starts_with(b"{\"status\":") {
            "this port speaks JSON lines (--protocol job-centre); HTTP is at the server's --http, \
             127.0.0.1:11480 unless set"
        } else {
            return why;
        };
        format!("{hint} ({why})")
    }

    /// How many different priorities it has room for.
    pub(super) fn priorities_max(self) -> u64 {
        if self == Self::Pinpriq { pinpriq::PRIORITIES_MAX } else { PRIORITIES_MAX }
    }

    /// How long a job may be, if the protocol has a limit.
    pub(super) fn payload_max(self) -> usize {
        if self == Self::Pinpriq { pinpriq::PAYLOAD_MAX } else { usize::MAX }
    }
}

const PRIORITIES_MAX: u64 = 1_000_000_000;

/// One request, to whatever server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Request {
    /// Put the job with this number.
    Put { seq: u64 },
    /// Take the most urgent job of a queue. `seq` is what an echo pretends to have found, `id` is
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

/// One reply, from whatever server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer<'a> {
    Put {
        id: u64,
    },
    Job(Job<'a>),
    Deleted,
    NoJob,
    /// The request itself, or what stands for it.
    Echo,
    /// Not the answer to a request: to be passed over.
    Aside,
}

/// What came of reading: nothing yet, or an answer and its length; or a sentence about a reply that
/// cannot be.
pub(super) type Parsed<'a> = Result<Option<(usize, Answer<'a>)>, String>;

/// One protocol with everything prepared that can be.
#[derive(Debug)]
pub(super) struct Codec {
    pub(super) content: Content,
    names: Vec<String>,
    script: Script,
}

#[derive(Debug)]
enum Script {
    JobCentre(job_centre::JobCentreCodec),
    Echo(job_centre::JobCentreCodec),
    /// With the request for a receipt.
    Pinpriq(Vec<u8>),
    Beanstalkd,
    Redis(redis::RespCodec),
    Health,
    Jobq(jobq::HttpCodec),
}

impl Codec {
    /// Prepares for queues called `prefix` and a number.
    pub(super) fn new(protocol: BenchProtocol, content: Content, prefix: &str) -> Self {
        let names: Vec<String> =
            (0..content.queues()).map(|number| format!("{prefix}{number}")).collect();
        let script = match protocol {
            BenchProtocol::JobCentre => Script::JobCentre(job_centre::JobCentreCodec::new(&names)),
            BenchProtocol::Echo => Script::Echo(job_centre::JobCentreCodec::new(&names)),
            BenchProtocol::Pinpriq => Script::Pinpriq(pinpriq::receipt(prefix)),
            BenchProtocol::Beanstalkd => Script::Beanstalkd,
            BenchProtocol::Redis => Script::Redis(redis::RespCodec::new(prefix, &names)),
            BenchProtocol::Health => Script::Health,
            BenchProtocol::Jobq => Script::Jobq(jobq::HttpCodec::new(&names, content.size())),
        };
        Self { content, names, script }
    }

    /// The name of a queue.
    pub(super) fn name(&self, queue: u64) -> &str {
        &self.names[place(queue)]
    }

    /// Says what a server wants to be told before the first request, and waits for its answers.
    pub(super) fn greet(&self, stream: &mut TcpStream) -> Result<(), String> {
        let (request, replies) = match &self.script {
            Script::JobCentre(_) | Script::Echo(_) | Script::Pinpriq(_) | Script::Health => {
                return Ok(());
            }
            Script::Jobq(_) => return jobq::greet(stream, &self.names),
            Script::Beanstalkd => beanstalkd::greeting(&self.names),
            Script::Redis(_) => redis::greeting(),
        };
        let lost = |error| format!("the server did not answer the set-up: {error}");
        stream.write_all(&request).map_err(lost)?;
        let mut received = Vec::new();
        let mut byte = [0; 1];
        let mut missing = replies;
        while missing > 0 {
            stream.read_exact(&mut byte).map_err(lost)?;
            received.push(byte[0]);
            missing -= usize::from(byte[0] == b'\n');
        }
        match &self.script {
            Script::Beanstalkd => beanstalkd::check_greeting(&received),
            Script::Redis(_) => redis::check_greeting(&received),
            _ => Ok(()),
        }
    }

    /// Writes a request. `memory` is the connection's own, 0 at first: for protocols in which it
    /// matters what was said before.
    #[inline]
    pub(super) fn write(&self, request: &Request, memory: &mut u64, out: &mut Vec<u8>) {
        match &self.script {
            Script::JobCentre(lines) => lines.write(request, &self.content, out),
            Script::Echo(lines) => echo::write(request, lines, &self.content, out),
            Script::Pinpriq(_) => {
                pinpriq::write(request, &self.names, &self.content, memory, out);
            }
            Script::Beanstalkd => {
                beanstalkd::write(request, &self.names, &self.content, memory, out);
            }
            Script::Redis(commands) => commands.write(request, &self.content, out),
            Script::Health => jobq::write_health(out),
            Script::Jobq(heads) => heads.write(request, &self.content, out),
        }
    }

    /// Asks for a receipt of `last`, behind which nothing is written for now, if the server would
    /// not answer it; whether it had to.
    #[inline]
    pub(super) fn ask_receipt(&self, last: &Request, out: &mut Vec<u8>) -> bool {
        match (&self.script, last) {
            (Script::Pinpriq(receipt), Request::Put { .. }) => {
                out.extend_from_slice(receipt);
                true
            }
            _ => false,
        }
    }

    /// Reads the reply to `request`, behind which a `receipt` was asked for or not, off the front
    /// of `bytes`.
    #[inline]
    pub(super) fn parse<'a>(
        &self,
        request: &Request,
        receipt: bool,
        bytes: &'a [u8],
    ) -> Parsed<'a> {
        match &self.script {
            Script::JobCentre(_) => job_centre::parse(request, self.content.size(), bytes),
            Script::Echo(lines) => echo::parse(request, lines, &self.content, bytes),
            Script::Pinpriq(_) => pinpriq::parse(request, receipt, bytes),
            Script::Beanstalkd => beanstalkd::parse(request, bytes),
            Script::Redis(_) => redis::parse(request, bytes),
            Script::Health => jobq::parse_health(request, bytes),
            Script::Jobq(_) => jobq::parse(request, &self.content, bytes),
        }
    }
}

/// Queues are counted from 0 and few.
fn place(queue: u64) -> usize {
    usize::try_from(queue).unwrap_or(usize::MAX)
}

/// Splits off a line and its length with the line end; `\r` is not part of it.
#[inline]
fn take_line(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let end = memchr::memchr(b'\n', bytes)?;
    let line = &bytes[..end];
    Some((end + 1, line.strip_suffix(b"\r").unwrap_or(line)))
}

/// A reply that does not belong to its request.
#[cold]
fn unexpected(request: &Request, reply: &[u8]) -> String {
    let name = match request {
        Request::Put { .. } => "put",
        Request::Get { .. } => "get",
        Request::Delete { .. } => "delete",
    };
    format!("the server answered a {name} with {}", super::job_tracker::shown(reply))
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) const PUT: Request = Request::Put { seq: 1 };
    pub(super) const GET: Request = Request::Get { queue: 0, seq: 0, id: 0, wait: false };
    pub(super) const DELETE: Request = Request::Delete { seq: 1, id: 5 };

    /// Every reply is found only once its last byte is there, and then exactly it.
    pub(super) fn reads_byte_by_byte(
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
    fn lines_end_in_either_way() {
        assert_eq!(take_line(b"a\r\nb"), Some((3, &b"a"[..])));
        assert_eq!(take_line(b"a\nb"), Some((2, &b"a"[..])));
        assert_eq!(take_line(b"a\r"), None);
    }
}
