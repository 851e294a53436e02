//! What a job carries: how urgent it is, and its payload.

/// How urgent a job is: bigger is more urgent, whatever the protocol's own scale says
/// (`docs/protocols/README.md`, "Priorities"). Compared exactly however many digits it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Priority<'a> {
    /// A number above `i64::MIN` and below `i64::MAX`.
    Small(i64),
    /// The decimal digits, without leading zeros, of a number from `i64::MAX` on.
    Big(&'a str),
    /// None at all: no take selects the job; it leaves with its key group, by its time to live or
    /// by a delete (priority 0 of the networked priority queue).
    Unselected,
}

impl<'a> Priority<'a> {
    /// The first number that is written out in digits.
    pub const BIG_MIN: u64 = i64::MAX.unsigned_abs();

    /// A non-negative number given as its decimal digits without leading zeros.
    #[must_use]
    pub fn from_digits(digits: &'a str) -> Self {
        match digits.parse::<i64>() {
            Ok(number) if number < i64::MAX => Self::Small(number),
            _ => Self::Big(digits),
        }
    }
}

/// Where a job stands among jobs of the same priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TieBreak {
    /// Oldest id first.
    Fifo,
    /// Behind all that go oldest first, and newest id first (networked priority queue).
    Lifo,
}

/// How a payload's bytes are to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// JSON text, checked, in UTF-8.
    Json,
    /// The same, and there is surely no line end in it.
    JsonLine,
    /// One MessagePack value, checked.
    MsgPack,
    /// A packet of the networked priority queue: a key of so many bytes, and behind it whatever the
    /// packet carries. Packets of one queue with the same key are a group, which leaves together.
    Packet {
        /// How many of the bytes are the key.
        key_len: u16,
    },
}

/// A payload as its protocol received it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Payload<'a> {
    /// How to read the bytes.
    pub encoding: Encoding,
    /// The bytes, never changed by the server.
    pub bytes: &'a [u8],
}

/// A payload that has left the store for good, on its way to the client that popped it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// How many of the bytes are the key; a job of another protocol has none.
    pub key_len: u16,
    /// Key and payload, as they were put in.
    pub bytes: Box<[u8]>,
}

/// What few jobs ask for: how time passes for them. All durations are milliseconds; 0 is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JobOptions {
    /// The job is not handed out before so much time has passed since it was put.
    pub delay_ms: u64,
    /// The job is removed when it still waits, ready or delayed, so long after it was put; one that
    /// somebody holds then is removed instead of going back.
    pub ttl_ms: u64,
    /// Whoever takes the job has so long to make an end of it or to extend the lease; then it goes
    /// back, or if it has a retry policy has failed once more.
    pub lease_ms: u64,
    /// What follows a failure; without it a failed job is buried.
    pub retry: Option<Retry>,
    /// How long the result of the finished job is kept; 0: the job is gone when it is finished.
    pub result_retention_ms: u64,
    /// How long the job is kept when it is buried; 0: until it is kicked or deleted.
    pub dead_retention_ms: u64,
    /// Whoever put the job follows it to its end: it may be taken whatever its queue
    /// (`Work::ReserveAny`), and the end of its lease is a failure whose message is "timeout".
    pub tracked: bool,
    /// Its kept result goes with the first answer that shows it to whoever follows it.
    pub result_once: bool,
}

/// How often a failed job is tried again, and after which time: before retry `n`, counted from 1,
/// `min(first_ms * factor^(n-1), max_ms)`, up to `jitter_percent` shorter or longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retry {
    /// How many retries there are.
    pub limit: u32,
    /// The wait before the first one, in milliseconds.
    pub first_ms: u64,
    /// What each further wait is multiplied by; 0 counts as 1.
    pub factor: u32,
    /// No wait is longer than this, jitter aside, in milliseconds.
    pub max_ms: u64,
    /// By how much a wait varies, at most 100.
    pub jitter_percent: u8,
}

/// What a job is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Status {
    /// It waits in its queue and may be taken.
    Ready,
    /// It waits in its queue, and constraints hold it back.
    Blocked,
    /// It waits in its queue, and no take selects it: it has no priority.
    GroupOnly,
    /// It may be taken later: after its delay, or after the wait before a retry.
    Delayed,
    /// Somebody works on it.
    Reserved,
    /// It is finished, and its result is kept for a while.
    Completed,
    /// It has failed for good, or was put away by whoever held it.
    Buried,
}

/// Which of its holders a job is with: the number of times it was handed out. A job that was put
/// without [`JobOptions`] does not count and is always at 0: its holder is known by the connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct LeaseEpoch(pub u32);
