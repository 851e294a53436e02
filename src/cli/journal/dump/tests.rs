//! What is printed of records.

use super::*;
use crate::model::event::{Event, EventKind};
use crate::model::external_id::Fraction;
use crate::model::id::JobId;
use crate::model::job::{LeaseEpoch, Retry};
use crate::model::snapshot::History;
use crate::model::worker::WorkerId;
use crate::protocol::http::lightjq::messages::read_constraint_json;
use std::borrow::Cow;

const ORIGIN: RecordLocation = RecordLocation { epoch: 2, offset: 64, sequence: 9 };

fn line(record: &Record<'_>) -> String {
    let mut out = Vec::new();
    push(record, ORIGIN, &mut out);
    let text = String::from_utf8(out).unwrap();
    let line = text.strip_suffix('\n').unwrap();
    assert!(!line.contains('\n'));
    serde_json::from_str::<serde_json::Value>(line).unwrap();
    let place = "\",\"segment\":2,\"offset\":64,\"batch\":9,";
    line.strip_prefix("{\"record\":\"").unwrap().replace(place, " ")
}

fn fresh(encoding: Encoding, bytes: &[u8]) -> Snapshot<'_> {
    Snapshot {
        id: JobId(7),
        queue: b"q",
        priority: Priority::Small(-5),
        tie_break: TieBreak::Fifo,
        payload: Payload { encoding, bytes },
        created: None,
        options: None,
        expires: None,
        state: StatusSnapshot {
            stage: PersistedStatus::Waiting,
            retries: 0,
            result: None,
            message: None,
            progress: None,
            runs: None,
        },
        history: None,
        name: None,
        key: None,
        dependencies: None,
    }
}

#[test]
fn record_is_one_line_of_json() {
    let job = fresh(Encoding::Json, b"{\n\"n\":0.10\r}");
    assert_eq!(
        line(&Record::Job(job)),
        r#"job "id":7,"queue":"q","pri":-5,"job":{ "n":0.10 },"state":"waiting"}"#
    );
    let packet = Snapshot {
        queue: b"\xff",
        priority: Priority::Unselected,
        tie_break: TieBreak::Lifo,
        expires: Some(Mono(1_700_000_000_123_000_000)),
        ..fresh(Encoding::Packet { key_len: 1 }, b"\0\xff")
    };
    assert_eq!(
        line(&Record::Job(packet)),
        "job \"id\":7,\"queue\":\"\u{fffd}\",\"queue_base64\":\"/w==\",\"pri\":null,\
         \"turn\":\"newest-first\",\"job\":{\"key\":\"AA==\",\"payload\":\"/w==\"},\
         \"expires\":\"2023-11-14T22:13:20.123Z\",\"state\":\"waiting\"}"
    );
    let map = fresh(Encoding::MsgPack, b"\x81\xa1n\xcb\x3f\xf8\0\0\0\0\0\0");
    assert_eq!(
        line(&Record::Job(map)),
        r#"job "id":7,"queue":"q","pri":-5,"job":{"n":1.5},"state":"waiting"}"#
    );
    assert_eq!(line(&Record::Deleted(JobId(3))), r#"gone "id":3}"#);
}

#[test]
fn history_is_printed_with_its_job() {
    let event = |what, at| Event { kind: what, at };
    let note = event(EventKind::User(Box::from(*b"[1,\n2]")), 1_700_000_000);
    assert_eq!(
        line(&Record::Event(JobId(3), 2, note.clone())),
        "event \"id\":3,\"version\":2,\"events\":[[\"user_event\",\
         {\"event\":[1, 2],\"timestamp\":\"1700000000\"}]]}"
    );
    let events = EventLog::default().with(event(EventKind::Created, 5)).with(note);
    let history = History { state: b"\"A\"", modified: 1_700_000_000, version: 2, events };
    let job = Snapshot { history: Some(history), ..fresh(Encoding::Json, b"{}") };
    let shown = line(&Record::Job(job));
    let (front, events) = shown.split_once(",\"events\":").unwrap();
    assert_eq!(
        front,
        "job \"id\":7,\"queue\":\"q\",\"pri\":-5,\"job\":{},\"state\":\"waiting\",\
         \"user_state\":\"A\",\"modified\":1700000000,\"version\":2"
    );
    assert!(events.starts_with(r#"[["job_created",{"timestamp":"5"}],["user_event","#));
    let queue = Record::Queue(JobId(9), b"\xffq");
    assert_eq!(line(&queue), "queue \"id\":9,\"queue\":\"\u{fffd}q\",\"queue_base64\":\"/3E=\"}");
    let pause = Record::Pause(JobId(8), b"q", Some(Mono(1_700_000_000_123_000_000)));
    assert_eq!(line(&pause), r#"pause "id":8,"queue":"q","until":"2023-11-14T22:13:20.123Z"}"#);
    let text = br#"{"matcher":[["name","=","a"]],"max_running":2}"#;
    let constraint = read_constraint_json("c", text).unwrap();
    assert_eq!(
        line(&Record::Constraint(JobId(10), Cow::Owned(constraint))),
        "constraint \"id\":10,\"name\":\"c\",\
         \"constraint\":{\"matcher\":[[\"name\",\"=\",\"a\"]],\"max_running\":2}}"
    );
}

#[test]
fn tracked_job_and_worker_are_printed() {
    let options = JobOptions { tracked: true, result_once: true, ..JobOptions::default() };
    let running =
        PersistedStatus::Running { worker: WorkerId(2), until: None, lease: LeaseEpoch(3) };
    let result = Some(Payload { encoding: Encoding::MsgPack, bytes: b"\xc3" });
    let state = StatusSnapshot {
        stage: running,
        retries: 1,
        result,
        message: Some("no\n"),
        progress: None,
        runs: None,
    };
    let job = Snapshot { options: Some(options), state, ..fresh(Encoding::MsgPack, b"\x07") };
    assert_eq!(
        line(&Record::Job(job)),
        "job \"id\":7,\"queue\":\"q\",\"pri\":-5,\"job\":7,\"followed\":true,\
         \"fetch_once\":true,\"state\":\"running\",\"worker\":2,\"lease\":3,\"retries\":1,\
         \"result\":true,\"message\":\"no\\n\"}"
    );
    let queues = Some(vec![&b"a"[..], b"\xff"]);
    let worker = PersistedWorker { name: "w", url: "http://w", max_jobs: 4, queues };
    assert_eq!(
        line(&Record::Worker(WorkerId(2), worker)),
        "worker \"id\":2,\"name\":\"w\",\"url\":\"http://w\",\"max_jobs\":4,\
         \"queues\":[\"a\",\"\u{fffd}\"]}"
    );
}

#[test]
fn processor_job_is_printed_with_uuid_and_progress() {
    let running = PersistedStatus::Running {
        worker: WorkerId(2),
        until: Some(Mono(5_000_000)),
        lease: LeaseEpoch(0),
    };
    let progress = Fraction::new(0.25);
    let state = StatusSnapshot {
        stage: running,
        retries: 0,
        result: None,
        message: None,
        progress,
        runs: None,
    };
    let job = Snapshot { name: Some(b"a\"b"), state, ..fresh(Encoding::JsonLine, b"{}") };
    assert_eq!(
        line(&Record::Job(job)),
        "job \"id\":7,\"uuid\":\"a\\\"b\",\"queue\":\"q\",\"pri\":-5,\"job\":{},\
         \"state\":\"running\",\"until\":\"1970-01-01T00:00:00.005Z\",\"worker\":2,\
         \"lease\":0,\"progress\":0.25}"
    );
}

#[test]
fn rare_options_and_results_are_printed() {
    let retry = Retry { limit: 3, first_ms: 1, factor: 2, max_ms: 9, jitter_percent: 10 };
    let options = JobOptions { lease_ms: 30, retry: Some(retry), ..JobOptions::default() };
    let digits = Priority::Big("18446744073709551616");
    let job =
        Snapshot { priority: digits, options: Some(options), ..fresh(Encoding::JsonLine, b"{}") };
    assert_eq!(
        line(&Record::Job(job)),
        "job \"id\":7,\"queue\":\"q\",\"pri\":18446744073709551616,\"job\":{},\"ttr_ms\":30,\
         \"retry\":{\"limit\":3,\"first_ms\":1,\"factor\":2,\"max_ms\":9,\
         \"jitter_percent\":10},\"state\":\"waiting\"}"
    );
    let result = Some(Payload { encoding: Encoding::JsonLine, bytes: b"[1]" });
    // The end of time is a moment like any other.
    let state = StatusSnapshot {
        stage: PersistedStatus::Completed(Mono(u64::MAX)),
        retries: 2,
        result,
        message: None,
        progress: None,
        runs: None,
    };
    assert_eq!(
        line(&Record::State(JobId(3), state)),
        "state \"id\":3,\"state\":\"kept\",\"until\":\"2554-07-21T23:34:33.709Z\",\
         \"retries\":2,\"result\":[1]}"
    );
    let state = StatusSnapshot {
        stage: PersistedStatus::Buried { number: 7, until: None },
        retries: 0,
        result: None,
        message: None,
        progress: None,
        runs: None,
    };
    assert_eq!(
        line(&Record::State(JobId(3), state)),
        r#"state "id":3,"state":"buried","burial":7}"#
    );
}
