//! A cache of rejected rows: the cursor skips rows that equal one that SQLite has rejected, or that
//! the prefilter has excluded.
//!
//! Whether a row matches depends only on the columns that are read of it, because allowed functions
//! are deterministic (or depend on the time within one scan only). So of a row that equals a
//! rejected one in all columns that were read of that, SQLite would read the same columns and
//! reject it too. Rows of a queue have few states, and jobs that were put or moved together have
//! equal histories.

use super::rows::{EVENTS, MODIFIED, QUEUE, STATE, URGENCY};
use crate::model::row::Row;
use std::ffi::c_int;

/// Rows in the cache.
const ROWS: usize = 4;

/// Longest column of a cached row, in bytes: comparisons happen between two stop checks.
const COLUMN_BYTES_MAX: usize = 4096;

/// After this many insertions without a hit, the cache is off for [`PAUSE`] rows.
const MISSES_MAX: u32 = 64;
const PAUSE: u32 = 1024;

/// Bits of the columns in which rows may be equal.
const COMMON: u32 = 1 << STATE | 1 << EVENTS | 1 << MODIFIED | 1 << QUEUE | 1 << URGENCY;

/// Rejected rows of a scan.
#[derive(Debug, Default)]
pub(super) struct RejectedRowCache<'a> {
    /// With the bits of the columns that were read; the most recently used first.
    rows: [Option<(u32, &'a Row)>; ROWS],
    /// Insertions since the last hit.
    misses: u32,
    /// Insertions still to be ignored.
    pause: u32,
}

impl<'a> RejectedRowCache<'a> {
    /// An empty cache. If it is not `enabled`, no row is inserted: a scan has fewer rows than the
    /// pause.
    pub(super) fn new(enabled: bool) -> Self {
        Self { pause: if enabled { 0 } else { u32::MAX }, ..Self::default() }
    }

    /// Adds a row that does not match because of these columns. O(1).
    #[inline]
    pub(super) fn insert(&mut self, row: &'a Row, columns: u32) {
        if self.pause > 0 {
            self.pause -= 1;
        } else if self.misses == MISSES_MAX {
            *self = Self { pause: PAUSE, ..Self::default() };
        } else if columns != 0 && columns & !COMMON == 0 && is_small(row) {
            self.rows.rotate_right(1);
            self.rows[0] = Some((columns, row));
            self.misses += 1;
        }
    }

    /// Whether the cache holds no row.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.rows[0].is_none()
    }

    /// Whether the row equals a cached one in the relevant columns, so that SQLite would reject it.
    /// O(1).
    #[inline]
    pub(super) fn contains(&mut self, row: &Row) -> bool {
        let mut known = self.rows.iter().map_while(|known| *known);
        let Some(at) = known.position(|(columns, known)| is_alike(known, row, columns)) else {
            return false;
        };
        if at > 0 {
            self.rows[..=at].rotate_right(1);
        }
        self.misses = 0;
        true
    }
}

fn is_small(row: &Row) -> bool {
    row.state.len().max(row.queue.len()).max(row.events.bytes()) <= COLUMN_BYTES_MAX
        && row.priority.as_ref().is_none_or(|digits| digits.len() <= COLUMN_BYTES_MAX)
}

#[inline]
fn is_alike(one: &Row, two: &Row, columns: u32) -> bool {
    let is_apart = |column: c_int| columns & 1 << column == 0;
    (is_apart(MODIFIED) || one.modified == two.modified)
        && (is_apart(STATE) || one.state == two.state)
        && (is_apart(EVENTS) || one.events == two.events)
        && (is_apart(URGENCY) || one.priority == two.priority)
        && (is_apart(QUEUE) || one.queue == two.queue)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::event::{Event, EventKind, EventLog};
    use crate::model::id::JobId;
    use crate::model::job::Encoding;
    use std::sync::Arc;

    fn row(id: u64, state: &str) -> Row {
        Row {
            id: JobId(id),
            version: 1,
            queue: Arc::from(*b"q"),
            priority: None,
            encoding: Encoding::Json,
            payload: Arc::from(*b"1"),
            state: state.as_bytes().into(),
            events: EventLog::default().with(Event { kind: EventKind::Created, at: id }),
            modified: id,
        }
    }

    #[test]
    fn only_the_columns_that_were_read_are_compared() {
        let (one, two, three) = (row(1, "[1]"), row(2, "[1]"), row(3, "[2]"));
        let mut cache = RejectedRowCache::default();
        cache.insert(&one, 1 << STATE);
        assert!(cache.contains(&two) && !cache.contains(&three));
        let mut cache = RejectedRowCache::default();
        cache.insert(&one, 1 << STATE | 1 << EVENTS);
        assert!(cache.contains(&one) && !cache.contains(&two));
    }

    #[test]
    fn cache_pauses_after_too_many_insertions_without_a_hit() {
        let rows: Vec<_> = (0..).map(|id| row(id, "")).take(MISSES_MAX as usize + 1).collect();
        let mut cache = RejectedRowCache::default();
        for row in &rows[1..] {
            cache.insert(row, 1 << MODIFIED);
        }
        assert!(cache.contains(rows.last().unwrap()));
        for row in &rows {
            assert!(!cache.is_empty());
            cache.insert(row, 1 << MODIFIED);
        }
        for _ in 0..PAUSE {
            assert!(cache.is_empty());
            cache.insert(&rows[0], 1 << MODIFIED);
        }
        cache.insert(&rows[0], 1 << MODIFIED);
        assert!(cache.contains(&rows[0]) && !cache.contains(&rows[1]));
    }

    #[test]
    fn cache_holds_few_small_rows_of_comparable_columns() {
        let rows: Vec<_> = (0..).map(|id| row(id, "")).take(ROWS + 1).collect();
        let mut cache = RejectedRowCache::default();
        for columns in [0, 1 << STATE | 1, 1 << STATE | 1 << 1, 1 << STATE | 1 << 7] {
            cache.insert(&rows[0], columns);
            assert!(cache.is_empty(), "{columns:b}");
        }
        let long = row(0, &"x".repeat(COLUMN_BYTES_MAX + 1));
        cache.insert(&long, 1 << STATE);
        assert!(cache.is_empty());
        for row in &rows[..ROWS] {
            cache.insert(row, 1 << MODIFIED);
        }
        // A hit keeps it; the least recently used one is evicted.
        assert!(cache.contains(&rows[0]));
        cache.insert(&rows[ROWS], 1 << MODIFIED);
        assert!(cache.contains(&rows[0]) && cache.contains(&rows[ROWS]));
        assert!(!cache.contains(&rows[1]) && cache.contains(&rows[2]));
    }
}
