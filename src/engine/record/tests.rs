//! Records round trip, and no bytes panic.

use super::read::MalformedRecord;
use super::*;
use crate::base::rng::Rng;
use crate::base::time::Wall;
use crate::model::event::{Event, EventKind, EventLog};
use crate::model::external_id::Fraction;
use crate::model::id::{ClientId, JobId};
use crate::model::job::{LeaseEpoch, LeaseToken, OwnedPriority, Retry};
use crate::model::manage::{NewDependencies, NewJob, NewKey, OnDuplicate};
use crate::model::schedule::{Schedule, ScheduleState, Timing};
use crate::model::snapshot::{
    History, PersistedDependencies, PersistedKey, PersistedLoss, PersistedRun, PersistedWorker,
};
use crate::model::worker::{Compare, Condition, Constraint, Path, Rate, Scalar, WorkerId};
use std::borrow::Cow;
use std::time::Duration;

const NOW: Now = Now { mono: Mono(5_000_000_000), wall: Wall(1_700_000_000_000) };

fn at(ms: u64) -> Mono {
    NOW.mono.after(Duration::from_millis(ms))
}

fn payload(encoding: Encoding, bytes: &[u8]) -> Payload<'_> {
    Payload { encoding, bytes }
}

/// What is left of jobs that are gone.
fn past_records() -> [Record<'static>; 3] {
    let (queue, bytes) = (&b"keys"[..], &b"k\xff"[..]);
    let key = PersistedKey { queue, bytes, job: JobId(7), until: at(4) };
    let run = PersistedRun { job: JobId(7), token: LeaseToken(u64::MAX - 1), until: at(4) };
    let loss = PersistedLoss { job: JobId(7), below: JobId(9) };
    [
        Record::PastKey(JobId(304), key),
        Record::PastRun(JobId(305), run),
        Record::Loss(JobId(306), loss),
    ]
}

/// Jobs with keys and with dependencies.
fn bound_records(plain: &Snapshot<'static>) -> Vec<Record<'static>> {
    let (key, unkept) = (Some((&b"key"[..], 30_000)), Some((&b"\0"[..], 0)));
    let all = Some(Box::new(PersistedDependencies {
        after: Cow::Owned(vec![JobId(1), JobId(300)]),
        group: Some((b"g", JobId(3))),
        after_group: Some((b"\xff", Some(JobId(4)))),
        runs_if_lost: true,
    }));
    let group = Some(Box::new(PersistedDependencies {
        after: Cow::Owned(Vec::new()),
        group: None,
        after_group: Some((b"h", None)),
        runs_if_lost: false,
    }));
    let jobs = [
        Snapshot { key, ..plain.clone() },
        Snapshot { key: unkept, name: Some(b"id"), ..plain.clone() },
        Snapshot { dependencies: all.clone(), ..plain.clone() },
        Snapshot { dependencies: all, name: Some(b"id"), ..plain.clone() },
        Snapshot { dependencies: group, key, created: Some(u32::MAX), ..plain.clone() },
    ];
    jobs.map(Record::Job).into()
}

fn sample_stages() -> [PersistedStatus<'static>; 6] {
    [
        PersistedStatus::Waiting,
        PersistedStatus::Completed(at(0)),
        PersistedStatus::Buried { number: 0, until: None },
        PersistedStatus::Buried { number: 0, until: Some(at(5)) },
        PersistedStatus::Buried { number: 1, until: None },
        PersistedStatus::Buried { number: u32::MAX, until: Some(at(5)) },
    ]
}

fn sample_records() -> Vec<Record<'static>> {
    let retry = Retry { limit: 10, first_ms: 1, factor: 2, max_ms: u64::MAX, jitter_percent: 10 };
    let options = JobOptions {
        lease_ms: 30_000,
        retry: Some(retry),
        result_retention_ms: 7,
        ..JobOptions::default()
    };
    let plain = Snapshot {
        id: JobId(1),
        queue: b"q",
        priority: Priority::Small(0),
        tie_break: TieBreak::Fifo,
        payload: payload(Encoding::JsonLine, b"{}"),
        created: None,
        options: None,
        expires: None,
        state: INITIAL_STATE,
        history: None,
        name: None,
        key: None,
        dependencies: None,
    };
    let packet = payload(Encoding::Packet { key_len: 2 }, b"key");
    let result = Some(payload(Encoding::Json, b"[1]"));
    let delayed = PersistedStatus::Delayed(at(9));
    let state = StatusSnapshot { stage: delayed, retries: 3, result, ..INITIAL_STATE };
    let numbers = [-1, 1, i64::MAX - 1, i64::MIN + 1].map(Priority::Small);
    let beyond = Priority::Big("18446744073709551616");
    let mut records: Vec<Record<'_>> = numbers
        .into_iter()
        .chain([beyond, Priority::Unselected])
        .map(|priority| Record::Job(Snapshot { priority, ..plain.clone() }))
        .collect();
    records.push(Record::Job(Snapshot { id: JobId((1 << 53) - 1), queue: b"", ..plain.clone() }));
    let tie_break = TieBreak::Lifo;
    records.push(Record::Job(Snapshot {
        tie_break,
        payload: packet,
        expires: Some(at(1)),
        ..plain.clone()
    }));
    records.push(Record::Job(Snapshot { options: Some(options), state, ..plain.clone() }));
    for stage in sample_stages() {
        let (retries, result) = (u32::MAX, Some(packet));
        let changed = StatusSnapshot { stage, retries, result, ..INITIAL_STATE };
        records.push(Record::State(JobId(7), changed));
    }
    records.append(&mut tracked_records(&plain, options));
    records.push(Record::Deleted(JobId(300)));
    records.push(Record::Queue(JobId(301), b"declared"));
    records.push(Record::Pause(JobId(303), b"paused", None));
    records.push(Record::Pause(JobId(303), b"paused", Some(at(3))));
    records.extend(sample_schedules());
    records.extend(past_records());
    records.append(&mut bound_records(&plain));
    records.push(Record::Constraint(JobId(302), Cow::Owned(sample_constraint())));
    let mut events = EventLog::default();
    for (at, what) in (0..).zip(all_event_kinds()) {
        let event = Event { kind: what, at: at * 1_000 };
        records.push(Record::Event(JobId(7), at, event.clone()));
        events = events.with(event);
    }
    let history = History { state: b"[\"A\"]", modified: 1_700_000_000, version: 300, events };
    let recorded = Snapshot { state, history: Some(history), ..plain.clone() };
    records.push(Record::Job(recorded.clone()));
    records.append(&mut external_id_records(plain, recorded));
    records
}

fn sample_constraint() -> Constraint {
    let path = |keys: &[&str]| Path::Argument(keys.iter().map(|&key| key.into()).collect());
    let all = vec![
        Scalar::Nil,
        Scalar::Bool(true),
        Scalar::Bool(false),
        Scalar::Integer(i128::MIN),
        Scalar::Float(1.5_f64.to_bits()),
        Scalar::Text("x".into()),
    ];
    let condition = |path, op, values| Condition { path, op, values };
    Constraint {
        name: "c".into(),
        matcher: vec![
            condition(Path::Name, Compare::Equal, vec![Scalar::Text("mail-*".into())]),
            condition(path(&[]), Compare::NotEqual, vec![Scalar::Nil]),
            condition(path(&["user", "id"]), Compare::In, all),
        ],
        max_running: Some(0),
        rate: Some(Rate { count: 3, period_ms: u64::MAX, burst: u32::MAX }),
        per: Some(path(&["host"])),
    }
}

/// Records of jobs with external ids.
fn external_id_records(
    plain: Snapshot<'static>,
    recorded: Snapshot<'static>,
) -> Vec<Record<'static>> {
    let stage = PersistedStatus::Running {
        worker: WorkerId(1),
        until: Some(at(9_000)),
        lease: LeaseEpoch(0),
    };
    let working = StatusSnapshot { stage, progress: Fraction::new(0.5), ..INITIAL_STATE };
    let told = StatusSnapshot { message: Some("so"), result: plain.state.result, ..working };
    vec![
        Record::Job(Snapshot { name: Some(b"a uuid"), ..plain.clone() }),
        Record::Job(Snapshot { name: Some(b"\"\n"), state: working, ..plain }),
        Record::Job(Snapshot { name: Some(b""), state: told, ..recorded }),
        Record::State(JobId(1), working),
        Record::State(JobId(1), StatusSnapshot { progress: Some(Fraction::ZERO), ..told }),
    ]
}

/// Records of tracked jobs and registered workers.
fn tracked_records(plain: &Snapshot<'static>, options: JobOptions) -> Vec<Record<'static>> {
    let bytes = payload(Encoding::Bytes, b"\0\xff");
    let any_bytes = Record::Job(Snapshot { payload: bytes, ..plain.clone() });
    let packed = payload(Encoding::MsgPack, b"\x81\xa1n\xc4\x02\xff\0");
    let failed =
        StatusSnapshot { result: Some(packed), message: Some("no: \u{e9}"), ..INITIAL_STATE };
    let worker = WorkerId(9);
    let running =
        |until, lease| PersistedStatus::Running { worker, until, lease: LeaseEpoch(lease) };
    let once = JobOptions { tracked: true, result_once: true, ..options };
    let never = JobOptions { retry: None, tracked: true, ..JobOptions::default() };
    let registered =
        PersistedWorker { name: "w", url: "http://w/", max_jobs: u32::MAX, queues: None };
    let queues = |queues: &[&'static [u8]]| PersistedWorker {
        queues: Some(queues.to_vec()),
        ..registered.clone()
    };
    let job = |options, state| {
        Record::Job(Snapshot { payload: packed, options: Some(options), state, ..plain.clone() })
    };
    vec![
        any_bytes,
        job(once, StatusSnapshot { stage: running(Some(at(7)), 1), ..failed }),
        job(JobOptions { result_once: true, ..JobOptions::default() }, INITIAL_STATE),
        job(never, StatusSnapshot { stage: running(None, u32::MAX), ..INITIAL_STATE }),
        Record::State(
            JobId(8),
            StatusSnapshot { stage: PersistedStatus::Completed(at(3)), message: None, ..failed },
        ),
        Record::State(JobId(8), StatusSnapshot { result: None, ..failed }),
        Record::Worker(worker, registered.clone()),
        Record::Worker(worker, queues(&[])),
        Record::Worker(worker, queues(&[b"a", b"", b"\xff"])),
    ]
}

fn all_event_kinds() -> Vec<EventKind> {
    let advanced =
        |old: &[u8], new: &[u8]| EventKind::Advanced { old: old.into(), new: new.into() };
    vec![
        EventKind::Created,
        advanced(b"null", b"1"),
        advanced(b"1", b"\"two\""),
        advanced(b"1", b""),
        EventKind::User(Box::from(*b"{}")),
        EventKind::Reserved { by: None },
        EventKind::Reserved { by: Some(ClientId { index: 7, generation: u32::MAX }) },
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

#[test]
fn documented_layout_defines_every_field_that_it_names() {
    let page = include_str!("mod.rs");
    let layout = page.split("```").nth(1).unwrap();
    let names = [
        "record",
        "schedule flags",
        "dependency flags",
        "state",
        "option flags",
        "result flags",
        "runs",
        "run flags",
        "flags",
        "history",
        "event",
        "path",
        "value",
        "text",
        "moment",
    ];
    let lines: Vec<&str> = layout.lines().filter_map(|line| line.strip_prefix("//! ")).collect();
    let defined: Vec<&str> = lines
        .iter()
        .filter(|line| !line.is_empty() && !line.starts_with("  "))
        .map(|line| line.split('=').next().unwrap().trim())
        .collect();
    assert_eq!(defined, names);
    for name in &names[1..] {
        let uses = lines
            .iter()
            .filter(|line| line.split_once(" = ").map_or(**line, |(_, rest)| rest).contains(name));
        assert!(uses.count() > 0, "{name} is defined and not used");
    }
}

#[test]
fn records_round_trip_and_truncated_ones_are_errors() {
    for record in sample_records() {
        let mut bytes = Vec::new();
        write(&record, NOW, &mut bytes);
        assert_eq!(read(&bytes, NOW), Ok(record.clone()));
        for end in 0..bytes.len() {
            assert!(read(&bytes[..end], NOW).is_err(), "{record:?} cut to {end} bytes");
        }
        bytes.push(0);
        assert_eq!(read(&bytes, NOW), Err(MalformedRecord { at: bytes.len() - 1 }));
    }
}

/// The bytes of journals from before there were histories.
#[test]
fn job_without_history_has_its_original_bytes() {
    let Record::Job(plain) = sample_records().remove(0) else { panic!() };
    let mut bytes = Vec::new();
    write(&Record::Job(plain.clone()), NOW, &mut bytes);
    assert_eq!(bytes, [1, 1, 1 << 3, 1, b'q', 1, 2, b'{', b'}']);
    assert_eq!(read(&bytes, NOW), Ok(Record::Job(plain)));
}

/// The bytes of journals from before there were tracked jobs.
#[test]
fn options_without_tracking_have_their_original_bytes() {
    let Record::Job(plain) = sample_records().remove(0) else { panic!() };
    let retry = Retry { limit: 1, first_ms: 2, factor: 3, max_ms: 4, jitter_percent: 5 };
    for (retry, bytes) in [(None, &[0][..]), (Some(retry), &[1, 1, 2, 3, 4, 5])] {
        let options = Some(JobOptions { lease_ms: 7, retry, ..JobOptions::default() });
        let mut written = Vec::new();
        write(&Record::Job(Snapshot { options, ..plain.clone() }), NOW, &mut written);
        assert_eq!(written.split_off(9), [&[7, 0, 0], bytes].concat());
    }
}

#[test]
fn moments_are_stored_by_the_wall_clock() {
    let record = Record::State(
        JobId(1),
        StatusSnapshot { stage: PersistedStatus::Completed(at(500)), ..INITIAL_STATE },
    );
    let mut bytes = Vec::new();
    write(&record, NOW, &mut bytes);
    for (passed, left) in [(0, 500), (400, 100), (500, 0), (9_000, 0)] {
        let later = Now { mono: Mono(77), wall: Wall(NOW.wall.0 + passed) };
        let due = later.mono.after(Duration::from_millis(left));
        let expected = Record::State(
            JobId(1),
            StatusSnapshot { stage: PersistedStatus::Completed(due), ..INITIAL_STATE },
        );
        assert_eq!(read(&bytes, later), Ok(expected));
    }
}

#[test]
fn moment_has_the_same_bytes_in_every_pass() {
    let due = Mono(6_700_000);
    for nanos in [1_700_000, 1_999_999, 2_000_000, 3_100_000, 6_700_000, 7_100_000] {
        let wall = Wall(NOW.wall.0 + nanos / 1_000_000);
        let mut bytes = Vec::new();
        push_timestamp(&mut bytes, due, Now { mono: Mono(nanos), wall });
        let mut expected = Vec::new();
        push_number(&mut expected, NOW.wall.0 + 6);
        assert_eq!(bytes, expected, "written at {nanos} ns");
    }
}

#[test]
fn random_bytes_are_an_error_or_a_record() {
    let (mut rng, mut read_well) = (Rng::new(8), 0);
    let records = sample_records();
    for _ in 0..200_000 {
        let mut bytes = Vec::new();
        let number = usize::try_from(rng.below(records.len() as u64)).unwrap();
        write(&records[number], NOW, &mut bytes);
        for _ in 0..rng.below(4) {
            let place = usize::try_from(rng.below(bytes.len() as u64)).unwrap();
            bytes[place] = rng.next_u64().to_le_bytes()[0];
        }
        read_well += u32::from(read(&bytes, NOW).is_ok());
    }
    assert!(read_well > 50_000);
}

fn sample_schedules() -> [Record<'static>; 2] {
    let job = NewJob {
        priority: OwnedPriority::Number(-7),
        encoding: Encoding::Json,
        payload: b"{\"a\":1}"[..].into(),
        options: JobOptions {
            delay_ms: 300,
            ttl_ms: 7_000,
            retry: Some(Retry::DEFAULT),
            max_attempts: 3,
            ..JobOptions::default()
        },
        key: Some(Box::new(NewKey {
            bytes: (*b"k").into(),
            ttl_ms: 5,
            on_duplicate: OnDuplicate::Reject,
        })),
        dependencies: Some(Box::new(NewDependencies {
            group: Some((*b"g").into()),
            after_group: Some((*b"\xff").into()),
            ..NewDependencies::default()
        })),
    };
    let cron = Schedule {
        name: b"nightly \xff"[..].into(),
        timing: Timing::Cron("0 3 * * *".into()),
        timezone: "Europe/Berlin".into(),
        queue: b"mail"[..].into(),
        job: job.clone(),
        job_text: "{\"payload\":{\"a\":1}}".into(),
        skips_overlap: true,
        skips_missed: false,
        paused: false,
    };
    let job = NewJob { encoding: Encoding::Packet { key_len: 0 }, ..job };
    let every = Schedule {
        timing: Timing::EveryMs(100),
        job: NewJob { priority: OwnedPriority::Beyond("9".repeat(30).into()), ..job },
        skips_overlap: false,
        skips_missed: true,
        paused: true,
        ..cron.clone()
    };
    let run = Some((Wall(1_700_000_000_001), JobId(77)));
    let state =
        ScheduleState { next: Some(Wall(1_700_000_060_000)), anchor: Wall(5), last_run: run };
    [(cron, state), (every, ScheduleState::default())]
        .map(|(schedule, state)| Record::Schedule(JobId(304), Cow::Owned(schedule), state))
}
