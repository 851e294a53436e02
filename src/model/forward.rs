//! Figures of forwarded connections.

/// Connections that a server which waits to lead passes on to the leader.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ForwardStats {
    /// Passed on now.
    pub open: u64,
    /// Passed on since it waits.
    pub begun: u64,
    /// Closed because they could not be passed on.
    pub refused: u64,
    /// Bytes from clients.
    pub bytes_to_leader: u64,
    /// Bytes from the leader.
    pub bytes_to_client: u64,
}
