//! The limit on open files: what every client, every call to a worker and the journal need.

use crate::base::limits::{
    LINGERING_MAX, OUTBOUND_CONNECTIONS_MAX, REJECTED_CONNECTIONS_MAX, RESERVED_FILE_DESCRIPTORS,
};
use rlimit::Resource;
use std::fs;
use tracing::warn;

/// How many connections of each kind there may be, so that the rest of the server, and the journal
/// above all, always has the descriptors that it needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shares {
    pub(super) clients: usize,
    /// Calls to workers.
    pub(super) calls: usize,
    /// Clients that are told that there is no place.
    pub(super) refused: usize,
    /// Connections whose clients still send after the last that they were told.
    pub(super) lingering: usize,
}

/// So much of what may be short is kept for each kind of connection that is no client's.
const LEAST_PART: usize = 8;

impl Shares {
    /// What is wanted.
    fn wanted(clients: usize) -> Self {
        Self {
            clients,
            calls: OUTBOUND_CONNECTIONS_MAX,
            refused: REJECTED_CONNECTIONS_MAX,
            lingering: LINGERING_MAX,
        }
    }

    fn total(self) -> usize {
        self.clients + self.calls + self.refused + self.lingering
    }

    /// What there is with `files` of them for connections: clients go first, but not so that there
    /// is nothing for the others.
    fn of(files: usize, clients: usize) -> Self {
        let wanted = Self::wanted(clients);
        let part = |wanted: usize, of: usize| wanted.min(of / LEAST_PART);
        let (refused, lingering) = (part(wanted.refused, files), part(wanted.lingering, files));
        let rest = files - refused - lingering;
        let least = part(wanted.calls, rest).max(1);
        let clients = clients.min(rest.saturating_sub(least)).max(1);
        let calls = wanted.calls.min(rest.saturating_sub(clients)).max(1);
        Self { clients, calls, refused, lingering }
    }
}

/// Raises the limit on open files so that `max_clients` fit, with all that they need, and returns
/// what really fits.
pub(super) fn make_room(max_clients: usize) -> Shares {
    let wanted = Shares::wanted(max_clients);
    let aside = RESERVED_FILE_DESCRIPTORS + inherited();
    let needed = wanted.total() as u64 + aside;
    let limit = raise_limit(needed);
    if limit >= needed {
        return wanted;
    }
    let files = usize::try_from(limit.saturating_sub(aside)).unwrap_or(usize::MAX);
    let shares = Shares::of(files, max_clients);
    warn!(
        limit,
        clients = shares.clients,
        calls = shares.calls,
        "the system allows few open files: no more clients, and calls to workers, than these \
         (ulimit -Hn, or LimitNOFILE= of systemd, should be {needed})"
    );
    shares
}

/// Raises the limit on open files for a program that makes so many connections, and returns how
/// many it can make.
pub(super) fn make_room_for(connections: usize) -> usize {
    let aside = RESERVED_FILE_DESCRIPTORS + inherited();
    let limit = raise_limit(connections as u64 + aside);
    usize::try_from(limit.saturating_sub(aside)).unwrap_or(usize::MAX).min(connections)
}

/// Raises the limit to what is needed, or as far as it can be raised. The limit that there is then.
fn raise_limit(needed: u64) -> u64 {
    let Ok((soft, hard)) = Resource::NOFILE.get() else { return u64::MAX };
    if soft >= needed {
        return soft;
    }
    let raised = Resource::NOFILE.set(needed, hard.max(needed)).map(|()| needed);
    raised.or_else(|_| Resource::NOFILE.set(hard, hard).map(|()| hard)).unwrap_or(soft)
}

/// Files that whoever started this process has left open, beside the usual three.
fn inherited() -> u64 {
    let Ok(open) = fs::read_dir("/proc/self/fd") else { return 0 };
    // One of them is that directory.
    (open.count() as u64).saturating_sub(4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn with_files_enough_everybody_has_what_is_wanted() {
        let wanted = Shares::wanted(10_000);
        assert_eq!(Shares::of(1_000_000, 10_000), wanted);
    }

    #[test]
    fn with_few_files_clients_go_first_and_nobody_gets_none() {
        let shares = Shares::of(960, 500);
        assert_eq!(shares, Shares { clients: 500, calls: 220, refused: 120, lingering: 120 });
        let shares = Shares::of(960, 10_000);
        assert_eq!(shares, Shares { clients: 630, calls: 90, refused: 120, lingering: 120 });
        for files in 2..5_000 {
            for clients in [1, 7, 500, 10_000] {
                let shares = Shares::of(files, clients);
                assert!(shares.total() <= files, "{files} files: {shares:?}");
                assert!(shares.clients > 0 && shares.calls > 0 && shares.clients <= clients);
            }
        }
    }
}
