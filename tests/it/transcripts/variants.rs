//! The comparison servers of the benches play the transcripts, too: what is compared is the same
//! service. Left out is what needs the server's own settings or its clock.
//!
//! Tasks of one server may run on several threads, so no probe can tell whether the others are
//! done. But the system can: the threads of a server bear its name, and once all of them sleep, and
//! none has run between two looks, there is nothing left to be done.

#[expect(dead_code, reason = "the echo plays no transcript: it is not started here")]
#[path = "../../../benches/servers/variants/mod.rs"]
mod servers;

use super::real::{Host, Real};
use super::{Mode, parse, play, play_all};
use crate::support::until;
use jobcentre::base::limits::OUTPUT_HIGH_WATER;
use jobcentre::base::time::Now;
use jobcentre::model::core::{Action, Core, Door};
use servers::echo::Echo;
use servers::{Running, Variant, start_if_possible};
use std::collections::BTreeSet;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};

/// A comparison server while it runs.
struct Served {
    variant: Variant,
    running: Option<Running>,
    /// Its threads as far as they are known. The system's list of threads may leave some out while
    /// others end, so what was seen once is kept.
    threads: BTreeSet<String>,
}

impl Served {
    fn new(variant: Variant, running: Running) -> Self {
        Self { variant, running: Some(running), threads: BTreeSet::new() }
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

fn play_against(variant: Variant) {
    let usual = parse::parse("").unwrap().settings.max_clients;
    play_all(
        |transcript| !transcript.pure && transcript.settings.max_clients == usual,
        &[Mode::Steps, Mode::Pipelined],
        |transcript, mode| {
            let listen = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
            let max_request = transcript.settings.max_request;
            let Some(running) = start_if_possible(variant, listen, max_request).unwrap() else {
                return Ok(());
            };
            let address = running.address;
            play(transcript, mode, &mut Real::new(address, Served::new(variant, running)))
        },
    );
}

#[test]
fn every_transcript_holds_on_tokio_current() {
    play_against(Variant::TokioCurrent);
}

#[test]
fn every_transcript_holds_on_tokio_mutex() {
    play_against(Variant::TokioMutex);
}

#[test]
fn every_transcript_holds_on_tokio_actor() {
    play_against(Variant::TokioActor);
}

#[test]
fn every_transcript_holds_on_uring() {
    play_against(Variant::Uring);
}

#[test]
fn the_echo_sends_everything_back_and_reads_no_more_than_it_can_send() {
    let (mut echo, now) = (Echo::default(), Now::default());
    let client = echo.handle_open(Door::JobCentre, now).unwrap();
    let piece: Vec<u8> = (0..=255).collect();
    let (mut sent, mut received) = (0, Vec::new());
    while echo.wants_input(client) {
        echo.handle_input(client, &piece, now);
        sent += 1;
    }
    assert_eq!(sent, OUTPUT_HIGH_WATER / piece.len() + 1);
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
