//! Queries over 50,000 jobs, against SQLite's own scan of a table with the same rows: the cost of
//! the virtual table. One iteration is one query over all rows.
//!
//! `snapshot` is what the loop pays to hand over the rows; `ours` and `table` find the same rows.

use crate::query_rows::{EVENTS_APART, STATES_APART, rows, sides, task};
use crate::sized;
use divan::{Bencher, black_box};
use jobcentre::model::event::write_events;
use jobcentre::model::row::Rows;
use jobcentre::query::Evaluator;
use rusqlite::Connection;
use std::sync::Arc;

const JOBS: usize = 50_000;

const QUERIES: [&str; 8] = [
    "state path",
    "state function",
    "state IS NULL",
    "payload path",
    "LIKE",
    "events length",
    EVENTS_APART,
    STATES_APART,
];

#[divan::bench]
fn snapshot(bencher: Bencher) {
    let rows = rows("", sized(JOBS) as u64);
    bencher.bench_local(|| black_box(rows.clone()).len());
}

#[divan::bench(args = QUERIES)]
fn ours(bencher: Bencher, name: &str) {
    let work = task(name, sized(JOBS) as u64);
    let mut evaluator = Evaluator::new(Arc::new(|| false)).expect("SQLite can be set up");
    bencher.bench_local(|| evaluator.run(black_box(&work)).expect("it is a query").len());
}

#[divan::bench(args = QUERIES)]
fn table(bencher: Bencher, name: &str) {
    let (_, _, _, sql) = sides(name);
    let connection = fill(&rows(name, sized(JOBS) as u64)).expect("SQLite can be set up");
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
