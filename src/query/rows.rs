//! A snapshot's rows as columns of SQLite: a function for each, called with the number of a row in
//! the window. So a column that is not used is not made, and no row is copied into a table.

use super::Stop;
use crate::base::limits::QUERY_VALUE_MAX;
use crate::model::event::write_events;
use crate::model::job::Encoding;
use crate::model::row::Row;
use crate::wire::json::push_packet;
use crate::wire::msgpack::push_json;
use rusqlite::functions::FunctionFlags;
use rusqlite::types::{ToSql, ToSqlOutput, ValueRef};
use rusqlite::{Connection, Error, Result};
use std::hint::black_box;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Rows in a window.
pub(super) const WINDOW: u32 = 1024;

/// A text of this size is worth a question whether to go on.
const LARGE: usize = 64 * 1024;

/// The columns as SQL over the numbers of rows. The casts give them the affinity that columns of
/// these types have, and change no value.
pub(super) const COLUMNS: &str = "(SELECT n AS \"#\", CAST(row_id(n) AS INTEGER) AS id, \
    CAST(row_payload(n) AS TEXT) AS payload, CAST(row_state(n) AS TEXT) AS state, \
    CAST(row_events(n) AS TEXT) AS events, CAST(row_modified(n) AS INTEGER) AS modified, \
    CAST(row_queue(n) AS TEXT) AS queue, CAST(row_pri(n) AS NUMERIC) AS pri FROM numbers) AS j";

/// Rows that a statement runs over, and the last that it has asked for.
#[derive(Debug, Default)]
pub(super) struct Window {
    pub(super) rows: Vec<Arc<Row>>,
    pub(super) asked: Option<u32>,
}

/// The window, for the functions and for whoever moves it.
#[derive(Clone, Debug, Default)]
pub(super) struct Shared(Arc<Mutex<Window>>);

impl Shared {
    /// Moves the window: these rows take the place of the others. Says how many there are.
    pub(super) fn fill<'a>(&self, rows: impl Iterator<Item = &'a Arc<Row>>) -> u32 {
        let rows: Vec<&Arc<Row>> = rows.take(WINDOW as usize).collect();
        // Reads that miss the cache overlap, counts of references that miss it do not: so
        // everything that will be counted is read first.
        let first = |text: &[u8]| text.first().copied().unwrap_or(0);
        let read = rows.iter().map(|row| first(&row.state) ^ first(&row.payload));
        black_box(read.fold(0, |all, one| all ^ one));
        let mut window = self.lock();
        window.rows.clear();
        window.rows.extend(rows.into_iter().cloned());
        u32::try_from(window.rows.len()).unwrap_or(WINDOW)
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Window> {
        // A panic leaves no half-changed window behind.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A value of a row.
enum Cell {
    Null,
    Integer(i64),
    Real(f64),
    Text(Arc<[u8]>),
    Made(Vec<u8>),
}

impl Cell {
    fn len(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::Made(text) => text.len(),
            Self::Null | Self::Integer(_) | Self::Real(_) => 0,
        }
    }
}

impl ToSql for Cell {
    #[inline]
    fn to_sql(&self) -> Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Self::Null => ValueRef::Null,
            Self::Integer(number) => ValueRef::Integer(*number),
            Self::Real(number) => ValueRef::Real(*number),
            Self::Text(text) => ValueRef::Text(text),
            Self::Made(text) => ValueRef::Text(text),
        }))
    }
}

/// What makes the value of a column.
type Column = fn(&Row) -> Cell;

/// Gives `connection` the functions that [`COLUMNS`] calls.
pub(super) fn register(connection: &Connection, window: &Shared, stop: &Stop) -> Result<()> {
    let columns: [(&str, Column); 7] = [
        ("row_id", |row| integer(row.id.0)),
        ("row_payload", payload),
        ("row_state", |row| if &*row.state == b"null" { Cell::Null } else { text(&row.state) }),
        ("row_events", events),
        ("row_modified", |row| integer(row.modified)),
        ("row_queue", queue),
        ("row_pri", urgency),
    ];
    for (name, column) in columns {
        let (window, stop) = (window.clone(), Arc::clone(stop));
        let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC;
        connection.create_scalar_function(name, 1, flags, move |context| {
            let cell = {
                let number = context.get_raw(0).as_i64().unwrap_or(-1);
                let mut window = window.lock();
                let row = u32::try_from(number).ok();
                window.asked = row;
                row.and_then(|row| window.rows.get(row as usize))
                    .map_or(Cell::Null, |row| column(row))
            };
            if cell.len() > LARGE && stop() {
                return Err(stopped());
            }
            Ok(if cell.len() > QUERY_VALUE_MAX { Cell::Null } else { cell })
        })?;
    }
    Ok(())
}

/// What a function says that was told to stop.
pub(super) fn stopped() -> Error {
    Error::UserFunctionError("stopped".into())
}

fn integer(number: u64) -> Cell {
    Cell::Integer(i64::try_from(number).unwrap_or(i64::MAX))
}

fn text(text: &Arc<[u8]>) -> Cell {
    Cell::Text(Arc::clone(text))
}

fn payload(row: &Row) -> Cell {
    match row.encoding {
        Encoding::Json | Encoding::JsonLine if row.payload.trim_ascii() == b"null" => Cell::Null,
        Encoding::Json | Encoding::JsonLine => text(&row.payload),
        Encoding::MsgPack => {
            let mut made = Vec::new();
            push_json(&mut made, &row.payload);
            Cell::Made(made)
        }
        Encoding::Packet { key_len } => {
            let mut made = Vec::new();
            push_packet(&mut made, key_len, &row.payload);
            Cell::Made(made)
        }
    }
}

fn events(row: &Row) -> Cell {
    let mut made = Vec::with_capacity(row.events.bytes());
    write_events(&row.events, &mut made);
    Cell::Made(made)
}

/// The name as it is shown: what is no UTF-8 in it is U+FFFD.
fn queue(row: &Row) -> Cell {
    match str::from_utf8(&row.queue) {
        Ok(_) => text(&row.queue),
        Err(_) => Cell::Made(String::from_utf8_lossy(&row.queue).into_owned().into_bytes()),
    }
}

/// Digits beyond 64 bits count as SQLite counts such a literal.
fn urgency(row: &Row) -> Cell {
    let Some(digits) = &row.urgency else { return Cell::Null };
    match digits.parse::<i64>() {
        Ok(number) => Cell::Integer(number),
        Err(_) => digits.parse::<f64>().map_or(Cell::Null, Cell::Real),
    }
}
