//! Stdin and stdout as one connection of the loop.
//!
//! They are inherited, so they can be any kind of file, and other processes may use them at the
//! same time: the shell that reads the same terminal, other programs of a pipeline. Non-blocking
//! mode belongs to the open file description, not to the descriptor, so it would affect those
//! processes: a shell whose terminal is left non-blocking logs its user out, and a `cat` on the
//! same pipe fails. Restoring it at the end does not help: the others run meanwhile, and `kill -9`
//! prevents it. So inherited descriptions are never changed:
//!
//! - A *pipe* or a *terminal* is reopened through `/proc/self/fd/N`, which creates a description of
//!   our own. That one is non-blocking, and epoll reports its readiness.
//! - A *socket* cannot be reopened, but each call can be non-blocking (`MSG_DONTWAIT`).
//! - Where a pipe or terminal cannot be reopened (another user's; a system without `/proc`), the
//!   inherited descriptor is polled before each call, read only if readable, and written at most
//!   `PIPE_BUF` bytes at a time, which a writable pipe accepts at once. Known limitation: if
//!   another process reads those bytes or fills the pipe between the poll and the call, or stops
//!   the terminal in the middle of a write, the event loop blocks.
//! - *Files*, `/dev/null` and whatever else epoll rejects (`EPERM`) are always ready: each pass
//!   reads once, as of every connection, and not beyond the end or above the high-water mark of the
//!   output.
//!
//! A closed stdin is `/dev/null` (Rust's runtime opens it) and thus at its end. For stdout that
//! would lose the output, so `end::was_closed` detects it.
//!
//! Invariants: nothing is set on an inherited description; stdin is read to its end whatever event
//! announced it, since a writer that has ended may have left data in the pipe; output is dropped
//! only if stdout has failed, which is logged and ends the run.
//!
//! When stdin has ended and everything is answered and flushed, the connection is closed, and the
//! run ends if there is no listener. A failed stdout ends the run in any case.

mod end;

use super::socket::{Socket, Stream};
use super::{Reactor, STDIN, STDOUT};
use crate::base::limits::{READ_BUDGET_BYTES, STDIN_AT_SHUTDOWN_MAX_BYTES};
use crate::model::driver::{Core, Protocol};
use crate::model::id::ClientId;
use end::{Direction, StdioFd};
use mio::event::Event;
use mio::{Interest, Registry};
use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use std::fmt::Display;
use std::io::{self, ErrorKind};
use std::os::fd::AsFd;
use tracing::{error, info, warn};

/// Log text: stdout is unusable from the start.
const CLOSED: &str = "it is closed, or open for reading only, or /dev/null opened for both: to \
                      throw everything away on purpose, write >/dev/null";

/// Log text: the reading end of stdout is closed.
const UNREAD: &str = "its reading end is closed";

/// The reactor's state of the standard streams, apart from their bytes.
#[derive(Debug, Default)]
pub(super) struct State {
    /// Their client, while they are served.
    client: Option<ClientId>,
    /// Why stdout is unusable, if that was detected before the run.
    closed: Option<&'static str>,
    /// A read or write has failed.
    pub(super) failed: bool,
}

#[derive(Debug)]
pub(super) struct Stdio {
    input: Result<StdioFd, Errno>,
    output: Option<StdioFd>,
    /// In a shutdown: bytes that may still be read, so that an endless input ends.
    left: Option<usize>,
}

impl Stdio {
    /// Reads from stdin; in a shutdown [`STDIN_AT_SHUTDOWN_MAX_BYTES`] in total at most.
    pub(super) fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let end = self.input.as_ref().map_err(|&error| error)?;
        let Some(left) = &mut self.left else { return end.read(into) };
        let most = into.len().min(*left);
        if most == 0 {
            return Err(ErrorKind::WouldBlock.into());
        }
        let count = end.read(&mut into[..most])?;
        *left -= count;
        Ok(count)
    }

    /// Writes to stdout. Returns the count of bytes written, and whether it is still writable.
    fn write(&self, bytes: &[u8]) -> io::Result<(usize, bool)> {
        self.output.as_ref().ok_or(Errno::PIPE)?.write(bytes)
    }

    /// Begins the shutdown: only input that has arrived is read.
    pub(super) fn drain_input(&mut self) {
        self.left.get_or_insert(STDIN_AT_SHUTDOWN_MAX_BYTES);
    }

    fn deregister(&mut self, registry: &Registry) {
        for end in [self.input.as_mut().ok(), self.output.as_mut()].into_iter().flatten() {
            end.deregister(registry);
        }
    }
}

impl<C: Core> Reactor<C> {
    /// Serves stdin and stdout as one connection of this protocol. Call it before [`Self::run`].
    ///
    /// # Errors
    /// If the core rejects the connection, or a descriptor cannot be registered with epoll.
    pub fn add_stdio(&mut self, protocol: Protocol) -> io::Result<()> {
        let (stdin, stdout) = (io::stdin(), io::stdout());
        let mut input = StdioFd::open(stdin.as_fd(), Direction::In);
        let mut output = StdioFd::open(stdout.as_fd(), Direction::Out);
        if let Ok(end) = &mut input {
            end.register(self.poll.registry(), STDIN, Interest::READABLE)?;
        }
        if let Ok(end) = &mut output {
            end.register(self.poll.registry(), STDOUT, Interest::WRITABLE)?;
        }
        let Some(client) = self.core.handle_open(protocol, self.now) else {
            return Err(io::Error::other("there is no place for stdin and stdout: --max-clients"));
        };
        let (output, closed) = match output {
            Ok(end) => (Some(end), None),
            Err(Errno::BADF) => (None, Some(CLOSED)),
            Err(_) => (None, Some(UNREAD)),
        };
        let stream = Stream::Stdio(Box::new(Stdio { input, output, left: None }));
        self.sockets.insert(client, Socket::connected(stream, false));
        self.stdio = State { client: Some(client), closed, failed: false };
        info!(protocol = protocol.name(), "reading stdin, writing stdout");
        self.enqueue(client);
        Ok(())
    }

    /// Whether a read of stdin or a write to stdout has failed.
    #[must_use]
    pub fn has_stdio_failed(&self) -> bool {
        self.stdio.failed
    }

    /// Reports an unusable stdout before the first event.
    pub(super) fn begin_stdio(&mut self) {
        if let Some(why) = self.stdio.closed.take() {
            self.on_stdout_lost(&why);
        }
    }

    /// Handles an event of stdin or stdout.
    #[cold]
    pub(super) fn on_stdio_event(&mut self, event: &Event) {
        let Some(client) = self.stdio.client else { return };
        let Some(socket) = self.sockets.get_mut(client) else { return };
        if event.token() == STDIN {
            // Reading will tell whether it has ended or failed.
            socket.readable = true;
            return self.enqueue(client);
        }
        // Registered for writing only, so this is the end of both directions.
        if event.is_error() || event.is_write_closed() {
            return self.on_stdout_lost(&UNREAD);
        }
        if !socket.writable {
            socket.writable = true;
            self.transfers.flushable.push_back(client);
        }
    }

    /// One write to stdout, if the client has the standard streams.
    pub(super) fn flush_stdio(&mut self, client: ClientId) {
        let Some(socket) = self.sockets.get_mut(client) else { return };
        let Stream::Stdio(stdio) = &mut socket.stream else { return };
        let output = self.core.output(client);
        if output.is_empty() {
            return;
        }
        match stdio.write(output) {
            Ok((count, writable)) => {
                socket.writable = writable;
                if writable && count < output.len() {
                    self.transfers.flushable.push_back(client);
                }
                if count > 0 {
                    self.core.handle_sent(client, count, self.now);
                }
            }
            Err(error) => self.on_stdout_lost(&error),
        }
    }

    /// Stdout is unusable: begins the shutdown.
    fn on_stdout_lost(&mut self, why: &dyn Display) {
        let Some(client) = self.stdio.client else { return };
        let Some(socket) = self.sockets.get_mut(client) else { return };
        let Stream::Stdio(stdio) = &mut socket.stream else { return };
        if let Some(mut end) = stdio.output.take() {
            end.deregister(self.poll.registry());
        } else if self.stdio.failed {
            return;
        }
        socket.writable = false;
        self.stdio.failed = true;
        let unsent = self.core.output(client).len();
        error!(
            unsent,
            "stdout cannot be written ({why}): assignments could not be delivered, so the \
             server stops. Queued jobs are kept if there is a data directory"
        );
        self.core.handle_broken_output(client, self.now);
        self.begin_stop();
    }

    /// Stdin cannot be read: treated as its end, and as a failure of the run.
    #[cold]
    pub(super) fn on_stdin_lost(&mut self, client: ClientId, error: &io::Error) {
        if let Some(socket) = self.sockets.get_mut(client) {
            socket.readable = false;
            socket.ended = true;
        }
        self.stdio.failed = true;
        error!("stdin cannot be read ({error}): this is taken as its end");
        self.core.handle_eof(client, self.now);
    }

    /// Deregisters the streams when their client ends.
    pub(super) fn release_stdio(&mut self, client: ClientId) {
        if self.stdio.client != Some(client) {
            return;
        }
        self.stdio.client = None;
        if let Some(Socket { stream: Stream::Stdio(stdio), .. }) = self.sockets.get_mut(client) {
            stdio.deregister(self.poll.registry());
        }
        if self.stop.is_some() {
            return;
        }
        if self.listeners.is_empty() {
            info!("stdin has ended, and all that it said is done: stopping");
            return self.begin_stop();
        }
        info!("stdin has ended, and all that it said is done: the other protocols stay open");
        // Closes our end of stdout, so that its reader gets the end of file.
        let null = open("/dev/null", OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty());
        if let Err(error) = null.and_then(rustix::stdio::dup2_stdout) {
            warn!(%error, "cannot close stdout");
        }
    }
}

const _: () = assert!(READ_BUDGET_BYTES <= STDIN_AT_SHUTDOWN_MAX_BYTES);
