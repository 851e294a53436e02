//! Every bound of the server in one place, with the relations between them checked at compile time.

use std::time::Duration;

/// Bytes read from one connection in one pass. One pipelining client gets this much service, then
/// the others have their turn.
pub const READ_BUDGET_BYTES: usize = 64 * 1024;

/// Unsent bytes of one connection above which it is neither read nor served.
pub const OUTPUT_HIGH_WATER_BYTES: usize = 256 * 1024;

/// Bytes buffered behind a request that waits; what comes after stays in the socket.
pub const STALLED_INPUT_MAX_BYTES: usize = 64 * 1024;

/// Output buffers up to this capacity are kept for reuse; larger ones are given back at once.
pub const POOLED_BUFFER_MAX_BYTES: usize = 16 * 1024;

/// Capacity of a fresh output buffer.
pub const POOLED_BUFFER_MIN_BYTES: usize = 512;

/// Output buffers kept for reuse.
pub const POOLED_BUFFERS: usize = 256;

/// Requests of one connection that may be under way in the engine at one time.
pub const IN_FLIGHT_MAX: u32 = 1024;

/// Queues that one connection may be subscribed to (networked priority queue): every delivery asks
/// all of them for a packet.
pub const SUBSCRIPTIONS_MAX: usize = 4096;

/// Work that the subscriptions of one connection may make in one turn, in names looked at: a
/// delivery asks all subscribed queues, a subscription is compared with all others. Then the others
/// have their turn.
pub const SUBSCRIPTION_WORK_PER_TURN: usize = 32 * 1024;

/// Bytes that the names of one connection's subscribed queues may have together.
pub const SUBSCRIBED_NAMES_MAX_BYTES: usize = 1024 * 1024;

/// Default for the longest request line, its newline not counted (`--max-request`).
pub const REQUEST_BYTES_DEFAULT: usize = 1024 * 1024;

/// Smallest `--max-request` that makes sense.
pub const REQUEST_BYTES_FLOOR: usize = 64;

/// Largest `--max-request`: the JSON parser counts in 32 bits and wants room for padding.
pub const REQUEST_BYTES_CEILING: usize = 1 << 30;

/// Default number of clients served at a time (`--max-clients`).
pub const MAX_CLIENTS_DEFAULT: usize = 10_000;

/// Largest `--max-clients`.
pub const MAX_CLIENTS_MAX: usize = 10_000_000;

/// Clients beyond the limit that are told so politely at one time; further ones are just closed.
pub const REJECTED_CONNECTIONS_MAX: usize = 128;

/// How long a client that is sent away has to read the last that it was sent.
pub const LINGER_TIMEOUT: Duration = Duration::from_secs(1);

/// How long a connection that is to be closed is kept for a peer that sends nothing ..
pub const LINGER_QUIET: Duration = Duration::from_secs(1);
/// .. and for one that goes on sending: so it gets what it was sent, instead of a reset.
pub const LINGER_PATIENCE: Duration = Duration::from_secs(5);

/// Connections that are kept so at one time, except in a stop.
pub const LINGERING_MAX: usize = 256;

/// File descriptors kept for everything that is no client: listeners, epoll, logs, libraries.
pub const RESERVED_FILE_DESCRIPTORS: u64 = 64;

/// Connections accepted from one listener in one pass.
pub const ACCEPTS_PER_PASS: usize = 128;

/// Connections whose buffered input is taken up again in one pass.
pub const RESUMED_PER_PASS: usize = 1024;

/// How long a listener rests after the system ran out of file descriptors or memory, unless a
/// connection is closed before.
pub const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// How long a client that has shut down its sending side may take nothing of its answers.
pub const FLUSH_TIMEOUT: Duration = Duration::from_secs(30);

/// How long clients may take to receive their last answers in an orderly stop.
pub const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);

/// How long an orderly stop waits for the disk altogether, if what was received waits for it.
pub const SHUTDOWN_DISK_TIMEOUT: Duration = Duration::from_mins(1);

/// Bytes of stdin that are still read in an orderly stop: what the largest pipe of an ordinary user
/// holds. They would be lost with it.
pub const STDIN_AT_SHUTDOWN_MAX_BYTES: usize = 1024 * 1024;

/// Session deadlines handled in one pass.
pub const TIMEOUTS_PER_PASS: usize = 1024;

/// Notices of one kind that are logged within [`NOTICE_WINDOW`]; the rest is only counted.
pub const NOTICES_PER_WINDOW: u32 = 8;

/// See [`NOTICES_PER_WINDOW`].
pub const NOTICE_WINDOW: Duration = Duration::from_mins(1);

/// How often it is logged that clients beyond `--max-clients` were refused, at most.
pub const REFUSAL_NOTICES: Duration = Duration::from_secs(1);

/// How often it is logged that a signal was ignored, at most, for each signal.
pub const SIGNAL_NOTICES: Duration = Duration::from_secs(1);

/// Readiness events taken from the system in one pass.
pub const EVENTS_PER_PASS: usize = 1024;

/// Connections asked for by peers but not yet accepted, kept by the kernel.
pub const LISTEN_BACKLOG: i32 = 4096;

/// Connections to other servers at one time, those that are not yet connected included.
pub const OUTBOUND_CONNECTIONS_MAX: usize = 1024;

/// How long another server has to accept a connection, to be found and to prove who it is.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Names of other servers that wait to be looked up.
pub const DNS_LOOKUPS_QUEUED_MAX: usize = 1024;

/// How many names are looked up at a time.
pub const DNS_THREADS: usize = 4;

/// Addresses of one name that are tried.
pub const DNS_ADDRESSES_MAX: usize = 16;

/// Bytes that another server may spend on proving who it is: certificates are the most of it.
pub const TLS_HANDSHAKE_MAX_BYTES: usize = 256 * 1024;

/// Bytes that are encrypted at a time: what fits into one record.
pub const TLS_RECORD_BYTES: usize = 16 * 1024;

/// Queues without jobs and waiters that are remembered, so that a queue which is empty for a moment
/// is not made anew for each job.
pub const IDLE_QUEUES: usize = 1024;

/// Things of the store that are handled in one pass because their time has come.
pub const EXPIRED_PER_PASS: usize = 1024;

/// The longest payload that a pop carries: its length is 16 bits on the wire.
pub const PACKET_MAX_BYTES: usize = 65_535;

/// How many packets one pop carries at most: their number is 16 bits on the wire.
pub const PACKETS_PER_POP_MAX: usize = 65_535;

/// Events in the log of a job from which on users can add none. What else happens to the job is
/// logged up to twice as many, and beyond that only changes it.
pub const EVENT_LOG_EVENTS_MAX: usize = 10_000;

/// Bytes of a job's log, for which the same is true.
pub const EVENT_LOG_MAX_BYTES: usize = 1024 * 1024;

/// Places of jobs that are looked at for one question about a queue whose jobs are being taken
/// stock of ..
pub const BACKFILL_SLOTS_PER_STEP: u32 = 16 * 1024;
/// .. and jobs that get their record.
pub const BACKFILL_JOBS_PER_STEP: u32 = 256;

/// Jobs of a queue that is removed which go with one answer.
pub const DROPPED_JOBS_PER_CHUNK: u32 = 512;

/// Places of jobs, or of queues, that are looked at for one part of a census ..
pub const STATS_SLOTS_PER_STEP: u32 = 4 * 1024;
/// .. and queues that it lists.
pub const STATS_QUEUES_PER_STEP: usize = 512;

/// Queues that have figures of their own; what the others have is added up.
pub const METRICS_QUEUES_MAX: usize = 1000;

/// Bytes of a name that lists, logs and pages show.
pub const NAME_SHOWN_MAX: usize = 1024;

/// Bytes of the name of a queue that has figures of its own.
pub const METRICS_NAME_MAX_BYTES: usize = 256;

/// Queues whose figures are written in one pass.
pub const METRICS_QUEUES_PER_STEP: usize = 64;

/// How often the server looks at its memory, at most.
pub const MEMORY_PERIOD: Duration = Duration::from_secs(10);

/// The shortest time over which it is said how busy the loop was.
pub const BUSY_WINDOW: Duration = Duration::from_secs(10);

/// Rows that a question may find without a search in the background.
pub const ROWS_PER_CHUNK: usize = 512;

/// Queues in one answer that lists queues ..
pub const QUEUES_PER_CHUNK: usize = 256;
/// .. and bytes of their names, of which the last one may be longer.
pub const QUEUE_NAMES_PER_CHUNK_BYTES: usize = 64 * 1024;

/// Constraints at one time: every put asks all of them.
pub const CONSTRAINTS_MAX: usize = 256;

/// Jobs and groups of jobs that are moved in one pass because constraints let them, or because
/// takes find that constraints hold them back ..
pub const CONSTRAINT_STEPS_PER_PASS: u64 = 1024;
/// .. beside so many for each command, and for each queue that a take looks through.
pub const CONSTRAINT_STEPS_PER_COMMAND: u64 = 16;

/// How long a take that does not wait stays unanswered at most where it could not look at all that
/// constraints may hold back.
pub const SCAN_DEFER_MAX_MS: u64 = 1_000;

/// Jobs that are matched anew in one pass because a constraint has changed, by the commands that
/// change one and again at its end ..
pub const CONSTRAINT_SCAN_JOBS_PER_PASS: usize = 1024;
/// .. bytes that they carry, of which the last may carry more ..
pub const CONSTRAINT_SCAN_BYTES_PER_PASS: usize = 1024 * 1024;
/// .. and places of jobs that are looked at.
pub const CONSTRAINT_SCAN_SLOTS_PER_PASS: usize = 16 * 1024;

/// Workers on the list at one time.
pub const WORKERS_MAX: usize = 10_000;

/// Workers that the processor knows at one time; what others say is not heard.
pub const PROCESSOR_WORKERS_MAX: usize = 64 * 1024;

/// What the processor does besides the messages that it reads, in one turn: takes, calls, rows of
/// lists.
pub const PROCESSOR_WORK_PER_TURN: usize = 1024;

/// Lines of its log that it makes in one turn.
pub const PROCESSOR_LOG_LINES_PER_TURN: usize = 256;

/// How long a worker has to answer that it takes a job. A stop does not wait so long: a call that
/// is under way at its end leaves the job to the worker, whose report counts after the restart.
pub const WORKER_CALL_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a connection to a worker is kept without being used.
pub const WORKER_KEEPALIVE: Duration = Duration::from_secs(15);

/// Bytes of a worker's answer that are passed over for the sake of its connection.
pub const WORKER_ANSWER_MAX_BYTES: u64 = 64 * 1024;

/// Bytes of interim answers (100 to 199) and empty lines that may come before a worker's answer.
pub const WORKER_INTERIM_MAX: usize = 64 * 1024;

/// How long a worker rests after its first failure; twice as long after each further one in a row.
pub const WORKER_BACKOFF: Duration = Duration::from_secs(1);

/// So many failures in a row, and a worker is dropped.
pub const WORKER_FAILURES_MAX: u32 = 5;

/// Takes that stand for one worker at a time: as many jobs can come to it at once.
pub const WORKER_RESERVES_MAX: usize = 16;

/// Names that a worker has said not to know, of those that it did not ask for by name; further ones
/// it is asked about again.
pub const UNKNOWN_NAMES_MAX: usize = 1024;

/// Things that are done for one worker before the next has its turn, ..
pub const WORKER_STEPS_PER_TURN: usize = 32;
/// .. and for all of them in one pass.
pub const WORKERS_PER_PASS: usize = 4096;

/// Workers that a job can be refused by before that is forgotten; then it rests first.
pub const EXCLUDED_WORKERS_MAX: usize = 16;

/// Different sets of workers that ready jobs of one queue can be refused by, for the same.
pub const EXCLUSION_SETS_MAX: usize = 64;

/// How long a job rests whose refusals are forgotten.
pub const EXCLUSION_RESET_DELAY: Duration = Duration::from_secs(10);

/// Ids stay below this, so that every JSON client can hold them exactly.
pub const JOB_ID_END: u64 = 1 << 53;

/// The usual size of a segment of the journal, where there is much space.
pub const JOURNAL_SEGMENT_BYTES: u64 = 32 * 1024 * 1024;

/// Where there is less, a segment is about such a part of it ..
pub const JOURNAL_SPACE_PARTS: u64 = 16;
/// .. and no smaller than this.
pub const JOURNAL_SEGMENT_LEAST: u64 = 256 * 1024;

/// Smallest usual size of a segment that makes sense.
pub const JOURNAL_SEGMENT_MIN_BYTES: u64 = 4 * 1024;

/// A batch that has grown to this many bytes, or to an eighth of a segment, is complete even if the
/// disk is busy.
pub const JOURNAL_BATCH_BYTES: u64 = 1024 * 1024;

/// No batch grows beyond this and one more record: its size has 32 bits.
pub const JOURNAL_FRAME_MAX_BYTES: usize = 1 << 30;

/// Batches that are on their way to the disk at one time: while some are synced, others follow, to
/// be synced together. With more, the open batch grows.
pub const JOURNAL_WRITES_IN_FLIGHT_MAX: usize = 16;

/// Records of the last batch from which on the next one waits for more: many clients are at work.
pub const GROUP_COMMIT_MIN_RECORDS: u32 = 4;

/// So many records are enough for a batch that waits for more: with more of them in one sync nobody
/// would be left to work for while it lasts.
pub const GROUP_COMMIT_MAX_RECORDS: u32 = 32;

/// How long a batch may wait for more, as long as each pass brings some.
pub const GROUP_COMMIT_MAX_DELAY: Duration = Duration::from_micros(200);

/// Syncs that are under way at one time without being part of a write.
pub const JOURNAL_SYNCS_IN_FLIGHT_MAX: usize = 2;

/// Batch buffers that are kept for reuse, and their largest capacity.
pub const JOURNAL_POOLED_BUFFERS: usize = 4;
/// See [`JOURNAL_POOLED_BUFFERS`].
pub const JOURNAL_POOLED_BUFFER_MAX_BYTES: usize = 4 * 1024 * 1024;

/// Bytes of later records, its deletion above all, that are kept in reserve for each job.
pub const JOURNAL_RESERVE_PER_JOB_BYTES: u64 = 64;

/// The reserve is at least this part of the live bytes, so that compaction on a full disk has
/// something to win.
pub const JOURNAL_SPARE_FRACTION: u64 = 16;

/// How long there must be space again before the operator is told so.
pub const SPACE_SETTLED: Duration = Duration::from_secs(1);

/// Descriptors that are kept for the journal in case there are no others ..
pub const DESCRIPTORS_KEPT: usize = 4;
/// .. and how often it tries again if these are gone, too.
pub const DESCRIPTOR_RETRY: Duration = Duration::from_millis(100);

/// How long after a preparation found no space it is tried again.
pub const JOURNAL_FULL_RETRY: Duration = Duration::from_secs(1);

/// Bytes that compaction moves for each byte that is appended: when it begins ..
pub const COMPACTION_RATE_MIN: u64 = 2;
/// .. and when the directory is at its bound.
pub const COMPACTION_RATE_MAX: u64 = 8;

/// Bytes that compaction moves in a step, which it makes without any traffic: a tenth of a
/// millisecond, for small records.
pub const COMPACTION_STEP_BYTES: u64 = 16 * 1024;

/// How often it makes one.
pub const COMPACTION_STEP_INTERVAL: Duration = Duration::from_millis(2);

/// Bytes that compaction may move in any pass that appends something, to make up for what it could
/// not; more only if what was appended calls for it.
pub const COMPACTION_PASS_BYTES: u64 = 4 * 1024;

/// Nothing is moved while so many bytes wait for the disk.
pub const COMPACTION_BACKLOG_BYTES: u64 = 4 * 1024 * 1024;

/// Bytes of a segment that recovery reads at one time.
pub const JOURNAL_READ_BYTES: usize = 1024 * 1024;

/// Bytes of the head of an HTTP message: its first line and its fields.
pub const HTTP_HEAD_MAX_BYTES: usize = 16 * 1024;

/// Bytes of the target of an HTTP request.
pub const HTTP_TARGET_MAX_BYTES: usize = 8 * 1024;

/// Fields of one head.
pub const HTTP_FIELDS_MAX: usize = 64;

/// Bytes of the line before a chunk of an HTTP body, extensions included.
pub const HTTP_CHUNK_LINE_MAX_BYTES: usize = 256;

/// Bytes that all extensions of one body may have together: they are of no use to anybody.
pub const HTTP_EXTENSIONS_MAX_BYTES: usize = 16 * 1024;

/// What an HTTP body may have beyond `--max-request`.
pub const HTTP_BODY_EXTRA_BYTES: usize = 64 * 1024;

/// A long HTTP answer is sent in pieces of about this size, one in a pass.
pub const HTTP_CHUNK_BYTES: usize = 64 * 1024;

/// How long the head of an HTTP request may take from its first byte on.
pub const HTTP_HEAD_TIMEOUT: Duration = Duration::from_secs(15);

/// How long its body may take besides what [`HTTP_BODY_MIN_BYTES_PER_SECOND`] allows.
pub const HTTP_BODY_TIMEOUT: Duration = Duration::from_secs(30);

/// Bytes of a body that count as a second well spent.
pub const HTTP_BODY_MIN_BYTES_PER_SECOND: u64 = 16 * 1024;

/// How long an HTTP client may keep a connection that it does not use.
pub const HTTP_IDLE_TIMEOUT: Duration = Duration::from_mins(1);

/// How long the next piece of a long HTTP answer may have to wait for its reader.
pub const HTTP_READER_TIMEOUT: Duration = Duration::from_mins(1);

const _: () = assert!(
    HTTP_TARGET_MAX_BYTES < HTTP_HEAD_MAX_BYTES && HTTP_HEAD_MAX_BYTES <= STALLED_INPUT_MAX_BYTES
);
const _: () = assert!(
    HTTP_CHUNK_LINE_MAX_BYTES <= HTTP_EXTENSIONS_MAX_BYTES && HTTP_BODY_MIN_BYTES_PER_SECOND > 0
);
const _: () =
    assert!(HTTP_CHUNK_BYTES <= OUTPUT_HIGH_WATER_BYTES, "a piece may be written at any time");
const _: () = assert!(REQUEST_BYTES_CEILING + HTTP_BODY_EXTRA_BYTES < u32::MAX as usize / 2);

/// Bytes of the expressions of one query.
pub const QUERY_TEXT_MAX_BYTES: usize = 256 * 1024;

/// How deep an expression may be nested, and a chain of `AND` or `OR` counts by its links. Twice
/// the number of options of a query.
pub const QUERY_DEPTH_MAX: usize = 400;

/// Functions that one query may call, each place in its text counted: what they do for one row may
/// have to end before anybody asks whether to go on.
pub const QUERY_CALLS_MAX: usize = 1000;

/// Bytes of the longest text that a query sees or makes, unless requests may be so long that it has
/// to be more; a longer payload or log counts as NULL.
pub const QUERY_VALUE_DEFAULT_BYTES: usize = 4 * 1024 * 1024;

/// The same, however long requests may be.
pub const QUERY_VALUE_MAX_BYTES: usize = 64 * 1024 * 1024;

/// Bytes of memory that queries take at most.
pub const QUERY_HEAP_MAX_BYTES: usize = 512 * 1024 * 1024;

/// Queries that are kept ready to be run again.
pub const QUERY_STATEMENTS: usize = 16;

/// Queries that are to be answered; beyond that the one is refused whose client has had most.
pub const QUERIES_WAITING_MAX: usize = 1024;

/// Queries that wait for a further turn and keep what they have found and the snapshot in which
/// they search. Beyond that the one whose client has had most begins anew when it is its turn.
pub const QUERIES_BEGUN_MAX: usize = 16;

/// Threads of the lowest class that evaluate queries: one, unless it is held up by something that
/// cannot be interrupted.
pub const QUERY_LANES: usize = 4;

/// Those of them that clients use at once whose queries have been long, so that others find one.
pub const QUERY_LANES_LONG: usize = QUERY_LANES / 2;

/// Steps of the shortest turn of a query, each some microseconds or less: about a millisecond. The
/// turns of a client become longer the more it has had.
pub const QUERY_TURN_STEPS: u64 = 512;

/// Steps of the only turn of a query whose client sends nothing more.
pub const QUERY_LAST_STEPS: u64 = 16 * 1024;

/// How long a turn may take while others wait, until it is told to end; and how long after that it
/// may take it to end with a row, and then in the middle of one.
pub const QUERY_PATIENCE: Duration = Duration::from_millis(10);

/// Clients whose first turn is served in the order of their coming; if there are more, every second
/// turn goes to the one with the fewest rows.
pub const QUERY_CROWD: usize = 16;

/// Queries that are begun or ended in one pass.
pub const QUERIES_PER_PASS: usize = 16;

/// Default for how long a query may take (`--query-timeout`).
pub const QUERY_TIMEOUT_DEFAULT: Duration = Duration::from_secs(5);
/// Shortest `--query-timeout`.
pub const QUERY_TIMEOUT_MIN: Duration = Duration::from_millis(1);
/// Longest `--query-timeout`.
pub const QUERY_TIMEOUT_MAX: Duration = Duration::from_hours(1);

/// Default for how long results are kept (`--result-ttl`).
pub const RESULT_TTL_DEFAULT: Duration = Duration::from_hours(1);
/// Shortest `--result-ttl`.
pub const RESULT_TTL_MIN: Duration = Duration::from_millis(1);
/// Longest `--result-ttl`.
pub const RESULT_TTL_MAX: Duration = Duration::from_hours(24 * 365);

/// Default for the interval of the processor's ticks (`--tick`).
pub const TICK_DEFAULT: Duration = Duration::from_secs(3);
/// Shortest `--tick`.
pub const TICK_MIN: Duration = Duration::from_millis(1);
/// Longest `--tick`.
pub const TICK_MAX: Duration = Duration::from_hours(1);

/// How long a client that waits for the end of a job waits if it does not say (LightJQ).
pub const POLLING_DEFAULT: Duration = Duration::from_secs(5);

/// Rows that are shown to a poll at one time: those in front may have changed meanwhile.
pub const POLL_CANDIDATES: u64 = 16;

const _: () = assert!(JOURNAL_FRAME_MAX_BYTES + REQUEST_BYTES_CEILING < u32::MAX as usize);
const _: () = assert!(
    COMPACTION_RATE_MIN <= COMPACTION_RATE_MAX
        && JOURNAL_WRITES_IN_FLIGHT_MAX > 0
        && JOURNAL_SYNCS_IN_FLIGHT_MAX > 0
);
const _: () = assert!(JOURNAL_SEGMENT_MIN_BYTES <= JOURNAL_SEGMENT_BYTES);
const _: () = assert!(
    READ_BUDGET_BYTES <= STALLED_INPUT_MAX_BYTES,
    "one read must fit behind a waiting request"
);
const _: () = assert!(
    REQUEST_BYTES_FLOOR <= REQUEST_BYTES_DEFAULT && REQUEST_BYTES_DEFAULT <= REQUEST_BYTES_CEILING
);
const _: () =
    assert!(REQUEST_BYTES_CEILING < u32::MAX as usize / 2, "buffer offsets are 32 bits wide");
const _: () = assert!(SUBSCRIPTIONS_MAX <= SUBSCRIPTION_WORK_PER_TURN);
const _: () = assert!(
    u16::MAX as usize <= SUBSCRIBED_NAMES_MAX_BYTES
        && SUBSCRIBED_NAMES_MAX_BYTES <= u32::MAX as usize,
    "a name of any length can be subscribed to, and offsets are 32 bits wide"
);
const _: () = assert!(QUERY_TEXT_MAX_BYTES < QUERY_VALUE_DEFAULT_BYTES);
const _: () =
    assert!(QUERY_VALUE_DEFAULT_BYTES >= 2 * REQUEST_BYTES_DEFAULT, "what is put can be found");
const _: () = assert!(QUERY_VALUE_DEFAULT_BYTES <= QUERY_VALUE_MAX_BYTES);
const _: () = assert!(QUERY_VALUE_MAX_BYTES * 4 <= QUERY_HEAP_MAX_BYTES);
const _: () = assert!(LINGER_QUIET.as_nanos() <= LINGER_PATIENCE.as_nanos());
const _: () =
    assert!(OUTBOUND_CONNECTIONS_MAX <= DNS_LOOKUPS_QUEUED_MAX, "each can have its name looked up");
const _: () = assert!(POOLED_BUFFER_MAX_BYTES <= OUTPUT_HIGH_WATER_BYTES);
const _: () =
    assert!(MAX_CLIENTS_DEFAULT <= MAX_CLIENTS_MAX && MAX_CLIENTS_MAX < u32::MAX as usize);
