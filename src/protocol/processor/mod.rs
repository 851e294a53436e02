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
use super::{SessionAction, SessionContext};
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
use crate::model::worker::{Worker, WorkerCommand, WorkerId};
use crate::wire::lines::{Framed, LineReader};
use bus_workers::WorkerTable;
use listing::Listing;
use message::{Message, MessageError};
use message_writer::MessageWriter;
use pending_requests::{Kind, PendingRequests, TAKE};
use std::collections::VecDeque;
use std::time::Duration;

/// Leases, and rows of silent workers, last this many ticks.
const TICKS: u32 = 3;

/// Workers that expire in one step; a page of workers has 16 times as many slots.
const AT_ONCE: u32 = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// It is not registered yet.
    Fresh,
    /// The registration, or the attachment, is submitted.
    Asked,
    /// That was rejected; it is repeated at this time.
    Refused(Mono),
    /// It is registered under this id.
    Listed(WorkerId),
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
    asked: PendingRequests,
    voice: MessageWriter,
    listener: String,
    tick: Duration,
    next_tick: Mono,
    /// The deadline has passed and was not handled yet.
    woken: bool,
    /// Jobs that answered a reserve whose worker no longer wants one.
    returned: VecDeque<(JobId, LeaseEpoch)>,
    listing: Option<Box<Listing>>,
    /// Text of the list that is not in the output yet.
    text: Vec<u8>,
    /// Assignments that wait for the end of the list's line.
    kept_back: Vec<u8>,
    remarks: VecDeque<LogLine>,
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
            asked: PendingRequests::default(),
            voice: MessageWriter::new(settings),
            listener: settings.listener.clone(),
            tick,
            next_tick: now.mono.after(tick),
            woken: false,
            returned: VecDeque::new(),
            listing: None,
            text: Vec::new(),
            kept_back: Vec::new(),
            remarks: VecDeque::new(),
        }
    }

    pub(super) fn poll_command<'s, 'i: 's>(
        &mut self,
        input: &mut Input<'i>,
        shared: &'s mut SessionContext,
        out: &mut OutBuf,
    ) -> SessionAction<'s> {
        if shared.work >= PROCESSOR_WORK_PER_TURN {
            return SessionAction::Yield;
        }
        if self.remarks.is_empty() {
            self.keep_time(shared.now);
        }
        if let Some(remark) = self.remarks.pop_front() {
            shared.work += PROCESSOR_WORK_PER_TURN / PROCESSOR_LOG_LINES_PER_TURN;
            return SessionAction::Log(Incident::LogLine(Box::new(remark)));
        }
        match self.phase {
            Phase::Serving | Phase::Over => {}
            _ => return self.begin(),
        }
        if self.asked.len() >= IN_FLIGHT_MAX as usize {
            return SessionAction::Stalled;
        }
        if self.is_due() {
            shared.work += 1;
            if let Some((id, lease)) = self.returned.pop_front() {
                let serial = self.asked.add(Kind::GiveBack, b"");
                return SessionAction::Submit(
                    serial,
                    Command::Work(WorkerCommand::ReturnUnstarted { id, lease, exclude: false }),
                );
            }
            if let Some(serial) = self.poll_called_off() {
                return SessionAction::Cancel(serial);
            }
            if let Some((worker, queue)) = self.workers.next_asking() {
                let queues = alone(queue, shared);
                return SessionAction::Submit(
                    TAKE | worker,
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
    fn begin(&mut self) -> SessionAction<'static> {
        match self.phase {
            Phase::Fresh => {
                self.phase = Phase::Asked;
                SessionAction::Submit(
                    self.asked.add(Kind::Enlist, b""),
                    Command::Work(WorkerCommand::Register(SELF)),
                )
            }
            Phase::Listed(worker) => {
                self.phase = Phase::Asked;
                let lease = (self.tick * TICKS).as_millis();
                let lease_ms = u64::try_from(lease).unwrap_or(u64::MAX);
                let serial = self.asked.add(Kind::Resume, b"");
                SessionAction::Submit(
                    serial,
                    Command::Work(WorkerCommand::AttachWithLease { worker, lease_ms }),
                )
            }
            Phase::Refused(_) if self.eof => {
                self.phase = Phase::Over;
                self.remark(Severity::Error, "the messages were passed over".to_owned());
                SessionAction::Continue
            }
            _ => SessionAction::Stalled,
        }
    }

    /// Handles ticks and expired workers.
    fn keep_time(&mut self, now: Now) {
        self.woken = false;
        if let Phase::Refused(at) = self.phase
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
        self.expire(AT_ONCE as usize, now);
    }

    fn expire(&mut self, most: usize, now: Now) {
        for _ in 0..most {
            let Some((uuid, queue)) = self.workers.expire(now) else { return };
            let (uuid, queue) = (shown_text(uuid.as_bytes()), shown_text(&queue));
            let ms = (self.tick * TICKS).as_millis();
            let text = format!(
                "worker '{uuid}' of queue '{queue}' was not heard of for {ms} ms: it is forgotten"
            );
            self.remark(Severity::Info, text);
        }
    }

    fn remark(&mut self, severity: Severity, text: String) {
        self.remarks.push_back(LogLine { severity, text });
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
        match self.lines.next(input, shared.max_request) {
            Framed::Line(line) => self.handle_line(line, shared),
            Framed::TooLong => self.reject(&MessageError::TooLong(shared.max_request)),
            Framed::Incomplete if !self.eof => SessionAction::NeedInput,
            Framed::Incomplete => {
                let rest = input.unread();
                input.consume(rest.len());
                if rest.is_empty() {
                    self.phase = Phase::Over;
                    self.workers.dismiss(true);
                    return SessionAction::Continue;
                }
                self.handle_line(rest.strip_suffix(b"\r").unwrap_or(rest), shared)
            }
        }
    }

    #[cold]
    fn reject(&mut self, problem: &MessageError) -> SessionAction<'static> {
        self.remark(Severity::Error, problem.to_string());
        SessionAction::Continue
    }

    fn handle_line<'s>(
        &mut self,
        line: &'s [u8],
        shared: &'s mut SessionContext,
    ) -> SessionAction<'s> {
        let now = shared.now;
        let SessionContext { json, payload: inner, .. } = shared;
        let message = match message::parse(line, &self.listener, json, inner) {
            Ok(message) => message,
            Err(problem) => return self.reject(&problem),
        };
        match message {
            Message::Other => {}
            Message::Tick => {
                self.expire(AT_ONCE as usize, now);
                self.workers.dispatch_all();
            }
            Message::Add(job, priority, bytes) => {
                self.workers.dispatch(job.queue);
                let payload = Payload { encoding: Encoding::JsonLine, bytes };
                let serial = self.asked.add(Kind::Put, job.name);
                return SessionAction::Submit(
                    serial,
                    Command::Work(WorkerCommand::PutByName { job, priority, payload }),
                );
            }
            Message::Idle(worker, queue, said) => {
                let heard = self.workers.idle(worker, queue, !self.is_old(said, now), now);
                self.note(heard, worker);
            }
            Message::Works(deed, worker, job, progress) => {
                let heard = self.workers.busy(worker, job.queue, now);
                self.note(heard, worker);
                let serial = self.asked.add(Kind::Works(deed), job.name);
                return SessionAction::Submit(
                    serial,
                    Command::Work(WorkerCommand::ReportProgress { job, progress }),
                );
            }
            Message::Finished(worker, job) => {
                let heard = self.workers.idle(worker, job.queue, true, now);
                self.note(heard, worker);
                let serial = self.asked.add(Kind::Finish, job.name);
                return SessionAction::Submit(
                    serial,
                    Command::Work(WorkerCommand::CompleteByName { job }),
                );
            }
            Message::Delete(job) => {
                let serial = self.asked.add(Kind::Delete, job.name);
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
    fn is_old(&self, said: Option<Wall>, now: Now) -> bool {
        let tick = u64::try_from(self.tick.as_millis()).unwrap_or(u64::MAX);
        said.is_some_and(|said| said.0.saturating_add(tick) < now.wall.0)
    }

    fn note(&mut self, heard: bool, worker: &str) {
        if !heard {
            let worker = shown_text(worker.as_bytes());
            let text = format!("worker '{worker}': there are {PROCESSOR_WORKERS_MAX} already");
            self.remark(Severity::Error, text);
        }
    }

    pub(super) fn handle_reply(
        &mut self,
        serial: u32,
        reply: &Reply<'_>,
        now: Now,
        out: &mut OutBuf,
    ) -> Option<Incident> {
        if serial & TAKE != 0 {
            self.handle_reserved(serial & !TAKE, reply, now, out);
            return None;
        }
        let (kind, remark) = self.asked.take(serial, reply);
        match (kind, reply) {
            (Kind::Enlist, Reply::Worker(worker)) => self.phase = Phase::Listed(*worker),
            (Kind::Resume, Reply::Done) => self.phase = Phase::Serving,
            (Kind::Enlist | Kind::Resume, _) => {
                self.phase = Phase::Refused(now.mono.after(self.tick));
            }
            (Kind::List, _) => self.handle_part(reply),
            (Kind::GiveBack, _) => return None,
            _ => {}
        }
        remark.filter(|_| kind != Kind::List).map(|remark| Incident::LogLine(Box::new(remark)))
    }

    fn handle_reserved(&mut self, worker: u32, reply: &Reply<'_>, now: Now, out: &mut OutBuf) {
        match reply {
            Reply::Job(job) => match self.workers.assign(worker, now) {
                Some(uuid) => {
                    let begun = self.listing.as_ref().is_some_and(|listing| listing.begun);
                    let out = if begun { &mut self.kept_back } else { out.tail() };
                    self.voice.write_assignment(uuid, job, now, out);
                }
                None => self.returned.push_back((job.id, job.lease)),
            },
            Reply::Cancelled => self.workers.cancelled(worker),
            other => other.unexpected(),
        }
    }

    /// The workers of a queue, from a slot on, in a bounded number of slots.
    pub(super) fn worker_page(&self, queue: &[u8], from: u32) -> WorkerRows {
        self.workers.worker_rows(queue, from, 16 * AT_ONCE)
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
        self.workers.dismiss(false);
    }

    pub(super) fn deadline(&self) -> Option<Mono> {
        if self.woken {
            return None;
        }
        match self.phase {
            Phase::Refused(at) => Some(at),
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
        self.woken = true;
        self.expire(PROCESSOR_WORK_PER_TURN, now);
    }

    /// A reserve that has to be cancelled, if there is one.
    pub(super) fn poll_called_off(&mut self) -> Option<u32> {
        self.workers.next_ended().map(|worker| TAKE | worker)
    }

    pub(super) fn wants_poll(&self) -> bool {
        let free = self.asked.len() < IN_FLIGHT_MAX as usize;
        let more = match self.phase {
            Phase::Fresh | Phase::Listed(_) => true,
            Phase::Asked => false,
            Phase::Refused(_) => self.eof,
            Phase::Serving => free && (self.is_due() || self.eof || self.lists_on()),
            Phase::Over => free && (self.is_due() || self.lists_on()),
        };
        more || self.woken || !self.remarks.is_empty()
    }

    fn lists_on(&self) -> bool {
        self.listing.as_ref().is_some_and(|listing| !listing.waiting)
    }

    pub(super) fn wants_input(&self) -> bool {
        let free = self.asked.len() < IN_FLIGHT_MAX as usize && self.listing.is_none();
        self.phase == Phase::Over || (self.phase == Phase::Serving && free)
    }

    pub(super) fn is_settled(&self) -> bool {
        let idle = self.asked.len() == 0 && self.workers.takes() == 0;
        self.phase == Phase::Over && idle && !self.wants_poll()
    }

    /// Asserts the invariants. O(all).
    pub(super) fn check_invariants(&self) {
        self.workers.check_invariants();
        let begun = self.listing.as_ref().is_some_and(|listing| listing.begun);
        assert!(begun || self.kept_back.is_empty(), "an assignment is kept back for nothing");
    }
}

/// A list of one name.
fn alone<'s>(name: &[u8], shared: &'s mut SessionContext) -> Strings<'s> {
    shared.queues.clear();
    shared.queues.push(name);
    shared.queues.from(0)
}
