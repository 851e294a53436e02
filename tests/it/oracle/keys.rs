//! Unique keys: of jobs until they are completed, and for a while afterwards.

use super::manage_jobs::Change;
use super::timers::Due;
use super::types::{Queue, Text};
use super::{Job, NewJob, Oracle};
use jobcentre::model::id::JobId;
use jobcentre::model::job::{JobOptions, Status};
use jobcentre::model::manage::OnDuplicate;
use jobcentre::model::reply::Rejection;

/// The key of a job.
#[derive(Clone, Debug)]
pub(crate) struct Key {
    pub(crate) bytes: Text,
    pub(crate) ttl_ms: u64,
    pub(crate) on_duplicate: OnDuplicate,
    /// The job is not completed.
    pub(crate) is_taken: bool,
}

/// A key that stays taken after the completion of its job.
#[derive(Clone, Debug)]
pub(crate) struct PastKey {
    queue: Queue,
    bytes: Text,
    job: u64,
    pub(super) due: Due,
}

/// What comes of a put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Put {
    Added(u64),
    Duplicate(u64),
    KeyTaken(u64),
    Refused(Rejection),
}

impl Put {
    /// The job that is there now.
    pub(super) fn id(self) -> Option<u64> {
        match self {
            Self::Added(id) | Self::Duplicate(id) | Self::KeyTaken(id) => Some(id),
            Self::Refused(_) => None,
        }
    }
}

impl Oracle {
    /// The job that has this key of a queue, or had it.
    pub(super) fn key_owner(&self, queue: Queue, bytes: &Text) -> Option<u64> {
        let has = |job: &&Job| {
            let key = job.key.as_ref().filter(|key| key.is_taken && key.bytes == *bytes);
            job.queue == queue && key.is_some() && !self.is_over(job)
        };
        let past = self.past_keys.iter().find(|past| {
            past.queue == queue && past.bytes == *bytes && past.due.at > self.now.mono
        });
        self.jobs.iter().find(has).map(|job| job.id).or_else(|| past.map(|past| past.job))
    }

    /// A put of the native API, whose key may be taken.
    pub(super) fn put_keyed(&mut self, job: NewJob) -> Put {
        if let Some(id) = self.unknown_among(&job.deps) {
            self.see("dependency: on an unknown job");
            return Put::Refused(Rejection::UnknownJob(JobId(id)));
        }
        let put = self.put_or_find(job);
        self.serve_ended();
        put
    }

    fn put_or_find(&mut self, job: NewJob) -> Put {
        let owner = job.key.as_ref().and_then(|key| self.key_owner(job.queue, &key.bytes));
        let Some(id) = owner else { return Put::Added(self.add_native(job)) };
        let key = job.key.as_ref().unwrap();
        if key.on_duplicate == OnDuplicate::Reject {
            self.see("key: rejected");
            return Put::KeyTaken(id);
        }
        if key.on_duplicate == OnDuplicate::Replace && job.deps.for_engine().is_some() {
            self.see("key: not replaced");
            let waits = !job.deps.after.is_empty() || job.deps.after_group.is_some();
            let (after, group) = (Rejection::ReplaceAfter, Rejection::ReplaceInGroup);
            return Put::Refused(if waits { after(JobId(id)) } else { group(JobId(id)) });
        }
        let status = self.find(id).map(|job| job.status);
        match status {
            None | Some(Status::Completed) => self.see("key: of a completed job"),
            Some(Status::Reserved) => self.raise(&job, id),
            Some(_) if key.on_duplicate == OnDuplicate::Replace => self.replace(&job, id),
            Some(_) => self.raise(&job, id),
        }
        Put::Duplicate(id)
    }

    fn raise(&mut self, new: &NewJob, id: u64) {
        self.see("key: kept");
        let job = self.job(id);
        if new.priority > job.priority {
            job.priority = new.priority;
            if job.status == Status::GroupOnly {
                job.status = Status::Ready;
            }
            self.see("key: made more urgent");
            let job = self.find(id).unwrap();
            let queue = job.queue;
            if matches!(job.status, Status::Ready | Status::Blocked | Status::GroupOnly) {
                // It leaves its place, and its deadline is armed anew.
                let due = self.arm(job.ttl_end);
                self.job(id).due = due;
            }
            self.serve(&[queue]);
        }
    }

    fn replace(&mut self, new: &NewJob, id: u64) {
        self.see("key: replaced");
        let options = new.options.unwrap();
        let job = self.job(id);
        job.options = Some(JobOptions { delay_ms: 0, ttl_ms: 0, ..options });
        job.key.as_mut().unwrap().ttl_ms = new.key.as_ref().unwrap().ttl_ms;
        let change = Change {
            load: Some(new.load.clone()),
            priority: Some(new.priority),
            delay_ms: Some(options.delay_ms).filter(|_| job.status != Status::Buried),
            ttl_ms: Some(options.ttl_ms),
            queue: None,
        };
        let queue = job.queue;
        self.change(id, &change, true);
        self.serve(&[queue]);
    }

    /// A job is completed: its key is free, or stays taken for a while.
    pub(super) fn complete_key(&mut self, id: u64) {
        let job = self.job(id);
        let queue = job.queue;
        let Some(key) = job.key.as_mut().filter(|key| key.is_taken) else { return };
        key.is_taken = false;
        let (bytes, ttl_ms) = (key.bytes.clone(), key.ttl_ms);
        let end = self.end_of(ttl_ms);
        if let Some(due) = self.arm(end) {
            self.past_keys.push(PastKey { queue, bytes, job: id, due });
        }
    }
}
