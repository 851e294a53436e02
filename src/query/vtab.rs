//! A snapshot as a table of SQLite: the only module with `unsafe`, and as little of it as will do.
//!
//! The table `snapshot` has one cursor at a time, which walks over the rows in their order and
//! hands their columns out ([`rows`](super::rows)); nothing is copied into a table, and a column
//! that is not asked for is not made. What a cursor is to walk over is laid out for it in
//! [`SharedScan`], and there it leaves what it has found and where it stood: once for each scan, so
//! that a row costs no lock. Reading the last column, [`MATCH_COLUMN`], is how a row is found.

#![expect(unsafe_code, reason = "SQLite calls tables by pointers; the traits for that are unsafe")]

use super::StopCheck;
use super::path_predicate::PathPredicate;
use super::prefilter::{self, Prefilter};
use super::rejected_rows::RejectedRowCache;
use super::rows::{COLUMNS, DECLARATION, EVENTS, MATCH_COLUMN, prefetch, stopped, value};
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

/// Rows that are looked at together: as many reads that miss the cache overlap.
const WINDOW: usize = 64;

/// A text of this size is worth a question whether to go on.
pub(super) const LARGE: usize = 64 * 1024;

/// What a cursor is to do, and what it has done.
#[derive(Debug)]
pub(super) struct ScanState {
    rows: Rows,
    from: Bound<RowKey>,
    sought: Arc<[PathPredicate]>,
    /// The rows that were found, in their order.
    pub(super) found: Vec<Arc<Row>>,
    /// Where the cursor stood when it was closed.
    pub(super) place: CursorPos,
    /// It was told to leave before this row.
    pub(super) left: bool,
}

/// What a cursor asks.
#[derive(Clone)]
pub(super) struct Stops {
    /// Whether to stop, at once.
    pub(super) stop: StopCheck,
    /// Whether to stop before the next row. At least one row is looked at in any case.
    pub(super) leave: StopCheck,
}

/// Where a cursor stood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CursorPos {
    /// It has not begun.
    Nowhere,
    /// At a row, whose columns were or were not asked for.
    At(RowKey, bool),
    /// Behind the last.
    End,
}

/// A scan, for whoever runs the statement and for the cursor.
#[derive(Clone, Debug)]
pub(super) struct SharedScan(Arc<Mutex<ScanState>>);

impl SharedScan {
    pub(super) fn new() -> Self {
        Self(Arc::new(Mutex::new(ScanState::none())))
    }

    /// The next cursor walks over these rows, of which those count for which all of `sought` may
    /// hold. O(1).
    pub(super) fn begin(&self, rows: Rows, from: Bound<RowKey>, sought: Arc<[PathPredicate]>) {
        *self.lock() = ScanState { rows, from, sought, ..ScanState::none() };
    }

    /// What has come of it. The snapshot is let go.
    pub(super) fn end(&self) -> ScanState {
        replace(&mut self.lock(), ScanState::none())
    }

    fn lock(&self) -> MutexGuard<'_, ScanState> {
        // A panic leaves no half-changed scan behind.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ScanState {
    fn none() -> Self {
        let (rows, from, sought) = (Rows::new(), Bound::Unbounded, Arc::from([]));
        Self { rows, from, sought, found: Vec::new(), place: CursorPos::Nowhere, left: false }
    }
}

/// Gives `connection` the table `snapshot`, which shows what `shared` says; texts up to `value_max`
/// bytes.
pub(super) fn register(
    connection: &Connection,
    shared: &SharedScan,
    stops: Stops,
    value_max: usize,
) -> Result<()> {
    const MODULE: &Module<'static, Table> = &Module::eponymous_only_module();
    let aux = (shared.clone(), stops, value_max);
    connection.create_module(c"snapshot", MODULE, Some(aux))?;
    // The table is made now, before anything is forbidden.
    connection.prepare(&format!("SELECT 1 FROM {COLUMNS}")).map(drop)
}

#[repr(C)]
struct Table {
    base: sqlite3_vtab,
    shared: SharedScan,
    stops: Stops,
    value_max: usize,
}

// SAFETY: `repr(C)`, and the base comes first.
unsafe impl VTab<'_> for Table {
    type Aux = (SharedScan, Stops, usize);
    type Cursor = Cursor;

    fn connect(
        _: &mut VTabConnection,
        aux: Option<&Self::Aux>,
        _: &[u8],
        _: &[u8],
        _: &[u8],
        _: &[&[u8]],
    ) -> Result<(Cow<'static, CStr>, Self)> {
        let Some((shared, stops, value_max)) = aux.cloned() else { return Err(stopped()) };
        Ok((DECLARATION.into(), Self { base: sqlite3_vtab::default(), shared, stops, value_max }))
    }

    /// There is one way to go: over all rows, of which some are left out on the way.
    fn best_index(&self, info: &mut IndexInfo) -> Result<bool> {
        prefilter::plan(info)?;
        info.set_estimated_cost(1e6);
        info.set_estimated_rows(1_000_000);
        Ok(true)
    }

    fn open(&mut self) -> Result<Cursor> {
        Ok(Cursor {
            base: sqlite3_vtab_cursor::default(),
            shared: self.shared.clone(),
            stops: self.stops.clone(),
            value_max: self.value_max,
            walk: None,
            narrowing: Prefilter::default(),
            ordinal: 0,
            asked: Cell::new(0),
            left: false,
            made: RefCell::default(),
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
    walk: Option<Walk>,
    narrowing: Prefilter,
    ordinal: i64,
    /// Bits of the columns that this row was asked for.
    asked: Cell<u32>,
    /// It was told to leave before this row.
    left: bool,
    /// The text that was made last, in memory that is used again.
    made: RefCell<Vec<u8>>,
    found: RefCell<Vec<Arc<Row>>>,
}

// SAFETY: `repr(C)`, and the base comes first.
unsafe impl VTabCursor for Cursor {
    fn filter(&mut self, _: c_int, plan: Option<&str>, values: &Filters<'_>) -> Result<()> {
        let (rows, from, sought) = {
            let scan = self.shared.lock();
            (scan.rows.clone(), scan.from, Arc::clone(&scan.sought))
        };
        self.walk = Some(Walk::new(rows, from));
        (self.ordinal, self.asked) = (0, Cell::new(0));
        self.narrowing = Prefilter::new(plan, values, sought);
        self.skip_to_candidate()
    }

    fn next(&mut self) -> Result<()> {
        let asked = self.asked.take();
        self.ordinal += 1;
        if let Some(walk) = &mut self.walk {
            walk.advance_after_miss(asked);
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
        self.asked.set(self.asked.get() | 1 << column);
        if column == MATCH_COLUMN {
            self.found.borrow_mut().push(Arc::clone(row));
            return Ok(());
        }
        let mut made = self.made.borrow_mut();
        let value = shown(row, column, &mut made, self.value_max, &self.stops.stop)?;
        context.set_result(ToSqlOutput::Borrowed(value))
    }

    fn rowid(&self) -> Result<i64> {
        Ok(self.ordinal)
    }
}

/// The value of a column as SQLite is shown it.
#[inline]
fn shown<'a>(
    row: &'a Row,
    column: c_int,
    made: &'a mut Vec<u8>,
    value_max: usize,
    stop: &StopCheck,
) -> Result<ValueRef<'a>> {
    let value = value(row, column, made);
    let ValueRef::Text(text) = value else { return Ok(value) };
    if text.len() > LARGE && stop() {
        return Err(stopped());
    }
    Ok(if text.len() > value_max { ValueRef::Null } else { value })
}

impl Cursor {
    /// Goes on to the next row that may match, from here.
    #[inline]
    fn skip_to_candidate(&mut self) -> Result<()> {
        let all = self.narrowing.is_empty();
        match &self.walk {
            Some(walk) if !all || !walk.refused.is_empty() => self.skip_row(),
            _ => Ok(()),
        }
    }

    /// The same where some rows may be left out.
    fn skip_row(&mut self) -> Result<()> {
        let made = self.made.get_mut();
        let Some(walk) = &mut self.walk else { return Ok(()) };
        loop {
            if !walk.is_refused() {
                let Some(row) = walk.here() else { return Ok(()) };
                let value = |column, see: &mut dyn FnMut(ValueRef<'_>) -> Result<bool>| {
                    walk.note_use(1_u32 << column);
                    see(shown(row, column, made, self.value_max, &self.stops.stop)?)
                };
                let Some(column) = self.narrowing.excludes(value, &self.stops.stop)? else {
                    return Ok(());
                };
                walk.count_excluded(column);
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
                CursorPos::At(row.key(), self.asked.get() & !(1 << MATCH_COLUMN) != 0)
            }
        };
        let mut scan = self.shared.lock();
        (scan.place, scan.left) = (place, self.left);
        scan.found = take(&mut *self.found.borrow_mut());
    }
}

/// A walk over a snapshot, which it owns.
struct Walk {
    /// Up to [`WINDOW`] rows in their order, of which the `at`th is here. Never empty before the
    /// end.
    window: Vec<&'static Arc<Row>>,
    at: usize,
    /// Bits of the columns that rows were asked for.
    used: Cell<u32>,
    /// What rows are compared with before SQLite sees them.
    refused: RejectedRowCache<'static>,
    /// Those behind the window.
    rest: RangedIter<'static, RowKey, Arc<Row>, DefaultSharedPtr>,
    /// What all of the above borrows from. Never changed, and the last to be dropped.
    _rows: Arc<Rows>,
}

impl Walk {
    fn new(rows: Rows, from: Bound<RowKey>) -> Self {
        let rows = Arc::new(rows);
        // SAFETY: the map stays where it is, on the heap, for as long as `_rows` does, which is
        // dropped behind everything that borrows from it (fields are dropped in their order).
        // Nobody can change it or a row: there are only shared references, and neither has inner
        // mutability that moves anything. No reference gets out of the walk that outlives it:
        // `here` shortens its lifetime.
        let lasting: &'static Rows = unsafe { &*Arc::as_ptr(&rows) };
        let rest = lasting.range((from, Bound::Unbounded));
        let window = Vec::with_capacity(WINDOW);
        let (used, refused) = (Cell::new(0), RejectedRowCache::default());
        let mut walk = Self { window, at: 0, used, refused, rest, _rows: rows };
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

    /// Whether this row is like one that SQLite refused.
    #[inline]
    fn is_refused(&mut self) -> bool {
        self.window.get(self.at).is_some_and(|row| self.refused.contains(row))
    }

    /// This row is left out for what this column says. Where that had to be made, the next one like
    /// it is known sooner.
    #[inline]
    fn count_excluded(&mut self, column: c_int) {
        if let (EVENTS, Some(row)) = (column, self.window.get(self.at)) {
            self.refused.insert(row, 1 << EVENTS);
        }
    }

    /// Goes on from a row that SQLite has seen, asking for these columns: had it matched, it would
    /// have asked for [`MATCH_COLUMN`].
    #[inline]
    fn advance_after_miss(&mut self, asked: u32) {
        self.note_use(asked);
        if let Some(row) = self.window.get(self.at) {
            self.refused.insert(row, asked);
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
