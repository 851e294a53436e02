//! What a session asks of the server.

use crate::access::{Denial, Digest};
use crate::model::command::Command;
use crate::model::driver::Incident;
use crate::model::reload::ReloadReport;
use crate::model::show::ConnectionRequest;
use std::sync::Arc;

/// What statistics are for, which says who may read them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatsKind {
    /// For metrics, which every client of this machine may read.
    Metrics,
    /// About the server, for clients that have the right to observe, wherever they are.
    Server,
}

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
    /// Fill [`super::SessionTurn::authentication`]; after [`Authentication::Later`] the session
    /// asks [`Credential::Again`] in its next turn.
    Authenticate(Credential),
    /// Fill [`super::SessionTurn::caller`].
    FetchCaller,
    /// Fill [`super::SessionTurn::browser`].
    Browser(BrowserRequest),
    /// Fill [`super::SessionTurn::stats`], if the client may read them.
    FetchStats(StatsKind),
    /// Nothing, if the client may observe; else it is denied.
    Observe,
    /// Do what only administrators may ask for.
    Administer(AdminRequest),
    /// Cancel the waiting reserve or pop with this serial, if it still waits.
    Cancel(u32),
    /// Fill [`super::SessionTurn::workers`] with the bus workers of this queue, from this slot on.
    FetchWorkers(Box<[u8]>, u32),
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

/// How a client says who it is.
#[derive(Clone, Copy, Debug)]
pub enum Credential {
    /// By a token.
    Token(Digest),
    /// By the id of a session of a browser; if that has ended, as with `Peer`.
    Browser(Digest),
    /// Not at all: by its certificate, its uid, or its listener.
    Peer,
    /// As it has said before: the answer is still to come.
    Again,
}

/// Who a client is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Authentication {
    /// This user; the name is there if the protocol shows it.
    User(Box<str>),
    /// No token was shown, and the client is no user without one.
    Unknown,
    /// No user has the token.
    WrongToken {
        /// The connection is to be closed.
        is_last: bool,
    },
    /// There are no users.
    NoUsers,
    /// The answer is still to come.
    Later,
}

/// What a client may do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Caller {
    /// The name of its user.
    pub user: Box<str>,
    /// The permissions of its user, as in the settings.
    pub permissions: Vec<String>,
}

/// What is done with the session of a browser.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BrowserRequest {
    /// One begins, for the user and the token of this request.
    Open,
    /// That of this request ends.
    Close,
}

/// What administrators ask of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdminRequest {
    /// Refuse all puts from now on, or take them again.
    Drain(bool),
    /// Read once more what can be, and fill [`super::SessionTurn::reload`]; after
    /// [`Reloading::UnderWay`] the session asks for the outcome in its next turn.
    Reload,
    /// Fill [`super::SessionTurn::reload`] with what came of the reload that was asked for before.
    ReloadOutcome,
}

/// How far a reload is.
#[derive(Clone, Debug)]
pub enum Reloading {
    /// Its outcome is still to come.
    UnderWay,
    /// It is done.
    Done(Arc<ReloadReport>),
}

/// Why the server closes a client that has no request under way.
#[derive(Clone, Copy, Debug)]
pub enum Closing<'a> {
    /// Its buffers are needed: a sentence that says so.
    Memory(&'a str),
    /// It is no user of this server, or no more.
    Denied(&'a Denial),
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
