//! The dispatcher simulation over a journal: clients use HTTP, the disk is slow and fails, and the
//! server crashes and restarts.
//!
//! Every acknowledged change survives. A change that was executed and not acknowledged has happened
//! or not: after each restart the simulation looks it up, and the oracle goes on from there. A
//! delivered job still belongs to its worker, with the same lease epoch, and is not delivered
//! again.

use super::constraint_model::ConstraintModel;
use super::sim::{finish, oracle, pass, populate};
use super::simulation::{Event, QUEUES, RETRIES, Simulation, State};
use crate::journal::disk::{End, SimDisk};
use crate::late_engine::LateEngine;
use crate::seeds::{self, Plan, Seen};
use jobcentre::engine::Engine;
use jobcentre::journal::{JournalOptions, SyncMode};
use jobcentre::model::command::Command;
use jobcentre::model::driver::{Core, Protocol};
use jobcentre::model::id::ClientId;
use jobcentre::model::reply::Reply;
use jobcentre::model::worker::{WorkerCommand, WorkerId};
use jobcentre::server::{Server, Settings};
use jobcentre::wire::msgpack::{from_json, to_json};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::time::Duration;

/// Seeds that have failed once.
const FAILED_ONCE: &[u64] = &[
    72_000_002_704,
    391_163_013_341,
    395_558_029_867,
    6_200_000_001_498,
    400_021_223_990_244_224,
    400_021_223_990_244_796,
    400_021_223_990_245_295,
    400_021_223_990_245_819,
    400_021_223_990_246_385,
];

const PLAN: Plan = Plan::new(100, FAILED_ONCE);

const WANTED: [&str; 14] = [
    "a crash",
    "a failure",
    "a job failed for good",
    "a job outlived the server in its worker's hands",
    "a job was refused",
    "a report came too late, or twice",
    "a success",
    "a worker registered again",
    "a worker was dismissed",
    "an unacknowledged failure counts",
    "an unacknowledged put counts",
    "an unacknowledged success counts",
    "the disk failed",
    "an unacknowledged change was lost",
];

/// Where the jobs are.
pub(super) struct Backing {
    disk: SimDisk,
    options: JournalOptions,
    /// The disk has something to do, and when is known.
    busy: bool,
    /// Whether there are crashes and faults.
    rough: bool,
}

/// A request without a reply so far.
#[derive(Clone, Copy, Debug)]
pub(super) enum Asked {
    Put,
    /// To be called, by the worker of this number.
    Register(usize),
    Dismiss,
    Report {
        id: u64,
        good: bool,
        holds: bool,
    },
}

#[test]
fn every_job_ends_once_whatever_the_disk_does() {
    PLAN.run(&WANTED, 2, run);
}

fn run(seed: u64) -> Seen {
    let mut simulation = Simulation::new(seed);
    simulation.move_to_disk();
    populate(&mut simulation);
    for _ in 0..simulation.rng.between(1, 4) {
        let ms = simulation.rng.below(25_000);
        simulation.later(ms, Event::Crash);
    }
    if simulation.rng.percent(40) {
        let (ms, peer) =
            (simulation.rng.below(20_000), simulation.rng.below(simulation.peers.len()));
        simulation.later(ms, Event::Again(peer));
    }
    pass(&mut simulation, Duration::from_secs(30));
    simulation.settle();
    if let Some(backing) = &mut simulation.backing {
        backing.rough = false;
    }
    finish(&mut simulation);
    simulation.seen
}

fn start(backing: &Backing, simulation: &Simulation, seed: u64) -> Server<LateEngine> {
    let engine = backing.disk.start_engine(&backing.options, seed, simulation.now);
    let settings = Settings { max_request: 10_000, max_clients: 1_000, max_memory: None };
    Server::new(settings, LateEngine::prompt(engine))
}

impl Simulation {
    fn move_to_disk(&mut self) {
        let sync = match self.rng.below(5) {
            0 => SyncMode::Every(Duration::from_millis(5)),
            1 => SyncMode::Never,
            _ => SyncMode::Always,
        };
        let disk = SimDisk::new(self.rng.seed());
        {
            let mut platter = disk.platter.lock().unwrap();
            platter.inline = sync != SyncMode::Always;
            platter.late_completions = self.rng.percent(50);
        }
        let segment_bytes = [4_096, 8_192, 65_536][self.rng.below(3)];
        let options = JournalOptions { segment_bytes, sync, salt: self.rng.seed() };
        // Constraints over a journal are the affair of `durable_sim`.
        self.constraint_model = ConstraintModel::default();
        let backing = Backing { disk, options, busy: false, rough: true };
        let seed = self.rng.seed();
        self.server = start(&backing, self, seed);
        self.backing = Some(backing);
    }

    /// Sees to it that the disk goes on.
    pub(super) fn watch_disk(&mut self) {
        let Some(backing) = &mut self.backing else { return };
        if !backing.busy && !backing.disk.is_idle() {
            backing.busy = true;
            let ms = *self.rng.pick(&[0, 0, 1, 1, 5, 40, 400]);
            self.later(ms, Event::Disk);
        }
        if self.server.failure().is_some() {
            self.note("the disk failed");
            self.crash();
        }
    }

    pub(super) fn work_of_disk(&mut self) {
        let count = self.rng.between(1, 4);
        let fails = self.rng.below(1_500);
        let Some(backing) = &mut self.backing else { return };
        backing.busy = false;
        if backing.rough {
            let mut platter = backing.disk.platter.lock().unwrap();
            platter.fail_write |= fails == 0;
            platter.fail_sync |= fails == 1;
        }
        backing.disk.work(count);
    }

    /// Every request is answered.
    fn settle(&mut self) {
        let end = self.now.mono.after(Duration::from_mins(1));
        while !self.clients.is_empty() {
            assert!(self.step(end), "a request without a reply: {:?}", self.clients);
        }
    }

    /// Asks as a client of its own.
    fn ask(&mut self, what: &str, worker: Option<u64>, body: &Value, asked: Asked) {
        let mut packed = Vec::new();
        if !body.is_null() {
            from_json(body.to_string().as_bytes(), &mut packed).unwrap();
        }
        let mut head =
            format!("{what} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n", packed.len());
        if let Some(worker) = worker {
            write!(head, "Worker-Id: {worker}\r\n").unwrap();
        }
        let client = self.server.handle_open(Protocol::Http, self.now).unwrap();
        seeds::say(|| format!("  {client:?} > {what} {body} {asked:?}"));
        self.clients.insert(client, asked);
        let request = [head.as_bytes(), b"\r\n", &packed].concat();
        self.server.handle_input(client, &request, self.now);
    }

    pub(super) fn push(&mut self) {
        let (queue, timeout) =
            (self.rng.word(&QUEUES), if self.prefill_target { 3 } else { 10_000 });
        let job = json!({"name": queue, "argument": [1, 2], "max_retry": RETRIES,
            "timeout": timeout});
        self.ask("POST /job", None, &job, Asked::Put);
    }

    pub(super) fn register(&mut self, peer: usize) {
        let known = &mut self.peers[peer];
        let again = known.id > 0;
        known.unknown.clear();
        let mut worker = json!({"name": "w", "url": format!("http://w{peer}"),
            "max_jobs": known.max_jobs});
        if !known.asked.is_empty() {
            worker["jobs"] = json!(known.asked);
        }
        if again {
            self.note("a worker registered again");
        }
        self.ask("POST /worker", None, &worker, Asked::Register(peer));
    }

    pub(super) fn send_away(&mut self, peer: usize) {
        let worker = self.peers[peer].id;
        self.peers[peer].dropped = true;
        self.ask("DELETE /worker", Some(worker), &Value::Null, Asked::Dismiss);
    }

    /// A worker reports; `before` is how its job was going.
    pub(super) fn tell(&mut self, worker: u64, id: u64, good: bool, before: Option<State>) {
        let holds = worker > 0 && before.is_some_and(|state| state.worker == Some(worker));
        let report = if good {
            json!({"job_id": id.to_string(), "type": "success", "result": 1})
        } else {
            json!({"job_id": id.to_string(), "type": "failure", "reason": "other",
                "should_retry": true, "message": "no"})
        };
        self.ask("POST /done", Some(worker), &report, Asked::Report { id, good, holds });
        self.count_report(id, good, holds);
    }

    /// Handles replies.
    pub(super) fn hear(&mut self, client: ClientId) {
        let output = self.server.output(client).to_vec();
        if output.is_empty() {
            return;
        }
        let asked = self.clients.remove(&client).unwrap();
        self.server.handle_sent(client, output.len(), self.now);
        self.server.handle_peer_closed(client, self.now);
        self.server.handle_eof(client, self.now);
        let end = output.windows(4).position(|four| four == b"\r\n\r\n").unwrap() + 4;
        let status: u16 = std::str::from_utf8(&output[9..12]).unwrap().parse().unwrap();
        let mut text = Vec::new();
        if end < output.len() {
            to_json(&output[end..], &mut text).unwrap();
        }
        let body: Value = serde_json::from_slice(&text).unwrap_or_default();
        seeds::say(|| format!("  {client:?} < {status} {body}"));
        let number = |field: &str| body[field].as_str().unwrap().parse::<u64>().unwrap();
        if matches!(status, 201 | 204) {
            self.keep_found();
        }
        match asked {
            Asked::Put => {
                assert_eq!(status, 201, "{body}");
                self.jobs.entry(number("job_id")).or_default();
            }
            Asked::Register(peer) => {
                assert_eq!(status, 201, "{body}");
                let known = &mut self.peers[peer];
                // It may hear of a later one first.
                (known.id, known.dropped) = (known.id.max(number("worker_id")), false);
                known.unacknowledged = false;
                // These were refused on behalf of the former registration.
                known.unknown.clear();
            }
            Asked::Dismiss if status == 404 => {}
            Asked::Dismiss => {
                assert_eq!(status, 204, "{body}");
                self.note("a worker was dismissed");
            }
            Asked::Report { id, good, holds } => {
                assert_eq!(status, if holds { 204 } else { 404 }, "{body}");
                let job = self.jobs.get_mut(&id).unwrap();
                job.told_successes += u32::from(holds && good);
                job.told_costs += u32::from(holds && !good);
            }
        }
    }

    /// A change is acknowledged, so everything before it is durable, what was found included.
    fn keep_found(&mut self) {
        for job in self.jobs.values_mut() {
            if std::mem::take(&mut job.found_success) {
                job.told_successes = 1;
            }
        }
    }

    /// The server dies, with the machine or alone, and comes back.
    pub(super) fn crash(&mut self) {
        self.note("a crash");
        let Some(mut backing) = self.backing.take() else { return };
        let mut left = Vec::new();
        for job in self.jobs.values_mut() {
            // Of what waits only the job is kept: its leases are counted anew.
            job.frozen = None;
        }
        for (&id, job) in &self.jobs {
            if let (Some((worker, lease)), Some(state)) = (job.sent, self.peek(id))
                && state.worker == Some(worker)
                && state.lease == lease
            {
                left.push((id, state));
            }
        }
        for (id, job) in &mut self.jobs {
            if left.iter().all(|(other, _)| other != id) {
                job.sent = None;
            }
        }
        let power = backing.options.sync == SyncMode::Always && self.rng.percent(50);
        let none = LateEngine::prompt(Engine::in_memory(0));
        let none = Server::new(Settings { max_request: 1, max_clients: 1, max_memory: None }, none);
        drop(std::mem::replace(&mut self.server, none));
        backing.disk.end(if power { End::PowerCut } else { End::Kill });
        backing.busy = false;
        self.lines.clear();
        let asked: Vec<Asked> = std::mem::take(&mut self.clients).into_values().collect();
        // What workers write is lost; they keep running.
        self.events.retain(|_, event| {
            !matches!(event, Event::Connect(..) | Event::Says(..) | Event::Disk)
        });
        let seed = self.rng.seed();
        self.server = start(&backing, self, seed);
        self.backing = Some(backing);
        for (id, state) in left {
            assert_eq!(self.peek(id), Some(state), "job {id} was sent to its worker");
            self.jobs.get_mut(&id).unwrap().frozen = Some(state.lease);
            self.note("a job outlived the server in its worker's hands");
        }
        self.find_workers();
        self.find_jobs(&asked);
        oracle(self);
    }

    /// A worker that was never told its number may have one.
    fn find_workers(&mut self) {
        let mut listed: Vec<(String, u64)> = Vec::new();
        let list = WorkerCommand::AwaitWorkers { from: WorkerId(0) };
        self.server.submit_for_test(&Command::Work(list), self.now, |reply| {
            let Reply::Workers(page) = reply else { panic!("{reply:?}") };
            listed.extend(page.iter().map(|known| (known.view().url.to_owned(), known.id.0)));
        });
        for (number, peer) in self.peers.iter_mut().enumerate() {
            let url = format!("http://w{number}");
            let mut found = listed.iter().filter(|(at, _)| *at == url).map(|&(_, id)| id);
            let now = found.next();
            assert_eq!(found.next(), None, "two workers at one address");
            let may_be_gone = peer.id == 0 || peer.dropped || peer.unacknowledged;
            assert!(now.is_some() || may_be_gone, "worker {} is lost", peer.id);
            peer.unacknowledged |= now.is_some_and(|now| now != peer.id);
            (peer.id, peer.dropped) = (now.unwrap_or(0), peer.dropped && now.is_none());
            peer.unknown.clear();
        }
    }

    fn find_jobs(&mut self, asked: &[Asked]) {
        for id in self.jobs.keys().copied().collect::<Vec<_>>() {
            let (state, prefill_target) = (self.peek(id), self.prefill_target);
            let job = self.jobs.get_mut(&id).unwrap();
            // That a worker refuses a job is known in one life of the server.
            job.refused_by.clear();
            let Some(state) = state else {
                if job.unacknowledged && job.successes == 0 {
                    self.jobs.remove(&id);
                    self.note("an unacknowledged put was lost in a later crash");
                    continue;
                }
                assert_eq!(job.successes, 1, "job {id} is lost");
                if job.told_successes == 0 {
                    job.found_success = true;
                    self.note("an unacknowledged success counts");
                }
                continue;
            };
            job.found_success = false;
            assert_eq!(job.told_successes, 0, "job {id} was done, and is {state:?}");
            let failed = state.status == "error";
            assert!(failed || job.told_costs <= RETRIES, "job {id} had failed, and is {state:?}");
            assert!(job.told_costs.min(RETRIES) <= state.retries, "job {id}: {job:?}, {state:?}");
            let costs = state.retries + u32::from(failed);
            assert!(prefill_target || costs <= job.costs, "job {id}: {job:?}, {state:?}");
            let lost = job.successes > 0 || costs < job.costs;
            let found = job.told_costs < costs.min(job.costs);
            (job.successes, job.failed, job.costs) = (0, failed, job.costs.min(costs));
            if lost {
                self.note("an unacknowledged change was lost");
            }
            if found {
                self.note("an unacknowledged failure counts");
            }
        }
        let puts = asked.iter().filter(|asked| matches!(asked, Asked::Put)).count() as u64;
        let last = self.jobs.keys().next_back().copied().unwrap_or(0);
        for id in last + 1..=last + puts {
            if self.peek(id).is_some() {
                self.jobs.entry(id).or_default().unacknowledged = true;
                self.note("an unacknowledged put counts");
            }
        }
    }
}
