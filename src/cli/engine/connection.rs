//! A connection to Redis that waits for each answer, with a bound on how long.

use crate::base::buf::Input;
use crate::engine::shared::limits::{ANSWER_BYTES_MAX, ANSWER_TIMEOUT, CONNECT_TIMEOUT};
use crate::engine::shared::redis::{self, CallError, Calls, Hop, Locator, Requests, StartError};
use crate::model::driver::Target;
use crate::reactor::{BlockingTls, TlsError, TrustStore};
use crate::wire::resp::Framer;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

/// A socket that blocks.
#[derive(Debug)]
pub(super) enum Stream {
    Plain(TcpStream),
    Tls(Box<BlockingTls>),
}

impl Stream {
    /// Connects to the first address of a name that takes a connection.
    pub(super) fn connect(target: &Target, trust: &TrustStore) -> Result<Self, StartError> {
        let tcp = connect(target).map_err(|error| lost(&error))?;
        if !target.tls {
            return Ok(Self::Plain(tcp));
        }
        match BlockingTls::connect(tcp, &target.host, trust) {
            Ok(tls) => Ok(Self::Tls(Box::new(tls))),
            Err(TlsError::Lost(error)) => Err(StartError::Passing(format!(
                "TLS does not begin ({}): is this its port for TLS?",
                lost(&error).0
            ))),
            Err(TlsError::Refused(why)) => {
                Err(StartError::Fatal(format!("no secure connection: {why}")))
            }
        }
    }

    /// How long a read waits.
    pub(super) fn set_read_timeout(&self, timeout: Duration) -> io::Result<()> {
        let tcp = match self {
            Self::Plain(tcp) => tcp,
            Self::Tls(tls) => tls.tcp(),
        };
        tcp.set_read_timeout(Some(timeout))
    }

    /// One read of the socket. `None`: what came is none of the other side's bytes.
    pub(super) fn read_once(&mut self, into: &mut [u8]) -> io::Result<Option<usize>> {
        match self {
            Self::Plain(tcp) => tcp.read(into).map(Some),
            Self::Tls(tls) => tls.read_once(into),
        }
    }

    pub(super) fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Plain(tcp) => tcp.write_all(bytes),
            Self::Tls(tls) => {
                tls.write_all(bytes)?;
                tls.flush()
            }
        }
    }
}

/// The connection.
#[derive(Debug)]
pub(super) struct Connection {
    stream: Stream,
    input: Vec<u8>,
    framer: Framer,
    scratch: Vec<u8>,
    was_answered: bool,
}

fn is_late(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

fn lost(error: &io::Error) -> CallError {
    let late = format!("no answer within {} s", ANSWER_TIMEOUT.as_secs());
    CallError(if is_late(error) { late } else { error.to_string() })
}

fn connect(target: &Target) -> io::Result<TcpStream> {
    let mut last = io::Error::other("the name has no address");
    for address in (&*target.host, target.port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, CONNECT_TIMEOUT) {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                stream.set_write_timeout(Some(ANSWER_TIMEOUT))?;
                stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
                return Ok(stream);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

impl Connection {
    pub(super) fn open(target: &Target, trust: &TrustStore) -> Result<Self, StartError> {
        let stream = Stream::connect(target, trust)?;
        let (input, framer) = (Vec::new(), Framer::new(ANSWER_BYTES_MAX));
        let scratch = vec![0; 256 * 1024];
        Ok(Self { stream, input, framer, scratch, was_answered: false })
    }

    /// Connects to the node, by way of a Sentinel if need be, and logs in.
    ///
    /// # Errors
    /// Why the last of the connections was not made.
    pub(super) fn reach(
        locator: &mut Locator,
        requests: &Requests,
        trust: &TrustStore,
    ) -> Result<Self, StartError> {
        let mut last = None;
        for _ in 0..locator.hops_max() {
            let hop = locator.hop();
            let reached = Self::open(hop.target(), trust).and_then(|mut connection| match &hop {
                Hop::Node(_) => {
                    connection.log_in(requests.login())?;
                    let has_slot =
                        !locator.is_cluster() || connection.has_slot(locator, requests)?;
                    Ok(has_slot.then_some(connection))
                }
                Hop::Sentinel(_) => {
                    let let_in = connection.log_in(requests.sentinel_login());
                    let_in.map_err(|why| why.at("the Sentinel"))?;
                    connection.ask_sentinel(locator)?;
                    Ok(None)
                }
            });
            match reached {
                Ok(Some(connection)) => return Ok(connection),
                Ok(None) => {}
                Err(why) => {
                    locator.fail();
                    let Target { host, port, .. } = &**hop.target();
                    last = Some(if locator.may_move() {
                        why.at(&format!("{host}:{port}"))
                    } else {
                        why
                    });
                }
            }
        }
        Err(last.unwrap_or_else(|| StartError::Passing("there is no address".to_owned())))
    }

    /// Whether the node has the slot; if not, it says which one has.
    fn has_slot(&mut self, locator: &mut Locator, requests: &Requests) -> Result<bool, StartError> {
        let answer = self.call(&requests.probe())?;
        let moved = redis::moved(&answer)?;
        let has_slot = moved.is_none();
        if let Some(primary) = moved {
            locator.found(primary);
        }
        Ok(has_slot)
    }

    fn ask_sentinel(&mut self, locator: &mut Locator) -> Result<(), StartError> {
        let answer = self.call(&locator.question())?;
        locator.found(redis::primary(&answer)?);
        Ok(())
    }

    /// Says who this is, if it has to be said.
    pub(super) fn log_in(&mut self, (login, answers): (&[u8], usize)) -> Result<(), StartError> {
        if answers > 0 {
            self.stream.send(login).map_err(|error| self.explain(&error))?;
        }
        for _ in 0..answers {
            let answer = self.next()?;
            if answer.first() == Some(&b'-') {
                let text = String::from_utf8_lossy(&answer[1..]);
                return Err(StartError::Fatal(format!("the login failed: {}", text.trim_end())));
            }
        }
        Ok(())
    }

    /// What the loss of the connection may mean.
    fn explain(&self, error: &io::Error) -> CallError {
        let CallError(why) = lost(error);
        CallError(match &self.stream {
            Stream::Plain(_) if !self.was_answered && !is_late(error) => format!(
                "{why}: if this is its port for TLS, the address has to begin with rediss://"
            ),
            Stream::Tls(_) if why.contains("CertificateRequired") => format!(
                "{why}: it wants a certificate of its clients (--engine-cert and --engine-key)"
            ),
            _ => why,
        })
    }

    /// The next whole answer. It is not copied if nothing has come behind it.
    fn next(&mut self) -> Result<Vec<u8>, CallError> {
        loop {
            let found = self.framer.next(&mut Input::new(&self.input));
            let length = found.map(|answer| answer.map(|raw| raw.bytes().len()));
            let length = length
                .map_err(|error| CallError(format!("what it answers {error}: it is not Redis")))?;
            if let Some(length) = length {
                let mut rest = Vec::with_capacity(length);
                rest.extend_from_slice(&self.input[length..]);
                self.input.truncate(length);
                self.was_answered = true;
                return Ok(std::mem::replace(&mut self.input, rest));
            }
            match self.stream.read_once(&mut self.scratch) {
                Ok(Some(0)) => {
                    let ended = io::Error::other("it has closed the connection");
                    return Err(self.explain(&ended));
                }
                Ok(Some(count)) => self.input.extend_from_slice(&self.scratch[..count]),
                Ok(None) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(self.explain(&error)),
            }
        }
    }
}

impl Calls for Connection {
    fn send(&mut self, request: &[u8]) -> Result<(), CallError> {
        self.stream.send(request).map_err(|error| self.explain(&error))
    }

    fn receive(&mut self) -> Result<Vec<u8>, CallError> {
        self.next()
    }
}
