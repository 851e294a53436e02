//! The document against the table of routes, and against what sessions read and write.

use super::msgpack_schema;
use super::schema_check::fits;
use super::*;
use crate::base::buf::{BufferPool, Input, OutBuf};
use crate::base::limits::OUTPUT_HIGH_WATER_BYTES;
use crate::base::time::{Now, Wall};
use crate::model::command::Command;
use crate::model::event::{Event, EventKind, EventLog};
use crate::model::id::{ClientId, JobId};
use crate::model::indexed_queue::{IndexedCommand, IndexedPage, IndexedReply, QueueSize};
use crate::model::job::Encoding;
use crate::model::reply::Reply;
use crate::model::row::{Row, Rows};
use crate::model::stats::StatsPage;
use crate::protocol::http::{Scratch, Session, write_full};
use crate::protocol::queue_listing::{WorkerRow, WorkerRows};
use crate::protocol::{SessionAction, SessionContext};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

pub(super) fn parsed() -> Value {
    serde_json::from_str(document()).unwrap()
}

pub(super) fn verb(route: &Route) -> &'static str {
    match route.method {
        Method::Get => "get",
        Method::Post => "post",
        Method::Put => "put",
        Method::Delete => "delete",
    }
}

pub(super) fn documented<'a>(route: &Route, document: &'a Value) -> &'a Value {
    &document["paths"][template(route.path)][verb(route)]
}

#[test]
fn document_has_exactly_the_routes() {
    let document = parsed();
    assert_eq!(document["openapi"], "3.1.0");
    assert!(super::document().len() <= OUTPUT_HIGH_WATER_BYTES, "it is written at once");
    let mut rows = BTreeMap::new();
    let paths = document["paths"].as_object().unwrap();
    for (path, item) in paths.iter().filter(|(path, _)| !path.starts_with("/api/v1/")) {
        for (verb, operation) in item.as_object().unwrap() {
            rows.insert((path.clone(), verb.clone()), operation["operationId"].clone());
        }
    }
    let row = |route: &Route| ((template(route.path), verb(route).to_owned()), json!(route.name));
    assert_eq!(rows, ROUTES.iter().map(row).collect());
    for route in &ROUTES {
        let operation = documented(route, &document);
        let listed = operation["parameters"].as_array().cloned().unwrap_or_default();
        let named: Vec<_> = listed.iter().map(|parameter| &parameter["name"]).collect();
        let braced: Vec<_> = route.path.iter().filter_map(parameter).collect();
        let braced: Vec<_> = braced.iter().map(|parameter| json!(parameter.name)).collect();
        let (within, beside) = named.split_at(braced.len().min(named.len()));
        assert_eq!(within, braced.iter().collect::<Vec<_>>(), "{}", route.name);
        assert_eq!(beside, beside_path(route).iter().collect::<Vec<_>>(), "{}", route.name);
        for parameter in &listed[..braced.len()] {
            assert_eq!((&parameter["in"], &parameter["required"]), (&json!("path"), &json!(true)));
        }
        let posts = route.method.has_body();
        assert_eq!(operation.get("requestBody").is_some(), posts, "{}", route.name);
    }
}

/// An event of every kind.
fn event_kinds() -> Vec<EventKind> {
    let by = Some(ClientId { index: 7, generation: 1 });
    let (old, new) = (Arc::from(*b"null"), Arc::from(*b"{\"a\":[1]}"));
    vec![
        EventKind::Created,
        EventKind::Advanced { old, new },
        EventKind::User(Box::from(*b"[null]")),
        EventKind::Reserved { by },
        EventKind::Reserved { by: None },
        EventKind::Aborted,
        EventKind::Abandoned,
        EventKind::Expired,
        EventKind::Failed,
        EventKind::Retried,
        EventKind::Finished,
        EventKind::Buried,
        EventKind::Kicked,
        EventKind::Due,
        EventKind::Changed,
    ]
}

fn row() -> Arc<Row> {
    let mut events = EventLog::default();
    for what in event_kinds() {
        events = events.with(Event { kind: what, at: 1_790_000_000 });
    }
    Arc::new(Row {
        id: JobId(jobq::ID_MAX),
        version: 1,
        queue: Arc::from(*b"q"),
        priority: None,
        encoding: Encoding::Packet { key_len: 1 },
        payload: Arc::from(*b"k\xff"),
        state: Arc::from(*b"\"A\""),
        events,
        modified: 1_790_000_000,
    })
}

/// Test data with a static lifetime.
fn leak<T>(value: T) -> &'static T {
    Box::leak(Box::new(value))
}

/// All kinds of replies to a command, as `model::indexed_queue` says. `default`: the path names no
/// queue, so its queue exists.
fn replies(watch: &IndexedCommand<'_>, default: bool) -> Vec<Reply<'static>> {
    static NOTHING: StatsPage = StatsPage { queues: Vec::new(), counts: Vec::new(), next: None };
    let page = |page| vec![Reply::IndexedPage(leak(page))];
    let row = row();
    let mut rows = Rows::new();
    rows.insert(row.key(), row.clone());
    let (name, jobs) = (Box::from(*b"q"), 3);
    let (full, disk_full) = (IndexedReply::Full, IndexedReply::DiskFull);
    let row = || IndexedReply::Row(row.clone());
    let bad = IndexedReply::BadQuery("no".into());
    let mut pages = Vec::new();
    let mut replies = match watch {
        IndexedCommand::Stats(_) => return vec![Reply::Stats(&NOTHING)],
        IndexedCommand::Queues { .. } => {
            return page(IndexedPage::Queues {
                queues: vec![QueueSize { name, jobs }],
                next: None,
            });
        }
        IndexedCommand::CreateQueue { .. } => {
            let queue = IndexedReply::Queue((*b"q").into());
            let replies = [queue, IndexedReply::QueueExists, full, disk_full];
            return replies.map(|reply| Reply::Indexed(leak(reply))).into();
        }
        IndexedCommand::DropQueue { .. } => {
            pages = page(IndexedPage::QueueDropped { jobs, more: false });
            Vec::new()
        }
        IndexedCommand::List { .. } => vec![IndexedReply::Rows(rows)],
        IndexedCommand::Find { .. } => {
            vec![IndexedReply::QueryRows(rows.values().cloned().collect()), bad]
        }
        IndexedCommand::Poll { .. } => vec![row(), IndexedReply::NoJob, bad, disk_full],
        IndexedCommand::Put { .. } => vec![row(), full, disk_full],
        IndexedCommand::Show { .. } => vec![row(), IndexedReply::NoJob],
        IndexedCommand::Delete { .. } => vec![IndexedReply::Done, IndexedReply::NoJob],
        IndexedCommand::CompareAndSetState { .. } => {
            let conflict = IndexedReply::Conflict(Arc::from(*b"[1]"));
            vec![row(), IndexedReply::NoJob, conflict, disk_full]
        }
        IndexedCommand::AppendEvent { .. } => {
            vec![row(), IndexedReply::NoJob, IndexedReply::LogFull, disk_full]
        }
    };
    if !default {
        replies.push(IndexedReply::NoQueue);
    }
    pages.extend(replies.into_iter().map(|reply| Reply::Indexed(leak(reply))));
    pages
}

/// The parameters of a route that are not in its path.
fn beside_path(route: &Route) -> Vec<Value> {
    match route.operation {
        Operation::Jobq(jobq::Operation::Queues) => vec![json!("names")],
        _ => msgpack_schema::beside(route),
    }
}

pub(super) fn target(route: &Route) -> String {
    let path = template(route.path).replace("{queue}", "q").replace("{id}", "7");
    path.replace("{job_id}", "7").replace("{name}", "c")
}

/// A body with every member that this operation reads; any other body is an event.
fn body(operation: Operation) -> Value {
    let query = json!([["IS", "state", null]]);
    match operation {
        Operation::Jobq(jobq::Operation::CreateQueue) => json!({"id": "q"}),
        Operation::Jobq(jobq::Operation::Find) => json!({"query": query, "limit": 5}),
        Operation::Jobq(jobq::Operation::Poll) => json!({"query": query, "state": 2}),
        Operation::Jobq(jobq::Operation::Put) => json!({"payload": 1, "state": 2}),
        Operation::Jobq(jobq::Operation::CompareAndSetState) => json!({"old": 3, "new": 4}),
        _ => json!({"anything": 1}),
    }
}

/// Valid requests for a route.
fn requests(route: &Route) -> Vec<Vec<u8>> {
    match route.operation {
        Operation::LightJq(_) => msgpack_schema::requests(route),
        Operation::Index => {
            let plain = request(route, "");
            let page = plain.replace("\r\n\r\n", "\r\nAccept: text/html,*/*;q=0.8\r\n\r\n");
            vec![plain.into_bytes(), page.into_bytes()]
        }
        Operation::Metrics => {
            let plain = request(route, "");
            let accept = "\r\nAccept: application/openmetrics-text\r\n\r\n";
            vec![plain.replace("\r\n\r\n", accept).into_bytes(), plain.into_bytes()]
        }
        operation => vec![request(route, &body(operation).to_string()).into_bytes()],
    }
}

fn request(route: &Route, body: &str) -> String {
    let (verb, length) = (verb(route).to_uppercase(), body.len());
    let framing = if route.method == Method::Post {
        format!("Content-Length: {length}\r\n")
    } else {
        String::new()
    };
    let body = if route.method == Method::Post { body } else { "" };
    format!("{verb} {} HTTP/1.1\r\nHost: localhost\r\n{framing}\r\n{body}", target(route))
}

/// The output of a session that is given `bytes`, and reply number `choice` of the engine; then it
/// times out if it still waits. Also the number of replies to choose from.
fn answer(route: &Route, bytes: &[u8], choice: usize) -> (Vec<u8>, usize) {
    let mut shared = SessionContext::new(1_000);
    let (mut session, mut out) = (Session::new(Now::default()), OutBuf::default());
    out.prepare(&mut BufferPool::default());
    let mut input = Input::new(bytes);
    let mut choices = 1;
    loop {
        match session.poll_command(&mut input, &mut shared, &mut out) {
            SessionAction::Submit(serial, Command::Indexed(command)) => {
                let replies = replies(&command, !route.path.contains(&Segment::Queue));
                choices = replies.len();
                session.handle_reply(serial, &replies[choice]);
            }
            SessionAction::Submit(serial, command) => {
                let replies = msgpack_schema::replies(&command);
                choices = replies.len();
                session.handle_reply(serial, &replies[choice]);
            }
            SessionAction::FetchStats(_) => {
                shared.turn.stats = Some(Box::default());
            }
            SessionAction::FetchWorkers(..) => {
                let member = |busy| WorkerRow { uuid: "w".into(), busy, seen: Wall(7) };
                let list = vec![member(false), member(true)];
                shared.turn.workers = Some(WorkerRows { list, next: None });
            }
            SessionAction::Continue | SessionAction::Yield => {}
            SessionAction::NeedInput if out.unsent().is_empty() => {
                session.handle_timeout(&mut shared, &mut out);
            }
            SessionAction::NeedInput | SessionAction::Close => {
                return (out.unsent().to_vec(), choices);
            }
            other => panic!("{other:?}"),
        }
    }
}

/// Status, media type and body of a response in one piece.
fn split(bytes: &[u8]) -> (String, Option<String>, Vec<u8>) {
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
    let head = std::str::from_utf8(&bytes[..end]).unwrap();
    let kind = head.lines().find_map(|line| line.strip_prefix("Content-Type: "));
    (head[9..12].to_owned(), kind.map(str::to_owned), bytes[end + 4..].to_vec())
}

/// Requests for a route that are invalid HTTP, and the response of a server beyond `--max-clients`.
fn faults(route: &Route) -> Vec<Vec<u8>> {
    let (verb, target) = (verb(route).to_uppercase(), target(route));
    let own = msgpack_schema::fields(route);
    let with =
        |fields: &str| format!("{verb} {target} HTTP/1.1\r\nHost: localhost\r\n{own}{fields}\r\n");
    let mut bytes = vec![
        with("Transfer-Encoding: chunked\r\n") + "zz\r\n",
        with("Transfer-Encoding: gzip\r\n"),
        with("Content-Length: 5\r\n") + "{",
        with("Content-Length: 99999999\r\n"),
        format!("{verb} {target}?{} HTTP/1.1\r\nHost: localhost\r\n\r\n", "x".repeat(9_000)),
        with("Expect: more\r\nContent-Length: 0\r\n"),
        with(&"A: b\r\n".repeat(100)),
        format!("{verb} {target} HTTP/2.0\r\nHost: localhost\r\n\r\n"),
        format!("{verb} {target} HTTP/1.1\r\n"),
        format!("{verb} {target} HTTP/1.1\r\n\r\n"),
        format!("{verb} {target} HTTP/1.1\r\nHost: evil.example\r\n\r\n"),
        with("Sec-Fetch-Site: cross-site\r\n"),
    ];
    if route.method.has_body() {
        bytes.push(with(""));
        bytes.push(with("Origin: http://localhost\r\nContent-Length: 2\r\n") + "{}");
        bytes.push(with("Content-Length: 2\r\nContent-Encoding: gzip\r\n") + "{}");
    }
    bytes.extend(msgpack_schema::faults(route));
    bytes.into_iter().map(String::into_bytes).collect()
}

#[test]
fn every_response_is_documented_and_no_other() {
    let document = parsed();
    for route in &ROUTES {
        let mut full = Vec::new();
        write_full(7, &mut full);
        let mut answers = vec![full];
        answers.extend(faults(route).iter().map(|bytes| answer(route, bytes, 0).0));
        for good in requests(route) {
            let choices = answer(route, &good, 0).1;
            answers.extend((0..choices).map(|choice| answer(route, &good, choice).0));
        }
        let mut seen = BTreeSet::new();
        for bytes in answers {
            let (status, kind, body) = split(&bytes);
            let content = &documented(route, &document)["responses"][&status]["content"];
            if let Some(kind) = &kind {
                let schema = &content[kind]["schema"];
                assert!(schema.is_object(), "{} answers {status} with {kind}", route.name);
                let body = match kind.as_str() {
                    JSON => serde_json::from_slice(&body).unwrap(),
                    MSGPACK => msgpack_schema::shown(&body),
                    _ => json!(""),
                };
                if let Err(why) = fits(schema, &body, &document) {
                    panic!("{} {status} {body}: {why}", route.name);
                }
            }
            seen.insert((status, kind));
        }
        let mut listed = BTreeSet::new();
        for (status, response) in documented(route, &document)["responses"].as_object().unwrap() {
            match response["content"].as_object() {
                None => drop(listed.insert((status.clone(), None))),
                Some(kinds) => {
                    listed.extend(kinds.keys().map(|kind| (status.clone(), Some(kind.clone()))));
                }
            }
        }
        assert_eq!(seen, listed, "{}", route.name);
    }
}

/// The command that a body is parsed into.
fn understood(operation: jobq::Operation, body: &Value) -> Result<String, u16> {
    let mut work = Scratch::default();
    let text = body.to_string();
    let question = jobq::prepare(operation, false, text.as_bytes(), &mut work);
    let question = question.map_err(|problem| problem.status)?;
    let carried = String::from_utf8_lossy(&text.as_bytes()[work.text.clone()]).into_owned();
    let Scratch { queue, named, old, new, .. } = work;
    Ok(format!("{question:?} {carried} {queue:?} {named} {old:?} {new:?}"))
}

#[test]
fn body_schema_accepts_what_the_parser_accepts() {
    let document = parsed();
    for route in &ROUTES {
        let (Operation::Jobq(operation), Method::Post) = (route.operation, route.method) else {
            continue;
        };
        let body = &documented(route, &document)["requestBody"];
        assert_eq!(body["required"], true);
        let schema = &body["content"]["application/json"]["schema"];
        let whole = self::body(route.operation);
        assert_eq!(fits(schema, &whole, &document), Ok(()), "{}", route.name);
        if operation == jobq::Operation::AppendEvent {
            assert_eq!(fits(schema, &json!([null, 1.5]), &document), Ok(()));
            continue;
        }
        let shape = document.pointer(schema["$ref"].as_str().unwrap().trim_start_matches('#'));
        let shape = shape.unwrap();
        let as_it_is = understood(operation, &whole).unwrap();
        let (mut read, mut required) = (BTreeSet::new(), BTreeSet::new());
        for name in whole.as_object().unwrap().keys() {
            let mut less = whole.clone();
            less.as_object_mut().unwrap().remove(name);
            let without = understood(operation, &less);
            if without != Ok(as_it_is.clone()) {
                read.insert(name.clone());
            }
            if without == Err(400) {
                required.insert(name.clone());
            }
            // So is a member that is unknown, or belongs to another operation.
            for other in ["unknown", "payload", "state", "old", "id", "query", "limit"] {
                if whole.get(other).is_none() {
                    let mut more = whole.clone();
                    more[other] = json!(1);
                    assert!(fits(schema, &more, &document).is_err(), "{} {more}", route.name);
                    assert_eq!(understood(operation, &more), Err(400), "{} {more}", route.name);
                }
            }
            // What the schema rejects is rejected, and nothing else.
            for strange in [json!(null), json!(-1), json!("x"), json!(""), json!([[1]]), json!([])]
            {
                let mut other = whole.clone();
                other[name] = strange;
                let fits = fits(schema, &other, &document).is_ok();
                assert_eq!(understood(operation, &other).is_ok(), fits, "{} {other}", route.name);
            }
        }
        let listed = shape["properties"].as_object().unwrap().keys().cloned().collect();
        assert_eq!(read, listed, "{}", route.name);
        let listed = shape["required"].as_array().into_iter().flatten();
        let listed = listed.map(|name| name.as_str().unwrap().to_owned()).collect();
        assert_eq!(required, listed, "{}", route.name);
    }
}

#[test]
fn links_of_responses_name_existing_operations() {
    let document = parsed();
    let links = |name: &str, status: &str| {
        let route = ROUTES.iter().find(|route| route.name == name).unwrap();
        documented(route, &document)["responses"][status]["links"].clone()
    };
    let (id, queue) = ("$response.body#/id", "$request.path.queue");
    let link =
        |name: &str, parameters: Value| json!({"operationId": name, "parameters": parameters});
    let expected = ["show_job", "delete_job", "advance_job", "append_event"]
        .map(|name| (name.to_owned(), link(name, json!({"id": id, "queue": queue}))));
    for name in ["create_job", "poll_job"] {
        assert_eq!(links(name, "200"), Value::from_iter(expected.clone()));
    }
    let expected = ["show", "delete", "advance"]
        .map(|verb| format!("{verb}_default_job"))
        .into_iter()
        .chain(["append_default_event".to_owned()])
        .map(|name| (name.clone(), link(&name, json!({"id": id}))));
    assert_eq!(links("create_default_job", "200"), expected.collect::<Value>());
    let expected = ["delete_queue", "list_jobs", "query_jobs", "poll_job", "create_job"]
        .into_iter()
        .map(|name| (name.to_owned(), link(name, json!({"queue": id}))));
    assert_eq!(links("create_queue", "201"), expected.collect::<Value>());
    assert_eq!(links("show_job", "200"), Value::Null);
}

#[test]
fn document_equals_the_generated_file() {
    let text = document().replace(env!("CARGO_PKG_VERSION"), "VERSION");
    let document: Value = serde_json::from_str(&text).unwrap();
    let expected = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/texts/openapi.json"));
    let expected: Value = serde_json::from_str(expected).unwrap();
    let now = serde_json::to_string_pretty(&document).unwrap();
    assert!(document == expected, "this is the document now:\n{now}");
}
