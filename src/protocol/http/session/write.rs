//! The part of a session that writes responses.

use super::{Phase, ResponseFormat, Session};
use crate::base::buf::OutBuf;
use crate::base::limits::{HTTP_BODY_EXTRA_BYTES, HTTP_IDLE_TIMEOUT, HTTP_READER_TIMEOUT};
use crate::model::command::Command;
use crate::model::id::JobId;
use crate::model::indexed_queue::{IndexedPage, IndexedReply};
use crate::model::stats::StatsPage;
use crate::model::worker::WorkerCommand;
use crate::protocol::http::jobq::{self, BodyKind, PagedRequest};
use crate::protocol::http::lightjq::Response;
use crate::protocol::http::metrics::{self, QueueSample, StatsCollector};
use crate::protocol::http::native::{self, PROBLEM};
use crate::protocol::http::processor_status::ProcessorStatus;
use crate::protocol::http::response::{
    BodyLength, HTML, HttpError, JSON, ResponseHead, write_error, write_head,
};
use crate::protocol::http::route::RouteMatch;
use crate::protocol::http::session::Submitted;
use crate::protocol::http::session_cookie;
use crate::protocol::http::ui::{self, PageRoute};
use crate::protocol::operations::{Call, Next, Problem};
use crate::protocol::queue_listing::ListingNeed;
use crate::protocol::{SessionAction, SessionContext, StatsKind};
use crate::wire::http::{ParseError, Version, push_chunk, push_last_chunk};

#[cold]
fn too_long(max_request: usize) -> HttpError {
    let (max, extra) = (max_request + HTTP_BODY_EXTRA_BYTES, HTTP_BODY_EXTRA_BYTES / 1024);
    let why = format!(
        "the body is longer than {max} bytes, which are {max_request} (--max-request) and {extra} \
         KiB: send less, or start the server with a larger --max-request"
    );
    HttpError::new(413, why)
}

impl Session {
    /// The bytes of an unfinished body.
    pub(in crate::protocol) fn buffered_bytes(&self) -> usize {
        match &self.phase {
            Phase::Body(pending) => pending.bytes.len(),
            Phase::Importing(import) => import.lines.buffered_bytes(),
            _ => 0,
        }
    }

    /// Writes the response to a Jobq request, or its end.
    pub(super) fn write_answer(
        &mut self,
        (job, request): (JobId, Option<&PagedRequest>),
        reply: IndexedReply,
        shared: &mut SessionContext,
        out: &mut OutBuf,
    ) -> SessionAction<'static> {
        shared.scratch.http.answer.clear();
        let body = jobq::answer(job, request, reply, &mut shared.scratch.http.answer);
        self.write_body(body, None, shared, out)
    }

    /// Writes a page of the response to a Jobq request.
    pub(super) fn write_page(
        &mut self,
        mut request: Box<PagedRequest>,
        page: &IndexedPage,
        shared: &mut SessionContext,
        out: &mut OutBuf,
    ) -> SessionAction<'static> {
        shared.scratch.http.answer.clear();
        let body = jobq::answer_page(&mut request, page, &mut shared.scratch.http.answer);
        self.write_body(body, Some(request), shared, out)
    }

    /// `request`: the request that has further pages, if `body` says so.
    fn write_body(
        &mut self,
        body: BodyKind,
        request: Option<Box<PagedRequest>>,
        shared: &mut SessionContext,
        out: &mut OutBuf,
    ) -> SessionAction<'static> {
        if let Some(request) = request {
            self.phase = Phase::Paging(request, None);
        }
        match body {
            BodyKind::Again => SessionAction::Yield,
            BodyKind::Whole(status) => self.write_whole(status, None, shared, out),
            BodyKind::Error(error) => self.respond_error(&error, shared, out),
            BodyKind::Page { more } => {
                self.write_part(!more, shared, out).unwrap_or(SessionAction::Yield)
            }
            BodyKind::Stream(stream) => {
                self.phase = Phase::Streaming(Box::new(stream));
                self.write_stream(shared, out)
            }
        }
    }

    pub(super) fn write_lightjq(
        &mut self,
        result: Result<Response, HttpError>,
        shared: &mut SessionContext,
        out: &mut OutBuf,
    ) -> SessionAction<'static> {
        match result {
            Ok(Response { status: 204, .. }) => {
                self.write_head(204, BodyLength::None, None, shared, out);
                self.finish(shared)
            }
            Ok(Response { status, body }) => {
                shared.scratch.http.answer = body;
                self.write_whole(status, None, shared, out)
            }
            // Its rights have changed in the middle of a response.
            Err(_) if self.head_written => self.abort(),
            Err(error) => self.respond_error(&error, shared, out),
        }
    }

    /// Adds a page of the statistics scan.
    pub(super) fn add_stats(
        &mut self,
        mut collector: Box<StatsCollector>,
        page: StatsPage,
    ) -> SessionAction<'static> {
        match collector.add_page(page) {
            None => {
                self.phase = Phase::Collecting(collector, None);
                SessionAction::Yield
            }
            Some(sample) => {
                self.phase = Phase::FetchingStats(sample);
                SessionAction::FetchStats(StatsKind::Metrics)
            }
        }
    }

    pub(super) fn write_metrics(
        &mut self,
        sample: QueueSample,
        shared: &mut SessionContext,
        out: &mut OutBuf,
    ) -> SessionAction<'static> {
        let Some(stats) = shared.turn.stats.take() else {
            self.phase = Phase::FetchingStats(sample);
            return SessionAction::FetchStats(StatsKind::Metrics);
        };
        let stream = metrics::Stream::new(stats, sample, self.format.metrics);
        self.phase = Phase::Streaming(Box::new(stream));
        self.write_stream(shared, out)
    }

    /// Writes what is known of `/processor/{queue}`, and requests what is missing.
    #[cold]
    pub(super) fn continue_listing<'s>(
        &mut self,
        mut status: Box<ProcessorStatus>,
        shared: &'s mut SessionContext,
        out: &mut OutBuf,
    ) -> SessionAction<'s> {
        if std::mem::take(&mut status.yield_next) {
            self.phase = Phase::Listing(status);
            return SessionAction::Yield;
        }
        let ProcessorStatus { listing, text, .. } = &mut *status;
        if let Some(workers) = shared.turn.workers.take() {
            listing.add_workers(workers);
        }
        let need = listing.write(text);
        shared.scratch.http.queue.clear();
        shared.scratch.http.queue.extend_from_slice(listing.queue());
        match need {
            ListingNeed::JobsPage(from) => {
                let serial = self.begin_command(Submitted::Listing(status));
                let scan = WorkerCommand::ScanQueue { queue: &shared.scratch.http.queue, from };
                SessionAction::Submit(serial, Command::Work(scan))
            }
            ListingNeed::WorkersPage(from) => {
                self.phase = Phase::Listing(status);
                SessionAction::FetchWorkers(shared.scratch.http.queue.as_slice().into(), from)
            }
            ListingNeed::Peek(id) => {
                let serial = self.begin_command(Submitted::Listing(status));
                SessionAction::Submit(serial, Command::Peek { id })
            }
            ListingNeed::OutputSpace | ListingNeed::Nothing => {
                shared.scratch.http.answer.clear();
                shared.scratch.http.answer.append(text);
                self.phase = Phase::Listing(status);
                let is_last = need == ListingNeed::Nothing;
                self.write_part(is_last, shared, out).unwrap_or(SessionAction::Yield)
            }
        }
    }

    /// Writes the next chunk of a long response.
    pub(super) fn write_stream(
        &mut self,
        shared: &mut SessionContext,
        out: &mut OutBuf,
    ) -> SessionAction<'static> {
        let Phase::Streaming(stream) = &mut self.phase else { return SessionAction::Stalled };
        shared.scratch.http.answer.clear();
        let is_last = stream.fill(&mut shared.scratch.http.answer);
        self.write_part(is_last, shared, out).unwrap_or(SessionAction::Yield)
    }

    /// Writes `shared.scratch.http.answer`, a part of the body. `None`: the response continues.
    fn write_part(
        &mut self,
        is_last: bool,
        shared: &mut SessionContext,
        out: &mut OutBuf,
    ) -> Option<SessionAction<'static>> {
        if is_last && !self.head_written {
            return Some(self.write_whole(200, None, shared, out));
        }
        let is_http10 = self.format.version == Version::Http10;
        if !std::mem::replace(&mut self.head_written, true) {
            self.format.close |= is_http10;
            let length = if is_http10 { BodyLength::Close } else { BodyLength::Chunks };
            self.write_head(200, length, None, shared, out);
            if self.format.head_only {
                return Some(self.finish(shared));
            }
        }
        if is_last {
            self.end_line(&mut shared.scratch.http.answer);
        }
        let tail = out.tail();
        if is_http10 {
            tail.extend_from_slice(&shared.scratch.http.answer);
        } else {
            push_chunk(tail, &shared.scratch.http.answer);
            if is_last {
                push_last_chunk(tail);
            }
        }
        self.deadline = Some(shared.turn.now.mono.after(HTTP_READER_TIMEOUT));
        is_last.then(|| self.finish(shared))
    }

    pub(super) fn respond_text(
        &mut self,
        status: u16,
        text: &str,
        shared: &mut SessionContext,
        out: &mut OutBuf,
    ) -> SessionAction<'static> {
        shared.scratch.http.answer.clear();
        shared.scratch.http.answer.extend_from_slice(text.as_bytes());
        self.write_whole(status, None, shared, out)
    }

    /// Writes a file of the dashboard, or where the page is.
    #[cold]
    pub(super) fn write_file(
        &mut self,
        page: PageRoute,
        call: &RouteMatch,
        shared: &mut SessionContext,
        out: &mut OutBuf,
    ) -> SessionAction<'static> {
        shared.scratch.http.answer.clear();
        self.format.media_type = "text/plain; charset=utf-8";
        let (number, coding) = match page {
            PageRoute::Asset(number) => (number, None),
            PageRoute::Packed(number, coding) => (number, Some(coding)),
            PageRoute::Redirect(to) => {
                self.extra.push(("Location", to.into()));
                shared.scratch.http.answer.extend_from_slice(b"the page is at ui/\n");
                return self.write_whole(302, None, shared, out);
            }
        };
        let content = ui::content(page, &shared.settings.ui);
        let version = ui::version(&content);
        self.extra.extend(ui::fields(number, coding, version));
        if call.is_known {
            self.write_head(304, BodyLength::None, None, shared, out);
            return self.finish(shared);
        }
        self.format.media_type = ui::media_type(number);
        shared.scratch.http.answer.extend_from_slice(&content);
        self.write_whole(200, None, shared, out)
    }

    /// Goes on with a request of the native API after a reply.
    pub(super) fn write_native<'s>(
        &mut self,
        call: Box<Call>,
        next: Next,
        shared: &'s mut SessionContext,
        out: &mut OutBuf,
    ) -> SessionAction<'s> {
        match next {
            Next::Submit => self.submit_native(call, shared),
            Next::Later => {
                self.phase = Phase::Replied(call, Next::Submit);
                SessionAction::Yield
            }
            Next::Abort => self.abort(),
            Next::Part { .. } if self.is_broken => self.abort(),
            Next::Part { body, media_type, is_last } => {
                self.format.media_type = media_type;
                shared.scratch.http.answer = body;
                self.phase = Phase::Replied(call, Next::Submit);
                self.write_part(is_last, shared, out).unwrap_or(SessionAction::Yield)
            }
            Next::Problem(problem) => self.respond_problem(&problem, None, shared, out),
            Next::Answer(answer) if answer.status == 204 => {
                if let Some(cookie) = &answer.cookie {
                    let name = &shared.settings.cookie;
                    self.extra.push(session_cookie::field(name, cookie, self.format.is_secure));
                }
                self.write_head(204, BodyLength::None, None, shared, out);
                self.finish(shared)
            }
            Next::Answer(answer) => {
                shared.scratch.http.answer = answer.body;
                self.extra.extend(answer.location.map(|path| ("Location", path.into())));
                self.write_whole(answer.status, None, shared, out)
            }
        }
    }

    /// Closes the connection in the middle of a response.
    fn abort(&mut self) -> SessionAction<'static> {
        self.end();
        SessionAction::Close
    }

    /// Writes problem details.
    #[cold]
    pub(super) fn respond_problem(
        &mut self,
        problem: &Problem,
        allow: Option<&str>,
        shared: &mut SessionContext,
        out: &mut OutBuf,
    ) -> SessionAction<'static> {
        self.format.media_type = PROBLEM;
        shared.scratch.http.answer.clear();
        problem.write(&mut shared.scratch.http.answer);
        self.write_whole(problem.status(), allow, shared, out)
    }

    /// Writes an error response, or the response to `OPTIONS`.
    #[cold]
    pub(super) fn respond_error(
        &mut self,
        error: &HttpError,
        shared: &mut SessionContext,
        out: &mut OutBuf,
    ) -> SessionAction<'static> {
        let allow = error.allow.as_deref();
        if self.format.is_native && error.status != 204 {
            return self.respond_problem(&native::problem_of(error), allow, shared, out);
        }
        if self.format.media_type == HTML {
            self.format.media_type = JSON;
        }
        shared.scratch.http.answer.clear();
        if error.status == 204 {
            self.write_head(204, BodyLength::None, allow, shared, out);
            return self.finish(shared);
        }
        write_error(&error.why, self.format.media_type, &mut shared.scratch.http.answer);
        self.write_whole(error.status, allow, shared, out)
    }

    /// Rejects a request whose end is unknown, and closes the connection.
    #[cold]
    pub(super) fn respond_parse_error(
        &mut self,
        parse_error: ParseError,
        shared: &mut SessionContext,
        out: &mut OutBuf,
    ) -> SessionAction<'static> {
        self.format.close = true;
        let error = match parse_error.status {
            413 => too_long(shared.settings.max_request),
            _ => HttpError::new(parse_error.status, parse_error.why),
        };
        self.respond_error(&error, shared, out)
    }

    /// Writes a response whose body is `shared.scratch.http.answer`.
    pub(super) fn write_whole(
        &mut self,
        status: u16,
        allow: Option<&str>,
        shared: &mut SessionContext,
        out: &mut OutBuf,
    ) -> SessionAction<'static> {
        self.end_line(&mut shared.scratch.http.answer);
        let length = BodyLength::Bytes(shared.scratch.http.answer.len());
        self.write_head(status, length, allow, shared, out);
        if !self.format.head_only {
            out.tail().extend_from_slice(&shared.scratch.http.answer);
        }
        self.finish(shared)
    }

    /// Ends JSON with a line feed, for terminals and for tools that read lines.
    fn end_line(&self, body: &mut Vec<u8>) {
        if self.format.media_type == JSON || self.format.media_type == PROBLEM {
            body.push(b'\n');
        }
    }

    pub(super) fn write_head(
        &self,
        status: u16,
        length: BodyLength,
        allow: Option<&str>,
        shared: &mut SessionContext,
        out: &mut OutBuf,
    ) {
        let ResponseFormat { close, version, media_type, is_native: no_store, .. } = self.format;
        let keep_alive = version == Version::Http10 && !close;
        let head = ResponseHead {
            status,
            length,
            media_type,
            allow,
            extra: &self.extra,
            no_store,
            close,
            keep_alive,
        };
        write_head(head, &mut shared.scratch.http.date, shared.turn.now.wall, out.tail());
    }

    /// Ends the request whose response is written.
    pub(super) fn finish(&mut self, shared: &SessionContext) -> SessionAction<'static> {
        self.head_written = false;
        self.extra.clear();
        if self.format.close {
            self.end();
            return SessionAction::Close;
        }
        self.phase = Phase::Head { begun: false };
        self.deadline = Some(shared.turn.now.mono.after(HTTP_IDLE_TIMEOUT));
        SessionAction::Continue
    }

    pub(super) fn end(&mut self) {
        self.phase = Phase::Over;
        self.deadline = None;
    }
}
