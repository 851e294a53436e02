//! The limit of file descriptors, and how connections of each kind share it.

use crate::base::limits::{
    FORWARDS_MAX, HANDSHAKES_MAX, LINGERING_MAX, OUTBOUND_CONNECTIONS_MAX,
    REJECTED_CONNECTIONS_MAX, RESERVED_FILE_DESCRIPTORS,
};
use rlimit::Resource;
use rustix::io::Errno;
use std::{fs, io};
use tracing::warn;

/// Upper bounds of the connections of each kind. What remains of the limit is for the journal and
/// the rest of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DescriptorShares {
    pub(super) clients: usize,
    /// Connections to workers.
    pub(super) outbound: usize,
    /// Rejected clients whose error reply is being sent.
    pub(super) rejected: usize,
    /// Closed connections whose peers still send.
    pub(super) lingering: usize,
    /// Connections that a server which waits to lead forwards: each takes two.
    pub(super) forwards: usize,
    /// Clients whose TLS handshakes are under way.
    pub(super) handshakes: usize,
}

/// If descriptors are short, a kind other than clients gets at least 1 / this of them.
const MIN_SHARE_DIVISOR: usize = 8;

impl DescriptorShares {
    fn wanted(clients: usize, has_tls: bool, forwards: bool) -> Self {
        Self {
            clients,
            handshakes: if has_tls { HANDSHAKES_MAX } else { 0 },
            forwards: if forwards { clients.min(FORWARDS_MAX as usize) } else { 0 },
            outbound: OUTBOUND_CONNECTIONS_MAX,
            rejected: REJECTED_CONNECTIONS_MAX,
            lingering: LINGERING_MAX,
        }
    }

    fn total(self) -> usize {
        let others = self.outbound + self.rejected + self.lingering + self.handshakes;
        self.clients + others + self.forwards
    }

    /// Shares `files` descriptors: clients have precedence over outbound connections, but each kind
    /// gets at least one.
    fn of(files: usize, clients: usize, has_tls: bool, forwards: bool) -> Self {
        let wanted = Self::wanted(clients, has_tls, forwards);
        let part = |wanted: usize, of: usize| wanted.min(of / MIN_SHARE_DIVISOR);
        let (rejected, lingering) = (part(wanted.rejected, files), part(wanted.lingering, files));
        let handshakes = part(wanted.handshakes, files);
        let rest = files - rejected - lingering - handshakes;
        let least = part(wanted.outbound, rest).max(1);
        let clients = clients.min(rest.saturating_sub(least)).max(1);
        let outbound = wanted.outbound.min(rest.saturating_sub(clients)).max(1);
        // Nothing is called, and no client is served, while connections are forwarded.
        let pairs = (rest / 2).max(1);
        let forwards = wanted.forwards.min(pairs);
        Self { clients, outbound, rejected, lingering, forwards, handshakes }
    }
}

/// Raises the limit of file descriptors for `max_clients` clients and all other connections.
/// Returns the bounds under the limit that was reached.
pub(super) fn reserve_descriptors_for_clients(
    max_clients: usize,
    has_tls: bool,
    forwards: bool,
) -> DescriptorShares {
    let wanted = DescriptorShares::wanted(max_clients, has_tls, forwards);
    let kept = RESERVED_FILE_DESCRIPTORS + inherited();
    let needed = wanted.total() as u64 + kept;
    let limit = raise_limit(needed);
    if limit >= needed {
        return wanted;
    }
    let files = usize::try_from(limit.saturating_sub(kept)).unwrap_or(usize::MAX);
    let shares = DescriptorShares::of(files, max_clients, has_tls, forwards);
    if shares.forwards < wanted.forwards {
        warn!(
            limit,
            forwards = shares.forwards,
            "the system allows few open files: while another server leads, no more clients are \
             passed on to it than these (ulimit -Hn, or LimitNOFILE= of systemd, should be \
             {needed})"
        );
    }
    if (DescriptorShares { forwards: wanted.forwards, ..shares }) == wanted {
        return shares;
    }
    warn!(
        limit,
        clients = shares.clients,
        calls = shares.outbound,
        "the system allows few open files: no more clients, and calls to workers, than these \
         (ulimit -Hn, or LimitNOFILE= of systemd, should be {needed})"
    );
    shares
}

/// Raises the limit of file descriptors for a program with this many connections. Returns how many
/// it can make.
pub(super) fn reserve_descriptors(connections: usize) -> usize {
    let kept = RESERVED_FILE_DESCRIPTORS + inherited();
    let limit = raise_limit(connections as u64 + kept);
    usize::try_from(limit.saturating_sub(kept)).unwrap_or(usize::MAX).min(connections)
}

/// Whether an error is for lack of descriptors.
pub(super) fn is_of_limit(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::MFILE.raw_os_error())
}

/// An error that ends the server; if it is for lack of descriptors, with their limit.
pub(super) fn explain(error: &io::Error) -> String {
    if !is_of_limit(error) {
        return error.to_string();
    }
    let limit = Resource::NOFILE.get().map_or(0, |(soft, _)| soft);
    format!(
        "{error}: the limit on open files is {limit}, too low for a server without any client. \
         Raise it (ulimit -n, or LimitNOFILE= of systemd)"
    )
}

/// Raises the limit to `needed`, or as far as permitted. Returns the resulting limit.
fn raise_limit(needed: u64) -> u64 {
    let Ok((soft, hard)) = Resource::NOFILE.get() else { return u64::MAX };
    if soft >= needed {
        return soft;
    }
    let raised = Resource::NOFILE.set(needed, hard.max(needed)).map(|()| needed);
    raised.or_else(|_| Resource::NOFILE.set(hard, hard).map(|()| hard)).unwrap_or(soft)
}

/// Descriptors that this process has inherited, beside the usual three.
fn inherited() -> u64 {
    let Ok(open) = fs::read_dir("/proc/self/fd") else { return 0 };
    // One of them is the directory itself.
    (open.count() as u64).saturating_sub(4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ample_descriptors_give_every_kind_its_full_share() {
        let wanted = DescriptorShares::wanted(10_000, true, true);
        assert_eq!(DescriptorShares::of(1_000_000, 10_000, true, true), wanted);
        assert_eq!(
            (wanted.handshakes, DescriptorShares::wanted(1, false, false).handshakes),
            (1_024, 0)
        );
    }

    #[test]
    fn few_descriptors_go_to_clients_first_but_no_kind_gets_none() {
        let few = DescriptorShares {
            clients: 500,
            outbound: 220,
            rejected: 120,
            lingering: 120,
            handshakes: 0,
            forwards: 0,
        };
        assert_eq!(DescriptorShares::of(960, 500, false, false), few);
        let many = DescriptorShares { clients: 630, outbound: 90, ..few };
        assert_eq!(DescriptorShares::of(960, 10_000, false, false), many);
        let with_tls = DescriptorShares { outbound: 100, handshakes: 120, ..few };
        assert_eq!(DescriptorShares::of(960, 500, true, false), with_tls);
        for files in 2..5_000 {
            for clients in [1, 7, 500, 10_000] {
                let shares = DescriptorShares::of(files, clients, files % 2 == 0, files % 3 == 0);
                let served = shares.total() - shares.forwards;
                assert!(served <= files, "{files} files: {shares:?}");
                let pairs = shares.forwards * 2;
                assert!(pairs <= files || pairs == 2, "{files} files: {shares:?}");
                assert!(shares.clients > 0 && shares.outbound > 0 && shares.clients <= clients);
            }
        }
    }
}
