//! Queries: what is rejected, that all else gives what SQLite gives, and that every query ends.

mod attacks;
mod basics;
mod engine;
mod paths;
mod random;
mod similar_rows;
mod thread;
mod turns;

use jobcentre::model::event::{Event, EventKind, EventLog};
use jobcentre::model::id::JobId;
use jobcentre::model::job::Encoding;
use jobcentre::model::query::{Expr, Op, Query, Term};
use jobcentre::model::row::{Row, Rows};
use jobcentre::query::{
    Ended, Evaluator, FreeLane, QueryError, QueryExecutor, QueryTask, StopRequest, Task, TaskEnd,
};
use std::sync::Arc;
use std::time::Duration;

/// A helper that has each query evaluated as soon as it is asked about.
#[derive(Debug)]
pub(crate) struct ImmediateExecutor {
    task: Option<Task>,
    /// Its query was dropped, and that was not reported yet.
    dropped: bool,
    evaluator: Evaluator,
}

impl ImmediateExecutor {
    pub(crate) fn new() -> Self {
        Self { task: None, dropped: false, evaluator: evaluator() }
    }

    pub(crate) fn has_dropped(&self) -> bool {
        self.dropped
    }
}

impl QueryExecutor for ImmediateExecutor {
    fn find(&mut self, _: bool) -> Option<FreeLane> {
        let free = self.task.is_none() && !self.dropped;
        free.then_some(FreeLane { lane: 0, has_share: true })
    }

    fn begin(&mut self, _: usize, task: Task, _: u64) -> Result<(), String> {
        assert!(self.task.replace(task).is_none(), "one at a time");
        Ok(())
    }

    fn request_stop(&mut self, _: usize, stop: StopRequest) {
        self.dropped |= stop == StopRequest::Cancel && self.task.take().is_some();
    }

    fn poll(&mut self) -> Option<Ended> {
        if std::mem::take(&mut self.dropped) {
            return Some(Ended { lane: 0, spent: Duration::ZERO, done: TaskEnd::Cancelled });
        }
        let mut task = self.task.take()?;
        let found = self.evaluator.go_on(&task.work, &mut task.progress);
        let found = found.map(|()| Arc::from(task.progress.found)).map_err(|fault| match fault {
            QueryError::Bad(why) => why,
            QueryError::Stopped => unreachable!("it is never stopped"),
        });
        Some(Ended { lane: 0, spent: Duration::ZERO, done: TaskEnd::Complete(found) })
    }

    fn discard(&mut self, _: Task) {}
}

/// A row with these texts of JSON.
fn row(id: u64, payload: &str, state: &str) -> Row {
    let (user, at) = (format!("{{\"n\":{id}}}"), 1_700_000_000 + id % 7);
    let events = EventLog::default()
        .with(Event { kind: EventKind::Created, at: 1_700_000_000 })
        .with(Event { kind: EventKind::User(user.into_bytes().into()), at });
    Row {
        id: JobId(id),
        version: 1,
        queue: Arc::from(*b"q"),
        priority: Some("5".into()),
        encoding: Encoding::Json,
        payload: payload.as_bytes().into(),
        state: state.as_bytes().into(),
        events,
        modified: at,
    }
}

fn snapshot(rows: impl IntoIterator<Item = Row>) -> Rows {
    rows.into_iter().map(|row| (row.key(), Arc::new(row))).collect()
}

fn text(text: &str) -> Expr {
    Expr::Text(text.into())
}

fn query(terms: impl IntoIterator<Item = (Expr, Op, Expr)>) -> Arc<Query> {
    let terms = terms.into_iter().map(|(left, op, right)| Term { op, left, right });
    Arc::new(Query { terms: terms.collect() })
}

fn evaluator() -> Evaluator {
    Evaluator::new(Arc::new(|| false)).unwrap()
}

fn run(evaluator: &mut Evaluator, rows: &Rows, query: &Arc<Query>) -> Result<Vec<u64>, String> {
    let work = QueryTask { rows: rows.clone(), query: Arc::clone(query), limit: None };
    match evaluator.run(&work) {
        Ok(found) => Ok(found.iter().map(|row| row.id.0).collect()),
        Err(QueryError::Bad(why)) => Err(why),
        Err(QueryError::Stopped) => panic!("it was not stopped"),
    }
}
