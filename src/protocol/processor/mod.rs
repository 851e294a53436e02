//! The processor (`docs/protocols/processor.md`): messages as JSON lines, and jobs that are
//! assigned to workers on a message bus.
//!
//! ```text
//!          register, attach                  end of input
//!   Fresh ------------------> Serving ------------------------> Over: reserves are cancelled
//!                              |  ^
//!      line: command;          |  | job: assignment, a line
//!      idle worker: reserve    v  |
//!                             (store)
//! ```
//!
//! A line becomes a command, and a change of its worker's row. An idle worker is a reserve that
//! waits in the store, and the job that answers it is the assignment. Jobs are kept by the store,
//! where the processor is a registered worker: its reservations are journaled and continue after a
//! restart.
//!
//! Invariants:
//! - the commands of a line are submitted before the next line is read;
//! - a line is written whole: while a list is written, assignments are held back, at most one per
//!   worker;
//! - the work of a turn besides reading is bounded (`PROCESSOR_WORK_PER_TURN`).

mod bus_workers;
mod listing;
mod message;
mod message_writer;
mod pending_requests;
mod settings;
mod timestamp;

pub use settings::Settings;

use super::queue_listing::WorkerRows;
use super::{SessionAction, SessionContext, SessionScratch};
use crate::base::buf::{Input, OutBuf};
use crate::base::limits::{
    IN_FLIGHT_MAX, PROCESSOR_LOG_LINES_PER_TURN, PROCESSOR_WORK_PER_TURN, PROCESSOR_WORKERS_MAX,
};
use crate::base::names::shown_text;
use crate::base::strings::Strings;
use crate::base::time::{Mono, Now, Wall};
use crate::model::command::{Command, Wait};
use crate::model::driver::{Incident, LogLine, Severity};
use crate::model::id::JobId;
use crate::model::job::{Encoding, LeaseEpoch, Payload};
use crate::model::reply::Reply;
use crate::model::stats::BusWorkerStats;
use crate::model::worker::{Worker, WorkerCommand, WorkerId, WorkerReply};
use crate::wire::lines::{Framed, LineReader};
use bus_workers::WorkerTable;
use listing::Listing;
use message::{Message, MessageError};
use message_writer::MessageWriter;
use pending_requests::{PendingRequests, RESERVE, RequestKind};
use std::collections::VecDeque;
use std::time::Duration;

/// Leases, and rows of silent workers, last this many ticks.
const TICKS: u32 = 3;

/// Workers that expire before the leases of a pass end: of more at one moment the rest expires in
/// the next passes, and gets no job meanwhile ([`WorkerTable::assign`]).
const EXPIRED_PER_TIMEOUT: usize = 256;

/// Workers that expire in one step; a page of workers has 16 times as many slots.
const EXPIRED_PER_STEP: u32 = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// It is not registered yet.
    Fresh,
    /// The registration, or the attachment, is submitted.
    Submitted,
    /// That was rejected; it is repeated at this time.
    Rejected(Mono),
    /// It is registered under this id.
    Registered(WorkerId),
    Serving,
    /// Messages are no longer read.
    Over,
}

/// The session of the processor, with its workers.
#[derive(Debug)]
pub struct Session {
    lines: LineReader,
    phase: Phase,
    /// No more input will arrive.
    eof: bool,
    workers: WorkerTable,
    pending: PendingRequests,
    writer: MessageWriter,
    listener: String,
    tick: Duration,
    next_tick: Mono,
    /// The deadline has passed and was not handled yet.
    timed_out: bool,
    /// Jobs that answered a reserve whose worker no longer wants one.
    returned: VecDeque<(JobId, LeaseEpoch)>,
    listing: Option<Box<Listing>>,
    /// Text of the list that is not in the output yet.
    text: Vec<u8>,
    /// Assignments that wait for the end of the list's line.
    held_back: Vec<u8>,
    log_lines: VecDeque<LogLine>,
}

/// The registration of the processor.
const SELF: Worker<'_> = Worker { name: "processor", url: "", max_jobs: u32::MAX, queues: None };

impl Session {
    pub(super) fn new(settings: &Settings, now: Now) -> Self {
        let tick = settings.tick.max(Duration::from_millis(1));
        Self {
            lines: LineReader::default(),
            phase: Phase::Fresh,
            eof: false,
            workers: WorkerTable::new(settings.seed, tick * TICKS),
            pending: PendingRequests::default(),
            writer: MessageWriter::new(settings),
            listener: settings.listener.clone(),
            tick,
            next_tick: now.mono.after(tick),
            timed_out: false,
            returned: VecDeque::new(),
            listing: None,
            text: Vec::new(),
            held_back: Vec::new(),
            log_lines: VecDeque::new(),
        }
    }

    pub(super) fn poll_command<'s, 'i: 's>(
        &mut self,
        input: &mut Input<'i>,
        shared: &'s mut SessionContext,
        out: &mut OutBuf,
    ) -> SessionAction<'s> {
        if shared.turn.work >= PROCESSOR_WORK_PER_TURN {
            return SessionAction::Yield;
        }
        if self.log_lines.is_empty() {
            self.run_timers(shared.turn.now);
        }
        if let Some(log_line) = self.log_lines.pop_front() {
            shared.turn.work += PROCESSOR_WORK_PER_TURN / PROCESSOR_LOG_LINES_PER_TURN;
            return SessionAction::Log(Incident::LogLine(Box::new(log_line)));
        }
        match self.phase {
            Phase::Serving | Phase::Over => {}
            _ => return self.register(),
        }
        if self.pending.len() >= IN_FLIGHT_MAX as usize {
            return SessionAction::Stalled;
        }
        if self.is_due() {
            shared.turn.work += 1;
            if let Some((id, lease)) = self.returned.pop_front() {
                let serial = self.pending.add(RequestKind::ReturnUnstarted, b"");
                return SessionAction::Submit(
                    serial,
                    Command::Work(WorkerCommand::ReturnUnstarted { id, lease, exclude: false }),
                );
            }
            if let Some(serial) = self.poll_called_off() {
                return SessionAction::Cancel(serial);
            }
            if let Some((worker, queue)) = self.workers.next_to_reserve() {
                let queues = single(queue, shared);
                return SessionAction::Submit(
                    RESERVE | worker,
                    Command::Reserve { queues, wait: Wait::Forever },
                );
            }
        }
        if self.listing.is_some() {
            return self.list(shared, out);
        }
        if self.phase == Phase::Over {
            input.consume(input.unread().len());
            return SessionAction::NeedInput;
        }
        self.read(input, shared)
    }

    /// Registers the processor, and attaches it to its earlier reservations.
    #[cold]
    fn register(&mut self) -> SessionAction<'static> {
        match self.phase {
            Phase::Fresh => {
                self.phase = Phase::Submitted;
                SessionAction::Submit(
                    self.pending.add(RequestKind::Register, b""),
                    Command::Work(WorkerCommand::Register(SELF)),
                )
            }
            Phase::Registered(worker) => {
                self.phase = Phase::Submitted;
                let lease = (self.tick * TICKS).as_millis();
                let lease_ms = u64::try_from(lease).unwrap_or(u64::MAX);
                let serial = self.pending.add(RequestKind::Attach, b"");
                SessionAction::Submit(
                    serial,
                    Command::Work(WorkerCommand::AttachWithLease { worker, lease_ms }),
                )
            }
            Phase::Rejected(_) if self.eof => {
                self.phase = Phase::Over;
                self.log(Severity::Error, "the messages were passed over".to_owned());
                SessionAction::Continue
            }
            _ => SessionAction::Stalled,
        }
    }

    /// Handles ticks and expired workers.
    fn run_timers(&mut self, now: Now) {
        self.timed_out = false;
        if let Phase::Rejected(at) = self.phase
            && at <= now.mono
        {
            self.phase = Phase::Fresh;
        }
        if now.mono >= self.next_tick {
            let tick = u64::try_from(self.tick.as_nanos()).unwrap_or(u64::MAX);
            let over = (now.mono.0 - self.next_tick.0) / tick;
            self.next_tick = Mono(self.next_tick.0.saturating_add((over + 1).saturating_mul(tick)));
            self.workers.dispatch_all();
        }
        self.expire(EXPIRED_PER_STEP as usize, now);
    }

    fn expire(&mut self, most: usize, now: Now) {
        for _ in 0..most {
            let Some((uuid, queue)) = self.workers.expire(now) else { return };
            let (uuid, queue) = (shown_text(uuid.as_bytes()), shown_text(&queue));
            let ms = (self.tick * TICKS).as_millis();
            let text =
                format!("worker '{uuid}' of queue '{queue}' sent nothing for {ms} ms: removed");
            self.log(Severity::Info, text);
        }
    }

    fn log(&mut self, severity: Severity, text: String) {
        self.log_lines.push_back(LogLine { severity, text });
    }

    /// Whether a command is due before the next line.
    fn is_due(&self) -> bool {
        !self.returned.is_empty() || self.workers.is_due()
    }

    fn read<'s, 'i: 's>(
        &mut self,
        input: &mut Input<'i>,
        shared: &'s mut SessionContext,
    ) -> SessionAction<'s> {
        match self.lines.next(input, shared.settings.max_request) {
            Framed::Line(line) => self.handle_line(line, shared),
            Framed::TooLong => self.reject(&MessageError::TooLong(shared.settings.max_request)),
            Framed::Incomplete if !self.eof => SessionAction::NeedInput,
            Framed::Incomplete => {
                let rest = input.unread();
                input.consume(rest.len());
                if rest.is_empty() {
                    self.phase = Phase::Over;
                    self.workers.end_reserves(true);
                    return SessionAction::Continue;
                }
                self.handle_line(rest.strip_suffix(b"\r").unwrap_or(rest), shared)
            }
        }
    }

    #[cold]
    fn reject(&mut self, problem: &MessageError) -> SessionAction<'static> {
        self.log(Severity::Error, problem.to_string());
        SessionAction::Continue
    }

    fn handle_line<'s>(
        &mut self,
        line: &'s [u8],
        shared: &'s mut SessionContext,
    ) -> SessionAction<'s> {
        let now = shared.turn.now;
        let SessionScratch { json, payload: inner, .. } = &mut shared.scratch;
        let message = match message::parse(line, &self.listener, json, inner) {
            Ok(message) => message,
            Err(problem) => return self.reject(&problem),
        };
        match message {
            Message::Other => {}
            Message::Tick => {
                self.expire(EXPIRED_PER_STEP as usize, now);
                self.workers.dispatch_all();
            }
            Message::Add(job, priority, bytes) => {
                self.workers.dispatch(job.queue);
                let payload = Payload { encoding: Encoding::JsonLine, bytes };
                let serial = self.pending.add(RequestKind::Put, job.name);
                return SessionAction::Submit(
                    serial,
                    Command::Work(WorkerCommand::PutByName { job, priority, payload }),
                );
            }
            Message::Idle(worker, queue, said) => {
                let has_row = self.workers.idle(worker, queue, !self.is_old(said, now), now);
                self.report_full_table(has_row, worker);
            }
            Message::Works(signal, worker, job, progress) => {
                let has_row = self.workers.busy(worker, job.queue, now);
                self.report_full_table(has_row, worker);
                let serial = self.pending.add(RequestKind::Works(signal), job.name);
                return SessionAction::Submit(
                    serial,
                    Command::Work(WorkerCommand::ReportProgress { job, progress }),
                );
            }
            Message::Finished(worker, job) => {
                let has_row = self.workers.idle(worker, job.queue, true, now);
                self.report_full_table(has_row, worker);
                let serial = self.pending.add(RequestKind::Finish, job.name);
                return SessionAction::Submit(
                    serial,
                    Command::Work(WorkerCommand::CompleteByName { job }),
                );
            }
            Message::Delete(job) => {
                let serial = self.pending.add(RequestKind::Delete, job.name);
                return SessionAction::Submit(
                    serial,
                    Command::Work(WorkerCommand::DeleteByName { job }),
                );
            }
            Message::List(list, queue) => {
                self.listing = Some(Box::new(Listing::new(list, queue)));
            }
        }
        SessionAction::Continue
    }

    /// Whether a report of idleness is too old for an assignment.
    fn is_old(&self, reported: Option<Wall>, now: Now) -> bool {
        let tick = u64::try_from(self.tick.as_millis()).unwrap_or(u64::MAX);
        reported.is_some_and(|reported| reported.0.saturating_add(tick) < now.wall.0)
    }

    fn report_full_table(&mut self, has_row: bool, worker: &str) {
        if !has_row {
            let worker = shown_text(worker.as_bytes());
            let text = format!("worker '{worker}': there are {PROCESSOR_WORKERS_MAX} already");
            self.log(Severity::Error, text);
        }
    }

    pub(super) fn handle_reply(
        &mut self,
        serial: u32,
        reply: &Reply<'_>,
        now: Now,
        out: &mut OutBuf,
    ) -> Option<Incident> {
        if serial & RESERVE != 0 {
            self.handle_reserved(serial & !RESERVE, reply, now, out);
            return None;
        }
        let (kind, log_line) = self.pending.take(serial, reply);
        match (kind, reply) {
            (RequestKind::Register, Reply::Registered(worker)) => {
                self.phase = Phase::Registered(*worker);
            }
            (RequestKind::Attach, Reply::Worker(WorkerReply::Done)) => self.phase = Phase::Serving,
            (RequestKind::Register | RequestKind::Attach, _) => {
                self.phase = Phase::Rejected(now.mono.after(self.tick));
            }
            (RequestKind::List, _) => self.handle_list_reply(reply),
            (RequestKind::ReturnUnstarted, _) => return None,
            _ => {}
        }
        log_line
            .filter(|_| kind != RequestKind::List)
            .map(|log_line| Incident::LogLine(Box::new(log_line)))
    }

    fn handle_reserved(&mut self, worker: u32, reply: &Reply<'_>, now: Now, out: &mut OutBuf) {
        match reply {
            Reply::Job(job) => match self.workers.assign(worker, now) {
                Some(uuid) => {
                    let begun = self.listing.as_ref().is_some_and(|listing| listing.begun);
                    let out = if begun { &mut self.held_back } else { out.tail() };
                    self.writer.write_assignment(uuid, job, now, out);
                }
                None => self.returned.push_back((job.id, job.lease)),
            },
            Reply::Cancelled => self.workers.cancelled(worker),
            other => other.unexpected(),
        }
    }

    /// The workers of a queue, from a slot on, in a bounded number of slots.
    pub(super) fn worker_page(&self, queue: &[u8], from: u32) -> WorkerRows {
        self.workers.worker_rows(queue, from, 16 * EXPIRED_PER_STEP)
    }

    /// Counts of idle and busy workers of a bounded number of queues. O(queues).
    pub(super) fn bus_workers(&self) -> Vec<BusWorkerStats> {
        self.workers.stats()
    }

    /// The rest without a line end is the last line.
    pub(super) fn handle_eof(&mut self) {
        self.eof = true;
    }

    pub(super) fn handle_broken_output(&mut self) {
        self.phase = Phase::Over;
        self.listing = None;
        self.workers.end_reserves(false);
    }

    pub(super) fn deadline(&self) -> Option<Mono> {
        if self.timed_out {
            return None;
        }
        match self.phase {
            Phase::Rejected(at) => Some(at),
            Phase::Serving => {
                let tick = self.workers.has_waiting().then_some(self.next_tick);
                [tick, self.workers.deadline()].into_iter().flatten().min()
            }
            _ => None,
        }
    }

    /// A worker that expires now must not be assigned a job whose lease ends at the same moment:
    /// its reserve has to be cancelled before leases end ([`Session::poll_called_off`]).
    pub(super) fn handle_timeout(&mut self, now: Now) {
        self.timed_out = true;
        self.expire(EXPIRED_PER_TIMEOUT, now);
    }

    /// A reserve that has to be cancelled, if there is one.
    pub(super) fn poll_called_off(&mut self) -> Option<u32> {
        self.workers.next_to_cancel().map(|worker| RESERVE | worker)
    }

    pub(super) fn wants_poll(&self) -> bool {
        let free = self.pending.len() < IN_FLIGHT_MAX as usize;
        let more = match self.phase {
            Phase::Fresh | Phase::Registered(_) => true,
            Phase::Submitted => false,
            Phase::Rejected(_) => self.eof,
            Phase::Serving => free && (self.is_due() || self.eof || self.lists_on()),
            Phase::Over => free && (self.is_due() || self.lists_on()),
        };
        more || self.timed_out || !self.log_lines.is_empty()
    }

    fn lists_on(&self) -> bool {
        self.listing.as_ref().is_some_and(|listing| !listing.waiting)
    }

    pub(super) fn wants_input(&self) -> bool {
        let free = self.pending.len() < IN_FLIGHT_MAX as usize && self.listing.is_none();
        self.phase == Phase::Over || (self.phase == Phase::Serving && free)
    }

    pub(super) fn is_settled(&self) -> bool {
        let idle = self.pending.len() == 0 && self.workers.open_reserves() == 0;
        self.phase == Phase::Over && idle && !self.wants_poll()
    }

    /// Asserts the invariants. O(all).
    pub(super) fn check_invariants(&self) {
        self.workers.check_invariants();
        let begun = self.listing.as_ref().is_some_and(|listing| listing.begun);
        assert!(begun || self.held_back.is_empty(), "an assignment is kept back for nothing");
    }
}

/// A list of one name.
fn single<'s>(name: &[u8], shared: &'s mut SessionContext) -> Strings<'s> {
    shared.scratch.queues.clear();
    shared.scratch.queues.push(name);
    shared.scratch.queues.from(0)
}
