//! Puts of the native API.

use super::keys::Duplicate;
use crate::base::time::{Now, Wall};
use crate::model::id::{JobId, Ticket};
use crate::model::job::{Payload, TieBreak};
use crate::model::manage::{JobDetails, JobState, ManageReply, NewJob, PutOutcome};
use crate::model::reply::Rejection;
use crate::store::job_ext::NEVER;
use crate::store::{Effects, JobIdx, Store};
use std::time::Duration;

impl Store {
    /// Adds a job and answers with it. O(log n).
    pub(super) fn put_native(
        &mut self,
        ticket: Ticket,
        queue: &[u8],
        job: &NewJob,
        now: Now,
        fx: &mut Effects,
    ) {
        let reply = self.put_and_show(queue, job, now, fx);
        fx.reply(ticket, reply);
    }

    /// Adds a job and returns the answer. O(log n).
    pub(super) fn put_and_show(
        &mut self,
        queue: &[u8],
        job: &NewJob,
        now: Now,
        fx: &mut Effects,
    ) -> ManageReply {
        if let Err(rejection) = self.check_dependencies(job.dependencies.as_deref()) {
            return ManageReply::Rejected(rejection);
        }
        if let Some(duplicate) = self.find_duplicate(queue, job, now, fx) {
            self.settle_constraints(now, fx);
            return match duplicate {
                Duplicate::Job(id, slot) if self.ids.find(id.0) == Some(slot) => {
                    ManageReply::Duplicate(Box::new(self.details(slot, now)))
                }
                Duplicate::Job(id, _) | Duplicate::Completed(id) => ManageReply::Completed(id),
                Duplicate::Rejected(id) => ManageReply::KeyTaken(id),
                Duplicate::Bound(rejection) => ManageReply::Rejected(rejection),
            };
        }
        match self.add_native(queue, job, now, fx) {
            Ok((id, slot)) => {
                self.settle_constraints(now, fx);
                // A pop that waited may have taken it.
                let is_there = self.ids.find(id.0) == Some(slot);
                let details =
                    if is_there { self.details(slot, now) } else { taken(queue, job, id, now) };
                ManageReply::Job(Box::new(details))
            }
            Err(rejection) => ManageReply::Rejected(rejection),
        }
    }

    /// Adds one of several jobs. Each is a put of its own. O(log n).
    pub(super) fn put_one(
        &mut self,
        queue: &[u8],
        job: &NewJob,
        now: Now,
        fx: &mut Effects,
    ) -> PutOutcome {
        if let Err(rejection) = self.check_dependencies(job.dependencies.as_deref()) {
            return PutOutcome::Rejected(rejection);
        }
        let outcome = match self.find_duplicate(queue, job, now, fx) {
            Some(Duplicate::Job(id, _) | Duplicate::Completed(id)) => PutOutcome::Duplicate(id),
            Some(Duplicate::Rejected(id)) => PutOutcome::KeyTaken(id),
            Some(Duplicate::Bound(rejection)) => PutOutcome::Rejected(rejection),
            None => match self.add_native(queue, job, now, fx) {
                Ok((id, _)) => PutOutcome::Added(id),
                Err(rejection) => PutOutcome::Rejected(rejection),
            },
        };
        self.settle_constraints(now, fx);
        outcome
    }

    /// Adds a job, whose key is not taken. O(log n).
    fn add_native(
        &mut self,
        queue: &[u8],
        job: &NewJob,
        now: Now,
        fx: &mut Effects,
    ) -> Result<(JobId, JobIdx), Rejection> {
        if self.is_full() {
            return Err(Rejection::Full);
        }
        let payload = Payload { encoding: job.encoding, bytes: &job.payload };
        let what = (job.priority.view(), TieBreak::of(job.encoding), (payload, 0));
        let (id, slot) = self.add_job(queue, what, now, fx);
        if let Some(key) = &job.key {
            self.take_key(slot, key);
        }
        if let Some(dependencies) = &job.dependencies {
            self.take_dependencies(slot, dependencies, now, fx);
        }
        self.apply_options(slot, &job.options, now, fx);
        Ok((id, slot))
    }
}

/// A job that was taken by a pop as it was put. O(bytes).
fn taken(queue: &[u8], job: &NewJob, id: JobId, now: Now) -> JobDetails {
    let NewJob { priority, encoding, payload, options, key, dependencies } = job;
    let dependencies = dependencies.as_deref();
    let expires = now.mono.after(Duration::from_millis(options.ttl_ms));
    JobDetails {
        id,
        queue: queue.into(),
        state: JobState::Ready,
        priority: priority.clone(),
        encoding: *encoding,
        payload: payload.clone(),
        created_at: Wall(now.wall.0 / 1_000 * 1_000),
        available_at: now.wall,
        expires_at: (options.ttl_ms > 0 && expires < NEVER).then(|| now.wall_at(expires)),
        attempts: 0,
        max_attempts: Some(options.max_attempts).filter(|&most| most > 0),
        lease: None,
        last_error: None,
        progress: None,
        progress_message: None,
        result: None,
        key: key.as_ref().map(|key| key.bytes.clone()),
        group: dependencies.and_then(|new| new.group.clone()),
        after: dependencies.map_or_else(Box::default, |new| new.after.clone()),
        blocked_by: None,
        terms: None,
    }
}
