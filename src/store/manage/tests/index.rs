//! Indexes that are switched on and off over several passes, searches and actions on what they
//! find.

use super::*;
use crate::model::action::{ActionDetails, ActionFilter, ActionSpec, ActionState, ActionVerb};
use crate::model::indexed_queue::IndexedReply;
use crate::model::manage::Missing;
use crate::model::query::{Expr, Op, Query, Term};
use crate::store::NativeSearch;
use std::sync::Arc;

fn set(harness: &mut Harness, on: bool) -> Vec<Answer> {
    harness.manage(ManageCommand::SetIndex { queue: b"a", on })
}

fn index(on: bool, building: bool) -> [Answer; 1] {
    [Answer::Manage(ManageReply::Index { on, building })]
}

fn is_indexed(harness: &mut Harness) -> bool {
    match &harness.manage(ManageCommand::Queue { queue: b"a" })[..] {
        [Answer::Manage(ManageReply::Queue(queue))] => queue.indexed,
        other => panic!("{other:?}"),
    }
}

fn all_but_the_first() -> Arc<Query> {
    let (left, right) = (Expr::Text("id".into()), Expr::Number("1".into()));
    Arc::new(Query { terms: vec![Term { op: Op::Greater, left, right }] })
}

#[test]
fn index_is_made_and_removed_over_passes() {
    let mut harness = Harness::new(200);
    for _ in 0..700 {
        harness.put(b"a", None);
    }
    assert!(!is_indexed(&mut harness));
    assert_eq!(set(&mut harness, true), index(true, true));
    assert_eq!(set(&mut harness, true), index(true, true));
    while harness.is_pending() {
        assert_eq!(harness.pass(), []);
    }
    assert_eq!(set(&mut harness, true), index(true, false));
    // Switched off: answered at the end, and shown as off from the begin on.
    assert_eq!(set(&mut harness, false), []);
    let late = harness.put(b"a", None);
    assert!(!is_indexed(&mut harness));
    let (mut answers, mut passes) = (Vec::new(), 0);
    while harness.is_pending() {
        answers.append(&mut harness.pass());
        passes += 1;
    }
    assert!(passes > 20, "{passes}");
    assert_eq!(answers, index(false, false));
    assert_eq!(harness.reserve(&[b"a"], Wait::No), [Answer::Job(1)]);
    assert!(harness.store.peek(JobId(late)).is_some());
}

#[test]
fn index_that_is_switched_on_again_while_it_is_removed_stays() {
    let mut harness = Harness::new(80);
    for _ in 0..100 {
        harness.put(b"a", None);
    }
    assert_eq!(set(&mut harness, true), index(true, false));
    assert_eq!(set(&mut harness, false), []);
    harness.pass();
    assert_eq!(set(&mut harness, true), index(true, false));
    let mut answers = Vec::new();
    while harness.is_pending() {
        answers.append(&mut harness.pass());
    }
    assert_eq!(answers, index(true, false), "the answer says what is so");
    assert!(is_indexed(&mut harness));
    // Without its client it goes on.
    assert_eq!(set(&mut harness, false), []);
    harness.fx.clear();
    let client = ClientId { index: 0, generation: 1 };
    harness.store.disconnect_client(client, harness.now, &mut harness.fx);
    while harness.is_pending() {
        assert_eq!(harness.pass(), []);
    }
    assert!(!is_indexed(&mut harness));
}

#[test]
fn action_on_what_a_query_finds_passes_over_what_has_changed() {
    let mut harness = Harness::new(10_000);
    for _ in 0..5 {
        harness.put(b"a", None);
    }
    set(&mut harness, true);
    let filter = ActionFilter::Query(all_but_the_first());
    let (queue, limit) = (Box::from(*b"a"), None);
    let spec =
        ActionSpec { queue, filter, verb: ActionVerb::Bury, limit, dry_run: false, wait: false };
    assert_eq!(harness.manage(ManageCommand::Act(&spec)), [], "its query has had no turn");
    let search = harness.fx.searches.pop().unwrap();
    assert_eq!(search.native, Some(NativeSearch::Action(1)));
    let begun = begin(&mut harness, 1);
    assert_eq!((begun.id, begun.state, begun.matched), (1, ActionState::Running, None));
    assert_eq!(search.rows.len(), 5);
    assert!(!harness.is_pending(), "it waits for the query");
    let versions = |ids: &[u64]| {
        let rows = search.rows.values().filter(|row| ids.contains(&row.id.0));
        rows.map(|row| (row.id, row.version)).collect::<Vec<_>>()
    };
    let found = versions(&[2, 3, 4, 5]);
    // One is gone, and one has changed meanwhile.
    harness.manage(ManageCommand::Remove { id: JobId(3) });
    harness.manage(ManageCommand::Bury { id: JobId(4) });
    harness.manage(ManageCommand::Kick { id: JobId(4) });
    harness.fx.clear();
    harness.store.begin_found_action(begun.id, Ok(found), harness.now, &mut harness.fx);
    while harness.is_pending() {
        assert_eq!(harness.pass(), []);
    }
    let ended = action(&harness.manage(ManageCommand::ShowAction { id: begun.id }));
    assert_eq!((ended.state, ended.matched, ended.done), (ActionState::Finished, Some(4), 2));
    // One that fails, and one that is cancelled before its query has ended.
    assert_eq!(harness.manage(ManageCommand::Act(&spec)), []);
    let failing = begin(&mut harness, 2);
    let why = Err("too slow".into());
    harness.store.begin_found_action(failing.id, why, harness.now, &mut harness.fx);
    let failed = action(&harness.manage(ManageCommand::ShowAction { id: failing.id }));
    assert_eq!((failed.state, failed.error.as_deref()), (ActionState::Failed, Some("too slow")));
    assert_eq!(harness.manage(ManageCommand::Act(&spec)), []);
    let begun = begin(&mut harness, 3);
    let cancelled = action(&harness.manage(ManageCommand::CancelAction { id: begun.id }));
    assert_eq!(cancelled.state, ActionState::Cancelled);
    let late = Ok(versions(&[5]));
    harness.store.begin_found_action(begun.id, late, harness.now, &mut harness.fx);
    assert!(!harness.is_pending());
}

/// The query of an action has had a turn.
fn begin(harness: &mut Harness, id: u64) -> ActionDetails {
    harness.fx.clear();
    harness.store.answer_searching_action(id, &mut harness.fx);
    action(&harness.answers())
}

#[test]
fn action_whose_query_is_none_is_answered_so_and_leaves_nothing() {
    let mut harness = Harness::new(10_000);
    harness.put(b"a", None);
    set(&mut harness, true);
    let filter = ActionFilter::Query(all_but_the_first());
    let (queue, limit) = (Box::from(*b"a"), None);
    let spec =
        ActionSpec { queue, filter, verb: ActionVerb::Bury, limit, dry_run: false, wait: false };
    assert_eq!(harness.manage(ManageCommand::Act(&spec)), []);
    harness.fx.clear();
    harness.store.begin_found_action(1, Err("no".into()), harness.now, &mut harness.fx);
    let OwnedReply::Indexed(IndexedReply::BadQuery(why)) = &harness.fx.owned[0] else {
        panic!("{:?}", harness.fx.owned)
    };
    assert_eq!(&**why, "no");
    harness.store.check_invariants();
    let gone = [Answer::Manage(ManageReply::Missing(Missing::Gone))];
    assert_eq!(harness.manage(ManageCommand::ShowAction { id: 1 }), gone);
    // Its client has left: the action is there, and says why it has failed.
    assert_eq!(harness.manage(ManageCommand::Act(&spec)), []);
    let client = ClientId { index: 0, generation: 1 };
    harness.store.disconnect_client(client, harness.now, &mut harness.fx);
    harness.fx.clear();
    harness.store.begin_found_action(2, Err("no".into()), harness.now, &mut harness.fx);
    assert_eq!(harness.answers(), []);
    let failed = action(&harness.manage(ManageCommand::ShowAction { id: 2 }));
    assert_eq!((failed.state, failed.error.as_deref()), (ActionState::Failed, Some("no")));
}

fn action(answers: &[Answer]) -> ActionDetails {
    match answers {
        [Answer::Manage(ManageReply::Action(action))] => (**action).clone(),
        other => panic!("{other:?}"),
    }
}
