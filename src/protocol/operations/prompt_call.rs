//! Line requests of one command that is answered at once in any case: what of them is needed for
//! the answer. A connection may have many that wait for the disk, so their payloads are not kept.

use super::answer::{Answer, Next, Style, key_taken, problem_of, rejected};
use super::args::{Args, JobVerb};
use super::line::{write_line, write_line_problem};
use super::replies::{cancelled, shown_job};
use crate::model::id::JobId;
use crate::model::manage::{ManageReply, PutOutcome, RunReport};
use crate::model::reply::{Rejection, Reply};
use crate::wire::json::push_number;

/// Such a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::protocol) struct PromptCall {
    /// The job, or [`JobId::NEVER`] of a put.
    id: JobId,
    form: Form,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Put,
    /// A touch or a report of progress, which tells the worker that its job was cancelled.
    Heartbeat,
    Cancel,
    /// It is answered by the job, or by nothing.
    Other,
}

impl Form {
    fn of_report(report: &RunReport) -> Self {
        match report {
            RunReport::Touch { .. } | RunReport::Progress { .. } => Self::Heartbeat,
            _ => Self::Other,
        }
    }
}

impl PromptCall {
    pub(super) fn of(args: &Args) -> Option<Self> {
        let (id, form) = match args {
            Args::Put { .. } => (JobId::NEVER, Form::Put),
            Args::Report { id, report, .. } => (*id, Form::of_report(report)),
            &Args::Verb { id, verb: JobVerb::Cancel } => (id, Form::Cancel),
            &Args::Verb { id, .. } => (id, Form::Other),
            _ => return None,
        };
        Some(Self { id, form })
    }

    /// The same, of a report that was made without arguments.
    pub(in crate::protocol) fn of_report(id: JobId, report: &RunReport) -> Self {
        Self { id, form: Form::of_report(report) }
    }

    /// Writes the line that answers it.
    pub(in crate::protocol) fn write(self, reply: &Reply<'_>, line: &mut Vec<u8>) {
        match reply {
            Reply::Manage(ManageReply::Puts(outcomes)) => write_puts(outcomes, line),
            Reply::Done if self.form == Form::Other => {
                line.extend_from_slice(b"{\"status\":\"ok\"}\n");
            }
            Reply::Cancelled => {}
            _ => write_line(&self.answer(reply), line),
        }
    }

    /// The answer.
    fn answer(self, reply: &Reply<'_>) -> Next {
        let reply = match reply {
            Reply::Manage(reply) => *reply,
            Reply::Done => return Next::Answer(Answer::empty()),
            Reply::Rejected(rejection) => return Next::Problem(rejected(*rejection)),
            other => other.unexpected(),
        };
        if *reply == ManageReply::Cancelled && self.form == Form::Heartbeat {
            return Next::Answer(cancelled(self.id, Style::Line));
        }
        if let Some(problem) = problem_of(reply, self.id) {
            return Next::Problem(problem);
        }
        Next::Answer(match (reply, self.form) {
            (ManageReply::Done, Form::Cancel) => cancelled(self.id, Style::Line),
            (reply, _) => shown_job(reply, Style::Line),
        })
    }
}

/// Writes the line that answers a put, which is one of one job.
#[cold]
pub(in crate::protocol) fn write_puts(outcomes: &[PutOutcome], line: &mut Vec<u8>) {
    debug_assert_eq!(outcomes.len(), 1, "a line puts one job");
    for &outcome in outcomes {
        let (id, end): (_, &[u8]) = match outcome {
            PutOutcome::Added(id) => (id, b"}\n"),
            PutOutcome::Duplicate(id) => (id, b",\"duplicate\":true}\n"),
            PutOutcome::KeyTaken(id) => return write_line_problem(&key_taken(id), line),
            PutOutcome::Rejected(reason) => return write_line_problem(&rejected(reason), line),
        };
        line.extend_from_slice(b"{\"status\":\"ok\",\"id\":");
        push_number(line, id.0);
        line.extend_from_slice(end);
    }
}

/// Writes the line about a request of the native API that was rejected as a whole.
#[cold]
pub(in crate::protocol) fn write_rejected(rejection: Rejection, line: &mut Vec<u8>) {
    write_line_problem(&rejected(rejection), line);
}
