//! Indexed queues: commands on them, and the rows of their jobs.
//!
//! While there are indexed queues, all due timers fire before anything else happens: whether a
//! queue exists must not depend on expired jobs, which an engine may or may not have deleted.

use super::types::{Answer, Load, Queue, Text};
use super::{Job, NewJob, Oracle};
use jobcentre::base::limits::POLL_ROWS_PER_STEP;
use jobcentre::model::event::{Event, EventKind, EventLog};
use jobcentre::model::id::{JobId, Ticket};
use jobcentre::model::job::Status;
use jobcentre::model::manage::Missing;
use jobcentre::model::row::Row;

/// A state, as canonical JSON.
pub(crate) type State = &'static [u8];

/// That of a job that was given none.
const FIRST_STATE: State = b"null";

/// What a query asks of a job that has a record.
pub(crate) type Fits<'a> = &'a dyn Fn(&Job) -> bool;

/// What is known of an indexed queue.
#[derive(Clone, Debug, Default)]
pub(crate) struct Indexed {
    declared: bool,
    /// When one of its jobs was changed last, in seconds.
    last: u64,
}

/// What is known of a job of an indexed queue.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    version: u64,
    state: State,
    events: Vec<Event>,
    modified: u64,
}

impl Job {
    /// The state that the clients of its indexed queue have given it.
    pub(crate) fn state(&self) -> Option<State> {
        self.record.as_ref().map(|record| record.state)
    }
}

impl Oracle {
    pub(crate) fn is_indexing(&self) -> bool {
        self.indexed.iter().any(Option::is_some)
    }

    pub(crate) fn is_indexed(&self, queue: Queue) -> bool {
        self.indexed[queue].is_some()
    }

    pub(crate) fn exists(&self, queue: Queue) -> bool {
        let declared = self.indexed[queue].as_ref().is_some_and(|indexed| indexed.declared);
        self.names[queue] == b"default"
            || declared
            || self.jobs.iter().any(|job| job.queue == queue)
    }

    /// How many queues are declared.
    pub(crate) fn declared(&self) -> usize {
        self.indexed.iter().flatten().filter(|indexed| indexed.declared).count()
    }

    /// What no longer exists is not indexed.
    pub(crate) fn drop_indexes(&mut self) {
        for queue in 0..self.names.len() {
            if !self.exists(queue) {
                self.indexed[queue] = None;
            }
        }
    }

    /// A queue without jobs is neither declared nor indexed any more.
    pub(super) fn remove_index(&mut self, queue: Queue) {
        self.indexed[queue] = None;
    }

    /// A job has changed and is in another queue, if one is named. Its record goes with it, if
    /// that queue is indexed.
    pub(super) fn move_job(&mut self, id: u64, to: Option<Queue>) {
        let job = self.job(id);
        job.queue = to.unwrap_or(job.queue);
        let queue = job.queue;
        if to.is_some() {
            self.register_queue(queue);
        }
        if self.indexed[queue].is_none() {
            let job = self.job(id);
            if job.record.take().is_some() {
                job.created = job.created.min(u32::MAX.into());
            }
        } else if self.job(id).record.is_some() {
            self.record_event(id, EventKind::Changed);
        } else if to.is_some() {
            self.record(id);
        }
        self.drop_indexes();
    }

    /// Whether a job of a queue would get its first row in another one with a time that the clock,
    /// which has been set back, has not reached: events after it happen no earlier.
    pub(crate) fn has_rows_from_the_future(&self, from: Queue, to: Queue) -> bool {
        let Some(indexed) = &self.indexed[to] else { return false };
        let now = indexed.last.max(self.now.wall.0 / 1_000);
        let mut jobs = self.jobs.iter().filter(|job| job.queue == from);
        jobs.any(|job| job.record.is_none() && job.created > now)
    }

    fn second(&mut self, queue: Queue) -> u64 {
        let indexed = self.indexed[queue].as_mut().unwrap();
        indexed.last = indexed.last.max(self.now.wall.0 / 1_000);
        indexed.last
    }

    /// When a job counts as put whose queue is not indexed.
    pub(crate) fn created(&self) -> u64 {
        (self.now.wall.0 / 1_000).min(u64::from(u32::MAX))
    }

    /// Makes the record of a new job, if its queue is indexed.
    pub(crate) fn record_new(&mut self, id: u64) {
        let queue = self.job(id).queue;
        if self.indexed[queue].is_some() {
            self.job(id).created = self.second(queue);
            self.record(id);
        }
    }

    /// Makes the record of a job of an indexed queue, unless it has one.
    fn record(&mut self, id: u64) {
        let job = self.job(id);
        let (queue, created) = (job.queue, job.created);
        if job.record.is_none() {
            let event = Event { kind: EventKind::Created, at: created };
            let (events, state) = (vec![event], FIRST_STATE);
            job.record = Some(Record { version: 1, state, events, modified: created });
            let indexed = self.indexed[queue].as_mut().unwrap();
            indexed.last = indexed.last.max(created);
        }
    }

    /// Something has happened to a job.
    pub(crate) fn record_event(&mut self, id: u64, what: EventKind) {
        let job = self.job(id);
        if job.record.is_none() {
            return;
        }
        let queue = job.queue;
        let at = self.second(queue);
        self.see(what.tag());
        let record = self.job(id).record.as_mut().unwrap();
        record.version += 1;
        record.modified = at;
        record.events.push(Event { kind: what, at });
    }

    /// Everything about a job that has a record.
    fn row(&self, job: &Job) -> Row {
        let record = job.record.as_ref().unwrap();
        let with = |events: EventLog, event: &Event| events.with(event.clone());
        Row {
            id: JobId(job.id),
            version: record.version,
            queue: self.names[job.queue].into(),
            priority: job.priority.map(|number| number.to_string().into()),
            encoding: job.load.encoding,
            payload: job.load.text.bytes().into(),
            state: record.state.into(),
            events: record.events.iter().fold(EventLog::default(), with),
            modified: record.modified,
        }
    }

    fn set_state(&mut self, id: u64, new: State) {
        let record = self.job(id).record.as_mut().unwrap();
        let old = std::mem::replace(&mut record.state, new);
        self.record_event(id, EventKind::Advanced { old: old.into(), new: new.into() });
    }

    fn reply_row(&mut self, ticket: Ticket, id: u64) {
        let row = self.row(self.find(id).unwrap());
        self.reply(ticket, Answer::Row(Box::new(row)));
    }

    /// A queue that is named by a command becomes indexed; whether it exists. If not, that is said.
    fn index(&mut self, ticket: Ticket, queue: Queue) -> bool {
        if !self.exists(queue) {
            self.reply(ticket, Answer::NoQueue);
            return false;
        }
        self.indexed[queue].get_or_insert_default();
        self.register_queue(queue);
        true
    }

    /// The same, and its jobs have records.
    pub(crate) fn index_all(&mut self, ticket: Ticket, queue: Queue) -> bool {
        let exists = self.index(ticket, queue);
        let jobs = self.jobs.iter().filter(|job| exists && job.queue == queue);
        for id in jobs.map(|job| job.id).collect::<Vec<_>>() {
            self.record(id);
        }
        exists
    }

    /// The rows of a queue that a query asks for, those first that were not changed for the longest
    /// time. `None` if there is no such queue, which is said.
    pub(crate) fn search(
        &mut self,
        ticket: Ticket,
        queue: Queue,
        fits: Fits<'_>,
    ) -> Option<Vec<Row>> {
        if !self.index_all(ticket, queue) {
            return None;
        }
        let jobs = self.jobs.iter().filter(|job| job.queue == queue && fits(job));
        let mut rows: Vec<Row> = jobs.map(|job| self.row(job)).collect();
        rows.sort_by_key(|row| (row.modified, row.id));
        Some(rows)
    }

    /// The jobs of an indexed queue that a query asks for, by id.
    pub(crate) fn search_list(&mut self, ticket: Ticket, queue: Queue, fits: Fits<'_>) {
        self.see("native: search");
        if !self.is_registered(queue) {
            return self.reply(ticket, Answer::Missing(Missing::Queue));
        }
        if !self.is_indexed(queue) {
            return self.reply(ticket, Answer::NoIndex);
        }
        let rows = self.search(ticket, queue, fits).unwrap_or_default();
        let mut ids: Vec<u64> = rows.iter().map(|row| row.id.0).collect();
        ids.sort_unstable();
        let list = ids.into_iter().map(|id| self.details(id)).collect();
        self.reply(ticket, Answer::JobList(list));
    }

    pub(crate) fn index_on(&mut self, ticket: Ticket, queue: Queue) {
        self.see("native: index on");
        self.indexed[queue].get_or_insert_default().declared = true;
        self.index_all(ticket, queue);
        self.reply(ticket, Answer::Index(true));
    }

    pub(crate) fn index_off(&mut self, ticket: Ticket, queue: Queue) {
        self.see("native: index off");
        if !self.is_registered(queue) {
            return self.reply(ticket, Answer::Missing(Missing::Queue));
        }
        self.indexed[queue] = None;
        for job in self.jobs.iter_mut().filter(|job| job.queue == queue) {
            if job.record.take().is_some() {
                job.created = job.created.min(u32::MAX.into());
            }
        }
        self.reply(ticket, Answer::Index(false));
    }

    pub(crate) fn queues(&mut self, ticket: Ticket) {
        self.see("indexed: queues");
        let jobs = |queue: Queue| self.jobs.iter().filter(|job| job.queue == queue).count();
        let there = (0..self.names.len()).filter(|&queue| self.exists(queue));
        let said = there.map(|queue| (queue, u32::try_from(jobs(queue)).unwrap())).collect();
        self.reply(ticket, Answer::Queues(said));
    }

    pub(crate) fn create_queue(&mut self, ticket: Ticket, queue: Queue) {
        self.see("indexed: create queue");
        if self.exists(queue) {
            return self.reply(ticket, Answer::QueueExists);
        }
        self.indexed[queue] = Some(Indexed { declared: true, last: 0 });
        self.register_queue(queue);
        self.reply(ticket, Answer::Queue(queue));
    }

    pub(crate) fn drop_queue(&mut self, ticket: Ticket, queue: Queue) {
        self.see("indexed: drop queue");
        if !self.index(ticket, queue) {
            return;
        }
        let jobs: Vec<&Job> = self.jobs.iter().filter(|job| job.queue == queue).collect();
        let reserved = jobs.iter().any(|job| job.status == Status::Reserved);
        let ids: Vec<u64> = jobs.iter().map(|job| job.id).collect();
        // Those that are over are removed with the others, and not counted.
        let count = jobs.iter().filter(|job| !self.is_over(job)).count();
        if reserved {
            self.see("a job at work was dropped");
        }
        for &id in &ids {
            self.remove(id);
        }
        if let Some(indexed) = &mut self.indexed[queue] {
            indexed.declared = false;
        }
        self.drop_indexes();
        self.reply(ticket, Answer::Dropped(u32::try_from(count).unwrap()));
        if !self.constraints.is_empty() {
            self.serve_everywhere();
        }
    }

    pub(crate) fn list(&mut self, ticket: Ticket, queue: Queue) {
        self.see("indexed: list");
        if let Some(rows) = self.search(ticket, queue, &|_| true) {
            self.reply(ticket, Answer::Rows(rows));
        }
    }

    pub(crate) fn find_rows(
        &mut self,
        ticket: Ticket,
        queue: Queue,
        fits: Fits<'_>,
        limit: Option<u64>,
    ) {
        self.see("indexed: find");
        if let Some(mut rows) = self.search(ticket, queue, fits) {
            rows.truncate(limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap()));
            self.reply(ticket, Answer::Found(rows));
        }
    }

    pub(crate) fn poll(&mut self, ticket: Ticket, queue: Queue, fits: Fits<'_>, new: State) {
        self.see("indexed: poll");
        let Some(found) = self.search(ticket, queue, fits) else { return };
        let first = found.first().and_then(|row| self.find(row.id.0)).map(|job| job.status);
        self.see(match first {
            None => "a poll found nothing",
            Some(Status::Reserved) => "a poll found a job at work",
            Some(_) => "a poll found a job",
        });
        let done = self.poll_found(ticket, &found, new);
        assert!(done, "nothing has changed since the search");
    }

    /// Gives the first of these rows that has not changed since another state, and shows it. False
    /// if all have changed, and nothing is said.
    pub(crate) fn poll_found(&mut self, ticket: Ticket, found: &[Row], new: State) -> bool {
        if found.is_empty() {
            self.reply(ticket, Answer::NoJob);
            return true;
        }
        let same = |row: &&Row| {
            let record = self.find(row.id.0).and_then(|job| job.record.as_ref());
            record.is_some_and(|record| record.version == row.version)
        };
        let most = usize::try_from(POLL_ROWS_PER_STEP).unwrap();
        let Some(id) = found.iter().take(most).find(same).map(|row| row.id) else {
            self.see("what was found had changed");
            return false;
        };
        if id != found[0].id {
            self.see("the first that was found had changed");
        }
        self.set_state(id.0, new);
        self.reply_row(ticket, id.0);
        true
    }

    pub(crate) fn put_row(&mut self, ticket: Ticket, queue: Queue, load: Load, state: State) {
        self.see("indexed: put");
        if !self.index(ticket, queue) {
            return;
        }
        let id = self.add(NewJob::plain(queue, Some(0), load));
        self.job(id).record.as_mut().unwrap().state = state;
        self.reply_row(ticket, id);
        self.requeue(id);
        self.serve(&[queue]);
    }

    /// Does something about a job of a queue that has a record; if nothing is said then, its row
    /// is.
    fn about_row(
        &mut self,
        ticket: Ticket,
        queue: Queue,
        id: JobId,
        act: impl FnOnce(&mut Self, u64) -> Option<Answer>,
    ) {
        if !self.index(ticket, queue) {
            return;
        }
        self.meet_over(id, "over: met by an indexed command");
        let Some(job) = self.find(id.0).filter(|job| job.queue == queue) else {
            return self.reply(ticket, Answer::NoJob);
        };
        let working = job.status == Status::Reserved;
        self.see(if working { "record: of a job at work" } else { "record: of another job" });
        self.record(id.0);
        match act(self, id.0) {
            Some(said) => self.reply(ticket, said),
            None => self.reply_row(ticket, id.0),
        }
    }

    pub(crate) fn show(&mut self, ticket: Ticket, queue: Queue, id: JobId) {
        self.see("indexed: show");
        self.about_row(ticket, queue, id, |_, _| None);
    }

    pub(crate) fn compare_and_set_state(
        &mut self,
        ticket: Ticket,
        (queue, id): (Queue, JobId),
        old: State,
        new: State,
    ) {
        self.see("indexed: set state");
        self.about_row(ticket, queue, id, |oracle, id| {
            let state = oracle.job(id).record.as_ref().unwrap().state;
            if state != old {
                return Some(Answer::Conflict(Text::new(state)));
            }
            oracle.set_state(id, new);
            None
        });
    }

    pub(crate) fn append_event(&mut self, ticket: Ticket, queue: Queue, id: JobId, event: &[u8]) {
        self.see("indexed: append event");
        self.about_row(ticket, queue, id, |oracle, id| {
            oracle.record_event(id, EventKind::User(event.into()));
            None
        });
    }

    pub(crate) fn delete_row(&mut self, ticket: Ticket, queue: Queue, id: JobId) {
        self.see("indexed: delete");
        if !self.index(ticket, queue) {
            return;
        }
        self.meet_over(id, "over: met by an indexed command");
        let Some(job) = self.find(id.0).filter(|job| job.queue == queue) else {
            return self.reply(ticket, Answer::NoJob);
        };
        let was_in_front = self.is_in_front(job);
        if job.status == Status::Reserved {
            self.see("a job at work was deleted");
        }
        self.reply(ticket, Answer::Done);
        self.remove(id.0);
        self.serve_after(id.0, queue, was_in_front);
    }
}
