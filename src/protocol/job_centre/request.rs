//! From lines to commands (`docs/protocols/job-centre.md`, "Requests", "Time", "Values" and
//! "Errors").

use super::native_request::{self, NativeScratch};
use super::request_cache::RequestCache;
use super::request_fields::{
    COUNT, DELAY, ID, JOB, KEY, KEY_TTL, LIMIT, MAX_ATTEMPTS, NATIVE, PRI, QUEUE, QUEUES, REQUEST,
    RequestFields, TIMEOUT, TOKEN, TTL, TTR, Values, WAIT, all_absent,
};
use crate::base::limits::QUEUES_PER_RESERVE_MAX;
use crate::model::command::{Command, Wait};
use crate::model::id::JobId;
use crate::model::job::{Encoding, JobOptions, Payload, Priority, TieBreak};
use crate::protocol::operations::{
    Args, LineKind, Problem, ProblemKind, has_member, line_row, parse_get_line,
};
use crate::wire::json::{Arrays, Integer, JsonError, Parser, Value};
use std::fmt;
use std::sync::Arc;

/// Why a line is not a request.
#[derive(Debug)]
pub(super) enum RequestError {
    /// A string has an unpaired surrogate.
    Broken {
        field: &'static str,
    },
    /// A first line that begins with a control character.
    Foreign,
    /// A first line of HTTP.
    Http,
    /// A required field is absent.
    Missing {
        field: &'static str,
        wanted: &'static str,
    },
    NotAnObject(JsonError),
    /// No error: the line is for the native API.
    Native(LineKind),
    /// No error: the line is a get of the native API.
    NativeGet(Arc<Args>),
    /// What the native API says is wrong.
    Problem(Box<Problem>),
    /// A first line of more than `max` bytes that does not begin like a request.
    NoRequest {
        max: usize,
    },
    /// A line of more than `max` bytes.
    TooLong {
        max: usize,
    },
    /// The same of a client that has not authenticated.
    TooLongToAuthenticate {
        /// The most bytes.
        max: usize,
    },
    /// A reserve names more than [`QUEUES_PER_RESERVE_MAX`] queues.
    TooManyQueues {
        count: usize,
    },
    /// The client may not do this: a kind and a sentence.
    Denied(ProblemKind, Box<str>),
    UnknownRequest(String),
    /// A field has a value of another type or range.
    Wrong {
        field: &'static str,
        wanted: &'static str,
    },
}

impl fmt::Display for RequestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Broken { field } => {
                write!(f, "field '{field}' holds half a surrogate pair, which is no text")
            }
            Self::Missing { field, wanted } => {
                write!(f, "field '{field}' is missing: it must be {wanted}")
            }
            Self::Foreign => f.write_str(
                "the first line begins with a control character, so this is another protocol (TLS? \
                 The address of this listener does not begin with tls:): the connection is closed, \
                 nothing was carried out",
            ),
            Self::Http => f.write_str(
                "this is a request of HTTP, and here JSON lines are spoken: the connection is \
                 closed, nothing was carried out (HTTP has an address of its own: --http)",
            ),
            Self::NoRequest { max } => write!(
                f,
                "the first line is longer than {max} bytes (--max-request) and begins as no \
                 request does: the connection is closed, nothing was carried out"
            ),
            Self::NotAnObject(error) => write!(f, "the line {error}"),
            Self::Native(_) | Self::NativeGet(_) => f.write_str("the line is for the native API"),
            Self::Problem(problem) => f.write_str(&problem.detail),
            Self::Denied(_, why) => f.write_str(why),
            Self::TooLong { max } => {
                write!(f, "the line is longer than {max} bytes (--max-request) and was skipped")
            }
            Self::TooLongToAuthenticate { max } => write!(
                f,
                "the line is longer than the {max} bytes that are read of a client that has not \
                 authenticated, and was skipped"
            ),
            Self::TooManyQueues { count } => write!(
                f,
                "field 'queues' names {count} queues: it must name at most {QUEUES_PER_RESERVE_MAX}"
            ),
            Self::UnknownRequest(name) => write!(
                f,
                "field 'request' names the unknown request '{name}': it must be {REQUESTS}, or one \
                 of the native API (docs/protocols/api.md, Line requests)"
            ),
            Self::Wrong { field, wanted } => write!(f, "field '{field}' must be {wanted}"),
        }
    }
}

const REQUESTS: &str = "put, get, delete, abort or touch";
const AN_ID: &str = "an integer, written without fraction or exponent";
const A_PRI: &str = "a non-negative integer, written without fraction or exponent";
const A_TIME: &str = "a non-negative integer of milliseconds, written without fraction or exponent";
const A_QUEUE: &str = "a string";
const SOME_QUEUES: &str = "an array of strings";

/// Parses a request that is not in the cache, and caches it if it is of a kind that is repeated.
#[inline]
pub(super) fn parse<'a>(
    line: &'a [u8],
    json: &'a mut Parser,
    cache: &'a mut RequestCache,
    options: &'a mut JobOptions,
    native: &'a mut NativeScratch,
) -> Result<Command<'a>, RequestError> {
    let mut values = [Value::Absent; COUNT];
    let arrays = match json.parse::<RequestFields, COUNT>(line, &mut values) {
        Ok(arrays) => arrays,
        Err(error) => return Err(RequestError::NotAnObject(error)),
    };
    let command = match values[REQUEST] {
        Value::String("put")
            if !all_absent(&values, &[NATIVE, LIMIT, MAX_ATTEMPTS, KEY, KEY_TTL]) =>
        {
            let command = native_request::put(&values, native);
            return command.ok_or(RequestError::Native(LineKind::Put));
        }
        Value::String("put") => return put(&values, options),
        Value::String("get") if !matches!(values[LIMIT], Value::Absent | Value::Null) => {
            return Err(native_get(line, cache));
        }
        Value::String("get") => get(&values, arrays)?,
        Value::String("delete") => Command::Delete { id: id(&values)? },
        Value::String("abort") => Command::Release { id: id(&values)?, lease: None },
        Value::String("touch")
            if values[TTR] != Value::Absent
                || (values[TOKEN] != Value::Absent && has_member(line, "token")) =>
        {
            let command = native_request::report(&values, arrays.members(), native);
            return command.ok_or_else(|| match line_row("touch") {
                Some(row) => RequestError::Native(LineKind::Operation(row)),
                None => problem(values[TTR], "ttr", A_TIME),
            });
        }
        Value::String("touch") => Command::Touch { id: id(&values)?, lease: None },
        Value::String(name) => match native_request::report(&values, arrays.members(), native) {
            Some(command) => command,
            None => {
                return Err(match line_row(name) {
                    Some(row) => RequestError::Native(LineKind::Operation(row)),
                    None => RequestError::UnknownRequest(shorten(name)),
                });
            }
        },
        other => return Err(problem(other, "request", REQUESTS)),
    };
    cache.insert(line, &command);
    Ok(command)
}

/// A get of the native API, which is cached.
#[cold]
fn native_get(line: &[u8], cache: &mut RequestCache) -> RequestError {
    match parse_get_line(line) {
        Ok(args) => {
            let args = Arc::new(args);
            cache.insert_native_get(line, &args);
            RequestError::NativeGet(args)
        }
        Err(problem) => RequestError::Problem(Box::new(problem)),
    }
}

fn put<'a>(values: &Values<'a>, scratch: &'a mut JobOptions) -> Result<Command<'a>, RequestError> {
    let queue = match values[QUEUE] {
        Value::String(name) => name.as_bytes(),
        other => return Err(problem(other, "queue", A_QUEUE)),
    };
    let bytes = match values[JOB] {
        Value::Object(text) => text,
        other => return Err(problem(other, "job", "an object")),
    };
    let priority = match values[PRI] {
        Value::Integer(Integer::Small(number)) => Priority::Small(number),
        Value::Integer(Integer::Large(digits)) => Priority::Big(digits),
        other => return Err(problem(other, "pri", A_PRI)),
    };
    let options = match (values[DELAY], values[TTL], values[TTR]) {
        (Value::Absent, Value::Absent, Value::Absent) => None,
        (delay, ttl, ttr) => Some(options(delay, ttl, ttr, scratch)?),
    };
    let payload = Payload { encoding: Encoding::JsonLine, bytes };
    Ok(Command::Put { queue, priority, tie_break: TieBreak::Fifo, payload, options })
}

#[cold]
fn options<'a>(
    delay: Value<'_>,
    ttl: Value<'_>,
    ttr: Value<'_>,
    scratch: &'a mut JobOptions,
) -> Result<&'a JobOptions, RequestError> {
    *scratch = JobOptions {
        delay_ms: milliseconds(delay, "delay")?.unwrap_or(0),
        ttl_ms: milliseconds(ttl, "ttl")?.unwrap_or(0),
        lease_ms: milliseconds(ttr, "ttr")?.unwrap_or(0),
        ..JobOptions::default()
    };
    Ok(scratch)
}

/// A duration, if the field is there. What exceeds 64 bits is `u64::MAX`.
fn milliseconds(value: Value<'_>, field: &'static str) -> Result<Option<u64>, RequestError> {
    match value {
        Value::Absent => Ok(None),
        Value::Integer(Integer::Small(number)) => Ok(Some(number.unsigned_abs())),
        Value::Integer(Integer::Large(_)) => Ok(Some(u64::MAX)),
        other => Err(problem(other, field, A_TIME)),
    }
}

fn get<'a>(values: &Values<'a>, arrays: Arrays<'a>) -> Result<Command<'a>, RequestError> {
    let queues = match values[QUEUES] {
        Value::Strings(at) => arrays.strings(at),
        other => return Err(problem(other, "queues", SOME_QUEUES)),
    };
    if queues.len() > QUEUES_PER_RESERVE_MAX {
        return Err(RequestError::TooManyQueues { count: queues.len() });
    }
    let wait = match values[WAIT] {
        Value::Absent => None,
        Value::Bool(wait) => Some(wait),
        other => return Err(problem(other, "wait", "true or false")),
    };
    let wait = match (wait, milliseconds(values[TIMEOUT], "timeout")?) {
        (Some(false), _) | (None, None) | (_, Some(0)) => Wait::No,
        (Some(true), None) => Wait::Forever,
        (_, Some(timeout_ms)) => Wait::Milliseconds(timeout_ms),
    };
    Ok(Command::Reserve { queues, wait })
}

/// An id that was never given out is as good as one out of range.
fn id(values: &Values<'_>) -> Result<JobId, RequestError> {
    match values[ID] {
        Value::Integer(Integer::Small(number)) => Ok(JobId(number.unsigned_abs())),
        Value::Integer(Integer::Large(_) | Integer::Negative) => Ok(JobId::NEVER),
        other => Err(problem(other, "id", AN_ID)),
    }
}

#[cold]
fn problem(found: Value<'_>, field: &'static str, wanted: &'static str) -> RequestError {
    match found {
        Value::Absent => RequestError::Missing { field, wanted },
        Value::BrokenString => RequestError::Broken { field },
        _ => RequestError::Wrong { field, wanted },
    }
}

/// The first 40 characters of a client's word, for an error message.
fn shorten(name: &str) -> String {
    const SHOWN: usize = 40;
    match name.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}...", &name[..end]),
        None => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::rng::Rng;
    use crate::base::time::Now;
    use crate::protocol::job_centre::request_cache::CachedRequest;
    use crate::protocol::operations::{Call, Style, parse_line};

    const NAMES: [&str; 7] = ["delete", "get", "abort", "put", "nothing", "del\\u0065te", "done"];
    const IDS: [&str; 12] = [
        "0",
        "-0",
        "-7",
        "7",
        "17",
        "1700",
        "017",
        "1.0",
        "1e1",
        "\"7\"",
        "9007199254740993",
        "99999999999999999999990",
    ];
    const MORE: [&str; 6] =
        ["", ",\"id\":3", ",\"x\":7", ",\"queues\":[\"7\"]", " ", ",\"wait\":true"];

    /// Similar lines, so that many hit the cache up to a byte or two.
    fn line(rng: &mut Rng) -> String {
        let mut pick =
            |from: &[&'static str]| from[usize::try_from(rng.below(from.len() as u64)).unwrap()];
        let (blank, name) = (pick(&["", " "]), pick(&NAMES));
        let (key, id, more, end) =
            (pick(&["id", "queues"]), pick(&IDS), pick(&MORE), pick(&["}", ""]));
        let value =
            if key == "id" { id.to_owned() } else { format!("[\"{}\"]", id.trim_matches('"')) };
        format!("{{\"request\":{blank}\"{name}\",{blank}\"{key}\":{blank}{value}{more}{end}")
    }

    /// As a session does it: what is in the cache is not parsed.
    fn parse<'a>(
        line: &'a [u8],
        json: &'a mut Parser,
        cache: &'a mut RequestCache,
        options: &'a mut JobOptions,
        native: &'a mut NativeScratch,
    ) -> Result<Command<'a>, RequestError> {
        match cache.find(line) {
            Some(CachedRequest::NativeGet(slot)) => {
                Err(RequestError::NativeGet(cache.native_get(slot)))
            }
            Some(CachedRequest::Plain(known)) => Ok(cache.command(known)),
            None => super::parse(line, json, cache, options, native),
        }
    }

    fn said(result: Result<Command<'_>, RequestError>) -> String {
        match result {
            Ok(Command::Reserve { queues, wait }) => {
                format!("{:?} {wait:?}", queues.into_iter().collect::<Vec<_>>())
            }
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn reserve_that_names_too_many_queues_is_refused() {
        let get = |count| {
            let (mut json, mut cache) = (Parser::default(), RequestCache::default());
            let (mut options, mut native) = Default::default();
            let line =
                format!("{{\"request\":\"get\",\"queues\":[{}]}}", vec!["\"q\""; count].join(","));
            match parse(line.as_bytes(), &mut json, &mut cache, &mut options, &mut native) {
                Ok(Command::Reserve { queues, .. }) => Ok(queues.len()),
                Ok(other) => panic!("{other:?}"),
                Err(error) => Err(error.to_string()),
            }
        };
        assert_eq!(get(QUEUES_PER_RESERVE_MAX), Ok(QUEUES_PER_RESERVE_MAX));
        let error = "field 'queues' names 1025 queues: it must name at most 1024";
        assert_eq!(get(QUEUES_PER_RESERVE_MAX + 1), Err(error.to_owned()));
    }

    #[test]
    fn cached_line_yields_what_parsing_yields() {
        let (mut json, mut cache) = (Parser::default(), RequestCache::default());
        let (mut rng, mut known) = (Rng::new(11), 0);
        for _ in 0..30_000 {
            let line = line(&mut rng);
            let (mut none, mut options, mut native) = Default::default();
            let fresh =
                said(parse(line.as_bytes(), &mut json, &mut none, &mut options, &mut native));
            known += usize::from(cache.find(line.as_bytes()).is_some());
            assert_eq!(
                said(parse(line.as_bytes(), &mut json, &mut cache, &mut options, &mut native)),
                fresh,
                "{line}"
            );
        }
        assert!(known > 400, "only {known} lines were known");
    }

    /// What the operations make of a line.
    fn by_operations(kind: LineKind, line: &str) -> String {
        match parse_line(kind, line.as_bytes(), Now::default()) {
            Ok(args) => {
                let call = Call::new(Arc::new(args), Style::Line);
                format!("{:?}", call.command(&call.args()))
            }
            Err(problem) => format!("{problem:?}"),
        }
    }

    /// Values that fit, and some that do not.
    fn value(rng: &mut Rng, name: &str) -> &'static str {
        let values: &[&str] = match name {
            "queue" => &["\"q\"", "\"q\"", "\"\\u0071\"", "\"\"", "null", "1", "\"\\ud800\""],
            "job" | "result" => &["{}", "{\"a\": [1]}", " { } ", "null", "7", "[]", "\"x\""],
            "key" => &["\"k\"", "\"k\"", "\"\"", "null", "1", "\"\\ud800\""],
            "error" | "message" => &["\"Timeout\"", "\"a\\nb\"", "\"\"", "null", "1"],
            "retry" => &["true", "false", "null", "0"],
            _ => &[
                "0",
                "1",
                "60000",
                "7",
                "-1",
                "-0",
                "1.0",
                "1e3",
                "null",
                "\"5\"",
                "4294967296",
                "316224000001",
                "9223372036854775807",
                "99999999999999999999",
            ],
        };
        let fits = rng.below(4) > 0;
        let count = if fits { values.len().min(3) } else { values.len() };
        values[usize::try_from(rng.below(count as u64)).unwrap()]
    }

    fn native_line(rng: &mut Rng, request: &str) -> String {
        let (needed, others): (&[&str], &[&str]) = match request {
            "put" => (
                &["queue", "job", "pri"],
                &["ttr", "max_attempts", "key", "key_ttl", "delay", "ttl", "limit", "x", "group"],
            ),
            "done" => (&["id"], &["result", "x", "token", "id", "error"]),
            "fail" => (&["id"], &["error", "message", "retry", "delay", "token", "x", "error"]),
            _ => (&["id", "ttr"], &["token", "x", "ttr"]),
        };
        let mut members = vec![format!("\"request\":\"{request}\"")];
        for &name in needed {
            if rng.below(20) > 0 {
                members.push(format!("\"{name}\": {}", value(rng, name)));
            }
        }
        for &name in others {
            if rng.below(4) == 0 {
                members.push(format!("\"{name}\":{}", value(rng, name)));
            }
        }
        format!("{{{}}}", members.join(","))
    }

    #[test]
    fn frequent_request_yields_what_the_operations_make_of_it() {
        let (mut json, mut cache) = (Parser::default(), RequestCache::default());
        let (mut options, mut native) = (JobOptions::default(), NativeScratch::default());
        let (mut rng, mut made) = (Rng::new(7), [0_u32; 4]);
        for _ in 0..40_000 {
            let which = usize::try_from(rng.below(4)).unwrap();
            let name = ["put", "done", "fail", "touch"][which];
            let line = native_line(&mut rng, name);
            let text = line.as_bytes();
            let Ok(command @ Command::Manage(_)) =
                parse(text, &mut json, &mut cache, &mut options, &mut native)
            else {
                continue;
            };
            let kind = match line_row(name) {
                Some(row) if name != "put" => LineKind::Operation(row),
                _ => LineKind::Put,
            };
            assert_eq!(format!("{command:?}"), by_operations(kind, &line), "{line}");
            made[which] += 1;
        }
        assert!(made.iter().all(|&count| count > 400), "{made:?}");
    }

    #[test]
    fn get_with_a_limit_is_parsed_once() {
        let (mut json, mut cache) = (Parser::default(), RequestCache::default());
        let (mut options, mut native) = (JobOptions::default(), NativeScratch::default());
        let line = br#"{"request":"get","queues":["q"],"limit":2,"attempts":true}"#;
        let mut get = || match parse(line, &mut json, &mut cache, &mut options, &mut native) {
            Err(RequestError::NativeGet(args)) => args,
            other => panic!("{other:?}"),
        };
        let (first, second) = (get(), get());
        assert!(Arc::ptr_eq(&first, &second));
    }
}
