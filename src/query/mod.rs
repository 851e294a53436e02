//! L4: queries, evaluated by SQLite in memory over a snapshot of rows.
//!
//! [`Evaluator`] validates and evaluates, and blocks meanwhile; an engine runs it elsewhere through
//! [`QueryExecutor`]. There is no file, thread or clock here: the caller of an evaluator passes the
//! check that stops it. (SQLite has a clock, which an expression reads by `datetime('now')` and
//! similar: the time is that of the evaluation, not of the snapshot.)
//!
//! Invariants:
//! - Only an expression over the columns of a job is evaluated. Two prepares by SQLite itself
//!   decide (`validate`), never a search for words.
//! - A query cannot change, open or keep anything: the connection that evaluates has no table but
//!   the snapshot, and its authorizer permits only reads of that and the allowed functions.
//! - Every allowed function takes time linear in the length of its arguments, or makes stop checks
//!   now and then. SQLite itself checks only between rows; so whatever makes a long text checks too
//!   (long columns, `text_functions`), and the calls between two checks are bounded
//!   ([`QUERY_CALLS_MAX`]). So a query ends soon after it is stopped.
//! - A query can stop between two rows and continue later ([`TaskState`]) at no cost.
//! - A column that a query does not use is not made.
//! - The result is the same as if SQLite tested every row. Rows are skipped before if a comparison
//!   of a column (`prefilter`) or of a JSON path (`path_predicate`) excludes them, or if they equal
//!   a row that SQLite has rejected (`rejected_rows`).
//!
//! Where SQLite fails on a single row because JSON is malformed (nested deeper than 1,000, or not
//! JSON in a part that was extracted as JSON), the row does not match, and the query continues. A
//! text longer than [`value_max`] counts as NULL.
//!
//! [`QUERY_CALLS_MAX`]: crate::base::limits::QUERY_CALLS_MAX

mod canonical;
mod evaluate;
mod function_allowlist;
mod json_path;
mod like;
mod path_predicate;
mod prefilter;
mod rejected_rows;
mod rows;
mod set;
mod sqlite;
mod text_functions;
mod validate;
mod vtab;

use crate::base::limits::{QUERY_VALUE_DEFAULT_BYTES, QUERY_VALUE_MAX_BYTES};
use crate::model::id::JobId;
use crate::model::query::Query;
use crate::model::row::{Row, RowKey, Rows};
use std::fmt::Debug;
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

pub use evaluate::Evaluator;

/// True if the running query is to stop. Called every few microseconds, so it must be cheap.
pub type StopCheck = Arc<dyn Fn() -> bool + Send + Sync>;

/// Longest text that queries read or make, in bytes, where requests have `max_request` bytes at
/// most: every payload that can be put can be searched.
#[must_use]
pub fn value_max(max_request: usize) -> usize {
    max_request.saturating_mul(2).clamp(QUERY_VALUE_DEFAULT_BYTES, QUERY_VALUE_MAX_BYTES)
}

/// Which rows the cursor skips before SQLite tests them. The result is the same in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowSkips {
    /// Those that a comparison of a column excludes (`prefilter`).
    pub comparisons: bool,
    /// Those that a comparison of a JSON path excludes (`path_predicate`).
    pub paths: bool,
    /// Those that equal a rejected one (`rejected_rows`).
    pub rejected_rows: bool,
}

impl RowSkips {
    /// All of them.
    pub const ALL: Self = Self { comparisons: true, paths: true, rejected_rows: true };
}

/// A query over a snapshot.
#[derive(Clone, Debug)]
pub struct QueryTask {
    /// The snapshot.
    pub rows: Rows,
    /// The condition.
    pub query: Arc<Query>,
    /// Largest number of rows; `None` is all.
    pub limit: Option<u64>,
}

/// The matching rows in the order of the snapshot, or a sentence on what is wrong with the query.
pub type QueryRows = Result<Arc<[Arc<Row>]>, String>;

/// How far a query has got.
#[derive(Clone, Debug)]
pub struct TaskState {
    /// The matching rows before `from`, in their order.
    pub found: Vec<Arc<Row>>,
    /// Where the scan continues.
    from: Bound<RowKey>,
    /// What is made of the rows at the end.
    pub shape: ResultShape,
}

/// What is made of the rows that a query has found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ResultShape {
    /// Nothing: they are in the order of the snapshot.
    #[default]
    Rows,
    /// Those with the lowest ids, up to a number, by id.
    LowestIds(usize),
    /// Their ids and versions, in the order of ids.
    Versions,
}

impl ResultShape {
    /// Shapes what was found. O(rows), and O(k log k) for the k rows that are left.
    fn apply(self, found: &mut Vec<Arc<Row>>) {
        if let Self::LowestIds(most) = self
            && most < found.len()
        {
            found.select_nth_unstable_by_key(most, |row| row.id.0);
            found.truncate(most);
        }
        if self != Self::Rows {
            found.sort_unstable_by_key(|row| row.id.0);
        }
    }
}

impl TaskState {
    /// Where the scan continues.
    #[must_use]
    pub fn place(&self) -> Bound<RowKey> {
        self.from
    }
}

impl Default for TaskState {
    fn default() -> Self {
        Self { found: Vec::new(), from: Bound::Unbounded, shape: ResultShape::Rows }
    }
}

/// Why there is no result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QueryError {
    /// The query is invalid: a sentence.
    Bad(String),
    /// A stop check has stopped it.
    Stopped,
}

/// A query and its state. The evaluating thread frees it, since freeing an old snapshot takes long.
#[derive(Clone, Debug)]
pub struct Task {
    /// The query.
    pub work: Arc<QueryTask>,
    /// Its state.
    pub progress: TaskState,
}

impl Task {
    /// A task at the beginning of its snapshot.
    #[must_use]
    pub fn new(work: QueryTask) -> Self {
        Self { work: Arc::new(work), progress: TaskState::default() }
    }
}

/// When a turn is to end; each value is more urgent than the one before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum StopRequest {
    /// With the query: no other one waits.
    #[default]
    None,
    /// Before the next row once its steps are used up: others wait.
    AtStepLimit,
    /// Before the next row.
    BeforeNextRow,
    /// At once: the current row will be tested again.
    Now,
    /// At once, and the query is cancelled.
    Cancel,
}

/// How a turn has ended.
#[derive(Debug)]
pub enum TaskEnd {
    /// The query is complete.
    Complete(QueryRows),
    /// The same, with [`ResultShape::Versions`].
    CompleteVersions(Vec<(JobId, u64)>),
    /// It continues in its next turn.
    Unfinished(Task),
    /// It was cancelled.
    Cancelled,
}

/// The end of a turn.
#[derive(Debug)]
pub struct Ended {
    /// Lane of the turn.
    pub lane: usize,
    /// Processor time of the turn.
    pub spent: Duration,
    /// How it has ended.
    pub done: TaskEnd,
}

/// A free lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FreeLane {
    /// Its number, from 0.
    pub lane: usize,
    /// Whether it has a processor share of its own, instead of running on idle processors only.
    pub has_share: bool,
}

/// Evaluates queries in turns beside the engine, in a few lanes. A lane has one query at a time,
/// and is free again once [`QueryExecutor::poll`] has returned the end of its turn. There is no
/// clock here: the engine ends turns, and a lane that does not react stays in use.
pub trait QueryExecutor: Debug + Send {
    /// A free lane. If `share`, preferably one with a processor share of its own.
    fn find(&mut self, share: bool) -> Option<FreeLane>;

    /// Begins a turn of `steps` stop checks in a free lane, without a stop request.
    ///
    /// # Errors
    /// If the lane cannot be used, in a sentence.
    fn begin(&mut self, lane: usize, task: Task, steps: u64) -> Result<(), String>;

    /// Asks the turn in a lane to end.
    fn request_stop(&mut self, lane: usize, stop: StopRequest);

    /// The end of a turn, once each. The end of a turn wakes the loop.
    fn poll(&mut self) -> Option<Ended>;

    /// Frees a cancelled task that a lane has returned.
    fn discard(&mut self, task: Task);
}
