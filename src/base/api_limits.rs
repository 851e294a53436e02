//! Bounds and defaults of the native API.

use std::time::Duration;

/// Length of a lease under a token if neither the job nor the reserve says one.
pub const TTR_DEFAULT_MS: u64 = 60_000;

/// Attempts of a job whose put does not say how many.
pub const ATTEMPTS_DEFAULT: u32 = 10;

/// For how long a completion that is reported once more is answered like the first, and the worker
/// of a cancelled job without a lease is told.
pub const PAST_RUN_KEPT: Duration = Duration::from_mins(10);

/// Leases under tokens of completed jobs that are remembered, and the same of cancelled ones.
pub const PAST_RUNS_MAX: usize = 1 << 18;

/// Completed runs that one deadline forgets.
pub const PAST_RUNS_PER_DEADLINE: usize = 64;

/// Jobs that a list shows in the order of hand-out, or of firing, before it goes on by id.
pub const LISTED_IN_ORDER_MAX: u32 = 1_000;

/// Entries of a heap that one page of a list looks at.
pub const LISTED_ENTRIES_PER_STEP: usize = 4096;

/// Places of jobs that one page of a list looks at.
pub const LISTED_JOBS_PER_STEP: usize = 8192;

/// Names of queues that one page of a list looks at.
pub const LISTED_NAMES_PER_STEP: usize = 4096;

/// Bytes of payloads, results and names from which on a page, or a reserve of several jobs, takes
/// nothing more: it is written at once, and kept until its client has read it.
pub const ANSWER_BYTES_ENOUGH: usize = 1024 * 1024;

/// Queues whose most urgent jobs a reserve of several jobs compares, for all its jobs together,
/// before it answers with those that it has.
pub const RESERVE_COMPARED_MAX: usize = 16 * 1024;

/// Longest pattern for names of queues, in bytes.
pub const GLOB_MAX_BYTES: usize = 255;

/// Comparisons of names with patterns, byte by byte, from which on a page of queues is at its end.
/// A name that takes more by itself does not match.
pub const GLOB_STEPS_MAX: usize = 1 << 20;

/// Ready jobs of a queue of which the oldest is shown.
pub const QUEUE_JOBS_SCANNED: usize = 128;

/// Waiters of a queue that are counted.
pub const QUEUE_WAITERS_COUNTED: usize = 1_000;

/// Jobs and waiters together that a page of queues, workers or connections looks at before it is at
/// its end: about a millisecond.
pub const SCANNED_PER_PAGE: usize = 16 * 1024;

/// Reserved jobs of a connection or worker that are counted.
pub const RESERVED_JOBS_COUNTED: usize = 1_000;

/// Events of a job that `GET /jobs/{id}` shows, the last ones.
pub const EVENTS_SHOWN: usize = 64;

/// Actions that are remembered, and that run at a time.
pub const ACTIONS_MAX: usize = 1_000;

/// What changing a job for an action costs, in steps of `SPREAD_STEPS_PER_PASS`: it leaves all
/// tables, or comes into others.
pub const ACTION_STEPS_PER_JOB: usize = 8;

/// Slots of the job table that an action looks at in one such step.
pub const ACTION_SLOTS_PER_STEP: u32 = 4;

/// Bytes of a changed job that cost another such step: the job is written as a whole.
pub const ACTION_BYTES_PER_STEP: usize = 1_024;

/// Longest key of a job, in bytes.
pub const KEY_MAX_BYTES: usize = 255;

/// Longest time for which a key stays taken after the completion of its job, in milliseconds.
pub const KEY_TTL_MAX_MS: u64 = 30 * 86_400_000;

/// Keys at a time that stay taken after the completion of their jobs: each has a record in the
/// journal. Beyond that number a key is free at once.
pub const PAST_KEYS_MAX: usize = 1 << 24;

/// Jobs that a job may wait for by their ids.
pub const DEPENDENCIES_MAX: usize = 1_000;

/// Jobs that the jobs of one array of puts may wait for together: they are all linked in one pass.
pub const DEPENDENCIES_PER_REQUEST_MAX: usize = 20_000;

/// Longest name of a group, in bytes.
pub const GROUP_NAME_MAX_BYTES: usize = 255;

/// Lost jobs at a time with jobs that wait for them and are not cancelled yet: each has a record in
/// the journal. Beyond that number a restart lets those run that are not cancelled yet.
pub const LOSSES_MAX: usize = 1 << 24;

/// Jobs that wait for one job or group and are released in the command that ends it, whatever is
/// left of the `SPREAD_STEPS_PER_PASS`: a client that takes a chain job by job finds the next one.
pub const JOBS_RELEASED_MIN: usize = 4;

/// Work of a job that a job waits for, when that one is put, in the same unit as
/// [`RELEASE_WORK`]: memory that is touched first.
pub const DEPENDENCY_WORK: usize = 256;

/// Work of releasing a job when what it waited for ends, in the unit of `INPUT_WORK_PER_PASS`: as a
/// rule it is in no cache.
pub const RELEASE_WORK: usize = 128;

/// Dependencies of a removed job that are dropped at once; more are dropped in later passes.
pub const EDGES_DROPPED_AT_ONCE: usize = 16;

/// Dependencies of removed jobs that are dropped in one step of `SPREAD_STEPS_PER_PASS`.
pub const EDGES_DROPPED_PER_STEP: usize = 8;

/// Paused queues at a time: each has a record in the journal, and is kept.
pub const PAUSED_QUEUES_MAX: usize = 1 << 20;

/// Schedules at a time.
pub const SCHEDULES_MAX: usize = 10_000;

/// Shortest interval of a schedule, in milliseconds.
pub const SCHEDULE_INTERVAL_MIN_MS: u64 = 100;

/// Schedules whose next moments are computed in one pass, because they are due or because the wall
/// clock was set back.
pub const SCHEDULES_PER_PASS: usize = 64;

/// Bytes of payloads that schedules put in one pass, but for the last one.
pub const SCHEDULED_BYTES_PER_PASS: usize = 1 << 20;

/// Schedules in one page of their list.
pub const SCHEDULES_PER_PAGE: usize = 100;

/// Moments of a schedule that are shown.
pub const NEXT_RUNS_SHOWN: usize = 5;

/// Schedules look at the wall clock at least this often: it may be set forward.
pub const WALL_CLOCK_CHECKED: Duration = Duration::from_mins(1);

/// A moment of a schedule was missed if it is noticed this much later, in milliseconds.
pub const MOMENT_MISSED_AFTER_MS: u64 = 5_000;

/// The wall clock was set back if it shows this much less than the monotonic clock says, in
/// milliseconds; then the moments of intervals are computed again.
pub const CLOCK_SET_BACK_MS: u64 = 1_000;

/// If it was set back by more than this, those of cron expressions are computed again too: before
/// that no moment comes twice. In milliseconds.
pub const MOMENTS_COME_AGAIN_AFTER_MS: u64 = 3 * 3_600 * 1_000;

/// Bytes of a file that a backup reads at a time.
pub const BACKUP_PART_BYTES: usize = 128 * 1024;

/// Jobs in one part of an export.
pub const EXPORT_JOBS_PER_PART: usize = 256;

/// Bytes of payloads, results and names from which on a part of an export is at its end.
pub const EXPORT_BYTES_PER_PART: usize = 128 * 1024;

/// Jobs that an import puts at a time, durable together.
pub const IMPORT_JOBS_PER_BATCH: usize = 256;

/// Bytes of lines from which on an import puts what it has.
pub const IMPORT_BYTES_PER_BATCH: usize = 256 * 1024;

/// Ranges of ids that follow each other on both servers, of which an import remembers which are
/// the new ones: some 40 MB. Without gaps, and without other puts meanwhile, there is one range.
pub const IMPORT_ID_RANGES_MAX: usize = 1 << 20;

/// Errors that an import names.
pub const IMPORT_ERRORS_MAX: usize = 100;

/// A short step of histories.
pub const FLOW_STEP: Duration = Duration::from_secs(5);

/// A long step of histories, and the time over which rates are taken.
pub const LONG_STEP: Duration = Duration::from_mins(1);

/// Short steps over which rates are taken.
pub const RATE_STEPS: u64 = LONG_STEP.as_secs() / FLOW_STEP.as_secs();

/// Short steps in the history of the server: an hour.
pub const SERVER_SHORT_STEPS: usize = 720;

/// Long steps in the history of the server: a day.
pub const SERVER_LONG_STEPS: usize = 1_440;

/// Short steps in the history of a queue: five minutes.
pub const QUEUE_SHORT_STEPS: usize = 60;

/// Long steps in the history of a queue: half an hour.
pub const QUEUE_LONG_STEPS: usize = 30;

/// Queues with histories: each takes 1.8 kB.
pub const QUEUE_HISTORIES_MAX: usize = 2_048;

/// Queues whose changes are noted at a time, if the last ones were noted this long ago: about 50
/// ns each, so a thousandth of the loop's time.
pub const FLOW_WALK_INTERVAL: Duration = Duration::from_millis(10);

/// See [`FLOW_WALK_INTERVAL`].
pub const QUEUES_PER_WALK_STEP: u32 = 256;

/// The same if more time has passed.
pub const QUEUES_PER_WALK_STEP_MAX: u32 = 4_096;

/// Queues whose jobs are counted by state when that is asked for; if there are more, the counts are
/// those of the last walk.
pub const QUEUES_COUNTED_AT_ONCE: u32 = 1_024;

/// Names of queues, or ready jobs of them, that a snapshot of the first queues looks at in a step
/// of `SPREAD_STEPS_PER_PASS`.
pub const RANKED_PER_STEP: usize = 2;

/// Queues in such a snapshot.
pub const RANKED_MAX: usize = 1_000;

/// For how long a snapshot is shown.
pub const RANKED_KEPT: Duration = Duration::from_secs(1);

/// Snapshots at a time, of different orders and patterns.
pub const RANKED_SNAPSHOTS_MAX: usize = 16;

/// Event streams at a time.
pub const STREAMS_MAX: usize = 32;

/// Topics of an event stream.
pub const TOPICS_MAX: usize = 16;

/// Frames that a stream asks for in a pass.
pub const FRAMES_PER_TURN: u32 = 4;

/// Places of connections that a page of them looks at.
pub const CONNECTIONS_PER_STEP: u32 = 1_024;
