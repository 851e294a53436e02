//! Verbs without a server: `man`, `config` and `shell`, which starts the others.

use super::ClientArgs;
use super::failure::{Failure, Outcome};
use crate::cli::settings::config::Options;
use clap::{Args, CommandFactory as _, ValueEnum};
use std::fs;
use std::io::{self, BufRead as _, IsTerminal as _, Write as _};
use std::path::PathBuf;
use std::process::Command;

pub(super) fn print(bytes: &[u8]) -> Outcome {
    match io::stdout().write_all(bytes) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::failed(format!("cannot write to stdout: {error}")))
        }
        _ => Ok(()),
    }
}

/// The name of the program.
pub(super) const NAME: &str = "jobcentre";

/// Print the manual page, or write all of them into a directory.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  jobcentre man > jobcentre.1
  jobcentre man pages")]
pub(in crate::cli) struct Man {
    /// The directory: one page for each command.
    dir: Option<PathBuf>,
}

impl Man {
    pub(super) fn run(&self) -> Outcome {
        let explain = |error: io::Error| Failure::failed(format!("cannot write pages: {error}"));
        let command = crate::cli::Cli::command();
        let Some(dir) = &self.dir else {
            let mut text = Vec::new();
            clap_mangen::Man::new(command).render(&mut text).map_err(explain)?;
            return print(&text);
        };
        fs::create_dir_all(dir).map_err(explain)?;
        clap_mangen::generate_to(command, dir).map_err(explain)
    }
}

/// Check a settings file of the server, without starting it.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  jobcentre config check settings.toml")]
pub(in crate::cli) struct ConfigFile {
    /// What to do.
    #[arg(value_enum, value_name = "ACTION")]
    action: ConfigAction,

    /// The settings file.
    file: PathBuf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ConfigAction {
    /// Say what is wrong with it.
    Check,
}

impl ConfigFile {
    pub(super) fn run(&self) -> Outcome {
        let ConfigAction::Check = self.action;
        let config = Options::from_file(&self.file).map_err(Failure::failed)?.complete();
        let shown = self.file.display();
        let explain = |why: String| Failure::failed(format!("{shown}: {why}"));
        let tls = config.tls_files().map_err(explain)?;
        if let Some(files) = tls {
            for file in [&files.certificate, &files.key] {
                fs::metadata(file)
                    .map_err(|error| explain(format!("cannot read {}: {error}", file.display())))?;
            }
        }
        if let Some(why) = crate::cli::serve::wrong_settings(&config) {
            return Err(explain(why));
        }
        print(format!("{shown}: ok\n").as_bytes())
    }
}

/// Read verbs from stdin, and run them one after the other.
///
/// A line is what stands behind `jobcentre` otherwise, with the quotes of a shell. It gets the
/// flags of the connection that the shell has. A line that fails does not end it.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  echo 'put mail 1' | jobcentre shell")]
pub(in crate::cli) struct ShellVerb {
    #[command(flatten)]
    pub(super) client: ClientArgs,
}

impl ShellVerb {
    pub(super) fn run(&self) -> Outcome {
        // Wrong flags are said now, not with each line.
        self.client.connect.server()?;
        let program = std::env::current_exe()
            .map_err(|error| Failure::failed(format!("cannot find this program: {error}")))?;
        let flags = self.client.connect.flags();
        let is_terminal = io::stdin().is_terminal();
        let (mut input, mut failed) = (io::stdin().lock(), 0_u64);
        loop {
            if is_terminal {
                let _ = write!(io::stderr(), "{NAME}> ");
            }
            let mut line = String::new();
            let read = input.read_line(&mut line);
            if read.map_err(|error| Failure::failed(format!("cannot read stdin: {error}")))? == 0 {
                break;
            }
            let Some(words) = shlex::split(&line) else {
                crate::cli::print_error("a quotation mark is not closed");
                failed += 1;
                continue;
            };
            match words.first().map(String::as_str) {
                None => continue,
                Some("exit" | "quit") => break,
                Some(word @ ("serve" | "shell")) => {
                    let why = "starts in a shell of the system only";
                    crate::cli::print_error(format!("'{word}' {why}"));
                    failed += 1;
                    continue;
                }
                Some(_) => {}
            }
            let is_verb = super::ClientCommand::has_connection(&words[0]);
            let status = Command::new(&program)
                .args(&words)
                .args(flags.iter().filter(|_| is_verb))
                .status()
                .map_err(|error| Failure::failed(format!("cannot start a verb: {error}")))?;
            failed += u64::from(!status.success());
        }
        match failed {
            _ if is_terminal => Ok(()),
            0 => Ok(()),
            failed => Err(Failure::failed(format!("{failed} lines have failed"))),
        }
    }
}
