//! SQLite's text functions, reimplemented with the same results.
//!
//! SQLite's `instr`, `replace`, and `trim`, `ltrim`, `rtrim` with a set of characters take time
//! quadratic in their arguments. Here: O(text) each.
//!
//! [`EXPANDING_FUNCTIONS`] build large strings from small arguments, and one expression may have
//! many of them without a stop check between. Here each call checks and is not constant folded,
//! then delegates to SQLite through a private connection; they are rare, so that round trip does
//! not matter.

use super::StopCheck;
use super::sqlite::{PURE, UNCHECKED_BYTES_MAX, explain, stopped};
use memchr::memmem;
use rusqlite::functions::{Context, FunctionFlags};
use rusqlite::limits::Limit;
use rusqlite::types::{ToSql, ToSqlOutput, Value, ValueRef};
use rusqlite::{Connection, Error, Result, params_from_iter};
use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt::Write;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Functions that make large strings from small arguments, and their argument counts; -1 is any.
const EXPANDING_FUNCTIONS: [(&str, i32); 6] = [
    ("format", -1),
    ("hex", 1),
    ("printf", -1),
    ("quote", 1),
    ("unistr_quote", 1),
    ("zeroblob", 1),
];

/// The flags of functions that are not constant folded.
const NOT_FOLDED: FunctionFlags = FunctionFlags::SQLITE_UTF8.union(FunctionFlags::SQLITE_INNOCUOUS);

/// A private connection, for results that only SQLite itself can produce.
#[derive(Clone, Debug)]
pub(super) struct HelperConnection(Arc<Mutex<Connection>>);

impl HelperConnection {
    pub(super) fn new() -> Result<Self> {
        Ok(Self(Arc::new(Mutex::new(Connection::open_in_memory()?))))
    }

    fn lock(&self) -> MutexGuard<'_, Connection> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An argument as text, in SQLite's form; `None` is NULL.
    pub(super) fn text<'a>(&self, value: ValueRef<'a>) -> Result<Option<Cow<'a, [u8]>>> {
        Ok(Some(match value {
            ValueRef::Null => return Ok(None),
            ValueRef::Text(bytes) | ValueRef::Blob(bytes) => Cow::Borrowed(bytes),
            ValueRef::Integer(number) => Cow::Owned(number.to_string().into_bytes()),
            ValueRef::Real(number) => {
                let connection = self.lock();
                let mut statement = connection.prepare_cached("SELECT CAST(?1 AS TEXT)")?;
                let text: String = statement.query_row([number], |row| row.get(0))?;
                Cow::Owned(text.into_bytes())
            }
        }))
    }
}

/// The result of a function.
enum Output {
    New(Value),
    Text(Vec<u8>),
}

impl ToSql for Output {
    fn to_sql(&self) -> Result<ToSqlOutput<'_>> {
        match self {
            Self::New(value) => value.to_sql(),
            Self::Text(text) => Ok(ToSqlOutput::Borrowed(ValueRef::Text(text))),
        }
    }
}

/// Replaces SQLite's functions of these names. No text is longer than `value_max` bytes.
pub(super) fn register(connection: &Connection, stop: &StopCheck, value_max: usize) -> Result<()> {
    let writer = HelperConnection::new()?;
    let limit = i32::try_from(value_max).unwrap_or(i32::MAX);
    writer.lock().set_limit(Limit::SQLITE_LIMIT_LENGTH, limit)?;
    let own = writer.clone();
    connection.create_scalar_function("instr", 2, PURE, move |context| instr(context, &own))?;
    let (own, check) = (writer.clone(), Arc::clone(stop));
    connection.create_scalar_function("replace", 3, PURE, move |context| {
        replace(context, &own, &check, value_max)
    })?;
    for (name, arguments) in EXPANDING_FUNCTIONS {
        let (own, check) = (writer.clone(), Arc::clone(stop));
        connection.create_scalar_function(name, arguments, NOT_FOLDED, move |context| {
            expand(context, name, &own, &check)
        })?;
    }
    for (name, front, back) in
        [("trim", true, true), ("ltrim", true, false), ("rtrim", false, true)]
    {
        let own = writer.clone();
        let function = move |context: &Context<'_>| trim(context, &own, front, back);
        connection.create_scalar_function(name, 2, PURE, function)?;
    }
    Ok(())
}

/// Position of the second argument in the first, in characters from 1, or in bytes if both are
/// blobs; 0 if it does not occur.
fn instr(context: &Context<'_>, writer: &HelperConnection) -> Result<Option<i64>> {
    let (first, second) = (context.get_raw(0), context.get_raw(1));
    let blobs = matches!((first, second), (ValueRef::Blob(_), ValueRef::Blob(_)));
    let (Some(text), Some(part)) = (writer.text(first)?, writer.text(second)?) else {
        return Ok(None);
    };
    let Some(at) = memmem::find(&text, &part) else { return Ok(Some(0)) };
    let begins = |byte: &&u8| blobs || !continues(**byte);
    Ok(i64::try_from(text[..at].iter().filter(begins).count() + 1).ok())
}

/// The result of SQLite's function of this name.
fn expand(
    context: &Context<'_>,
    name: &str,
    writer: &HelperConnection,
    stop: &StopCheck,
) -> Result<Output> {
    if stop() {
        return Err(stopped());
    }
    let mut sql = format!("SELECT {name}(");
    for number in 1..=context.len() {
        let comma = if number > 1 { "," } else { "" };
        // Writing to a string does not fail.
        let _ = write!(sql, "{comma}?{number}");
    }
    sql.push(')');
    let arguments = (0..context.len()).map(|at| ToSqlOutput::Borrowed(context.get_raw(at)));
    let connection = writer.lock();
    let mut statement = connection.prepare_cached(&sql)?;
    let result = statement.query_row(params_from_iter(arguments), |row| {
        Ok(match row.get_ref(0)? {
            // It may be invalid UTF-8.
            ValueRef::Text(text) => Output::Text(text.to_vec()),
            other => Output::New(other.try_into()?),
        })
    });
    result.map_err(|error| Error::UserFunctionError(explain(&error).into()))
}

fn replace(
    context: &Context<'_>,
    writer: &HelperConnection,
    stop: &StopCheck,
    value_max: usize,
) -> Result<Output> {
    let text = |number| writer.text(context.get_raw(number));
    let (Some(whole), Some(old)) = (text(0)?, text(1)?) else {
        return Ok(Output::New(Value::Null));
    };
    // Even if the replacement is NULL. A number or blob becomes text.
    if old.first().is_none_or(|&byte| byte == 0) {
        return Ok(Output::Text(whole.to_vec()));
    }
    let Some(new) = text(2)? else { return Ok(Output::New(Value::Null)) };
    let mut out = Vec::with_capacity(whole.len());
    let mut asked = 0;
    let mut from = 0;
    for at in memmem::find_iter(&whole, &old) {
        if out.len() + (at - from) + new.len() > value_max {
            return Err(Error::UserFunctionError("string or blob too big".into()));
        }
        if out.len() - asked > UNCHECKED_BYTES_MAX {
            asked = out.len();
            if stop() {
                return Err(stopped());
            }
        }
        out.extend_from_slice(&whole[from..at]);
        out.extend_from_slice(&new);
        from = at + old.len();
    }
    out.extend_from_slice(&whole[from..]);
    Ok(Output::Text(out))
}

fn trim(
    context: &Context<'_>,
    writer: &HelperConnection,
    front: bool,
    back: bool,
) -> Result<Output> {
    let text = |number| writer.text(context.get_raw(number));
    let (Some(whole), Some(set)) = (text(0)?, text(1)?) else {
        return Ok(Output::New(Value::Null));
    };
    let mut chars = HashSet::new();
    let mut rest = &*set;
    while !rest.is_empty() {
        let (char, more) = rest.split_at(char_len(rest));
        chars.insert(char);
        rest = more;
    }
    let mut left = &*whole;
    while front && !left.is_empty() && chars.contains(&left[..char_len(left)]) {
        left = &left[char_len(left)..];
    }
    while back && !left.is_empty() {
        let at = left.iter().rposition(|&byte| !continues(byte)).unwrap_or(0);
        if !chars.contains(&left[at..]) {
            break;
        }
        left = &left[..at];
    }
    Ok(Output::Text(left.to_vec()))
}

/// Whether it is a UTF-8 continuation byte.
pub(super) fn continues(byte: u8) -> bool {
    byte & 0xc0 == 0x80
}

/// Bytes of the first character, as SQLite counts them. The text must not be empty.
pub(super) fn char_len(text: &[u8]) -> usize {
    if text[0] < 0xc0 {
        return 1;
    }
    1 + text[1..].iter().take_while(|&&byte| continues(byte)).count()
}
