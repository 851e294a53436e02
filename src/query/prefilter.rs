//! The prefilter: the cursor skips rows that a plain comparison of a text column excludes.
//!
//! SQLite's planner lists the comparisons with known values that must hold; `IS NULL`, `IS`, `=`,
//! `LIKE` and `GLOB` are tested here before SQLite sees a row, at a fraction of the cost. SQLite
//! tests them again on the remaining rows: a condition here may admit too many rows, never too few.
//! The same holds for [path predicates](super::path_predicate), which the planner does not list.

use super::StopCheck;
use super::like::Pattern;
use super::path_predicate::PathPredicate;
use super::rows::is_text;
use rusqlite::Result;
use rusqlite::types::ValueRef;
use rusqlite::vtab::{Filters, IndexConstraintOp, IndexInfo};
use std::ffi::c_int;
use std::sync::Arc;

/// Conditions of one scan at most.
const CONDITIONS: usize = 8;

/// How a column is compared.
#[derive(Debug)]
enum Test {
    Null,
    Equal(Box<[u8]>),
    /// `LIKE` or `GLOB`.
    Like(Pattern),
}

/// A comparison that must hold.
#[derive(Debug)]
struct Condition {
    column: c_int,
    test: Test,
}

/// The conditions and predicates of a scan.
#[derive(Debug, Default)]
pub(super) struct Prefilter {
    conditions: Vec<Condition>,
    predicates: Arc<[PathPredicate]>,
    /// Buffer for a text in lower case.
    folded: Vec<u8>,
}

/// Selects the comparisons, and requests their values from SQLite.
pub(super) fn plan(info: &mut IndexInfo) -> Result<()> {
    let mut picked = Vec::new();
    for (number, constraint) in info.constraints().enumerate() {
        let kind = match constraint.operator() {
            _ if !constraint.is_usable() || !is_text(constraint.column()) => continue,
            IndexConstraintOp::SQLITE_INDEX_CONSTRAINT_ISNULL => 'n',
            IndexConstraintOp::SQLITE_INDEX_CONSTRAINT_LIKE => 'l',
            IndexConstraintOp::SQLITE_INDEX_CONSTRAINT_GLOB => 'g',
            IndexConstraintOp::SQLITE_INDEX_CONSTRAINT_EQ
            | IndexConstraintOp::SQLITE_INDEX_CONSTRAINT_IS
                if info.collation(number)? == "BINARY" =>
            {
                'e'
            }
            _ => continue,
        };
        picked.push((number, kind, constraint.column()));
    }
    picked.truncate(CONDITIONS);
    let mut plan = String::new();
    for (place, &(number, kind, column)) in (1..).zip(&picked) {
        info.constraint_usage(number).set_argv_index(place);
        plan.push(kind);
        plan.push_str(&column.to_string());
        plan.push(' ');
    }
    info.set_idx_str(plan.trim_end());
    Ok(())
}

impl Prefilter {
    /// The selected comparisons with their values. Comparisons with values that are not texts are
    /// left to SQLite.
    pub(super) fn new(
        plan: Option<&str>,
        values: &Filters<'_>,
        predicates: Arc<[PathPredicate]>,
    ) -> Self {
        let mut conditions = Vec::new();
        for (word, value) in plan.unwrap_or_default().split(' ').zip(values.iter()) {
            let Some((kind, Ok(column))) = word.split_at_checked(1).map(|(k, c)| (k, c.parse()))
            else {
                continue;
            };
            let test = match (kind, value) {
                ("n", _) | ("e", ValueRef::Null) => Test::Null,
                ("e", ValueRef::Text(text)) => Test::Equal(text.into()),
                ("l", ValueRef::Text(pattern)) => Test::Like(Pattern::like(pattern)),
                ("g", ValueRef::Text(pattern)) => Test::Like(Pattern::glob(pattern)),
                _ => continue,
            };
            conditions.push(Condition { column, test });
        }
        Self { conditions, predicates, folded: Vec::new() }
    }

    /// Whether it excludes no row.
    pub(super) fn is_empty(&self) -> bool {
        self.conditions.is_empty() && self.predicates.is_empty()
    }

    /// The column that excludes a row, if one does; `value` passes the value of a column to its
    /// callback. O(texts).
    pub(super) fn excludes(
        &mut self,
        mut value: impl FnMut(c_int, &mut dyn FnMut(ValueRef<'_>) -> Result<bool>) -> Result<bool>,
        stop: &StopCheck,
    ) -> Result<Option<c_int>> {
        let folded = &mut self.folded;
        for Condition { column, test } in &self.conditions {
            let holds = value(*column, &mut |value| match (test, value) {
                (Test::Null, value) => Ok(value == ValueRef::Null),
                (Test::Equal(text), ValueRef::Text(other)) => Ok(**text == *other),
                (Test::Like(pattern), ValueRef::Text(text)) => pattern.is_like(text, folded, stop),
                (Test::Equal(_) | Test::Like(_), _) => Ok(false),
            });
            if !holds? {
                return Ok(Some(*column));
            }
        }
        for predicate in &*self.predicates {
            if !value(predicate.column, &mut |value| predicate.admits(value, stop))? {
                return Ok(Some(predicate.column));
            }
        }
        Ok(None)
    }
}
