//! The end of a run: asked for by a signal, or because stdin or stdout have come to theirs.
//!
//! What was received is answered and flushed, for a time; then what must last is made to last. A
//! disk that is merely slow is waited for longer than a client, as both ends depend on it.

use super::Reactor;
use super::socket::{Socket, Stream};
use crate::base::limits::{DISK_PATIENCE, SHUTDOWN_PATIENCE};
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
    /// Until then the clients may take their answers.
    pub(super) deadline: Mono,
    /// Until then the disk may take what answers wait for.
    disk_deadline: Mono,
    forced: bool,
}

impl Stop {
    fn begin(now: Mono) -> Self {
        let disk_deadline = now.after(DISK_PATIENCE);
        Self { deadline: now.after(SHUTDOWN_PATIENCE), disk_deadline, forced: false }
    }

    /// Whether the run is over, and how, with so many connections.
    fn ending(&mut self, connections: usize, awaits_disk: bool, now: Mono) -> Option<Ending> {
        if self.forced {
            return Some(Ending::Forced);
        }
        if connections == 0 {
            return Some(Ending::Orderly);
        }
        if awaits_disk && now < self.disk_deadline {
            // The clients' time begins when there is something to take.
            self.deadline = now.after(SHUTDOWN_PATIENCE).min(self.disk_deadline);
        }
        (now >= self.deadline).then_some(Ending::Cut(connections))
    }
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
        self.stop = Some(Stop::begin(self.now.mono));
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
    pub(super) fn ending(&mut self) -> Option<Ending> {
        let stop = self.stop.as_mut()?;
        stop.ending(self.core.connections(), self.core.awaits_disk(), self.now.mono)
    }

    /// Passes until everything that must last does. Nobody is connected any more, or is heard.
    /// False if a second signal has ended that.
    pub(super) fn finish(&mut self, events: &mut Events) -> io::Result<bool> {
        self.core.handle_close(self.now);
        let patience = self.now.mono.after(DISK_PATIENCE);
        let mut worry = Some(self.now.mono.after(SHUTDOWN_PATIENCE));
        while !self.core.is_closed() {
            if self.now.mono >= patience {
                let why = "the disk did not take the last changes in time: they were not answered";
                return Err(io::Error::other(why));
            }
            if worry.take_if(|worry| self.now.mono >= *worry).is_some() {
                warn!("the disk is slow: waiting for the last changes, or for another signal");
            }
            let timers = [self.core.poll_timeout(self.now), worry];
            let next = timers.into_iter().flatten().fold(patience, Mono::min);
            match self.poll.poll(events, Some(next.until(self.now.mono))) {
                Err(error) if error.kind() != ErrorKind::Interrupted => return Err(error),
                _ => self.now = self.clock.sample(),
            }
            self.handle_signals();
            if self.stop.is_some_and(|stop| stop.forced) {
                return Ok(false);
            }
            self.core.finish_pass(self.now);
            self.check()?;
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// So many seconds after the beginning.
    fn at(seconds: u64) -> Mono {
        Mono(seconds * 1_000_000_000)
    }

    #[test]
    fn clients_have_their_time_and_no_more() {
        let mut stop = Stop::begin(at(0));
        assert_eq!(stop.ending(2, false, at(4)), None);
        assert_eq!(stop.ending(2, false, at(5)), Some(Ending::Cut(2)));
        assert_eq!(stop.ending(0, false, at(5)), Some(Ending::Orderly));
    }

    #[test]
    fn a_slow_disk_is_waited_for_and_then_its_clients() {
        let mut stop = Stop::begin(at(0));
        assert_eq!(stop.ending(1, true, at(20)), None);
        assert_eq!(stop.ending(1, false, at(24)), None);
        assert_eq!(stop.ending(1, false, at(25)), Some(Ending::Cut(1)));
    }

    #[test]
    fn a_disk_that_hangs_is_not_waited_for_for_ever() {
        let mut stop = Stop::begin(at(0));
        assert_eq!(stop.ending(1, true, at(59)), None);
        assert_eq!(stop.deadline, at(60));
        assert_eq!(stop.ending(1, true, at(60)), Some(Ending::Cut(1)));
        stop.forced = true;
        assert_eq!(stop.ending(1, true, at(1)), Some(Ending::Forced));
    }
}
