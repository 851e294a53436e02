//! The engine with its journal on a disk in memory: random commands, faults and crashes. After each
//! crash everything is compared with the replies that clients got.
//!
//! The oracle keeps for each job what is certain and what is possible: a put that was answered is
//! there, byte for byte, unless a client asked for its end; an end that was answered is final; a
//! command that was not answered has happened or not, and never by half. `SIM_SEED=n` replays one
//! run.
//!
//! It does not use `tests/it/oracle`, which says what each command is answered and so has to know
//! the store. Which job a reserve gets depends on all commands before it, and after a crash each of
//! those without an answer has happened or not: as many stores would be possible as there are ways
//! to choose. Here the engine's replies are believed, and only what they promise of single jobs is
//! compared. What a command does to a job is checked by `engine_sim`.

mod answers;
mod bulk_changes;
mod constraint_model;
mod consumers;
mod coverage;
mod dependencies;
mod drain;
mod follower;
mod histories;
mod indexed_queues;
mod large_pops;
mod manage;
mod native;
mod node;
mod oracle;
mod restart;
mod waits;
mod worker_ends;
mod workers;

use crate::journal::disk::{End, SimDisk};
use crate::rng::TestRng;
use crate::seeds::{self, Plan};
use coverage::Seen;
use jobcentre::base::strings::StringList;
use jobcentre::base::time::{Mono, Now, Wall};
use jobcentre::engine::{CommandExecutor, Engine};
use jobcentre::journal::{JournalOptions, SyncMode};
use jobcentre::model::command::{Command, Wait};
use jobcentre::model::id::{ClientId, JobId, Ticket};
use jobcentre::model::job::{Encoding, JobOptions, Payload, Priority, Retry, Status, TieBreak};
use node::SimNode;
use oracle::{Asked, Oracle};
use std::cell::RefCell;
use std::time::Duration;

const QUEUES: [&[u8]; 3] = [b"a", b"b", b"c"];
const CLIENTS: u32 = 4;

/// One program after another over one disk.
struct Simulation {
    rng: TestRng,
    disk: SimDisk,
    /// In place of the disk.
    node: Option<RefCell<SimNode>>,
    options: JournalOptions,
    oracle: Oracle,
    now: Now,
    serial: u32,
    /// Clients get new keys in each life.
    generation: u32,
    jobs_put: u64,
    /// Whether queues are watched.
    watching: bool,
    /// Whether there are workers.
    working: bool,
    /// Whether there are constraints.
    constrained: bool,
    /// Of a hundred commands, how many are of the native API.
    managing: usize,
    /// Of a hundred commands, how many are of the native API in queues of its own.
    native: usize,
    /// How many steps a pass has for work that is spread over passes, if these are few.
    spread_steps: Option<usize>,
    /// The choices of clients that wait, if there are any.
    patience: Option<TestRng>,
    /// The same of clients that reserve jobs by their connections.
    consumers: Option<TestRng>,
}

fn recover(simulation: &Simulation) -> Engine {
    let now = simulation.now;
    let mut engine = match &simulation.node {
        Some(node) => node.borrow_mut().start_engine(3, now),
        None => simulation.disk.start_engine(&simulation.options, 3, now),
    };
    if let Some(steps) = simulation.spread_steps {
        engine.set_spread_steps(steps);
    }
    engine
}

impl Simulation {
    fn new(seed: u64) -> Self {
        let (mut rng, mut patience) = (TestRng::new(seed), TestRng::new(!seed));
        let patient = patience.percent(50);
        // Beside the other choices, so that seeds that have failed are the same runs as then.
        let managing = !FAILED_ONCE.contains(&seed) && patience.percent(50);
        let native = *TestRng::new(seed ^ 0x6e61).pick(&[0, 0, 0, 50]);
        let native = if FAILED_ONCE[..WITHOUT_NATIVE].contains(&seed) { 0 } else { native };
        let mut consumers = TestRng::new(seed ^ 0x6273);
        let draws = !FAILED_ONCE.contains(&seed) && consumers.percent(35);
        let sync = match rng.below(4) {
            0 => SyncMode::Every(Duration::from_millis(5)),
            1 => SyncMode::Never,
            _ => SyncMode::Always,
        };
        let segment_bytes = [4_096, 8_192, 65_536][rng.below(3)];
        let disk = SimDisk::new(rng.seed());
        {
            let mut platter = disk.platter.lock().unwrap();
            platter.inline = sync != SyncMode::Always;
            platter.late_completions = rng.percent(50);
        }
        Self {
            disk,
            node: None,
            options: JournalOptions { segment_bytes, sync, salt: rng.seed() },
            oracle: Oracle::default(),
            now: Now { mono: Mono(1_000_000), wall: Wall(1_700_000_000_000) },
            serial: 0,
            generation: 0,
            jobs_put: 0,
            watching: rng.percent(60),
            working: rng.percent(60),
            constrained: rng.percent(25),
            rng,
            managing: if managing { 15 } else { 0 },
            native,
            spread_steps: (seed % 3 == 1).then(|| 1 + usize::try_from(seed / 3 % 7).unwrap()),
            patience: patient.then_some(patience),
            consumers: draws.then_some(consumers),
        }
    }

    fn ticket(&mut self) -> Ticket {
        self.serial += 1;
        let index = u32::try_from(self.rng.below(CLIENTS as usize)).unwrap();
        Ticket { client: ClientId { index, generation: self.generation }, serial: self.serial }
    }

    fn pass_time(&mut self) {
        let ms = [0, 0, 1, 7, 300][self.rng.below(5)];
        self.now.mono = self.now.mono.after(Duration::from_millis(ms));
        self.now.wall.0 += ms;
    }

    /// One life of the program: passes until its end comes.
    fn live(&mut self) {
        self.generation += 1;
        let mut engine = recover(self);
        engine.check_invariants();
        self.oracle.native.came_back(&engine);
        if self.rng.percent(70) && self.settle(&mut engine) {
            engine.set_answers_wait(false);
            self.oracle.examine(&mut engine, self.generation, self.now);
            engine.set_answers_wait(true);
        }
        let passes = self.rng.between(1, 60);
        for _ in 0..passes {
            for _ in 0..self.rng.below(6) {
                self.submit(&mut engine);
            }
            engine.expire(self.now);
            self.take_completions(&mut engine);
            engine.commit(self.now);
            seeds::say(|| format!("commit at {} us", self.now.mono.0 / 1_000));
            self.take_completions(&mut engine);
            if engine.fatal_error().is_some() {
                break;
            }
            engine.check_invariants();
            let work = self.rng.below(5);
            self.work(&mut engine, work);
            self.pass_time();
            self.inject_fault();
        }
        let end = if self.options.sync == SyncMode::Always && self.rng.percent(50) {
            End::PowerCut
        } else {
            End::Kill
        };
        if self.rng.percent(20) && engine.fatal_error().is_none() {
            self.close(&mut engine);
        }
        drop(engine);
        seeds::say(|| format!("the end: {end:?}"));
        self.disk.end(end);
        self.oracle.end_of_life();
    }

    /// Lets the disk make durable what the last life wrote; false if it cannot.
    fn settle(&mut self, engine: &mut Engine) -> bool {
        self.let_replicas_catch_up();
        let ticket = Ticket { client: ClientId { index: 97, ..self.ticket().client }, serial: 0 };
        engine.submit(ticket, &Command::Peek { id: JobId(u64::MAX) }, self.now);
        for _ in 0..10_000 {
            if engine.poll_completion().is_some() {
                return true;
            }
            if engine.fatal_error().is_some() {
                return false;
            }
            engine.commit(self.now);
            self.work(engine, 3);
            self.pass_time_of_node();
        }
        panic!("what was written before is never durable");
    }

    fn inject_fault(&mut self) {
        if self.node.is_some() {
            return self.inject_fault_of_node();
        }
        let mut platter = self.disk.platter.lock().unwrap();
        let trouble = self.rng.below(120);
        match trouble {
            0 => platter.fail_write = true,
            1 => platter.fail_sync = true,
            2 => platter.capacity = platter.total(),
            3..=9 => platter.capacity = u64::MAX,
            _ => return,
        }
        seeds::say(|| format!("trouble: {trouble}"));
    }

    /// An orderly end: afterwards not even a power cut costs anything.
    fn close(&mut self, engine: &mut Engine) {
        self.let_replicas_catch_up();
        // On a full disk it could wait for ever.
        self.disk.platter.lock().unwrap().capacity = u64::MAX;
        engine.close(self.now);
        for _ in 0..10_000 {
            if engine.is_closed() {
                break;
            }
            self.work(engine, 3);
            self.pass_time();
            engine.commit(self.now);
            self.take_completions(engine);
        }
        assert!(engine.is_closed(), "the journal does not come to its end");
        if engine.fatal_error().is_none() {
            seeds::say(|| "an orderly end, and a power cut".to_owned());
            self.disk.end(End::PowerCut);
        }
    }

    fn take_completions(&mut self, engine: &mut Engine) {
        self.oracle.native.note_actions(engine);
        while let Some(completion) = engine.poll_completion() {
            if native::is_client(completion.ticket.client) {
                self.oracle.native.on_reply(completion.ticket, &completion.reply);
            } else {
                self.oracle.on_reply(completion.ticket, &completion.reply);
            }
        }
    }

    fn submit(&mut self, engine: &mut Engine) {
        if self.native > 0 && self.rng.percent(self.native) {
            return self.use_native_api(engine);
        }
        let ticket = self.ticket();
        let queue = *self.rng.pick(&QUEUES);
        let id = self.oracle.some_id(ticket.client, &mut self.rng);
        let long = [b'7'; 400];
        let bytes = if self.rng.percent(30) { &long[..] } else { b"[\"note\"]" };
        let note = Payload { encoding: Encoding::Json, bytes };
        let mut names = StringList::default();
        names.push(queue);
        let queues = names.from(0);
        if self.patience.as_mut().is_some_and(|patience| patience.percent(30)) {
            return self.wait(engine, ticket, queue, id);
        }
        if self.consumers.as_mut().is_some_and(|consumers| consumers.percent(30)) {
            return self.consume(engine, ticket, queue, id);
        }
        if self.watching && self.rng.percent(40) {
            return self.watch(engine, ticket, queue, id);
        }
        if self.working && self.rng.percent(40) {
            return self.request_of_a_worker(engine, ticket, id);
        }
        if self.managing > 0 && self.rng.percent(self.managing) {
            return self.manage(engine, ticket, queue, id);
        }
        if self.constrained && self.rng.percent(10) {
            return self.set_constraints(engine, ticket);
        }
        let (command, asked) = match self.rng.below(20) {
            0..=6 => return self.put(engine, ticket, queue),
            7..=9 => {
                let service = self.oracle.service_of(ticket.client);
                (Command::Reserve { queues, wait: Wait::No }, Asked::Take(service))
            }
            10 => (Command::Pop { queues, wait: Wait::No }, Asked::Pop(queue)),
            11..=13 => (Command::Delete { id }, Asked::End(id)),
            14 | 15 => (Command::Finish { id, lease: None, result: note }, Asked::Finish(id)),
            16 => {
                let retry = self.rng.percent(80);
                let asked = Asked::Change(id, None);
                (Command::Fail { id, lease: None, retry, error: note }, asked)
            }
            17 => (Command::Bury { id, lease: None }, Asked::Change(id, Some(Status::Buried))),
            18 => (Command::Kick { id }, Asked::Change(id, None)),
            _ => {
                self.oracle.forget(ticket.client);
                engine.disconnect_client(ticket.client, self.now);
                // The client's key is used again.
                while engine.poll_disconnected().is_none() {
                    self.take_completions(engine);
                    engine.expire(self.now);
                }
                return self.take_completions(engine);
            }
        };
        self.oracle.ask(ticket, asked);
        engine.submit(ticket, &command, self.now);
        self.take_completions(engine);
    }

    fn put(&mut self, engine: &mut Engine, ticket: Ticket, queue: &'static [u8]) {
        self.jobs_put += 1;
        let filler = "x".repeat([0, 10, 200, 1_500][self.rng.below(4)]);
        let text = format!("{{\"n\":{},\"x\":\"{filler}\"}}", self.jobs_put);
        let packet = self.rng.percent(20);
        let encoding = if packet { Encoding::Packet { key_len: 5 } } else { Encoding::JsonLine };
        let retry = Retry { limit: 2, first_ms: 5, factor: 2, max_ms: 100, jitter_percent: 10 };
        let options = JobOptions {
            delay_ms: [0, 0, 20][self.rng.below(3)],
            retry: self.rng.percent(70).then_some(retry),
            result_retention_ms: [0, 100_000_000][self.rng.below(2)],
            tracked: self.working && self.rng.percent(70),
            result_once: self.working && self.rng.percent(50),
            ..JobOptions::default()
        };
        let options = self.rng.percent(50).then_some(options);
        let priority = match self.rng.below(8) {
            0 => Priority::Big("340282366920938463463374607431768211456"),
            level => Priority::Small(i64::try_from(level).unwrap() - 4),
        };
        let tie_break = if packet { TieBreak::Lifo } else { TieBreak::Fifo };
        let payload = Payload { encoding, bytes: text.as_bytes() };
        self.oracle.ask_put(ticket, queue, payload, options);
        let command =
            Command::Put { queue, priority, tie_break, payload, options: options.as_ref() };
        engine.submit(ticket, &command, self.now);
        self.take_completions(engine);
    }
}

/// Seeds that have failed once.
const FAILED_ONCE: &[u64] = &[
    187_649_802_649,
    324_694_896_876,
    324_694_913_591,
    324_694_934_082,
    500_641_121_378,
    673_951_771_429,
    715_070_887_275,
    725_087_041_523,
    775_169_526_826,
    859_354_188_346,
    1_038_477_755_518,
    232_626_581_908,
];

/// The first of these failed before jobs of the native API were drawn.
const WITHOUT_NATIVE: usize = 11;

const PLAN: Plan = Plan::new(150, FAILED_ONCE);
const SHARED_PLAN: Plan = Plan::new(150, &[80_167_749_009, 534_284_261_343]);

fn run(seed: u64) -> Seen {
    play(Simulation::new(seed))
}

/// The same over a node in memory in place of the disk.
fn run_shared(seed: u64) -> Seen {
    let mut simulation = Simulation::new(seed);
    simulation.node = Some(RefCell::new(SimNode::new(seed)));
    play(simulation)
}

fn play(mut simulation: Simulation) -> Seen {
    for _ in 0..6 {
        simulation.live();
    }
    simulation.generation += 1;
    if let Some(node) = &simulation.node {
        node.borrow_mut().steady();
    }
    let mut engine = recover(&simulation);
    simulation.disk.platter.lock().unwrap().capacity = u64::MAX;
    assert!(simulation.settle(&mut engine), "the disk is in order");
    simulation.oracle.native.came_back(&engine);
    engine.set_answers_wait(false);
    simulation.oracle.examine(&mut engine, simulation.generation, simulation.now);
    engine.set_answers_wait(true);
    simulation.oracle.seen.native = simulation.oracle.native.seen;
    let (disk, node, now) = (simulation.disk.clone(), simulation.node.take(), simulation.now);
    let mut later = now;
    simulation.oracle.drain(&mut engine, simulation.generation, now, |engine| {
        for _ in 0..20 {
            engine.commit(later);
            match &node {
                Some(node) => {
                    later.mono = later.mono.after(Duration::from_millis(100));
                    node.borrow_mut().work(engine, 10, later);
                }
                None => {
                    disk.work(10);
                }
            }
        }
        engine.commit(later);
    });
    simulation.oracle.seen.followed = node.map_or(0, |node| node.borrow().followed);
    simulation.oracle.seen
}

#[test]
fn acknowledged_changes_survive_every_crash() {
    let Some(results) = PLAN.play(run) else { return };
    let mut seen = Seen::default();
    for more in results {
        seen.add(more);
    }
    seen.assert_everything();
}

#[test]
fn acknowledged_changes_survive_every_death_of_a_leader() {
    let Some(results) = SHARED_PLAN.play(run_shared) else { return };
    let mut seen = Seen::default();
    for more in results {
        seen.add(more);
    }
    seen.assert_everything();
    assert!(seen.followed > 0, "no server has followed a leader to its end");
}

/// The record of the job with the highest id is long gone, with the segment that it lay in.
#[test]
fn highest_job_id_outlives_its_job() {
    let mut simulation = Simulation::new(1);
    simulation.options.sync = SyncMode::Always;
    simulation.options.segment_bytes = 4_096;
    simulation.disk.platter.lock().unwrap().inline = false;
    let client = ClientId { index: 0, generation: 1 };
    let mut engine = recover(&simulation);
    let mut serial = 0;
    let mut step = |engine: &mut Engine, command: &Command<'_>| {
        serial += 1;
        engine.submit(Ticket { client, serial }, command, simulation.now);
        let mut last = None;
        for _ in 0..20 {
            while let Some(completion) = engine.poll_completion() {
                last = Some(format!("{:?}", completion.reply));
            }
            engine.commit(simulation.now);
            simulation.disk.work(10);
        }
        last.expect("it is answered")
    };
    let payload = Payload { encoding: Encoding::Json, bytes: b"{\"marked\":1}" };
    let (priority, tie_break) = (Priority::Small(1), TieBreak::Fifo);
    let put = Command::Put { queue: b"a", priority, tie_break, payload, options: None };
    let mut names = StringList::default();
    names.push(b"a");
    for id in 1..=50 {
        assert_eq!(step(&mut engine, &put), format!("Put(JobId({id}))"));
        if id > 1 {
            assert_eq!(step(&mut engine, &Command::Delete { id: JobId(id) }), "Done");
        }
    }
    for _ in 0..300 {
        let take = Command::Reserve { queues: names.from(0), wait: Wait::No };
        assert!(step(&mut engine, &take).starts_with("Job"));
        assert_eq!(step(&mut engine, &Command::Bury { id: JobId(1), lease: None }), "Done");
        assert_eq!(step(&mut engine, &Command::Kick { id: JobId(1) }), "Done");
    }
    let freed = !simulation.disk.image().contains_key(&crate::journal::disk::segment_name(1));
    assert!(freed, "the first segment is needed no more: {:?}", simulation.disk.image().keys());
    drop(engine);
    simulation.disk.end(End::PowerCut);
    let mut engine = recover(&simulation);
    assert_eq!(step(&mut engine, &put), "Put(JobId(51))");
}
