//! Random queries and rows, against a SQLite table of the same rows, row by row. It prints its
//! seed; `QUERY_SEED=n` replays one.

use super::{evaluator, query, row, snapshot, text};
use crate::rng::TestRng;
use crate::seeds::Plan;
use jobcentre::model::event::{Event, EventKind, EventLog, write_events};
use jobcentre::model::query::{Expr, Op, Query};
use jobcentre::model::row::Rows;
use jobcentre::query::{QueryError, QueryTask};
use rusqlite::{Connection, Error};
use std::sync::Arc;

const TEXTS: [&str; 16] = [
    "",
    "a",
    "A",
    "aab",
    "CREATED",
    "cReAtEd",
    "a%b",
    "a_b",
    "[]",
    "5",
    "-1.50",
    "null",
    "\u{e9}a",
    "a\u{65e5}b",
    "1e3",
    "  x ",
];

const OPS: [Op; 10] = [
    Op::Is,
    Op::IsNot,
    Op::Like,
    Op::Glob,
    Op::Equal,
    Op::NotEqual,
    Op::Less,
    Op::LessOrEqual,
    Op::Greater,
    Op::GreaterOrEqual,
];

fn json(rng: &mut TestRng, depth: usize) -> String {
    match rng.below(if depth == 0 { 5 } else { 7 }) {
        0 => "null".to_owned(),
        1 => rng.word(&["true", "false"]).to_owned(),
        2 => rng.word(&["0", "1", "5", "-7", "1.5", "1e400", "12345678901234567890"]).to_owned(),
        3 | 4 => string(rng),
        5 => {
            let items: Vec<_> = (0..rng.below(4)).map(|_| json(rng, depth - 1)).collect();
            format!("[{}]", items.join(","))
        }
        _ => {
            let field = |rng: &mut TestRng| {
                format!("\"{}\":{}", rng.word(&["a", "b", "c"]), json(rng, depth - 1))
            };
            let fields: Vec<_> = (0..rng.below(4)).map(|_| field(rng)).collect();
            format!("{{{}}}", fields.join(","))
        }
    }
}

fn string(rng: &mut TestRng) -> String {
    serde_json::to_string(rng.word(&TEXTS)).unwrap()
}

/// Texts of SQL strings and the like.
fn literal(rng: &mut TestRng) -> String {
    match rng.below(6) {
        0 => rng.word(&["NULL", "TRUE", "FALSE", "x'6161'", "x'ff'", "''"]).to_owned(),
        1 => rng.word(&["0", "1", "5", "-1", "2.5", "1e3", "1.0", "9e999", "0.1"]).to_owned(),
        2 => format!("'{}'", json(rng, 1).replace('\'', "''")),
        _ => format!("'{}'", rng.word(&TEXTS)),
    }
}

fn pattern(rng: &mut TestRng) -> String {
    let pieces = ["%", "%", "_", "a", "b", "A", "aa", "\"", "[", "\u{e9}", "\u{65e5}", "5", "\\"];
    let pattern: String = (0..rng.below(6)).map(|_| rng.word(&pieces)).collect();
    format!("'{pattern}'")
}

fn glob(rng: &mut TestRng) -> String {
    let pieces = [
        "*",
        "*",
        "?",
        "a",
        "b",
        "A",
        "aa",
        "\"",
        "[ab]",
        "[^a]",
        "[a-z]",
        "[]a]",
        "[^]a]",
        "[a-]",
        "[-a]",
        "[z-a]",
        "[",
        "]",
        "[\u{e0}-\u{ff}]",
        "[^",
        "[a-b-c]",
        "\u{65e5}",
        "5",
        "{",
        "[[]",
    ];
    let pattern: String = (0..rng.below(6)).map(|_| rng.word(&pieces)).collect();
    format!("'{pattern}'")
}

fn expression(rng: &mut TestRng, depth: usize) -> String {
    if depth == 0 || rng.percent(15) {
        return if rng.percent(65) { column(rng) } else { literal(rng) };
    }
    let path = rng.word(&["'$'", "'$.a'", "'$[0]'", "'$[#-1].b'", "'$.a[1]'", "'$[1][0]'"]);
    let mut e = || expression(rng, depth - 1);
    let (one, two, three) = (e(), e(), e());
    match rng.below(30) {
        0..4 => format!("json_extract({one}, {path})"),
        4 => format!("{one} -> {path}"),
        5 => format!("{one} ->> {path}"),
        6 => format!("instr({one}, {two})"),
        7 => format!("replace({one}, {two}, {three})"),
        8 => format!("{}({one}, {two})", rng.word(&["trim", "ltrim", "rtrim"])),
        9..11 => format!("{one} LIKE {}", pattern(rng)),
        11 => format!("{one} {} {}", rng.word(&["GLOB", "NOT GLOB"]), glob(rng)),
        // In parentheses: an operator behind it would be applied to the escape character.
        12 => format!("({one} NOT LIKE {} ESCAPE '{}')", pattern(rng), rng.word(&["\\", "%", "a"])),
        13 => format!("{}({one})", rng.word(&["lower", "upper", "trim", "length", "typeof"])),
        14 => format!("{}({one})", rng.word(&["hex", "quote", "json_type", "json_valid"])),
        15 => format!("coalesce({one}, {two})"),
        16 => format!("({one} {} {two})", rng.word(&["+", "-", "*", "/", "%", "||", "&", "<<"])),
        17 | 18 => format!("({one} {} {two})", rng.pick(&OPS).name()),
        19 => format!("({one} {} {two})", rng.word(&["AND", "OR"])),
        20 => format!("(NOT {one})"),
        21 => format!("CASE {one} WHEN {two} THEN {three} ELSE 0 END"),
        22 => format!("{one} IN ({two}, {three}, 5)"),
        23 => format!("({one} BETWEEN {two} AND {three})"),
        24 => format!("CAST({one} AS {})", rng.word(&["INTEGER", "TEXT", "REAL", "BLOB"])),
        25 => format!("({one} COLLATE NOCASE)"),
        26 => format!("substr({one}, {}, 3)", rng.word(&["1", "-2", "0"])),
        27 => format!("max({one}, {two})"),
        28 => format!("json_array_length({one})"),
        _ => format!("({one} IS NULL)"),
    }
}

fn column(rng: &mut TestRng) -> String {
    let names = ["id", "payload", "state", "events", "modified", "queue", "pri"];
    // Those that differ most from row to row more often.
    let name = if rng.percent(60) { rng.word(&names[1..3]) } else { rng.word(&names) };
    match rng.below(4) {
        0 => format!("j.{name}"),
        1 => name.to_uppercase(),
        _ => name.to_owned(),
    }
}

fn side(rng: &mut TestRng) -> Expr {
    match rng.below(13) {
        12 => Expr::Literal(rng.word(&TEXTS).into()),
        0 => Expr::Null,
        1 => Expr::Bool(rng.percent(50)),
        2 => Expr::Number(rng.word(&["0", "5", "-7", "1.5", "1e0", "1e400", "-0"]).into()),
        3 => text(rng.word(&["CREATED", "a", "\u{e9}a", "select", "null", "true"])),
        4 | 5 => text(rng.word(&["state", "j.State ", "payload"])),
        _ => {
            let depth = rng.below(4);
            text(&expression(rng, depth))
        }
    }
}

/// A log that other rows have too.
fn common_log(rng: &mut TestRng) -> EventLog {
    let mut log = EventLog::default();
    for _ in 0..rng.below(3) {
        let what = match rng.below(3) {
            0 => EventKind::Created,
            1 => EventKind::User(Box::from(*b"[5]")),
            _ => EventKind::Advanced { old: Arc::from(*b"null"), new: Arc::from(*b"\"a\"") },
        };
        log = log.with(Event { kind: what, at: rng.below(2) as u64 });
    }
    log
}

fn rows(rng: &mut TestRng) -> Rows {
    let count = *rng.pick(&[1, 5, 40, 1024, 1100]);
    snapshot((0..count).map(|number| {
        let state = match rng.below(4) {
            0 => r#"["CREATED"]"#.to_owned(),
            1 => "null".to_owned(),
            _ => json(rng, 2),
        };
        let mut row = row(number, &json(rng, 3), &state);
        let priority = rng.word(&["", "0", "5", "-3", "9223372036854775808"]);
        row.priority = (!priority.is_empty()).then(|| priority.into());
        if rng.percent(60) {
            row.events = common_log(rng);
        }
        row
    }))
}

/// The same rows in a table.
pub(super) fn table(rows: &Rows) -> Connection {
    let connection = Connection::open_in_memory().unwrap();
    let sql = "CREATE TABLE j(id INTEGER PRIMARY KEY, payload TEXT, state TEXT, events TEXT, \
               modified INTEGER, queue TEXT, pri NUMERIC)";
    connection.execute_batch(sql).unwrap();
    let text = |text: &str, is_null: bool| (!is_null).then(|| text.to_owned());
    for row in rows.values() {
        let (payload, state): (&str, &str) =
            [&row.payload, &row.state].map(|text| str::from_utf8(text).unwrap()).into();
        let mut events = Vec::new();
        write_events(&row.events, &mut events);
        let values = (
            i64::try_from(row.id.0).unwrap(),
            text(payload, payload.as_bytes().trim_ascii() == b"null"),
            text(state, state == "null"),
            String::from_utf8(events).unwrap(),
            i64::try_from(row.modified).unwrap(),
            "q",
            row.priority.as_deref(),
        );
        connection.execute("INSERT INTO j VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)", values).unwrap();
    }
    connection
}

/// The query as a reader of the protocol would write it down.
pub(super) fn sql(query: &Query) -> String {
    let side = |expr: &Expr| match expr {
        Expr::Null => "NULL".to_owned(),
        Expr::Bool(bool) => i32::from(*bool).to_string(),
        Expr::Number(number) => number.to_string(),
        Expr::Literal(text) => format!("'{}'", text.replace('\'', "''")),
        Expr::Text(text) => match &**text {
            // Words that stand alone, in any case.
            "CREATED" | "a" | "\u{e9}a" | "select" | "null" | "true" | "NULL" | "TRUE"
            | "FALSE" => {
                format!("'{text}'")
            }
            text => text.to_owned(),
        },
    };
    let terms = query
        .terms
        .iter()
        .map(|term| format!("(({}) {} ({}))", side(&term.left), term.op.name(), side(&term.right)));
    let terms: Vec<_> = terms.collect();
    if terms.is_empty() { "1".to_owned() } else { terms.join(" AND ") }
}

/// What the table says: the ids that match, or an error. A row whose JSON is malformed does not.
pub(super) fn expected(
    connection: &Connection,
    rows: &Rows,
    sql: &str,
) -> Result<Vec<u64>, String> {
    let all = format!("SELECT id FROM j WHERE {sql} ORDER BY modified, id");
    let mut all = connection.prepare(&all).map_err(|error| error.to_string())?;
    let ids = all.query_map([], |row| row.get::<_, i64>(0)).unwrap();
    if let Ok(ids) = ids.map(|id| id.map(i64::unsigned_abs)).collect() {
        return Ok(ids);
    }
    // Without the plus SQLite may put the value in place of the column, and then evaluates in
    // another order, which decides whether it meets malformed JSON.
    let one = format!("SELECT id FROM j WHERE +id = ?1 AND ({sql})");
    let mut one = connection.prepare(&one).map_err(|error| error.to_string())?;
    let mut found = Vec::new();
    for row in rows.values() {
        let id = i64::try_from(row.id.0).unwrap();
        match one.query_row([id], |row| row.get::<_, i64>(0)) {
            Ok(_) => found.push(row.id.0),
            Err(Error::QueryReturnedNoRows) => {}
            Err(error) if error.to_string() == "malformed JSON" => {}
            Err(error) => return Err(error.to_string()),
        }
    }
    Ok(found)
}

/// Whether malformed JSON is met where a row has nothing but NULL. Then the order of evaluation
/// decides which rows meet it: a list behind IN need not be evaluated to its end.
fn has_malformed_constant(connection: &Connection, sql: &str) -> bool {
    let nulls = "NULL AS id, NULL AS payload, NULL AS state, NULL AS events, NULL AS modified, \
                 NULL AS queue, NULL AS pri";
    let sql = format!("SELECT 1 FROM (SELECT {nulls}) AS j WHERE {sql}");
    let result = connection.query_row(&sql, [], |row| row.get::<_, i64>(0));
    result.is_err_and(|error| error.to_string() == "malformed JSON")
}

/// Whether one term of the query is by itself true of no row.
fn rules_out(query: &Query, table: &Connection, rows: &Rows) -> bool {
    query.terms.iter().any(|term| {
        // True of nothing, whatever stands on its other side, which is then not evaluated.
        let is_unknown = [&term.left, &term.right].contains(&&Expr::Null);
        if is_unknown && !matches!(term.op, Op::Is | Op::IsNot) {
            return true;
        }
        let alone = Query { terms: vec![term.clone()] };
        expected(table, rows, &sql(&alone)).is_ok_and(|ids| ids.is_empty())
    })
}

/// One run. Says how many rows were found.
fn check(rng: &mut TestRng, queries: usize) -> usize {
    let (rows, mut evaluator, mut total) = (rows(rng), evaluator(), 0);
    let table = table(&rows);
    for _ in 0..queries {
        let terms = rng.below(3);
        let query = query((0..terms).map(|_| {
            let op = *rng.pick(&OPS);
            (side(rng), op, side(rng))
        }));
        let sql = sql(&query);
        let expected = expected(&table, &rows, &sql);
        let work = QueryTask { rows: rows.clone(), query: Arc::clone(&query), limit: None };
        let found = evaluator.run(&work);
        let ids = found.map(|found| found.iter().map(|row| row.id.0).collect::<Vec<_>>());
        match (ids, expected) {
            (Ok(ids), Ok(expected)) => {
                if ids != expected && has_malformed_constant(&table, &sql) {
                    let found = expected.iter().all(|id| ids.contains(id));
                    assert!(found, "{sql}\nfound {ids:?}, not all of {expected:?}");
                } else {
                    assert_eq!(ids, expected, "{sql}");
                }
                total += ids.len();
                check_state(&query, &rows, &ids);
            }
            (Err(_), Err(_)) => {}
            // What no row has to do with is malformed.
            (Err(QueryError::Bad(why)), Ok(expected)) if why.ends_with("malformed JSON") => {
                assert!(expected.is_empty(), "{sql}");
            }
            // A row that one term rules out need not be evaluated by another, which fails.
            (Ok(ids), Err(_)) if ids.is_empty() && rules_out(&query, &table, &rows) => {}
            (found, expected) => panic!("{sql}\nfound {found:?}, not {expected:?}"),
        }
    }
    total
}

/// Whether what the query says of the state by itself is true.
fn check_state(query: &Query, rows: &Rows, ids: &[u64]) {
    let Some((state, others)) = query.state_literal() else { return };
    let candidates = rows.values().filter(|row| row.state == state.clone().into());
    let candidates: Vec<u64> = candidates.map(|row| row.id.0).collect();
    if others {
        assert!(ids.iter().all(|id| candidates.contains(id)), "{query:?}");
    } else {
        assert_eq!(candidates, ids, "{query:?}");
    }
}

#[test]
fn globs_agree_with_sqlite() {
    let letters = ["a", "b", "A", "]", "-", "^", "\u{e9}", "\u{65e5}", "z", "["];
    let mut rng = TestRng::new(11);
    let rows = snapshot((0..60).map(|number| {
        let text: String = (0..rng.below(7)).map(|_| rng.word(&letters)).collect();
        row(number, &serde_json::to_string(&text).unwrap(), "null")
    }));
    let (table, mut evaluator, mut matched) = (table(&rows), evaluator(), 0);
    for _ in 0..3000 {
        let pattern = glob(&mut rng);
        let (left, op) = (text("payload ->> '$'"), Op::Glob);
        let query = query([(left, op, text(&pattern))]);
        let expected = expected(&table, &rows, &sql(&query)).unwrap();
        let work = QueryTask { rows: rows.clone(), query, limit: None };
        let found: Vec<u64> = evaluator.run(&work).unwrap().iter().map(|row| row.id.0).collect();
        assert_eq!(found, expected, "{pattern}");
        matched += found.len();
    }
    assert!(matched > 5000, "only {matched} matched");
}

const PLAN: Plan = Plan::of_queries(
    40,
    &[196_688_563_452, 411_947_319_524, 612_361_094_907, 621_963_587_505, 946_762_480_566],
);

#[test]
fn random_queries_agree_with_a_sqlite_table() {
    PLAN.check_queries(|rng| check(rng, 40));
}

#[test]
fn state_predicates_agree_with_sqlite() {
    let mut rng = TestRng::new(7);
    let rows = rows(&mut TestRng::new(3));
    let (mut evaluator, mut seen) = (evaluator(), 0);
    for _ in 0..2000 {
        let state = rows.values().nth(rng.below(rows.len())).unwrap().state.clone();
        let state = String::from_utf8(state.to_vec()).unwrap();
        let expr = match rng.below(4) {
            0 => side(&mut rng),
            1 => text(&format!(" '{}' ", state.replace('\'', "''"))),
            2 => Expr::Number(rng.word(&["1", "0", "5", "-7", "1.5", "1e400", "-0"]).into()),
            _ => text(&literal(&mut rng)),
        };
        let column = text(rng.word(&["state", "STATE", " j.state\n"]));
        let term = if rng.percent(50) { (column, Op::Is, expr) } else { (expr, Op::Is, column) };
        let query = query([term]);
        let work = QueryTask { rows: rows.clone(), query: Arc::clone(&query), limit: None };
        if let Ok(found) = evaluator.run(&work) {
            let ids: Vec<u64> = found.iter().map(|row| row.id.0).collect();
            seen += usize::from(query.state_literal().is_some());
            check_state(&query, &rows, &ids);
        }
    }
    assert!(seen > 500, "only {seen} were seen through");
}
