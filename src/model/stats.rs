//! Statistics of the server: plain counters, collected when asked for.

use crate::base::histogram::Histogram;
use crate::base::time::Wall;
use crate::model::driver::Protocol;
use crate::model::flow::{Rates, StateCounts};
use crate::model::forward::ForwardStats;
use crate::model::job::Status;

/// Everything that is counted except the figures of single queues.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerStats {
    /// Connections, by [`Protocol::number`].
    pub protocols: [ProtocolStats; Protocol::ALL.len()],
    /// Jobs, queues and waiters.
    pub store: StoreStats,
    /// Time from command to reply in nanoseconds, without the wait of a reserve.
    pub answered_ns: Histogram,
    /// Durations of passes.
    pub passes: LoopStats,
    /// Zero if this server evaluates none.
    pub queries: QueryStats,
    /// `None` without `--data`.
    pub journal: Option<JournalStats>,
    /// `None` without `--engine`.
    pub shared: Option<SharedStats>,
    /// Whether this server waits to lead.
    pub is_standby: bool,
    /// Of a server that waits to lead.
    pub forwards: ForwardStats,
    /// Memory of jobs, tables and buffers.
    pub memory: MemoryStats,
    /// Whether puts are refused.
    pub draining: bool,
    /// Processor time in user mode and in the system, in microseconds, sampled as well.
    pub user_us: u64,
    /// See `user_us`.
    pub system_us: u64,
    /// Resident memory, sampled every few seconds.
    pub resident_bytes: Option<u64>,
    /// TLS of listeners.
    pub tls: TlsStats,
    /// Users and their clients.
    pub access: AccessStats,
    /// Workers of the processor by queue, for a bounded number of queues.
    pub bus_workers: Option<Vec<BusWorkerStats>>,
}

/// Users and their clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AccessStats {
    /// How many users the settings have; `None`: clients need not say who they are.
    pub users: Option<u64>,
    /// Wrong tokens so far.
    pub failures: u64,
    /// Requests that were not executed because of a right that is missing.
    pub denied: u64,
}

/// TLS of listeners.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TlsStats {
    /// When the server's certificate expires; `None`: no listener has TLS.
    pub certificate_expires: Option<Wall>,
    /// Handshakes that were completed.
    pub handshakes: u64,
    /// Handshakes that have failed.
    pub failures: u64,
}

/// Memory as the server counts it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryStats {
    /// Of jobs and the tables about them, in bytes.
    pub store_bytes: u64,
    /// Of unfinished requests and unsent replies, in bytes.
    pub buffer_bytes: u64,
    /// `--max-memory`.
    pub limit_bytes: Option<u64>,
    /// Commands refused because of the limit since the start.
    pub refused: u64,
}

/// Workers of the processor in one queue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BusWorkerStats {
    /// Queue name: any bytes.
    pub queue: Box<[u8]>,
    /// Workers without a job.
    pub idle: u64,
    /// Workers with a job.
    pub busy: u64,
}

/// Connections of one protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProtocolStats {
    /// Open now.
    pub open: u64,
    /// Accepted since the start, without rejected ones.
    pub accepted: u64,
    /// Rejected since the start, beyond `--max-clients`.
    pub rejected: u64,
    /// Bytes received since the start.
    pub bytes_in: u64,
    /// Bytes sent since the start.
    pub bytes_out: u64,
}

/// Sizes of the store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoreStats {
    /// Jobs of any status.
    pub jobs: u64,
    /// Queues in the table, with idle ones.
    pub queues: u64,
    /// Reserves and pops that wait.
    pub waiters: u64,
    /// Counted since the start.
    pub totals: JobTotals,
    /// Of the last minute.
    pub rates: Rates,
    /// Of all queues; at most some seconds old if there are many.
    pub counts: StateCounts,
}

/// What has happened to jobs since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobTotals {
    /// By [`JobCounter`].
    pub counters: [u64; JobCounter::ALL.len()],
    /// Of the deleted jobs: those that were not reserved, or that the native API has deleted.
    pub withdrawn: u64,
    /// Leases that have ended by their time.
    pub leases_ended: u64,
    /// Time from ready to reserved or popped, in milliseconds.
    pub ready_ms: Histogram,
}

/// Kinds of counted changes of jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobCounter {
    /// Added to a queue.
    Put,
    /// Reserved by a client.
    Reserved,
    /// Handed out and removed.
    Popped,
    /// Removed by a client.
    Deleted,
    /// Given back by its client.
    Released,
    /// Its lease started again.
    Touched,
    /// Reported done.
    Finished,
    /// Its run was reported as failed.
    Failed,
    /// Buried by its client.
    Buried,
    /// Made ready again.
    Kicked,
    /// End of its delay, lease, ttl or retention.
    TimerFired,
    /// Given back because its client or worker was lost.
    Abandoned,
}

impl JobCounter {
    /// In the order of [`JobTotals::counters`].
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

    /// Name in metrics.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Put => "put",
            Self::Reserved => "reserved",
            Self::Popped => "popped",
            Self::Deleted => "deleted",
            Self::Released => "released",
            Self::Touched => "touched",
            Self::Finished => "finished",
            Self::Failed => "failed",
            Self::Buried => "buried",
            Self::Kicked => "kicked",
            Self::TimerFired => "timer_fired",
            Self::Abandoned => "abandoned",
        }
    }
}

impl JobTotals {
    /// Adds one.
    #[inline(always)]
    pub fn count(&mut self, counter: JobCounter) {
        self.counters[counter as usize] += 1;
    }
}

/// Passes of the loop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoopStats {
    /// Duration of a pass, from the wake-up to the last write, in nanoseconds.
    pub took_ns: Histogram,
    /// The longest pass, in nanoseconds.
    pub longest_ns: u64,
    /// The most CPU time that a pass has taken, in nanoseconds: what is much less than the
    /// longest pass tells a machine that had other work from a server that had much.
    pub longest_pass_cpu_ns: u64,
    /// Busy part of the last window, in millionths.
    pub busy_millionths: u64,
}

/// Evaluations of queries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueryStats {
    /// Waiting for a turn now.
    pub waiting: u64,
    /// Started.
    pub started: u64,
    /// Ended with an error, timeouts included.
    pub failed: u64,
    /// Ended by the timeout.
    pub timed_out: u64,
}

/// Sizes and work of the journal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JournalStats {
    /// Bytes of live records.
    pub live_bytes: u64,
    /// Bytes of other records in segments not yet freed.
    pub dead_bytes: u64,
    /// Bytes prepared for writing.
    pub free_bytes: u64,
    /// Bytes of all segments.
    pub total_bytes: u64,
    /// Bytes not yet submitted to the disk.
    pub pending_bytes: u64,
    /// Segments in use or prepared.
    pub segments: u64,
    /// Batches written.
    pub batches: u64,
    /// Records written.
    pub records: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Bytes moved by compaction.
    pub moved_bytes: u64,
    /// Total duration of syncs in nanoseconds.
    pub sync_ns: u64,
    /// Longest sync in nanoseconds.
    pub sync_max_ns: u64,
    /// Histogram of sync durations: upper bound of the bucket in nanoseconds (the last is
    /// unbounded), and number of syncs.
    pub syncs: Vec<(Option<u64>, u64)>,
    /// Whether the last attempt to allocate a segment found no space.
    pub full: bool,
}

/// The writes of a server that leads a shared engine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SharedStats {
    /// Under which it leads.
    pub epoch: u64,
    /// Batches accepted.
    pub batches: u64,
    /// Fields set and deleted in them.
    pub changes: u64,
    /// Their bytes, as requests.
    pub bytes: u64,
    /// Records that have gone into batches.
    pub records: u64,
    /// Times from a write to its answer, in nanoseconds.
    pub write_ns: Histogram,
    /// Bytes of batches that are not accepted yet.
    pub pending_bytes: u64,
    /// Connections after the first.
    pub reconnects: u64,
    /// Writes that were lost behind the answer, and written again.
    pub rewritten: u64,
    /// Replicas that the primary had connected when it was asked last.
    pub replicas: u64,
    /// How many of them have a write before it counts.
    pub waits_for: u64,
    /// Whether it does not answer now.
    pub is_away: bool,
    /// Whether its memory is full.
    pub is_full: bool,
}

/// One page of a scan over all queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatsScan {
    /// Queues, from 0 or [`StatsPage::next`] on.
    Queues(u32),
    /// Counts of jobs by status; the same. A job that does not move counts exactly once.
    Jobs(u32),
}

/// The answer to a [`StatsScan`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StatsPage {
    /// For [`StatsScan::Queues`].
    pub queues: Vec<QueueCount>,
    /// For [`StatsScan::Jobs`]: counts of some jobs by [`QueueCount::serial`], each queue at most
    /// once.
    pub counts: Vec<(u64, StatusCounts)>,
    /// Where to continue; `None`: this was the last page.
    pub next: Option<u32>,
}

/// A queue in a [`StatsPage`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueCount {
    /// Number of the queue, never used twice.
    pub serial: u64,
    /// Queue name: any bytes.
    pub name: Box<[u8]>,
    /// Number of its jobs, whatever their status.
    pub jobs: u32,
}

/// Number of jobs by status.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StatusCounts {
    /// [`Status::Ready`].
    pub ready: u64,
    /// Held back by constraints.
    pub blocked: u64,
    /// Leave with their key group only.
    pub group_only: u64,
    /// In their delay or backoff.
    pub delayed: u64,
    /// Reserved by any client or worker.
    pub reserved: u64,
    /// Of the reserved: assigned by the processor, not yet confirmed.
    pub dispatched: u64,
    /// Of the reserved: confirmed by a worker of the processor.
    pub processing: u64,
    /// Failed for good, or buried by a client.
    pub buried: u64,
    /// Finished, with a retained result.
    pub completed: u64,
    /// Time in milliseconds since the oldest ready job became ready.
    pub oldest_ms: u32,
}

impl StatusCounts {
    /// Number of jobs.
    #[must_use]
    pub fn total(&self) -> u64 {
        let waiting = self.ready + self.blocked + self.group_only + self.delayed;
        waiting + self.reserved + self.buried + self.completed
    }

    /// Counts one job.
    pub fn count(&mut self, status: Status) {
        let counter = match status {
            Status::Ready => &mut self.ready,
            Status::Blocked => &mut self.blocked,
            Status::GroupOnly => &mut self.group_only,
            Status::Delayed => &mut self.delayed,
            Status::Reserved => &mut self.reserved,
            Status::Completed => &mut self.completed,
            Status::Buried => &mut self.buried,
            Status::Popped => return,
        };
        *counter += 1;
    }

    /// Adds the counts of other jobs.
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
    fn counters_are_in_the_order_of_their_numbers() {
        for (number, counter) in JobCounter::ALL.into_iter().enumerate() {
            assert_eq!(counter as usize, number);
        }
        for (number, protocol) in Protocol::ALL.into_iter().enumerate() {
            assert_eq!(protocol.number(), number);
        }
    }
}
