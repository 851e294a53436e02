//! Back-pressure: a connection whose client does not read what it is sent, or sends more than is
//! served, is neither read nor served, so that it buffers no more. Nothing is dropped.

use super::Server;
use super::connection::Connection;
use crate::base::limits::{OUTPUT_HIGH_WATER_BYTES, STALLED_INPUT_MAX_BYTES};
use crate::base::time::Now;
use crate::engine::CommandExecutor;
use crate::model::id::ClientId;

impl Connection {
    /// Whether so much of its output is unsent that it is neither read nor served.
    #[inline(always)]
    pub(super) fn is_above_high_water(&self) -> bool {
        self.output.len() > OUTPUT_HIGH_WATER_BYTES
    }

    /// Whether it is to be read.
    #[inline]
    pub(super) fn takes_input(&self) -> bool {
        if self.is_eof() || self.is_above_high_water() {
            return false;
        }
        let served = self.session.wants_input() && !self.stalled;
        served || self.input.len() < STALLED_INPUT_MAX_BYTES
    }
}

impl<E: CommandExecutor> Server<E> {
    /// Cancels the open pop of a client that does not read what it is sent. Returns whether its
    /// session stalls for that; output that is broken is dropped instead.
    #[cold]
    pub(super) fn stalls_on_output(&mut self, client: ClientId, now: Now) -> bool {
        let Some(connection) = self.connections.get_mut(client) else { return true };
        if connection.broken {
            self.run_queues.mark_dirty(client, connection);
            return false;
        }
        if let Some(serial) = connection.session.open_subscription() {
            self.cancel_wait(client, serial, Some(client), now);
        }
        true
    }
}
