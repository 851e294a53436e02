//! What jobs wait for ends: they are released, or cancelled.

use super::{JobEnds, Loss, NextEdge, Source, SourceEnd, edge_place};
use crate::base::api_limits::{
    ACTION_STEPS_PER_JOB, EDGES_DROPPED_AT_ONCE, EDGES_DROPPED_PER_STEP, LOSSES_MAX, RELEASE_WORK,
};
use crate::base::time::Now;
use crate::model::id::JobId;
use crate::model::job::Status;
use crate::model::snapshot::{PersistedLoss, Record};
use crate::store::idx::{LossIdx, SourceIdx};
use crate::store::{DirtyRecord, Effects, JobIdx, RecordKey, Store};

impl Store {
    /// A job has ended: it is done, or lost. What waits for it is settled at the end of the call.
    /// O(log g + name).
    #[inline(never)]
    pub(in crate::store) fn end_dependencies(&mut self, slot: JobIdx, is_done: bool) {
        let id = JobId(self.jobs[slot].id());
        if let Some(ends) = self.take_ends(slot) {
            let end = if is_done { SourceEnd::Done } else { SourceEnd::Lost(id) };
            self.end_all(&ends, end);
        }
    }

    /// What ends with a job that is about to be gone. O(1).
    pub(in crate::store) fn take_ends(&mut self, slot: JobIdx) -> Option<JobEnds> {
        let deps = self.jobs[slot].deps_mut()?;
        let source = std::mem::take(&mut deps.source).expand();
        let member = deps.group.as_mut().filter(|member| member.is_counted);
        let group = member.map(|member| {
            member.is_counted = false;
            member.name.clone()
        });
        (source.is_some() || group.is_some()).then_some(JobEnds { source, group })
    }

    /// A job is popped: it is done, and is counted in its queue. O(1), or what its dependencies
    /// take.
    #[inline(always)]
    pub(in crate::store) fn end_popped_job(&mut self, slot: JobIdx) {
        self.count_popped(slot);
        if self.jobs[slot].ext().is_some() {
            self.end_dependencies(slot, true);
        }
    }

    /// A packet was popped with others, and their end is recorded. O(log g + name).
    pub(in crate::store) fn end_popped(&mut self, ends: &JobEnds) {
        self.end_all(ends, SourceEnd::Done);
    }

    fn end_all(&mut self, ends: &JobEnds, end: SourceEnd) {
        if let Some(source) = ends.source {
            self.end_source(source, end);
        }
        if let Some(name) = &ends.group {
            self.leave_group(name);
        }
    }

    /// One member of a group less is unfinished.
    pub(super) fn leave_group(&mut self, name: &[u8]) {
        let group = self.dependencies.groups.get_mut(name).expect("a group with members is known");
        debug_assert!(group.unfinished > 0, "a group counts fewer members than it has");
        group.unfinished -= 1;
        if group.unfinished > 0 {
            return;
        }
        let source = group.source.expand();
        self.dependencies.groups.remove(name);
        if let Some(source) = source {
            self.end_source(source, SourceEnd::Done);
        }
    }

    fn end_source(&mut self, source: SourceIdx, end: SourceEnd) {
        let record = &mut self.dependencies.sources[source];
        debug_assert!(record.end.is_none(), "a source ends once");
        if record.count == 0 {
            self.dependencies.sources.remove(source);
            return;
        }
        record.end = Some(if record.cancelling == 0 { SourceEnd::Done } else { end });
        self.dependencies.ended.push_back(source);
        // So that it is settled before the call ends.
        self.constraints.wake();
    }

    /// Settles the next source that has ended in this call, or leaves it to later passes if the
    /// steps of this pass do not suffice. Returns whether there was one. O(log n) for each edge.
    #[inline]
    pub(in crate::store) fn settle_ended(&mut self, now: Now, fx: &mut Effects) -> bool {
        match self.dependencies.ended.pop_front() {
            None => {
                self.dependencies.has_settled = false;
                false
            }
            Some(source) => {
                self.settle_or_defer(source, now, fx);
                true
            }
        }
    }

    #[cold]
    fn settle_or_defer(&mut self, source: SourceIdx, now: Now, fx: &mut Effects) {
        let Source { count, cancelling, end, .. } = self.dependencies.sources[source];
        debug_assert!(end.is_some(), "only a source that has ended is settled");
        let cancelled = if matches!(end, Some(SourceEnd::Done)) { 0 } else { cancelling };
        let steps = count as usize + cancelled as usize * (ACTION_STEPS_PER_JOB - 1);
        let is_first = !std::mem::replace(&mut self.dependencies.has_settled, true);
        let left = self.spread.steps_left();
        let most = if is_first { self.spread.steps_left_for_release() } else { left };
        if steps <= most {
            self.waiters.note_work(steps * RELEASE_WORK);
            while self.settle_edge(source, false, now, fx) {
                self.spread.spend(1);
            }
            debug_assert_eq!(
                self.dependencies.sources[source].count, 0,
                "a source is removed when all its edges are settled"
            );
            self.dependencies.sources.remove(source);
            return;
        }
        if let Some(SourceEnd::Lost(job)) = self.dependencies.sources[source].end
            && !self.ids.is_exhausted()
            && self.dependencies.losses.len() < LOSSES_MAX
        {
            let below = JobId(self.ids.next());
            let id = self.ids.take_hidden();
            let loss = Loss { job, below, source: source.into() };
            let loss = self.dependencies.losses.insert(id, loss);
            self.dependencies.sources[source].end = Some(SourceEnd::Recorded(loss));
            fx.mark_dirty(DirtyRecord::Put(RecordKey::Loss(loss), id));
        }
        self.disconnects.add_source(source);
        self.spread.begin_task();
    }

    /// Settles an edge of a source that has ended: its job is released if it waits for nothing
    /// more, or cancelled. `on_hold`: the queue of a released job is on hold. Returns whether there
    /// was an edge. O(log n), and for a cancelled job what removing it costs.
    pub(in crate::store) fn settle_edge(
        &mut self,
        source: SourceIdx,
        on_hold: bool,
        now: Now,
        fx: &mut Effects,
    ) -> bool {
        let slot = match self.take_edge(source) {
            NextEdge::None => return false,
            NextEdge::Dropped => return true,
            NextEdge::Of(slot) => slot,
        };
        let is_lost = !matches!(self.dependencies.sources[source].end, Some(SourceEnd::Done));
        let job = &self.jobs[slot];
        if is_lost && job.deps().is_some_and(|deps| !deps.runs_if_lost) {
            self.spread.spend(ACTION_STEPS_PER_JOB - 1);
            self.cancel_dependent(slot, now, fx);
        } else if job.is_held() && !job.has_unmet_dependencies() {
            self.release_dependent(slot, on_hold, now, fx);
        }
        true
    }

    /// All edges of a source are settled. O(log l).
    pub(in crate::store) fn finish_source(&mut self, source: SourceIdx, fx: &mut Effects) {
        let record = self.dependencies.sources.remove(source);
        debug_assert!(
            record.as_ref().is_some_and(|record| record.count == 0 && record.end.is_some()),
            "a source is removed when it has ended and all its edges are settled"
        );
        if let Some(Source { end: Some(SourceEnd::Recorded(loss)), .. }) = record {
            let entry = self.dependencies.losses.remove(loss);
            fx.mark_dirty(DirtyRecord::Gone(RecordKey::Loss(loss), entry.id));
        }
    }

    /// Takes the first edge of a source.
    fn take_edge(&mut self, source: SourceIdx) -> NextEdge {
        let Some(edge) = self.dependencies.sources[source].first.expand() else {
            return NextEdge::None;
        };
        debug_assert_eq!(
            self.dependencies.edges[edge].source.expand(),
            Some(source),
            "the edges of a source name it"
        );
        let id = self.dependencies.edges[edge].dependent;
        let slot = self.ids.find(id.0);
        let Some(slot) = slot.filter(|&slot| self.jobs[slot].has_unmet_dependencies()) else {
            self.dependencies.unlink(edge);
            return NextEdge::Dropped;
        };
        self.dependencies.unlink(edge);
        let place = usize::from(self.dependencies.edges[edge].place);
        self.dependencies.edges.remove(edge);
        if let Some(deps) = self.jobs[slot].deps_mut() {
            debug_assert_eq!(deps.edges.get(place), Some(&edge), "an edge knows its place");
            deps.edges.swap_remove(place);
            if let Some(&moved) = deps.edges.get(place) {
                debug_assert_eq!(
                    usize::from(self.dependencies.edges[moved].place),
                    deps.edges.len(),
                    "the last edge takes the place of the one that goes"
                );
                self.dependencies.edges[moved].place = edge_place(place);
            }
            if deps.edges.is_empty() {
                deps.edges = Vec::new();
            }
        }
        NextEdge::Of(slot)
    }

    /// Removes a job that waits for a lost one; it is held or buried. O(log n).
    fn cancel_dependent(&mut self, slot: JobIdx, now: Now, fx: &mut Effects) {
        debug_assert!(
            matches!(self.jobs[slot].status(), Status::Delayed | Status::Buried),
            "a job that waits for others is held or buried"
        );
        self.count_deleted(slot, self.jobs[slot].is_expired_waiting(now));
        self.unlink_cold(slot);
        drop(self.remove(slot, fx));
    }

    /// A held job waits for nothing more: it becomes ready, or is delayed. O(log n).
    fn release_dependent(&mut self, slot: JobIdx, on_hold: bool, now: Now, fx: &mut Effects) {
        let until = self.jobs[slot].held_until();
        self.unlink_cold(slot);
        debug_assert!(
            !self.jobs[slot].is_held() && !self.jobs[slot].has_unmet_dependencies(),
            "a released job waits for nothing"
        );
        fx.mark_dirty(DirtyRecord::Released(JobId(self.jobs[slot].id())));
        if self.jobs[slot].is_expired(now) {
            drop(self.remove(slot, fx));
        } else if let Some(at) = until.filter(|&at| at > now.mono) {
            self.delay_until(slot, at);
        } else if on_hold {
            self.enqueue_on_hold(slot, now);
        } else {
            self.enqueue(slot, now);
            if self.jobs[slot].status() == Status::Ready {
                self.schedule_match_for_job(slot);
            }
        }
    }

    /// A job that is about to be removed waits for nothing more. O(`EDGES_DROPPED_AT_ONCE`).
    pub(in crate::store) fn drop_edges(&mut self, slot: JobIdx) {
        let Some(deps) = self.jobs[slot].deps_mut() else { return };
        let edges = std::mem::take(&mut deps.edges);
        if edges.is_empty() {
            return;
        }
        if edges.len() > EDGES_DROPPED_AT_ONCE {
            self.dependencies.dropped.push(edges);
            return self.spread.begin_task();
        }
        for edge in edges {
            self.dependencies.unlink(edge);
            self.dependencies.edges.remove(edge);
        }
    }

    /// Drops edges of jobs that are gone, and lets groups of imports go, up to what is left of the
    /// steps of a pass.
    #[inline]
    pub(in crate::store) fn run_dependencies(&mut self) {
        if self.dependencies.unfinished() > 0 {
            self.drop_some_edges();
            self.let_groups_go();
        }
    }

    #[cold]
    fn drop_some_edges(&mut self) {
        while self.spread.steps_left() > 0
            && let Some(edges) = self.dependencies.dropped.last_mut()
        {
            let from = edges.len().saturating_sub(EDGES_DROPPED_PER_STEP);
            let some = edges.split_off(from);
            if edges.is_empty() {
                self.dependencies.dropped.pop();
                self.spread.end_task();
            }
            self.spread.spend(1);
            for edge in some {
                self.dependencies.unlink(edge);
                self.dependencies.edges.remove(edge);
            }
        }
    }

    /// The base record of a loss. O(1).
    pub(in crate::store) fn loss_record(&self, loss: LossIdx) -> Record<'_> {
        let entry = &self.dependencies.losses[loss];
        Record::Loss(entry.id, PersistedLoss { job: entry.place.job, below: entry.place.below })
    }

    /// Gives a loss without a source one: recovery.
    pub(super) fn source_of_loss(&mut self, loss: LossIdx) -> SourceIdx {
        let entry = self.dependencies.losses[loss].place;
        if let Some(source) = entry.source.expand() {
            return source;
        }
        let end = Some(SourceEnd::Recorded(loss));
        let source = self.dependencies.sources.insert(Source { end, ..Source::default() });
        self.dependencies.losses.set_place(loss, Loss { source: source.into(), ..entry });
        source
    }
}
