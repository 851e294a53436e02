//! What the oracle answers, and what jobs carry, owned.

use super::consumers::Counted;
use super::keys::Put;
use super::manage::Counts;
use jobcentre::base::time::{Mono, Wall};
use jobcentre::model::external_id::Fraction;
use jobcentre::model::id::Ticket;
use jobcentre::model::job::{Encoding, Payload, Status};
use jobcentre::model::manage::{JobState, Missing};
use jobcentre::model::reply::Rejection;
use jobcentre::model::row::Row;
use std::fmt;
use std::rc::Rc;

/// A queue, by its number among the names that the oracle was given.
pub(crate) type Queue = usize;

/// A priority; `None` is that of a job that no reserve and no pop selects.
pub(crate) type Urgency = Option<i128>;

/// Bytes, cheap to clone and short to print.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Text(Rc<[u8]>);

impl Text {
    pub(crate) fn new(bytes: &[u8]) -> Self {
        Self(bytes.into())
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = self.0.len().min(24);
        write!(formatter, "{}B:{}", self.0.len(), self.0[..shown].escape_ascii())
    }
}

/// A payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Load {
    pub(crate) encoding: Encoding,
    pub(crate) text: Text,
}

impl Load {
    pub(crate) fn json(text: &str) -> Self {
        Self { encoding: Encoding::Json, text: Text::new(text.as_bytes()) }
    }

    pub(crate) fn packet(key: &[u8], payload: &[u8]) -> Self {
        let key_len = u16::try_from(key.len()).unwrap();
        let text = Text::new(&[key, payload].concat());
        Self { encoding: Encoding::Packet { key_len }, text }
    }

    pub(crate) fn of(payload: Payload<'_>) -> Self {
        Self { encoding: payload.encoding, text: Text::new(payload.bytes) }
    }

    pub(crate) fn payload(&self) -> Payload<'_> {
        Payload { encoding: self.encoding, bytes: &self.text.0 }
    }

    /// The key of a packet.
    pub(crate) fn key(&self) -> Option<&[u8]> {
        match self.encoding {
            Encoding::Packet { key_len } => Some(&self.text.0[..usize::from(key_len)]),
            Encoding::Json | Encoding::JsonLine | Encoding::MsgPack | Encoding::Bytes => None,
        }
    }

    /// Whether no pop can take it.
    pub(crate) fn is_too_large(&self) -> bool {
        self.key().is_none() && self.text.len() > 65_535
    }
}

/// A job as clients see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct View {
    pub(crate) id: u64,
    pub(crate) queue: Queue,
    pub(crate) priority: Urgency,
    pub(crate) load: Load,
    pub(crate) lease: u32,
}

/// All that the native API shows of a job, but what is in no other answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Details {
    pub(crate) view: View,
    pub(crate) state: JobState,
    pub(crate) ttl: Option<Wall>,
    /// When it is ready, if it is delayed.
    pub(crate) due: Option<Wall>,
    pub(crate) attempts: u32,
    pub(crate) max_attempts: Option<u32>,
    pub(crate) lease: Option<LeaseFacts>,
    /// Kind and message of the last error, and when it happened.
    pub(crate) error: Option<(Text, Text, Option<Wall>)>,
    pub(crate) progress: Option<Fraction>,
    /// What its worker says of its progress.
    pub(crate) message: Option<Text>,
    pub(crate) result: Option<Load>,
    pub(crate) key: Option<Text>,
    pub(crate) group: Option<Text>,
    pub(crate) after: Vec<u64>,
}

/// What is shown of a reservation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LeaseFacts {
    pub(crate) worker: Option<Text>,
    pub(crate) protocol: &'static str,
    pub(crate) since: Option<Wall>,
    pub(crate) until: Option<Wall>,
}

/// A reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// Of an action that has ended: how many jobs matched, and how many it has changed.
    Acted {
        verb: &'static str,
        dry_run: bool,
        matched: Option<u64>,
        done: u64,
    },
    /// How many jobs of the queue are reserved.
    Busy(u64),
    Cancelled,
    /// A put whose key is taken by a job that is completed and gone.
    Completed(u64),
    Conflict(Text),
    /// Whether there was none of the name before.
    Constrained(bool),
    /// Of a job.
    Counted(Box<Counted>),
    Details(Box<Details>),
    Done,
    Dropped(u32),
    /// A put whose key is taken.
    Duplicate(Box<Details>),
    Found(Vec<Row>),
    Gone,
    /// Whether it is switched on.
    Index(bool),
    Job(View),
    /// Those of all pages.
    JobList(Vec<Details>),
    /// By this job.
    KeyTaken(u64),
    Kicked(u32),
    LeaseEnding,
    LogFull,
    Missing(Missing),
    NoConstraint,
    NoIndex,
    NoJob,
    NoQueue,
    NotYet,
    NoWorker,
    /// Of each packet the length of the key, and its bytes.
    Packets(Vec<(u16, Text)>),
    Progress {
        view: View,
        word: &'static str,
        due: Option<Mono>,
        retries: u32,
        result: Option<Load>,
        worker: Option<u64>,
        message: Option<Text>,
    },
    Put(u64),
    Puts(Vec<Put>),
    Queue(Queue),
    QueueDetails {
        queue: Queue,
        paused: bool,
        until: Option<Wall>,
        indexed: bool,
        counts: Counts,
        waiting: u64,
        /// Jobs put since the queue is known.
        puts: u64,
    },
    /// Jobs put since the queue is known.
    History(u64),
    /// The ids of workers, or the names of constraints, in order.
    Listed(Vec<String>),
    /// The queues that are known, by number.
    Ranked(Vec<Queue>),
    QueueExists,
    Queues(Vec<(Queue, u32)>),
    Refused(Rejection),
    /// The token is not shown.
    Reserved(Vec<Details>),
    Row(Box<Row>),
    /// The job was cancelled while it ran.
    RunCancelled,
    Rows(Vec<Row>),
    Seen {
        view: View,
        status: Status,
        due: Option<Mono>,
        retries: u32,
        result: Option<Load>,
    },
    StaleToken,
    TooLarge(u64),
    TooLate,
    TooLargeChange,
    Worker(u64),
    WrongState(JobState),
}

impl Answer {
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Cancelled => "reply: cancelled",
            Self::Conflict(..) => "reply: conflict",
            Self::Constrained(..) => "reply: constrained",
            Self::Counted(..) => "reply: counted",
            Self::Acted { verb, .. } => verb,
            Self::Busy(_) => "reply: queue busy",
            Self::TooLargeChange => "reply: change too large",
            Self::WrongState(JobState::Ready | JobState::Blocked) => "wrong state: ready",
            Self::WrongState(JobState::Scheduled) => "wrong state: scheduled",
            Self::WrongState(JobState::Reserved) => "wrong state: reserved",
            Self::WrongState(JobState::Buried) => "wrong state: buried",
            Self::WrongState(JobState::Completed) => "wrong state: completed",
            Self::Completed(_) => "reply: key of a completed job",
            Self::Duplicate(_) => "reply: duplicate",
            Self::KeyTaken(_) => "reply: key taken",
            Self::RunCancelled => "reply: run cancelled",
            Self::Details(..) => "reply: details",
            Self::JobList(jobs) if jobs.is_empty() => "reply: an empty list",
            Self::JobList(..) => "reply: list",
            Self::Puts(..) => "reply: puts",
            Self::Reserved(..) => "reply: reserved",
            Self::StaleToken => "reply: stale token",
            Self::Missing(Missing::Gone) => "reply: missing, gone",
            Self::Missing(Missing::NeverGivenOut) => "reply: missing, never given out",
            Self::Missing(Missing::Queue) => "reply: missing queue",
            Self::QueueDetails { .. } => "reply: queue details",
            Self::History(_) => "reply: history",
            Self::Listed(_) => "reply: listed",
            Self::Ranked(..) => "reply: ranked queues",
            Self::Done => "reply: done",
            Self::Dropped(0) => "reply: dropped nothing",
            Self::Dropped(..) => "reply: dropped",
            Self::Found(rows) if rows.is_empty() => "reply: found nothing",
            Self::Found(..) => "reply: found",
            Self::NoQueue => "reply: no queue",
            Self::Queue(..) => "reply: queue",
            Self::Queues(..) => "reply: queues",
            Self::Row(..) => "reply: row",
            Self::Rows(..) => "reply: rows",
            Self::Index(_) => "reply: index",
            Self::NoIndex => "reply: no index",
            Self::Job(..) => "reply: job",
            Self::Kicked(..) => "reply: kicked",
            Self::LeaseEnding => "reply: lease ending",
            Self::NoConstraint => "reply: no constraint",
            Self::NoJob => "reply: no job",
            Self::Packets(..) => "reply: packets",
            Self::Put(..) => "reply: put",
            Self::Refused(rejection) => refused(*rejection),
            Self::QueueExists => "reply: queue exists",
            Self::LogFull => "reply: log full",
            Self::TooLate => "reply: too late",
            Self::Seen { status: Status::Ready, .. } => "reply: seen ready",
            Self::Seen { status: Status::Blocked | Status::Popped, .. } => unreachable!("not here"),
            Self::Seen { status: Status::GroupOnly, .. } => "reply: seen group-only",
            Self::Seen { status: Status::Delayed, .. } => "reply: seen delayed",
            Self::Seen { status: Status::Reserved, .. } => "reply: seen reserved",
            Self::Seen { status: Status::Completed, .. } => "reply: seen completed",
            Self::Seen { status: Status::Buried, .. } => "reply: seen buried",
            Self::TooLarge(..) => "reply: too large",
            Self::Gone => "reply: gone",
            Self::NotYet => "reply: not yet",
            Self::NoWorker => "reply: no worker",
            Self::Worker(_) => "reply: worker",
            Self::Progress { word, .. } => progressed(word),
        }
    }
}

fn progressed(word: &str) -> &'static str {
    match word {
        "running" => "progress: running",
        "done" => "progress: done",
        "error" => "progress: error",
        "retrying" => "progress: retrying",
        _ => "progress: queued",
    }
}

fn refused(rejection: Rejection) -> &'static str {
    match rejection {
        Rejection::Full | Rejection::DiskFull | Rejection::MemoryFull | Rejection::Draining => {
            "reply: full"
        }
        Rejection::ReservedByAnother(..) => "reply: held by another",
        Rejection::NotReserved(..) => "reply: not held",
        Rejection::LeaseExpired(..) => "reply: lease over",
        Rejection::NotBuried(..) => "reply: not buried",
        Rejection::NameTaken(_) => "reply: name taken",
        Rejection::UnknownJob(_) => "reply: unknown job",
        Rejection::ReplaceAfter(_) | Rejection::ReplaceInGroup(_) => "reply: not replaced",
    }
}

/// Replies in their order, with the requests that they answer.
pub(crate) type Replies = Vec<(Ticket, Answer)>;
