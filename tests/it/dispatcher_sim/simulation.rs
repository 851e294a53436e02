//! The pure server, a driver for its outbound connections, and workers in memory, in virtual time.

use super::constraint_model::ConstraintModel;
use super::durable::{Asked, Backing};
use super::sim_worker::{Behaviour, Refusal, Said, SimWorker, read_request};
use crate::late_engine::LateEngine;
use crate::rng::TestRng;
use crate::seeds::{self, Seen};
use jobcentre::base::limits::CONNECT_TIMEOUT;
use jobcentre::base::strings::StringList;
use jobcentre::base::time::{Mono, Now, Wall};
use jobcentre::engine::Engine;
use jobcentre::model::command::Command;
use jobcentre::model::driver::{Action, ConnectError, Core, Incident};
use jobcentre::model::id::{ClientId, JobId};
use jobcentre::model::job::{Encoding, JobOptions, Payload, Priority, Retry, TieBreak};
use jobcentre::model::reply::Reply;
use jobcentre::model::worker::{RunOutcome, Worker, WorkerCommand, WorkerId, WorkerReply};
use jobcentre::server::{Server, Settings};
use std::collections::{BTreeMap, BTreeSet};

pub(super) const QUEUES: [&str; 3] = ["a", "b", "c"];
pub(super) const RETRIES: u32 = 3;

/// What is going to happen.
#[derive(Clone, Debug)]
pub(super) enum Event {
    Connect(ClientId, bool),
    /// A part of what a worker says, or its end.
    Says(ClientId, Said),
    /// A worker reports on a job.
    Reports {
        peer: usize,
        id: u64,
        good: bool,
    },
    Put,
    Dismiss(usize),
    /// A worker registers again.
    Again(usize),
    /// The disk does something.
    Disk,
    /// The server dies and is started again.
    Crash,
}

/// A connection, as the worker sees it.
pub(super) struct SimConnection {
    peer: usize,
    open: bool,
    received: Vec<u8>,
    requests: usize,
}

/// What is known of a job from outside.
#[derive(Debug, Default)]
pub(super) struct Job {
    pub(super) queue: &'static str,
    pub(super) successes: u32,
    /// Things that cost it a retry.
    pub(super) costs: u32,
    pub(super) refused_by: BTreeSet<u64>,
    pub(super) failed: bool,
    /// Of these, the acknowledged ones.
    pub(super) told_successes: u32,
    pub(super) told_costs: u32,
    /// A restart has found its success, which was not acknowledged: a crash may lose it as long as
    /// nothing is acknowledged after the restart.
    pub(super) found_success: bool,
    /// To which worker it was sent last, and under which lease.
    pub(super) sent: Option<(u64, u32)>,
    /// The lease of a run that is older than the server: it is not sent again.
    pub(super) frozen: Option<u32>,
    /// It was found after a restart, and its put was not acknowledged: the next crash may lose it.
    pub(super) unacknowledged: bool,
}

/// How a job is going, as the server tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct State {
    pub(super) status: &'static str,
    pub(super) retries: u32,
    pub(super) worker: Option<u64>,
    pub(super) lease: u32,
}

pub(super) struct Simulation {
    pub(super) rng: TestRng,
    pub(super) server: Server<LateEngine>,
    /// Whether the engine completes late.
    pub(super) late: bool,
    pub(super) now: Now,
    pub(super) peers: Vec<SimWorker>,
    pub(super) jobs: BTreeMap<u64, Job>,
    pub(super) seen: Seen,
    /// Whether runs may take longer than their leases.
    pub(super) prefill_target: bool,
    pub(super) constraint_model: ConstraintModel,
    /// What there is if the server keeps its jobs on a disk: then it is asked as by anybody.
    pub(super) backing: Option<Backing>,
    pub(super) clients: BTreeMap<ClientId, Asked>,
    pub(super) lines: BTreeMap<ClientId, SimConnection>,
    pub(super) events: BTreeMap<(Mono, u64), Event>,
    number: u64,
}

fn packed(bytes: &[u8]) -> Payload<'_> {
    Payload { encoding: Encoding::MsgPack, bytes }
}

const SETTINGS: Settings = Settings { max_request: 10_000, max_clients: 5, max_memory: None };

impl Simulation {
    pub(super) fn new(seed: u64) -> Self {
        let mut rng = TestRng::new(seed);
        Self {
            server: Server::new(SETTINGS, LateEngine::prompt(Engine::in_memory(rng.seed()))),
            late: false,
            now: Now { mono: Mono(1_000), wall: Wall(1_700_000_000_000) },
            peers: Vec::new(),
            jobs: BTreeMap::new(),
            seen: Seen::new(),
            prefill_target: rng.percent(40),
            constraint_model: ConstraintModel::draw(&mut rng),
            backing: None,
            clients: BTreeMap::new(),
            lines: BTreeMap::new(),
            events: BTreeMap::new(),
            number: 0,
            rng,
        }
    }

    /// From the start on, the engine completes late and out of order.
    pub(super) fn complete_late(&mut self) {
        let engine = Engine::in_memory(self.rng.seed());
        self.server = Server::new(SETTINGS, LateEngine::late(engine, self.rng.seed()));
        self.late = true;
    }

    pub(super) fn note(&mut self, what: &'static str) {
        *self.seen.entry(what).or_default() += 1;
    }

    /// Schedules an event in this many milliseconds.
    pub(super) fn later(&mut self, ms: usize, event: Event) {
        self.number += 1;
        let at = Mono(self.now.mono.0 + ms as u64 * 1_000_000);
        self.events.insert((at, self.number), event);
    }

    pub(super) fn work<T>(
        &mut self,
        work: WorkerCommand<'_>,
        read: impl Fn(&Reply<'_>) -> Option<T>,
    ) -> Option<T> {
        let mut answer = None;
        let mut replies = 0;
        self.server.submit_for_test(&Command::Work(work), self.now, |reply| {
            replies += 1;
            answer = read(reply);
        });
        assert_eq!(replies, 1, "one answer for each question");
        answer
    }

    /// A worker comes.
    pub(super) fn add_worker(&mut self, behaviour: Behaviour) {
        let url = format!("http://w{}", self.peers.len());
        let max_jobs = self.rng.between(1, 4);
        let (mut names, mut asked) = (StringList::default(), Vec::new());
        if behaviour != Behaviour::Good && self.rng.percent(50) {
            for name in QUEUES {
                if self.rng.percent(60) {
                    names.push(name.as_bytes());
                    asked.push(name.to_owned());
                }
            }
        }
        if self.backing.is_some() {
            self.peers.push(SimWorker::new(0, behaviour, max_jobs, asked));
            return self.register(self.peers.len() - 1);
        }
        let queues = (!names.is_empty()).then_some(&names);
        let places = u32::try_from(max_jobs).unwrap();
        let worker = Worker { name: "w", url: &url, max_jobs: places, queues };
        let id = self.work(WorkerCommand::Register(worker), |reply| match reply {
            Reply::Registered(id) => Some(id.0),
            other => panic!("{other:?}"),
        });
        self.peers.push(SimWorker::new(id.unwrap(), behaviour, max_jobs, asked));
    }

    pub(super) fn put(&mut self) {
        if self.backing.is_some() {
            return self.push();
        }
        let retry = Retry {
            limit: RETRIES,
            first_ms: 1_000,
            factor: 2,
            max_ms: 60_000,
            jitter_percent: 10,
        };
        let lease_ms = if self.prefill_target { 3_000 } else { 10_000_000 };
        let options = JobOptions {
            lease_ms,
            retry: Some(retry),
            dead_retention_ms: 100_000_000,
            tracked: true,
            result_once: true,
            ..JobOptions::default()
        };
        let name = *self.rng.pick(&QUEUES);
        let queue = name.as_bytes();
        let (priority, tie_break) = (Priority::Small(0), TieBreak::Fifo);
        let (payload, options) = (packed(b"\x92\x01\x02"), Some(&options));
        let put = Command::Put { queue, priority, tie_break, payload, options };
        let mut id = None;
        self.server.submit_for_test(&put, self.now, |reply| match reply {
            Reply::Put(JobId(put)) => id = Some(*put),
            other => panic!("{other:?}"),
        });
        self.jobs.insert(id.unwrap(), Job { queue: name, ..Job::default() });
    }

    /// `None`: it has ended without a trace.
    pub(super) fn state(&mut self, id: u64) -> Option<State> {
        // What is due ends first; the answer may have to wait for the disk.
        let follow = Command::Work(WorkerCommand::GetStatus { id: JobId(id) });
        self.server.submit_for_test(&follow, self.now, |_| {});
        self.peek(id)
    }

    /// The same, and nothing happens.
    pub(super) fn peek(&self, id: u64) -> Option<State> {
        self.server.engine_for_test().inner().peek(JobId(id)).map(|progress| State {
            status: progress.status(),
            retries: progress.info.retries,
            worker: progress.worker.map(|worker| worker.0),
            lease: progress.info.job.lease.0,
        })
    }

    /// The next thing happens. Whether there is one before `end`.
    pub(super) fn step(&mut self, end: Mono) -> bool {
        let timeout = self.server.poll_timeout(self.now);
        let event = self.events.keys().next().map(|&(at, _)| at);
        let Some(at) = [timeout, event].into_iter().flatten().min().filter(|&at| at <= end) else {
            return false;
        };
        if at > self.now.mono {
            self.now.wall.0 += (at.0 - self.now.mono.0) / 1_000_000;
            self.now.mono = at;
        }
        while let Some(entry) = self.events.first_entry()
            && entry.key().0 <= self.now.mono
        {
            let event = entry.remove();
            self.apply_event(event);
        }
        self.server.finish_pass(self.now);
        self.write();
        self.act();
        self.server.check_invariants();
        self.watch_disk();
        true
    }

    fn apply_event(&mut self, event: Event) {
        seeds::say(|| format!("{} us: {event:?}", self.now.mono.0 / 1_000));
        match event {
            Event::Put => self.put(),
            Event::Dismiss(peer) => self.deregister(peer),
            Event::Again(peer) => self.register(peer),
            Event::Disk => self.work_of_disk(),
            Event::Crash => self.crash(),
            Event::Reports { peer, id, good } => self.report(peer, id, good),
            Event::Connect(line, works) => {
                if !works && self.lines.remove(&line).is_some() {
                    let why = if line.generation.is_multiple_of(4) {
                        self.note("there was no room for a call");
                        ConnectError::NoRoom("no file descriptor".into())
                    } else {
                        self.note("a worker could not be reached");
                        ConnectError::Unreachable("no listener".into())
                    };
                    self.server.handle_connect_failed(line, &why, self.now);
                } else if let Some(state) = self.lines.get_mut(&line) {
                    state.open = true;
                    self.server.handle_connected(line, self.now);
                }
            }
            Event::Says(line, said) => self.say(line, said),
        }
    }

    fn say(&mut self, line: ClientId, said: Said) {
        let Some(state) = self.lines.get(&line) else {
            return self.note("a worker wrote to a closed connection");
        };
        match said {
            Said::Bytes(bytes, refuses) => {
                if !self.server.wants_input(line) {
                    // It was hung up on at the same moment.
                    return self.note("a worker wrote to a closed connection");
                }
                let (peer, ends_it) = (state.peer, refuses.is_some());
                if let Some(refusal) = refuses {
                    self.refuse(peer, refusal);
                }
                self.server.handle_input(line, &bytes, self.now);
                if ends_it {
                    // Before anything else happens to the job at the same moment.
                    self.server.finish_pass(self.now);
                }
            }
            Said::End => {
                self.server.handle_peer_closed(line, self.now);
                self.server.handle_eof(line, self.now);
            }
            Said::Reset => {
                self.lines.remove(&line);
                self.server.handle_reset(line, self.now);
            }
        }
    }

    /// A refusal is whole: it costs a try if the worker still has the job.
    fn refuse(&mut self, peer: usize, refusal: Refusal) {
        let Refusal { id, lease, unknown } = refusal;
        let worker = self.peers[peer].id;
        if let Some(name) = unknown {
            self.note("a name was unknown");
            self.peers[peer].unknown.insert(name, self.now.mono);
        }
        let meant = |state: State| state.worker == Some(worker) && state.lease == lease;
        if self.state(id).is_some_and(meant) {
            self.note("a job was refused");
            let job = self.jobs.get_mut(&id).unwrap();
            job.costs += 1;
            job.refused_by.insert(worker);
        }
    }

    fn deregister(&mut self, peer: usize) {
        if self.backing.is_some() {
            return self.send_away(peer);
        }
        let worker = WorkerId(self.peers[peer].id);
        let gone = self.work(WorkerCommand::Deregister { worker }, |reply| {
            Some(*reply == Reply::Worker(WorkerReply::Done))
        });
        if gone == Some(true) {
            self.note("a worker was dismissed");
        }
    }

    fn report(&mut self, peer: usize, id: u64, good: bool) {
        let worker = self.peers[peer].id;
        let before = self.state(id);
        if self.backing.is_some() {
            return self.tell(worker, id, good, before);
        }
        let report = if good {
            RunOutcome::Success { result: packed(b"\x01") }
        } else {
            RunOutcome::Failure { retry: true, error: packed(b"\xc0"), message: "no" }
        };
        let work = WorkerCommand::Report { worker: WorkerId(worker), id: JobId(id), report };
        let taken = self.work(work, |reply| match reply {
            Reply::Done => Some(true),
            Reply::NoJob | Reply::Worker(WorkerReply::NoWorker) => Some(false),
            other => panic!("{other:?}"),
        });
        let holds = before.is_some_and(|state| state.worker == Some(worker));
        assert_eq!(taken, Some(holds), "{before:?}");
        self.count_report(id, good, holds);
    }

    pub(super) fn count_report(&mut self, id: u64, good: bool, holds: bool) {
        if !holds {
            return self.note("a report came too late, or twice");
        }
        let job = self.jobs.get_mut(&id).unwrap();
        if good {
            job.successes += 1;
        } else {
            job.costs += 1;
        }
        self.note(if good { "a success" } else { "a failure" });
    }

    fn write(&mut self) {
        while let Some(line) = self.server.poll_touched() {
            if self.clients.contains_key(&line) {
                self.hear(line);
                continue;
            }
            let Some(state) = self.lines.get_mut(&line) else { continue };
            if !state.open {
                continue;
            }
            let output = self.server.output(line).to_vec();
            if output.is_empty() {
                continue;
            }
            state.received.extend_from_slice(&output);
            self.server.handle_sent(line, output.len(), self.now);
            self.listen(line);
        }
    }

    /// A worker looks at what it has got.
    fn listen(&mut self, line: ClientId) {
        let Some(state) = self.lines.get_mut(&line) else { return };
        let Some((id, name)) = read_request(&mut state.received) else { return };
        state.requests += 1;
        let (peer, requests) = (state.peer, state.requests);
        if requests > 1 {
            self.note("a connection was used again");
        }
        let worker = self.peers[peer].id;
        seeds::say(|| format!("  line {line:?} brings job {id} to peer {peer}"));
        let now = self.state(id);
        let holds = now.is_some_and(|state| state.worker == Some(worker));
        // A reservation may end after the job was looked up and before that is known.
        assert!(holds || self.late, "job {id} is sent to {worker}, not its holder: {now:?}");
        if !holds {
            self.note("a job was sent after its reservation had ended");
        }
        let lease = now.map_or(0, |state| state.lease);
        seeds::say(|| format!("  job {id} is sent to {worker} under lease {lease}"));
        // Its put may not have been acknowledged.
        let job = self.jobs.entry(id).or_default();
        assert_ne!(job.frozen, Some(lease), "job {id} is sent again for the same run");
        // What is sent is durable.
        (job.sent, job.unacknowledged) = (Some((worker, lease)), false);
        assert!(!job.refused_by.contains(&worker), "job {id} is offered again to {worker}");
        let asked = &self.peers[peer].asked;
        assert!(asked.is_empty() || asked.contains(&name), "{name} was not asked for");
        // A call that was begun before may come about only now.
        let since = self.peers[peer].unknown.get(&name).map(|at| at.after(CONNECT_TIMEOUT));
        assert!(since.is_none_or(|at| self.now.mono <= at), "{name} is known to be unknown");
        let script =
            self.peers[peer].answer((id, lease), &name, &mut self.rng, self.prefill_target);
        for what in script.seen {
            self.note(what);
        }
        for (ms, said) in script.says {
            self.later(ms, Event::Says(line, said));
        }
        for (ms, good) in script.reports {
            self.later(ms, Event::Reports { peer, id, good });
        }
    }

    fn act(&mut self) {
        while let Some(notice) = self.server.poll_notice() {
            let Incident::WorkerDropped(worker) = notice.incident else { panic!("{notice:?}") };
            self.note("a worker was dropped");
            let peer = self.peers.iter_mut().find(|peer| peer.id == worker.0).unwrap();
            assert!(peer.behaviour != Behaviour::Good, "a good worker was dropped");
            peer.dropped = true;
        }
        while let Some(action) = self.server.poll_action() {
            match action {
                Action::Connect(line, target) => {
                    let peer = target.host[1..].parse().unwrap();
                    let state =
                        SimConnection { peer, open: false, received: Vec::new(), requests: 0 };
                    assert!(self.lines.insert(line, state).is_none());
                    let behaviour = self.peers[peer].behaviour;
                    let works = behaviour == Behaviour::Good || self.rng.percent(behaviour.reach());
                    if !works && self.rng.percent(30) {
                        self.note("a connection took for ever");
                        continue;
                    }
                    let ms = self.rng.below(20);
                    self.later(ms, Event::Connect(line, works));
                }
                Action::Close(line) => {
                    self.lines.remove(&line);
                }
                Action::ShutdownWrite(_) => panic!("a half-closed call"),
                Action::Reload => panic!("no client asks for a reload"),
            }
        }
    }

    /// How many connections the workers have.
    pub(super) fn lines(&self) -> usize {
        self.lines.len()
    }
}
