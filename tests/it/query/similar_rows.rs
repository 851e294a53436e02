//! Similar rows: a rejected row implies nothing for rows that differ in what the query reads. The
//! oracle checks every row alone.

use super::{evaluator, query, row, run, snapshot, text};
use jobcentre::model::event::{Event, EventKind, EventLog};
use jobcentre::model::id::ClientId;
use jobcentre::model::query::{Expr, Op};
use jobcentre::model::row::{Row, Rows};
use std::sync::Arc;

/// Most logs are alike, though each is made anew; the others differ from them in one thing.
fn log(number: u64) -> EventLog {
    let old = || Arc::from(*b"null");
    let moved = |new: &[u8]| EventKind::Advanced { old: old(), new: Arc::from(new) };
    let user = |text: &[u8]| EventKind::User(Box::from(text));
    let by = |index| EventKind::Reserved { by: Some(ClientId { index, generation: 1 }) };
    let (what, at) = match number % 24 {
        1 => (moved(b"[\"A\"]"), 9),
        2 => (moved(b"[\"B\"]"), 8),
        3 => (user(b"1"), 8),
        4 => (user(b"2"), 8),
        5 => (by(1), 8),
        6 => (by(2), 8),
        7 => (EventKind::Reserved { by: None }, 8),
        8 => (EventKind::Created, 8),
        _ => (moved(b"[\"A\"]"), 8),
    };
    let created = if number.is_multiple_of(9) { 3 } else { 2 };
    let log = EventLog::default().with(Event { kind: EventKind::Created, at: created });
    let log = if number.is_multiple_of(10) { log } else { log.with(Event { kind: what, at }) };
    match number % 12 {
        11 => log.with(Event { kind: EventKind::Kicked, at: 9 }),
        _ => log,
    }
}

fn rows() -> Rows {
    snapshot((0..300).map(|number| {
        let payload = format!("{{\"n\":{}}}", number % 40);
        let state = match number % 4 {
            0 => "null",
            1 | 2 => "[\"A\"]",
            _ => "[\"B\"]",
        };
        let priority = match number % 3 {
            0 => "5",
            1 => "5.0",
            _ => "7",
        };
        Row {
            events: log(number),
            priority: (number % 5 > 0).then(|| priority.into()),
            queue: if number.is_multiple_of(7) { Arc::from(*b"p") } else { Arc::from(*b"q") },
            modified: number / 30,
            ..row(number, &payload, state)
        }
    }))
}

#[test]
fn rejected_row_does_not_reject_similar_rows() {
    let rows = rows();
    let mut evaluator = evaluator();
    for expression in [
        "json_extract(state, '$[0]') = 'B'",
        "json_extract(state, '$[0]') = 'B' OR payload LIKE '%:7}'",
        "json_extract(state, '$[0]') = 'A' AND payload LIKE '%:3_}'",
        "CASE state WHEN '[\"A\"]' THEN id % 7 = 0 ELSE pri > 5 END",
        "json_array_length(events) > 2",
        "json_array_length(events) < 2",
        "json_extract(events, '$[0][1].timestamp') = '3'",
        "json_extract(events, '$[#-1][1].timestamp') = '9'",
        "json_extract(events, '$[1][1].new[0]') = 'B'",
        "json_extract(events, '$[1][1].event') = 2",
        "json_extract(events, '$[1][1].by') = 2",
        "json_extract(events, '$[1][0]') = 'job_created'",
        "instr(events, 'job_taken') AND json_extract(state, '$[0]') = 'B'",
        "length(events) % 2 AND modified % 3 = 1",
        "modified > 5 OR pri > 6",
        "pri + 0 = 5 AND pri IS NOT 5",
        "queue || '' = 'p'",
        "queue || '' = 'p' OR id = 100",
        "coalesce(state, pri) = 7",
        "length(state) = 5 AND typeof(pri) = 'null'",
        // Some rows are malformed here.
        "json_extract(coalesce(pri, state) || '', '$[0]') = 'A'",
        "json_extract(iif(modified = 3, 'x', state), '$[0]') = 'B'",
    ] {
        let query = query([(text(expression), Op::Is, Expr::Bool(true))]);
        let mut alone = Vec::new();
        for one in rows.values() {
            let one = snapshot([Row::clone(one)]);
            alone.extend(run(&mut evaluator, &one, &query).unwrap_or_default());
        }
        let found = run(&mut evaluator, &rows, &query).expect(expression);
        assert_eq!(found, alone, "{expression}");
    }
}

#[test]
fn unread_columns_do_not_make_rows_similar() {
    let rows = rows();
    let mut evaluator = evaluator();
    let number = |number: &str| Expr::Number(number.into());
    let mut total = 0;
    for (left, op, right) in [
        ("json_array_length(events)", Op::Greater, number("2")),
        ("json_array_length(events)", Op::Is, number("1")),
        ("json_extract(events, '$[0][1].timestamp')", Op::Is, text("'3'")),
        ("json_extract(events, '$[1][1].timestamp')", Op::GreaterOrEqual, text("'9'")),
        ("json_extract(events, '$[1][1].new[0]')", Op::Equal, text("B")),
        ("json_extract(events, '$[1][1].event')", Op::Is, number("2")),
        ("json_extract(events, '$[1][1].by')", Op::Less, number("2")),
        ("json_extract(events, '$[1][0]')", Op::NotEqual, text("'job_state_advanced'")),
        ("json_extract(events, '$[2]')", Op::IsNot, Expr::Null),
    ] {
        let logs = (text(left), op, right);
        let state = (text("json_extract(state, '$[0]')"), Op::Is, text("A"));
        let payload = (text("payload ->> 'n'"), Op::Less, number("20"));
        for terms in [
            vec![logs.clone()],
            vec![logs.clone(), state.clone()],
            vec![state, payload.clone(), logs.clone()],
            vec![logs, payload, (text("modified"), Op::Greater, number("4"))],
        ] {
            let query = query(terms);
            let mut alone = Vec::new();
            for one in rows.values() {
                let one = snapshot([Row::clone(one)]);
                alone.extend(run(&mut evaluator, &one, &query).unwrap());
            }
            assert_eq!(run(&mut evaluator, &rows, &query), Ok(alone.clone()), "{query:?}");
            total += alone.len();
        }
    }
    assert!(total > 200, "{total}");
}
