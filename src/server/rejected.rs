//! Connections that are not served: they are told why in the words of their protocol, and closed.

use super::Server;
use super::connection::Connection;
use crate::access::Denial;
use crate::base::buf::OutBuf;
use crate::base::time::Now;
use crate::engine::CommandExecutor;
use crate::model::driver::Protocol;
use crate::model::id::ClientId;
use crate::protocol::{Closing, Session};

impl<E: CommandExecutor> Server<E> {
    /// Counts a connection that is not served. Returns whether there is a place to tell it why.
    pub(super) fn count_rejected(&mut self, protocol: Protocol) -> bool {
        self.counters.protocols[protocol.number()].rejected += 1;
        // The processor has no reply for it.
        !self.stopping && protocol != Protocol::Processor && self.rejected < self.limits.rejected
    }

    /// A connection beyond `--max-clients`.
    pub(super) fn reject(&mut self, protocol: Protocol, now: Now) -> ClientId {
        let mut output = OutBuf::default();
        let session = Session::reject(protocol, self.settings.max_clients, &mut output);
        self.insert_rejected(protocol, session, output, now)
    }

    /// A connection that the driver can neither serve nor pass on.
    pub(super) fn refuse(&mut self, protocol: Protocol, why: &str, now: Now) -> ClientId {
        let denial = Denial::Unavailable(why.into());
        let mut output = OutBuf::default();
        let session = Session::close_with(protocol, Closing::Denied(&denial), &mut output);
        self.insert_rejected(protocol, session, output, now)
    }

    fn insert_rejected(
        &mut self,
        protocol: Protocol,
        session: Session,
        output: OutBuf,
        now: Now,
    ) -> ClientId {
        self.rejected += 1;
        debug_assert!(self.rejected <= self.limits.rejected, "too many rejected connections");
        let rejected = Connection { output, closing: true, ..Connection::new(protocol, session) };
        let client = self.connections.insert(rejected);
        if let Some(connection) = self.connections.get_mut(client) {
            self.run_queues.mark_dirty(client, connection);
        }
        self.update_connection(client, now);
        client
    }
}

#[cfg(test)]
mod tests {
    use crate::base::time::Now;
    use crate::engine::Engine;
    use crate::model::driver::{Action, Core, Protocol};
    use crate::server::{Server, Settings};

    const WHY: &str = "no server leads";

    /// What a refused client of this protocol reads, and whether it is closed when it has ended.
    fn refused(server: &mut Server, protocol: Protocol) -> Option<(String, bool)> {
        let now = Now::default();
        let client = server.handle_refused(protocol, WHY, now)?;
        server.finish_pass(now);
        let output = server.output(client).to_vec();
        server.handle_sent(client, output.len(), now);
        server.handle_eof(client, now);
        server.finish_pass(now);
        let mut is_closed = false;
        while let Some(action) = server.poll_action() {
            is_closed |= matches!(action, Action::Close(closed) if closed == client);
        }
        server.check_invariants();
        Some((String::from_utf8(output).unwrap(), is_closed))
    }

    #[test]
    fn client_that_cannot_be_passed_on_is_told_why_in_the_words_of_its_protocol() {
        let settings = Settings { max_request: 1_000, max_clients: 9, max_memory: None };
        let mut server = Server::new(settings, Engine::in_memory(1));
        let line = r#"{"status":"error","error":"no server leads","kind":"unavailable"}"#;
        let said = refused(&mut server, Protocol::JobCentre).unwrap();
        assert_eq!(said, (format!("{line}\n"), true));
        let said = refused(&mut server, Protocol::Beanstalkd).unwrap();
        assert_eq!(said, ("INTERNAL_ERROR\r\n".to_owned(), true));
        let (said, _) = refused(&mut server, Protocol::Http).unwrap();
        assert!(said.starts_with("HTTP/1.1 503 "), "{said}");
        assert!(said.contains(WHY), "{said}");
        assert_eq!(refused(&mut server, Protocol::Processor), None);
    }
}
