//! The rules about fields of `docs/protocols/lightjq.md`.

use super::*;
use crate::base::strings::StringList;
use crate::base::time::Mono;
use crate::model::job::{LeaseEpoch, Priority, Status as Doing};
use crate::model::reply::{JobInfo, JobStatus, JobView};
use crate::model::worker::{RunOutcome, Worker};
use crate::wire::msgpack::{from_json, to_json};
use proptest::prelude::*;

pub(super) fn packed(json: &str) -> Vec<u8> {
    let mut out = Vec::new();
    from_json(json.as_bytes(), &mut out).unwrap();
    out
}

/// A message as JSON, read by an independent reader.
pub(super) fn shown(bytes: &[u8]) -> String {
    rmpv::decode::read_value(&mut &bytes[..]).unwrap();
    let mut out = Vec::new();
    to_json(bytes, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn payload(bytes: &[u8]) -> Payload<'_> {
    Payload { encoding: Encoding::MsgPack, bytes }
}

const NIL: &[u8] = b"\xc0";

fn job_problem(json: &str) -> String {
    NewJob::read(&packed(json)).unwrap_err().to_string()
}

#[test]
fn job_has_defaults() {
    let body = packed(r#"{"argument":{"a":[1]},"name":"ä","name":"sum"}"#);
    let argument = packed(r#"{"a":[1]}"#);
    let job = NewJob::read(&body).unwrap();
    assert_eq!(job, NewJob::new("sum", payload(&argument)));
    assert_eq!((job.priority, job.max_retry, job.keep_result), (0, 10, false));
    assert_eq!(job.timeout_ms, 30_000);
    let body = packed(
        r#"{"name":"","argument":null,"priority":-2147483648,"max_retry":0,
        "keep_result":true,"timeout":0.5}"#,
    );
    let job = NewJob {
        priority: i32::MIN,
        max_retry: 0,
        keep_result: true,
        timeout_ms: 500,
        ..NewJob::new("", payload(NIL))
    };
    assert_eq!(NewJob::read(&body), Ok(job));
}

#[test]
fn unknown_field_error_suggests_the_nearest_name() {
    for (json, problem) in [
        (
            r#"{"name":"n","argument":1,"timeot":5}"#,
            "'timeot' is unknown here: did you mean 'timeout'?",
        ),
        (
            r#"{"name":"n","argument":1,"maxRetry":5}"#,
            "'maxRetry' is unknown here: did you mean 'max_retry'?",
        ),
        (
            r#"{"name":"n","argument":1,"colour":5}"#,
            "'colour' is unknown here: known are name, argument,",
        ),
        (r#"{"name":"n","argument":{"colour":5},"":1}"#, "'' is unknown here: known are"),
    ] {
        let found = job_problem(json);
        assert!(found.starts_with(&format!("field {problem}")), "{found}");
    }
    let long = format!(r#"{{"name":"n","argument":1,"{}":5}}"#, "x".repeat(100_000));
    assert!(job_problem(&long).len() < 300);
    let mut names = StringList::default();
    let worker = packed(r#"{"name":"w","url":"http://h:1","max_jobs":1,"job":["a"]}"#);
    let problem = read_worker(&worker, &mut names).unwrap_err().to_string();
    assert!(problem.starts_with("field 'job' is unknown here: did you mean 'jobs'?"), "{problem}");
    for (more, problem) in [
        (r#""type":"success","results":1"#, "'results' is unknown here: did you mean 'result'?"),
        // A field of a failure is unknown in a success.
        (r#""type":"success","message":"m""#, "'message' is unknown here: known are job_id, type,"),
        (
            r#""type":"failure","reason":"other","should_retry":true,"message":"m","result":1"#,
            "'result' is unknown here: known are job_id, type,",
        ),
    ] {
        let body = packed(&format!(r#"{{"job_id":"1",{more}}}"#));
        let found = Done::read(&body).unwrap_err().to_string();
        assert!(found.starts_with(&format!("field {problem}")), "{found}");
    }
    // The worker kit may be older than the server.
    let job = packed(r#"{"id":"1","name":"n","argument":1,"colour":2}"#);
    assert_eq!(WorkerJob::read(&job).unwrap().name, "n");
}

#[test]
fn job_numbers_are_bounded() {
    let read = |field: &str| {
        let body = packed(&format!(r#"{{"name":"a","argument":1,{field}}}"#));
        NewJob::read(&body).map(|job| (job.priority, job.max_retry, job.timeout_ms))
    };
    assert_eq!(read(r#""priority":2147483647"#), Ok((i32::MAX, 10, 30_000)));
    assert_eq!(read(r#""max_retry":99999999999"#), Ok((0, u32::MAX, 30_000)));
    assert_eq!(read(r#""max_retry":18446744073709551615"#), Ok((0, u32::MAX, 30_000)));
    for (timeout, ms) in [
        ("1", 1_000),
        ("0.07", 70),
        ("1.5", 1_500),
        ("0.0001", 1),
        ("18446744073709551615", u64::MAX),
        ("1e300", u64::MAX),
    ] {
        assert_eq!(read(&format!("\"timeout\":{timeout}")), Ok((0, 10, ms)), "{timeout}");
    }
    for wrong in [
        r#""priority":2147483648"#,
        r#""priority":-2147483649"#,
        r#""priority":18446744073709551615"#,
        r#""priority":1.0"#,
        r#""priority":"1""#,
        r#""priority":null"#,
        r#""max_retry":-1"#,
        r#""max_retry":-9223372036854775808"#,
        r#""max_retry":0.5"#,
        r#""keep_result":0"#,
        r#""keep_result":null"#,
        r#""timeout":0"#,
        r#""timeout":-1"#,
        r#""timeout":0.0"#,
        r#""timeout":-0.1"#,
        r#""timeout":1e400"#,
        r#""timeout":"30""#,
        r#""timeout":true"#,
    ] {
        let name = wrong.split('"').nth(1).unwrap();
        let problem = read(wrong).unwrap_err().to_string();
        assert!(problem.starts_with(&format!("field '{name}' must be ")), "{problem}");
    }
    // NaN.
    let body = b"\x83\xa4name\xa1a\xa8argument\xc0\xa7timeout\xcb\x7f\xf8\0\0\0\0\0\0";
    assert!(NewJob::read(body).is_err());
}

#[test]
fn job_error_names_the_field() {
    assert_eq!(job_problem(r#"{"argument":1}"#), "field 'name' is missing: it must be a string");
    assert_eq!(job_problem(r#"{"name":"a"}"#), "field 'argument' is missing: it must be any value");
    assert_eq!(job_problem(r#"{"name":1,"argument":1}"#), "field 'name' must be a string");
    assert_eq!(
        job_problem(r#"{"name":"a","argument":1,"priority":1.5}"#),
        "field 'priority' must be an integer from -2147483648 to 2147483647"
    );
    assert_eq!(
        job_problem(r#"{"name":"a","argument":1,"max_retry":-1}"#),
        "field 'max_retry' must be an integer, at least 0"
    );
    assert_eq!(job_problem("[]"), "the body is an array, not a MessagePack map");
    assert_eq!(NewJob::read(b"").unwrap_err().to_string(), "the body is empty");
    assert_eq!(
        NewJob::read(br#"{"name":"a"}"#).unwrap_err().to_string(),
        "the body is not one MessagePack value: a second one begins at byte 2"
    );
    // A binary name, and one that is not UTF-8.
    for name in [&b"\xc4\x01a"[..], b"\xa1\xff"] {
        let body = [&b"\x82\xa8argument\xc0\xa4name"[..], name].concat();
        let problem = NewJob::read(&body).unwrap_err().to_string();
        assert_eq!(problem, "field 'name' must be a string");
    }
}

#[test]
fn payloads_of_all_protocols_become_messagepack() {
    let written = |encoding, bytes| {
        let argument = Payload { encoding, bytes };
        let job = WorkerJob { id: "7", name: "a", argument, timeout_ms: None };
        let mut out = Vec::new();
        job.write(&mut out);
        let read = WorkerJob::read(&out).unwrap();
        assert_eq!((read.id, read.name, read.timeout_ms), ("7", "a", None));
        read.argument.bytes.to_vec()
    };
    assert_eq!(written(Encoding::MsgPack, b"\xd1\0\x01"), b"\xd1\0\x01", "byte for byte");
    assert_eq!(written(Encoding::Json, b"[ 1 ]"), b"\x91\x01");
    assert_eq!(written(Encoding::JsonLine, b"{}"), b"\x80");
    assert_eq!(written(Encoding::Json, b"{"), b"\xc4\x01{", "it was not checked");
    let packet = written(Encoding::Packet { key_len: 1 }, b"\xffab");
    assert_eq!(packet, b"\x82\xa3key\xc4\x01\xff\xa7payload\xc4\x02ab");
}

#[test]
fn worker_registration_is_parsed() {
    let mut names = StringList::default();
    let mut read = |json: &str| {
        read_worker(&packed(json), &mut names)
            .map(|worker| {
                let queues = worker.queues.map(|queues| {
                    queues.into_iter().map(|name| String::from_utf8_lossy(name).into()).collect()
                });
                (worker.name.to_owned(), worker.max_jobs, worker.url.to_owned(), queues)
            })
            .map_err(|problem| problem.to_string())
    };
    let (name, url) = ("w".to_owned(), "http://h:1/p".to_owned());
    let all = r#"{"name":"w","max_jobs":1,"url":"http://h:1/p"}"#;
    assert_eq!(read(all), Ok((name.clone(), 1, url.clone(), None::<Vec<String>>)));
    let some = r#"{"name":"w","max_jobs":99999999999,"url":"http://h:1/p","jobs":["a",""]}"#;
    let queues = Some(vec!["a".to_owned(), String::new()]);
    assert_eq!(read(some), Ok((name, u32::MAX, url, queues)));
    for (json, problem) in [
        (r#"{"max_jobs":1,"url":"http://h"}"#, "field 'name' is missing: it must be a string"),
        (r#"{"name":"w","url":"http://h"}"#, {
            "field 'max_jobs' is missing: it must be an integer, at least 1"
        }),
        (r#"{"name":"w","max_jobs":0,"url":"http://h"}"#, {
            "field 'max_jobs' must be an integer, at least 1"
        }),
        (r#"{"name":"w","max_jobs":1}"#, {
            "field 'url' is missing: it must be a URL such as 'http://host:port'"
        }),
        (r#"{"name":"w","max_jobs":1,"url":7}"#, {
            "field 'url' must be a URL such as 'http://host:port'"
        }),
        (r#"{"name":"w","max_jobs":1,"url":"h:80"}"#, {
            "field 'url' must begin with 'http://' or 'https://'"
        }),
    ] {
        assert_eq!(read(json), Err(problem.to_owned()));
    }
    for jobs in ["[]", "[1]", "[\"a\",null]", "\"a\"", "null", "{\"a\":1}"] {
        let json = format!(r#"{{"name":"w","max_jobs":1,"url":"http://h","jobs":{jobs}}}"#);
        let problem = "field 'jobs' must be an array of at least one string".to_owned();
        assert_eq!(read(&json), Err(problem));
    }
}

#[test]
fn worker_registration_round_trips() {
    let mut names = StringList::default();
    for name in [&b"a"[..], b"\xff", b"b"] {
        names.push(name);
    }
    let worker = Worker { name: "w", url: "https://h", max_jobs: 300, queues: Some(&names) };
    let mut out = Vec::new();
    write_worker(&worker, &mut out);
    let expected = r#"{"name":"w","max_jobs":300,"url":"https://h","jobs":["a","b"]}"#;
    assert_eq!(shown(&out), expected);
    out.clear();
    write_worker(&Worker { queues: None, ..worker }, &mut out);
    let mut names = StringList::default();
    assert!(read_worker(&out, &mut names).unwrap().queues.is_none());
}

#[test]
fn report_is_a_success_or_a_failure() {
    let body = packed(r#"{"job_id":"12","type":"success"}"#);
    let done = Done::read(&body).unwrap();
    assert_eq!((done.job_id, done.finished_at), (JobId(12), None));
    assert_eq!(done.report(), RunOutcome::Success { result: payload(NIL) });
    let body = packed(
        r#"{"job_id":"12","type":"success","result":[],"finished_at":"1970-01-01T09:00:01+09:00"}"#,
    );
    let done = Done::read(&body).unwrap();
    assert_eq!(done.finished_at, Some(1_000));
    assert_eq!(done.outcome, Outcome::Success { result: payload(b"\x90") });
    let body = packed(
        r#"{"job_id":"x","type":"failure","reason":"timeout","should_retry":true,"message":"m"}"#,
    );
    let done = Done::read(&body).unwrap();
    assert_eq!(done.job_id, JobId::NEVER);
    let reason = Reason::Timeout;
    let failure =
        Outcome::Failure { reason, should_retry: true, error: payload(NIL), message: "m" };
    assert_eq!(done.outcome, failure);
    let report = RunOutcome::Failure { retry: true, error: payload(NIL), message: "m" };
    assert_eq!(done.report(), report);
}

#[test]
fn report_error_names_the_missing_field() {
    let fields = [
        ("job_id", "\"1\""),
        ("type", "\"failure\""),
        ("reason", "\"other\""),
        ("should_retry", "false"),
        ("message", "\"m\""),
        ("finished_at", "\"2026-01-01T00:00:00Z\""),
        ("error", "{}"),
    ];
    let json = |without: &str, with: &str| {
        let kept = fields.iter().filter(|(name, _)| *name != without);
        let mut members: Vec<String> =
            kept.map(|(name, value)| format!("\"{name}\":{value}")).collect();
        if !with.is_empty() {
            members.push(format!("\"{without}\":{with}"));
        }
        packed(&format!("{{{}}}", members.join(",")))
    };
    Done::read(&json("", "")).unwrap();
    for (name, _) in &fields[..5] {
        let problem = Done::read(&json(name, "")).unwrap_err().to_string();
        assert!(problem.starts_with(&format!("field '{name}' is missing")), "{problem}");
    }
    for (name, _) in &fields[5..] {
        Done::read(&json(name, "")).unwrap();
    }
    for (name, _) in &fields[..6] {
        for wrong in ["7", "null", "\"such\"", "[]"] {
            if matches!(*name, "message" | "job_id") && wrong == "\"such\"" {
                continue;
            }
            let problem = Done::read(&json(name, wrong)).unwrap_err().to_string();
            assert!(problem.starts_with(&format!("field '{name}' must be ")), "{problem}");
        }
    }
    let problem = Done::read(&json("reason", "\"bored\"")).unwrap_err().to_string();
    assert_eq!(problem, "field 'reason' must be 'other' or 'timeout'");
    let problem = Done::read(&json("finished_at", "1.5")).unwrap_err().to_string();
    assert!(problem.contains("ISO 8601"), "{problem}");
}

#[test]
fn id_is_a_canonical_decimal_number() {
    assert_eq!(job_id(b"120"), JobId(120));
    assert_eq!(worker_id(b"0"), Some(WorkerId(0)));
    for text in ["", "01", "+1", "-1", " 1", "1.0", "a", "\u{661}", "18446744073709551616"] {
        assert_eq!(job_id(text.as_bytes()), JobId::NEVER, "{text}");
        assert_eq!(worker_id(text.as_bytes()), None, "{text}");
    }
    let mut out = Vec::new();
    write_job_accepted(JobId(9), &mut out);
    assert_eq!(shown(&out), r#"{"job_id":"9"}"#);
    assert_eq!(read_job_accepted(&out), Ok(JobId(9)));
    assert!(read_worker_accepted(&out).is_err());
    out.clear();
    write_worker_accepted(WorkerId(4), &mut out);
    assert_eq!(shown(&out), r#"{"worker_id":"4"}"#);
    assert_eq!(read_worker_accepted(&out), Ok(WorkerId(4)));
    assert!(read_job_accepted(&packed(r#"{"job_id":"-1"}"#)).is_err());
    out.clear();
    write_error(&"field 'name' is missing", &mut out);
    assert_eq!(read_error(&out), Ok("field 'name' is missing"));
}

#[test]
fn job_status_has_the_known_fields() {
    let show = |status, result: Option<&'static [u8]>, retries, message, worker| {
        let job = JobView {
            id: JobId(1),
            queue: b"q",
            priority: Priority::Small(0),
            payload: payload(NIL),
            lease: LeaseEpoch(1),
            named: false,
        };
        let result = result.map(payload);
        let sight = JobInfo { job, status, due: Some(Mono(1)), lease_ms: 0, retries, result };
        let progress = JobStatus { info: sight, worker, message };
        let mut out = Vec::new();
        let status = Status::of(&progress);
        status.write(&mut out);
        assert_eq!(Status::read(&out), Ok(Some(status)));
        shown(&out)
    };
    let (oops, three): (Option<&[u8]>, Option<&[u8]>) = (Some(b"\xa4oops"), Some(b"\x03"));
    let worker = Some(WorkerId(5));
    assert_eq!(show(Doing::Ready, None, 0, None, None), r#"{"status":"queued","retry_count":0}"#);
    assert_eq!(
        show(Doing::Reserved, None, 0, None, worker),
        r#"{"status":"running","worker_id":"5","retry_count":0}"#
    );
    assert_eq!(
        show(Doing::Delayed, oops, 2, Some("timeout"), None),
        r#"{"status":"retrying","error":"oops","message":"timeout","retry_count":2}"#
    );
    assert_eq!(
        show(Doing::Buried, oops, 2, Some("m"), None),
        r#"{"status":"error","error":"oops","message":"m","retry_count":2}"#
    );
    assert_eq!(
        show(Doing::Completed, three, 1, Some("old"), None),
        r#"{"status":"done","result":3,"retry_count":1}"#
    );
    let mut out = Vec::new();
    write_gone(&mut out);
    assert_eq!(Status::read(&out), Ok(None));
    assert!(Status::read(&packed(r#"{"status":"asleep","retry_count":0}"#)).is_err());
    assert!(Status::read(&packed(r#"{"status":"done"}"#)).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 100,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn arbitrary_bytes_parse_or_yield_an_error(bytes: Vec<u8>, text: String) {
        let mut names = StringList::default();
        let problems = [
            NewJob::read(&bytes).err(),
            WorkerJob::read(&bytes).err(),
            Done::read(&bytes).err(),
            Status::read(&bytes).err(),
            read_worker(&bytes, &mut names).err(),
            read_constraint("c", &bytes).err(),
            read_constraint_json("c", &bytes).err(),
            read_constraint_json("c", text.as_bytes()).err(),
        ];
        for problem in problems.into_iter().flatten() {
            prop_assert!(problem.to_string().len() > 10);
        }
        let _ = (crate::wire::url::parse(&text), job_id(&bytes));
    }

    #[test]
    fn messages_round_trip(
        name in any::<String>(),
        value in any::<i64>(),
        (priority, max_retry, keep_result) in any::<(i32, u32, bool)>(),
        timeout_ms in prop_oneof![1..100_000_u64, 1..2_000_000_000_000_000_u64],
        finished_at in prop::option::of(0..200_000_000_000_000_i64),
        (id, timeout) in any::<(u64, bool)>(),
    ) {
        let argument = packed(&format!("[{value}]"));
        let argument = payload(&argument);
        let mut out = Vec::new();
        let job = NewJob { name: &name, argument, priority, max_retry, keep_result, timeout_ms };
        job.write(&mut out);
        prop_assert_eq!(NewJob::read(&out), Ok(job));
        out.clear();
        let timeout_ms = Some(timeout_ms);
        let job = WorkerJob { id: &name, name: &name, argument, timeout_ms };
        job.write(&mut out);
        prop_assert_eq!(WorkerJob::read(&out), Ok(job));
        let reason = if timeout { Reason::Timeout } else { Reason::Other };
        let should_retry = keep_result;
        let failure =
            Outcome::Failure { reason, should_retry, error: argument, message: &name };
        for outcome in [Outcome::Success { result: argument }, failure] {
            out.clear();
            let done = Done { job_id: JobId(id), finished_at, outcome };
            done.write(&mut out);
            prop_assert_eq!(Done::read(&out), Ok(done));
        }
    }
}

#[test]
fn written_fields_are_in_the_table() {
    let names = |bytes: &[u8]| -> Vec<String> {
        let map = rmpv::decode::read_value(&mut &bytes[..]).unwrap();
        let mut names: Vec<String> =
            map.as_map().unwrap().iter().map(|(key, _)| key.as_str().unwrap().into()).collect();
        names.sort();
        names
    };
    let known = |fields: &[Field]| {
        let mut names: Vec<String> = fields.iter().map(|field| field.name.into()).collect();
        names.sort();
        names
    };
    let argument = payload(NIL);
    let mut out = Vec::new();
    NewJob::new("a", argument).write(&mut out);
    assert_eq!(names(&out), known(&JOB));
    out.clear();
    WorkerJob { id: "1", name: "a", argument, timeout_ms: Some(1) }.write(&mut out);
    assert_eq!(names(&out), known(&WORKER_JOB));
    let (job_id, finished_at) = (JobId(1), Some(0));
    out.clear();
    Done { job_id, finished_at, outcome: Outcome::Success { result: argument } }.write(&mut out);
    assert_eq!(names(&out), known(&DONE));
    let reason = Reason::Other;
    let outcome = Outcome::Failure { reason, should_retry: true, error: argument, message: "" };
    out.clear();
    Done { job_id, finished_at, outcome }.write(&mut out);
    assert_eq!(names(&out), known(&FAILURE));
    out.clear();
    let (worker, result, message) = (Some(WorkerId(1)), Some(argument), Some("m"));
    Status { status: "done", worker, result, error: result, message, retry_count: 1 }
        .write(&mut out);
    assert_eq!(names(&out), known(&STATUS));
}
