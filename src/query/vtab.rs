//! A snapshot as a virtual table of SQLite, with the `unsafe` that its calls need.
//!
//! The table `snapshot` has one cursor at a time, which iterates over the rows in their order and
//! returns their columns ([`rows`](super::rows)); nothing is copied into a table, and a column that
//! is not read is not made. The cursor takes its input from [`SharedScan`] and leaves its results
//! and its position there, once per scan, so that a row takes no lock. A row matches when the
//! statement reads its last column, [`MATCH_COLUMN`].

#![expect(unsafe_code, reason = "SQLite calls tables by pointers; the traits for that are unsafe")]

use super::path_predicate::PathPredicate;
use super::prefilter::{self, Prefilter};
use super::rejected_rows::RejectedRowCache;
use super::rows::{COLUMNS, DECLARATION, MATCH_COLUMN, prefetch, value};
use super::sqlite::{UNCHECKED_BYTES_MAX, stopped};
use super::{RowSkips, StopCheck};
use crate::model::row::{Row, RowKey, Rows};
use imbl::ordmap::RangedIter;
use imbl::shared_ptr::DefaultSharedPtr;
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::vtab::{
    Context, Filters, IndexInfo, Module, VTab, VTabConnection, VTabCursor, sqlite3_vtab,
    sqlite3_vtab_cursor,
};
use rusqlite::{Connection, Result};
use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::ffi::{CStr, c_int};
use std::mem::{replace, take};
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Rows that are prefetched together, so that their cache misses overlap.
const WINDOW: usize = 64;

/// Input and results of a cursor.
#[derive(Debug)]
pub(super) struct ScanState {
    rows: Rows,
    from: Bound<RowKey>,
    predicates: Arc<[PathPredicate]>,
    /// The matching rows, in their order.
    pub(super) found: Vec<Arc<Row>>,
    /// Position of the cursor when it was closed.
    pub(super) place: CursorPos,
    /// [`Stops::leave`] has stopped it before this row.
    pub(super) left: bool,
}

/// The stop checks of a cursor.
#[derive(Clone)]
pub(super) struct Stops {
    /// Whether to stop at once.
    pub(super) stop: StopCheck,
    /// Whether to stop before the next row. At least one row is tested in any case.
    pub(super) leave: StopCheck,
}

/// Position of a cursor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CursorPos {
    /// It has not begun.
    Nowhere,
    /// At a row, and whether a column of it was read.
    At(RowKey, bool),
    /// Behind the last row.
    End,
}

/// A scan, shared by the evaluator and the cursor.
#[derive(Clone, Debug)]
pub(super) struct SharedScan(Arc<Mutex<ScanState>>);

impl SharedScan {
    pub(super) fn new() -> Self {
        Self(Arc::new(Mutex::new(ScanState::none())))
    }

    /// Sets the rows of the next cursor, which skips rows that `predicates` exclude. O(1).
    pub(super) fn begin(&self, rows: Rows, from: Bound<RowKey>, predicates: Arc<[PathPredicate]>) {
        *self.lock() = ScanState { rows, from, predicates, ..ScanState::none() };
    }

    /// Takes the results and releases the snapshot.
    pub(super) fn end(&self) -> ScanState {
        replace(&mut self.lock(), ScanState::none())
    }

    fn lock(&self) -> MutexGuard<'_, ScanState> {
        // A panic cannot leave an inconsistent scan.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ScanState {
    fn none() -> Self {
        let (rows, from, predicates) = (Rows::new(), Bound::Unbounded, Arc::from([]));
        Self { rows, from, predicates, found: Vec::new(), place: CursorPos::Nowhere, left: false }
    }
}

/// What a table is made with.
#[derive(Clone)]
pub(super) struct TableOptions {
    /// Whose rows are those of the table.
    pub(super) shared: SharedScan,
    pub(super) stops: Stops,
    /// Longer texts are NULL, in bytes.
    pub(super) value_max: usize,
    pub(super) skips: RowSkips,
}

/// Registers the table `snapshot`.
pub(super) fn register(connection: &Connection, options: TableOptions) -> Result<()> {
    const MODULE: &Module<'static, Table> = &Module::eponymous_only_module();
    connection.create_module(c"snapshot", MODULE, Some(options))?;
    // Creates the table now, before the authorizer is set.
    connection.prepare(&format!("SELECT 1 FROM {COLUMNS}")).map(drop)
}

#[repr(C)]
struct Table {
    base: sqlite3_vtab,
    options: TableOptions,
}

// SAFETY: `repr(C)`, and the base comes first.
unsafe impl VTab<'_> for Table {
    type Aux = TableOptions;
    type Cursor = Cursor;

    fn connect(
        _: &mut VTabConnection,
        aux: Option<&Self::Aux>,
        _: &[u8],
        _: &[u8],
        _: &[u8],
        _: &[&[u8]],
    ) -> Result<(Cow<'static, CStr>, Self)> {
        let Some(options) = aux.cloned() else { return Err(stopped()) };
        Ok((DECLARATION.into(), Self { base: sqlite3_vtab::default(), options }))
    }

    /// The only plan is a full scan that skips excluded rows.
    fn best_index(&self, info: &mut IndexInfo) -> Result<bool> {
        if self.options.skips.comparisons {
            prefilter::plan(info)?;
        }
        info.set_estimated_cost(1e6);
        info.set_estimated_rows(1_000_000);
        Ok(true)
    }

    fn open(&mut self) -> Result<Cursor> {
        Ok(Cursor {
            base: sqlite3_vtab_cursor::default(),
            shared: self.options.shared.clone(),
            stops: self.options.stops.clone(),
            value_max: self.options.value_max,
            caches_rejected: self.options.skips.rejected_rows,
            walk: None,
            prefilter: Prefilter::default(),
            ordinal: 0,
            columns_read: Cell::new(0),
            left: false,
            buffer: RefCell::default(),
            found: RefCell::default(),
        })
    }
}

#[repr(C)]
struct Cursor {
    base: sqlite3_vtab_cursor,
    shared: SharedScan,
    stops: Stops,
    value_max: usize,
    /// Whether rejected rows are cached.
    caches_rejected: bool,
    walk: Option<Walk>,
    prefilter: Prefilter,
    ordinal: i64,
    /// Bits of the columns that were read of this row.
    columns_read: Cell<u32>,
    /// [`Stops::leave`] has stopped it before this row.
    left: bool,
    /// The text that was made last; its memory is reused.
    buffer: RefCell<Vec<u8>>,
    found: RefCell<Vec<Arc<Row>>>,
}

// SAFETY: `repr(C)`, and the base comes first.
unsafe impl VTabCursor for Cursor {
    fn filter(&mut self, _: c_int, plan: Option<&str>, values: &Filters<'_>) -> Result<()> {
        let (rows, from, predicates) = {
            let scan = self.shared.lock();
            (scan.rows.clone(), scan.from, Arc::clone(&scan.predicates))
        };
        let rejected = RejectedRowCache::new(self.caches_rejected);
        self.walk = Some(Walk::new(rows, from, rejected));
        (self.ordinal, self.columns_read) = (0, Cell::new(0));
        self.prefilter = Prefilter::new(plan, values, predicates);
        self.skip_to_candidate()
    }

    fn next(&mut self) -> Result<()> {
        let columns = self.columns_read.take();
        self.ordinal += 1;
        if let Some(walk) = &mut self.walk {
            walk.advance_after_miss(columns);
        }
        if (self.stops.leave)() {
            self.left = true;
            return Err(stopped());
        }
        self.skip_to_candidate()
    }

    fn eof(&self) -> bool {
        self.here().is_none()
    }

    fn column(&self, context: &mut Context, column: c_int) -> Result<()> {
        let Some(row) = self.here() else { return Ok(()) };
        self.columns_read.set(self.columns_read.get() | 1 << column);
        if column == MATCH_COLUMN {
            self.found.borrow_mut().push(Arc::clone(row));
            return Ok(());
        }
        let mut buffer = self.buffer.borrow_mut();
        let value = checked_value(row, column, &mut buffer, self.value_max, &self.stops.stop)?;
        context.set_result(ToSqlOutput::Borrowed(value))
    }

    fn rowid(&self) -> Result<i64> {
        Ok(self.ordinal)
    }
}

/// The value of a column for SQLite: a text longer than `value_max` is NULL, and a long one is
/// preceded by a stop check.
#[inline]
fn checked_value<'a>(
    row: &'a Row,
    column: c_int,
    buffer: &'a mut Vec<u8>,
    value_max: usize,
    stop: &StopCheck,
) -> Result<ValueRef<'a>> {
    let value = value(row, column, buffer);
    let ValueRef::Text(text) = value else { return Ok(value) };
    if text.len() > UNCHECKED_BYTES_MAX && stop() {
        return Err(stopped());
    }
    Ok(if text.len() > value_max { ValueRef::Null } else { value })
}

impl Cursor {
    /// Advances to the first row from here that may match.
    #[inline]
    fn skip_to_candidate(&mut self) -> Result<()> {
        let all = self.prefilter.is_empty();
        match &self.walk {
            Some(walk) if !all || !walk.rejected.is_empty() => self.skip_excluded(),
            _ => Ok(()),
        }
    }

    /// The same where rows may be excluded.
    fn skip_excluded(&mut self) -> Result<()> {
        let buffer = self.buffer.get_mut();
        let Some(walk) = &mut self.walk else { return Ok(()) };
        loop {
            if !walk.is_known_rejected() {
                let Some(row) = walk.here() else { return Ok(()) };
                let value = |column, see: &mut dyn FnMut(ValueRef<'_>) -> Result<bool>| {
                    walk.note_use(1_u32 << column);
                    see(checked_value(row, column, buffer, self.value_max, &self.stops.stop)?)
                };
                let Some(column) = self.prefilter.excludes(value, &self.stops.stop)? else {
                    return Ok(());
                };
                walk.remember_excluded(column);
            }
            walk.advance();
            if walk.at == 0 {
                self.left = (self.stops.leave)();
                if self.left || (self.stops.stop)() {
                    return Err(stopped());
                }
            }
        }
    }

    #[inline]
    fn here(&self) -> Option<&Arc<Row>> {
        self.walk.as_ref()?.here()
    }
}

impl Drop for Cursor {
    fn drop(&mut self) {
        let place = match (&self.walk, self.here()) {
            (None, _) => CursorPos::Nowhere,
            (Some(_), None) => CursorPos::End,
            (Some(_), Some(row)) => {
                CursorPos::At(row.key(), self.columns_read.get() & !(1 << MATCH_COLUMN) != 0)
            }
        };
        let mut scan = self.shared.lock();
        (scan.place, scan.left) = (place, self.left);
        scan.found = take(&mut *self.found.borrow_mut());
    }
}

/// An iterator over a snapshot, which it owns.
struct Walk {
    /// Up to [`WINDOW`] rows in their order; `at` is the current one. Empty only at the end.
    window: Vec<&'static Arc<Row>>,
    at: usize,
    /// Bits of the columns that were read of rows, for the prefetch.
    used: Cell<u32>,
    /// Rejected rows with which rows are compared before SQLite tests them.
    rejected: RejectedRowCache<'static>,
    /// The rows behind the window.
    rest: RangedIter<'static, RowKey, Arc<Row>, DefaultSharedPtr>,
    /// Owner of all the above. Never changed, and dropped last.
    _rows: Arc<Rows>,
}

impl Walk {
    fn new(rows: Rows, from: Bound<RowKey>, rejected: RejectedRowCache<'static>) -> Self {
        let rows = Arc::new(rows);
        // SAFETY: the map does not move, on the heap, while `_rows` lives, which is dropped after
        // everything that borrows from it (fields are dropped in declaration order). The map and
        // its rows do not change: there are only shared references, and neither has interior
        // mutability that moves anything. No reference that leaves the walk outlives it: `here`
        // shortens its lifetime.
        let lasting: &'static Rows = unsafe { &*Arc::as_ptr(&rows) };
        let rest = lasting.range((from, Bound::Unbounded));
        let window = Vec::with_capacity(WINDOW);
        let mut walk = Self { window, at: 0, used: Cell::new(0), rejected, rest, _rows: rows };
        walk.refill();
        walk
    }

    #[inline]
    fn here(&self) -> Option<&Arc<Row>> {
        self.window.get(self.at).copied()
    }

    #[inline]
    fn note_use(&self, columns: u32) {
        self.used.set(self.used.get() | columns);
    }

    /// Whether the current row equals, in the relevant columns, one that SQLite has rejected.
    #[inline]
    fn is_known_rejected(&mut self) -> bool {
        self.window.get(self.at).is_some_and(|row| self.rejected.contains(row))
    }

    /// The prefilter has excluded the current row by this column. The row is remembered, because to
    /// compare rows costs less than to test them.
    #[inline]
    fn remember_excluded(&mut self, column: c_int) {
        if let Some(row) = self.window.get(self.at) {
            self.rejected.insert(row, 1 << column);
        }
    }

    /// Advances from a row of which SQLite has read these columns. If it matched, they include
    /// [`MATCH_COLUMN`], and it is not remembered as rejected.
    #[inline]
    fn advance_after_miss(&mut self, columns: u32) {
        self.note_use(columns);
        if let Some(row) = self.window.get(self.at) {
            self.rejected.insert(row, columns);
        }
        self.advance();
    }

    #[inline]
    fn advance(&mut self) {
        self.at += 1;
        if self.at >= self.window.len() {
            self.refill();
        }
    }

    fn refill(&mut self) {
        self.window.clear();
        self.window.extend(self.rest.by_ref().take(WINDOW).map(|(_, row)| row));
        self.at = 0;
        prefetch(&self.window, self.used.get());
    }
}
