//! Two connections whose bytes go from each to the other, without a look into them. The streams are
//! a parameter: tests have others.
//!
//! A direction keeps what its sink did not take, and reads no more until that is gone: so a slow
//! reader costs one read at most, and its sender is held back by its own socket. Invariants: bytes
//! leave in the order in which they came; the end of a source is passed on once, behind its last
//! byte.

use std::io::{self, ErrorKind, Read, Write};

/// A stream of bytes in both directions, each of which ends by itself.
pub(super) trait Stream: Read + Write {
    /// Ends the sending side.
    fn end_output(&mut self) -> io::Result<()>;
}

/// One of the two connections, and its readiness.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a fact of its own, none excludes another"
)]
#[derive(Debug)]
pub(super) struct End<S> {
    pub(super) stream: S,
    /// No read has returned `WouldBlock` since the last event.
    pub(super) readable: bool,
    /// A write may take something.
    pub(super) writable: bool,
    /// The peer has shut down its sending side, or the connection is broken. No further event tells
    /// of that, so reads go on to the end.
    pub(super) hung_up: bool,
    /// A short read does not mean that nothing more is there.
    pub(super) has_short_reads: bool,
    /// The end of its bytes was read.
    ended: bool,
}

/// What a read has returned.
enum Received {
    Bytes(usize),
    /// Nothing is there now, or nothing more will be.
    Nothing,
    /// The connection was reset.
    Lost,
}

impl<S: Stream> End<S> {
    pub(super) fn new(stream: S, readable: bool) -> Self {
        Self {
            stream,
            readable,
            writable: true,
            hung_up: false,
            has_short_reads: false,
            ended: false,
        }
    }

    fn receive(&mut self, into: &mut [u8]) -> Received {
        match self.stream.read(into) {
            Ok(0) => {
                self.ended = true;
                self.readable = false;
                Received::Nothing
            }
            Ok(count) => {
                self.readable = count == into.len() || self.hung_up || self.has_short_reads;
                Received::Bytes(count)
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                self.readable = false;
                Received::Nothing
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => Received::Nothing,
            Err(_) => Received::Lost,
        }
    }

    /// Sends as much as is taken now. `None`: it takes no more bytes at all.
    fn send(&mut self, bytes: &[u8]) -> Option<usize> {
        loop {
            match self.stream.write(bytes) {
                Ok(count) => {
                    self.writable = count == bytes.len();
                    return Some(count);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.writable = false;
                    return Some(0);
                }
                Err(_) => {
                    // Whether it was reset is what its next reads find.
                    self.readable = !self.ended;
                    self.hung_up = true;
                    return None;
                }
            }
        }
    }
}

/// One direction.
#[expect(clippy::struct_excessive_bools, reason = "as above")]
#[derive(Debug, Default)]
struct Flow {
    /// What was read and not taken yet, from `sent` on.
    pending: Vec<u8>,
    sent: usize,
    /// Nothing more is passed on: the source has ended, or this server stops.
    is_closed: bool,
    /// The next read is the last one whose bytes are passed on.
    is_last: bool,
    /// The sink takes nothing more: bytes are read and discarded.
    is_broken: bool,
    /// The end was passed on.
    is_done: bool,
    /// Bytes that were read and passed on, or are pending.
    bytes: u64,
}

impl Flow {
    fn is_flushed(&self) -> bool {
        self.sent == self.pending.len()
    }

    fn send<S: Stream>(&mut self, to: &mut End<S>) {
        if self.is_flushed() || !to.writable {
            return;
        }
        match to.send(&self.pending[self.sent..]) {
            Some(count) => self.sent += count,
            None => self.break_off(),
        }
        if self.is_flushed() {
            // One that waits for nothing takes no memory.
            self.pending = Vec::new();
            self.sent = 0;
        }
    }

    fn break_off(&mut self) {
        self.is_broken = true;
        self.pending = Vec::new();
        self.sent = 0;
    }

    /// Passes on what was read just now.
    fn pass_on<S: Stream>(&mut self, bytes: &[u8], to: &mut End<S>) {
        if self.is_broken || self.is_closed {
            return;
        }
        self.bytes += bytes.len() as u64;
        let sent = if to.writable { to.send(bytes) } else { Some(0) };
        match sent {
            Some(count) => self.pending.extend_from_slice(&bytes[count..]),
            None => self.break_off(),
        }
    }

    /// Sends what is pending, and then reads once at most. False: the source was reset.
    fn advance<S: Stream>(
        &mut self,
        from: &mut End<S>,
        to: &mut End<S>,
        scratch: &mut [u8],
    ) -> bool {
        self.send(to);
        if self.is_flushed() && from.readable && !from.ended {
            match from.receive(scratch) {
                Received::Bytes(count) => self.pass_on(&scratch[..count], to),
                Received::Nothing => {}
                Received::Lost => return false,
            }
            self.is_closed |= self.is_last;
        }
        self.is_closed |= from.ended;
        if self.is_closed && self.is_flushed() && !self.is_done {
            self.is_done = true;
            // If it fails the connection is lost, as its reads find.
            let _ = to.stream.end_output();
        }
        true
    }

    /// Whether something can be done without another event.
    fn is_due<S: Stream>(&self, from: &End<S>, to: &End<S>) -> bool {
        if self.is_flushed() { from.readable && !from.ended } else { to.writable }
    }
}

/// What comes next for two connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Nothing until an event.
    Waits,
    /// There is more to do.
    IsDue,
    /// Both are to be closed.
    Ended,
    /// The leader's was reset: so is the client's.
    ResetClient,
    /// The other way round.
    ResetLeader,
}

/// The two directions.
#[derive(Debug, Default)]
pub(super) struct Flows {
    to_leader: Flow,
    to_client: Flow,
}

impl Flows {
    /// At most one read, and the writes that belong to it, in each direction.
    pub(super) fn advance<S: Stream>(
        &mut self,
        client: &mut End<S>,
        leader: &mut End<S>,
        scratch: &mut [u8],
    ) -> Next {
        // Answers first: they make room for requests.
        if !self.to_client.advance(leader, client, scratch) {
            return Next::ResetClient;
        }
        if !self.to_leader.advance(client, leader, scratch) {
            return Next::ResetLeader;
        }
        let (out, back) = (&self.to_leader, &self.to_client);
        let is_over = out.is_done && (back.is_broken || (back.is_done && client.ended));
        if is_over {
            Next::Ended
        } else if out.is_due(client, leader) || back.is_due(leader, client) {
            Next::IsDue
        } else {
            Next::Waits
        }
    }

    /// The client is read once more, and then its input counts as ended.
    pub(super) fn stop<S: Stream>(&mut self, client: &mut End<S>) {
        self.to_leader.is_last = true;
        client.readable = true;
    }

    /// Whether the leader has said its last word to the client, so that only the client can go on.
    pub(super) fn is_answered(&self) -> bool {
        self.to_client.is_done
    }

    /// Bytes passed on so far to the leader, and to the client.
    pub(super) fn bytes(&self) -> (u64, u64) {
        (self.to_leader.bytes, self.to_client.bytes)
    }
}

#[cfg(test)]
mod tests;
