//! One client's side of HTTP.

mod write;

use super::health::HEALTHY;
use super::index::{self, HTML};
use super::jobq::{self, JobqReply, PagedRequest};
use super::lightjq::{self, Parsed, Response};
use super::metrics::{self, Form, StatsCollector};
use super::openapi;
use super::processor_status::ProcessorStatus;
use super::request::{PendingBody, reads_body, route_request};
use super::response::{HttpError, JSON};
use super::route::{Operation, RouteMatch};
use super::{Long, Scratch};
use crate::base::buf::{Input, OutBuf};
use crate::base::limits::{HTTP_BODY_EXTRA_BYTES, HTTP_HEAD_TIMEOUT, HTTP_IDLE_TIMEOUT};
use crate::base::time::{Mono, Now};
use crate::model::indexed_queue::IndexedCommand;
use crate::model::reply::Reply;
use crate::protocol::{SessionAction, SessionContext, TimeoutAction};
use crate::wire::http::{Body, Expect, Fault, Framing, Piece, RequestHead, Version, next_request};

/// One client's side of the protocol.
#[derive(Debug)]
pub struct Session {
    phase: Phase,
    manner: Manner,
    /// The request in hand, once its head is read.
    call: Option<RouteMatch>,
    /// What is asked again until nothing is left of it.
    question: Option<Box<PagedRequest>>,
    /// The census for the metrics in hand.
    gather: Option<Box<StatsCollector>>,
    /// What the processor has of a queue, while that is found out.
    inquiry: Option<Box<ProcessorStatus>>,
    /// The head of the answer in hand, and a part of its body, are written.
    begun: bool,
    /// The serial of the latest command.
    serial: u32,
    deadline: Option<Mono>,
    /// What was unsent when the client was found too slow, and spared.
    unsent: usize,
}

#[derive(Debug)]
enum Phase {
    /// Between two requests, or in the head of one: then it has begun.
    Head {
        begun: bool,
    },
    Body(Box<PendingBody>),
    /// The engine has the request.
    Asked,
    /// The engine has answered.
    Answered(JobqReply),
    /// What is to be told is known.
    Told(Result<Response, HttpError>),
    /// The question is to be asked again.
    Again,
    /// The answer goes on.
    Streaming(Box<dyn Long>),
    /// The server counts what goes into the metrics besides.
    Figures(metrics::QueueSample),
    /// What comes in is passed over.
    Over,
}

/// How the request in hand wants to be answered.
#[derive(Clone, Copy, Debug)]
struct Manner {
    /// The connection ends with the answer.
    close: bool,
    version: Version,
    /// Only the head is sent.
    to_head: bool,
    /// The media type of the answer.
    kind: &'static str,
    /// How metrics are written.
    form: Form,
}

impl Manner {
    const PLAIN: Self = Self {
        close: false,
        version: Version::Http11,
        to_head: false,
        kind: JSON,
        form: Form::Classic,
    };
}

impl Session {
    /// A session that begins now.
    #[must_use]
    pub fn new(now: Now) -> Self {
        Self {
            phase: Phase::Head { begun: false },
            manner: Manner::PLAIN,
            call: None,
            question: None,
            gather: None,
            inquiry: None,
            begun: false,
            serial: 0,
            deadline: Some(now.mono.after(HTTP_IDLE_TIMEOUT)),
            unsent: 0,
        }
    }

    #[inline(never)]
    pub(in crate::protocol) fn poll_command<'s, 'i: 's>(
        &mut self,
        input: &mut Input<'i>,
        shared: &'s mut SessionContext,
        out: &mut OutBuf,
    ) -> SessionAction<'s> {
        match &mut self.phase {
            Phase::Head { .. } => self.read_head(input, shared, out),
            Phase::Body(_) => self.read_body(input, shared, out),
            Phase::Asked => SessionAction::Stalled,
            Phase::Answered(_) => self.write_answer(shared, out),
            Phase::Told(_) => self.write_lightjq(shared, out),
            Phase::Again if self.inquiry.is_some() => self.continue_listing(shared, out),
            Phase::Again => self.ask_again(shared),
            Phase::Streaming(_) => self.stream(shared, out),
            Phase::Figures(_) => self.write_metrics(shared, out),
            Phase::Over => {
                input.consume(input.unread().len());
                SessionAction::NeedInput
            }
        }
    }

    fn read_head<'s, 'i: 's>(
        &mut self,
        input: &mut Input<'i>,
        shared: &'s mut SessionContext,
        out: &mut OutBuf,
    ) -> SessionAction<'s> {
        let head = match next_request(input) {
            Ok(Some(head)) => head,
            Ok(None) => {
                if let (Phase::Head { begun }, false) = (&mut self.phase, input.unread().is_empty())
                    && !std::mem::replace(begun, true)
                {
                    self.deadline = Some(shared.now.mono.after(HTTP_HEAD_TIMEOUT));
                }
                return SessionAction::NeedInput;
            }
            Err(fault) => {
                self.manner = Manner::PLAIN;
                return self.give_up(fault, shared, out);
            }
        };
        let (verdict, kind) = route_request(&head, &shared.http_names, &mut shared.http.queue);
        self.manner = Manner {
            close: !head.keep_alive,
            version: head.version,
            to_head: head.method == "HEAD",
            kind,
            form: metrics::form(&verdict, &head),
        };
        let framing = head.framing.unwrap_or(Framing::Length(0));
        let body = match Body::new(framing, body_max(shared)) {
            Ok(body) => body,
            Err(fault) => return self.give_up(fault, shared, out),
        };
        if let Framing::Length(length) = framing
            && let Some(bytes) =
                usize::try_from(length).ok().and_then(|to| input.unread().get(..to))
        {
            input.consume(bytes.len());
            return match verdict {
                Ok(call) => self.execute(call, bytes, shared, out),
                Err(problem) => self.refuse(&problem, shared, out),
            };
        }
        self.expect_body(&head, verdict, body, input, shared, out)
    }

    /// The body is not all there: it is collected, unless the client waits to be told first.
    fn expect_body<'s, 'i: 's>(
        &mut self,
        head: &RequestHead<'_>,
        verdict: Result<RouteMatch, HttpError>,
        body: Body,
        input: &mut Input<'i>,
        shared: &'s mut SessionContext,
        out: &mut OutBuf,
    ) -> SessionAction<'s> {
        if head.expect != Expect::Nothing
            && let Err(problem) = &verdict
        {
            // Whether the body will come after this answer is for the client to decide, so nothing
            // can be made of what follows.
            self.manner.close = true;
            return self.refuse(problem, shared, out);
        }
        if head.expect == Expect::Continue && input.unread().is_empty() {
            out.tail().extend_from_slice(b"HTTP/1.1 100 Continue\r\n\r\n");
        }
        let collecting = Box::new(PendingBody {
            verdict,
            body,
            bytes: Vec::new(),
            received: 0,
            queue: shared.http.queue.clone(),
            since: shared.now.mono,
        });
        self.deadline = Some(collecting.deadline());
        self.phase = Phase::Body(collecting);
        self.read_body(input, shared, out)
    }

    fn read_body<'s, 'i: 's>(
        &mut self,
        input: &mut Input<'i>,
        shared: &'s mut SessionContext,
        out: &mut OutBuf,
    ) -> SessionAction<'s> {
        let Phase::Body(collecting) = &mut self.phase else { return SessionAction::Stalled };
        let wanted = collecting.verdict.as_ref().is_ok_and(reads_body);
        loop {
            match collecting.body.next(input) {
                Ok(Piece::Data(bytes)) => {
                    collecting.received += bytes.len() as u64;
                    if wanted {
                        collecting.bytes.extend_from_slice(bytes);
                    }
                }
                Ok(Piece::Incomplete) => {
                    self.deadline = Some(collecting.deadline());
                    return SessionAction::NeedInput;
                }
                Ok(Piece::End) => break,
                Err(fault) => return self.give_up(fault, shared, out),
            }
        }
        let bytes = std::mem::take(&mut collecting.bytes);
        shared.http.queue = std::mem::take(&mut collecting.queue);
        match std::mem::replace(&mut collecting.verdict, Err(HttpError::new(500, ""))) {
            Ok(call) => self.perform_collected(call, bytes, shared, out),
            Err(problem) => self.refuse(&problem, shared, out),
        }
    }

    /// Carries out a request whose body is in the input.
    fn execute<'s, 'i: 's>(
        &mut self,
        call: RouteMatch,
        body: &'i [u8],
        shared: &'s mut SessionContext,
        out: &mut OutBuf,
    ) -> SessionAction<'s> {
        shared.http.shrink();
        match self.prepare(call, body, shared, out) {
            Some(step) => step,
            None => self.submit(call, Some(body), shared),
        }
    }

    /// Carries out a request whose body was collected.
    #[cold]
    fn perform_collected<'s>(
        &mut self,
        call: RouteMatch,
        body: Vec<u8>,
        shared: &'s mut SessionContext,
        out: &mut OutBuf,
    ) -> SessionAction<'s> {
        shared.http.shrink();
        let prepared = self.prepare(call, &body, shared, out);
        shared.http.body = body;
        match prepared {
            Some(step) => step,
            None => self.submit(call, None, shared),
        }
    }

    /// Reads what the body says. `None`: something is to be submitted.
    fn prepare(
        &mut self,
        call: RouteMatch,
        body: &[u8],
        shared: &mut SessionContext,
        out: &mut OutBuf,
    ) -> Option<SessionAction<'static>> {
        self.call = Some(call);
        let operation = match call.operation {
            Operation::Index => {
                let text = if self.manner.kind == HTML { index::PAGE } else { index::LINKS };
                return Some(self.answer_at_once(text, shared, out));
            }
            Operation::Health => return Some(self.answer_at_once(HEALTHY, shared, out)),
            Operation::OpenApi => {
                return Some(self.answer_at_once(openapi::document(), shared, out));
            }
            Operation::Metrics => {
                self.manner.kind = self.manner.form.media_type();
                self.gather = Some(Box::default());
                return None;
            }
            Operation::Processor => {
                self.inquiry = Some(Box::new(ProcessorStatus::new(&shared.http.queue)));
                self.phase = Phase::Again;
                return Some(SessionAction::Continue);
            }
            Operation::LightJq(_) => return None,
            Operation::Jobq(operation) => operation,
        };
        match jobq::prepare(operation, call.whole_names, body, &mut shared.http) {
            Ok(question) => self.question = question.map(Box::new),
            Err(problem) => return Some(self.refuse(&problem, shared, out)),
        }
        None
    }

    /// Submits what has been prepared.
    fn submit<'s>(
        &mut self,
        call: RouteMatch,
        body: Option<&'s [u8]>,
        shared: &'s mut SessionContext,
    ) -> SessionAction<'s> {
        if self.question.is_some() || self.gather.is_some() {
            return self.ask_again(shared);
        }
        self.open();
        match call.operation {
            Operation::Jobq(operation) => {
                let work: &'s Scratch = &shared.http;
                let body = body.unwrap_or(&work.body);
                SessionAction::Watch(self.serial, jobq::command(operation, call.job, body, work))
            }
            Operation::LightJq(operation) => self.submit_work(operation, &call, body, shared),
            Operation::Index
            | Operation::Health
            | Operation::Metrics
            | Operation::OpenApi
            | Operation::Processor => {
                unreachable!("everything else is answered at once, or asks by itself")
            }
        }
    }

    fn submit_work<'s>(
        &mut self,
        operation: lightjq::Operation,
        call: &RouteMatch,
        body: Option<&'s [u8]>,
        shared: &'s mut SessionContext,
    ) -> SessionAction<'s> {
        let Scratch { queue, body: collected, lightjq: scratch, .. } = &mut shared.http;
        scratch.result_ttl_ms = shared.result_ttl_ms;
        let request = lightjq::Request {
            operation,
            job: call.job,
            details: call.details,
            name: queue,
            body: body.unwrap_or(collected),
        };
        match lightjq::parse(request, scratch) {
            Ok(Parsed::Command(command)) => SessionAction::Submit(self.serial, command),
            Ok(Parsed::Work(work)) => SessionAction::Work(self.serial, work),
            Err(problem) => {
                self.phase = Phase::Told(Err(problem));
                SessionAction::Continue
            }
        }
    }

    fn ask_again<'s>(&mut self, shared: &'s mut SessionContext) -> SessionAction<'s> {
        self.open();
        if let Some(gather) = &self.gather {
            return SessionAction::Watch(self.serial, IndexedCommand::Stats(gather.ask()));
        }
        let Some(question) = &self.question else { unreachable!("what is asked again is kept") };
        SessionAction::Watch(self.serial, question.ask(&mut shared.http))
    }

    fn open(&mut self) {
        self.serial = self.serial.wrapping_add(1);
        self.phase = Phase::Asked;
        self.deadline = None;
    }

    pub(in crate::protocol) fn handle_reply(&mut self, serial: u32, reply: &Reply<'_>) {
        assert!(serial == self.serial, "a reply to a request that is not under way");
        assert!(matches!(self.phase, Phase::Asked), "a request was answered twice");
        if self.inquiry.is_some() {
            return self.accept_page(reply);
        }
        self.phase = match self.call {
            Some(RouteMatch { operation: Operation::LightJq(operation), job, .. }) => {
                Phase::Told(lightjq::respond(operation, job, self.manner.kind == JSON, reply))
            }
            _ => Phase::Answered(JobqReply::of(reply)),
        };
    }

    pub(in crate::protocol) fn handle_timeout(
        &mut self,
        shared: &mut SessionContext,
        out: &mut OutBuf,
    ) -> TimeoutAction {
        match self.phase {
            Phase::Head { begun: true } | Phase::Body(_) => {
                if let Phase::Head { .. } = self.phase {
                    self.manner = Manner::PLAIN;
                }
                let fault = Fault { status: 408, why: "the request took too long" };
                self.give_up(fault, shared, out);
                TimeoutAction::Close
            }
            Phase::Head { begun: false } if out.is_empty() => {
                self.end();
                TimeoutAction::Close
            }
            Phase::Head { begun: false } if out.len() != self.unsent => {
                self.unsent = out.len();
                self.deadline = Some(shared.now.mono.after(HTTP_IDLE_TIMEOUT));
                TimeoutAction::Rearm
            }
            Phase::Head { begun: false } | Phase::Streaming(_) => TimeoutAction::Abort,
            Phase::Asked
            | Phase::Answered(_)
            | Phase::Told(_)
            | Phase::Again
            | Phase::Figures(_)
            | Phase::Over => TimeoutAction::Rearm,
        }
    }

    pub(in crate::protocol) fn deadline(&self) -> Option<Mono> {
        self.deadline
    }

    /// Nobody will read the rest of a long answer.
    pub(in crate::protocol) fn handle_broken_output(&mut self) {
        if let Phase::Streaming(_) = self.phase {
            self.end();
        }
    }

    pub(in crate::protocol) fn wants_poll(&self) -> bool {
        matches!(
            self.phase,
            Phase::Answered(_) | Phase::Told(_) | Phase::Again | Phase::Streaming(_)
        )
    }

    /// Somebody who has gone does not wait for the end of a job.
    pub(in crate::protocol) fn waits_for(&self) -> Option<u32> {
        let awaits = Operation::LightJq(lightjq::Operation::Await);
        let waits = matches!(self.phase, Phase::Asked)
            && self.call.is_some_and(|call| call.operation == awaits);
        waits.then_some(self.serial)
    }

    pub(in crate::protocol) fn wants_input(&self) -> bool {
        matches!(self.phase, Phase::Head { .. } | Phase::Body(_) | Phase::Over)
    }

    pub(in crate::protocol) fn is_settled(&self) -> bool {
        self.wants_input()
    }
}

fn body_max(shared: &SessionContext) -> u64 {
    (shared.max_request + HTTP_BODY_EXTRA_BYTES) as u64
}
