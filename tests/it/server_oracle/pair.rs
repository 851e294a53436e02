//! The server beside its oracle: each call is made to both, and then all output is compared.

use super::ServerModel;
use super::users::Table;
use jobcentre::base::time::Now;
use jobcentre::model::driver::{Action, Core, Protocol};
use jobcentre::model::id::ClientId;
use jobcentre::model::peer::{Peer, PeerAddress};
use jobcentre::server::Server;
use std::cell::Cell;

pub(crate) struct Pair {
    pub(crate) server: Server,
    pub(crate) model: ServerModel,
    pub(crate) now: Now,
}

impl Pair {
    pub(crate) fn new(server: Server, model: ServerModel) -> Self {
        Self { server, model, now: Now::default() }
    }

    /// Has the server do something, and then the oracle.
    fn call(&mut self, act: impl FnOnce(&mut Server, Now), oracle: impl FnOnce(&mut ServerModel)) {
        act(&mut self.server, self.now);
        self.model.set_time(self.now);
        for (&id, client) in &mut self.model.clients {
            client.receive(self.server.output(id));
        }
        oracle(&mut self.model);
        for (&id, client) in &mut self.model.clients {
            client.count(self.server.output(id).len());
        }
        for id in self.model.clients.keys().copied().collect::<Vec<_>>() {
            self.model.arm_flush_timeout(id);
            let wants = self.server.wants_input(id);
            assert_eq!(wants, self.model.wants_input(id), "client {id:?}: appetite for input");
        }
    }

    /// A peer connects. `refused` is what it must receive if there is no place for it.
    pub(crate) fn open(
        &mut self,
        protocol: Protocol,
        refused: Option<Vec<u8>>,
    ) -> Option<ClientId> {
        let id = self.server.handle_open(protocol, self.now)?;
        self.model.set_time(self.now);
        self.model.open(id, protocol);
        let refuse = |model: &mut ServerModel| {
            if let Some(why) = refused {
                model.refuse(id, why);
            }
        };
        self.call(|_, _| {}, refuse);
        Some(id)
    }

    /// The other end of a connection is known: it has come to this listener, and is this user
    /// without saying anything.
    pub(crate) fn identify(&mut self, id: ClientId, listener: u32, user: Option<&'static str>) {
        // An address of its own, so that wrong tokens of others do not count.
        let mut address = [0xfd; 16];
        address[..4].copy_from_slice(&id.index.to_be_bytes());
        address[4..8].copy_from_slice(&id.generation.to_be_bytes());
        let address = Some(PeerAddress(address));
        let peer = Peer { listener, address, ..Peer::default() };
        let oracle = |model: &mut ServerModel| model.identify(id, user);
        self.call(|server, now| server.handle_peer(id, peer, now), oracle);
    }

    /// The users are these from now on.
    pub(crate) fn set_users(&mut self, users: &Table) {
        let compiled = users.compiled();
        let oracle = |model: &mut ServerModel| model.set_users(users.clone());
        self.call(|server, now| server.set_users(compiled, now), oracle);
    }

    pub(crate) fn input(&mut self, id: ClientId, bytes: &[u8]) {
        let oracle = |model: &mut ServerModel| model.input(id, bytes.len());
        self.call(|server, now| server.handle_input(id, bytes, now), oracle);
    }

    pub(crate) fn peer_closed(&mut self, id: ClientId) {
        self.call(|server, now| server.handle_peer_closed(id, now), |model| model.peer_closed(id));
    }

    pub(crate) fn eof(&mut self, id: ClientId) {
        let oracle = |model: &mut ServerModel| {
            if model.clients.contains_key(&id) {
                model.eof(id);
            }
        };
        self.call(|server, now| server.handle_eof(id, now), oracle);
    }

    pub(crate) fn reset(&mut self, id: ClientId) {
        self.call(|server, now| server.handle_reset(id, now), |model| model.reset(id));
    }

    pub(crate) fn broken(&mut self, id: ClientId) {
        self.call(|server, now| server.handle_broken_output(id, now), |model| model.broken(id));
    }

    /// `count` bytes of the output were written.
    pub(crate) fn sent(&mut self, id: ClientId, count: usize) {
        self.model.client(id).shown -= count;
        self.call(|server, now| server.handle_sent(id, count, now), |model| model.sent(id, count));
    }

    pub(crate) fn stop(&mut self) {
        self.call(Core::handle_shutdown, ServerModel::stop);
    }

    pub(crate) fn finish_pass(&mut self) {
        let resumed = Cell::new(0);
        let finish = |server: &mut Server, now: Now| {
            server.finish_pass(now);
            server.begin_pass(now);
            resumed.set(server.resumed_for_test());
        };
        self.call(finish, |model| model.finish_pass(resumed.get()));
    }

    /// What is to be done to connections: as the server says, and as the oracle does.
    pub(crate) fn actions(&mut self) -> (Vec<Action>, Vec<Action>) {
        let actions = std::iter::from_fn(|| self.server.poll_action()).collect();
        (actions, std::mem::take(&mut self.model.actions))
    }

    /// Asserts that both have as many clients, jobs and waiters.
    pub(crate) fn check_counts(&self) {
        let (counts, store) = (self.server.counts(), &self.model.store);
        assert_eq!(self.server.connections(), self.model.clients.len(), "clients");
        // An expired job is removed when a command meets it, or when its deadline is due.
        let (least, most) = store.count();
        assert!((least..=most).contains(&counts.jobs), "{} jobs of {least} to {most}", counts.jobs);
        assert_eq!(counts.waiters, store.waiters.len(), "waiters");
        assert_eq!(counts.declared, store.declared(), "declared queues");
    }
}
