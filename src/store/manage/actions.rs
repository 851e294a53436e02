//! Actions: something is done to all jobs of a queue that match, a bounded number in each pass.
//!
//! An action is about the jobs that are there when it begins: those with lower ids than the next
//! one. It walks once over the slots of the job table, which jobs keep while they are moved and
//! changed, and ends early when no job in a wanted state is left in the queue. Buried jobs that
//! leave their list are taken in the order of their burial instead. The jobs of one pass change
//! before any of their queues is matched. An action begins in the command itself, with what is left
//! of the pass; after that running actions take turns.
//!
//! Actions are not in the journal: after a restart, what is done stays done, and none goes on.

use super::jobs::{Applied, Verb};
use super::rewrites::{Admission, RewriteLimit, changes, why_failed};
use crate::base::api_limits::{ACTION_BYTES_PER_STEP, ACTION_SLOTS_PER_STEP, ACTION_STEPS_PER_JOB};
use crate::base::limits::EXTRA_WORK_PER_TURN;
use crate::base::slab_index::SlabIndex;
use crate::base::time::Now;
use crate::model::action::{
    ActionDetails, ActionFilter, ActionSpec, ActionState, ActionVerb, JobChange,
};
use crate::model::id::{JobId, Ticket};
use crate::model::job::Status;
use crate::model::job_state::JobStates;
use crate::model::manage::{JobState, ManageReply};
use crate::model::reply::Rejection;
use crate::store::idx::QueueIdx;
use crate::store::{Effects, JobIdx, Store};
use std::collections::{BTreeMap, VecDeque};

/// The last actions. See the module documentation.
#[derive(Debug, Default)]
pub(in crate::store) struct Actions {
    /// At most `ACTIONS_MAX`.
    pub(super) by_id: BTreeMap<u64, Action>,
    /// Those that run; each is a task of the spread work.
    pub(super) running: VecDeque<u64>,
    /// How many wait for the end of their queries.
    pub(super) searching: usize,
    /// Those whose queries have had no turn yet, and whose tickets are not answered.
    pub(super) awaited_searches: Vec<u64>,
    /// The id that was given out last.
    pub(super) last_id: u64,
    /// What they may write.
    pub(super) rewrites: RewriteLimit,
}

/// One action.
#[derive(Debug)]
pub(super) struct Action {
    pub(super) details: ActionDetails,
    work: Work,
    /// Where the walk is.
    pub(super) cursor: Cursor,
    /// Jobs have ids below this one.
    below: u64,
    /// How many more it may change.
    left: u64,
    /// To be answered when it has ended.
    pub(super) ticket: Option<Ticket>,
    /// Why it has failed, for who awaits it.
    rejection: Option<Rejection>,
}

/// What an action does.
#[derive(Debug)]
enum Work {
    Delete,
    Kick,
    Bury,
    Change(JobChange),
    /// Deletes all jobs, then makes the queue unknown.
    DropQueue,
}

/// The jobs of an action that are left.
#[derive(Debug)]
pub(super) enum Cursor {
    /// Those in the slots from `next` to `end`.
    Slots {
        states: JobStates,
        next: u32,
        end: u32,
    },
    /// This number of those buried first.
    Buried {
        left: u64,
    },
    Ids(VecDeque<JobId>),
    /// They are not known yet: a query is evaluated.
    Searching,
    /// Those that a query has found, with the versions of their rows.
    Found(VecDeque<(JobId, u64)>),
}

/// What the walk finds.
enum Found {
    Job(JobIdx),
    /// A part of the walk is done.
    Nothing,
    End,
}

impl Action {
    /// The job that was found last is found again: `version` is that of its row.
    fn put_back(&mut self, id: JobId, version: Option<u64>) {
        match &mut self.cursor {
            Cursor::Slots { next, .. } => *next -= 1,
            Cursor::Buried { left } => *left += 1,
            Cursor::Ids(ids) => ids.push_front(id),
            // It runs when its query has ended, so nothing was found yet.
            Cursor::Searching => debug_assert!(false, "a job was found before the query ended"),
            Cursor::Found(jobs) => jobs.push_front((id, version.unwrap_or(0))),
        }
    }

    pub(super) fn verb(&self) -> Verb<'_> {
        match &self.work {
            Work::Delete | Work::DropQueue => Verb::Remove,
            Work::Kick => Verb::Kick,
            Work::Bury => Verb::Bury,
            Work::Change(change) => Verb::Change(change),
        }
    }
}

impl Store {
    /// Begins an action. O(ids), and its share of this pass.
    pub(super) fn act(&mut self, ticket: Ticket, spec: &ActionSpec, now: Now, fx: &mut Effects) {
        let Some(queue) = self.known_queue_or_answer(ticket, &spec.queue, fx) else { return };
        let (work, verb) = match &spec.verb {
            ActionVerb::Delete => (Work::Delete, "delete"),
            ActionVerb::Kick => (Work::Kick, "kick"),
            ActionVerb::Bury => (Work::Bury, "bury"),
            ActionVerb::Move { to } => {
                let queue = Some(to.clone());
                (Work::Change(JobChange { queue, ..JobChange::default() }), "move")
            }
            ActionVerb::Change(change) => (Work::Change(change.clone()), "change"),
        };
        if matches!(spec.filter, ActionFilter::Query(_)) && !self.is_searchable(ticket, queue, fx) {
            return;
        }
        let (cursor, matched) = self.cursor_of(queue, spec, now);
        let mut action = self.new_action(&spec.queue, verb, (work, cursor), matched, now);
        action.details.dry_run = spec.dry_run;
        action.left = spec.limit.unwrap_or(u64::MAX);
        if let ActionFilter::Query(query) = &spec.filter {
            return self.begin_action_search(ticket, (action, queue), query, fx);
        }
        self.begin_action(ticket, action, spec.wait, now, fx);
    }

    /// Deletes a queue with its jobs. As an action that is awaited.
    pub(super) fn drop_queue(
        &mut self,
        ticket: Ticket,
        name: &[u8],
        force: bool,
        now: Now,
        fx: &mut Effects,
    ) {
        let Some(queue) = self.known_queue_or_answer(ticket, name, fx) else { return };
        let record = &self.queues[queue];
        let (jobs, reserved) = (u64::from(record.jobs), record.status_counts().reserved);
        if reserved > 0 && !force {
            return fx.reply(ticket, ManageReply::QueueBusy(reserved));
        }
        let cursor = Cursor::Slots { states: JobStates::ALL, next: 0, end: self.jobs.end() };
        let work = (Work::DropQueue, cursor);
        let action = self.new_action(name, "delete", work, Some(jobs), now);
        self.begin_action(ticket, action, true, now, fx);
    }

    /// The jobs of an action, and how many they are. O(ids).
    fn cursor_of(&self, queue: QueueIdx, spec: &ActionSpec, now: Now) -> (Cursor, Option<u64>) {
        let states = match &spec.filter {
            ActionFilter::States(states) => *states,
            ActionFilter::Query(_) => return (Cursor::Searching, None),
            ActionFilter::Ids(ids) => {
                let mut ids = ids.to_vec();
                ids.sort_unstable_by_key(|id| id.0);
                ids.dedup();
                let is_there = |id: &&JobId| {
                    self.ids.find(id.0).is_some_and(|slot| {
                        let job = &self.jobs[slot];
                        job.queue == queue && !job.is_expired_waiting(now)
                    })
                };
                let matched = ids.iter().filter(is_there).count() as u64;
                return (Cursor::Ids(ids.into()), Some(matched));
            }
        };
        let matched = self.count_in_states(queue, states);
        let leaves_list = match &spec.verb {
            ActionVerb::Delete | ActionVerb::Kick => true,
            ActionVerb::Move { to } => *self.queues[queue].name != **to,
            ActionVerb::Bury | ActionVerb::Change(_) => false,
        };
        let only_buried = states == JobStates::default().with(JobState::Buried);
        let cursor = if leaves_list && only_buried && !spec.dry_run {
            Cursor::Buried { left: matched }
        } else {
            Cursor::Slots { states, next: 0, end: self.jobs.end() }
        };
        (cursor, Some(matched))
    }

    /// How many jobs of a queue are in these states. O(exclusion sets).
    fn count_in_states(&self, queue: QueueIdx, states: JobStates) -> u64 {
        let Some(queue) = self.queues.get(queue) else { return 0 };
        let counts = JobState::ALL.into_iter().zip(super::details::state_counts(queue));
        counts.filter(|(state, _)| states.contains(*state)).map(|(_, count)| count).sum()
    }

    /// An action without limit that has not begun.
    fn new_action(
        &self,
        queue: &[u8],
        verb: &'static str,
        (work, cursor): (Work, Cursor),
        matched: Option<u64>,
        now: Now,
    ) -> Action {
        let details = ActionDetails {
            id: self.actions.last_id + 1,
            queue: queue.into(),
            verb,
            dry_run: false,
            matched,
            done: 0,
            state: ActionState::Running,
            error: None,
            started_at: now.wall,
            ended_at: None,
        };
        Action {
            details,
            work,
            cursor,
            below: self.ids.next(),
            left: u64::MAX,
            ticket: None,
            rejection: None,
        }
    }

    /// Begins an action and answers at once, or with `wait` when it has ended.
    fn begin_action(
        &mut self,
        ticket: Ticket,
        mut action: Action,
        wait: bool,
        now: Now,
        fx: &mut Effects,
    ) {
        if self.actions.is_full() {
            return fx.reply(ticket, ManageReply::Rejected(Rejection::Full));
        }
        let id = action.details.id;
        debug_assert!(id > self.actions.last_id, "the ids of actions rise");
        self.actions.last_id = id;
        action.ticket = wait.then_some(ticket);
        if let Some(ended) = self.advance_action(&mut action, now, fx) {
            self.end_action(&mut action, ended, now, fx);
        } else {
            self.actions.running.push_back(id);
            self.spread.begin_task();
        }
        if !wait {
            fx.reply(ticket, ManageReply::Action(Box::new(action.details.clone())));
        } else if action.ticket.is_some() {
            // The client's next request waits: see `Store::is_deferred`.
            self.waiters.note_work(EXTRA_WORK_PER_TURN + 1);
        }
        self.actions.by_id.insert(id, action);
        self.actions.trim();
    }

    /// Goes on with the actions that run, up to what is left of `SPREAD_STEPS_PER_PASS`.
    #[inline]
    pub(in crate::store) fn run_actions(&mut self, now: Now, fx: &mut Effects) {
        if self.actions.running() > 0 {
            self.run_some_actions(now, fx);
        }
    }

    #[cold]
    fn run_some_actions(&mut self, now: Now, fx: &mut Effects) {
        for _ in 0..self.actions.running() {
            if self.spread.steps_left() == 0 {
                return;
            }
            let Some(id) = self.actions.running.pop_front() else { return };
            let mut action = self.actions.by_id.remove(&id).expect("a running action is known");
            debug_assert_eq!(action.details.state, ActionState::Running, "it runs while listed");
            if let Some(ended) = self.advance_action(&mut action, now, fx) {
                self.spread.end_task();
                self.end_action(&mut action, ended, now, fx);
            } else {
                self.actions.running.push_back(id);
            }
            self.actions.by_id.insert(id, action);
        }
    }

    /// Changes jobs up to the steps that are left in this pass, and up to what may be written. How
    /// the action has ended; `None`: it goes on.
    fn advance_action(
        &mut self,
        action: &mut Action,
        now: Now,
        fx: &mut Effects,
    ) -> Option<ActionState> {
        let Some(queue) = self.queues.find(&action.details.queue) else {
            return Some(ActionState::Finished);
        };
        while action.left > 0 {
            if self.spread.steps_left() == 0 {
                return None;
            }
            match self.next_of_action(action, queue, now, fx) {
                Found::End => return Some(ActionState::Finished),
                Found::Nothing => {}
                Found::Job(slot) => {
                    match self.admit_step(slot, action) {
                        Admission::Now => {}
                        Admission::Later => {
                            let job = &self.jobs[slot];
                            action.put_back(JobId(job.id()), job.row().map(|row| row.version));
                            return None;
                        }
                        Admission::Never(rejection) => {
                            action.details.error = Some(why_failed(rejection).into());
                            action.rejection = Some(rejection);
                            return Some(ActionState::Failed);
                        }
                    }
                    let changed = self.act_on(slot, action, now, fx);
                    action.details.done += u64::from(changed);
                    action.left -= u64::from(changed);
                }
            }
        }
        Some(ActionState::Finished)
    }

    /// Whether an action may do to a job what it does.
    fn admit_step(&mut self, slot: JobIdx, action: &Action) -> Admission {
        let status = self.jobs[slot].counted_status();
        match action.verb() {
            Verb::Change(change) if changes(action.verb(), status) && !action.details.dry_run => {
                self.admit_rewrite(slot, change)
            }
            _ => Admission::Now,
        }
    }

    /// Does to a job what an action does. Returns whether that has changed it, or would.
    fn act_on(&mut self, slot: JobIdx, action: &Action, now: Now, fx: &mut Effects) -> bool {
        let verb = action.verb();
        self.spread.spend(ACTION_STEPS_PER_JOB);
        if action.details.dry_run {
            return self.would_change(slot, verb, now);
        }
        if matches!(verb, Verb::Change(_)) {
            // It is journaled as a whole.
            self.spread.spend(self.jobs[slot].content_bytes() / ACTION_BYTES_PER_STEP);
        }
        match self.apply_verb(slot, verb, now, fx) {
            Applied::Changed => true,
            Applied::Gone => matches!(verb, Verb::Remove),
            Applied::Unchanged
            | Applied::WrongState(_)
            | Applied::TooLarge
            | Applied::KeyTaken(_) => false,
        }
    }

    /// The next job of an action, within one step or a few. Expired ones are removed.
    fn next_of_action(
        &mut self,
        action: &mut Action,
        queue: QueueIdx,
        now: Now,
        fx: &mut Effects,
    ) -> Found {
        self.spread.spend(1);
        match &mut action.cursor {
            Cursor::Ids(ids) => {
                let Some(id) = ids.pop_front() else { return Found::End };
                let found = self.find_cold(id, now, fx);
                let found = found.filter(|&slot| self.jobs[slot].queue == queue);
                found.map_or(Found::Nothing, Found::Job)
            }
            // It runs when its query has ended.
            Cursor::Searching => Found::Nothing,
            Cursor::Found(jobs) => {
                let Some((id, version)) = jobs.pop_front() else { return Found::End };
                let found = self.find_cold(id, now, fx);
                let same = |slot: &JobIdx| {
                    let job = &self.jobs[*slot];
                    job.queue == queue && job.row().is_some_and(|row| row.version == version)
                };
                found.filter(same).map_or(Found::Nothing, Found::Job)
            }
            Cursor::Buried { left } => {
                let first = self.queues.get(queue).and_then(|queue| queue.buried.first());
                let first = first.filter(|&slot| self.jobs[slot].id() < action.below);
                let Some(slot) = first.filter(|_| *left > 0) else { return Found::End };
                debug_assert_eq!(self.jobs[slot].status(), Status::Buried, "it lists burials");
                *left -= 1;
                Found::Job(slot)
            }
            Cursor::Slots { states, next, end } => {
                let (states, below) = (*states, action.below);
                let end = (*end).min(self.jobs.end());
                if *next >= end || self.count_in_states(queue, states) == 0 {
                    return Found::End;
                }
                let stop = end.min(next.saturating_add(ACTION_SLOTS_PER_STEP));
                while *next < stop {
                    let slot = JobIdx::from_slot(*next);
                    *next += 1;
                    let is_meant = self.jobs.get(slot).is_some_and(|job| {
                        let is_old = job.queue == queue && job.id() < below;
                        let state = super::details::state_of(job);
                        is_old && job.status() != Status::Popped && states.contains(state)
                    });
                    if !is_meant {
                        continue;
                    }
                    if !self.jobs[slot].is_expired_waiting(now) {
                        return Found::Job(slot);
                    }
                    self.unlink_cold(slot);
                    drop(self.remove(slot, fx));
                    self.constraints.schedule_match(queue.into());
                }
                Found::Nothing
            }
        }
    }

    /// An action has ended: its ticket is answered, if it waits.
    pub(super) fn end_action(
        &mut self,
        action: &mut Action,
        state: ActionState,
        now: Now,
        fx: &mut Effects,
    ) {
        debug_assert!(action.details.ended_at.is_none(), "an action ends once");
        debug_assert_ne!(state, ActionState::Running, "an ended action does not run");
        (action.details.state, action.details.ended_at) = (state, Some(now.wall));
        if state == ActionState::Finished && matches!(action.work, Work::DropQueue) {
            self.remove_queue(&action.details.queue, fx);
        }
        if let Some(ticket) = action.ticket.take() {
            let ended = || ManageReply::Action(Box::new(action.details.clone()));
            fx.reply(ticket, action.rejection.map_or_else(ended, ManageReply::Rejected));
        }
    }

    /// For checks.
    pub(in crate::store) fn check_actions(&self) {
        self.actions.check_invariants();
    }
}
