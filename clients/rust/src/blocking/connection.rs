//! A connection that blocks: a line is written, its answer is read, until a deadline.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use super::left;
use crate::core::address::{Address, Way};
use crate::core::requests;
use crate::core::wire::{Answer, Lines};
use crate::error::{Error, Result};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// What is needed for each connection to one server.
pub(super) struct Target {
    pub(super) address: Address,
    #[cfg(feature = "tls")]
    tls: Option<crate::tls::Tls>,
}

impl Target {
    #[cfg(feature = "tls")]
    pub(super) fn new(address: Address) -> Result<Self> {
        let tls = (address.way == Way::Tls).then(|| crate::tls::Tls::of(&address)).transpose()?;
        Ok(Self { address, tls })
    }

    #[cfg(not(feature = "tls"))]
    pub(super) fn new(address: Address) -> Result<Self> {
        if address.way == Way::Tls {
            return Err(Error::Settings("an address with TLS needs the feature `tls`".into()));
        }
        Ok(Self { address })
    }
}

enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
    #[cfg(feature = "tls")]
    Tls(Box<rustls::StreamOwned<rustls::ClientConnection, TcpStream>>),
}

impl Stream {
    /// A read or write that takes longer fails. Zero is not allowed.
    fn set_timeout(&self, time: Duration) -> std::io::Result<()> {
        let time = Some(time.max(Duration::from_millis(1)));
        match self {
            Self::Tcp(tcp) => tcp.set_read_timeout(time).and_then(|()| tcp.set_write_timeout(time)),
            Self::Unix(unix) => {
                unix.set_read_timeout(time).and_then(|()| unix.set_write_timeout(time))
            }
            #[cfg(feature = "tls")]
            Self::Tls(tls) => {
                tls.sock.set_read_timeout(time).and_then(|()| tls.sock.set_write_timeout(time))
            }
        }
    }

    fn io(&mut self) -> &mut dyn ReadWrite {
        match self {
            Self::Tcp(tcp) => tcp,
            Self::Unix(unix) => unix,
            #[cfg(feature = "tls")]
            Self::Tls(tls) => &mut **tls,
        }
    }
}

trait ReadWrite: Read + Write {}
impl<T: Read + Write> ReadWrite for T {}

pub(super) struct Connection {
    name: String,
    stream: Stream,
    lines: Lines,
    buffer: Vec<u8>,
    /// Lines without an answer. A request that has failed leaves them: the connection is lost.
    unanswered: usize,
    is_first: bool,
}

impl Connection {
    /// Connects and says who the client is.
    pub(super) fn open(target: &Target) -> Result<Self> {
        let address = &target.address;
        let deadline = Instant::now() + CONNECT_TIMEOUT;
        let stream = open_stream(target, deadline).map_err(|error| {
            Error::of_certificate(address, &error).unwrap_or_else(|| {
                Error::ConnectionLost(format!("no connection to {address}: {error}"))
            })
        })?;
        let mut connection = Self {
            name: address.to_string(),
            stream,
            lines: Lines::default(),
            buffer: vec![0; 16 << 10],
            unanswered: 0,
            is_first: true,
        };
        if let Some(token) = &address.token {
            match connection.ask(&requests::auth(token)?.bytes, deadline)? {
                // A server without users needs no token.
                Answer::Refused(e) if e.to_string().contains("this server has no users") => {}
                answer => drop(answer.done()?),
            }
        }
        Ok(connection)
    }

    pub(super) fn is_lost(&self) -> bool {
        self.unanswered > 0
    }

    pub(super) fn ask(&mut self, line: &[u8], deadline: Instant) -> Result<Answer> {
        self.send(line, 1, deadline)?;
        self.answer(deadline)
    }

    /// Writes a number of lines; their answers are to be read with `answer`.
    pub(super) fn send(&mut self, lines: &[u8], count: usize, deadline: Instant) -> Result<()> {
        if self.is_lost() {
            return Err(Error::ConnectionLost(format!("the connection to {} was lost", self.name)));
        }
        self.send_more(lines, count, deadline)
    }

    /// The same, behind lines whose answers are still to be read by the same request.
    pub(super) fn send_more(
        &mut self,
        lines: &[u8],
        count: usize,
        deadline: Instant,
    ) -> Result<()> {
        self.unanswered += count;
        let mut rest = lines;
        while !rest.is_empty() {
            let sent =
                self.stream.set_timeout(left(deadline)).and_then(|()| self.stream.io().write(rest));
            let length = match sent {
                Ok(0) => return Err(self.lost(&ErrorKind::WriteZero.into(), deadline)),
                sent => sent.or_else(|error| self.interrupted(&error, deadline))?,
            };
            rest = &rest[length..];
        }
        self.stream.io().flush().map_err(|error| self.lost(&error, deadline))
    }

    pub(super) fn answer(&mut self, deadline: Instant) -> Result<Answer> {
        loop {
            if let Some(answer) = self.lines.next()? {
                if std::mem::take(&mut self.is_first)
                    && let Answer::Refused(Error::TooManyClients(sentence)) = answer
                {
                    return Err(Error::ConnectionLost(sentence));
                }
                self.unanswered -= 1;
                return Ok(answer);
            }
            let Self { stream, buffer, .. } = self;
            let read = stream.set_timeout(left(deadline)).and_then(|()| stream.io().read(buffer));
            let length = match read {
                Ok(0) => return Err(self.lost(&ErrorKind::UnexpectedEof.into(), deadline)),
                read => read.or_else(|error| self.interrupted(&error, deadline))?,
            };
            self.lines.push(&self.buffer[..length]);
        }
    }

    /// A signal is no reason to give up.
    fn interrupted(&self, error: &std::io::Error, deadline: Instant) -> Result<usize> {
        if error.kind() == ErrorKind::Interrupted { Ok(0) } else { Err(self.lost(error, deadline)) }
    }

    fn lost(&self, error: &std::io::Error, deadline: Instant) -> Error {
        if left(deadline).is_zero() {
            return Error::Timeout(format!("{} has not answered in time", self.name));
        }
        Error::of_certificate(&self.name, error).unwrap_or_else(|| {
            Error::AnswerLost(format!("the connection to {} was lost: {error}", self.name))
        })
    }
}

fn open_stream(target: &Target, deadline: Instant) -> std::io::Result<Stream> {
    let address = &target.address;
    if let Way::Unix(path) = &address.way {
        return UnixStream::connect(path).map(Stream::Unix);
    }
    let mut failed = std::io::Error::new(ErrorKind::NotFound, "the host has no address");
    for place in (address.host.as_str(), address.port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&place, left(deadline).max(Duration::from_millis(1))) {
            Ok(tcp) => {
                tcp.set_nodelay(true)?;
                #[cfg(feature = "tls")]
                if let Some(tls) = &target.tls {
                    return handshake(tls, tcp, deadline);
                }
                return Ok(Stream::Tcp(tcp));
            }
            Err(error) => failed = error,
        }
    }
    Err(failed)
}

#[cfg(feature = "tls")]
fn handshake(tls: &crate::tls::Tls, tcp: TcpStream, deadline: Instant) -> std::io::Result<Stream> {
    let client = rustls::ClientConnection::new(tls.config.clone(), tls.name.clone())
        .map_err(std::io::Error::other)?;
    let mut stream = rustls::StreamOwned::new(client, tcp);
    while stream.conn.is_handshaking() {
        let time = left(deadline).max(Duration::from_millis(1));
        stream.sock.set_read_timeout(Some(time))?;
        stream.sock.set_write_timeout(Some(time))?;
        stream.conn.complete_io(&mut stream.sock)?;
    }
    Ok(Stream::Tls(Box::new(stream)))
}
