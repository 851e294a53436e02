//! The comparison servers of the benches play the transcripts, too: what is compared is the same
//! service. Left out is what needs the server's own settings or its clock.
//!
//! Tasks of one server may run on several threads, so no probe can tell whether the others are
//! done. But the system can: the threads of a server bear its name, and once all of them sleep, and
//! none has run between two looks, there is nothing left to be done.

#[path = "../../../benches/servers/variants/mod.rs"]
mod servers;

use super::real::{Host, Real};
use super::{Mode, parse, play, play_all};
use crate::support::until;
use jobcentre::base::buf::OutBuf;
use jobcentre::base::limits::OUTPUT_HIGH_WATER;
use jobcentre::base::time::Now;
use jobcentre::model::core::{Action, Core, Door};
use servers::{Echo, Running, Variant, start};
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};

/// A comparison server while it runs.
struct Served {
    variant: Variant,
    running: Option<Running>,
}

impl Host for Served {
    fn settle(&mut self, _sent: usize) {
        let name = self.variant.name();
        until(&format!("{name} has nothing to do"), || {
            let first = sleepers(name);
            first.is_some() && first == sleepers(name)
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

/// How often each thread of this name has run, if all of them sleep.
fn sleepers(name: &str) -> Option<Vec<String>> {
    let mut sleepers = Vec::new();
    for task in fs::read_dir("/proc/self/task").unwrap() {
        let path = task.unwrap().path();
        // A thread of another test may end at any moment.
        let Ok(comm) = fs::read_to_string(path.join("comm")) else { continue };
        if comm.trim_end() == name {
            let status = fs::read_to_string(path.join("status")).ok()?;
            let mut facts = status.lines().filter(|line| {
                ["Pid:", "State:", "voluntary_", "nonvoluntary_"]
                    .iter()
                    .any(|field| line.starts_with(field))
            });
            if !facts.clone().any(|fact| fact.starts_with("State:\tS")) {
                return None;
            }
            sleepers.extend(facts.by_ref().map(str::to_owned));
        }
    }
    assert!(!sleepers.is_empty(), "the server has threads");
    Some(sleepers)
}

fn play_against(variant: Variant) {
    let usual = parse::parse("").unwrap().settings.max_clients;
    play_all(
        |transcript| !transcript.pure && transcript.settings.max_clients == usual,
        &[Mode::Steps, Mode::Pipelined],
        |transcript, mode| {
            let listen = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
            let running = start(variant, listen, transcript.settings.max_request).unwrap();
            let address = running.address;
            let served = Served { variant, running: Some(running) };
            play(transcript, mode, &mut Real::new(address, served))
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
