//! The columns of a snapshot's rows.

use crate::model::event::{EventKind, write_events};
use crate::model::job::Encoding;
use crate::model::row::Row;
use crate::wire::json::{push_bytes, push_packet};
use crate::wire::msgpack::push_json;
use rusqlite::types::ValueRef;
use std::ffi::{CStr, c_int};
use std::hint::black_box;
use std::sync::Arc;

/// The declaration of the virtual table. The types are those of a real table, so that values
/// compare as they do there.
pub(super) const DECLARATION: &CStr = c"CREATE TABLE snapshot(id INTEGER, payload TEXT, \
    state TEXT, events TEXT, modified INTEGER, queue TEXT, pri NUMERIC, \"#\" INTEGER)";

/// The subquery that expressions can read: without row numbers and schema.
pub(super) const COLUMNS: &str = "(SELECT id, payload, state, events, modified, queue, pri, \"#\" \
    FROM snapshot) AS j";

/// `#`, the column that is read of matching rows and of no others. No valid expression can name it.
pub(super) const MATCH_COLUMN: c_int = 7;

const PAYLOAD: c_int = 1;
pub(super) const STATE: c_int = 2;
pub(super) const EVENTS: c_int = 3;
pub(super) const MODIFIED: c_int = 4;
pub(super) const QUEUE: c_int = 5;
pub(super) const URGENCY: c_int = 6;

/// Whether the values of a column are texts or NULL.
pub(super) fn is_text(column: c_int) -> bool {
    matches!(column, PAYLOAD | STATE | EVENTS | QUEUE)
}

/// The value of a column, by its index in [`DECLARATION`]. A text that the row does not hold in
/// this form is written to `made`. O(text) for those, else O(1).
#[inline]
pub(super) fn value<'a>(row: &'a Row, column: c_int, made: &'a mut Vec<u8>) -> ValueRef<'a> {
    match column {
        0 => integer(row.id.0),
        PAYLOAD => payload(row, made),
        STATE if *row.state == *b"null" => ValueRef::Null,
        STATE => ValueRef::Text(&row.state),
        EVENTS => events(row, made),
        MODIFIED => integer(row.modified),
        QUEUE => queue(row, made),
        URGENCY => priority(row),
        _ => ValueRef::Null,
    }
}

/// Bytes of a cache line.
const LINE: usize = 64;

/// How much is prefetched of a row: cache lines of a text, and events of a history.
const AHEAD: usize = 4;

/// Reads the heap data of rows for the columns whose bits are set: the cache misses overlap here,
/// but would not between SQLite's work. O(rows).
pub(super) fn prefetch(rows: &[&Arc<Row>], columns: u32) {
    let uses = |column: c_int| columns & 1 << column != 0;
    let mut all = 0;
    for row in rows {
        if uses(PAYLOAD) {
            all ^= u8::from(matches!(row.encoding, Encoding::Packet { .. }))
                ^ scan_bytes(&row.payload);
        }
        if uses(STATE) {
            all ^= scan_bytes(&row.state);
        }
        if uses(EVENTS) {
            let events = row.events.newest_first().take(AHEAD);
            all ^= events.map(|event| skip_event(&event.kind)).fold(0, |all, one| all ^ one);
        }
        if uses(QUEUE) {
            all ^= scan_bytes(&row.queue);
        }
    }
    black_box(all);
}

#[inline]
fn scan_bytes(text: &[u8]) -> u8 {
    text.iter().step_by(LINE).take(AHEAD).fold(0, |all, byte| all ^ byte)
}

#[inline]
fn skip_event(what: &EventKind) -> u8 {
    match what {
        EventKind::Advanced { old, new } => scan_bytes(old) ^ scan_bytes(new),
        EventKind::User(text) => scan_bytes(text),
        _ => 0,
    }
}

fn integer(number: u64) -> ValueRef<'static> {
    ValueRef::Integer(i64::try_from(number).unwrap_or(i64::MAX))
}

fn payload<'a>(row: &'a Row, made: &'a mut Vec<u8>) -> ValueRef<'a> {
    match row.encoding {
        Encoding::MsgPack => {
            made.clear();
            push_json(made, &row.payload);
            ValueRef::Text(made)
        }
        Encoding::Json | Encoding::JsonLine | Encoding::Bytes if is_null(&row.payload) => {
            ValueRef::Null
        }
        Encoding::Json | Encoding::JsonLine => ValueRef::Text(&row.payload),
        Encoding::Packet { key_len } => {
            made.clear();
            push_packet(made, key_len, &row.payload);
            ValueRef::Text(made)
        }
        Encoding::Bytes => {
            made.clear();
            push_bytes(made, &row.payload);
            ValueRef::Text(made)
        }
    }
}

/// Whether a JSON text is `null`; most texts are decided by their first byte.
#[inline]
fn is_null(text: &[u8]) -> bool {
    !matches!(text.first(), Some(b'{' | b'[' | b'"')) && text.trim_ascii() == b"null"
}

fn events<'a>(row: &Row, made: &'a mut Vec<u8>) -> ValueRef<'a> {
    made.clear();
    write_events(&row.events, made);
    ValueRef::Text(made)
}

/// The queue's name; invalid UTF-8 becomes U+FFFD.
fn queue<'a>(row: &'a Row, made: &'a mut Vec<u8>) -> ValueRef<'a> {
    if str::from_utf8(&row.queue).is_ok() {
        return ValueRef::Text(&row.queue);
    }
    made.clear();
    made.extend_from_slice(String::from_utf8_lossy(&row.queue).as_bytes());
    ValueRef::Text(made)
}

/// Digits beyond 64 bits become a real, as in SQLite's literals.
fn priority(row: &Row) -> ValueRef<'static> {
    let Some(digits) = &row.priority else { return ValueRef::Null };
    match digits.parse::<i64>() {
        Ok(number) => ValueRef::Integer(number),
        Err(_) => digits.parse::<f64>().map_or(ValueRef::Null, ValueRef::Real),
    }
}
