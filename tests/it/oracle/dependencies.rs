//! Jobs that wait for other jobs, or for groups.
//!
//! What the end of a job brings about happens before waiters are matched: jobs that waited for it
//! are released, or cancelled if it was lost, one after the other in the order of the puts.

use super::types::{Queue, Text};
use super::{Job, Oracle};
use jobcentre::base::time::Mono;
use jobcentre::model::id::JobId;
use jobcentre::model::job::Status;
use jobcentre::model::manage::{JobState, NewDependencies};

/// What a put says about other jobs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Deps {
    pub(crate) after: Vec<u64>,
    pub(crate) group: Option<Text>,
    pub(crate) after_group: Option<Text>,
    pub(crate) runs_if_lost: bool,
}

/// What a job waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Before {
    Job(u64),
    Group(Text),
}

/// What a job keeps of it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Dependent {
    pub(crate) deps: Deps,
    pub(crate) waits_for: Vec<Before>,
    /// The end of its delay, while it is held.
    pub(super) until: Option<Mono>,
    /// It was done or lost, and those that wait for it were told.
    pub(super) has_ended: bool,
}

/// Something that jobs may wait for has ended.
#[derive(Clone, Debug)]
pub(super) struct Ended {
    what: Before,
    is_lost: bool,
}

impl Deps {
    pub(crate) fn for_engine(&self) -> Option<Box<NewDependencies>> {
        let Self { after, group, after_group, runs_if_lost } = self;
        let name = |name: &Option<Text>| name.as_ref().map(|name| name.bytes().into());
        let (group, after_group) = (name(group), name(after_group));
        if after.is_empty() && group.is_none() && after_group.is_none() {
            return None;
        }
        let after = after.iter().map(|&id| JobId(id)).collect();
        Some(Box::new(NewDependencies { after, group, after_group, runs_if_lost: *runs_if_lost }))
    }
}

impl Job {
    /// Whether other jobs hold it back.
    pub(crate) fn is_held(&self) -> bool {
        self.status == Status::Delayed && !self.dependent.waits_for.is_empty()
    }

    /// Its state for the native API.
    pub(super) fn api_state(&self) -> JobState {
        if self.is_held() { JobState::Blocked } else { super::manage::state_of(self.status) }
    }

    fn is_unfinished_in(&self, group: &Text) -> bool {
        let is_member = self.dependent.deps.group.as_ref() == Some(group);
        is_member && self.status != Status::Completed && !self.dependent.has_ended
    }
}

impl Oracle {
    /// Whether some job waits for others.
    pub(crate) fn has_dependents(&self) -> bool {
        self.jobs.iter().any(|job| !job.dependent.waits_for.is_empty())
    }

    /// The id among those that a put waits for that was never given out.
    pub(super) fn unknown_among(&self, deps: &Deps) -> Option<u64> {
        deps.after.iter().copied().find(|id| !(1..=self.last_id).contains(id))
    }

    /// What a new job waits for.
    pub(super) fn waits_of(&self, deps: &Deps) -> Vec<Before> {
        let is_unfinished =
            |id: &u64| self.known(*id).is_some_and(|job| job.status != Status::Completed);
        let jobs = deps.after.iter().copied().filter(is_unfinished).map(Before::Job);
        let group = deps.after_group.as_ref().filter(|group| self.is_open(group));
        jobs.chain(group.cloned().map(Before::Group)).collect()
    }

    /// A job that waits for others is held.
    pub(super) fn hold_back(&mut self, id: u64, until: Option<Mono>) {
        self.see("dependency: a job is held");
        let end = self.find(id).unwrap().ttl_end;
        let due = self.arm(end);
        let job = self.job(id);
        (job.status, job.due, job.dependent.until) = (Status::Delayed, due, until);
    }

    /// A job is done, or about to be gone otherwise.
    pub(super) fn end_job(&mut self, id: u64, is_lost: bool) {
        let job = self.job(id);
        if std::mem::replace(&mut job.dependent.has_ended, true) {
            return;
        }
        let group = job.dependent.deps.group.clone();
        self.ended.push_back(Ended { what: Before::Job(id), is_lost });
        if let Some(group) = group {
            self.end_group(group);
        }
    }

    /// Whether a group has unfinished members, or an import keeps it.
    fn is_open(&self, group: &Text) -> bool {
        self.jobs.iter().any(|job| job.is_unfinished_in(group))
            || self.kept_groups.iter().any(|(_, kept)| kept == group)
    }

    /// A group ends, unless it is open.
    pub(super) fn end_group(&mut self, group: Text) {
        if !self.is_open(&group) {
            self.ended.push_back(Ended { what: Before::Group(group), is_lost: false });
        }
    }

    /// The engine may come across jobs whose time to live is over, before it is their turn to end:
    /// what waits for them goes on then.
    pub(super) fn notice_lost(&mut self) {
        if self.waiters.is_empty() {
            return;
        }
        let is_awaited = |job: &Job| {
            let group = job.dependent.deps.group.clone().map(Before::Group);
            let before = [Some(Before::Job(job.id)), group];
            let waits = |other: &Job| {
                before.iter().flatten().any(|it| other.dependent.waits_for.contains(it))
            };
            self.jobs.iter().any(waits)
        };
        let lost = self
            .jobs
            .iter()
            .filter(|job| job.status == Status::Ready && self.has_passed(job) && is_awaited(job));
        for id in lost.map(|job| job.id).collect::<Vec<_>>() {
            if self.notices() {
                self.remove(id);
            }
        }
    }

    /// Those that wait for what has ended are released or cancelled. Returns where jobs came to.
    pub(super) fn settle_ended(&mut self) -> Vec<Queue> {
        let mut queues = Vec::new();
        while let Some(Ended { what, is_lost }) = self.ended.pop_front() {
            let waits = self.jobs.iter().filter(|job| job.dependent.waits_for.contains(&what));
            for id in waits.map(|job| job.id).collect::<Vec<_>>() {
                let job = self.job(id);
                let was_held = job.is_held();
                if is_lost && !job.dependent.deps.runs_if_lost {
                    self.see("dependency: a job is cancelled");
                    self.remove(id);
                    continue;
                }
                job.dependent.waits_for.retain(|other| *other != what);
                if !was_held || !job.dependent.waits_for.is_empty() {
                    continue;
                }
                self.see(match what {
                    Before::Job(_) if is_lost => "dependency: a job runs though one is lost",
                    Before::Job(_) => "dependency: a job is released",
                    Before::Group(_) => "dependency: a group releases a job",
                });
                self.let_go(id);
                queues.extend(self.find(id).map(|job| job.queue));
            }
        }
        queues
    }

    fn let_go(&mut self, id: u64) {
        let now = self.now.mono;
        let job = self.job(id);
        let (until, ttl_end) = (job.dependent.until.take(), job.ttl_end);
        if let Some(until) = until.filter(|&until| until > now)
            && ttl_end.is_none_or(|end| end > now)
        {
            let due = self.arm(Some(ttl_end.map_or(until, |end| end.min(until))));
            self.job(id).due = due;
        } else {
            self.requeue(id);
        }
    }
}
