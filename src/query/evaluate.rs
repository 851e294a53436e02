//! The evaluator: one statement over one window of rows after the other.

use super::check::{Checker, allow, explain, open};
use super::rows::{COLUMNS, Shared, WINDOW};
use super::{Fault, Stop, Work, allowed, like, rows, texts};
use crate::base::limits::{QUERY_HEAP_MAX, QUERY_STATEMENTS};
use crate::model::query::Query;
use crate::model::row::Row;
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::{CachedStatement, Connection, Error, ErrorCode};
use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

/// Instructions of SQLite between two questions whether to stop: few, because a single one may call
/// a function on a long text.
const QUESTIONS: i32 = 100;

/// Checks queries and evaluates them, in the thread of its caller.
pub struct Evaluator {
    connection: Connection,
    checker: Checker,
    window: Shared,
    stop: Stop,
    /// What checks begin with.
    bare: String,
    /// What statements begin with.
    head: String,
    /// The queries that were checked last, with their statements: the newest last.
    known: VecDeque<(Arc<Query>, Arc<str>)>,
}

impl fmt::Debug for Evaluator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Evaluator").field("window", &self.window).finish_non_exhaustive()
    }
}

impl Evaluator {
    /// An evaluator that asks `stop` whether to go on.
    ///
    /// # Errors
    /// If SQLite cannot be set up, in a sentence.
    pub fn new(stop: Stop) -> Result<Self, String> {
        Self::set_up(stop).map_err(|error| format!("cannot set up SQLite: {error}"))
    }

    fn set_up(stop: Stop) -> Result<Self, Error> {
        let mut connection = open()?;
        let limit = i64::try_from(QUERY_HEAP_MAX).unwrap_or(i64::MAX);
        // Of the process; nobody else uses SQLite.
        connection.pragma_update(None, "hard_heap_limit", limit)?;
        connection.execute_batch("CREATE TABLE numbers(n INTEGER PRIMARY KEY)")?;
        for number in 0..WINDOW {
            connection.execute("INSERT INTO numbers VALUES (?1)", [number])?;
        }
        connection.set_prepared_statement_cache_capacity(QUERY_STATEMENTS);
        let window = Shared::default();
        rows::register(&connection, &window, &stop)?;
        like::register(&connection, &stop)?;
        texts::register(&connection)?;
        let asked = Arc::clone(&stop);
        connection.progress_handler(QUESTIONS, Some(move || asked()))?;
        connection.authorizer(Some(may_evaluate))?;
        Ok(Self {
            connection,
            checker: Checker::new()?,
            window,
            stop,
            bare: format!("SELECT 1 FROM {COLUMNS} WHERE"),
            head: format!("SELECT \"#\" FROM {COLUMNS} WHERE \"#\" BETWEEN ?1 AND ?2"),
            known: VecDeque::new(),
        })
    }

    /// The rows that match, in their order. O(rows), and what their values cost.
    ///
    /// # Errors
    /// If the query is wrong, or is stopped.
    pub fn run(&mut self, work: &Work) -> Result<Vec<Arc<Row>>, Fault> {
        if work.query.terms.is_empty() {
            return Ok(work.rows.values().take(limit_of(work)).cloned().collect());
        }
        let result = self.compile(&work.query).and_then(|sql| {
            let mut statement = self.connection.prepare_cached(&sql).map_err(|e| bad(&e))?;
            self.scan(&mut statement, work)
        });
        self.window.lock().rows.clear();
        match result {
            Err(_) if (self.stop)() => Err(Fault::Stopped),
            result => result,
        }
    }

    /// The statement of a query.
    fn compile(&mut self, query: &Arc<Query>) -> Result<Arc<str>, Fault> {
        if let Some((_, sql)) = self.known.iter().find(|(known, _)| known == query) {
            return Ok(Arc::clone(sql));
        }
        let compiled = self.checker.compile(query, &self.connection, &self.bare, &self.head)?;
        let sql: Arc<str> = format!("{compiled} ORDER BY \"#\"").into();
        if self.known.len() == QUERY_STATEMENTS {
            self.known.pop_front();
        }
        self.known.push_back((Arc::clone(query), Arc::clone(&sql)));
        Ok(sql)
    }

    fn scan(
        &self,
        statement: &mut CachedStatement<'_>,
        work: &Work,
    ) -> Result<Vec<Arc<Row>>, Fault> {
        let limit = limit_of(work);
        let mut found = Vec::new();
        let mut rest = work.rows.values();
        while found.len() < limit {
            let count = self.window.fill(rest.by_ref());
            let mut from = 0;
            while from < count {
                from = self.scan_window(statement, from, count, limit, &mut found)?;
            }
            if count < WINDOW {
                break;
            }
        }
        Ok(found)
    }

    /// Goes on in the window from row number `from`, to its end or behind a row that SQLite
    /// stumbles over; says where to go on.
    fn scan_window(
        &self,
        statement: &mut CachedStatement<'_>,
        from: u32,
        count: u32,
        limit: usize,
        found: &mut Vec<Arc<Row>>,
    ) -> Result<u32, Fault> {
        self.window.lock().asked = None;
        let mut last = None;
        let mut numbers = statement.query([from, count - 1]).map_err(|e| bad(&e))?;
        loop {
            match numbers.next() {
                Ok(Some(row)) => {
                    let number: u32 = row.get(0).map_err(|e| bad(&e))?;
                    found.push(Arc::clone(&self.window.lock().rows[number as usize]));
                    if found.len() >= limit {
                        return Ok(count);
                    }
                    last = Some(number);
                }
                Ok(None) => return Ok(count),
                Err(error) if is_malformed(&error) => {
                    // A row that was not asked for has nothing to do with it: the query has.
                    let asked =
                        self.window.lock().asked.filter(|&row| last.is_none_or(|l| row > l));
                    return asked.map(|row| row + 1).ok_or_else(|| bad(&error));
                }
                Err(error) => return Err(bad(&error)),
            }
        }
    }
}

fn limit_of(work: &Work) -> usize {
    work.limit.map_or(usize::MAX, |most| usize::try_from(most).unwrap_or(usize::MAX))
}

/// SQLite's word for what it cannot read as JSON, too deep nesting included.
fn is_malformed(error: &Error) -> bool {
    matches!(error, Error::SqliteFailure(_, Some(said)) if said == "malformed JSON")
}

fn bad(error: &Error) -> Fault {
    Fault::Bad(match error.sqlite_error_code() {
        Some(ErrorCode::OutOfMemory) => "the query needs too much memory".to_owned(),
        _ => format!("the query cannot be evaluated: {}", explain(error)),
    })
}

/// What statements of queries do by themselves, and what an expression may.
fn may_evaluate(context: AuthContext<'_>) -> Authorization {
    allow(match context.action {
        AuthAction::Select => true,
        AuthAction::Read { table_name, .. } => ["numbers", "j", ""].contains(&table_name),
        // An expression that calls the rows' functions by itself does not pass its check.
        AuthAction::Function { function_name } => {
            function_name.starts_with("row_") || allowed::is_allowed(function_name)
        }
        _ => false,
    })
}
