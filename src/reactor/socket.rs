//! Sockets of connections, by the core's own keys.

use super::stdio::Stdio;
use super::tls::Tls;
use crate::base::time::Mono;
use crate::model::id::ClientId;
use mio::Token;
use mio::net::TcpStream;
use std::io::{self, Read};
use std::net::{Shutdown, SocketAddr};

/// What bytes travel over.
#[derive(Debug)]
pub(super) enum Stream {
    /// The bytes as they are: all accepted connections.
    Plain(TcpStream),
    /// Encrypted: some outgoing ones.
    Tls(Box<Tls>),
    /// Stdin and stdout.
    Stdio(Box<Stdio>),
}

impl Stream {
    /// Who is at the other end, if that can be told.
    pub(super) fn peer(&self) -> Option<SocketAddr> {
        match self {
            Self::Plain(stream) => stream.peer_addr().ok(),
            Self::Tls(tls) => tls.tcp().peer_addr().ok(),
            Self::Stdio(_) => None,
        }
    }

    #[inline]
    pub(super) fn is_plain(&self) -> bool {
        matches!(self, Self::Plain(_))
    }

    pub(super) fn is_stdio(&self) -> bool {
        matches!(self, Self::Stdio(_))
    }

    #[inline]
    pub(super) fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(stream) => stream.read(into),
            Self::Tls(tls) => tls.read(into),
            Self::Stdio(stdio) => stdio.read(into),
        }
    }

    /// Whether there is something to be sent beside the core's output: reading may lead to it.
    #[inline]
    pub(super) fn wants_write(&self) -> bool {
        match self {
            Self::Plain(_) | Self::Stdio(_) => false,
            Self::Tls(tls) => tls.wants_write(),
        }
    }

    /// Tells the peer that nothing more will be sent. Of an encrypted connection this may be left
    /// to be written.
    pub(super) fn shut_down(&mut self) {
        match self {
            Self::Plain(stream) => {
                // If it fails the connection is gone, and the next read says so.
                let _ = shut_down(stream);
            }
            Self::Tls(tls) => tls.send_close_notify(),
            // It goes with the process.
            Self::Stdio(_) => {}
        }
    }
}

/// Tells the peer that nothing more will be sent.
pub(super) fn shut_down(stream: &TcpStream) -> io::Result<()> {
    stream.shutdown(Shutdown::Write)
}

/// One socket, and what is known of its readiness.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a fact of its own, none excludes another"
)]
#[derive(Debug)]
pub(super) struct Socket {
    pub(super) stream: Stream,
    /// A read may give something.
    pub(super) readable: bool,
    /// A write may take something.
    pub(super) writable: bool,
    /// The peer has shut down its sending side, or the connection is broken.
    pub(super) hung_up: bool,
    /// All that the peer has sent is read, and there will be no more.
    pub(super) ended: bool,
    /// It is on the run list.
    pub(super) queued: bool,
    /// When something was read last.
    pub(super) heard: Mono,
    /// It was not accepted.
    pub(super) outgoing: bool,
}

impl Socket {
    /// A fresh connection: it can surely be written, and reading will be announced.
    pub(super) fn new(stream: TcpStream, now: Mono) -> Self {
        let stream = Stream::Plain(stream);
        Self {
            stream,
            readable: false,
            writable: true,
            hung_up: false,
            ended: false,
            queued: false,
            heard: now,
            outgoing: false,
        }
    }

    /// A connection whose events went to a dial before: whatever there is to read has been
    /// announced already.
    pub(super) fn connected(stream: Stream, hung_up: bool) -> Self {
        Self {
            stream,
            readable: true,
            writable: true,
            hung_up,
            ended: false,
            queued: false,
            heard: Mono::default(),
            outgoing: true,
        }
    }
}

/// The sockets of all connections, placed as the core places them.
#[derive(Debug, Default)]
pub(super) struct Sockets {
    places: Vec<Option<(u32, Socket)>>,
}

impl Sockets {
    pub(super) fn insert(&mut self, client: ClientId, socket: Socket) {
        let index = client.index as usize;
        if index >= self.places.len() {
            self.places.resize_with(index + 1, || None);
        }
        self.places[index] = Some((client.generation, socket));
    }

    #[inline]
    pub(super) fn get_mut(&mut self, client: ClientId) -> Option<&mut Socket> {
        match self.places.get_mut(client.index as usize) {
            Some(Some((generation, socket))) if *generation == client.generation => Some(socket),
            _ => None,
        }
    }

    /// Whether the place of a client is free.
    pub(super) fn has_room(&self, client: ClientId) -> bool {
        self.places.get(client.index as usize).is_none_or(Option::is_none)
    }

    /// Closes a socket.
    pub(super) fn remove(&mut self, client: ClientId) {
        drop(self.take(client));
    }

    /// A socket, to be closed otherwise.
    pub(super) fn take(&mut self, client: ClientId) -> Option<Socket> {
        self.get_mut(client)?;
        Some(self.places[client.index as usize].take()?.1)
    }

    /// All clients that have a socket.
    pub(super) fn clients(&self) -> Vec<ClientId> {
        let client = |(index, place): (u32, &Option<(u32, Socket)>)| {
            place.as_ref().map(|&(generation, _)| ClientId { index, generation })
        };
        (0..).zip(&self.places).filter_map(client).collect()
    }
}

/// The token under which a client's socket is registered: its key, packed.
pub(super) fn token(client: ClientId) -> Token {
    Token((client.generation as usize) << 32 | client.index as usize)
}

/// The client of a token.
#[expect(clippy::cast_possible_truncation, reason = "the two halves of a packed key")]
pub(super) fn client(token: Token) -> ClientId {
    ClientId { index: token.0 as u32, generation: (token.0 >> 32) as u32 }
}

const _: () = assert!(usize::BITS == 64, "a token packs two 32-bit numbers");
