//! Turns: a query yields to waiting ones, time counts from the arrival, and queries of disconnected
//! clients are dropped.

use super::engine::{Harness, Mode, client, free, reply, second};
use super::{query, text};
use jobcentre::engine::CommandExecutor;
use jobcentre::model::command::Command;
use jobcentre::model::id::{JobId, Ticket};
use jobcentre::model::manage::ManageCommand;
use jobcentre::model::query::{Op, Query};
use jobcentre::query::{ResultShape, StopRequest};
use std::sync::Arc;
use std::time::Duration;

const TOO_LONG: &str = "the query took longer than 4s (--query-timeout) and was stopped";

#[test]
fn search_times_out_from_its_arrival_even_if_the_thread_hangs() {
    for mut harness in [Harness::in_memory(), Harness::durable()] {
        harness.mode(Mode::Hang);
        let first = harness.find(1, &free());
        harness.reply_serials_at(second(0.5));
        let waiting = harness.find(2, &free());
        assert_eq!(harness.reply_serials_at(second(3.9)), [0; 0]);
        assert!(harness.engine.poll_timeout().is_some_and(|at| at <= second(4.0)), "in time");
        harness.now.mono = second(4.0);
        assert_eq!(harness.take_replies(), [reply(first, TOO_LONG)]);
        assert_eq!(harness.reply_serials_at(second(4.4)), [0; 0]);
        harness.now.mono = second(4.5);
        assert_eq!(harness.take_replies(), [reply(waiting, TOO_LONG)]);
        // A stuck query delays no other: there are further threads.
        harness.mode(Mode::End);
        let later = harness.find(3, &free());
        assert_eq!(harness.reply_serials_at(second(4.6)), [later]);
    }
}

#[test]
fn page_that_is_begun_anew_on_another_lane_keeps_its_limit() {
    let mut harness = Harness::in_memory();
    harness.mode(Mode::Hang);
    let (name, query) = (b"q", free());
    for who in 1..3 {
        let (behind, limit) = (JobId(0), 1);
        let search = ManageCommand::Search { queue: name, query: &query, behind, limit };
        let ticket = Ticket { client: client(who), serial: who };
        harness.engine.submit(ticket, &Command::Manage(search), harness.now);
        for tenth in 0..20 {
            harness.reply_serials_at(second(f64::from(who - 1) + f64::from(tenth) / 20.0));
        }
    }
    for tenth in 20..39 {
        harness.reply_serials_at(second(f64::from(tenth) / 10.0));
    }
    let executor = harness.executor.lock().unwrap();
    assert!(executor.said.iter().any(|said| said.1 == StopRequest::Cancel), "none is begun anew");
    for (task, _) in executor.lanes.iter().flatten() {
        assert_eq!(task.progress.shape, ResultShape::LowestIds(1));
    }
}

/// One whose evaluation ends while others do not.
fn cheap() -> Arc<Query> {
    query([(text("id + 0"), Op::Greater, text("0"))])
}

#[test]
fn query_yields_its_turn_to_waiting_queries_and_resumes() {
    let mut harness = Harness::in_memory();
    harness.mode(Mode::Share);
    let endless = harness.find(1, &free());
    assert_eq!(harness.take_replies(), []);
    assert_eq!(harness.executor.lock().unwrap().said, [], "alone it is left in peace");
    let cheap = harness.find(2, &cheap());
    assert_eq!(harness.take_replies(), [], "it has to share");
    assert_eq!(harness.take_replies().first().map(|said| said.0), Some(cheap));
    assert_eq!(harness.begun(), 3);
    harness.mode(Mode::End);
    assert_eq!(harness.take_replies().first().map(|said| said.0), Some(endless));
}

/// With `count` endless queries, of clients of their own, that have had turns.
fn beside_endless(count: u32) -> Harness {
    let mut harness = Harness::in_memory();
    harness.mode(Mode::Share);
    harness.executor.lock().unwrap().spent = Duration::from_millis(2);
    for who in 0..count {
        harness.find(100 + who, &free());
    }
    for _ in 0..=count {
        harness.engine.commit(harness.now);
        harness.listen();
    }
    assert!(harness.begun() > count as usize, "each has had a turn");
    harness.engine.check_invariants();
    harness
}

#[test]
fn cheap_query_beside_endless_ones_waits_for_one_turn() {
    for count in [8, 200, 900] {
        let mut harness = beside_endless(count);
        for who in [1, 1, 2, 1] {
            let before = harness.begun();
            let cheap = harness.find(who, &cheap());
            harness.engine.commit(harness.now);
            harness.listen();
            assert_eq!(harness.replies.first().map(|reply| reply.0), Some(cheap), "beside {count}");
            assert_eq!(harness.begun(), before + 2, "it, and the next of the others");
            harness.replies.clear();
        }
    }
}

#[test]
fn turns_grow_and_few_searches_keep_their_snapshots() {
    let harness = beside_endless(40);
    let executor = harness.executor.lock().unwrap();
    let steps: Vec<u64> = executor.begun.iter().map(|tie_break| tie_break.1).collect();
    assert!(steps[..40].iter().all(|&steps| steps == 512), "{steps:?}");
    assert!(executor.discarded >= 40 - 16 - 1, "{}", executor.discarded);
}

#[test]
fn scheduler_does_not_wait_for_a_query_that_does_not_yield() {
    let mut harness = Harness::in_memory();
    harness.mode(Mode::Hold);
    let stuck = harness.find(1, &free());
    harness.take_replies();
    let cheap = harness.find(2, &free());
    harness.take_replies();
    let mut stops = Vec::new();
    while harness.executor.lock().unwrap().under_way() == 1 {
        let at = harness.engine.poll_timeout().unwrap();
        assert!(at > harness.now.mono && at <= second(0.1), "{at:?}");
        harness.now.mono = at;
        harness.take_replies();
        stops.clone_from(&harness.executor.lock().unwrap().said);
    }
    assert_eq!(
        stops,
        [(0, StopRequest::AtStepLimit), (0, StopRequest::BeforeNextRow), (0, StopRequest::Now)]
    );
    assert!(harness.now.mono <= second(0.03));
    harness.mode(Mode::GiveBack);
    assert_eq!(harness.take_replies(), [], "it comes back, and waits for its next turn");
    harness.mode(Mode::End);
    let said: Vec<u32> = harness.take_replies().iter().map(|said| said.0).collect();
    assert_eq!(said, [cheap, stuck]);
}

#[test]
fn query_that_does_not_yield_leaves_threads_for_low_usage_clients() {
    let mut harness = Harness::in_memory();
    harness.mode(Mode::Share);
    harness.executor.lock().unwrap().spent = Duration::from_millis(100);
    for who in 0..8 {
        harness.find(100 + who, &free());
    }
    for _ in 0..20 {
        harness.take_replies();
    }
    harness.mode(Mode::Hang);
    for number in 1..20_u32 {
        harness.reply_serials_at(second(0.01).after(Duration::from_millis(10) * number));
    }
    assert_eq!(harness.executor.lock().unwrap().under_way(), 2, "of five lanes");
    let before = harness.begun();
    harness.find(1, &cheap());
    harness.take_replies();
    assert_eq!(harness.begun(), before + 1, "it has a lane at once");
}

#[test]
fn query_past_a_quarter_of_its_time_continues_at_low_priority() {
    for (looks, lanes) in [(&[0.5, 0.99][..], &[0][..]), (&[1.0], &[0]), (&[1.0, 2.0], &[0, 4])] {
        let mut harness = Harness::in_memory();
        harness.mode(Mode::Hang);
        let search = harness.find(1, &free());
        assert_eq!(harness.take_replies(), []);
        assert_eq!(harness.engine.poll_timeout(), Some(second(1.0)));
        for &look in looks {
            assert_eq!(harness.reply_serials_at(second(look)), [0; 0]);
        }
        let begun: Vec<usize> =
            harness.executor.lock().unwrap().begun.iter().map(|tie_break| tie_break.0).collect();
        assert_eq!(begun, lanes, "{looks:?}");
        let last = harness.executor.lock().unwrap().said.last().copied();
        match *looks.last().unwrap() {
            1.0 => assert_eq!(last, Some((0, StopRequest::Now))),
            2.0 => assert_eq!(last, Some((0, StopRequest::Cancel)), "it has begun anew elsewhere"),
            _ => assert_eq!(last, None),
        }
        if last.is_some_and(|last| last.1 == StopRequest::Now) {
            harness.mode(Mode::GiveBack);
            harness.take_replies();
            assert_eq!(
                harness.executor.lock().unwrap().begun.last().map(|tie_break| tie_break.0),
                Some(4)
            );
        }
        harness.mode(Mode::End);
        assert_eq!(harness.reply_serials_at(second(2.1)), [search]);
    }
}

const ABANDONED: &str = "the client has closed its side of the connection, and the query takes \
    longer than a moment: keep the connection open until the answer has come";

#[test]
fn half_closed_client_gets_one_turn_when_the_queue_is_empty() {
    let mut harness = Harness::in_memory();
    harness.mode(Mode::Hold);
    let (gone, waiting) = (harness.find(1, &free()), harness.find(2, &free()));
    harness.take_replies();
    let begun = harness.begun();
    harness.engine.half_close_client(client(2));
    harness.take_replies();
    let alive = harness.find(3, &free());
    harness.mode(Mode::End);
    let order: Vec<u32> = harness.take_replies().iter().map(|said| said.0).collect();
    assert_eq!(order, [gone, alive, waiting]);
    assert_eq!(harness.begun(), begun + 2);

    // One that is under way goes on, and gives way at once.
    harness.mode(Mode::Share);
    let under_way = harness.find(2, &free());
    assert_eq!(harness.take_replies(), []);
    let alive = harness.find(3, &free());
    harness.engine.commit(harness.now);
    harness.listen();
    assert_eq!(
        harness.executor.lock().unwrap().said.last(),
        Some(&(0, StopRequest::BeforeNextRow))
    );
    harness.mode(Mode::Share);
    harness.engine.commit(harness.now);
    harness.listen();
    assert_eq!(harness.replies, [reply(under_way, ABANDONED)]);
    harness.replies.clear();
    harness.mode(Mode::End);
    assert_eq!(harness.take_replies().first().map(|said| said.0), Some(alive));
}

#[test]
fn half_closed_client_with_a_used_turn_is_not_evaluated_again() {
    let mut harness = beside_endless(8);
    let before = harness.begun();
    for who in 0..8 {
        harness.engine.half_close_client(client(100 + who));
    }
    harness.mode(Mode::Hold);
    let said = harness.take_replies();
    assert_eq!(said.len(), 8);
    assert!(said.iter().all(|said| said.1 == ABANDONED));
    harness.take_replies();
    assert_eq!((harness.begun(), harness.executor.lock().unwrap().under_way()), (before, 0));
}

#[test]
fn full_queue_rejects_the_search_of_the_client_with_most_processor_time() {
    let mut harness = beside_endless(2);
    harness.mode(Mode::Hold);
    for who in 2..1024 {
        harness.find(1000 + who, &free());
    }
    harness.take_replies();
    harness.mode(Mode::Share);
    harness.engine.commit(harness.now);
    assert_eq!(harness.replies, []);
    let newer = harness.find(1, &free());
    let why = "too many queries wait for their turn: try again later";
    assert_eq!(harness.replies.len(), 1);
    assert_eq!(harness.replies[0].1, why);
    assert_ne!(harness.replies[0].0, newer);
}
