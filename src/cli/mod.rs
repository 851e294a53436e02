//! L7: the command line: arguments, configuration, logging, wiring.

mod beanstalkd;
mod bench;
mod client;
mod client_token;
mod data_dir;
mod descriptors;
mod engine;
mod entropy;
mod escape;
mod import_binlog;
mod journal;
mod log;
mod machine_memory;
mod passes;
mod progress_line;
mod reload;
mod serve;
mod serve_error;
mod server_parts;
mod settings;
mod system_users;
mod terminal;
mod users;
mod work;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use std::ffi::OsString;
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
    Serve(Box<serve::Serve>),

    /// Measure a running server: send it requests, check every reply, report rates and latencies.
    Bench(Box<bench::Bench>),

    /// Check, print or salvage a data directory (--data) while no server uses it.
    Journal(journal::Journal),

    /// Look at, check, pause or copy what servers share in a Redis or Valkey (--engine).
    Engine {
        #[command(subcommand)]
        command: Box<engine::EngineCommand>,
    },

    /// Move the jobs of a stopped beanstalkd into a data directory.
    ///
    /// Its binlog (what beanstalkd -b DIR writes, version 7, of a machine with 64-bit little-endian
    /// words) is read and not changed. Tubes become queues; bodies, priorities, times to run,
    /// delays, ages, ids and buried jobs in the order of burying stay as they are, as far as the
    /// binlog tells. Reserved jobs are ready. Exit status 0: all jobs are on the disk.
    ///
    /// If it is damaged nothing is put, unless --skip-damaged is given; a last record that is not
    /// whole is no damage. A second import into the same data directory is refused, because the
    /// ids of the jobs are given out then.
    ImportBinlog(import_binlog::ImportBinlog),

    /// Run in place of beanstalkd, with its flags: -h shows them.
    ///
    /// A link to this program with the name `beanstalkd` does the same. Only the listener of
    /// beanstalkd's protocol is open, and neither variables nor a settings file are read.
    #[command(disable_help_flag = true)]
    Beanstalkd {
        /// Flags of beanstalkd.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        flags: Vec<OsString>,
    },

    /// Work for a server: run a command for each of its LightJQ jobs.
    ///
    /// The command gets the job's argument as JSON on stdin, and JOB_ID, JOB_NAME and JOB_TIMEOUT
    /// (seconds) in its environment. What it prints on stdout must be JSON and is the result;
    /// nothing at all is null. Anything else, or more than 64 MiB, is a failure without another
    /// try: the command has said that it is done. --text takes it as a string instead.
    ///
    /// Any exit status but 0, or a death by signal, is a failure and worth another try, except 64
    /// and 65 (EX_USAGE, EX_DATAERR of sysexits.h): those are final. Its message is the last of
    /// what the command printed on stderr.
    ///
    /// A failure that is worth another try is tried again by the server: after 1, 2, 4, ...
    /// seconds, at most an hour, while the job has tries left (max_retry). So is a timeout.
    ///
    /// The command runs in a process group of its own. What takes longer than the job's timeout is
    /// killed (SIGKILL) with its group, and so is what the command leaves behind in its group,
    /// half a second after its end. If the worker itself is killed, the groups of its commands are
    /// killed too.
    ///
    /// SIGTERM or SIGINT: no more jobs are taken, running commands may finish within --patience
    /// and are then killed, and the server is told. A second signal kills them at once.
    #[expect(clippy::doc_markdown, reason = "this is what --help prints")]
    Work(Box<work::Work>),

    /// Make tokens of users.
    Token {
        #[command(subcommand)]
        command: users::TokenCommand,
    },

    /// Add, list or remove users of a settings file. The server reads it again by `reload`.
    User {
        #[command(subcommand)]
        command: Box<users::UserCommand>,
    },

    #[command(flatten)]
    Client(client::ClientCommand),

    /// What `work` starts for each job, to kill its command when the worker is gone.
    #[command(hide = true)]
    Guard(work::Guard),
}

/// Runs the program as the command line says.
#[must_use]
pub fn main() -> ExitCode {
    let mut arguments = std::env::args_os();
    if arguments.next().is_some_and(|program| beanstalkd::is_name(&program)) {
        return beanstalkd::run(&arguments.collect::<Vec<_>>());
    }
    if client::answer_shell(Cli::command) {
        return ExitCode::SUCCESS;
    }
    let cli = match Cli::command().try_get_matches().and_then(|m| Cli::from_arg_matches(&m)) {
        Ok(cli) => cli,
        Err(error) => return print_usage_error(&error),
    };
    match cli.command {
        Command::Serve(command) => command.run(),
        Command::Beanstalkd { flags } => beanstalkd::run(&flags),
        Command::Bench(command) => command.run(),
        Command::Journal(command) => command.run(),
        Command::Engine { command } => command.run(),
        Command::ImportBinlog(command) => command.run(),
        Command::Work(command) => command.run(),
        Command::Token { command } => command.run(),
        Command::User { command } => command.run(),
        Command::Client(command) => command.run(),
        Command::Guard(command) => command.run(),
    }
}

/// Prints an error on stderr. A closed stderr is ignored: `eprintln` would panic.
fn print_error(error: impl Display) {
    let _ = writeln!(std::io::stderr(), "error: {error}");
}

/// Prints clap's message about the arguments, and the variable from which a wrong value came.
fn print_usage_error(error: &clap::Error) -> ExitCode {
    // A closed stderr is ignored.
    let _ = error.print();
    if let Some(variable) = settings::errors::source_variable(error) {
        let _ = writeln!(
            std::io::stderr(),
            "The value comes from the environment variable {variable}."
        );
    }
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
}
