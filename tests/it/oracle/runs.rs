//! The native API: puts, leases under tokens, reports about runs, waits for the end of a job, and
//! lists of jobs.
//!
//! As with indexed queues, all due timers fire before such a command.

use super::keys::Put;
use super::types::{Answer, Details, LeaseFacts, Load, Queue, Text, View};
use super::workers::{Awaited, WORKER_NAME, Watcher};
use super::{Job, NewJob, Oracle};
use jobcentre::base::api_limits::{PAST_RUN_KEPT, TTR_DEFAULT_MS};
use jobcentre::base::time::{Mono, Wall};
use jobcentre::model::command::Wait;
use jobcentre::model::event::EventKind;
use jobcentre::model::external_id::Fraction;
use jobcentre::model::id::{JobId, Ticket};
use jobcentre::model::job::{LeaseToken, Retry, Status};
use jobcentre::model::manage::{JobState, LeaseTerms, Missing, RunReport};
use jobcentre::model::reply::Rejection;
use std::cmp::Ordering;

/// What the native API keeps of the runs of a job.
#[derive(Clone, Debug, Default)]
pub(crate) struct Runs {
    /// Attempts that have ended.
    pub(super) attempts: u32,
    /// Kind and message of the last error, and when it happened.
    pub(super) error: Option<(Text, Text, Wall)>,
    progress: Option<Fraction>,
    message: Option<Text>,
    lease: Option<Lease>,
    /// The token under which it was completed.
    completed_by: Option<LeaseToken>,
}

/// A lease of a job that is gone, and until when it is remembered.
pub(crate) type PastRun = (u64, LeaseToken, Mono);

/// A lease that does not end with a connection.
#[derive(Clone, Debug)]
struct Lease {
    token: LeaseToken,
    since: Wall,
    worker: Text,
    length_ms: u64,
}

impl Runs {
    /// The present run is over.
    pub(super) fn end(&mut self) {
        (self.progress, self.message, self.lease) = (None, None, None);
    }
}

impl Job {
    /// Whether it is reserved under a token.
    pub(crate) fn is_leased(&self) -> bool {
        self.runs.lease.is_some()
    }

    /// Whether its worker has said how far it is.
    pub(super) fn has_progress(&self) -> bool {
        self.runs.progress.is_some()
    }

    pub(super) fn is_limited(&self) -> bool {
        self.options().max_attempts > 0
    }

    /// Whether another attempt is left after the present one.
    fn has_attempts_left(&self) -> bool {
        self.runs.attempts + 1 < self.options().max_attempts
    }

    /// Whether it may be tried again after a failure.
    pub(super) fn has_retries_left(&self) -> bool {
        match self.options().retry {
            _ if self.is_limited() => self.has_attempts_left(),
            Some(policy) => self.retries < policy.limit,
            None => false,
        }
    }

    /// A kicked job has one more attempt at least. Says whether there was none.
    pub(super) fn raise_limit(&mut self) -> bool {
        let used_up = self.is_limited() && self.runs.attempts >= self.options().max_attempts;
        if used_up && let Some(options) = &mut self.options {
            options.max_attempts = self.runs.attempts + 1;
        }
        used_up
    }

    pub(super) fn count_attempt(&mut self) {
        self.runs.attempts += 1;
    }
}

impl Oracle {
    pub(crate) fn put_native(&mut self, ticket: Ticket, job: NewJob) {
        self.see("native: put");
        let (id, said) = match self.put_keyed(job.clone()) {
            Put::Added(id) => (id, None),
            Put::KeyTaken(id) => return self.reply(ticket, Answer::KeyTaken(id)),
            Put::Refused(why) => return self.reply(ticket, Answer::Refused(why)),
            Put::Duplicate(id) => (id, Some(Answer::Completed(id))),
        };
        match (self.find(id).is_some(), said) {
            (true, None) => return self.reply_details(ticket, id),
            (true, Some(_)) => {
                let details = Box::new(self.details(id));
                return self.reply(ticket, Answer::Duplicate(details));
            }
            (false, Some(said)) => return self.reply(ticket, said),
            (false, None) => {}
        }
        self.see("native: a pop waited for the put");
        let options = job.options.unwrap();
        let (queue, priority, load) = (job.queue, job.priority, job.load);
        let view = View { id, queue, priority, load, lease: 0 };
        let ttl = self.end_of(options.ttl_ms).filter(|end| end.0 < u64::MAX);
        let ttl = ttl.map(|end| self.wall(end));
        let details = Details {
            view,
            state: JobState::Ready,
            ttl,
            due: None,
            attempts: 0,
            max_attempts: Some(options.max_attempts).filter(|&most| most > 0),
            lease: None,
            error: None,
            progress: None,
            message: None,
            result: None,
            key: job.key.map(|key| key.bytes),
            group: job.deps.group,
            after: job.deps.after,
        };
        self.reply(ticket, Answer::Details(Box::new(details)));
    }

    pub(crate) fn put_many(&mut self, ticket: Ticket, jobs: Vec<NewJob>) {
        self.see("native: put many");
        let ids = jobs.into_iter().map(|job| self.put_keyed(job)).collect();
        self.reply(ticket, Answer::Puts(ids));
    }

    pub(super) fn add_native(&mut self, job: NewJob) -> u64 {
        let (queue, delayed) = (job.queue, job.options.is_some_and(|it| it.delay_ms > 0));
        let id = self.add(job);
        if !delayed {
            self.requeue(id);
            self.serve(&[queue]);
        }
        id
    }

    /// Reserves jobs, first one that the client holds already if that is named.
    pub(crate) fn reserve_more(
        &mut self,
        ticket: Ticket,
        first: Option<JobId>,
        (queues, limit): (&[Queue], usize),
        wait: Wait,
        terms: Option<&LeaseTerms>,
    ) {
        self.see("native: reserve");
        let is_held =
            |id: &u64| self.find(*id).is_some_and(|job| job.holder == Some(ticket.client));
        let mut next = first.map(|id| id.0).filter(is_held);
        if next.is_some() {
            self.see("native: reserve of a job that is held");
        }
        let mut list = Vec::new();
        while list.len() < limit {
            let id = match next.take().or_else(|| self.best_of(queues, ticket.client)) {
                Some(id) if self.find(id).unwrap().status == Status::Reserved => id,
                Some(id) => {
                    self.hold(id, ticket);
                    let queue = self.find(id).unwrap().queue;
                    self.serve(&[queue]);
                    id
                }
                None => break,
            };
            if let Some(terms) = terms {
                self.lease_under_token(id, terms);
            }
            list.push(self.details(id));
        }
        if list.len() > 1 {
            self.see("native: several jobs are reserved");
        }
        if list.is_empty() {
            self.wait_or_reply(ticket, queues, wait);
        } else {
            self.reply(ticket, Answer::Reserved(list));
        }
    }

    fn lease_under_token(&mut self, id: u64, terms: &LeaseTerms) {
        self.see("native: a lease under a token");
        let token = self.tokens.get(&id).and_then(|tokens| tokens.last());
        let token = *token.expect("the engine has told the token");
        let own = self.find(id).unwrap().options().lease_ms;
        let length_ms = terms.ttr_ms.unwrap_or(if own > 0 { own } else { TTR_DEFAULT_MS });
        let (since, worker) = (self.now.wall, Text::new(terms.worker.as_bytes()));
        let end = self.end_of(length_ms);
        let due = self.arm(end);
        let job = self.job(id);
        (job.holder, job.worker, job.due) = (None, None, due);
        job.runs.lease = Some(Lease { token, since, worker, length_ms });
        self.notify(id, Awaited::Release, &Answer::Done);
    }

    /// A report about the run of a job; without a token by the client that holds it.
    pub(crate) fn report_run(
        &mut self,
        ticket: Ticket,
        (id, token): (JobId, Option<LeaseToken>),
        report: &RunReport,
    ) {
        self.see(match report {
            RunReport::Complete { .. } => "report: complete",
            RunReport::Fail { .. } => "report: fail",
            RunReport::Release { .. } => "report: release",
            RunReport::Touch { .. } => "report: touch",
            RunReport::Progress { .. } => "report: progress",
        });
        if let Some(refusal) = self.refusal(ticket, (id, token), report) {
            return self.reply(ticket, refusal);
        }
        self.see_reporter(ticket, (id, token));
        let id = id.0;
        let queue = self.find(id).unwrap().queue;
        match report {
            RunReport::Complete { result } => {
                self.reply(ticket, Answer::Done);
                let result = result.as_ref();
                let result = result
                    .map(|(encoding, bytes)| Load { encoding: *encoding, text: Text::new(bytes) });
                self.complete_run(id, result);
                return self.serve_after(id, queue, false);
            }
            &RunReport::Fail { ref error, ref message, retry, delay_ms } => {
                let at = self.now.wall;
                let error = [error, message].map(|text| Text::new(text.as_bytes()));
                let [kind, message] = error;
                self.job(id).runs.error = Some((kind, message, at));
                self.fail_native(id, retry, delay_ms);
            }
            RunReport::Release { priority, delay_ms } => {
                self.record_event(id, EventKind::Aborted);
                self.end_reservation(id);
                if let Some(priority) = priority {
                    self.see("report: release with another priority");
                    self.job(id).priority = Some(number(priority));
                }
                let end = self.end_of(*delay_ms);
                self.wait_until(id, end);
            }
            RunReport::Touch { ttr_ms } => {
                let job = self.job(id);
                let own = job.options().lease_ms;
                let length_ms = match &mut job.runs.lease {
                    Some(lease) => {
                        lease.length_ms = ttr_ms.unwrap_or(lease.length_ms);
                        lease.length_ms
                    }
                    None => ttr_ms.unwrap_or(own),
                };
                let end = self.end_of(length_ms);
                self.job(id).due = self.arm(end);
            }
            RunReport::Progress { progress, message } => {
                let runs = &mut self.job(id).runs;
                runs.progress = progress.or(runs.progress);
                runs.message = message.as_ref().map(|text| Text::new(text.as_bytes()));
            }
        }
        if !matches!(report, RunReport::Touch { .. } | RunReport::Progress { .. }) {
            self.serve_after(id, queue, false);
        }
        if self.find(id).is_some() {
            self.reply_details(ticket, id);
        } else {
            self.see("report: the job is gone then");
            self.reply(ticket, Answer::Done);
        }
    }

    /// What is said of a report that is not carried out.
    fn refusal(
        &self,
        ticket: Ticket,
        (id, token): (JobId, Option<LeaseToken>),
        report: &RunReport,
    ) -> Option<Answer> {
        let completes = matches!(report, RunReport::Complete { .. });
        let stale =
            |again: bool| if again && completes { Answer::Done } else { Answer::StaleToken };
        match (self.known(id.0), token) {
            (None, None) => {
                let told = self.is_told_of_cancel(ticket.client, id);
                Some(if told { Answer::RunCancelled } else { Answer::Missing(Missing::Gone) })
            }
            (None, Some(token)) => Some(match self.absence_of(id) {
                Missing::Gone => {
                    let now = self.now.mono;
                    let is_its = |past: &PastRun| (past.0, past.1) == (id.0, token) && past.2 > now;
                    match stale(self.completed.iter().any(is_its)) {
                        Answer::StaleToken if self.cancelled.iter().any(is_its) => {
                            Answer::RunCancelled
                        }
                        answer => answer,
                    }
                }
                missing => Answer::Missing(missing),
            }),
            (Some(job), None) if job.status != Status::Reserved => {
                Some(Answer::Refused(Rejection::NotReserved(id)))
            }
            (Some(_), None) if matches!(report, RunReport::Release { .. }) => None,
            (Some(job), None) if job.holder != Some(ticket.client) => {
                Some(Answer::Refused(Rejection::ReservedByAnother(id)))
            }
            (Some(_), None) => None,
            (Some(job), Some(token)) => match &job.runs.lease {
                Some(lease) if lease.token == token => None,
                _ => Some(stale(job.runs.completed_by == Some(token))),
            },
        }
    }

    /// A job is about to be deleted: its worker is told.
    pub(super) fn note_cancelled(&mut self, id: u64) {
        let job = self.find(id).unwrap();
        if let Some(lease) = &job.runs.lease {
            let until = job.due.map_or(Mono(0), |due| due.at);
            let past = (id, lease.token, until);
            self.cancelled.push(past);
        } else if let Some(client) = job.holder {
            let kept = self.now.mono.after(PAST_RUN_KEPT);
            let until = job.due.map_or(kept, |due| due.at);
            self.cancelled_of_clients.push((id, client, until));
        }
    }

    fn complete_run(&mut self, id: u64, result: Option<Load>) {
        let until = self.now.mono.after(PAST_RUN_KEPT);
        let job = self.job(id);
        let token = job.runs.lease.as_ref().map(|lease| lease.token);
        if job.options().result_retention_ms > 0 {
            job.count_attempt();
            job.runs.completed_by = token;
        }
        if let Some(token) = token {
            self.completed.push((id, token, until));
        }
        self.complete(id, result);
    }

    fn fail_native(&mut self, id: u64, retry: bool, delay_ms: Option<u64>) {
        let job = self.job(id);
        let policy = job.options().retry;
        let again = retry && (job.has_retries_left() || !job.is_limited() && policy.is_none());
        job.count_attempt();
        self.record_event(id, EventKind::Failed);
        if !again {
            return self.put_away(id);
        }
        self.end_reservation(id);
        self.job(id).retries += 1;
        self.record_event(id, EventKind::Retried);
        let (number, policy) = (self.job(id).retries, policy.unwrap_or(Retry::DEFAULT));
        let end = match delay_ms {
            Some(delay_ms) => self.end_of(delay_ms),
            None => self.end_of_backoff(id, &policy, (number, true)),
        };
        self.wait_until(id, end);
    }

    /// A job is delayed until then, or goes back at once.
    pub(super) fn wait_until(&mut self, id: u64, end: Option<Mono>) {
        let Some(end) = end else { return self.requeue(id) };
        let ttl_end = self.find(id).unwrap().ttl_end;
        let due = self.arm(Some(ttl_end.map_or(end, |ttl_end| end.min(ttl_end))));
        let job = self.job(id);
        (job.status, job.due) = (Status::Delayed, due);
    }

    /// A reserved job with a limit of attempts has lost its worker: an attempt is used up. Says
    /// whether it goes back, or is buried.
    pub(super) fn lose_run(&mut self, id: u64, message: &'static str) -> bool {
        let at = self.now.wall;
        let job = self.job(id);
        let left = job.has_attempts_left();
        job.count_attempt();
        let error = [&b"LeaseExpired"[..], message.as_bytes()].map(Text::new);
        let [kind, message] = error;
        job.runs.error = Some((kind, message, at));
        left
    }

    pub(crate) fn await_end(&mut self, ticket: Ticket, id: JobId, wait_ms: u64) {
        self.see("native: await end");
        let Some(job) = self.managed_job(ticket, id) else { return };
        if wait_ms == 0 || matches!(job.status, Status::Completed | Status::Buried) {
            return self.reply_details(ticket, id.0);
        }
        let end = self.end_of(wait_ms);
        let due = self.arm(end);
        self.watchers.push(Watcher { ticket, id: id.0, awaited: Awaited::NativeEnd, due });
    }

    /// All jobs of a queue in a state, page after page.
    pub(crate) fn list_jobs(&mut self, ticket: Ticket, queue: Queue, state: Option<JobState>) {
        self.see("native: list");
        if !self.is_registered(queue) {
            return self.reply(ticket, Answer::Missing(Missing::Queue));
        }
        let fits =
            |job: &&Job| job.queue == queue && state.is_none_or(|state| job.api_state() == state);
        let mut jobs: Vec<&Job> = self.jobs.iter().filter(fits).collect();
        match state {
            Some(JobState::Ready) => jobs.sort_by(|one, other| match (one.status, other.status) {
                (Status::GroupOnly, Status::GroupOnly) => one.id.cmp(&other.id),
                (Status::GroupOnly, _) => Ordering::Greater,
                (_, Status::GroupOnly) => Ordering::Less,
                _ if super::order::leaves_before(one, other) => Ordering::Less,
                _ => Ordering::Greater,
            }),
            Some(JobState::Scheduled) => jobs.sort_by_key(|job| job.due),
            _ => jobs.sort_by_key(|job| job.id),
        }
        let list = jobs.iter().map(|job| self.details(job.id)).collect();
        self.reply(ticket, Answer::JobList(list));
    }

    /// Says all about a job.
    pub(super) fn reply_details(&mut self, ticket: Ticket, id: u64) {
        let details = Box::new(self.details(id));
        self.reply(ticket, Answer::Details(details));
    }

    /// All that the native API shows of a job.
    pub(super) fn details(&self, id: u64) -> Details {
        let job = self.find(id).unwrap();
        let (runs, options, state) = (&job.runs, job.options(), job.api_state());
        let until = job.due.map(|due| self.wall(due.at));
        let lease = runs.lease.as_ref();
        let reserved = job.status == Status::Reserved;
        let over = matches!(job.status, Status::Buried | Status::Completed);
        let ended = if options.tracked && !job.is_limited() {
            job.retries + u32::from(over)
        } else {
            runs.attempts
        };
        let of_worker = job.message.clone().filter(|_| state != JobState::Completed);
        let of_worker = of_worker.map(|message| (Text::new(b"Error"), message, None));
        let error = runs.error.clone().map(|(kind, message, at)| (kind, message, Some(at)));
        Details {
            view: View { lease: 0, ..job.view() },
            state,
            ttl: job.ttl_end.map(|end| self.wall(end)),
            due: until.filter(|_| state == JobState::Scheduled),
            attempts: ended + u32::from(reserved),
            max_attempts: Some(options.max_attempts).filter(|&most| most > 0),
            lease: reserved.then(|| LeaseFacts {
                worker: match (lease, job.worker) {
                    (Some(lease), _) => Some(lease.worker.clone()).filter(|name| name.len() > 0),
                    (None, worker) => worker.map(|_| Text::new(WORKER_NAME.as_bytes())),
                },
                protocol: match (job.worker, lease) {
                    (Some(_), _) => "worker",
                    (None, Some(_)) => "http",
                    (None, None) => "connection",
                },
                since: lease.map(|lease| lease.since),
                until,
            }),
            error: error.or(of_worker),
            progress: runs.progress,
            message: runs.message.clone(),
            result: job.result.clone().filter(|_| state == JobState::Completed),
            key: job.key.as_ref().map(|key| key.bytes.clone()),
            group: job.dependent.deps.group.clone(),
            after: job.dependent.deps.after.clone(),
        }
    }
}

/// A priority as the oracle knows it.
fn number(priority: &jobcentre::model::job::OwnedPriority) -> i128 {
    use jobcentre::model::job::OwnedPriority;
    match priority {
        OwnedPriority::Number(number) => (*number).into(),
        OwnedPriority::Beyond(digits) => digits.parse().unwrap(),
        OwnedPriority::Never => unreachable!("no report says so"),
    }
}
