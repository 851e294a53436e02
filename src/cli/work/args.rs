//! Arguments of `jobcentre work`, and their validation.

use crate::cli::client_token::{ClientToken, TOKEN_VARIABLE, TokenSource};
use crate::cli::log::{Format, Level};
use crate::cli::settings::listen_addr::ListenAddr;
use crate::cli::settings::{duration, processor, whole_number};
use crate::wire::url::{self, Url};
use clap::Args;
use std::ffi::{OsStr, OsString};
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::Path;
use std::time::Duration;

/// The arguments of `work`.
#[derive(Args, Debug)]
pub(in crate::cli) struct Work {
    /// Where the server listens for HTTP (its --http), as an http URL.
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:11480")]
    #[arg(value_parser = parse_url)]
    url: Url,

    #[command(flatten)]
    token: TokenSource,

    /// What this worker is called: for people [default: the name of this host].
    #[arg(long, value_name = "NAME")]
    name: Option<String>,

    /// How many commands run at a time [default: as many as there are processors].
    #[arg(long, value_name = "N", value_parser = whole_number::parse_at_least_one)]
    max_jobs: Option<usize>,

    /// The name of jobs that are taken; can be given several times [default: all jobs that were put
    /// through LightJQ].
    #[arg(long, value_name = "NAME")]
    job: Vec<String>,

    /// Where deliveries are awaited: HOST:PORT, or :PORT for loopback; port 0 picks a free
    /// one.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:0", value_parser = parse_address)]
    listen: SocketAddr,

    /// The URL by which the server reaches this worker [default: http:// and the address that it
    /// listens at].
    #[arg(long, value_name = "URL", value_parser = check_advertised)]
    advertise: Option<String>,

    /// A command may take no longer than this, whatever its job allows (500ms, 5s) [default: as
    /// long as the job allows].
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    timeout: Option<Duration>,

    /// How long running commands may go on after SIGTERM or SIGINT.
    #[arg(long, value_name = "TIME", value_parser = parse_patience)]
    #[arg(default_value = "10s")]
    patience: Duration,

    /// The result is what the command prints, as a string: it is not read as JSON.
    #[arg(long)]
    text: bool,

    /// How log lines on stderr look.
    #[arg(long, value_name = "FORMAT", default_value = "human")]
    log_format: Format,

    /// The least important log lines that are written.
    #[arg(long, value_name = "LEVEL", default_value = "info")]
    log_level: Level,

    /// The command that is run for each job, and its arguments: the program itself, not a line for
    /// a shell.
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// The validated arguments, with defaults filled in.
#[derive(Debug)]
pub(super) struct WorkSettings {
    pub(super) url: Url,
    /// With which each request to the server says who sends it.
    pub(super) token: Option<ClientToken>,
    pub(super) name: String,
    pub(super) max_jobs: usize,
    pub(super) jobs: Vec<String>,
    pub(super) listen: SocketAddr,
    pub(super) advertise: Option<String>,
    pub(super) timeout: Option<Duration>,
    pub(super) patience: Duration,
    pub(super) text: bool,
    pub(super) log: (Format, Level),
    pub(super) command: Vec<OsString>,
}

impl Work {
    /// Fills in the defaults.
    ///
    /// # Errors
    /// A message about arguments that contradict each other, or about a missing program.
    pub(super) fn settings(self) -> Result<WorkSettings, String> {
        if self.url.tls {
            return Err("--url: this worker does not speak https to the server".to_owned());
        }
        if self.listen.ip().is_unspecified() && self.advertise.is_none() {
            let port = self.listen.port();
            return Err(format!(
                "--listen {}: say by which name or address the server reaches this machine, such \
                 as --advertise http://worker-1:{port}",
                self.listen
            ));
        }
        if let Some(program) = self.command.first()
            && !program_exists(program)
        {
            return Err(format!("there is no program {}", Path::new(program).display()));
        }
        let token = self.token.token(std::env::var_os(TOKEN_VARIABLE))?;
        let cpus = || std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        let name = self.name.unwrap_or_else(processor::host);
        Ok(WorkSettings {
            url: self.url,
            token,
            name,
            max_jobs: self.max_jobs.unwrap_or_else(cpus),
            jobs: self.job,
            listen: self.listen,
            advertise: self.advertise,
            timeout: self.timeout,
            patience: self.patience,
            text: self.text,
            log: (self.log_format, self.log_level),
            command: self.command,
        })
    }
}

/// Whether the program exists now. A name without a slash is looked up in `PATH`.
fn program_exists(program: &OsStr) -> bool {
    if Path::new(program).components().count() > 1 {
        return Path::new(program).is_file();
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

fn parse_url(text: &str) -> Result<Url, String> {
    url::parse(text).map_err(|why| format!("{why}: give http://HOST:PORT"))
}

fn check_advertised(text: &str) -> Result<String, String> {
    parse_url(text).map(|_| text.to_owned())
}

fn parse_address(text: &str) -> Result<SocketAddr, String> {
    match text.parse()? {
        ListenAddr::Addr(address) => Ok(address),
        _ => Err("the server has to reach the worker: give HOST:PORT".to_owned()),
    }
}

const TIME_HELP: &str = "give a time such as 500ms or 5s";

fn parse_patience(text: &str) -> Result<Duration, String> {
    duration::parse(text, TIME_HELP)
}

fn parse_time(text: &str) -> Result<Duration, String> {
    let help = TIME_HELP;
    let time = duration::parse(text, help)?;
    if time.is_zero() { Err(format!("that is no time at all: {help}")) } else { Ok(time) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct TestCli {
        #[command(flatten)]
        work: Work,
    }

    #[test]
    fn only_the_command_is_required() {
        let settings =
            TestCli::try_parse_from(["work", "--", "sh"]).unwrap().work.settings().unwrap();
        assert_eq!(&*settings.url.authority, "127.0.0.1:11480");
        assert_eq!(settings.name, processor::host());
        assert!(settings.max_jobs >= 1 && settings.jobs.is_empty());
    }
}
