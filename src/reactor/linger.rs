//! Connections that the core is done with, and their peers perhaps not.
//!
//! To close a socket with unread input makes the system reset the connection, and what was sent and
//! has not arrived is lost. So a connection whose peer has not ended is not closed at once: the
//! sending side is shut down, and what still comes is read and thrown away until the peer ends, has
//! been silent for [`LINGER_IDLE_TIMEOUT`], or [`LINGER_MAX`] is over. Of another server that was
//! called not more is read than of its answer: there is nothing left to be told to it.
//!
//! Invariants: what has been silent for long already is closed at once; each has one deadline, at
//! or before the moment at which it is closed at the latest; except in a stop there are not more
//! than `most`, so that descriptors are not used up.

use super::Reactor;
use super::socket::{Socket, Stream};
use crate::base::limits::{
    LINGER_IDLE_TIMEOUT, LINGER_MAX, LINGERING_MAX, WORKER_ANSWER_MAX_BYTES,
};
use crate::base::time::Mono;
use crate::base::timer_queue::{TimerId, TimerQueue};
use crate::model::driver::Core;
use crate::model::id::ClientId;
use mio::net::TcpStream;
use std::collections::HashMap;
use std::io::{ErrorKind, Read};

/// All connections that are closed for the core only.
#[derive(Debug)]
pub(super) struct Lingering {
    sockets: HashMap<ClientId, Linger>,
    /// Those that may have something to read.
    ready: Vec<ClientId>,
    deadlines: TimerQueue<ClientId>,
    most: usize,
    /// Bytes that were read and thrown away.
    discarded: u64,
    /// How many were closed although their peers went on sending.
    cut: usize,
}

#[derive(Debug)]
struct Linger {
    stream: TcpStream,
    /// When something came last.
    heard: Mono,
    /// When it is closed in any case.
    until: Mono,
    timer: TimerId,
    /// How many bytes may still be thrown away.
    room: u64,
}

/// What came of reading.
enum Left {
    /// Nothing is there at the moment.
    Nothing,
    /// There may be more.
    More,
    /// The peer has ended, or is gone, or has said too much.
    Ended,
}

impl Default for Lingering {
    fn default() -> Self {
        Self {
            sockets: HashMap::new(),
            ready: Vec::new(),
            deadlines: TimerQueue::default(),
            most: LINGERING_MAX,
            discarded: 0,
            cut: 0,
        }
    }
}

impl Lingering {
    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.sockets.len()
    }

    /// How many were closed while their peers went on sending.
    pub(super) fn cut(&self) -> usize {
        self.cut
    }

    /// Bytes that were thrown away.
    pub(super) fn discarded(&self) -> u64 {
        self.discarded
    }

    /// Something has happened to the socket of this one, if it is one.
    pub(super) fn note(&mut self, client: ClientId) -> bool {
        let known = self.sockets.contains_key(&client);
        if known {
            self.ready.push(client);
        }
        known
    }

    pub(super) fn are_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// When the next one is to be looked at.
    pub(super) fn next(&self) -> Option<Mono> {
        self.deadlines.next()
    }

    /// A connection that nothing more is said on; `heard` is when something came in last. It stays
    /// at most until `end`, if there is one.
    fn begin(&mut self, client: ClientId, linger: Linger, scratch: &mut [u8], now: Mono) {
        let mut linger = linger;
        match self.read(&mut linger, scratch, now) {
            Left::Ended => return,
            Left::Nothing if linger.heard.after(LINGER_IDLE_TIMEOUT) <= now => return,
            Left::Nothing => {}
            Left::More => self.ready.push(client),
        }
        linger.timer = self.deadlines.arm(linger.closes_at(), client);
        self.sockets.insert(client, linger);
    }

    /// Closes that which would be closed next if there are more than may be.
    fn make_room(&mut self) {
        while self.sockets.len() >= self.most.max(1) {
            let Some((_, client)) = self.deadlines.pop_due(Mono(u64::MAX)) else { return };
            self.sockets.remove(&client);
        }
    }

    /// One read of each that has something, and an end to those whose time is over.
    pub(super) fn poll(&mut self, scratch: &mut [u8], now: Mono) {
        for client in std::mem::take(&mut self.ready) {
            let Some(mut linger) = self.sockets.remove(&client) else { continue };
            match self.read(&mut linger, scratch, now) {
                Left::Ended => {
                    self.deadlines.cancel(linger.timer);
                    continue;
                }
                Left::More => self.ready.push(client),
                Left::Nothing => {}
            }
            self.sockets.insert(client, linger);
        }
        while let Some((_, client)) = self.deadlines.pop_due(now) {
            let Some(linger) = self.sockets.get_mut(&client) else { continue };
            let at = linger.closes_at();
            if at <= now {
                self.cut += usize::from(linger.heard.after(LINGER_IDLE_TIMEOUT) > now);
                self.sockets.remove(&client);
            } else {
                linger.timer = self.deadlines.arm(at, client);
            }
        }
    }

    fn read(&mut self, linger: &mut Linger, scratch: &mut [u8], now: Mono) -> Left {
        match linger.stream.read(scratch) {
            Ok(0) => Left::Ended,
            Ok(count) => {
                self.discarded += count as u64;
                linger.heard = now;
                linger.room = linger.room.saturating_sub(count as u64);
                if linger.room > 0 { Left::More } else { Left::Ended }
            }
            Err(error) => match error.kind() {
                ErrorKind::WouldBlock => Left::Nothing,
                ErrorKind::Interrupted => Left::More,
                _ => Left::Ended,
            },
        }
    }
}

impl Linger {
    fn closes_at(&self) -> Mono {
        self.heard.after(LINGER_IDLE_TIMEOUT).min(self.until)
    }
}

impl<C: Core> Reactor<C> {
    /// Not more than so many connections stay open after the core is done with them.
    pub fn set_lingering_max(&mut self, most: usize) {
        self.lingering.most = most;
    }

    /// Closes the connection of a client that the core has forgotten, so that what was sent on it
    /// arrives.
    pub(super) fn let_go(&mut self, client: ClientId) {
        let Some(socket) = self.sockets.take(client) else { return };
        let Socket { stream, heard, ended, outgoing, .. } = socket;
        let stream = match stream {
            _ if ended => return,
            Stream::Plain(stream) => stream,
            Stream::Tls(tls) => tls.into_tcp(),
            Stream::Stdio(_) => return,
        };
        if super::socket::shut_down(&stream).is_err() {
            return;
        }
        let now = self.now.mono;
        let until = now.after(LINGER_MAX);
        let until = if let Some(stop) = &self.stop {
            until.min(stop.deadline)
        } else {
            self.lingering.make_room();
            until
        };
        let room = if outgoing { WORKER_ANSWER_MAX_BYTES } else { u64::MAX };
        let linger = Linger { stream, heard, until, timer: TimerId::NONE, room };
        self.lingering.begin(client, linger, &mut self.scratch, now);
    }

    /// Lets go on what only lingers.
    pub(super) fn linger(&mut self) {
        self.lingering.poll(&mut self.scratch, self.now.mono);
    }
}
