//! The session alone, with replies that the test makes.

use super::messages::{Field, JOB, WORKER};
use crate::base::buf::{Input, OutBuf};
use crate::base::time::Now;
use crate::model::command::Command;
use crate::model::id::JobId;
use crate::model::job::{Encoding, JobOptions, Priority, Retry, TieBreak};
use crate::model::reply::{Rejection, Reply};
use crate::model::worker::{ConstraintReply, TrackedReply};
use crate::protocol::http::Session;
use crate::protocol::{SessionAction, SessionContext};
use crate::wire::msgpack::{from_json, to_json};
use serde_json::{Value, json};

struct Client {
    session: Session,
    shared: SessionContext,
    out: OutBuf,
    serial: u32,
}

fn request(line: &str, fields: &str, body: &[u8]) -> Vec<u8> {
    let length = body.len();
    let head =
        format!("{line} HTTP/1.1\r\nHost: localhost\r\n{fields}Content-Length: {length}\r\n\r\n");
    [head.as_bytes(), body].concat()
}

fn packed(json: &Value) -> Vec<u8> {
    let mut bytes = Vec::new();
    from_json(json.to_string().as_bytes(), &mut bytes).unwrap();
    bytes
}

impl Client {
    fn new() -> Self {
        let session = Session::new(Now::default());
        Self { session, shared: SessionContext::new(1000), out: OutBuf::default(), serial: 0 }
    }

    /// Offers bytes, or a turn without input. Returns the command, or the action, as text.
    fn turn(&mut self, bytes: &[u8]) -> String {
        let mut input = Input::new(bytes);
        let step = self.session.poll_command(&mut input, &mut self.shared, &mut self.out);
        let (serial, words) = match step {
            SessionAction::Submit(serial, Command::Work(command)) => {
                (serial, format!("{command:?}"))
            }
            SessionAction::Submit(serial, command) => (serial, words(&command)),
            step => (self.serial, format!("{step:?}")),
        };
        self.serial = serial;
        words
    }

    fn ask(&mut self, line: &str, fields: &str, body: &Value) -> String {
        let body = if body.is_null() { Vec::new() } else { packed(body) };
        self.turn(&request(line, fields, &body))
    }

    fn reply(&mut self, reply: &Reply<'_>) -> (u16, String) {
        self.session.handle_reply(self.serial, reply);
        assert!(self.session.wants_poll());
        assert_eq!(self.turn(b""), "Continue");
        self.written()
    }

    /// Status and body (as JSON) of the response.
    fn written(&mut self) -> (u16, String) {
        let bytes = std::mem::take(self.out.tail());
        let end = bytes.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
        let head = std::str::from_utf8(&bytes[..end]).unwrap();
        let (status, body) = (head[9..12].parse().unwrap(), &bytes[end + 4..]);
        let mut text = Vec::new();
        if head.contains("application/msgpack") {
            to_json(body, &mut text).unwrap();
        } else {
            text.extend_from_slice(body.strip_suffix(b"\n").unwrap_or(body));
        }
        (status, String::from_utf8(text).unwrap())
    }
}

fn words(command: &Command<'_>) -> String {
    let Command::Put { queue, priority, tie_break, payload, options: Some(options) } = command
    else {
        return format!("{command:?}");
    };
    let Priority::Small(priority) = priority else { panic!("{priority:?}") };
    assert_eq!(*tie_break, TieBreak::Fifo);
    let mut json = Vec::new();
    match payload.encoding {
        Encoding::Json => json.extend_from_slice(payload.bytes),
        _ => to_json(payload.bytes, &mut json).unwrap(),
    }
    let JobOptions { delay_ms: 0, ttl_ms: 0, retry, tracked: true, result_once: true, .. } =
        options
    else {
        panic!("{options:?}")
    };
    let Some(Retry { limit, first_ms: 1000, factor: 2, max_ms: 3_600_000, jitter_percent: 10 }) =
        retry
    else {
        panic!("{retry:?}")
    };
    let (lease, keep, bury) =
        (options.lease_ms, options.result_retention_ms, options.dead_retention_ms);
    let (queue, json) = (queue.escape_ascii(), String::from_utf8(json).unwrap());
    format!("{queue} {json} {priority} lease {lease} retries {limit} keep {keep} bury {bury}")
}

#[test]
fn pushed_job_submits_a_put_with_its_options() {
    let mut client = Client::new();
    client.shared.settings.result_ttl_ms = 7000;
    let plain = json!({"name": "sum", "argument": {"a": [1]}});
    let expected = r#"sum {"a":[1]} 0 lease 30000 retries 10 keep 0 bury 7000"#;
    assert_eq!(client.ask("POST /job", "", &plain), expected);
    assert_eq!(client.reply(&Reply::Put(JobId(7))), (201, r#"{"job_id":"7"}"#.to_owned()));
    let full = json!({"name": "n", "argument": null, "priority": -2_147_483_648_i64,
        "max_retry": 0, "keep_result": true, "timeout": 0.25});
    let expected = "n null 2147483648 lease 250 retries 0 keep 7000 bury 7000";
    assert_eq!(client.ask("POST /job", "", &full), expected);
    let (status, why) = client.reply(&Reply::Rejected(Rejection::Full));
    assert_eq!((status, why.contains("no place left for another job")), (503, true));
    // The same with a body that arrives later, in pieces.
    let bytes = request("POST /job", "", &packed(&full));
    let (last, before) = bytes.split_last().unwrap();
    assert_eq!(client.turn(before), "NeedInput");
    assert_eq!(client.turn(&[*last]), expected);
    let (status, why) = client.reply(&Reply::Rejected(Rejection::DiskFull));
    assert_eq!((status, why.contains("disk is full")), (507, true));
}

#[test]
fn every_lightjq_route_submits_its_command() {
    let worker = json!({"name": "w", "url": "http://h:1", "max_jobs": 3, "jobs": ["a", "b"]});
    let done = json!({"job_id": "7", "type": "success", "result": 1});
    let constraint = json!({"matcher": [], "max_running": 1});
    for (line, body, asked) in [
        ("GET /job/7", Value::Null, "GetStatus { id: JobId(7) }"),
        ("GET /job/007", Value::Null, "GetStatus { id: JobId(0) }"),
        ("GET /job/x", Value::Null, "GetStatus { id: JobId(0) }"),
        ("GET /job/7/polling", Value::Null, "AwaitResult { id: JobId(7), wait_ms: 5000 }"),
        (
            "GET /job/7/polling?timeout=0.5",
            Value::Null,
            "AwaitResult { id: JobId(7), wait_ms: 500 }",
        ),
        ("GET /job/7/polling?timeout=0&x", Value::Null, "AwaitResult { id: JobId(7), wait_ms: 0 }"),
        (
            "GET /job/7/polling?timeout=1&%74imeout=99999999999999999999",
            Value::Null,
            "AwaitResult { id: JobId(7), wait_ms: 18446744073709551615 }",
        ),
        ("DELETE /job/7", Value::Null, "Cancel { id: JobId(7) }"),
        ("POST /worker", worker, "Register(Worker { name: \"w\", url: \"http://h:1\", max_jobs: 3"),
        ("DELETE /worker", Value::Null, "Deregister { worker: WorkerId(3) }"),
        ("POST /done", done, "Report { worker: WorkerId(3), id: JobId(7), report: Success"),
        ("GET /constraint/a%2Fb", Value::Null, "GetConstraint { name: \"a/b\" }"),
        (
            "PUT /constraint/%C3%A9",
            constraint,
            "SetConstraint(Constraint { name: \"é\", matcher: []",
        ),
        ("DELETE /constraint/c", Value::Null, "RemoveConstraint { name: \"c\" }"),
    ] {
        let found = Client::new().ask(line, "Worker-Id: 3\r\n", &body);
        assert!(found.starts_with(asked), "{line}: {found}");
    }
    let unknown = Client::new().ask("DELETE /worker", "worker-id: 03\r\n", &Value::Null);
    assert_eq!(unknown, "Deregister { worker: WorkerId(0) }", "no worker has this id");
}

/// The response to a request that submits no command.
fn refused(line: &str, fields: &str, body: &[u8]) -> (u16, String) {
    let mut client = Client::new();
    if client.turn(&request(line, fields, body)) == "Continue" && client.out.is_empty() {
        assert!(client.session.wants_poll());
        assert_eq!(client.turn(b""), "Continue");
    }
    let (status, text) = client.written();
    assert!(client.session.is_settled());
    let error: Value = serde_json::from_str(&text).unwrap();
    (status, error["error"].as_str().unwrap().to_owned())
}

#[test]
fn field_error_names_the_field() {
    let job = json!({"name": "n", "argument": 1, "priority": 1, "max_retry": 2,
        "keep_result": true, "timeout": 1});
    let worker = json!({"name": "w", "url": "http://h:1", "max_jobs": 3, "jobs": ["a"]});
    let tables: [(&str, Value, &[Field]); 2] =
        [("POST /job", job, &JOB), ("POST /worker", worker, &WORKER)];
    let mut wrong = 0;
    for (line, whole, table) in tables {
        for field in table.iter().filter(|field| field.name != "argument") {
            let mut body = whole.clone();
            body[field.name] = json!({});
            let (status, why) = refused(line, "", &packed(&body));
            assert_eq!(status, 400);
            assert!(why.starts_with(&format!("field '{}' must be ", field.name)), "{why}");
            wrong += 1;
        }
    }
    assert_eq!(wrong, 9);
    let id = "Worker-Id: 3\r\n";
    for (line, body, words) in [
        ("POST /job", json!({"name": "n"}), "field 'argument' is missing"),
        ("POST /worker", json!({"name": "n", "max_jobs": 1}), "field 'url' is missing"),
        ("POST /done", json!({"type": "success"}), "field 'job_id' is missing"),
        ("POST /done", json!({"job_id": "1", "type": "done"}), "field 'type' must be"),
        ("POST /done", json!({"job_id": "1", "type": "failure"}), "field 'reason' is missing"),
        ("PUT /constraint/c", json!({"max_running": 1}), "field 'matcher' is missing"),
        ("PUT /constraint/c", json!({"matcher": [], "x": 1}), "field 'x' is unknown here"),
    ] {
        let (status, why) = refused(line, id, &packed(&body));
        assert_eq!(status, 400);
        assert!(why.starts_with(words), "{why}");
    }
    for (body, words) in [
        (&b""[..], "the body "),
        (b"{}", "the body "),
        (b"\xc1", "the body "),
        (b"\xdf\xff\xff\xff\xff", "the body "),
        (b"\x80\x80", "the body "),
    ] {
        let (status, why) = refused("POST /job", "", body);
        assert!(status == 400 && why.starts_with(words), "{status} {why}");
    }
}

#[test]
fn head_errors_precede_body_errors() {
    for line in ["POST /done", "DELETE /worker"] {
        let (status, why) = refused(line, "", b"");
        assert_eq!(status, 400);
        assert!(why.starts_with("field 'worker-id' of the head is missing"), "{why}");
    }
    for wrong in ["", "x", "-1", "1e3", "inf", "NaN", "+1", "1s", "1.2.3", "0x10"] {
        let (status, why) = refused(&format!("GET /job/1/polling?timeout={wrong}"), "", b"");
        assert_eq!(
            (status, why.starts_with("parameter 'timeout' must be")),
            (400, true),
            "{wrong}"
        );
    }
    let job = packed(&json!({"name": "n", "argument": 1}));
    let kind = |kind: &str| format!("Content-Type: {kind}\r\n");
    for other in ["text/json", "text/plain", "application/xml", "image/png;q=1"] {
        let (status, why) = refused("POST /job", &kind(other), &job);
        assert_eq!(
            (status, why.contains("application/msgpack or application/json")),
            (415, true),
            "{why}"
        );
    }
    for fine in ["", "Application/MsgPack; x=y", "application/x-msgpack", "application/vnd.msgpack"]
    {
        assert!(Client::new().turn(&request("POST /job", &kind(fine), &job)).starts_with("n 1"));
    }
    let (status, why) = refused("PUT /constraint/c", &kind("text/plain"), b"{}");
    assert_eq!((status, why.contains("or application/json")), (415, true), "{why}");
    let text = br#"{"name": "n", "argument": 1}"#;
    for json in ["application/json", "Application/problem+JSON; charset=utf-8"] {
        assert!(Client::new().turn(&request("POST /job", &kind(json), text)).starts_with("n 1"));
    }
    for name in ["", "%ff"] {
        assert_eq!(refused(&format!("GET /constraint/{name}"), "", b"").0, 400);
    }
}

#[test]
fn json_nested_too_deep_is_rejected_as_json() {
    let as_json = "Content-Type: application/json\r\n";
    let deep = format!(r#"{{"name":"n","argument":{}1{}}}"#, "[".repeat(512), "]".repeat(512));
    let mut client = Client { shared: SessionContext::new(10_000), ..Client::new() };
    if client.turn(&request("POST /job", as_json, deep.as_bytes())) == "Continue" {
        client.turn(b"");
    }
    let (status, text) = client.written();
    let why = "the body is nested too deep: more than 512 levels of arrays and objects";
    assert_eq!((status, text.contains(why)), (400, true), "{text}");
}

#[test]
fn constraint_is_accepted_in_json() {
    let text = r#"{"matcher":[["name","=","a"]],"max_running":2}"#;
    let as_json = "Content-Type: application/json; charset=utf-8\r\n";
    let mut client = Client::new();
    let asked = client.turn(&request("PUT /constraint/c", as_json, text.as_bytes()));
    assert!(asked.starts_with("SetConstraint(Constraint { name: \"c\""), "{asked}");
    assert_eq!(
        client.reply(&Reply::Constraint(ConstraintReply::Set { new: true })),
        (201, "{}".to_owned())
    );
    assert_eq!(refused("PUT /constraint/c", as_json, b"{").0, 400);
    let constraint = super::messages::read_constraint_json("c", text.as_bytes()).unwrap();
    for fields in [as_json, "Accept: text/html, application/json;q=0.9, */*\r\n", ""] {
        client.ask("GET /constraint/c", fields, &Value::Null);
        let bytes_before = client.out.len();
        assert_eq!(bytes_before, 0);
        client.session.handle_reply(client.serial, &Reply::ConstraintFound(&constraint));
        client.turn(b"");
        let head = String::from_utf8_lossy(client.out.tail()).into_owned();
        assert_eq!(head.contains("application/json"), !fields.is_empty());
        assert_eq!(client.written(), (200, text.to_owned()));
    }
    client.ask("DELETE /constraint/c", "", &Value::Null);
    let removed = Reply::Constraint(ConstraintReply::Removed);
    assert_eq!(client.reply(&removed), (204, String::new()));
    client.ask("DELETE /constraint/c", "", &Value::Null);
    assert_eq!(client.reply(&Reply::Constraint(ConstraintReply::NoConstraint)).0, 404);
}

#[test]
fn only_a_long_poll_is_cancelled() {
    let mut client = Client::new();
    for line in ["GET /job/7", "DELETE /job/7"] {
        client.ask(line, "", &Value::Null);
        assert_eq!(client.session.waits_for(), None);
        client.reply(&Reply::Tracked(TrackedReply::NoJob));
    }
    for end in [TrackedReply::NotYet, TrackedReply::Cancelled].map(Reply::Tracked) {
        client.ask("GET /job/7/polling?timeout=60", "", &Value::Null);
        assert_eq!(client.session.waits_for(), Some(client.serial));
        assert_eq!(client.session.deadline(), None, "it is the server that takes its time");
        let (status, why) = client.reply(&end);
        assert_eq!((status, client.session.waits_for()), (408, None), "{why}");
    }
    client.ask("GET /job/7/polling", "", &Value::Null);
    assert_eq!(client.reply(&Reply::Tracked(TrackedReply::Deleted)), (200, "null".to_owned()));
    client.ask("DELETE /job/7", "", &Value::Null);
    assert_eq!(client.reply(&Reply::Tracked(TrackedReply::Deleted)).0, 404);
    client.ask("DELETE /job/7", "", &Value::Null);
    assert_eq!(client.reply(&Reply::Tracked(TrackedReply::TooLate)).0, 409);
}
