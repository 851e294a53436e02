//! Records go to bytes and come back; no bytes make it panic.

use super::read::NoRecord;
use super::*;
use crate::base::rng::Rng;
use crate::base::time::Wall;
use crate::model::event::{Event, EventLog, Happening};
use crate::model::id::{ClientId, JobId};
use crate::model::job::{Lease, Retry};
use crate::model::named::Portion;
use crate::model::snapshot::{Enlisted, History};
use crate::model::work::WorkerId;
use std::time::Duration;

const NOW: Now = Now { mono: Mono(5_000_000_000), wall: Wall(1_700_000_000_000) };

fn at(ms: u64) -> Mono {
    NOW.mono.after(Duration::from_millis(ms))
}

fn payload(encoding: Encoding, bytes: &[u8]) -> Payload<'_> {
    Payload { encoding, bytes }
}

fn some_records() -> Vec<Record<'static>> {
    let retry = Retry { limit: 10, first_ms: 1, factor: 2, max_ms: u64::MAX, jitter_percent: 10 };
    let terms = Terms { lease_ms: 30_000, retry: Some(retry), keep_ms: 7, ..Terms::default() };
    let plain = Snapshot {
        id: JobId(1),
        queue: b"q",
        urgency: Urgency::Number(0),
        turn: Turn::OldestFirst,
        payload: payload(Encoding::JsonLine, b"{}"),
        terms: None,
        expires: None,
        state: FRESH,
        history: None,
        name: None,
    };
    let packet = payload(Encoding::Packet { key_len: 2 }, b"key");
    let result = Some(payload(Encoding::Json, b"[1]"));
    let state =
        State { stage: Stage::Delayed(at(9)), retries: 3, result, message: None, progress: None };
    let numbers = [-1, 1, i64::MAX - 1, i64::MIN + 1].map(Urgency::Number);
    let beyond = Urgency::Beyond("18446744073709551616");
    let mut records: Vec<Record<'_>> = numbers
        .into_iter()
        .chain([beyond, Urgency::Never])
        .map(|urgency| Record::Job(Snapshot { urgency, ..plain.clone() }))
        .collect();
    records.push(Record::Job(Snapshot { id: JobId((1 << 53) - 1), queue: b"", ..plain.clone() }));
    let turn = Turn::NewestFirst;
    records.push(Record::Job(Snapshot {
        turn,
        payload: packet,
        expires: Some(at(1)),
        ..plain.clone()
    }));
    records.push(Record::Job(Snapshot { terms: Some(terms), state, ..plain.clone() }));
    for stage in
        [Stage::Waiting, Stage::Kept(at(0)), Stage::Buried(None), Stage::Buried(Some(at(5)))]
    {
        let state =
            State { stage, retries: u32::MAX, result: Some(packet), message: None, progress: None };
        records.push(Record::State(JobId(7), state));
    }
    records.append(&mut followed_records(&plain, terms));
    records.push(Record::Gone(JobId(300)));
    records.push(Record::Queue(JobId(301), b"declared"));
    let mut events = EventLog::default();
    for (at, what) in (0..).zip(all_happenings()) {
        let event = Event { what, at: at * 1_000 };
        records.push(Record::Event(JobId(7), at, event.clone()));
        events = events.with(event);
    }
    let history = History { state: b"[\"A\"]", modified: 1_700_000_000, version: 300, events };
    let recorded = Snapshot { state, history: Some(history), ..plain.clone() };
    records.push(Record::Job(recorded.clone()));
    records.append(&mut named_records(plain, recorded));
    records
}

/// What only jobs have that the processor knows.
fn named_records(plain: Snapshot<'static>, recorded: Snapshot<'static>) -> Vec<Record<'static>> {
    let stage = Stage::Running { worker: WorkerId(1), until: Some(at(9_000)), lease: Lease(0) };
    let working = State { stage, progress: Portion::new(0.5), ..FRESH };
    let told = State { message: Some("so"), result: plain.state.result, ..working };
    vec![
        Record::Job(Snapshot { name: Some(b"a uuid"), ..plain.clone() }),
        Record::Job(Snapshot { name: Some(b"\"\n"), state: working, ..plain }),
        Record::Job(Snapshot { name: Some(b""), state: told, ..recorded }),
        Record::State(JobId(1), working),
        Record::State(JobId(1), State { progress: Some(Portion::NOTHING), ..told }),
    ]
}

/// What only work has that is followed to a result.
fn followed_records(plain: &Snapshot<'static>, terms: Terms) -> Vec<Record<'static>> {
    let packed = payload(Encoding::MsgPack, b"\x81\xa1n\xc4\x02\xff\0");
    let failed = State { result: Some(packed), message: Some("no: \u{e9}"), ..FRESH };
    let worker = WorkerId(9);
    let running = |until, lease| Stage::Running { worker, until, lease: Lease(lease) };
    let once = Terms { followed: true, fetch_once: true, ..terms };
    let never = Terms { retry: None, followed: true, ..Terms::default() };
    let enlisted = Enlisted { name: "w", url: "http://w/", max_jobs: u32::MAX, queues: None };
    let queues =
        |queues: &[&'static [u8]]| Enlisted { queues: Some(queues.to_vec()), ..enlisted.clone() };
    let job = |terms, state| {
        Record::Job(Snapshot { payload: packed, terms: Some(terms), state, ..plain.clone() })
    };
    vec![
        job(once, State { stage: running(Some(at(7)), 1), ..failed }),
        job(Terms { fetch_once: true, ..Terms::default() }, FRESH),
        job(never, State { stage: running(None, u32::MAX), ..FRESH }),
        Record::State(JobId(8), State { stage: Stage::Kept(at(3)), message: None, ..failed }),
        Record::State(JobId(8), State { result: None, ..failed }),
        Record::Worker(worker, enlisted.clone()),
        Record::Worker(worker, queues(&[])),
        Record::Worker(worker, queues(&[b"a", b"", b"\xff"])),
    ]
}

fn all_happenings() -> Vec<Happening> {
    let advanced =
        |old: &[u8], new: &[u8]| Happening::Advanced { old: old.into(), new: new.into() };
    vec![
        Happening::Created,
        advanced(b"null", b"1"),
        advanced(b"1", b"\"two\""),
        advanced(b"1", b""),
        Happening::User(Box::from(*b"{}")),
        Happening::Taken { by: None },
        Happening::Taken { by: Some(ClientId { index: 7, generation: u32::MAX }) },
        Happening::Aborted,
        Happening::Abandoned,
        Happening::Expired,
        Happening::Failed,
        Happening::Retried,
        Happening::Finished,
        Happening::Buried,
        Happening::Kicked,
        Happening::Due,
    ]
}

#[test]
fn records_come_back_and_their_parts_are_no_records() {
    for record in some_records() {
        let mut bytes = Vec::new();
        write(&record, NOW, &mut bytes);
        assert_eq!(read(&bytes, NOW), Ok(record.clone()));
        for end in 0..bytes.len() {
            assert!(read(&bytes[..end], NOW).is_err(), "{record:?} cut to {end} bytes");
        }
        bytes.push(0);
        assert_eq!(read(&bytes, NOW), Err(NoRecord { at: bytes.len() - 1 }));
    }
}

/// What a journal from before there were records of jobs holds.
#[test]
fn a_job_without_a_record_has_the_bytes_that_it_always_had() {
    let Record::Job(plain) = some_records().remove(0) else { panic!() };
    let mut bytes = Vec::new();
    write(&Record::Job(plain.clone()), NOW, &mut bytes);
    assert_eq!(bytes, [1, 1, 1 << 3, 1, b'q', 1, 2, b'{', b'}']);
    assert_eq!(read(&bytes, NOW), Ok(Record::Job(plain)));
}

/// What a journal from before there were followed jobs holds.
#[test]
fn terms_of_other_doors_have_the_bytes_that_they_always_had() {
    let Record::Job(plain) = some_records().remove(0) else { panic!() };
    let retry = Retry { limit: 1, first_ms: 2, factor: 3, max_ms: 4, jitter_percent: 5 };
    for (retry, bytes) in [(None, &[0][..]), (Some(retry), &[1, 1, 2, 3, 4, 5])] {
        let terms = Some(Terms { lease_ms: 7, retry, ..Terms::default() });
        let mut written = Vec::new();
        write(&Record::Job(Snapshot { terms, ..plain.clone() }), NOW, &mut written);
        assert_eq!(written.split_off(9), [&[7, 0, 0], bytes].concat());
    }
}

#[test]
fn moments_are_kept_on_the_wall_clock() {
    let record = Record::State(JobId(1), State { stage: Stage::Kept(at(500)), ..FRESH });
    let mut bytes = Vec::new();
    write(&record, NOW, &mut bytes);
    for (passed, left) in [(0, 500), (400, 100), (500, 0), (9_000, 0)] {
        let later = Now { mono: Mono(77), wall: Wall(NOW.wall.0 + passed) };
        let due = later.mono.after(Duration::from_millis(left));
        let expected = Record::State(JobId(1), State { stage: Stage::Kept(due), ..FRESH });
        assert_eq!(read(&bytes, later), Ok(expected));
    }
}

#[test]
fn bytes_at_random_are_an_error_or_a_record_and_never_a_panic() {
    let (mut rng, mut read_well) = (Rng::new(8), 0);
    let records = some_records();
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
