//! A socket of the load generator, with or without TLS. It does not block, but for the connect and
//! where [`BlockingStream`] is used.

#![expect(clippy::disallowed_methods, reason = "connecting blocks: nothing is measured yet")]

use crate::reactor::{Tls, TrustStore};
use mio::net::TcpStream;
use std::io::{self, ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Where to connect, and how.
#[derive(Clone, Debug)]
pub(super) struct Target {
    pub(super) address: SocketAddr,
    /// The server's name and who vouches for it; none: no TLS.
    pub(super) tls: Option<(String, TrustStore)>,
}

/// A connection.
#[derive(Debug)]
pub(super) enum Stream {
    Plain(TcpStream),
    Tls(Box<Tls>),
}

/// How long [`BlockingStream`] sleeps between two attempts.
const PAUSE: Duration = Duration::from_micros(200);

impl Stream {
    /// Connects, blocking for at most `patience` and as long for the handshake.
    pub(super) fn connect(target: &Target, patience: Duration) -> Result<Self, String> {
        let address = target.address;
        let explain = |error: io::Error| {
            if error.kind() == ErrorKind::ConnectionRefused {
                format!(
                    "there is no listener at {address}: is the server running (jobcentre serve)?"
                )
            } else {
                format!("cannot connect to {address}: {error}")
            }
        };
        let stream = std::net::TcpStream::connect_timeout(&address, patience).map_err(explain)?;
        stream.set_nodelay(true).map_err(explain)?;
        stream.set_nonblocking(true).map_err(explain)?;
        let stream = TcpStream::from_std(stream);
        let Some((host, trust)) = &target.tls else { return Ok(Self::Plain(stream)) };
        let no_tls = |why: String| format!("no TLS with {address}: {why}");
        let mut tls = Tls::begin(stream, host, trust).map_err(no_tls)?;
        let start = Instant::now();
        while !tls.handshake().map_err(no_tls)? {
            if start.elapsed() > patience {
                return Err(no_tls("the handshake takes longer than --patience".to_owned()));
            }
            sleep(PAUSE);
        }
        Ok(Self::Tls(tls))
    }

    pub(super) fn tcp_mut(&mut self) -> &mut TcpStream {
        match self {
            Self::Plain(stream) => stream,
            Self::Tls(tls) => tls.tcp_mut(),
        }
    }

    /// One read, and whether more may be there without another event.
    #[inline]
    pub(super) fn read(&mut self, into: &mut [u8]) -> io::Result<(usize, bool)> {
        match self {
            Self::Plain(stream) => stream.read(into).map(|count| (count, count == into.len())),
            Self::Tls(tls) => {
                let count = tls.read(into)?;
                Ok((count, !tls.is_drained()))
            }
        }
    }

    /// One write: how many bytes of `output` are sent, and whether the socket takes more.
    /// `output` begins with what was not sent by the last call.
    #[inline]
    pub(super) fn write(&mut self, output: &[u8]) -> io::Result<(usize, bool)> {
        match self {
            Self::Plain(stream) => stream.write(output).map(|count| (count, count == output.len())),
            Self::Tls(tls) => tls.write(output),
        }
    }

    /// Whether the server has neither closed the connection nor sent anything.
    pub(super) fn is_quiet(&mut self) -> bool {
        match self.read(&mut [0]) {
            Ok(_) => false,
            Err(error) => error.kind() == ErrorKind::WouldBlock,
        }
    }
}

/// A stream that blocks, for at most `patience` in each call.
pub(super) struct BlockingStream<'a> {
    pub(super) stream: &'a mut Stream,
    pub(super) patience: Duration,
}

impl BlockingStream<'_> {
    fn attempt(
        &mut self,
        mut call: impl FnMut(&mut Stream) -> io::Result<usize>,
    ) -> io::Result<usize> {
        let start = Instant::now();
        loop {
            match call(self.stream) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                result => return result,
            }
            if start.elapsed() > self.patience {
                return Err(ErrorKind::TimedOut.into());
            }
            sleep(PAUSE);
        }
    }
}

impl Read for BlockingStream<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.attempt(|stream| stream.read(into).map(|(count, _)| count))
    }
}

impl Write for BlockingStream<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.attempt(|stream| match stream.write(bytes)? {
            (0, false) => Err(ErrorKind::WouldBlock.into()),
            (count, _) => Ok(count),
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
