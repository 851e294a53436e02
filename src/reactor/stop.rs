//! The end of a run: asked for by a signal, or because stdin or stdout have come to theirs.
//!
//! What was received is answered and flushed, for a time; then what must last is made to last.

use super::Reactor;
use super::socket::{Socket, Stream};
use crate::base::limits::SHUTDOWN_PATIENCE;
use crate::base::time::Mono;
use crate::model::core::Core;
use mio::Events;
use signal_hook::consts::SIGTERM;
use std::io::{self, ErrorKind};
use tracing::{info, warn};

/// How a run came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// All that was received is answered.
    Orderly,
    /// So many connections did not take their answers in time and were cut.
    Cut(usize),
    /// A second signal: at once.
    Forced,
}

/// An orderly stop under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stop {
    pub(super) deadline: Mono,
    forced: bool,
}

impl<C: Core> Reactor<C> {
    pub(super) fn handle_signals(&mut self) {
        for signal in self.signals.pending() {
            let signal = if signal == SIGTERM { "SIGTERM" } else { "SIGINT" };
            if let Some(stop) = &mut self.stop {
                warn!(signal, "second signal: stopping at once");
                stop.forced = true;
                continue;
            }
            info!(
                signal,
                connections = self.core.connections(),
                "stopping: answering and flushing"
            );
            self.begin_stop();
        }
    }

    /// Begins an orderly stop, if there is none yet.
    pub(super) fn begin_stop(&mut self) {
        if self.stop.is_some() {
            return;
        }
        self.stop = Some(Stop { deadline: self.now.mono.after(SHUTDOWN_PATIENCE), forced: false });
        self.listeners.clear();
        self.core.handle_stop(self.now);
        // Whatever has arrived is read once more, and then counts as the last.
        for client in self.sockets.clients() {
            if let Some(socket) = self.sockets.get_mut(client) {
                socket.readable = true;
                if let Socket { stream: Stream::Stdio(stdio), .. } = socket {
                    stdio.hear_out();
                }
            }
            self.enqueue(client);
        }
    }

    /// Whether the run is over, and how.
    pub(super) fn ending(&self) -> Option<Ending> {
        let stop = self.stop?;
        let open = self.core.connections();
        if stop.forced {
            Some(Ending::Forced)
        } else if open == 0 {
            Some(Ending::Orderly)
        } else if self.now.mono >= stop.deadline {
            Some(Ending::Cut(open))
        } else {
            None
        }
    }

    /// Passes until everything that must last does. Nobody is connected any more, or is heard.
    pub(super) fn finish(&mut self, events: &mut Events) -> io::Result<()> {
        self.core.handle_close(self.now);
        let patience = self.now.mono.after(SHUTDOWN_PATIENCE);
        while !self.core.is_closed() {
            if self.now.mono >= patience {
                let why = "the disk did not take the last changes in time: they were not answered";
                return Err(io::Error::other(why));
            }
            let next = self.core.poll_timeout(self.now).map_or(patience, |at| at.min(patience));
            match self.poll.poll(events, Some(next.until(self.now.mono))) {
                Err(error) if error.kind() != ErrorKind::Interrupted => return Err(error),
                _ => self.now = self.clock.sample(),
            }
            self.core.finish_pass(self.now);
            self.check()?;
        }
        Ok(())
    }
}
