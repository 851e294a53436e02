//! The comparison servers of the benches play the transcripts, too, so that equal services are
//! compared. Transcripts that need the server's own settings or its clock are left out.
//!
//! Tasks of one server may run on several threads, so a probe cannot tell whether the others are
//! done. But the system can: the threads of a server have its name, and once all of them are
//! blocked, and none has run between two checks, nothing is left to be done.

#[expect(dead_code, reason = "the echo plays no transcript: it is not started here")]
#[path = "../../../benches/servers/variants/mod.rs"]
mod servers;

use super::parse::Transcript;
use super::real::{Host, Real};
use super::{Mode, parse, play, play_all};
use crate::support::{Client, NO_JOB, get, until};
use jobcentre::base::limits::OUTPUT_HIGH_WATER_BYTES;
use jobcentre::base::time::Now;
use jobcentre::model::driver::{Action, Core, Protocol};
use jobcentre::server::Settings;
use servers::echo::Echo;
use servers::{Running, Variant, start_if_possible};
use std::collections::BTreeSet;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A comparison server while it runs.
struct Served {
    variant: Variant,
    running: Option<Running>,
    /// Its threads as far as they are known. The system's list of threads may leave some out while
    /// others end, so what was seen once is kept.
    threads: BTreeSet<String>,
    _alone: MutexGuard<'static, ()>,
}

impl Served {
    /// Starts one of its kind at a time, or none where the system cannot run it.
    fn start(variant: Variant, max_request: usize) -> Option<Self> {
        static ALONE: [Mutex<()>; 5] = [const { Mutex::new(()) }; 5];
        let alone = ALONE[variant as usize].lock().unwrap_or_else(PoisonError::into_inner);
        let listen = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let running = Some(start_if_possible(variant, listen, max_request).unwrap()?);
        Some(Self { variant, running, threads: BTreeSet::new(), _alone: alone })
    }

    fn connect(&self) -> Client {
        Client::connect(self.address(parse::DEFAULT_PROTOCOL))
    }

    /// Adds the threads that the system lists now. They bear the server's name from their birth.
    fn look_for_threads(&mut self) {
        for task in fs::read_dir("/proc/self/task").unwrap() {
            let task = task.unwrap();
            // A thread of another test may end at any moment.
            let Ok(name) = fs::read_to_string(task.path().join("comm")) else { continue };
            if name.trim_end() == self.variant.name() {
                self.threads.insert(task.file_name().into_string().unwrap());
            }
        }
    }

    /// How often each thread has run, if all of them sleep.
    fn sleepers(&self) -> Option<Vec<String>> {
        let mut facts = Vec::new();
        for thread in &self.threads {
            let status = fs::read_to_string(format!("/proc/self/task/{thread}/status")).ok()?;
            let fact = |name: &str| status.lines().find_map(|line| line.strip_prefix(name));
            if !fact("State:").unwrap().trim_start().starts_with('S') {
                return None;
            }
            facts.push(fact("voluntary_ctxt_switches:").unwrap().to_owned());
            facts.push(fact("nonvoluntary_ctxt_switches:").unwrap().to_owned());
        }
        (!facts.is_empty()).then_some(facts)
    }
}

impl Host for Served {
    fn address(&self, protocol: &str) -> SocketAddr {
        assert_eq!(protocol, parse::DEFAULT_PROTOCOL, "the comparison servers have one protocol");
        self.running.as_ref().unwrap().address
    }

    fn settle(&mut self, _sent: usize) {
        let what = format!("{} has nothing to do", self.variant.name());
        until(&what, || {
            self.look_for_threads();
            self.look_for_threads();
            let first = self.sleepers();
            first.is_some() && first == self.sleepers()
        });
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        if let Some(running) = self.running.take() {
            running.stop().unwrap();
        }
    }
}

fn play_on(variant: Variant, transcript: &Transcript, mode: Mode) -> Result<(), String> {
    let Some(served) = Served::start(variant, transcript.settings.max_request) else {
        return Ok(());
    };
    play(transcript, mode, &mut Real::new(served))
}

fn play_against(variant: Variant) {
    let usual = parse::parse("").unwrap().settings;
    play_all(
        |transcript| {
            let settings = transcript.settings;
            let usual = Settings { max_request: settings.max_request, ..usual };
            transcript.protocols.is_empty() && settings == usual && !transcript.pure
        },
        &[Mode::Steps, Mode::Pipelined],
        |transcript, mode| play_on(variant, transcript, mode),
    );
}

#[test]
fn every_transcript_passes_on_tokio_current() {
    play_against(Variant::TokioCurrent);
}

#[test]
fn every_transcript_passes_on_tokio_mutex() {
    play_against(Variant::TokioMutex);
}

#[test]
fn every_transcript_passes_on_tokio_actor() {
    play_against(Variant::TokioActor);
}

#[test]
fn every_transcript_passes_on_uring() {
    play_against(Variant::Uring);
}

/// The one rule that the variant on `io_uring` does not keep: see `benches/servers/README.md`.
#[test]
fn disconnected_waiter_with_pipelined_requests_reserves_no_job() {
    let transcript = r#"
A> {"request":"get","queues":["q"],"wait":true}
A>> "{\"request\":\"get\",\"queues\":[\"none\"]}\n" * 5000
A| close
# In one piece, so that the job could not come back in between.
B> {"request":"put","queue":"q","job":{},"pri":1}
B> {"request":"get","queues":["q"]}
B< {"status":"ok","id":1}
B< {"status":"ok","id":1,"job":{},"pri":1,"queue":"q"}
"#;
    let transcript = parse::parse(transcript).unwrap();
    for variant in [Variant::TokioCurrent, Variant::TokioMutex, Variant::TokioActor] {
        if let Err(problem) = play_on(variant, &transcript, Mode::Merged) {
            panic!("{}: {problem}", variant.name());
        }
    }
}

#[test]
fn slow_reader_blocks_only_itself_and_loses_no_reply() {
    const REQUESTS: usize = 150_000;
    let variants =
        [Variant::TokioCurrent, Variant::TokioMutex, Variant::TokioActor, Variant::Uring];
    for variant in variants {
        let Some(served) = Served::start(variant, 1000) else { continue };
        let mut deaf = served.connect();
        deaf.send_bytes(&b"\n".repeat(REQUESTS));
        assert_eq!(served.connect().ask(&get("q")), NO_JOB);
        let mut replies = (0..REQUESTS).map(|_| deaf.receive());
        assert!(replies.all(|reply| reply.contains("is empty")));
        assert_eq!(deaf.ask(&get("q")), NO_JOB);
    }
}

#[test]
fn echo_returns_everything_and_reads_only_what_it_can_send() {
    let (mut echo, now) = (Echo::default(), Now::default());
    let client = echo.handle_open(Protocol::JobCentre, now).unwrap();
    let piece: Vec<u8> = (0..=255).collect();
    let (mut sent, mut received) = (0, Vec::new());
    while echo.wants_input(client) {
        echo.handle_input(client, &piece, now);
        sent += 1;
    }
    assert_eq!(sent, OUTPUT_HIGH_WATER_BYTES / piece.len() + 1);
    echo.handle_eof(client, now);
    while !echo.output(client).is_empty() {
        assert_eq!(echo.poll_action(), None, "it closes only when all is sent");
        let count = echo.output(client).len().min(100_000);
        received.extend_from_slice(&echo.output(client)[..count]);
        echo.handle_sent(client, count, now);
    }
    assert!(received == piece.repeat(sent));
    assert_eq!(echo.poll_action(), Some(Action::Close(client)));
    assert_eq!(echo.connections(), 0);
}
