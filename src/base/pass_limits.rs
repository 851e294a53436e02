//! The bounds of the work in one pass of the loop, in one turn of a session and in one step of what
//! goes on in later passes (`docs/internals/passes.md`). `limits` exports them.

use std::time::Duration;

/// Bytes read from one connection in one pass; then the other connections have their turn.
pub const READ_BUDGET_BYTES: usize = 64 * 1024;

/// Bytes read in one pass of all connections that have more to read than that; each has an equal
/// part.
pub const BUSY_READS_BYTES: usize = 256 * 1024;

/// The smallest such part: the requests in it cost about ten times what the system call does.
pub const READ_BUDGET_MIN_BYTES: usize = 1536;

/// The smallest such part of a connection that was idle before: thousands may come at once, each
/// with as much as it can send, and the last one waits for all of them.
pub const ARRIVAL_READ_MIN_BYTES: usize = 256;

/// Connections with new input that are read for each one whose last read was cut off, while there
/// are both: thousands that come at once are all read soon, and the others go on.
pub const ARRIVALS_PER_BUSY_READ: u32 = 8;

/// Connections with new input that are each read as if there were no others.
pub const ARRIVALS_READ_WHOLE: usize = 128;

/// Work of one pass for new input. The unit is what a byte of a short request costs: about 10 ns.
pub const INPUT_WORK_PER_PASS: usize = 128 * 1024;

/// Digits of priorities compared for a unit of work.
pub const COMPARED_BYTES_PER_WORK: usize = 64;

/// Work of taking a waiter out of one wait queue, in the same unit.
pub const WAIT_NODE_WORK: usize = 32;

/// Work of making a queue for a put or a wait, in the same unit: memory that is touched first.
pub const NEW_QUEUE_WORK: usize = 128;

/// Work of a packet that leaves with the selected one, beside its bytes, in the same unit.
pub const GROUP_PACKET_WORK: usize = 64;

/// Work of commands in one turn, beside the bytes that they consume, above which the turn ends.
pub const EXTRA_WORK_PER_TURN: usize = 4 * 1024;

/// The same for all commands of a turn together.
pub const EXTRA_WORK_OF_TURN_MAX: usize = 32 * 1024;

/// Work of one pass for connections whose buffered input is processed further, in that unit.
pub const RESUMED_WORK_PER_PASS: usize = 64 * 1024;

/// Work of the turn of a session, and of a write, beside the bytes, in the same unit: system calls.
pub const TURN_WORK: usize = 512;

/// Work of a reply to another client than the one that is served, in the same unit.
pub const DELIVERY_WORK: usize = 128;

/// Work of checking the name of a subscribed queue, in the same unit.
pub const SUBSCRIPTION_NAME_WORK: usize = 2;

/// Work of one pass for writing output, in the same unit.
pub const WRITE_WORK_PER_PASS: usize = 128 * 1024;

/// That of connections whose last read was cut off, while others are still to be read.
pub const BUSY_WRITE_WORK_PER_PASS: usize = 16 * 1024;

/// The time since the begin of a pass after which nothing more is read in it. The bounds in units
/// of work hold where a unit costs what it says; on a slower machine this one does.
pub const READ_TIME_PER_PASS: Duration = Duration::from_millis(2);

/// The same for writing.
pub const WRITE_TIME_PER_PASS: Duration = Duration::from_micros(3_500);

/// Work of reads or writes between two looks at the clock, in the same unit.
pub const WORK_PER_CLOCK_CHECK: usize = 4 * 1024;

/// Bytes of a write beside that for a unit of work: they are only copied.
pub const WRITTEN_BYTES_PER_WORK: usize = 16;

/// Queue names checked for one connection in one turn: a subscription is compared with all others,
/// and the first delivery after one checks all. Then the other connections have their turn.
pub const SUBSCRIPTION_NAMES_PER_TURN: usize = 32 * 1024;

/// How long passes take together before their CPU time is read: that is a system call.
pub const CPU_READ_INTERVAL: Duration = Duration::from_micros(250);

/// Connections accepted from one listener in one pass.
pub const ACCEPTS_PER_PASS: usize = 64;

/// Reads of the engine's own connection in a pass: its answers are short.
pub const ENGINE_READS_PER_PASS: usize = 4;

/// Outbound connections that are begun or advanced in one pass: system calls.
pub const DIALS_PER_PASS: usize = 32;

/// Forwarded connections that a pass moves on, each by one read in each direction at most.
pub const FORWARD_STEPS_PER_PASS: usize = 256;

/// Bytes of forwarded connections after which a pass moves on no more of them.
pub const FORWARD_BYTES_PER_PASS: usize = 1024 * 1024;

/// Connections whose buffered input is processed further in one pass.
pub const RESUMED_CONNECTIONS_PER_PASS: usize = 1024;

/// Session deadlines that fire in one pass.
pub const SESSION_DEADLINES_PER_PASS: usize = 256;

/// Readiness events fetched from the system in one pass.
pub const EVENTS_PER_PASS: usize = 1024;

/// Deadlines of the store that fire in one pass.
pub const STORE_DEADLINES_PER_PASS: usize = 1024;

/// Jobs of ended clients that are requeued, and packets of key groups that are removed, in one
/// pass. A client with more jobs, or a pop of more packets, takes several passes, and looks as if
/// it took one.
pub const SPREAD_STEPS_PER_PASS: usize = 1024;

/// Bytes of an awaited job that cost one of these steps more, for each client that is answered with
/// a copy.
pub const AWAITED_BYTES_PER_STEP: usize = 4096;

/// Packets that a pop removes at once even if the steps of the pass are used up.
pub const PACKETS_PER_POP_MIN: usize = 16;

/// Packets freed in one pass whose client has ended before they were written.
pub const PACKETS_FREED_PER_PASS: usize = 2048;

/// Slots of the job table that one request for a queue scans while its index is backfilled.
pub const BACKFILL_SLOTS_PER_STEP: u32 = 16 * 1024;

/// Jobs that get their row in such a step.
pub const BACKFILL_JOBS_PER_STEP: u32 = 256;

/// Jobs removed with a queue in one reply.
pub const DROPPED_JOBS_PER_CHUNK: u32 = 512;

/// Jobs that a kick of a beanstalkd client makes ready at a time; it goes on in the next pass.
pub const KICKED_PER_STEP: u32 = 256;

/// Urgent jobs that one command of a beanstalkd client counts, of a queue or of all.
pub const URGENT_JOBS_COUNTED: usize = 16 * 1024;

/// Slots of jobs, or of queues, scanned for one page of statistics.
pub const STATS_SLOTS_PER_STEP: u32 = 4 * 1024;

/// Queues in one page of statistics.
pub const STATS_QUEUES_PER_STEP: usize = 512;

/// Queues whose metrics are written in one pass.
pub const METRICS_QUEUES_PER_STEP: usize = 64;

/// Rows that a query may find without a search in the background.
pub const ROWS_PER_CHUNK: usize = 512;

/// Queues in one reply that lists queues.
pub const QUEUES_PER_CHUNK: usize = 256;

/// Bytes of their names; the last one may exceed it.
pub const QUEUE_NAMES_PER_CHUNK_BYTES: usize = 64 * 1024;

/// Jobs, classes and waitlists that are blocked, unblocked or checked in one pass, beside
/// [`CONSTRAINT_STEPS_PER_COMMAND`].
pub const CONSTRAINT_STEPS_PER_PASS: u64 = 1024;

/// The same for each command, each queue named by a reserve, and each waiter matched.
pub const CONSTRAINT_STEPS_PER_COMMAND: u64 = 16;

/// Jobs for which constraints are evaluated again in one pass after a change.
pub const CONSTRAINT_SCAN_JOBS_PER_PASS: usize = 1024;

/// Bytes of their payloads; the last one may exceed it.
pub const CONSTRAINT_SCAN_BYTES_PER_PASS: usize = 1024 * 1024;

/// Slots of the job table scanned for it.
pub const CONSTRAINT_SCAN_SLOTS_PER_PASS: usize = 16 * 1024;

/// Reserves, assignments and rows of lists that the processor handles in one turn, beside the
/// messages that it reads.
pub const PROCESSOR_WORK_PER_TURN: usize = 1024;

/// Log lines that the processor writes in one turn.
pub const PROCESSOR_LOG_LINES_PER_TURN: usize = 256;

/// Actions for one worker in one turn; then the other workers have their turn.
pub const WORKER_STEPS_PER_TURN: usize = 32;

/// Actions for all workers in one pass.
pub const WORKERS_PER_PASS: usize = 256;

/// Queries that start or end in one pass.
pub const QUERIES_PER_PASS: usize = 16;

/// Rows offered to a poll at one time: those in front may have changed meanwhile.
pub const POLL_ROWS_PER_STEP: u64 = 16;
