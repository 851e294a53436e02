//! Attacks by name: each is rejected with a message, or does no harm.

use super::{evaluator, query, row, run, snapshot, text};
use jobcentre::model::query::{Expr, Op};
use jobcentre::model::row::Rows;
use jobcentre::query::{Evaluator, QueryError, QueryTask, value_max};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

fn rows() -> Rows {
    snapshot([
        row(1, r#"{"text":"select * from secrets; drop table j"}"#, r#"["CREATED"]"#),
        row(2, "null", "null"),
        row(3, "[1,2,3]", r#""DONE""#),
    ])
}

/// What is no expression, or calls what it may not; and what is said about it, where that matters.
const ATTACKS: [(&str, &str); 82] = [
    ("(SELECT 1)", "subqueries are not possible in a query"),
    ("1 OR (SELECT 1)", "subqueries are not possible"),
    ("EXISTS(SELECT 1)", "subqueries are not possible"),
    ("EXISTS(SELECT 1 FROM sqlite_schema)", ""),
    ("id IN (SELECT 1)", "subqueries are not possible"),
    ("id IN j", ""),
    ("id IN numbers", ""),
    ("id IN json_each('[1]')", ""),
    ("(VALUES(1))", "subqueries are not possible"),
    ("(WITH t AS (SELECT 1) SELECT * FROM t)", "subqueries are not possible"),
    ("1) OR (1", ""),
    ("1)) OR ((1", ""),
    ("1) UNION SELECT 1 --", ""),
    ("1)--", ""),
    ("1) /*", ""),
    ("1 /*", ""),
    ("/*", ""),
    ("--", ""),
    ("", ""),
    ("1 --\n) OR (1", ""),
    ("'", "unrecognized token"),
    ("1; SELECT 1", ""),
    ("1; DROP TABLE j", ""),
    ("1;", ""),
    (";", ""),
    ("PRAGMA database_list", ""),
    ("ATTACH 'x' AS y", ""),
    ("1 ORDER BY 1", ""),
    ("1 GROUP BY 1", ""),
    ("1 LIMIT 1", ""),
    ("1 UNION SELECT 1", ""),
    ("1 WINDOW w AS (ORDER BY 1)", ""),
    ("1, 2", ""),
    ("(1, 2)", ""),
    ("1 AS x", ""),
    ("*", ""),
    ("j.*", ""),
    ("1), CHECK(1", ""),
    ("1), x INTEGER, CHECK(1", ""),
    ("1)) WITHOUT ROWID --", ""),
    ("?", "parameters are not possible"),
    ("?1", "parameters are not possible"),
    ("?2", "parameters are not possible"),
    (":a", "parameters are not possible"),
    ("@a", "parameters are not possible"),
    ("$a", "parameters are not possible"),
    ("count(*)", "cannot be called: count"),
    ("min(id, 2) + max(id)", "misuse of aggregate"),
    ("json_group_array(id)", ""),
    ("row_number() OVER ()", ""),
    ("sum(1) OVER ()", ""),
    ("RAISE(IGNORE)", ""),
    ("RAISE(ABORT, 'x')", ""),
    ("load_extension('x')", "cannot be called: load_extension"),
    ("LOAD_EXTENSION('x', 'y')", "cannot be called: LOAD_EXTENSION"),
    ("readfile('/etc/passwd')", "no such function"),
    ("writefile('x', 'y')", "no such function"),
    ("fts3_tokenizer('simple')", ""),
    ("sqlite_version()", "cannot be called: sqlite_version"),
    ("randomblob(9)", "cannot be called: randomblob"),
    ("json_patch(payload, payload)", "cannot be called: json_patch"),
    ("payload REGEXP 'x'", "no such function"),
    ("payload MATCH 'x'", ""),
    ("row_id(1)", "no such function: row_id"),
    ("row_payload(n)", ""),
    ("\"#\" = 1", "no such column"),
    ("j.\"#\"", "no such column"),
    ("\"select\"", "no such column"),
    ("[id", ""),
    ("j.rowid", "no such column"),
    ("1 + rowid", "no such column"),
    ("1 + n", "no such column"),
    ("numbers.n", "no such column"),
    ("main.j.id", "no such column"),
    ("old.id", "no such column"),
    ("sqlite_schema.sql", "no such column"),
    ("id = 1 COLLATE foreign_one", "no such collation"),
    ("1\0 OR 1", "NUL"),
    ("1 +", ""),
    ("((1)", ""),
    ("CASE WHEN 1 THEN 2", ""),
    ("x'0'", ""),
];

#[test]
fn only_a_single_expression_is_accepted() {
    let (mut evaluator, rows) = (evaluator(), rows());
    for (attack, why) in ATTACKS {
        for (left, right) in [(attack, "1"), ("1", attack)] {
            let query = query([(text(left), Op::Equal, text(right))]);
            let said = run(&mut evaluator, &rows, &query);
            let Err(said) = said else { panic!("{attack:?} was taken: {said:?}") };
            let side = if left == attack { "term 1, left side: " } else { "term 1, right side: " };
            assert!(said.starts_with(side) && said.contains(why), "{attack:?}: {said}");
        }
    }
    // And nothing of it has left a trace.
    assert_eq!(run(&mut evaluator, &rows, &query([])), Ok(vec![1, 2, 3]));
}

#[test]
fn unquoted_text_is_rejected_with_a_hint() {
    let (mut evaluator, rows) = (evaluator(), rows());
    let long = "x y".repeat(100);
    for (written, hint) in [
        ("ann@example.com", true),
        ("in-progress", true),
        ("half-done", true),
        ("IN PROGRESS", true),
        ("12:30", true),
        ("10.0.0.1", true),
        ("5f3c-11", true),
        ("2026-11-22", true),
        (" 22/11/2026", true),
        ("2026/1/2", true),
        ("(SELECT 1)", false),
        ("1 + no_such(2)", false),
        ("'a", false),
        (&long, false),
    ] {
        let query = query([(text("payload ->> 'a'"), Op::Equal, text(written))]);
        let said = run(&mut evaluator, &rows, &query).unwrap_err();
        let instead = format!("write {{\"value\": \"{}\"}} for ", written.trim());
        assert_eq!(said.contains(&instead), hint, "{said}");
    }
    // This is arithmetic, or else it would not be written so.
    for sum in ["(2026-11-22)", "2026 - 11 - 22", "2026-11", "20-11-22", "2026-111-2", "2026--1"] {
        let query = query([(text("1"), Op::Less, text(sum))]);
        let said = run(&mut evaluator, &rows, &query);
        assert!(said.is_ok() || !said.as_ref().unwrap_err().contains("arithmetic"), "{said:?}");
    }
}

#[test]
fn string_literals_are_not_searched_for_keywords() {
    let (mut evaluator, rows) = (evaluator(), rows());
    for (left, op, right, expected) in [
        ("json_extract(payload, '$.text')", Op::Like, "'%SELECT%;%drop table%'", vec![1]),
        ("instr(payload, 'drop table')", Op::Greater, "0", vec![1]),
        ("'union'", Op::Is, "union", vec![1, 2, 3]),
        ("'load_extension'", Op::Is, "load_extension", vec![1, 2, 3]),
        ("1 /* select ) */", Op::Is, "1 -- ) drop", vec![1, 2, 3]),
    ] {
        let query = query([(text(left), op, text(right))]);
        assert_eq!(run(&mut evaluator, &rows, &query), Ok(expected), "{left}");
    }
}

#[test]
fn long_or_deep_queries_are_rejected() {
    let (mut evaluator, rows) = (evaluator(), rows());
    let long = format!("'{}'", "x".repeat(300_000));
    let said = run(&mut evaluator, &rows, &query([(text(&long), Op::Is, Expr::Null)]));
    assert!(said.unwrap_err().contains("bytes long"));
    for deep in [
        format!("{}1{}", "(".repeat(100_000), ")".repeat(100_000)),
        format!("{}1", "- ".repeat(100_000)),
        format!("1{}", "+1".repeat(100_000)),
        format!("{}1{}", "abs(".repeat(50_000), ")".repeat(50_000)),
        format!("{}1", "NOT ".repeat(50_000)),
        format!("{}1{}", "CASE WHEN ".repeat(10_000), " THEN 1 END".repeat(10_000)),
    ] {
        let said = run(&mut evaluator, &rows, &query([(text(&deep), Op::Is, Expr::Null)]));
        assert!(said.is_err(), "{}", &deep[..20]);
    }
    let many = query(std::iter::repeat_n((text("id"), Op::Is, Expr::Null), 1000));
    assert!(run(&mut evaluator, &rows, &many).unwrap_err().contains("terms"));
    let many = query(std::iter::repeat_n((text("id"), Op::IsNot, Expr::Null), 200));
    assert_eq!(run(&mut evaluator, &rows, &many), Ok(vec![1, 2, 3]));
}

#[test]
fn memory_is_bounded() {
    let (mut evaluator, rows) = (evaluator(), rows());
    for oversized in [
        "length(zeroblob(1000000000))",
        "length(printf('%1000000000d', 1))",
        "length(printf('%.*c', 1000000000, 'x'))",
        "length(replace(hex(zeroblob(1000000)), '0', hex(zeroblob(1000000))))",
    ] {
        let said = run(&mut evaluator, &rows, &query([(text(oversized), Op::Greater, text("0"))]));
        // A text that would be too long is an error, or shorter.
        assert!(said.is_err() || said == Ok(vec![1, 2, 3]), "{oversized}: {said:?}");
    }
    let said = run(&mut evaluator, &rows, &query([(text("id"), Op::Is, Expr::Null)]));
    assert_eq!(said, Ok(vec![]), "it goes on afterwards");
}

#[test]
fn json_invalid_for_sqlite_does_not_match() {
    let deep = format!("{}{}", "[".repeat(1500), "]".repeat(1500));
    let mut jobs: Vec<_> = (0..3000)
        .map(|id| row(id, if id % 5 == 0 { &deep } else { r#"{"a":"plain"}"# }, "null"))
        .collect();
    jobs[7].payload = Arc::from(*b"1e400");
    let rows = snapshot(jobs);
    let expected: Vec<u64> = {
        let keys = rows.values().map(|row| row.id.0);
        keys.filter(|&id| id % 5 != 0 && id != 7).collect()
    };
    let mut evaluator = evaluator();
    let plain = query([(text("json_extract(payload, '$.a')"), Op::Is, text("plain"))]);
    assert_eq!(run(&mut evaluator, &rows, &plain), Ok(expected));
    // What is taken out is no JSON again.
    let twice = query([(text("json_extract(payload ->> '$.a', '$.b')"), Op::Is, Expr::Null)]);
    assert_eq!(run(&mut evaluator, &rows, &twice), Ok(vec![7]));
    // A deep payload is a text like another.
    let like = query([(text("payload"), Op::Like, text("'[[[%]]]'"))]);
    assert_eq!(run(&mut evaluator, &rows, &like).map(|found| found.len()), Ok(600));
    // What has nothing to do with the rows is a mistake.
    let wrong = query([(text("json_extract('nothing', '$')"), Op::Is, Expr::Null)]);
    assert!(run(&mut evaluator, &rows, &wrong).unwrap_err().contains("malformed JSON"));
    let wrong = query([(text("json_extract(queue, 'path')"), Op::Is, Expr::Null)]);
    assert!(run(&mut evaluator, &rows, &wrong).is_ok(), "no queue is JSON");
    let wrong = query([(text("json_extract(payload, 'path')"), Op::Is, Expr::Null)]);
    assert!(run(&mut evaluator, &rows, &wrong).unwrap_err().contains("path"));
}

/// An evaluator that is told to stop when it has asked so often, and that count.
fn stopping_after(questions: u64) -> (Evaluator, Arc<AtomicU64>) {
    let asked = Arc::new(AtomicU64::new(0));
    let own = Arc::clone(&asked);
    let stop = move || own.fetch_add(1, Ordering::Relaxed) >= questions;
    (Evaluator::new(Arc::new(stop)).unwrap(), asked)
}

#[test]
fn query_beyond_its_time_is_stopped() {
    let long = format!("\"{}\"", "ab".repeat(500_000));
    let rows = snapshot((0..500).map(|id| row(id, &long, "null")));
    for slow in [
        "instr(payload, payload || 'x')",
        "replace(payload, 'ab', 'ba') = '1'",
        "trim(payload, payload) = 'x'",
        "payload LIKE '%a%b%a%b%a%b%a%b%a%b%a%b%a%b%a%b%a%b%a%b%c'",
        "payload LIKE '%_a_a_a_a_a_a_a_a_a_a_a_a_a_a_a_a_a_a_a_a_a_c%'",
        "payload LIKE payload || '%_' || payload",
        "upper(payload) || lower(payload) || hex(payload) = 'x'",
        "json_extract(payload, '$') = json_quote(payload)",
        "length(json_array(payload, payload, payload)) = 1",
    ] {
        let (mut evaluator, asked) = stopping_after(20);
        let work = QueryTask {
            rows: rows.clone(),
            query: query([(text(slow), Op::Is, text("7"))]),
            limit: None,
        };
        assert_eq!(evaluator.run(&work), Err(QueryError::Stopped), "{slow}");
        // Once more when it was over, and those on the way out.
        assert!(asked.load(Ordering::Relaxed) < 60, "{slow} went on");
    }
}

#[test]
fn query_that_builds_long_texts_in_one_row_is_stopped() {
    for slow in [
        "length(hex(zeroblob(40000 + id)))",
        "length(printf('%.*c', 40000 + id, 'x'))",
        "length(format('%*d', 40000, id))",
        "length(quote(zeroblob(id + 40000)))",
        // Such a text is no constant, however often it stands there.
        "json_valid(printf('\"%.*c\"', 40000, 'x'))",
    ] {
        let (mut evaluator, asked) = stopping_after(20);
        let many = [slow; 150].join("+");
        let query = query([(text(&many), Op::Is, Expr::Null)]);
        let work = QueryTask { rows: snapshot([row(1, "null", "null")]), query, limit: None };
        assert_eq!(evaluator.run(&work), Err(QueryError::Stopped), "{slow}");
        assert!(asked.load(Ordering::Relaxed) < 60, "{slow} went on");
    }
}

#[test]
fn number_of_function_calls_is_limited() {
    let (mut evaluator, rows) = (evaluator(), rows());
    let ten = format!("max({}) ", ["abs(id)"; 9].join(","));
    let ask = |terms| query(std::iter::repeat_n((text(&ten), Op::IsNot, Expr::Null), terms));
    assert_eq!(run(&mut evaluator, &rows, &ask(100)), Ok(vec![1, 2, 3]));
    let why = "the query calls 1010 functions, 1000 are possible";
    assert_eq!(run(&mut evaluator, &rows, &ask(101)), Err(why.to_owned()));
    assert_eq!(run(&mut evaluator, &rows, &ask(99)), Ok(vec![1, 2, 3]), "each for itself");
}

#[test]
fn text_length_is_bounded_by_the_request_size() {
    assert_eq!(value_max(64), 4 << 20);
    assert_eq!(value_max(5 << 20), 10 << 20);
    assert_eq!(value_max(1 << 30), 64 << 20);
    let long = format!("\"{}\"", "x".repeat(5 << 20));
    let rows = snapshot([row(1, &long, "null"), row(2, "\"x\"", "null")]);
    let there = query([(text("payload"), Op::Like, text("'%x%'"))]);
    assert_eq!(run(&mut evaluator(), &rows, &there), Ok(vec![2]), "it counts as NULL");
    let mut roomy = Evaluator::with_value_max(Arc::new(|| false), value_max(5 << 20)).unwrap();
    assert_eq!(run(&mut roomy, &rows, &there), Ok(vec![1, 2]));
}

#[test]
fn reimplemented_functions_agree_with_sqlite() {
    let (mut evaluator, rows) = (evaluator(), rows());
    for (expr, expected) in [
        ("hex(CAST(x'ff41' AS TEXT))", "'FF41'"),
        ("hex(12.5)", "'31322E35'"),
        ("hex(NULL)", "''"),
        ("CAST(quote(CAST(x'ff27' AS TEXT)) AS BLOB)", "x'27ff272727'"),
        ("quote(x'ff')", "'X' || char(39) || 'FF' || char(39)"),
        ("quote(NULL)", "'NULL'"),
        ("quote(0.1)", "'0.1'"),
        ("coalesce(printf(), '')", "''"),
        ("printf('%s-%d-%.2f', 'a', '7', 1)", "'a-7-1.00'"),
        ("typeof(zeroblob(3)) || length(zeroblob('3'))", "'blob3'"),
        ("typeof(zeroblob(-1)) || length(zeroblob(-1))", "'blob0'"),
    ] {
        let query = query([(text(expr), Op::Is, text(expected))]);
        assert_eq!(run(&mut evaluator, &rows, &query), Ok(vec![1, 2, 3]), "{expr}");
    }
}

#[test]
fn cost_of_text_functions_is_linear() {
    // SQLite's own `instr` takes minutes for each of these.
    let (half, rest) = ("a".repeat(500_000), "a".repeat(499_000));
    let mut evaluator = evaluator();
    let rows = snapshot([row(1, &format!("\"{half}{rest}b\""), &format!("\"{half}b\""))]);
    for (expr, expected) in [
        ("instr(payload, trim(state, '\"'))", true),
        ("replace(payload, trim(state, '\"'), '') LIKE '\"aaa%a\"'", true),
        ("payload LIKE '%' || trim(state, '\"') || '%'", true),
        ("payload LIKE '%a%a%a%a%a%a%a%a%a%a%a%a%a%a%a%a%a%a%a%a%a%a%a%a%c%'", false),
        ("length(trim(payload, payload))", false),
    ] {
        let query = query([(text(&format!("({expr}) > 0")), Op::Is, text("1"))]);
        let found = run(&mut evaluator, &rows, &query).unwrap();
        assert_eq!(!found.is_empty(), expected, "{expr}");
    }
}
