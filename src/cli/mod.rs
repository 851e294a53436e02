//! F7: the command line: arguments, configuration, logging, wiring.

mod address;
mod bench;
mod config;
mod data;
mod files;
mod fsync;
mod journal;
mod log;
mod progress;
mod query_timeout;
mod result_ttl;
mod serve;
mod size;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use std::fmt::Display;
use std::io::Write as _;
use std::process::ExitCode;

/// A general-purpose job queue server: clients put jobs with priorities into named queues, others
/// take the most urgent one.
#[derive(Debug, Parser)]
#[command(name = "jobcentre", version, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the server until SIGTERM or SIGINT.
    Serve(serve::Serve),

    /// Measure a running server: send it requests, check every reply, report rates and latencies.
    Bench(Box<bench::Bench>),

    /// Check, print or salvage a data directory (--data) while no server uses it.
    Journal(journal::Journal),
}

/// Runs the program as the command line says.
#[must_use]
pub fn main() -> ExitCode {
    let cli = match Cli::command().try_get_matches().and_then(|m| Cli::from_arg_matches(&m)) {
        Ok(cli) => cli,
        Err(error) => return explain(&error),
    };
    match cli.command {
        Command::Serve(command) => command.run(),
        Command::Bench(command) => command.run(),
        Command::Journal(command) => command.run(),
    }
}

/// Says on stderr why the program cannot do what it was told. Whoever closed stderr does not want
/// to know, and is not to be punished with a panic.
fn complain(error: impl Display) {
    let _ = writeln!(std::io::stderr(), "error: {error}");
}

/// Prints what is wrong with the arguments, and where a value came from that nobody typed.
fn explain(error: &clap::Error) -> ExitCode {
    // Nothing can be done about a closed stderr.
    let _ = error.print();
    if let (ErrorKind::ValueValidation | ErrorKind::InvalidValue, Some(ContextValue::String(arg))) =
        (error.kind(), error.get(ContextKind::InvalidArg))
        && let Some(flag) = arg.split_whitespace().next()
        && !std::env::args().any(|typed| typed == flag || typed.starts_with(&format!("{flag}=")))
    {
        let variable = flag.trim_start_matches('-').replace('-', "_").to_uppercase();
        let _ = writeln!(
            std::io::stderr(),
            "The value comes from the environment variable JOBCENTRE_{variable}."
        );
    }
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
}
