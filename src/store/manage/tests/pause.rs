//! Pauses of queues with many tracked jobs.

use super::*;
use crate::base::rng::Rng;
use crate::model::consumer::ConsumerCommand;
use crate::model::reply::Rejection;
use std::time::Duration;

const PAUSE_A: ManageCommand<'_> = ManageCommand::Pause { queue: b"a", for_ms: None };
const RESUME_A: ManageCommand<'_> = ManageCommand::Resume { queue: b"a" };

fn is_paused(answers: &[Answer]) -> bool {
    match &answers[0] {
        Answer::Manage(ManageReply::Queue(queue)) => queue.paused,
        other => panic!("{other:?}"),
    }
}

#[test]
fn paused_queue_hands_out_nothing_and_other_queues_go_on() {
    let mut harness = Harness::new(100);
    let first = harness.put(b"a", None);
    let other = harness.put(b"b", None);
    assert!(is_paused(&harness.manage(PAUSE_A)));
    assert_eq!(harness.reserve(&[b"a"], Wait::No), [Answer::NoJob], "at once");
    assert_eq!(harness.reserve(&[b"a", b"b"], Wait::No), [Answer::Job(other)]);
    assert_eq!(harness.reserve(&[b"a", b"b"], Wait::Forever), []);
    harness.put(b"a", None);
    let answers = harness.manage(RESUME_A);
    assert!(!is_paused(&answers) && answers[1..] == [Answer::Job(first)], "{answers:?}");
}

#[test]
fn pause_ends_by_itself_and_a_second_one_replaces_the_first() {
    let mut harness = Harness::new(100);
    let id = harness.put(b"a", None);
    harness.manage(ManageCommand::Pause { queue: b"a", for_ms: Some(10) });
    harness.manage(ManageCommand::Pause { queue: b"a", for_ms: Some(20) });
    assert_eq!(harness.reserve(&[b"a"], Wait::Forever), []);
    let start = harness.now.mono;
    harness.now.mono = start.after(Duration::from_millis(19));
    assert_eq!(harness.pass(), []);
    harness.now.mono = start.after(Duration::from_millis(20));
    assert_eq!(harness.pass(), [Answer::Job(id)]);
    assert!(!is_paused(&harness.manage(ManageCommand::Queue { queue: b"a" })));
}

#[test]
fn withheld_jobs_come_back_a_bounded_number_in_each_pass() {
    let mut harness = Harness::new(8);
    let early: Vec<u64> = (0..50).map(|_| harness.put(b"a", Some(&TRACKED))).collect();
    harness.manage(PAUSE_A);
    for _ in 0..50 {
        harness.put(b"a", Some(&TRACKED));
    }
    assert_eq!(harness.reserve_any(), [], "it waits");
    while harness.is_pending() {
        assert_eq!(harness.pass(), []);
    }
    let other = harness.put(b"b", Some(&TRACKED));
    assert_eq!(harness.others, [Answer::Job(other)]);
    assert_eq!(harness.reserve_any(), [], "it waits");
    let mut got = harness.manage(RESUME_A).split_off(1);
    assert!(harness.is_pending(), "too many come back for one pass");
    while harness.is_pending() {
        got.append(&mut harness.pass());
    }
    assert_eq!(got.len(), 1, "{got:?}");
    let mut left = 0;
    while let [Answer::Job(_)] = harness.reserve_any()[..] {
        left += 1;
    }
    assert_eq!(left, early.len() + 50 - 1);
}

#[test]
fn random_pauses_lose_no_tracked_job() {
    for seed in 0..8 {
        let (mut harness, mut rng) = (Harness::new(3), Rng::new(seed));
        for _ in 0..300 {
            let queue: &[u8] = if rng.below(2) == 0 { b"a" } else { b"b" };
            match rng.below(10) {
                0..5 => _ = harness.put(queue, Some(&TRACKED)),
                5 => drop(harness.manage(ManageCommand::Pause { queue, for_ms: None })),
                6 | 7 => drop(harness.manage(ManageCommand::Resume { queue })),
                8 => drop(harness.reserve_any()),
                _ => drop(harness.pass()),
            }
        }
        for queue in [b"a", b"b"] {
            harness.manage(ManageCommand::Resume { queue });
        }
        while harness.is_pending() {
            harness.pass();
        }
        let left = harness.store.jobs.iter().filter(|(_, job)| job.waits()).count();
        for _ in 0..left {
            assert!(matches!(harness.reserve_any()[..], [Answer::Job(_)]));
        }
    }
}

#[test]
fn refused_pause_of_a_client_leaves_no_queue_behind() {
    let mut harness = Harness::new(100);
    let next = JobId(harness.store.ids.next());
    harness.store.ids.skip_hidden(next);
    let pause = ConsumerCommand::Pause { queue: b"a", exists: true, for_ms: 1_000 };
    let answers = harness.apply(0, &Command::Consumer(pause));
    assert_eq!(answers, [Answer::Other(Outcome::Rejected(Rejection::Full))]);
    assert!(harness.store.queues.find(b"a").is_none(), "it was made for nothing");
}
