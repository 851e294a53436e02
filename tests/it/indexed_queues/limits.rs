//! Many jobs, long histories, many queues: what is bounded, and that it ends.

use super::harness::Harness;
use jobcentre::base::limits::{
    BACKFILL_JOBS_PER_STEP, DROPPED_JOBS_PER_CHUNK, EVENT_LOG_EVENTS_MAX, EVENT_LOG_MAX_BYTES,
};
use jobcentre::model::event::EventKind;
use jobcentre::model::indexed_queue::IndexedCommand;
use jobcentre::model::indexed_queue::{IndexedPage, IndexedReply};
use jobcentre::model::owned::OwnedReply;

#[test]
fn backfill_is_bounded_in_each_step_while_jobs_change() {
    let mut harness = Harness::new();
    let ids: Vec<_> = (0..4 * BACKFILL_JOBS_PER_STEP).map(|_| harness.put(b"q", b"1")).collect();
    let kept: Vec<_> = ids[1..].iter().copied().filter(|id| id.0 % 2 == 0).collect();
    let mut answers = 0;
    for (number, &id) in ids.iter().enumerate() {
        if id.0 % 2 == 1 {
            assert_eq!(harness.delete(b"q", id), IndexedReply::Done);
        }
        if number % 400 == 0 {
            let listed = harness.owned(IndexedCommand::List { queue: b"q" });
            assert_eq!(listed, OwnedReply::IndexedPage(IndexedPage::NotYet));
            answers += 1;
        }
    }
    let new = harness.put(b"q", b"2");
    let mut asked = 0;
    let rows = loop {
        match harness.owned(IndexedCommand::List { queue: b"q" }) {
            OwnedReply::IndexedPage(IndexedPage::NotYet) => asked += 1,
            OwnedReply::Indexed(IndexedReply::Rows(rows)) => break rows,
            other => panic!("{other:?}"),
        }
    };
    assert!(answers + asked >= 2 && asked <= 4, "{answers} and {asked} times");
    let listed: Vec<_> = rows.keys().map(|key| key.id).collect();
    assert_eq!(listed, [&kept[..], &[new]].concat());
}

#[test]
fn drop_of_many_jobs_takes_several_replies_indexed_or_not() {
    for watched in [false, true] {
        let mut harness = Harness::new();
        if watched {
            harness.declare(b"q");
        }
        let count = 3 * DROPPED_JOBS_PER_CHUNK + 7;
        for _ in 0..count {
            harness.put(b"q", b"1");
            harness.put(b"r", b"1");
        }
        let (mut dropped, mut answers) = (0, 0);
        loop {
            answers += 1;
            match harness.drop_queue(b"q") {
                OwnedReply::IndexedPage(IndexedPage::QueueDropped { jobs, more }) => {
                    assert!(jobs <= DROPPED_JOBS_PER_CHUNK);
                    dropped += jobs;
                    if !more {
                        break;
                    }
                }
                other => panic!("{other:?}"),
            }
            assert!(answers < 10);
        }
        assert_eq!((dropped, answers), (count, 4));
        assert_eq!(harness.drop_queue(b"q"), OwnedReply::Indexed(IndexedReply::NoQueue));
        assert_eq!(harness.counts(), (count as usize, 0));
    }
}

#[test]
fn full_history_rejects_user_events_but_not_state_changes() {
    let mut harness = Harness::new();
    harness.declare(b"q");
    let id = harness.put_watched(b"q", b"1", b"0").id;
    let event = vec![b'1'; EVENT_LOG_MAX_BYTES / 2];
    let mut noted = 0;
    while let IndexedReply::Row(_) = harness.note(b"q", id, &event) {
        noted += 1;
    }
    assert_eq!(noted, 2);
    assert_eq!(harness.note(b"q", id, b"1"), IndexedReply::LogFull);
    let state = vec![b'2'; EVENT_LOG_MAX_BYTES];
    let IndexedReply::Row(first) = harness.advance(b"q", id, b"0", &state) else { panic!() };
    assert!(matches!(first.events.newest().unwrap().kind, EventKind::Advanced { .. }));
    let IndexedReply::Row(second) = harness.advance(b"q", id, &state, b"0") else { panic!() };
    assert_eq!((&*second.state, second.version), (&b"0"[..], first.version + 1));
    assert_eq!(second.events, first.events, "what would be too much is not kept");
}

#[test]
fn history_length_is_bounded() {
    let mut harness = Harness::new();
    harness.declare(b"q");
    let id = harness.put_watched(b"q", b"1", b"0").id;
    for _ in 1..EVENT_LOG_EVENTS_MAX {
        assert!(matches!(harness.note(b"q", id, b"1"), IndexedReply::Row(_)));
    }
    assert_eq!(harness.note(b"q", id, b"1"), IndexedReply::LogFull);
    let mut last = 0;
    for _ in 0..EVENT_LOG_EVENTS_MAX + 9 {
        let IndexedReply::Row(row) = harness.advance(b"q", id, b"0", b"0") else { panic!() };
        last = row.events.len();
    }
    assert_eq!(last, 2 * EVENT_LOG_EVENTS_MAX);
}

#[test]
fn queue_list_is_complete_over_several_replies() {
    let mut harness = Harness::new();
    let name = |number: u32| format!("queue {number}").into_bytes();
    for number in 0..1_500 {
        if number % 2 == 0 {
            harness.put(&name(number), b"1");
        } else {
            harness.declare(&name(number));
        }
    }
    let queues = harness.queues();
    assert_eq!(queues.len(), 1_501);
    assert_eq!(queues.iter().filter(|(_, jobs)| *jobs == 1).count(), 750);
    let mut names: Vec<_> = queues.into_iter().map(|(name, _)| name).collect();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), 1_501, "each comes once");
}
