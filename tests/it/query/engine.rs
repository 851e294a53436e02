//! Searches through an engine: their turns, and what happens if jobs, queues or clients change
//! meanwhile. The test decides when a query thread ends a turn.

use super::{evaluator, query, text};
use crate::journal::disk::SimDisk;
use jobcentre::base::time::{Mono, Now, Wall};
use jobcentre::engine::{CommandExecutor, Engine};
use jobcentre::journal::{JournalOptions, SyncMode};
use jobcentre::model::command::Command;
use jobcentre::model::id::{ClientId, JobId, Ticket};
use jobcentre::model::indexed_queue::{IndexedCommand, IndexedReply};
use jobcentre::model::query::{Expr, Op, Query};
use jobcentre::model::reply::Reply;
use jobcentre::query::{
    Ended, Evaluator, FreeLane, QueryError, QueryExecutor, StopRequest, Task, TaskEnd,
};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// What turns do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Mode {
    /// They end their queries.
    #[default]
    End,
    /// They end when others wait for them, and get nowhere; but those of queries with one term end
    /// these.
    Share,
    /// They end in the middle of a row and not before.
    GiveBack,
    /// They do not end, unless the query is dropped.
    Hold,
    /// They do not end.
    Hang,
}

/// The last lane has a share of its own.
const LANES: usize = 5;

/// What the helper has to do, and what it has received.
#[derive(Debug, Default)]
pub(super) struct ExecutorState {
    mode: Mode,
    pub(super) lanes: [Option<(Task, StopRequest)>; LANES],
    /// Turns by their lanes and steps.
    pub(super) begun: Vec<(usize, u64)>,
    pub(super) said: Vec<(usize, StopRequest)>,
    pub(super) discarded: usize,
    /// How long a turn takes.
    pub(super) spent: Duration,
}

impl ExecutorState {
    pub(super) fn under_way(&self) -> usize {
        self.lanes.iter().flatten().count()
    }
}

#[derive(Debug)]
struct ManualExecutor {
    executor: Arc<Mutex<ExecutorState>>,
    evaluator: Evaluator,
}

impl QueryExecutor for ManualExecutor {
    fn find(&mut self, share: bool) -> Option<FreeLane> {
        let executor = self.executor.lock().unwrap();
        let free = |&lane: &usize| executor.lanes[lane].is_none();
        let last = Some(LANES - 1).filter(|_| share).filter(free);
        let lane = last.or_else(|| (0..LANES - 1).find(free))?;
        Some(FreeLane { lane, has_share: lane == LANES - 1 })
    }

    fn begin(&mut self, lane: usize, task: Task, steps: u64) -> Result<(), String> {
        let mut executor = self.executor.lock().unwrap();
        executor.begun.push((lane, steps));
        assert!(executor.lanes[lane].replace((task, StopRequest::None)).is_none(), "one at a time");
        Ok(())
    }

    fn request_stop(&mut self, lane: usize, stop: StopRequest) {
        let mut executor = self.executor.lock().unwrap();
        executor.said.push((lane, stop));
        executor.lanes[lane].as_mut().expect("only a busy thread gets a stop").1 = stop;
    }

    fn poll(&mut self) -> Option<Ended> {
        let mut executor = self.executor.lock().unwrap();
        let (mode, spent) = (executor.mode, executor.spent);
        let short = |task: &Task| mode == Mode::Share && task.work.query.terms.len() == 1;
        let ends = |(task, stop): &(Task, StopRequest)| match mode {
            Mode::End => true,
            Mode::Share => *stop >= StopRequest::AtStepLimit || short(task),
            Mode::GiveBack => *stop >= StopRequest::Now,
            Mode::Hold => *stop == StopRequest::Cancel,
            Mode::Hang => false,
        };
        let lane = executor.lanes.iter().position(|lane| lane.as_ref().is_some_and(ends))?;
        let (task, stop) = executor.lanes[lane].take()?;
        let spent = if short(&task) { Duration::ZERO } else { spent };
        let done = if stop == StopRequest::Cancel {
            TaskEnd::Cancelled
        } else if mode == Mode::End || short(&task) {
            let found = self.evaluator.run(&task.work);
            TaskEnd::Complete(found.map(Arc::from).map_err(|fault| match fault {
                QueryError::Bad(why) => why,
                QueryError::Stopped => unreachable!("it is never stopped"),
            }))
        } else {
            TaskEnd::Unfinished(task)
        };
        Some(Ended { lane, spent, done })
    }

    fn discard(&mut self, _: Task) {
        self.executor.lock().unwrap().discarded += 1;
    }
}

pub(super) const TIMEOUT: Duration = Duration::from_secs(4);

pub(super) fn second(second: f64) -> Mono {
    Mono(0).after(Duration::from_secs_f64(second))
}

const Q: &[u8] = b"q";
const NOW: Now = Now { mono: Mono(0), wall: Wall(1_700_000_000_000) };

pub(super) fn client(index: u32) -> ClientId {
    ClientId { index, generation: 1 }
}

pub(super) struct Harness {
    pub(super) engine: Engine,
    pub(super) executor: Arc<Mutex<ExecutorState>>,
    serial: u32,
    disk: Option<SimDisk>,
    pub(super) now: Now,
    /// What was answered, in words.
    pub(super) replies: Vec<(u32, String)>,
}

impl Harness {
    fn new(engine: Engine, disk: Option<SimDisk>) -> Self {
        let shared = Arc::new(Mutex::new(ExecutorState::default()));
        let manual = ManualExecutor { executor: shared.clone(), evaluator: evaluator() };
        let engine = engine.with_queries(Box::new(manual), TIMEOUT);
        let mut harness =
            Self { engine, executor: shared, serial: 0, disk, now: NOW, replies: Vec::new() };
        harness.ask(0, &IndexedCommand::CreateQueue { queue: Some(Q) });
        for number in 0..4 {
            let payload = format!("{{\"n\":{number}}}");
            let put = IndexedCommand::Put { queue: Q, payload: payload.as_bytes(), state: b"null" };
            harness.ask(0, &put);
        }
        harness.pass();
        harness.replies.clear();
        harness
    }

    pub(super) fn in_memory() -> Self {
        Self::new(Engine::in_memory(5), None)
    }

    pub(super) fn durable() -> Self {
        let disk = SimDisk::new(3);
        let options = JournalOptions { segment_bytes: 1 << 16, sync: SyncMode::Always, salt: 1 };
        Self::new(disk.start_engine(&options, 5, NOW), Some(disk))
    }

    pub(super) fn ask(&mut self, who: u32, watch: &IndexedCommand<'_>) -> u32 {
        self.serial += 1;
        let ticket = Ticket { client: client(who), serial: self.serial };
        self.engine.submit(ticket, &Command::Indexed(*watch), self.now);
        self.listen();
        self.serial
    }

    pub(super) fn find(&mut self, who: u32, query: &Arc<Query>) -> u32 {
        self.ask(who, &IndexedCommand::Find { queue: Q, query, limit: None })
    }

    pub(super) fn poll(&mut self, who: u32, query: &Arc<Query>) -> u32 {
        self.ask(who, &IndexedCommand::Poll { queue: Q, query, state: b"\"TAKEN\"" })
    }

    pub(super) fn listen(&mut self) {
        while let Some(completion) = self.engine.poll_completion() {
            let words = match completion.reply {
                Reply::Indexed(IndexedReply::QueryRows(rows)) => {
                    rows.iter().fold(String::new(), |all, row| all + &row.id.0.to_string() + " ")
                }
                Reply::Indexed(IndexedReply::Row(row)) => {
                    format!("{} is {}", row.id.0, String::from_utf8_lossy(&row.state))
                }
                Reply::Indexed(IndexedReply::BadQuery(why)) => why.to_string(),
                Reply::Indexed(other) => format!("{other:?}"),
                other => format!("{other:?}"),
            };
            self.replies.push((completion.ticket.serial, words));
        }
    }

    /// As many passes as the engine wants.
    pub(super) fn pass(&mut self) {
        for _ in 0..100 {
            self.engine.commit(self.now);
            self.listen();
            self.engine.check_invariants();
            // What is durable now is answered in the next pass.
            let busy = self.disk.as_ref().is_some_and(|disk| disk.work(1));
            if !busy && self.engine.poll_timeout().is_none_or(|at| at > self.now.mono) {
                return;
            }
        }
        panic!("there is no end to it");
    }

    pub(super) fn mode(&self, mode: Mode) {
        self.executor.lock().unwrap().mode = mode;
    }

    pub(super) fn begun(&self) -> usize {
        self.executor.lock().unwrap().begun.len()
    }

    /// The serials of what is answered at this moment.
    pub(super) fn reply_serials_at(&mut self, at: Mono) -> Vec<u32> {
        self.now.mono = at;
        self.take_replies().into_iter().map(|(serial, _)| serial).collect()
    }

    pub(super) fn take_replies(&mut self) -> Vec<(u32, String)> {
        self.pass();
        std::mem::take(&mut self.replies)
    }
}

/// A query for jobs that are not reserved.
pub(super) fn free() -> Arc<Query> {
    query([(text("j.state"), Op::Is, Expr::Null), (text("payload ->> 'n'"), Op::Less, text("9"))])
}

pub(super) fn reply(serial: u32, words: &str) -> (u32, String) {
    (serial, words.to_owned())
}

#[test]
fn searches_of_one_client_are_answered_in_order() {
    for mut harness in [Harness::in_memory(), Harness::durable()] {
        let all = harness.find(1, &query([(text("id"), Op::Greater, text("0"))]));
        let wrong = harness.find(2, &query([(text("(SELECT 1)"), Op::Is, Expr::Null)]));
        let odd = harness.find(1, &query([(text("payload ->> 'n' % 2"), Op::Is, text("1"))]));
        assert_eq!(harness.replies, [], "no search is answered at once");
        let said = harness.take_replies();
        assert_eq!(said.len(), 3);
        assert_eq!((said[0].0, said[1].0, said[2].0), (all, wrong, odd));
        assert!(said[1].1.contains("subqueries are not possible"), "{}", said[1].1);
        let first: Vec<u64> = said[0].1.split_whitespace().map(|id| id.parse().unwrap()).collect();
        assert_eq!(first.len(), 4);
        assert_eq!(said[2].1, format!("{} {} ", first[1], first[3]));
        assert_eq!(harness.begun(), 3);
    }
}

#[test]
fn concurrent_polls_claim_different_jobs() {
    for mut harness in [Harness::in_memory(), Harness::durable()] {
        let polls: Vec<u32> = (1..6).map(|who| harness.poll(who, &free())).collect();
        let said = harness.take_replies();
        assert_eq!(said.iter().map(|said| said.0).collect::<Vec<_>>(), polls);
        let mut jobs: Vec<&str> = said.iter().map(|said| said.1.as_str()).collect();
        assert_eq!(jobs.pop(), Some("NoJob"), "there are four");
        assert!(jobs.iter().all(|job| job.ends_with("is \"TAKEN\"")), "{jobs:?}");
        jobs.dedup();
        assert_eq!(jobs.len(), 4);
        // Each had a snapshot of its own moment: none was in vain.
        assert_eq!(harness.begun(), 5);
    }
}

#[test]
fn poll_with_changed_candidates_is_resubmitted() {
    for mut harness in [Harness::in_memory(), Harness::durable()] {
        let first = harness.find(1, &free());
        let said = harness.take_replies();
        let ids: Vec<JobId> =
            said[0].1.split_whitespace().map(|id| JobId(id.parse().unwrap())).collect();
        assert_eq!((said[0].0, ids.len()), (first, 4));
        harness.mode(Mode::Hold);
        let poll = harness.poll(1, &free());
        assert_eq!(harness.take_replies(), []);
        // The first of the candidates goes, another one changes.
        harness.ask(2, &IndexedCommand::Delete { queue: Q, id: ids[0] });
        harness.ask(2, &IndexedCommand::AppendEvent { queue: Q, id: ids[1], event: b"1" });
        harness.take_replies();
        harness.mode(Mode::End);
        assert_eq!(harness.take_replies(), [reply(poll, &format!("{} is \"TAKEN\"", ids[2].0))]);
        // All of them change.
        harness.mode(Mode::Hold);
        let (poll, behind) = (harness.poll(1, &free()), harness.find(2, &free()));
        harness.take_replies();
        for id in [ids[1], ids[3]] {
            harness.ask(2, &IndexedCommand::AppendEvent { queue: Q, id, event: b"2" });
        }
        harness.take_replies();
        harness.mode(Mode::End);
        let said = harness.take_replies();
        assert_eq!(said[0], reply(poll, &format!("{} is \"TAKEN\"", ids[1].0)), "{said:?}");
        assert_eq!(said[1], reply(behind, &format!("{} ", ids[3].0)), "it has kept its turn");
    }
}

#[test]
fn search_of_a_disconnected_client_is_cancelled() {
    for mut harness in [Harness::in_memory(), Harness::durable()] {
        harness.mode(Mode::Hold);
        harness.find(1, &free());
        harness.poll(1, &free());
        let other = harness.find(2, &query([(text("id + 0"), Op::Is, Expr::Null)]));
        assert_eq!(harness.take_replies(), []);
        harness.engine.disconnect_client(client(1), NOW);
        harness.listen();
        assert_eq!(harness.executor.lock().unwrap().said.last(), Some(&(0, StopRequest::Cancel)));
        harness.mode(Mode::End);
        assert_eq!(harness.take_replies(), [reply(other, "")]);
        assert_eq!(harness.begun(), 2, "the poll has not begun");
    }
}

#[test]
fn search_of_a_queue_dropped_meanwhile_reports_no_queue() {
    for mut harness in [Harness::in_memory(), Harness::durable()] {
        harness.mode(Mode::Hold);
        let (first, second) = (harness.poll(1, &free()), harness.find(1, &free()));
        assert_eq!(harness.take_replies(), []);
        harness.ask(2, &IndexedCommand::DropQueue { queue: Q });
        harness.take_replies();
        harness.mode(Mode::End);
        assert_eq!(harness.take_replies(), [reply(first, "NoQueue"), reply(second, "NoQueue")]);
    }
}

#[test]
fn too_many_searches_are_rejected_and_all_without_a_query_thread() {
    let mut harness = Harness::in_memory();
    harness.mode(Mode::Hold);
    for who in 0..1024 {
        harness.find(who, &free());
    }
    assert_eq!(harness.replies, []);
    let refused = harness.find(1, &free());
    let why = "too many queries wait for their turn: try again later";
    assert_eq!(harness.replies, [reply(refused, why)]);
    harness.replies.clear();
    harness.mode(Mode::End);
    assert_eq!(harness.take_replies().len(), 1024);

    let mut engine = Engine::in_memory(1);
    let ticket = Ticket { client: client(1), serial: 1 };
    let query = free();
    let find = IndexedCommand::Find { queue: b"default", query: &query, limit: None };
    engine.submit(ticket, &Command::Indexed(find), NOW);
    let completion = engine.poll_completion().unwrap();
    let why = IndexedReply::BadQuery("this server evaluates no queries".into());
    assert_eq!(completion.reply, Reply::Indexed(&why));
}
