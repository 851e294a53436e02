//! The simulated driver: it treats the server as `src/reactor` does, over sockets in memory, and
//! passes every call to the oracle.

use super::generator::SETTINGS;
use super::users::LISTENERS;
use crate::query::ImmediateExecutor;
use crate::rng::TestRng;
use crate::server_oracle::types::QUEUES;
use crate::server_oracle::users::Token;
use crate::server_oracle::{Pair, ServerModel};
use crate::sockets::{Closed, Sockets};
use jobcentre::base::limits::READ_BUDGET_BYTES;
use jobcentre::engine::Engine;
use jobcentre::model::driver::{Core, Incident, Protocol};
use jobcentre::model::id::ClientId;
use jobcentre::query::{Ended, FreeLane, QueryExecutor, StopRequest, Task};
use jobcentre::server::Server;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// What else is known of a peer.
#[derive(Default)]
pub(super) struct Peer {
    /// The peer asks one thing at a time.
    pub(super) patient: bool,
    /// The peer says nothing more, and does not go.
    pub(super) stuck: bool,
    /// What it mostly says about itself with its requests of HTTP.
    pub(super) token: Option<Token>,
}

/// A helper that evaluates queries at once, and tells what it has found when it is told to.
#[derive(Debug)]
struct Slow {
    prompt: ImmediateExecutor,
    found: Arc<AtomicBool>,
}

impl QueryExecutor for Slow {
    fn find(&mut self, share: bool) -> Option<FreeLane> {
        self.prompt.find(share)
    }

    fn begin(&mut self, lane: usize, task: Task, steps: u64) -> Result<(), String> {
        self.prompt.begin(lane, task, steps)
    }

    fn request_stop(&mut self, lane: usize, stop: StopRequest) {
        self.prompt.request_stop(lane, stop);
    }

    fn poll(&mut self) -> Option<Ended> {
        let ends = self.found.load(Relaxed) || self.prompt.has_dropped();
        if ends { self.prompt.poll() } else { None }
    }

    fn discard(&mut self, task: Task) {
        self.prompt.discard(task);
    }
}

/// The driver with the server and its oracle.
pub(super) struct SimDriver {
    pub(super) pair: Pair,
    pub(super) sockets: Sockets<Peer>,
    /// Whether searches that have begun have ended.
    found: Arc<AtomicBool>,
    /// Whether users may come.
    pub(super) has_users: bool,
}

impl SimDriver {
    pub(super) fn new(seed: u64) -> Self {
        let found = Arc::new(AtomicBool::new(false));
        let helper = Slow { prompt: ImmediateExecutor::new(), found: Arc::clone(&found) };
        let engine = Engine::in_memory(seed).with_queries(Box::new(helper), Duration::MAX);
        let listeners = LISTENERS.map(|user| user.map(Into::into)).to_vec();
        let server = Server::new(SETTINGS, engine).with_listener_users(listeners);
        let model = ServerModel::new(&QUEUES, SETTINGS.max_request, Vec::new());
        Self { pair: Pair::new(server, model), has_users: false, found, sockets: Sockets::new() }
    }

    /// From now on searches end, or they take their time.
    pub(super) fn set_found(&mut self, found: bool) {
        self.found.store(found, Relaxed);
        self.pair.model.found = found;
    }

    /// `listener`: its number in [`LISTENERS`].
    pub(super) fn open(&mut self, protocol: Protocol, listener: usize, room: usize) -> ClientId {
        let id = self.pair.open(protocol, None).expect("there is room for all");
        if self.has_users {
            self.pair.identify(id, u32::try_from(listener).unwrap(), LISTENERS[listener]);
        }
        self.sockets.add(id, room, Peer::default());
        id
    }

    /// Time passes, and what is due happens before anything else.
    pub(super) fn pass_time(&mut self, nanos: u64, wall_ms: i64) {
        let now = &mut self.pair.now;
        now.mono.0 += nanos;
        now.wall.0 = now.wall.0.saturating_add_signed(wall_ms);
        self.finish();
    }

    /// The driver sees that a peer has closed its end.
    pub(super) fn note_end(&mut self, id: ClientId) {
        let socket = self.sockets.get_mut(&id).unwrap();
        if socket.closed != Closed::Not && socket.plan.is_empty() && !socket.hung_up {
            socket.hung_up = true;
            self.pair.peer_closed(id);
        }
    }

    pub(super) fn pass(&mut self, rng: &mut TestRng) {
        self.read_all(rng);
        self.end_pass();
    }

    pub(super) fn read_all(&mut self, rng: &mut TestRng) {
        let mut ids = self.sockets.ids();
        rng.shuffle(&mut ids);
        for id in ids {
            self.read(id, rng);
        }
    }

    pub(super) fn end_pass(&mut self) {
        self.finish();
        while self.pair.server.poll_touched().is_some() {}
        for id in self.sockets.ids() {
            self.flush(id);
        }
        self.act();
        self.pair.server.check_invariants();
        self.pair.check_counts();
    }

    fn finish(&mut self) {
        self.pair.finish_pass();
        self.act();
    }

    fn read(&mut self, id: ClientId, rng: &mut TestRng) {
        let Some(socket) = self.sockets.get_mut(&id) else { return };
        if !self.pair.server.wants_input(id) {
            return;
        }
        if socket.closed == Closed::Reset && rng.percent(70) {
            self.sockets.remove(&id);
            return self.pair.reset(id);
        }
        let most = *rng.pick(&[1, 20, 200, READ_BUDGET_BYTES]);
        let count = socket.inbox.len().min(rng.between(1, most));
        let ends = socket.closed != Closed::Not && socket.plan.is_empty();
        if count > 0 {
            let bytes: Vec<u8> = socket.inbox.drain(..count).collect();
            self.pair.input(id, &bytes);
        } else if ends {
            self.pair.eof(id);
        }
        if rng.percent(5) {
            self.pair.server.check_invariants();
        }
    }

    fn flush(&mut self, id: ClientId) {
        let Some(socket) = self.sockets.get(&id) else { return };
        let output = self.pair.server.output(id);
        if output.is_empty() {
            return;
        }
        if socket.write_fails {
            return self.pair.broken(id);
        }
        let count = self.sockets.write(id, output);
        if count > 0 {
            self.pair.sent(id, count);
        }
    }

    fn act(&mut self) {
        let (mut actions, mut expected) = self.pair.actions();
        // The order of clients that time out at the same moment is left open.
        expected.sort_by_key(|action| format!("{action:?}"));
        actions.sort_by_key(|action| format!("{action:?}"));
        assert_eq!(actions, expected, "what is to be done to connections");
        self.sockets.close(&actions);
        while let Some(notice) = self.pair.server.poll_notice() {
            let of_users =
                matches!(notice.incident, Incident::NotAuthenticated | Incident::Denied(_));
            assert!(of_users && self.has_users, "nothing to tell the operator: {notice:?}");
        }
    }
}
