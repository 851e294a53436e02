//! Who something is to be done about.

use super::connection::Connection;
use crate::base::buf::BufferPool;
use crate::model::driver::Action;
use crate::model::id::ClientId;
use std::collections::VecDeque;

/// Connections that something is to be done about, each at most once in each list but `owing`. A
/// connection that has ended may still be named; its key finds nothing.
#[derive(Debug, Default)]
pub(super) struct RunQueues {
    pub(super) dirty: Vec<ClientId>,
    pub(super) resumable: VecDeque<ClientId>,
    /// Their sessions owe a command since they got a reply. Empty between any two calls.
    pub(super) pending_submits: VecDeque<ClientId>,
    /// Got a reply after their peers had closed: it may have been the last one.
    pub(super) closing: Vec<ClientId>,
    /// Agents that may want something, some of them more than once.
    pub(super) ready_dispatchers: VecDeque<ClientId>,
    /// Connections to workers that have got something.
    pub(super) ready_deliveries: Vec<ClientId>,
    pub(super) actions: VecDeque<Action>,
    pub(super) pool: BufferPool,
}

impl RunQueues {
    #[inline]
    pub(super) fn touch(&mut self, client: ClientId, connection: &mut Connection) {
        if connection.broken {
            let unsent = connection.output.len();
            connection.output.sent(unsent, &mut self.pool);
        }
        connection.output.release_memory(&mut self.pool);
        if !connection.touched {
            connection.touched = true;
            self.dirty.push(client);
        }
    }

    /// Takes up what is buffered for a connection, now that its session may take it.
    #[inline]
    pub(super) fn resume(&mut self, client: ClientId, connection: &mut Connection) {
        if connection.stalled {
            self.go_on(client, connection);
        }
    }

    /// Lets the session of a connection run once more in the next pass, input or not.
    pub(super) fn go_on(&mut self, client: ClientId, connection: &mut Connection) {
        if !connection.resumed {
            connection.resumed = true;
            self.resumable.push_back(client);
        }
    }
}
