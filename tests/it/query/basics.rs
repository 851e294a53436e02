//! Columns, literals, limits and orders.

use super::{evaluator, query, row, run, snapshot, text};
use jobcentre::model::job::Encoding;
use jobcentre::model::query::{Expr, Op};
use jobcentre::query::{Evaluator, QueryError, QueryTask, TaskState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

#[test]
fn examples_of_the_specification_run() {
    let rows = snapshot([
        row(1, "1", r#"["CREATED"]"#),
        row(2, "2", r#"["RUNNING"]"#),
        row(3, "null", "null"),
    ]);
    let mut evaluator = evaluator();
    for (left, op, right, expected) in [
        ("json_extract(state, '$[0]')", Op::Is, text("CREATED"), vec![1]),
        ("j.state", Op::Is, Expr::Null, vec![3]),
        ("J.STATE", Op::IsNot, Expr::Null, vec![1, 2]),
        ("Payload", Op::Is, Expr::Null, vec![3]),
        ("json_extract(payload, '$')", Op::Is, Expr::Number("2".into()), vec![2]),
        ("state", Op::Is, text(r#"'["RUNNING"]'"#), vec![2]),
        ("id", Op::NotEqual, Expr::Number("2".into()), vec![1, 3]),
        ("id", Op::LessOrEqual, text("'2'"), vec![1, 2]),
        ("queue", Op::Like, text("Q"), vec![1, 2, 3]),
        ("pri", Op::GreaterOrEqual, Expr::Number("5.0".into()), vec![1, 2, 3]),
        ("json_array_length(events)", Op::Is, Expr::Number("2".into()), vec![1, 2, 3]),
        ("events ->> '$[1][1].event.n'", Op::Equal, text("id"), vec![1, 2, 3]),
        ("modified - 1700000000", Op::Is, text("id"), vec![1, 2, 3]),
        ("1 = 1", Op::Is, Expr::Bool(true), vec![1, 2, 3]),
        ("1 = 2", Op::Is, Expr::Bool(false), vec![1, 2, 3]),
        ("replace('x', '', j.state)", Op::Is, text("x"), vec![1, 2, 3]),
        ("queue", Op::Glob, text("'[p-r]'"), vec![1, 2, 3]),
        ("queue", Op::Glob, text("Q"), vec![]),
        ("state", Op::Equal, Expr::Literal("[\"RUNNING\"]".into()), vec![2]),
        ("typeof(select)", Op::Is, text("x"), vec![]),
    ] {
        let found = run(&mut evaluator, &rows, &query([(text(left), op, right)]));
        if left.contains("select") {
            assert!(found.is_err(), "a keyword is a word only alone");
            continue;
        }
        assert_eq!(found, Ok(expected), "{left}");
    }
}

#[test]
fn single_word_is_a_string_literal() {
    let words = ["CREATED", "select", "null", "true", "NOT", "current_time", "rowid", "j", "_x$1"];
    let mut evaluator = evaluator();
    for word in words.into_iter().chain(["\u{e9}t\u{e9}", "\u{65e5}\u{672c}", "\u{1f600}"]) {
        let rows = snapshot([row(1, &format!("[\"{word}\"]"), "null"), row(2, "[\"\"]", "null")]);
        let query = query([(text("payload ->> 0"), Op::Is, text(&format!(" {word}\n")))]);
        assert_eq!(run(&mut evaluator, &rows, &query), Ok(vec![1]), "{word}");
    }
}

#[test]
fn columns_cover_every_status() {
    let mut packet = row(1, "", "null");
    packet.encoding = Encoding::Packet { key_len: 1 };
    packet.payload = Arc::from(*b"k\xff\x00");
    packet.queue = Arc::from(*b"n\xffm");
    packet.priority = None;
    let mut urgent = row(2, " null\n", "1");
    urgent.priority = Some("123456789012345678901234567890".into());
    let mut last = row(3, "{}", "2");
    last.priority = Some("-9223372036854775808".into());
    let (rows, mut evaluator) = (snapshot([packet, urgent, last]), evaluator());
    for (left, op, right, expected) in [
        ("payload", Op::Is, r#"'{"key":"aw==","payload":"/wA="}'"#, vec![1]),
        ("queue", Op::Is, "'n\u{fffd}m'", vec![1]),
        ("payload", Op::Is, "NULL", vec![]),
        ("payload IS NULL", Op::Is, "1", vec![2]),
        ("pri IS NULL", Op::Is, "1", vec![1]),
        ("pri", Op::Is, "1.2345678901234568e29", vec![2]),
        ("pri", Op::Is, "-9223372036854775808", vec![3]),
        (
            "typeof(id) || typeof(modified) || typeof(events)",
            Op::Is,
            "'integerintegertext'",
            vec![1, 2, 3],
        ),
    ] {
        let found = run(&mut evaluator, &rows, &query([(text(left), op, text(right))]));
        assert_eq!(found, Ok(expected), "{left}");
    }
}

#[test]
fn limit_stops_the_scan() {
    let rows = snapshot((0..5000).map(|id| row(id, "{}", "null")));
    let order: Vec<u64> = rows.values().map(|row| row.id.0).collect();
    let mut evaluator = evaluator();
    let even = query([(text("id % 2"), Op::Is, Expr::Number("0".into()))]);
    for limit in [0, 1, 511, 512, 513, 1024, 2499, 2500, 2501, u64::MAX] {
        let work = QueryTask { rows: rows.clone(), query: Arc::clone(&even), limit: Some(limit) };
        let found = evaluator.run(&work).unwrap();
        let expected = order.iter().copied().filter(|id| id % 2 == 0);
        let expected: Vec<u64> =
            expected.take(usize::try_from(limit).unwrap_or(usize::MAX)).collect();
        assert_eq!(found.iter().map(|row| row.id.0).collect::<Vec<_>>(), expected);
    }
    // What stands behind the last one is not looked at: it would be an error there.
    let (first, second) = (order[0], order[1]);
    let bomb = format!("CASE id WHEN {second} THEN abs(-9223372036854775808) ELSE id END");
    let bomb = query([(text(&bomb), Op::Is, text(&first.to_string()))]);
    let work = |limit| QueryTask { rows: rows.clone(), query: Arc::clone(&bomb), limit };
    assert_eq!(evaluator.run(&work(Some(1))).map(|found| found.len()), Ok(1));
    assert!(evaluator.run(&work(Some(2))).is_err());
    assert_eq!(evaluator.run(&work(Some(0))).map(|found| found.len()), Ok(0));
}

#[test]
fn invalid_query_is_rejected_without_rows() {
    let wrong = query([(text("nothing.here"), Op::Is, Expr::Null)]);
    assert!(run(&mut evaluator(), &snapshot([]), &wrong).is_err());
    let right = query([(text("id"), Op::Is, Expr::Null)]);
    assert_eq!(run(&mut evaluator(), &snapshot([]), &right), Ok(vec![]));
}

#[test]
fn stopped_query_resumes_at_its_row() {
    // Every seventh row is one that SQLite stumbles over.
    let deep = format!("{}{}", "[".repeat(1500), "]".repeat(1500));
    let payload = |id: u64| if id.is_multiple_of(7) { deep.clone() } else { format!("[{id}]") };
    let rows = snapshot((0..2000).map(|id| row(id, &payload(id), "null")));
    let even = query([(text("json_extract(payload, '$[0]') % 2"), Op::Is, text("0"))]);
    let whole = run(&mut evaluator(), &rows, &even).unwrap();
    assert_eq!(whole.len(), 2000 / 2 - 2000_usize.div_ceil(14));
    let left = Arc::new(AtomicU64::new(0));
    let mut evaluators = [(); 2].map(|()| {
        let left = Arc::clone(&left);
        let stop = move || {
            left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1))
                .is_err()
        };
        Evaluator::new(Arc::new(stop)).unwrap()
    });
    for (questions, limit) in [(1, None), (2, Some(900)), (3, Some(100)), (17, None)] {
        let work = QueryTask { rows: rows.clone(), query: Arc::clone(&even), limit };
        let (mut progress, mut stops) = (TaskState::default(), 0);
        loop {
            left.store(questions, Ordering::Relaxed);
            match evaluators[stops % 2].go_on(&work, &mut progress) {
                Ok(()) => break,
                Err(QueryError::Stopped) => stops += 1,
                Err(QueryError::Bad(why)) => panic!("{why}"),
            }
        }
        assert!(stops > 3, "it was stopped {stops} times");
        let found: Vec<_> = progress.found.iter().map(|row| row.id.0).collect();
        let limit = limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap());
        assert_eq!(found, whole[..limit.min(whole.len())], "{questions}");
    }
}
