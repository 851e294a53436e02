//! Dependencies through recovery: jobs bring the lists of what they wait for; what of it is not
//! done is found out when all jobs are there.

use super::{JobDeps, Loss};
use crate::base::slab_index::PackedOption;
use crate::base::time::Now;
use crate::model::id::JobId;
use crate::model::job::Status;
use crate::model::snapshot::{PersistedDependencies, PersistedLoss};
use crate::store::idx::{LossIdx, SourceIdx};
use crate::store::{JobIdx, RecordKey, Store};
use std::collections::BTreeMap;

impl Store {
    /// Notes the dependencies of a restored job. O(bytes).
    pub(in crate::store) fn restore_dependencies(
        &mut self,
        slot: JobIdx,
        persisted: &PersistedDependencies<'_>,
    ) {
        let PersistedDependencies { after, group, after_group, runs_if_lost } = persisted;
        debug_assert!(self.jobs[slot].deps().is_none(), "a restored job has no dependencies yet");
        let deps = JobDeps {
            after: after.as_ref().into(),
            group: group.map(|(name, run)| super::Membership {
                name: name.into(),
                run,
                is_counted: false,
            }),
            after_group: after_group.map(|(name, run)| (name.into(), run)),
            runs_if_lost: *runs_if_lost,
            ..JobDeps::default()
        };
        self.jobs.change(slot, |job| job.work_mut().deps = Some(Box::new(deps)));
        self.dependencies.restored.push(slot);
    }

    /// Restores the record of a loss. O(log l).
    pub fn restore_loss(&mut self, id: JobId, loss: PersistedLoss) -> RecordKey {
        self.ids.skip_hidden(id);
        if let Some(known) = self.dependencies.find_loss(id) {
            return RecordKey::Loss(known);
        }
        let PersistedLoss { job, below } = loss;
        let loss = Loss { job, below, source: PackedOption::NONE };
        RecordKey::Loss(self.dependencies.losses.insert(id, loss))
    }

    /// Recovery: removes the loss with this record, if there is one. O(log l).
    pub(in crate::store) fn undo_loss(&mut self, id: JobId) -> Option<LossIdx> {
        let loss = self.dependencies.find_loss(id)?;
        self.dependencies.losses.remove(loss);
        Some(loss)
    }

    /// All jobs are restored: those that wait for others are held, and losses are settled in later
    /// passes. O((k + m) log m) for k edges and m jobs with dependencies.
    pub(in crate::store) fn finish_dependencies(&mut self, now: Now) {
        let restored = std::mem::take(&mut self.dependencies.restored);
        let known = restored.into_iter().filter_map(|slot| {
            let job = self.jobs.get(slot).filter(|job| job.deps().is_some())?;
            Some((job.id(), slot))
        });
        // In the order of the puts, each once.
        let jobs: BTreeMap<u64, JobIdx> = known.collect();
        for &slot in jobs.values() {
            self.rejoin_group(slot);
        }
        let losses = self.dependencies.losses.iter();
        let losses: BTreeMap<JobId, LossIdx> =
            losses.map(|(loss, entry)| (entry.place.job, loss)).collect();
        for &slot in jobs.values() {
            let job = &self.jobs[slot];
            if job.waits() || job.status() == Status::Buried {
                self.wait_again(slot, &losses, now);
            }
        }
        for loss in losses.into_values() {
            let source = self.source_of_loss(loss);
            self.disconnects.add_source(source);
            self.spread.begin_task();
        }
    }

    fn rejoin_group(&mut self, slot: JobIdx) {
        let job = &self.jobs[slot];
        let group = job.deps().and_then(|deps| deps.group.as_ref());
        if let Some(group) = group
            && job.status() != Status::Completed
        {
            let (name, run) = (group.name.clone(), group.run);
            self.join_group(slot, &name, run);
        }
    }

    /// Finds out what a restored job waits for.
    fn wait_again(&mut self, slot: JobIdx, losses: &BTreeMap<JobId, LossIdx>, now: Now) {
        let id = JobId(self.jobs[slot].id());
        let Some(deps) = self.jobs[slot].deps() else { return };
        let (after, after_group) = (deps.after.clone(), deps.after_group.clone());
        let cancels = !deps.runs_if_lost;
        for &other in &after {
            if let Some(source) = self.restored_source(other, id, losses) {
                self.add_edge(slot, source, cancels);
            }
        }
        if let Some((name, Some(run))) = after_group {
            self.wait_for_group(slot, &name, Some(run));
        }
        let job = &self.jobs[slot];
        if job.has_unmet_dependencies() && job.waits() {
            let until = job.due(&self.deadlines).filter(|_| job.status() == Status::Delayed);
            self.unlink_cold(slot);
            self.jobs[slot].clear_links();
            self.hold_back(slot, until, now);
        }
    }

    /// The source of what a restored job was put after, if that is not done.
    fn restored_source(
        &mut self,
        other: JobId,
        dependent: JobId,
        losses: &BTreeMap<JobId, LossIdx>,
    ) -> Option<SourceIdx> {
        if let Some(slot) = self.ids.find(other.0) {
            let is_done = self.jobs[slot].status() == Status::Completed;
            return (!is_done).then(|| self.source_in(slot));
        }
        let &loss = losses.get(&other)?;
        let is_meant = dependent < self.dependencies.losses[loss].place.below;
        is_meant.then(|| self.source_of_loss(loss))
    }
}
