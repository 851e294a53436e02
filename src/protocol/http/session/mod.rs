//! The session of one HTTP connection: it reads requests and submits their commands; `write` writes
//! the responses.

mod authentication;
mod import;
mod importing;
mod live;
mod phase;
mod submit;
mod write;

use super::health::refuse_by_standby;
use super::lightjq;
use super::live::Due;
use super::metrics::{self, Form};
use super::native;
use super::request::{PendingBody, is_import, route_request};
use super::response::{ExtraField, HttpError, JSON};
use super::route::{RouteMatch, reads_body};
use crate::base::buf::{Input, OutBuf};
use crate::base::limits::{HTTP_BODY_EXTRA_BYTES, HTTP_HEAD_TIMEOUT, HTTP_IDLE_TIMEOUT};
use crate::base::time::{Mono, Now};
use crate::model::id::JobId;
use crate::model::reply::Reply;
use crate::protocol::{SessionAction, SessionContext, TimeoutAction};
use crate::wire::http::{
    Body, Expect, Framing, ParseError, Piece, Version, next_request, target_of_faulty,
};
use phase::{Phase, Submitted};

/// The session of one HTTP connection.
#[derive(Debug)]
pub struct Session {
    phase: Phase,
    format: ResponseFormat,
    /// The head of the response and a part of its body are written.
    head_written: bool,
    /// The rest of a long response cannot be sent: it is not made.
    is_broken: bool,
    /// Fields of the response to the current request, such as the path of what it has made.
    extra: Vec<ExtraField>,
    /// The serial of the latest command.
    serial: u32,
    deadline: Option<Mono>,
    /// Unsent bytes at the last timeout between two requests: a client that has read some since
    /// gets more time.
    unsent_bytes: usize,
}

/// How the response to the current request is written.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a fact of its own, none excludes another"
)]
#[derive(Clone, Copy, Debug)]
struct ResponseFormat {
    /// The connection ends with the response.
    close: bool,
    version: Version,
    /// Only the head is sent.
    head_only: bool,
    /// Of the native API: errors are problem details, and nothing is cached.
    is_native: bool,
    /// It was asked over https, as the browser says: also if a proxy has taken the TLS off.
    is_secure: bool,
    media_type: &'static str,
    /// The text format of metrics.
    metrics: Form,
}

impl ResponseFormat {
    const DEFAULT: Self = Self {
        close: false,
        version: Version::Http11,
        head_only: false,
        is_native: false,
        is_secure: false,
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
            is_broken: false,
            extra: Vec::new(),
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
            Phase::Authenticating(_) => self.authenticated(input, shared, out),
            Phase::Body(_) => self.read_body(input, shared, out),
            Phase::Importing(_) => self.read_import(input, shared, out),
            Phase::Submitted(_) => SessionAction::Stalled,
            Phase::Answered(..)
            | Phase::Paging(..)
            | Phase::Respond(_)
            | Phase::Replied(..)
            | Phase::Collecting(..)
            | Phase::FetchingStats(_)
            | Phase::Listing(_) => self.resume(shared, out),
            Phase::Streaming(_) => self.write_stream(shared, out),
            Phase::Live(_) => self.write_live(shared, out),
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
            Phase::Replied(call, next) => self.write_native(call, next, shared, out),
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
        let unread = input.unread();
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
                let is_native = native::is_native_target(target_of_faulty(unread));
                self.format = ResponseFormat { is_native, ..ResponseFormat::DEFAULT };
                return self.respond_parse_error(parse_error, shared, out);
            }
        };
        let (routed, media_type) =
            route_request(&head, &shared.settings, &mut shared.scratch.http.queue);
        let is_native = native::is_native_target(head.target);
        if is_native {
            let query = head.target.split_once('?').map_or("", |(_, query)| query);
            shared.scratch.http.query_text.clear();
            shared.scratch.http.query_text.push_str(query);
        }
        self.format = ResponseFormat {
            is_native,
            is_secure: head.origin.is_some_and(|origin| origin.starts_with(b"https://")),
            // What comes next may be for the leader, and is forwarded on another connection.
            close: !head.keep_alive || shared.standby.is_some(),
            version: head.version,
            head_only: head.method == "HEAD",
            media_type,
            metrics: metrics::form(&routed, &head),
        };
        let framing = head.framing.unwrap_or(Framing::Length(0));
        if shared.has_users {
            return self.ask_who(&head, routed, shared);
        }
        self.take_request(routed, (framing, head.expect), input, shared, out)
    }

    /// Executes a request whose head is read, or collects its body first.
    fn take_request<'s, 'i: 's>(
        &mut self,
        routed: Result<RouteMatch, HttpError>,
        (framing, expect): (Framing, Expect),
        input: &mut Input<'i>,
        shared: &'s mut SessionContext,
        out: &mut OutBuf,
    ) -> SessionAction<'s> {
        let routed = match &shared.standby {
            None => routed,
            Some(leader) => refuse_by_standby(routed, leader),
        };
        if let Ok(call) = &routed
            && is_import(call.operation)
        {
            return self.begin_import(expect, framing, shared, out);
        }
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
        self.expect_body(expect, routed, body, input, shared, out)
    }

    /// Collects a body that has not arrived completely. A client that waits for `100 Continue` and
    /// whose request is rejected gets the rejection instead.
    fn expect_body<'s, 'i: 's>(
        &mut self,
        expect: Expect,
        routed: Result<RouteMatch, HttpError>,
        body: Body,
        input: &mut Input<'i>,
        shared: &'s mut SessionContext,
        out: &mut OutBuf,
    ) -> SessionAction<'s> {
        if expect != Expect::Nothing
            && let Err(error) = &routed
        {
            // The client may or may not send the body after this response, so what follows cannot
            // be parsed.
            self.format.close = true;
            return self.respond_error(error, shared, out);
        }
        if expect == Expect::Continue && input.unread().is_empty() {
            out.tail().extend_from_slice(b"HTTP/1.1 100 Continue\r\n\r\n");
        }
        let pending = Box::new(PendingBody {
            routed,
            body,
            bytes: Vec::new(),
            received: 0,
            queue: shared.scratch.http.queue.clone(),
            query_text: shared.scratch.http.query_text.clone(),
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
        shared.scratch.http.query_text = std::mem::take(&mut pending.query_text);
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
            (Submitted::Native(mut call), _) => {
                let next = call.handle_reply(reply);
                Phase::Replied(call, next)
            }
            (Submitted::Import(import), _) => Phase::Importing(import.replied(reply)),
            (Submitted::Live(mut stream), _) => {
                live::add_queue(&mut stream, reply);
                Phase::Live(stream)
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
            Phase::Head { begun: true } | Phase::Body(_) | Phase::Importing(_) => {
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
            Phase::Replied(..) if self.head_written => TimeoutAction::Abort,
            Phase::Live(ref mut stream) => {
                stream.handle_timeout();
                self.deadline = None;
                TimeoutAction::Rearm
            }
            Phase::Submitted(_)
            | Phase::Answered(..)
            | Phase::Paging(..)
            | Phase::Respond(_)
            | Phase::Replied(..)
            | Phase::Collecting(..)
            | Phase::FetchingStats(_)
            | Phase::Listing(_)
            | Phase::Authenticating(_)
            | Phase::Over => TimeoutAction::Rearm,
        }
    }

    pub(in crate::protocol) fn deadline(&self) -> Option<Mono> {
        self.deadline
    }

    /// Drops the rest of a long response, which cannot be sent.
    pub(in crate::protocol) fn handle_broken_output(&mut self) {
        match self.phase {
            Phase::Streaming(_) | Phase::Live(_) => self.end(),
            Phase::Replied(..) if self.head_written => self.end(),
            Phase::Submitted(Submitted::Native(_)) => self.is_broken = self.head_written,
            _ => {}
        }
    }

    pub(in crate::protocol) fn wants_poll(&self) -> bool {
        match &self.phase {
            Phase::Answered(..)
            | Phase::Paging(..)
            | Phase::Respond(_)
            | Phase::Replied(..)
            | Phase::Collecting(..)
            | Phase::FetchingStats(_)
            | Phase::Listing(_)
            | Phase::Streaming(_) => true,
            Phase::Importing(import) => import.is_due(),
            Phase::Live(stream) => stream.due != Due::Nothing,
            Phase::Head { .. }
            | Phase::Authenticating(_)
            | Phase::Body(_)
            | Phase::Submitted(_)
            | Phase::Over => false,
        }
    }

    /// The serial of a long poll, which ends when the client disconnects.
    pub(in crate::protocol) fn waits_for(&self) -> Option<u32> {
        let waits = match &self.phase {
            Phase::Submitted(Submitted::LightJq(lightjq::Operation::Await, _)) => true,
            Phase::Submitted(Submitted::Native(call)) => call.waits(),
            _ => false,
        };
        waits.then_some(self.serial)
    }

    pub(in crate::protocol) fn wants_input(&self) -> bool {
        match &self.phase {
            Phase::Head { .. } | Phase::Body(_) | Phase::Over => true,
            Phase::Importing(import) => !import.is_due(),
            _ => false,
        }
    }

    pub(in crate::protocol) fn is_settled(&self) -> bool {
        self.wants_input()
    }
}

fn body_max(shared: &SessionContext) -> u64 {
    (shared.settings.max_request + HTTP_BODY_EXTRA_BYTES) as u64
}
