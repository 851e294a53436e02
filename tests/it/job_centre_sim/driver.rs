//! The simulated driver: it treats the server as `src/reactor` does, over sockets in memory.
//!
//! A socket has what a real one has: bytes on their way in, space for bytes on their way out,
//! several ways to end, and edges, which are lost unless the driver remembers them. How much a read
//! gives and a write takes is random.

use crate::rng::TestRng;
use crate::server_oracle::{Pair, ServerModel};
use crate::sockets::{self, Closed, Sockets};
use jobcentre::base::limits::READ_BUDGET_BYTES;
use jobcentre::model::driver::{Core, Incident, Protocol};
use jobcentre::model::id::{ClientId, JobId};
use jobcentre::server::Server;
use std::collections::BTreeSet;

/// What has happened at a socket, for the driver.
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub(super) struct Edges {
    /// The driver has not polled since the last event.
    pub(super) news: bool,
    readable: bool,
    writable: bool,
    queued: bool,
}

pub(super) type Socket = sockets::Socket<Edges>;

impl Socket {
    /// The first `count` bytes of the plan arrive, and behind the last one the end, if it ends.
    pub(super) fn arrive(&mut self, count: usize) {
        let ends = self.closed != Closed::Not && count == self.plan.len() && !self.hung_up;
        self.driver.news |= count > 0 || ends;
        self.carry(count);
    }

    /// The peer has read, so that there is more room. That is news only if a write had to stop.
    pub(super) fn widen(&mut self, more: usize) {
        self.room += more;
        self.driver.news |= more > 0 && !self.driver.writable;
    }
}

/// The driver with the server and its oracle.
pub(super) struct SimDriver {
    pub(super) pair: Pair,
    pub(super) sockets: Sockets<Edges>,
    pub(super) stopping: bool,
    /// Kinds of incidents that were logged.
    logged: BTreeSet<&'static str>,
    runnable: Vec<ClientId>,
    flushable: Vec<ClientId>,
}

impl SimDriver {
    pub(super) fn new(server: Server, model: ServerModel) -> Self {
        Self {
            pair: Pair::new(server, model),
            sockets: Sockets::new(),
            stopping: false,
            logged: BTreeSet::new(),
            runnable: Vec::new(),
            flushable: Vec::new(),
        }
    }

    /// A peer connects. `refused` is what it must receive if it is rejected.
    pub(super) fn open(
        &mut self,
        protocol: Protocol,
        refused: Option<Vec<u8>>,
        room: usize,
    ) -> Option<ClientId> {
        let id = self.pair.open(protocol, refused)?;
        let edges = Edges { news: false, readable: false, writable: true, queued: false };
        self.sockets.add(id, room, edges);
        Some(id)
    }

    /// Tells the driver what has happened at a socket, if something has: the event that a poll
    /// would give, once.
    pub(super) fn note(&mut self, id: ClientId) {
        let socket = self.sockets.get_mut(&id).unwrap();
        if !std::mem::take(&mut socket.driver.news) {
            return;
        }
        let hung_up = socket.closed != Closed::Not && socket.plan.is_empty();
        socket.driver.readable |= hung_up || !socket.inbox.is_empty();
        if (socket.room > 0 || socket.write_fails) && !socket.driver.writable {
            socket.driver.writable = true;
            self.flushable.push(id);
        }
        if hung_up && !socket.hung_up {
            socket.hung_up = true;
            self.pair.peer_closed(id);
        }
        self.enqueue(id);
    }

    /// The rest of a pass, after the events have been noted.
    pub(super) fn pass(&mut self, rng: &mut TestRng) {
        self.read(rng);
        self.pair.finish_pass();
        self.write();
        self.act();
        assert_eq!(self.pair.server.poll_timeout(self.pair.now), self.pair.model.poll_timeout());
        self.pair.check_counts();
    }

    pub(super) fn stop(&mut self) {
        self.stopping = true;
        self.pair.stop();
        for id in self.sockets.ids() {
            self.sockets.get_mut(&id).unwrap().driver.readable = true;
            self.enqueue(id);
        }
    }

    /// Whether something is still to be done without anybody writing, reading or leaving.
    pub(super) fn is_busy(&self) -> bool {
        !self.runnable.is_empty()
            || self.pair.server.poll_timeout(self.pair.now) == Some(self.pair.now.mono)
    }

    /// Asserts that nothing has been forgotten: to be called when there is nothing to do.
    pub(super) fn assert_nothing_is_forgotten(&self) {
        for (&id, socket) in self.sockets.iter() {
            let number = socket.number;
            let unread = !socket.inbox.is_empty() || socket.closed != Closed::Not;
            assert!(
                !(unread && self.pair.server.wants_input(id)),
                "client {number}: input was not read ({:?})",
                socket.closed
            );
            let stuck = !self.pair.server.output(id).is_empty() && socket.room > 0;
            assert!(!stuck, "client {number}: output was not sent");
        }
    }

    fn enqueue(&mut self, id: ClientId) {
        let Some(socket) = self.sockets.get_mut(&id) else { return };
        if socket.driver.readable && !socket.driver.queued && self.pair.server.wants_input(id) {
            socket.driver.queued = true;
            self.runnable.push(id);
        }
    }

    fn read(&mut self, rng: &mut TestRng) {
        let mut batch = std::mem::take(&mut self.runnable);
        rng.shuffle(&mut batch);
        for id in batch {
            let Some(socket) = self.sockets.get_mut(&id) else { continue };
            socket.driver.queued = false;
            if !socket.driver.readable || !self.pair.server.wants_input(id) {
                continue;
            }
            if socket.closed == Closed::Reset && rng.percent(70) {
                self.sockets.remove(&id);
                self.pair.reset(id);
                continue;
            }
            let most = *rng.pick(&[1, 20, 200, READ_BUDGET_BYTES]);
            let budget = rng.between(1, most);
            let count = socket.inbox.len().min(budget);
            let full = count == budget || socket.hung_up;
            socket.driver.readable = full && count > 0;
            let at_end = socket.closed != Closed::Not && socket.plan.is_empty();
            if count > 0 {
                let bytes = socket.inbox[..count].to_vec();
                socket.inbox.drain(..count);
                self.pair.input(id, &bytes);
            }
            if (count == 0 && at_end) || (!full && self.stopping) {
                self.pair.eof(id);
            }
            if rng.percent(10) {
                self.pair.server.check_invariants();
            }
        }
    }

    fn write(&mut self) {
        while let Some(id) = self.flushable.pop() {
            self.flush(id);
        }
        while let Some(id) = self.pair.server.poll_touched() {
            self.flush(id);
            self.enqueue(id);
        }
    }

    fn flush(&mut self, id: ClientId) {
        let Some(socket) = self.sockets.get_mut(&id) else { return };
        let output = self.pair.server.output(id);
        if output.is_empty() || !socket.driver.writable {
            return;
        }
        if socket.write_fails {
            self.pair.broken(id);
        } else {
            socket.driver.writable = output.len() <= socket.room;
            let count = self.sockets.write(id, output);
            if count > 0 {
                self.pair.sent(id, count);
            }
        }
    }

    /// What is logged has happened, and what happens is logged at least once.
    fn listen(&mut self) {
        let known = |trouble| match trouble {
            Incident::TooLarge(_) => "a job was too large to be popped",
            Incident::UnknownRequest(_) => "a byte began no request",
            Incident::JobDropped(_)
            | Incident::TooManySubscriptions
            | Incident::OtherProtocol
            | Incident::BuffersFull(_)
            | Incident::NotAuthenticated
            | Incident::Denied(_)
            | Incident::WorkerDropped(_)
            | Incident::ClientsRejected(_)
            | Incident::LogLine(_) => {
                panic!("{trouble:?}")
            }
        };
        while let Some(notice) = self.pair.server.poll_notice() {
            if matches!(notice.incident, Incident::ClientsRejected(_)) {
                continue;
            }
            let what = known(notice.incident.clone());
            self.logged.insert(what);
            let count = self.pair.model.store.seen.get(what).copied().unwrap_or_default();
            assert!(notice.total <= count, "{notice:?}, which came {count} times");
        }
        for what in [known(Incident::TooLarge(JobId(1))), known(Incident::UnknownRequest(0))] {
            assert_eq!(
                self.logged.contains(what),
                self.pair.model.store.seen.contains_key(what),
                "{what}"
            );
        }
    }

    fn act(&mut self) {
        self.listen();
        let (actions, expected) = self.pair.actions();
        assert_eq!(actions, expected, "what is to be done to connections");
        self.sockets.close(&actions);
    }
}
