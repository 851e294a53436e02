//! The texts of queries, as Jobq and the native API have them: `[[OP, EXPR, EXPR], ...]`.

use crate::model::query::{Expr, Op, Query, Side, Term, Value};
use crate::wire::json::{self, Fields};
use std::fmt;

/// What is wrong with the text of a query: follows the name of its field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::protocol) struct QueryTextError {
    /// The number of the comparison, from 1.
    term: Option<usize>,
    wanted: &'static str,
}

impl fmt::Display for QueryTextError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(number) = self.term {
            write!(f, ", term {number}")?;
        }
        write!(f, ": {}", self.wanted)
    }
}

/// Parses the JSON text of a query. O(text).
pub(in crate::protocol) fn parse_query(text: &str) -> Result<Query, QueryTextError> {
    let Some(triples) = json::elements(text) else {
        return Err(QueryTextError { term: None, wanted: "give a list of [OP, EXPR, EXPR]" });
    };
    let terms = (1..).zip(triples).map(|(number, triple)| {
        term(triple).map_err(|wanted| QueryTextError { term: Some(number), wanted })
    });
    Ok(Query { terms: terms.collect::<Result<_, _>>()? })
}

fn term(text: &str) -> Result<Term, &'static str> {
    let triple = json::elements(text).unwrap_or_default();
    let [op, left, right] = triple[..] else { return Err("give [OP, EXPR, EXPR]") };
    let op = string(op)
        .and_then(|name| Op::from_name(&name))
        .ok_or("OP is one of IS, IS NOT, LIKE, GLOB, =, !=, <, <=, >, >=")?;
    let side = |text: &str| {
        side(text).ok_or(
            "EXPR is a string, a number, true, false, null or {\"value\": ANY}, and text without \
             half characters",
        )
    };
    Ok(Term::of_request(op, side(left)?, side(right)?))
}

/// The text of a JSON string. `None`: another value, or an unpaired surrogate.
pub(in crate::protocol) fn string(text: &str) -> Option<String> {
    if text.starts_with('"') { serde_json::from_str(text).ok() } else { None }
}

fn side(text: &str) -> Option<Side> {
    Some(match text.as_bytes().first()? {
        b'[' => return None,
        b'{' => Side::Value(value(only_value(text)?)?),
        b'"' => Side::Expr(Expr::Text(string(text)?.into())),
        _ => Side::Expr(scalar(text)),
    })
}

/// The value of `{"value": ANY}`, which has no other member.
fn only_value(text: &str) -> Option<&str> {
    struct Alone;
    impl Fields<1> for Alone {
        fn number(name: &[u8]) -> Option<usize> {
            (name == b"value").then_some(0)
        }
    }
    let ([value], other) = json::members::<Alone, 1>(text.as_bytes()).ok()?;
    value.filter(|_| other.is_none())
}

fn value(text: &str) -> Option<Value> {
    let mut json = Vec::new();
    json::canonical(text, &mut json);
    let json: Box<str> = String::from_utf8(json).ok()?.into();
    let expr = match text.as_bytes().first()? {
        b'"' => Expr::Literal(string(text)?.into()),
        b'[' | b'{' => Expr::Literal(json.clone()),
        _ => scalar(text),
    };
    Some(Value { expr, json })
}

fn scalar(text: &str) -> Expr {
    match text.as_bytes().first() {
        Some(b't') => Expr::Bool(true),
        Some(b'f') => Expr::Bool(false),
        Some(b'n') => Expr::Null,
        _ => Expr::Number(text.into()),
    }
}
