//! kill -9 at random moments under load; then everything is compared with the replies.
//!
//! A put that was answered is there exactly once with the right bytes, unless a client asked for
//! its deletion; a delete or pop that was answered is final; a request that was not answered was
//! executed or not; job ids are unique. Rounds follow each other on one directory, so that it ages.
//! `CRASH_SEED=n` repeats the random choices, but not the timing of the system.

mod bodies;
mod clients;
mod content;
mod job_log;

use crate::rng::TestRng;
use crate::support::{Program, Server, TempDir, plain_command, until};
use bodies::Bodies;
use clients::{Common, Lines, Packets};
use job_log::JobLog;
use std::net::SocketAddr;
use std::process::Stdio;
use std::thread;
use std::time::Duration;

const ROUNDS: usize = 3;
const MANY_ROUNDS: usize = 60;

/// Clients of each protocol.
const LINES: usize = 4;
const PACKETS: usize = 2;
const BODIES: usize = 2;

#[test]
fn few_kills_lose_no_acknowledged_change() {
    crash(ROUNDS);
}

#[test]
#[ignore = "slow: run by .ci/run"]
fn many_kills_lose_no_acknowledged_change() {
    crash(MANY_ROUNDS);
}

pub(super) fn seed() -> u64 {
    std::env::var("CRASH_SEED").map_or_else(
        |_| std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), 0),
        |text| text.parse().unwrap(),
    )
}

fn crash(rounds: usize) {
    let seed = seed();
    eprintln!("CRASH_SEED={seed}");
    let dir = TempDir::new();
    let (mut rng, mut job_log, common) = (TestRng::new(seed), JobLog::default(), Common::default());
    for round in 0..rounds {
        let mode = rng.word(&["always", "always", "10ms", "never"]);
        let mut server = start(&dir, mode);
        let addresses = ["pinpriq", "beanstalkd"].map(|name| server.address_of(name));
        let protocols = (server.address, addresses);
        // Some rounds end before anything is answered.
        let is_patient = round + 1 == rounds || rng.percent(80);
        load(protocols, &mut rng, &mut job_log, &common, |rng| {
            thread::sleep(Duration::from_millis(rng.between(5, 400) as u64));
            if is_patient {
                until("answers to the clients", || common.is_enough(round + 1));
            }
            if rng.percent(20) {
                server.signal("TERM");
                assert_eq!(server.wait().code(), Some(0), "round {round}");
            }
            drop(server);
        });
        if rng.percent(30) {
            kill_at_start(&dir, &mut rng);
        }
        let server = start(&dir, mode);
        let there = clients::look(&server);
        job_log.oracle(&there, &format!("round {round}, --fsync {mode}, CRASH_SEED={seed}"));
    }
    eprintln!("{}", job_log.summary());
    assert!(common.is_enough(rounds));
    let check = Program::output(&["journal", "check", dir.text()], &[]);
    let text = String::from_utf8(check.stdout).unwrap();
    assert_eq!(check.status.code(), Some(0), "{text}");
    assert!(text.contains(&format!("jobs       {}\n", job_log.there())), "{text}");
}

fn start(dir: &TempDir, mode: &str) -> Server {
    let listeners = ["--pinpriq", ":0", "--beanstalkd", ":0"];
    Server::start(&[&listeners[..], &["--data", dir.text(), "--fsync", mode]].concat())
}

/// Runs clients of all protocols until `end` has ended the server, and records what was
/// acknowledged.
fn load(
    (lines, [packets, bodies]): (SocketAddr, [SocketAddr; 2]),
    rng: &mut TestRng,
    job_log: &mut JobLog,
    common: &Common,
    end: impl FnOnce(&mut TestRng),
) {
    let known = job_log.some_known(rng);
    thread::scope(|scope| {
        let mut running = Vec::new();
        for number in 0..LINES {
            let rng = TestRng::new(rng.seed());
            let share = known.iter().copied().skip(number).step_by(LINES).collect();
            let client = Lines::new(lines, rng, common, share);
            running.push(scope.spawn(|| client.run()));
        }
        for _ in 0..PACKETS {
            let client = Packets::new(packets, TestRng::new(rng.seed()), common);
            running.push(scope.spawn(|| client.run()));
        }
        for _ in 0..BODIES {
            let client = Bodies::new(bodies, TestRng::new(rng.seed()), common);
            running.push(scope.spawn(|| client.run()));
        }
        end(rng);
        // Deletions may have been acknowledged to another client than the one that put the job.
        for client in running {
            job_log.record(client.join().unwrap());
        }
    });
}

/// Starts a server and kills it before or soon after it serves.
fn kill_at_start(dir: &TempDir, rng: &mut TestRng) {
    let mut command = plain_command(Program::PATH);
    command.args(["serve", "--listen", ":0", "--data", dir.text()]);
    let mut child = command.stdin(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    thread::sleep(Duration::from_millis(rng.between(0, 100) as u64));
    child.kill().unwrap();
    child.wait().unwrap();
}
