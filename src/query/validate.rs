//! Validation: compiles a query to the text of one statement if its expressions are valid.
//!
//! An expression is valid if two statements can be prepared, which are never run: one with the bare
//! expression after `WHERE`, one with it in the parentheses of a `CHECK`. The first ensures that
//! its parentheses are balanced, so it cannot break out of those of the second; the second permits
//! only an expression: no sub-query, parameter, aggregate or second statement.

use super::function_allowlist::is_allowed;
use super::sqlite::{allow, explain, open};
use super::{QueryError, canonical};
use crate::base::limits::{QUERY_CALLS_MAX, QUERY_DEPTH_MAX, QUERY_TEXT_MAX_BYTES};
use crate::model::query::{Expr, Query, SPACE};
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::{Connection, Error};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Beginning of the second statement. The table is never created.
const CHECKED: &str = "CREATE TABLE j(id INTEGER, payload TEXT, state TEXT, events TEXT, \
    modified INTEGER, queue TEXT, pri NUMERIC, CHECK(\n";

/// Longest expression that an error repeats, in bytes.
const HINT_MAX: usize = 100;

/// The connection on which the second statements are prepared.
#[derive(Debug)]
pub(super) struct Validator {
    connection: Connection,
    /// Function calls in the statements prepared since the last reset.
    calls: Arc<AtomicUsize>,
}

impl Validator {
    pub(super) fn new(value_max: usize) -> Result<Self, Error> {
        let mut connection = open(value_max)?;
        canonical::register(&connection)?;
        let calls = Arc::<AtomicUsize>::default();
        let counted = Arc::clone(&calls);
        connection.authorizer(Some(move |context: AuthContext<'_>| {
            if matches!(context.action, AuthAction::Function { .. }) {
                counted.fetch_add(1, Ordering::Relaxed);
            }
            may_check(context)
        }))?;
        Ok(Self { connection, calls })
    }

    /// Compiles a query to the statement that selects its rows. `head`: the beginning of that
    /// statement; `bare`: the beginning of the first validation statement, up to `WHERE`;
    /// `evaluator`: the connection that will run the result.
    pub(super) fn compile(
        &self,
        query: &Query,
        evaluator: &Connection,
        bare: &str,
        head: &str,
    ) -> Result<String, QueryError> {
        let lengths = query.terms.iter().flat_map(|term| [&term.left, &term.right]).map(length);
        let total = lengths.fold(0, usize::saturating_add);
        if total > QUERY_TEXT_MAX_BYTES {
            let why =
                format!("the query is {total} bytes long, {QUERY_TEXT_MAX_BYTES} are possible");
            return Err(QueryError::Bad(why));
        }
        if query.terms.len() > QUERY_DEPTH_MAX / 2 {
            let (terms, max) = (query.terms.len(), QUERY_DEPTH_MAX / 2);
            return Err(QueryError::Bad(format!(
                "the query has {terms} terms, {max} are possible"
            )));
        }
        self.calls.store(0, Ordering::Relaxed);
        let mut sql = head.to_owned();
        for (number, term) in query.terms.iter().enumerate() {
            let side = |name, expr| {
                self.operand(expr, evaluator, bare).map_err(|why| {
                    QueryError::Bad(format!("term {}, {name} side: {why}", number + 1))
                })
            };
            let (left, right) = (side("left", &term.left)?, side("right", &term.right)?);
            sql.push_str(" AND (\n");
            sql.push_str(&left);
            sql.push_str("\n) ");
            sql.push_str(term.op.name());
            sql.push_str(" (\n");
            sql.push_str(&right);
            sql.push_str("\n)");
        }
        let calls = self.calls.load(Ordering::Relaxed);
        if calls > QUERY_CALLS_MAX {
            let why = format!("the query calls {calls} functions, {QUERY_CALLS_MAX} are possible");
            return Err(QueryError::Bad(why));
        }
        Ok(sql)
    }

    /// One side as SQL.
    fn operand(&self, expr: &Expr, evaluator: &Connection, bare: &str) -> Result<String, String> {
        if let Some(word) = expr.bare_word() {
            return Ok(format!("'{word}'"));
        }
        match expr {
            Expr::Null => Ok("NULL".to_owned()),
            // Like the booleans of JSON in SQLite.
            Expr::Bool(bool) => Ok(i32::from(*bool).to_string()),
            Expr::Literal(text) if text.contains('\0') => {
                Err("a text in a query has no NUL character".to_owned())
            }
            Expr::Literal(text) => Ok(format!("'{}'", text.replace('\'', "''"))),
            Expr::Number(number) => {
                let fits = |byte| matches!(byte, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E');
                if number.bytes().all(fits) && !number.contains("--") {
                    Ok(number.to_string())
                } else {
                    Err(format!("{number} is no number"))
                }
            }
            Expr::Text(text) => self.expression(text, evaluator, bare),
        }
    }

    /// Validates an expression, and returns it as SQL.
    fn expression(&self, text: &str, evaluator: &Connection, bare: &str) -> Result<String, String> {
        if text.contains('\0') {
            return Err("an expression has no NUL character".to_owned());
        }
        if is_date(text.trim_matches(SPACE)) {
            let text = text.trim_matches(SPACE);
            return Err(format!(
                "{text} is arithmetic in an expression: write {{\"value\": \"{text}\"}} for the \
                 text, or ({text}) for what it comes to"
            ));
        }
        let prepare = |connection: &Connection, sql: String| {
            connection
                .prepare(&sql)
                .map(drop)
                .map_err(|error| explain(&error) + &as_text(text, &error))
        };
        prepare(evaluator, format!("{bare}\n{text}\n"))?;
        prepare(&self.connection, format!("{CHECKED}{text}\n))"))?;
        Ok(text.to_owned())
    }
}

/// A hint for the error message, if the expression looks like an unquoted text.
fn as_text(text: &str, error: &Error) -> String {
    let said = explain(error);
    let is_odd = ["syntax error", "no such column", "unrecognized token", "incomplete input"]
        .iter()
        .any(|known| said.contains(known));
    let is_plain =
        |char: char| !char.is_control() && !matches!(char, '(' | ')' | '\'' | '"' | '\\' | ';');
    if is_odd && !text.is_empty() && text.len() <= HINT_MAX && text.chars().all(is_plain) {
        format!("; write {{\"value\": \"{text}\"}} for a text")
    } else {
        String::new()
    }
}

/// Whether it looks like a date, which as an expression would be a subtraction or division.
fn is_date(text: &str) -> bool {
    ['-', '/'].iter().any(|&separator| {
        let is_number = |part: &&str| part.bytes().all(|byte| byte.is_ascii_digit());
        let lengths: Vec<usize> = text.split(separator).filter(is_number).map(str::len).collect();
        let count = text.split(separator).count();
        count == 3 && matches!(lengths[..], [4, 1..=2, 1..=2] | [1..=2, 1..=2, 4])
    })
}

fn length(expr: &Expr) -> usize {
    match expr {
        Expr::Text(text) | Expr::Number(text) | Expr::Literal(text) => text.len(),
        Expr::Bool(_) | Expr::Null => 1,
    }
}

/// Authorizes what the second statement needs, and the allowed functions.
fn may_check(context: AuthContext<'_>) -> Authorization {
    let of_schema = |table: &str| table == "sqlite_master" || table == "sqlite_schema";
    allow(match context.action {
        AuthAction::Function { function_name } => is_allowed(function_name),
        AuthAction::CreateTable { table_name } => table_name == "j",
        AuthAction::Read { table_name, .. } => table_name == "j" || of_schema(table_name),
        AuthAction::Insert { table_name } | AuthAction::Update { table_name, .. } => {
            of_schema(table_name)
        }
        _ => false,
    })
}
