//! Sockets of connections, by client id.

use super::stdio::Stdio;
use super::tls::Tls;
use crate::base::limits::{READ_BUDGET_BYTES, READ_BUDGET_MIN_BYTES};
use crate::base::time::Mono;
use crate::model::id::ClientId;
use mio::net::TcpStream;
use mio::{Interest, Registry, Token};
use std::io::{self, Read};
use std::net::{Shutdown, SocketAddr};

/// Doublings of the smallest read budget that come to the largest one.
const BUDGET_DOUBLINGS_MAX: u8 = 6;

const _: () = assert!(READ_BUDGET_MIN_BYTES << BUDGET_DOUBLINGS_MAX >= READ_BUDGET_BYTES);

/// The byte stream of a connection.
#[derive(Debug)]
pub(super) enum Stream {
    /// TCP: accepted connections, and outbound ones without TLS.
    Plain(TcpStream),
    /// Accepted from a socket that is a file: the calls are those of TCP.
    Unix(TcpStream),
    /// TCP with TLS, after its handshake.
    Tls(Box<Tls>),
    /// Stdin and stdout.
    Stdio(Box<Stdio>),
}

impl Stream {
    /// Address of the peer for people, if it has one.
    pub(super) fn peer(&self) -> Option<String> {
        let address = match self {
            Self::Plain(stream) => stream.peer_addr().ok(),
            Self::Tls(tls) => tls.tcp().peer_addr().ok(),
            Self::Unix(_) => return Some("unix".to_owned()),
            Self::Stdio(_) => None,
        };
        address.map(|address: SocketAddr| address.to_string())
    }

    /// The socket that is registered, and closed slowly, if it is one.
    pub(super) fn into_socket(self) -> Option<TcpStream> {
        match self {
            Self::Plain(stream) | Self::Unix(stream) => Some(stream),
            Self::Tls(tls) => Some(tls.into_tcp()),
            Self::Stdio(_) => None,
        }
    }

    /// Registers an accepted connection.
    pub(super) fn register(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        let interest = Interest::READABLE | Interest::WRITABLE;
        match self {
            Self::Plain(stream) | Self::Unix(stream) => registry.register(stream, token, interest),
            // Its handshake had another token.
            Self::Tls(tls) => registry.reregister(tls.tcp_mut(), token, interest),
            // No listener accepts it: a turn reads and writes without being told to.
            Self::Stdio(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// Whether a read of less than what was asked for has taken all that was there.
    #[inline]
    pub(super) fn is_drained(&self) -> bool {
        match self {
            Self::Plain(_) => true,
            Self::Tls(tls) => tls.is_drained(),
            Self::Unix(_) | Self::Stdio(_) => false,
        }
    }

    pub(super) fn is_stdio(&self) -> bool {
        matches!(self, Self::Stdio(_))
    }

    #[inline]
    pub(super) fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(stream) | Self::Unix(stream) => stream.read(into),
            Self::Tls(tls) => tls.read(into),
            Self::Stdio(stdio) => stdio.read(into),
        }
    }

    /// Whether there is output beside the core's: TLS may have to answer what it has read.
    #[inline]
    pub(super) fn wants_write(&self) -> bool {
        match self {
            Self::Plain(_) | Self::Unix(_) | Self::Stdio(_) => false,
            Self::Tls(tls) => tls.wants_write(),
        }
    }

    /// Shuts down the sending side. For TLS, `close_notify` may still have to be flushed.
    pub(super) fn shut_down(&mut self) {
        match self {
            Self::Plain(stream) | Self::Unix(stream) => {
                // If it fails the connection is lost, and the next read fails too.
                let _ = shut_down(stream);
            }
            Self::Tls(tls) => tls.send_close_notify(),
            // Closed with the process.
            Self::Stdio(_) => {}
        }
    }
}

/// Shuts down the sending side.
pub(super) fn shut_down(stream: &TcpStream) -> io::Result<()> {
    stream.shutdown(Shutdown::Write)
}

/// A socket and its readiness.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a fact of its own, none excludes another"
)]
#[derive(Debug)]
pub(super) struct Socket {
    pub(super) stream: Stream,
    /// No read has returned `WouldBlock` since the last event.
    pub(super) readable: bool,
    /// A write may take something.
    pub(super) writable: bool,
    /// The peer has shut down its sending side, or the connection is broken.
    pub(super) hung_up: bool,
    /// The end of the stream was read.
    pub(super) ended: bool,
    /// The connection was reset after that.
    pub(super) lost: bool,
    /// On the run queue.
    pub(super) queued: bool,
    /// The last read was cut off by its budget.
    pub(super) busy: bool,
    /// It is in a queue of writes that were left over.
    pub(super) unwritten: bool,
    /// How often the smallest read budget was doubled, as its requests are longer than reads.
    pub(super) budget_doublings: u8,
    /// Time of the last read that returned data.
    pub(super) last_read: Mono,
    /// Opened by this server.
    pub(super) outbound: bool,
}

impl Socket {
    /// An accepted connection: writable, and an event follows when it becomes readable.
    pub(super) fn new(stream: Stream, now: Mono) -> Self {
        Self {
            stream,
            readable: false,
            writable: true,
            hung_up: false,
            ended: false,
            lost: false,
            queued: false,
            busy: false,
            unwritten: false,
            budget_doublings: 0,
            last_read: now,
            outbound: false,
        }
    }

    /// What is read at once if others' input leaves this share of a pass.
    pub(super) fn read_budget(&self, share: usize) -> usize {
        if self.budget_doublings == 0 {
            return share;
        }
        share.max(READ_BUDGET_MIN_BYTES << self.budget_doublings).min(READ_BUDGET_BYTES)
    }

    /// Adapts the budget to the requests after a read that was cut off: doubled when it was part of
    /// one longer request, whose bytes cost little, and the smallest again when it was of others.
    pub(super) fn adapt_budget(&mut self, read: usize, unconsumed: usize) {
        if unconsumed >= read {
            self.budget_doublings = (self.budget_doublings + 1).min(BUDGET_DOUBLINGS_MAX);
        } else if unconsumed < read / 8 {
            self.budget_doublings = 0;
        }
    }

    /// A connection whose events went to the dialer before: it counts as readable, since its edge
    /// may have passed.
    pub(super) fn connected(stream: Stream, hung_up: bool) -> Self {
        Self {
            stream,
            readable: true,
            writable: true,
            hung_up,
            ended: false,
            lost: false,
            queued: false,
            busy: false,
            unwritten: false,
            budget_doublings: 0,
            last_read: Mono::default(),
            outbound: true,
        }
    }
}

/// The sockets of all connections, in a table by the index of the client id.
#[derive(Debug, Default)]
pub(super) struct Sockets {
    slots: Vec<Option<(u32, Socket)>>,
}

impl Sockets {
    pub(super) fn insert(&mut self, client: ClientId, socket: Socket) {
        let index = client.index as usize;
        if index >= self.slots.len() {
            self.slots.resize_with(index + 1, || None);
        }
        self.slots[index] = Some((client.generation, socket));
    }

    #[inline]
    pub(super) fn get_mut(&mut self, client: ClientId) -> Option<&mut Socket> {
        match self.slots.get_mut(client.index as usize) {
            Some(Some((generation, socket))) if *generation == client.generation => Some(socket),
            _ => None,
        }
    }

    /// Whether the slot of a client is free.
    pub(super) fn is_free(&self, client: ClientId) -> bool {
        self.slots.get(client.index as usize).is_none_or(Option::is_none)
    }

    /// Removes and closes a socket.
    pub(super) fn remove(&mut self, client: ClientId) {
        drop(self.take(client));
    }

    /// Removes a socket without closing it.
    pub(super) fn take(&mut self, client: ClientId) -> Option<Socket> {
        self.get_mut(client)?;
        Some(self.slots[client.index as usize].take()?.1)
    }

    /// All clients that have a socket. O(slots).
    pub(super) fn clients(&self) -> Vec<ClientId> {
        let client = |(index, slot): (u32, &Option<(u32, Socket)>)| {
            slot.as_ref().map(|&(generation, _)| ClientId { index, generation })
        };
        (0..).zip(&self.slots).filter_map(client).collect()
    }
}

/// The token of a client's socket: generation in the high half, index in the low half.
pub(super) fn token(client: ClientId) -> Token {
    Token((client.generation as usize) << 32 | client.index as usize)
}

/// The client of a token.
#[expect(clippy::cast_possible_truncation, reason = "the two halves of a packed key")]
pub(super) fn client(token: Token) -> ClientId {
    ClientId { index: token.0 as u32, generation: (token.0 >> 32) as u32 }
}

const _: () = assert!(usize::BITS == 64, "a token packs two 32-bit numbers");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_become_longer_with_the_requests_and_short_again() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let mut socket = Socket::new(Stream::Plain(stream), Mono::default());
        let share = READ_BUDGET_MIN_BYTES;
        let (mut unconsumed, mut reads) = (0, 0);
        while socket.read_budget(share) < READ_BUDGET_BYTES {
            let read = socket.read_budget(share);
            unconsumed += read;
            socket.adapt_budget(read, unconsumed);
            reads += 1;
        }
        assert_eq!(reads, BUDGET_DOUBLINGS_MAX, "each is as long as all before it");
        // Behind the long request another long one begins, or many short ones follow.
        socket.adapt_budget(READ_BUDGET_BYTES, READ_BUDGET_BYTES / 4);
        assert_eq!(socket.read_budget(share), READ_BUDGET_BYTES);
        socket.adapt_budget(READ_BUDGET_BYTES, 100);
        assert_eq!(socket.read_budget(share), share);
        assert_eq!(socket.read_budget(READ_BUDGET_BYTES), READ_BUDGET_BYTES);
    }
}
