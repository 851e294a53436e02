//! Rows of an indexed queue and queries over them, for benches.

use jobcentre::model::event::{Event, EventKind, EventLog};
use jobcentre::model::id::JobId;
use jobcentre::model::job::Encoding;
use jobcentre::model::query::{Expr, Op, Query, Term};
use jobcentre::model::row::{Row, Rows};
use jobcentre::query::QueryTask;
use std::sync::Arc;

/// The same as "events length", but no two jobs have the same history.
pub(crate) const LOGS_APART: &str = "events apart";

/// A query: its left side, its comparison, its right side, and the same as SQL.
pub(crate) type Sides = (&'static str, Op, Expr, &'static str);

/// A query by its name. Few rows match.
pub(crate) fn sides(name: &str) -> Sides {
    let text = |text: &str| Expr::Text(text.into());
    match name {
        "state path" => (
            "json_extract(state, '$[0]')",
            Op::Is,
            text("CREATED"),
            "json_extract(state, '$[0]') IS 'CREATED'",
        ),
        "state IS NULL" => ("j.state", Op::Is, Expr::Null, "j.state IS NULL"),
        "payload path" => (
            "json_extract(payload, '$.user.id')",
            Op::Is,
            Expr::Number("77".into()),
            "json_extract(payload, '$.user.id') IS 77",
        ),
        "state function" => (
            "upper(json_extract(state, '$[0]'))",
            Op::Is,
            text("CREATED"),
            "upper(json_extract(state, '$[0]')) IS 'CREATED'",
        ),
        "LIKE" => ("payload", Op::Like, text("'%number 77 %'"), "payload LIKE '%number 77 %'"),
        "events length" | LOGS_APART => (
            "json_array_length(events)",
            Op::Greater,
            Expr::Number("2".into()),
            "json_array_length(events) > 2",
        ),
        other => unreachable!("{other} is no query"),
    }
}

/// The rows that a query of this name is to look at.
pub(crate) fn rows(name: &str, count: u64) -> Rows {
    let created = |at| EventLog::default().with(Event { kind: EventKind::Created, at });
    let common = created(1_700_000_000);
    let row = |number: u64| {
        let at = 1_700_000_000 + if name == LOGS_APART { number } else { 0 };
        let created = if name == LOGS_APART { created(at) } else { common.clone() };
        let state = match number % 100 {
            0 => "[\"CREATED\"]",
            1 => "null",
            _ => "[\"RUNNING\",{\"by\":\"worker\"}]",
        };
        let (old, new) = (Arc::from(*b"null"), Arc::from(state.as_bytes()));
        let happened = Event { kind: EventKind::Advanced { old, new }, at };
        let payload = format!(
            "{{\"user\":{{\"name\":\"somebody\",\"id\":{}}},\"text\":\"this is number {number} of \
             many\",\"list\":[1,2,3]}}",
            number % 500
        );
        Row {
            id: JobId(number),
            version: 1,
            queue: Arc::from(*b"work"),
            priority: Some("0".into()),
            encoding: Encoding::Json,
            payload: payload.into_bytes().into(),
            state: state.as_bytes().into(),
            events: created.with(happened),
            modified: 1_700_000_000 + number / 10,
        }
    };
    (0..count).map(row).map(|row| (row.key(), Arc::new(row))).collect()
}

/// A query of this name over `count` rows.
pub(crate) fn task(name: &str, count: u64) -> QueryTask {
    let (left, op, right, _) = sides(name);
    let term = Term { op, left: Expr::Text(left.into()), right };
    QueryTask { rows: rows(name, count), query: Arc::new(Query { terms: vec![term] }), limit: None }
}
