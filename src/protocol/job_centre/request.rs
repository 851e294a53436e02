//! From a line to a command ("Requests", "What is an error" and "Values" of the protocol's page).

use super::memo::GetMemo;
use crate::model::command::Command;
use crate::model::id::JobId;
use crate::model::job::{Encoding, Payload, Turn, Urgency};
use crate::wire::json::{Arrays, Fields, Integer, JsonError, Parser, Value};
use std::fmt;

const REQUEST: usize = 0;
const QUEUE: usize = 1;
const JOB: usize = 2;
const PRI: usize = 3;
const QUEUES: usize = 4;
const WAIT: usize = 5;
const ID: usize = 6;
const COUNT: usize = 7;

/// The fields that some request uses.
struct RequestFields;

impl Fields<COUNT> for RequestFields {
    #[inline]
    fn number(name: &[u8]) -> Option<usize> {
        Some(match name {
            b"request" => REQUEST,
            b"queue" => QUEUE,
            b"job" => JOB,
            b"pri" => PRI,
            b"queues" => QUEUES,
            b"wait" => WAIT,
            b"id" => ID,
            _ => return None,
        })
    }
}

/// What is wrong with a line.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Problem {
    /// A string holds half a surrogate pair.
    Broken { field: &'static str },
    /// A field that the request cannot do without is not there.
    Missing { field: &'static str, wanted: &'static str },
    /// It is no JSON object.
    NotAnObject(JsonError),
    /// It is longer than the limit, which is this many bytes.
    TooLong { max: usize },
    /// There is no such request.
    UnknownRequest(String),
    /// A field holds something else than it should.
    Wrong { field: &'static str, wanted: &'static str },
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Broken { field } => {
                write!(f, "field '{field}' holds half a surrogate pair, which is no text")
            }
            Self::Missing { field, wanted } => {
                write!(f, "field '{field}' is missing: it must be {wanted}")
            }
            Self::NotAnObject(error) => write!(f, "the line {error}"),
            Self::TooLong { max } => {
                write!(f, "the line is longer than {max} bytes (--max-request) and was skipped")
            }
            Self::UnknownRequest(name) => write!(
                f,
                "field 'request' names the unknown request '{name}': it must be {REQUESTS}"
            ),
            Self::Wrong { field, wanted } => write!(f, "field '{field}' must be {wanted}"),
        }
    }
}

const REQUESTS: &str = "put, get, delete or abort";
const AN_ID: &str = "an integer, written without fraction or exponent";
const A_PRI: &str = "a non-negative integer, written without fraction or exponent";
const A_QUEUE: &str = "a string";
const SOME_QUEUES: &str = "an array of strings";

/// Reads one request.
#[inline]
pub(super) fn parse<'a>(
    line: &'a [u8],
    json: &'a mut Parser,
    gets: &'a mut GetMemo,
) -> Result<Command<'a>, Problem> {
    if let Some(place) = gets.find(line) {
        return Ok(gets.recall(place));
    }
    let mut values = [Value::Absent; COUNT];
    let arrays = match json.parse::<RequestFields, COUNT>(line, &mut values) {
        Ok(arrays) => arrays,
        Err(error) => return Err(Problem::NotAnObject(error)),
    };
    match values[REQUEST] {
        Value::String("put") => put(&values),
        Value::String("get") => {
            let command = get(&values, arrays)?;
            if let Command::Take { queues, wait } = command {
                gets.note(line, queues, wait);
            }
            Ok(command)
        }
        Value::String("delete") => Ok(Command::Delete { id: id(&values)? }),
        Value::String("abort") => Ok(Command::Release { id: id(&values)? }),
        Value::String(name) => Err(Problem::UnknownRequest(shorten(name))),
        other => Err(problem(other, "request", REQUESTS)),
    }
}

/// The wanted fields of a line.
type Values<'a> = [Value<'a>; COUNT];

fn put<'a>(values: &Values<'a>) -> Result<Command<'a>, Problem> {
    let queue = match values[QUEUE] {
        Value::String(name) => name.as_bytes(),
        other => return Err(problem(other, "queue", A_QUEUE)),
    };
    let bytes = match values[JOB] {
        Value::Object(text) => text,
        other => return Err(problem(other, "job", "an object")),
    };
    let urgency = match values[PRI] {
        Value::Integer(Integer::Small(number)) => Urgency::Number(number),
        Value::Integer(Integer::Large(digits)) => Urgency::Beyond(digits),
        other => return Err(problem(other, "pri", A_PRI)),
    };
    let payload = Payload { encoding: Encoding::JsonLine, bytes };
    Ok(Command::Put { queue, urgency, turn: Turn::OldestFirst, payload })
}

fn get<'a>(values: &Values<'a>, arrays: Arrays<'a>) -> Result<Command<'a>, Problem> {
    let queues = match values[QUEUES] {
        Value::Strings(at) => arrays.strings(at),
        other => return Err(problem(other, "queues", SOME_QUEUES)),
    };
    let wait = match values[WAIT] {
        Value::Absent => false,
        Value::Bool(wait) => wait,
        other => return Err(problem(other, "wait", "true or false")),
    };
    Ok(Command::Take { queues, wait })
}

/// An id that cannot have been given out is as good as one that never was.
fn id(values: &Values<'_>) -> Result<JobId, Problem> {
    match values[ID] {
        Value::Integer(Integer::Small(number)) => Ok(JobId(number.unsigned_abs())),
        Value::Integer(Integer::Large(_) | Integer::Negative) => Ok(JobId::NEVER),
        other => Err(problem(other, "id", AN_ID)),
    }
}

#[cold]
fn problem(found: Value<'_>, field: &'static str, wanted: &'static str) -> Problem {
    match found {
        Value::Absent => Problem::Missing { field, wanted },
        Value::BrokenString => Problem::Broken { field },
        _ => Problem::Wrong { field, wanted },
    }
}

/// At most as much of a client's word as an error message needs.
fn shorten(name: &str) -> String {
    const SHOWN: usize = 40;
    match name.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}...", &name[..end]),
        None => name.to_owned(),
    }
}
