//! A listening socket that survives running out of file descriptors.
//!
//! With edge-triggered events a listener is told once that connections wait. If accepting has to
//! stop before all of them are taken, the edge is lost: so it stays ready, and rests until a
//! connection is closed or a short time has passed.

use crate::base::limits::{ACCEPT_RETRY_DELAY, LISTEN_BACKLOG};
use crate::base::time::{Mono, Now};
use crate::model::driver::Protocol;
use mio::net::{TcpListener, TcpStream};
use mio::{Interest, Registry, Token};
use socket2::{Domain, SockAddr, Socket, TcpKeepalive, Type};
use std::error::Error;
use std::fmt;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::time::Duration;
use tracing::warn;

/// A peer that has vanished without a word is noticed after about `IDLE + RETRIES * INTERVAL`.
const KEEPALIVE_IDLE: Duration = Duration::from_mins(1);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
const KEEPALIVE_RETRIES: u32 = 6;

/// What came of trying to accept.
pub(super) enum Accepted {
    Connection(TcpStream),
    TryAgain,
    NoMore,
}

/// Lets the system probe whether the peer of a connection still lives.
pub(super) fn enable_keepalive(socket: &Socket) -> io::Result<()> {
    let probes = TcpKeepalive::new()
        .with_time(KEEPALIVE_IDLE)
        .with_interval(KEEPALIVE_INTERVAL)
        .with_retries(KEEPALIVE_RETRIES);
    socket.set_tcp_keepalive(&probes)
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// Nobody is known to wait.
    Idle,
    /// Somebody may wait.
    Ready,
    /// Somebody waits, but the system has no resources for another connection before then.
    Backoff(Mono),
}

/// One protocol's listening socket.
#[derive(Debug)]
pub(super) struct Listener {
    socket: TcpListener,
    address: SocketAddr,
    protocol: Protocol,
    state: State,
    /// When running out of resources was last logged.
    warned: Option<Mono>,
}

/// Why a protocol is not open.
#[derive(Debug)]
pub struct CannotListen {
    /// The protocol.
    pub protocol: Protocol,
    /// Where it was to be.
    pub address: SocketAddr,
    /// What the system says.
    pub error: io::Error,
}

impl fmt::Display for CannotListen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { protocol, address, error } = self;
        write!(f, "cannot listen on {address} (protocol {}): {error}", protocol.name())
    }
}

impl Error for CannotListen {}

/// Running out of resources is logged at most this often.
const WARN_EVERY: Duration = Duration::from_secs(10);

impl Listener {
    /// Binds `address`. Accepted connections inherit what is set here: no delay for small writes,
    /// and probes that find out vanished peers.
    pub(super) fn bind(protocol: Protocol, address: SocketAddr) -> io::Result<Self> {
        let bound = || -> io::Result<TcpListener> {
            let socket = Socket::new(
                Domain::for_address(address),
                Type::STREAM,
                Some(socket2::Protocol::TCP),
            )?;
            socket.set_reuse_address(true)?;
            socket.set_nonblocking(true)?;
            socket.set_tcp_nodelay(true)?;
            enable_keepalive(&socket)?;
            socket.bind(&SockAddr::from(address))?;
            socket.listen(LISTEN_BACKLOG)?;
            Ok(TcpListener::from_std(socket.into()))
        };
        let explain = |error: io::Error| {
            io::Error::new(error.kind(), CannotListen { protocol, address, error })
        };
        let socket = bound().map_err(explain)?;
        let address = socket.local_addr().map_err(explain)?;
        Ok(Self { socket, address, protocol, state: State::Idle, warned: None })
    }

    pub(super) fn register(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        registry.register(&mut self.socket, token, Interest::READABLE)
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(super) fn protocol(&self) -> Protocol {
        self.protocol
    }

    pub(super) fn set_ready(&mut self) {
        if let State::Idle = self.state {
            self.state = State::Ready;
        }
    }

    pub(super) fn is_ready(&self) -> bool {
        matches!(self.state, State::Ready)
    }

    pub(super) fn rests_until(&self) -> Option<Mono> {
        match self.state {
            State::Backoff(until) => Some(until),
            State::Idle | State::Ready => None,
        }
    }

    /// A connection was closed: there may be resources again.
    pub(super) fn wake(&mut self) {
        if let State::Backoff(_) = self.state {
            self.state = State::Ready;
        }
    }

    pub(super) fn accept(&mut self, now: Now) -> Accepted {
        match self.state {
            State::Idle => return Accepted::NoMore,
            State::Backoff(until) if now.mono < until => return Accepted::NoMore,
            State::Ready | State::Backoff(_) => {}
        }
        match self.socket.accept() {
            Ok((stream, _)) => {
                self.state = State::Ready;
                Accepted::Connection(stream)
            }
            Err(error) => self.handle_error(&error, now),
        }
    }

    fn handle_error(&mut self, error: &io::Error, now: Now) -> Accepted {
        match error.kind() {
            ErrorKind::WouldBlock => {
                self.state = State::Idle;
                Accepted::NoMore
            }
            // The peer gave up before it was its turn.
            ErrorKind::ConnectionAborted | ErrorKind::Interrupted => Accepted::TryAgain,
            _ => {
                if self.warned.is_none_or(|at| now.mono >= at.after(WARN_EVERY)) {
                    let protocol = self.protocol.name();
                    warn!(protocol, %error, "cannot accept a connection: trying again shortly");
                    self.warned = Some(now.mono);
                }
                self.state = State::Backoff(now.mono.after(ACCEPT_RETRY_DELAY));
                Accepted::NoMore
            }
        }
    }
}
