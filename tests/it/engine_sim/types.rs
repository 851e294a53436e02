//! Owned commands and replies: the model's own ones borrow.

use super::indexed_queues::IndexedAsk;
use super::worker_model::WorkerAsk;
use jobcentre::base::strings::StringList;
use jobcentre::base::time::Mono;
use jobcentre::model::command::{Command, Wait};
use jobcentre::model::id::{JobId, Ticket};
use jobcentre::model::indexed_queue::{IndexedPage, IndexedReply};
use jobcentre::model::job::{
    Encoding, JobOptions, LeaseEpoch, Payload, Priority, Status, TieBreak,
};
use jobcentre::model::reply::{JobView, Rejection, Reply};
use jobcentre::model::row::Row;
use jobcentre::model::worker::{ConstraintReply, TrackedReply, WorkerReply};
use std::fmt;
use std::rc::Rc;

/// A queue, by its number in [`QUEUES`].
pub(super) type Queue = usize;

/// The names of all queues there are.
pub(super) const QUEUES: [&[u8]; 6] = [
    b"a",
    b"",
    b"\xff\x00",
    b"ab",
    b"a name that is longer than those of the other queues",
    b"default",
];

/// All priorities there are.
pub(super) const URGENCIES: [Priority<'static>; 12] = [
    Priority::Unselected,
    Priority::Small(i64::MIN + 1),
    Priority::Small(-1),
    Priority::Small(0),
    Priority::Small(1),
    Priority::Small(i64::MAX - 1),
    Priority::Big("9223372036854775807"),
    Priority::Big("9223372036854775808"),
    Priority::Big("18446744073709551616"),
    Priority::Big("99999999999999999999"),
    Priority::Big("100000000000000000000000000000"),
    Priority::Big("100000000000000000000000000001"),
];

/// Bytes, cheap to clone and short to print.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Text(Rc<[u8]>);

impl Text {
    pub(super) fn new(bytes: &[u8]) -> Self {
        Self(bytes.into())
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }

    pub(super) fn len(&self) -> usize {
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
pub(super) struct Load {
    pub(super) encoding: Encoding,
    pub(super) text: Text,
}

impl Load {
    fn of(payload: Payload<'_>) -> Self {
        Self { encoding: payload.encoding, text: Text::new(payload.bytes) }
    }

    pub(super) fn payload(&self) -> Payload<'_> {
        Payload { encoding: self.encoding, bytes: &self.text.0 }
    }

    /// The key of a packet.
    pub(super) fn key(&self) -> Option<&[u8]> {
        match self.encoding {
            Encoding::Packet { key_len } => Some(&self.text.0[..usize::from(key_len)]),
            Encoding::Json | Encoding::JsonLine | Encoding::MsgPack => None,
        }
    }

    /// Whether no pop can take it.
    pub(super) fn is_too_large(&self) -> bool {
        self.key().is_none() && self.text.len() > 65_535
    }

    /// Whether a dozen of its kind is about all that is matched anew in one pass.
    pub(super) fn is_large(&self) -> bool {
        self.text.len() > 60_000
    }
}

/// A command.
#[derive(Clone, Debug)]
pub(super) enum Request {
    Put {
        queue: Queue,
        priority: Priority<'static>,
        tie_break: TieBreak,
        load: Load,
        options: Option<JobOptions>,
    },
    Take {
        queues: Vec<Queue>,
        wait: Wait,
    },
    Pop {
        queues: Vec<Queue>,
        wait: Wait,
    },
    Join {
        take: u32,
        queue: Queue,
    },
    Leave {
        take: u32,
        queue: Queue,
    },
    Delete(JobId),
    Release(JobId, Option<LeaseEpoch>),
    Touch(JobId, Option<LeaseEpoch>),
    Finish(JobId, Option<LeaseEpoch>, Load),
    Fail {
        id: JobId,
        lease: Option<LeaseEpoch>,
        retry: bool,
        error: Load,
    },
    Bury(JobId, Option<LeaseEpoch>),
    Kick(JobId),
    KickQueue {
        queue: Queue,
        limit: u32,
    },
    Look(JobId),
    Watch(IndexedAsk),
    Work(WorkerAsk),
}

impl Request {
    /// Hands the command, in the model's form, to `submit`.
    pub(super) fn with_command(&self, submit: impl FnOnce(&Command<'_>)) {
        let mut names = StringList::default();
        if let Self::Take { queues, .. } | Self::Pop { queues, .. } = self {
            for &queue in queues {
                names.push(QUEUES[queue]);
            }
        }
        let queues = names.from(0);
        if let Self::Watch(question) = self {
            return question.with_watch(|watch| submit(&Command::Indexed(*watch)));
        }
        if let Self::Work(labour) = self {
            return labour.with_work(|work| submit(&Command::Work(*work)));
        }
        let command = match *self {
            Self::Put { queue, priority, tie_break, ref load, ref options } => Command::Put {
                queue: QUEUES[queue],
                priority,
                tie_break,
                payload: load.payload(),
                options: options.as_ref(),
            },
            Self::Take { wait, .. } => Command::Reserve { queues, wait },
            Self::Pop { wait, .. } => Command::Pop { queues, wait },
            Self::Join { take, queue } => Command::Subscribe { serial: take, queue: QUEUES[queue] },
            Self::Leave { take, queue } => {
                Command::Unsubscribe { serial: take, queue: QUEUES[queue] }
            }
            Self::Delete(id) => Command::Delete { id },
            Self::Release(id, lease) => Command::Release { id, lease },
            Self::Touch(id, lease) => Command::Touch { id, lease },
            Self::Finish(id, lease, ref result) => {
                Command::Finish { id, lease, result: result.payload() }
            }
            Self::Fail { id, lease, retry, ref error } => {
                Command::Fail { id, lease, retry, error: error.payload() }
            }
            Self::Bury(id, lease) => Command::Bury { id, lease },
            Self::Kick(id) => Command::Kick { id },
            Self::KickQueue { queue, limit } => Command::KickQueue { queue: QUEUES[queue], limit },
            Self::Look(id) => Command::Peek { id },
            Self::Watch(_) | Self::Work(_) => unreachable!("submitted already"),
        };
        submit(&command);
    }

    /// The job that the command is about.
    pub(super) fn id_mut(&mut self) -> Option<&mut JobId> {
        match self {
            Self::Put { .. }
            | Self::Take { .. }
            | Self::Pop { .. }
            | Self::Join { .. }
            | Self::Leave { .. }
            | Self::KickQueue { .. } => None,
            Self::Watch(question) => question.id_mut(),
            Self::Work(labour) => labour.id_mut(),
            Self::Delete(id)
            | Self::Release(id, _)
            | Self::Touch(id, _)
            | Self::Finish(id, ..)
            | Self::Fail { id, .. }
            | Self::Bury(id, _)
            | Self::Kick(id)
            | Self::Look(id) => Some(id),
        }
    }

    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Put { .. } => "command: put",
            Self::Take { .. } => "command: take",
            Self::Pop { .. } => "command: pop",
            Self::Join { .. } => "command: join",
            Self::Leave { .. } => "command: leave",
            Self::Delete(..) => "command: delete",
            Self::Release(..) => "command: release",
            Self::Touch(..) => "command: touch",
            Self::Finish(..) => "command: finish",
            Self::Fail { .. } => "command: fail",
            Self::Bury(..) => "command: bury",
            Self::Kick(..) => "command: kick",
            Self::KickQueue { .. } => "command: kick queue",
            Self::Look(..) => "command: look",
            Self::Watch(question) => question.name(),
            Self::Work(labour) => labour.name(),
        }
    }
}

/// # Panics
/// If there is no such queue.
fn number_of(name: &[u8]) -> Queue {
    QUEUES.iter().position(|known| *known == name).unwrap()
}

/// A job as clients see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct View {
    pub(super) id: u64,
    pub(super) queue: Queue,
    pub(super) priority: Priority<'static>,
    pub(super) load: Load,
    pub(super) lease: u32,
}

impl View {
    /// # Panics
    /// If the queue or the priority is none that was ever put.
    fn of(view: &JobView<'_>) -> Self {
        Self {
            id: view.id.0,
            queue: number_of(view.queue),
            priority: *URGENCIES.iter().find(|known| **known == view.priority).unwrap(),
            load: Load::of(view.payload),
            lease: view.lease.0,
        }
    }
}

/// A reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answer {
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
    pub(super) fn of(reply: &Reply<'_>) -> Self {
        match *reply {
            Reply::Cancelled => Self::Cancelled,
            Reply::Done | Reply::Attached(_) => Self::Done,
            Reply::Job(ref view) => Self::Job(View::of(view)),
            Reply::Kicked(count) => Self::Kicked(count),
            Reply::NoJob => Self::NoJob,
            Reply::Packets(packets) => {
                let own = packets.iter().map(|packet| (packet.key_len, Text::new(&packet.bytes)));
                Self::Packets(own.collect())
            }
            Reply::Put(id) => Self::Put(id.0),
            Reply::Rejected(refusal) => Self::Refused(refusal),
            Reply::Peeked(ref sight) => Self::Seen {
                view: View::of(&sight.job),
                // When an engine puts a job away that may not run is its own affair.
                status: match sight.status {
                    Status::Blocked => Status::Ready,
                    status => status,
                },
                due: sight.due,
                retries: sight.retries,
                result: sight.result.map(Load::of),
            },
            Reply::TooLarge(id) => Self::TooLarge(id.0),
            Reply::Registered(id) => Self::Worker(id.0),
            Reply::Worker(reply) => Self::of_worker(reply),
            Reply::Tracked(reply) => Self::of_tracked(reply),
            Reply::Constraint(reply) => Self::of_constraint(reply),
            Reply::Indexed(reply) => Self::of_indexed(reply),
            Reply::IndexedPage(page) => Self::of_page(page),
            Reply::JobStatus(ref progress) => Self::Progress {
                view: View::of(&progress.info.job),
                word: progress.status(),
                due: progress.info.due,
                retries: progress.info.retries,
                result: progress.info.result.map(Load::of),
                worker: progress.worker.map(|worker| worker.0),
                message: progress.message.map(|text| Text::new(text.as_bytes())),
            },
            ref other => panic!("nothing is answered by {other:?}"),
        }
    }

    fn of_worker(reply: WorkerReply) -> Self {
        match reply {
            WorkerReply::Done => Self::Done,
            WorkerReply::NoWorker => Self::NoWorker,
            WorkerReply::Full => Self::Refused(Rejection::Full),
            WorkerReply::DiskFull => Self::Refused(Rejection::DiskFull),
        }
    }

    fn of_tracked(reply: TrackedReply) -> Self {
        match reply {
            TrackedReply::Removed => Self::Done,
            TrackedReply::Deleted => Self::Gone,
            TrackedReply::NoJob => Self::NoJob,
            TrackedReply::NotYet => Self::NotYet,
            TrackedReply::Cancelled => Self::Cancelled,
            TrackedReply::TooLate => Self::TooLate,
        }
    }

    fn of_constraint(reply: ConstraintReply) -> Self {
        match reply {
            ConstraintReply::Set { new } => Self::Constrained(new),
            ConstraintReply::Removed => Self::Done,
            ConstraintReply::NoConstraint => Self::NoConstraint,
            ConstraintReply::Full => Self::Refused(Rejection::Full),
            ConstraintReply::DiskFull => Self::Refused(Rejection::DiskFull),
        }
    }

    fn of_indexed(reply: &IndexedReply) -> Self {
        match reply {
            IndexedReply::Conflict(state) => Self::Conflict(Text::new(state)),
            IndexedReply::Done => Self::Done,
            IndexedReply::Full => Self::Refused(Rejection::Full),
            IndexedReply::DiskFull => Self::Refused(Rejection::DiskFull),
            IndexedReply::MemoryFull => Self::Refused(Rejection::MemoryFull),
            IndexedReply::LogFull => Self::LogFull,
            IndexedReply::NoJob => Self::NoJob,
            IndexedReply::NoQueue => Self::NoQueue,
            IndexedReply::QueryRows(rows) => {
                Self::Found(rows.iter().map(|row| (**row).clone()).collect())
            }
            IndexedReply::Queue(name) => Self::Queue(number_of(name)),
            IndexedReply::QueueExists => Self::QueueExists,
            IndexedReply::Row(row) => Self::Row(Box::new((**row).clone())),
            IndexedReply::Rows(rows) => {
                Self::Rows(rows.values().map(|row| (**row).clone()).collect())
            }
            IndexedReply::BadQuery(why) => panic!("{why}"),
        }
    }

    fn of_page(page: &IndexedPage) -> Self {
        match page {
            IndexedPage::NotYet => Self::NotYet,
            IndexedPage::QueueDropped { jobs, more: false } => Self::Dropped(*jobs),
            IndexedPage::Queues { queues, next: None } => {
                let sizes = queues.iter().map(|queue| (number_of(&queue.name), queue.jobs));
                let mut sizes: Vec<_> = sizes.collect();
                sizes.sort_unstable();
                Self::Queues(sizes)
            }
            page => panic!("so few jobs are answered by {page:?}"),
        }
    }

    pub(super) fn name(&self) -> &'static str {
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
            Self::Seen { status: Status::GroupOnly, .. } => "reply: seen aside",
            Self::Seen { status: Status::Delayed, .. } => "reply: seen delayed",
            Self::Seen { status: Status::Reserved, .. } => "reply: seen held",
            Self::Seen { status: Status::Completed, .. } => "reply: seen kept",
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
pub(super) type Replies = Vec<(Ticket, Answer)>;
