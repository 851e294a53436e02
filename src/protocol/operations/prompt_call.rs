//! Line requests of one command that is answered at once in any case: what of them is needed for
//! the answer. A connection may have many that wait for the disk, so their payloads are not kept.

use super::answer::{Answer, Next, Style, problem_of, rejected};
use super::args::{Args, JobVerb};
use super::replies::{cancelled, put, shown_job};
use crate::model::id::JobId;
use crate::model::manage::{ManageReply, RunReport};
use crate::model::reply::Reply;

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

impl PromptCall {
    pub(super) fn of(args: &Args) -> Option<Self> {
        let (id, form) = match args {
            Args::Put { .. } => (JobId::NEVER, Form::Put),
            Args::Report { id, report, .. } => match report {
                RunReport::Touch { .. } | RunReport::Progress { .. } => (*id, Form::Heartbeat),
                _ => (*id, Form::Other),
            },
            &Args::Verb { id, verb: JobVerb::Cancel } => (id, Form::Cancel),
            &Args::Verb { id, .. } => (id, Form::Other),
            _ => return None,
        };
        Some(Self { id, form })
    }

    /// The answer.
    pub(in crate::protocol) fn handle_reply(self, reply: &Reply<'_>) -> Next {
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
            (_, Form::Put) => put(reply, Style::Line),
            (reply, _) => shown_job(reply, Style::Line),
        })
    }
}
