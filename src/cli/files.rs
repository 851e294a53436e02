//! The limit on open files: every client needs one.

use crate::base::limits::{REFUSED_MAX, RESERVED_FILES};
use rlimit::Resource;
use tracing::warn;

/// Raises the limit on open files so that `max_clients` fit, and returns how many really fit.
pub(super) fn make_room(max_clients: usize) -> usize {
    let aside = RESERVED_FILES + REFUSED_MAX as u64;
    let needed = max_clients as u64 + aside;
    let Ok((soft, hard)) = Resource::NOFILE.get() else { return max_clients };
    if soft >= needed {
        return max_clients;
    }
    let raised = Resource::NOFILE.set(needed, hard.max(needed)).map(|()| needed);
    let limit = raised.or_else(|_| Resource::NOFILE.set(hard, hard).map(|()| hard)).unwrap_or(soft);
    let room = limit.saturating_sub(aside).max(1);
    if room < max_clients as u64 {
        warn!(
            max_clients,
            limit,
            room,
            "the system allows too few open files: fewer clients are served \
             (raise the hard limit: ulimit -Hn, LimitNOFILE=)"
        );
    }
    usize::try_from(room).unwrap_or(max_clients).min(max_clients)
}
