//! Rows of an indexed queue and queries over them, for benches.

use jobcentre::model::event::{Event, EventKind, EventLog};
use jobcentre::model::id::JobId;
use jobcentre::model::job::Encoding;
use jobcentre::model::query::{Expr, Op, Query, Term};
use jobcentre::model::row::{Row, Rows};
use jobcentre::query::QueryTask;
use std::sync::Arc;

/// The same as "events length", but no two jobs have the same history or state.
pub(crate) const EVENTS_APART: &str = "events apart";

/// The same as "state IS NULL", but no two jobs have the same history, and few the same state.
pub(crate) const STATES_APART: &str = "states apart";

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
        "state IS NULL" | STATES_APART => ("j.state", Op::Is, Expr::Null, "j.state IS NULL"),
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
        "events length" | EVENTS_APART => (
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
    let apart = [EVENTS_APART, STATES_APART].contains(&name);
    let created = |at| EventLog::default().with(Event { kind: EventKind::Created, at });
    let common = created(1_700_000_000);
    let row = |number: u64| {
        let at = 1_700_000_000 + if apart { number } else { 0 };
        let created = if apart { created(at) } else { common.clone() };
        let state = match number % 100 {
            0 => "[\"CREATED\"]".to_owned(),
            1 => "null".to_owned(),
            _ if apart => format!("[\"RUNNING\",{{\"by\":\"worker {number}\"}}]"),
            _ => "[\"RUNNING\",{\"by\":\"worker\"}]".to_owned(),
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
