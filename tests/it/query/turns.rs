//! Whose turn it is: what others wait for gives way, time counts from the arrival, and clients that
//! are gone are not waited for.

use super::engine::{Harness, Mode, client, free, second, told};
use super::{query, text};
use jobcentre::model::query::{Op, Query};
use jobcentre::query::Pace;
use std::sync::Arc;
use std::time::Duration;

const TOO_LONG: &str = "the query took longer than 4s (--query-timeout) and was stopped";

#[test]
fn the_time_of_a_search_counts_from_its_arrival_and_ends_whatever_the_helper_does() {
    for mut shop in [Harness::in_memory(), Harness::durable()] {
        shop.mode(Mode::Stick);
        let first = shop.find(1, &free());
        shop.told_at(second(0.5));
        let waiting = shop.find(2, &free());
        assert_eq!(shop.told_at(second(3.9)), [0; 0]);
        assert!(shop.engine.poll_timeout().is_some_and(|at| at <= second(4.0)), "in time");
        shop.now.mono = second(4.0);
        assert_eq!(shop.told(), [told(first, TOO_LONG)]);
        assert_eq!(shop.told_at(second(4.4)), [0; 0]);
        shop.now.mono = second(4.5);
        assert_eq!(shop.told(), [told(waiting, TOO_LONG)]);
        // What is stuck is in nobody's way: there are other lanes.
        shop.mode(Mode::End);
        let later = shop.find(3, &free());
        assert_eq!(shop.told_at(second(4.6)), [later]);
    }
}

/// One whose evaluation ends while others do not.
fn cheap() -> Arc<Query> {
    query([(text("id + 0"), Op::Greater, text("0"))])
}

#[test]
fn a_query_that_others_wait_for_gives_its_turn_up_and_goes_on_later() {
    let mut shop = Harness::in_memory();
    shop.mode(Mode::Share);
    let endless = shop.find(1, &free());
    assert_eq!(shop.told(), []);
    assert_eq!(shop.desk.lock().unwrap().said, [], "alone it is left in peace");
    let cheap = shop.find(2, &cheap());
    assert_eq!(shop.told(), [], "it is told to share");
    assert_eq!(shop.told().first().map(|said| said.0), Some(cheap));
    assert_eq!(shop.begun(), 3);
    shop.mode(Mode::End);
    assert_eq!(shop.told().first().map(|said| said.0), Some(endless));
}

/// With `count` endless queries, of clients of their own, that have had turns.
fn beside_endless(count: u32) -> Harness {
    let mut shop = Harness::in_memory();
    shop.mode(Mode::Share);
    shop.desk.lock().unwrap().spent = Duration::from_millis(2);
    for who in 0..count {
        shop.find(100 + who, &free());
    }
    for _ in 0..=count {
        shop.engine.commit(shop.now);
        shop.listen();
    }
    assert!(shop.begun() > count as usize, "each has had a turn");
    shop.engine.check_invariants();
    shop
}

#[test]
fn a_cheap_query_beside_endless_ones_waits_for_one_turn_however_many_they_are() {
    for count in [8, 200, 900] {
        let mut shop = beside_endless(count);
        for who in [1, 1, 2, 1] {
            let before = shop.begun();
            let cheap = shop.find(who, &cheap());
            shop.engine.commit(shop.now);
            shop.listen();
            assert_eq!(shop.told.first().map(|told| told.0), Some(cheap), "beside {count}");
            assert_eq!(shop.begun(), before + 2, "it, and the next of the others");
            shop.told.clear();
        }
    }
}

#[test]
fn turns_become_longer_and_few_keep_their_snapshots() {
    let shop = beside_endless(40);
    let desk = shop.desk.lock().unwrap();
    let steps: Vec<u64> = desk.begun.iter().map(|turn| turn.1).collect();
    assert!(steps[..40].iter().all(|&steps| steps == 512), "{steps:?}");
    assert!(desk.discarded >= 40 - 16 - 1, "{}", desk.discarded);
}

#[test]
fn what_does_not_give_its_turn_up_is_not_waited_for() {
    let mut shop = Harness::in_memory();
    shop.mode(Mode::Hold);
    let stuck = shop.find(1, &free());
    shop.told();
    let cheap = shop.find(2, &free());
    shop.told();
    let mut paces = Vec::new();
    while shop.desk.lock().unwrap().under_way() == 1 {
        let at = shop.engine.poll_timeout().unwrap();
        assert!(at > shop.now.mono && at <= second(0.1), "{at:?}");
        shop.now.mono = at;
        shop.told();
        paces.clone_from(&shop.desk.lock().unwrap().said);
    }
    assert_eq!(paces, [(0, Pace::Share), (0, Pace::Leave), (0, Pace::GiveBack)]);
    assert!(shop.now.mono <= second(0.03));
    shop.mode(Mode::GiveBack);
    assert_eq!(shop.told(), [], "it comes back, and waits for its next turn");
    shop.mode(Mode::End);
    let said: Vec<u32> = shop.told().iter().map(|said| said.0).collect();
    assert_eq!(said, [cheap, stuck]);
}

#[test]
fn what_does_not_give_its_turn_up_leaves_lanes_for_those_that_have_had_little() {
    let mut shop = Harness::in_memory();
    shop.mode(Mode::Share);
    shop.desk.lock().unwrap().spent = Duration::from_millis(100);
    for who in 0..8 {
        shop.find(100 + who, &free());
    }
    for _ in 0..20 {
        shop.told();
    }
    shop.mode(Mode::Stick);
    for number in 1..20_u32 {
        shop.told_at(second(0.01).after(Duration::from_millis(10) * number));
    }
    assert_eq!(shop.desk.lock().unwrap().under_way(), 2, "of five lanes");
    let before = shop.begun();
    shop.find(1, &cheap());
    shop.told();
    assert_eq!(shop.begun(), before + 1, "it has a lane at once");
}

#[test]
fn a_query_that_has_taken_a_quarter_of_its_time_goes_on_in_a_lane_with_a_share() {
    for (looks, lanes) in [(&[0.5, 0.99][..], &[0][..]), (&[1.0], &[0]), (&[1.0, 2.0], &[0, 4])] {
        let mut shop = Harness::in_memory();
        shop.mode(Mode::Stick);
        let search = shop.find(1, &free());
        assert_eq!(shop.told(), []);
        assert_eq!(shop.engine.poll_timeout(), Some(second(1.0)));
        for &look in looks {
            assert_eq!(shop.told_at(second(look)), [0; 0]);
        }
        let begun: Vec<usize> = shop.desk.lock().unwrap().begun.iter().map(|turn| turn.0).collect();
        assert_eq!(begun, lanes, "{looks:?}");
        let last = shop.desk.lock().unwrap().said.last().copied();
        match *looks.last().unwrap() {
            1.0 => assert_eq!(last, Some((0, Pace::GiveBack))),
            2.0 => assert_eq!(last, Some((0, Pace::Drop)), "it has begun anew elsewhere"),
            _ => assert_eq!(last, None),
        }
        if last.is_some_and(|last| last.1 == Pace::GiveBack) {
            shop.mode(Mode::GiveBack);
            shop.told();
            assert_eq!(shop.desk.lock().unwrap().begun.last().map(|turn| turn.0), Some(4));
        }
        shop.mode(Mode::End);
        assert_eq!(shop.told_at(second(2.1)), [search]);
    }
}

const ABANDONED: &str = "the client has closed its side of the connection, and the query takes \
    longer than a moment: keep the connection open until the answer has come";

#[test]
fn who_sends_nothing_more_has_one_turn_when_nobody_else_waits() {
    let mut shop = Harness::in_memory();
    shop.mode(Mode::Hold);
    let (gone, waiting) = (shop.find(1, &free()), shop.find(2, &free()));
    shop.told();
    let begun = shop.begun();
    shop.engine.leave(client(2));
    shop.told();
    let alive = shop.find(3, &free());
    shop.mode(Mode::End);
    let order: Vec<u32> = shop.told().iter().map(|said| said.0).collect();
    assert_eq!(order, [gone, alive, waiting]);
    assert_eq!(shop.begun(), begun + 2);

    // One that is under way goes on, and gives way at once.
    shop.mode(Mode::Share);
    let under_way = shop.find(2, &free());
    assert_eq!(shop.told(), []);
    let alive = shop.find(3, &free());
    shop.engine.commit(shop.now);
    shop.listen();
    assert_eq!(shop.desk.lock().unwrap().said.last(), Some(&(0, Pace::Leave)));
    shop.mode(Mode::Share);
    shop.engine.commit(shop.now);
    shop.listen();
    assert_eq!(shop.told, [told(under_way, ABANDONED)]);
    shop.told.clear();
    shop.mode(Mode::End);
    assert_eq!(shop.told().first().map(|said| said.0), Some(alive));
}

#[test]
fn who_has_had_a_turn_and_sends_nothing_more_is_evaluated_no_more() {
    let mut shop = beside_endless(8);
    let before = shop.begun();
    for who in 0..8 {
        shop.engine.leave(client(100 + who));
    }
    shop.mode(Mode::Hold);
    let said = shop.told();
    assert_eq!(said.len(), 8);
    assert!(said.iter().all(|said| said.1 == ABANDONED));
    shop.told();
    assert_eq!((shop.begun(), shop.desk.lock().unwrap().under_way()), (before, 0));
}

#[test]
fn of_too_many_that_one_is_refused_whose_client_has_had_most() {
    let mut shop = beside_endless(2);
    shop.mode(Mode::Hold);
    for who in 2..1024 {
        shop.find(1000 + who, &free());
    }
    shop.told();
    shop.mode(Mode::Share);
    shop.engine.commit(shop.now);
    assert_eq!(shop.told, []);
    let newer = shop.find(1, &free());
    let why = "too many queries wait for their turn: try again later";
    assert_eq!(shop.told.len(), 1);
    assert_eq!(shop.told[0].1, why);
    assert_ne!(shop.told[0].0, newer);
}
