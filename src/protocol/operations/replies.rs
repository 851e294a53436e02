//! Replies of the store as answers.

use super::action_fields::ActionAnswer;
use super::action_json::push_action;
use super::answer::{Answer, Next, Style};
use super::args::{Args, JobVerb};
use super::connection_json::{push_connection, push_worker};
use super::constraints::{push_constraint, push_details};
use super::cursor::{
    write_action_cursor, write_job_cursor, write_name_cursor, write_number_cursor,
    write_queue_cursor, write_search_cursor,
};
use super::job_json::{
    push_count, push_flag, push_job, push_last_error, push_name, push_reserved, push_result,
    push_text, push_token,
};
use super::problem::{Problem, ProblemKind};
use super::queue_json::{self, push_queue};
use super::schedule_json;
use crate::model::action::ActionDetails;
use crate::model::id::JobId;
use crate::model::job::Payload;
use crate::model::manage::{JobCursor, JobDetails, JobState, ManageReply, PutOutcome};
use crate::model::reply::{JobView, Reply};
use crate::model::show::ConnectionPage;
use crate::model::worker::Constraint;

/// The answer to a request that ends with this reply, which is no problem.
pub(super) fn answer(reply: &ManageReply, args: &Args, style: Style) -> Next {
    Next::Answer(match (reply, args) {
        (ManageReply::Schedule(reply), _) => {
            return schedule_json::answer(reply).map_or_else(Next::Problem, Next::Answer);
        }
        (ManageReply::History(details), _) => queue_json::history(details),
        (ManageReply::Done, &Args::Verb { id, verb: JobVerb::Cancel }) => cancelled(id, style),
        (ManageReply::Done, _) => Answer::empty(),
        (ManageReply::Action(action), args) => action_answer(action, args),
        (ManageReply::Actions(list), Args::ListActions { limit, .. }) => {
            let end = list.last().filter(|_| list.len() == *limit);
            let next = end.map(|action| write_action_cursor(action.id));
            page(list, push_action, next.as_deref())
        }
        (ManageReply::JobPage(page), Args::PeekQueue { .. }) => {
            let Some(job) = page.jobs.first() else {
                let detail = "there is no job in this state";
                return Next::Problem(Problem::new(ProblemKind::NotFound, detail));
            };
            one(|out| push_job(out, job, style))
        }
        (ManageReply::Job(job), Args::Result { .. }) => return result(job, style),
        (_, Args::Put { .. }) | (ManageReply::Duplicate(_) | ManageReply::Completed(_), _) => {
            put(reply)
        }
        (ManageReply::Job(job), Args::Schedule(_)) => created(job, style),
        (ManageReply::Job(job), _) => one(|out| push_job(out, job, style)),
        (ManageReply::Queue(queue), _) => one(|out| push_queue(out, queue)),
        (ManageReply::Jobs(list), args) => {
            jobs(list, style, matches!(args, Args::Reserve { shows_run: true, .. }))
        }
        (ManageReply::Puts(outcomes), Args::PutMany { rejected, .. }) => {
            let mut body = Vec::new();
            puts(outcomes, rejected, &mut body);
            Answer::new(200, body)
        }
        (other, args) => return list_answer(other, args, style),
    })
}

/// The answer to a put over HTTP that was not refused.
fn put(reply: &ManageReply) -> Answer {
    match reply {
        ManageReply::Job(job) => created(job, Style::Http),
        ManageReply::Duplicate(job) => one(|out| {
            push_job(out, job, Style::Http);
            push_flag(out, "duplicate", true);
        }),
        ManageReply::Completed(id) => one(|out| {
            push_count(out, "id", id.0);
            push_flag(out, "duplicate", true);
            push_text(out, "state", Some(JobState::Completed.name().as_bytes()));
        }),
        other => Reply::Manage(other).unexpected(),
    }
}

fn created(job: &JobDetails, style: Style) -> Answer {
    Answer {
        status: 201,
        location: Some(format!("/api/v1/jobs/{}", job.id.0)),
        ..one(|out| push_job(out, job, style))
    }
}

/// The answer to a request about one job: the job, if it is shown.
pub(super) fn shown_job(reply: &ManageReply, style: Style) -> Answer {
    match reply {
        ManageReply::Job(job) => one(|out| push_job(out, job, style)),
        ManageReply::Done => Answer::empty(),
        other => Reply::Manage(other).unexpected(),
    }
}

/// The answer to a request for a list, or about an index.
fn list_answer(reply: &ManageReply, args: &Args, style: Style) -> Next {
    let push = |out: &mut Vec<u8>, job: &JobDetails| {
        object(out, |out| push_job(out, job, style));
    };
    Next::Answer(match (reply, args) {
        (ManageReply::Queues(queues), _) => {
            let next = queues.next.as_deref().map(write_queue_cursor);
            page(
                &queues.queues,
                |out, queue| object(out, |out| push_queue(out, queue)),
                next.as_deref(),
            )
        }
        (ManageReply::JobPage(jobs), Args::ListJobs { queue, state, .. }) => {
            let next = jobs.next.as_ref().map(|next| write_job_cursor(next, queue, *state));
            page(&jobs.jobs, push, next.as_deref())
        }
        (ManageReply::JobPage(jobs), Args::Search { tag, .. }) => {
            let next = match jobs.next {
                Some(JobCursor::ById(last, _)) => Some(write_search_cursor(last, *tag)),
                _ => None,
            };
            page(&jobs.jobs, push, next.as_deref())
        }
        (ManageReply::Workers(workers), _) => {
            let next = workers.next.map(|id| write_number_cursor(id.0, 'w'));
            let push = |out: &mut Vec<u8>, worker: &_| object(out, |out| push_worker(out, worker));
            page(&workers.workers, push, next.as_deref())
        }
        (ManageReply::Constraints(found), _) => {
            let last = found.constraints.last().filter(|_| found.more);
            let next = last.map(|last| write_name_cursor(&last.constraint.name));
            let push = |out: &mut Vec<u8>, found: &_| object(out, |out| push_details(out, found));
            page(&found.constraints, push, next.as_deref())
        }
        (&ManageReply::Index { on, building }, _) => one(|out| {
            push_flag(out, "index", on);
            if on {
                push_flag(out, "building", building);
            }
        }),
        (other, _) => Reply::Manage(other).unexpected(),
    })
}

/// A constraint.
pub(super) fn constraint(constraint: &Constraint) -> Answer {
    one(|out| push_constraint(out, constraint))
}

/// A page of connections.
pub(super) fn connections(list: &ConnectionPage) -> Answer {
    let next = list.next.map(|place| write_number_cursor(u64::from(place), 'c'));
    let push = |out: &mut Vec<u8>, item: &_| object(out, |out| push_connection(out, item));
    page(&list.connections, push, next.as_deref())
}

/// Writes an object with the members that `write` writes.
fn object(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    out.push(b'{');
    write(out);
    out.push(b'}');
}

/// An answer that is one object.
fn one(write: impl FnOnce(&mut Vec<u8>)) -> Answer {
    // As long as most of them.
    let mut body = Vec::with_capacity(640);
    object(&mut body, write);
    Answer::new(200, body)
}

/// A page of a list.
fn page<T>(items: &[T], push: impl Fn(&mut Vec<u8>, &T), next: Option<&str>) -> Answer {
    let mut body = Vec::from(*b"{\"items\":[");
    for (number, item) in items.iter().enumerate() {
        if number > 0 {
            body.push(b',');
        }
        push(&mut body, item);
    }
    body.push(b']');
    push_text(&mut body, "next_cursor", next.map(str::as_bytes));
    body.push(b'}');
    Answer::new(200, body)
}

/// An action, or the number of its jobs where it is how a request on a queue is carried out.
fn action_answer(action: &ActionDetails, args: &Args) -> Answer {
    let name = match args {
        Args::DropQueue { .. } => "deleted",
        Args::Act { answer: ActionAnswer::Count(name), .. } => name,
        _ => {
            let mut body = Vec::new();
            push_action(&mut body, action);
            return Answer::new(if matches!(args, Args::Act { .. }) { 202 } else { 200 }, body);
        }
    };
    one(|out| push_count(out, name, action.done))
}

/// The answer about a cancelled job, which a line does not name.
pub(super) fn cancelled(id: JobId, style: Style) -> Answer {
    let mut body = Vec::from(*b"{");
    if style == Style::Http {
        push_count(&mut body, "id", id.0);
    }
    push_flag(&mut body, "cancelled", true);
    body.push(b'}');
    Answer::new(200, body)
}

/// A job that was waited for, as a line.
pub(super) fn line_job(job: &JobView<'_>) -> Answer {
    let mut body = Vec::from(*b"{\"jobs\":[{");
    push_reserved(&mut body, job.id, job.queue, &job.priority.into(), job.payload);
    body.extend_from_slice(b"}]}");
    Answer::new(200, body)
}

/// Reserved jobs; lines show how often they were run and the token of their lease if they are
/// asked to.
pub(super) fn jobs(list: &[JobDetails], style: Style, shows_run: bool) -> Answer {
    let about = list.iter().map(|job| 128 + job.text_bytes()).sum::<usize>();
    let mut body = Vec::with_capacity(32 + about);
    body.extend_from_slice(b"{\"jobs\":[");
    for (number, job) in list.iter().enumerate() {
        body.extend_from_slice(if number > 0 { b",{" } else { b"{" });
        match style {
            Style::Http => push_job(&mut body, job, style),
            Style::Line => {
                let payload = Payload { encoding: job.encoding, bytes: &job.payload };
                push_reserved(&mut body, job.id, &job.queue, &job.priority, payload);
                if shows_run {
                    push_count(&mut body, "attempts", job.attempts);
                    push_token(&mut body, job);
                }
            }
        }
        body.push(b'}');
    }
    body.extend_from_slice(b"]}");
    Answer::new(200, body)
}

/// The answer to a request for the result of a job.
fn result(job: &JobDetails, style: Style) -> Next {
    let mut body = Vec::from(*b"{");
    match job.state {
        JobState::Completed => {
            push_text(&mut body, "state", Some(job.state.name().as_bytes()));
            push_result(&mut body, job);
        }
        JobState::Buried => {
            push_text(&mut body, "state", Some(job.state.name().as_bytes()));
            push_last_error(&mut body, job);
        }
        _ if style == Style::Line => {
            let detail = "the result is not there yet";
            return Next::Problem(Problem::new(ProblemKind::NotFound, detail));
        }
        _ => {
            push_job(&mut body, job, Style::Http);
            body.push(b'}');
            return Next::Answer(Answer::new(202, body));
        }
    }
    body.push(b'}');
    Next::Answer(Answer::new(200, body))
}

/// Writes the outcomes of several puts: those that were parsed, in their order, among those that
/// were not.
fn puts(outcomes: &[PutOutcome], rejected: &[Option<Problem>], body: &mut Vec<u8>) {
    let mut outcomes = outcomes.iter();
    body.extend_from_slice(b"{\"results\":[");
    for (number, problem) in rejected.iter().enumerate() {
        body.extend_from_slice(if number > 0 { b",{" } else { b"{" });
        let problem = if let Some(problem) = problem {
            problem.clone()
        } else {
            match outcomes.next().expect("each job that was submitted has an outcome") {
                PutOutcome::Added(id) => {
                    push_count(body, "id", id.0);
                    body.push(b'}');
                    continue;
                }
                PutOutcome::Duplicate(id) => {
                    push_count(body, "id", id.0);
                    push_flag(body, "duplicate", true);
                    body.push(b'}');
                    continue;
                }
                &PutOutcome::KeyTaken(id) => super::answer::key_taken(id),
                PutOutcome::Rejected(rejection) => super::answer::rejected(*rejection),
            }
        };
        push_name(body, "error");
        problem.write(body);
        body.push(b'}');
    }
    body.extend_from_slice(b"]}");
}
