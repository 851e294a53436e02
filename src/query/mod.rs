//! F4: what a query says is decided by SQLite itself, in memory, over a snapshot of rows.
//!
//! [`Evaluator`] checks and evaluates, and blocks for as long as that takes; [`QueryExecutor`] is
//! how an engine has it done elsewhere while it goes on. There is no file, thread or clock here:
//! whoever runs an evaluator hands in when it is to stop. (SQLite has a clock, which an expression
//! reads by `datetime('now')` and its like: the time is that of the evaluation, not of the
//! snapshot.)
//!
//! What always holds:
//! - Only an expression over the columns of a job is evaluated. Two prepares of SQLite's own decide
//!   (`check`), never a search for words.
//! - A query cannot change, open or keep anything: the connection that evaluates has no table
//!   but the snapshot, and an authorizer lets it read that and call functions from a list.
//! - Every function on the list takes time linear in the length of its arguments, or asks now and
//!   then whether to stop. SQLite itself asks only between rows; so whatever makes a long text asks
//!   too (a long column, `texts`), and what may be called between two questions is bounded
//!   ([`QUERY_CALLS_MAX`]). So a query ends soon after it is to, if not at once.
//! - A query can be left between two rows and gone on with later ([`TaskState`]), at no cost.
//! - A column that a query does not use is not made.
//! - The result is that of SQLite's looking at every row. It is shown fewer: not those that a
//!   comparison rules out, of a column (`narrow`) or of what a path leads to in one (`sought`),
//!   nor those like one that it has refused (`refused`).
//!
//! What SQLite cannot say of a single row: where JSON is malformed to it (nested deeper than 1,000,
//! or no JSON at all in a part that was taken out as JSON) the row does not match, and the query
//! goes on. A text longer than [`value_max`] counts as NULL.
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
mod text_functions;
mod validate;
mod vtab;

use crate::base::limits::{QUERY_VALUE_DEFAULT_BYTES, QUERY_VALUE_MAX_BYTES};
use crate::model::query::Query;
use crate::model::row::{Row, RowKey, Rows};
use std::fmt::Debug;
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

pub use evaluate::Evaluator;

/// Says whether the query that runs is to stop. Asked every few microseconds: it must be cheap.
pub type StopCheck = Arc<dyn Fn() -> bool + Send + Sync>;

/// Bytes of the longest text that queries see or make where a request has `max_request` bytes at
/// most: whatever can be put can be searched.
#[must_use]
pub fn value_max(max_request: usize) -> usize {
    max_request.saturating_mul(2).clamp(QUERY_VALUE_DEFAULT_BYTES, QUERY_VALUE_MAX_BYTES)
}

/// A query to be answered.
#[derive(Clone, Debug)]
pub struct QueryTask {
    /// Over these rows, in their order.
    pub rows: Rows,
    /// Which of them.
    pub query: Arc<Query>,
    /// How many at most.
    pub limit: Option<u64>,
}

/// The rows that match, in their order, or a sentence that says what is wrong with the query.
pub type QueryRows = Result<Arc<[Arc<Row>]>, String>;

/// How far a query has got.
#[derive(Clone, Debug)]
pub struct TaskState {
    /// The rows that match, in their order, of those in front of `from`.
    pub found: Vec<Arc<Row>>,
    /// Where to go on.
    from: Bound<RowKey>,
}

impl TaskState {
    /// Where it goes on.
    #[must_use]
    pub fn place(&self) -> Bound<RowKey> {
        self.from
    }
}

impl Default for TaskState {
    fn default() -> Self {
        Self { found: Vec::new(), from: Bound::Unbounded }
    }
}

/// Why there is no result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QueryError {
    /// The query is none that can be evaluated: a sentence.
    Bad(String),
    /// It was stopped.
    Stopped,
}

/// A query with how far it has got. Whoever evaluates it frees it, so that the loop never frees a
/// snapshot that has grown old.
#[derive(Clone, Debug)]
pub struct Task {
    /// What is to be answered.
    pub work: Arc<QueryTask>,
    /// What was found so far.
    pub progress: TaskState,
}

impl Task {
    /// A query from its beginning.
    #[must_use]
    pub fn new(work: QueryTask) -> Self {
        Self { work: Arc::new(work), progress: TaskState::default() }
    }
}

/// What a lane is told about the turn of its query.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pace {
    /// Nobody else waits: go on to the end of the query.
    #[default]
    GoOn,
    /// Others wait: the turn ends with the next row after so many steps.
    Share,
    /// The turn ends with the next row.
    Leave,
    /// The turn ends at once: the row that it is at will be looked at again.
    GiveBack,
    /// Nobody waits for the query any more.
    Drop,
}

/// What came of a turn.
#[derive(Debug)]
pub enum TaskEnd {
    /// The query has ended.
    Found(QueryRows),
    /// It goes on in its next turn.
    Left(Task),
    /// It was let go of.
    Dropped,
}

/// The end of a turn.
#[derive(Debug)]
pub struct Ended {
    /// Where it was.
    pub lane: usize,
    /// How long the processor has worked for it.
    pub spent: Duration,
    /// What came of it.
    pub done: TaskEnd,
}

/// A lane in which a turn can begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spot {
    /// Its number.
    pub lane: usize,
    /// Whether it has a share of the processor of its own, and not what others leave.
    pub has_share: bool,
}

/// Somebody who evaluates queries by turns while the engine goes on, in a few lanes. A lane has one
/// query at a time, and is free again when [`QueryExecutor::poll`] has told the end of its turn.
/// There is no clock here: the engine says when a turn is to end, and a lane that does not heed it
/// for a while stays in use.
pub trait QueryExecutor: Debug + Send {
    /// A free lane; one with a share of its own if there is one and `share` says so.
    fn find(&mut self, share: bool) -> Option<Spot>;

    /// Begins a turn of so many steps in a free lane, at the pace [`Pace::GoOn`].
    ///
    /// # Errors
    /// If the lane cannot be used, in a sentence.
    fn begin(&mut self, lane: usize, task: Task, steps: u64) -> Result<(), String>;

    /// Changes the pace of the turn in a lane.
    fn say(&mut self, lane: usize, pace: Pace);

    /// The end of a turn, once. What ends while nobody polls wakes the loop.
    fn poll(&mut self) -> Option<Ended>;

    /// Frees what a lane has given back and nobody waits for.
    fn discard(&mut self, task: Task);
}
