//! Three servers over a cluster of six nodes, while processes of both kinds are killed, stand still
//! and come back, and the slot of the jobs moves.
//!
//! `KILLS_SECONDS` is how long (60). Clients of all servers put, take and delete jobs; what they
//! were answered is in a ledger, which every later answer has to agree with.
//!
//! Answers wait for a replica (`--engine-wait 1`), and a node that was killed stays away until its
//! replica has taken its place: one that is back sooner makes that replica what its own file has.

use super::cluster::Cluster;
use super::leaders::value_of;
use crate::support::{Client, NO_JOB, Server, delete, get, number, put, until};
use jobcentre::base::rng::Rng;
use std::collections::BTreeMap;
use std::io::Write as _;
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant, SystemTime};

/// Clients of each kind for each server.
const CLIENTS: usize = 2;

/// Jobs that may be there before clients put fewer.
const BACKLOG_MAX: i64 = 3_000;

/// What is known of a job from what clients were answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    /// Its put was sent.
    PerhapsPut,
    /// Its put was refused.
    Refused,
    Put,
    /// Its delete was sent.
    PerhapsDeleted,
    /// Its delete was answered, after this time in milliseconds.
    Deleted(u32),
}

/// All jobs, by the numbers in them.
struct Ledger {
    since: Instant,
    jobs: Mutex<Vec<Known>>,
    /// What was done to processes, each with its times.
    history: Mutex<Vec<String>>,
}

#[expect(clippy::cast_possible_truncation, reason = "numbers of jobs are places in memory")]
impl Ledger {
    fn new() -> Self {
        Self { since: Instant::now(), jobs: Mutex::default(), history: Mutex::default() }
    }

    fn jobs(&self) -> MutexGuard<'_, Vec<Known>> {
        self.jobs.lock().unwrap()
    }

    /// Milliseconds since its begin.
    fn now(&self) -> u32 {
        self.since.elapsed().as_millis() as u32
    }

    /// A job that was never put before.
    fn next(&self) -> u64 {
        let mut jobs = self.jobs();
        jobs.push(Known::PerhapsPut);
        jobs.len() as u64 - 1
    }

    fn set(&self, job: u64, known: Known) {
        self.jobs()[job as usize] = known;
    }

    /// Its put was answered, perhaps after it was taken.
    fn note_put(&self, job: u64, answer: &str) {
        let state = &mut self.jobs()[job as usize];
        let is_put = answer.contains(r#""status":"ok""#);
        if answer.contains("is not known") {
            return;
        }
        match (*state, is_put) {
            (Known::PerhapsPut, true) => *state = Known::Put,
            (Known::PerhapsPut, false) => *state = Known::Refused,
            (_, true) => {}
            (known, false) => panic!("job {job} is {known:?}, and its put: {answer}"),
        }
    }

    /// It was in an answer to a get that was sent at this time. False: another client has deleted
    /// it since, as one may whose server got the job back while the answer was on its way.
    fn note_taken(&self, job: u64, sent_at: u32) -> bool {
        let state = &mut self.jobs()[job as usize];
        match *state {
            Known::Deleted(at) if at >= sent_at => return false,
            Known::Deleted(_) | Known::Refused => panic!(
                "job {job} was {state:?}, and came in an answer to a get of {sent_at} at {} ms: \
                 {:#?}",
                self.now(),
                self.history.lock().unwrap().iter().rev().take(12).collect::<Vec<_>>()
            ),
            _ => *state = Known::Put,
        }
        true
    }
}

/// What clients share.
struct World {
    addresses: Mutex<Vec<SocketAddr>>,
    ledger: Ledger,
    answers: AtomicU64,
    /// Answered puts without answered deletes.
    backlog: Mutex<i64>,
    stop: AtomicBool,
}

impl World {
    fn is_over(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// A connection to a server, which may wait to lead. `None`: it is not there.
    fn connect(&self, server: usize) -> Option<Client> {
        let address = self.addresses.lock().unwrap()[server];
        TcpStream::connect_timeout(&address, Duration::from_secs(5)).ok().map(Client::new)
    }

    /// The answer; `None`: the connection has ended before.
    fn ask(&self, client: &mut Client, line: &str) -> Option<String> {
        client.stream().write_all(format!("{line}\n").as_bytes()).ok()?;
        let answer = String::from_utf8(client.try_receive()?).unwrap();
        self.answers.fetch_add(1, Ordering::Relaxed);
        Some(answer)
    }

    /// Puts jobs until the connection ends.
    fn put_jobs(&self, client: &mut Client) -> Option<()> {
        while !self.is_over() {
            if *self.backlog.lock().unwrap() > BACKLOG_MAX {
                thread::sleep(Duration::from_millis(20));
                continue;
            }
            let job = self.ledger.next();
            let answer = self.ask(client, &put("q", job % 3, &format!("{{\"n\":{job}}}")))?;
            self.ledger.note_put(job, &answer);
            *self.backlog.lock().unwrap() += 1;
            thread::sleep(Duration::from_millis(1));
        }
        Some(())
    }

    /// Takes jobs and deletes most of them until the connection ends. One in 64 it only takes, and
    /// leaves with it.
    fn take_jobs(&self, client: &mut Client, rng: &mut Rng) -> Option<()> {
        while !self.is_over() {
            let sent_at = self.ledger.now();
            let answer = self.ask(client, &get("q"))?;
            if answer == NO_JOB {
                // What was deleted without an answer was counted.
                *self.backlog.lock().unwrap() = 0;
            }
            if !answer.contains(r#""status":"ok""#) {
                thread::sleep(Duration::from_millis(20));
                continue;
            }
            let (job, id) = (value_of(&answer), number(&answer, "id"));
            if !self.ledger.note_taken(job, sent_at) || rng.one_in(64) {
                return None;
            }
            self.ledger.set(job, Known::PerhapsDeleted);
            let answer = self.ask(client, &delete(id))?;
            if answer == r#"{"status":"ok"}"# {
                self.ledger.set(job, Known::Deleted(self.ledger.now()));
                *self.backlog.lock().unwrap() -= 1;
            } else {
                assert!(answer.contains(r#""status":"error""#), "job {job}, id {id}: {answer}");
            }
        }
        Some(())
    }

    fn client(&self, number: usize) {
        let (server, mut rng) = (number % 3, Rng::new(number as u64));
        while !self.is_over() {
            let Some(mut client) = self.connect(server) else {
                thread::sleep(Duration::from_millis(50));
                continue;
            };
            let _ended = match number / 3 % 2 {
                0 => self.put_jobs(&mut client),
                _ => self.take_jobs(&mut client, &mut rng),
            };
        }
    }
}

fn start(url: &str, name: usize) -> Server {
    let name = format!("s{name}");
    let flags = ["--engine", url, "--server-name", &name, "--engine-lease", "1s"];
    let waits = ["--engine-wait", "1", "--engine-patience", "30s"];
    Server::start(&[&flags[..], &waits].concat())
}

/// The processes.
struct Processes {
    cluster: Cluster,
    servers: Vec<Server>,
    /// What servers have logged that have ended.
    logs: Vec<String>,
}

/// Does one thing to a process, and undoes it. Returns what it was.
fn strike(world: &World, processes: &mut Processes, rng: &mut Rng) -> &'static str {
    let Processes { cluster, servers, logs } = processes;
    let server = usize::try_from(rng.below(3)).unwrap();
    let pause = Duration::from_millis(200 + rng.below(2_500));
    match rng.below(8) {
        0..4 => {
            let is_orderly = rng.below(4) == 0;
            servers[server].signal(if is_orderly { "TERM" } else { "KILL" });
            servers[server].wait();
            logs.extend(servers[server].log_lines());
            servers[server] = start(&cluster.url(), server);
            world.addresses.lock().unwrap()[server] = servers[server].address;
            if is_orderly { "a server ended" } else { "a server was killed" }
        }
        4 => {
            servers[server].signal("STOP");
            thread::sleep(pause);
            servers[server].signal("CONT");
            "a server stood still"
        }
        5 => {
            cluster.wait_for_replicas();
            cluster.move_slot();
            "the slot moved"
        }
        kind => {
            cluster.wait_for_replicas();
            let any = usize::try_from(rng.below(6)).unwrap();
            let place = if rng.below(2) == 0 { cluster.owner() } else { any };
            let node = &mut cluster.0[place];
            if kind == 6 {
                let is_primary = node.is_primary();
                node.kill();
                if is_primary {
                    cluster.wait_for_primaries();
                }
                thread::sleep(pause);
                cluster.0[place].restart();
                "a node was killed"
            } else {
                node.signal("STOP");
                thread::sleep(pause);
                node.signal("CONT");
                "a node stood still"
            }
        }
    }
}

/// Takes all jobs that are there, and compares them with the ledger.
fn settle(world: &World, mut client: Client) {
    let mut jobs = world.ledger.jobs().clone();
    loop {
        let answer = client.ask(&get("q"));
        if answer == NO_JOB {
            break;
        }
        let job = usize::try_from(value_of(&answer)).unwrap();
        let is_open = matches!(jobs[job], Known::Put | Known::PerhapsPut | Known::PerhapsDeleted);
        assert!(is_open, "job {job} was {:?}, or it is there twice", jobs[job]);
        jobs[job] = Known::Deleted(0);
    }
    let lost: Vec<_> = (0..jobs.len()).filter(|&job| jobs[job] == Known::Put).collect();
    assert!(lost.is_empty(), "put, answered, and lost: {lost:?}");
}

#[test]
#[ignore = "slow: run by .ci/run"]
fn nothing_answered_is_lost_in_minutes_of_kills() {
    let Some(cluster) = Cluster::start(true) else { return };
    let seconds = std::env::var("KILLS_SECONDS").map_or(60, |text| text.parse().unwrap());
    let seed = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
    let mut rng = Rng::new(seed);
    let servers: Vec<_> = (0..3).map(|name| start(&cluster.url(), name)).collect();
    let world = World {
        addresses: Mutex::new(servers.iter().map(|server| server.address).collect()),
        ledger: Ledger::new(),
        answers: AtomicU64::new(0),
        backlog: Mutex::new(0),
        stop: AtomicBool::new(false),
    };
    let mut processes = Processes { cluster, servers, logs: Vec::new() };
    let mut done = BTreeMap::<_, u32>::new();
    thread::scope(|scope| {
        let clients: Vec<_> = (0..6 * CLIENTS)
            .map(|number| {
                scope.spawn({
                    let world = &world;
                    move || world.client(number)
                })
            })
            .collect();
        let end = Instant::now() + Duration::from_secs(seconds);
        while Instant::now() < end && !clients.iter().any(ScopedJoinHandle::is_finished) {
            thread::sleep(Duration::from_millis(500 + rng.below(2_500)));
            let begin = world.ledger.now();
            let what = strike(&world, &mut processes, &mut rng);
            *done.entry(what).or_default() += 1;
            let line = format!("{begin} to {} ms: {what}", world.ledger.now());
            let history = world.ledger.history.lock();
            history.unwrap_or_else(PoisonError::into_inner).push(line);
            let before = world.answers.load(Ordering::Relaxed);
            until("answers after it", || world.answers.load(Ordering::Relaxed) > before + 20);
        }
        world.stop.store(true, Ordering::Relaxed);
        if clients.iter().any(ScopedJoinHandle::is_finished) {
            let logs = processes.servers.iter().flat_map(Server::log_lines);
            let logs = processes.logs.iter().cloned().chain(logs);
            logs.filter(|line| !line.contains("INFO")).for_each(|line| println!("{line}"));
        }
        for client in clients {
            client.join().unwrap();
        }
    });
    settle(&world, processes.servers[0].connect());
    let (answers, jobs) = (world.answers.into_inner(), world.ledger.jobs().len());
    println!("seed {seed}, {seconds} s, {jobs} jobs, {answers} answers: {done:?}");
}
