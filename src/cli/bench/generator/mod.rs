//! The load generator: one thread, one epoll, every connection served in turn.
//!
//! A connection that has something to say gets one read into the shared buffer, all replies in it
//! are checked, and what follows from them goes out in one write. Latency runs from just before the
//! requests are written (at a fixed rate: from when they should have been) to just after the read
//! that brought the reply.

mod replies;
mod stop;

use super::args::{BenchPlan, RunLength, Workload};
use super::clock::{Clock, float, nanos};
use super::connection::{self, Connection, InFlight};
use super::content::Content;
use super::interrupts::Interrupts;
use super::job_tracker::JobTracker;
use super::phase::{Phase, PhaseKind, RateSchedule, Step};
use super::protocols::{Codec, Request};
use super::window::{MeasurementWindow, Snapshot};
use crate::cli::progress::Progress;
use mio::{Events, Poll, Token};
use std::collections::VecDeque;
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

const SCRATCH: usize = 64 * 1024;
const EVENTS: usize = 1024;
/// Requests in flight on a connection while jobs are put before or taken away after measuring.
const UNMEASURED_DEPTH: usize = 16;
/// The loop looks up at least this often.
const LOOK_UP: Duration = Duration::from_millis(100);
/// epoll counts in milliseconds: what is due sooner than this is waited for awake.
const SPIN_NANOS: u64 = 2_000_000;
/// The order of jobs is checked if there are at most so many queues.
const ORDERED_QUEUES_MAX: u64 = 64;

/// The generator, connected.
pub(super) struct Generator<'a> {
    plan: &'a BenchPlan,
    pub(super) clock: Clock,
    poll: Poll,
    wire: Codec,
    /// Those that put and take, then those that wait.
    connections: Vec<Connection>,
    /// Those that do nothing.
    idle: Vec<TcpStream>,
    pub(super) ledger: JobTracker,
    pub(super) window: MeasurementWindow,
    /// Before anything was connected, and before anything was put.
    pub(super) unconnected: Snapshot,
    pub(super) connected: Snapshot,
    phase: Phase,
    /// Tokens that are not in flight, by connection.
    free: VecDeque<(usize, Step)>,
    /// Connections with new output.
    dirty: Vec<usize>,
    /// Requests in flight, those of waiting workers not counted.
    in_flight: u64,
    /// Jobs put and not delivered, while workers wait.
    undelivered: u64,
    /// When the puts of jobs for waiting workers were sent, and whether they count.
    born: Vec<(u64, bool)>,
    opens_at: u64,
    closes_at: u64,
    pub(super) missed: u64,
    replies: u64,
    /// When the server last said something.
    heard: u64,
    progress: Progress,
    interrupts: Interrupts,
    /// The signal that has ended the measurement, or the run.
    interrupted: Option<u8>,
    /// What was put is taken away again.
    cleans: bool,
    /// The run has ended although there is something to be done.
    gave_up: bool,
}

impl<'a> Generator<'a> {
    /// Opens all connections.
    pub(super) fn connect(
        plan: &'a BenchPlan,
        address: SocketAddr,
        interrupts: Interrupts,
    ) -> Result<Self, String> {
        let clock = Clock::start();
        let content = Content::new(plan.payload, plan.priorities, plan.queues, plan.seed);
        let wire = Codec::new(plan.protocol, content, &plan.prefix);
        let poll = Poll::new().map_err(|error| format!("the system has no epoll: {error}"))?;
        let mut generator = Self {
            plan,
            clock,
            poll,
            wire,
            connections: Vec::new(),
            idle: Vec::new(),
            ledger: JobTracker::default(),
            window: MeasurementWindow::new(plan.server_pid),
            unconnected: Snapshot::default(),
            connected: Snapshot::default(),
            phase: Phase::new("", PhaseKind::Puts, 0),
            free: VecDeque::new(),
            dirty: Vec::new(),
            in_flight: 0,
            undelivered: 0,
            born: Vec::new(),
            opens_at: u64::MAX,
            closes_at: u64::MAX,
            missed: 0,
            replies: 0,
            heard: 0,
            progress: Progress::new(),
            interrupts,
            interrupted: None,
            cleans: false,
            gave_up: false,
        };
        generator.unconnected = generator.mark();
        for number in 0..plan.connections + plan.waiters {
            let registry = generator.poll.registry();
            let wire = &generator.wire;
            let connection =
                Connection::open(address, plan.patience, wire, registry, Token(number))?;
            generator.connections.push(connection);
        }
        for _ in 0..plan.idle {
            generator.idle.push(connection::connect(address, plan.patience)?);
        }
        generator.connected = generator.mark();
        Ok(generator)
    }

    fn mark(&self) -> Snapshot {
        self.window.mark(self.clock, self.replies, self.ledger.totals().put)
    }

    /// The whole run: backlog, measurement, clean-up, checks; or as much of it as signals allow.
    pub(super) fn run(&mut self) -> Result<(), String> {
        self.interrupts.set_fatal(false);
        let result = self.run_phases();
        self.progress.clear();
        self.interrupts.set_fatal(true);
        if self.gave_up { Ok(()) } else { result }
    }

    /// The signal that has ended the run before its time.
    pub(super) fn interrupted(&self) -> Option<u8> {
        self.interrupted
    }

    fn run_phases(&mut self) -> Result<(), String> {
        if self.plan.backlog > 0 {
            let phase = Phase::new("backlog", PhaseKind::Puts, self.plan.backlog);
            self.run_phase(phase, self.plan.depth.max(UNMEASURED_DEPTH))?;
        }
        if self.interrupted.is_none() {
            self.measure()?;
        }
        if !self.plan.keep {
            let phase = self.cleaning();
            self.run_phase(phase, self.plan.depth.max(UNMEASURED_DEPTH))?;
            self.ledger.check_complete()?;
            if self.plan.protocol.takes() {
                let phase = Phase::probes("looking", &self.wire.content);
                self.run_phase(phase, UNMEASURED_DEPTH)?;
            }
        }
        self.check_idle()
    }

    /// Nothing has happened on the connections that do nothing.
    fn check_idle(&self) -> Result<(), String> {
        let is_quiet = |idle: &TcpStream| {
            let peeked = idle.set_nonblocking(true).and_then(|()| idle.peek(&mut [0]));
            peeked.is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
        };
        match self.idle.iter().filter(|idle| !is_quiet(idle)).count() {
            0 => Ok(()),
            count => Err(format!(
                "the server has closed {count} idle connections, or said \
                                  something on them"
            )),
        }
    }

    fn measure(&mut self) -> Result<(), String> {
        let plan = self.plan;
        let mut phase = match plan.workload {
            Workload::Put => Phase::new("measuring", PhaseKind::Puts, u64::MAX),
            Workload::Drain => Phase::takes("measuring", &self.ledger),
            Workload::Cycle | Workload::Mixed | Workload::Idle => {
                Phase::new("measuring", PhaseKind::Cycles, u64::MAX)
            }
            Workload::Wait => Phase::new("measuring", PhaseKind::Feeds, u64::MAX),
        };
        let now = self.clock.now();
        let in_flight = (plan.connections * plan.depth).min(plan.waiters) as u64;
        if plan.rate.is_none() {
            phase.undelivered_max = in_flight;
        }
        self.opens_at = now + nanos(plan.warmup);
        if plan.warmup.is_zero() {
            self.open(&mut phase);
        }
        phase.pace = plan.rate.map(|rate| RateSchedule::new(rate, now.max(self.window.start.at)));
        for worker in 0..plan.waiters {
            self.wait(plan.connections + worker);
        }
        self.run_phase(phase, plan.depth)?;
        self.window.close();
        if self.window.is_over() {
            let mark = self.mark();
            self.window.finish(mark);
        }
        Ok(())
    }

    /// What is sent from now on counts.
    fn open(&mut self, phase: &mut Phase) {
        let mark = self.mark();
        match self.plan.extent {
            RunLength::Time(time) => self.closes_at = mark.at + nanos(time),
            RunLength::Requests(requests) => {
                let delete = u64::from(self.plan.protocol.deletes());
                phase.jobs_left = requests.div_ceil(match phase.way {
                    PhaseKind::Puts | PhaseKind::Probes => 1,
                    // How long a get waits is not measured.
                    PhaseKind::Takes | PhaseKind::Feeds => 1 + delete,
                    PhaseKind::Cycles => 2 + delete,
                });
            }
        }
        self.window.open(mark);
    }

    /// Runs until every token is spent.
    fn run_phase(&mut self, phase: Phase, depth: usize) -> Result<(), String> {
        self.phase = phase;
        let ordered = self.phase.way == PhaseKind::Takes && self.plan.protocol.takes();
        let queues = if ordered { self.plan.queues } else { 0 };
        let queues = if queues > ORDERED_QUEUES_MAX { 0 } else { queues };
        for connection in &mut self.connections {
            connection.last.clear();
            connection.last.extend((0..queues).map(|_| u64::MAX));
        }
        let first = self.phase.first();
        for _ in 0..depth {
            self.free.extend((0..self.plan.connections).map(|connection| (connection, first)));
        }
        let mut events = Events::with_capacity(EVENTS);
        let mut scratch = vec![0; SCRATCH];
        let mut unfinished = Vec::new();
        self.heard = self.clock.now();
        loop {
            let now = self.clock.now();
            self.turn(now)?;
            self.pump(now);
            self.flush()?;
            if self.in_flight == 0 && self.undelivered == 0 && self.free.is_empty() {
                return Ok(());
            }
            let timeout = if unfinished.is_empty() { self.timeout(now) } else { Duration::ZERO };
            match self.poll.poll(&mut events, Some(timeout)) {
                Err(error) if error.kind() != ErrorKind::Interrupted => {
                    return Err(format!("epoll failed: {error}"));
                }
                _ => {}
            }
            for number in std::mem::take(&mut unfinished) {
                self.serve(number, &mut scratch, &mut unfinished)?;
            }
            for event in &events {
                let number = event.token().0;
                if event.is_writable() {
                    self.connections[number].handle_writable(&self.wire)?;
                }
                if event.is_readable() || event.is_read_closed() || event.is_error() {
                    self.serve(number, &mut scratch, &mut unfinished)?;
                }
            }
        }
    }

    /// What depends on the time alone.
    fn turn(&mut self, now: u64) -> Result<(), String> {
        self.heed_signals(now)?;
        if self.window.is_before() && now >= self.opens_at {
            let mut phase = std::mem::replace(&mut self.phase, Phase::new("", PhaseKind::Puts, 0));
            self.open(&mut phase);
            self.phase = phase;
        }
        if self.window.is_open() && now >= self.closes_at {
            self.window.close();
            self.phase.jobs_left = 0;
            let pace = self.phase.pace.take();
            self.missed = pace.map_or(0, |pace| pace.missed(self.closes_at));
            self.closes_at = u64::MAX;
            self.phase.undelivered_max = u64::MAX;
        }
        if self.window.is_over() {
            let mark = self.mark();
            self.window.finish(mark);
        }
        let silent = now.saturating_sub(self.heard);
        let waits = self.in_flight > 0 || self.undelivered > 0;
        if waits && silent > nanos(self.plan.patience) {
            return Err(format!(
                "the server has been silent for {:?} (--patience) with {} requests and {} \
                 deliveries outstanding",
                self.plan.patience, self.in_flight, self.undelivered
            ));
        }
        if self.progress.is_due(now) {
            let totals = self.ledger.totals();
            let done = match (self.plan.extent, self.window.is_open()) {
                (RunLength::Time(time), true) => {
                    float(now - self.window.start.at) / float(nanos(time))
                }
                _ if self.phase.way == PhaseKind::Takes => {
                    float(totals.deleted) / float(totals.put.max(1))
                }
                _ => {
                    let begun = float(self.ledger.begun());
                    begun / (begun + float(self.phase.jobs_left))
                }
            };
            let replies = self.replies;
            let word = format_args!("{replies} replies");
            self.progress.show(now, self.phase.name, done, word);
        }
        Ok(())
    }

    fn timeout(&self, now: u64) -> Duration {
        let turn = if self.window.is_before() { self.opens_at } else { self.closes_at };
        let mut timeout = LOOK_UP.min(Duration::from_nanos(turn.saturating_sub(now)));
        if let (Some(pace), false) = (&self.phase.pace, self.free.is_empty()) {
            let left = pace.due().saturating_sub(now);
            let sleep = if left < SPIN_NANOS { 0 } else { left - SPIN_NANOS / 2 };
            timeout = timeout.min(Duration::from_millis(sleep / 1_000_000));
        }
        timeout
    }

    /// Sends what tokens may send.
    #[inline]
    fn pump(&mut self, now: u64) {
        while let Some(at) = self.phase.permit(now, self.undelivered) {
            if self.phase.pace.is_some() && at >= self.closes_at {
                return;
            }
            let Some((number, step)) = self.free.pop_front() else { return };
            let begun = self.phase.begin(step, &mut self.ledger, &self.wire.content);
            let Some(request) = begun else { continue };
            if let Some(pace) = &mut self.phase.pace {
                pace.advance();
                if self.window.is_open() {
                    self.window.latencies.record_lateness(now - at);
                }
            }
            self.send(number, request, at);
        }
    }

    #[inline]
    fn send(&mut self, number: usize, request: Request, at: u64) {
        let measured = self.window.admit();
        if self.phase.way == PhaseKind::Feeds && matches!(request, Request::Put { .. }) {
            self.born.push((at, measured));
            self.undelivered += 1;
        }
        self.in_flight += 1;
        self.transmit(number, InFlight { request, at, measured, receipt: false });
    }

    /// Makes a worker wait for a job. How long it waits is no latency.
    fn wait(&mut self, number: usize) {
        let queue = (number - self.plan.connections) as u64 % self.plan.queues;
        let request = Request::Get { queue, seq: 0, id: 0, wait: true };
        self.transmit(number, InFlight { request, at: 0, measured: false, receipt: false });
    }

    #[inline]
    fn transmit(&mut self, number: usize, flight: InFlight) {
        let connection = &mut self.connections[number];
        connection.send(flight, &self.wire);
        if !connection.dirty {
            connection.dirty = true;
            self.dirty.push(number);
        }
    }

    #[inline]
    fn flush(&mut self) -> Result<(), String> {
        while let Some(number) = self.dirty.pop() {
            let connection = &mut self.connections[number];
            connection.dirty = false;
            connection.flush(&self.wire)?;
        }
        Ok(())
    }

    /// One read, all replies in it, and what follows from them.
    fn serve(
        &mut self,
        number: usize,
        scratch: &mut [u8],
        unfinished: &mut Vec<usize>,
    ) -> Result<(), String> {
        let Some(count) = self.connections[number].read(scratch)? else { return Ok(()) };
        let now = self.clock.now();
        self.heard = now;
        if count == scratch.len() {
            unfinished.push(number);
        }
        let mut input = std::mem::take(&mut self.connections[number].input);
        if input.is_empty() {
            let used = self.take_replies(number, &scratch[..count], now);
            let used = used.map_err(|why| self.plan.protocol.explain(why, &scratch[..count]))?;
            input.extend_from_slice(&scratch[used..count]);
        } else {
            input.extend_from_slice(&scratch[..count]);
            let used = self.take_replies(number, &input, now)?;
            input.drain(..used);
        }
        self.connections[number].input = input;
        let now = self.clock.now();
        self.pump(now);
        self.flush()
    }
}
