//! The engine in its own task. Connections send it their commands in batches, one for each read;
//! its replies to a client in one round of the channel are one batch, too.
//!
//! The channels are of the unbounded kind, but a session has at most `IN_FLIGHT_MAX` requests in
//! flight.

use super::connection::{ClientSlot, EngineHandle, Turn, now};
use super::owned::{Commands, Replies};
use jobcentre::base::slab::Slab;
use jobcentre::base::time::Now;
use jobcentre::engine::{CommandExecutor, Engine};
use jobcentre::model::command::Command;
use jobcentre::model::id::{ClientId, Ticket};
use jobcentre::protocol::Session;
use std::task::{Context, Poll};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;

/// Requests taken from the channel before the answers to them are sent.
const ROUND: usize = 256;

/// What connections ask of the actor.
pub(super) enum Request {
    Open { replies: UnboundedSender<Replies>, client: oneshot::Sender<ClientId> },
    Submit { client: ClientId, commands: Commands },
    Cancel(Ticket),
    Forget(ClientId),
}

/// The engine, and the way back to every client.
struct Actor {
    engine: Engine,
    clients: Slab<Client>,
    answered: Vec<ClientId>,
}

struct Client {
    channel: UnboundedSender<Replies>,
    /// What it is to get at the end of the round.
    replies: Replies,
}

/// Serves requests until all senders are gone.
pub(super) async fn run(mut requests: UnboundedReceiver<Request>) {
    let mut actor =
        Actor { engine: Engine::in_memory(1), clients: Slab::default(), answered: Vec::new() };
    let mut round = Vec::with_capacity(ROUND);
    while requests.recv_many(&mut round, ROUND).await > 0 {
        let now = now();
        for request in round.drain(..) {
            match request {
                Request::Open { replies: channel, client } => {
                    let id = actor.clients.insert(Client { channel, replies: Replies::default() });
                    // A task that is gone has closed its connection.
                    let _ = client.send(id);
                }
                Request::Submit { client, commands } => commands.each(|serial, command| {
                    actor.engine.submit(Ticket { client, serial }, command, now);
                    actor.collect();
                }),
                Request::Cancel(ticket) => {
                    actor.engine.cancel(ticket, now);
                    actor.collect();
                }
                Request::Forget(client) => {
                    actor.clients.remove(client);
                    actor.engine.disconnect_client(client, now);
                    actor.collect();
                }
            }
        }
        actor.send();
    }
}

impl Actor {
    /// Copies every completion for the client that it is for.
    fn collect(&mut self) {
        while let Some(completion) = self.engine.poll_completion() {
            let Ticket { client: id, serial } = completion.ticket;
            let client = self.clients.get_mut(id).expect("a forgotten client gets no completions");
            if client.replies.is_empty() {
                self.answered.push(id);
            }
            client.replies.push(serial, &completion.reply);
        }
    }

    /// Ends a round.
    fn send(&mut self) {
        for id in self.answered.drain(..) {
            // Clients that left in this round get nothing.
            if let Some(client) = self.clients.get_mut(id) {
                // A task that is gone sends `Delete` or is gone with the whole server.
                let _ = client.channel.send(std::mem::take(&mut client.replies));
            }
        }
    }
}

/// One client's way to the actor.
pub(super) struct ActorHandle {
    actor: UnboundedSender<Request>,
    client: ClientId,
    replies: UnboundedReceiver<Replies>,
    commands: Commands,
    called_off: Option<u32>,
}

impl ActorHandle {
    /// Makes the client known. `None` if the actor is gone, and the server with it.
    pub(super) async fn open(actor: UnboundedSender<Request>) -> Option<Self> {
        let (sender, replies) = unbounded_channel();
        let (client, answer) = oneshot::channel();
        actor.send(Request::Open { replies: sender, client }).ok()?;
        let client = answer.await.ok()?;
        Some(Self { actor, client, replies, commands: Commands::default(), called_off: None })
    }

    fn ask(&self, request: Request) {
        // It fails only when the whole server goes down.
        let _ = self.actor.send(request);
    }
}

impl EngineHandle for ActorHandle {
    fn submit(
        &mut self,
        _seat: &mut ClientSlot,
        serial: u32,
        command: &Command<'_>,
        _: &mut Turn<'_>,
    ) {
        self.commands.push(serial, command);
    }

    fn hand_over(&mut self) {
        if !self.commands.is_empty() {
            let commands = std::mem::take(&mut self.commands);
            self.ask(Request::Submit { client: self.client, commands });
        }
    }

    fn fetch(&mut self, slot: &mut ClientSlot, turn: &mut Turn<'_>) {
        let mut cx = Context::from_waker(turn.waker);
        while let Poll::Ready(Some(replies)) = self.replies.poll_recv(&mut cx) {
            let session = slot.session.as_mut().expect("it never leaves its slot");
            slot.output.prepare(turn.pool);
            replies.each(|serial, reply| {
                session.handle_reply(serial, &mut reply.clone(), Now::default(), &mut slot.output);
            });
        }
    }

    fn call_off(&mut self, slot: &mut ClientSlot, _: &mut Turn<'_>) {
        let serial = slot.session.as_ref().and_then(Session::pending_serial);
        if let Some(serial) = serial
            && self.called_off != Some(serial)
        {
            self.called_off = Some(serial);
            self.ask(Request::Cancel(Ticket { client: self.client, serial }));
        }
    }

    fn leave(&mut self) {
        self.ask(Request::Forget(self.client));
    }
}
