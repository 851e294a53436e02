//! How long a command waits.

/// How long a reserve or pop waits for a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Not at all.
    No,
    /// Until there is one or the client cancels.
    Forever,
    /// The same, of a pop whose queues are those of the client's last pop with this wait or with
    /// `Forever`, which was answered, and with the changes that were made to them while it waited:
    /// it costs less.
    Again,
    /// At most this long.
    Milliseconds(u64),
    /// The same, of a reserve; `u64::MAX`: without end. It is also over when a lease that the
    /// client holds comes to its last second (`LEASE_MARGIN`), or is there already: then it is
    /// answered by `Reply::LeaseEnding`.
    UntilLeaseEnds(u64),
}
