//! The program in place of beanstalkd: its flags, its exit statuses, its listener alone.
//!
//! It is called as `beanstalkd` (by a link) or as `jobcentre beanstalkd`. Flags are read as
//! beanstalkd reads them: letters may stand together, and a value may stand right behind its
//! letter.

use super::serve::run_server;
use super::serve_error::Failure;
use super::settings::config::{Config, Options};
use super::settings::listen_addr::parse_unix;
use super::system_users::{SystemUser, user};
use super::{log, print_error};
use crate::base::limits::REQUEST_BYTES_CEILING;
use crate::journal::SyncMode;
use crate::model::driver::Protocol;
use crate::reactor::{ListenAddress, ignore_signals};
use std::ffi::{OsStr, OsString};
use std::io::{Write as _, stderr, stdout};
use std::net::ToSocketAddrs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;
use tracing::warn;

const USAGE: &str = "\
Usage: beanstalkd [OPTIONS]

jobcentre in place of beanstalkd: its protocol, and no other.

Options:
  -b DIR    keep jobs in this data directory, made if need be; without it they
            live in memory
  -f MS     sync to the disk at most once every MS milliseconds (default 50);
            0: before each answer
  -F        never sync: the system writes when it thinks fit
  -l ADDR   listen on this host, or on unix:PATH[,mode=0660][,group=NAME]
            (default 0.0.0.0)
  -p PORT   listen on this port (default 11300)
  -u USER   become this user and its group
  -z BYTES  the longest body of a job (default 65535, at most 1073741824)
  -s BYTES, -n, -c
            accepted, without effect
  -v        show the version
  -V        log more; twice, still more
  -h        show this help
";

/// beanstalkd's exit statuses.
const WRONG_USAGE: u8 = 5;
const DATA_FAILED: u8 = 10;
const USER_FAILED: u8 = 33;
const LISTEN_FAILED: u8 = 111;

const DEFAULT_PORT: &str = "11300";
const DEFAULT_SYNC: SyncMode = SyncMode::Every(Duration::from_millis(50));

/// What the flags say.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Flags {
    data: Option<PathBuf>,
    sync: SyncMode,
    host: String,
    port: String,
    user: Option<String>,
    body_max: usize,
    /// Flags that are accepted without effect.
    without_effect: Vec<char>,
    verbosity: usize,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Parsed {
    Run(Flags),
    ShowHelp,
    ShowVersion,
}

impl Default for Flags {
    fn default() -> Self {
        Self {
            data: None,
            sync: DEFAULT_SYNC,
            host: "0.0.0.0".to_owned(),
            port: DEFAULT_PORT.to_owned(),
            user: None,
            body_max: crate::base::limits::BODY_BYTES_DEFAULT,
            without_effect: Vec::new(),
            verbosity: 0,
        }
    }
}

/// Whether the program was called by beanstalkd's name.
pub(super) fn is_name(program: &OsStr) -> bool {
    Path::new(program).file_name() == Some(OsStr::new("beanstalkd"))
}

/// Runs the program with these arguments, without its name.
pub(super) fn run(arguments: &[OsString]) -> ExitCode {
    match parse(arguments) {
        // A closed stdout is ignored.
        Ok(Parsed::ShowHelp) => drop(stdout().write_all(USAGE.as_bytes())),
        Ok(Parsed::ShowVersion) => {
            drop(writeln!(stdout(), "jobcentre {}", env!("CARGO_PKG_VERSION")));
        }
        Ok(Parsed::Run(flags)) => return serve(&flags, arguments),
        Err(why) => {
            print_error(why);
            let _ = write!(stderr(), "\n{USAGE}");
            return ExitCode::from(WRONG_USAGE);
        }
    }
    ExitCode::SUCCESS
}

/// Reads the flags, in their order: the first that asks for help or the version ends it.
fn parse(arguments: &[OsString]) -> Result<Parsed, String> {
    let mut flags = Flags::default();
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        if argument == "--help" {
            return Ok(Parsed::ShowHelp);
        }
        let letters = match argument.as_bytes() {
            [b'-', letters @ ..] if !letters.is_empty() => letters,
            _ => return Err(format!("unknown argument: {}", argument.to_string_lossy())),
        };
        let mut place = 0;
        while let Some(&letter) = letters.get(place) {
            place += 1;
            match letter {
                b'h' => return Ok(Parsed::ShowHelp),
                b'v' => return Ok(Parsed::ShowVersion),
                b'V' => flags.verbosity += 1,
                b'F' => flags.sync = SyncMode::Never,
                b'n' | b'c' => flags.without_effect.push(char::from(letter)),
                b'b' | b'f' | b'l' | b'p' | b'u' | b'z' | b's' => {
                    let rest = &letters[place..];
                    let value = if rest.is_empty() {
                        arguments.next().cloned()
                    } else {
                        Some(OsString::from_vec(rest.to_vec()))
                    };
                    let letter = char::from(letter);
                    let value =
                        value.ok_or_else(|| format!("flag requires an argument: -{letter}"))?;
                    flags.set(letter, value)?;
                    break;
                }
                _ => return Err(format!("unknown flag: -{}", letter.escape_ascii())),
            }
        }
    }
    Ok(Parsed::Run(flags))
}

impl Flags {
    /// Takes the value of a flag.
    fn set(&mut self, flag: char, value: OsString) -> Result<(), String> {
        if flag == 'b' {
            self.data = Some(value.into());
            return Ok(());
        }
        let text = value
            .into_string()
            .map_err(|value| format!("-{flag} {}: this is no UTF-8", value.to_string_lossy()))?;
        let number = || {
            let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            // More than a number of 64 bits is as good as the largest one.
            let number = || text.parse::<u64>().unwrap_or(u64::MAX);
            is_number.then(number).ok_or_else(|| format!("invalid size: {text} (-{flag})"))
        };
        match flag {
            'f' => {
                self.sync = match number()? {
                    0 => SyncMode::Always,
                    ms => SyncMode::Every(Duration::from_millis(ms.min(3_600_000))),
                };
            }
            'l' => self.host = text,
            'p' => self.port = text,
            'u' => self.user = Some(text),
            'z' => {
                let bytes = usize::try_from(number()?).unwrap_or(usize::MAX);
                self.body_max = bytes.min(REQUEST_BYTES_CEILING);
            }
            _ => {
                number()?;
                self.without_effect.push(flag);
            }
        }
        Ok(())
    }

    /// Where to listen.
    fn address(&self) -> Result<ListenAddress, String> {
        if let Some(rest) = self.host.strip_prefix("unix:") {
            return parse_unix(rest).map(ListenAddress::Unix);
        }
        let port: u16 =
            self.port.parse().map_err(|_| format!("'{}' is no port (-p)", self.port))?;
        let found = (self.host.as_str(), port).to_socket_addrs();
        let mut found = found.map_err(|error| format!("{}: {error} (-l)", self.host))?;
        let none = || format!("{}: no address has this name (-l)", self.host);
        found.next().map(ListenAddress::Tcp).ok_or_else(none)
    }

    /// The settings of the server: only these, no variables and no file.
    fn config(&self, address: ListenAddress) -> Config {
        let level = match self.verbosity {
            0 => log::Level::Warn,
            1 => log::Level::Info,
            _ => log::Level::Debug,
        };
        let config = Options::default().complete();
        Config {
            protocols: vec![(Protocol::Beanstalkd, address)],
            data: self.data.clone(),
            fsync: self.sync,
            max_request: config.max_request.max(self.body_max),
            beanstalkd_max_job_size: self.body_max,
            log_level: level,
            as_beanstalkd: true,
            ..config
        }
    }
}

fn serve(flags: &Flags, arguments: &[OsString]) -> ExitCode {
    if let Some(name) = &flags.user
        && let Err(why) = become_user(name, arguments)
    {
        print_error(why);
        return ExitCode::from(USER_FAILED);
    }
    let address = match flags.address() {
        Ok(address) => address,
        Err(why) => {
            print_error(why);
            return ExitCode::from(LISTEN_FAILED);
        }
    };
    if let Some(why) = flags.data.as_deref().and_then(holds_a_binlog) {
        print_error(why);
        return ExitCode::from(DATA_FAILED);
    }
    let config = flags.config(address);
    log::start(config.log_format, config.log_level);
    for flag in &flags.without_effect {
        warn!(
            "-{flag} is accepted, and without effect: segments and compaction of the journal \
               have no settings"
        );
    }
    if let Err(error) = ignore_signals() {
        warn!(%error, "SIGHUP, SIGUSR1, SIGUSR2 and SIGALRM would end this server");
    }
    match run_server(&config, None) {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::Data) => ExitCode::from(DATA_FAILED),
        Err(Failure::Listen) => ExitCode::from(LISTEN_FAILED),
        Err(Failure::Other) => ExitCode::FAILURE,
    }
}

/// What to do if a beanstalkd has left its jobs in the directory: they would not be served.
fn holds_a_binlog(dir: &Path) -> Option<String> {
    let entries = std::fs::read_dir(dir).ok()?;
    let mut names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let binlog = names.find(|name| name.starts_with("binlog."))?;
    let dir = dir.display();
    Some(format!(
        "{dir} holds the binlog of a beanstalkd ({binlog}), whose jobs would not be served. Move \
         it elsewhere, or give another directory, and import the jobs: jobcentre import-binlog \
         BINLOG_DIR --data DIR"
    ))
}

/// Begins again as this user, unless it is this user already. Returns only if nothing is to be
/// done, or it fails.
fn become_user(name: &str, arguments: &[OsString]) -> Result<(), String> {
    let failed = |error: &dyn std::fmt::Display| format!("cannot become user '{name}': {error}");
    let SystemUser { uid, gid } = user(name)?;
    if rustix::process::geteuid().as_raw() == uid && rustix::process::getuid().as_raw() == uid {
        return Ok(());
    }
    let program = std::env::current_exe().map_err(|error| failed(&error))?;
    // Groups, group and user are set between both programs, while it has one thread.
    let mut command = Command::new(program);
    command.arg0("beanstalkd").args(arguments).uid(uid).gid(gid);
    Err(failed(&command.exec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(arguments: &[&str]) -> Result<Parsed, String> {
        parse(&arguments.iter().map(OsString::from).collect::<Vec<_>>())
    }

    fn flags(arguments: &[&str]) -> Flags {
        match parsed(arguments) {
            Ok(Parsed::Run(flags)) => flags,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn flags_are_read_as_beanstalkd_reads_them() {
        assert_eq!(flags(&[]), Flags::default());
        let all = flags(&[
            "-b", "dir", "-f0", "-l", "::1", "-p1", "-u", "daemon", "-cVz10", "-ns", "8", "-V",
        ]);
        let expected = Flags {
            data: Some(PathBuf::from("dir")),
            sync: SyncMode::Always,
            host: "::1".to_owned(),
            port: "1".to_owned(),
            user: Some("daemon".to_owned()),
            body_max: 10,
            without_effect: vec!['c', 'n', 's'],
            verbosity: 2,
        };
        assert_eq!(all, expected);
        assert_eq!(flags(&["-f", "7"]).sync, SyncMode::Every(Duration::from_millis(7)));
        assert_eq!(flags(&["-f0", "-F"]).sync, SyncMode::Never);
        assert_eq!(flags(&["-z", "99999999999999999999"]).body_max, REQUEST_BYTES_CEILING);
        for help in [&["-h"][..], &["--help"], &["-Vh", "extra"]] {
            assert_eq!(parsed(help), Ok(Parsed::ShowHelp));
        }
        assert_eq!(parsed(&["-v"]), Ok(Parsed::ShowVersion));
    }

    #[test]
    fn wrong_arguments_are_named() {
        for (arguments, part) in [
            (&["-x"][..], "unknown flag: -x"),
            (&["-V-"], "unknown flag: --"),
            (&["-"], "unknown argument: -"),
            (&["11300"], "unknown argument: 11300"),
            (&["-f"], "requires an argument: -f"),
            (&["-f", "x"], "invalid size: x"),
            (&["-f", "-1"], "invalid size: -1"),
            (&["-z", ""], "invalid size: "),
            (&["-s1k"], "invalid size: 1k (-s)"),
        ] {
            let error = parsed(arguments).unwrap_err();
            assert!(error.contains(part), "{arguments:?}: {error}");
        }
    }

    #[test]
    fn address_is_that_of_host_and_port_or_a_file() {
        let address = |arguments: &[&str]| flags(arguments).address().map(|at| at.to_string());
        assert_eq!(address(&[]), Ok("0.0.0.0:11300".to_owned()));
        assert_eq!(address(&["-l", "127.0.0.1", "-p", "7"]), Ok("127.0.0.1:7".to_owned()));
        assert_eq!(address(&["-l", "unix:/a", "-p", "7"]), Ok("unix:/a".to_owned()));
        for wrong in [["-p", "70000"], ["-p", "abc"], ["-l", "no such host"], ["-l", "unix:"]] {
            address(&wrong).unwrap_err();
        }
    }

    #[test]
    fn longest_body_raises_the_limit_on_requests() {
        let config = |arguments: &[&str]| {
            let flags = flags(arguments);
            flags.config(flags.address().unwrap())
        };
        let usual = config(&[]);
        assert_eq!((usual.beanstalkd_max_job_size, usual.max_request), (65_535, 1 << 20));
        let large = config(&["-z", "1073741825"]);
        assert_eq!((large.beanstalkd_max_job_size, large.max_request), (1 << 30, 1 << 30));
        assert_eq!(large.protocols.len(), 1);
    }
}
