//! `jobcentre bench`: a load generator that checks every reply.
//!
//! It is a client program: one thread and one epoll of its own, beside the reactor the only user of
//! mio. Its parts, from the bottom: [`clock`]; [`content`] makes jobs and recognises them;
//! [`protocols`] writes requests and reads replies; [`job_tracker`] keeps book of every job;
//! [`phase`] says what comes next; [`window`] is what counts of it; [`generator`] drives it all,
//! until
//! [`interrupts`] say otherwise; [`report`], [`table`] and [`plot`] tell the user.

mod args;
mod clock;
mod connection;
mod content;
mod generator;
mod interrupts;
mod job_tracker;
mod latency;
mod phase;
mod plot;
mod process;
mod protocols;
mod report;
mod table;
mod window;

use super::{complain, entropy};
pub(super) use args::Bench;
use args::BenchPlan;
pub(super) use clock::{float, seconds};
use generator::Generator;
use interrupts::Interrupts;
use std::io::{Write as _, stdout};
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::Path;
use std::process::ExitCode;

const WRONG_USAGE: u8 = 2;

impl Bench {
    /// Runs the load and reports.
    pub(super) fn run(&self) -> ExitCode {
        let plan = match self.plan(entropy::draw()) {
            Ok(plan) => plan,
            Err(error) => {
                complain(&error);
                return ExitCode::from(WRONG_USAGE);
            }
        };
        match run(&plan) {
            Ok(None) => ExitCode::SUCCESS,
            // As a shell says that a signal has ended a program.
            Ok(Some(signal)) => ExitCode::from(128 + signal),
            Err(error) => {
                complain(&error);
                ExitCode::FAILURE
            }
        }
    }
}

/// Gives the signal that has ended the run before its time.
fn run(plan: &BenchPlan) -> Result<Option<u8>, String> {
    let address = resolve(&plan.address)?;
    let needed = plan.connections + plan.waiters + plan.idle;
    let room = super::files::reserve_descriptors(needed);
    if room < needed {
        return Err(format!(
            "{needed} connections are too many: the system allows this program about {room} \
             (ulimit -Hn)"
        ));
    }
    let interrupts = Interrupts::listen()
        .map_err(|error| format!("the system does not let signals be handled: {error}"))?;
    let mut generator = Generator::connect(plan, address, interrupts)?;
    if let Err(error) = generator.run() {
        return Err(with_left(error, &generator));
    }
    let interrupted = generator.interrupted();
    if !generator.window.is_done() {
        complain(with_left("interrupted before anything was measured".to_owned(), &generator));
        return Ok(interrupted);
    }
    let report = report::Report::new(plan, &generator);
    let json = report.json()?;
    let to_stdout = plan.json.as_deref() == Some(Path::new("-"));
    // First of all: a file that cannot be written must not cost the result.
    let shown = if to_stdout { format!("{json}\n") } else { report.to_string() };
    // Whoever has closed stdout does not want to know.
    let _ = stdout().write_all(shown.as_bytes());
    if let (Some(path), false) = (&plan.json, to_stdout) {
        write(path, &json)?;
    }
    if let Some(path) = &plan.plot {
        write(path, &plot::draw(&report.title(), &generator.window.latencies)?)?;
    }
    Ok(interrupted)
}

/// What went wrong, and what it has left at the server.
fn with_left(what: String, generator: &Generator<'_>) -> String {
    match generator.left() {
        Some(left) => format!("{what}; {left}"),
        None => what,
    }
}

fn resolve(address: &str) -> Result<SocketAddr, String> {
    let explain = |why: &str| format!("--address {address}: {why}; give HOST:PORT");
    let mut found = address.to_socket_addrs().map_err(|error| explain(&error.to_string()))?;
    found.next().ok_or_else(|| explain("no address has this name"))
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    std::fs::write(path, text).map_err(|error| format!("cannot write {}: {error}", path.display()))
}
