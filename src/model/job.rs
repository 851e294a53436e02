//! What a job carries: priority, payload and options.

use crate::base::thin::ThinBytes;

/// The priority of a job: a larger one is more urgent, whatever the protocol's own scale
/// (`docs/protocols/README.md`, "Priorities"). Compared exactly, with any number of digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Priority<'a> {
    /// A number above `i64::MIN` and below `i64::MAX`.
    Small(i64),
    /// The decimal digits, without leading zeros, of a number from `i64::MAX` on; or
    /// [`LEAST_PRIORITY`], which is less urgent than all others.
    Big(&'a str),
    /// Group-only: no reserve selects the job; it leaves with its key group, by its ttl or by a
    /// delete (priority 0 of the networked priority queue).
    Unselected,
}

/// The least priority: `i64::MIN`.
pub const LEAST_PRIORITY: &str = "-9223372036854775808";

impl<'a> Priority<'a> {
    /// The smallest number that is kept as digits.
    pub const BIG_MIN: u64 = i64::MAX.unsigned_abs();

    /// Whether these digits are those of a [`Priority::Big`].
    #[must_use]
    pub fn are_big(digits: &str) -> bool {
        digits == LEAST_PRIORITY
            || digits.bytes().all(|digit| digit.is_ascii_digit())
                && !digits.starts_with('0')
                && !digits.is_empty()
                && matches!(Priority::from_digits(digits), Priority::Big(_))
    }

    /// `digits`: a non-negative decimal number without leading zeros.
    #[must_use]
    pub fn from_digits(digits: &'a str) -> Self {
        match digits.parse::<i64>() {
            Ok(number) if number < i64::MAX => Self::Small(number),
            _ => Self::Big(digits),
        }
    }
}

/// A [`Priority`] that borrows nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OwnedPriority {
    /// See [`Priority::Small`].
    Number(i64),
    /// See [`Priority::Big`].
    Beyond(Box<str>),
    /// See [`Priority::Unselected`].
    Never,
}

impl From<Priority<'_>> for OwnedPriority {
    fn from(priority: Priority<'_>) -> Self {
        match priority {
            Priority::Small(number) => Self::Number(number),
            Priority::Big(digits) => Self::Beyond(digits.into()),
            Priority::Unselected => Self::Never,
        }
    }
}

impl OwnedPriority {
    /// O(1).
    #[must_use]
    pub fn view(&self) -> Priority<'_> {
        match self {
            Self::Number(number) => Priority::Small(*number),
            Self::Beyond(digits) => Priority::Big(digits),
            Self::Never => Priority::Unselected,
        }
    }
}

/// Order among jobs of the same priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TieBreak {
    /// Oldest id first.
    Fifo,
    /// Newest id first, after all FIFO jobs (networked priority queue).
    Lifo,
}

impl TieBreak {
    /// That of a job with a payload of this format, whatever protocol has put it.
    #[must_use]
    pub fn of(encoding: Encoding) -> Self {
        if matches!(encoding, Encoding::Packet { .. }) { Self::Lifo } else { Self::Fifo }
    }
}

/// The format of a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// Valid JSON text in UTF-8.
    Json,
    /// The same, without line ends.
    JsonLine,
    /// One valid MessagePack value.
    MsgPack,
    /// A packet of the networked priority queue: a key, then the payload. Packets of one queue with
    /// the same key are a key group.
    Packet {
        /// Length of the key in bytes.
        key_len: u16,
    },
    /// Any bytes. Protocols whose payloads are JSON show a JSON text as that, and other bytes as
    /// `{"base64":BASE64}`.
    Bytes,
}

impl Encoding {
    /// Length of the key of a packet; 0 of all others.
    #[must_use]
    pub fn key_len(self) -> u16 {
        match self {
            Self::Packet { key_len } => key_len,
            Self::Json | Self::JsonLine | Self::MsgPack | Self::Bytes => 0,
        }
    }
}

/// A payload as received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Payload<'a> {
    /// Format of the bytes.
    pub encoding: Encoding,
    /// Never changed by the server.
    pub bytes: &'a [u8],
}

/// A payload in the store: what is kept before its bytes is the store's own.
pub type StoredPayload = ThinBytes<7>;

/// A popped job on its way to its client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Length of the key in bytes; 0 for a job of another protocol.
    pub key_len: u16,
    /// The number of bytes, which are in no cache when those of many packets are added up.
    len: u32,
    /// Key and payload as they were put.
    pub bytes: StoredPayload,
}

const _: () = assert!(size_of::<Packet>() == 16);

impl Packet {
    /// A packet whose first `key_len` bytes are its key.
    ///
    /// # Panics
    /// If the key is longer than the bytes, or these have 4 GiB.
    #[must_use]
    pub fn new(key_len: u16, bytes: StoredPayload) -> Self {
        assert!(usize::from(key_len) <= bytes.len(), "the key of a packet is a part of it");
        let len = u32::try_from(bytes.len()).expect("payloads are shorter than 4 GiB");
        Self { key_len, len, bytes }
    }

    /// The number of key and payload bytes.
    #[must_use]
    pub fn byte_len(&self) -> usize {
        self.len as usize
    }
}

/// Options of a put. Durations are in milliseconds; 0: none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JobOptions {
    /// The job is not ready before this time after the put.
    pub delay_ms: u64,
    /// The job is removed this time after the put if it still waits, ready or delayed; one that is
    /// reserved then is removed when it would go back to its queue.
    pub ttl_ms: u64,
    /// Length of the lease: then the job goes back to its queue, or, with a retry policy, its run
    /// has failed.
    pub lease_ms: u64,
    /// Without it a failed job is buried.
    pub retry: Option<Retry>,
    /// How long a finished job is kept with its result; 0: it is removed.
    pub result_retention_ms: u64,
    /// How long a buried job is kept; 0: until it is kicked or deleted.
    pub dead_retention_ms: u64,
    /// A tracked job: clients may ask for its status and result, any queue's `ReserveAny` may
    /// select it, and the end of its lease is a failure with the message "timeout".
    pub tracked: bool,
    /// The retained result is removed with the first answer that carries it.
    pub result_once: bool,
    /// Most attempts; 0: any number. The end of its lease and the loss of its connection are then
    /// attempts like a failure: the job is ready again at once, or buried after the last one.
    pub max_attempts: u32,
}

impl JobOptions {
    /// The length of the lease in whole seconds, if it is short and there is nothing else: then it
    /// is kept beside a payload of any bytes. 0: not so.
    #[must_use]
    #[inline]
    pub fn short_lease_s(&self, encoding: Encoding) -> u16 {
        let others = self.delay_ms
            | self.ttl_ms
            | self.result_retention_ms
            | self.dead_retention_ms
            | u64::from(self.max_attempts);
        let flags = self.tracked || self.result_once || self.retry.is_some();
        if encoding != Encoding::Bytes
            || others != 0
            || flags
            || !self.lease_ms.is_multiple_of(1_000)
        {
            return 0;
        }
        u16::try_from(self.lease_ms / 1_000).unwrap_or(0)
    }
}

/// How often a failed job is tried again, and after which backoff: before retry `n`, counted from
/// 1, `min(first_ms * factor^(n-1), max_ms)`, varied by up to `jitter_percent`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retry {
    /// Number of retries.
    pub limit: u32,
    /// Backoff before the first retry.
    pub first_ms: u64,
    /// Multiplies the backoff with each further retry; 0 counts as 1.
    pub factor: u32,
    /// Longest backoff, without jitter.
    pub max_ms: u64,
    /// 0 to 100.
    pub jitter_percent: u8,
}

impl Retry {
    /// That of a native put, and of a job without a policy whose run is reported as failed. The
    /// number of attempts has a limit of its own.
    pub const DEFAULT: Self =
        Self { limit: u32::MAX, first_ms: 1_000, factor: 2, max_ms: 3_600_000, jitter_percent: 20 };
}

/// What a job is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Status {
    /// Waits in its queue and may be reserved.
    Ready,
    /// Would be ready, but a constraint holds it back.
    Blocked,
    /// Waits in its queue; no reserve selects it, because it has no priority.
    GroupOnly,
    /// May be reserved later: after its delay, or after the backoff before a retry.
    Delayed,
    /// A client or a registered worker works on it.
    Reserved,
    /// Finished, and its result is retained.
    Completed,
    /// Failed for good, or buried by the client that had reserved it.
    Buried,
    /// Taken by a pop of a large key group whose answer is not complete yet: no command finds
    /// it.
    Popped,
}

/// Names a lease that does not end with a connection: random, and unlike any other of its job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaseToken(pub u64);

/// How often a job was handed out: a fencing token. Always 0 for a job put without [`JobOptions`],
/// whose reservation is known by its connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct LeaseEpoch(pub u32);
