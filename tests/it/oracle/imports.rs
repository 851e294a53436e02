//! The native API: jobs on their way to another server, and jobs of another server, with what has
//! become of them there.

use super::keys::Put;
use super::types::{Answer, Load, Queue, Text};
use super::{Job, NewJob, Oracle};
use jobcentre::base::time::Wall;
use jobcentre::model::id::{ClientId, JobId, Ticket};
use jobcentre::model::job::Status;
use jobcentre::model::manage::{JobState, Missing};
use jobcentre::model::reply::Rejection;
use std::collections::BTreeSet;

/// A job of another server.
#[derive(Clone, Debug)]
pub(crate) struct Imported {
    pub(crate) job: NewJob,
    pub(crate) attempts: u32,
    pub(crate) error: Option<(Text, Text, Wall)>,
    pub(crate) stage: Stage,
    /// The places of jobs before it that it was put after.
    pub(crate) after_here: Vec<usize>,
    /// Whether it waits for what it was put after.
    pub(crate) waits: bool,
}

/// What it is to be.
#[derive(Clone, Debug)]
pub(crate) enum Stage {
    Waiting,
    Buried,
    /// Kept for so long.
    Completed(Option<Load>, u64),
}

impl Oracle {
    /// The import of a client is over, or it is gone: it keeps no groups any more.
    pub(crate) fn end_import(&mut self, client: ClientId) {
        let mut over: Vec<Text> = Vec::new();
        self.kept_groups.retain(|(keeper, group)| {
            if *keeper == client {
                over.push(group.clone());
            }
            *keeper != client
        });
        over.sort_by(|one, other| one.bytes().cmp(other.bytes()));
        for group in over {
            self.see("import: a group is let go");
            self.end_group(group);
        }
    }

    pub(crate) fn finish_import(&mut self, ticket: Ticket) {
        self.see("native: end of an import");
        self.end_import(ticket.client);
        self.serve_ended();
        self.reply(ticket, Answer::Done);
    }

    pub(crate) fn import(&mut self, ticket: Ticket, jobs: Vec<Imported>) {
        self.see("native: import");
        let mut ids = Vec::new();
        for job in jobs {
            let put = self.import_one(ticket.client, job, &ids);
            self.serve_ended();
            ids.push(put);
        }
        self.reply(ticket, Answer::Puts(ids));
    }

    /// All jobs, or those of a queue, by id.
    pub(crate) fn export(&mut self, ticket: Ticket, queue: Option<Queue>, state: Option<JobState>) {
        self.see("native: export");
        if queue.is_some_and(|queue| !self.is_registered(queue)) {
            return self.reply(ticket, Answer::Missing(Missing::Queue));
        }
        let fits = |job: &&Job| {
            queue.is_none_or(|queue| job.queue == queue)
                && state.is_none_or(|state| job.api_state() == state)
        };
        let mut ids: Vec<u64> = self.jobs.iter().filter(fits).map(|job| job.id).collect();
        ids.sort_unstable();
        let list = ids.into_iter().map(|id| self.details(id)).collect();
        self.reply(ticket, Answer::JobList(list));
    }

    fn import_one(&mut self, client: ClientId, imported: Imported, before: &[Put]) -> Put {
        let Imported { mut job, attempts, error, stage, after_here, waits } = imported;
        let here = after_here.into_iter().filter_map(|place| before[place].id());
        let after: BTreeSet<u64> = job.deps.after.iter().copied().chain(here).collect();
        job.deps.after = after.into_iter().collect();
        if let Some(id) = self.unknown_among(&job.deps) {
            self.see("import: after an unknown job");
            return Put::Refused(Rejection::UnknownJob(JobId(id)));
        }
        if let Some(key) = &mut job.key {
            key.is_taken = !matches!(stage, Stage::Completed(..));
        }
        let key = job.key.as_ref().filter(|key| key.is_taken);
        if let Some(id) = key.and_then(|key| self.key_owner(job.queue, &key.bytes)) {
            return Put::KeyTaken(id);
        }
        let (queue, delayed) = (job.queue, job.options.is_some_and(|it| it.delay_ms > 0));
        let is_met = !waits || matches!(stage, Stage::Completed(..));
        let met = is_met.then(|| std::mem::take(&mut job.deps));
        if let Some(group) = &job.deps.after_group {
            let kept = (client, group.clone());
            if !self.kept_groups.contains(&kept) {
                self.kept_groups.push(kept);
            }
        }
        let id = self.add(job);
        if let Some(deps) = met {
            self.job(id).dependent.deps = deps;
        } else if !self.job(id).dependent.waits_for.is_empty() {
            self.see("import: a job waits");
        }
        let runs = &mut self.job(id).runs;
        (runs.attempts, runs.error) = (attempts, error);
        match stage {
            Stage::Waiting if delayed => {}
            Stage::Waiting => {
                self.requeue(id);
                self.serve(&[queue]);
            }
            Stage::Buried => {
                let buried = self.tick();
                let job = self.job(id);
                (job.status, job.due, job.buried) = (Status::Buried, None, buried);
            }
            Stage::Completed(result, kept_ms) => {
                let end = self.end_of(kept_ms);
                let due = self.arm(end);
                let job = self.job(id);
                (job.status, job.due, job.result) = (Status::Completed, due, result);
            }
        }
        Put::Added(id)
    }
}
