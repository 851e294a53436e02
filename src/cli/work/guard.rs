//! The guard: a process between a worker and the command of a job. No process of the command
//! outlives the worker, also if the worker is killed by `kill -9`.
//!
//! It is this program with the hidden command `guard`, as the leader of a process group. It starts
//! the command in its group, closes its own copies of the standard streams, and exits as the
//! command does: with its exit status, or by the same signal. When the worker has ended it kills
//! the group, itself included. `PR_SET_PDEATHSIG` could not do that: the signal is sent to the
//! command alone, not to its children, and when the thread that started it ends.

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

/// Exit statuses of shells for a command that cannot be run, or does not exist.
const CANNOT_RUN: u8 = 126;
const NOT_FOUND: u8 = 127;

/// This program, also if its file was moved or deleted.
const THIS_PROGRAM: &str = "/proc/self/exe";

/// The interval in which the parent is checked where there is no pidfd.
const POLL_SECONDS: i64 = 1;

/// Signals that the command may send to its whole group: they must not end its guard. A handler is
/// reset in the command by `exec`; an ignored signal would stay ignored.
const CAUGHT_SIGNALS: [i32; 9] =
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

/// The guard of a command, to be started as a child of this process.
///
/// # Errors
/// The path of this program is unknown.
pub(super) fn command(command: &[OsString]) -> io::Result<Command> {
    let this = Path::new(THIS_PROGRAM);
    let mut guard =
        if this.exists() { Command::new(this) } else { Command::new(std::env::current_exe()?) };
    guard.arg0("jobcentre").args(["guard", &getpid().as_raw_nonzero().to_string(), "--"]);
    guard.args(command);
    Ok(guard)
}

impl Guard {
    /// Runs the command until it or the worker ends.
    pub(in crate::cli) fn run(self) -> ExitCode {
        let worker = Pid::from_raw(self.worker);
        let Some(worker) = worker.filter(|&worker| getppid() == Some(worker)) else {
            return reject("the worker is gone (this command is for jobcentre work alone)");
        };
        if getpgrp() != getpid() {
            return reject("a guard leads a process group (this command is for jobcentre work)");
        }
        // The name in process lists.
        let _ = fs::write("/proc/self/comm", "jobcentre-guard");
        match start(worker, &self.command) {
            Ok(status) => exit_like(status),
            Err(error) => {
                let _ = writeln!(stderr(), "the command cannot be run: {error}");
                let missing = error.kind() == ErrorKind::NotFound;
                ExitCode::from(if missing { NOT_FOUND } else { CANNOT_RUN })
            }
        }
    }
}

fn reject(why: &str) -> ExitCode {
    crate::cli::print_error(why);
    ExitCode::from(CANNOT_RUN)
}

fn start(worker: Pid, command: &[OsString]) -> io::Result<ExitStatus> {
    let Some((program, arguments)) = command.split_first() else {
        return Err(ErrorKind::NotFound.into());
    };
    for signal in CAUGHT_SIGNALS {
        flag::register(signal, Arc::default())?;
    }
    thread::Builder::new().name("guard".to_owned()).spawn(move || {
        wait_for_worker_end(worker);
        let _ = kill_process_group(getpid(), Signal::KILL);
    })?;
    let mut child = Command::new(program).args(arguments).spawn()?;
    // The worker sees the end of a stream only when no copy is open.
    if let Ok(null) = File::options().read(true).write(true).open("/dev/null") {
        let _ = dup2_stdin(&null);
        let _ = dup2_stdout(&null);
        let _ = dup2_stderr(&null);
    }
    child.wait()
}

/// Returns when the worker is no longer the parent.
fn wait_for_worker_end(worker: Pid) {
    #[cfg(target_os = "linux")]
    {
        use rustix::event::{PollFd, PollFlags};
        use rustix::process::{PidfdFlags, pidfd_open};

        // The process id cannot be reused while the worker is the parent.
        if let Ok(alive) = pidfd_open(worker, PidfdFlags::empty()) {
            while getppid() == Some(worker) {
                let _ = poll(&mut [PollFd::new(&alive, PollFlags::IN)], None);
            }
        }
    }
    let pause = Timespec { tv_sec: POLL_SECONDS, tv_nsec: 0 };
    while getppid() == Some(worker) {
        let _ = poll(&mut [], Some(&pause));
    }
}

/// Ends this process with the exit status or signal of another one.
fn exit_like(status: ExitStatus) -> ExitCode {
    let Some(signal) = status.signal() else {
        return ExitCode::from(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1));
    };
    // A core dump of the command may be useful, one of the guard is not.
    #[cfg(target_os = "linux")]
    let _ = rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable);
    let _ = low_level::emulate_default_handler(signal);
    // An unknown signal: the exit status by which shells report it.
    ExitCode::from(u8::try_from(128 + signal).unwrap_or(CANNOT_RUN))
}
