//! L1: users: who a client is, and what it may do. No I/O, no clock: the time is handed in.
//!
//! A user is entered by a token, by a name in a certificate, by the uid of a local process, or by
//! the address of a listener; only by ways that its table names. Its permissions are a right and a
//! pattern of queue names each. What each command needs stands in [`needs`], in one place for all
//! protocols.
//!
//! Invariants: a token is kept as its digest only; every way into a user leads through [`Users`],
//! which checks that the user is for the protocol and has not expired.

mod browser_sessions;
mod denial;
mod digest;
mod need;
mod pattern;
mod users;

pub use browser_sessions::{BrowserSessions, SESSION_TIME};
pub use denial::Denial;
pub use digest::{Digest, TOKEN_PREFIX};
pub use need::{Need, Right, needs, needs_for_contents};
pub use pattern::Pattern;
pub use users::{CertificateName, Permission, User, UserId, UserSpec, Users};
