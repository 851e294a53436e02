//! The end of a run: asked for by a signal, or because stdin or stdout have come to theirs.
//!
//! Of each connection what has arrived is read once, up to [`READ_BUDGET_BYTES`] bytes (of stdin
//! more: what is left there is lost), and then nothing any more: so what is to be done has an end.
//! It is answered and flushed, the sending side is shut down, and the connection lingers
//! ([`super::linger`]) until its peer ends too. All that has [`SHUTDOWN_TIMEOUT`], not counting the
//! time in which answers wait for the disk: a disk that is merely slow is waited for longer than a
//! client, as both ends depend on it. Then what must last is made to last.
//!
//! [`READ_BUDGET_BYTES`]: crate::base::limits::READ_BUDGET_BYTES

use super::Reactor;
use super::socket::{Socket, Stream};
use crate::base::limits::{SHUTDOWN_DISK_TIMEOUT, SHUTDOWN_TIMEOUT};
use crate::base::time::Mono;
use crate::model::driver::Core;
use mio::Events;
use std::io::{self, ErrorKind};
use tracing::{info, warn};

/// How a run came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShutdownOutcome {
    /// All that was read is answered.
    Graceful {
        /// Bytes that came after the stop had begun, and were thrown away.
        unread: u64,
    },
    /// Time was over.
    TimedOut(TimedOut),
    /// A second signal: at once.
    Forced,
}

/// Connections that an orderly stop has cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimedOut {
    /// Clients that did not take their answers in time ..
    pub clients: usize,
    /// .. and bytes of answers that were made for them and not sent.
    pub unsent: usize,
    /// Clients that were sent everything and went on sending: the end of it may not have arrived.
    pub sending: usize,
    /// Calls to other servers that were under way.
    pub calls: usize,
}

/// An orderly stop under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shutdown {
    /// Until then the clients may take their answers.
    pub(super) deadline: Mono,
    /// Until then the disk may take what answers wait for.
    disk_deadline: Mono,
    /// When it was last looked at, and whether answers waited for the disk then.
    seen: (Mono, bool),
    /// What had been thrown away of other connections before, and how many of them were cut.
    before: (u64, usize),
    forced: bool,
}

/// Whether a run goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    GoesOn,
    Done,
    TimeOver,
    Forced,
}

impl Shutdown {
    fn begin(now: Mono, before: (u64, usize)) -> Self {
        let (deadline, disk_deadline) =
            (now.after(SHUTDOWN_TIMEOUT), now.after(SHUTDOWN_DISK_TIMEOUT));
        Self { deadline, disk_deadline, seen: (now, false), before, forced: false }
    }

    /// Whether the run is over, with so many connections.
    fn judge(&mut self, connections: usize, awaits_disk: bool, now: Mono) -> Verdict {
        if self.forced {
            return Verdict::Forced;
        }
        if connections == 0 {
            return Verdict::Done;
        }
        let (since, waited) = std::mem::replace(&mut self.seen, (now, awaits_disk));
        if waited {
            // The time of the clients goes on while there is something that they could take.
            let later = self.deadline.after(now.until(since));
            self.deadline = later.min(self.disk_deadline);
        }
        if now >= self.deadline && !(awaits_disk && now < self.disk_deadline) {
            return Verdict::TimeOver;
        }
        Verdict::GoesOn
    }

    /// When it is to be looked at again at the latest.
    pub(super) fn next(&self, now: Mono) -> Mono {
        if self.deadline > now { self.deadline } else { self.disk_deadline }
    }
}

impl<C: Core> Reactor<C> {
    /// A signal asks for the end: orderly the first time, at once the second time.
    pub(super) fn stop_by_signal(&mut self, signal: &str) {
        if let Some(stop) = &mut self.stop {
            warn!(signal, "second signal: stopping at once");
            stop.forced = true;
            return;
        }
        let connections = self.core.connections();
        info!(signal, connections, "stopping: answering and flushing");
        self.begin_stop();
    }

    /// Begins an orderly stop, if there is none yet.
    pub(super) fn begin_stop(&mut self) {
        if self.stop.is_some() {
            return;
        }
        self.stop = Some(Shutdown::begin(
            self.now.mono,
            (self.lingering.discarded(), self.lingering.cut()),
        ));
        self.listeners.clear();
        self.core.handle_shutdown(self.now);
        // Whatever has arrived is read once more, and then counts as the last.
        for client in self.sockets.clients() {
            let Some(socket) = self.sockets.get_mut(client) else { continue };
            socket.readable = true;
            if let Socket { stream: Stream::Stdio(stdio), .. } = socket {
                stdio.drain_input();
            } else if !self.core.wants_input(client) && !self.core.survives_shutdown(client) {
                // It has enough to do with what was read before.
                self.core.handle_eof(client, self.now);
            }
            self.enqueue(client);
        }
    }

    /// Whether the run is over, and how.
    pub(super) fn ending(&mut self) -> Option<ShutdownOutcome> {
        let stop = self.stop.as_mut()?;
        let connections = self.core.connections() + self.lingering.len();
        let unread = self.lingering.discarded() - stop.before.0;
        let cut = self.lingering.cut() > stop.before.1;
        match stop.judge(connections, self.core.awaits_disk(), self.now.mono) {
            Verdict::GoesOn => None,
            Verdict::Done if cut => Some(ShutdownOutcome::TimedOut(self.cut())),
            Verdict::Done => Some(ShutdownOutcome::Graceful { unread }),
            Verdict::TimeOver => Some(ShutdownOutcome::TimedOut(self.cut())),
            Verdict::Forced => Some(ShutdownOutcome::Forced),
        }
    }

    /// Who is left. O(connections).
    fn cut(&self) -> TimedOut {
        let clients = self.sockets.clients().into_iter();
        let calls = self.core.calls();
        let before = self.stop.map_or(0, |stop| stop.before.1);
        TimedOut {
            clients: self.core.connections().saturating_sub(calls),
            unsent: clients.map(|client| self.core.output(client).len()).sum(),
            sending: self.lingering.len() + self.lingering.cut() - before,
            calls,
        }
    }

    /// Passes until everything that must last does. Nobody is connected any more, or is heard.
    /// False if a second signal has ended that.
    pub(super) fn finish(&mut self, events: &mut Events) -> io::Result<bool> {
        self.core.handle_close(self.now);
        let patience = self.now.mono.after(SHUTDOWN_DISK_TIMEOUT);
        let mut worry = Some(self.now.mono.after(SHUTDOWN_TIMEOUT));
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

    fn begin() -> Shutdown {
        Shutdown::begin(at(0), (0, 0))
    }

    #[test]
    fn clients_have_their_time_and_no_more() {
        let mut stop = begin();
        assert_eq!(stop.judge(2, false, at(4)), Verdict::GoesOn);
        assert_eq!(stop.judge(2, false, at(5)), Verdict::TimeOver);
        assert_eq!(stop.judge(0, false, at(5)), Verdict::Done);
    }

    #[test]
    fn a_slow_disk_is_waited_for_and_its_time_is_not_that_of_the_clients() {
        let mut stop = begin();
        assert_eq!(stop.judge(1, true, at(1)), Verdict::GoesOn);
        assert_eq!(stop.next(at(1)), at(5));
        assert_eq!(stop.judge(1, true, at(20)), Verdict::GoesOn);
        assert_eq!(stop.judge(1, false, at(24)), Verdict::GoesOn);
        assert_eq!(stop.next(at(24)), at(28), "one second was over before, and 23 were the disk's");
        assert_eq!(stop.judge(1, false, at(27)), Verdict::GoesOn);
        assert_eq!(stop.judge(1, false, at(28)), Verdict::TimeOver);
    }

    #[test]
    fn a_client_that_gives_the_disk_work_again_and_again_gets_no_more_time_than_that_takes() {
        let mut stop = begin();
        let milli = |millis: u64| Mono(millis * 1_000_000);
        let mut now = 0;
        // A sync of 1 ms in every 10 ms.
        while stop.judge(1, false, milli(now)) == Verdict::GoesOn {
            assert_eq!(stop.judge(1, true, milli(now + 9)), Verdict::GoesOn);
            now += 10;
        }
        assert!((5_500..5_600).contains(&now), "{now}");
    }

    #[test]
    fn a_disk_that_hangs_is_not_waited_for_for_ever() {
        let mut stop = begin();
        assert_eq!(stop.judge(1, true, at(0)), Verdict::GoesOn);
        assert_eq!(stop.judge(1, true, at(59)), Verdict::GoesOn);
        assert_eq!(stop.next(at(59)), at(60));
        assert_eq!(stop.judge(1, true, at(60)), Verdict::TimeOver);
        stop.forced = true;
        assert_eq!(stop.judge(1, true, at(1)), Verdict::Forced);
    }
}
