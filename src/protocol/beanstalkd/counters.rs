//! What all connections of the listener count together, for `stats`.

use std::sync::atomic::{AtomicU64, Ordering};

/// A counter that is shared by the sessions of one thread.
#[derive(Debug, Default)]
pub(super) struct Counter(AtomicU64);

impl Counter {
    #[inline]
    pub(super) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// One thread writes, so a load and a store are enough.
    #[inline]
    pub(super) fn add(&self) {
        self.0.store(self.get().wrapping_add(1), Ordering::Relaxed);
    }

    #[inline]
    pub(super) fn subtract(&self) {
        debug_assert!(self.get() > 0, "more connections leave a count than have entered it");
        self.0.store(self.get().wrapping_sub(1), Ordering::Relaxed);
    }
}

/// The commands that are counted, in the order of `stats`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verb {
    Put,
    Peek,
    PeekReady,
    PeekDelayed,
    PeekBuried,
    Reserve,
    ReserveWithTimeout,
    Delete,
    Release,
    Use,
    Watch,
    Ignore,
    Bury,
    Kick,
    Touch,
    Stats,
    StatsJob,
    StatsTube,
    ListTubes,
    ListTubeUsed,
    ListTubesWatched,
    PauseTube,
}

impl Verb {
    pub(super) const ALL: [(Self, &str); 22] = [
        (Self::Put, "put"),
        (Self::Peek, "peek"),
        (Self::PeekReady, "peek-ready"),
        (Self::PeekDelayed, "peek-delayed"),
        (Self::PeekBuried, "peek-buried"),
        (Self::Reserve, "reserve"),
        (Self::ReserveWithTimeout, "reserve-with-timeout"),
        (Self::Delete, "delete"),
        (Self::Release, "release"),
        (Self::Use, "use"),
        (Self::Watch, "watch"),
        (Self::Ignore, "ignore"),
        (Self::Bury, "bury"),
        (Self::Kick, "kick"),
        (Self::Touch, "touch"),
        (Self::Stats, "stats"),
        (Self::StatsJob, "stats-job"),
        (Self::StatsTube, "stats-tube"),
        (Self::ListTubes, "list-tubes"),
        (Self::ListTubeUsed, "list-tube-used"),
        (Self::ListTubesWatched, "list-tubes-watched"),
        (Self::PauseTube, "pause-tube"),
    ];
}

/// See the module documentation.
#[derive(Debug, Default)]
pub(super) struct Counters {
    verbs: [Counter; Verb::ALL.len()],
    /// Open connections that have put.
    pub(super) producers: Counter,
    /// Open connections that have reserved.
    pub(super) workers: Counter,
    /// Connections that wait for a job.
    pub(super) waiting: Counter,
    /// Connections that use, and watch, the tube `default`: they do so without a command.
    pub(super) using_default: Counter,
    pub(super) watching_default: Counter,
    /// Numbers of [`Session::names`](super::Session) that were given out.
    names: Counter,
}

impl Counters {
    #[inline]
    pub(super) fn count(&self, verb: Verb) {
        self.verbs[verb as usize].add();
    }

    /// Another number, from 1 on.
    pub(super) fn next_names(&self) -> u64 {
        self.names.add();
        self.names.get()
    }

    pub(super) fn get(&self, verb: Verb) -> u64 {
        self.verbs[verb as usize].get()
    }
}
