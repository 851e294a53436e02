//! The guard: a process between a worker and the command of a job, so that nothing of the command
//! outlives the worker, however that ends (`kill -9` too).
//!
//! It is this program, started anew with the hidden command `guard`, as the leader of a process
//! group. It starts the command in its group, gives away the streams that it was given, and ends as
//! the command does: with its exit status, or by the same signal. When the worker is gone it kills
//! the group, itself included. A signal at the parent's death (`PR_SET_PDEATHSIG`) could not do
//! that: it is sent to the command alone, not to what the command has started, at the death of the
//! thread that started it.

use clap::Args;
use rustix::event::{Timespec, poll};
use rustix::process::{Pid, Signal, getpgrp, getpid, getppid, kill_process_group};
use rustix::stdio::{dup2_stderr, dup2_stdin, dup2_stdout};
use signal_hook::consts::{
    SIGALRM, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGVTALRM, SIGXCPU,
};
use signal_hook::{flag, low_level};
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Write as _, stderr};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::Path;
use std::process::{Command, ExitCode, ExitStatus};
use std::sync::Arc;
use std::thread;

/// Statuses by which shells say that a command cannot be run, or is not there.
const CANNOT_RUN: u8 = 126;
const NOT_FOUND: u8 = 127;

/// The program that runs, whatever has become of its file.
const THIS_PROGRAM: &str = "/proc/self/exe";

/// How often it is looked whether the worker is still there, if the system does not tell.
const LOOK_SECONDS: i64 = 1;

/// Signals that the command may send to its whole group: they are not meant for its guard. What has
/// a handler here has none in the command.
const OTHERS: [i32; 9] =
    [SIGALRM, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGVTALRM, SIGXCPU];

/// The arguments of the hidden command.
#[derive(Args, Debug)]
pub(in crate::cli) struct Guard {
    /// The process id of the worker.
    worker: i32,

    /// The command, and its arguments.
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

/// A guard that is to run a command, as a child of this process.
///
/// # Errors
/// If the system does not say where this program is.
pub(super) fn command(command: &[OsString]) -> io::Result<Command> {
    let this = Path::new(THIS_PROGRAM);
    let mut guard =
        if this.exists() { Command::new(this) } else { Command::new(std::env::current_exe()?) };
    guard.arg0("jobcentre").args(["guard", &getpid().as_raw_nonzero().to_string(), "--"]);
    guard.args(command);
    Ok(guard)
}

impl Guard {
    /// Runs the command to its end, or to the worker's.
    pub(in crate::cli) fn run(self) -> ExitCode {
        let worker = Pid::from_raw(self.worker);
        let Some(worker) = worker.filter(|&worker| getppid() == Some(worker)) else {
            return refuse("the worker is gone (this command is for jobcentre work alone)");
        };
        if getpgrp() != getpid() {
            return refuse("a guard leads a process group (this command is for jobcentre work)");
        }
        // How it is listed; nothing depends on it.
        let _ = fs::write("/proc/self/comm", "jobcentre-guard");
        match start(worker, &self.command) {
            Ok(status) => end_as(status),
            Err(error) => {
                let _ = writeln!(stderr(), "the command cannot be run: {error}");
                let missing = error.kind() == ErrorKind::NotFound;
                ExitCode::from(if missing { NOT_FOUND } else { CANNOT_RUN })
            }
        }
    }
}

fn refuse(why: &str) -> ExitCode {
    crate::cli::complain(why);
    ExitCode::from(CANNOT_RUN)
}

fn start(worker: Pid, command: &[OsString]) -> io::Result<ExitStatus> {
    let Some((program, arguments)) = command.split_first() else {
        return Err(ErrorKind::NotFound.into());
    };
    for signal in OTHERS {
        flag::register(signal, Arc::default())?;
    }
    thread::Builder::new().name("guard".to_owned()).spawn(move || {
        await_end(worker);
        let _ = kill_process_group(getpid(), Signal::KILL);
    })?;
    let mut child = Command::new(program).args(arguments).spawn()?;
    // The worker has to see when the command closes its streams.
    if let Ok(nothing) = File::options().read(true).write(true).open("/dev/null") {
        let _ = dup2_stdin(&nothing);
        let _ = dup2_stdout(&nothing);
        let _ = dup2_stderr(&nothing);
    }
    child.wait()
}

/// Returns when the parent is not the worker any more.
fn await_end(worker: Pid) {
    #[cfg(target_os = "linux")]
    {
        use rustix::event::{PollFd, PollFlags};
        use rustix::process::{PidfdFlags, pidfd_open};

        // The number is the worker's as long as it is the parent.
        if let Ok(alive) = pidfd_open(worker, PidfdFlags::empty()) {
            while getppid() == Some(worker) {
                let _ = poll(&mut [PollFd::new(&alive, PollFlags::IN)], None);
            }
        }
    }
    let pause = Timespec { tv_sec: LOOK_SECONDS, tv_nsec: 0 };
    while getppid() == Some(worker) {
        let _ = poll(&mut [], Some(&pause));
    }
}

/// Ends this process as another one has ended.
fn end_as(status: ExitStatus) -> ExitCode {
    let Some(signal) = status.signal() else {
        return ExitCode::from(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1));
    };
    // The command's memory may be worth a file, this one's is not.
    #[cfg(target_os = "linux")]
    let _ = rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable);
    let _ = low_level::emulate_default_handler(signal);
    // A signal that is not known here: as shells say it.
    ExitCode::from(u8::try_from(128 + signal).unwrap_or(CANNOT_RUN))
}
