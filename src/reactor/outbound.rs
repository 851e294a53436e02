//! What a pass does for connections to other servers beyond what it does for all.

use super::Reactor;
use super::socket::{Socket, Stream};
use crate::model::driver::Core;
use crate::model::id::ClientId;
use tracing::debug;

impl<C: Core> Reactor<C> {
    /// Lets outgoing connections go on, and tells the core how they have ended.
    pub(super) fn dial(&mut self) {
        while let Some((client, outcome)) = self.dials.poll(self.poll.registry()) {
            match outcome {
                Ok(_) if !self.sockets.has_room(client) => {
                    // The core has given its place away since it was begun, and is about to say
                    // that it is called off.
                    debug!("a connection to another server came too late");
                }
                Ok(socket) => {
                    let hung_up = socket.hung_up;
                    self.sockets.insert(client, socket);
                    self.core.handle_connected(client, self.now);
                    if hung_up {
                        self.core.handle_peer_closed(client, self.now);
                    }
                    // A handshake may have left something to be sent.
                    self.flushable.push(client);
                    self.enqueue(client);
                }
                Err(why) => {
                    debug!(%why, "cannot connect to another server");
                    self.core.handle_connect_failed(client, &why, self.now);
                }
            }
        }
    }

    /// One write for what is no plain connection.
    #[cold]
    pub(super) fn flush_other(&mut self, client: ClientId) {
        match self.sockets.get_mut(client).map(|socket| &socket.stream) {
            Some(Stream::Stdio(_)) => self.flush_stdio(client),
            _ => self.flush_tls(client),
        }
    }

    /// One write for an encrypted connection, which may have something to say even if the core has
    /// not.
    fn flush_tls(&mut self, client: ClientId) {
        let Some(socket) = self.sockets.get_mut(client) else { return };
        let Stream::Tls(tls) = &mut socket.stream else { return };
        let output = self.core.output(client);
        match tls.write(output) {
            Ok((count, writable)) => {
                socket.writable = writable;
                if writable && count < output.len() {
                    self.flushable.push(client);
                }
                if count > 0 {
                    self.core.handle_sent(client, count, self.now);
                }
            }
            Err(error) => {
                debug!(%error, "connection takes no more output");
                self.core.handle_broken_output(client, self.now);
            }
        }
    }

    /// Calls a dial off, and says farewell on an encrypted connection, before either is forgotten.
    pub(super) fn close_outbound(&mut self, client: ClientId) {
        if let Some(Socket { stream: Stream::Tls(tls), .. }) = self.sockets.get_mut(client) {
            tls.send_close_notify();
        }
        self.dials.cancel(client);
    }
}
