//! What the server tells of itself: plain numbers, counted where things happen and read when
//! somebody asks.

use crate::base::histogram::Histogram;
use crate::model::driver::Protocol;

/// Everything that is counted, but for what each queue has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerStats {
    /// Connections, by [`Protocol::number`].
    pub protocols: [ProtocolStats; Protocol::ALL.len()],
    /// The store.
    pub store: StoreStats,
    /// How long commands took until they were answered, in nanoseconds, without the time that a
    /// take waits for a job.
    pub answered_ns: Histogram,
    /// The loop.
    pub passes: LoopStats,
    /// Queries, if this server evaluates any.
    pub queries: QueryStats,
    /// The journal, if there is one.
    pub journal: Option<JournalStats>,
    /// Bytes of memory in use, as the system has told lately.
    pub resident_bytes: Option<u64>,
    /// The workers of the processor, if there is one, by their queues: of a bounded number of them.
    pub bus_workers: Option<Vec<BusWorkerStats>>,
}

/// The workers of the processor in one queue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BusWorkerStats {
    /// The name of the queue.
    pub queue: Box<[u8]>,
    /// How many are idle.
    pub idle: u64,
    /// How many are busy.
    pub busy: u64,
}

/// Connections by one protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProtocolStats {
    /// Served at the moment.
    pub open: u64,
    /// Accepted so far, refused ones not counted.
    pub accepted: u64,
    /// Refused because there was no place.
    pub refused: u64,
    /// Bytes received.
    pub bytes_in: u64,
    /// Bytes sent.
    pub bytes_out: u64,
}

/// The store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoreStats {
    /// Jobs in whatever state.
    pub jobs: u64,
    /// Queues that are remembered.
    pub queues: u64,
    /// Takes that wait.
    pub waiters: u64,
    /// What has happened since the start.
    pub totals: JobTotals,
}

/// What has happened to jobs since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobTotals {
    /// How often, by [`JobCounter`].
    pub counters: [u64; JobCounter::ALL.len()],
    /// How long jobs were ready before they were handed out, in milliseconds.
    pub ready_ms: Histogram,
}

/// What happens to jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobCounter {
    /// Put.
    Put,
    /// Handed out to a client that holds it then.
    Reserved,
    /// Taken out for good.
    Popped,
    /// Deleted.
    Deleted,
    /// Given back by its holder.
    Released,
    /// Its lease begun anew.
    Touched,
    /// Finished by its holder.
    Finished,
    /// Given up by its holder.
    Failed,
    /// Put away.
    Buried,
    /// Made ready again.
    Kicked,
    /// The end of its delay, lease, time to live or being kept has come.
    TimerFired,
    /// Given back because its holder has gone.
    Abandoned,
}

impl JobCounter {
    /// All of them, in the order of [`JobTotals::counters`].
    pub const ALL: [Self; 12] = [
        Self::Put,
        Self::Reserved,
        Self::Popped,
        Self::Deleted,
        Self::Released,
        Self::Touched,
        Self::Finished,
        Self::Failed,
        Self::Buried,
        Self::Kicked,
        Self::TimerFired,
        Self::Abandoned,
    ];

    /// Its name where it is shown.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Put => "put",
            Self::Reserved => "taken",
            Self::Popped => "popped",
            Self::Deleted => "deleted",
            Self::Released => "released",
            Self::Touched => "touched",
            Self::Finished => "finished",
            Self::Failed => "failed",
            Self::Buried => "buried",
            Self::Kicked => "kicked",
            Self::TimerFired => "due",
            Self::Abandoned => "abandoned",
        }
    }
}

impl JobTotals {
    /// Counts one.
    #[inline(always)]
    pub fn count(&mut self, deed: JobCounter) {
        self.counters[deed as usize] += 1;
    }
}

/// The loop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoopStats {
    /// How long passes took, from the wake-up to the last write, in nanoseconds.
    pub took_ns: Histogram,
    /// The longest of them, in nanoseconds.
    pub longest_ns: u64,
    /// Which part of the last window the loop was busy, in millionths.
    pub busy_millionths: u64,
}

/// Queries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueryStats {
    /// Those that wait for their turn.
    pub waiting: u64,
    /// Evaluations begun.
    pub started: u64,
    /// Evaluations that ended with an error, those that took too long included.
    pub failed: u64,
    /// Those that took too long.
    pub timed_out: u64,
}

/// The journal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JournalStats {
    /// Bytes of records in force.
    pub live_bytes: u64,
    /// Bytes of records that are not, and have still to be given up.
    pub dead_bytes: u64,
    /// Bytes that are ready to be written.
    pub free_bytes: u64,
    /// Bytes of all files.
    pub total_bytes: u64,
    /// Bytes that the disk has not been given yet.
    pub pending_bytes: u64,
    /// Files in use or prepared.
    pub segments: u64,
    /// Batches written.
    pub batches: u64,
    /// Records written.
    pub records: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Bytes moved by compaction.
    pub moved_bytes: u64,
    /// How long syncs took together, in nanoseconds.
    pub sync_ns: u64,
    /// The longest, in nanoseconds.
    pub sync_max_ns: u64,
    /// How many took at most so many nanoseconds, and longer than those before; the last without
    /// a bound.
    pub syncs: Vec<(Option<u64>, u64)>,
    /// Whether there was no space for more when it was last tried.
    pub full: bool,
}

/// What is asked about all queues and their jobs, a bounded part at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatsScan {
    /// Which queues there are, from a place on that an earlier answer gave, 0 at first.
    Queues(u32),
    /// What their jobs are doing; the same. Each job that stays where it is counts once.
    Jobs(u32),
}

/// The answer to a [`StatsScan`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StatsPage {
    /// Queues, if that was asked for.
    pub queues: Vec<QueueCount>,
    /// Otherwise some of the jobs of some queues, by [`QueueCount::serial`], each queue at most
    /// once.
    pub counts: Vec<(u64, StatusCounts)>,
    /// Where to go on, if there are more.
    pub next: Option<u32>,
}

/// A queue in a census.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueCount {
    /// Which it is: no other queue has or had this number.
    pub serial: u64,
    /// Its name.
    pub name: Box<[u8]>,
    /// How many jobs belong to it.
    pub jobs: u32,
}

/// How many jobs are doing what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StatusCounts {
    /// Waiting to be taken.
    pub ready: u64,
    /// Waiting, and held back by constraints.
    pub blocked: u64,
    /// Waiting, but never selected: only for others of their key.
    pub group_only: u64,
    /// Waiting to become ready.
    pub delayed: u64,
    /// Being worked on.
    pub reserved: u64,
    /// Of those, what the processor has assigned and nobody has said to work on.
    pub dispatched: u64,
    /// Of those, what a worker of the processor has said to work on.
    pub processing: u64,
    /// Put away.
    pub buried: u64,
    /// Done, and kept with their results.
    pub completed: u64,
    /// For how many milliseconds the oldest ready one has been ready.
    pub oldest_ms: u32,
}

impl StatusCounts {
    /// Adds other jobs.
    pub fn add(&mut self, other: &Self) {
        self.ready += other.ready;
        self.blocked += other.blocked;
        self.group_only += other.group_only;
        self.delayed += other.delayed;
        self.reserved += other.reserved;
        self.dispatched += other.dispatched;
        self.processing += other.processing;
        self.buried += other.buried;
        self.completed += other.completed;
        self.oldest_ms = self.oldest_ms.max(other.oldest_ms);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deeds_are_in_their_order() {
        for (number, deed) in JobCounter::ALL.into_iter().enumerate() {
            assert_eq!(deed as usize, number);
        }
        for (number, protocol) in Protocol::ALL.into_iter().enumerate() {
            assert_eq!(protocol.number(), number);
        }
    }
}
