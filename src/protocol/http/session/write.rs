//! The part of a session that writes answers.

use super::{Manner, Phase, Session};
use crate::base::buf::OutBuf;
use crate::base::limits::{HTTP_BODY_EXTRA, HTTP_IDLE_PATIENCE, HTTP_READER_PATIENCE};
use crate::model::command::Command;
use crate::model::reply::Reply;
use crate::model::work::Work;
use crate::protocol::http::answer::{Extent, Head, JSON, Problem, write_error, write_head};
use crate::protocol::http::index::HTML;
use crate::protocol::http::inquiry::Inquiry;
use crate::protocol::http::jobq::{self, Outcome, Part};
use crate::protocol::http::lightjq::Told;
use crate::protocol::http::metrics;
use crate::protocol::http::route::Operation;
use crate::protocol::inventory::Need;
use crate::protocol::{Shared, Step};
use crate::wire::http::{Fault, Version, push_chunk, push_last_chunk};

/// A body is longer than the operator allows.
#[cold]
fn too_long(max_request: usize) -> Problem {
    let (max, extra) = (max_request + HTTP_BODY_EXTRA, HTTP_BODY_EXTRA / 1024);
    let why = format!(
        "the body is longer than {max} bytes, which are {max_request} (--max-request) and {extra} \
         KiB: send less, or start the server with a larger --max-request"
    );
    Problem::new(413, why)
}

impl Session {
    pub(super) fn write_answer(&mut self, shared: &mut Shared, out: &mut OutBuf) -> Step<'static> {
        let phase = std::mem::replace(&mut self.phase, Phase::Again);
        let (Phase::Answered(outcome), Some(call)) = (phase, self.call) else {
            unreachable!("an outcome of a request")
        };
        let Operation::Jobq(operation) = call.operation else { return self.count(outcome) };
        shared.http.answer.clear();
        let text = &mut shared.http.answer;
        match jobq::answer(operation, call.job, outcome, self.question.as_deref_mut(), text) {
            Part::Again => Step::Enough,
            Part::Whole(status) => self.write_whole(status, None, shared, out),
            Part::Error(problem) => self.refuse(&problem, shared, out),
            Part::Page { more: true } => {
                self.write_part(false, shared, out).unwrap_or(Step::Enough)
            }
            Part::Page { more: false } => {
                self.write_part(true, shared, out).unwrap_or(Step::Answered)
            }
            Part::Stream(stream) => {
                self.phase = Phase::Streaming(Box::new(stream));
                self.stream(shared, out)
            }
        }
    }

    /// Writes an answer of LightJQ.
    pub(super) fn tell(&mut self, shared: &mut Shared, out: &mut OutBuf) -> Step<'static> {
        match std::mem::replace(&mut self.phase, Phase::Over) {
            Phase::Told(Ok(Told { status: 204, .. })) => {
                self.write_head(204, Extent::None, None, shared, out);
                self.finish(shared)
            }
            Phase::Told(Ok(Told { status, body })) => {
                shared.http.answer = body;
                self.write_whole(status, None, shared, out)
            }
            Phase::Told(Err(problem)) => self.refuse(&problem, shared, out),
            _ => unreachable!("there is something to tell"),
        }
    }

    /// Takes a part of the census.
    fn count(&mut self, outcome: Outcome) -> Step<'static> {
        let (Outcome::Census(page), Some(gather)) = (outcome, &mut self.gather) else {
            unreachable!("metrics are a census")
        };
        match gather.take(page) {
            // The phase is that of a question to be asked again.
            None => Step::Enough,
            Some(found) => {
                self.gather = None;
                self.phase = Phase::Figures(found);
                Step::Figures
            }
        }
    }

    pub(super) fn write_metrics(&mut self, shared: &mut Shared, out: &mut OutBuf) -> Step<'static> {
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
    pub(super) fn inquire<'s>(&mut self, shared: &'s mut Shared, out: &mut OutBuf) -> Step<'s> {
        let Some(inquiry) = &mut self.inquiry else { unreachable!("that is asked") };
        if std::mem::take(&mut inquiry.rest) {
            return Step::Enough;
        }
        let Inquiry { inventory, text, .. } = &mut **inquiry;
        if let Some(members) = shared.members.take() {
            inventory.take_members(members);
        }
        let need = inventory.write(text);
        shared.http.queue.clear();
        shared.http.queue.extend_from_slice(inventory.queue());
        match need {
            Need::Survey(from) => {
                self.open();
                Step::Work(self.serial, Work::Survey { queue: &shared.http.queue, from })
            }
            Need::Members(from) => Step::Members(&shared.http.queue, from),
            Need::Look(id) => {
                self.open();
                Step::Submit(self.serial, Command::Look { id })
            }
            Need::Room | Need::Nothing => {
                shared.http.answer.clear();
                shared.http.answer.append(text);
                let over = need == Need::Nothing;
                self.write_part(over, shared, out).unwrap_or(Step::Enough)
            }
        }
    }

    /// Takes an answer to what was asked for that.
    #[cold]
    pub(super) fn take_part(&mut self, reply: &Reply<'_>) {
        let Some(inquiry) = &mut self.inquiry else { unreachable!("that is asked") };
        match reply {
            Reply::Survey(survey) => {
                inquiry.rest = survey.next.is_some();
                inquiry.inventory.take_survey(survey);
            }
            look => inquiry.inventory.take_look(look, &mut inquiry.text),
        }
        self.phase = Phase::Again;
    }

    /// Writes the next piece of a long answer.
    pub(super) fn stream(&mut self, shared: &mut Shared, out: &mut OutBuf) -> Step<'static> {
        let Phase::Streaming(stream) = &mut self.phase else { return Step::Blocked };
        shared.http.answer.clear();
        let over = stream.fill(&mut shared.http.answer);
        self.write_part(over, shared, out).unwrap_or(Step::Enough)
    }

    /// Writes what has been made of the answer's body, which is the last of it if it is `over`.
    /// `None`: the answer goes on.
    fn write_part(
        &mut self,
        over: bool,
        shared: &mut Shared,
        out: &mut OutBuf,
    ) -> Option<Step<'static>> {
        if over && !self.begun {
            return Some(self.write_whole(200, None, shared, out));
        }
        let old = self.manner.version == Version::Http10;
        if !std::mem::replace(&mut self.begun, true) {
            self.manner.close |= old;
            let extent = if old { Extent::Close } else { Extent::Chunks };
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
        self.deadline = Some(shared.now.mono.after(HTTP_READER_PATIENCE));
        over.then(|| self.finish(shared))
    }

    /// Answers with a text that is there already.
    pub(super) fn answer_at_once(
        &mut self,
        text: &str,
        shared: &mut Shared,
        out: &mut OutBuf,
    ) -> Step<'static> {
        shared.http.answer.clear();
        shared.http.answer.extend_from_slice(text.as_bytes());
        self.write_whole(200, None, shared, out)
    }

    /// Answers with an error, or with the methods that were asked for.
    #[cold]
    pub(super) fn refuse(
        &mut self,
        problem: &Problem,
        shared: &mut Shared,
        out: &mut OutBuf,
    ) -> Step<'static> {
        let allow = problem.allow.as_deref();
        if self.manner.kind == HTML {
            self.manner.kind = JSON;
        }
        shared.http.answer.clear();
        if problem.status == 204 {
            self.write_head(204, Extent::None, allow, shared, out);
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
        shared: &mut Shared,
        out: &mut OutBuf,
    ) -> Step<'static> {
        self.manner.close = true;
        let problem = match fault.status {
            413 => too_long(shared.max_request),
            _ => Problem::new(fault.status, fault.why),
        };
        self.refuse(&problem, shared, out)
    }

    /// Writes an answer whose body is made.
    fn write_whole(
        &mut self,
        status: u16,
        allow: Option<&str>,
        shared: &mut Shared,
        out: &mut OutBuf,
    ) -> Step<'static> {
        self.end_line(&mut shared.http.answer);
        let extent = Extent::Bytes(shared.http.answer.len());
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
        extent: Extent,
        allow: Option<&str>,
        shared: &mut Shared,
        out: &mut OutBuf,
    ) {
        let Manner { close, version, kind, .. } = self.manner;
        let say_kept = version == Version::Http10 && !close;
        let head = Head { status, extent, kind, allow, close, say_kept };
        write_head(head, &mut shared.http.date, shared.now.wall, out.tail());
    }

    /// The answer is written.
    pub(super) fn finish(&mut self, shared: &Shared) -> Step<'static> {
        self.call = None;
        self.question = None;
        self.inquiry = None;
        self.begun = false;
        if self.manner.close {
            self.end();
            return Step::Finished;
        }
        self.phase = Phase::Head { begun: false };
        self.deadline = Some(shared.now.mono.after(HTTP_IDLE_PATIENCE));
        Step::Answered
    }

    pub(super) fn end(&mut self) {
        self.phase = Phase::Over;
        self.deadline = None;
    }
}
