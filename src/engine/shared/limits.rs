//! Bounds of a shared engine.

use std::time::Duration;

/// A batch of this size is sealed though an earlier one is on its way.
pub const BATCH_BYTES: usize = 1 << 20;

/// Bytes of batches that are not accepted yet beyond which nothing is put.
pub const PENDING_BYTES_MAX: usize = 64 << 20;

/// Bytes of accepted batches that are kept in case that the sink loses them.
pub const KEPT_BYTES_MAX: usize = 64 << 20;

/// The longest answer that is taken.
pub const ANSWER_BYTES_MAX: usize = 1 << 30;

/// For how long a server leads after a word of it, unless it is told.
pub const LEASE_DEFAULT: Duration = Duration::from_secs(3);

/// How long the node may be away before requests are refused, unless it is told.
pub const PATIENCE_DEFAULT: Duration = Duration::from_secs(10);

/// Time for a connection, with what is said at its begin.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Time for a connection to a Sentinel, and for its answer: another one is asked then.
pub const SENTINEL_TIMEOUT: Duration = Duration::from_secs(1);

/// How long a write waits for replicas before it is written again, so that the lease is renewed: or
/// a third of the lease.
pub const REPLICAS_TIMEOUT: Duration = Duration::from_millis(500);

/// How often the node is asked for its role and its replicas.
pub const ROLE_INTERVAL: Duration = Duration::from_secs(5);

/// Time for an answer to a write; then the connection counts as lost.
pub const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// The lease is renewed this often even without a write, or every third of it.
pub const RENEW_INTERVAL: Duration = Duration::from_secs(1);

/// A server that ends has this long to hand its lead over, unless it is told.
pub const HAND_OVER_DEFAULT: Duration = Duration::from_secs(20);

/// How long a server that ends waits for another one to follow it, and for an answer meanwhile.
pub const FOLLOW_PATIENCE: Duration = Duration::from_secs(2);

/// Writes of a leader that offers its lead are at most this far apart.
pub const OFFER_INTERVAL: Duration = Duration::from_millis(10);

/// The first pause before another attempt: of a connection, or of a write that was refused for now.
pub const RETRY_MIN: Duration = Duration::from_millis(5);

/// The longest one: they double.
pub const RETRY_MAX: Duration = Duration::from_millis(500);

/// While memory is full, writes without a word about that are tried so often.
pub const TIGHT_INTERVAL: Duration = Duration::from_secs(1);

/// About as many bytes of records are asked for at once while all are read.
pub const PART_BYTES: usize = 256 << 10;

/// Records of the first part, before their size is known.
pub const PART_RECORDS_FIRST: usize = 10;

/// Records of a part at most, however small they are.
pub const PART_RECORDS_MAX: usize = 2_000;
