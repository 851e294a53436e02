//! The table: which right each command needs, whatever the protocol that submits it.
//!
//! It is a match without a catch-all, so a new command does not compile before it has its row. A
//! session answers nothing about jobs by itself, so what is not a command needs no row but those of
//! the actions that the server carries out for a session (`src/server/permission_check.rs`).

use crate::base::strings::Strings;
use crate::model::action::{ActionSpec, ActionVerb};
use crate::model::command::Command;
use crate::model::consumer::ConsumerCommand;
use crate::model::id::JobId;
use crate::model::indexed_queue::IndexedCommand;
use crate::model::manage::{ManageCommand, RunReport};
use crate::model::schedule::ScheduleCommand;
use crate::model::transfer::ImportedJob;
use crate::model::worker::WorkerCommand;

/// A class of permissions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Right {
    /// Adding jobs.
    Put,
    /// Reserving jobs, and whatever is done with a job that is held.
    Take,
    /// Seeing payloads, results and lists of jobs.
    Peek,
    /// Changing jobs of others, queues, constraints, schedules.
    Manage,
    /// Counters, lists of queues and workers, metrics.
    Observe,
    /// Draining, reloading, connections, registered workers, backups.
    Admin,
}

impl Right {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Put, Self::Take, Self::Peek, Self::Manage, Self::Observe, Self::Admin];

    /// Its word in the settings.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Put => "put",
            Self::Take => "take",
            Self::Peek => "peek",
            Self::Manage => "manage",
            Self::Observe => "observe",
            Self::Admin => "admin",
        }
    }

    /// Whether it is given with a pattern of queue names.
    #[must_use]
    pub fn is_on_queues(self) -> bool {
        !matches!(self, Self::Observe | Self::Admin)
    }
}

/// What a command needs.
#[derive(Clone, Copy, Debug)]
pub enum Need<'a> {
    /// To be a user. The command changes nothing but what the client itself waits for or keeps.
    User,
    /// A right on this queue.
    On(Right, &'a [u8]),
    /// On each of these.
    OnEach(Right, Strings<'a>),
    /// On the queue of this job. If there is no such job: on any queue.
    OfJob(Right, JobId),
    /// To take from the queue of this job if the client holds it, or else to manage that queue.
    Held(JobId),
    /// Nothing if the client holds this job, or else a right on its queue.
    HeldOr(Right, JobId),
    /// To manage the queue of this job, and to put into another one.
    JobMoves(JobId, &'a [u8]),
    /// To manage the first queue, and to put into the second one.
    Moves(&'a [u8], &'a [u8]),
    /// To put into the queue of each job.
    PutEach(&'a [ImportedJob]),
    /// A right on all queues.
    Everywhere(Right),
    /// A right that is not on queues.
    Global(Right),
    /// To observe, or to be on the same machine.
    Metrics,
}

/// What a command needs. O(1).
#[must_use]
#[inline]
pub fn needs<'a>(command: &Command<'a>) -> Need<'a> {
    match *command {
        Command::Put { queue, .. } => Need::On(Right::Put, queue),
        Command::Reserve { queues, .. } | Command::Pop { queues, .. } => {
            Need::OnEach(Right::Take, queues)
        }
        Command::Subscribe { queue, .. } => Need::On(Right::Take, queue),
        Command::Unsubscribe { .. } => Need::User,
        Command::Delete { id } | Command::DeleteOwn { id } => Need::Held(id),
        // Only of what the client holds: for others there is a rejection.
        Command::Release { id, .. }
        | Command::Touch { id, .. }
        | Command::Finish { id, .. }
        | Command::Fail { id, .. }
        | Command::Bury { id, .. } => Need::OfJob(Right::Take, id),
        Command::Kick { id } => Need::OfJob(Right::Manage, id),
        Command::KickQueue { queue, .. } => Need::On(Right::Manage, queue),
        Command::Peek { id } => Need::OfJob(Right::Peek, id),
        Command::Indexed(ref command) => of_indexed(command),
        Command::Consumer(ref command) => of_consumer(command),
        Command::Manage(ref command) => of_manage(command),
        Command::Work(ref command) => of_worker(command),
    }
}

/// What a client needs to see the contents of a job of others, if the answer to this command may
/// show one: without it the answer shows the rest. O(1).
#[must_use]
pub fn needs_for_contents<'a>(command: &Command<'a>) -> Option<Need<'a>> {
    let Command::Manage(command) = command else { return None };
    match *command {
        // The job that has its key.
        ManageCommand::Put { queue, job } if job.key.is_some() => {
            Some(Need::On(Right::Peek, queue))
        }
        ManageCommand::Bury { id }
        | ManageCommand::Kick { id }
        | ManageCommand::Remove { id }
        | ManageCommand::Cancel { id }
        | ManageCommand::Change { id, .. } => Some(Need::OfJob(Right::Peek, id)),
        ManageCommand::Report { id, token: None, report: RunReport::Release { .. } } => {
            Some(Need::HeldOr(Right::Peek, id))
        }
        ManageCommand::Schedule(ScheduleCommand::Run { .. }) => Some(Need::Everywhere(Right::Peek)),
        _ => None,
    }
}

fn of_indexed<'a>(command: &IndexedCommand<'a>) -> Need<'a> {
    match *command {
        IndexedCommand::Stats(_) => Need::Metrics,
        IndexedCommand::Queues { .. } => Need::Global(Right::Observe),
        // A name of the server's choice may match no pattern.
        IndexedCommand::CreateQueue { queue: None } => Need::Everywhere(Right::Put),
        IndexedCommand::DropQueue { queue } | IndexedCommand::Delete { queue, .. } => {
            Need::On(Right::Manage, queue)
        }
        IndexedCommand::List { queue }
        | IndexedCommand::Find { queue, .. }
        | IndexedCommand::Show { queue, .. } => Need::On(Right::Peek, queue),
        IndexedCommand::Poll { queue, .. }
        | IndexedCommand::CompareAndSetState { queue, .. }
        | IndexedCommand::AppendEvent { queue, .. } => Need::On(Right::Take, queue),
        IndexedCommand::CreateQueue { queue: Some(queue) } | IndexedCommand::Put { queue, .. } => {
            Need::On(Right::Put, queue)
        }
    }
}

fn of_consumer<'a>(command: &ConsumerCommand<'a>) -> Need<'a> {
    match *command {
        ConsumerCommand::ReserveJob { id }
        | ConsumerCommand::Release { id, .. }
        | ConsumerCommand::Bury { id, .. } => Need::OfJob(Right::Take, id),
        ConsumerCommand::KickJob { id } => Need::OfJob(Right::Manage, id),
        ConsumerCommand::KickFirst { queue, .. } | ConsumerCommand::Pause { queue, .. } => {
            Need::On(Right::Manage, queue)
        }
        ConsumerCommand::PeekFirst { queue, .. } => Need::On(Right::Peek, queue),
        ConsumerCommand::JobStats { .. }
        | ConsumerCommand::QueueStats { .. }
        | ConsumerCommand::QueueNames { .. }
        | ConsumerCommand::Totals => Need::Global(Right::Observe),
        // What is used or watched is checked when jobs are put, reserved or kicked.
        ConsumerCommand::Use { .. }
        | ConsumerCommand::Watch { .. }
        | ConsumerCommand::Leave { .. } => Need::User,
    }
}

fn of_manage<'a>(command: &ManageCommand<'a>) -> Need<'a> {
    match *command {
        ManageCommand::Show { id } | ManageCommand::AwaitEnd { id, .. } => {
            Need::OfJob(Right::Peek, id)
        }
        ManageCommand::Jobs { queue, .. } | ManageCommand::Search { queue, .. } => {
            Need::On(Right::Peek, queue)
        }
        ManageCommand::Export { queue: Some(queue), .. } => Need::On(Right::Peek, queue),
        ManageCommand::Export { queue: None, .. } => Need::Everywhere(Right::Peek),
        ManageCommand::Queue { .. }
        | ManageCommand::Queues { .. }
        | ManageCommand::Ranked { .. }
        | ManageCommand::Workers { .. }
        | ManageCommand::Constraints { .. }
        | ManageCommand::History { .. }
        | ManageCommand::ShowAction { .. }
        | ManageCommand::ListActions { .. } => Need::Global(Right::Observe),
        ManageCommand::Pause { queue, .. }
        | ManageCommand::Resume { queue }
        | ManageCommand::DropQueue { queue, .. }
        | ManageCommand::SetIndex { queue, .. } => Need::On(Right::Manage, queue),
        ManageCommand::Bury { id }
        | ManageCommand::Kick { id }
        | ManageCommand::Remove { id }
        | ManageCommand::Cancel { id } => Need::OfJob(Right::Manage, id),
        ManageCommand::Change { id, change } => match &change.queue {
            Some(to) => Need::JobMoves(id, to),
            None => Need::OfJob(Right::Manage, id),
        },
        ManageCommand::Act(spec) => of_action(spec),
        // Its queue is not known here.
        ManageCommand::CancelAction { .. } => Need::Everywhere(Right::Manage),
        ManageCommand::Put { queue, .. } | ManageCommand::PutMany { queue, .. } => {
            Need::On(Right::Put, queue)
        }
        ManageCommand::ReserveMore { queues, .. } => Need::OnEach(Right::Take, queues),
        ManageCommand::Report { id, token: None, report: RunReport::Release { .. } } => {
            Need::Held(id)
        }
        ManageCommand::Report { id, .. } => Need::OfJob(Right::Take, id),
        ManageCommand::Import(jobs) => Need::PutEach(jobs),
        ManageCommand::EndImport => Need::User,
        ManageCommand::Backup(_) => Need::Global(Right::Admin),
        ManageCommand::Schedule(ref command) => of_schedule(command),
    }
}

fn of_action(spec: &ActionSpec) -> Need<'_> {
    match &spec.verb {
        ActionVerb::Delete | ActionVerb::Kick | ActionVerb::Bury => {
            Need::On(Right::Manage, &spec.queue)
        }
        ActionVerb::Move { to } => Need::Moves(&spec.queue, to),
        ActionVerb::Change(change) => match &change.queue {
            Some(to) => Need::Moves(&spec.queue, to),
            None => Need::On(Right::Manage, &spec.queue),
        },
    }
}

/// Schedules are the server's: one that is set takes the place of another one of any queue.
fn of_schedule(command: &ScheduleCommand<'_>) -> Need<'static> {
    match command {
        ScheduleCommand::List { .. } | ScheduleCommand::Show { .. } => {
            Need::Everywhere(Right::Peek)
        }
        ScheduleCommand::Set { .. }
        | ScheduleCommand::Remove { .. }
        | ScheduleCommand::Run { .. } => Need::Everywhere(Right::Manage),
    }
}

fn of_worker<'a>(command: &WorkerCommand<'a>) -> Need<'a> {
    match *command {
        // The server calls the URL of a worker and hands it jobs of any queue.
        WorkerCommand::Register(_)
        | WorkerCommand::Deregister { .. }
        // Of dispatchers and of the processor, which are the server itself.
        | WorkerCommand::AwaitWorkers { .. }
        | WorkerCommand::Attach { .. }
        | WorkerCommand::AwaitDetach
        | WorkerCommand::AttachWithLease { .. }
        | WorkerCommand::Detach
        | WorkerCommand::ReserveAny
        | WorkerCommand::ReserveFor { .. } => Need::Global(Right::Admin),
        WorkerCommand::PutByName { job, .. } => Need::On(Right::Put, job.queue),
        WorkerCommand::ReportProgress { job, .. } | WorkerCommand::CompleteByName { job } => {
            Need::On(Right::Take, job.queue)
        }
        WorkerCommand::DeleteByName { job } => Need::On(Right::Manage, job.queue),
        WorkerCommand::ScanQueue { queue, .. } => Need::On(Right::Peek, queue),
        WorkerCommand::AwaitRelease { id, .. }
        | WorkerCommand::ReturnUnstarted { id, .. }
        | WorkerCommand::Report { id, .. } => Need::OfJob(Right::Take, id),
        WorkerCommand::GetStatus { id } | WorkerCommand::AwaitResult { id, .. } => {
            Need::OfJob(Right::Peek, id)
        }
        WorkerCommand::Cancel { id } => Need::OfJob(Right::Manage, id),
        // They hold back jobs of all queues.
        WorkerCommand::SetConstraint(_) | WorkerCommand::RemoveConstraint { .. } => {
            Need::Everywhere(Right::Manage)
        }
        WorkerCommand::GetConstraint { .. } => Need::Global(Right::Observe),
    }
}
