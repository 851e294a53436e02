//! The engine with commands of random clients in random time, against an oracle.
//!
//! `tests/it/job_centre_sim` drives the server by one of its protocols; this simulator submits all
//! commands with all their options, also those that no protocol sends. Every reply must be the
//! oracle's, byte for byte and in the same order. Everything in a run follows from its seed:
//! `SIM_SEED=n` replays one, prints what happens, and if it fails searches for a shorter sequence
//! of steps that fails too.

mod generator;
mod imports;
mod indexed_requests;
mod large;
mod manage_requests;
mod regressions;
mod replies;
mod requests;
mod run_requests;
mod shrink;
mod simulation;
mod worker_requests;

use crate::rng::TestRng;
use crate::seeds::{self, Plan};
use generator::Profile;
use jobcentre::base::slab::SlabKey;
use jobcentre::base::time::{Mono, Now, Wall};
use jobcentre::engine::CommandExecutor;
use jobcentre::model::id::{ClientId, JobId, Ticket};
use manage_requests::ManageRequest;
use requests::{QUEUES, Request};
use simulation::{Simulation, Step};
use std::hash::Hasher;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// Seeds that have failed once.
const FAILED_ONCE: [u64; 38] = [
    16_792_080,
    32_752_502_520,
    66_512_488_777,
    119_608_327_796,
    119_608_327_844,
    119_608_328_463,
    130_000_077_520,
    133_445_297_443,
    140_000_004_963,
    140_000_032_146,
    238_938_841_490,
    319_979_952_554,
    389_892_243_507,
    620_721_324_086,
    858_373_123_730,
    1_063_473_703_702,
    28_011_030_165_464,
    527_862_138_841,
    11_004_450_550_500,
    12_042_871_744_589,
    30_310_001_134_285,
    71_000_615_493,
    391_163_147_791,
    391_163_167_689,
    811_000_000_258,
    811_000_000_644,
    817_000_001_518,
    821_100_002_759,
    981_100_001_499,
    981_100_005_228,
    982_100_009_262,
    433_041_676_155,
    442_031_703_699,
    442_031_703_824,
    442_031_703_827,
    985_400_000_009,
    9_100_000_018_847,
    9_100_000_029_266,
];

/// The first of these failed before requests of the native API were drawn.
const WITHOUT_MANAGING: usize = 24;

const PLAN: Plan = Plan::new(300, &FAILED_ONCE);

/// What must have happened in an ordinary test run, lest the simulation shows nothing. Missing is
/// only the refusal for want of ids: there are 2^53.
const WANTED: [&str; 239] = [
    "a job at work was deleted",
    "a job at work was dropped",
    "a job is held back",
    "a job was popped",
    "a key group was popped",
    "a key group with a group-only job was popped",
    "a packet came back",
    "a packet was popped",
    "a poll found a job",
    "a poll found a job at work",
    "a poll found nothing",
    "attach: another one than before",
    "await release: of a job that is held",
    "back: too late",
    "backoff: longer",
    "backoff: none",
    "backoff: shorter",
    "bury",
    "cancel",
    "cancel: a watcher",
    "change",
    "choice: served later",
    "command: bury",
    "command: delete",
    "command: fail",
    "command: finish",
    "command: kick",
    "command: kick queue",
    "command: peek",
    "command: pop",
    "command: put",
    "command: release",
    "command: reserve",
    "command: subscribe",
    "command: touch",
    "command: unsubscribe",
    "delete",
    "dependency: a job is cancelled",
    "dependency: a job is held",
    "dependency: a job is released",
    "dependency: a job runs though one is lost",
    "dependency: on an unknown job",
    "deregister: jobs go back",
    "detach: a wait ends with it",
    "end: backoff",
    "end: buried",
    "end: completed",
    "end: delay",
    "end: lease, another attempt",
    "end: lease, back",
    "end: lease, buried",
    "end: lease, retried",
    "end: lease, the last attempt",
    "end: pause",
    "end: time to live, delayed",
    "end: time to live, group-only",
    "end: time to live, ready",
    "end: wait",
    "fetched, and gone",
    "forget",
    "forget: a job goes back",
    "forget: a job is buried",
    "forget: several jobs go back",
    "indexed: append event",
    "indexed: create queue",
    "indexed: delete",
    "indexed: drop queue",
    "indexed: find",
    "indexed: list",
    "indexed: poll",
    "indexed: put",
    "indexed: queues",
    "indexed: set state",
    "indexed: show",
    "job_abandoned",
    "job_aborted",
    "job_buried",
    "job_changed",
    "job_due",
    "job_expired",
    "job_failed",
    "job_finished",
    "job_kicked",
    "job_retried",
    "job_state_advanced",
    "job_taken",
    "key: kept",
    "key: made more urgent",
    "key: not replaced",
    "key: rejected",
    "key: replaced",
    "kick",
    "manage: act",
    "manage: act, by a query",
    "manage: bury",
    "manage: cancel",
    "manage: change",
    "manage: delete queue",
    "manage: kick",
    "manage: constraints",
    "manage: history",
    "manage: of a job at work",
    "manage: pause",
    "manage: queue",
    "manage: rank",
    "manage: remove",
    "manage: resume",
    "manage: show",
    "manage: workers",
    "move",
    "native: a lease under a token",
    "native: a pop waited for the put",
    "native: await end",
    "native: export",
    "native: import",
    "import: a job waits",
    "native: end of an import",
    "native: index off",
    "native: index on",
    "native: list",
    "native: put",
    "native: put many",
    "native: reserve",
    "native: reserve of a job that is held",
    "native: search",
    "native: several jobs are reserved",
    "over: asked for by a holder",
    "over: deleted",
    "over: kicked",
    "over: peeked at",
    "pause: of a paused queue",
    "progress: done",
    "progress: error",
    "progress: queued",
    "progress: retrying",
    "progress: running",
    "record: of a job at work",
    "record: of another job",
    "register: in place of another one",
    "rejected by a worker",
    "reply: an empty list",
    "reply: cancelled",
    "reply: conflict",
    "reply: constrained",
    "reply: details",
    "reply: done",
    "reply: duplicate",
    "reply: dropped",
    "reply: dropped nothing",
    "reply: found",
    "reply: found nothing",
    "reply: gone",
    "reply: held by another",
    "reply: job",
    "reply: index",
    "reply: key taken",
    "reply: kicked",
    "reply: lease over",
    "reply: list",
    "reply: missing queue",
    "reply: missing, gone",
    "reply: missing, never given out",
    "reply: no constraint",
    "reply: no index",
    "reply: no job",
    "reply: no queue",
    "reply: no worker",
    "reply: not buried",
    "reply: not held",
    "reply: not yet",
    "reply: packets",
    "reply: put",
    "reply: queue",
    "reply: queue busy",
    "reply: puts",
    "reply: history",
    "reply: listed",
    "reply: queue details",
    "reply: queue exists",
    "reply: queues",
    "reply: ranked queues",
    "reply: reserved",
    "reply: row",
    "reply: rows",
    "reply: seen buried",
    "reply: seen completed",
    "reply: seen delayed",
    "reply: seen group-only",
    "reply: seen ready",
    "reply: seen reserved",
    "reply: stale token",
    "reply: too large",
    "reply: too late",
    "reply: worker",
    "report: a failure",
    "report: a rejection that is late",
    "report: a success",
    "report: by connection",
    "report: by token",
    "report: complete",
    "report: fail",
    "report: of a worker without a client",
    "report: progress",
    "report: release",
    "report: release with another priority",
    "report: the job is gone then",
    "report: touch",
    "resume: a waiter is served",
    "service: a pop",
    "service: a reserve",
    "service: of several",
    "subscribe: named already",
    "subscribe: one more queue",
    "subscribe: served at once",
    "time: exactly a deadline",
    "told of an end",
    "told of an end, natively",
    "too large: a pop waits all the same",
    "too large: given to a reserve, past pops",
    "too large: gone before waiting pops",
    "too large: taken before waiting pops",
    "unsubscribe: not named",
    "unsubscribe: one queue",
    "user_event",
    "work: attach",
    "work: await release",
    "work: await result",
    "work: cancel",
    "work: deregister",
    "work: get status",
    "work: register",
    "work: remove constraint",
    "work: report",
    "work: reserve any",
    "work: return unstarted",
    "work: set constraint",
    "wrong state: buried",
    "wrong state: completed",
    "wrong state: reserved",
];

/// One run.
struct Run {
    rng: TestRng,
    profile: Profile,
    simulation: Simulation,
    clients: Vec<Ticket>,
    /// What has happened so far.
    steps: Vec<Step>,
}

impl Run {
    fn new(seed: u64) -> Self {
        let mut rng = TestRng::new(seed);
        let mut profile = Profile::draw(&mut rng);
        if !FAILED_ONCE[..WITHOUT_MANAGING].contains(&seed) {
            // Beside the other choices, so that seeds that have failed are the same runs as then.
            profile.managing = *TestRng::new(!seed).pick(&[0, 0, 3, 10, 40]);
        }
        let client = |index| SlabKey { index, generation: 1 };
        // The serials of some wrap.
        let serials = [0, u32::MAX - 5];
        let clients = (0..u32::try_from(profile.clients).unwrap())
            .map(|index| Ticket { client: client(index), serial: *rng.pick(&serials) })
            .collect();
        let simulation = Simulation::new(seed);
        Self { rng, profile, simulation, clients, steps: Vec::new() }
    }

    fn go(&mut self) {
        for number in 0..self.profile.steps {
            if self.rng.percent(self.profile.moving) {
                self.pass_time();
                if !self.rng.percent(self.profile.lazy) {
                    self.step(Step::Expire);
                }
            }
            let step = self.something();
            self.step(step);
            let is_due = |at: Mono| at <= self.simulation.now.mono;
            if self.profile.lazy == 0 && self.simulation.oracle.timeout().0.is_some_and(is_due) {
                // A job that went back too late is due at once.
                self.step(Step::Expire);
            }
            if number % self.profile.check == 0 {
                self.simulation.engine.check_invariants();
            }
        }
        self.finish();
    }

    fn step(&mut self, step: Step) {
        self.steps.push(step);
        self.simulation.step(self.steps.last().unwrap());
    }

    fn pass_time(&mut self) {
        const MILLISECOND: u64 = 1_000_000;
        let Now { mono, wall } = self.simulation.now;
        let next = self.simulation.oracle.timeout().1.filter(|next| next.0 < u64::MAX);
        let next = next.map_or(mono, |next| next.max(mono));
        let to = match self.rng.below(10) {
            0..5 => Mono(mono.0 + self.rng.between(1, 4) as u64 * MILLISECOND),
            5..7 => {
                self.simulation.oracle.see("time: exactly a deadline");
                next
            }
            7 => Mono(next.0 - u64::from(next > mono)),
            8 => Mono(mono.0 + self.rng.below(3_000_000) as u64),
            _ => Mono(mono.0 + self.rng.below(20_000) as u64 * MILLISECOND),
        };
        let wall = match self.rng.below(10) {
            0 => Wall(self.rng.seed()),
            1 => Wall(0),
            _ => Wall(wall.0.saturating_add((to.0 - mono.0) / MILLISECOND)),
        };
        self.step(Step::Time(Now { mono: to, wall }));
    }

    /// What a client does.
    fn something(&mut self) -> Step {
        let index = self.rng.below(self.clients.len());
        let last = &mut self.clients[index];
        if self.rng.percent(self.profile.leaving) {
            let client = last.client;
            *last = Ticket { client: successor(client), serial: 0 };
            return Step::Forget(client);
        }
        if self.rng.percent(1) {
            let waiters = &self.simulation.oracle.waiters;
            let watchers = &self.simulation.oracle.watchers;
            let waits = if !watchers.is_empty() && self.rng.percent(50) {
                Some(self.rng.pick(watchers).ticket)
            } else {
                (!waiters.is_empty()).then(|| self.rng.pick(waiters).ticket)
            };
            return Step::Cancel(waits.unwrap_or(*last));
        }
        last.serial = last.serial.wrapping_add(1);
        let ask = self.profile.ask(&mut self.rng, last.client, &self.simulation.oracle);
        Step::Submit(*last, ask)
    }

    /// Every client disconnects, much time passes, what is left is deleted: then there is nothing.
    fn finish(&mut self) {
        for client in self.clients.clone() {
            self.step(Step::Forget(client.client));
        }
        self.simulation.engine.check_invariants();
        assert_eq!(self.simulation.engine.counts().waiters, 0, "a waiter is left");
        let mut now = self.simulation.now;
        now.mono.0 += 100_000_000 * 1_000_000;
        self.step(Step::Time(now));
        self.step(Step::Expire);
        let mut last = Ticket { client: successor(self.clients[0].client), serial: 0 };
        for queue in 0..QUEUES.len() {
            if self.simulation.oracle.is_paused(queue) {
                last.serial += 1;
                self.step(Step::Submit(last, Request::Manage(ManageRequest::Resume(queue))));
            }
        }
        for id in self.simulation.oracle.jobs.iter().map(|job| job.id).collect::<Vec<_>>() {
            last.serial += 1;
            self.step(Step::Submit(last, Request::Delete(JobId(id))));
        }
        self.simulation.engine.check_invariants();
        assert_eq!(self.simulation.engine.counts().jobs, 0, "a job is left over");
        assert_eq!(self.simulation.engine.poll_timeout(), None, "a deadline is left over");
    }
}

/// A client that has the place of another which is gone.
fn successor(client: ClientId) -> ClientId {
    SlabKey { index: client.index, generation: client.generation + 1 }
}

fn run(seed: u64) -> Run {
    let mut run = Run::new(seed);
    run.go();
    run
}

/// Runs one seed, and tells how it goes or how little of it is needed to make it fail.
fn replay(seed: u64) {
    let mut run = Run::new(seed);
    println!("seed {seed}: {:?}", run.profile);
    run.simulation.loud = true;
    let Err(panic) = catch_unwind(AssertUnwindSafe(|| run.go())) else { return };
    let steps = shrink::shrink(seed, run.steps);
    println!("\nseed {seed}, {} steps are enough:", steps.len());
    shrink::take(seed, &steps, true);
    resume_unwind(panic);
}

#[test]
fn engine_agrees_with_the_oracle() {
    if let Some(seed) = seeds::replayed() {
        return replay(seed);
    }
    PLAN.run(&WANTED, 0, |seed| run(seed).simulation.oracle.seen);
}

#[test]
fn same_seed_gives_the_same_run() {
    seeds::assert_one_seed_is_one_run(|seed| run(seed).simulation.said.finish());
}
