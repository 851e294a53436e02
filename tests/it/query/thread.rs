//! The real query threads: they answer, yield in time, and end.

use super::{query, row, snapshot, text};
use jobcentre::model::query::{Expr, Op, Query};
use jobcentre::query::{
    Ended, FreeLane, QueryExecutor, QueryRows, QueryTask, StopRequest, Task, TaskEnd, value_max,
};
use jobcentre::reactor::LoopWaker;
use jobcentre::reactor::query_threads::QueryThreads;
use std::sync::Arc;

fn work(query: Arc<Query>) -> QueryTask {
    let rows = snapshot((0..20_000).map(|id| row(id, "{\"a\":1}", "null")));
    QueryTask { rows, query, limit: None }
}

/// Takes very long: a piece with a wildcard that is found nowhere, in a long text.
fn slow() -> QueryTask {
    let long = "printf('%.*c', 1000000, 'a') LIKE '%' || printf('%.*c', 40000, 'a') || '_b%'";
    work(query([(text(long), Op::Is, text("2"))]))
}

fn even() -> QueryTask {
    work(query([(text("id % 2"), Op::Is, Expr::Number("0".into()))]))
}

fn threads() -> QueryThreads {
    QueryThreads::new(value_max(0), &LoopWaker::default())
}

fn begin(threads: &mut QueryThreads, task: Task, steps: u64) -> usize {
    let FreeLane { lane, has_share } = threads.find(false).expect("one is free");
    assert!(!has_share);
    threads.begin(lane, task, steps).unwrap();
    lane
}

fn wait(threads: &mut QueryThreads) -> Ended {
    loop {
        if let Some(ended) = threads.poll() {
            return ended;
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}

fn found(ended: Ended) -> QueryRows {
    match ended.done {
        TaskEnd::Complete(found) => found,
        other => panic!("{other:?}"),
    }
}

fn left(ended: Ended) -> Task {
    match ended.done {
        TaskEnd::Unfinished(task) => task,
        other => panic!("{other:?}"),
    }
}

#[test]
fn query_threads_answer() {
    let mut threads = threads();
    for limit in [3, 5] {
        begin(&mut threads, Task::new(QueryTask { limit: Some(limit), ..even() }), 1);
        assert_eq!(found(wait(&mut threads)).map(|found| found.len() as u64), Ok(limit));
    }
    assert!(threads.poll().is_none());
    let free = threads.find(true).unwrap();
    assert!(free.has_share);
    threads.begin(free.lane, Task::new(even()), 1).unwrap();
    assert_eq!(threads.find(true).map(|free| free.has_share), Some(false), "it is in use");
    assert_eq!(found(wait(&mut threads)).map(|found| found.len()), Ok(10_000));
}

#[test]
fn query_that_yields_returns_all_rows() {
    for stop in [StopRequest::AtStepLimit, StopRequest::BeforeNextRow, StopRequest::Now] {
        let mut threads = threads();
        let mut task = Task::new(even());
        let mut turns = 0;
        let rows = loop {
            let lane = begin(&mut threads, task, 1 << turns.min(12));
            // What is given back in the middle of a row may have got nowhere.
            threads
                .request_stop(lane, if turns % 2 == 0 { stop } else { StopRequest::AtStepLimit });
            turns += 1;
            match wait(&mut threads).done {
                TaskEnd::Unfinished(left) => task = left,
                TaskEnd::Complete(found) => break found.unwrap(),
                TaskEnd::Cancelled | TaskEnd::CompleteVersions(_) => panic!("it was not dropped"),
            }
        };
        let mut ids: Vec<u64> = rows.iter().map(|row| row.id.0).collect();
        ids.sort_unstable();
        assert!(ids.into_iter().eq((0..20_000).step_by(2)), "{stop:?}");
        assert!(turns > 1, "{stop:?} {turns}");
    }
}

#[test]
fn each_turn_makes_progress() {
    let mut threads = threads();
    let mut task = Task::new(even());
    for _ in 0..50 {
        let place = task.progress.place();
        let lane = begin(&mut threads, task, 1);
        threads.request_stop(lane, StopRequest::BeforeNextRow);
        task = left(wait(&mut threads));
        assert_ne!(task.progress.place(), place);
    }
}

#[test]
fn turn_stopped_within_a_long_row_ends_and_others_use_other_threads() {
    let mut threads = threads();
    let first = begin(&mut threads, Task::new(slow()), 1);
    threads.request_stop(first, StopRequest::BeforeNextRow);
    // It goes on with its row.
    let second = begin(&mut threads, Task::new(even()), 1);
    assert_ne!(first, second);
    let ended = wait(&mut threads);
    assert_eq!(ended.lane, second);
    assert_eq!(found(ended).map(|found| found.len()), Ok(10_000));
    threads.request_stop(first, StopRequest::Now);
    let ended = wait(&mut threads);
    assert_eq!(ended.lane, first);
    let task = left(ended);
    threads.discard(task);
    assert_eq!(begin(&mut threads, Task::new(even()), 1), first, "it is free again");
    assert_eq!(found(wait(&mut threads)).map(|found| found.len()), Ok(10_000));
}

#[test]
fn search_without_a_waiting_client_is_dropped() {
    let mut threads = threads();
    let lane = begin(&mut threads, Task::new(slow()), 1);
    threads.request_stop(lane, StopRequest::Cancel);
    assert!(matches!(wait(&mut threads).done, TaskEnd::Cancelled));
    begin(&mut threads, Task::new(slow()), 1);
    // Its end ends the query.
    drop(threads);
}
