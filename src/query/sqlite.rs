//! What the modules have in common towards SQLite: connections, flags of functions, errors.

use crate::base::limits::{QUERY_DEPTH_MAX, QUERY_TEXT_MAX_BYTES};
use rusqlite::config::DbConfig;
use rusqlite::functions::FunctionFlags;
use rusqlite::hooks::Authorization;
use rusqlite::limits::Limit;
use rusqlite::{Connection, Error};

/// Bytes of a statement beside its expressions, at most.
const FRAME: i32 = 64 * 1024;

/// Largest number of arguments of a function.
const ARGUMENTS: i32 = 50;

/// The flags of deterministic functions without side effects.
pub(super) const PURE: FunctionFlags = FunctionFlags::SQLITE_UTF8
    .union(FunctionFlags::SQLITE_DETERMINISTIC)
    .union(FunctionFlags::SQLITE_INNOCUOUS);

/// Bytes that are read or made without a stop check, at most.
pub(super) const UNCHECKED_BYTES_MAX: usize = 64 * 1024;

/// An in-memory connection with all optional features off. `value_max`: longest text, in bytes.
pub(super) fn open(value_max: usize) -> Result<Connection, Error> {
    let connection = Connection::open_in_memory()?;
    for (config, on) in [
        (DbConfig::SQLITE_DBCONFIG_DQS_DML, false),
        (DbConfig::SQLITE_DBCONFIG_DQS_DDL, false),
        (DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true),
        (DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false),
        (DbConfig::SQLITE_DBCONFIG_ENABLE_FKEY, false),
        (DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false),
        (DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW, false),
    ] {
        connection.set_db_config(config, on)?;
    }
    let number = |size: usize| i32::try_from(size).unwrap_or(i32::MAX);
    for (limit, max) in [
        (Limit::SQLITE_LIMIT_LENGTH, number(value_max)),
        (Limit::SQLITE_LIMIT_SQL_LENGTH, number(QUERY_TEXT_MAX_BYTES) + FRAME),
        (Limit::SQLITE_LIMIT_EXPR_DEPTH, number(QUERY_DEPTH_MAX)),
        (Limit::SQLITE_LIMIT_FUNCTION_ARG, ARGUMENTS),
        (Limit::SQLITE_LIMIT_COLUMN, ARGUMENTS),
        (Limit::SQLITE_LIMIT_COMPOUND_SELECT, 2),
        (Limit::SQLITE_LIMIT_VARIABLE_NUMBER, 2),
        (Limit::SQLITE_LIMIT_ATTACHED, 0),
        (Limit::SQLITE_LIMIT_TRIGGER_DEPTH, 1),
        (Limit::SQLITE_LIMIT_WORKER_THREADS, 0),
    ] {
        connection.set_limit(limit, max)?;
    }
    Ok(connection)
}

/// The answer of an authorizer.
pub(super) fn allow(allowed: bool) -> Authorization {
    if allowed { Authorization::Allow } else { Authorization::Deny }
}

/// SQLite's error message in the terms of a query.
pub(super) fn explain(error: &Error) -> String {
    let said = match error {
        Error::SqlInputError { msg, .. } | Error::SqliteFailure(_, Some(msg)) => msg.clone(),
        Error::UserFunctionError(error) => error.to_string(),
        Error::MultipleStatement => "an expression is no statement".to_owned(),
        other => other.to_string(),
    };
    said.replace(" prohibited in CHECK constraints", " are not possible in a query")
        .replace("not authorized to use function: ", "this function cannot be called: ")
}

/// The error of a stopped function.
pub(super) fn stopped() -> Error {
    Error::UserFunctionError("stopped".into())
}
