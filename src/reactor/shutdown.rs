//! Graceful shutdown, requested by a signal or by the end of stdin or stdout.
//!
//! Each connection is read once more, up to [`READ_BUDGET_BYTES`] bytes (stdin up to
//! [`STDIN_AT_SHUTDOWN_MAX_BYTES`]; its remaining input is lost), and then no more: so the work is
//! bounded. Its requests are answered and flushed, its sending side is shut down, and it lingers
//! ([`super::linger`]) until its peer ends. The timeout of all this is [`SHUTDOWN_TIMEOUT`], not
//! counting the time in which replies wait for the disk, up to [`SHUTDOWN_DISK_TIMEOUT`]: clients
//! cannot do anything about a slow disk. Then the journal is synced and closed. An engine behind a
//! connection has no longer than the clients: it may be gone.
//!
//! With such an engine a signal first lets another server read everything
//! ([`Link::offer_lead`](crate::model::driver::Link::offer_lead)), while this one serves as before;
//! and the engine is closed once all is answered, though peers linger, so that the other one does
//! not wait for them.
//!
//! [`READ_BUDGET_BYTES`]: crate::base::limits::READ_BUDGET_BYTES
//! [`STDIN_AT_SHUTDOWN_MAX_BYTES`]: crate::base::limits::STDIN_AT_SHUTDOWN_MAX_BYTES

use super::Reactor;
use super::engine_link::LINK;
use super::socket::{self, Socket, Stream};
use crate::base::limits::{SHUTDOWN_DISK_TIMEOUT, SHUTDOWN_TIMEOUT};
use crate::base::time::Mono;
use crate::model::driver::Core;
use mio::Events;
use std::io::{self, ErrorKind};
use std::time::Duration;
use tracing::{info, warn};

/// What the engine's connection has at least for its last words, when clients have taken all time.
const LINK_CLOSE_TIMEOUT_MIN: Duration = Duration::from_secs(1);

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShutdownOutcome {
    /// Every request that was read is answered.
    Graceful {
        /// Bytes received after the shutdown had begun, and discarded.
        unread: u64,
    },
    /// The timeout has passed.
    TimedOut(TimedOut),
    /// A second signal: ended at once.
    Forced,
    /// The lead was lost meanwhile. What was not answered may be done or not.
    LostLead,
}

/// Connections that were cut by the timeout of a graceful shutdown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimedOut {
    /// Clients that had not received all their replies.
    pub clients: usize,
    /// Bytes of replies to them that were not sent.
    pub unsent: usize,
    /// Clients to which everything was sent, and which still sent: the end of it may not have
    /// arrived.
    pub sending: usize,
    /// Outbound connections and dispatchers that had not finished.
    pub calls: usize,
}

/// A graceful shutdown in progress.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shutdown {
    /// Deadline of the clients.
    pub(super) deadline: Mono,
    /// Deadline of the disk.
    disk_deadline: Mono,
    /// Time of the last check, and whether replies waited for the disk then.
    last_check: (Mono, bool),
    /// Totals of [`Lingering`](super::linger::Lingering) at its beginning: bytes discarded,
    /// connections cut.
    before: (u64, usize),
    forced: bool,
    /// The engine was told to close.
    is_closing: bool,
}

/// Result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    Continues,
    Done,
    TimedOut,
    Forced,
}

impl Shutdown {
    fn begin(now: Mono, disk: Duration, before: (u64, usize)) -> Self {
        let (deadline, disk_deadline) = (now.after(SHUTDOWN_TIMEOUT), now.after(disk));
        let (last_check, forced, is_closing) = ((now, false), false, false);
        Self { deadline, disk_deadline, last_check, before, forced, is_closing }
    }

    /// Checks whether the run is over, with `connections` left.
    fn check(&mut self, connections: usize, awaits_disk: bool, now: Mono) -> Progress {
        if self.forced {
            return Progress::Forced;
        }
        if connections == 0 {
            return Progress::Done;
        }
        let (since, waited) = std::mem::replace(&mut self.last_check, (now, awaits_disk));
        if waited {
            // The time in which replies waited for the disk does not count for the clients.
            let later = self.deadline.after(now.until(since));
            self.deadline = later.min(self.disk_deadline);
        }
        if now >= self.deadline && !(awaits_disk && now < self.disk_deadline) {
            return Progress::TimedOut;
        }
        Progress::Continues
    }

    /// When the next check is due at the latest.
    pub(super) fn next(&self, now: Mono) -> Mono {
        if self.deadline > now { self.deadline } else { self.disk_deadline }
    }
}

impl<C: Core> Reactor<C> {
    /// Handles a signal to stop: graceful the first time, at once the second time. A hand-over to
    /// another server is ended by one more.
    pub(super) fn stop_by_signal(&mut self, signal: &str) {
        if let Some(stop) = &mut self.stop {
            // With a hand-over it may be the third one.
            let which = if self.hands_over { "another" } else { "second" };
            warn!(signal, "{which} signal: stopping at once");
            stop.forced = true;
            return;
        }
        let now = self.now;
        if !self.hands_over && self.core.link().is_some_and(|link| link.offer_lead(now)) {
            self.hands_over = true;
            info!(signal, "stopping: handing over to a server that waits, if there is one");
            return;
        }
        let connections = self.core.connections() + self.forwarder.len();
        info!(signal, connections, "stopping: answering and flushing");
        self.begin_stop();
    }

    /// Stops once the server that takes over has read everything, or there is none.
    pub(super) fn advance_hand_over(&mut self) {
        let now = self.now;
        if self.hands_over
            && self.stop.is_none()
            && !self.core.link().is_some_and(|link| link.offers_lead(now))
        {
            let connections = self.core.connections() + self.forwarder.len();
            info!(connections, "stopping: answering and flushing");
            self.begin_stop();
        }
    }

    /// Closes an engine behind a connection once all is answered.
    pub(super) fn close_engine_early(&mut self) {
        let Some(stop) = &mut self.stop else { return };
        if !stop.is_closing && self.core.connections() == 0 && self.core.link().is_some() {
            stop.is_closing = true;
            self.core.handle_close(self.now);
        }
    }

    /// Begins a graceful shutdown, if there is none yet.
    pub(super) fn begin_stop(&mut self) {
        if self.stop.is_some() {
            return;
        }
        let has_link = self.core.link().is_some();
        self.stop = Some(Shutdown::begin(
            self.now.mono,
            if has_link { SHUTDOWN_TIMEOUT } else { SHUTDOWN_DISK_TIMEOUT },
            (self.lingering.discarded(), self.lingering.cut()),
        ));
        self.service_manager.stopping();
        self.listeners.clear();
        self.handshakes.clear();
        self.forwarder.stop();
        self.core.handle_shutdown(self.now);
        // Each connection is read once more; then its input counts as ended.
        for client in self.sockets.clients() {
            let Some(socket) = self.sockets.get_mut(client) else { continue };
            socket.readable = true;
            if let Socket { stream: Stream::Stdio(stdio), .. } = socket {
                stdio.drain_input();
            } else if !self.core.wants_input(client) && !self.core.survives_shutdown(client) {
                // It is stalled: its buffered input is all that is processed.
                self.core.handle_eof(client, self.now);
            }
            self.enqueue(client);
        }
    }

    /// The outcome, if the run is over.
    pub(super) fn ending(&mut self) -> Option<ShutdownOutcome> {
        let stop = self.stop.as_mut()?;
        let connections = self.core.connections() + self.lingering.len() + self.forwarder.len();
        let unread = self.lingering.discarded() - stop.before.0;
        let cut = self.lingering.cut() > stop.before.1;
        match stop.check(connections, self.core.awaits_disk(), self.now.mono) {
            Progress::Continues => None,
            Progress::Done if cut => Some(ShutdownOutcome::TimedOut(self.cut())),
            Progress::Done => Some(ShutdownOutcome::Graceful { unread }),
            Progress::TimedOut => Some(ShutdownOutcome::TimedOut(self.cut())),
            Progress::Forced => Some(ShutdownOutcome::Forced),
        }
    }

    /// Whether a graceful shutdown has begun.
    #[must_use]
    pub fn is_stopping(&self) -> bool {
        self.stop.is_some()
    }

    /// Counts of the connections that are cut. O(connections).
    fn cut(&self) -> TimedOut {
        let clients = self.sockets.clients().into_iter();
        let calls = self.core.calls();
        let before = self.stop.map_or(0, |stop| stop.before.1);
        TimedOut {
            clients: self.core.connections().saturating_sub(calls) + self.forwarder.len(),
            unsent: clients.map(|client| self.core.output(client).len()).sum(),
            sending: self.lingering.len() + self.lingering.cut() - before,
            calls,
        }
    }

    /// Runs passes until the journal is durable and closed. Sockets are not served any more. False
    /// if a second signal has ended it.
    pub(super) fn finish(&mut self, events: &mut Events) -> io::Result<bool> {
        if !self.stop.is_some_and(|stop| stop.is_closing) {
            self.core.handle_close(self.now);
        }
        let mut deadline = self.now.mono.after(SHUTDOWN_DISK_TIMEOUT);
        let mut warn_at = Some(self.now.mono.after(SHUTDOWN_TIMEOUT));
        if self.core.link().is_some() {
            let end = self.stop.map_or(Mono(0), |stop| stop.disk_deadline);
            deadline = end.max(self.now.mono.after(LINK_CLOSE_TIMEOUT_MIN));
            warn_at = None;
        }
        while !self.core.is_closed() {
            if self.now.mono >= deadline {
                let late = self.core.link().map(|link| link.late());
                let late = late.unwrap_or_else(|| {
                    "the disk did not take the last changes in time: they were not answered".into()
                });
                return Err(io::Error::other(late));
            }
            if warn_at.take_if(|at| self.now.mono >= *at).is_some() {
                warn!("the disk is slow: waiting for the last changes, or for another signal");
            }
            let timers = [self.core.poll_timeout(self.now), warn_at];
            let is_due = self.engine_link.is_due().then_some(self.now.mono);
            let timers = timers.into_iter().chain([is_due]);
            let next = timers.flatten().fold(deadline, Mono::min);
            match self.poll.poll(events, Some(next.until(self.now.mono))) {
                Err(error) if error.kind() != ErrorKind::Interrupted => return Err(error),
                _ => self.now = self.clock.sample(),
            }
            self.handle_signals();
            if self.stop.is_some_and(|stop| stop.forced) {
                return Ok(false);
            }
            for event in &*events {
                if socket::client(event.token()) == LINK {
                    self.engine_link.on_event(event);
                }
            }
            self.read_engine_link();
            self.core.finish_pass(self.now);
            self.write_engine_link();
            self.check()?;
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// This many seconds after the beginning.
    fn at(seconds: u64) -> Mono {
        Mono(seconds * 1_000_000_000)
    }

    fn begin() -> Shutdown {
        Shutdown::begin(at(0), SHUTDOWN_DISK_TIMEOUT, (0, 0))
    }

    #[test]
    fn clients_time_out_at_their_deadline() {
        let mut stop = begin();
        assert_eq!(stop.check(2, false, at(4)), Progress::Continues);
        assert_eq!(stop.check(2, false, at(5)), Progress::TimedOut);
        assert_eq!(stop.check(0, false, at(5)), Progress::Done);
    }

    #[test]
    fn time_of_a_slow_disk_extends_the_deadline_of_the_clients() {
        let mut stop = begin();
        assert_eq!(stop.check(1, true, at(1)), Progress::Continues);
        assert_eq!(stop.next(at(1)), at(5));
        assert_eq!(stop.check(1, true, at(20)), Progress::Continues);
        assert_eq!(stop.check(1, false, at(24)), Progress::Continues);
        assert_eq!(stop.next(at(24)), at(28), "1 s before the disk, 23 s of the disk, 4 s left");
        assert_eq!(stop.check(1, false, at(27)), Progress::Continues);
        assert_eq!(stop.check(1, false, at(28)), Progress::TimedOut);
    }

    #[test]
    fn engine_has_no_longer_than_the_clients() {
        let mut stop = Shutdown::begin(at(0), SHUTDOWN_TIMEOUT, (0, 0));
        assert_eq!(stop.check(1, true, at(4)), Progress::Continues);
        assert_eq!(stop.check(1, true, at(5)), Progress::TimedOut);
    }

    #[test]
    fn repeated_short_syncs_extend_the_deadline_by_their_own_time_only() {
        let mut stop = begin();
        let milli = |millis: u64| Mono(millis * 1_000_000);
        let mut now = 0;
        // A sync of 1 ms in every 10 ms.
        while stop.check(1, false, milli(now)) == Progress::Continues {
            assert_eq!(stop.check(1, true, milli(now + 9)), Progress::Continues);
            now += 10;
        }
        assert!((5_500..5_600).contains(&now), "{now}");
    }

    #[test]
    fn hanging_disk_times_out() {
        let mut stop = begin();
        assert_eq!(stop.check(1, true, at(0)), Progress::Continues);
        assert_eq!(stop.check(1, true, at(59)), Progress::Continues);
        assert_eq!(stop.next(at(59)), at(60));
        assert_eq!(stop.check(1, true, at(60)), Progress::TimedOut);
        stop.forced = true;
        assert_eq!(stop.check(1, true, at(1)), Progress::Forced);
    }
}
