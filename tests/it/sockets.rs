//! Sockets in memory, for the simulators that cut the clients' bytes at any place: the peer's side,
//! which is the same for every protocol.

use crate::rng::TestRng;
use jobcentre::model::driver::Action;
use jobcentre::model::id::ClientId;
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hasher};
use std::ops::{Deref, DerefMut};

/// How the peer's sending side ends, or has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Closed {
    Not,
    /// It has said that it sends nothing more.
    Sending,
    /// The connection is torn down: what is unread is lost.
    Reset,
}

/// One connection, from both sides.
pub(crate) struct Socket<S> {
    pub(crate) number: u64,
    /// What the peer has written and the server has not read.
    pub(crate) inbox: Vec<u8>,
    /// What the peer is going to write.
    pub(crate) plan: Vec<u8>,
    /// What the server can write before the peer must read.
    pub(crate) room: usize,
    pub(crate) closed: Closed,
    /// Writing to it fails.
    pub(crate) write_fails: bool,
    /// The peer does not read at the moment.
    pub(crate) slow: bool,
    /// The server was told that the peer has closed its end.
    pub(crate) hung_up: bool,
    /// What the driver knows of it.
    pub(crate) driver: S,
}

impl<S> Socket<S> {
    fn new(number: u64, room: usize, driver: S) -> Self {
        Self {
            number,
            inbox: Vec::new(),
            plan: Vec::new(),
            room,
            closed: Closed::Not,
            write_fails: false,
            slow: false,
            hung_up: false,
            driver,
        }
    }

    /// The first `count` bytes of the plan arrive.
    pub(crate) fn carry(&mut self, count: usize) {
        self.inbox.extend(self.plan.drain(..count));
    }

    /// How much of the plan the network carries now.
    pub(crate) fn draw_arriving(&self, rng: &mut TestRng) -> usize {
        let most = *rng.pick(&[1, 30, 1_000, 200_000]);
        rng.between(0, most).min(self.plan.len())
    }

    /// How much the peer reads now, if it reads.
    pub(crate) fn draw_reading(&mut self, rng: &mut TestRng) -> usize {
        if !self.slow {
            let most = *rng.pick(&[0, 10, 500, 300_000]);
            return rng.between(0, most);
        }
        if self.closed == Closed::Not && rng.percent(3) {
            self.slow = false;
        }
        0
    }

    /// Perhaps the peer is going to stop in the middle of what it had to say.
    pub(crate) fn cut_short(&mut self, rng: &mut TestRng) {
        if rng.percent(40) {
            self.plan.truncate(rng.below(self.plan.len() + 1));
        }
    }

    /// The peer begins to leave in one of the many ways.
    pub(crate) fn leave(&mut self, rng: &mut TestRng) {
        self.closed = Closed::Sending;
        match rng.below(5) {
            0 => {}
            1 => self.slow = true,
            2 => self.write_fails = true,
            3 => (self.room, self.slow) = (0, true),
            _ => {
                (self.closed, self.write_fails) = (Closed::Reset, true);
                self.plan.clear();
            }
        }
    }
}

/// All connections that are open.
pub(crate) struct Sockets<S> {
    open: BTreeMap<ClientId, Socket<S>>,
    opened: u64,
    /// A hash of everything sent, and to whom.
    sent: DefaultHasher,
}

impl<S> Sockets<S> {
    pub(crate) fn new() -> Self {
        Self { open: BTreeMap::new(), opened: 0, sent: DefaultHasher::new() }
    }

    pub(crate) fn add(&mut self, id: ClientId, room: usize, driver: S) {
        self.opened += 1;
        self.open.insert(id, Socket::new(self.opened, room, driver));
    }

    pub(crate) fn ids(&self) -> Vec<ClientId> {
        self.open.keys().copied().collect()
    }

    /// How much of this output can be written, which it then is.
    pub(crate) fn write(&mut self, id: ClientId, output: &[u8]) -> usize {
        let socket = self.open.get_mut(&id).unwrap();
        let count = output.len().min(socket.room);
        socket.room -= count;
        if count > 0 {
            self.sent.write_u64(socket.number);
            self.sent.write(&output[..count]);
        }
        count
    }

    /// Closes those that the server wants to be closed.
    pub(crate) fn close(&mut self, actions: &[Action]) {
        for action in actions {
            if let Action::Close(id) = action {
                assert!(self.open.remove(id).is_some(), "a connection was closed twice");
            }
        }
    }

    pub(crate) fn fingerprint(&self) -> u64 {
        self.sent.finish()
    }

    /// What is another value as long as something moves.
    pub(crate) fn state(&self) -> (u64, usize, usize) {
        let unread = self.open.values().map(|socket| socket.inbox.len()).sum();
        (self.fingerprint(), unread, self.open.len())
    }
}

impl<S> Deref for Sockets<S> {
    type Target = BTreeMap<ClientId, Socket<S>>;

    fn deref(&self) -> &Self::Target {
        &self.open
    }
}

impl<S> DerefMut for Sockets<S> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.open
    }
}
