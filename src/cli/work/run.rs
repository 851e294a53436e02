//! One run of the command: its input, its output, its time.
//!
//! The command runs behind a [`guard`], which is the leader of a process group of its own and ends
//! as the command ends. Invariants: the leader is not waited for before the group was killed for
//! the last time, so the group's number cannot be another's; when a run is over, or the worker is
//! gone, all of its group is killed; no more than [`OUTPUT_MAX`] and
//! [`ERRORS_MAX`] of what it prints is kept.

use super::guard;
use super::worker_state::WorkerState;
use crate::base::time::Mono;
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
pub(super) const OUTPUT_MAX: usize = 64 * 1024 * 1024;

/// So much of what was printed last on stderr is kept.
const ERRORS_MAX: usize = 16 * 1024;

/// How long after the command's end somebody of its group may go on printing.
const LINGER: Duration = Duration::from_millis(500);

const PIECE: usize = 64 * 1024;

/// A job as the command sees it.
pub(super) struct Task<'a> {
    pub(super) command: &'a [OsString],
    pub(super) id: &'a str,
    pub(super) name: &'a str,
    /// For the variable `JOB_TIMEOUT`, and to be kept.
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
    /// It printed more than [`OUTPUT_MAX`] and was killed.
    OutputTooLarge,
    /// The worker has come to its end, and the command was killed.
    Cancelled,
}

/// A run that is over.
#[derive(Debug)]
pub(super) struct CommandOutput {
    pub(super) end: ExitReason,
    /// What it printed.
    pub(super) output: Vec<u8>,
    /// The end of what it printed on stderr.
    pub(super) errors: Vec<u8>,
}

/// Runs a command to its end.
///
/// # Errors
/// If it cannot be run.
pub(super) fn run(task: &Task<'_>, desk: &WorkerState) -> io::Result<CommandOutput> {
    let mut command = guard::command(task.command)?;
    command.env("JOB_ID", task.id).env("JOB_NAME", task.name).process_group(0);
    match task.timeout {
        Some(time) => command.env("JOB_TIMEOUT", time.as_secs_f64().to_string()),
        None => command.env_remove("JOB_TIMEOUT"),
    };
    let pipes = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = pipes.spawn()?;
    let group = Pid::from_child(&child);
    let ran = watch(&child, group).map(|ended| Run::new(&mut child, task.input, ended));
    let (end, run) = match ran {
        Ok(mut run) => (run.attend(task.timeout, group, desk), run),
        Err(error) => {
            kill(group);
            child.wait()?;
            adopted(group);
            return Err(error);
        }
    };
    kill(group);
    let status = child.wait()?;
    adopted(group);
    let Run { output, errors, .. } = run;
    Ok(CommandOutput { end: end?.unwrap_or(ExitReason::Exited(status)), output, errors })
}

/// Makes the ends of the pipes that never wait, and a thread that closes a pipe when the command
/// ends.
fn watch(child: &Child, group: Pid) -> io::Result<PipeReader> {
    for pipe in [
        child.stdin.as_ref().map(AsFd::as_fd),
        child.stdout.as_ref().map(AsFd::as_fd),
        child.stderr.as_ref().map(AsFd::as_fd),
    ] {
        pipe.map_or(Ok(()), |pipe| ioctl_fionbio(pipe, true))?;
    }
    let (ended, end) = io::pipe()?;
    thread::Builder::new().name("wait".to_owned()).spawn(move || {
        // It is only looked at: its number stays its own.
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        while matches!(waitid(WaitId::Pid(group), options), Err(Errno::INTR)) {}
        drop(end);
    })?;
    Ok(ended)
}

fn kill(group: Pid) {
    // Nobody may be left.
    let _ = kill_process_group(group, Signal::KILL);
}

/// Waits for what is left of a killed group, if that is for this process to do: as process 1, so in
/// many containers, it is the parent of all that have lost theirs.
fn adopted(group: Pid) {
    if getpid() == Pid::INIT {
        while let Ok(Some(_)) | Err(Errno::INTR) = waitpgid(group, WaitOptions::empty()) {}
    }
}

/// What is going on with a command.
struct Run<'a> {
    /// Readable when it has ended.
    ended: PipeReader,
    stdin: Option<ChildStdin>,
    stdout: Source,
    stderr: Source,
    input: &'a [u8],
    output: Vec<u8>,
    errors: Vec<u8>,
    scratch: Box<[u8]>,
    clock: Clock,
}

/// A pipe that is read until its end.
type Source = Option<Box<dyn Pipe>>;

trait Pipe: Read + AsFd {}

impl<P: Read + AsFd> Pipe for P {}

impl<'a> Run<'a> {
    fn new(child: &mut Child, input: &'a [u8], ended: PipeReader) -> Self {
        Self {
            ended,
            stdin: child.stdin.take(),
            stdout: child.stdout.take().map(|pipe| Box::new(pipe) as Box<dyn Pipe>),
            stderr: child.stderr.take().map(|pipe| Box::new(pipe) as Box<dyn Pipe>),
            input,
            output: Vec::new(),
            errors: Vec::new(),
            scratch: vec![0; PIECE].into_boxed_slice(),
            clock: Clock::start(),
        }
    }

    /// Serves its pipes until it has ended, or has to be ended: `None` is an end of its own.
    fn attend(
        &mut self,
        time: Option<Duration>,
        group: Pid,
        desk: &WorkerState,
    ) -> io::Result<Option<ExitReason>> {
        let mut deadline = time.map(|time| self.clock.moment().after(time));
        let mut lingers = false;
        loop {
            let [ended, halted] = self.wait(deadline, lingers, desk)?;
            self.feed();
            self.listen()?;
            let late = deadline.is_some_and(|deadline| self.clock.moment() >= deadline);
            if self.output.len() > OUTPUT_MAX {
                return Ok(Some(ExitReason::OutputTooLarge));
            }
            if lingers || ended {
                if (self.stdout.is_none() && self.stderr.is_none()) || (lingers && late) {
                    kill(group);
                    return self.listen().map(|()| None);
                }
                if !lingers {
                    // What it has printed is all there; others of its group may have its pipes.
                    self.stdin = None;
                    lingers = true;
                    deadline = Some(self.clock.moment().after(LINGER));
                }
            } else if late {
                return Ok(Some(ExitReason::TimedOut));
            }
            if halted {
                return Ok(Some(ExitReason::Cancelled));
            }
        }
    }

    /// Waits until something can be done; whether the command has ended, and whether the worker is
    /// at its end.
    fn wait(
        &mut self,
        deadline: Option<Mono>,
        lingers: bool,
        desk: &WorkerState,
    ) -> io::Result<[bool; 2]> {
        let left = deadline.map(|deadline| deadline.until(self.clock.moment()));
        // A time that the system cannot say is as good as none.
        let left = left.and_then(|left| Timespec::try_from(left).ok());
        let mut fds = vec![PollFd::new(desk.halted(), PollFlags::IN)];
        if !lingers {
            fds.push(PollFd::new(&self.ended, PollFlags::IN));
        }
        for source in [&self.stdout, &self.stderr].into_iter().flatten() {
            fds.push(PollFd::from_borrowed_fd(source.as_fd(), PollFlags::IN));
        }
        if let Some(stdin) = &self.stdin {
            fds.push(PollFd::new(stdin, PollFlags::OUT));
        }
        match poll(&mut fds, left.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let happened = |number: usize| !fds[number].revents().is_empty();
        Ok([!lingers && happened(1), happened(0)])
    }

    /// Gives the command more of its input, until it takes no more. It need not want it.
    fn feed(&mut self) {
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

    /// Reads what is there, of each pipe.
    fn listen(&mut self) -> io::Result<()> {
        while self.output.len() <= OUTPUT_MAX {
            let Some(bytes) = read(&mut self.stdout, &mut self.scratch)? else { break };
            self.output.extend_from_slice(bytes);
        }
        // As much as a pipe holds: somebody who prints without end does not hold up the rest.
        for _ in 0..16 {
            let Some(bytes) = read(&mut self.stderr, &mut self.scratch)? else { break };
            self.errors.extend_from_slice(bytes);
            let surplus = self.errors.len().saturating_sub(ERRORS_MAX);
            self.errors.drain(..surplus);
        }
        Ok(())
    }
}

/// One piece of what is there; at its end the pipe is closed.
fn read<'a>(source: &mut Source, scratch: &'a mut [u8]) -> io::Result<Option<&'a [u8]>> {
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
