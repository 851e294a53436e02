//! The part of a pass that is for outbound connections only.

use super::Reactor;
use super::socket::{Socket, Stream};
use crate::model::driver::{ConnectError, Core};
use crate::model::id::ClientId;
use tracing::{debug, warn};

impl<C: Core> Reactor<C> {
    /// Advances dials, and reports their outcomes to the core.
    pub(super) fn dial(&mut self) {
        self.dialer.begin_pass();
        while let Some((client, outcome)) = self.dialer.poll(self.poll.registry()) {
            match outcome {
                Ok(_) if !self.sockets.is_free(client) => {
                    // The core has ended this client and reused its index; its `Action::Close`
                    // has not been polled yet.
                    debug!("a connection to another server came too late");
                }
                Ok(socket) => {
                    let hung_up = socket.hung_up;
                    self.sockets.insert(client, socket);
                    self.core.handle_connected(client, self.now);
                    if hung_up {
                        self.core.handle_peer_closed(client, self.now);
                    }
                    // The handshake may have left output.
                    self.transfers.flushable.push_back(client);
                    self.enqueue(client);
                }
                Err(why) => {
                    if let ConnectError::Forbidden(why) = &why {
                        self.forbidden_calls.count();
                        if let Some(calls) = self.forbidden_calls.take_report(self.now.mono) {
                            warn!(calls, "a worker was not called: {why}");
                        }
                    }
                    debug!(%why, "cannot connect to another server");
                    self.core.handle_connect_failed(client, &why, self.now);
                }
            }
        }
    }

    /// One write to a stream that is not plain TCP.
    #[cold]
    pub(super) fn flush_other(&mut self, client: ClientId) {
        match self.sockets.get_mut(client).map(|socket| &socket.stream) {
            Some(Stream::Stdio(_)) => self.flush_stdio(client),
            _ => self.flush_tls(client),
        }
    }

    /// One write to a TLS connection, which may have records to send without output of the core.
    fn flush_tls(&mut self, client: ClientId) {
        let Some(socket) = self.sockets.get_mut(client) else { return };
        let Stream::Tls(tls) = &mut socket.stream else { return };
        let output = self.core.output(client);
        match tls.write(output) {
            Ok((count, writable)) => {
                socket.writable = writable;
                if writable && count < output.len() {
                    self.transfers.flushable.push_back(client);
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

    /// Before a client is removed: cancels its dial, or sends `close_notify` on its TLS connection.
    pub(super) fn close_outbound(&mut self, client: ClientId) {
        if let Some(Socket { stream: Stream::Tls(tls), .. }) = self.sockets.get_mut(client) {
            tls.send_close_notify();
        }
        self.dialer.cancel(client);
    }
}
