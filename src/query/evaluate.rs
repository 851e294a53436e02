//! The evaluator: runs one statement at a time over a snapshot.

use super::path_predicate::{PathPredicate, parse};
use super::rows::COLUMNS;
use super::sqlite::{allow, explain, open};
use super::validate::Validator;
use super::vtab::{self, CursorPos, SharedScan, Stops, TableOptions};
use super::{
    QueryError, QueryTask, RowSkips, StopCheck, TaskState, canonical, function_allowlist, like,
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

/// SQLite instructions between two stop checks: few, because one instruction may call a function on
/// a long text. SQLite checks only at backward jumps, so at most once per row.
const INSTRUCTIONS_PER_CHECK: i32 = 8;

/// Validates and evaluates queries on the thread of its caller.
pub struct Evaluator {
    connection: Connection,
    validator: Validator,
    scan: SharedScan,
    stop: StopCheck,
    skips: RowSkips,
    /// Beginning of the statements that are only validated.
    bare: String,
    /// Beginning of the statements that run.
    head: String,
    /// Cache of the [`QUERY_STATEMENTS_MAX`] queries compiled last, the newest last.
    compiled: VecDeque<(Arc<Query>, Compiled)>,
}

/// A valid query.
#[derive(Clone)]
struct Compiled {
    sql: Arc<str>,
    /// Terms that the cursor tests by itself.
    predicates: Arc<[PathPredicate]>,
}

impl fmt::Debug for Evaluator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Evaluator").field("scan", &self.scan).finish_non_exhaustive()
    }
}

impl Evaluator {
    /// An evaluator for texts of up to [`QUERY_VALUE_DEFAULT_BYTES`].
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

    /// The same; `leave` is checked before each row but the first, and stops the query there.
    ///
    /// # Errors
    /// If SQLite cannot be set up, in a sentence.
    pub fn with_turns(stop: StopCheck, leave: StopCheck, value_max: usize) -> Result<Self, String> {
        Self::set_up(Stops { stop, leave }, value_max, RowSkips::ALL)
    }

    /// The same as [`Self::new`], but only these rows are skipped: for benches, which show what it
    /// saves.
    ///
    /// # Errors
    /// If SQLite cannot be set up, in a sentence.
    pub fn with_skips(stop: StopCheck, skips: RowSkips) -> Result<Self, String> {
        let stops = Stops { stop, leave: Arc::new(|| false) };
        Self::set_up(stops, QUERY_VALUE_DEFAULT_BYTES, skips)
    }

    fn set_up(stops: Stops, value_max: usize, skips: RowSkips) -> Result<Self, String> {
        Self::connect(stops, value_max, skips)
            .map_err(|error| format!("cannot set up SQLite: {error}"))
    }

    fn connect(stops: Stops, value_max: usize, skips: RowSkips) -> Result<Self, Error> {
        let mut connection = open(value_max)?;
        let limit = i64::try_from(QUERY_HEAP_MAX_BYTES).unwrap_or(i64::MAX);
        // Process-wide; only queries use SQLite.
        connection.pragma_update(None, "hard_heap_limit", limit)?;
        connection.set_prepared_statement_cache_capacity(QUERY_STATEMENTS_MAX);
        let scan = SharedScan::new();
        let stop = Arc::clone(&stops.stop);
        let options = TableOptions { shared: scan.clone(), stops, value_max, skips };
        vtab::register(&connection, options)?;
        like::register(&connection, &stop)?;
        text_functions::register(&connection, &stop, value_max)?;
        canonical::register(&connection)?;
        let check = Arc::clone(&stop);
        connection.progress_handler(INSTRUCTIONS_PER_CHECK, Some(move || check()))?;
        connection.authorizer(Some(may_evaluate))?;
        Ok(Self {
            connection,
            validator: Validator::new(value_max)?,
            scan,
            stop,
            skips,
            bare: format!("SELECT 1 FROM {COLUMNS} WHERE"),
            head: format!("SELECT \"#\" FROM {COLUMNS} WHERE TRUE"),
            compiled: VecDeque::new(),
        })
    }

    /// The matching rows, in their order. O(rows), plus the cost of their values.
    ///
    /// # Errors
    /// If the query is invalid or is stopped.
    pub fn run(&mut self, work: &QueryTask) -> Result<Vec<Arc<Row>>, QueryError> {
        let mut progress = TaskState::default();
        self.go_on(work, &mut progress)?;
        Ok(progress.found)
    }

    /// Continues `work` from `progress` to its end. A stopped query can be continued later, by any
    /// evaluator: only the row at which it was stopped is tested again. O(remaining rows), plus the
    /// cost of their values.
    ///
    /// # Errors
    /// If the query is invalid or is stopped.
    pub fn go_on(&mut self, work: &QueryTask, progress: &mut TaskState) -> Result<(), QueryError> {
        self.find_rest(work, progress)?;
        progress.shape.apply(&mut progress.found);
        Ok(())
    }

    fn find_rest(&mut self, work: &QueryTask, progress: &mut TaskState) -> Result<(), QueryError> {
        let limit = limit_of(work);
        if work.query.terms.is_empty() {
            progress.found = work.rows.values().take(limit).cloned().collect();
            return Ok(());
        }
        let result = self.compile(&work.query).and_then(|Compiled { sql, predicates }| {
            let mut statement = self.connection.prepare_cached(&sql).map_err(|e| bad(&e))?;
            while progress.found.len() < limit
                && !self.scan(&mut statement, &predicates, work, limit, progress)?
            {}
            Ok(())
        });
        match result {
            Err(_) if (self.stop)() => Err(QueryError::Stopped),
            result => result,
        }
    }

    fn compile(&mut self, query: &Arc<Query>) -> Result<Compiled, QueryError> {
        if let Some((_, compiled)) = self.compiled.iter().find(|(known, _)| known == query) {
            return Ok(compiled.clone());
        }
        let sql = self.validator.compile(query, &self.connection, &self.bare, &self.head)?;
        let predicates = if self.skips.paths { parse(query) } else { Arc::from([]) };
        let compiled = Compiled { sql: sql.into(), predicates };
        if self.compiled.len() == QUERY_STATEMENTS_MAX {
            self.compiled.pop_front();
        }
        self.compiled.push_back((Arc::clone(query), compiled.clone()));
        Ok(compiled)
    }

    /// Scans to the end, or to a row with malformed JSON, which is skipped. True at the end.
    fn scan(
        &self,
        statement: &mut CachedStatement<'_>,
        predicates: &Arc<[PathPredicate]>,
        work: &QueryTask,
        limit: usize,
        progress: &mut TaskState,
    ) -> Result<bool, QueryError> {
        self.scan.begin(work.rows.clone(), progress.from, Arc::clone(predicates));
        let result = step(statement, limit - progress.found.len());
        let scan = self.scan.end();
        progress.found.extend(scan.found);
        let Err(error) = result else { return Ok(true) };
        match scan.place {
            CursorPos::Nowhere => {}
            // Stopped behind the last row: complete.
            CursorPos::End => return Ok(true),
            // If no column of the row was read, the error is one of the query.
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

/// Runs to the end or until `limit` rows are found. The cursor collects them; it is closed on
/// return.
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

/// Whether it is SQLite's error for text that is not JSON or nested too deep.
fn is_malformed(error: &Error) -> bool {
    matches!(error, Error::SqliteFailure(_, Some(said)) if said == "malformed JSON")
}

fn bad(error: &Error) -> QueryError {
    QueryError::Bad(match error.sqlite_error_code() {
        Some(ErrorCode::OutOfMemory) => "the query needs too much memory".to_owned(),
        _ => format!("the query cannot be evaluated: {}", explain(error)),
    })
}

/// Authorizes what the statement of a query needs, and the allowed functions.
fn may_evaluate(context: AuthContext<'_>) -> Authorization {
    allow(match context.action {
        AuthAction::Select => true,
        AuthAction::Read { table_name, .. } => ["snapshot", "j", ""].contains(&table_name),
        AuthAction::Function { function_name } => function_allowlist::is_allowed(function_name),
        _ => false,
    })
}
