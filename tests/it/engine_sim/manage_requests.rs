//! Requests of the native API: what the engine is asked, and what the oracle is. And how they are
//! drawn.

use super::generator::{an_id, one_in};
use super::indexed_requests::{STATES, is_in, query};
use super::requests::{PRIORITIES, QUEUES, urgency as urgency_of};
use crate::oracle::Oracle;
use crate::oracle::manage_jobs::{Change, Verb, Which, is_move};
use crate::oracle::types::{Load, Queue};
use crate::rng::TestRng;
use jobcentre::model::action::{ActionFilter, ActionSpec, ActionVerb, JobChange};
use jobcentre::model::flow::HistoryStep;
use jobcentre::model::id::{ClientId, JobId, Ticket};
use jobcentre::model::job::OwnedPriority;
use jobcentre::model::job::Status;
use jobcentre::model::manage::{JobState, ManageCommand, QueueOrder};
use jobcentre::model::worker::WorkerId;

/// What is asked.
#[derive(Clone, Debug)]
pub(super) enum ManageRequest {
    Show(JobId),
    Queue(Queue),
    Rank(QueueOrder),
    History(Queue, HistoryStep),
    Workers,
    Constraints,
    Pause(Queue, Option<u64>),
    Resume(Queue),
    Job(JobId, Verb),
    Act {
        queue: Queue,
        verb: Verb,
        which: Which,
        limit: Option<u64>,
        dry_run: bool,
    },
    DropQueue(Queue, bool),
    /// Whether it is switched on.
    SetIndex(Queue, bool),
    /// The state is a number in `STATES`.
    Search {
        queue: Queue,
        state: Option<usize>,
        limit: usize,
    },
}

/// A change as the engine knows it.
fn job_change(change: &Change) -> JobChange {
    let priority = |urgency| {
        let known = PRIORITIES.into_iter().find(|&known| urgency_of(known) == urgency);
        OwnedPriority::from(known.unwrap())
    };
    JobChange {
        payload: change.load.as_ref().map(|load| (load.encoding, load.text.bytes().into())),
        priority: change.priority.map(priority),
        delay_ms: change.delay_ms,
        ttl_ms: change.ttl_ms,
        queue: change.queue.map(|queue| QUEUES[queue].into()),
        max_attempts: None,
    }
}

fn action_verb(verb: &Verb) -> ActionVerb {
    match verb {
        Verb::Remove | Verb::Cancel => ActionVerb::Delete,
        Verb::Kick => ActionVerb::Kick,
        Verb::Bury => ActionVerb::Bury,
        Verb::Change(change) => match change.queue {
            Some(to) if is_move(change) => ActionVerb::Move { to: QUEUES[to].into() },
            _ => ActionVerb::Change(job_change(change)),
        },
    }
}

impl ManageRequest {
    /// Hands it, in the model's form, to `submit`.
    pub(super) fn with_command(&self, submit: impl FnOnce(&ManageCommand<'_>)) {
        let command = match *self {
            Self::Show(id) => ManageCommand::Show { id },
            Self::Queue(queue) => ManageCommand::Queue { queue: QUEUES[queue] },
            Self::History(queue, step) => {
                ManageCommand::History { queue: Some(QUEUES[queue]), step }
            }
            Self::Workers => ManageCommand::Workers { from: WorkerId(0), limit: 1_000 },
            Self::Constraints => ManageCommand::Constraints { behind: None, limit: 1_000 },
            Self::Rank(order) => ManageCommand::Ranked { order, glob: None, limit: 1_000 },
            Self::Pause(queue, for_ms) => ManageCommand::Pause { queue: QUEUES[queue], for_ms },
            Self::Resume(queue) => ManageCommand::Resume { queue: QUEUES[queue] },
            Self::Job(id, Verb::Remove) => ManageCommand::Remove { id },
            Self::Job(id, Verb::Cancel) => ManageCommand::Cancel { id },
            Self::Job(id, Verb::Kick) => ManageCommand::Kick { id },
            Self::Job(id, Verb::Bury) => ManageCommand::Bury { id },
            Self::Job(id, Verb::Change(ref change)) => {
                return submit(&ManageCommand::Change { id, change: &job_change(change) });
            }
            Self::Act { queue, ref verb, ref which, limit, dry_run } => {
                let filter = match which {
                    Which::States(states) => {
                        // Which ready jobs are blocked is the engine's own affair.
                        let ready = states.contains(&JobState::Ready);
                        let blocked = ready.then_some(JobState::Blocked);
                        let states = states.iter().copied().chain(blocked);
                        ActionFilter::States(states.collect())
                    }
                    Which::Ids(ids) => ActionFilter::Ids(ids.clone().into()),
                    Which::Query(state) => {
                        let known = |state| STATES.iter().position(|(known, _)| *known == state);
                        ActionFilter::Query(query(state.and_then(known)))
                    }
                };
                let (queue, verb) = (QUEUES[queue].into(), action_verb(verb));
                let spec =
                    ActionSpec { queue, filter, verb, limit, dry_run, wait: limit.is_some() };
                return submit(&ManageCommand::Act(&spec));
            }
            Self::SetIndex(queue, on) => ManageCommand::SetIndex { queue: QUEUES[queue], on },
            Self::Search { queue, state, limit } => {
                return submit(&ManageCommand::Search {
                    queue: QUEUES[queue],
                    query: &query(state),
                    behind: JobId(0),
                    limit,
                });
            }
            Self::DropQueue(queue, force) => {
                ManageCommand::DropQueue { queue: QUEUES[queue], force }
            }
        };
        submit(&command);
    }

    /// Has the oracle perform it.
    pub(super) fn perform(&self, oracle: &mut Oracle, ticket: Ticket) {
        match *self {
            Self::Show(id) => oracle.show_job(ticket, id),
            Self::Queue(queue) => oracle.show_queue(ticket, queue),
            Self::Rank(order) => oracle.rank(ticket, order),
            Self::History(queue, _) => oracle.show_history(ticket, queue),
            Self::Workers => oracle.list_workers(ticket),
            Self::Constraints => oracle.list_constraints(ticket),
            Self::Pause(queue, for_ms) => oracle.pause(ticket, queue, for_ms),
            Self::Resume(queue) => oracle.resume(ticket, queue),
            Self::Job(id, ref verb) => oracle.manage_job(ticket, id, verb),
            Self::Act { queue, ref verb, ref which, limit, dry_run } => {
                oracle.act(ticket, (queue, verb), which, (limit, dry_run));
            }
            Self::SetIndex(queue, true) => oracle.index_on(ticket, queue),
            Self::SetIndex(queue, false) => oracle.index_off(ticket, queue),
            Self::Search { queue, state, .. } => {
                oracle.search_list(ticket, queue, &is_in(state));
            }
            Self::DropQueue(queue, force) => oracle.delete_queue(ticket, queue, force),
        }
    }

    /// Whether it is an action over what a query finds.
    pub(super) fn acts_by_query(&self) -> bool {
        matches!(self, Self::Act { which: Which::Query(_), .. })
    }

    pub(super) fn id_mut(&mut self) -> Option<&mut JobId> {
        match self {
            Self::Show(id) | Self::Job(id, _) => Some(id),
            _ => None,
        }
    }

    /// Whether the times of rows would tell in which order an action takes the jobs, which is left
    /// open.
    pub(super) fn order_shows(&self, oracle: &Oracle) -> bool {
        match *self {
            Self::Act { queue, verb: Verb::Change(Change { queue: Some(to), .. }), .. } => {
                oracle.has_rows_from_the_future(queue, to)
            }
            _ => false,
        }
    }

    /// Whether it changes many jobs, or looks at all queues, at once.
    pub(super) fn is_action(&self) -> bool {
        matches!(self, Self::Act { .. } | Self::DropQueue(..) | Self::SetIndex(..) | Self::Rank(_))
    }
}

/// Some request. `durations` are those that pauses may have.
pub(super) fn random_request(
    rng: &mut TestRng,
    (client, queue, queues): (ClientId, Queue, usize),
    oracle: &Oracle,
    durations: &[u64],
) -> ManageRequest {
    let statuses =
        [Status::Ready, Status::Delayed, Status::Reserved, Status::Buried, Status::Completed];
    let id = if rng.percent(50) {
        an_id(rng, client, oracle)
    } else {
        let status = *rng.pick(&statuses);
        one_in(rng, client, oracle, status)
    };
    let paused: Vec<Queue> = (0..QUEUES.len()).filter(|&queue| oracle.is_paused(queue)).collect();
    let verb = match rng.below(20) {
        0..3 => Verb::Remove,
        3..5 => Verb::Cancel,
        5..9 => Verb::Kick,
        9..13 => Verb::Bury,
        _ => Verb::Change(a_change(rng, (oracle, queues), durations)),
    };
    // Whether a ready job is blocked, which is not kicked, is the engine's own affair.
    let is_buried = oracle.find(id.0).is_some_and(|job| job.status == Status::Buried);
    let verb = match verb {
        Verb::Kick if !oracle.constraints.is_empty() && !is_buried => Verb::Bury,
        verb => verb,
    };
    match rng.below(50) {
        20..38 => return ManageRequest::Job(id, verb),
        38..48 => return an_action(rng, (client, queue), oracle, verb),
        48.. => return ManageRequest::DropQueue(queue, rng.percent(50)),
        _ => {}
    }
    match rng.below(20) {
        0..3 => ManageRequest::Show(id),
        3..5 => ManageRequest::Queue(queue),
        5 => match rng.below(5) {
            0 => ManageRequest::Workers,
            1 => ManageRequest::Constraints,
            2 => ManageRequest::History(queue, *rng.pick(&[HistoryStep::Short, HistoryStep::Long])),
            _ => ManageRequest::Rank(*rng.pick(&[QueueOrder::Ready, QueueOrder::Oldest])),
        },
        17 => ManageRequest::SetIndex(queue, rng.percent(70)),
        18.. => {
            let state = rng.percent(50).then(|| rng.below(STATES.len()));
            ManageRequest::Search { queue, state, limit: 1 + rng.below(3) }
        }
        6..12 if paused.len() < 3 => {
            let for_ms = rng.percent(40).then(|| *rng.pick(durations));
            ManageRequest::Pause(queue, for_ms)
        }
        _ if !paused.is_empty() && rng.percent(90) => ManageRequest::Resume(*rng.pick(&paused)),
        _ => ManageRequest::Resume(queue),
    }
}

/// In place of these jobs, perhaps those that a query finds, in whatever order. What is drawn
/// follows from the moment, so that all else that is drawn stays as it was.
fn by_query(which: Which, (queue, verb): (Queue, &Verb), oracle: &Oracle) -> Which {
    let mut rng = TestRng::new(oracle.now.mono.0 ^ (oracle.jobs.len() as u64) << 41);
    let order_shows = match verb {
        Verb::Remove | Verb::Cancel | Verb::Kick => false,
        Verb::Bury => true,
        Verb::Change(change) => change.queue.is_some(),
    };
    if order_shows || !rng.percent(if oracle.is_indexed(queue) { 60 } else { 5 }) {
        return which;
    }
    Which::Query(rng.percent(60).then(|| rng.pick(&STATES).0))
}

fn a_change(rng: &mut TestRng, (oracle, queues): (&Oracle, usize), durations: &[u64]) -> Change {
    let load = rng.percent(30).then(|| a_changed_load(rng, oracle));
    let priority = rng.percent(30).then(|| urgency_of(*rng.pick(&PRIORITIES)));
    let mut duration = |percent| {
        let some = rng.percent(percent).then(|| rng.percent(70));
        some.map(|some| if some { *rng.pick(durations) } else { 0 })
    };
    let (delay_ms, ttl_ms) = (duration(30), duration(30));
    let queue = rng.percent(30).then(|| rng.below(queues));
    Change { load, priority, delay_ms, ttl_ms, queue }
}

/// A payload that is not like any other; rarely one that no packet and no pop can carry. As few are
/// large as a changed constraint matches in one pass, those that are put included.
fn a_changed_load(rng: &mut TestRng, oracle: &Oracle) -> Load {
    let few_are_large = || oracle.jobs.iter().filter(|job| is_large(&job.load)).count() < 5;
    let filler = if rng.percent(3) && few_are_large() { 66_000 } else { rng.below(20) };
    let number = rng.seed();
    Load::json(&format!("\"{number:020}{}\"", ".".repeat(filler)))
}

pub(super) fn is_large(load: &Load) -> bool {
    load.text.len() > 60_000
}

/// An action whose result does not depend on the order of jobs, or where that is known: by id, or
/// by burial.
fn an_action(
    rng: &mut TestRng,
    (client, queue): (ClientId, Queue),
    oracle: &Oracle,
    verb: Verb,
) -> ManageRequest {
    let verb = if let Verb::Cancel = verb { Verb::Remove } else { verb };
    let states: &[&[JobState]] = match verb {
        Verb::Remove | Verb::Cancel => {
            let all: &[JobState] = &JobState::ALL;
            &[&[JobState::Ready], &[JobState::Scheduled, JobState::Completed], all]
        }
        Verb::Kick => &[&[JobState::Buried], &[JobState::Buried, JobState::Scheduled]],
        Verb::Bury => &[],
        // Deadlines of one moment fire in the order in which the walk has armed them.
        Verb::Change(ref change) if change.delay_ms.is_some() => &[],
        Verb::Change(ref change) if change.ttl_ms.is_some_and(|ttl_ms| ttl_ms > 0) => &[],
        Verb::Change(_) => &[&[JobState::Ready]],
    };
    let makes_large =
        matches!(&verb, Verb::Change(change) if change.load.as_ref().is_some_and(is_large));
    let (which, limit) = if states.is_empty() || rng.percent(40) || makes_large {
        let ids = (0..rng.below(6)).map(|_| an_id(rng, client, oracle)).collect();
        (Which::Ids(ids), rng.percent(20).then(|| rng.below(3) as u64))
    } else if rng.percent(30) && !matches!(verb, Verb::Bury | Verb::Change(_)) {
        (Which::States(vec![JobState::Buried]), rng.percent(50).then(|| rng.below(3) as u64))
    } else {
        (Which::States(rng.pick(states).to_vec()), None)
    };
    let queue = match &which {
        Which::Ids(ids) => {
            let first = ids.first().and_then(|id| oracle.find(id.0));
            first.map_or(queue, |job| job.queue)
        }
        Which::States(_) | Which::Query(_) => queue,
    };
    let dry_run = rng.percent(10);
    let any = limit.is_none() && !makes_large;
    let which = if any { by_query(which, (queue, &verb), oracle) } else { which };
    ManageRequest::Act { queue, verb, which, limit, dry_run }
}
