//! The report: every published figure of the server's speed, measured by one command.
//!
//! `cargo bench --bench report` measures all scenarios and writes tables and plots to
//! `benches/results/` (see `benches/README.md`). Without `--bench`, as `cargo test --benches` runs
//! it, it checks itself on a tiny scenario and leaves nothing behind.

#![allow(clippy::disallowed_methods, reason = "it measures real servers in real time")]

mod beanstalkd;
mod chapters;
mod client;
mod durable;
mod http;
mod load;
mod machine;
mod many_queues;
mod markdown;
mod memory;
mod metric;
mod passes;
mod plots;
mod process;
mod processor;
mod run;
mod scenarios;
mod self_check;
mod socket;
mod stats;
mod syscalls;
mod targets;
mod thresholds;
mod timer_lateness;
mod tls;
mod workers;

use clap::Parser;
use machine::{Cores, Header};
use run::{Outcome, Runner};
use scenarios::{Scenario, Sizes};
use serde::Serialize;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;
use targets::Programs;

/// Measures the server and its peers, and writes the report.
#[derive(Debug, Parser)]
struct Options {
    /// A short trial: small sizes, two rounds.
    #[arg(long)]
    quick: bool,

    /// Run only these scenarios.
    #[arg(long, value_name = "SCENARIO")]
    only: Vec<String>,

    /// Print the names of the scenarios.
    #[arg(long)]
    list: bool,

    /// How often each scenario runs all of its entries [default: 5; quick: 2].
    #[arg(long, value_name = "N")]
    rounds: Option<usize>,

    /// How long each run of load measures [default: 2; quick: 0.4].
    #[arg(long, value_name = "SECONDS")]
    seconds: Option<f64>,

    /// Connections of the scenario `connections` [default: 10000; quick: 2000].
    #[arg(long, value_name = "N")]
    connections: Option<usize>,

    /// Where the report goes [default: benches/results; a trial, or some scenarios:
    /// target/tmp/report].
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,

    /// Cargo says so to a bench that is to measure.
    #[arg(long, hide = true)]
    bench: bool,
}

impl Options {
    fn sizes(&self) -> Sizes {
        let mut sizes = if self.quick { Sizes::QUICK } else { Sizes::FULL };
        if let Some(seconds) = self.seconds {
            sizes.seconds = seconds;
            sizes.rate_seconds = 2.0 * seconds;
        }
        sizes.connections = self.connections.unwrap_or(sizes.connections);
        sizes
    }

    fn out(&self) -> PathBuf {
        // What is not the whole report must not overwrite it.
        let whole = !self.quick && self.only.is_empty();
        self.out.clone().unwrap_or_else(|| {
            if whole {
                Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/results")
            } else {
                Path::new(env!("CARGO_TARGET_TMPDIR")).join("report")
            }
        })
    }

    fn scenarios(&self, sizes: &Sizes) -> Result<Vec<Scenario>, String> {
        let mut scenarios = scenarios::all(sizes);
        let is_known = |name: &&String| scenarios.iter().any(|scenario| scenario.id == **name);
        if let Some(name) = self.only.iter().find(|name| !is_known(name)) {
            return Err(format!("there is no scenario {name}; --list names all"));
        }
        scenarios.retain(|scenario| self.only.is_empty() || self.only.contains(&scenario.id));
        Ok(scenarios)
    }
}

fn main() -> ExitCode {
    let measures = std::env::args().any(|word| word == "--bench");
    let result = if measures { report(&Options::parse()) } else { self_check::run() };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn report(options: &Options) -> Result<(), String> {
    let sizes = options.sizes();
    let scenarios = options.scenarios(&sizes)?;
    if options.list {
        for scenario in &scenarios {
            println!("{:<16} {}", scenario.id, scenario.title);
        }
        return Ok(());
    }
    let rounds = options.rounds.unwrap_or(if options.quick { 2 } else { 5 }).max(1);
    let mut notes = Vec::new();
    let cores = Cores::choose();
    if let Err(why) = &cores {
        notes.push(format!("server and generator are not pinned to cores: {why}"));
    }
    let scratch = folder(Path::new(env!("CARGO_TARGET_TMPDIR")).join("report-scratch"))?;
    make_room();
    eprintln!("looking for the servers");
    let programs = Programs::find(cores.ok(), &scratch);
    if let Some(cores) = &programs.cores {
        cores.pin_this();
    }
    for (target, why) in &programs.absent {
        eprintln!("absent: {}: {why}", target.name());
    }
    let mut header = Header::new(&programs, rounds, sizes.seconds, options.quick);
    header.notes.extend(notes);
    let out = folder(options.out())?;
    let runner = Runner { programs, rounds, scratch };
    let start = Instant::now();
    let mut outcomes = Vec::new();
    for (at, scenario) in scenarios.iter().enumerate() {
        let minutes = start.elapsed().as_secs() / 60;
        eprintln!("scenario {} of {}: {} ({minutes} min)", at + 1, scenarios.len(), scenario.id);
        outcomes.push(runner.run(scenario));
        // What is there is there, even if the rest is never measured.
        write(&out, &mut header.clone(), &outcomes, &sizes)?;
    }
    header.notes.push(format!("the report took {:.1} min", start.elapsed().as_secs_f64() / 60.0));
    write(&out, &mut header, &outcomes, &sizes)?;
    println!("{}", out.join("report.md").display());
    Ok(())
}

/// As many open files as the system allows; servers inherit it.
fn make_room() {
    if let Ok((_, most)) = rlimit::Resource::NOFILE.get() {
        // If it cannot be, the scenarios that need it fail, and say so.
        let _ = rlimit::Resource::NOFILE.set(most, most);
    }
}

fn folder(path: PathBuf) -> Result<PathBuf, String> {
    match fs::create_dir_all(&path) {
        Ok(()) => Ok(path),
        Err(error) => Err(format!("cannot make {}: {error}", path.display())),
    }
}

/// Everything raw.
#[derive(Serialize)]
struct Everything<'a> {
    header: &'a Header,
    verdicts: &'a [thresholds::Verdict],
    scenarios: &'a [Outcome],
}

/// Writes tables, raw figures and plots.
fn write(
    out: &Path,
    header: &mut Header,
    outcomes: &[Outcome],
    sizes: &Sizes,
) -> Result<(), String> {
    let verdicts: Vec<_> =
        thresholds::all(sizes).iter().map(|threshold| threshold.verdict(outcomes)).collect();
    let mut plots = Vec::new();
    for plot in plots::all(outcomes, sizes) {
        match plot {
            Ok(plot) => {
                save(&out.join(&plot.file), &plot.svg)?;
                plots.push((plot.group, plot.file, plot.title));
            }
            Err(why) => header.notes.push(why),
        }
    }
    let everything = Everything { header, verdicts: &verdicts, scenarios: outcomes };
    let json = serde_json::to_string(&everything).map_err(|error| error.to_string())?;
    save(&out.join("report.json"), &json)?;
    save(&out.join("report.md"), &markdown::write(header, &verdicts, outcomes, &plots))
}

fn save(path: &Path, text: &str) -> Result<(), String> {
    fs::write(path, text).map_err(|error| format!("cannot write {}: {error}", path.display()))
}
