//! What came of reading once more what a running server can read again.

use crate::base::time::Wall;

/// What is in use after a reload.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReloadReport {
    /// When the certificate of TLS listeners expires; `None`: there are no such listeners.
    pub certificate_expires: Option<Wall>,
    /// How many users there are; `None`: there are none, and every client may do everything.
    pub users: Option<usize>,
    /// What could not be used, so that the former stays: a sentence each, without its full stop.
    pub failures: Vec<String>,
}
