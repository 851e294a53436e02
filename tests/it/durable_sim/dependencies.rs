//! Jobs that wait for others: what must not happen to them, whenever the program has ended.
//!
//! A job must not be handed out while one that it waits for was never asked to end, nor after one
//! was cancelled; and in the end none may be blocked by nothing.

use super::Simulation;
use super::consumers::{Consumed, JobVerb};
use super::oracle::{Asked, Certainty, Oracle};
use jobcentre::base::time::Now;
use jobcentre::engine::{CommandExecutor, Engine};
use jobcentre::model::command::Command;
use jobcentre::model::id::{ClientId, JobId, Ticket};
use jobcentre::model::job::{Encoding, JobOptions, OwnedPriority, Packet, Payload, Status};
use jobcentre::model::manage::{
    BlockedBy, JobDetails, JobState, ManageCommand, ManageReply, NewDependencies, NewJob,
};
use jobcentre::model::reply::Reply;
use std::collections::{BTreeMap, BTreeSet};

/// What a job waits for, as far as that is certain.
#[derive(Clone, Debug, Default)]
struct Dependent {
    after: Vec<u64>,
    runs_if_lost: bool,
    group: Option<u8>,
    after_group: Option<u8>,
    /// Members of that group that surely were there before.
    members: Vec<u64>,
    /// What it waits for was cancelled: it must not run.
    must_be_cancelled: bool,
}

/// What is known of all.
#[derive(Debug, Default)]
pub(super) struct DependencyModel {
    /// By what the job carries, until its id is known.
    asked: BTreeMap<Vec<u8>, Dependent>,
    jobs: BTreeMap<u64, Dependent>,
    /// Jobs whose end was asked for at any time.
    ending: BTreeSet<u64>,
    /// Requests to cancel a job, and who surely waits for it.
    cancels: BTreeMap<Ticket, Vec<u64>>,
}

const GROUPS: [&[u8]; 2] = [b"g", b"h"];

impl Simulation {
    /// Puts a job that waits for others, or is a member of a group.
    pub(super) fn put_dependent(
        &mut self,
        engine: &mut Engine,
        ticket: Ticket,
        queue: &'static [u8],
    ) {
        self.jobs_put += 1;
        let text = format!("{{\"n\":{},\"dependent\":true}}", self.jobs_put);
        let options = JobOptions {
            delay_ms: [0, 0, 20][self.rng.below(3)],
            result_retention_ms: [0, 100_000_000][self.rng.below(2)],
            ..JobOptions::default()
        };
        let payload = Payload { encoding: Encoding::Json, bytes: text.as_bytes() };
        self.oracle.ask_put(ticket, queue, payload, Some(options));
        let known: Vec<u64> = self.oracle.ids.keys().rev().take(12).copied().collect();
        let mut after = Vec::new();
        for _ in 0..self.rng.below(3) {
            let id = if known.is_empty() { continue } else { *self.rng.pick(&known) };
            if !after.contains(&id) {
                after.push(id);
            }
        }
        let mut group = |percent| {
            let some = self.rng.percent(percent);
            some.then(|| u8::from(self.rng.percent(50)))
        };
        let (group, after_group) = (group(30), group(30));
        let after_group = after_group.filter(|_| group != after_group);
        let runs_if_lost = self.rng.percent(30);
        let name = |group: Option<u8>| group.map(|group| GROUPS[usize::from(group)].into());
        let job = NewJob {
            priority: OwnedPriority::Number(1),
            encoding: Encoding::Json,
            payload: text.as_bytes().into(),
            options,
            key: None,
            dependencies: Some(Box::new(NewDependencies {
                after: after.iter().map(|&id| JobId(id)).collect(),
                group: name(group),
                after_group: name(after_group),
                runs_if_lost,
            })),
        };
        let members = self.oracle.members_of(after_group);
        let must_be_cancelled = false;
        let dependent =
            Dependent { after, runs_if_lost, group, after_group, members, must_be_cancelled };
        self.oracle.dependencies.asked.insert(text.into_bytes(), dependent);
        engine.submit(ticket, &Command::Manage(ManageCommand::Put { queue, job: &job }), self.now);
        self.take_completions(engine);
    }
}

impl Oracle {
    /// Jobs that surely are unfinished members of a group.
    fn members_of(&mut self, group: Option<u8>) -> Vec<u64> {
        let jobs = self.dependencies.jobs.iter();
        let such = jobs.filter(|(_, it)| group.is_some() && it.group == group);
        let ids: Vec<u64> = such.map(|(&id, _)| id).collect();
        ids.into_iter().filter(|&id| !self.may_have_ended(id)).collect()
    }

    /// The id of a job that was put is known.
    pub(super) fn know_dependent(&mut self, id: JobId, bytes: &[u8]) {
        if let Some(dependent) = self.dependencies.asked.remove(bytes) {
            self.dependencies.jobs.insert(id.0, dependent);
        }
    }

    /// A request may end this job.
    pub(super) fn note_ending(&mut self, asked: &Asked) {
        match asked {
            Asked::End(id)
            | Asked::Finish(id)
            | Asked::Report(id, _)
            | Asked::Follow(id)
            | Asked::Consumer(Consumed::Job(id, JobVerb::Delete))
            | Asked::Row(id) => {
                self.dependencies.ending.insert(id.0);
            }
            Asked::Queue(queue) | Asked::Pop(queue) => {
                for (&id, bytes) in &self.ids {
                    let known = &self.jobs[bytes];
                    if known.queue == *queue || known.moving.contains(queue) {
                        self.dependencies.ending.insert(id);
                    }
                }
            }
            _ => {}
        }
    }

    /// A job that others wait for, and that may be there.
    pub(super) fn awaited(&self) -> Option<JobId> {
        let is_there = |id: &u64| {
            self.ids.get(id).is_some_and(|bytes| self.jobs[bytes].ended == Certainty::No)
        };
        let newest = self.dependencies.jobs.values().rev();
        newest.flat_map(|dependent| &dependent.after).copied().find(is_there).map(JobId)
    }

    /// A client asks that a job be cancelled.
    pub(super) fn note_cancel(&mut self, ticket: Ticket, id: JobId) {
        let waits = self
            .dependencies
            .jobs
            .iter()
            .filter(|(_, it)| it.after.contains(&id.0) && !it.runs_if_lost);
        let waits = waits.map(|(&id, _)| id).collect();
        self.dependencies.cancels.insert(ticket, waits);
    }

    /// The answer to that.
    pub(super) fn on_reply_cancel(&mut self, ticket: Ticket, reply: &ManageReply) {
        let Some(waits) = self.dependencies.cancels.remove(&ticket) else { return };
        if *reply == ManageReply::Done {
            for id in waits {
                self.seen.must_be_cancelled += 1;
                self.dependencies.jobs.get_mut(&id).expect("it is known").must_be_cancelled = true;
            }
        }
    }

    fn may_have_ended(&mut self, id: u64) -> bool {
        let popping = self.is_popping();
        let ending = self.dependencies.ending.contains(&id);
        let vanishes = self.may_vanish(JobId(id));
        let known = self.known(JobId(id));
        ending
            || popping
            || vanishes
            || known.is_none_or(|known| {
                known.ended != Certainty::No
                    || known.put != Certainty::Certain
                    || known.status == Some(Status::Completed)
            })
    }

    /// Whether a job may have been cancelled because one that it waits for was lost.
    pub(super) fn may_vanish(&self, id: JobId) -> bool {
        let Some(dependent) = self.dependencies.jobs.get(&id.0) else { return false };
        let lost = |&id: &u64| {
            let known = self.ids.get(&id).and_then(|bytes| self.jobs.get(bytes));
            let ended = known.is_none_or(|known| known.ended != Certainty::No);
            ended || self.dependencies.ending.contains(&id) || self.may_vanish(JobId(id))
        };
        !dependent.runs_if_lost && dependent.after.iter().any(lost)
    }

    /// A job was handed out, or popped.
    pub(super) fn check_dependent(&mut self, id: JobId) {
        let Some(dependent) = self.dependencies.jobs.get(&id.0).cloned() else { return };
        assert!(
            !dependent.must_be_cancelled,
            "job {} runs, and what it waits for was cancelled",
            id.0
        );
        for other in dependent.after {
            assert!(self.may_have_ended(other), "job {} runs before job {other} has ended", id.0);
        }
        let open: Vec<u64> =
            dependent.members.into_iter().filter(|&member| !self.may_have_ended(member)).collect();
        assert!(open.is_empty(), "job {} runs before jobs {open:?} of its group", id.0);
        self.seen.released += 1;
    }

    pub(super) fn on_reply_popped(&mut self, packets: &[Packet]) {
        for packet in packets {
            self.seen.popped += 1;
            let id = self.ids.iter().find(|(_, bytes)| **bytes == packet.bytes[..]);
            if let Some(id) = id.map(|(&id, _)| JobId(id)) {
                self.check_dependent(id);
            }
            let known = self.jobs.get_mut(&packet.bytes[..]).expect("a packet that was not put");
            assert_ne!(known.ended, Certainty::Certain, "a packet was popped twice");
            (known.put, known.ended) = (Certainty::Certain, Certainty::Certain);
        }
    }

    /// Whether some pop is under way.
    pub(super) fn is_popping(&self) -> bool {
        self.asked.values().any(|asked| matches!(asked, Asked::Pop(_)))
    }

    /// Everything has come to its end: no job is blocked by nothing.
    pub(super) fn check_dependents(
        &mut self,
        engine: &mut Engine,
        client: ClientId,
        now: Now,
        work: &mut dyn FnMut(&mut Engine),
    ) {
        for _ in 0..100 {
            engine.expire(now);
            work(engine);
            while engine.poll_completion().is_some() {}
            if engine.poll_timeout().is_none_or(|at| at > now.mono) {
                break;
            }
        }
        let mut serial = u32::MAX / 4;
        let mut show = |id: u64| -> Option<JobDetails> {
            serial += 1;
            let ticket = Ticket { client, serial };
            let show = ManageCommand::Show { id: JobId(id) };
            engine.submit(ticket, &Command::Manage(show), now);
            for _ in 0..1_000 {
                let Some(completion) = engine.poll_completion() else {
                    work(engine);
                    continue;
                };
                if completion.ticket != ticket {
                    continue;
                }
                return match completion.reply {
                    Reply::Manage(ManageReply::Job(job)) => Some((**job).clone()),
                    _ => None,
                };
            }
            panic!("what is durable is shown")
        };
        let unfinished =
            |job: Option<JobDetails>| job.is_some_and(|job| job.state != JobState::Completed);
        let ids: Vec<u64> = self.ids.keys().copied().collect();
        let jobs: BTreeMap<u64, Dependent> = self.dependencies.jobs.clone();
        for (&id, dependent) in &jobs {
            let Some(job) = show(id) else { continue };
            assert!(
                !dependent.must_be_cancelled,
                "job {id} is there, and what it waits for was cancelled"
            );
            if job.blocked_by != Some(BlockedBy::Dependency) {
                continue;
            }
            self.seen.held += 1;
            let waits = dependent.after.iter().any(|&other| unfinished(show(other)));
            let group = dependent.after_group.map(|group| GROUPS[usize::from(group)]);
            let is_member = |job: &JobDetails| group.is_some() && job.group.as_deref() == group;
            let waits = waits
                || ids.iter().any(|&other| unfinished(show(other).filter(|job| is_member(job))));
            assert!(waits, "job {id} is blocked by nothing: {dependent:?}");
        }
    }
}
