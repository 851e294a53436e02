//! The part of a session that writes answers.

use super::{Manner, Phase, Session};
use crate::base::buf::OutBuf;
use crate::base::limits::{HTTP_BODY_EXTRA_BYTES, HTTP_IDLE_TIMEOUT, HTTP_READER_TIMEOUT};
use crate::model::command::Command;
use crate::model::reply::Reply;
use crate::model::worker::WorkerCommand;
use crate::protocol::http::index::HTML;
use crate::protocol::http::jobq::{self, BodyKind, JobqReply};
use crate::protocol::http::lightjq::Response;
use crate::protocol::http::metrics;
use crate::protocol::http::processor_status::ProcessorStatus;
use crate::protocol::http::response::{
    BodyLength, HttpError, JSON, ResponseHead, write_error, write_head,
};
use crate::protocol::http::route::Operation;
use crate::protocol::queue_listing::ListingNeed;
use crate::protocol::{SessionAction, SessionContext};
use crate::wire::http::{Fault, Version, push_chunk, push_last_chunk};

/// A body is longer than the operator allows.
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
    pub(super) fn write_answer(
        &mut self,
        shared: &mut SessionContext,
        out: &mut OutBuf,
    ) -> SessionAction<'static> {
        let phase = std::mem::replace(&mut self.phase, Phase::Again);
        let (Phase::Answered(outcome), Some(call)) = (phase, self.call) else {
            unreachable!("an outcome of a request")
        };
        let Operation::Jobq(operation) = call.operation else { return self.count(outcome) };
        shared.http.answer.clear();
        let text = &mut shared.http.answer;
        match jobq::answer(operation, call.job, outcome, self.question.as_deref_mut(), text) {
            BodyKind::Again => SessionAction::Yield,
            BodyKind::Whole(status) => self.write_whole(status, None, shared, out),
            BodyKind::Error(problem) => self.refuse(&problem, shared, out),
            BodyKind::Page { more: true } => {
                self.write_part(false, shared, out).unwrap_or(SessionAction::Yield)
            }
            BodyKind::Page { more: false } => {
                self.write_part(true, shared, out).unwrap_or(SessionAction::Continue)
            }
            BodyKind::Stream(stream) => {
                self.phase = Phase::Streaming(Box::new(stream));
                self.stream(shared, out)
            }
        }
    }

    /// Writes an answer of LightJQ.
    pub(super) fn write_lightjq(
        &mut self,
        shared: &mut SessionContext,
        out: &mut OutBuf,
    ) -> SessionAction<'static> {
        match std::mem::replace(&mut self.phase, Phase::Over) {
            Phase::Told(Ok(Response { status: 204, .. })) => {
                self.write_head(204, BodyLength::None, None, shared, out);
                self.finish(shared)
            }
            Phase::Told(Ok(Response { status, body })) => {
                shared.http.answer = body;
                self.write_whole(status, None, shared, out)
            }
            Phase::Told(Err(problem)) => self.refuse(&problem, shared, out),
            _ => unreachable!("there is something to tell"),
        }
    }

    /// Takes a part of the census.
    fn count(&mut self, outcome: JobqReply) -> SessionAction<'static> {
        let (JobqReply::Census(page), Some(gather)) = (outcome, &mut self.gather) else {
            unreachable!("metrics are a census")
        };
        match gather.take(page) {
            // The phase is that of a question to be asked again.
            None => SessionAction::Yield,
            Some(found) => {
                self.gather = None;
                self.phase = Phase::Figures(found);
                SessionAction::FetchStats
            }
        }
    }

    pub(super) fn write_metrics(
        &mut self,
        shared: &mut SessionContext,
        out: &mut OutBuf,
    ) -> SessionAction<'static> {
        let phase = std::mem::replace(&mut self.phase, Phase::Over);
        let (Phase::Figures(found), Some(figures)) = (phase, shared.figures.take()) else {
            unreachable!("the server has been asked for them")
        };
        self.phase =
            Phase::Streaming(Box::new(metrics::Stream::new(figures, found, self.manner.form)));
        self.stream(shared, out)
    }

    /// Goes on with what the processor has of a queue.
    #[cold]
    pub(super) fn continue_listing<'s>(
        &mut self,
        shared: &'s mut SessionContext,
        out: &mut OutBuf,
    ) -> SessionAction<'s> {
        let Some(inquiry) = &mut self.inquiry else { unreachable!("that is asked") };
        if std::mem::take(&mut inquiry.rest) {
            return SessionAction::Yield;
        }
        let ProcessorStatus { inventory, text, .. } = &mut **inquiry;
        if let Some(members) = shared.members.take() {
            inventory.add_workers(members);
        }
        let need = inventory.write(text);
        shared.http.queue.clear();
        shared.http.queue.extend_from_slice(inventory.queue());
        match need {
            ListingNeed::Survey(from) => {
                self.open();
                SessionAction::Work(
                    self.serial,
                    WorkerCommand::ScanQueue { queue: &shared.http.queue, from },
                )
            }
            ListingNeed::Members(from) => SessionAction::FetchWorkers(&shared.http.queue, from),
            ListingNeed::Look(id) => {
                self.open();
                SessionAction::Submit(self.serial, Command::Peek { id })
            }
            ListingNeed::Room | ListingNeed::Nothing => {
                shared.http.answer.clear();
                shared.http.answer.append(text);
                let over = need == ListingNeed::Nothing;
                self.write_part(over, shared, out).unwrap_or(SessionAction::Yield)
            }
        }
    }

    /// Takes an answer to what was asked for that.
    #[cold]
    pub(super) fn accept_page(&mut self, reply: &Reply<'_>) {
        let Some(inquiry) = &mut self.inquiry else { unreachable!("that is asked") };
        match reply {
            Reply::QueueScan(survey) => {
                inquiry.rest = survey.next.is_some();
                inquiry.inventory.add_scan_page(survey);
            }
            look => inquiry.inventory.add_peeked(look, &mut inquiry.text),
        }
        self.phase = Phase::Again;
    }

    /// Writes the next piece of a long answer.
    pub(super) fn stream(
        &mut self,
        shared: &mut SessionContext,
        out: &mut OutBuf,
    ) -> SessionAction<'static> {
        let Phase::Streaming(stream) = &mut self.phase else { return SessionAction::Stalled };
        shared.http.answer.clear();
        let over = stream.fill(&mut shared.http.answer);
        self.write_part(over, shared, out).unwrap_or(SessionAction::Yield)
    }

    /// Writes what has been made of the answer's body, which is the last of it if it is `over`.
    /// `None`: the answer goes on.
    fn write_part(
        &mut self,
        over: bool,
        shared: &mut SessionContext,
        out: &mut OutBuf,
    ) -> Option<SessionAction<'static>> {
        if over && !self.begun {
            return Some(self.write_whole(200, None, shared, out));
        }
        let old = self.manner.version == Version::Http10;
        if !std::mem::replace(&mut self.begun, true) {
            self.manner.close |= old;
            let extent = if old { BodyLength::Close } else { BodyLength::Chunks };
            self.write_head(200, extent, None, shared, out);
            if self.manner.to_head {
                return Some(self.finish(shared));
            }
        }
        if over {
            self.end_line(&mut shared.http.answer);
        }
        let tail = out.tail();
        if old {
            tail.extend_from_slice(&shared.http.answer);
        } else {
            push_chunk(tail, &shared.http.answer);
            if over {
                push_last_chunk(tail);
            }
        }
        self.deadline = Some(shared.now.mono.after(HTTP_READER_TIMEOUT));
        over.then(|| self.finish(shared))
    }

    /// Answers with a text that is there already.
    pub(super) fn answer_at_once(
        &mut self,
        text: &str,
        shared: &mut SessionContext,
        out: &mut OutBuf,
    ) -> SessionAction<'static> {
        shared.http.answer.clear();
        shared.http.answer.extend_from_slice(text.as_bytes());
        self.write_whole(200, None, shared, out)
    }

    /// Answers with an error, or with the methods that were asked for.
    #[cold]
    pub(super) fn refuse(
        &mut self,
        problem: &HttpError,
        shared: &mut SessionContext,
        out: &mut OutBuf,
    ) -> SessionAction<'static> {
        let allow = problem.allow.as_deref();
        if self.manner.kind == HTML {
            self.manner.kind = JSON;
        }
        shared.http.answer.clear();
        if problem.status == 204 {
            self.write_head(204, BodyLength::None, allow, shared, out);
            return self.finish(shared);
        }
        write_error(&problem.why, self.manner.kind, &mut shared.http.answer);
        self.write_whole(problem.status, allow, shared, out)
    }

    /// Answers a request that cannot be understood, so that nothing behind it can.
    #[cold]
    pub(super) fn give_up(
        &mut self,
        fault: Fault,
        shared: &mut SessionContext,
        out: &mut OutBuf,
    ) -> SessionAction<'static> {
        self.manner.close = true;
        let problem = match fault.status {
            413 => too_long(shared.max_request),
            _ => HttpError::new(fault.status, fault.why),
        };
        self.refuse(&problem, shared, out)
    }

    /// Writes an answer whose body is made.
    fn write_whole(
        &mut self,
        status: u16,
        allow: Option<&str>,
        shared: &mut SessionContext,
        out: &mut OutBuf,
    ) -> SessionAction<'static> {
        self.end_line(&mut shared.http.answer);
        let extent = BodyLength::Bytes(shared.http.answer.len());
        self.write_head(status, extent, allow, shared, out);
        if !self.manner.to_head {
            out.tail().extend_from_slice(&shared.http.answer);
        }
        self.finish(shared)
    }

    /// JSON ends with a line end, for terminals and for tools that read lines.
    fn end_line(&self, body: &mut Vec<u8>) {
        if self.manner.kind == JSON {
            body.push(b'\n');
        }
    }

    fn write_head(
        &self,
        status: u16,
        extent: BodyLength,
        allow: Option<&str>,
        shared: &mut SessionContext,
        out: &mut OutBuf,
    ) {
        let Manner { close, version, kind, .. } = self.manner;
        let say_kept = version == Version::Http10 && !close;
        let head = ResponseHead { status, extent, kind, allow, close, say_kept };
        write_head(head, &mut shared.http.date, shared.now.wall, out.tail());
    }

    /// The answer is written.
    pub(super) fn finish(&mut self, shared: &SessionContext) -> SessionAction<'static> {
        self.call = None;
        self.question = None;
        self.inquiry = None;
        self.begun = false;
        if self.manner.close {
            self.end();
            return SessionAction::Close;
        }
        self.phase = Phase::Head { begun: false };
        self.deadline = Some(shared.now.mono.after(HTTP_IDLE_TIMEOUT));
        SessionAction::Continue
    }

    pub(super) fn end(&mut self) {
        self.phase = Phase::Over;
        self.deadline = None;
    }
}
