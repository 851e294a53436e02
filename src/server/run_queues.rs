//! Run queues: connections that need attention in this pass or the next.

use super::connection::Connection;
use crate::base::buf::BufferPool;
use crate::base::limits::PACKETS_FREED_PER_PASS;
use crate::model::driver::Action;
use crate::model::id::ClientId;
use crate::model::job::Packet;
use std::collections::VecDeque;
use std::vec::IntoIter;

/// `dirty` and `resumable` hold a connection at most once. A key of a connection that has ended may
/// remain in any queue; the lookup then fails, and it is skipped.
#[derive(Debug, Default)]
pub(super) struct RunQueues {
    /// The driver checks their output and whether they want input.
    pub(super) dirty: VecDeque<ClientId>,
    /// Their sessions run in the next pass, with or without new input.
    pub(super) resumable: VecDeque<ClientId>,
    /// Their sessions have a command to submit since their last reply. Empty between any two calls
    /// of the driver.
    pub(super) pending_submits: VecDeque<ClientId>,
    /// Got a reply, perhaps their last one, after they had begun to end.
    pub(super) closing: Vec<ClientId>,
    /// Closed at the end of this pass, because another client has asked for that.
    pub(super) to_close: Vec<ClientId>,
    /// Connections to workers that got a reply, input or a connection.
    pub(super) ready_deliveries: Vec<ClientId>,
    pub(super) actions: VecDeque<Action>,
    pub(super) pool: BufferPool,
    /// Packets of answers that no client gets, to be freed over several passes.
    pub(super) discarded: VecDeque<IntoIter<Packet>>,
    /// Work of this pass, in the unit of `INPUT_WORK_PER_PASS`.
    pub(super) work: usize,
    /// Entries of `resumable` that were taken out in the last pass.
    pub(super) resumed: usize,
}

impl RunQueues {
    #[inline]
    pub(super) fn mark_dirty(&mut self, client: ClientId, connection: &mut Connection) {
        if connection.broken && !connection.output.is_empty() {
            let unsent = connection.output.len();
            connection.output.sent(unsent, &mut self.pool);
        }
        connection.output.release_memory(&mut self.pool);
        debug_assert!(
            !connection.broken || connection.output.is_empty(),
            "output is kept that does not reach the peer"
        );
        if !connection.dirty {
            connection.dirty = true;
            self.dirty.push_back(client);
        }
    }

    /// Frees discarded packets, up to [`PACKETS_FREED_PER_PASS`].
    #[cold]
    pub(super) fn free_discarded(&mut self) {
        for _ in 0..PACKETS_FREED_PER_PASS {
            let Some(packets) = self.discarded.front_mut() else { return };
            if packets.next().is_none() {
                self.discarded.pop_front();
            }
        }
    }

    /// Schedules a stalled connection, now that its session may take the buffered input.
    #[inline]
    pub(super) fn resume_stalled(&mut self, client: ClientId, connection: &mut Connection) {
        if connection.stalled {
            debug_assert!(!connection.input.is_empty(), "a connection is stalled without input");
            self.schedule(client, connection);
        }
    }

    /// Lets the session run once more in the next pass, with or without input.
    pub(super) fn schedule(&mut self, client: ClientId, connection: &mut Connection) {
        if !connection.resumable {
            connection.resumable = true;
            self.resumable.push_back(client);
        }
    }
}
