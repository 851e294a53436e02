//! What the native API shows beside jobs and queues: registered workers, constraints, connections.

use crate::base::time::Wall;
use crate::model::driver::Protocol;
use crate::model::id::ClientId;
use crate::model::worker::{Constraint, OwnedWorker, WorkerId};

/// A registered worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerDetails {
    /// As it has registered.
    pub worker: OwnedWorker,
    /// Jobs that it works on, counted up to `RESERVED_JOBS_COUNTED`.
    pub reserved: usize,
    /// When it got a job last; `None`: not since the start.
    pub last_reserved: Option<Wall>,
}

/// Some workers, by id.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkerPage {
    /// As many as were asked for, or fewer.
    pub workers: Vec<WorkerDetails>,
    /// The smallest id of the next page; `None`: this is the last one.
    pub next: Option<WorkerId>,
}

/// A constraint, and how much of its limits is used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConstraintDetails {
    /// Its definition.
    pub constraint: Constraint,
    /// Values of `per` that are in use; without `per` at most one, which has no value.
    pub keys: usize,
    /// Those of them that hold jobs back.
    pub blocked_keys: usize,
    /// Its jobs that are reserved.
    pub running: u64,
    /// How many more jobs may start now by its rate; of several keys, for the one with the fewest.
    pub tokens: Option<u64>,
}

/// Some constraints, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConstraintPage {
    /// As many as were asked for, or fewer.
    pub constraints: Vec<ConstraintDetails>,
    /// Whether there are more behind the last one.
    pub more: bool,
}

/// A connection of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectionDetails {
    /// See [`connection_number`].
    pub client: ClientId,
    /// The protocol of its listener.
    pub protocol: Protocol,
    /// The other end, if it has an address.
    pub peer: Option<Box<str>>,
    /// The name of the user whose token or certificate its last request had.
    pub user: Option<Box<str>>,
    /// When it was accepted.
    pub since: Wall,
    /// Whether a request of it waits for its answer.
    pub waits: bool,
    /// Jobs that it has reserved, counted up to `RESERVED_JOBS_COUNTED`.
    pub reserved: usize,
    /// What it has to read yet.
    pub unsent_bytes: usize,
}

/// Some connections, by place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConnectionPage {
    /// As many as were asked for, or fewer.
    pub connections: Vec<ConnectionDetails>,
    /// The place from which the next page goes on; `None`: this is the last one.
    pub next: Option<u32>,
}

/// A request of a session that the server answers by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionRequest {
    /// Connections from this place on, this number at most.
    List(u32, usize),
    /// Close another connection at the end of the pass.
    Close(ClientId),
}

/// What came of a request to close a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseOutcome {
    /// It is closed at the end of the pass.
    Closed,
    /// It has ended already.
    Gone,
    /// There never was one of this number.
    NeverAccepted,
    /// It is that of the request, or standard input.
    Kept,
}

/// The bits of a connection's place in its number: more than `MAX_CLIENTS_MAX`.
const PLACE_BITS: u32 = 24;

/// The number under which a connection is shown. It is never used twice, and exact as a double for
/// the first half a thousand million connections.
#[must_use]
pub fn connection_number(client: ClientId) -> u64 {
    u64::from(client.generation) << PLACE_BITS | u64::from(client.index)
}

/// The connection of a number.
#[must_use]
pub fn numbered_connection(number: u64) -> Option<ClientId> {
    let index = u32::try_from(number & ((1 << PLACE_BITS) - 1)).ok()?;
    let generation = u32::try_from(number >> PLACE_BITS).ok()?;
    Some(ClientId { index, generation })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::limits::MAX_CLIENTS_MAX;

    #[test]
    fn numbers_lead_back_to_their_connections() {
        let largest = u32::try_from(MAX_CLIENTS_MAX).unwrap();
        for (index, generation) in [(0, 1), (7, 9), (2 * largest / 2, u32::MAX)] {
            let client = ClientId { index, generation };
            assert_eq!(numbered_connection(connection_number(client)), Some(client));
        }
        assert_eq!(numbered_connection(u64::MAX), None);
    }
}
