//! The evaluator: one statement over one snapshot after the other.

use super::path_predicate::{PathPredicate, parse};
use super::rows::COLUMNS;
use super::validate::{Validator, allow, explain, open};
use super::vtab::{self, CursorPos, SharedScan, Stops};
use super::{
    QueryError, QueryTask, StopCheck, TaskState, canonical, function_allowlist, like,
    text_functions,
};
use crate::base::limits::{QUERY_HEAP_MAX_BYTES, QUERY_STATEMENTS_MAX, QUERY_VALUE_DEFAULT_BYTES};
use crate::model::query::Query;
use crate::model::row::Row;
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::{CachedStatement, Connection, Error, ErrorCode};
use std::collections::VecDeque;
use std::fmt;
use std::ops::Bound;
use std::sync::Arc;

/// Instructions of SQLite between two questions whether to stop: few, because a single one may call
/// a function on a long text. It asks only where it jumps back, so at most once in a row.
const QUESTIONS: i32 = 8;

/// Checks queries and evaluates them, in the thread of its caller.
pub struct Evaluator {
    connection: Connection,
    checker: Validator,
    scan: SharedScan,
    stop: StopCheck,
    /// What checks begin with.
    bare: String,
    /// What statements begin with.
    head: String,
    /// The queries that were checked last, with what came of them: the newest last.
    known: VecDeque<(Arc<Query>, Compiled)>,
}

/// A query that was checked.
#[derive(Clone)]
struct Compiled {
    /// The statement.
    sql: Arc<str>,
    /// What of it the cursor tries by itself.
    sought: Arc<[PathPredicate]>,
}

impl fmt::Debug for Evaluator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Evaluator").field("scan", &self.scan).finish_non_exhaustive()
    }
}

impl Evaluator {
    /// An evaluator that asks `stop` whether to go on, for texts of the usual length.
    ///
    /// # Errors
    /// If SQLite cannot be set up, in a sentence.
    pub fn new(stop: StopCheck) -> Result<Self, String> {
        Self::with_value_max(stop, QUERY_VALUE_DEFAULT_BYTES)
    }

    /// The same, for texts of up to `value_max` bytes ([`value_max`](super::value_max)).
    ///
    /// # Errors
    /// If SQLite cannot be set up, in a sentence.
    pub fn with_value_max(stop: StopCheck, value_max: usize) -> Result<Self, String> {
        Self::with_turns(stop, Arc::new(|| false), value_max)
    }

    /// The same; it asks `leave` before each row but the first whether it is to stop there.
    ///
    /// # Errors
    /// If SQLite cannot be set up, in a sentence.
    pub fn with_turns(stop: StopCheck, leave: StopCheck, value_max: usize) -> Result<Self, String> {
        Self::set_up(stop, leave, value_max)
            .map_err(|error| format!("cannot set up SQLite: {error}"))
    }

    fn set_up(stop: StopCheck, leave: StopCheck, value_max: usize) -> Result<Self, Error> {
        let mut connection = open(value_max)?;
        let limit = i64::try_from(QUERY_HEAP_MAX_BYTES).unwrap_or(i64::MAX);
        // Of the process; nobody else uses SQLite.
        connection.pragma_update(None, "hard_heap_limit", limit)?;
        connection.set_prepared_statement_cache_capacity(QUERY_STATEMENTS_MAX);
        let scan = SharedScan::new();
        let stops = Stops { stop: Arc::clone(&stop), leave };
        vtab::register(&connection, &scan, stops, value_max)?;
        like::register(&connection, &stop)?;
        text_functions::register(&connection, &stop, value_max)?;
        canonical::register(&connection)?;
        let asked = Arc::clone(&stop);
        connection.progress_handler(QUESTIONS, Some(move || asked()))?;
        connection.authorizer(Some(may_evaluate))?;
        Ok(Self {
            connection,
            checker: Validator::new(value_max)?,
            scan,
            stop,
            bare: format!("SELECT 1 FROM {COLUMNS} WHERE"),
            head: format!("SELECT \"#\" FROM {COLUMNS} WHERE TRUE"),
            known: VecDeque::new(),
        })
    }

    /// The rows that match, in their order. O(rows), and what their values cost.
    ///
    /// # Errors
    /// If the query is wrong, or is stopped.
    pub fn run(&mut self, work: &QueryTask) -> Result<Vec<Arc<Row>>, QueryError> {
        let mut progress = TaskState::default();
        self.go_on(work, &mut progress)?;
        Ok(progress.found)
    }

    /// Goes on with `work` where `progress` ends, to its end. Whoever has stopped it may go on
    /// later, with another evaluator if they like: only the row at which it was stopped is looked
    /// at again. O(rows that are left), and what their values cost.
    ///
    /// # Errors
    /// If the query is wrong, or is stopped.
    pub fn go_on(&mut self, work: &QueryTask, progress: &mut TaskState) -> Result<(), QueryError> {
        let limit = limit_of(work);
        if work.query.terms.is_empty() {
            progress.found = work.rows.values().take(limit).cloned().collect();
            return Ok(());
        }
        let result = self.compile(&work.query).and_then(|Compiled { sql, sought }| {
            let mut statement = self.connection.prepare_cached(&sql).map_err(|e| bad(&e))?;
            while progress.found.len() < limit
                && !self.scan(&mut statement, &sought, work, limit, progress)?
            {}
            Ok(())
        });
        match result {
            Err(_) if (self.stop)() => Err(QueryError::Stopped),
            result => result,
        }
    }

    fn compile(&mut self, query: &Arc<Query>) -> Result<Compiled, QueryError> {
        if let Some((_, compiled)) = self.known.iter().find(|(known, _)| known == query) {
            return Ok(compiled.clone());
        }
        let sql = self.checker.compile(query, &self.connection, &self.bare, &self.head)?;
        let compiled = Compiled { sql: sql.into(), sought: parse(query) };
        if self.known.len() == QUERY_STATEMENTS_MAX {
            self.known.pop_front();
        }
        self.known.push_back((Arc::clone(query), compiled.clone()));
        Ok(compiled)
    }

    /// Goes on to the end, or behind a row that SQLite stumbles over; says whether this is the end.
    fn scan(
        &self,
        statement: &mut CachedStatement<'_>,
        sought: &Arc<[PathPredicate]>,
        work: &QueryTask,
        limit: usize,
        progress: &mut TaskState,
    ) -> Result<bool, QueryError> {
        self.scan.begin(work.rows.clone(), progress.from, Arc::clone(sought));
        let result = step(statement, limit - progress.found.len());
        let scan = self.scan.end();
        progress.found.extend(scan.found);
        let Err(error) = result else { return Ok(true) };
        match scan.place {
            CursorPos::Nowhere => {}
            // It was stopped with nothing left to do.
            CursorPos::End => return Ok(true),
            // A row that was not asked for has nothing to do with it: the query has.
            CursorPos::At(row, true) if is_malformed(&error) => {
                progress.from = Bound::Excluded(row);
                return Ok(false);
            }
            CursorPos::At(row, _) => {
                let is_found = progress.found.last().is_some_and(|last| last.key() == row);
                progress.from = if is_found { Bound::Excluded(row) } else { Bound::Included(row) };
            }
        }
        Err(if scan.left { QueryError::Stopped } else { bad(&error) })
    }
}

/// Runs to the end or until so many rows are found. They are not handed out here, but by the
/// cursor, which is closed when this ends.
fn step(statement: &mut CachedStatement<'_>, limit: usize) -> Result<(), Error> {
    let mut rows = statement.query([])?;
    let mut found = 0;
    while found < limit && rows.next()?.is_some() {
        found += 1;
    }
    Ok(())
}

fn limit_of(work: &QueryTask) -> usize {
    work.limit.map_or(usize::MAX, |most| usize::try_from(most).unwrap_or(usize::MAX))
}

/// SQLite's word for what it cannot read as JSON, too deep nesting included.
fn is_malformed(error: &Error) -> bool {
    matches!(error, Error::SqliteFailure(_, Some(said)) if said == "malformed JSON")
}

fn bad(error: &Error) -> QueryError {
    QueryError::Bad(match error.sqlite_error_code() {
        Some(ErrorCode::OutOfMemory) => "the query needs too much memory".to_owned(),
        _ => format!("the query cannot be evaluated: {}", explain(error)),
    })
}

/// What statements of queries do by themselves, and what an expression may.
fn may_evaluate(context: AuthContext<'_>) -> Authorization {
    allow(match context.action {
        AuthAction::Select => true,
        AuthAction::Read { table_name, .. } => ["snapshot", "j", ""].contains(&table_name),
        AuthAction::Function { function_name } => function_allowlist::is_allowed(function_name),
        _ => false,
    })
}
