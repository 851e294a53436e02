//! Requests of clients that reserve jobs by their connections, and that use and watch queues.

use super::generator::{an_id, one_in};
use super::requests::{PRIORITIES, QUEUES, urgency};
use crate::oracle::Oracle;
use crate::oracle::types::Queue;
use crate::rng::TestRng;
use jobcentre::base::strings::StringList;
use jobcentre::model::command::{Command, Wait};
use jobcentre::model::consumer::{ConsumerCommand, PeekedState};
use jobcentre::model::id::{ClientId, JobId, Ticket};
use jobcentre::model::job::{Priority, Status};

/// What is asked.
#[derive(Clone, Debug)]
pub(super) enum ConsumerRequest {
    /// It waits this long, in milliseconds.
    Reserve(Vec<Queue>, u64),
    ReserveJob(JobId),
    Delete(JobId),
    Release(JobId, Priority<'static>, u64),
    Bury(JobId, Priority<'static>),
    KickJob(JobId),
    KickFirst(Queue, PeekedState, u32),
    PeekFirst(Queue, PeekedState),
    JobStats(JobId),
    /// Whether the queue counts as one that exists, and for how long in milliseconds.
    Pause(Queue, bool, u64),
    Use(Option<Queue>, Option<Queue>),
    Watch(Queue),
    Leave(Option<Queue>, Vec<Queue>),
}

fn name(queue: Option<Queue>) -> &'static [u8] {
    queue.map_or(b"", |queue| QUEUES[queue])
}

impl ConsumerRequest {
    /// Hands it, in the model's form, to `submit`.
    pub(super) fn with_command(&self, submit: impl FnOnce(&Command<'_>)) {
        let mut names = StringList::default();
        if let Self::Reserve(queues, _) | Self::Leave(_, queues) = self {
            for &queue in queues {
                names.push(QUEUES[queue]);
            }
        }
        let queues = names.from(0);
        let command = match *self {
            Self::Reserve(_, wait_ms) => {
                let wait = Wait::UntilLeaseEnds(wait_ms);
                return submit(&Command::Reserve { queues, wait });
            }
            Self::Delete(id) => return submit(&Command::DeleteOwn { id }),
            Self::ReserveJob(id) => ConsumerCommand::ReserveJob { id },
            Self::Release(id, priority, delay_ms) => {
                ConsumerCommand::Release { id, priority, delay_ms }
            }
            Self::Bury(id, priority) => ConsumerCommand::Bury { id, priority },
            Self::KickJob(id) => ConsumerCommand::KickJob { id },
            Self::KickFirst(queue, among, limit) => {
                ConsumerCommand::KickFirst { queue: QUEUES[queue], among, limit }
            }
            Self::PeekFirst(queue, among) => {
                ConsumerCommand::PeekFirst { queue: QUEUES[queue], among }
            }
            Self::JobStats(id) => ConsumerCommand::JobStats { id },
            Self::Pause(queue, exists, for_ms) => {
                ConsumerCommand::Pause { queue: QUEUES[queue], exists, for_ms }
            }
            Self::Use(queue, former) => {
                ConsumerCommand::Use { queue: name(queue), former: name(former) }
            }
            Self::Watch(queue) => ConsumerCommand::Watch { queue: QUEUES[queue] },
            Self::Leave(used, _) => ConsumerCommand::Leave { used: name(used), watched: queues },
        };
        submit(&Command::Consumer(command));
    }

    /// Has the oracle perform it.
    pub(super) fn perform(&self, oracle: &mut Oracle, ticket: Ticket) {
        let number = |priority| urgency(priority).expect("it is a number");
        match *self {
            Self::Reserve(ref queues, wait_ms) => {
                oracle.reserve(ticket, queues, Wait::UntilLeaseEnds(wait_ms));
            }
            Self::Delete(id) => oracle.delete_own(ticket, id),
            Self::ReserveJob(id) => oracle.reserve_job(ticket, id),
            Self::Release(id, priority, delay_ms) => {
                oracle.release_with(ticket, (id, number(priority), delay_ms));
            }
            Self::Bury(id, priority) => oracle.bury_with(ticket, (id, number(priority))),
            Self::KickJob(id) => oracle.kick_one(ticket, id),
            Self::KickFirst(queue, among, limit) => {
                oracle.kick_first(ticket, (queue, among), limit);
            }
            Self::PeekFirst(queue, among) => oracle.peek_first(ticket, queue, among),
            Self::JobStats(id) => oracle.count_job(ticket, id),
            Self::Pause(queue, exists, for_ms) => {
                oracle.pause_used(ticket, (queue, exists), for_ms);
            }
            Self::Use(queue, former) => oracle.use_queue(ticket, queue, former),
            Self::Watch(queue) => oracle.watch_queue(ticket, queue),
            Self::Leave(used, ref watched) => oracle.leave_queues(ticket, used, watched),
        }
    }

    pub(super) fn id_mut(&mut self) -> Option<&mut JobId> {
        match self {
            Self::ReserveJob(id)
            | Self::Delete(id)
            | Self::Release(id, ..)
            | Self::Bury(id, _)
            | Self::KickJob(id)
            | Self::JobStats(id) => Some(id),
            _ => None,
        }
    }

    /// Whether the answer would tell which ready jobs are blocked, or which of several queues a
    /// job is in that no client uses: that is the engine's own affair.
    pub(super) fn shows_blocked(&self, oracle: &Oracle) -> bool {
        let shows = match *self {
            Self::ReserveJob(id) | Self::JobStats(id) => {
                oracle.find(id.0).is_some_and(|job| job.status == Status::Ready)
            }
            Self::PeekFirst(_, among) => among == PeekedState::Ready,
            _ => false,
        };
        shows && !oracle.constraints.is_empty()
            || match *self {
                // A step that was left out may have been the one that counted it.
                Self::Use(_, Some(former)) => oracle.interest[former].using == 0,
                Self::Leave(used, ref watched) => {
                    used.is_some_and(|used| oracle.interest[used].using == 0)
                        || watched.iter().any(|&queue| oracle.interest[queue].watching == 0)
                }
                _ => false,
            }
    }
}

/// Some request. `durations` are those that waits, delays and pauses may have.
pub(super) fn random_request(
    rng: &mut TestRng,
    client: ClientId,
    (queue, queues): (Queue, Vec<Queue>),
    oracle: &Oracle,
    durations: &[u64],
) -> ConsumerRequest {
    let held = one_in(rng, client, oracle, Status::Reserved);
    let numbers = &PRIORITIES[1..];
    let mut a_number = || *rng.pick(numbers);
    let priority = a_number();
    let duration = if rng.percent(50) { 0 } else { *rng.pick(durations) };
    let among = *rng.pick(&[PeekedState::Ready, PeekedState::Delayed, PeekedState::Buried]);
    let users = |count: fn(&Oracle, Queue) -> u32| -> Vec<Queue> {
        (0..QUEUES.len()).filter(|&queue| count(oracle, queue) > 0).collect()
    };
    let used = users(|oracle, queue| oracle.interest[queue].using);
    let watched = users(|oracle, queue| oracle.interest[queue].watching);
    let some = |rng: &mut TestRng, queues: &[Queue]| {
        (!queues.is_empty() && rng.percent(70)).then(|| *rng.pick(queues))
    };
    match rng.below(100) {
        0..20 => {
            let wait_ms = *rng.pick(&[0, duration, duration, 1_500, u64::MAX]);
            ConsumerRequest::Reserve(queues, wait_ms)
        }
        20..30 => {
            let status = *rng.pick(&[Status::Ready, Status::Delayed, Status::Buried]);
            ConsumerRequest::ReserveJob(one_in(rng, client, oracle, status))
        }
        30..38 => ConsumerRequest::Delete(one_in(rng, client, oracle, Status::Reserved)),
        38..50 => ConsumerRequest::Release(held, priority, duration),
        50..60 => ConsumerRequest::Bury(held, priority),
        60..66 => {
            let status = *rng.pick(&[Status::Delayed, Status::Buried]);
            ConsumerRequest::KickJob(one_in(rng, client, oracle, status))
        }
        66..74 => ConsumerRequest::KickFirst(queue, among, *rng.pick(&[0, 1, 1, 2, 5, u32::MAX])),
        74..79 => ConsumerRequest::PeekFirst(queue, among),
        79..84 => ConsumerRequest::JobStats(an_id(rng, client, oracle)),
        84..88 => {
            let ends = rng.percent(40);
            let for_ms = if ends { 0 } else { *rng.pick(durations) };
            ConsumerRequest::Pause(queue, rng.percent(30), for_ms)
        }
        88..91 => {
            // The empty name stands for none.
            let queue = rng.percent(70).then_some(queue).filter(|&queue| !QUEUES[queue].is_empty());
            ConsumerRequest::Use(queue, some(rng, &used))
        }
        91..94 => ConsumerRequest::Watch(queue),
        _ => {
            let leaves = some(rng, &used);
            ConsumerRequest::Leave(leaves, some(rng, &watched).into_iter().collect())
        }
    }
}
