//! F4: what a query says is decided by SQLite itself, in memory, over a snapshot of rows.
//!
//! [`Evaluator`] checks and evaluates, and blocks for as long as that takes; [`Helper`] is how an
//! engine has it done elsewhere while it goes on. There is no file, thread or clock here: whoever
//! runs an evaluator hands in when it is to stop. (SQLite has a clock, which an expression reads by
//! `datetime('now')` and its like: the time is that of the evaluation, not of the snapshot.)
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

mod allowed;
mod check;
mod evaluate;
mod like;
mod narrow;
mod refused;
mod rows;
mod seek;
mod sought;
mod table;
mod texts;

use crate::base::limits::{QUERY_VALUE_DEFAULT, QUERY_VALUE_MAX};
use crate::base::time::Mono;
use crate::model::query::Query;
use crate::model::row::{Row, RowKey, Rows};
use std::fmt::Debug;
use std::ops::Bound;
use std::sync::Arc;

pub use evaluate::Evaluator;

/// Says whether the query that runs is to stop. Asked every few microseconds: it must be cheap.
pub type Stop = Arc<dyn Fn() -> bool + Send + Sync>;

/// Bytes of the longest text that queries see or make where a request has `max_request` bytes at
/// most: whatever can be put can be searched.
#[must_use]
pub fn value_max(max_request: usize) -> usize {
    max_request.saturating_mul(2).clamp(QUERY_VALUE_DEFAULT, QUERY_VALUE_MAX)
}

/// A query to be answered.
#[derive(Clone, Debug)]
pub struct Work {
    /// Over these rows, in their order.
    pub rows: Rows,
    /// Which of them.
    pub query: Arc<Query>,
    /// How many at most.
    pub limit: Option<u64>,
}

/// The rows that match, in their order, or a sentence that says what is wrong with the query.
pub type Found = Result<Arc<[Arc<Row>]>, String>;

/// How far a query has got.
#[derive(Clone, Debug)]
pub struct Progress {
    /// The rows that match, in their order, of those in front of `from`.
    pub found: Vec<Arc<Row>>,
    /// Where to go on.
    from: Bound<RowKey>,
}

impl Default for Progress {
    fn default() -> Self {
        Self { found: Vec::new(), from: Bound::Unbounded }
    }
}

/// Why there is no result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The query is none that can be evaluated: a sentence.
    Bad(String),
    /// It was stopped.
    Stopped,
}

/// Somebody who evaluates queries while the engine goes on, one at a time. It is told what time it
/// is, and answers in time whatever becomes of the evaluation; which may take some time to end
/// then, and so may one that was stopped: see [`Helper::is_free`].
pub trait Helper: Debug + Send {
    /// Begins with this query. Nothing else may be under way, and the helper has to be free.
    fn start(&mut self, work: Work, now: Mono);

    /// What came of the query that was started, once; `None` while it is under way.
    fn poll(&mut self, now: Mono) -> Option<Found>;

    /// Nobody waits for the query under way any more: nothing will be heard of it.
    fn stop(&mut self);

    /// Whether a query can be started. Whoever has said no wakes the loop when it is another's
    /// turn.
    fn is_free(&mut self) -> bool {
        true
    }

    /// When to poll next although nothing has ended; `None` if only an end matters.
    fn poll_timeout(&self) -> Option<Mono> {
        None
    }

    /// How many queries have taken too long.
    fn timed_out(&self) -> u64 {
        0
    }
}
