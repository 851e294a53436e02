//! `jobcentre bench`: a load generator that checks every reply.
//!
//! It is a client program with one thread and its own epoll instance; beside the reactor it is the
//! only user of mio. Its modules, from the lowest: [`clock`]; [`content`] generates and recognises
//! jobs; [`protocols`] encodes requests and parses replies; [`job_tracker`] tracks every job;
//! [`phase`] decides what is sent next; [`window`] holds the measurements; [`generator`] is the
//! event loop; [`interrupts`] stop it; [`report`], [`table`] and [`plot`] print the result.

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
mod stream;
mod table;
mod window;

use super::{entropy, print_error};
use crate::reactor::TrustStore;
pub(super) use args::Bench;
use args::BenchSettings;
pub(super) use clock::{float, seconds};
use generator::Generator;
use interrupts::Interrupts;
use std::io::{Write as _, stdout};
use std::net::ToSocketAddrs;
use std::path::Path;
use std::process::ExitCode;
use stream::Target;
pub(super) use table::grouped_digits;

const WRONG_USAGE: u8 = 2;

impl Bench {
    /// Runs the benchmark and prints the report.
    pub(super) fn run(&self) -> ExitCode {
        let settings = match self.settings(entropy::random_u64()) {
            Ok(settings) => settings,
            Err(error) => {
                print_error(&error);
                return ExitCode::from(WRONG_USAGE);
            }
        };
        match run(&settings) {
            Ok(None) => ExitCode::SUCCESS,
            // The exit status by which a shell reports a signal.
            Ok(Some(signal)) => ExitCode::from(128 + signal),
            Err(error) => {
                print_error(&error);
                ExitCode::FAILURE
            }
        }
    }
}

/// Returns the signal that interrupted the run, if one did.
fn run(settings: &BenchSettings) -> Result<Option<u8>, String> {
    let target = resolve(settings)?;
    let needed = settings.connections + settings.waiters + settings.idle;
    let allowed = super::descriptors::reserve_descriptors(needed);
    if allowed < needed {
        return Err(format!(
            "{needed} connections are too many: the system allows this program about {allowed} \
             (ulimit -Hn)"
        ));
    }
    let interrupts = Interrupts::install()
        .map_err(|error| format!("the system does not let signals be handled: {error}"))?;
    let mut generator = Generator::connect(settings, &target, interrupts)?;
    if let Err(error) = generator.run() {
        return Err(with_jobs_left(error, &generator));
    }
    let interrupted = generator.interrupted();
    if !generator.window.is_done() {
        print_error(with_jobs_left(
            "interrupted before anything was measured".to_owned(),
            &generator,
        ));
        return Ok(interrupted);
    }
    let report = report::Report::new(settings, &generator);
    let json = report.json()?;
    let to_stdout = settings.json.as_deref() == Some(Path::new("-"));
    // First: a file that cannot be written must not lose the result.
    let text = if to_stdout { format!("{json}\n") } else { report.to_string() };
    // A closed stdout is ignored.
    let _ = stdout().write_all(text.as_bytes());
    if let (Some(path), false) = (&settings.json, to_stdout) {
        write(path, &json)?;
    }
    if let Some(path) = &settings.plot {
        write(path, &plot::draw(&report.title(), &generator.window.latencies)?)?;
    }
    Ok(interrupted)
}

/// An error message, followed by what the run has left at the server.
fn with_jobs_left(what: String, generator: &Generator<'_>) -> String {
    match generator.jobs_left_note() {
        Some(left) => format!("{what}; {left}"),
        None => what,
    }
}

/// Looks the address up, and reads the certificates with which its own is checked.
fn resolve(settings: &BenchSettings) -> Result<Target, String> {
    let text = &settings.address;
    let address = text.strip_prefix("tls:").unwrap_or(text);
    let explain = |why: &str| format!("--address {text}: {why}; give HOST:PORT or tls:HOST:PORT");
    let mut addresses = address.to_socket_addrs().map_err(|error| explain(&error.to_string()))?;
    let found = addresses.next().ok_or_else(|| explain("no address has this name"))?;
    if address.len() == text.len() {
        return match &settings.tls_ca {
            Some(_) => Err(explain("--tls-ca is for addresses that begin with tls:")),
            None => Ok(Target { address: found, tls: None }),
        };
    }
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    let host = host.trim_matches(['[', ']']).to_owned();
    let trust = match &settings.tls_ca {
        None => TrustStore::default(),
        Some(path) => {
            let explain = |why: String| format!("--tls-ca {}: {why}", path.display());
            let pem = std::fs::read(path).map_err(|error| explain(error.to_string()))?;
            TrustStore::with(&pem).map_err(explain)?
        }
    };
    Ok(Target { address: found, tls: Some((host, trust)) })
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    std::fs::write(path, text).map_err(|error| format!("cannot write {}: {error}", path.display()))
}
