//! Lingering close: connections that the core has closed and whose peers may still send.
//!
//! Closing a socket with unread input makes the kernel reset the connection, and sent data that has
//! not arrived is lost. So a connection whose peer has not ended is not closed at once: its sending
//! side is shut down, and input is read and discarded until the peer ends, has been silent for
//! [`LINGER_IDLE_TIMEOUT`], or [`LINGER_MAX`] has passed. Of an outbound connection at most
//! [`WORKER_ANSWER_MAX_BYTES`] are read: no output is left that could be lost.
//!
//! Invariants: a connection that has been silent for [`LINGER_IDLE_TIMEOUT`] already is closed at
//! once; each has one timer, at or before its latest close; except in a shutdown there are at most
//! `max`, to bound descriptors.

use super::Reactor;
use super::socket::Socket;
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

/// All lingering connections.
#[derive(Debug)]
pub(super) struct Lingering {
    sockets: HashMap<ClientId, Linger>,
    /// Connections that may be readable.
    ready: Vec<ClientId>,
    deadlines: TimerQueue<ClientId>,
    max: usize,
    /// Bytes read and discarded, in total.
    discarded: u64,
    /// Connections closed while their peers still sent, in total.
    cut: usize,
}

#[derive(Debug)]
struct Linger {
    stream: TcpStream,
    /// When input was received last.
    last_read: Mono,
    /// When it is closed at the latest.
    until: Mono,
    timer: TimerId,
    /// Bytes that may still be read.
    budget: u64,
}

/// Result of a read.
enum ReadResult {
    WouldBlock,
    /// There may be more.
    More,
    /// End of stream, an error, or the budget is used up.
    Ended,
}

impl Default for Lingering {
    fn default() -> Self {
        Self {
            sockets: HashMap::new(),
            ready: Vec::new(),
            deadlines: TimerQueue::default(),
            max: LINGERING_MAX,
            discarded: 0,
            cut: 0,
        }
    }
}

impl Lingering {
    pub(super) fn len(&self) -> usize {
        self.sockets.len()
    }

    /// Connections closed while their peers still sent, in total.
    pub(super) fn cut(&self) -> usize {
        self.cut
    }

    /// Bytes read and discarded, in total.
    pub(super) fn discarded(&self) -> u64 {
        self.discarded
    }

    /// Records an event. False if no such connection lingers.
    pub(super) fn on_event(&mut self, client: ClientId) -> bool {
        let known = self.sockets.contains_key(&client);
        if known {
            self.ready.push(client);
        }
        known
    }

    pub(super) fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// When the next timer fires.
    pub(super) fn next(&self) -> Option<Mono> {
        self.deadlines.next()
    }

    /// Adds a connection whose sending side is shut down, unless it can be closed at once.
    fn begin(&mut self, client: ClientId, linger: Linger, scratch: &mut [u8], now: Mono) {
        let mut linger = linger;
        match self.read(&mut linger, scratch, now) {
            ReadResult::Ended => return,
            ReadResult::WouldBlock if linger.last_read.after(LINGER_IDLE_TIMEOUT) <= now => return,
            ReadResult::WouldBlock => {}
            ReadResult::More => self.ready.push(client),
        }
        linger.timer = self.deadlines.arm(linger.closes_at(), client);
        self.sockets.insert(client, linger);
    }

    /// Makes room for another one by closing those whose timers are next.
    fn evict(&mut self) {
        while self.sockets.len() >= self.max.max(1) {
            let Some((_, client)) = self.deadlines.pop_due(Mono(u64::MAX)) else { return };
            self.sockets.remove(&client);
        }
    }

    /// One read per ready connection; closes those whose deadline has passed.
    pub(super) fn poll(&mut self, scratch: &mut [u8], now: Mono) {
        for client in std::mem::take(&mut self.ready) {
            let Some(mut linger) = self.sockets.remove(&client) else { continue };
            match self.read(&mut linger, scratch, now) {
                ReadResult::Ended => {
                    self.deadlines.cancel(linger.timer);
                    continue;
                }
                ReadResult::More => self.ready.push(client),
                ReadResult::WouldBlock => {}
            }
            self.sockets.insert(client, linger);
        }
        while let Some((_, client)) = self.deadlines.pop_due(now) {
            let Some(linger) = self.sockets.get_mut(&client) else { continue };
            let at = linger.closes_at();
            if at <= now {
                self.cut += usize::from(linger.last_read.after(LINGER_IDLE_TIMEOUT) > now);
                self.sockets.remove(&client);
            } else {
                linger.timer = self.deadlines.arm(at, client);
            }
        }
    }

    fn read(&mut self, linger: &mut Linger, scratch: &mut [u8], now: Mono) -> ReadResult {
        match linger.stream.read(scratch) {
            Ok(0) => ReadResult::Ended,
            Ok(count) => {
                self.discarded += count as u64;
                linger.last_read = now;
                linger.budget = linger.budget.saturating_sub(count as u64);
                if linger.budget > 0 { ReadResult::More } else { ReadResult::Ended }
            }
            Err(error) => match error.kind() {
                ErrorKind::WouldBlock => ReadResult::WouldBlock,
                ErrorKind::Interrupted => ReadResult::More,
                _ => ReadResult::Ended,
            },
        }
    }
}

impl Linger {
    fn closes_at(&self) -> Mono {
        self.last_read.after(LINGER_IDLE_TIMEOUT).min(self.until)
    }
}

impl<C: Core> Reactor<C> {
    /// Sets how many connections may linger. Default: [`LINGERING_MAX`].
    pub fn set_lingering_max(&mut self, max: usize) {
        self.lingering.max = max;
    }

    /// Closes the connection of a client that has ended, so that the sent data arrives: it may
    /// linger.
    pub(super) fn close_lingering(&mut self, client: ClientId) {
        let Some(socket) = self.sockets.take(client) else { return };
        let Socket { stream, last_read, ended, outbound, .. } = socket;
        if ended {
            return;
        }
        let Some(stream) = stream.into_socket() else { return };
        if super::socket::shut_down(&stream).is_err() {
            return;
        }
        let now = self.now.mono;
        let until = now.after(LINGER_MAX);
        let until = if let Some(stop) = &self.stop {
            until.min(stop.deadline)
        } else {
            self.lingering.evict();
            until
        };
        let budget = if outbound { WORKER_ANSWER_MAX_BYTES } else { u64::MAX };
        let linger = Linger { stream, last_read, until, timer: TimerId::NONE, budget };
        self.lingering.begin(client, linger, &mut self.scratch, now);
    }

    /// Reads and closes lingering connections.
    pub(super) fn linger(&mut self) {
        self.lingering.poll(&mut self.scratch, self.now.mono);
    }
}
