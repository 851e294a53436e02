//! The oracle's indexed queues: commands on them, and the rows of their jobs.
//!
//! While there are indexed queues, all due timers fire before anything else happens: whether a
//! queue exists must not depend on expired jobs, which an engine may or may not have deleted.

use super::store_model::{Job, Model};
use super::types::{Answer, Load, QUEUES, Queue, Text};
use jobcentre::model::event::{Event, EventKind, EventLog};
use jobcentre::model::id::{JobId, Ticket};
use jobcentre::model::indexed_queue::IndexedCommand;
use jobcentre::model::job::{Encoding, Priority, Status, TieBreak};
use jobcentre::model::query::{Expr, Op, Query, Term};
use jobcentre::model::row::Row;
use std::sync::Arc;

/// The number of the queue that always exists.
pub(super) const DEFAULT: Queue = 5;

/// All states there are, and how a query asks for them.
pub(super) const STATES: [(&[u8], &str); 4] =
    [(b"null", ""), (b"\"A\"", "'\"A\"'"), (b"[1,\"x\"]", "'[1,\"x\"]'"), (b"word", "word")];

/// A state, by its number in [`STATES`].
pub(super) type State = usize;

/// A question.
#[derive(Clone, Debug)]
pub(super) enum IndexedAsk {
    Queues,
    Declare(Queue),
    Drop(Queue),
    List(Queue),
    Find { queue: Queue, state: Option<State>, limit: Option<u64> },
    Poll { queue: Queue, state: Option<State>, new: State },
    Put { queue: Queue, text: Text, state: State },
    Show(Queue, JobId),
    Delete(Queue, JobId),
    Advance { queue: Queue, id: JobId, old: State, new: State },
    Note { queue: Queue, id: JobId, event: Text },
}

fn query(state: Option<State>) -> Arc<Query> {
    let left = Expr::Text("j.state".into());
    let options = state.map(|state| match STATES[state].1 {
        "" => Term { op: Op::Is, left, right: Expr::Null },
        literal => Term { op: Op::Is, left: Expr::Text(literal.into()), right: left },
    });
    Arc::new(Query { terms: options.into_iter().collect() })
}

impl IndexedAsk {
    /// Hands the question, in the model's form, to `ask`.
    pub(super) fn with_watch(&self, ask: impl FnOnce(&IndexedCommand<'_>)) {
        let queue = |queue: Queue| QUEUES[queue];
        let state = |state: State| STATES[state].0;
        let options = match *self {
            Self::Find { state, .. } | Self::Poll { state, .. } => query(state),
            _ => query(None),
        };
        let query = &options;
        let watch = match *self {
            Self::Queues => IndexedCommand::Queues { from: 0 },
            Self::Declare(named) => IndexedCommand::CreateQueue { queue: Some(queue(named)) },
            Self::Drop(named) => IndexedCommand::DropQueue { queue: queue(named) },
            Self::List(named) => IndexedCommand::List { queue: queue(named) },
            Self::Find { queue: named, limit, .. } => {
                IndexedCommand::Find { queue: queue(named), query, limit }
            }
            Self::Poll { queue: named, new, .. } => {
                IndexedCommand::Poll { queue: queue(named), query, state: state(new) }
            }
            Self::Put { queue: named, ref text, state: first } => IndexedCommand::Put {
                queue: queue(named),
                payload: text.bytes(),
                state: state(first),
            },
            Self::Show(named, id) => IndexedCommand::Show { queue: queue(named), id },
            Self::Delete(named, id) => IndexedCommand::Delete { queue: queue(named), id },
            Self::Advance { queue: named, id, old, new } => IndexedCommand::CompareAndSetState {
                queue: queue(named),
                id,
                old: state(old),
                new: state(new),
            },
            Self::Note { queue: named, id, ref event } => {
                IndexedCommand::AppendEvent { queue: queue(named), id, event: event.bytes() }
            }
        };
        ask(&watch);
    }

    pub(super) fn id_mut(&mut self) -> Option<&mut JobId> {
        match self {
            Self::Show(_, id)
            | Self::Delete(_, id)
            | Self::Advance { id, .. }
            | Self::Note { id, .. } => Some(id),
            _ => None,
        }
    }

    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Queues => "watch: queues",
            Self::Declare(_) => "watch: declare",
            Self::Drop(_) => "watch: drop",
            Self::List(_) => "watch: list",
            Self::Find { .. } => "watch: find",
            Self::Poll { .. } => "watch: poll",
            Self::Put { .. } => "watch: put",
            Self::Show(..) => "watch: show",
            Self::Delete(..) => "watch: delete",
            Self::Advance { .. } => "watch: advance",
            Self::Note { .. } => "watch: note",
        }
    }
}

/// What is known of a watched queue.
#[derive(Clone, Debug, Default)]
pub(super) struct Watched {
    declared: bool,
    /// When one of its jobs was changed last, in seconds.
    last: u64,
}

/// What is known of a job of a watched queue.
#[derive(Clone, Debug)]
pub(super) struct Record {
    version: u64,
    state: Vec<u8>,
    events: Vec<Event>,
    modified: u64,
}

impl Job {
    fn row(&self) -> Row {
        let record = self.record.as_ref().unwrap();
        let mut events = EventLog::default();
        for event in &record.events {
            events = events.with(event.clone());
        }
        Row {
            id: JobId(self.id),
            version: record.version,
            queue: QUEUES[self.queue].into(),
            priority: match self.priority {
                Priority::Unselected => None,
                Priority::Small(number) => Some(number.to_string().into()),
                Priority::Big(digits) => Some(digits.into()),
            },
            encoding: self.load.encoding,
            payload: self.load.text.bytes().into(),
            state: record.state[..].into(),
            events,
            modified: record.modified,
        }
    }
}

impl Model {
    pub(super) fn is_watching(&self) -> bool {
        self.watched.iter().any(Option::is_some)
    }

    fn exists(&self, queue: Queue) -> bool {
        let declared = self.watched[queue].as_ref().is_some_and(|watched| watched.declared);
        queue == DEFAULT || declared || self.jobs.iter().any(|job| job.queue == queue)
    }

    /// What no longer exists is not watched.
    pub(super) fn end_watches(&mut self) {
        for queue in 0..QUEUES.len() {
            if !self.exists(queue) {
                self.watched[queue] = None;
            }
        }
    }

    fn second(&mut self, queue: Queue) -> u64 {
        let watched = self.watched[queue].as_mut().unwrap();
        watched.last = watched.last.max(self.wall / 1_000);
        watched.last
    }

    /// When a job counts as put whose queue is not indexed.
    pub(super) fn created(&self) -> u64 {
        (self.wall / 1_000).min(u64::from(u32::MAX))
    }

    /// Makes the record of a new job, if its queue is watched.
    pub(super) fn record_new(&mut self, id: u64) {
        let queue = self.job(id).queue;
        if self.watched[queue].is_some() {
            self.job(id).created = self.second(queue);
            self.record(id);
        }
    }

    /// Makes the record of a job of a watched queue, unless it has one.
    fn record(&mut self, id: u64) {
        let job = self.job(id);
        let (queue, created) = (job.queue, job.created);
        if job.record.is_none() {
            let event = Event { kind: EventKind::Created, at: created };
            let (events, state) = (vec![event], STATES[0].0.to_vec());
            job.record = Some(Record { version: 1, state, events, modified: created });
            let watched = self.watched[queue].as_mut().unwrap();
            watched.last = watched.last.max(created);
        }
    }

    /// Something has happened to a job.
    pub(super) fn happen(&mut self, id: u64, what: EventKind) {
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

    fn advance(&mut self, id: u64, new: State) {
        let record = self.job(id).record.as_mut().unwrap();
        let new = STATES[new].0;
        let old = std::mem::replace(&mut record.state, new.to_vec());
        self.happen(id, EventKind::Advanced { old: old.into(), new: new.into() });
    }

    /// The rows of a queue in this state, in order.
    fn rows(&self, queue: Queue, state: Option<State>) -> Vec<Row> {
        let jobs = self.jobs.iter().filter(|job| job.queue == queue);
        let mut rows: Vec<Row> = jobs.map(Job::row).collect();
        rows.retain(|row| state.is_none_or(|state| *row.state == *STATES[state].0));
        rows.sort_by_key(|row| (row.modified, row.id));
        rows
    }

    fn show(&mut self, ticket: Ticket, id: u64) {
        let row = self.find(id).unwrap().row();
        self.say(ticket, Answer::Row(Box::new(row)));
    }

    pub(super) fn watch(&mut self, ticket: Ticket, question: &IndexedAsk) {
        let queue = match *question {
            IndexedAsk::Queues => return self.list_queues(ticket),
            IndexedAsk::Declare(queue) => return self.declare(ticket, queue),
            IndexedAsk::Drop(queue)
            | IndexedAsk::List(queue)
            | IndexedAsk::Find { queue, .. }
            | IndexedAsk::Poll { queue, .. }
            | IndexedAsk::Put { queue, .. }
            | IndexedAsk::Show(queue, _)
            | IndexedAsk::Delete(queue, _)
            | IndexedAsk::Advance { queue, .. }
            | IndexedAsk::Note { queue, .. } => queue,
        };
        if !self.exists(queue) {
            return self.say(ticket, Answer::NoQueue);
        }
        if self.watched[queue].is_none() {
            self.watched[queue] = Some(Watched::default());
        }
        match *question {
            IndexedAsk::List(_) | IndexedAsk::Find { .. } | IndexedAsk::Poll { .. } => {
                let jobs = self.jobs.iter().filter(|job| job.queue == queue);
                for id in jobs.map(|job| job.id).collect::<Vec<_>>() {
                    self.record(id);
                }
            }
            _ => {}
        }
        self.answer(ticket, queue, question);
    }

    fn answer(&mut self, ticket: Ticket, queue: Queue, question: &IndexedAsk) {
        match *question {
            IndexedAsk::Queues | IndexedAsk::Declare(_) => unreachable!("answered already"),
            IndexedAsk::Drop(_) => {
                let before = self.jobs.len();
                let jobs = self.jobs.iter().filter(|job| job.queue == queue);
                for id in jobs.map(|job| job.id).collect::<Vec<_>>() {
                    self.let_go(id);
                    self.tell_gone(id);
                }
                self.jobs.retain(|job| job.queue != queue);
                self.watched[queue].as_mut().unwrap().declared = false;
                self.end_watches();
                let dropped = u32::try_from(before - self.jobs.len()).unwrap();
                self.say(ticket, Answer::Dropped(dropped));
                if !self.constraints.is_empty() {
                    self.serve_everywhere();
                }
            }
            IndexedAsk::List(_) => self.say(ticket, Answer::Rows(self.rows(queue, None))),
            IndexedAsk::Find { state, limit, .. } => {
                let mut rows = self.rows(queue, state);
                rows.truncate(limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap()));
                self.say(ticket, Answer::Found(rows));
            }
            IndexedAsk::Poll { state, new, .. } => match self.rows(queue, state).first() {
                None => self.say(ticket, Answer::NoJob),
                Some(row) => {
                    let id = row.id.0;
                    self.advance(id, new);
                    self.show(ticket, id);
                }
            },
            IndexedAsk::Put { ref text, state, .. } => {
                let load = Load { encoding: Encoding::Json, text: text.clone() };
                let (priority, tie_break) = (Priority::Small(0), TieBreak::Fifo);
                let id = self.add(queue, priority, tie_break, load, None);
                self.job(id).record.as_mut().unwrap().state = STATES[state].0.to_vec();
                self.show(ticket, id);
                self.go_back(id);
                self.serve(&[queue]);
            }
            IndexedAsk::Show(_, id)
            | IndexedAsk::Delete(_, id)
            | IndexedAsk::Advance { id, .. }
            | IndexedAsk::Note { id, .. } => self.answer_about(ticket, queue, id, question),
        }
    }

    fn answer_about(&mut self, ticket: Ticket, queue: Queue, id: JobId, question: &IndexedAsk) {
        if self.find(id.0).is_none_or(|job| job.queue != queue) {
            return self.say(ticket, Answer::NoJob);
        }
        if let IndexedAsk::Delete(..) = question {
            let was_in_front = self.is_in_front(self.find(id.0).unwrap());
            self.say(ticket, Answer::Done);
            self.gone(id.0);
            return self.serve_after(id.0, queue, was_in_front);
        }
        let working = self.find(id.0).unwrap().status == Status::Reserved;
        self.see(if working { "record: of a job at work" } else { "record: of another job" });
        self.record(id.0);
        match *question {
            IndexedAsk::Advance { old, new, .. } => {
                let state = self.job(id.0).record.as_ref().unwrap().state.clone();
                if state != STATES[old].0 {
                    return self.say(ticket, Answer::Conflict(Text::new(&state)));
                }
                self.advance(id.0, new);
            }
            IndexedAsk::Note { ref event, .. } => {
                self.happen(id.0, EventKind::User(event.bytes().into()));
            }
            _ => {}
        }
        self.show(ticket, id.0);
    }

    fn list_queues(&mut self, ticket: Ticket) {
        let jobs = |queue: Queue| self.jobs.iter().filter(|job| job.queue == queue).count();
        let there = (0..QUEUES.len()).filter(|&queue| self.exists(queue));
        let said = there.map(|queue| (queue, u32::try_from(jobs(queue)).unwrap())).collect();
        self.say(ticket, Answer::Queues(said));
    }

    fn declare(&mut self, ticket: Ticket, queue: Queue) {
        if self.exists(queue) {
            return self.say(ticket, Answer::QueueExists);
        }
        self.watched[queue] = Some(Watched { declared: true, last: 0 });
        self.say(ticket, Answer::Queue(queue));
    }
}
