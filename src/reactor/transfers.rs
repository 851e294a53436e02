//! Reads and writes of a pass.
//!
//! A pass reads until the core has enough for one pass ([`Core::has_budget`]), and writes until
//! [`WRITE_WORK_PER_PASS`] is used up; both end earlier when the pass has taken long
//! ([`READ_TIME_PER_PASS`], [`WRITE_TIME_PER_PASS`]). The rest waits for the next pass, in order.
//! Connections whose last read was cut off, and those whose peers have hung up, which may leave
//! much behind, are *busy*. The others *arrive*, and a pass reads [`ARRIVALS_PER_BUSY_READ`] of
//! them for each busy one: so a client that sends one request waits for other arrivals, not for the
//! clients that always have more input than is read, and neither kind starves. The more connections
//! are busy, or arrive at once, the less is read of each, and least of those that arrive; but where
//! a request is longer than a read, the reads become longer. What is left to be written is written
//! in turn likewise; while arrivals are still to be read, busy connections are written only
//! [`BUSY_WRITE_WORK_PER_PASS`], so that their answers leave together.
//!
//! Invariants: a connection is in at most one of the two queues of reads, and at most once; the
//! same holds for the two queues of writes that were left over.

use super::Reactor;
use super::clock::Clock;
use super::socket::Stream;
use crate::base::limits::{
    ARRIVAL_READ_MIN_BYTES, ARRIVALS_PER_BUSY_READ, ARRIVALS_READ_WHOLE, BUSY_READS_BYTES,
    BUSY_WRITE_WORK_PER_PASS, READ_BUDGET_BYTES, READ_BUDGET_MIN_BYTES, READ_TIME_PER_PASS,
    TURN_WORK, WORK_PER_CLOCK_CHECK, WRITE_TIME_PER_PASS, WRITE_WORK_PER_PASS,
    WRITTEN_BYTES_PER_WORK,
};
use crate::base::time::Mono;
use crate::model::driver::Core;
use crate::model::id::ClientId;
use std::collections::VecDeque;
use std::io::{ErrorKind, Write};
use tracing::debug;

/// Connections that are to be read or written.
#[derive(Debug, Default)]
pub(super) struct Transfers {
    /// Connections that are readable and whose input the core wants.
    arrivals: VecDeque<ClientId>,
    /// The same of busy connections.
    busy: VecDeque<ClientId>,
    /// Connections whose peers have shut down their sending sides, which the core is to be told.
    pub(super) hung_up: VecDeque<ClientId>,
    /// Connections that have become writable, or whose last write was cut off by its budget.
    pub(super) flushable: VecDeque<ClientId>,
    /// Touched connections that the last pass has left to the next one.
    unwritten: VecDeque<ClientId>,
    /// The same, of busy connections.
    unwritten_busy: VecDeque<ClientId>,
}

/// What is read of a connection: of each kind one in turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReadKind {
    HangUp,
    Arrival,
    Busy,
}

impl ReadKind {
    const ALL: [Self; 3] = [Self::HangUp, Self::Arrival, Self::Busy];
}

impl Transfers {
    fn reads(&mut self, kind: ReadKind) -> &mut VecDeque<ClientId> {
        match kind {
            ReadKind::HangUp => &mut self.hung_up,
            ReadKind::Arrival => &mut self.arrivals,
            ReadKind::Busy => &mut self.busy,
        }
    }

    /// Whether anything is to be read or written.
    pub(super) fn is_due(&self) -> bool {
        let reads = !self.arrivals.is_empty() || !self.busy.is_empty() || !self.hung_up.is_empty();
        let writes = !self.unwritten.is_empty() || !self.unwritten_busy.is_empty();
        reads || writes || !self.flushable.is_empty()
    }
}

/// Work of reads, or of writes, in a pass. The clock is read once for each
/// [`WORK_PER_CLOCK_CHECK`].
#[derive(Debug, Default)]
struct PassWork {
    done: usize,
    /// The core's work of the pass, as far as it was looked at.
    core: usize,
    unchecked: usize,
    late: bool,
}

impl PassWork {
    /// Begins where the core's work of the pass has come to `core`.
    fn new(core: usize) -> Self {
        Self { core, ..Self::default() }
    }

    /// Adds the work of a transfer, with which the core's work has come to `core`: a few bytes, or
    /// the end of a connection, may cost the core more than the transfer.
    fn add(&mut self, work: usize, core: usize) {
        debug_assert!(core >= self.core, "the work of a pass grows");
        self.done += work;
        self.unchecked += work.max(core.saturating_sub(self.core));
        self.core = core;
    }

    /// Whether `end` has passed, as far as was looked. O(1).
    fn is_late(&mut self, end: Mono, clock: &mut Clock) -> bool {
        if self.unchecked >= WORK_PER_CLOCK_CHECK {
            self.unchecked = 0;
            self.late = clock.moment() >= end;
        }
        self.late
    }
}

/// Bytes that are read of one arriving and of one busy connection while there are these numbers of
/// them, unless its requests are longer. Arrivals count beyond [`ARRIVALS_READ_WHOLE`]: as a rule
/// each of them has one short request.
fn read_shares(arrivals: usize, busy: usize) -> (usize, usize) {
    let sharing = busy + arrivals.saturating_sub(ARRIVALS_READ_WHOLE);
    let share = (BUSY_READS_BYTES / sharing.max(1)).min(READ_BUDGET_BYTES);
    (share.max(ARRIVAL_READ_MIN_BYTES), share.max(READ_BUDGET_MIN_BYTES))
}

/// Whether a busy connection is read in this round, with these numbers left of each kind.
fn is_turn_of_busy(round: u32, left: [usize; 3]) -> bool {
    left[ReadKind::Arrival as usize] == 0 || round.is_multiple_of(ARRIVALS_PER_BUSY_READ)
}

impl<C: Core> Reactor<C> {
    /// Puts a connection on the run queue if it is readable and the core wants its input.
    pub(super) fn enqueue(&mut self, client: ClientId) {
        let Some(socket) = self.sockets.get_mut(client) else { return };
        if socket.readable && !socket.queued && self.core.wants_input(client) {
            socket.queued = true;
            let transfers = &mut self.transfers;
            let arrives = !socket.busy && !socket.hung_up;
            let queue = if arrives { &mut transfers.arrivals } else { &mut transfers.busy };
            queue.push_back(client);
        }
    }

    /// Reports hang-ups, and reads once from each runnable connection, until the core has enough:
    /// of each kind one in turn, and at least one.
    pub(super) fn read(&mut self) {
        let mut left = ReadKind::ALL.map(|kind| self.transfers.reads(kind).len());
        // In a shutdown each connection is read only once more.
        let [_, arrivals, busy] = left;
        let stops = self.stop.is_some();
        let whole = (READ_BUDGET_BYTES, READ_BUDGET_BYTES);
        let (arrival, busy) = if stops { whole } else { read_shares(arrivals, busy) };
        let end = self.now.mono.after(READ_TIME_PER_PASS);
        let mut work = PassWork::new(self.core.pass_work());
        let mut round = 0;
        while left != [0; 3] {
            round += 1;
            for kind in ReadKind::ALL {
                if kind == ReadKind::Busy && !is_turn_of_busy(round, left) {
                    continue;
                }
                let left = &mut left[kind as usize];
                if *left == 0 {
                    continue;
                }
                *left -= 1;
                let Some(client) = self.transfers.reads(kind).pop_front() else { continue };
                let mut received = 0;
                match kind {
                    ReadKind::HangUp => self.handle_hang_up(client),
                    ReadKind::Arrival => received = self.read_once(client, arrival),
                    ReadKind::Busy => received = self.read_once(client, busy),
                }
                work.add(TURN_WORK + received, self.core.pass_work());
            }
            if !self.core.has_budget() || work.is_late(end, &mut self.clock) {
                return;
            }
        }
    }

    /// Tells the core that the peer of a connection has shut down its sending side, or that a
    /// connection whose end was read is lost.
    fn handle_hang_up(&mut self, client: ClientId) {
        match self.sockets.get_mut(client) {
            None => {}
            Some(socket) if socket.lost => {
                debug!("connection lost behind its end");
                self.sockets.remove(client);
                self.core.handle_reset(client, self.now);
            }
            Some(_) => self.core.handle_peer_closed(client, self.now),
        }
    }

    /// If the connection is still readable, it comes back in `write`. Returns the bytes read.
    fn read_once(&mut self, client: ClientId, share: usize) -> usize {
        let Some(socket) = self.sockets.get_mut(client) else { return 0 };
        socket.queued = false;
        if !socket.readable || !self.core.wants_input(client) {
            return 0;
        }
        let budget = socket.read_budget(share);
        let read = socket.stream.read(&mut self.scratch[..budget]);
        let received = *read.as_ref().unwrap_or(&0);
        if socket.stream.wants_write() {
            self.transfers.flushable.push_back(client);
        }
        match read {
            Ok(0) => {
                socket.readable = false;
                socket.ended = true;
                self.core.handle_eof(client, self.now);
            }
            Ok(count) => {
                // A hang-up has only one edge, and decrypted bytes in the TLS buffer have none; a
                // read of a socket that is a file may end where the bytes of another process
                // begin. Then a short read does not mean that the socket is drained.
                let drained = !socket.hung_up && socket.stream.is_drained();
                socket.busy = count == budget;
                socket.readable = socket.busy || !drained;
                socket.last_read = self.now.mono;
                let more = socket.stream.is_stdio();
                self.core.handle_input(client, &self.scratch[..count], self.now);
                if count == budget
                    && let Some(socket) = self.sockets.get_mut(client)
                {
                    socket.adapt_budget(count, self.core.unconsumed_input(client));
                }
                if !more && self.stop.is_some() && !self.core.survives_shutdown(client) {
                    self.core.handle_eof(client, self.now);
                }
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                socket.readable = false;
                if self.stop.is_some() && !self.core.survives_shutdown(client) {
                    self.core.handle_eof(client, self.now);
                }
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => self.enqueue(client),
            Err(error) if socket.stream.is_stdio() => self.on_stdin_lost(client, &error),
            Err(error) => {
                debug!(%error, "connection lost");
                self.sockets.remove(client);
                self.core.handle_reset(client, self.now);
            }
        }
        received
    }

    /// One write per connection that has output; then it may be put on the run queue again. What
    /// exceeds [`WRITE_WORK_PER_PASS`] is left to the next pass.
    pub(super) fn write(&mut self) {
        let mut work = PassWork::new(self.core.pass_work());
        // A connection that is cut off by its own budget comes back behind these.
        for _ in 0..self.transfers.flushable.len() {
            if !self.may_write(&mut work) {
                break;
            }
            if let Some(client) = self.transfers.flushable.pop_front() {
                work.add(self.flush(client), self.core.pass_work());
            }
        }
        self.write_unwritten(&mut work);
        while let Some(client) = self.core.poll_touched() {
            if self.sockets.get_mut(client).is_none_or(|socket| socket.unwritten) {
                continue;
            }
            if !self.yields_write(client) && self.may_write(&mut work) {
                work.add(self.flush(client), self.core.pass_work());
                self.enqueue(client);
            } else if let Some(socket) = self.sockets.get_mut(client) {
                socket.unwritten = true;
                let (busy, transfers) = (socket.busy, &mut self.transfers);
                let left =
                    if busy { &mut transfers.unwritten_busy } else { &mut transfers.unwritten };
                left.push_back(client);
            }
        }
    }

    /// Whether the write of a touched connection waits because others are still to be read for the
    /// first time. Its answers then leave together. O(1).
    fn yields_write(&mut self, client: ClientId) -> bool {
        !self.transfers.arrivals.is_empty()
            && self.sockets.get_mut(client).is_some_and(|socket| socket.busy)
    }

    /// Whether a pass that has written so much writes more. O(1).
    fn may_write(&mut self, work: &mut PassWork) -> bool {
        let end = self.now.mono.after(WRITE_TIME_PER_PASS);
        work.done < WRITE_WORK_PER_PASS && !work.is_late(end, &mut self.clock)
    }

    /// Writes what earlier passes have left, busy connections in turn with the others; but while
    /// arrivals are to be read, busy ones get [`BUSY_WRITE_WORK_PER_PASS`].
    fn write_unwritten(&mut self, work: &mut PassWork) {
        let arrivals = !self.transfers.arrivals.is_empty();
        let mut busy_left = if arrivals { BUSY_WRITE_WORK_PER_PASS } else { WRITE_WORK_PER_PASS };
        while self.may_write(work) {
            let mut written = false;
            for busy in [false, true] {
                if busy && busy_left == 0 {
                    continue;
                }
                let transfers = &mut self.transfers;
                let left =
                    if busy { &mut transfers.unwritten_busy } else { &mut transfers.unwritten };
                let Some(client) = left.pop_front() else { continue };
                written = true;
                if let Some(socket) = self.sockets.get_mut(client) {
                    socket.unwritten = false;
                    let done = self.flush(client);
                    work.add(done, self.core.pass_work());
                    if busy {
                        busy_left = busy_left.saturating_sub(done);
                    }
                    self.enqueue(client);
                }
            }
            if !written {
                return;
            }
        }
    }

    /// Writes the output of a connection; returns the work.
    fn flush(&mut self, client: ClientId) -> usize {
        let Some(socket) = self.sockets.get_mut(client) else { return 0 };
        if !socket.writable {
            return 0;
        }
        let (Stream::Plain(stream) | Stream::Unix(stream)) = &mut socket.stream else {
            self.flush_other(client);
            return TURN_WORK;
        };
        let output = self.core.output(client);
        if output.is_empty() {
            return 0;
        }
        let written = loop {
            match stream.write(output) {
                // Retried here: no further event would come for it.
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                written => break written,
            }
        };
        let mut work = TURN_WORK;
        match written {
            Ok(count) => {
                socket.writable = count == output.len();
                work += count / WRITTEN_BYTES_PER_WORK;
                self.core.handle_sent(client, count, self.now);
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => socket.writable = false,
            Err(error) => {
                debug!(%error, "connection takes no more output");
                self.core.handle_broken_output(client, self.now);
            }
        }
        work
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrivals_are_read_before_busy_connections_which_are_read_nevertheless() {
        let busy = |arrivals| (1..=64).filter(|&at| is_turn_of_busy(at, [0, arrivals, 9])).count();
        assert_eq!((busy(9), busy(0)), (64 / ARRIVALS_PER_BUSY_READ as usize, 64));
    }

    #[test]
    fn the_more_connections_have_input_the_less_is_read_of_each() {
        for whole in [0, 1, ARRIVALS_READ_WHOLE] {
            assert_eq!(read_shares(whole, 0), (READ_BUDGET_BYTES, READ_BUDGET_BYTES));
            assert_eq!(read_shares(whole, 1), (READ_BUDGET_BYTES, READ_BUDGET_BYTES));
        }
        let many = 16;
        let share = BUSY_READS_BYTES / many;
        assert_eq!(read_shares(0, many), (share, share));
        assert_eq!(read_shares(ARRIVALS_READ_WHOLE + many, 0), (share, share));
        let least = (ARRIVAL_READ_MIN_BYTES, READ_BUDGET_MIN_BYTES);
        assert_eq!(read_shares(0, 100_000), least);
        assert_eq!(read_shares(100_000, 0), least);
    }

    #[test]
    fn clock_is_read_after_much_work_of_the_core_in_few_bytes() {
        let mut clock = Clock::default();
        let over = clock.moment();
        let mut work = PassWork::new(7);
        work.add(1, 8);
        assert!(!work.is_late(over, &mut clock), "the clock is read for each transfer");
        work.add(1, 8 + WORK_PER_CLOCK_CHECK);
        assert!(work.is_late(over, &mut clock), "only transfers count");
        assert_eq!(work.done, 2, "the core's work is not that of transfers");
    }
}
