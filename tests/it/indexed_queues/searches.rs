//! Commands that need a search: what the store requests, and what it does with the result.

use super::harness::START;
use jobcentre::base::strings::StringList;
use jobcentre::base::time::{Mono, Now, Wall};
use jobcentre::model::command::{Command, Wait};
use jobcentre::model::id::{ClientId, JobId, Ticket};
use jobcentre::model::indexed_queue::{IndexedCommand, IndexedPage, IndexedReply};
use jobcentre::model::job::{Encoding, Payload, Priority, TieBreak};
use jobcentre::model::owned::OwnedReply;
use jobcentre::model::query::{Expr, Op, Query, Term};
use jobcentre::model::row::Row;
use jobcentre::store::{Effects, Outcome, SearchRequest, Store};
use std::sync::Arc;

const NOW: Now = Now { mono: Mono(0), wall: Wall(START) };
const TICKET: Ticket = Ticket { client: ClientId { index: 0, generation: 1 }, serial: 1 };

/// A query that only an evaluation can answer, among the jobs of one state.
fn query() -> Arc<Query> {
    let text = |text: &str| Expr::Text(text.into());
    let first = Term { op: Op::Is, left: text("state"), right: text("'\"NEW\"'") };
    let second = Term { op: Op::Greater, left: text("id"), right: text("id - 1") };
    Arc::new(Query { terms: vec![first, second] })
}

/// A store with a declared queue and three jobs, of which two are new.
fn store(fx: &mut Effects) -> (Store, Vec<JobId>) {
    let mut store = Store::new(1);
    let mut ids = Vec::new();
    ask(&mut store, IndexedCommand::CreateQueue { queue: Some(b"q") }, fx);
    for state in [&b"\"NEW\""[..], b"\"OLD\"", b"\"NEW\""] {
        let put = IndexedCommand::Put { queue: b"q", payload: b"{}", state };
        let Some(OwnedReply::Indexed(IndexedReply::Row(row))) = ask(&mut store, put, fx) else {
            panic!()
        };
        ids.push(row.id);
    }
    (store, ids)
}

/// The answer, if there is one at once.
fn ask(store: &mut Store, watch: IndexedCommand<'_>, fx: &mut Effects) -> Option<OwnedReply> {
    fx.clear();
    store.apply(TICKET, &Command::Indexed(watch), NOW, fx);
    store.check_invariants();
    answer(fx)
}

fn answer(fx: &Effects) -> Option<OwnedReply> {
    match fx.outcomes[..] {
        [] => None,
        [(TICKET, Outcome::Owned(number))] => Some(fx.owned[number as usize].clone()),
        ref other => panic!("{other:?}"),
    }
}

fn rows(search: &SearchRequest) -> Vec<Arc<Row>> {
    search.rows.values().cloned().collect()
}

fn ids(rows: &[Arc<Row>]) -> Vec<JobId> {
    rows.iter().map(|row| row.id).collect()
}

#[test]
fn search_gets_the_candidate_rows() {
    let mut fx = Effects::default();
    let (mut store, known) = store(&mut fx);
    let query = query();
    let find = IndexedCommand::Find { queue: b"q", query: &query, limit: Some(7) };
    assert_eq!(ask(&mut store, find, &mut fx), None);
    let search = fx.searches.pop().unwrap();
    assert_eq!(ids(&rows(&search)), [known[0], known[2]]);
    assert_eq!((&*search.queue, search.limit, search.poll), (&b"q"[..], Some(7), None));
    assert!(Arc::ptr_eq(&search.query, &query));
}

#[test]
fn poll_advances_the_first_unchanged_candidate() {
    let mut fx = Effects::default();
    let (mut store, known) = store(&mut fx);
    let query = query();
    let poll = IndexedCommand::Poll { queue: b"q", query: &query, state: b"\"BUSY\"" };
    assert_eq!(ask(&mut store, poll, &mut fx), None);
    let search = fx.searches.pop().unwrap();
    let candidates = rows(&search);
    let state = search.poll.clone().unwrap();
    let note = IndexedCommand::AppendEvent { queue: b"q", id: known[0], event: b"1" };
    ask(&mut store, note, &mut fx);
    fx.clear();
    assert!(store.advance_first(TICKET, &candidates, &state, NOW, &mut fx));
    let Some(OwnedReply::Indexed(IndexedReply::Row(row))) = answer(&fx) else { panic!() };
    assert_eq!((row.id, &*row.state, row.version), (known[2], &b"\"BUSY\""[..], 2));
    fx.clear();
    assert!(!store.advance_first(TICKET, &candidates, &state, NOW, &mut fx));
    assert!(fx.outcomes.is_empty(), "nothing has been answered yet");
    store.resubmit_search(&search, NOW, &mut fx);
    assert!(fx.outcomes.is_empty());
    let again = fx.searches.pop().unwrap();
    assert_eq!(ids(&rows(&again)), [known[0]], "a new snapshot");
    assert!(store.advance_first(TICKET, &rows(&again), &state, NOW, &mut fx));
    store.check_invariants();
}

#[test]
fn search_of_a_dropped_queue_is_answered() {
    let mut fx = Effects::default();
    let (mut store, known) = store(&mut fx);
    let query = query();
    let poll = IndexedCommand::Poll { queue: b"q", query: &query, state: b"1" };
    ask(&mut store, poll, &mut fx);
    let search = fx.searches.pop().unwrap();
    let candidates = rows(&search);
    let dropped = ask(&mut store, IndexedCommand::DropQueue { queue: b"q" }, &mut fx);
    assert_eq!(dropped, Some(IndexedPage::QueueDropped { jobs: 3, more: false }.into()));
    fx.clear();
    assert!(!store.advance_first(TICKET, &candidates, b"1", NOW, &mut fx));
    store.resubmit_search(&search, NOW, &mut fx);
    assert_eq!(answer(&fx), Some(IndexedReply::NoQueue.into()));
    assert_eq!(ids(&rows(&search)), [known[0], known[2]], "a snapshot stays what it was");
}

#[test]
fn reserve_reports_how_long_the_job_was_ready() {
    let (mut store, mut fx) = (Store::new(1), Effects::default());
    // Just before the milliseconds wrap.
    let at = |ms: u64| Now { mono: Mono((u64::from(u32::MAX) + ms) * 1_000_000), ..NOW };
    let payload = Payload { encoding: Encoding::Json, bytes: b"1" };
    let (priority, tie_break) = (Priority::Small(1), TieBreak::Fifo);
    let put = Command::Put { queue: b"q", priority, tie_break, payload, options: None };
    let mut names = StringList::default();
    names.push(b"q");
    let take = Command::Reserve { queues: names.from(0), wait: Wait::Forever };
    let taken = |fx: &mut Effects| {
        let slot = fx.outcomes.iter().find_map(|(_, outcome)| match outcome {
            Outcome::Job(slot) => Some(*slot),
            _ => None,
        });
        fx.clear();
        slot.unwrap()
    };
    store.apply(TICKET, &put, at(0), &mut fx);
    store.apply(TICKET, &take, at(7), &mut fx);
    assert_eq!(store.ready_for(taken(&mut fx), at(7)), 7);
    let release = Command::Release { id: JobId(1), lease: None };
    store.apply(TICKET, &release, at(20), &mut fx);
    store.apply(TICKET, &take, at(23), &mut fx);
    assert_eq!(store.ready_for(taken(&mut fx), at(23)), 3);
    store.apply(Ticket { serial: 9, ..TICKET }, &take, at(30), &mut fx);
    store.apply(TICKET, &release, at(40), &mut fx);
    assert_eq!(store.ready_for(taken(&mut fx), at(40)), 0, "the waiter reserved it");
}
