//! A listening socket, of TCP or a file, that survives running out of file descriptors.
//!
//! Events are edge-triggered: one event announces all waiting connections. If accepting stops
//! before all of them are accepted, no further event follows; so the listener stays in backoff
//! until a connection is closed or [`ACCEPT_RETRY_DELAY`] has passed.

use super::listen_address::ListenAddress;
use super::passed_sockets::PassedSocket;
use super::socket::Stream;
use super::unix_socket::UnixSocketFile;
use crate::base::limits::{ACCEPT_RETRY_DELAY, LISTEN_BACKLOG};
use crate::base::time::{Mono, Now};
use crate::model::driver::Protocol;
use crate::model::peer::{Peer, PeerAddress};
use mio::net::TcpListener;
use mio::{Interest, Registry, Token};
use socket2::{Domain, SockAddr, Socket, TcpKeepalive, Type};
use std::error::Error;
use std::fmt;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use tracing::warn;

/// A peer that has vanished is detected after about `IDLE + RETRIES * INTERVAL`.
const KEEPALIVE_IDLE: Duration = Duration::from_mins(1);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
const KEEPALIVE_RETRIES: u32 = 6;

/// Result of one accept.
pub(super) enum Accepted {
    /// The stream, and what is known of the other end.
    Connection(Stream, Peer),
    TryAgain,
    NoMore,
}

/// The other end of a TCP connection.
fn peer_of(address: SocketAddr) -> Peer {
    let ip = match address.ip() {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => ip,
    };
    Peer {
        address: Some(PeerAddress(ip.octets())),
        port: address.port(),
        is_local: ip.to_canonical().is_loopback(),
        ..Peer::default()
    }
}

/// Enables TCP keep-alive probes.
pub(super) fn enable_keepalive(socket: &Socket) -> io::Result<()> {
    let probes = TcpKeepalive::new()
        .with_time(KEEPALIVE_IDLE)
        .with_interval(KEEPALIVE_INTERVAL)
        .with_retries(KEEPALIVE_RETRIES);
    socket.set_tcp_keepalive(&probes)
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// No connection is known to wait.
    Idle,
    /// A connection may wait.
    Ready,
    /// A connection waits, but resources were short; the next attempt is at this time.
    Backoff(Mono),
}

#[derive(Debug)]
enum ListenSocket {
    Tcp(TcpListener),
    Unix(UnixSocketFile),
}

/// One protocol's listening socket.
#[derive(Debug)]
pub(super) struct Listener {
    socket: ListenSocket,
    address: ListenAddress,
    protocol: Protocol,
    state: State,
    /// When a shortage of resources was logged last.
    warned: Option<Mono>,
}

/// A listener could not be bound.
#[derive(Debug)]
pub struct CannotListen {
    /// Protocol of the listener.
    pub protocol: Protocol,
    /// Configured address.
    pub address: ListenAddress,
    /// Error of `socket`, `bind`, `listen` or, of a file, of setting its mode or group.
    pub error: io::Error,
}

impl fmt::Display for CannotListen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { protocol, address, error } = self;
        write!(f, "cannot listen on {address} (protocol {}): {error}", protocol.name())
    }
}

impl Error for CannotListen {}

/// Binds and listens. Returns the address with the actual port.
fn bind_tcp(address: SocketAddr) -> io::Result<(TcpListener, SocketAddr)> {
    let domain = Domain::for_address(address);
    let socket = Socket::new(domain, Type::STREAM, Some(socket2::Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.set_tcp_nodelay(true)?;
    enable_keepalive(&socket)?;
    socket.bind(&SockAddr::from(address))?;
    socket.listen(LISTEN_BACKLOG)?;
    let socket = TcpListener::from_std(socket.into());
    let address = socket.local_addr()?;
    Ok((socket, address))
}

/// Shortest interval between two log lines about a shortage of resources.
const WARN_EVERY: Duration = Duration::from_secs(10);

impl Listener {
    /// Binds `address`. Accepted connections inherit `TCP_NODELAY` and keep-alive.
    pub(super) fn bind(protocol: Protocol, address: &ListenAddress) -> io::Result<Self> {
        let bound = match address {
            ListenAddress::Tcp(address) => bind_tcp(*address)
                .map(|(socket, address)| (ListenSocket::Tcp(socket), ListenAddress::Tcp(address))),
            ListenAddress::Tls(address) => bind_tcp(*address)
                .map(|(socket, address)| (ListenSocket::Tcp(socket), ListenAddress::Tls(address))),
            ListenAddress::Unix(file) => {
                UnixSocketFile::bind(file).map(|it| (ListenSocket::Unix(it), address.clone()))
            }
            ListenAddress::Passed { .. } => Err(ErrorKind::NotFound.into()),
        };
        let (socket, address) = bound.map_err(|error| {
            let address = address.clone();
            io::Error::new(error.kind(), CannotListen { protocol, address, error })
        })?;
        Ok(Self { socket, address, protocol, state: State::Idle, warned: None })
    }

    /// Listens on a socket that listens already, at this address.
    pub(super) fn on(
        protocol: Protocol,
        address: &ListenAddress,
        socket: &PassedSocket,
    ) -> io::Result<Self> {
        let socket = socket.try_clone()?;
        let socket = match address {
            ListenAddress::Tcp(_) | ListenAddress::Tls(_) => {
                socket.set_tcp_nodelay(true)?;
                enable_keepalive(&socket)?;
                ListenSocket::Tcp(TcpListener::from_std(socket.into()))
            }
            ListenAddress::Unix(_) | ListenAddress::Passed { .. } => {
                ListenSocket::Unix(UnixSocketFile::of_other(socket))
            }
        };
        let address = address.clone();
        Ok(Self { socket, address, protocol, state: State::Idle, warned: None })
    }

    pub(super) fn register(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        match &mut self.socket {
            ListenSocket::Tcp(socket) => registry.register(socket, token, Interest::READABLE),
            ListenSocket::Unix(file) => {
                registry.register(&mut file.socket, token, Interest::READABLE)
            }
        }
    }

    pub(super) fn deregister(&mut self, registry: &Registry) -> io::Result<()> {
        match &mut self.socket {
            ListenSocket::Tcp(socket) => registry.deregister(socket),
            ListenSocket::Unix(file) => registry.deregister(&mut file.socket),
        }
    }

    pub(super) fn address(&self) -> &ListenAddress {
        &self.address
    }

    pub(super) fn protocol(&self) -> Protocol {
        self.protocol
    }

    /// Whether its connections begin with a TLS handshake.
    pub(super) fn is_tls(&self) -> bool {
        matches!(self.address, ListenAddress::Tls(_))
    }

    pub(super) fn set_ready(&mut self) {
        if let State::Idle = self.state {
            self.state = State::Ready;
        }
    }

    pub(super) fn is_ready(&self) -> bool {
        matches!(self.state, State::Ready)
    }

    pub(super) fn retry_at(&self) -> Option<Mono> {
        match self.state {
            State::Backoff(until) => Some(until),
            State::Idle | State::Ready => None,
        }
    }

    /// Ends the backoff, because a connection was closed and its resources are free.
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
        let accepted = match &self.socket {
            ListenSocket::Tcp(socket) => {
                socket.accept().map(|(stream, peer)| (Stream::Plain(stream), peer_of(peer)))
            }
            ListenSocket::Unix(file) => {
                file.accept().map(|(stream, peer)| (Stream::Unix(stream), peer.into_peer()))
            }
        };
        match accepted {
            Ok((stream, peer)) => {
                self.state = State::Ready;
                Accepted::Connection(stream, peer)
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
            // The peer closed the connection before it was accepted.
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
