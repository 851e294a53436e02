//! Functions of SQLite on texts that take time quadratic in their arguments there, made anew:
//! `instr`, `replace`, and `trim`, `ltrim`, `rtrim` with a set of characters. Results are the same.
//! O(text) each.

use crate::base::limits::QUERY_VALUE_MAX;
use memchr::memmem;
use rusqlite::functions::{Context, FunctionFlags, SqlFnArg};
use rusqlite::types::{ToSql, ToSqlOutput, Value, ValueRef};
use rusqlite::{Connection, Error, Result};
use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

/// The flags of functions that are what they seem.
pub(super) const PURE: FunctionFlags = FunctionFlags::SQLITE_UTF8
    .union(FunctionFlags::SQLITE_DETERMINISTIC)
    .union(FunctionFlags::SQLITE_INNOCUOUS);

/// Values as texts, just as SQLite writes them.
#[derive(Clone, Debug)]
pub(super) struct Writer(Arc<Mutex<Connection>>);

impl Writer {
    pub(super) fn new() -> Result<Self> {
        Ok(Self(Arc::new(Mutex::new(Connection::open_in_memory()?))))
    }

    /// An argument as text; `None` is NULL.
    pub(super) fn text<'a>(&self, value: ValueRef<'a>) -> Result<Option<Cow<'a, [u8]>>> {
        Ok(Some(match value {
            ValueRef::Null => return Ok(None),
            ValueRef::Text(bytes) | ValueRef::Blob(bytes) => Cow::Borrowed(bytes),
            ValueRef::Integer(number) => Cow::Owned(number.to_string().into_bytes()),
            ValueRef::Real(number) => {
                let connection = self.0.lock().unwrap_or_else(PoisonError::into_inner);
                let mut statement = connection.prepare_cached("SELECT CAST(?1 AS TEXT)")?;
                let text: String = statement.query_row([number], |row| row.get(0))?;
                Cow::Owned(text.into_bytes())
            }
        }))
    }
}

/// A result: one of the arguments, or something new.
enum Output {
    Argument(SqlFnArg),
    New(Value),
    Text(Vec<u8>),
}

impl ToSql for Output {
    fn to_sql(&self) -> Result<ToSqlOutput<'_>> {
        match self {
            Self::Argument(argument) => argument.to_sql(),
            Self::New(value) => value.to_sql(),
            Self::Text(text) => Ok(ToSqlOutput::Borrowed(ValueRef::Text(text))),
        }
    }
}

/// Puts the functions in the places of SQLite's own.
pub(super) fn register(connection: &Connection) -> Result<()> {
    let writer = Writer::new()?;
    let own = writer.clone();
    connection.create_scalar_function("instr", 2, PURE, move |context| instr(context, &own))?;
    let own = writer.clone();
    connection.create_scalar_function("replace", 3, PURE, move |context| replace(context, &own))?;
    for (name, front, back) in
        [("trim", true, true), ("ltrim", true, false), ("rtrim", false, true)]
    {
        let own = writer.clone();
        let function = move |context: &Context<'_>| trim(context, &own, front, back);
        connection.create_scalar_function(name, 2, PURE, function)?;
    }
    Ok(())
}

/// Where the second argument begins in the first, counted in characters from 1, or in bytes if both
/// are blobs; 0 if nowhere.
fn instr(context: &Context<'_>, writer: &Writer) -> Result<Option<i64>> {
    let (first, second) = (context.get_raw(0), context.get_raw(1));
    let blobs = matches!((first, second), (ValueRef::Blob(_), ValueRef::Blob(_)));
    let (Some(text), Some(part)) = (writer.text(first)?, writer.text(second)?) else {
        return Ok(None);
    };
    let Some(at) = memmem::find(&text, &part) else { return Ok(Some(0)) };
    let begins = |byte: &&u8| blobs || !continues(**byte);
    Ok(i64::try_from(text[..at].iter().filter(begins).count() + 1).ok())
}

fn replace(context: &Context<'_>, writer: &Writer) -> Result<Output> {
    let text = |number| writer.text(context.get_raw(number));
    let (Some(whole), Some(old), Some(new)) = (text(0)?, text(1)?, text(2)?) else {
        return Ok(Output::New(Value::Null));
    };
    if old.first().is_none_or(|&byte| byte == 0) {
        return Ok(Output::Argument(context.get_arg(0)));
    }
    let mut out = Vec::with_capacity(whole.len());
    let mut from = 0;
    for at in memmem::find_iter(&whole, &old) {
        if out.len() + (at - from) + new.len() > QUERY_VALUE_MAX {
            return Err(Error::UserFunctionError("string or blob too big".into()));
        }
        out.extend_from_slice(&whole[from..at]);
        out.extend_from_slice(&new);
        from = at + old.len();
    }
    out.extend_from_slice(&whole[from..]);
    Ok(Output::Text(out))
}

fn trim(context: &Context<'_>, writer: &Writer, front: bool, back: bool) -> Result<Output> {
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

/// Whether the byte is one of a character's later ones.
pub(super) fn continues(byte: u8) -> bool {
    byte & 0xc0 == 0x80
}

/// Bytes of the first character, as SQLite steps over them. Not of nothing.
pub(super) fn char_len(text: &[u8]) -> usize {
    if text[0] < 0xc0 {
        return 1;
    }
    1 + text[1..].iter().take_while(|&&byte| continues(byte)).count()
}
