//! Waiting requests for the end of a reservation, or for the end of a job.
//!
//! Invariants: a watcher is found by its ticket and by its job; its job exists. All operations are
//! O(log v) for v watchers.

use super::idx::{JobIdx, WatcherIdx};
use super::jobs::Jobs;
use super::{Due, Effects, Outcome};
use crate::base::paged::PagedSlab;
use crate::base::time::Mono;
use crate::base::timer_queue::{TimerId, TimerQueue};
use crate::model::id::{ClientId, Ticket};
use crate::model::job::Status;
use crate::model::worker::TrackedReply;
use std::collections::BTreeMap;

/// What a watcher waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum WatchFor {
    /// The end of the client's reservation.
    Release,
    /// Completion or burial of the job.
    Completion,
    /// The same, for clients of the native API.
    End,
}

/// A waiting request.
#[derive(Debug)]
pub(super) struct JobWatcher {
    pub(super) ticket: Ticket,
    pub(super) job: JobIdx,
    pub(super) watch_for: WatchFor,
    arrival: u64,
    /// The timeout, if it has one.
    timer: TimerId,
}

/// All watchers.
#[derive(Debug, Default)]
pub(super) struct JobWatchers {
    slots: PagedSlab<JobWatcher, WatcherIdx>,
    by_ticket: BTreeMap<Ticket, WatcherIdx>,
    by_job: BTreeMap<(JobIdx, WatchFor, u64), WatcherIdx>,
    arrivals: u64,
    /// Answers to watchers that have ended during this call, in order.
    ended: Vec<(Ticket, Outcome)>,
}

impl JobWatchers {
    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.slots.len() == 0
    }

    /// Whether watchers have ended that were not answered yet.
    #[inline(always)]
    pub(super) fn has_ended(&self) -> bool {
        !self.ended.is_empty()
    }

    /// Answers the watchers that have ended during this call, after its other answers.
    #[cold]
    pub(super) fn answer_ended(&mut self, fx: &mut Effects) {
        for (ticket, outcome) in self.ended.drain(..) {
            fx.answer(ticket, outcome);
        }
    }

    /// Ends the watchers of a job whose reservation ends. O(log v + log d) for each.
    pub(super) fn end_reservation(&mut self, job: JobIdx, deadlines: &mut TimerQueue<Due>) {
        self.end_all(job, WatchFor::Release, Outcome::Done, deadlines);
    }

    /// Ends the watchers of a job that is about to be removed. O(log v + log d) for each.
    #[cold]
    pub(super) fn remove_all_of(&mut self, job: JobIdx, deadlines: &mut TimerQueue<Due>) {
        self.end_all(job, WatchFor::Release, Outcome::Done, deadlines);
        let deleted = Outcome::Tracked(TrackedReply::Deleted);
        self.end_all(job, WatchFor::Completion, deleted, deadlines);
        self.end_all(job, WatchFor::End, deleted, deadlines);
    }

    #[inline]
    fn end_all(
        &mut self,
        job: JobIdx,
        watch_for: WatchFor,
        outcome: Outcome,
        deadlines: &mut TimerQueue<Due>,
    ) {
        while let Some(watcher) = self.first_for(job, watch_for) {
            let ticket = self.remove(watcher, deadlines);
            self.ended.push((ticket, outcome));
        }
    }

    /// Adds a watcher of the job in this slot.
    pub(super) fn begin(
        &mut self,
        ticket: Ticket,
        job: JobIdx,
        watch_for: WatchFor,
        jobs: &mut Jobs,
    ) -> WatcherIdx {
        debug_assert!(self.find(ticket).is_none(), "a ticket has one watcher");
        debug_assert!(
            watch_for != WatchFor::Release || jobs[job].status() == Status::Reserved,
            "only a reservation is awaited to end"
        );
        // A job without rare fields is removed without a search for watchers.
        jobs[job].ext_mut_or_insert();
        self.arrivals += 1;
        let (arrival, timer) = (self.arrivals, TimerId::NONE);
        let watcher = self.slots.insert(JobWatcher { ticket, job, watch_for, arrival, timer });
        self.by_ticket.insert(ticket, watcher);
        self.by_job.insert((job, watch_for, arrival), watcher);
        debug_assert!(
            self.by_ticket.len() == self.slots.len() && self.by_job.len() == self.slots.len(),
            "a watcher has one ticket and one job"
        );
        watcher
    }

    /// Arms the timeout of a watcher. O(log d).
    pub(super) fn arm(&mut self, watcher: WatcherIdx, at: Mono, deadlines: &mut TimerQueue<Due>) {
        let watching = &mut self.slots[watcher];
        debug_assert!(watching.timer.is_none(), "a watcher has two timeouts");
        watching.timer = deadlines.arm(at, Due::Watcher(watcher));
    }

    /// Removes a watcher whose client has cancelled it or is detached: its ticket and the answer.
    /// O(log v + log d).
    pub(super) fn cancel(
        &mut self,
        watcher: WatcherIdx,
        deadlines: &mut TimerQueue<Due>,
    ) -> (Ticket, Outcome) {
        let outcome = match self.slots[watcher].watch_for {
            WatchFor::Release => Outcome::Cancelled,
            WatchFor::Completion | WatchFor::End => Outcome::Tracked(TrackedReply::Cancelled),
        };
        (self.remove(watcher, deadlines), outcome)
    }

    /// Removes a watcher and cancels its timeout. Returns its ticket. O(log v + log d).
    pub(super) fn remove(
        &mut self,
        watcher: WatcherIdx,
        deadlines: &mut TimerQueue<Due>,
    ) -> Ticket {
        let ended = self.end(watcher);
        if !ended.timer.is_none() {
            deadlines.cancel(ended.timer);
        }
        ended.ticket
    }

    /// Removes a watcher whose timeout has fired. Returns its ticket.
    pub(super) fn expire(&mut self, watcher: WatcherIdx) -> Ticket {
        let ended = self.end(watcher);
        debug_assert!(!ended.timer.is_none(), "a timeout fires that was not armed");
        ended.ticket
    }

    fn end(&mut self, watcher: WatcherIdx) -> JobWatcher {
        let watcher = self.slots.remove(watcher).expect("a watcher was removed twice");
        let by_ticket = self.by_ticket.remove(&watcher.ticket);
        let place = (watcher.job, watcher.watch_for, watcher.arrival);
        let by_job = self.by_job.remove(&place);
        debug_assert!(
            by_ticket.is_some() && by_ticket == by_job,
            "a watcher is found by its ticket and by its job"
        );
        debug_assert!(
            self.by_ticket.len() == self.slots.len() && self.by_job.len() == self.slots.len(),
            "a watcher goes with its ticket and its place at the job"
        );
        watcher
    }

    pub(super) fn find(&self, ticket: Ticket) -> Option<WatcherIdx> {
        self.by_ticket.get(&ticket).copied()
    }

    /// The client's watcher with the smallest serial.
    pub(super) fn first_of(&self, client: ClientId) -> Option<WatcherIdx> {
        let whole = Ticket { client, serial: 0 }..=Ticket { client, serial: u32::MAX };
        self.by_ticket.range(whole).next().map(|(_, &watcher)| watcher)
    }

    /// Whether the client has more than `count` watchers. O(log v + count).
    pub(super) fn has_more_of(&self, client: ClientId, count: usize) -> bool {
        let whole = Ticket { client, serial: 0 }..=Ticket { client, serial: u32::MAX };
        !self.is_empty() && self.by_ticket.range(whole).nth(count).is_some()
    }

    /// The earliest watcher of this kind for a job.
    pub(super) fn first_for(&self, job: JobIdx, watch_for: WatchFor) -> Option<WatcherIdx> {
        self.by_job
            .range((job, watch_for, 0)..=(job, watch_for, u64::MAX))
            .next()
            .map(|(_, &watcher)| watcher)
    }

    /// The job that a watcher is about.
    pub(super) fn job(&self, watcher: WatcherIdx) -> JobIdx {
        debug_assert_eq!(
            self.find(self.slots[watcher].ticket),
            Some(watcher),
            "a watcher is found by its ticket"
        );
        self.slots[watcher].job
    }

    pub(super) fn watch_for(&self, watcher: WatcherIdx) -> WatchFor {
        self.slots[watcher].watch_for
    }

    /// The timeout of a watcher. For checks.
    pub(super) fn timer(&self, watcher: WatcherIdx) -> TimerId {
        self.slots[watcher].timer
    }

    /// Number of armed timeouts. For checks. O(v).
    pub(super) fn timers(&self) -> usize {
        self.slots.iter().filter(|(_, watcher)| !watcher.timer.is_none()).count()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (WatcherIdx, &JobWatcher)> {
        self.slots.iter()
    }

    /// Asserts that the tables agree. O(v log v): for checks.
    pub(super) fn check_invariants(&self) {
        assert_eq!(self.by_ticket.len(), self.slots.len(), "a watcher has no ticket of its own");
        assert_eq!(self.by_job.len(), self.slots.len(), "a watcher has no job");
        for (number, watcher) in self.slots.iter() {
            assert_eq!(self.find(watcher.ticket), Some(number), "a watcher is not found");
            let place = (watcher.job, watcher.watch_for, watcher.arrival);
            assert_eq!(self.by_job.get(&place), Some(&number), "a watcher is not with its job");
        }
    }
}
