//! Flows: how many jobs are put, reserved, completed and failed in each queue, the rates of the
//! last minute, and histories of the server and of queues.
//!
//! A change adds one to a counter of its queue, in memory that it writes anyway. Nothing else is
//! done on the path of a request. At the begin of a pass, [`Store::sample`] notes the changes since
//! the last look: every [`FLOW_STEP`] those of the server, and then, in bounded steps, those of the
//! queues. What it finds happened in the passes before, so it belongs to the step of the last pass;
//! a server that is idle is not woken.
//!
//! A queue with changes gets a [`History`], up to [`QUEUE_HISTORIES_MAX`] of them; it is dropped
//! when nothing has changed for as long as it reaches back, or for a minute while more than half of
//! the places are taken. A queue without one keeps its counters, which then fade: a twelfth leaves
//! with each walk, so that they are about those of the last minute.

mod counts;
mod ring;
mod waits;

use super::Store;
use super::idx::{JobIdx, QueueIdx};
use super::manage::state_counts;
use super::queues::{Queue, Queues};
use crate::base::api_limits::{
    FLOW_STEP, FLOW_WALK_INTERVAL, QUEUE_HISTORIES_MAX, QUEUE_LONG_STEPS, QUEUES_COUNTED_AT_ONCE,
    QUEUES_PER_WALK_STEP, QUEUES_PER_WALK_STEP_MAX, RATE_STEPS, SERVER_LONG_STEPS,
    SERVER_SHORT_STEPS,
};
use crate::base::slab_index::SlabIndex;
use crate::base::time::{Mono, Now};
use crate::model::flow::{FlowKind, HistoryStep, Rates, StateCounts, StepCounts, StepWaits};
use crate::model::job::Status;
use crate::model::job_state::JobState;
use crate::model::stats::JobCounter;
pub(super) use counts::{FlowCounts, QueueHistory};
use ring::{Changes, History, step_of};
use waits::Waits;

/// Short steps after which the history of a queue without changes says nothing any more.
const HISTORY_STEPS: u64 = QUEUE_LONG_STEPS as u64 * RATE_STEPS;

/// The history of the server, and the walk over the queues.
#[derive(Debug)]
pub(super) struct Flows {
    /// The begin of the present pass.
    now: Mono,
    /// When there is something to do.
    next: Mono,
    /// When the last step of a walk was.
    walked: Mono,
    /// The slot of the next queue of a walk that is not over.
    walk: Option<u32>,
    /// The short step up to which the changes of the server are noted.
    step: u64,
    /// The sums of changes of the server when they were noted last.
    noted: [u64; FlowKind::ALL.len()],
    /// `None` before the first step.
    server: Option<Box<History<SERVER_SHORT_STEPS, SERVER_LONG_STEPS>>>,
    /// How long jobs were ready; `None` before the first step.
    waits: Option<Box<Waits>>,
    /// Jobs by state: of the queues of this walk so far, and of the last one that is over.
    counting: StateCounts,
    counts: StateCounts,
}

impl Default for Flows {
    fn default() -> Self {
        Self {
            now: Mono::default(),
            next: Mono::default().after(FLOW_STEP),
            walked: Mono::default(),
            walk: None,
            step: 0,
            noted: [0; FlowKind::ALL.len()],
            server: None,
            waits: None,
            counting: StateCounts::default(),
            counts: StateCounts::default(),
        }
    }
}

fn small(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// The changes of which `sums` are the sums since the start, without those that are noted.
fn since(sums: &[u64; FlowKind::ALL.len()], noted: &[u64; FlowKind::ALL.len()]) -> Changes {
    std::array::from_fn(|number| small(sums[number].saturating_sub(noted[number])))
}

/// How many jobs were ready before these changes, if no others were made.
fn ready_before(ready: u32, changes: &Changes) -> u32 {
    let [put, reserved, ..] = *changes;
    ready.saturating_add(reserved).saturating_sub(put)
}

fn ready_jobs(counts: &StateCounts) -> u32 {
    let of = |state: &JobState| *state == JobState::Ready;
    small(JobState::ALL.iter().position(of).map_or(0, |number| counts[number]))
}

impl Queue {
    /// The rates of the last minute. O(1).
    pub(super) fn rates(&self, now: Mono) -> Rates {
        match &self.history {
            Some(history) => history.rates(now, &self.flow.0),
            None => QueueHistory::new(step_of(now), 0).rates(now, &self.flow.0),
        }
    }

    /// The history up to a moment. O(steps).
    fn series(&self, length: HistoryStep, now: Mono) -> Vec<StepCounts> {
        let ready = ready_jobs(&state_counts(self));
        if let Some(history) = &self.history {
            return history.series(length, now, &self.flow.0, ready);
        }
        let before = ready_before(ready, &self.flow.0);
        let history = QueueHistory::new(step_of(now), before);
        history.series(length, now, &self.flow.0, ready)
    }

    /// Notes the changes since the last walk, which happened in this step at the latest. Returns
    /// by how many the number of histories grows. O(steps since the last walk).
    fn note_flow(&mut self, step: u64, histories: usize) -> isize {
        if self.history.is_none() && self.flow.is_quiet() {
            return 0;
        }
        let ready = ready_jobs(&state_counts(self));
        let mut grown = 0;
        if self.history.is_none() && histories < QUEUE_HISTORIES_MAX {
            let before = ready_before(ready, &self.flow.0);
            self.history = Some(Box::new(QueueHistory::new(step, before)));
            grown = 1;
        }
        let put = self.flow.get(FlowKind::Put);
        let Some(history) = &mut self.history else {
            for count in &mut self.flow.0 {
                *count -= count.div_ceil(small(RATE_STEPS));
            }
            self.put_before_walk += u64::from(put - self.flow.get(FlowKind::Put));
            return 0;
        };
        self.put_before_walk += u64::from(put);
        history.add(step, &std::mem::take(&mut self.flow).0, ready);
        let is_crowded = histories > QUEUE_HISTORIES_MAX / 2;
        let kept = if is_crowded { RATE_STEPS } else { HISTORY_STEPS };
        if history.quiet_steps(step) > kept {
            self.history = None;
            grown = -1;
        }
        grown
    }

    /// Forgets all changes. Returns whether there was a history.
    pub(super) fn clear_flow(&mut self) -> bool {
        self.flow = FlowCounts::default();
        self.put_before_walk = 0;
        self.history.take().is_some()
    }
}

impl Queues {
    /// Notes the changes of some queues, from a slot on, and adds up their jobs by state. Returns
    /// where to go on. O(limit).
    fn note_flows(
        &mut self,
        from: u32,
        limit: u32,
        step: u64,
        counts: &mut StateCounts,
    ) -> Option<u32> {
        let end = self.end();
        let until = end.min(from.saturating_add(limit));
        for slot in from..until {
            let histories = self.histories;
            let Some(queue) = self.get_mut(QueueIdx::from_slot(slot)) else { continue };
            if queue.jobs > 0 {
                for (sum, count) in counts.iter_mut().zip(state_counts(queue)) {
                    *sum += count;
                }
            }
            let grown = queue.note_flow(step, histories);
            self.histories = self.histories.saturating_add_signed(grown);
            debug_assert!(self.histories <= QUEUE_HISTORIES_MAX, "histories are bounded");
        }
        (until < end).then_some(until)
    }
}

impl Store {
    /// The begin of a pass, before its commands: notes what the last passes have changed, if that
    /// is due. O(1), or O(`QUEUES_PER_WALK_STEP_MAX`).
    #[inline]
    pub fn sample(&mut self, now: Now) {
        debug_assert!(self.flows.now <= now.mono, "the clock of passes does not go back");
        let before = std::mem::replace(&mut self.flows.now, now.mono);
        if now.mono >= self.flows.next {
            self.sample_cold(step_of(before));
        }
    }

    /// Counts a reserve, beside those of [`Store::reserve`].
    pub(super) fn count_reserved(&mut self, slot: JobIdx) {
        self.queues[self.jobs[slot].queue].flow.count(FlowKind::Reserved);
    }

    /// Counts a pop in the queue of its job.
    pub(super) fn count_popped(&mut self, slot: JobIdx) {
        let flow = &mut self.queues[self.jobs[slot].queue].flow;
        flow.count(FlowKind::Reserved);
        flow.count(FlowKind::Completed);
    }

    /// Counts a job that is about to be deleted by a client: as completed if it is reserved.
    /// `gone`: it has expired, and no client sees it.
    pub(super) fn count_deleted(&mut self, slot: JobIdx, gone: bool) {
        let job = &self.jobs[slot];
        if job.status() == Status::Reserved {
            self.queues[job.queue].flow.count(FlowKind::Completed);
        } else {
            self.totals.withdrawn += u64::from(!gone);
        }
        self.totals.counters[JobCounter::Deleted as usize] += u64::from(!gone);
    }

    /// `step`: that of the last pass.
    #[cold]
    fn sample_cold(&mut self, step: u64) {
        let now = self.flows.now;
        debug_assert!(
            step_of(now) >= self.flows.step && self.flows.walked <= now,
            "the steps of the server do not go back"
        );
        if step_of(now) > self.flows.step {
            self.rankings.drop_old(now);
            self.note_server_flow(step);
            self.flows.step = step_of(now);
            if self.flows.walk.is_none() {
                self.flows.walk = Some(0);
                self.flows.walked = now;
                self.flows.counting = StateCounts::default();
            }
        }
        let Some(from) = self.flows.walk else { return };
        let intervals = now.until(self.flows.walked).as_millis() / FLOW_WALK_INTERVAL.as_millis();
        let intervals = u32::try_from(intervals).unwrap_or(u32::MAX).max(1);
        let limit = QUEUES_PER_WALK_STEP.saturating_mul(intervals).min(QUEUES_PER_WALK_STEP_MAX);
        let mut counts = self.flows.counting;
        self.flows.walk = self.queues.note_flows(from, limit, step, &mut counts);
        self.flows.walked = now;
        self.flows.counting = counts;
        self.flows.next = if self.flows.walk.is_some() {
            now.after(FLOW_WALK_INTERVAL)
        } else {
            self.flows.counts = counts;
            let nanos = u64::try_from(FLOW_STEP.as_nanos()).unwrap_or(u64::MAX);
            Mono((self.flows.step + 1).saturating_mul(nanos))
        };
    }

    /// All changes since the start, by [`FlowKind`]. O(1).
    fn flow_sums(&self) -> [u64; FlowKind::ALL.len()] {
        let total = |counter: JobCounter| self.totals.counters[counter as usize];
        let done = total(JobCounter::Deleted) - self.totals.withdrawn;
        let done = done + total(JobCounter::Finished) + total(JobCounter::Popped);
        FlowKind::ALL.map(|kind| match kind {
            FlowKind::Put => total(JobCounter::Put),
            FlowKind::Reserved => self.totals.ready_ms.count(),
            FlowKind::Completed => done,
            FlowKind::Failed => total(JobCounter::Failed),
        })
    }

    fn note_server_flow(&mut self, step: u64) {
        let sums = self.flow_sums();
        let ready = ready_jobs(&self.job_counts());
        debug_assert!(
            sums.iter().zip(&self.flows.noted).all(|(sum, noted)| sum >= noted),
            "the sums of changes do not fall"
        );
        let changes = since(&sums, &self.flows.noted);
        let history = self.flows.server.get_or_insert_with(|| Box::new(History::new(0, 0)));
        history.add(step, &changes, ready);
        let waits = self.flows.waits.get_or_insert_with(|| Box::new(Waits::new()));
        waits.note(step, &self.totals.ready_ms);
        self.flows.noted = sums;
    }

    /// The jobs of all queues by state; with more than `QUEUES_COUNTED_AT_ONCE` queues those of the
    /// last walk. O(`QUEUES_COUNTED_AT_ONCE`).
    pub(super) fn job_counts(&self) -> StateCounts {
        if self.queues.end() > QUEUES_COUNTED_AT_ONCE {
            return self.flows.counts;
        }
        let mut sums = StateCounts::default();
        for (_, queue) in self.queues.iter() {
            for (sum, count) in sums.iter_mut().zip(state_counts(queue)) {
                *sum += count;
            }
        }
        sums
    }

    /// The rates of the server. O(1).
    pub(super) fn server_rates(&self) -> Rates {
        let changes = since(&self.flow_sums(), &self.flows.noted);
        match &self.flows.server {
            Some(history) => history.rates(self.flows.now, &changes),
            None => QueueHistory::new(0, 0).rates(self.flows.now, &changes),
        }
    }

    /// The rates of a queue. O(1).
    pub(super) fn queue_rates(&self, queue: QueueIdx) -> Rates {
        self.queues[queue].rates(self.flows.now)
    }

    /// The history of a queue, or of the server. O(steps).
    pub(super) fn history(&self, queue: Option<QueueIdx>, length: HistoryStep) -> Vec<StepCounts> {
        let now = self.flows.now;
        if let Some(queue) = queue {
            return self.queues[queue].series(length, now);
        }
        let changes = since(&self.flow_sums(), &self.flows.noted);
        let ready = ready_jobs(&self.job_counts());
        match &self.flows.server {
            Some(history) => history.series(length, now, &changes, ready),
            None => History::<SERVER_SHORT_STEPS, SERVER_LONG_STEPS>::new(0, 0)
                .series(length, now, &changes, ready),
        }
    }

    /// How long jobs were ready, in each step of the history of the server. O(steps).
    pub(super) fn waits(&self, length: HistoryStep) -> Vec<StepWaits> {
        let counted = &self.totals.ready_ms;
        let series = |waits: &Waits| waits.series(length, step_of(self.flows.now), counted);
        self.flows.waits.as_deref().map_or_else(|| series(&Waits::new()), series)
    }

    /// Asserts that the changes of all queues together are those of the server, as long as none
    /// were noted or forgotten. O(queues).
    pub(super) fn check_flows(&self) {
        if self.flows.step > 0 || self.queues.flows_forgotten() {
            return;
        }
        let sums = self.flow_sums();
        for kind in FlowKind::ALL {
            let counted = self.queues.iter().map(|(_, queue)| queue.flow.get(kind));
            let counted = counted.fold(0, u32::wrapping_add);
            assert_eq!(u64::from(counted), sums[kind as usize], "changes of queues: {kind:?}");
        }
    }

    /// The bytes of histories. O(1).
    pub(super) fn history_bytes(&self) -> usize {
        let server = self.flows.server.as_deref().map_or(0, size_of_val);
        let waits = self.flows.waits.as_deref().map_or(0, size_of_val);
        self.queues.histories * size_of::<QueueHistory>() + server + waits
    }
}

#[cfg(test)]
mod tests;
