//! Actions that take several passes.

use super::*;
use crate::model::action::{
    ActionDetails, ActionFilter, ActionSpec, ActionState, ActionVerb, JobChange,
};
use crate::model::job_state::JobStates;
use crate::model::manage::{
    JobState, LeaseTerms, Missing, NewJob, NewKey, OnDuplicate, ReserveTerms, RunReport,
};
use crate::model::reply::Rejection;
use crate::model::snapshot::PersistedKey;
use crate::store::RewriteLimit;
use std::time::Duration;

fn spec(verb: ActionVerb, states: &[JobState]) -> ActionSpec {
    let filter = ActionFilter::States(states.iter().copied().collect());
    let (queue, limit, dry_run, wait) = (Box::from(*b"a"), None, false, false);
    ActionSpec { queue, filter, verb, limit, dry_run, wait }
}

/// The one action that is answered.
fn action(answers: &[Answer]) -> ActionDetails {
    match answers {
        [Answer::Manage(ManageReply::Action(action))] => (**action).clone(),
        other => panic!("{other:?}"),
    }
}

fn counts(harness: &mut Harness, queue: &[u8]) -> [u64; 6] {
    match &harness.manage(ManageCommand::Queue { queue })[..] {
        [Answer::Manage(ManageReply::Queue(queue))] => queue.counts,
        other => panic!("{other:?}"),
    }
}

#[test]
fn action_goes_on_over_passes_and_leaves_later_jobs_alone() {
    let mut harness = Harness::new(40);
    for _ in 0..30 {
        harness.put(b"a", None);
    }
    let begun =
        action(&harness.manage(ManageCommand::Act(&spec(ActionVerb::Delete, &[JobState::Ready]))));
    assert_eq!((begun.state, begun.matched), (ActionState::Running, Some(30)));
    assert!(begun.done > 0, "it begins at once");
    let late = harness.put(b"a", None);
    while harness.is_pending() {
        assert_eq!(harness.pass(), []);
    }
    let ended = action(&harness.manage(ManageCommand::ShowAction { id: begun.id }));
    assert_eq!((ended.state, ended.done), (ActionState::Finished, 30));
    assert!(ended.ended_at.is_some());
    assert_eq!(harness.reserve(&[b"a"], Wait::No), [Answer::Job(late)]);
}

#[test]
fn action_that_is_awaited_is_answered_at_its_end_and_goes_on_without_its_client() {
    let mut harness = Harness::new(40);
    for _ in 0..30 {
        harness.put(b"a", None);
    }
    let to = Box::from(*b"b");
    let awaited = ActionSpec { wait: true, ..spec(ActionVerb::Move { to }, &[JobState::Ready]) };
    assert_eq!(harness.manage(ManageCommand::Act(&awaited)), []);
    let mut answers = Vec::new();
    while harness.is_pending() {
        answers.append(&mut harness.pass());
    }
    assert_eq!(action(&answers).done, 30);
    assert_eq!((counts(&mut harness, b"a")[1], counts(&mut harness, b"b")[1]), (0, 30));
    let back = ActionVerb::Move { to: Box::from(*b"a") };
    let back = ActionSpec { queue: Box::from(*b"b"), ..ActionSpec { verb: back, ..awaited } };
    assert_eq!(harness.manage(ManageCommand::Act(&back)), []);
    harness.fx.clear();
    let client = ClientId { index: 0, generation: 1 };
    harness.store.disconnect_client(client, harness.now, &mut harness.fx);
    while harness.is_pending() {
        assert_eq!(harness.pass(), []);
    }
    assert_eq!(counts(&mut harness, b"a")[1], 30);
}

#[test]
fn buried_jobs_are_kicked_in_the_order_of_their_burial_up_to_the_limit() {
    let mut harness = Harness::new(1_000);
    let ids: Vec<u64> = (0..5).map(|_| harness.put(b"a", None)).collect();
    for &id in &[ids[3], ids[0], ids[4]] {
        harness.manage(ManageCommand::Bury { id: JobId(id) });
    }
    let kick = spec(ActionVerb::Kick, &[JobState::Buried]);
    let dry = ActionSpec { dry_run: true, ..kick.clone() };
    assert_eq!(action(&harness.manage(ManageCommand::Act(&dry))).done, 3);
    assert_eq!(counts(&mut harness, b"a")[4], 3, "nothing has changed");
    let two = ActionSpec { limit: Some(2), ..kick };
    let kicked = action(&harness.manage(ManageCommand::Act(&two)));
    assert_eq!((kicked.matched, kicked.done), (Some(3), 2));
    match &harness.manage(ManageCommand::Show { id: JobId(ids[4]) })[..] {
        [Answer::Manage(ManageReply::Job(job))] => assert_eq!(job.state, JobState::Buried),
        other => panic!("{other:?}"),
    }
}

#[test]
fn action_waits_until_it_may_write_and_fails_where_there_is_no_space() {
    let mut harness = Harness::new(1_000);
    for _ in 0..5 {
        harness.put(b"a", None);
    }
    let limit = |record_bytes, is_full, payload_bytes| RewriteLimit {
        record_bytes,
        is_full,
        payload_bytes,
    };
    harness.store.limit_rewrites(limit(1, false, u64::MAX));
    let moved = ActionVerb::Move { to: Box::from(*b"b") };
    let moved = ActionSpec { wait: true, ..spec(moved, &[JobState::Ready]) };
    assert_eq!(harness.manage(ManageCommand::Act(&moved)), []);
    assert_eq!((harness.pass(), counts(&mut harness, b"b")[1]), (vec![], 1));
    harness.store.limit_rewrites(limit(200, true, u64::MAX));
    let full = [Answer::Manage(ManageReply::Rejected(Rejection::DiskFull))];
    assert_eq!((&harness.pass()[..], counts(&mut harness, b"b")[1]), (&full[..], 2));
    assert!(!harness.is_pending(), "it has ended");

    harness.store.limit_rewrites(limit(u64::MAX, false, 100));
    let payload = Some((Encoding::Json, [b'1'; 62][..].into()));
    let larger = ActionVerb::Change(JobChange { payload, ..JobChange::default() });
    let failed =
        action(&harness.manage(ManageCommand::Act(&spec(larger.clone(), &[JobState::Ready]))));
    assert_eq!((failed.state, failed.done, failed.matched), (ActionState::Failed, 1, Some(3)));
    assert!(failed.error.is_some_and(|error| error.contains("--max-memory")));
    let dry = ActionSpec { dry_run: true, ..spec(larger, &[JobState::Ready]) };
    assert_eq!(action(&harness.manage(ManageCommand::Act(&dry))).done, 3, "it writes nothing");
}

#[test]
fn dry_run_of_a_move_passes_over_jobs_whose_key_is_taken() {
    let mut harness = Harness::new(1_000);
    for (queue, key) in [(b"a", *b"k"), (b"b", *b"k"), (b"a", *b"l")] {
        let on_duplicate = OnDuplicate::default();
        let job = NewJob {
            priority: Priority::Small(0).into(),
            encoding: Encoding::Json,
            payload: (*b"{}").into(),
            options: JobOptions::default(),
            key: Some(Box::new(NewKey { bytes: key.into(), ttl_ms: 0, on_duplicate })),
            dependencies: None,
        };
        harness.manage(ManageCommand::Put { queue, job: &job });
    }
    let moved = spec(ActionVerb::Move { to: Box::from(*b"b") }, &[JobState::Ready]);
    let dry = ActionSpec { dry_run: true, ..moved.clone() };
    assert_eq!(action(&harness.manage(ManageCommand::Act(&dry))).done, 1);
    assert_eq!(counts(&mut harness, b"a")[1], 2, "nothing has changed");
    assert_eq!(action(&harness.manage(ManageCommand::Act(&moved))).done, 1);
}

#[test]
fn queue_of_a_change_that_its_keys_forbid_is_idle() {
    let mut harness = Harness::new(1_000);
    let job = NewJob {
        priority: Priority::Small(0).into(),
        encoding: Encoding::Json,
        payload: (*b"{}").into(),
        options: JobOptions::default(),
        key: Some(Box::new(NewKey {
            bytes: Box::from(*b"k"),
            ttl_ms: 1_000_000,
            on_duplicate: OnDuplicate::default(),
        })),
        dependencies: None,
    };
    // As after a restart: nothing else is known of the queue.
    let until = harness.now.mono.after(Duration::from_hours(1));
    let taken = PersistedKey { queue: b"b", bytes: b"k", job: JobId(90), until };
    harness.store.restore_past_key(JobId(91), &taken);
    harness.manage(ManageCommand::Put { queue: b"a", job: &job });
    let change = JobChange { queue: Some(Box::from(*b"b")), ..JobChange::default() };
    let answers = harness.manage(ManageCommand::Change { id: JobId(1), change: &change });
    assert!(matches!(answers[..], [Answer::Manage(ManageReply::KeyTaken(_))]), "{answers:?}");
    harness.store.check_invariants();
}

#[test]
fn cancelled_action_stops() {
    let mut harness = Harness::new(40);
    for _ in 0..30 {
        harness.put(b"a", None);
    }
    let bury = spec(ActionVerb::Bury, &[JobState::Ready]);
    let begun = action(&harness.manage(ManageCommand::Act(&bury)));
    let ended = action(&harness.manage(ManageCommand::CancelAction { id: begun.id }));
    assert_eq!(ended.state, ActionState::Cancelled);
    assert!(!harness.is_pending());
    assert_eq!(counts(&mut harness, b"a")[4], ended.done);
    for (id, missing) in [(0, Missing::NeverGivenOut), (9, Missing::NeverGivenOut)] {
        let answers = harness.manage(ManageCommand::ShowAction { id });
        assert_eq!(answers, [Answer::Manage(ManageReply::Missing(missing))]);
    }
    let listed = harness.manage(ManageCommand::ListActions { below: None, limit: 9 });
    assert_eq!(listed, [Answer::Manage(ManageReply::Actions([ended].into()))]);
}

#[test]
fn deleted_queue_is_unknown_and_comes_back_with_the_next_job() {
    let mut harness = Harness::new(40);
    for _ in 0..30 {
        harness.put(b"a", None);
    }
    assert!(matches!(harness.reserve(&[b"a"], Wait::No)[..], [Answer::Job(_)]));
    harness.manage(ManageCommand::Pause { queue: b"a", for_ms: None });
    let drop = |force| ManageCommand::DropQueue { queue: b"a", force };
    assert_eq!(harness.manage(drop(false)), [Answer::Manage(ManageReply::QueueBusy(1))]);
    assert_eq!(harness.manage(drop(true)), []);
    let mut answers = Vec::new();
    while harness.is_pending() {
        answers.append(&mut harness.pass());
    }
    assert_eq!(action(&answers).done, 30);
    let unknown = [Answer::Manage(ManageReply::Missing(Missing::Queue))];
    assert_eq!(harness.manage(ManageCommand::Queue { queue: b"a" }), unknown);
    let id = harness.put(b"a", None);
    assert_eq!(counts(&mut harness, b"a")[1], 1);
    assert_eq!(harness.reserve(&[b"a"], Wait::No), [Answer::Job(id)], "it is not paused");
}

#[test]
fn change_of_all_fields_is_one_change() {
    let mut harness = Harness::new(1_000);
    let id = JobId(harness.put(b"a", None));
    let change = JobChange {
        payload: Some((Encoding::Json, Box::from(*b"[2]"))),
        priority: Some(Priority::Small(7).into()),
        delay_ms: Some(50),
        ttl_ms: Some(100),
        queue: Some(Box::from(*b"b")),
        max_attempts: Some(3),
    };
    match &harness.manage(ManageCommand::Change { id, change: &change })[..] {
        [Answer::Manage(ManageReply::Job(job))] => {
            assert_eq!((&*job.queue, &*job.payload), (&b"b"[..], &b"[2]"[..]));
            assert_eq!((job.state, job.max_attempts), (JobState::Scheduled, Some(3)));
            assert_eq!(job.available_at, Wall(harness.now.wall.0 + 50));
            assert_eq!(job.expires_at, Some(Wall(harness.now.wall.0 + 100)));
        }
        other => panic!("{other:?}"),
    }
    let now = JobChange { delay_ms: Some(0), ..JobChange::default() };
    harness.manage(ManageCommand::Change { id, change: &now });
    assert_eq!(harness.reserve(&[b"b"], Wait::No), [Answer::Job(id.0)]);
    let refused = [Answer::Manage(ManageReply::WrongState(JobState::Reserved))];
    assert_eq!(harness.manage(ManageCommand::Change { id, change: &now }), refused);
}

#[test]
fn worker_is_told_that_its_job_was_cancelled_until_its_lease_would_have_ended() {
    let mut harness = Harness::new(1_000);
    let id = JobId(harness.put(b"a", None));
    let mut names = StringList::default();
    names.push(b"a");
    let lease = Some(LeaseTerms { ttr_ms: Some(50), worker: "w".into() });
    let terms = ReserveTerms { limit: 1, wait: Wait::No, lease };
    let queues = names.from(0);
    let reserve = ManageCommand::ReserveMore { first: None, queues, terms: &terms };
    let token = match &harness.manage(reserve)[..] {
        [Answer::Manage(ManageReply::Jobs(jobs))] => {
            jobs[0].lease.as_ref().and_then(|lease| lease.token)
        }
        other => panic!("{other:?}"),
    };
    assert!(token.is_some());
    let cancelled = harness.manage(ManageCommand::Cancel { id });
    assert_eq!(cancelled, [Answer::Manage(ManageReply::Done)]);
    let report = ManageCommand::Report { id, token, report: &RunReport::Touch { ttr_ms: None } };
    assert_eq!(harness.manage(report), [Answer::Manage(ManageReply::Cancelled)]);
    harness.now.mono = harness.now.mono.after(Duration::from_millis(50));
    assert_eq!(harness.manage(report), [Answer::Manage(ManageReply::StaleToken)]);
}

#[test]
fn set_of_states_has_what_was_added() {
    let some = JobStates::default().with(JobState::Ready).with(JobState::Completed);
    let has = JobState::ALL.map(|state| some.contains(state));
    assert_eq!(has, [false, true, false, false, false, true]);
    assert!(JobState::ALL.into_iter().all(|state| JobStates::ALL.contains(state)));
}

#[test]
fn oldest_ready_job_and_waiting_clients_are_shown() {
    let mut harness = Harness::new(1_000);
    harness.put(b"a", None);
    harness.now.mono = harness.now.mono.after(Duration::from_millis(30));
    harness.put(b"a", None);
    assert_eq!(harness.reserve(&[b"b"], Wait::Forever), []);
    assert_eq!(harness.reserve(&[b"b"], Wait::Forever), []);
    for (queue, oldest, waiting) in [(b"a", Some(30), 0), (b"b", None, 2)] {
        harness.manage(ManageCommand::Pause { queue, for_ms: None });
        match &harness.manage(ManageCommand::Queue { queue })[..] {
            [Answer::Manage(ManageReply::Queue(queue))] => {
                assert_eq!((queue.oldest_ready_ms, queue.waiting_consumers), (oldest, waiting));
            }
            other => panic!("{other:?}"),
        }
    }
}
