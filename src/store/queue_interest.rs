//! The users and watchers of a queue, and what is counted for them.

/// What the clients that use and watch a queue have of it.
#[derive(Debug, Default)]
pub(super) struct Interest {
    pub(super) using: u32,
    pub(super) watching: u32,
    /// Times that they have paused it.
    pub(super) pauses: u32,
    /// Its present pause is theirs.
    pub(super) owns_pause: bool,
    /// Jobs that were put before they made it.
    pub(super) put_before: u64,
}

impl Interest {
    pub(super) fn is_any(&self) -> bool {
        self.using > 0 || self.watching > 0
    }
}
