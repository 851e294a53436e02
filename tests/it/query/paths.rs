//! Path predicates over unusual JSON, over texts that only SQLite accepts as JSON, and over invalid
//! ones, against a SQLite table of the same rows. It prints its seed; `QUERY_SEED=n` replays one.

use super::random::{expected, sql, table};
use super::{evaluator, query, row, run, snapshot, text};
use crate::rng::TestRng;
use crate::seeds::Plan;
use jobcentre::model::query::{Expr, Op};
use jobcentre::query::{Evaluator, QueryError, QueryTask};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Values as JSON has them.
const PLAIN: [&str; 21] = [
    "null",
    "true",
    "false",
    "0",
    "-0",
    "1",
    "5",
    "-7",
    "1.0",
    "1e0",
    "1E+0",
    "50e-1",
    "0.5",
    "123456789012345678",
    "9223372036854775807",
    "-9223372036854775808",
    "12345678901234567890",
    "1e400",
    r#""""#,
    r#""a""#,
    r#""[]""#,
];

/// Texts with escapes and with what looks like an end of something.
const STRINGS: [&str; 14] = [
    r#""b""#,
    r#""5""#,
    r#""\u0061""#,
    r#""a\nb""#,
    r#""\\""#,
    r#""\"""#,
    r#""\"}""#,
    r#""],""#,
    r#""}""#,
    r#""'""#,
    r#""/*""#,
    r#""\ud83d\ude00""#,
    "\"\u{e9}\"",
    "\"true\"",
];

/// What is JSON to SQLite and not to others, and what is none.
const ODD: [&str; 37] = [
    "+5",
    ".5",
    "5.",
    "-.5",
    "0x5",
    "-0X5",
    "0xffffffffffffffff",
    "Infinity",
    "-Infinity",
    "+inf",
    "NaN",
    "nan",
    "qNaN",
    "'a'",
    "'a\"b'",
    "'}'",
    "'\"'",
    r#""\x61""#,
    r#""\v""#,
    r#""\0""#,
    "\"a\\\nb\"",
    "\"a\\\r\nb\"",
    "\"a\tb\"",
    "/*,*/1",
    "1/*]*/",
    "5//}\n",
    "\u{a0}5",
    "5\u{b}",
    "tru",
    "truex",
    "nullx",
    "007",
    "1.e",
    "-",
    "5x",
    "\"a",
    "",
];

const KEYS: [&str; 5] = [r#""a""#, r#""b""#, r#""c""#, r#""a-1""#, r#""_b""#];

const ODD_KEYS: [&str; 13] = [
    r#""""#,
    r#""A""#,
    r#""\u0061""#,
    r#""a\"""#,
    r#""\x61""#,
    "'a'",
    "a",
    "b",
    "$a",
    r"\u0061",
    "a\\u0062",
    "\"a\tb\"",
    "1",
];

const SPACE: [&str; 12] = ["", "", "", "", "", "", "", " ", "\n", "\t ", " \r\n", "  "];

const ODD_SPACE: [&str; 6] = ["/*}*/", "//]\n", "/*\"*/", "\u{a0}", "\u{b}", "\u{c}"];

/// A text that is mostly JSON; the `odd`er the less.
fn json(rng: &mut TestRng, depth: usize, odd: usize) -> String {
    let space = |rng: &mut TestRng| {
        let pool = if rng.percent(odd) { &ODD_SPACE[..] } else { &SPACE };
        rng.word(pool).to_owned()
    };
    let (front, back) = (space(rng), space(rng));
    let list =
        |rng: &mut TestRng, open: &str, close: &str, item: &dyn Fn(&mut TestRng) -> String| {
            let items: Vec<_> = (0..rng.below(5)).map(|_| item(rng)).collect();
            let comma = if rng.percent(odd) { "," } else { "" };
            let close = if rng.percent(odd / 4) { "" } else { close };
            format!("{open}{}{comma}{close}", items.join(","))
        };
    let value = match rng.below(if depth == 0 { 4 } else { 9 }) {
        _ if rng.percent(odd) => rng.word(&ODD).to_owned(),
        0 => rng.word(&STRINGS).to_owned(),
        1..4 => rng.word(&PLAIN).to_owned(),
        4 | 5 => list(rng, "[", "]", &|rng| json(rng, depth - 1, odd)),
        _ => list(rng, "{", "}", &|rng| {
            let keys = if rng.percent(odd) { &ODD_KEYS[..] } else { &KEYS };
            let (front, key, back) = (space(rng), rng.word(keys), space(rng));
            format!("{front}{key}{back}:{}", json(rng, depth - 1, odd))
        }),
    };
    format!("{front}{value}{back}")
}

fn value(rng: &mut TestRng) -> Expr {
    let paths = [
        "$", "$.a", "$.b", "$.a", "$.a.b", "$.a[1]", "$[0]", "$[1]", "$[2].a", "$.b.a", "$.c[0].a",
        "$.a-1", "$._b", "$[#-1]", "$.\"a\"", "$.1",
    ];
    let (column, path) = (rng.word(&["payload", "J.Payload", "state"]), rng.word(&paths));
    text(&match rng.below(10) {
        0 => format!("{column} ->> '{path}'"),
        1 => format!("{column}->>{}", rng.word(&["'a'", "'b'", "0", "1", "'1'", "'_b'", "'[1]'"])),
        2 => format!(" JSON_EXTRACT ( {column}\n, '{path}' )\t"),
        3 => format!("json_extract({column}, '{path}') || ''"),
        4 => format!("json_array_length({column}, '{path}')"),
        5 => format!("json_array_length({column})"),
        _ => format!("json_extract({column}, '{path}')"),
    })
}

fn literal(rng: &mut TestRng) -> Expr {
    let numbers = [
        "0",
        "-0",
        "1",
        "5",
        "-7",
        "1.0",
        "1e0",
        "0.5",
        "1e400",
        "123456789012345678",
        "9223372036854775807",
        "-9223372036854775808",
        "12345678901234567890",
        "123456789012345679",
    ];
    let texts = [
        "a",
        "true",
        "null",
        "'a'",
        "''",
        "'b'",
        "'5'",
        "'[]'",
        "'{}'",
        "'[1]'",
        "'[null]'",
        "'a\"b'",
        "'\"'",
        "'a\nb'",
        "'\u{e9}'",
        "''''",
        "'{\"a\":1}'",
        "'\\'",
        "x'61'",
        "'a' COLLATE NOCASE",
        "'A' COLLATE NOCASE",
        "0x5",
        "5",
        "-7",
        "1.0",
        "5 - 4",
        "(1)",
        "+1",
        "- 7",
        "id",
        "'a\tb'",
        "'},'",
    ];
    match rng.below(8) {
        0 | 1 => Expr::Null,
        2 => Expr::Bool(rng.percent(50)),
        3 | 4 => Expr::Number(rng.word(&numbers).into()),
        _ => text(rng.word(&texts)),
    }
}

fn term(rng: &mut TestRng) -> (Expr, Op, Expr) {
    let op = if rng.percent(50) { Op::Is } else { *rng.pick(&Op::ALL) };
    let (value, literal) = (value(rng), literal(rng));
    if rng.percent(80) { (value, op, literal) } else { (literal, op, value) }
}

/// One run. Says how many rows were found.
fn check(rng: &mut TestRng) -> usize {
    let odd = *rng.pick(&[0, 3, 15]);
    let rows = snapshot((0..100).map(|id| row(id, &json(rng, 3, odd), &json(rng, 2, odd))));
    let (table, mut evaluator, mut total) = (table(&rows), evaluator(), 0);
    for _ in 0..60 {
        let terms = if rng.percent(80) { 1 } else { 2 };
        let query = query((0..terms).map(|_| term(rng)));
        let sql = sql(&query);
        match (run(&mut evaluator, &rows, &query), expected(&table, &rows, &sql)) {
            (Ok(found), Ok(expected)) => {
                let texts = |id: &u64| rows.values().find(|row| row.id.0 == *id).unwrap();
                let apart = found.iter().find(|id| !expected.contains(id));
                let apart =
                    apart.or_else(|| expected.iter().find(|id| !found.contains(id))).map(texts);
                assert_eq!(found, expected, "{sql}, row {apart:?}");
                total += found.len();
            }
            (Err(_), Err(_)) => {}
            (found, expected) => panic!("{sql}\nfound {found:?}, not {expected:?}"),
        }
    }
    total
}

const PLAN: Plan = Plan::of_queries(60, &[]);

#[test]
fn json_paths_agree_with_sqlite() {
    PLAN.check_queries(check);
}

#[test]
fn first_of_duplicate_keys_counts_and_lookalikes_do_not() {
    let payloads = [
        r#"{"a":1,"a":2}"#,
        r#"{"a":2,"a":1}"#,
        r#"{"\u0061":1,"a":2}"#,
        r#"{"b":{"a":2},"a":1}"#,
        r#"{"b":"{\"a\":2,","a":1}"#,
        r#"{"b":"\\","a":1}"#,
        r"{b:2,a:1}",
        r#"{/*"a":2*/"a":1}"#,
        r#"{"b":[/*]*/],"a":1}"#,
        r#"{"b":[']}'],"a":1}"#,
        r#"{"b":[1,2],"a":0x1}"#,
        r#"{"b":0x2,"a":1.0}"#,
        r#"{"b":2,"a":true,}"#,
        r#"{"a":1"#,
        r#"{"a":"1"}"#,
        r#"[{"a":1}]"#,
        r#"{"A":1}"#,
        r#"{"aa":1}"#,
        r#"{"b":1}"#,
        "null",
    ];
    let rows = snapshot((0..).zip(payloads).map(|(id, payload)| row(id, payload, "null")));
    let table = table(&rows);
    let found = |value: &str, literal: Expr| {
        let query = query([(text(value), Op::Is, literal)]);
        let found = run(&mut evaluator(), &rows, &query);
        assert_eq!(found, expected(&table, &rows, &sql(&query)), "{value}");
        let mut found = found.unwrap();
        found.sort_unstable();
        found
    };
    let one = [0, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12];
    for value in ["json_extract(payload, '$.a')", "payload ->> '$.a'", "payload ->> 'a'"] {
        assert_eq!(found(value, Expr::Number("1".into())), one, "{value}");
        assert_eq!(found(value, text("'1'")), [14], "{value}");
        assert_eq!(found(value, Expr::Null), [15, 16, 17, 18, 19], "{value}");
    }
}

#[test]
fn path_lookup_in_a_long_text_can_be_stopped() {
    // One value with many ends, and many values.
    let inner = "[\"x\"],".repeat(200_000);
    for payload in [format!("[[{inner}1],2]"), format!("[{inner}1]")] {
        let rows = snapshot([row(1, &payload, "null")]);
        let query = query([(text("json_extract(payload, '$[199999]')"), Op::Is, text("y"))]);
        let work = QueryTask { rows, query, limit: None };
        let ask = |most: u64| {
            let asked = Arc::new(AtomicU64::new(0));
            let count = Arc::clone(&asked);
            let stop = move || count.fetch_add(1, Ordering::Relaxed) >= most;
            let mut evaluator = Evaluator::new(Arc::new(stop)).unwrap();
            let result = evaluator.run(&work).map(|found| found.len());
            (result, asked.load(Ordering::Relaxed))
        };
        let (result, questions) = ask(u64::MAX);
        assert_eq!(result, Ok(0));
        assert!(questions > 10, "{questions} for {} bytes", payload.len());
        let half = questions / 2;
        let (result, questions) = ask(half);
        assert_eq!(result, Err(QueryError::Stopped));
        assert!(questions <= half + 4, "{questions}, not {half}");
    }
}
