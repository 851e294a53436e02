//! Path predicates: terms that compare the value at a JSON path of a column with a literal.
//!
//! A term that compares `json_extract(column, 'path')`, `column ->> 'path'` or `json_array_length`
//! (with or without a path) must hold of every matching row. If the value is found without SQLite
//! ([`json_path`](super::json_path)) and the term certainly does not hold, the row is skipped. The
//! rest of the text need not be valid JSON: a row whose JSON is malformed does not match either.

use super::StopCheck;
use super::json_path::{Extract, PathStep, Value, extract, integer};
use super::rows::is_text;
use crate::model::query::{Expr, Op, Query, SPACE, Term, column, quoted};
use rusqlite::Result;
use rusqlite::types::ValueRef;
use std::cmp::Ordering;
use std::ffi::c_int;
use std::sync::Arc;

/// Predicates of one scan at most.
const TERMS: usize = 8;

/// Steps of a path at most.
const STEPS: usize = 16;

/// The literal of a comparison.
#[derive(Debug, PartialEq, Eq)]
enum Literal {
    Null,
    Integer(i64),
    /// A number that was not parsed.
    Number,
    Text(Box<[u8]>),
}

/// A term that must hold.
#[derive(Debug)]
pub(super) struct PathPredicate {
    pub(super) column: c_int,
    path: Vec<PathStep>,
    what: Extract,
    op: Op,
    literal: Literal,
}

/// The terms of a query that are path predicates. O(query).
pub(super) fn parse(query: &Query) -> Arc<[PathPredicate]> {
    query.terms.iter().filter_map(PathPredicate::of).take(TERMS).collect()
}

impl PathPredicate {
    fn of(term: &Term) -> Option<Self> {
        let of = |value: &Expr, op: Op, literal: &Expr| {
            let ((column, what, path), literal) = (extraction(value)?, literal_of(literal)?);
            Some(Self { column, path, what, op, literal })
        };
        // LIKE and GLOB cannot be swapped, and are not handled here.
        let swapped = match term.op {
            Op::Like | Op::Glob => return None,
            Op::Less => Op::Greater,
            Op::LessOrEqual => Op::GreaterOrEqual,
            Op::Greater => Op::Less,
            Op::GreaterOrEqual => Op::LessOrEqual,
            op => op,
        };
        let direct = of(&term.left, term.op, &term.right);
        direct.or_else(|| of(&term.right, swapped, &term.left))
    }

    /// Whether the term may hold where the column has this value. O(text).
    pub(super) fn admits(&self, value: ValueRef<'_>, stop: &StopCheck) -> Result<bool> {
        let value = match value {
            ValueRef::Null => Value::Null,
            ValueRef::Text(text) => extract(text, &self.path, self.what, stop)?,
            _ => Value::Unsure,
        };
        Ok(self.may_match(value))
    }

    fn may_match(&self, value: Value<'_>) -> bool {
        if value == Value::Unsure {
            return true;
        }
        let (one, two) = (value == Value::Null, self.literal == Literal::Null);
        if one || two {
            return match self.op {
                Op::Is => one && two,
                Op::IsNot => one != two,
                // Neither true nor false.
                _ => false,
            };
        }
        let Some(order) = order(value, &self.literal) else { return true };
        match self.op {
            Op::Is | Op::Equal => order.is_eq(),
            Op::IsNot | Op::NotEqual => order.is_ne(),
            Op::Less => order.is_lt(),
            Op::LessOrEqual => order.is_le(),
            Op::Greater => order.is_gt(),
            Op::GreaterOrEqual => order.is_ge(),
            Op::Like | Op::Glob => true,
        }
    }
}

/// The order of a value and a literal, neither of which is NULL, if it is certain. Texts are
/// greater than numbers.
fn order(value: Value<'_>, literal: &Literal) -> Option<Ordering> {
    Some(match (value, literal) {
        (Value::Integer(one), Literal::Integer(two)) => one.cmp(two),
        (Value::Null | Value::Unsure, _)
        | (_, Literal::Null)
        | (Value::Integer(_) | Value::Number, Literal::Integer(_) | Literal::Number)
        | (Value::Escaped, Literal::Text(_)) => return None,
        (Value::Integer(_) | Value::Number, Literal::Text(_)) => Ordering::Less,
        (_, Literal::Integer(_) | Literal::Number) => Ordering::Greater,
        (Value::Text(one), Literal::Text(two)) => one.cmp(&**two),
        // Compared as JSON text, whose whitespace is unknown: only the first byte is certain.
        (Value::Container(begin), Literal::Text(text)) => match text.first() {
            Some(first) => Some(begin.cmp(first)).filter(|order| order.is_ne())?,
            None => Ordering::Greater,
        },
    })
}

/// The column, the extraction and the path, if an expression is nothing but an extraction.
fn extraction(expr: &Expr) -> Option<(c_int, Extract, Vec<PathStep>)> {
    let Expr::Text(text) = expr else { return None };
    let text = text.trim_matches(SPACE);
    let (column, what, path) = if let Some((column, path)) = text.split_once("->>") {
        let path = path.trim_start_matches(SPACE);
        let path = match path.bytes().next()? {
            b'0'..=b'9' => vec![index(path)?],
            _ => match string(path)? {
                path if path.starts_with('$') => steps(path)?,
                label => vec![self::label(label)?],
            },
        };
        (column, Extract::Value, path)
    } else {
        let (name, arguments) = text.split_once('(')?;
        let arguments = arguments.strip_suffix(')')?;
        let is = |known: &str| name.trim_end_matches(SPACE).eq_ignore_ascii_case(known);
        let what = if is("json_extract") {
            Extract::Value
        } else if is("json_array_length") {
            Extract::Length
        } else {
            return None;
        };
        match arguments.split_once(',') {
            Some((column, path)) => (column, what, steps(string(path.trim_matches(SPACE))?)?),
            None if what == Extract::Length => (arguments, what, Vec::new()),
            None => return None,
        }
    };
    let column = c_int::try_from(self::column(column)?).ok().filter(|&column| is_text(column))?;
    Some((column, what, path))
}

/// The content of an SQL string. Doubled quotes are kept; the callers reject quotes.
fn string(text: &str) -> Option<&str> {
    text.strip_prefix('\'')?.strip_suffix('\'')
}

/// The steps of a path of plain labels and indexes.
fn steps(path: &str) -> Option<Vec<PathStep>> {
    let mut rest = path.strip_prefix('$')?;
    let mut steps = Vec::new();
    while !rest.is_empty() {
        let (step, behind) = if let Some(behind) = rest.strip_prefix('[') {
            let (number, behind) = behind.split_once(']')?;
            (index(number)?, behind)
        } else {
            let behind = rest.strip_prefix('.')?;
            let (name, behind) = behind.split_at(behind.find(['.', '[']).unwrap_or(behind.len()));
            (label(name)?, behind)
        };
        if steps.len() == STEPS {
            return None;
        }
        steps.push(step);
        rest = behind;
    }
    Some(steps)
}

fn label(name: &str) -> Option<PathStep> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    (!name.is_empty() && name.bytes().all(is_plain))
        .then(|| PathStep::Label(name.as_bytes().into()))
}

fn index(digits: &str) -> Option<PathStep> {
    let is_plain = digits.len() < 9 && digits.bytes().all(|byte| byte.is_ascii_digit());
    Some(PathStep::Index(digits.parse().ok().filter(|_| is_plain)?))
}

fn literal_of(expr: &Expr) -> Option<Literal> {
    match expr {
        Expr::Null => Some(Literal::Null),
        Expr::Bool(bool) => Some(Literal::Integer(i64::from(*bool))),
        Expr::Number(number) => self::number(number),
        Expr::Literal(text) => Some(Literal::Text(text.as_bytes().into())),
        Expr::Text(text) => match expr.bare_word() {
            Some(word) => Some(Literal::Text(word.as_bytes().into())),
            None => quoted_or_number(text.trim_matches(SPACE)),
        },
    }
}

fn quoted_or_number(text: &str) -> Option<Literal> {
    let quoted = quoted(text).map(|text| Literal::Text(text.into_bytes().into()));
    quoted.or_else(|| number(text))
}

fn number(text: &str) -> Option<Literal> {
    if let Some(integer) = integer(text.as_bytes()) {
        return Some(Literal::Integer(integer));
    }
    let is_digit = |byte| matches!(byte, b'0'..=b'9' | b'-' | b'.' | b'e' | b'E');
    (text.bytes().all(is_digit) && text.parse::<f64>().is_ok()).then_some(Literal::Number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Expr {
        Expr::Text(text.into())
    }

    #[test]
    fn plain_extractions_are_recognized() {
        let a = || PathStep::Label(Box::from(*b"a"));
        for (expr, column, what, path) in [
            ("json_extract(payload, '$.a')", 1, Extract::Value, vec![a()]),
            (" JSON_Extract\n( J.State ,'$' ) ", 2, Extract::Value, vec![]),
            (
                "json_extract(events,'$[1].a[23]')",
                3,
                Extract::Value,
                vec![PathStep::Index(1), a(), PathStep::Index(23)],
            ),
            ("j.queue->>'a'", 5, Extract::Value, vec![a()]),
            ("payload ->> '$.a'", 1, Extract::Value, vec![a()]),
            ("payload ->> 7", 1, Extract::Value, vec![PathStep::Index(7)]),
            ("payload ->> '7'", 1, Extract::Value, vec![PathStep::Label(Box::from(*b"7"))]),
            ("json_array_length(events)", 3, Extract::Length, vec![]),
            ("JSON_ARRAY_LENGTH( j.payload , '$.a')", 1, Extract::Length, vec![a()]),
        ] {
            assert_eq!(extraction(&text(expr)), Some((column, what, path)), "{expr}");
        }
    }

    #[test]
    fn other_expressions_are_left_to_sqlite() {
        for expr in [
            "json_extract(id, '$.a')",
            "json_extract(pri, '$.a')",
            "json_extract(payload)",
            "json_extract(payload, '$.a', '$.b')",
            "json_extract(payload, '$.a') || json_extract(payload, '$.b')",
            "json_extract(payload, '$.a'",
            "json_extract(payload || '', '$.a')",
            "json_extract(payload, '.a')",
            "json_extract(payload, 'a')",
            "json_extract(payload, '$a')",
            "json_extract(payload, '$.')",
            "json_extract(payload, '$..a')",
            "json_extract(payload, '$.\"a\"')",
            "json_extract(payload, '$.a''b')",
            "json_extract(payload, '$.\u{e9}')",
            "json_extract(payload, '$[#-1]')",
            "json_extract(payload, '$[-1]')",
            "json_extract(payload, '$[]')",
            "json_extract(payload, '$[1')",
            "json_extract(payload, '$[123456789]')",
            "json_extract(k.payload, '$')",
            "jsonb_extract(payload, '$')",
            "json_array_length(id)",
            "json_array_length(payload, 'a')",
            "json_array_length(payload) + 1",
            "payload -> 'a'",
            "payload ->> -1",
            "payload ->> 'a' ->> 'b'",
            "payload ->> '[1]'",
            "payload ->> 0x1",
            "payload ->> id",
            "'{}' ->> 'a'",
        ] {
            assert_eq!(extraction(&text(expr)), None, "{expr}");
        }
        let long = format!("json_extract(payload, '${}')", ".a".repeat(STEPS + 1));
        assert_eq!(extraction(&text(&long)), None);
    }

    #[test]
    fn literals_have_the_types_of_sqlite() {
        let whole = |text: &str| Some(Literal::Text(text.as_bytes().into()));
        for (expr, literal) in [
            (Expr::Null, Some(Literal::Null)),
            (Expr::Bool(true), Some(Literal::Integer(1))),
            (Expr::Number("-0".into()), Some(Literal::Integer(0))),
            (Expr::Number("77.0".into()), Some(Literal::Number)),
            (Expr::Number("5-3".into()), None),
            (text("NULL"), whole("NULL")),
            (text(" 'it''s' "), whole("it's")),
            (text("-123456789012345678"), Some(Literal::Integer(-123_456_789_012_345_678))),
            (text("1234567890123456789"), Some(Literal::Number)),
            (text("1e3"), Some(Literal::Number)),
            (text("0x10"), None),
            (text("1_000"), None),
            (text("state"), None),
            (text("'a' || 'b'"), None),
            (text("-"), None),
            (text("id + 1"), None),
        ] {
            assert_eq!(literal_of(&expr), literal, "{expr:?}");
        }
    }
}
