//! The client verbs: `put`, `get`, `queues`, ... They speak to a running server as any client does.
//!
//! From the lowest: [`address`], [`targets`] and [`connection`] say which server it is; [`stream`]
//! is a socket; [`line_client`] speaks the Job Centre protocol; [`record`] holds answers;
//! [`output`] prints rows. One module for each group of verbs uses them.

mod action_client;
mod actions;
mod address;
mod changes;
mod check;
mod completions;
mod connection;
mod failure;
mod fields;
mod get;
mod http_client;
mod interrupts;
mod jobs;
mod line_client;
mod local;
mod monitor;
mod output;
mod payload;
mod probes;
mod put;
mod put_lines;
mod put_request;
mod queue_verbs;
mod queues;
mod record;
mod request;
mod selection;
mod server_verbs;
mod stream;
mod style;
mod table;
mod targets;
mod top;
mod transfer;
mod units;
mod values;
mod where_terms;

use super::print_error;
use clap::{Args, Subcommand};
pub(in crate::cli) use completions::answer as answer_shell;
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
        let mut client = LineClient::connect(&self.connect.server()?)?;
        client.ignores_missing = self.ignore_missing;
        Ok(client)
    }
}

/// Declares the verbs: the variant, and the arguments with their `run`. Those that have a
/// connection come first.
macro_rules! verbs {
    ($($variant:ident($arguments:ty),)* -- $($local:ident($local_arguments:ty),)*) => {
        /// The verbs.
        #[derive(Debug, Subcommand)]
        pub(super) enum ClientCommand {
            $($variant(Box<$arguments>),)*
            $($local(Box<$local_arguments>),)*
        }

        impl ClientCommand {
            /// Runs the verb.
            pub(super) fn run(&self) -> ExitCode {
                match self {
                    $(Self::$variant(verb) => finish(verb.run(), verb.client.ignore_missing),)*
                    $(Self::$local(verb) => finish(verb.run(), false),)*
                }
            }

            /// Whether a word is a verb with flags of a connection.
            fn has_connection(word: &str) -> bool {
                [$(stringify!($variant)),*].iter().any(|name| name.to_lowercase() == word)
            }
        }
    };
}

verbs! {
    Put(put::Put),
    Get(get::Get),
    Peek(jobs::Peek),
    List(jobs::List),
    Delete(changes::Delete),
    Kick(changes::Kick),
    Bury(changes::Bury),
    Release(changes::Release),
    Move(changes::Move),
    Change(changes::Change),
    Queues(queues::Queues),
    Pause(queue_verbs::Pause),
    Resume(queue_verbs::Resume),
    Stats(queue_verbs::Stats),
    Info(queue_verbs::Info),
    Top(top::Top),
    Monitor(monitor::Monitor),
    Ping(probes::Ping),
    Latency(probes::Latency),
    Health(probes::Health),
    Check(check::Check),
    Actions(actions::Actions),
    Connections(server_verbs::Connections),
    Workers(server_verbs::Workers),
    Constraints(server_verbs::Constraints),
    Schedules(server_verbs::Schedules),
    Export(transfer::Export),
    Import(transfer::Import),
    Backup(transfer::Backup),
    Drain(queue_verbs::Drain),
    Reload(queue_verbs::Reload),
    Shell(local::ShellVerb),
    --
    Restore(transfer::Restore),
    Config(local::ConfigFile),
    Completions(completions::Completions),
    Man(local::Man),
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

/// Waits.
#[expect(clippy::disallowed_methods, reason = "client programs wait; the server does not")]
fn pause(time: std::time::Duration) {
    std::thread::sleep(time);
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
