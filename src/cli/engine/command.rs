//! `jobcentre engine`: what is done about a shared engine by hand.

use super::arguments::{EngineArguments, Reached};
use super::{check, export, import, status};
use crate::cli::{log, print_error};
use crate::engine::shared::redis;
use clap::{Args, Subcommand};
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

/// What there is to be done about a shared engine.
#[derive(Debug, Subcommand)]
pub(in crate::cli) enum EngineCommand {
    /// Print who leads, who waits to lead, and how much is kept.
    Status(EngineArguments),

    /// Read everything and say whether it is sound. Changes nothing.
    ///
    /// Redis is looked at as a server does when it starts, and each record is read. Without a
    /// leader, or while the engine is paused, records are compared with each other too. Exit
    /// status 0: a server would start with what is there. 1: it would not, or nothing is there;
    /// what is wrong, and what to do, is printed.
    Check(EngineArguments),

    /// Stop all writes: no server changes anything or begins to lead until `engine resume`.
    ///
    /// Before a slot is moved, or for `engine export`. Servers keep their connections; requests
    /// wait, and are refused after --engine-patience. To restore Redis from a backup, stop all
    /// servers instead: a leader writes again what the backup lacks.
    Pause(EngineArguments),

    /// End a pause. The server that led goes on, if it is there still.
    Resume(EngineArguments),

    /// Copy everything into a new data directory, for `serve --data`.
    ///
    /// No server may lead, unless the engine is paused. Nothing is changed in Redis: the jobs are
    /// there twice, and only one of both may be served. Exit status 0: everything is on the disk.
    Export(Transfer),

    /// Copy everything in a data directory into Redis, for `serve --engine`.
    ///
    /// No server may use the directory, and none may lead; there must be no jobs with this prefix.
    /// The directory is not changed: the jobs are there twice, and only one of both may be served.
    /// Exit status 0: everything is in Redis. Otherwise nothing is, under this prefix.
    Import(Transfer),
}

/// The arguments of `export` and `import`.
#[derive(Args, Debug)]
pub(in crate::cli) struct Transfer {
    #[command(flatten)]
    address: EngineArguments,

    /// The data directory.
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
}

impl EngineCommand {
    /// Does it.
    pub(in crate::cli) fn run(self) -> ExitCode {
        log::start(log::Format::Human, log::Level::Warn);
        match self.result() {
            Ok(text) => {
                // A closed stdout is ignored.
                let _ = std::io::stdout().write_all(text.as_bytes());
                ExitCode::SUCCESS
            }
            Err(why) => {
                print_error(why);
                ExitCode::FAILURE
            }
        }
    }

    fn result(self) -> Result<String, String> {
        match self {
            Self::Status(address) => status::status(address.reach()?),
            Self::Check(address) => check::check(address.reach()?),
            Self::Pause(address) => pause(address.reach()?, true),
            Self::Resume(address) => pause(address.reach()?, false),
            Self::Export(Transfer { address, data }) => export::export(address.reach()?, &data),
            Self::Import(Transfer { address, data }) => import::import(address.reach()?, &data),
        }
    }
}

fn pause(mut reached: Reached, is_paused: bool) -> Result<String, String> {
    let done = redis::pause(&mut reached.connection, &reached.requests, is_paused);
    let done = done.map_err(|why| reached.fault_of_node(&why))?;
    let done = done.ok_or_else(|| reached.explain_none())?;
    let leader = if done.leader.is_empty() { "none" } else { &done.leader };
    Ok(match (is_paused, done.before) {
        (true, false) => format!(
            "paused: nothing is written until `jobcentre engine resume`\nleader: {leader}\n"
        ),
        (true, true) => format!("it was paused already\nleader: {leader}\n"),
        (false, true) => format!("the pause has ended\nleader: {leader}\n"),
        (false, false) => format!("it was not paused\nleader: {leader}\n"),
    })
}
