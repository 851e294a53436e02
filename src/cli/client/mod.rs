//! The client verbs: `put`, `get`, `queues`, ... They speak to a running server as any client does.
//!
//! From the lowest: [`address`], [`targets`] and [`connection`] say which server it is; [`stream`]
//! is a socket; [`line_client`] speaks the Job Centre protocol; [`record`] holds answers;
//! [`output`] prints rows. One module for each group of verbs uses them.

mod address;
mod connection;
mod failure;
mod get;
mod interrupts;
mod line_client;
mod output;
mod payload;
mod probes;
mod put;
mod put_lines;
mod queues;
mod record;
mod request;
mod stream;
mod style;
mod table;
mod targets;
mod units;

use super::print_error;
use clap::{Args, Subcommand};
use connection::ConnectArgs;
pub(in crate::cli) use connection::{HTTP_URL_VARIABLE, TARGET_VARIABLE, URL_VARIABLE};
use failure::{Exit, Outcome};
use line_client::LineClient;
use rustix::termios::tcgetwinsize;
use std::io::{Write as _, stderr, stdout};
use std::process::ExitCode;

/// Flags of every verb.
#[derive(Args, Clone, Debug, Default)]
struct ClientArgs {
    #[command(flatten)]
    connect: ConnectArgs,

    /// Exit with 0 where there is nothing, instead of 4.
    #[arg(long, help_heading = "Connection", hide_short_help = true)]
    ignore_missing: bool,
}

impl ClientArgs {
    fn line_client(&self) -> Outcome<LineClient> {
        LineClient::connect(&self.connect.server()?)
    }
}

/// The verbs.
#[derive(Debug, Subcommand)]
pub(super) enum ClientCommand {
    Put(Box<put::Put>),
    Get(Box<get::Get>),
    Queues(Box<queues::Queues>),
    Ping(Box<probes::Ping>),
}

impl ClientCommand {
    /// Runs the verb.
    pub(super) fn run(&self) -> ExitCode {
        let (outcome, args) = match self {
            Self::Put(verb) => (verb.run(), &verb.client),
            Self::Get(verb) => (verb.run(), &verb.client),
            Self::Queues(verb) => (verb.run(), &verb.client),
            Self::Ping(verb) => (verb.run(), &verb.client),
        };
        finish(outcome, args.ignore_missing)
    }
}

/// Says what went wrong, and ends with its exit status.
fn finish(outcome: Outcome, ignore_missing: bool) -> ExitCode {
    let Err(failure) = outcome else { return ExitCode::SUCCESS };
    if failure.exit == Exit::Nothing && ignore_missing {
        return ExitCode::SUCCESS;
    }
    if !failure.sentence.is_empty() {
        print_error(&failure.sentence);
    }
    failure.exit.into()
}

/// Prints a note on stderr. A closed stderr is ignored.
fn print_note(note: &str) {
    let _ = writeln!(stderr(), "{note}");
}

/// Columns and lines of the terminal: of stdout, or what COLUMNS and LINES say; 0: not known.
fn terminal_size() -> (usize, usize) {
    let variable = |name: &str| std::env::var(name).ok()?.parse().ok();
    let reported = tcgetwinsize(stdout()).ok();
    let of = |reported: Option<u16>, name| {
        variable(name).unwrap_or_else(|| reported.map_or(0, usize::from))
    };
    let columns = of(reported.map(|size| size.ws_col), "COLUMNS");
    (columns, of(reported.map(|size| size.ws_row), "LINES"))
}
