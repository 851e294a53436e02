//! Requests, owned: what the engine is asked, and what the oracle is.

use super::consumer_requests::ConsumerRequest;
use super::indexed_requests::IndexedRequest;
use super::manage_requests::ManageRequest;
use super::run_requests::RunRequest;
use super::worker_requests::WorkerRequest;
use crate::oracle::types::{Load, Queue};
use crate::oracle::{NewJob, Oracle};
use jobcentre::base::strings::StringList;
use jobcentre::model::command::{Command, Wait};
use jobcentre::model::id::{JobId, Ticket};
use jobcentre::model::job::{JobOptions, LeaseEpoch, Priority, TieBreak};

/// The names of all queues there are.
pub(super) const QUEUES: [&[u8]; 6] = [
    b"a",
    b"",
    b"\xff\x00",
    b"ab",
    b"a name that is longer than those of the other queues",
    b"default",
];

/// All priorities there are, the least urgent first.
pub(super) const PRIORITIES: [Priority<'static>; 13] = [
    Priority::Unselected,
    Priority::Big("-9223372036854775808"),
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
    Reserve {
        queues: Vec<Queue>,
        wait: Wait,
    },
    Pop {
        queues: Vec<Queue>,
        wait: Wait,
    },
    /// The waiter is named by its serial.
    Subscribe(u32, Queue),
    Unsubscribe(u32, Queue),
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
    Peek(JobId),
    Indexed(IndexedRequest),
    Work(WorkerRequest),
    Manage(ManageRequest),
    Run(RunRequest),
    Consumer(ConsumerRequest),
}

impl Request {
    /// Hands the command, in the model's form, to `submit`.
    pub(super) fn with_command(&self, oracle: &Oracle, submit: impl FnOnce(&Command<'_>)) {
        let mut names = StringList::default();
        if let Self::Reserve { queues, .. } | Self::Pop { queues, .. } = self {
            for &queue in queues {
                names.push(QUEUES[queue]);
            }
        }
        let queues = names.from(0);
        let command = match *self {
            Self::Put { queue, priority, tie_break, ref load, ref options } => Command::Put {
                queue: QUEUES[queue],
                priority,
                tie_break,
                payload: load.payload(),
                options: options.as_ref(),
            },
            Self::Reserve { wait, .. } => Command::Reserve { queues, wait },
            Self::Pop { wait, .. } => Command::Pop { queues, wait },
            Self::Subscribe(serial, queue) => Command::Subscribe { serial, queue: QUEUES[queue] },
            Self::Unsubscribe(serial, queue) => {
                Command::Unsubscribe { serial, queue: QUEUES[queue] }
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
            Self::Peek(id) => Command::Peek { id },
            Self::Indexed(ref request) => {
                return request.with_command(|command| submit(&Command::Indexed(*command)));
            }
            Self::Manage(ref request) => {
                return request.with_command(|command| submit(&Command::Manage(*command)));
            }
            Self::Work(ref request) => {
                return request.with_command(|command| submit(&Command::Work(*command)));
            }
            Self::Consumer(ref request) => return request.with_command(submit),
            Self::Run(ref request) => {
                return request.with_command(oracle, |command| submit(&Command::Manage(*command)));
            }
        };
        submit(&command);
    }

    /// Has the oracle perform it.
    pub(super) fn perform(&self, oracle: &mut Oracle, ticket: Ticket) {
        match *self {
            Self::Put { queue, priority, tie_break, ref load, options } => {
                let plain = NewJob::plain(queue, urgency(priority), load.clone());
                oracle.put(ticket, NewJob { tie_break, options, ..plain });
            }
            Self::Reserve { ref queues, wait } => oracle.reserve(ticket, queues, wait),
            Self::Pop { ref queues, wait } => oracle.pop(ticket, queues, wait),
            Self::Subscribe(serial, queue) => oracle.subscribe(ticket, serial, queue),
            Self::Unsubscribe(serial, queue) => oracle.unsubscribe(ticket, serial, queue),
            Self::Delete(id) => oracle.delete(ticket, id),
            Self::Release(id, lease) => oracle.release(ticket, id, lease),
            Self::Touch(id, lease) => oracle.touch(ticket, id, lease),
            Self::Finish(id, lease, ref result) => oracle.finish(ticket, id, lease, result.clone()),
            Self::Fail { id, lease, retry, ref error } => {
                oracle.fail(ticket, id, lease, (retry, error.clone()));
            }
            Self::Bury(id, lease) => oracle.bury(ticket, id, lease),
            Self::Kick(id) => oracle.kick(ticket, id),
            Self::KickQueue { queue, limit } => oracle.kick_queue(ticket, queue, limit),
            Self::Peek(id) => oracle.peek(ticket, id),
            Self::Indexed(ref request) => request.perform(oracle, ticket),
            Self::Work(ref request) => request.perform(oracle, ticket),
            Self::Manage(ref request) => request.perform(oracle, ticket),
            Self::Run(ref request) => request.perform(oracle, ticket),
            Self::Consumer(ref request) => request.perform(oracle, ticket),
        }
    }

    /// The job that the command is about.
    pub(super) fn id_mut(&mut self) -> Option<&mut JobId> {
        match self {
            Self::Indexed(request) => request.id_mut(),
            Self::Work(request) => request.id_mut(),
            Self::Manage(request) => request.id_mut(),
            Self::Run(request) => request.id_mut(),
            Self::Consumer(request) => request.id_mut(),
            Self::Delete(id)
            | Self::Release(id, _)
            | Self::Touch(id, _)
            | Self::Finish(id, ..)
            | Self::Fail { id, .. }
            | Self::Bury(id, _)
            | Self::Kick(id)
            | Self::Peek(id) => Some(id),
            _ => None,
        }
    }
}

/// A priority as the oracle knows it: as a number.
pub(super) fn urgency(priority: Priority<'_>) -> Option<i128> {
    match priority {
        Priority::Unselected => None,
        Priority::Small(number) => Some(number.into()),
        Priority::Big(digits) => Some(digits.parse().unwrap()),
    }
}

#[test]
fn priorities_are_listed_in_their_order() {
    assert!(PRIORITIES.is_sorted_by_key(|priority| urgency(*priority)));
}
