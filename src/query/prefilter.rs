//! What a cursor leaves out by itself: rows that a plain comparison of a text column rules out.
//!
//! SQLite says which comparisons with a value that is known beforehand must hold; those of
//! `IS NULL`, `IS`, `=`, `LIKE` and `GLOB` are tried here before it gets to see a row, at a
//! fraction of the cost. It tries them again on what is left: a condition here may let through too
//! much, never too little. So may the terms of [`sought`](super::path_predicate), of which SQLite
//! does not tell.

use super::StopCheck;
use super::like::Pattern;
use super::path_predicate::PathPredicate;
use super::rows::is_text;
use rusqlite::Result;
use rusqlite::types::ValueRef;
use rusqlite::vtab::{Filters, IndexConstraintOp, IndexInfo};
use std::ffi::c_int;
use std::sync::Arc;

/// Conditions that one scan looks at.
const CONDITIONS: usize = 8;

/// How a column is compared.
#[derive(Debug)]
enum Test {
    Null,
    Equal(Box<[u8]>),
    /// Or `GLOB`.
    Like(Pattern),
}

/// A comparison that must hold.
#[derive(Debug)]
struct Condition {
    column: c_int,
    test: Test,
}

/// All that must hold, as far as it is looked at here.
#[derive(Debug, Default)]
pub(super) struct Prefilter {
    conditions: Vec<Condition>,
    /// Terms on what a path leads to.
    sought: Arc<[PathPredicate]>,
    /// A text in lower case.
    folded: Vec<u8>,
}

/// Picks the comparisons, and asks for the values that they compare with.
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
    /// What was picked, now that the values are known. A value that is no text compares in ways
    /// that are SQLite's affair.
    pub(super) fn new(
        plan: Option<&str>,
        values: &Filters<'_>,
        sought: Arc<[PathPredicate]>,
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
                ("l", ValueRef::Text(pattern)) => Test::Like(Pattern::of(pattern)),
                ("g", ValueRef::Text(pattern)) => Test::Like(Pattern::glob(pattern)),
                _ => continue,
            };
            conditions.push(Condition { column, test });
        }
        Self { conditions, sought, folded: Vec::new() }
    }

    /// Whether every row is to be shown.
    pub(super) fn is_empty(&self) -> bool {
        self.conditions.is_empty() && self.sought.is_empty()
    }

    /// The column that rules a row out, if one does: `value` gives them. O(texts).
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
        for sought in &*self.sought {
            if !value(sought.column, &mut |value| sought.admits(value, stop))? {
                return Ok(Some(sought.column));
            }
        }
        Ok(None)
    }
}
