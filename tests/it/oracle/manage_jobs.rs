//! The native API: what it does to jobs, to one at a time or to all that match.

use super::indexed_queues::State;
use super::types::{Answer, Load, Queue, Urgency};
use super::{Job, Oracle};
use jobcentre::base::time::Mono;
use jobcentre::model::event::EventKind;
use jobcentre::model::id::{JobId, Ticket};
use jobcentre::model::job::Status;
use jobcentre::model::manage::{JobState, Missing};

/// What of a job is changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) load: Option<Load>,
    pub(crate) priority: Option<Urgency>,
    pub(crate) delay_ms: Option<u64>,
    pub(crate) ttl_ms: Option<u64>,
    pub(crate) queue: Option<Queue>,
}

/// What is done to a job.
#[derive(Clone, Debug)]
pub(crate) enum Verb {
    Remove,
    Cancel,
    Kick,
    Bury,
    Change(Change),
}

/// Which jobs of a queue an action is about.
#[derive(Clone, Debug)]
pub(crate) enum Which {
    States(Vec<JobState>),
    Ids(Vec<JobId>),
    /// Those that a query for this state finds, or for any; of an indexed queue.
    Query(Option<State>),
}

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Applied {
    Changed,
    Unchanged,
    Gone,
    WrongState,
    TooLarge,
    KeyTaken(u64),
}

impl Oracle {
    pub(crate) fn manage_job(&mut self, ticket: Ticket, id: JobId, verb: &Verb) {
        self.see(match verb {
            Verb::Remove => "manage: remove",
            Verb::Cancel => "manage: cancel",
            Verb::Kick => "manage: kick",
            Verb::Bury => "manage: bury",
            Verb::Change(_) => "manage: change",
        });
        let Some(job) = self.managed_job(ticket, id) else { return };
        match self.apply(id.0, verb) {
            Applied::Changed | Applied::Unchanged => self.reply_details(ticket, id.0),
            Applied::Gone if matches!(verb, Verb::Remove | Verb::Cancel) => {
                self.reply(ticket, Answer::Done);
            }
            Applied::Gone => self.reply(ticket, Answer::Missing(Missing::Gone)),
            Applied::WrongState => {
                // Blocked is as good as ready there.
                let state = if job.is_held() { JobState::Ready } else { job.api_state() };
                self.reply(ticket, Answer::WrongState(state));
            }
            Applied::TooLarge => self.reply(ticket, Answer::TooLargeChange),
            Applied::KeyTaken(id) => self.reply(ticket, Answer::KeyTaken(id)),
        }
        self.serve_changed(&[job.queue], verb);
    }

    /// Jobs of these queues have changed, and perhaps came to another one.
    fn serve_changed(&mut self, queues: &[Queue], verb: &Verb) {
        let to = match verb {
            Verb::Change(change) => change.queue,
            _ => None,
        };
        self.serve(&[queues, to.as_slice()].concat());
    }

    pub(super) fn apply(&mut self, id: u64, verb: &Verb) -> Applied {
        let status = self.find(id).unwrap().status;
        if status == Status::Reserved {
            self.see("manage: of a job at work");
        }
        match (verb, status) {
            (Verb::Kick, Status::Delayed) if self.job(id).is_held() => Applied::WrongState,
            (Verb::Cancel | Verb::Bury, Status::Completed)
            | (Verb::Kick, Status::Reserved | Status::Completed) => Applied::WrongState,
            (Verb::Remove | Verb::Cancel, _) => {
                self.note_cancelled(id);
                self.remove(id);
                Applied::Gone
            }
            (Verb::Kick, Status::Buried | Status::Delayed) => {
                if status == Status::Buried {
                    self.outlive(id);
                    if !self.job(id).raise_limit() {
                        self.job(id).retries = 0;
                    }
                }
                self.record_event(id, EventKind::Kicked);
                self.requeue(id);
                if self.find(id).is_some() { Applied::Changed } else { Applied::Gone }
            }
            (Verb::Bury, Status::Buried) | (Verb::Kick, _) => Applied::Unchanged,
            (Verb::Bury, _) => {
                let job = self.job(id);
                if status == Status::Reserved && !job.options().tracked {
                    job.count_attempt();
                }
                self.put_away(id);
                Applied::Changed
            }
            (Verb::Change(change), _) => self.change(id, change, false),
        }
    }

    /// Does to a job what an action does, or looks whether it would. Returns whether that has
    /// changed it.
    fn act_on(&mut self, id: u64, verb: &Verb, dry_run: bool) -> bool {
        let copy = dry_run.then(|| self.clone());
        let changed = match self.apply(id, verb) {
            Applied::Changed => true,
            Applied::Gone => dry_run || matches!(verb, Verb::Remove | Verb::Cancel),
            // Only who changes it looks at its bytes, after its key.
            Applied::TooLarge => {
                let taken = |change| self.owner_elsewhere(id, change).is_some();
                dry_run && !matches!(verb, Verb::Change(change) if taken(change))
            }
            Applied::KeyTaken(_) | Applied::Unchanged | Applied::WrongState => false,
        };
        if let Some(copy) = copy {
            *self = copy;
        }
        changed
    }

    /// Who has the key of this job in the queue that a change would move it to.
    fn owner_elsewhere(&self, id: u64, change: &Change) -> Option<u64> {
        let job = self.find(id)?;
        let to = change.queue.filter(|&to| to != job.queue)?;
        let key = job.key.as_ref().filter(|key| key.is_taken)?;
        self.key_owner(to, &key.bytes)
    }

    pub(super) fn change(&mut self, id: u64, change: &Change, as_put: bool) -> Applied {
        let job = self.find(id).unwrap();
        let (status, from, due, held) = (job.status, job.queue, job.due, job.is_held());
        let dead = status == Status::Buried;
        if matches!(status, Status::Reserved | Status::Completed)
            || dead && change.delay_ms.is_some()
        {
            return Applied::WrongState;
        }
        if *change == Change::default() {
            return Applied::Unchanged;
        }
        let load = match (&change.load, job.load.key()) {
            (None, _) => job.load.clone(),
            (Some(load), None) => load.clone(),
            (Some(load), _) if as_put => load.clone(),
            (Some(load), Some(key)) => {
                let packet = Load::packet(key, load.text.bytes());
                if packet.text.len() > 65_535 {
                    return Applied::TooLarge;
                }
                packet
            }
        };
        if let Some(other) = self.owner_elsewhere(id, change) {
            self.see("key: taken in the other queue");
            return Applied::KeyTaken(other);
        }
        let job = self.find(id).unwrap();
        let ttl_end = match change.ttl_ms {
            None => job.ttl_end,
            Some(ttl_ms) => self.end_of(ttl_ms).filter(|end| end.0 < u64::MAX),
        };
        let job = self.job(id);
        (job.load, job.ttl_end) = (load, ttl_end);
        job.priority = change.priority.unwrap_or(job.priority);
        let to = change.queue.filter(|&to| to != from);
        self.move_job(id, to);
        let moment = due.map(|due| due.at);
        if held {
            let until = match change.delay_ms {
                None => self.job(id).dependent.until,
                Some(delay_ms) => self.end_of(delay_ms),
            };
            self.hold_back(id, until);
            return Applied::Changed;
        }
        let until = |end: Mono| Some(ttl_end.map_or(end, |ttl_end| end.min(ttl_end)));
        match (status, change.delay_ms) {
            (Status::Buried, _) if to.is_some() => {
                let (due, buried) = (self.arm(moment), self.tick());
                (self.job(id).due, self.job(id).buried) = (due, buried);
            }
            (Status::Buried, _) => {}
            (Status::Delayed, None) => {
                let due = self.arm(until(moment.unwrap()));
                self.job(id).due = due;
            }
            (_, None | Some(0)) => self.requeue(id),
            (_, Some(delay_ms)) => {
                let due = self.arm(until(self.end_of(delay_ms).unwrap()));
                (self.job(id).status, self.job(id).due) = (Status::Delayed, due);
            }
        }
        Applied::Changed
    }

    /// Does a number of things to jobs of a queue.
    pub(crate) fn act(
        &mut self,
        ticket: Ticket,
        (queue, verb): (Queue, &Verb),
        which: &Which,
        (limit, dry_run): (Option<u64>, bool),
    ) {
        self.see("manage: act");
        if !self.is_registered(queue) {
            return self.reply(ticket, Answer::Missing(Missing::Queue));
        }
        if matches!(which, Which::Query(_)) {
            self.see("manage: act, by a query");
            if !self.is_indexed(queue) {
                return self.reply(ticket, Answer::NoIndex);
            }
            self.index_all(ticket, queue);
        }
        let meant = |job: &&Job| {
            job.queue == queue
                && match which {
                    // Ready stands for blocked, too.
                    Which::States(states) => {
                        states.contains(&super::manage::state_of(if job.is_held() {
                            Status::Ready
                        } else {
                            job.status
                        }))
                    }
                    Which::Ids(ids) => ids.contains(&JobId(job.id)),
                    Which::Query(state) => state.is_none_or(|state| job.state() == Some(state)),
                }
        };
        let mut jobs: Vec<Job> = self.jobs.iter().filter(meant).cloned().collect();
        let matched = jobs.len() as u64;
        if matches!(which, Which::States(_)) {
            jobs.sort_by_key(|job| job.buried);
        }
        let mut done = 0;
        for job in jobs {
            if limit.is_some_and(|limit| done >= limit) {
                break;
            }
            done += u64::from(self.act_on(job.id, verb, dry_run));
        }
        let name = match verb {
            Verb::Remove | Verb::Cancel => "delete",
            Verb::Kick => "kick",
            Verb::Bury => "bury",
            Verb::Change(change) if is_move(change) => "move",
            Verb::Change(_) => "change",
        };
        let answer = Answer::Acted { verb: name, dry_run, matched: Some(matched), done };
        self.reply(ticket, answer);
        if !dry_run {
            self.serve_changed(&[queue], verb);
        }
    }

    pub(crate) fn delete_queue(&mut self, ticket: Ticket, queue: Queue, force: bool) {
        self.see("manage: delete queue");
        if !self.is_registered(queue) {
            return self.reply(ticket, Answer::Missing(Missing::Queue));
        }
        let jobs: Vec<&Job> = self.jobs.iter().filter(|job| job.queue == queue).collect();
        let reserved = jobs.iter().filter(|job| job.status == Status::Reserved).count();
        if reserved > 0 && !force {
            return self.reply(ticket, Answer::Busy(reserved as u64));
        }
        let ids: Vec<u64> = jobs.iter().map(|job| job.id).collect();
        for &id in &ids {
            self.note_cancelled(id);
            self.remove(id);
        }
        self.remove_queue(queue);
        let done = ids.len() as u64;
        let answer = Answer::Acted { verb: "delete", dry_run: false, matched: Some(done), done };
        self.reply(ticket, answer);
        self.serve(&[queue]);
    }
}

/// Whether nothing but the queue is changed.
pub(crate) fn is_move(change: &Change) -> bool {
    let queue = change.queue;
    queue.is_some() && *change == Change { queue, ..Change::default() }
}
