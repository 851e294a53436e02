//! From lines to messages (`docs/protocols/processor.md`, "The message" and "Topics that are
//! heard").

use super::timestamp;
use crate::base::time::Wall;
use crate::model::external_id::{Fraction, JobRef};
use crate::wire::Leaf;
use crate::wire::json::{Fields, Integer, JsonError, Parser, Value, at};
use std::fmt;

const TOPIC: usize = 0;
const SERVICE: usize = 1;
const CREATED: usize = 2;
const PAYLOAD: usize = 3;

/// The fields of a message that are read.
struct Envelope;

impl Fields<4> for Envelope {
    #[inline]
    fn number(name: &[u8]) -> Option<usize> {
        Some(match name {
            b"topic" => TOPIC,
            b"service_uuid" => SERVICE,
            b"created_at" => CREATED,
            b"payload" => PAYLOAD,
            _ => return None,
        })
    }
}

const UUID: usize = 0;
const QUEUE: usize = 1;
const PRIORITY: usize = 2;

/// The fields of a payload that are read, except for the progress, which is read only where it is
/// needed.
struct Content;

impl Fields<3> for Content {
    #[inline]
    fn number(name: &[u8]) -> Option<usize> {
        Some(match name {
            b"uuid" => UUID,
            b"queue_name" => QUEUE,
            b"priority" => PRIORITY,
            _ => return None,
        })
    }
}

/// The meaning of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Message<'a> {
    /// Not addressed to the server.
    Other,
    /// A tick of the bus.
    Tick,
    /// Add a job; its priority, and its payload as text.
    Add(JobRef<'a>, i64, &'a [u8]),
    /// The worker of this name is idle and belongs to this queue, as of this time.
    Idle(&'a str, &'a [u8], Option<Wall>),
    /// The worker of this name works on a job.
    Works(WorkSignal, &'a str, JobRef<'a>, Option<Fraction>),
    /// The worker of this name has finished a job.
    Finished(&'a str, JobRef<'a>),
    Delete(JobRef<'a>),
    /// Report this list of this queue.
    List(List, &'a [u8]),
}

/// The verb by which a worker reports that it works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WorkSignal {
    Accepted,
    Busy,
    Progress,
}

/// The lists that can be requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum List {
    Jobs,
    Workers,
    Dispatched,
    Progress,
}

impl List {
    /// The last part of its topic.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Jobs => "list_job_queue",
            Self::Workers => "list_worker_queue",
            Self::Dispatched => "list_dispatched_queue",
            Self::Progress => "list_progress_queue",
        }
    }
}

/// A verb of a topic that the server reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verb {
    Tick,
    Add,
    Idle,
    Works(WorkSignal),
    Finished,
    Delete,
    List(List),
}

impl Verb {
    /// The last part of its topic.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Tick => "tick",
            Self::Add => "add_job",
            Self::Idle => "worker_idle",
            Self::Works(WorkSignal::Accepted) => "job_accepted",
            Self::Works(WorkSignal::Busy) => "worker_busy",
            Self::Works(WorkSignal::Progress) => "worker_progress",
            Self::Finished => "job_finished",
            Self::Delete => "del_job",
            Self::List(list) => list.name(),
        }
    }

    fn find(name: &str) -> Option<Self> {
        const ALL: [Verb; 11] = [
            Verb::Add,
            Verb::Idle,
            Verb::Works(WorkSignal::Accepted),
            Verb::Works(WorkSignal::Busy),
            Verb::Works(WorkSignal::Progress),
            Verb::Finished,
            Verb::Delete,
            Verb::List(List::Jobs),
            Verb::List(List::Workers),
            Verb::List(List::Dispatched),
            Verb::List(List::Progress),
        ];
        ALL.into_iter().find(|verb| verb.name() == name)
    }

    fn is_of_workers(self) -> bool {
        matches!(self, Self::Idle | Self::Works(_) | Self::Finished)
    }
}

/// Why a line is not a message.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum MessageError {
    NotAnObject(JsonError),
    /// Longer than this many bytes.
    TooLong(usize),
    /// It has no usable topic.
    NoTopic(FieldError),
    /// A field of a message with this verb is wrong.
    Wrong(&'static str, FieldError),
}

/// Why a field is wrong.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct FieldError {
    field: &'static str,
    wanted: &'static str,
    absent: bool,
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { field, wanted, absent } = self;
        if *absent {
            write!(f, "field '{field}' is missing: it must be {wanted}")
        } else {
            write!(f, "field '{field}' must be {wanted}")
        }
    }
}

impl fmt::Display for MessageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAnObject(error) => write!(f, "no message: the line {error}"),
            Self::TooLong(max) => {
                write!(f, "no message: the line is longer than {max} bytes (--max-request)")
            }
            Self::NoTopic(fault) => write!(f, "no message: {fault}"),
            Self::Wrong(verb, fault) => write!(f, "{verb}: {fault}"),
        }
    }
}

/// The topic without namespace and slash; nothing if it is in another namespace.
fn within<'t>(topic: &'t str, namespace: &str) -> Option<&'t str> {
    if namespace.is_empty() {
        return Some(topic);
    }
    topic.strip_prefix(namespace)?.strip_prefix('/')
}

/// The verb of a topic, and the worker that it names.
fn address<'t>(topic: &'t str, namespace: &str) -> Option<(Verb, Option<&'t str>)> {
    let topic = within(topic, namespace)?;
    if topic == "tick" {
        return Some((Verb::Tick, None));
    }
    let topic = topic.strip_prefix("job_queue/")?;
    let Some(rest) = topic.strip_prefix("workers/") else {
        return Some((Verb::find(topic)?, None));
    };
    let (worker, verb) = rest.rsplit_once('/')?;
    let verb = Verb::find(verb).filter(|verb| verb.is_of_workers())?;
    Some((verb, Some(worker)))
}

fn fault(found: Value<'_>, field: &'static str, wanted: &'static str) -> FieldError {
    FieldError { field, wanted, absent: found == Value::Absent }
}

/// A string that is not empty.
fn name<'a>(
    found: Value<'a>,
    field: &'static str,
    wanted: &'static str,
) -> Result<&'a str, FieldError> {
    match found {
        Value::String(text) if !text.is_empty() => Ok(text),
        other => Err(fault(other, field, wanted)),
    }
}

const A_TOPIC: &str = "a string";
const A_WORKER: &str = "the uuid of the worker, a string that is not empty";
const A_UUID: &str = "the uuid of the job, a string that is not empty";
const A_QUEUE: &str = "the name of a queue, a string that is not empty";
const A_PRIORITY: &str = "an integer from 0, the most urgent, to 9";
const A_PORTION: &str = "a number from 0 to 1, there or in 'status'";
const A_MOMENT: &str = "a time in ISO 8601, or milliseconds since 1970";
const AN_OBJECT: &str = "an object";

/// Parses one line. `json` parses the message, `inner` its payload. O(line).
pub(super) fn parse<'a>(
    line: &'a [u8],
    namespace: &str,
    json: &'a mut Parser,
    inner: &'a mut Parser,
) -> Result<Message<'a>, MessageError> {
    let mut values = [Value::Absent; 4];
    json.parse::<Envelope, 4>(line, &mut values).map_err(MessageError::NotAnObject)?;
    let topic = match values[TOPIC] {
        Value::String(topic) => topic,
        other => return Err(MessageError::NoTopic(fault(other, "topic", A_TOPIC))),
    };
    let Some((verb, named)) = address(topic, namespace) else { return Ok(Message::Other) };
    let wrong = |fault: FieldError| MessageError::Wrong(verb.name(), fault);
    if verb == Verb::Tick {
        return Ok(Message::Tick);
    }
    let worker = match values[SERVICE] {
        _ if !verb.is_of_workers() => "",
        Value::Absent if named.is_some_and(|named| !named.is_empty()) => named.unwrap_or_default(),
        found => name(found, "service_uuid", A_WORKER).map_err(wrong)?,
    };
    let payload = match values[PAYLOAD] {
        Value::Object(text) => text,
        other => return Err(wrong(fault(other, "payload", AN_OBJECT))),
    };
    let mut content = [Value::Absent; 3];
    inner.parse::<Content, 3>(payload, &mut content).map_err(MessageError::NotAnObject)?;
    let queue = name(content[QUEUE], "queue_name", A_QUEUE).map_err(wrong)?.as_bytes();
    let job = || {
        let name = name(content[UUID], "uuid", A_UUID).map_err(wrong)?.as_bytes();
        Ok(JobRef { queue, name })
    };
    Ok(match verb {
        Verb::Tick => Message::Tick,
        Verb::Add => Message::Add(job()?, priority(content[PRIORITY]).map_err(wrong)?, payload),
        Verb::Idle => Message::Idle(worker, queue, moment(values[CREATED]).map_err(wrong)?),
        Verb::Works(signal) => {
            let progress = progress(signal, payload).map_err(wrong)?;
            Message::Works(signal, worker, job()?, progress)
        }
        Verb::Finished => Message::Finished(worker, job()?),
        Verb::Delete => Message::Delete(job()?),
        Verb::List(list) => Message::List(list, queue),
    })
}

/// The default priority.
const USUAL: i64 = 5;

fn priority(found: Value<'_>) -> Result<i64, FieldError> {
    match found {
        Value::Absent => Ok(-USUAL),
        Value::Integer(Integer::Small(priority @ 0..=9)) => Ok(-priority),
        other => Err(fault(other, "priority", A_PRIORITY)),
    }
}

fn moment(found: Value<'_>) -> Result<Option<Wall>, FieldError> {
    let moment = match found {
        Value::Absent => return Ok(None),
        Value::String(text) => timestamp::parse(text),
        Value::Integer(Integer::Small(ms)) => Some(Wall(ms.unsigned_abs())),
        _ => None,
    };
    moment.map(Some).ok_or_else(|| fault(found, "created_at", A_MOMENT))
}

/// The progress of a job: required of a progress report, ignored of an acceptance.
fn progress(signal: WorkSignal, payload: &[u8]) -> Result<Option<Fraction>, FieldError> {
    if signal == WorkSignal::Accepted {
        return Ok(None);
    }
    let found = at(payload, &["progress"]).or_else(|| at(payload, &["status", "progress"]));
    let portion = match found {
        None if signal == WorkSignal::Busy => return Ok(None),
        Some(Leaf::Integer(0)) => Some(Fraction::ZERO),
        Some(Leaf::Integer(1)) => Fraction::new(1.0),
        Some(Leaf::Float(part)) => Fraction::new(part),
        _ => None,
    };
    let absent = found.is_none();
    portion.map(Some).ok_or(FieldError { field: "progress", wanted: A_PORTION, absent })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<String, String> {
        let (mut json, mut inner) = (Parser::default(), Parser::default());
        match parse(line.as_bytes(), "ns/a", &mut json, &mut inner) {
            Ok(message) => Ok(match message {
                Message::Add(JobRef { queue, name }, priority, payload) => {
                    let [queue, name, payload] =
                        [queue, name, payload].map(String::from_utf8_lossy);
                    format!("add {name} to {queue} at {priority}: {payload}")
                }
                Message::Idle(worker, queue, at) => {
                    format!("{worker} idle in {} since {at:?}", String::from_utf8_lossy(queue))
                }
                Message::Works(signal, worker, job, progress) => {
                    let name = String::from_utf8_lossy(job.name);
                    format!("{signal:?} {worker} {name} {:?}", progress.map(Fraction::value))
                }
                other => format!("{other:?}"),
            }),
            Err(problem) => Err(problem.to_string()),
        }
    }

    fn said(topic: &str, payload: &str) -> Result<String, String> {
        let rest = "\"service_uuid\":\"w\",\"created_at\":\"1970-01-01T00:00:01Z\"";
        read(&format!("{{\"topic\":\"ns/a/{topic}\",{rest},\"payload\":{payload}}}"))
    }

    #[test]
    fn topic_and_payload_yield_the_message() {
        let job = r#"{"queue_name":"q","uuid":"u"}"#;
        for (topic, payload, message) in [
            ("job_queue/add_job", job, "add u to q at -5: {\"queue_name\":\"q\",\"uuid\":\"u\"}"),
            ("job_queue/worker_idle", job, "w idle in q since Some(Wall(1000))"),
            ("job_queue/workers/x/worker_idle", job, "w idle in q since Some(Wall(1000))"),
            ("job_queue/workers/x/job_accepted", job, "Accepted w u None"),
            ("job_queue/worker_busy", job, "Busy w u None"),
            ("tick", "[1]", "Tick"),
            ("tick/", job, "Other"),
            ("job_queue/tick", job, "Other"),
            ("job_queue/workers/x/add_job", job, "Other"),
            ("job_queue/workers/worker_idle", job, "Other"),
            ("job_queue/workers/x/job_assignment", job, "Other"),
            ("job_queue", job, "Other"),
        ] {
            assert_eq!(said(topic, payload), Ok(message.to_owned()), "{topic}");
        }
        assert_eq!(read(r#"{"topic":"ns/tick"}"#), Ok("Other".to_owned()));
        assert_eq!(read(r#"{"topic":"ns/a"}"#), Ok("Other".to_owned()));
        assert_eq!(read(r#"{"topic":"ns/ab/tick"}"#), Ok("Other".to_owned()));
        let topic = "\"topic\":\"ns/a/job_queue/workers/x/y/worker_idle\"";
        let message = format!("{{{topic},\"created_at\":7,\"payload\":{job}}}");
        assert_eq!(read(&message), Ok("x/y idle in q since Some(Wall(7))".to_owned()));
    }

    #[test]
    fn progress_is_read_from_either_field() {
        let progress = |text: &str| {
            let payload = format!("{{\"queue_name\":\"q\",\"uuid\":\"u\",{text}}}");
            said("job_queue/worker_progress", &payload)
        };
        for (text, value) in [
            (r#""progress":0"#, "0.0"),
            (r#""progress":1"#, "1.0"),
            (r#""progress":2.5e-1"#, "0.25"),
            (r#""status":{"progress":0.5}"#, "0.5"),
            (r#""progress":0.1,"status":{"progress":0.5}"#, "0.1"),
        ] {
            assert_eq!(progress(text), Ok(format!("Progress w u Some({value})")), "{text}");
        }
        for text in
            [r#""progress":2"#, r#""progress":-0.1"#, r#""progress":"1""#, r#""progress":1e400"#]
        {
            let why = progress(text).unwrap_err();
            assert_eq!(
                why,
                "worker_progress: field 'progress' must be a number from 0 to 1, there or in \
                 'status'",
                "{text}"
            );
        }
        let why = progress(r#""status":"x""#).unwrap_err();
        assert!(why.starts_with("worker_progress: field 'progress' is missing"), "{why}");
    }

    #[test]
    fn malformed_line_yields_its_error() {
        for (line, start) in [
            ("", "no message: the line is empty"),
            ("x", "no message: the line is not JSON: "),
            ("[1]", "no message: the line is an array, not a JSON object"),
            ("{}", "no message: field 'topic' is missing: it must be a string"),
            (r#"{"topic":7}"#, "no message: field 'topic' must be a string"),
            (r#"{"topic":"ns/a/job_queue/add_job"}"#, "add_job: field 'payload' is missing"),
            (
                r#"{"topic":"ns/a/job_queue/worker_idle","payload":{}}"#,
                "worker_idle: field 'service_",
            ),
        ] {
            let why = read(line).unwrap_err();
            assert!(why.starts_with(start), "{line}: {why}");
        }
        for (topic, payload, start) in [
            ("job_queue/add_job", "[]", "add_job: field 'payload' must be an object"),
            ("job_queue/add_job", "{}", "add_job: field 'queue_name' is missing"),
            ("job_queue/add_job", r#"{"queue_name":""}"#, "add_job: field 'queue_name' must be"),
            ("job_queue/add_job", r#"{"queue_name":"q"}"#, "add_job: field 'uuid' is missing"),
            (
                "job_queue/del_job",
                r#"{"queue_name":"q","uuid":7}"#,
                "del_job: field 'uuid' must be",
            ),
            ("job_queue/list_job_queue", "{}", "list_job_queue: field 'queue_name' is missing"),
        ] {
            let why = said(topic, payload).unwrap_err();
            assert!(why.starts_with(start), "{topic}: {why}");
        }
        for priority in ["-1", "10", "5.0", "\"5\"", "null", "99999999999999999999"] {
            let payload =
                format!("{{\"queue_name\":\"q\",\"uuid\":\"u\",\"priority\":{priority}}}");
            let why = said("job_queue/add_job", &payload).unwrap_err();
            assert!(why.starts_with("add_job: field 'priority' must be an integer"), "{why}");
        }
        let idle = r#"{"topic":"ns/a/job_queue/worker_idle","service_uuid":"w","created_at":"x","#;
        let why = read(&format!("{idle}\"payload\":{{\"queue_name\":\"q\"}}}}")).unwrap_err();
        assert!(why.starts_with("worker_idle: field 'created_at' must be a time"), "{why}");
    }
}
