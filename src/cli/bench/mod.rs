//! `jobcentre bench`: a load generator that checks every reply.
//!
//! It is a client program: one thread and one epoll of its own, beside the reactor the only user of
//! mio. Its parts, from the bottom: [`clock`]; [`content`] makes jobs and recognises them;
//! [`dialect`] writes requests and reads replies; [`ledger`] keeps book of every job; [`phase`]
//! says what comes next; [`window`] is what counts of it; [`generator`] drives it all; [`report`]
//! and [`plot`] tell the user.

mod args;
mod clock;
mod connection;
mod content;
mod dialect;
mod generator;
mod latency;
mod ledger;
mod phase;
mod plot;
mod process;
mod report;
mod window;

use super::{complain, entropy};
pub(super) use args::Bench;
use args::Plan;
pub(super) use clock::{float, seconds};
use generator::Generator;
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
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                complain(&error);
                ExitCode::FAILURE
            }
        }
    }
}

fn run(plan: &Plan) -> Result<(), String> {
    let address = resolve(&plan.address)?;
    let needed = plan.connections + plan.waiters + plan.idle;
    let room = super::files::make_room(needed);
    if room < needed {
        return Err(format!(
            "{needed} connections are too many: the system allows this program about {room} \
             (ulimit -Hn)"
        ));
    }
    let mut generator = Generator::connect(plan, address)?;
    generator.run()?;
    let report = report::Report::new(plan, &generator);
    let json = report.json()?;
    let to_stdout = plan.json.as_deref() == Some(Path::new("-"));
    if to_stdout {
        println!("{json}");
    } else {
        // First of all: a file that cannot be written must not cost the result.
        print!("{report}");
    }
    if let (Some(path), false) = (&plan.json, to_stdout) {
        write(path, &json)?;
    }
    if let Some(path) = &plan.plot {
        write(path, &plot::draw(&report.title(), &generator.window.latencies)?)?;
    }
    Ok(())
}

fn resolve(address: &str) -> Result<SocketAddr, String> {
    let explain = |why: &str| format!("--address {address}: {why}; give HOST:PORT");
    let mut found = address.to_socket_addrs().map_err(|error| explain(&error.to_string()))?;
    found.next().ok_or_else(|| explain("no address has this name"))
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    std::fs::write(path, text).map_err(|error| format!("cannot write {}: {error}", path.display()))
}
