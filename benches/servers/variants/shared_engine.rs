//! The shared engine: behind a `RefCell` of the thread, or behind a mutex.
//!
//! A task submits a command and formats its reply straight from the store. A client that waits for
//! a job leaves its session here, so that the task that puts the job writes the reply into it and
//! wakes the client's task: nothing is copied for that either. Invariant: a session is in its slot
//! or in the engine, never in both; what a parked one has to send is what it got here.

use super::connection::{ClientSlot, EngineHandle, Turn, now};
use jobcentre::base::slab::Slab;
use jobcentre::base::time::Now;
use jobcentre::engine::{CommandExecutor, Engine};
use jobcentre::model::command::Command;
use jobcentre::model::id::{ClientId, Ticket};
use jobcentre::protocol::Session;
use std::cell::RefCell;
use std::sync::{Arc, Mutex};
use std::task::Waker;

/// The engine, and the sessions that wait.
pub(super) struct SharedEngine {
    engine: Engine,
    clients: Slab<Option<Parked>>,
    latest: Now,
}

/// A session that waits for a job.
struct Parked {
    slot: ClientSlot,
    waker: Waker,
}

impl SharedEngine {
    pub(super) fn new() -> Self {
        Self { engine: Engine::in_memory(1), clients: Slab::default(), latest: Now::default() }
    }

    /// Threads come in another order than they looked at the clock; the engine's never runs back.
    fn at(&mut self, now: Now) -> Now {
        if now.mono > self.latest.mono {
            self.latest = now;
        }
        self.latest
    }

    fn submit(
        &mut self,
        ticket: Ticket,
        command: &Command<'_>,
        slot: &mut ClientSlot,
        turn: &Turn<'_>,
    ) {
        let now = self.at(turn.now);
        self.engine.submit(ticket, command, now);
        self.deliver(Some((ticket.client, slot)));
        if slot.session.as_ref().is_some_and(|session| session.pending_serial().is_some())
            && let Some(place) = self.clients.get_mut(ticket.client)
        {
            let slot = ClientSlot { session: slot.session.take(), ..ClientSlot::default() };
            *place = Some(Parked { slot, waker: turn.waker.clone() });
        }
    }

    /// Writes every reply: for the client that is here to `here`, for others where they are parked.
    fn deliver(&mut self, mut here: Option<(ClientId, &mut ClientSlot)>) {
        while let Some(mut completion) = self.engine.poll_completion() {
            let Ticket { client, serial } = completion.ticket;
            let slot = match &mut here {
                Some((id, slot)) if *id == client => &mut **slot,
                _ => {
                    let parked = self.clients.get_mut(client).and_then(Option::as_mut);
                    let parked = parked.expect("only a waiter is answered by another task");
                    parked.waker.wake_by_ref();
                    &mut parked.slot
                }
            };
            let session = slot.session.as_mut().expect("the client of a request has a session");
            session.handle_reply(serial, &mut completion.reply, Now::default(), &mut slot.output);
        }
    }

    /// Takes a session back that was answered, or any if `at_once`.
    fn fetch(&mut self, client: ClientId, slot: &mut ClientSlot, waker: &Waker, at_once: bool) {
        let Some(place) = self.clients.get_mut(client) else { return };
        let Some(parked) = place else { return };
        let waits = parked.slot.session.as_ref().is_some_and(|it| it.pending_serial().is_some());
        if waits && !at_once {
            return parked.waker.clone_from(waker);
        }
        if let Some(Parked { slot: from, .. }) = place.take() {
            slot.session = from.session;
            if slot.output.is_empty() {
                slot.output = from.output;
            } else {
                slot.output.tail().extend_from_slice(from.output.unsent());
            }
        }
    }

    fn call_off(&mut self, client: ClientId, slot: &mut ClientSlot, turn: &Turn<'_>) {
        self.fetch(client, slot, turn.waker, true);
        if let Some(serial) = slot.session.as_ref().and_then(Session::pending_serial) {
            let now = self.at(turn.now);
            self.engine.cancel(Ticket { client, serial }, now);
            self.deliver(Some((client, slot)));
        }
    }

    fn leave(&mut self, client: ClientId) {
        self.clients.remove(client);
        let now = self.at(now());
        self.engine.disconnect_client(client, now);
        self.deliver(None);
    }
}

/// How to get at the engine.
pub(super) trait Place {
    fn with<R>(&self, visit: impl FnOnce(&mut SharedEngine) -> R) -> R;
}

thread_local! {
    static ENGINE: RefCell<SharedEngine> = RefCell::new(SharedEngine::new());
}

/// The engine of this thread. Holds nothing, so that tasks need not be bound to the thread by type.
#[derive(Clone, Copy)]
pub(super) struct Local;

impl Place for Local {
    fn with<R>(&self, visit: impl FnOnce(&mut SharedEngine) -> R) -> R {
        ENGINE.with_borrow_mut(visit)
    }
}

impl Place for Arc<Mutex<SharedEngine>> {
    fn with<R>(&self, visit: impl FnOnce(&mut SharedEngine) -> R) -> R {
        visit(&mut self.lock().expect("the engine does not panic"))
    }
}

/// One client's way into the engine.
pub(super) struct LocalHandle<P> {
    place: P,
    client: ClientId,
}

impl<P: Place> LocalHandle<P> {
    pub(super) fn open(place: P) -> Self {
        let client = place.with(|engine| engine.clients.insert(None));
        Self { place, client }
    }
}

impl<P: Place> EngineHandle for LocalHandle<P> {
    fn submit(
        &mut self,
        slot: &mut ClientSlot,
        serial: u32,
        command: &Command<'_>,
        turn: &mut Turn<'_>,
    ) {
        let ticket = Ticket { client: self.client, serial };
        self.place.with(|engine| engine.submit(ticket, command, slot, turn));
    }

    fn fetch(&mut self, slot: &mut ClientSlot, turn: &mut Turn<'_>) {
        self.place.with(|engine| engine.fetch(self.client, slot, turn.waker, false));
    }

    fn call_off(&mut self, slot: &mut ClientSlot, turn: &mut Turn<'_>) {
        self.place.with(|engine| engine.call_off(self.client, slot, turn));
    }

    fn leave(&mut self) {
        self.place.with(|engine| engine.leave(self.client));
    }
}
