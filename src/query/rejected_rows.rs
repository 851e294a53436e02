//! What a cursor leaves out by itself: rows that are to SQLite just what one was that it refused,
//! or that was left out for what its log says.
//!
//! Whether a row matches follows from the columns that it is asked for, because what a query may
//! call gives the same for the same arguments (or was called at another moment of the same scan).
//! So a row that has the same in all columns that a refused one was asked for would be asked for
//! no other, and be refused too. Rows of a queue have few states, and jobs that were put or moved
//! together have the same log.

use super::rows::{EVENTS, MODIFIED, QUEUE, STATE, URGENCY};
use crate::model::row::Row;
use std::ffi::c_int;

/// Rows that are remembered.
const REMEMBERED: usize = 4;

/// Bytes of a column of a row that is remembered: it is compared between two questions whether to
/// stop.
const BRIEF: usize = 4096;

/// Rows in a row that are remembered in vain: then for [`REST`] of them nothing is tried.
const PATIENCE: u32 = 64;
const REST: u32 = 1024;

/// The columns that rows have in common at times, as bits.
const COMMON: u32 = 1 << STATE | 1 << EVENTS | 1 << MODIFIED | 1 << QUEUE | 1 << URGENCY;

/// Rows of a scan that were refused.
#[derive(Debug, Default)]
pub(super) struct RejectedRowCache<'a> {
    /// With the bits of the columns that they were asked for; what was of use last comes first.
    rows: [Option<(u32, &'a Row)>; REMEMBERED],
    /// Rows that were remembered since one was last covered.
    vain: u32,
    /// Rows that are not to be remembered.
    rest: u32,
}

impl<'a> RejectedRowCache<'a> {
    /// It follows from these columns of a row that it does not match. O(1).
    #[inline]
    pub(super) fn insert(&mut self, row: &'a Row, asked: u32) {
        if self.rest > 0 {
            self.rest -= 1;
        } else if self.vain == PATIENCE {
            *self = Self { rest: REST, ..Self::default() };
        } else if asked != 0 && asked & !COMMON == 0 && is_small(row) {
            self.rows.rotate_right(1);
            self.rows[0] = Some((asked, row));
            self.vain += 1;
        }
    }

    /// Whether there is nothing to compare with.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.rows[0].is_none()
    }

    /// Whether SQLite would refuse this row for sure. O(1).
    #[inline]
    pub(super) fn contains(&mut self, row: &Row) -> bool {
        let mut known = self.rows.iter().map_while(|known| *known);
        let Some(at) = known.position(|(asked, known)| is_alike(known, row, asked)) else {
            return false;
        };
        if at > 0 {
            self.rows[..=at].rotate_right(1);
        }
        self.vain = 0;
        true
    }
}

fn is_small(row: &Row) -> bool {
    row.state.len().max(row.queue.len()).max(row.events.bytes()) <= BRIEF
        && row.priority.as_ref().is_none_or(|digits| digits.len() <= BRIEF)
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
    fn what_was_asked_for_is_compared_and_nothing_else() {
        let (one, two, three) = (row(1, "[1]"), row(2, "[1]"), row(3, "[2]"));
        let mut refused = RejectedRowCache::default();
        refused.insert(&one, 1 << STATE);
        assert!(refused.contains(&two) && !refused.contains(&three));
        let mut refused = RejectedRowCache::default();
        refused.insert(&one, 1 << STATE | 1 << EVENTS);
        assert!(refused.contains(&one) && !refused.contains(&two));
    }

    #[test]
    fn what_is_in_vain_is_left_for_a_while() {
        let rows: Vec<_> = (0..).map(|id| row(id, "")).take(PATIENCE as usize + 1).collect();
        let mut refused = RejectedRowCache::default();
        for row in &rows[1..] {
            refused.insert(row, 1 << MODIFIED);
        }
        assert!(refused.contains(rows.last().unwrap()));
        for row in &rows {
            assert!(!refused.is_empty());
            refused.insert(row, 1 << MODIFIED);
        }
        for _ in 0..REST {
            assert!(refused.is_empty());
            refused.insert(&rows[0], 1 << MODIFIED);
        }
        refused.insert(&rows[0], 1 << MODIFIED);
        assert!(refused.contains(&rows[0]) && !refused.contains(&rows[1]));
    }

    #[test]
    fn few_and_brief_rows_of_common_columns_are_remembered() {
        let rows: Vec<_> = (0..).map(|id| row(id, "")).take(REMEMBERED + 1).collect();
        let mut refused = RejectedRowCache::default();
        for asked in [0, 1 << STATE | 1, 1 << STATE | 1 << 1, 1 << STATE | 1 << 7] {
            refused.insert(&rows[0], asked);
            assert!(refused.is_empty(), "{asked:b}");
        }
        let long = row(0, &"x".repeat(BRIEF + 1));
        refused.insert(&long, 1 << STATE);
        assert!(refused.is_empty());
        for row in &rows[..REMEMBERED] {
            refused.insert(row, 1 << MODIFIED);
        }
        // It is of use, so it stays; another one goes.
        assert!(refused.contains(&rows[0]));
        refused.insert(&rows[REMEMBERED], 1 << MODIFIED);
        assert!(refused.contains(&rows[0]) && refused.contains(&rows[REMEMBERED]));
        assert!(!refused.contains(&rows[1]) && refused.contains(&rows[2]));
    }
}
