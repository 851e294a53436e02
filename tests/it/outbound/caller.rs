//! A core that only opens connections, as a test tells it to, and records what happens.

use jobcentre::base::slab::Slab;
use jobcentre::base::time::{Mono, Now};
use jobcentre::model::driver::{Action, ConnectError, Core, Protocol, Target};
use jobcentre::model::id::ClientId;
use jobcentre::reactor::{Clock, LoopWaker, Reactor, TrustStore};
use signal_hook::consts::{SIGALRM, SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::flag::register_conditional_default;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Once};
use std::time::Duration;

/// What has happened to a call, apart from bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Event {
    Connected,
    Failed(ConnectError),
    Closed,
    Eof,
    Broken,
    Reset,
}

/// One call.
#[derive(Debug, Default)]
pub(super) struct Call {
    pub(super) events: Vec<Event>,
    pub(super) received: Vec<u8>,
    pub(super) output: Vec<u8>,
    /// Whether it reads what comes. It has had enough after each input, until the pass is over.
    pub(super) wants_input: bool,
}

impl Call {
    /// What has happened. A hang-up may be announced before or after the end is met.
    pub(super) fn apart_from_hang_up(&self) -> Vec<Event> {
        self.events.iter().filter(|&event| *event != Event::Closed).cloned().collect()
    }

    /// Why there was no connection.
    pub(super) fn failure(&self) -> Option<&ConnectError> {
        match self.events.as_slice() {
            [] => None,
            [Event::Failed(why)] => Some(why),
            other => panic!("{other:?}"),
        }
    }
}

/// All calls.
#[derive(Debug, Default)]
pub(super) struct Calls {
    pub(super) table: Slab<Call>,
    pub(super) actions: VecDeque<Action>,
    touched: Vec<ClientId>,
    /// Whether passes are to come even if nothing happens.
    pub(super) keeps_polling: bool,
    begun: Option<Mono>,
    over: Option<&'static str>,
}

/// The target at this address.
pub(super) fn target(host: &str, address: SocketAddr, tls: bool) -> Arc<Target> {
    Arc::new(Target { host: host.into(), port: address.port(), tls })
}

impl Calls {
    /// Dials, and sends bytes.
    pub(super) fn call(&mut self, target: Arc<Target>, words: &[u8]) -> ClientId {
        let call = Call { output: words.to_vec(), wants_input: true, ..Call::default() };
        let client = self.table.insert(call);
        self.actions.push_back(Action::Connect(client, target));
        client
    }

    /// Hangs up, and forgets the call.
    pub(super) fn close(&mut self, client: ClientId) {
        self.table.remove(client);
        self.actions.push_back(Action::Close(client));
    }

    pub(super) fn get(&self, client: ClientId) -> &Call {
        self.table.get(client).expect("the call is still known")
    }

    /// Says something more.
    pub(super) fn say(&mut self, client: ClientId, words: &[u8]) {
        self.table.get_mut(client).unwrap().output.extend_from_slice(words);
        self.touched.push(client);
    }

    fn note(&mut self, client: ClientId, event: Event) {
        let call = self.table.get_mut(client);
        let call = call.unwrap_or_else(|| panic!("{event:?} for a call that was forgotten"));
        call.events.push(event);
        self.touched.push(client);
    }

    /// Runs the real loop. After each pass `script` may act; it says whether all is over.
    pub(super) fn run(
        &mut self,
        trust: Option<TrustStore>,
        script: impl FnMut(&mut Self) -> bool,
    ) -> &mut Self {
        keep_signals_deadly();
        let (wake, caller) = (LoopWaker::default(), Caller { calls: self, script });
        let mut reactor = Reactor::bind(caller, &[], Clock::start(), &wake).unwrap();
        if let Some(trust) = trust {
            reactor.set_trust(trust);
        }
        let end = reactor.run().unwrap_err().to_string();
        drop(reactor);
        assert_eq!(end, "over", "{self:?}");
        self
    }
}

/// A reactor takes charge of the signals that end a process. This process is to end by them.
fn keep_signals_deadly() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        for signal in [SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGALRM] {
            register_conditional_default(signal, Arc::new(AtomicBool::new(true))).unwrap();
        }
    });
}

struct Caller<'a, S> {
    calls: &'a mut Calls,
    script: S,
}

impl<S: FnMut(&mut Calls) -> bool> Core for Caller<'_, S> {
    fn handle_open(&mut self, _door: Protocol, _now: Now) -> Option<ClientId> {
        unreachable!("there is no protocol")
    }

    fn handle_connected(&mut self, client: ClientId, _now: Now) {
        self.calls.note(client, Event::Connected);
    }

    fn handle_connect_failed(&mut self, client: ClientId, why: &ConnectError, _now: Now) {
        self.calls.note(client, Event::Failed(why.clone()));
    }

    fn handle_input(&mut self, client: ClientId, bytes: &[u8], _now: Now) {
        let call = self.calls.table.get_mut(client).expect("input for a call that was forgotten");
        assert!(call.wants_input, "it has had enough");
        assert_eq!(call.events.first(), Some(&Event::Connected));
        call.received.extend_from_slice(bytes);
        call.wants_input = false;
    }

    fn handle_peer_closed(&mut self, client: ClientId, _now: Now) {
        self.calls.note(client, Event::Closed);
    }

    fn handle_eof(&mut self, client: ClientId, _now: Now) {
        self.calls.note(client, Event::Eof);
    }

    fn handle_sent(&mut self, client: ClientId, count: usize, _now: Now) {
        let call = self.calls.table.get_mut(client).expect("sent for a call that was forgotten");
        // The driver goes on by itself with what is left.
        call.output.drain(..count);
    }

    fn handle_broken_output(&mut self, client: ClientId, _now: Now) {
        self.calls.note(client, Event::Broken);
        if let Some(call) = self.calls.table.get_mut(client) {
            call.output.clear();
        }
    }

    fn handle_reset(&mut self, client: ClientId, _now: Now) {
        self.calls.note(client, Event::Reset);
    }

    fn handle_shutdown(&mut self, _now: Now) {}

    fn finish_pass(&mut self, now: Now) {
        let clients: Vec<ClientId> = self.calls.table.iter().map(|(client, _)| client).collect();
        for client in clients {
            if let Some(call) = self.calls.table.get_mut(client)
                && !call.wants_input
            {
                call.wants_input = true;
                self.calls.touched.push(client);
            }
        }
        let begun = *self.calls.begun.get_or_insert(now.mono);
        if (self.script)(self.calls) {
            self.calls.over = Some("over");
        } else if now.mono >= begun.after(crate::support::TIMEOUT) {
            self.calls.over = Some("in vain waited for the end of the script");
        }
    }

    fn wants_input(&self, client: ClientId) -> bool {
        let call = self.calls.table.get(client);
        call.is_some_and(|call| call.wants_input && !call.events.contains(&Event::Eof))
    }

    fn output(&self, client: ClientId) -> &[u8] {
        self.calls.table.get(client).map_or(&[], |call| &call.output)
    }

    fn poll_touched(&mut self) -> Option<ClientId> {
        self.calls.touched.pop()
    }

    fn poll_action(&mut self) -> Option<Action> {
        self.calls.actions.pop_front()
    }

    fn poll_timeout(&self, now: Now) -> Option<Mono> {
        if self.calls.keeps_polling {
            return Some(now.mono.after(Duration::from_millis(1)));
        }
        // The first pass comes without anything happening: then the script begins.
        Some(self.calls.begun.map_or(now.mono, |begun| begun.after(crate::support::TIMEOUT)))
    }

    fn failure(&self) -> Option<String> {
        self.calls.over.map(str::to_owned)
    }

    fn connections(&self) -> usize {
        self.calls.table.len()
    }
}
