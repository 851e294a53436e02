//! The store's interface for the journal: which records have changed, their contents, and how they
//! are restored.

use super::dependencies::JobDeps;
use super::job::Job;
use super::job_ext::TokenLease;
use super::rare_counts::RareStatus;
use super::worker_registry::RegisteredWorker;
use super::{JobIdx, RecordKey, Store};
use crate::base::api_limits::TTR_DEFAULT_MS;
use crate::base::time::{Now, Wall};
use crate::model::event::Event;
use crate::model::id::JobId;
use crate::model::job::{JobOptions, Status};
use crate::model::row::Row;
use crate::model::snapshot::{
    History, PersistedStatus, PersistedWorker, Record, RunHistory, Snapshot, StatusSnapshot,
};
use crate::model::worker::WorkerId;
use std::borrow::Cow;

impl Store {
    /// The slot of the job with this id. O(1).
    #[must_use]
    pub fn slot(&self, id: JobId) -> Option<JobIdx> {
        self.ids.find(id.0)
    }

    /// Whether the record under this key is the one with this id. O(1) for a job, else O(log r) for
    /// r records of its kind.
    #[must_use]
    pub fn is_record(&self, key: RecordKey, id: JobId) -> bool {
        match key {
            RecordKey::Job(slot) => self.slot(id) == Some(slot) || self.is_popped(slot, id),
            RecordKey::Queue(record) => self.queues.declared().find(id) == Some(record),
            RecordKey::Worker(worker) => self.workers.find(WorkerId(id.0)) == Some(worker),
            RecordKey::Constraint(record) => self.constraints.find_record(id) == Some(record),
            RecordKey::Pause(record) => self.pauses.find(id) == Some(record),
            RecordKey::Schedule(record) => self.schedules.find(id) == Some(record),
            RecordKey::PastKey(past) => self.unique_keys.find_past(id) == Some(past),
            RecordKey::PastRun(past) => self.past_runs.find_completed(id) == Some(past),
            RecordKey::Loss(loss) => self.dependencies.find_loss(id) == Some(loss),
        }
    }

    /// The base record of a key. O(1).
    ///
    /// # Panics
    /// If there is none.
    #[must_use]
    pub fn base_record(&self, key: RecordKey) -> Record<'_> {
        match key {
            RecordKey::Job(slot) => Record::Job(self.snapshot(slot)),
            RecordKey::Queue(record) => {
                let record = &self.queues.declared()[record];
                Record::Queue(record.id, &self.queues[record.place].name)
            }
            RecordKey::Worker(worker) => self.workers.record(worker),
            RecordKey::Constraint(record) => {
                let (id, constraint) = self.constraints.record(record);
                Record::Constraint(id, Cow::Borrowed(constraint))
            }
            RecordKey::Pause(record) => self.pause_record(record),
            RecordKey::Schedule(record) => self.schedules.record(record),
            RecordKey::PastKey(past) => self.past_key_record(past),
            RecordKey::PastRun(past) => self.past_run_record(past),
            RecordKey::Loss(loss) => self.loss_record(loss),
        }
    }

    /// The options of a job; `None` if it was put without, or if the id is not a job's. O(1).
    #[must_use]
    pub fn options(&self, id: JobId) -> Option<JobOptions> {
        let job = &self.jobs[self.ids.find(id.0)?];
        job.counts_leases().then(|| job.options())
    }

    /// For how many milliseconds the job in `slot` has been ready; of a reserved job, since it
    /// became ready last. O(1).
    ///
    /// # Panics
    /// As [`Store::view`].
    #[must_use]
    pub fn ready_for(&self, slot: JobIdx, now: Now) -> u32 {
        self.jobs[slot].ready_for(now)
    }

    /// The whole job in `slot`. O(1).
    ///
    /// # Panics
    /// As [`Store::view`].
    #[must_use]
    pub fn snapshot(&self, slot: JobIdx) -> Snapshot<'_> {
        let job = &self.jobs[slot];
        let (name, key, dependencies) = match job.work() {
            None => (None, None, None),
            Some(work) => (
                work.name.as_deref(),
                work.key.as_deref().map(|key| (&*key.bytes, key.ttl_ms)),
                work.deps.as_deref().and_then(JobDeps::persisted),
            ),
        };
        Snapshot {
            id: JobId(job.id()),
            queue: &self.queues[job.queue].name,
            priority: job.priority(),
            tie_break: job.tie_break(),
            payload: job.payload(),
            created: job.row().is_none().then(|| job.created()),
            options: job.counts_leases().then(|| job.options()),
            expires: job.has_ttl().then(|| job.expires()),
            state: self.state(slot),
            history: job.row().map(|row| History {
                state: &row.state,
                modified: row.modified,
                version: row.version,
                events: row.events.clone(),
            }),
            name,
            key,
            dependencies,
        }
    }

    /// The mutable part of the job in `slot`. O(1).
    ///
    /// # Panics
    /// As [`Store::view`].
    #[must_use]
    pub fn state(&self, slot: JobIdx) -> StatusSnapshot<'_> {
        let job = &self.jobs[slot];
        let due = || job.due(&self.deadlines);
        let stage = match job.status() {
            Status::Reserved if let Some(worker) = job.worker() => {
                PersistedStatus::Running { worker, until: due(), lease: job.lease() }
            }
            Status::Reserved if let Some(lease) = job.token_lease() => PersistedStatus::Leased {
                token: lease.token,
                until: due().unwrap_or_default(),
                since: lease.since,
                worker: &lease.worker,
            },
            Status::Ready
            | Status::Blocked
            | Status::GroupOnly
            | Status::Reserved
            | Status::Popped => PersistedStatus::Waiting,
            Status::Delayed if job.is_held() => {
                job.held_until().map_or(PersistedStatus::Waiting, PersistedStatus::Delayed)
            }
            Status::Delayed => due().map_or(PersistedStatus::Waiting, PersistedStatus::Delayed),
            Status::Completed => due().map_or(PersistedStatus::Waiting, PersistedStatus::Completed),
            Status::Buried => PersistedStatus::Buried { number: job.burial(), until: due() },
        };
        debug_assert!(
            !matches!(job.status(), Status::Completed) && job.token_lease().is_none()
                || !job.timer().is_none(),
            "a completed job, and a lease under a token, has an end"
        );
        let (result, message) = (job.result(), job.result_message());
        let progress = job.progress().filter(|_| job.is_reservation_durable());
        let (retries, runs) = (job.retries(), job.run_history());
        StatusSnapshot { stage, retries, result, message, progress, runs }
    }

    /// Restores a job, replacing one with the same id. A job of which nothing says when it was put
    /// counts as put now. O(log n + log d).
    ///
    /// # Panics
    /// If there are waiters.
    pub fn restore(&mut self, job: &Snapshot<'_>, now: Now) -> RecordKey {
        assert!(self.waiters.len() == 0, "jobs are restored before there are waiters");
        let queue = self.queues.find_or_add(job.queue);
        let wall = job.created.map_or(now.wall, |seconds| Wall(u64::from(seconds) * 1_000));
        let put = Now { wall, ..now };
        let options = job.options.as_ref().filter(|_| job.expires.is_none());
        let lease_s = options.map_or(0, |options| options.short_lease_s(job.payload.encoding));
        let payload = (job.payload, lease_s);
        let mut record = Job::new(job.id.0, queue, job.priority, job.tie_break, payload, put);
        if let Some(options) = &job.options
            && lease_s == 0
        {
            record.resume(options, job.expires);
        } else if let Some(expires) = job.expires {
            // A change has set it.
            record.ext_mut_or_insert().expires = expires;
        }
        self.queues[queue].jobs += 1;
        self.queues.list_name(queue);
        self.queues[queue].ttl_jobs += u32::from(record.has_ttl());
        let slot = if let Some(slot) = self.ids.find(job.id.0) {
            self.unlink_cold(slot);
            self.detach_from_queue(slot);
            self.jobs.change(slot, |job| *job = record);
            slot
        } else {
            let slot = self.jobs.insert(record);
            self.ids.insert(job.id.0, slot);
            slot
        };
        self.ids.skip_to(job.id.0 + 1);
        if let Some(name) = job.name {
            self.external_ids.assign(name, slot, &mut self.jobs);
        }
        if let Some((key, ttl_ms)) = job.key {
            let completed = matches!(job.state.stage, PersistedStatus::Completed(_));
            self.restore_key(slot, (key, ttl_ms), completed);
        }
        if let Some(dependencies) = &job.dependencies {
            self.restore_dependencies(slot, dependencies);
        }
        if let Some(history) = &job.history {
            let queue = &mut self.queues[queue];
            queue.start_indexing();
            let index = queue.index_mut();
            let row = self
                .jobs
                .change(slot, |job| index.make_row(job, None, history.state, history.modified));
            let History { version, ref events, .. } = *history;
            let row = Row { version, events: events.clone(), ..(*row).clone() };
            self.jobs.change(slot, |job| index.replace_row(job, row));
        }
        debug_assert_eq!(self.ids.find(job.id.0), Some(slot), "a job is found by its id");
        self.finish_restore_at(slot, &job.state, now);
        RecordKey::Job(slot)
    }

    /// Restores an event of a job, whose row had this version after it. O(log n).
    pub fn restore_event(&mut self, id: JobId, version: u64, event: Event) {
        let Some(slot) = self.ids.find(id.0) else { return };
        self.queues.restore_event(slot, version, event, &mut self.jobs);
    }

    /// Restores the declaration of a queue. O(log q).
    pub fn restore_queue(&mut self, id: JobId, name: &[u8]) -> RecordKey {
        self.ids.skip_hidden(id);
        let known = self.queues.declared().find(id);
        RecordKey::Queue(known.unwrap_or_else(|| self.queues.declare(id, name)))
    }

    /// Restores a registered worker. O(log w).
    pub fn restore_worker(&mut self, id: WorkerId, worker: &PersistedWorker<'_>) -> RecordKey {
        self.ids.skip_to(id.0 + 1);
        if let Some(place) = self.workers.find(id) {
            return RecordKey::Worker(place);
        }
        let PersistedWorker { name, url, max_jobs, ref queues } = *worker;
        let queues = queues.as_ref().map(|names| names.iter().copied());
        let worker = RegisteredWorker::new(name, url, max_jobs, queues);
        RecordKey::Worker(self.workers.register(id, worker))
    }

    /// Ends the restoration: jobs reserved by workers that are not registered any more become
    /// ready, buried jobs come into their order, and constraints are applied to all jobs.
    /// O(w + h log n + q + b log b) for b buried jobs, and O(jobs) if there are constraints.
    pub fn finish_restore(&mut self, now: Now) {
        assert!(self.waiters.len() == 0, "clients come after the restoration");
        self.sort_buried();
        for place in self.workers.deregistered() {
            while let Some(slot) = self.reservations.first_detached(place) {
                self.unlink_cold(slot);
                self.enqueue(slot, now);
            }
            self.workers.remove_entry(place);
        }
        self.finish_dependencies(now);
        self.finish_constraint_scan(now);
        self.finish_schedules(now);
        self.queues.unlist_idle();
    }

    /// Sets a later state of a restored job, if it exists. O(log n + log d).
    pub fn restore_state(&mut self, id: JobId, state: &StatusSnapshot<'_>, now: Now) {
        let Some(slot) = self.ids.find(id.0) else { return };
        self.unlink_cold(slot);
        self.jobs[slot].clear_links();
        self.finish_restore_at(slot, state, now);
    }

    /// Removes a restored job, declaration, worker, pause, schedule, past key or constraint, if it
    /// exists. O(log n + log d), and O(h log n) for the h jobs that a pause has withheld.
    pub fn undo_restore(&mut self, id: JobId) -> Option<RecordKey> {
        if let Some(slot) = self.ids.find(id.0) {
            self.unlink_cold(slot);
            drop(self.remove_unjournaled(slot));
            return Some(RecordKey::Job(slot));
        }
        if let Some(slot) = self.queues.declared().find(id) {
            let queue = self.queues.declared()[slot].place;
            let ended = self.queues.end_declaration(queue);
            debug_assert_eq!(ended, Some((slot, id)), "a queue has another declaration");
            return Some(RecordKey::Queue(slot));
        }
        if let Some(place) = self.workers.find(WorkerId(id.0)) {
            // Its entry stays until the end of recovery: jobs may be reserved by it.
            self.workers.remove(place);
            return Some(RecordKey::Worker(place));
        }
        if let Some(record) = self.undo_pause(id) {
            return Some(RecordKey::Pause(record));
        }
        if let Some(record) = self.undo_schedule(id) {
            return Some(RecordKey::Schedule(record));
        }
        if let Some(past) = self.undo_past_key(id) {
            return Some(RecordKey::PastKey(past));
        }
        if let Some(past) = self.undo_past_run(id) {
            return Some(RecordKey::PastRun(past));
        }
        if let Some(loss) = self.undo_loss(id) {
            return Some(RecordKey::Loss(loss));
        }
        self.constraints.undo_restore(id).map(RecordKey::Constraint)
    }

    /// All ids given so far are below this one.
    #[must_use]
    pub fn next_id(&self) -> JobId {
        JobId(self.ids.next())
    }

    /// Makes all ids given from now on at least `next`.
    pub fn skip_ids(&mut self, next: JobId) {
        self.ids.skip_to(next.0);
    }

    /// Links a restored job as its state says.
    pub(in crate::store) fn finish_restore_at(
        &mut self,
        slot: JobIdx,
        state: &StatusSnapshot<'_>,
        now: Now,
    ) {
        debug_assert!(!self.jobs[slot].is_linked(), "a job is in no list before it has a state");
        debug_assert!(
            self.jobs[slot].timer().is_none(),
            "a job has no deadline before it has a state"
        );
        // Records of earlier versions have the progress of runs that ended with the server.
        let goes_on =
            matches!(state.stage, PersistedStatus::Running { .. } | PersistedStatus::Leased { .. });
        let runs = state.runs.map(|runs| RunHistory {
            progress_message: runs.progress_message.filter(|_| goes_on),
            ..runs
        });
        self.jobs.change(slot, |job| {
            job.resume_outcome(state.result, state.message);
            job.resume_runs(runs);
        });
        let job = &mut self.jobs[slot];
        job.set_retries(state.retries);
        job.set_progress(state.progress.filter(|_| goes_on));
        match state.stage {
            PersistedStatus::Waiting => self.enqueue(slot, now),
            PersistedStatus::Running { worker, until, lease } => {
                job.set_status(Status::Reserved);
                job.set_worker(Some(worker));
                job.resume_lease(lease);
                let place = self.workers.find_or_add(worker);
                self.reservations.link_detached(place, slot, &mut self.jobs);
                if let Some(at) = until {
                    self.jobs.arm(slot, at, &mut self.deadlines);
                }
            }
            PersistedStatus::Leased { token, until, since, worker } => {
                job.set_status(Status::Reserved);
                let own = job.options().lease_ms;
                let lease_ms = if own > 0 { own } else { TTR_DEFAULT_MS };
                let lease = TokenLease { token, since, worker: worker.into(), lease_ms };
                self.jobs.change(slot, |job| job.runs_mut().lease = Some(lease));
                self.reservations.link_token(slot, &mut self.jobs);
                self.jobs.arm(slot, until, &mut self.deadlines);
            }
            PersistedStatus::Delayed(at) => {
                self.set_rare_status(slot, RareStatus::Delayed);
                self.jobs.arm(slot, at, &mut self.deadlines);
                self.list_delayed(slot);
            }
            PersistedStatus::Completed(at) => {
                self.release_key(slot);
                self.set_rare_status(slot, RareStatus::Completed);
                self.jobs.arm(slot, at, &mut self.deadlines);
            }
            PersistedStatus::Buried { number, until } => {
                self.set_rare_status(slot, RareStatus::Buried);
                let queue = self.jobs[slot].queue;
                self.queues[queue].buried.link_numbered(slot, number, &mut self.jobs);
                if let Some(at) = until {
                    self.jobs.arm(slot, at, &mut self.deadlines);
                }
            }
        }
    }
}
