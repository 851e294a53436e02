//! The bounds of the server, with the relations between them checked at compile time. Those that
//! only the journal needs are in `journal::limits`; those of the work in a pass, which this module
//! exports, are in `pass_limits`.
//!
//! The last word of a name is the unit; durations carry theirs in the type. A doc says what is
//! bounded and, where it is not evident, why at this value.

pub use super::pass_limits::*;
use std::time::Duration;

/// Unsent bytes of one connection above which it is neither read nor served: a slow reader costs at
/// most this, and one reply.
pub const OUTPUT_HIGH_WATER_BYTES: usize = 256 * 1024;

/// Bytes buffered after a request that waits; further ones stay in the socket. One read fits.
pub const STALLED_INPUT_MAX_BYTES: usize = 64 * 1024;

/// Capacity up to which an output buffer is kept for reuse; larger ones are freed at once, so that
/// one long reply does not hold memory.
pub const POOLED_BUFFER_MAX_BYTES: usize = 16 * 1024;

/// Capacity of a new output buffer: a few replies.
pub const POOLED_BUFFER_MIN_BYTES: usize = 512;

/// Output buffers kept for reuse: 4 MiB at most.
pub const POOLED_BUFFERS_MAX: usize = 256;

/// Requests of one connection that are submitted and not answered.
pub const IN_FLIGHT_MAX: u32 = 1024;

/// Queues to which one connection of the networked priority queue subscribes: a subscription is
/// compared with all others.
pub const SUBSCRIPTIONS_MAX: usize = 4096;

/// Queues that one reserve names, repeated ones included: a reserve looks at each of them, and one
/// that waits is in the wait queue of each, all in one pass.
pub const QUEUES_PER_RESERVE_MAX: usize = 1024;

/// Bytes of the names of one connection's subscribed queues together.
pub const SUBSCRIBED_NAMES_MAX_BYTES: usize = 1024 * 1024;

/// Default for the longest request line, without its newline (`--max-request`).
pub const REQUEST_BYTES_DEFAULT: usize = 1024 * 1024;

/// Default for the longest body of a job of a beanstalkd client (`--beanstalkd-max-job-size`).
pub const BODY_BYTES_DEFAULT: usize = 65_535;

/// The last part of a lease, of which its holder is warned while it waits for a job.
pub const LEASE_MARGIN: Duration = Duration::from_secs(1);

/// Leases of one client that are looked at for that: those of the jobs that it reserved last.
pub const LEASES_WATCHED_MAX: usize = 4096;

/// Smallest `--max-request`: the shortest useful requests fit.
pub const REQUEST_BYTES_FLOOR: usize = 64;

/// Largest `--max-request`: the JSON parser counts in 32 bits and needs space for padding.
pub const REQUEST_BYTES_CEILING: usize = 1 << 30;

/// Default number of clients served at a time (`--max-clients`).
pub const MAX_CLIENTS_DEFAULT: usize = 10_000;

/// Largest `--max-clients`.
pub const MAX_CLIENTS_MAX: usize = 10_000_000;

/// Connections beyond `--max-clients` that are rejected with a reply at one time; further ones are
/// closed without one.
pub const REJECTED_CONNECTIONS_MAX: usize = 128;

/// How long a rejected or disconnected client has to read its last reply.
pub const REJECTED_LINGER_TIMEOUT: Duration = Duration::from_secs(1);

/// How long a closing connection lingers for a peer that sends nothing.
pub const LINGER_IDLE_TIMEOUT: Duration = Duration::from_secs(1);

/// How long it lingers for a peer that goes on sending, so that the peer gets its last reply
/// instead of a reset.
pub const LINGER_MAX: Duration = Duration::from_secs(5);

/// Connections that linger at one time, except in a shutdown.
pub const LINGERING_MAX: usize = 256;

/// File descriptors kept for everything but clients: listeners, epoll, logs, libraries.
pub const RESERVED_FILE_DESCRIPTORS: u64 = 64;

/// Pause of a listener after the system ran out of file descriptors or memory; it ends early when a
/// connection is closed.
pub const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);

/// How long a client that has shut down its sending side may read nothing of its replies.
pub const FLUSH_TIMEOUT: Duration = Duration::from_secs(30);

/// How long clients may take to read their last replies in a graceful shutdown.
pub const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a graceful shutdown waits for the disk if replies depend on it.
pub const SHUTDOWN_DISK_TIMEOUT: Duration = Duration::from_mins(1);

/// Bytes of stdin read in a graceful shutdown, which would otherwise be lost: what the largest pipe
/// of an unprivileged user holds.
pub const STDIN_AT_SHUTDOWN_MAX_BYTES: usize = 1024 * 1024;

/// Notices of one kind that are logged within [`NOTICE_WINDOW`]; further ones are only counted.
pub const NOTICES_PER_WINDOW: u32 = 8;

/// Window of [`NOTICES_PER_WINDOW`].
pub const NOTICE_WINDOW: Duration = Duration::from_mins(1);

/// Shortest time between two log entries about connections rejected beyond `--max-clients`.
pub const REJECTION_NOTICE_INTERVAL: Duration = Duration::from_secs(1);

/// Shortest time between two log entries about one ignored signal.
pub const SIGNAL_NOTICE_INTERVAL: Duration = Duration::from_secs(1);

/// Connections that the kernel holds until they are accepted; it may lower this (`somaxconn`).
pub const LISTEN_BACKLOG: i32 = 4096;

/// Outbound connections at one time, those being established included.
pub const OUTBOUND_CONNECTIONS_MAX: usize = 1024;

/// How long DNS lookup, connect and TLS handshake of an outbound connection may take together.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Names waiting for a lookup: one for each outbound connection.
pub const DNS_LOOKUPS_QUEUED_MAX: usize = 1024;

/// Lookups at one time; each blocks a thread.
pub const DNS_THREADS: usize = 4;

/// Addresses of one name that are tried.
pub const DNS_ADDRESSES_MAX: usize = 16;

/// Bytes that a peer may send in a TLS handshake; most of it is certificates.
pub const TLS_HANDSHAKE_MAX_BYTES: usize = 256 * 1024;

/// The longest line of a client that has to authenticate.
pub const AUTHENTICATION_LINE_MAX_BYTES: usize = 4096;

/// How long a client that has to authenticate may take for it.
pub const AUTHENTICATION_TIMEOUT: Duration = Duration::from_secs(5);

/// Wrong tokens of one connection: the last one closes it.
pub const AUTHENTICATION_TRIES: u32 = 3;

/// Clients that have to authenticate and have not; a further one takes the place of the oldest one.
pub const UNAUTHENTICATED_MAX: usize = 1024;

/// The same of one address: a further one takes the place of the oldest one of that address, so
/// that no address closes the connections of others.
pub const UNAUTHENTICATED_PER_ADDRESS_MAX: usize = 128;

/// Wrong tokens of an address in a window that are answered at once.
pub const AUTH_FAILURES_PER_WINDOW: u32 = 10;

/// The window in which wrong tokens are counted.
pub const AUTH_FAILURE_WINDOW: Duration = Duration::from_mins(1);

/// After how long further wrong tokens are answered.
pub const AUTH_FAILURE_DELAY: Duration = Duration::from_secs(1);

/// Addresses whose wrong tokens are counted; further ones share a count.
pub const AUTH_FAILURE_ADDRESSES_MAX: usize = 4096;

/// Connections that a pass looks at after users have changed.
pub const CONNECTIONS_CHECKED_PER_PASS: u32 = 256;

/// Users in the settings.
pub const USERS_MAX: usize = 1000;

/// TLS handshakes of clients that are under way at one time; a further client takes the place of
/// the oldest one, or waits to be accepted.
pub const HANDSHAKES_MAX: usize = 1024;

/// Steps of TLS handshakes of clients in a pass; a whole handshake has two.
pub const HANDSHAKE_STEPS_PER_PASS: usize = 2;

/// Handshakes that a pass looks at, whether or not they can be advanced.
pub const HANDSHAKE_LOOKS_PER_PASS: usize = 64;

/// How long the TLS handshake of a client may take.
pub const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// How long the TLS handshake of a client may take at least when others wait to begin.
pub const HANDSHAKE_TIME_MIN: Duration = Duration::from_secs(1);

/// Shortest time between two log entries about TLS handshakes that have failed.
pub const HANDSHAKE_NOTICE_INTERVAL: Duration = Duration::from_secs(10);

/// The least time between two log lines about workers that are not called for their addresses.
pub const FORBIDDEN_CALL_NOTICE_INTERVAL: Duration = Duration::from_secs(1);

/// How often the files of certificates are looked at, whether they have changed.
pub const CERTIFICATE_LOOK_INTERVAL: Duration = Duration::from_mins(1);

/// Connections that a server which waits to lead forwards at one time, whatever `--max-clients` is:
/// each takes two places among the names of sockets.
pub const FORWARDS_MAX: u32 = 1 << 20;

/// Bytes of a connection over HTTP that decide whether it is forwarded.
pub const FORWARD_LOOK_BYTES: usize = 64;

/// How long a connection to the leader may take, its name's lookup included.
pub const FORWARD_CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// First pause before a leader that cannot be reached is dialled again; they double.
pub const FORWARD_RETRY_MIN: Duration = Duration::from_millis(50);

/// Longest of these pauses.
pub const FORWARD_RETRY_MAX: Duration = Duration::from_millis(500);

/// Shortest time between two log entries about clients that were not forwarded.
pub const FORWARD_NOTICE_INTERVAL: Duration = Duration::from_secs(10);

/// Bytes encrypted at one time: what fits into one TLS record.
pub const TLS_RECORD_BYTES: usize = 16 * 1024;

/// Queues without jobs and waiters that are kept, so that a queue which is empty for a moment is
/// not created again for each job.
pub const IDLE_QUEUES_MAX: usize = 1024;

/// Queues beyond these that one pass drops: each costs some 0.5 us, as it is in no cache.
pub const IDLE_QUEUES_DROPPED_PER_PASS: usize = 512;

/// Longest payload of a pop: its length has 16 bits on the wire.
pub const PACKET_MAX_BYTES: usize = 65_535;

/// Bytes of a pop's packets above which their memory goes to its client's session, which writes
/// and frees them one by one; fewer are copied into the output at once.
pub const POP_COPIED_MAX_BYTES: usize = 256 * 1024;

/// Packets of one pop: their number has 16 bits on the wire.
pub const PACKETS_PER_POP_MAX: usize = 65_535;

/// Events in a job's history above which users append none. Other events are appended up to twice
/// this number; beyond that they only change the job.
pub const EVENT_LOG_EVENTS_MAX: usize = 10_000;

/// Bytes of a job's history, with the same effect.
pub const EVENT_LOG_MAX_BYTES: usize = 1024 * 1024;

/// Queues with metrics of their own; those of the others are summed.
pub const METRICS_QUEUES_MAX: usize = 1000;

/// Bytes of a name in lists, logs and pages; longer ones are cut.
pub const NAME_SHOWN_MAX_BYTES: usize = 1024;

/// Bytes of the name of a queue with metrics of its own.
pub const METRICS_NAME_MAX_BYTES: usize = 256;

/// Shortest time between two samples of resident memory.
pub const MEMORY_SAMPLE_INTERVAL: Duration = Duration::from_secs(10);

/// Time from a pass until the memory that it has freed goes back to the system: what is freed and
/// soon used again stays.
pub const PURGE_DELAY: Duration = Duration::from_secs(1);

/// Shortest window of the busy fraction of the loop.
pub const BUSY_WINDOW_MIN: Duration = Duration::from_secs(10);

/// Constraints at one time: every put evaluates all of them.
pub const CONSTRAINTS_MAX: usize = 256;

/// How often it is looked whether the scan of a deferred reserve's own queues has ended, in
/// milliseconds; as a rule it is answered before, when all scans have.
pub const SCAN_CHECK_INTERVAL_MS: u64 = 1_000;

/// Registered workers at one time.
pub const WORKERS_MAX: usize = 10_000;

/// Registered workers in one page of the registry.
pub const WORKERS_PER_PAGE: usize = 64;

/// Workers of the processor at one time; messages of further ones are ignored.
pub const PROCESSOR_WORKERS_MAX: usize = 64 * 1024;

/// How long a worker has to answer a delivery. A shutdown does not wait this long: a delivery in
/// flight at its end leaves the job to the worker, whose report counts after the restart.
pub const WORKER_CALL_TIMEOUT: Duration = Duration::from_secs(10);

/// How long an idle connection to a worker is kept.
pub const WORKER_KEEPALIVE: Duration = Duration::from_secs(15);

/// Bytes of a worker's answer that are read and discarded to keep its connection.
pub const WORKER_ANSWER_MAX_BYTES: u64 = 64 * 1024;

/// Bytes of interim answers (100 to 199) and empty lines before a worker's answer.
pub const WORKER_INTERIM_MAX_BYTES: usize = 64 * 1024;

/// Backoff after a worker's first failure; doubled with each further one in a row.
pub const WORKER_BACKOFF_MIN: Duration = Duration::from_secs(1);

/// Failures in a row after which a worker is deregistered: about 15 s of backoff.
pub const WORKER_FAILURES_MAX: u32 = 5;

/// Waiting reserves of one dispatcher: the number of jobs that it can get at once.
pub const WORKER_RESERVES_MAX: usize = 16;

/// Job names that a worker has rejected as unknown and that are remembered, for a worker that
/// accepts any name; further ones are offered again.
pub const UNKNOWN_NAMES_MAX: usize = 1024;

/// Workers in a job's exclusion set; beyond it the set is cleared, and the job is delayed first.
pub const EXCLUDED_WORKERS_MAX: usize = 16;

/// Different exclusion sets among the ready jobs of one queue, with the same effect.
pub const EXCLUSION_SETS_MAX: usize = 64;

/// Delay of a job whose exclusion set is cleared.
pub const EXCLUSION_RESET_DELAY: Duration = Duration::from_secs(10);

/// Job ids stay below this, so that every JSON client holds them exactly.
pub const JOB_ID_END: u64 = 1 << 53;

/// Jobs at a time: the journal's record keys leave this many slots in the table of jobs.
pub const JOBS_MAX: usize = 15 << 28;

/// Queues at a time that exist without jobs because a client created them, for the same reason.
pub const DECLARED_QUEUES_MAX: usize = 1 << 25;

/// How long space must be available again before that is logged.
pub const SPACE_REPORT_DELAY: Duration = Duration::from_secs(1);

/// Bytes of the head of an HTTP message: first line and fields.
pub const HTTP_HEAD_MAX_BYTES: usize = 16 * 1024;

/// Bytes of the target of an HTTP request: the usual limit of servers and proxies.
pub const HTTP_TARGET_MAX_BYTES: usize = 8 * 1024;

/// Fields in one head.
pub const HTTP_FIELDS_MAX: usize = 64;

/// Bytes of the line before a chunk of an HTTP body, with its extensions.
pub const HTTP_CHUNK_LINE_MAX_BYTES: usize = 256;

/// Bytes of all chunk extensions of one body, which are ignored.
pub const HTTP_EXTENSIONS_MAX_BYTES: usize = 16 * 1024;

/// Bytes that an HTTP body may have beyond `--max-request`: names and syntax around the payload.
pub const HTTP_BODY_EXTRA_BYTES: usize = 64 * 1024;

/// Approximate size of the pieces of a long HTTP response, one in a pass.
pub const HTTP_CHUNK_BYTES: usize = 64 * 1024;

/// How long the head of an HTTP request may take from its first byte on.
pub const HTTP_HEAD_TIMEOUT: Duration = Duration::from_secs(15);

/// How long its body may take beside what [`HTTP_BODY_MIN_BYTES_PER_SECOND`] adds.
pub const HTTP_BODY_TIMEOUT: Duration = Duration::from_secs(30);

/// Received bytes of a body that extend its timeout by a second.
pub const HTTP_BODY_MIN_BYTES_PER_SECOND: u64 = 16 * 1024;

/// How long an idle HTTP connection is kept.
pub const HTTP_IDLE_TIMEOUT: Duration = Duration::from_mins(1);

/// How long a piece of a long HTTP response may wait for its reader.
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

/// Nesting depth of an expression; each link of a chain of `AND` or `OR` counts. Twice the number
/// of options of a query.
pub const QUERY_DEPTH_MAX: usize = 400;

/// Function calls in the text of one query: for one row all of them may run before the query can be
/// interrupted.
pub const QUERY_CALLS_MAX: usize = 1000;

/// Bytes of the longest text that a query reads or makes, unless `--max-request` requires more; a
/// longer payload or history counts as NULL.
pub const QUERY_VALUE_DEFAULT_BYTES: usize = 4 * 1024 * 1024;

/// The same, whatever `--max-request` is.
pub const QUERY_VALUE_MAX_BYTES: usize = 64 * 1024 * 1024;

/// Memory of all queries: at least four of the longest values fit.
pub const QUERY_HEAP_MAX_BYTES: usize = 512 * 1024 * 1024;

/// Prepared queries kept for another run.
pub const QUERY_STATEMENTS_MAX: usize = 16;

/// Queries that wait for an answer; beyond it, that of the client with the most processor time is
/// rejected.
pub const QUERIES_WAITING_MAX: usize = 1024;

/// Queries that wait for a further turn with their results and their snapshot. Beyond it, that of
/// the client with the most processor time starts again at its turn.
pub const QUERIES_SUSPENDED_MAX: usize = 16;

/// Threads of the lowest class that evaluate queries: one, unless it runs something that cannot be
/// interrupted.
pub const QUERY_THREADS_MAX: usize = 4;

/// Threads that clients with long queries use at one time, so that others find one.
pub const QUERY_THREADS_LONG_MAX: usize = QUERY_THREADS_MAX / 2;

/// Steps of the shortest turn of a query, each some microseconds or less: about a millisecond. The
/// turns of a client become longer with its processor time.
pub const QUERY_TURN_STEPS: u64 = 512;

/// Steps of the only turn of a query whose client sends nothing more.
pub const QUERY_LAST_TURN_STEPS: u64 = 16 * 1024;

/// How long a turn may take while others wait until it is told to end; then how long it may take to
/// end after a row, and then in the middle of one.
pub const QUERY_TURN_TIMEOUT: Duration = Duration::from_millis(10);

/// Clients whose first turns are in the order of arrival; with more, every second turn goes to the
/// client with the fewest rows.
pub const QUERY_FIFO_CLIENTS_MAX: usize = 16;

/// Default for how long a query may take (`--query-timeout`).
pub const QUERY_TIMEOUT_DEFAULT: Duration = Duration::from_secs(5);

/// Shortest `--query-timeout`.
pub const QUERY_TIMEOUT_MIN: Duration = Duration::from_millis(1);

/// Longest `--query-timeout`.
pub const QUERY_TIMEOUT_MAX: Duration = Duration::from_hours(1);

/// Default for the retention of results (`--result-ttl`).
pub const RESULT_TTL_DEFAULT: Duration = Duration::from_hours(1);

/// Shortest `--result-ttl`.
pub const RESULT_TTL_MIN: Duration = Duration::from_millis(1);

/// Longest `--result-ttl`.
pub const RESULT_TTL_MAX: Duration = Duration::from_hours(24 * 365);

/// Default of the processor's tick (`--tick`).
pub const TICK_DEFAULT: Duration = Duration::from_secs(3);

/// Shortest `--tick`.
pub const TICK_MIN: Duration = Duration::from_millis(1);

/// Longest `--tick`.
pub const TICK_MAX: Duration = Duration::from_hours(1);

/// How long a LightJQ request waits for the end of a job if it gives no time.
pub const POLL_WAIT_DEFAULT: Duration = Duration::from_secs(5);

const _: () = assert!(
    READ_BUDGET_BYTES <= STALLED_INPUT_MAX_BYTES,
    "one read must fit behind a waiting request"
);
const _: () =
    assert!(READ_BUDGET_MIN_BYTES <= READ_BUDGET_BYTES && READ_BUDGET_BYTES <= BUSY_READS_BYTES);
const _: () = assert!(
    REQUEST_BYTES_FLOOR <= REQUEST_BYTES_DEFAULT && REQUEST_BYTES_DEFAULT <= REQUEST_BYTES_CEILING
);
const _: () =
    assert!(REQUEST_BYTES_CEILING < u32::MAX as usize / 2, "buffer offsets are 32 bits wide");
const _: () = assert!(SUBSCRIPTIONS_MAX <= SUBSCRIPTION_NAMES_PER_TURN);
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
const _: () = assert!(LINGER_IDLE_TIMEOUT.as_nanos() <= LINGER_MAX.as_nanos());
const _: () =
    assert!(OUTBOUND_CONNECTIONS_MAX <= DNS_LOOKUPS_QUEUED_MAX, "each can have its name looked up");
const _: () = assert!(POOLED_BUFFER_MAX_BYTES <= OUTPUT_HIGH_WATER_BYTES);
const _: () =
    assert!(MAX_CLIENTS_DEFAULT <= MAX_CLIENTS_MAX && MAX_CLIENTS_MAX < u32::MAX as usize);
