//! Bounds of the journal, with the relations between them checked at compile time.

use crate::base::limits::REQUEST_BYTES_CEILING;
use std::time::Duration;

/// Size of a journal segment where space is ample.
pub const JOURNAL_SEGMENT_BYTES: u64 = 32 * 1024 * 1024;

/// With less space, a segment is about this fraction of it, so that compaction has segments to
/// free.
pub const JOURNAL_SEGMENT_SPACE_DIVISOR: u64 = 16;

/// Smallest segment chosen by that rule.
pub const JOURNAL_AUTO_SEGMENT_MIN_BYTES: u64 = 256 * 1024;

/// Smallest segment that may be configured: some records fit.
pub const JOURNAL_SEGMENT_MIN_BYTES: u64 = 4 * 1024;

/// A batch of this size, or of an eighth of a segment, is sealed even if the disk is busy.
pub const JOURNAL_BATCH_BYTES: u64 = 1024 * 1024;

/// No batch grows beyond this and one more record: its size has 32 bits.
pub const JOURNAL_FRAME_MAX_BYTES: usize = 1 << 30;

/// Batches submitted to the disk at one time: while some are synced, others follow, to share the
/// next sync. Beyond it the open batch grows.
pub const JOURNAL_WRITES_IN_FLIGHT_MAX: usize = 16;

/// Group commit: if the previous batch had at least this many records, many clients are active and
/// the open batch waits for the next pass.
pub const GROUP_COMMIT_MIN_RECORDS: u32 = 4;

/// A waiting batch is sealed at this many records: beyond it every client would be waiting for the
/// sync, and the loop would idle.
pub const GROUP_COMMIT_MAX_RECORDS: u32 = 32;

/// How long a batch waits for more records, as long as each pass brings some.
pub const GROUP_COMMIT_MAX_DELAY: Duration = Duration::from_micros(200);

/// Syncs at one time that are not part of a write.
pub const JOURNAL_SYNCS_IN_FLIGHT_MAX: usize = 2;

/// Batch buffers kept for reuse.
pub const JOURNAL_POOLED_BUFFERS_MAX: usize = 4;

/// Capacity up to which a batch buffer is kept.
pub const JOURNAL_POOLED_BUFFER_MAX_BYTES: usize = 4 * 1024 * 1024;

/// Space reservation for each job: its later records, the deletion above all.
pub const JOURNAL_RESERVE_PER_JOB_BYTES: u64 = 64;

/// The space reservation is at least this fraction of the live bytes, so that compaction on a full
/// disk frees something.
pub const JOURNAL_RESERVE_LIVE_DIVISOR: u64 = 16;

/// File descriptors that the journal keeps in case the process runs out of them.
pub const JOURNAL_SPARE_DESCRIPTORS: usize = 4;

/// Time until it tries again if these are used up, too.
pub const JOURNAL_DESCRIPTOR_RETRY_DELAY: Duration = Duration::from_millis(100);

/// Time from a failed allocation of a segment to the next attempt.
pub const JOURNAL_FULL_RETRY_DELAY: Duration = Duration::from_secs(1);

/// Ratio of moved to appended data when compaction begins.
pub const COMPACTION_RATE_MIN: u64 = 2;

/// The same when the directory is at its limit.
pub const COMPACTION_RATE_MAX: u64 = 8;

/// Bytes moved in a step, which needs no traffic: a tenth of a millisecond, for small records.
pub const COMPACTION_STEP_BYTES: u64 = 16 * 1024;

/// Time between two steps.
pub const COMPACTION_STEP_INTERVAL: Duration = Duration::from_millis(2);

/// Bytes moved beyond the rate in a pass that appends something, to catch up.
pub const COMPACTION_PASS_BYTES: u64 = 4 * 1024;

/// Bytes appended and not yet submitted to the disk from which on nothing is moved; a quarter of a
/// segment if that is less.
pub const COMPACTION_BACKLOG_BYTES: u64 = 4 * 1024 * 1024;

/// Bytes of a segment that recovery reads at one time.
pub const JOURNAL_READ_BYTES: usize = 1024 * 1024;

const _: () = assert!(JOURNAL_FRAME_MAX_BYTES + REQUEST_BYTES_CEILING < u32::MAX as usize);
const _: () = assert!(
    COMPACTION_RATE_MIN <= COMPACTION_RATE_MAX
        && JOURNAL_WRITES_IN_FLIGHT_MAX > 0
        && JOURNAL_SYNCS_IN_FLIGHT_MAX > 0
);
const _: () = assert!(
    JOURNAL_AUTO_SEGMENT_MIN_BYTES.is_power_of_two()
        && JOURNAL_SEGMENT_MIN_BYTES <= JOURNAL_AUTO_SEGMENT_MIN_BYTES
        && JOURNAL_AUTO_SEGMENT_MIN_BYTES <= JOURNAL_SEGMENT_BYTES
);
const _: () = assert!(
    JOURNAL_BATCH_BYTES < JOURNAL_FRAME_MAX_BYTES as u64
        && JOURNAL_BATCH_BYTES <= JOURNAL_POOLED_BUFFER_MAX_BYTES as u64,
    "a batch is sealed before it is too large, and its buffer is kept"
);
const _: () = assert!(GROUP_COMMIT_MIN_RECORDS <= GROUP_COMMIT_MAX_RECORDS);
const _: () = assert!(
    JOURNAL_RESERVE_LIVE_DIVISOR >= 2,
    "the space reservation is at most half of the live bytes"
);
const _: () = assert!(
    COMPACTION_PASS_BYTES <= COMPACTION_STEP_BYTES
        && COMPACTION_STEP_BYTES < COMPACTION_BACKLOG_BYTES
);
