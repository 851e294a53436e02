//! The session of one HTTP connection: it reads requests and submits their commands; `write` writes
//! the responses.

mod phase;
mod write;

use super::Scratch;
use super::health::HEALTHY;
use super::index;
use super::jobq::{self, PagedRequest};
use super::lightjq;
use super::metrics::{self, Form, StatsCollector};
use super::openapi;
use super::processor_status::ProcessorStatus;
use super::request::{PendingBody, route_request};
use super::response::{HTML, HttpError, JSON};
use super::route::{Operation, RouteMatch, reads_body};
use crate::base::buf::{Input, OutBuf};
use crate::base::limits::{HTTP_BODY_EXTRA_BYTES, HTTP_HEAD_TIMEOUT, HTTP_IDLE_TIMEOUT};
use crate::base::time::{Mono, Now};
use crate::model::command::Command;
use crate::model::id::JobId;
use crate::model::indexed_queue::IndexedCommand;
use crate::model::reply::Reply;
use crate::protocol::{SessionAction, SessionContext, TimeoutAction};
use crate::wire::http::{
    Body, Expect, Framing, ParseError, Piece, RequestHead, Version, next_request,
};
use phase::{Phase, Prepared, Submitted};

/// The session of one HTTP connection.
#[derive(Debug)]
pub struct Session {
    phase: Phase,
    format: ResponseFormat,
    /// The head of the response and a part of its body are written.
    head_written: bool,
    /// The serial of the latest command.
    serial: u32,
    deadline: Option<Mono>,
    /// Unsent bytes at the last timeout between two requests: a client that has read some since
    /// gets more time.
    unsent_bytes: usize,
}

/// How the response to the current request is written.
#[derive(Clone, Copy, Debug)]
struct ResponseFormat {
    /// The connection ends with the response.
    close: bool,
    version: Version,
    /// Only the head is sent.
    head_only: bool,
    media_type: &'static str,
    /// The text format of metrics.
    metrics: Form,
}

impl ResponseFormat {
    const DEFAULT: Self = Self {
        close: false,
        version: Version::Http11,
        head_only: false,
        media_type: JSON,
        metrics: Form::Classic,
    };
}

impl Session {
    /// The session of a connection that is accepted at `now`.
    #[must_use]
    pub fn new(now: Now) -> Self {
        Self {
            phase: Phase::Head { begun: false },
            format: ResponseFormat::DEFAULT,
            head_written: false,
            serial: 0,
            deadline: Some(now.mono.after(HTTP_IDLE_TIMEOUT)),
            unsent_bytes: 0,
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
            Phase::Submitted(_) => SessionAction::Stalled,
            Phase::Answered(..)
            | Phase::Paging(..)
            | Phase::Respond(_)
            | Phase::Collecting(..)
            | Phase::FetchingStats(_)
            | Phase::Listing(_) => self.resume(shared, out),
            Phase::Streaming(_) => self.write_stream(shared, out),
            Phase::Over => {
                input.consume(input.unread().len());
                SessionAction::NeedInput
            }
        }
    }

    /// Goes on after a reply, or with the next command of a request that takes several.
    fn resume<'s>(
        &mut self,
        shared: &'s mut SessionContext,
        out: &mut OutBuf,
    ) -> SessionAction<'s> {
        match std::mem::replace(&mut self.phase, Phase::Over) {
            Phase::Answered(job, request, reply) => {
                self.write_answer((job, request.as_deref()), reply, shared, out)
            }
            Phase::Paging(request, Some(page)) => self.write_page(request, &page, shared, out),
            Phase::Paging(request, None) => self.submit_page(request, shared),
            Phase::Respond(result) => self.write_lightjq(result, shared, out),
            Phase::Collecting(collector, Some(page)) => self.add_stats(collector, page),
            Phase::Collecting(collector, None) => self.submit_scan(collector),
            Phase::FetchingStats(sample) => self.write_metrics(sample, shared, out),
            Phase::Listing(status) => self.continue_listing(status, shared, out),
            phase => {
                self.phase = phase;
                SessionAction::Stalled
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
                    self.deadline = Some(shared.turn.now.mono.after(HTTP_HEAD_TIMEOUT));
                }
                return SessionAction::NeedInput;
            }
            Err(parse_error) => {
                self.format = ResponseFormat::DEFAULT;
                return self.respond_parse_error(parse_error, shared, out);
            }
        };
        let (routed, media_type) =
            route_request(&head, &shared.settings.http_names, &mut shared.scratch.http.queue);
        self.format = ResponseFormat {
            close: !head.keep_alive,
            version: head.version,
            head_only: head.method == "HEAD",
            media_type,
            metrics: metrics::form(&routed, &head),
        };
        let framing = head.framing.unwrap_or(Framing::Length(0));
        let body = match Body::new(framing, body_max(shared)) {
            Ok(body) => body,
            Err(parse_error) => return self.respond_parse_error(parse_error, shared, out),
        };
        if let Framing::Length(length) = framing
            && let Some(bytes) =
                usize::try_from(length).ok().and_then(|to| input.unread().get(..to))
        {
            input.consume(bytes.len());
            return match routed {
                Ok(call) => self.execute(call, bytes, shared, out),
                Err(error) => self.respond_error(&error, shared, out),
            };
        }
        self.expect_body(&head, routed, body, input, shared, out)
    }

    /// Collects a body that has not arrived completely. A client that waits for `100 Continue` and
    /// whose request is rejected gets the rejection instead.
    fn expect_body<'s, 'i: 's>(
        &mut self,
        head: &RequestHead<'_>,
        routed: Result<RouteMatch, HttpError>,
        body: Body,
        input: &mut Input<'i>,
        shared: &'s mut SessionContext,
        out: &mut OutBuf,
    ) -> SessionAction<'s> {
        if head.expect != Expect::Nothing
            && let Err(error) = &routed
        {
            // The client may or may not send the body after this response, so what follows cannot
            // be parsed.
            self.format.close = true;
            return self.respond_error(error, shared, out);
        }
        if head.expect == Expect::Continue && input.unread().is_empty() {
            out.tail().extend_from_slice(b"HTTP/1.1 100 Continue\r\n\r\n");
        }
        let pending = Box::new(PendingBody {
            routed,
            body,
            bytes: Vec::new(),
            received: 0,
            queue: shared.scratch.http.queue.clone(),
            since: shared.turn.now.mono,
        });
        self.deadline = Some(pending.deadline());
        self.phase = Phase::Body(pending);
        self.read_body(input, shared, out)
    }

    fn read_body<'s, 'i: 's>(
        &mut self,
        input: &mut Input<'i>,
        shared: &'s mut SessionContext,
        out: &mut OutBuf,
    ) -> SessionAction<'s> {
        let Phase::Body(pending) = &mut self.phase else { return SessionAction::Stalled };
        let is_read = pending.routed.as_ref().is_ok_and(reads_body);
        loop {
            match pending.body.next(input) {
                Ok(Piece::Data(bytes)) => {
                    pending.received += bytes.len() as u64;
                    if is_read {
                        pending.bytes.extend_from_slice(bytes);
                    }
                }
                Ok(Piece::Incomplete) => {
                    self.deadline = Some(pending.deadline());
                    return SessionAction::NeedInput;
                }
                Ok(Piece::End) => break,
                Err(parse_error) => return self.respond_parse_error(parse_error, shared, out),
            }
        }
        let bytes = std::mem::take(&mut pending.bytes);
        shared.scratch.http.queue = std::mem::take(&mut pending.queue);
        match std::mem::replace(&mut pending.routed, Err(HttpError::new(500, ""))) {
            Ok(call) => self.execute_collected(call, bytes, shared, out),
            Err(error) => self.respond_error(&error, shared, out),
        }
    }

    /// Executes a request whose body is in the input.
    fn execute<'s, 'i: 's>(
        &mut self,
        call: RouteMatch,
        body: &'i [u8],
        shared: &'s mut SessionContext,
        out: &mut OutBuf,
    ) -> SessionAction<'s> {
        shared.scratch.http.shrink();
        let prepared = self.prepare(&call, body, shared, out);
        self.submit(prepared, &call, Some(body), shared)
    }

    /// Executes a request whose body was collected.
    #[cold]
    fn execute_collected<'s>(
        &mut self,
        call: RouteMatch,
        body: Vec<u8>,
        shared: &'s mut SessionContext,
        out: &mut OutBuf,
    ) -> SessionAction<'s> {
        shared.scratch.http.shrink();
        let prepared = self.prepare(&call, &body, shared, out);
        shared.scratch.http.body = body;
        self.submit(prepared, &call, None, shared)
    }

    /// Reads the body, and answers what takes no command.
    fn prepare(
        &mut self,
        call: &RouteMatch,
        body: &[u8],
        shared: &mut SessionContext,
        out: &mut OutBuf,
    ) -> Prepared {
        let text = match call.operation {
            Operation::Jobq(operation) => {
                let http = &mut shared.scratch.http;
                return match jobq::prepare(operation, call.whole_names, body, http) {
                    Ok(jobq::Prepared::Single(request)) => Prepared::Jobq(request),
                    Ok(jobq::Prepared::Paged(request)) => Prepared::Paged(request),
                    Err(error) => Prepared::Answered(self.respond_error(&error, shared, out)),
                };
            }
            Operation::LightJq(operation) => {
                return Prepared::LightJq(operation);
            }
            Operation::Metrics => {
                self.format.media_type = self.format.metrics.media_type();
                return Prepared::Stats;
            }
            Operation::Processor => {
                let status = ProcessorStatus::new(&shared.scratch.http.queue);
                return Prepared::Listing(Box::new(status));
            }
            Operation::Index if self.format.media_type == HTML => index::PAGE,
            Operation::Index => index::LINKS,
            Operation::Health => HEALTHY,
            Operation::OpenApi => openapi::document(),
        };
        Prepared::Answered(self.respond_text(text, shared, out))
    }

    /// Submits the first command of a request, if there is one. `body`: if it is in the input.
    fn submit<'s>(
        &mut self,
        request: Prepared,
        call: &RouteMatch,
        body: Option<&'s [u8]>,
        shared: &'s mut SessionContext,
    ) -> SessionAction<'s> {
        match request {
            Prepared::Answered(action) => action,
            Prepared::Jobq(single) => {
                let serial = self.begin_command(Submitted::Jobq(call.job));
                let scratch: &'s Scratch = &shared.scratch.http;
                let body = body.unwrap_or(&scratch.body);
                let command = jobq::command(single, call.job, body, scratch);
                SessionAction::Submit(serial, Command::Indexed(command))
            }
            Prepared::Paged(request) => self.submit_page(request, shared),
            Prepared::LightJq(operation) => self.submit_lightjq(operation, call, body, shared),
            Prepared::Stats => self.submit_scan(Box::default()),
            Prepared::Listing(status) => {
                self.phase = Phase::Listing(status);
                SessionAction::Continue
            }
        }
    }

    fn submit_lightjq<'s>(
        &mut self,
        operation: lightjq::Operation,
        call: &RouteMatch,
        body: Option<&'s [u8]>,
        shared: &'s mut SessionContext,
    ) -> SessionAction<'s> {
        let serial = self.begin_command(Submitted::LightJq(operation, call.job));
        let Scratch { queue, body: collected, lightjq: scratch, .. } = &mut shared.scratch.http;
        scratch.result_ttl_ms = shared.settings.result_ttl_ms;
        let request = lightjq::Request {
            operation,
            job: call.job,
            details: call.details,
            name: queue,
            body: body.unwrap_or(collected),
        };
        match lightjq::parse(request, scratch) {
            Ok(command) => SessionAction::Submit(serial, command),
            Err(error) => {
                self.phase = Phase::Respond(Err(error));
                SessionAction::Continue
            }
        }
    }

    /// Submits the next command of a paged request.
    fn submit_page<'s>(
        &mut self,
        request: Box<PagedRequest>,
        shared: &'s mut SessionContext,
    ) -> SessionAction<'s> {
        let command = Command::Indexed(request.next_command(&mut shared.scratch.http));
        SessionAction::Submit(self.begin_command(Submitted::Paged(request)), command)
    }

    /// Submits the next step of the statistics scan.
    fn submit_scan(&mut self, collector: Box<StatsCollector>) -> SessionAction<'static> {
        let command = Command::Indexed(IndexedCommand::Stats(collector.next_scan()));
        SessionAction::Submit(self.begin_command(Submitted::Stats(collector)), command)
    }

    /// The serial of a command that is submitted next.
    fn begin_command(&mut self, request: Submitted) -> u32 {
        self.serial = self.serial.wrapping_add(1);
        self.phase = Phase::Submitted(request);
        self.deadline = None;
        self.serial
    }

    pub(in crate::protocol) fn handle_reply(&mut self, serial: u32, reply: &Reply<'_>) {
        assert!(serial == self.serial, "a reply to a command of an earlier request");
        let Phase::Submitted(request) = std::mem::replace(&mut self.phase, Phase::Over) else {
            panic!("a second reply to one command");
        };
        self.phase = match (request, reply) {
            (Submitted::LightJq(operation, job), _) => {
                let is_json = self.format.media_type == JSON;
                Phase::Respond(lightjq::respond(operation, job, is_json, reply))
            }
            (Submitted::Jobq(job), Reply::Indexed(reply)) => {
                Phase::Answered(job, None, (*reply).clone())
            }
            (Submitted::Paged(request), Reply::Indexed(reply)) => {
                Phase::Answered(JobId::NEVER, Some(request), (*reply).clone())
            }
            (Submitted::Paged(request), Reply::IndexedPage(page)) => {
                Phase::Paging(request, Some((*page).clone()))
            }
            (Submitted::Stats(collector), Reply::Stats(page)) => {
                Phase::Collecting(collector, Some((*page).clone()))
            }
            (Submitted::Listing(mut status), _) => {
                status.add_reply(reply);
                Phase::Listing(status)
            }
            (Submitted::Jobq(_) | Submitted::Paged(_) | Submitted::Stats(_), _) => {
                reply.unexpected()
            }
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
                    self.format = ResponseFormat::DEFAULT;
                }
                let parse_error = ParseError { status: 408, why: "the request took too long" };
                self.respond_parse_error(parse_error, shared, out);
                TimeoutAction::Close
            }
            Phase::Head { begun: false } if out.is_empty() => {
                self.end();
                TimeoutAction::Close
            }
            Phase::Head { begun: false } if out.len() != self.unsent_bytes => {
                self.unsent_bytes = out.len();
                self.deadline = Some(shared.turn.now.mono.after(HTTP_IDLE_TIMEOUT));
                TimeoutAction::Rearm
            }
            Phase::Head { begun: false } | Phase::Streaming(_) => TimeoutAction::Abort,
            Phase::Submitted(_)
            | Phase::Answered(..)
            | Phase::Paging(..)
            | Phase::Respond(_)
            | Phase::Collecting(..)
            | Phase::FetchingStats(_)
            | Phase::Listing(_)
            | Phase::Over => TimeoutAction::Rearm,
        }
    }

    pub(in crate::protocol) fn deadline(&self) -> Option<Mono> {
        self.deadline
    }

    /// Drops the rest of a long response, which cannot be sent.
    pub(in crate::protocol) fn handle_broken_output(&mut self) {
        if let Phase::Streaming(_) = self.phase {
            self.end();
        }
    }

    pub(in crate::protocol) fn wants_poll(&self) -> bool {
        match self.phase {
            Phase::Answered(..)
            | Phase::Paging(..)
            | Phase::Respond(_)
            | Phase::Collecting(..)
            | Phase::FetchingStats(_)
            | Phase::Listing(_)
            | Phase::Streaming(_) => true,
            Phase::Head { .. } | Phase::Body(_) | Phase::Submitted(_) | Phase::Over => false,
        }
    }

    /// The serial of a long poll, which ends when the client disconnects.
    pub(in crate::protocol) fn waits_for(&self) -> Option<u32> {
        let is_long_poll = matches!(
            self.phase,
            Phase::Submitted(Submitted::LightJq(lightjq::Operation::Await, _))
        );
        is_long_poll.then_some(self.serial)
    }

    pub(in crate::protocol) fn wants_input(&self) -> bool {
        matches!(self.phase, Phase::Head { .. } | Phase::Body(_) | Phase::Over)
    }

    pub(in crate::protocol) fn is_settled(&self) -> bool {
        self.wants_input()
    }
}

fn body_max(shared: &SessionContext) -> u64 {
    (shared.settings.max_request + HTTP_BODY_EXTRA_BYTES) as u64
}
