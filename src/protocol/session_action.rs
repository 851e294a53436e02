//! What a session asks of the server.

use crate::model::command::Command;
use crate::model::driver::Incident;
use crate::model::show::ConnectionRequest;

/// What the server has to do next for a session. Unless a variant says otherwise, it then offers
/// the rest of the input.
#[derive(Debug)]
pub enum SessionAction<'a> {
    /// Wait for more input.
    NeedInput,
    /// Offer no input before the next reply.
    Stalled,
    /// The session has handled a request by itself.
    Continue,
    /// The bound of this turn is reached: run the session again in the next turn, also without
    /// input.
    Yield,
    /// Submit the command under this serial.
    Submit(u32, Command<'a>),
    /// Submit what [`super::Session::poll_pending_submit`] returns.
    SubmitPending,
    /// Fill [`super::SessionTurn::stats`].
    FetchStats,
    /// Refuse all puts from now on, or take them again.
    SetDraining(bool),
    /// Cancel the waiting reserve or pop with this serial, if it still waits.
    Cancel(u32),
    /// Fill [`super::SessionTurn::workers`] with the bus workers of this queue, from this slot on.
    FetchWorkers(&'a [u8], u32),
    /// List connections, or close one.
    Connections(ConnectionRequest),
    /// Log an incident.
    Log(Incident),
    /// Close the connection after its last reply. Further input is discarded.
    Close,
    /// The same, without waiting for the peer to close too: what its client has reserved is free
    /// at once.
    End,
    /// The same after input that cannot be parsed.
    ProtocolError(Incident),
}

/// What happens to a client after a timeout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeoutAction {
    /// Nothing: there is a later deadline.
    Rearm,
    /// It is closed once its replies are sent.
    Close,
    /// It reads nothing: its connection is aborted.
    Abort,
}
