//! Queries over 50,000 jobs, against SQLite's own scan of a table with the same rows: the cost of
//! the virtual table. One iteration is one query over all rows.
//!
//! `snapshot` is what the loop pays to hand over the rows; `ours` and `table` find the same rows.

use crate::sized;
use divan::{Bencher, black_box};
use jobcentre::model::event::{Event, EventKind, EventLog, write_events};
use jobcentre::model::id::JobId;
use jobcentre::model::job::Encoding;
use jobcentre::model::query::{Expr, Op, Query, Term};
use jobcentre::model::row::{Row, Rows};
use jobcentre::query::{Evaluator, QueryTask};
use rusqlite::Connection;
use std::sync::Arc;

const JOBS: usize = 50_000;

/// A name, the side that is not `NULL` or 'CREATED', and the same as SQL. Few rows match.
const QUERIES: [&str; 6] =
    ["state path", "state IS NULL", "payload path", "LIKE", "events length", LOGS_APART];

/// The same as the one before it, but no two jobs have the same log.
const LOGS_APART: &str = "events apart";

fn sides(name: &str) -> (&'static str, Op, Expr, &'static str) {
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

fn rows(name: &str) -> Rows {
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
    (0..sized(JOBS) as u64).map(row).map(|row| (row.key(), Arc::new(row))).collect()
}

#[divan::bench]
fn snapshot(bencher: Bencher) {
    let rows = rows("");
    bencher.bench_local(|| black_box(rows.clone()).len());
}

#[divan::bench(args = QUERIES)]
fn ours(bencher: Bencher, name: &str) {
    let (left, op, right, _) = sides(name);
    let term = Term { op, left: Expr::Text(left.into()), right };
    let work =
        QueryTask { rows: rows(name), query: Arc::new(Query { terms: vec![term] }), limit: None };
    let mut evaluator = Evaluator::new(Arc::new(|| false)).expect("SQLite can be set up");
    bencher.bench_local(|| evaluator.run(black_box(&work)).expect("it is a query").len());
}

#[divan::bench(args = QUERIES)]
fn table(bencher: Bencher, name: &str) {
    let (_, _, _, sql) = sides(name);
    let connection = fill(&rows(name)).expect("SQLite can be set up");
    let sql = format!("SELECT id FROM j WHERE {sql}");
    let mut statement = connection.prepare(&sql).expect("it is SQL");
    bencher.bench_local(|| {
        let ids = statement.query_map([], |row| row.get::<_, i64>(0)).expect("it can be run");
        ids.map(|id| id.expect("ids are integers")).collect::<Vec<_>>().len()
    });
}

fn fill(rows: &Rows) -> rusqlite::Result<Connection> {
    let connection = Connection::open_in_memory()?;
    connection.execute_batch(
        "CREATE TABLE j(id INTEGER, payload TEXT, state TEXT, events TEXT, modified INTEGER, \
         queue TEXT, pri NUMERIC); BEGIN",
    )?;
    let mut insert = connection.prepare("INSERT INTO j VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)")?;
    for row in rows.values() {
        let mut events = Vec::new();
        write_events(&row.events, &mut events);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let state = text(&row.state);
        insert.execute((
            row.id.0.cast_signed(),
            text(&row.payload),
            Some(state).filter(|state| state != "null"),
            text(&events),
            row.modified.cast_signed(),
            text(&row.queue),
            0,
        ))?;
    }
    drop(insert);
    connection.execute_batch("COMMIT")?;
    Ok(connection)
}
