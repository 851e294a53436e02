//! Exports and imports of jobs. An export is a walk over the ids, without a snapshot: a job that is
//! there from its begin to its end and keeps its queue and state is shown once. An import adds
//! jobs with what has become of them on another server.

use super::details::state_of;
use super::keys::Duplicate;
use crate::base::api_limits::{EXPORT_BYTES_PER_PART, EXPORT_JOBS_PER_PART, LISTED_JOBS_PER_STEP};
use crate::base::time::{Mono, Now, Wall};
use crate::model::id::{ClientId, JobId, Ticket};
use crate::model::job::{Encoding, JobOptions, Payload, Status, TieBreak};
use crate::model::manage::{JobState, ManageReply, Missing, NewDependencies, PutOutcome};
use crate::model::reply::Rejection;
use crate::model::snapshot::{PersistedStatus, RunHistory, StatusSnapshot};
use crate::model::transfer::{ExportPage, ImportedJob, ImportedStage};
use crate::store::{Effects, JobIdx, Store};
use std::collections::BTreeSet;
use std::time::Duration;

/// What an imported job was put after, with the ids of the jobs before it; each id once. O(ids).
fn imported_dependencies(imported: &ImportedJob, before: &[PutOutcome]) -> Option<NewDependencies> {
    let new = imported.job.dependencies.as_deref()?;
    let here = imported.after_here.iter().filter_map(|&place| before.get(place as usize)?.id());
    let after: BTreeSet<JobId> = new.after.iter().copied().chain(here).collect();
    if after.is_empty() && new.group.is_none() && new.after_group.is_none() {
        return None;
    }
    Some(NewDependencies { after: after.into_iter().collect(), ..new.clone() })
}

impl Store {
    /// Answers with some jobs of an export. O(`LISTED_JOBS_PER_STEP` + jobs + bytes).
    pub(super) fn export(
        &self,
        ticket: Ticket,
        (queue, wanted): (Option<&[u8]>, Option<JobState>),
        from: JobId,
        now: Now,
        fx: &mut Effects,
    ) {
        let known = queue
            .map(|name| self.queues.find(name).filter(|&queue| self.queues[queue].is_listed()));
        if known == Some(None) {
            return fx.reply(ticket, ManageReply::Missing(Missing::Queue));
        }
        let queue = known.flatten();
        let (mut page, mut bytes) = (ExportPage::default(), 0);
        let next = self.ids.visit(from.0, LISTED_JOBS_PER_STEP, |_, slot| {
            let job = &self.jobs[slot];
            let fits = queue.is_none_or(|queue| job.queue == queue)
                && wanted.is_none_or(|wanted| state_of(job) == wanted)
                && job.status() != Status::Popped
                && !job.is_expired_waiting(now);
            if fits {
                let job = self.details_and_terms(slot, now);
                bytes += job.text_bytes();
                page.jobs.push(job);
            }
            page.jobs.len() < EXPORT_JOBS_PER_PART && bytes < EXPORT_BYTES_PER_PART
        });
        page.next = next.map(JobId);
        fx.reply(ticket, ManageReply::Exported(Box::new(page)));
    }

    /// Adds jobs of another server. O(log n + bytes + ids that it waits for) for each.
    pub(super) fn import(
        &mut self,
        ticket: Ticket,
        jobs: &[ImportedJob],
        now: Now,
        fx: &mut Effects,
    ) {
        let mut outcomes = Vec::with_capacity(jobs.len());
        for job in jobs {
            outcomes.push(self.import_one((ticket.client, job), &outcomes, now, fx));
            self.settle_constraints(now, fx);
        }
        fx.reply(ticket, ManageReply::Puts(outcomes.into()));
    }

    /// `before`: what has come of the jobs before it.
    fn import_one(
        &mut self,
        (client, imported): (ClientId, &ImportedJob),
        before: &[PutOutcome],
        now: Now,
        fx: &mut Effects,
    ) -> PutOutcome {
        let ImportedJob { queue, job, .. } = imported;
        if let Some(id) = imported.id {
            if self.ids.find(id.0).is_some() {
                return PutOutcome::Duplicate(id);
            }
            if self.ids.is_hidden(id) {
                return PutOutcome::Rejected(Rejection::Full);
            }
        }
        let dependencies = imported_dependencies(imported, before);
        if let Err(rejection) = self.check_dependencies(dependencies.as_ref()) {
            return PutOutcome::Rejected(rejection);
        }
        let holds_key = !matches!(imported.stage, ImportedStage::Completed { .. });
        if holds_key {
            match self.find_duplicate(queue, job, now, fx) {
                Some(Duplicate::Job(id, _) | Duplicate::Completed(id)) => {
                    return PutOutcome::Duplicate(id);
                }
                Some(Duplicate::Rejected(id)) => return PutOutcome::KeyTaken(id),
                Some(Duplicate::Bound(rejection)) => return PutOutcome::Rejected(rejection),
                None => {}
            }
        }
        if self.is_full() {
            return PutOutcome::Rejected(Rejection::Full);
        }
        let payload = Payload { encoding: job.encoding, bytes: &job.payload };
        let what = (job.priority.view(), TieBreak::of(job.encoding), (payload, 0));
        let (id, slot) = match imported.id {
            Some(id) => {
                let next = self.ids.replace_next(id.0);
                let added = self.add_job(queue, what, now, fx);
                debug_assert_eq!(added.0, id, "an imported job keeps its id");
                self.ids.skip_to(next);
                added
            }
            None => self.add_job(queue, what, now, fx),
        };
        match &job.key {
            Some(key) if holds_key => self.take_key(slot, key),
            Some(key) => self.restore_key(slot, (&key.bytes, key.ttl_ms), true),
            None => {}
        }
        if let Some(new) = &dependencies {
            if holds_key && imported.waits {
                if let Some(name) = &new.after_group {
                    self.keep_group(client, name, id);
                }
                self.take_dependencies(slot, new, now, fx);
            } else {
                self.take_met_dependencies(slot, new, holds_key);
            }
        }
        self.set_imported(slot, imported, now, fx);
        PutOutcome::Added(id)
    }

    /// Gives a new job what has become of it, and its place.
    fn set_imported(&mut self, slot: JobIdx, imported: &ImportedJob, now: Now, fx: &mut Effects) {
        let ImportedJob { job, .. } = imported;
        debug_assert!(!self.jobs[slot].is_linked(), "an imported job has no place yet");
        if let Some(at) = imported.created_at {
            let created = u32::try_from(at.0 / 1_000).unwrap_or(u32::MAX);
            self.set_created(slot, created);
        }
        if job.options != JobOptions::default() {
            self.jobs[slot].apply_options(&job.options, now);
            if self.jobs[slot].has_ttl() {
                let queue = self.jobs[slot].queue;
                self.queues[queue].ttl_jobs += 1;
            }
        }
        if !self.constraints.is_empty() {
            self.attach_limiters(slot, now);
        }
        let error = imported.last_error.as_ref();
        let error =
            error.map(|last| (&*last.error, &*last.message, last.at.unwrap_or(Wall(now.wall.0))));
        let runs = RunHistory { attempts: imported.attempts, error, ..RunHistory::default() };
        let runs = (runs != RunHistory::default()).then_some(runs);
        let result = match &imported.stage {
            ImportedStage::Completed { result: Some((encoding, bytes)), .. } => {
                Some(Payload { encoding: *encoding, bytes })
            }
            _ => None,
        };
        let state = |stage| StatusSnapshot {
            stage,
            retries: imported.retries,
            result,
            message: None,
            progress: None,
            runs,
        };
        let after = |ms: u64| -> Mono { now.mono.after(Duration::from_millis(ms)) };
        match imported.stage {
            ImportedStage::Waiting => {
                self.jobs.change(slot, |job| job.resume_runs(runs));
                self.jobs[slot].set_retries(imported.retries);
                self.delay(slot, job.options.delay_ms, now, fx);
            }
            ImportedStage::Buried(kept_ms) => {
                let queue = self.jobs[slot].queue;
                let number = self.queues[queue].buried.next_number(&self.jobs);
                let buried = PersistedStatus::Buried { number, until: kept_ms.map(after) };
                self.finish_restore_at(slot, &state(buried), now);
            }
            ImportedStage::Completed { kept_ms, .. } => {
                let completed = PersistedStatus::Completed(after(kept_ms));
                self.finish_restore_at(slot, &state(completed), now);
            }
        }
    }

    /// Sets when a new job was put. O(log n + bytes).
    fn set_created(&mut self, slot: JobIdx, created: u32) {
        if self.jobs[slot].has_row() {
            return;
        }
        let payload = self.jobs[slot].payload();
        let (encoding, bytes): (Encoding, Box<[u8]>) = (payload.encoding, payload.bytes.into());
        self.jobs.change(slot, |job| {
            job.set_payload(Payload { encoding, bytes: &bytes }, created);
        });
    }
}
