//! Stdin and stdout as one connection of the loop.
//!
//! They are inherited, so they may be anything, and others may use them at the same time: the shell
//! that has started us and reads the same terminal, the other programs of a pipeline. Non-blocking
//! mode would be theirs too, because it belongs to the open file description and not to the
//! descriptor: a shell whose terminal we have left in that mode logs people out, and a `cat` on our
//! pipe fails. Putting it back at the end is no way out: others run while we do, and after `kill
//! -9` nobody puts anything back. So nothing that is inherited is ever changed:
//!
//! - A *pipe* or a *terminal* is opened anew by `/proc/self/fd/N`, which makes a description of our
//!   own. That one does not block, and epoll tells of it.
//! - A *socket* cannot be opened anew, but each of its calls can say that it is not to wait
//!   (`MSG_DONTWAIT`).
//! - Where a pipe or terminal cannot be opened anew (another user's; a system without `/proc`), the
//!   inherited descriptor is asked by `poll` before each call, read only if there is something, and
//!   written at most `PIPE_BUF` bytes at a time, which a pipe that is writable takes at once. What
//!   is left: if somebody else takes those bytes, or that room, in between, or stops the terminal
//!   in the middle of a piece, the loop stands until there are more.
//! - *Files*, `/dev/null` and what else epoll refuses (`EPERM`) are always ready: a piece is read
//!   in each pass, as of every connection, and none behind the end or while the output is not
//!   taken.
//!
//! A closed stdin is `/dev/null` (Rust's runtime sees to that) and thus at its end. Of stdout that
//! would lose what is told, so `end::was_closed` finds it out.
//!
//! Invariants: nothing is set on an inherited description; stdin is read to its end however it was
//! announced, since what an ended writer has left in a pipe is still to be read; output is dropped
//! only when the run ends because nobody can take it, and that is said.
//!
//! When stdin ends and everything is answered and flushed the connection is closed, and with it the
//! run if there is no other protocol. A stdout that takes nothing more ends the run in any case.

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

/// What is wrong with a stdout that cannot be used from the start.
const CLOSED: &str = "it is closed, or open for reading only, or /dev/null opened for both: to \
                      throw everything away on purpose, write >/dev/null";

/// What is wrong with a stdout that nobody takes anything from any more.
const UNREAD: &str = "nobody reads it any more";

/// What the reactor knows of the standard streams apart from their bytes.
#[derive(Debug, Default)]
pub(super) struct State {
    /// Whose streams they are, while they are served.
    client: Option<ClientId>,
    /// Why nothing can be written, found out before the run began.
    closed: Option<&'static str>,
    /// Something could not be read or written.
    pub(super) failed: bool,
}

/// Both streams.
#[derive(Debug)]
pub(super) struct Stdio {
    input: Result<StdioFd, Errno>,
    output: Option<StdioFd>,
    /// What may still be read, once the run is to end: an endless input has an end then.
    left: Option<usize>,
}

impl Stdio {
    /// Reads what there is of stdin, in a stop no more than a pipe holds.
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

    /// Writes to stdout what it takes. Returns how much that is, and whether it would take more.
    fn write(&self, bytes: &[u8]) -> io::Result<(usize, bool)> {
        self.output.as_ref().ok_or(Errno::PIPE)?.write(bytes)
    }

    /// The run is to end: only what has arrived is read.
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
    /// Serves stdin and stdout as one connection of this protocol. To be called before the run.
    ///
    /// # Errors
    /// If the core has no place for it, or the system refuses to watch it.
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

    /// Whether stdin or stdout have failed in the run.
    #[must_use]
    pub fn has_stdio_failed(&self) -> bool {
        self.stdio.failed
    }

    /// What can be said before the first event.
    pub(super) fn begin_stdio(&mut self) {
        if let Some(why) = self.stdio.closed.take() {
            self.on_stdout_lost(&why);
        }
    }

    /// An event of one of the streams.
    #[cold]
    pub(super) fn note_stdio(&mut self, event: &Event) {
        let Some(client) = self.stdio.client else { return };
        let Some(socket) = self.sockets.get_mut(client) else { return };
        if event.token() == STDIN {
            // How it ended is met by reading.
            socket.readable = true;
            return self.enqueue(client);
        }
        // It is registered for writing only, so this is the end of both directions.
        if event.is_error() || event.is_write_closed() {
            return self.on_stdout_lost(&UNREAD);
        }
        if !socket.writable {
            socket.writable = true;
            self.flushable.push(client);
        }
    }

    /// One write to stdout, if these are its streams.
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
                    self.flushable.push(client);
                }
                if count > 0 {
                    self.core.handle_sent(client, count, self.now);
                }
            }
            Err(error) => self.on_stdout_lost(&error),
        }
    }

    /// Nobody takes what is written: there is no sense in going on.
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
            "stdout cannot be written ({why}): nobody would hear what is assigned, so the server \
             stops. Queued jobs are kept if there is a data directory"
        );
        self.core.handle_broken_output(client, self.now);
        self.begin_stop();
    }

    /// Stdin cannot be read: that is its end, and not an orderly one.
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

    /// Lets go of the streams before their client is forgotten.
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
        // Whoever reads our stdout waits for its end, and will hear nothing more.
        let null = open("/dev/null", OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty());
        if let Err(error) = null.and_then(rustix::stdio::dup2_stdout) {
            warn!(%error, "cannot close stdout");
        }
    }
}

const _: () = assert!(READ_BUDGET_BYTES <= STDIN_AT_SHUTDOWN_MAX_BYTES);
