//! Messages in JSON.

use super::*;
use crate::base::strings::StringList;

#[test]
fn json_messages_equal_messagepack_and_keep_payload_text() {
    let text = br#"{"timeout":1.5,"name":"n","argument": {"a" : 0.10} ,"argument":[1e400]}"#;
    let mut packed = Vec::new();
    let job = NewJob::read_json(text, &mut packed).unwrap();
    assert_eq!((job.name, job.timeout_ms, job.max_retry), ("n", 1_500, 10));
    assert_eq!((job.argument.encoding, job.argument.bytes), (Encoding::Json, &b"[1e400]"[..]));
    let failure = br#"{"job_id":"7","type":"failure","reason":"timeout","should_retry":true,
        "error":12345678901234567890123,"message":"m"}"#;
    let done = Done::read_json(failure, &mut packed).unwrap();
    let Outcome::Failure { error, reason: Reason::Timeout, .. } = done.outcome else {
        panic!("{done:?}");
    };
    assert_eq!(error.bytes, b"12345678901234567890123");
    let success = br#"{"job_id":"7","type":"success"}"#;
    let done = Done::read_json(success, &mut packed).unwrap();
    let Outcome::Success { result } = done.outcome else { panic!("{done:?}") };
    assert_eq!((result.encoding, result.bytes), (Encoding::MsgPack, &b"\xc0"[..]));
    let worker = br#"{"name":"w","max_jobs":2,"url":"http://h:1","jobs":["a","b"]}"#;
    let mut names = StringList::default();
    let worker = read_worker_json(worker, &mut packed, &mut names).unwrap();
    assert_eq!((worker.name, worker.max_jobs, worker.url), ("w", 2, "http://h:1"));
    assert!(worker.queues.unwrap().into_iter().eq([b"a", b"b"]));
    let deep = format!(r#"{{"name":"n","argument":{}1{}}}"#, "[".repeat(5000), "]".repeat(5000));
    NewJob::read_json(deep.as_bytes(), &mut packed).unwrap_err();
    for (text, why) in [
        ("[1]", "the body is an array, not a JSON object"),
        ("", "the body is empty"),
        (r#"{"name":7,"argument":1}"#, "field 'name' must be a string"),
    ] {
        let problem = NewJob::read_json(text.as_bytes(), &mut packed).unwrap_err();
        assert_eq!(problem.to_string(), why);
    }
}

#[test]
fn json_status_contains_every_payload() {
    let payload = |encoding, bytes| Some(Payload { encoding, bytes });
    let mut status = Status {
        status: "done",
        worker: Some(WorkerId(3)),
        result: payload(Encoding::Json, b"{\"a\": 0.10}"),
        error: None,
        message: None,
        retry_count: 2,
    };
    let shown = |status: &Status<'_>| {
        let mut out = Vec::new();
        status.write_json(&mut out);
        String::from_utf8(out).unwrap()
    };
    let whole = r#"{"status":"done","worker_id":"3","result":{"a": 0.10},"retry_count":2}"#;
    assert_eq!(shown(&status), whole);
    status = Status { worker: None, result: None, message: Some("a\n\""), ..status };
    status.error = payload(Encoding::MsgPack, b"\xc4\x01\xff");
    let whole = r#"{"status":"done","error":"/w==","message":"a\n\"","retry_count":2}"#;
    assert_eq!(shown(&status), whole);
    status.error = payload(Encoding::Packet { key_len: 1 }, b"k\xff");
    assert!(shown(&status).contains(r#""error":{"key":"aw==","payload":"/w=="}"#));
}
