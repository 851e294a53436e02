//! LightJQ in the tests of the document, and the test of its bodies.

use super::schema_check::fits;
use super::tests::{documented, parsed, target, verb};
use super::*;
use crate::base::time::{Mono, Wall};
use crate::model::command::Command;
use crate::model::external_id::{Fraction, QueueScan, ReadyOrderKey, ReservedJob};
use crate::model::id::JobId;
use crate::model::job::{Encoding, LeaseEpoch, Payload, Priority, Status};
use crate::model::reply::{JobInfo, JobStatus, JobView, Rejection, Reply};
use crate::model::worker::{
    Constraint, ConstraintReply, TrackedReply, WorkerCommand, WorkerId, WorkerReply,
};
use crate::protocol::http::lightjq::messages::{self, Field, FieldKind};
use crate::wire::msgpack::{from_json, to_json};
use serde_json::{Value, json};
use std::sync::LazyLock;

fn of(route: &Route) -> Option<lightjq::Operation> {
    match route.operation {
        Operation::LightJq(operation) => Some(operation),
        _ => None,
    }
}

/// The names of the parameters besides those of the path.
pub(super) fn beside(route: &Route) -> Vec<Value> {
    match of(route) {
        Some(lightjq::Operation::Await) => vec![json!("timeout")],
        Some(lightjq::Operation::Deregister | lightjq::Operation::Report) => {
            vec![json!("worker-id")]
        }
        _ => Vec::new(),
    }
}

/// The header fields of a request.
pub(super) fn fields(route: &Route) -> &'static str {
    if of(route).is_some_and(lightjq::Operation::names_worker) { "worker-id: 3\r\n" } else { "" }
}

pub(super) fn shown(bytes: &[u8]) -> Value {
    let mut text = Vec::new();
    to_json(bytes, &mut text).unwrap();
    serde_json::from_slice(&text).unwrap()
}

fn packed(value: &Value) -> Vec<u8> {
    let mut bytes = Vec::new();
    from_json(value.to_string().as_bytes(), &mut bytes).unwrap();
    bytes
}

/// Bodies with every field that is read, and the tables of the fields.
fn bodies(operation: lightjq::Operation) -> Vec<(Value, &'static [Field])> {
    match operation {
        lightjq::Operation::Put => {
            let job = json!({"name": "n", "argument": [1], "priority": 1, "max_retry": 2,
                "keep_result": true, "timeout": 1.5});
            vec![(job, &messages::JOB)]
        }
        lightjq::Operation::Register => {
            let worker = json!({"name": "w", "max_jobs": 2, "url": "http://h:1", "jobs": ["a"]});
            vec![(worker, &messages::WORKER)]
        }
        lightjq::Operation::Report => {
            let at = "2026-01-01T00:00:00Z";
            let done = json!({"job_id": "7", "type": "success", "finished_at": at, "result": 1});
            let failed = json!({"job_id": "7", "type": "failure", "finished_at": at,
                "reason": "other", "should_retry": true, "error": 1, "message": "m"});
            vec![(done, &messages::DONE), (failed, &messages::FAILURE)]
        }
        lightjq::Operation::SetConstraint => {
            let constraint = json!({"matcher": [["name", "=", "a"]], "max_running": 1,
                "rate": {"count": 1, "period": 1, "burst": 2}, "per": "argument.host"});
            vec![(constraint, &messages::CONSTRAINT)]
        }
        _ => Vec::new(),
    }
}

fn request(route: &Route, more: &str, body: &[u8]) -> Vec<u8> {
    let (verb, target, own) = (verb(route).to_uppercase(), target(route), fields(route));
    let length = body.len();
    let mut bytes = format!(
        "{verb} {target} HTTP/1.1\r\nHost: localhost\r\n{own}{more}Content-Length: {length}\r\n\r\n"
    )
    .into_bytes();
    bytes.extend_from_slice(body);
    bytes
}

const AS_JSON: &str = "Content-Type: application/json\r\n";

/// Valid requests for a route.
pub(super) fn requests(route: &Route) -> Vec<Vec<u8>> {
    let operation = of(route).unwrap();
    let mut bodies: Vec<Value> = bodies(operation).into_iter().map(|(body, _)| body).collect();
    let is_bare = bodies.is_empty();
    if is_bare {
        bodies.push(Value::Null);
    }
    let mut requests = Vec::new();
    for body in bodies {
        let bytes = if is_bare { Vec::new() } else { packed(&body) };
        requests.push(request(route, "", &bytes));
        let text = if is_bare { String::new() } else { body.to_string() };
        requests.push(request(route, AS_JSON, text.as_bytes()));
    }
    requests
}

/// Invalid requests that only this route has.
pub(super) fn faults(route: &Route) -> Vec<String> {
    let Some(operation) = of(route) else { return Vec::new() };
    let (verb, target) = (verb(route).to_uppercase(), target(route));
    let with = |target: &str, fields: &str| {
        format!("{verb} {target} HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n")
    };
    let mut faults = Vec::new();
    if operation.names_worker() {
        faults.push(with(&target, "Content-Length: 0\r\n"));
    }
    if operation == lightjq::Operation::Await {
        faults.push(with(&format!("{target}?timeout=x"), ""));
    }
    if route.method.has_body() {
        faults.push(with(&target, "worker-id: 3\r\nContent-Length: 1\r\n") + "{");
        faults.push(with(&target, "Content-Type: text/plain\r\nContent-Length: 1\r\n") + "x");
    }
    let typed = |fields: &str| with(&target, &format!("{AS_JSON}{fields}"));
    let own = fields(route);
    faults.extend([
        typed(&format!("{own}Transfer-Encoding: chunked\r\n")) + "zz\r\n",
        typed(&format!("{own}Content-Length: 5\r\n")) + "{",
        typed(&format!("{own}Content-Length: 99999999\r\n")),
        typed(&format!("{own}Expect: more\r\nContent-Length: 0\r\n")),
        typed("Sec-Fetch-Site: cross-site\r\n"),
        format!("{verb} {target} HTTP/1.1\r\nHost: evil.example\r\n{AS_JSON}\r\n"),
    ]);
    if operation.names_worker() {
        faults.push(typed("Content-Length: 0\r\n"));
    }
    if operation == lightjq::Operation::Await {
        faults.push(with(&format!("{target}?timeout=x"), AS_JSON));
    }
    if route.method.has_body() {
        faults.push(typed(&format!("{own}Content-Length: 1\r\n")) + "[");
        faults.push(typed(own));
        let coded = format!("{own}Content-Length: 2\r\nContent-Encoding: gzip\r\n");
        faults.push(typed(&coded) + "{}");
        faults.push(
            with(
                &target,
                "Accept: application/json\r\nContent-Type: text/plain\r\n\
            Content-Length: 1\r\n",
            ) + "x",
        );
    }
    faults
}

fn progress(status: Status) -> Reply<'static> {
    let value = Payload { encoding: Encoding::JsonLine, bytes: b"[1]" };
    let (id, priority) = (JobId(7), Priority::Small(0));
    let job =
        JobView { id, queue: b"q", priority, payload: value, lease: LeaseEpoch(1), named: false };
    let due = Some(Mono(1));
    let sight = JobInfo { job, status, due, lease_ms: 0, retries: 1, result: Some(value) };
    let (worker, message) = (Some(WorkerId(3)), Some("m"));
    Reply::JobStatus(Box::new(JobStatus { info: sight, worker, message }))
}

/// All kinds of replies to a command, as `model::worker` says.
pub(super) fn replies(command: &Command<'_>) -> Vec<Reply<'static>> {
    static CONSTRAINT: LazyLock<Constraint> = LazyLock::new(|| {
        let body = &bodies(lightjq::Operation::SetConstraint)[0].0;
        messages::read_constraint("c", &packed(body)).unwrap()
    });
    static SURVEY: LazyLock<QueueScan> = LazyLock::new(|| {
        let held = |id, progress| ReservedJob {
            id: JobId(id),
            name: (id > 8).then(|| Box::from(*b"n")),
            progress,
            since: Wall(1),
        };
        QueueScan {
            ready: vec![ReadyOrderKey { rank: 1, tie: 1, id: JobId(7) }],
            reserved: vec![held(8, None), held(9, Fraction::new(0.5))],
            next: None,
        }
    });
    let refused = [Rejection::Full, Rejection::DiskFull].map(Reply::Rejected);
    let [full, disk_full] = refused;
    if let Command::Peek { .. } = command {
        let Reply::JobStatus(progress) = progress(Status::Ready) else { panic!() };
        return vec![Reply::Peeked(Box::new(progress.info)), Reply::NoJob];
    }
    let Command::Work(work) = command else { return vec![Reply::Put(JobId(7)), full, disk_full] };
    let going = [Status::Reserved, Status::Completed, Status::Buried, Status::Ready].map(progress);
    let mut replies = Vec::new();
    match work {
        WorkerCommand::GetStatus { .. } => {
            replies.extend(going);
            replies.extend([TrackedReply::Deleted, TrackedReply::NoJob].map(Reply::Tracked));
        }
        WorkerCommand::AwaitResult { .. } => {
            replies.extend(going);
            replies.extend([TrackedReply::Deleted, TrackedReply::NoJob].map(Reply::Tracked));
            replies.extend([TrackedReply::NotYet, TrackedReply::Cancelled].map(Reply::Tracked));
        }
        WorkerCommand::Cancel { .. } => {
            replies.extend([TrackedReply::Removed, TrackedReply::Deleted].map(Reply::Tracked));
            replies.extend([TrackedReply::NoJob, TrackedReply::TooLate].map(Reply::Tracked));
        }
        WorkerCommand::Register(_) => {
            replies.push(Reply::Registered(WorkerId(3)));
            replies.extend([WorkerReply::Full, WorkerReply::DiskFull].map(Reply::Worker));
        }
        WorkerCommand::Deregister { .. } => {
            replies.extend([WorkerReply::Done, WorkerReply::NoWorker].map(Reply::Worker));
        }
        WorkerCommand::Report { .. } => replies.extend([Reply::Done, Reply::NoJob, disk_full]),
        WorkerCommand::GetConstraint { .. } => {
            let none = Reply::Constraint(ConstraintReply::NoConstraint);
            replies.extend([Reply::ConstraintFound(&CONSTRAINT), none]);
        }
        WorkerCommand::SetConstraint(_) => {
            let done = [true, false].map(|new| ConstraintReply::Set { new });
            let full = [ConstraintReply::Full, ConstraintReply::DiskFull];
            replies.extend(done.into_iter().chain(full).map(Reply::Constraint));
        }
        WorkerCommand::ScanQueue { .. } => {
            return vec![Reply::QueueScan(&SURVEY), Reply::QueueScan(&SURVEY)];
        }
        WorkerCommand::RemoveConstraint { .. } => {
            let done = [ConstraintReply::Removed, ConstraintReply::NoConstraint];
            replies.extend(done.map(Reply::Constraint));
        }
        _ => panic!("this is not asked here: {work:?}"),
    }
    replies
}

/// Whether a body is accepted.
fn is_read(operation: lightjq::Operation, body: &Value) -> bool {
    let request = lightjq::Request {
        operation,
        job: JobId::NEVER,
        details: lightjq::RequestParams::NONE,
        name: b"c",
        body: &packed(body),
    };
    let text = body.to_string();
    let details = lightjq::RequestParams { is_json: true, ..request.details };
    let in_json = lightjq::Request { details, body: text.as_bytes(), ..request };
    let [packed, json] = [request, in_json]
        .map(|request| lightjq::parse(request, &mut lightjq::Scratch::default()).is_ok());
    assert_eq!(packed, json, "{body}");
    packed
}

#[test]
fn msgpack_schema_has_the_fields_that_are_parsed() {
    let (document, mut seen) = (parsed(), 0);
    for route in &ROUTES {
        let Some(operation) = of(route) else { continue };
        for (whole, table) in bodies(operation) {
            seen += 1;
            let content = &documented(route, &document)["requestBody"]["content"];
            let schema = &content["application/msgpack"]["schema"];
            let agrees = |body: &Value| {
                let fits = fits(schema, body, &document);
                assert_eq!(is_read(operation, body), fits.is_ok(), "{body}: {fits:?}");
                fits.is_ok()
            };
            assert!(agrees(&whole), "{}", route.name);
            assert_eq!(whole.as_object().unwrap().len(), table.len(), "{}", route.name);
            for field in table {
                let mut less = whole.clone();
                less.as_object_mut().unwrap().remove(field.name);
                agrees(&less);
                for strange in [json!(null), json!(-1), json!(true), json!([[1]]), json!({"a": 1})]
                {
                    let mut other = whole.clone();
                    other[field.name] = strange;
                    agrees(&other);
                }
                let free = matches!(
                    field.kind,
                    FieldKind::Moment | FieldKind::Path | FieldKind::Url | FieldKind::Id
                );
                for strange in ["x", ""].into_iter().filter(|_| !free) {
                    let mut other = whole.clone();
                    other[field.name] = json!(strange);
                    agrees(&other);
                }
            }
            let mut more = whole.clone();
            more["unknown"] = json!(1);
            agrees(&more);
        }
    }
    assert_eq!(seen, 5);
}

#[test]
fn webhook_describes_the_delivery_request() {
    let document = parsed();
    let hook = &document["webhooks"]["worker-job"]["post"];
    let schema = &hook["requestBody"]["content"]["application/msgpack"]["schema"];
    let mut body = Vec::new();
    let argument = Payload { encoding: Encoding::Json, bytes: b"{}" };
    let job = messages::WorkerJob { id: "7", name: "n", argument, timeout_ms: Some(1500) };
    job.write(&mut body);
    assert_eq!(fits(schema, &shown(&body), &document), Ok(()));
    let mut less = shown(&body);
    less.as_object_mut().unwrap().remove("name");
    fits(schema, &less, &document).unwrap_err();
    let answers = hook["responses"].as_object().unwrap();
    assert_eq!(answers.keys().collect::<Vec<_>>(), ["202", "400", "404", "default"]);
}
