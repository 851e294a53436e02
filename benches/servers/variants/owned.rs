//! Owned commands and replies, which can be sent over a channel. The bytes of a batch are copied
//! one behind another, so that a batch costs two allocations and not two per command. The variants
//! have the Job Centre protocol alone, so commands of other protocols are left out.

use jobcentre::base::strings::StringList;
use jobcentre::model::command::{Command, Wait};
use jobcentre::model::id::JobId;
use jobcentre::model::job::{Encoding, JobOptions, LeaseEpoch, Payload, Priority, TieBreak};
use jobcentre::model::reply::{JobView, Rejection, Reply};

/// Why something cannot come up here.
const FOREIGN: &str = "no Job Centre client asks for this";

/// An priority whose digits, if it has any, are the next string.
#[derive(Clone, Copy, Debug)]
enum Rank {
    Number(i64),
    Beyond,
}

impl Rank {
    fn pack(priority: Priority<'_>, strings: &mut StringList) -> Self {
        match priority {
            Priority::Small(number) => Self::Number(number),
            Priority::Big(digits) => {
                strings.push(digits.as_bytes());
                Self::Beyond
            }
            Priority::Unselected => unreachable!("{FOREIGN}"),
        }
    }

    fn unpack<'a>(self, strings: &mut Reader<'a>) -> Priority<'a> {
        match self {
            Self::Number(number) => Priority::Small(number),
            Self::Beyond => {
                let digits = std::str::from_utf8(strings.next());
                Priority::Big(digits.expect("digits were packed"))
            }
        }
    }
}

/// Goes through the strings of a batch in the order in which they were packed.
struct Reader<'a> {
    list: &'a StringList,
    at: usize,
}

impl<'a> Reader<'a> {
    fn next(&mut self) -> &'a [u8] {
        self.at += 1;
        self.list.range(self.at - 1..self.at).into_iter().next().expect("a string was packed")
    }
}

#[derive(Clone, Copy, Debug)]
enum OwnedCommand {
    Put { rank: Rank, tie_break: TieBreak, encoding: Encoding, options: usize },
    Take { queues: usize, wait: Wait },
    Delete { id: JobId },
    Release { id: JobId, lease: Option<LeaseEpoch> },
    Touch { id: JobId, lease: Option<LeaseEpoch> },
}

/// Stands for no options.
const NO_TERMS: usize = usize::MAX;

/// Commands of one client, with their serials.
#[derive(Debug, Default)]
pub(super) struct Commands {
    list: Vec<(u32, OwnedCommand)>,
    strings: StringList,
    options: Vec<JobOptions>,
}

impl Commands {
    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    pub(super) fn push(&mut self, serial: u32, command: &Command<'_>) {
        let strings = &mut self.strings;
        let owned = match *command {
            Command::Put { queue, priority, tie_break, payload, options } => {
                strings.push(queue);
                strings.push(payload.bytes);
                let rank = Rank::pack(priority, strings);
                let place = if options.is_some() { self.options.len() } else { NO_TERMS };
                self.options.extend(options);
                OwnedCommand::Put { rank, tie_break, encoding: payload.encoding, options: place }
            }
            Command::Reserve { queues, wait } => {
                queues.into_iter().for_each(|queue| strings.push(queue));
                OwnedCommand::Take { queues: queues.len(), wait }
            }
            Command::Delete { id } => OwnedCommand::Delete { id },
            Command::Release { id, lease } => OwnedCommand::Release { id, lease },
            Command::Touch { id, lease } => OwnedCommand::Touch { id, lease },
            _ => unreachable!("{FOREIGN}"),
        };
        self.list.push((serial, owned));
    }

    /// Shows every command to `submit`, in their order.
    pub(super) fn each(&self, mut submit: impl FnMut(u32, &Command<'_>)) {
        let mut strings = Reader { list: &self.strings, at: 0 };
        for &(serial, command) in &self.list {
            let command = match command {
                OwnedCommand::Put { rank, tie_break, encoding, options } => {
                    let (queue, bytes) = (strings.next(), strings.next());
                    let priority = rank.unpack(&mut strings);
                    let payload = Payload { encoding, bytes };
                    Command::Put {
                        queue,
                        priority,
                        tie_break,
                        payload,
                        options: self.options.get(options),
                    }
                }
                OwnedCommand::Take { queues, wait } => {
                    let first = strings.at;
                    strings.at += queues;
                    Command::Reserve { queues: self.strings.range(first..strings.at), wait }
                }
                OwnedCommand::Delete { id } => Command::Delete { id },
                OwnedCommand::Release { id, lease } => Command::Release { id, lease },
                OwnedCommand::Touch { id, lease } => Command::Touch { id, lease },
            };
            submit(serial, &command);
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum OwnedReply {
    Cancelled,
    Done,
    Job { id: JobId, rank: Rank, encoding: Encoding, lease: LeaseEpoch },
    NoJob,
    Put(JobId),
    Refused(Rejection),
}

/// Replies to one client, with the serials of their requests.
#[derive(Debug, Default)]
pub(super) struct Replies {
    list: Vec<(u32, OwnedReply)>,
    strings: StringList,
}

impl Replies {
    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    pub(super) fn push(&mut self, serial: u32, reply: &Reply<'_>) {
        let owned = match *reply {
            Reply::Cancelled => OwnedReply::Cancelled,
            Reply::Done => OwnedReply::Done,
            Reply::Job(JobView { id, queue, priority, payload, lease, named: _ }) => {
                self.strings.push(queue);
                self.strings.push(payload.bytes);
                let rank = Rank::pack(priority, &mut self.strings);
                OwnedReply::Job { id, rank, encoding: payload.encoding, lease }
            }
            Reply::NoJob => OwnedReply::NoJob,
            Reply::Put(id) => OwnedReply::Put(id),
            Reply::Rejected(refusal) => OwnedReply::Refused(refusal),
            _ => unreachable!("{FOREIGN}"),
        };
        self.list.push((serial, owned));
    }

    /// Shows every reply to `take`, in their order.
    pub(super) fn each(&self, mut take: impl FnMut(u32, &Reply<'_>)) {
        let mut strings = Reader { list: &self.strings, at: 0 };
        for &(serial, reply) in &self.list {
            let reply = match reply {
                OwnedReply::Cancelled => Reply::Cancelled,
                OwnedReply::Done => Reply::Done,
                OwnedReply::Job { id, rank, encoding, lease } => {
                    let (queue, bytes) = (strings.next(), strings.next());
                    let priority = rank.unpack(&mut strings);
                    let payload = Payload { encoding, bytes };
                    Reply::Job(JobView { id, queue, priority, payload, lease, named: false })
                }
                OwnedReply::NoJob => Reply::NoJob,
                OwnedReply::Put(id) => Reply::Put(id),
                OwnedReply::Refused(refusal) => Reply::Rejected(refusal),
            };
            take(serial, &reply);
        }
    }
}
