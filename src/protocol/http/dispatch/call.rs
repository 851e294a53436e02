//! A connection to a worker: one errand at a time, one request for each.
//!
//! ```text
//!            begin          reply (Look)            head of the answer
//!   Idle ----------> Asked -------------> Answering ------------------> Body --> Idle or Over
//!    ^                 | nobody holds the job any more                            |
//!    +-----------------+----------------------------------------------------------+
//! ```
//!
//! What is asked of the engine is how the job looks now, so that no copy of it is kept while a
//! connection is made, and none is sent under a lease that is over. The status counts as soon as
//! the head of the answer is whole: what is wrong with the body only costs the connection.

use super::Address;
use crate::base::buf::{Input, OutBuf};
use crate::base::limits::{
    WORKER_ANSWER_MAX_BYTES, WORKER_CALL_TIMEOUT, WORKER_INTERIM_MAX, WORKER_KEEPALIVE,
};
use crate::base::time::{Mono, Now};
use crate::model::command::Command;
use crate::model::id::{ClientId, JobId};
use crate::model::job::{LeaseEpoch, Status};
use crate::model::reply::{JobInfo, Reply};
use crate::protocol::http::lightjq::messages::WorkerJob;
use crate::protocol::{SessionAction, SessionContext, TimeoutAction};
use crate::wire::http::{
    Body, Piece, ResponseHead, next_response, push_field, push_field_number, push_request_line,
};

/// A job that a worker is to be told of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// The job.
    pub id: JobId,
    /// Under which lease it was handed out.
    pub lease: LeaseEpoch,
    /// How many failures of the worker were counted before.
    pub round: u32,
    /// No connection will do that was used before.
    pub fresh: bool,
}

/// What came of an errand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeliveryOutcome {
    /// The worker has the job.
    Accepted,
    /// The worker does not want it: 400 or 404.
    Rejected(u16),
    /// It answers nothing that makes sense, or that it cannot.
    Failed {
        /// The whole request was sent, and was not answered: the worker may have the job.
        in_doubt: bool,
    },
    /// The worker does not hold the job any more: it was not called.
    Discarded,
    /// This server has no room for another connection.
    Busy,
}

#[derive(Debug)]
enum Phase {
    Idle,
    /// The errand waits for the connection, or for the engine.
    Asked,
    Answering,
    Body(Body),
    Over,
}

/// A connection to a worker, from before it is made.
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
#[derive(Debug)]
pub struct WorkerConnection {
    agent: ClientId,
    address: Address,
    phase: Phase,
    errand: Option<Delivery>,
    verdict: Option<DeliveryOutcome>,
    /// The name of the job's queue, once it was seen.
    queue: Vec<u8>,
    body: Vec<u8>,
    /// An errand was done on it before.
    kept: bool,
    /// Something has come since the errand began.
    heard: bool,
    /// Bytes that came before the head of the answer: interim answers, empty lines.
    interim: usize,
    /// The worker lets it be used again.
    keep_alive: bool,
    /// Its agent knows that it is idle.
    pooled: bool,
    serial: u32,
    deadline: Option<Mono>,
    /// The worker was too slow.
    late: bool,
}

/// Memory beyond this is given back.
const KEPT: usize = 16 * 1024;

impl WorkerConnection {
    /// A connection that is to be made for this errand of `agent`.
    #[must_use]
    pub fn new(agent: ClientId, address: Address, errand: Delivery) -> Self {
        Self {
            agent,
            address,
            phase: Phase::Asked,
            errand: Some(errand),
            verdict: None,
            queue: Vec::new(),
            body: Vec::new(),
            kept: false,
            heard: false,
            interim: 0,
            keep_alive: false,
            pooled: false,
            serial: 0,
            deadline: None,
            late: false,
        }
    }

    /// For whose worker it is.
    #[must_use]
    pub fn agent(&self) -> ClientId {
        self.agent
    }

    /// Takes on another errand: only after [`WorkerConnection::take_idle`] has told that it may.
    ///
    /// # Panics
    /// If it has one.
    pub fn start_delivery(&mut self, errand: Delivery) {
        assert!(self.errand.is_none() && self.is_idle(), "one errand at a time");
        self.errand = Some(errand);
        (self.phase, self.pooled, self.kept) = (Phase::Asked, false, true);
    }

    /// Goes about its errand, now that it is connected: what is to be submitted.
    ///
    /// # Panics
    /// If it has none.
    pub fn begin(&mut self, now: Now) -> (u32, Command<'static>) {
        let errand = self.errand.expect("a call is made for an errand");
        self.serial = self.serial.wrapping_add(1);
        (self.heard, self.interim) = (false, 0);
        self.queue.clear();
        self.deadline = Some(now.mono.after(WORKER_CALL_TIMEOUT));
        (self.serial, Command::Peek { id: errand.id })
    }

    /// Takes the reply: writes the request, if there is still reason to.
    pub(in crate::protocol) fn handle_reply(&mut self, reply: &Reply<'_>, out: &mut OutBuf) {
        let (Phase::Asked, Some(errand)) = (&self.phase, self.errand) else { return };
        match reply {
            Reply::Peeked(sight)
                if sight.status == Status::Reserved && sight.job.lease == errand.lease =>
            {
                self.write(sight, out);
                self.phase = Phase::Answering;
            }
            _ => {
                self.verdict = Some(DeliveryOutcome::Discarded);
                self.phase = Phase::Idle;
                self.keep_alive = true;
            }
        }
    }

    fn write(&mut self, sight: &JobInfo<'_>, out: &mut OutBuf) {
        let mut id = itoa::Buffer::new();
        let body = &mut self.body;
        self.queue.extend_from_slice(sight.job.queue);
        body.clear();
        let job = WorkerJob {
            id: id.format(sight.job.id.0),
            name: &String::from_utf8_lossy(sight.job.queue),
            argument: sight.job.payload,
            timeout_ms: (sight.lease_ms > 0).then_some(sight.lease_ms),
        };
        job.write(body);
        let out = out.tail();
        push_request_line(out, "POST", &self.address.path);
        push_field(out, "Host", self.address.authority.as_bytes());
        push_field(out, "Content-Type", b"application/msgpack");
        push_field_number(out, "Content-Length", body.len() as u64);
        out.extend_from_slice(b"\r\n");
        out.extend_from_slice(body);
        if body.capacity() > KEPT {
            *body = Vec::new();
        }
    }

    pub(in crate::protocol) fn poll_command<'s, 'i: 's>(
        &mut self,
        input: &mut Input<'i>,
        shared: &'s SessionContext,
        out: &OutBuf,
    ) -> SessionAction<'s> {
        self.heard |= !input.unread().is_empty();
        match &mut self.phase {
            Phase::Answering => self.read_head(input),
            Phase::Body(_) => self.read_body(input, shared.now, out),
            // What comes now answers nothing.
            Phase::Idle | Phase::Asked if !input.unread().is_empty() => self.give_up(),
            Phase::Idle | Phase::Asked => SessionAction::NeedInput,
            Phase::Over => {
                input.consume(input.unread().len());
                SessionAction::NeedInput
            }
        }
    }

    fn read_head<'s>(&mut self, input: &mut Input<'_>) -> SessionAction<'s> {
        let before = input.unread().len();
        let Ok(head) = next_response(input, false) else { return self.give_up() };
        if !matches!(head, Some(ResponseHead { status: 200.., .. })) {
            self.interim += before - input.unread().len();
            if self.interim > WORKER_INTERIM_MAX {
                return self.give_up();
            }
        }
        let Some(head) = head else { return SessionAction::NeedInput };
        match head.status {
            // There is nothing else that could be spoken here.
            101 => return self.give_up(),
            100..200 => return SessionAction::Continue,
            202 => self.verdict = Some(DeliveryOutcome::Accepted),
            400 | 404 => self.verdict = Some(DeliveryOutcome::Rejected(head.status)),
            _ => self.verdict = Some(DeliveryOutcome::Failed { in_doubt: false }),
        }
        self.keep_alive = head.keep_alive;
        match Body::new(head.framing, WORKER_ANSWER_MAX_BYTES) {
            Ok(body) if head.keep_alive => {
                self.phase = Phase::Body(body);
                SessionAction::Continue
            }
            _ => self.give_up(),
        }
    }

    fn read_body<'s>(
        &mut self,
        input: &mut Input<'_>,
        now: Now,
        out: &OutBuf,
    ) -> SessionAction<'s> {
        let Phase::Body(body) = &mut self.phase else { return SessionAction::NeedInput };
        loop {
            match body.next(input) {
                Ok(Piece::Data(_)) => {}
                Ok(Piece::Incomplete) => return SessionAction::NeedInput,
                // An answer to what was not sent to its end: the rest would be taken for more.
                Ok(Piece::End) if !out.is_empty() => return self.give_up(),
                Ok(Piece::End) => {
                    self.phase = Phase::Idle;
                    self.deadline = Some(now.mono.after(WORKER_KEEPALIVE));
                    return SessionAction::Continue;
                }
                Err(_) => return self.give_up(),
            }
        }
    }

    /// The connection is of no further use.
    fn give_up<'s>(&mut self) -> SessionAction<'s> {
        self.phase = Phase::Over;
        SessionAction::Continue
    }

    pub(in crate::protocol) fn deadline(&self) -> Option<Mono> {
        self.deadline
    }

    pub(in crate::protocol) fn handle_timeout(&mut self) -> TimeoutAction {
        self.late = true;
        TimeoutAction::Abort
    }

    /// What came of the errand, once that is known; told once.
    pub fn take_outcome(&mut self) -> Option<(Delivery, DeliveryOutcome)> {
        let verdict = self.verdict.take()?;
        Some((self.errand.take()?, verdict))
    }

    /// The name of the queue of the last job that was seen.
    #[must_use]
    pub fn queue(&self) -> &[u8] {
        &self.queue
    }

    /// Whether it has become idle since it was last asked.
    pub fn take_idle(&mut self) -> bool {
        self.is_idle() && self.errand.is_none() && !std::mem::replace(&mut self.pooled, true)
    }

    /// Whether it is free for another errand.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        matches!(self.phase, Phase::Idle) && self.keep_alive
    }

    /// Whether it is to be closed.
    #[must_use]
    pub fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Over)
    }

    /// Whether it is about an errand.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        self.errand.is_some()
    }

    /// There is no room here for its connection: that says nothing about its worker.
    pub fn hinder(&mut self) {
        self.verdict = Some(DeliveryOutcome::Busy);
    }

    /// The connection has ended, with `told` all that was to be sent. The errand, if nothing is
    /// known of it, and what came of it; `None` if it is worth another connection: a kept one may
    /// have been closed before the request came.
    pub fn handle_end(&mut self, told: bool) -> Option<(Delivery, Option<DeliveryOutcome>)> {
        let errand = self.errand.take()?;
        let verdict = self.verdict.take();
        let again = self.kept && !self.heard && !self.late && verdict.is_none();
        let sent = told && matches!(self.phase, Phase::Answering | Phase::Over);
        let verdict = verdict.unwrap_or(DeliveryOutcome::Failed { in_doubt: sent });
        Some((errand, (!again).then_some(verdict)))
    }
}
