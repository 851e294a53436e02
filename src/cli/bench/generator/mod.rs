//! The load generator: one thread, one epoll, every connection served in turn.
//!
//! A readable connection gets one read into the shared buffer; all replies in it are checked, and
//! the requests that follow from them are sent in one write. Latency runs from just before the
//! requests are written (at a fixed rate: from when they should have been) to just after the read
//! that brought the reply.

mod replies;
mod stop;

use super::args::{BenchSettings, RunLength, Workload};
use super::clock::{Clock, float, nanos};
use super::connection::{Connection, InFlight};
use super::content::Content;
use super::interrupts::Interrupts;
use super::job_tracker::JobTracker;
use super::phase::{Phase, PhaseKind, RateSchedule, TokenStep};
use super::protocols::{Codec, Request};
use super::stream::{BlockingStream, Stream, Target};
use super::window::{MeasurementWindow, Snapshot};
use crate::cli::progress_line::ProgressLine;
use mio::{Events, Poll, Token};
use std::collections::VecDeque;
use std::io::ErrorKind;
use std::time::Duration;

const READ_BYTES: usize = 64 * 1024;
const EVENTS_MAX: usize = 1024;
/// Requests in flight on a connection while jobs are put before, or deleted after, the measurement.
const UNMEASURED_DEPTH: usize = 16;
/// The longest wait for events.
const POLL_TIMEOUT_MAX: Duration = Duration::from_millis(100);
/// epoll counts in milliseconds: for what is due sooner than this the loop spins.
const SPIN_NS: u64 = 2_000_000;
/// The order of jobs is checked if there are at most this many queues.
const ORDERED_QUEUES_MAX: u64 = 64;

/// The generator, with its connections.
pub(super) struct Generator<'a> {
    plan: &'a BenchSettings,
    pub(super) clock: Clock,
    poll: Poll,
    codec: Codec,
    /// Those that put and get, then those of waiting workers.
    connections: Vec<Connection>,
    /// Idle connections.
    idle: Vec<Stream>,
    pub(super) tracker: JobTracker,
    pub(super) window: MeasurementWindow,
    /// Before anything was connected, and before anything was put.
    pub(super) unconnected: Snapshot,
    pub(super) connected: Snapshot,
    phase: Phase,
    /// Tokens that are not in flight, by connection.
    free: VecDeque<(usize, TokenStep)>,
    /// Connections with new output.
    dirty: Vec<usize>,
    /// Requests in flight, those of waiting workers not counted.
    in_flight: u64,
    /// Jobs put and not delivered, while workers wait.
    undelivered: u64,
    /// When the puts of jobs for waiting workers were sent, in nanoseconds, and whether they are
    /// measured.
    put_sent: Vec<(u64, bool)>,
    opens_at_ns: u64,
    closes_at_ns: u64,
    pub(super) missed: u64,
    replies: u64,
    /// When the last bytes of the server arrived.
    last_reply_ns: u64,
    progress: ProgressLine,
    interrupts: Interrupts,
    /// The signal that ended the measurement, or the run.
    interrupted: Option<u8>,
    /// The jobs of the run are being deleted.
    cleaning_up: bool,
    /// A signal ended the run before its end.
    aborted: bool,
}

impl<'a> Generator<'a> {
    /// Opens all connections.
    pub(super) fn connect(
        plan: &'a BenchSettings,
        target: &Target,
        interrupts: Interrupts,
    ) -> Result<Self, String> {
        let clock = Clock::start();
        let content = Content::new(plan.payload, plan.priorities, plan.queues, plan.seed);
        let codec = Codec::new(plan.protocol, content, &plan.prefix, plan.token.as_ref());
        let poll = Poll::new().map_err(|error| format!("the system has no epoll: {error}"))?;
        let mut generator = Self {
            plan,
            clock,
            poll,
            codec,
            connections: Vec::new(),
            idle: Vec::new(),
            tracker: JobTracker::default(),
            window: MeasurementWindow::new(plan.server_pid),
            unconnected: Snapshot::default(),
            connected: Snapshot::default(),
            phase: Phase::new("", PhaseKind::Puts, 0),
            free: VecDeque::new(),
            dirty: Vec::new(),
            in_flight: 0,
            undelivered: 0,
            put_sent: Vec::new(),
            opens_at_ns: u64::MAX,
            closes_at_ns: u64::MAX,
            missed: 0,
            replies: 0,
            last_reply_ns: 0,
            progress: ProgressLine::new(),
            interrupts,
            interrupted: None,
            cleaning_up: false,
            aborted: false,
        };
        generator.unconnected = generator.snapshot();
        for number in 0..plan.connections + plan.waiters {
            let registry = generator.poll.registry();
            let codec = &generator.codec;
            let connection =
                Connection::open(target, plan.patience, codec, registry, Token(number))?;
            generator.connections.push(connection);
        }
        for _ in 0..plan.idle {
            let mut stream = Stream::connect(target, plan.patience)?;
            let patience = plan.patience;
            generator.codec.authenticate(&mut BlockingStream { stream: &mut stream, patience })?;
            generator.idle.push(stream);
        }
        generator.connected = generator.snapshot();
        Ok(generator)
    }

    fn snapshot(&self) -> Snapshot {
        self.window.snapshot(self.clock, self.replies, self.tracker.totals().put)
    }

    /// Runs all phases: backlog, measurement, clean-up, checks; a signal ends it early.
    pub(super) fn run(&mut self) -> Result<(), String> {
        self.interrupts.set_fatal(false);
        let result = self.run_phases();
        self.progress.clear();
        self.interrupts.set_fatal(true);
        if self.aborted { Ok(()) } else { result }
    }

    /// The signal that interrupted the run.
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
            let phase = self.clean_up_phase();
            self.run_phase(phase, self.plan.depth.max(UNMEASURED_DEPTH))?;
            self.tracker.check_complete()?;
            if self.plan.protocol.takes() {
                let phase = Phase::probes("looking", &self.codec.content);
                self.run_phase(phase, UNMEASURED_DEPTH)?;
            }
        }
        self.check_idle()
    }

    /// Checks that the server has neither closed nor written to the idle connections.
    fn check_idle(&mut self) -> Result<(), String> {
        match self.idle.iter_mut().filter_map(|idle| (!idle.is_quiet()).then_some(())).count() {
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
            Workload::Drain => Phase::takes("measuring", &self.tracker),
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
        self.opens_at_ns = now + nanos(plan.warmup);
        if plan.warmup.is_zero() {
            self.open(&mut phase);
        }
        phase.rate_schedule =
            plan.rate.map(|rate| RateSchedule::new(rate, now.max(self.window.start.at)));
        for worker in 0..plan.waiters {
            self.send_waiting_get(plan.connections + worker);
        }
        self.run_phase(phase, plan.depth)?;
        self.window.close();
        if self.window.is_over() {
            let snapshot = self.snapshot();
            self.window.finish(snapshot);
        }
        Ok(())
    }

    /// Opens the window: requests sent from now on are measured.
    fn open(&mut self, phase: &mut Phase) {
        let snapshot = self.snapshot();
        match self.plan.run_length {
            RunLength::Time(time) => self.closes_at_ns = snapshot.at + nanos(time),
            RunLength::Requests(requests) => {
                let delete = u64::from(self.plan.protocol.deletes());
                phase.jobs_left = requests.div_ceil(match phase.kind {
                    PhaseKind::Puts | PhaseKind::Probes => 1,
                    // A waiting get is not measured.
                    PhaseKind::Takes | PhaseKind::Feeds => 1 + delete,
                    PhaseKind::Cycles => 2 + delete,
                });
            }
        }
        self.window.open(snapshot);
    }

    /// Runs a phase until every token is spent.
    fn run_phase(&mut self, phase: Phase, depth: usize) -> Result<(), String> {
        self.phase = phase;
        let ordered = self.phase.kind == PhaseKind::Takes && self.plan.protocol.takes();
        let queues = if ordered { self.plan.queues } else { 0 };
        let queues = if queues > ORDERED_QUEUES_MAX { 0 } else { queues };
        for connection in &mut self.connections {
            connection.last_priorities.clear();
            connection.last_priorities.extend((0..queues).map(|_| u64::MAX));
        }
        let first = self.phase.first();
        for _ in 0..depth {
            self.free.extend((0..self.plan.connections).map(|connection| (connection, first)));
        }
        let mut events = Events::with_capacity(EVENTS_MAX);
        let mut scratch = vec![0; READ_BYTES];
        let mut unfinished = Vec::new();
        self.last_reply_ns = self.clock.now();
        loop {
            let now = self.clock.now();
            self.handle_time(now)?;
            self.send_permitted(now);
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
                self.handle_readable(number, &mut scratch, &mut unfinished)?;
            }
            for event in &events {
                let number = event.token().0;
                if event.is_writable() {
                    self.connections[number].handle_writable(&self.codec)?;
                }
                if event.is_readable() || event.is_read_closed() || event.is_error() {
                    self.handle_readable(number, &mut scratch, &mut unfinished)?;
                }
            }
        }
    }

    /// Handles signals, deadlines and the progress line.
    fn handle_time(&mut self, now: u64) -> Result<(), String> {
        self.handle_signals(now)?;
        if self.window.is_before() && now >= self.opens_at_ns {
            let mut phase = std::mem::replace(&mut self.phase, Phase::new("", PhaseKind::Puts, 0));
            self.open(&mut phase);
            self.phase = phase;
        }
        if self.window.is_open() && now >= self.closes_at_ns {
            self.window.close();
            self.phase.jobs_left = 0;
            let schedule = self.phase.rate_schedule.take();
            self.missed = schedule.map_or(0, |schedule| schedule.missed(self.closes_at_ns));
            self.closes_at_ns = u64::MAX;
            self.phase.undelivered_max = u64::MAX;
        }
        if self.window.is_over() {
            let snapshot = self.snapshot();
            self.window.finish(snapshot);
        }
        let silent = now.saturating_sub(self.last_reply_ns);
        let waits = self.in_flight > 0 || self.undelivered > 0;
        if waits && silent > nanos(self.plan.patience) {
            return Err(format!(
                "the server has been silent for {:?} (--patience) with {} requests and {} \
                 deliveries outstanding",
                self.plan.patience, self.in_flight, self.undelivered
            ));
        }
        if self.progress.is_due(now) {
            let totals = self.tracker.totals();
            let done = match (self.plan.run_length, self.window.is_open()) {
                (RunLength::Time(time), true) => {
                    float(now - self.window.start.at) / float(nanos(time))
                }
                _ if self.phase.kind == PhaseKind::Takes => {
                    float(totals.deleted) / float(totals.put.max(1))
                }
                _ => {
                    let started = float(self.tracker.started());
                    started / (started + float(self.phase.jobs_left))
                }
            };
            let replies = self.replies;
            let details = format_args!("{replies} replies");
            self.progress.show(now, self.phase.name, done, details);
        }
        Ok(())
    }

    fn timeout(&self, now: u64) -> Duration {
        let next = if self.window.is_before() { self.opens_at_ns } else { self.closes_at_ns };
        let mut timeout = POLL_TIMEOUT_MAX.min(Duration::from_nanos(next.saturating_sub(now)));
        if let (Some(schedule), false) = (&self.phase.rate_schedule, self.free.is_empty()) {
            let left = schedule.due().saturating_sub(now);
            let sleep = if left < SPIN_NS { 0 } else { left - SPIN_NS / 2 };
            timeout = timeout.min(Duration::from_millis(sleep / 1_000_000));
        }
        timeout
    }

    /// Sends the requests that free tokens and the rate permit.
    #[inline]
    fn send_permitted(&mut self, now: u64) {
        while let Some(at) = self.phase.permit(now, self.undelivered) {
            if self.phase.rate_schedule.is_some() && at >= self.closes_at_ns {
                return;
            }
            let Some((number, step)) = self.free.pop_front() else { return };
            let started = self.phase.start_step(step, &mut self.tracker, &self.codec.content);
            let Some(request) = started else { continue };
            if let Some(schedule) = &mut self.phase.rate_schedule {
                schedule.advance();
                if self.window.is_open() {
                    self.window.latencies.record_lateness(now - at);
                }
            }
            self.send(number, request, at);
        }
    }

    #[inline]
    fn send(&mut self, number: usize, request: Request, at: u64) {
        let measured = self.window.on_sent();
        if self.phase.kind == PhaseKind::Feeds && matches!(request, Request::Put { .. }) {
            self.put_sent.push((at, measured));
            self.undelivered += 1;
        }
        self.in_flight += 1;
        self.transmit(number, InFlight { request, at, measured, receipt: false });
    }

    /// Sends the waiting get of a worker. Its latency is not measured.
    fn send_waiting_get(&mut self, number: usize) {
        let queue = (number - self.plan.connections) as u64 % self.plan.queues;
        let request = Request::Get { queue, seq: 0, id: 0, wait: true };
        self.transmit(number, InFlight { request, at: 0, measured: false, receipt: false });
    }

    #[inline]
    fn transmit(&mut self, number: usize, flight: InFlight) {
        let connection = &mut self.connections[number];
        connection.send(flight, &self.codec);
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
            connection.flush(&self.codec)?;
        }
        Ok(())
    }

    /// Reads once, handles all replies, and sends the requests that follow.
    fn handle_readable(
        &mut self,
        number: usize,
        scratch: &mut [u8],
        unfinished: &mut Vec<usize>,
    ) -> Result<(), String> {
        let Some((count, more)) = self.connections[number].read(scratch)? else { return Ok(()) };
        let now = self.clock.now();
        self.last_reply_ns = now;
        if more {
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
        self.send_permitted(now);
        self.flush()
    }
}
