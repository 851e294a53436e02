//! One run of the command: input, output, timeout.
//!
//! The command is a child of a [`guard`], which leads a process group and exits as the command
//! does. Invariants: the leader is not reaped before the group was killed for the last time, so the
//! id of the group cannot be reused before; when a run or the worker ends, its whole group is
//! killed; at most [`OUTPUT_MAX_BYTES`] of stdout and [`STDERR_MAX_BYTES`] of stderr are kept.

use super::guard;
use super::worker_state::WorkerState;
use crate::base::time::Mono;
use crate::cli::client_token::TOKEN_VARIABLE;
use crate::reactor::Clock;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, ioctl_fionbio};
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitOptions, getpid, kill_process_group, waitid, waitpgid,
};
use std::ffi::OsString;
use std::io::{self, ErrorKind, PipeReader, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, ExitStatus, Stdio};
use std::thread;
use std::time::Duration;

/// The longest result.
pub(super) const OUTPUT_MAX_BYTES: usize = 64 * 1024 * 1024;

/// The last part of stderr that is kept.
const STDERR_MAX_BYTES: usize = 16 * 1024;

/// How long after the command's end other processes of its group may still print.
const PIPES_LINGER: Duration = Duration::from_millis(500);

const READ_BYTES: usize = 64 * 1024;

/// A job as the command sees it.
pub(super) struct Task<'a> {
    pub(super) command: &'a [OsString],
    pub(super) id: &'a str,
    pub(super) name: &'a str,
    /// Enforced here, and given to the command as `JOB_TIMEOUT`.
    pub(super) timeout: Option<Duration>,
    pub(super) input: &'a [u8],
}

/// How a run ended.
#[derive(Debug)]
pub(super) enum ExitReason {
    /// The command ended.
    Exited(ExitStatus),
    /// It took too long and was killed.
    TimedOut,
    /// It printed more than [`OUTPUT_MAX_BYTES`] and was killed.
    OutputTooLarge,
    /// The worker ends, and the command was killed.
    Cancelled,
}

/// The result of a run.
#[derive(Debug)]
pub(super) struct CommandOutput {
    pub(super) end: ExitReason,
    /// Its stdout.
    pub(super) output: Vec<u8>,
    /// The end of its stderr.
    pub(super) stderr_tail: Vec<u8>,
}

/// Runs a command to its end.
///
/// # Errors
/// If it cannot be run.
pub(super) fn run(task: &Task<'_>, state: &WorkerState) -> io::Result<CommandOutput> {
    let mut command = guard::command(task.command)?;
    command.env("JOB_ID", task.id).env("JOB_NAME", task.name).process_group(0);
    // The worker's right to call the server is not that of its commands.
    command.env_remove(TOKEN_VARIABLE);
    match task.timeout {
        Some(time) => command.env("JOB_TIMEOUT", time.as_secs_f64().to_string()),
        None => command.env_remove("JOB_TIMEOUT"),
    };
    let pipes = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = pipes.spawn()?;
    let group = Pid::from_child(&child);
    let started = prepare_pipes(&child, group).map(|ended| Run::new(&mut child, task.input, ended));
    let (end, run) = match started {
        Ok(mut run) => (run.run_to_end(task.timeout, group, state), run),
        Err(error) => {
            kill_group(group);
            child.wait()?;
            reap_group(group);
            return Err(error);
        }
    };
    kill_group(group);
    let status = child.wait()?;
    reap_group(group);
    let Run { output, stderr_tail, .. } = run;
    Ok(CommandOutput { end: end?.unwrap_or(ExitReason::Exited(status)), output, stderr_tail })
}

/// Makes the ends of the pipes non-blocking. Returns a pipe that a thread closes when the command
/// ends.
fn prepare_pipes(child: &Child, group: Pid) -> io::Result<PipeReader> {
    for pipe in [
        child.stdin.as_ref().map(AsFd::as_fd),
        child.stdout.as_ref().map(AsFd::as_fd),
        child.stderr.as_ref().map(AsFd::as_fd),
    ] {
        pipe.map_or(Ok(()), |pipe| ioctl_fionbio(pipe, true))?;
    }
    let (ended, end) = io::pipe()?;
    thread::Builder::new().name("wait".to_owned()).spawn(move || {
        // `NOWAIT`: the process is not reaped, so its id is not reused.
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        while matches!(waitid(WaitId::Pid(group), options), Err(Errno::INTR)) {}
        drop(end);
    })?;
    Ok(ended)
}

fn kill_group(group: Pid) {
    // It fails if the group has no process left.
    let _ = kill_process_group(group, Signal::KILL);
}

/// Reaps the rest of a killed group if this is process 1, as in many containers: it is the parent
/// of all orphans.
fn reap_group(group: Pid) {
    if getpid() == Pid::INIT {
        while let Ok(Some(_)) | Err(Errno::INTR) = waitpgid(group, WaitOptions::empty()) {}
    }
}

/// A running command.
struct Run<'a> {
    /// Readable when the command has ended.
    ended: PipeReader,
    stdin: Option<ChildStdin>,
    stdout: OutputPipe,
    stderr: OutputPipe,
    input: &'a [u8],
    output: Vec<u8>,
    stderr_tail: Vec<u8>,
    scratch: Box<[u8]>,
    clock: Clock,
}

/// A pipe that is read to its end; `None` after that.
type OutputPipe = Option<Box<dyn ReadPipe>>;

trait ReadPipe: Read + AsFd {}

impl<P: Read + AsFd> ReadPipe for P {}

impl<'a> Run<'a> {
    fn new(child: &mut Child, input: &'a [u8], ended: PipeReader) -> Self {
        Self {
            ended,
            stdin: child.stdin.take(),
            stdout: child.stdout.take().map(|pipe| Box::new(pipe) as Box<dyn ReadPipe>),
            stderr: child.stderr.take().map(|pipe| Box::new(pipe) as Box<dyn ReadPipe>),
            input,
            output: Vec::new(),
            stderr_tail: Vec::new(),
            scratch: vec![0; READ_BYTES].into_boxed_slice(),
            clock: Clock::start(),
        }
    }

    /// Reads and writes its pipes until the command has ended, or has to be killed. `None`: it has
    /// ended.
    fn run_to_end(
        &mut self,
        time: Option<Duration>,
        group: Pid,
        state: &WorkerState,
    ) -> io::Result<Option<ExitReason>> {
        let mut deadline = time.map(|time| self.clock.moment().after(time));
        let mut is_lingering = false;
        loop {
            let [ended, cancelled] = self.wait(deadline, is_lingering, state)?;
            self.write_input();
            self.read_output()?;
            let is_late = deadline.is_some_and(|deadline| self.clock.moment() >= deadline);
            if self.output.len() > OUTPUT_MAX_BYTES {
                return Ok(Some(ExitReason::OutputTooLarge));
            }
            if is_lingering || ended {
                if (self.stdout.is_none() && self.stderr.is_none()) || (is_lingering && is_late) {
                    kill_group(group);
                    return self.read_output().map(|()| None);
                }
                if !is_lingering {
                    // All its output is in the pipes; other processes of its group may still hold
                    // them.
                    self.stdin = None;
                    is_lingering = true;
                    deadline = Some(self.clock.moment().after(PIPES_LINGER));
                }
            } else if is_late {
                return Ok(Some(ExitReason::TimedOut));
            }
            if cancelled {
                return Ok(Some(ExitReason::Cancelled));
            }
        }
    }

    /// Waits for an event. Returns whether the command has ended, and whether the worker is ending.
    fn wait(
        &mut self,
        deadline: Option<Mono>,
        is_lingering: bool,
        state: &WorkerState,
    ) -> io::Result<[bool; 2]> {
        let left = deadline.map(|deadline| deadline.until(self.clock.moment()));
        // A duration beyond the range of the system call is no limit.
        let left = left.and_then(|left| Timespec::try_from(left).ok());
        let mut fds = vec![PollFd::new(state.cancelled(), PollFlags::IN)];
        if !is_lingering {
            fds.push(PollFd::new(&self.ended, PollFlags::IN));
        }
        for pipe in [&self.stdout, &self.stderr].into_iter().flatten() {
            fds.push(PollFd::from_borrowed_fd(pipe.as_fd(), PollFlags::IN));
        }
        if let Some(stdin) = &self.stdin {
            fds.push(PollFd::new(stdin, PollFlags::OUT));
        }
        match poll(&mut fds, left.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let has_event = |number: usize| !fds[number].revents().is_empty();
        Ok([!is_lingering && has_event(1), has_event(0)])
    }

    /// Writes input until the pipe is full. A command may close its stdin early.
    fn write_input(&mut self) {
        while let Some(stdin) = &mut self.stdin {
            if self.input.is_empty() {
                self.stdin = None;
                return;
            }
            match stdin.write(self.input) {
                Ok(count) => self.input = &self.input[count..],
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(_) => self.stdin = None,
            }
        }
    }

    /// Reads the available bytes of both pipes.
    fn read_output(&mut self) -> io::Result<()> {
        while self.output.len() <= OUTPUT_MAX_BYTES {
            let Some(bytes) = read(&mut self.stdout, &mut self.scratch)? else { break };
            self.output.extend_from_slice(bytes);
        }
        // At most the capacity of a pipe: endless output does not delay the rest of the loop.
        for _ in 0..16 {
            let Some(bytes) = read(&mut self.stderr, &mut self.scratch)? else { break };
            self.stderr_tail.extend_from_slice(bytes);
            let surplus = self.stderr_tail.len().saturating_sub(STDERR_MAX_BYTES);
            self.stderr_tail.drain(..surplus);
        }
        Ok(())
    }
}

/// Reads once, without blocking. `None`: there is no input, or the pipe has ended and is closed.
fn read<'a>(source: &mut OutputPipe, scratch: &'a mut [u8]) -> io::Result<Option<&'a [u8]>> {
    while let Some(pipe) = source {
        match pipe.read(scratch) {
            Ok(0) => *source = None,
            Ok(count) => return Ok(Some(&scratch[..count])),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}
