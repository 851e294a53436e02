//! The index of a queue: the rows of its jobs, by last change and by state, and how far backfill
//! has come.
//!
//! Invariants: a row is among all rows and among those of its state, and nowhere else; the queue's
//! clock of changes never runs backwards.

use super::idx::DeclarationIdx;
use super::job::Job;
use crate::base::limits::{EVENT_LOG_EVENTS_MAX, EVENT_LOG_MAX_BYTES};
use crate::base::time::Now;
use crate::model::event::{Event, EventKind, EventLog};
use crate::model::id::JobId;
use crate::model::job::Priority;
use crate::model::query::Query;
use crate::model::row::{Row, Rows};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The state of a job to which no state was given.
pub(super) const NO_STATE: &[u8] = b"null";

/// The index of a queue.
#[derive(Debug)]
pub(super) struct QueueIndex {
    name: Arc<[u8]>,
    rows: Rows,
    states: BTreeMap<Arc<[u8]>, StateRows>,
    /// When a job was changed last, in Unix seconds.
    last: u64,
    /// All jobs in slots below this one have a row.
    pub(super) cursor: u32,
    /// It was switched off: rows are removed over several passes, and none is made.
    pub(super) ending: bool,
    /// Its record, if the queue is declared.
    pub(super) declared: Option<DeclarationIdx>,
}

/// Rows with the same state. Many states have one row only, and a map is large.
#[derive(Debug)]
enum StateRows {
    One(Arc<Row>),
    Many(Rows),
}

/// The priority in the row of a job.
fn shown_priority(job: &Job) -> Option<Box<str>> {
    match job.priority() {
        Priority::Small(number) => Some(number.to_string().into()),
        Priority::Big(digits) => Some(digits.into()),
        Priority::Unselected => None,
    }
}

impl QueueIndex {
    /// Makes the first row of a job, which was put at `created` (Unix seconds). `payload` replaces
    /// the job's. O(log n).
    pub(super) fn make_row(
        &mut self,
        job: &mut Job,
        payload: Option<Arc<[u8]>>,
        state: &[u8],
        created: u64,
    ) -> Arc<Row> {
        debug_assert!(!job.has_row(), "a job has one row");
        debug_assert!(!self.ending, "an index that is being switched off gets no rows");
        let event = Event { kind: EventKind::Created, at: created };
        let row = Arc::new(Row {
            id: JobId(job.id()),
            version: 1,
            queue: self.name.clone(),
            priority: shown_priority(job),
            encoding: job.payload().encoding,
            payload: payload.unwrap_or_else(|| job.payload().bytes.into()),
            state: self.intern_state(state),
            events: EventLog::default().with(event),
            modified: created,
        });
        self.insert(&row);
        job.set_row(row.clone());
        row
    }

    /// Shows the present priority of a job in its row. O(log n).
    pub(super) fn show_priority(&mut self, job: &mut Job) {
        let row = job.row().expect("the job has a row");
        let row = Row { priority: shown_priority(job), ..(**row).clone() };
        self.replace_row(job, row);
    }

    /// Replaces the row of a job. O(log n).
    pub(super) fn replace_row(&mut self, job: &mut Job, row: Row) -> Arc<Row> {
        debug_assert_eq!(row.id.0, job.id(), "a row of another job");
        self.remove(job.row().expect("the job has a row"));
        let row = Arc::new(row);
        self.insert(&row);
        job.set_row(row.clone());
        row
    }

    pub(super) fn new(name: &[u8]) -> Self {
        Self {
            name: name.into(),
            rows: Rows::new(),
            states: BTreeMap::new(),
            last: 0,
            cursor: 0,
            ending: false,
            declared: None,
        }
    }

    pub(super) fn name(&self) -> &Arc<[u8]> {
        &self.name
    }

    /// All rows. A clone is a snapshot.
    pub(super) fn rows(&self) -> &Rows {
        &self.rows
    }

    /// The row with the earliest last change. O(log n).
    pub(super) fn first(&self) -> Option<&Arc<Row>> {
        self.rows.get_min().map(|(_, row)| row)
    }

    /// A snapshot of the rows with this state. O(log states).
    pub(super) fn in_state(&self, state: &[u8]) -> Rows {
        match self.states.get(state) {
            None => Rows::new(),
            Some(StateRows::One(row)) => Rows::unit(row.key(), row.clone()),
            Some(StateRows::Many(rows)) => rows.clone(),
        }
    }

    /// A snapshot of the rows that may match a query, and whether it has to be evaluated on them.
    /// O(log states).
    pub(super) fn candidates(&self, query: &Query) -> (Rows, bool) {
        match query.state_literal() {
            Some((state, rest)) => (self.in_state(&state), rest),
            None => (self.rows.clone(), !query.terms.is_empty()),
        }
    }

    /// The state, shared with rows that have it already. O(log states).
    pub(super) fn intern_state(&self, state: &[u8]) -> Arc<[u8]> {
        match self.states.get_key_value(state) {
            Some((known, _)) => known.clone(),
            None => state.into(),
        }
    }

    /// The time of an event that happens now, in Unix seconds: never before the last one. O(1).
    pub(super) fn event_time(&mut self, now: Now) -> u64 {
        self.last = self.last.max(now.wall.0 / 1_000);
        self.last
    }

    /// Adds a row. O(log n).
    pub(super) fn insert(&mut self, row: &Arc<Row>) {
        let key = row.key();
        self.last = self.last.max(row.modified);
        let former = self.rows.insert(key, row.clone());
        assert!(former.is_none(), "a job has two rows");
        debug_assert!(row.queue == self.name, "an index has rows of its own queue");
        match self.states.get_mut(&row.state) {
            None => {
                self.states.insert(row.state.clone(), StateRows::One(row.clone()));
            }
            Some(StateRows::Many(rows)) => {
                rows.insert(key, row.clone());
            }
            Some(same_state) => {
                let StateRows::One(other) = &*same_state else { return };
                let mut rows = Rows::unit(other.key(), other.clone());
                rows.insert(key, row.clone());
                *same_state = StateRows::Many(rows);
            }
        }
    }

    /// Removes a row. O(log n).
    pub(super) fn remove(&mut self, row: &Row) {
        let key = row.key();
        assert!(self.rows.remove(&key).is_some(), "a row is not where its key says");
        let empty = match self.states.get_mut(&row.state).expect("a row is found by its state") {
            StateRows::One(other) => {
                debug_assert_eq!(other.id, row.id, "a state has the rows that all rows have");
                true
            }
            StateRows::Many(rows) => {
                let removed = rows.remove(&key);
                debug_assert!(removed.is_some(), "a state has the rows that all rows have");
                rows.is_empty()
            }
        };
        if empty {
            self.states.remove(&row.state);
        }
    }

    /// Asserts that both orders agree. O(n log n): for checks.
    pub(super) fn check_invariants(&self) {
        let mut same_state = 0;
        for state in self.states.keys() {
            let rows = self.in_state(state);
            assert!(!rows.is_empty(), "a state without rows is kept");
            same_state += rows.len();
            for (key, row) in &rows {
                assert!(row.state == *state, "a row is among those of another state");
                let same = self.rows.get(key).is_some_and(|found| Arc::ptr_eq(found, row));
                assert!(same, "a state has a stale row");
            }
        }
        assert_eq!(same_state, self.rows.len(), "states and rows differ in number");
        for (key, row) in &self.rows {
            assert_eq!(*key, row.key(), "a row is under another key");
            assert!(row.modified <= self.last, "a row is newer than the last change");
            assert_eq!(row.queue, self.name, "a row is in the index of another queue");
        }
    }
}

/// Whether a history takes another event: one of a user with `times` 1, others with more.
pub(super) fn has_capacity(log: &EventLog, times: usize) -> bool {
    log.len() < EVENT_LOG_EVENTS_MAX * times && log.bytes() < EVENT_LOG_MAX_BYTES * times
}

/// The row after one more event. O(1).
pub(super) fn next_row(row: &Row, version: u64, event: &Event) -> Row {
    let mut next = Row { version, modified: event.at, ..row.clone() };
    if let EventKind::Advanced { new, .. } = &event.kind {
        next.state = new.clone();
    }
    if has_capacity(&row.events, 2) {
        next.events = row.events.with(event.clone());
    }
    next
}
