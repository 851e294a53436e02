//! What the oracle answers, and what jobs carry, owned.

use jobcentre::base::time::Mono;
use jobcentre::model::id::Ticket;
use jobcentre::model::job::{Encoding, Payload, Status};
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
            Encoding::Json | Encoding::JsonLine | Encoding::MsgPack => None,
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

/// A reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Cancelled,
    Conflict(Text),
    /// Whether there was none of the name before.
    Constrained(bool),
    Done,
    Dropped(u32),
    Found(Vec<Row>),
    Gone,
    Job(View),
    Kicked(u32),
    LogFull,
    NoConstraint,
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
    Queue(Queue),
    QueueExists,
    Queues(Vec<(Queue, u32)>),
    Refused(Rejection),
    Row(Box<Row>),
    Rows(Vec<Row>),
    Seen {
        view: View,
        status: Status,
        due: Option<Mono>,
        retries: u32,
        result: Option<Load>,
    },
    TooLarge(u64),
    TooLate,
    Worker(u64),
}

impl Answer {
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Cancelled => "reply: cancelled",
            Self::Conflict(..) => "reply: conflict",
            Self::Constrained(..) => "reply: constrained",
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
            Self::Job(..) => "reply: job",
            Self::Kicked(..) => "reply: kicked",
            Self::NoConstraint => "reply: no constraint",
            Self::NoJob => "reply: no job",
            Self::Packets(..) => "reply: packets",
            Self::Put(..) => "reply: put",
            Self::Refused(Rejection::Full | Rejection::DiskFull | Rejection::MemoryFull) => {
                "reply: full"
            }
            Self::Refused(Rejection::ReservedByAnother(..)) => "reply: held by another",
            Self::Refused(Rejection::NotReserved(..)) => "reply: not held",
            Self::Refused(Rejection::LeaseExpired(..)) => "reply: lease over",
            Self::Refused(Rejection::NotBuried(..)) => "reply: not buried",
            Self::QueueExists => "reply: queue exists",
            Self::LogFull => "reply: log full",
            Self::TooLate => "reply: too late",
            Self::Refused(Rejection::NameTaken(_)) => "reply: name taken",
            Self::Seen { status: Status::Ready, .. } => "reply: seen ready",
            Self::Seen { status: Status::Blocked, .. } => unreachable!("here it is ready"),
            Self::Seen { status: Status::Popped, .. } => unreachable!("no command finds it"),
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
            Self::Progress { word, .. } => match *word {
                "running" => "progress: running",
                "done" => "progress: done",
                "error" => "progress: error",
                "retrying" => "progress: retrying",
                _ => "progress: queued",
            },
        }
    }
}

/// Replies in their order, with the requests that they answer.
pub(crate) type Replies = Vec<(Ticket, Answer)>;
