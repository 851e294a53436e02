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
//!   then whether to stop; so a query ends soon after it is to.
//! - A column that a query does not use is not made.
//!
//! What SQLite cannot say of a single row: where JSON is malformed to it (nested deeper than 1,000,
//! or no JSON at all in a part that was taken out as JSON) the row does not match, and the query
//! goes on. A text longer than [`QUERY_VALUE_MAX`] counts as NULL.
//!
//! [`QUERY_VALUE_MAX`]: crate::base::limits::QUERY_VALUE_MAX

mod allowed;
mod check;
mod evaluate;
mod like;
mod rows;
mod table;
mod texts;

use crate::model::query::Query;
use crate::model::row::{Row, RowKey, Rows};
use std::fmt::Debug;
use std::ops::Bound;
use std::sync::Arc;

pub use evaluate::Evaluator;

/// Says whether the query that runs is to stop. Asked every few microseconds.
pub type Stop = Arc<dyn Fn() -> bool + Send + Sync>;

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

/// Somebody who evaluates queries while the engine goes on, one at a time.
pub trait Helper: Debug + Send {
    /// Begins with this query. Nothing else may be under way.
    fn start(&mut self, work: Work);

    /// What came of the query that was started, once; `None` while it is under way.
    fn poll(&mut self) -> Option<Found>;

    /// Nobody waits for the query under way any more. It still ends by [`Helper::poll`], soon.
    fn stop(&mut self);

    /// How many queries have taken too long.
    fn timed_out(&self) -> u64 {
        0
    }
}
