//! Searches through an engine: in their order, one at a time, and what becomes of those whose jobs,
//! queues or clients change while they are evaluated. The helper ends one when the test says so.

use super::{evaluator, query, text};
use crate::journal::disk::SimDisk;
use jobcentre::base::time::{Mono, Now, Wall};
use jobcentre::engine::Engine;
use jobcentre::journal::{Options, SyncMode};
use jobcentre::model::command::Command;
use jobcentre::model::id::{ClientId, JobId, Ticket};
use jobcentre::model::query::{Expr, Op, Query};
use jobcentre::model::reply::Reply;
use jobcentre::model::watch::Watch;
use jobcentre::query::{Evaluator, Fault, Found, Helper, Work};
use std::sync::{Arc, Mutex};

/// What the helper has to do, and what it was told.
#[derive(Debug, Default)]
struct Desk {
    work: Option<Work>,
    /// It may end it.
    ready: bool,
    stopped: usize,
    started: usize,
    /// When it gives up on what has begun.
    over: Option<Mono>,
    /// What it has given up on, or was told to stop, is still in its way.
    stuck: bool,
}

#[derive(Debug)]
struct Clerk {
    desk: Arc<Mutex<Desk>>,
    evaluator: Evaluator,
}

impl Helper for Clerk {
    fn start(&mut self, work: Work, _: Mono) {
        let mut desk = self.desk.lock().unwrap();
        assert!(desk.work.is_none() && !desk.stuck, "one at a time");
        (desk.work, desk.started) = (Some(work), desk.started + 1);
    }

    fn poll(&mut self, now: Mono) -> Option<Found> {
        let mut desk = self.desk.lock().unwrap();
        if !desk.ready {
            let over = desk.over.is_some_and(|over| now >= over);
            desk.stuck |= over;
            return over.then(|| Err(format!("{} took too long", desk.work.take().is_some())));
        }
        let work = desk.work.take().expect("only who has started something asks");
        Some(self.evaluator.run(&work).map(Arc::from).map_err(|fault| match fault {
            Fault::Bad(why) => why,
            Fault::Stopped => unreachable!("nobody stops it"),
        }))
    }

    fn stop(&mut self) {
        let mut desk = self.desk.lock().unwrap();
        desk.stopped += 1;
        desk.work = None;
    }

    fn is_free(&mut self) -> bool {
        !self.desk.lock().unwrap().stuck
    }

    fn poll_timeout(&self) -> Option<Mono> {
        self.desk.lock().unwrap().over
    }
}

const Q: &[u8] = b"q";
const NOW: Now = Now { mono: Mono(7), wall: Wall(1_700_000_000_000) };

fn client(index: u32) -> ClientId {
    ClientId { index, generation: 1 }
}

struct Shop {
    engine: Engine,
    desk: Arc<Mutex<Desk>>,
    serial: u32,
    disk: Option<SimDisk>,
    now: Now,
    /// What was answered, in words.
    told: Vec<(u32, String)>,
}

impl Shop {
    fn new(engine: Engine, disk: Option<SimDisk>) -> Self {
        let shared = Arc::new(Mutex::new(Desk { ready: true, ..Desk::default() }));
        let clerk = Clerk { desk: shared.clone(), evaluator: evaluator() };
        let engine = engine.with_queries(Box::new(clerk));
        let mut shop = Self { engine, desk: shared, serial: 0, disk, now: NOW, told: Vec::new() };
        shop.ask(0, &Watch::Declare { queue: Some(Q) });
        for number in 0..4 {
            let payload = format!("{{\"n\":{number}}}");
            let put = Watch::Put { queue: Q, payload: payload.as_bytes(), state: b"null" };
            shop.ask(0, &put);
        }
        shop.pass();
        shop.told.clear();
        shop
    }

    fn in_memory() -> Self {
        Self::new(Engine::in_memory(5), None)
    }

    fn durable() -> Self {
        let disk = SimDisk::new(3);
        let options = Options { segment_bytes: 1 << 16, sync: SyncMode::Always, salt: 1 };
        let restored = Engine::restore(&mut disk.clone(), &options, 5, NOW, &mut |_| {}).unwrap().0;
        Self::new(Engine::durable(restored, Box::new(disk.clone()), NOW), Some(disk))
    }

    fn ask(&mut self, who: u32, watch: &Watch<'_>) -> u32 {
        self.serial += 1;
        let ticket = Ticket { client: client(who), serial: self.serial };
        self.engine.submit(ticket, &Command::Watch(watch), self.now);
        self.listen();
        self.serial
    }

    fn find(&mut self, who: u32, query: &Arc<Query>) -> u32 {
        self.ask(who, &Watch::Find { queue: Q, query, limit: None })
    }

    fn poll(&mut self, who: u32, query: &Arc<Query>) -> u32 {
        self.ask(who, &Watch::Poll { queue: Q, query, state: b"\"TAKEN\"" })
    }

    fn listen(&mut self) {
        while let Some(completion) = self.engine.poll_completion() {
            let words = match completion.reply {
                Reply::Found(rows) => {
                    rows.iter().fold(String::new(), |all, row| all + &row.id.0.to_string() + " ")
                }
                Reply::Row(row) => {
                    format!("{} is {}", row.id.0, String::from_utf8_lossy(&row.state))
                }
                Reply::BadQuery(why) => why.to_owned(),
                other => format!("{other:?}"),
            };
            self.told.push((completion.ticket.serial, words));
        }
    }

    /// As many passes as the engine wants.
    fn pass(&mut self) {
        for _ in 0..100 {
            self.engine.commit(self.now);
            self.listen();
            self.engine.check_invariants();
            // What is durable now is told in the next pass.
            let busy = self.disk.as_ref().is_some_and(|disk| disk.work(1));
            if !busy && self.engine.poll_timeout().is_none_or(|at| at > self.now.mono) {
                return;
            }
        }
        panic!("there is no end to it");
    }

    fn told(&mut self) -> Vec<(u32, String)> {
        self.pass();
        std::mem::take(&mut self.told)
    }
}

/// Jobs that nobody has, by a search.
fn free() -> Arc<Query> {
    query([(text("j.state"), Op::Is, Expr::Null), (text("payload ->> 'n'"), Op::Less, text("9"))])
}

fn told(serial: u32, words: &str) -> (u32, String) {
    (serial, words.to_owned())
}

#[test]
fn searches_are_answered_in_their_order() {
    for mut shop in [Shop::in_memory(), Shop::durable()] {
        let all = shop.find(1, &query([(text("id"), Op::Greater, text("0"))]));
        let wrong = shop.find(2, &query([(text("(SELECT 1)"), Op::Is, Expr::Null)]));
        let odd = shop.find(1, &query([(text("payload ->> 'n' % 2"), Op::Is, text("1"))]));
        assert_eq!(shop.told, [], "no search is answered at once");
        let ids = |shop: &Shop| shop.desk.lock().unwrap().started;
        let said = shop.told();
        assert_eq!(said.len(), 3);
        assert_eq!((said[0].0, said[1].0, said[2].0), (all, wrong, odd));
        assert!(said[1].1.contains("subqueries are not possible"), "{}", said[1].1);
        let first: Vec<u64> = said[0].1.split_whitespace().map(|id| id.parse().unwrap()).collect();
        assert_eq!(first.len(), 4);
        assert_eq!(said[2].1, format!("{} {} ", first[1], first[3]));
        assert_eq!(ids(&shop), 3);
    }
}

#[test]
fn polls_at_once_never_get_the_same_job() {
    for mut shop in [Shop::in_memory(), Shop::durable()] {
        let polls: Vec<u32> = (1..6).map(|who| shop.poll(who, &free())).collect();
        let said = shop.told();
        assert_eq!(said.iter().map(|said| said.0).collect::<Vec<_>>(), polls);
        let mut jobs: Vec<&str> = said.iter().map(|said| said.1.as_str()).collect();
        assert_eq!(jobs.pop(), Some("NoJob"), "there are four");
        assert!(jobs.iter().all(|job| job.ends_with("is \"TAKEN\"")), "{jobs:?}");
        jobs.dedup();
        assert_eq!(jobs.len(), 4);
        // Each had a snapshot of its own moment: none was in vain.
        assert_eq!(shop.desk.lock().unwrap().started, 5);
    }
}

#[test]
fn a_poll_that_is_overtaken_searches_again() {
    for mut shop in [Shop::in_memory(), Shop::durable()] {
        let first = shop.find(1, &free());
        let said = shop.told();
        let ids: Vec<JobId> =
            said[0].1.split_whitespace().map(|id| JobId(id.parse().unwrap())).collect();
        assert_eq!((said[0].0, ids.len()), (first, 4));
        shop.desk.lock().unwrap().ready = false;
        let poll = shop.poll(1, &free());
        assert_eq!(shop.told(), []);
        // The first of the candidates goes, another one changes.
        shop.ask(2, &Watch::Delete { queue: Q, id: ids[0] });
        shop.ask(2, &Watch::Note { queue: Q, id: ids[1], event: b"1" });
        shop.told();
        shop.desk.lock().unwrap().ready = true;
        assert_eq!(shop.told(), [told(poll, &format!("{} is \"TAKEN\"", ids[2].0))]);
        // All of them change.
        shop.desk.lock().unwrap().ready = false;
        let (poll, behind) = (shop.poll(1, &free()), shop.find(2, &free()));
        shop.told();
        for id in [ids[1], ids[3]] {
            shop.ask(2, &Watch::Note { queue: Q, id, event: b"2" });
        }
        shop.told();
        shop.desk.lock().unwrap().ready = true;
        let said = shop.told();
        assert_eq!(said[0], told(poll, &format!("{} is \"TAKEN\"", ids[1].0)), "{said:?}");
        assert_eq!(said[1], told(behind, &format!("{} ", ids[3].0)), "it has kept its turn");
    }
}

#[test]
fn a_client_that_ends_is_not_searched_for() {
    for mut shop in [Shop::in_memory(), Shop::durable()] {
        shop.desk.lock().unwrap().ready = false;
        shop.find(1, &free());
        shop.poll(1, &free());
        let other = shop.find(2, &query([(text("id + 0"), Op::Is, Expr::Null)]));
        assert_eq!(shop.told(), []);
        shop.engine.forget(client(1), NOW);
        shop.listen();
        assert_eq!(shop.desk.lock().unwrap().stopped, 1);
        shop.desk.lock().unwrap().ready = true;
        assert_eq!(shop.told(), [told(other, "")]);
        assert_eq!(shop.desk.lock().unwrap().started, 2, "the poll has not begun");
    }
}

#[test]
fn a_search_is_answered_in_time_by_a_helper_that_is_stuck() {
    for mut shop in [Shop::in_memory(), Shop::durable()] {
        let over = Mono(1000);
        {
            let mut desk = shop.desk.lock().unwrap();
            (desk.ready, desk.over) = (false, Some(over));
        }
        let (first, next) = (shop.find(1, &free()), shop.find(2, &free()));
        assert_eq!(shop.told(), []);
        assert_eq!(shop.engine.poll_timeout(), Some(over), "the loop wakes in time");
        shop.now.mono = Mono(999);
        assert_eq!(shop.told(), []);
        shop.now.mono = over;
        assert_eq!(shop.told(), [told(first, "true took too long")]);
        // The evaluation goes on and on: the loop sleeps, and nothing else is begun.
        assert_eq!(shop.engine.poll_timeout(), None);
        shop.now.mono = Mono(5000);
        let later = shop.find(3, &free());
        shop.engine.forget(client(1), shop.now);
        shop.listen();
        assert_eq!(shop.told(), []);
        assert_eq!(shop.desk.lock().unwrap().started, 1);
        {
            let mut desk = shop.desk.lock().unwrap();
            (desk.ready, desk.over, desk.stuck) = (true, None, false);
        }
        let said = shop.told();
        assert_eq!(said.iter().map(|said| said.0).collect::<Vec<_>>(), [next, later]);
        assert!(said.iter().all(|said| said.1.split_whitespace().count() == 4), "{said:?}");
        assert_eq!(shop.desk.lock().unwrap().stopped, 0, "nobody has waited for it");
    }
}

#[test]
fn what_was_stopped_holds_up_the_next_until_it_has_ended() {
    let mut shop = Shop::in_memory();
    shop.desk.lock().unwrap().ready = false;
    shop.find(1, &free());
    let next = shop.find(2, &free());
    shop.told();
    shop.desk.lock().unwrap().stuck = true;
    shop.engine.forget(client(1), NOW);
    shop.listen();
    assert_eq!(shop.told(), []);
    assert_eq!(shop.engine.poll_timeout(), None);
    let mut desk = shop.desk.lock().unwrap();
    assert_eq!((desk.started, desk.stopped), (1, 1));
    (desk.ready, desk.stuck) = (true, false);
    drop(desk);
    assert_eq!(shop.told().first().map(|said| said.0), Some(next));
}

#[test]
fn a_queue_that_goes_meanwhile_is_no_queue() {
    for mut shop in [Shop::in_memory(), Shop::durable()] {
        shop.desk.lock().unwrap().ready = false;
        let (first, second) = (shop.poll(1, &free()), shop.find(1, &free()));
        assert_eq!(shop.told(), []);
        shop.ask(2, &Watch::Drop { queue: Q });
        shop.told();
        shop.desk.lock().unwrap().ready = true;
        assert_eq!(shop.told(), [told(first, "NoQueue"), told(second, "NoQueue")]);
    }
}

#[test]
fn too_many_are_refused_and_so_are_all_without_a_helper() {
    let mut shop = Shop::in_memory();
    shop.desk.lock().unwrap().ready = false;
    for who in 0..1024 {
        shop.find(who, &free());
    }
    assert_eq!(shop.told, []);
    let refused = shop.find(1, &free());
    let why = "too many queries wait for their turn: try again later";
    assert_eq!(shop.told, [told(refused, why)]);
    shop.told.clear();
    shop.desk.lock().unwrap().ready = true;
    assert_eq!(shop.told().len(), 1024);

    let mut engine = Engine::in_memory(1);
    let ticket = Ticket { client: client(1), serial: 1 };
    let query = free();
    let find = Watch::Find { queue: b"default", query: &query, limit: None };
    engine.submit(ticket, &Command::Watch(&find), NOW);
    let completion = engine.poll_completion().unwrap();
    assert_eq!(completion.reply, Reply::BadQuery("this server evaluates no queries"));
}
