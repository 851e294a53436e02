//! A connection to a worker: one delivery at a time, one request each.
//!
//! ```text
//!            begin          reply (Peek)              response head
//!   Idle ----------> Asked -------------> Answering ------------------> Body --> Idle or Over
//!    ^                 | the job is no longer reserved                            |
//!    +-----------------+----------------------------------------------------------+
//! ```
//!
//! The job is peeked just before it is sent, so that no copy of it is reused while a connection is
//! made, and none is sent under an expired lease. The status counts as soon as the response head is
//! complete: an invalid body costs the connection only.

use super::Address;
use crate::base::buf::{Input, OutBuf};
use crate::base::limits::{
    WORKER_ANSWER_MAX_BYTES, WORKER_CALL_TIMEOUT, WORKER_INTERIM_MAX_BYTES, WORKER_KEEPALIVE,
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

/// A job to be offered to a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// The job to be offered.
    pub id: JobId,
    /// The lease epoch of its reservation.
    pub lease: LeaseEpoch,
    /// Failures of the worker that were counted before.
    pub round: u32,
    /// Only a new connection will do: a reused one was closed without a response.
    pub fresh: bool,
}

/// The outcome of a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeliveryOutcome {
    /// The worker has accepted the job (202).
    Accepted,
    /// The worker has rejected the job (400 or 404).
    Rejected(u16),
    /// Any other response, or none.
    Failed {
        /// The whole request was sent and not answered: the worker may have the job.
        in_doubt: bool,
    },
    /// The job is no longer reserved under this lease: nothing was sent.
    Discarded,
    /// The server has no free outbound connection.
    Busy,
}

#[derive(Debug)]
enum Phase {
    Idle,
    /// The delivery waits for the connection, or for the engine.
    Asked,
    Answering,
    Body(Body),
    Over,
}

/// A connection to a worker, or the attempt to make one.
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
#[derive(Debug)]
pub struct WorkerConnection {
    agent: ClientId,
    address: Address,
    phase: Phase,
    delivery: Option<Delivery>,
    outcome: Option<DeliveryOutcome>,
    /// The queue of the job, once it was peeked.
    queue: Vec<u8>,
    body: Vec<u8>,
    /// It has carried a delivery before.
    reused: bool,
    /// Bytes have arrived since the delivery began.
    has_input: bool,
    /// Bytes before the response head: interim responses, empty lines.
    interim: usize,
    /// The response permits another request.
    keep_alive: bool,
    /// The dispatcher knows that it is idle.
    pooled: bool,
    serial: u32,
    deadline: Option<Mono>,
    /// The delivery has timed out.
    timed_out: bool,
}

/// Buffers beyond this many bytes are freed.
const KEPT: usize = 16 * 1024;

impl WorkerConnection {
    /// A connection to be made for this delivery of dispatcher `agent`.
    #[must_use]
    pub fn new(agent: ClientId, address: Address, delivery: Delivery) -> Self {
        Self {
            agent,
            address,
            phase: Phase::Asked,
            delivery: Some(delivery),
            outcome: None,
            queue: Vec::new(),
            body: Vec::new(),
            reused: false,
            has_input: false,
            interim: 0,
            keep_alive: false,
            pooled: false,
            serial: 0,
            deadline: None,
            timed_out: false,
        }
    }

    /// The dispatcher to which it belongs.
    #[must_use]
    pub fn agent(&self) -> ClientId {
        self.agent
    }

    /// Starts another delivery, after [`WorkerConnection::take_idle`] returned `true`.
    ///
    /// # Panics
    /// If a delivery is in flight.
    pub fn start_delivery(&mut self, delivery: Delivery) {
        assert!(self.delivery.is_none() && self.is_idle(), "one delivery at a time");
        self.delivery = Some(delivery);
        (self.phase, self.pooled, self.reused) = (Phase::Asked, false, true);
    }

    /// Starts the delivery on the established connection; returns the peek to submit.
    ///
    /// # Panics
    /// If there is no delivery.
    pub fn begin(&mut self, now: Now) -> (u32, Command<'static>) {
        let delivery = self.delivery.expect("a delivery was started");
        self.serial = self.serial.wrapping_add(1);
        (self.has_input, self.interim) = (false, 0);
        self.queue.clear();
        self.deadline = Some(now.mono.after(WORKER_CALL_TIMEOUT));
        (self.serial, Command::Peek { id: delivery.id })
    }

    /// Handles the reply to the peek: writes the request if the job is still reserved.
    pub(in crate::protocol) fn handle_reply(&mut self, reply: &Reply<'_>, out: &mut OutBuf) {
        let (Phase::Asked, Some(delivery)) = (&self.phase, self.delivery) else { return };
        match reply {
            Reply::Peeked(info)
                if info.status == Status::Reserved && info.job.lease == delivery.lease =>
            {
                self.write(info, out);
                self.phase = Phase::Answering;
            }
            _ => {
                self.outcome = Some(DeliveryOutcome::Discarded);
                self.phase = Phase::Idle;
                self.keep_alive = true;
            }
        }
    }

    fn write(&mut self, info: &JobInfo<'_>, out: &mut OutBuf) {
        let mut id = itoa::Buffer::new();
        let body = &mut self.body;
        self.queue.extend_from_slice(info.job.queue);
        body.clear();
        let job = WorkerJob {
            id: id.format(info.job.id.0),
            name: &String::from_utf8_lossy(info.job.queue),
            argument: info.job.payload,
            timeout_ms: (info.lease_ms > 0).then_some(info.lease_ms),
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
        self.has_input |= !input.unread().is_empty();
        match &mut self.phase {
            Phase::Answering => self.read_head(input),
            Phase::Body(_) => self.read_body(input, shared.turn.now, out),
            // Bytes that belong to no request.
            Phase::Idle | Phase::Asked if !input.unread().is_empty() => self.discard(),
            Phase::Idle | Phase::Asked => SessionAction::NeedInput,
            Phase::Over => {
                input.consume(input.unread().len());
                SessionAction::NeedInput
            }
        }
    }

    fn read_head<'s>(&mut self, input: &mut Input<'_>) -> SessionAction<'s> {
        let before = input.unread().len();
        let Ok(head) = next_response(input, false) else { return self.discard() };
        if !matches!(head, Some(ResponseHead { status: 200.., .. })) {
            self.interim += before - input.unread().len();
            if self.interim > WORKER_INTERIM_MAX_BYTES {
                return self.discard();
            }
        }
        let Some(head) = head else { return SessionAction::NeedInput };
        match head.status {
            // No other protocol can follow (`101 Switching Protocols`).
            101 => return self.discard(),
            100..200 => return SessionAction::Continue,
            202 => self.outcome = Some(DeliveryOutcome::Accepted),
            400 | 404 => self.outcome = Some(DeliveryOutcome::Rejected(head.status)),
            _ => self.outcome = Some(DeliveryOutcome::Failed { in_doubt: false }),
        }
        self.keep_alive = head.keep_alive;
        match Body::new(head.framing, WORKER_ANSWER_MAX_BYTES) {
            Ok(body) if head.keep_alive => {
                self.phase = Phase::Body(body);
                SessionAction::Continue
            }
            _ => self.discard(),
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
                // A response before the request was sent completely: the rest would be read as the
                // next request.
                Ok(Piece::End) if !out.is_empty() => return self.discard(),
                Ok(Piece::End) => {
                    self.phase = Phase::Idle;
                    self.deadline = Some(now.mono.after(WORKER_KEEPALIVE));
                    return SessionAction::Continue;
                }
                Err(_) => return self.discard(),
            }
        }
    }

    /// Makes the connection unusable.
    fn discard<'s>(&mut self) -> SessionAction<'s> {
        self.phase = Phase::Over;
        SessionAction::Continue
    }

    pub(in crate::protocol) fn deadline(&self) -> Option<Mono> {
        self.deadline
    }

    pub(in crate::protocol) fn handle_timeout(&mut self) -> TimeoutAction {
        self.timed_out = true;
        TimeoutAction::Abort
    }

    /// The outcome of the delivery, once it is known; returned once.
    pub fn take_outcome(&mut self) -> Option<(Delivery, DeliveryOutcome)> {
        let outcome = self.outcome.take()?;
        Some((self.delivery.take()?, outcome))
    }

    /// The queue of the latest job that was peeked.
    #[must_use]
    pub fn queue(&self) -> &[u8] {
        &self.queue
    }

    /// Whether it has become idle since the last call.
    pub fn take_idle(&mut self) -> bool {
        self.is_idle() && self.delivery.is_none() && !std::mem::replace(&mut self.pooled, true)
    }

    /// Whether another delivery can start.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        matches!(self.phase, Phase::Idle) && self.keep_alive
    }

    /// Whether it has to be closed.
    #[must_use]
    pub fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Over)
    }

    /// Whether a delivery is in flight.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        self.delivery.is_some()
    }

    /// Ends the attempt to connect: no outbound connection is free, which says nothing about the
    /// worker.
    pub fn fail_busy(&mut self) {
        self.outcome = Some(DeliveryOutcome::Busy);
    }

    /// Handles the end of the connection; `all_sent`: everything was sent. Returns the delivery if
    /// it has no outcome yet, and its outcome. `None` as outcome: try again on a new connection, as
    /// a reused one may have been closed before the request arrived.
    pub fn handle_end(&mut self, all_sent: bool) -> Option<(Delivery, Option<DeliveryOutcome>)> {
        let delivery = self.delivery.take()?;
        let outcome = self.outcome.take();
        let again = self.reused && !self.has_input && !self.timed_out && outcome.is_none();
        let sent = all_sent && matches!(self.phase, Phase::Answering | Phase::Over);
        let outcome = outcome.unwrap_or(DeliveryOutcome::Failed { in_doubt: sent });
        Some((delivery, (!again).then_some(outcome)))
    }
}
