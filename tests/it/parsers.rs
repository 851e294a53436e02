//! The fast and the exact JSON parser agree, on generated lines and on broken ones.
//!
//! The danger is a fast parser that accepts invalid JSON, or that cuts out a job's text at the
//! wrong place. `PARSER_LINES=n` sets the number of lines; a failure names the seed of its line.

use crate::rng::TestRng;
use jobcentre::base::time::Now;
use jobcentre::engine::Engine;
use jobcentre::model::driver::{Core, Protocol};
use jobcentre::server::{Server, Settings};
use jobcentre::wire::json::{Arrays, Fields, Integer, JsonError, Parser, Value};
use serde_json::value::RawValue;
use std::fmt::Write;

/// Lines of an ordinary test run.
const LINES: u64 = 30_000;

struct Wanted;

const WANTED: [&str; 4] = ["job", "request", "pri", "queues"];

impl Fields<4> for Wanted {
    fn number(name: &[u8]) -> Option<usize> {
        WANTED.iter().position(|wanted| wanted.as_bytes() == name)
    }
}

/// A value that does not borrow; an object also says where its text stands.
#[derive(Debug, PartialEq, Eq)]
enum Owned {
    Absent,
    Array,
    Bool(bool),
    BrokenString,
    Large(String),
    Negative,
    Small(i64),
    Null,
    Number,
    Object(usize, Vec<u8>),
    String(String),
    Strings(Vec<Vec<u8>>),
}

fn own(line: &[u8], values: [Value<'_>; 4], arrays: Arrays<'_>) -> [Owned; 4] {
    values.map(|value| match value {
        Value::Absent => Owned::Absent,
        Value::Array => Owned::Array,
        Value::Bool(value) => Owned::Bool(value),
        Value::BrokenString => Owned::BrokenString,
        Value::Integer(Integer::Large(digits)) => Owned::Large(digits.to_owned()),
        Value::Integer(Integer::Negative) => Owned::Negative,
        Value::Integer(Integer::Small(number)) => Owned::Small(number),
        Value::Null => Owned::Null,
        Value::Number => Owned::Number,
        Value::Object(text) => {
            let start = text.as_ptr().addr() - line.as_ptr().addr();
            Owned::Object(start, text.to_vec())
        }
        Value::String(string) => Owned::String(string.to_owned()),
        Value::Strings(at) => {
            Owned::Strings(arrays.strings(at).into_iter().map(<[u8]>::to_vec).collect())
        }
    })
}

/// Parses `line` both ways, asserts that they agree, and returns what they agree on.
fn verdict(parser: &mut Parser, line: &[u8]) -> Result<[Owned; 4], JsonError> {
    let mut values = [Value::Absent; 4];
    let fast = parser.parse::<Wanted, 4>(line, &mut values);
    let fast = fast.map(|arrays| own(line, values, arrays));
    let mut values = [Value::Absent; 4];
    let exact = parser.parse_exactly::<Wanted, 4>(line, &mut values);
    let exact = exact.map(|arrays| own(line, values, arrays));
    assert_eq!(fast, exact, "the parsers disagree about {:?}", String::from_utf8_lossy(line));
    let legal = std::str::from_utf8(line).is_ok_and(|text| {
        let whole: Result<&RawValue, _> = serde_json::from_str(text);
        whole.is_ok_and(|value| value.get().starts_with('{'))
    });
    assert_eq!(fast.is_ok(), legal, "{fast:?} for {:?}", String::from_utf8_lossy(line));
    for value in fast.iter().flatten() {
        if let Owned::Object(start, text) = value {
            assert_eq!(&line[*start..start + text.len()], &text[..]);
            assert!(text.starts_with(b"{") && text.ends_with(b"}"));
        }
    }
    fast
}

fn blank(rng: &mut TestRng) -> &'static str {
    rng.word(&["", "", "", "", " ", "\t", "\r", "\n", "  ", " \r\n\t "])
}

fn string(rng: &mut TestRng) -> String {
    let mut string = String::from("\"");
    for _ in 0..*rng.pick(&[0, 1, 2, 3, 8, 70]) {
        let piece = match rng.below(24) {
            0 => "\\\"",
            1 => "\\\\",
            2 => "\\n",
            3 => "\\/",
            4 => "\\u0061",
            5 => "\\u0000",
            6 => "\\ud83d\\ude00",
            7 => rng.word(&["\\ud800", "\\udc00", "\\ud800\\ud800", "\\ud800x", "\\uD800\\u0041"]),
            8 => "é",
            9 => "😀",
            10 => rng.word(&["{", "}", "[", "]", ",", ":", "},", "}}"]),
            11 => "\u{7f}",
            12 => rng.word(&["\u{0}", "\u{1f}", "\t", "\\x", "\\u12", "\\uZZZZ", "\\"]),
            _ => rng.word(&["a", "b", " ", "job", "0", "-", "/"]),
        };
        // What is not allowed in a string is rare, or nothing would ever be accepted.
        if !piece.starts_with(['\0', '\u{1f}', '\t', '\\']) || rng.percent(30) {
            string.push_str(piece);
        }
    }
    string.push('"');
    string
}

fn number(rng: &mut TestRng) -> String {
    match rng.below(12) {
        0..4 => rng.below(1_000).to_string(),
        4 => (u64::MAX / 2 - 2 + rng.below(5) as u64).to_string(),
        5 => (u64::MAX - rng.below(2) as u64).to_string(),
        6 => format!("{}{}", rng.word(&["", "-"]), "9".repeat(rng.between(17, 40))),
        7 => rng.word(&["-0", "-1", "0", "-9223372036854775808", "-9223372036854775809"]).into(),
        8 => rng.word(&["0.0", "1.5", "-0.0", "0.10", "123456789.123456789012345"]).into(),
        9 => rng.word(&["1e2", "1E+2", "1e-2", "0e0", "1e400", "-1e-400", "1.0e308"]).into(),
        10 => rng.word(&["18446744073709551616", "340282366920938463463374607431768211456"]).into(),
        _ => {
            rng.word(&["01", "+1", "1.", ".5", "1e", "-", "--1", "0x1", "1_0", "NaN", "00"]).into()
        }
    }
}

fn value(rng: &mut TestRng, depth: usize) -> String {
    match rng.below(if depth == 0 { 5 } else { 9 }) {
        0 => rng.word(&["true", "false", "null", "true", "false", "null", "nul", "True"]).into(),
        1 | 2 => string(rng),
        3 | 4 => number(rng),
        5 => {
            let strings: Vec<String> = (0..rng.below(4)).map(|_| string(rng)).collect();
            format!("[{}]", strings.join(","))
        }
        6 => {
            let values: Vec<String> = (0..rng.below(4)).map(|_| value(rng, depth - 1)).collect();
            let comma = if rng.percent(95) { "," } else { " " };
            format!("[{}{}{}]", blank(rng), values.join(comma), blank(rng))
        }
        _ => object(rng, depth - 1),
    }
}

fn object(rng: &mut TestRng, depth: usize) -> String {
    let mut text = format!("{{{}", blank(rng));
    for number in 0..*rng.pick(&[0, 1, 1, 2, 3, 5]) {
        if number > 0 {
            write!(text, ",{}", blank(rng)).unwrap();
        }
        let name = match rng.below(8) {
            0 => string(rng),
            1 => "\"j\\u006fb\"".to_owned(),
            2 => "\"\\u0070ri\"".to_owned(),
            _ => format!("\"{}\"", rng.word(&WANTED)),
        };
        let value = value(rng, depth);
        let (before, after, behind) = (blank(rng), blank(rng), blank(rng));
        write!(text, "{name}{before}:{after}{value}{behind}").unwrap();
    }
    text.push('}');
    text
}

/// Breaks a line in a few places, as likely as not into something that is almost JSON.
fn mutate(rng: &mut TestRng, line: &mut Vec<u8>) {
    const LIKELY: &[u8] = b"{}[]\",:\\ \t\r\n0-1.eE+tfnu\x00\x1f\x7f\x80\xc3\xa9\xed\xa0\xff/a";
    for _ in 0..*rng.pick(&[1, 1, 1, 2, 4]) {
        let at = rng.below(line.len() + 1);
        let until = at + rng.below((line.len() - at).min(12) + 1);
        match rng.below(7) {
            0 => line.truncate(at),
            1 => line.insert(at, *rng.pick(LIKELY)),
            2 if at < line.len() => line[at] = *rng.pick(LIKELY),
            3 if at < line.len() => line[at] ^= 1 << rng.below(8),
            4 => drop(line.drain(at..until)),
            5 => {
                let piece = line[at..until].to_vec();
                let to = rng.below(line.len() + 1);
                line.splice(to..to, piece);
            }
            _ => line.splice(at..at, value(rng, 1).into_bytes()).for_each(drop),
        }
    }
}

fn line(seed: u64) -> Vec<u8> {
    let rng = &mut TestRng::new(seed);
    let depth = rng.between(1, 4);
    let mut line = format!("{}{}{}", blank(rng), object(rng, depth), blank(rng)).into_bytes();
    if rng.percent(2) {
        // Deeper than the fast parser goes.
        let depth = rng.between(500, 3_000);
        line =
            format!("{{\"job\":{}{}}}", "{\"a\":[".repeat(depth), "]}".repeat(depth)).into_bytes();
    }
    if rng.percent(70) {
        mutate(rng, &mut line);
    }
    line
}

fn number_of_lines() -> u64 {
    std::env::var("PARSER_LINES").map_or(LINES, |text| text.parse().unwrap())
}

#[test]
fn fast_and_exact_parser_agree_on_random_lines() {
    let mut parser = Parser::default();
    let mut accepted = 0;
    let lines = number_of_lines();
    for seed in 0..lines {
        let line = line(seed);
        let verdict =
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| verdict(&mut parser, &line)))
                .unwrap_or_else(|panic| {
                    eprintln!("the line of seed {seed}");
                    std::panic::resume_unwind(panic)
                });
        accepted += u64::from(verdict.is_ok());
    }
    println!("{accepted} of {lines} lines are JSON objects");
    assert!(accepted > lines / 10, "hardly any line is JSON: the generator is broken");
    assert!(accepted < lines * 9 / 10, "hardly any line is broken: the generator is tame");
}

#[test]
fn fast_and_exact_parser_agree_on_chosen_lines() {
    let lines: &[&[u8]] = &[
        b"",
        b"{}",
        b"{}{}",
        b"{} x",
        b"{\"job\":{}}\x00",
        b"\x00{\"job\":{}}",
        b"{\"job\":{},}",
        b"{,\"job\":{}}",
        b"{\"job\":{}",
        b"{\"job\":{}}}",
        b"{\"job\":{\"a\":1]}",
        b"{\"job\":[}",
        b"{\"job\":tru}",
        b"{\"job\":truee}",
        b"{\"job\":true false}",
        b"{\"job\":\"\t\"}",
        b"{\"job\":\"\x7f\"}",
        b"{\"job\":\"\xc0\x80\"}",
        b"{\"job\":\"\xed\xa0\x80\"}",
        b"{\"job\":\"\xf4\x90\x80\x80\"}",
        b"{\"x\xff\":1}",
        b"{\"x\x00\":1}",
        b"{\"\\u0000\n\":1}",
        b"{\"\\u0000\":1}",
        b"{\"pri\":-0,\"pri\":0}",
        b"{\"pri\":0e1}",
        b"{\"pri\":-}",
        b"{\"pri\":1e400}",
        b"{\"\\u006aob\":{\"a\":\"}\"} ,\"pri\":1}",
        b"{\"job\" : {\"\\\\\":\"\\\"\"} \r\n, \"\\\"\":1}",
        b"{\"job\":{}\x0c}",
        b"{\"job\":\xe2\x80\xa8{}}",
        b"{\"queues\":[\"a\",\"\\ud800\"]}",
        b"{\"queues\":[[],\"a\"]}",
        b"{\"queues\":[\"a\",{}]}",
        b"{\"queues\":[\"a\",\"a\",\"\"]}",
    ];
    let mut parser = Parser::default();
    let accepted = lines.iter().filter(|line| verdict(&mut parser, line).is_ok()).count();
    assert_eq!(accepted, 12, "how many of these lines are JSON objects");
}

#[test]
fn parsed_job_has_the_bytes_of_the_request() {
    let settings = Settings { max_request: 100_000, max_clients: 1, max_memory: None };
    let mut server = Server::new(settings, Engine::in_memory(1));
    let now = Now::default();
    let client = server.handle_open(Protocol::JobCentre, now).unwrap();
    let mut talk = |line: &[u8]| {
        server.handle_input(client, line, now);
        let reply = server.output(client).to_vec();
        server.handle_sent(client, reply.len(), now);
        reply
    };
    let (mut parser, mut id) = (Parser::default(), 0);
    for seed in 0..3_000 {
        let rng = &mut TestRng::new(seed);
        let job = object(rng, 4).replace('\n', "\r");
        let line = format!(
            "{{\"request\":\"put\",\"queue\":\"q\",\"pri\":7{},\"job\":{}{job}{}}}\n",
            blank(rng).replace('\n', " "),
            rng.word(&["", " ", "\t \r"]),
            rng.word(&["", " ", ",\"x\":{\"y\":1}", " ,\"x\":\"}\""]),
        );
        let reply = talk(line.as_bytes());
        if verdict(&mut parser, job.as_bytes()).is_err() {
            assert!(reply.starts_with(b"{\"status\":\"error\""), "accepted: {job}");
            continue;
        }
        id += 1;
        assert_eq!(
            String::from_utf8_lossy(&reply),
            format!("{{\"status\":\"ok\",\"id\":{id}}}\n"),
            "{line:?}"
        );
        let reply = talk(b"{\"request\":\"get\",\"queues\":[\"q\"]}\n");
        let expected =
            format!("{{\"status\":\"ok\",\"id\":{id},\"job\":{job},\"pri\":7,\"queue\":\"q\"}}\n");
        assert_eq!(String::from_utf8_lossy(&reply), expected);
    }
    assert!(id > 500, "hardly any job was put");
}
