//! Schedules as JSON.

use super::answer::{Answer, key_taken, rejected};
use super::cursor::write_queue_cursor;
use super::job_json::{push_flag, push_in_line, push_moment, push_name, push_text, push_time};
use super::problem::{Problem, ProblemKind};
use crate::base::api_limits::SCHEDULES_MAX;
use crate::base::time::Wall;
use crate::model::manage::PutOutcome;
use crate::model::schedule::{ScheduleDetails, ScheduleReply, Timing};
use crate::wire::json::push_number;
use percent_encoding::{NON_ALPHANUMERIC, percent_encode};

fn write_cursor(name: &[u8]) -> String {
    write_queue_cursor(name).replacen('q', "s", 1)
}

/// The answer that a reply is.
pub(super) fn answer(reply: &ScheduleReply) -> Result<Answer, Problem> {
    let mut body = Vec::new();
    Ok(match reply {
        ScheduleReply::Schedule { details, made } => {
            push_schedule(&mut body, details);
            let mut answer = Answer::new(if *made { 201 } else { 200 }, body);
            let name = percent_encode(&details.schedule.name, NON_ALPHANUMERIC);
            answer.location = made.then(|| format!("/api/v1/schedules/{name}"));
            answer
        }
        ScheduleReply::Page { schedules, next } => {
            body.extend_from_slice(b"{\"items\":[");
            for (number, details) in schedules.iter().enumerate() {
                if number > 0 {
                    body.push(b',');
                }
                push_schedule(&mut body, details);
            }
            body.push(b']');
            let next = next.as_deref().map(write_cursor);
            push_text(&mut body, "next_cursor", next.as_ref().map(String::as_bytes));
            body.push(b'}');
            Answer::new(200, body)
        }
        ScheduleReply::Removed => Answer::empty(),
        ScheduleReply::Missing => {
            let detail = "there is no schedule of this name: a PUT makes one";
            return Err(Problem::new(ProblemKind::NotFound, detail));
        }
        ScheduleReply::TooMany => {
            let detail = format!("there are {SCHEDULES_MAX} schedules, the most: delete some");
            return Err(Problem::new(ProblemKind::WrongState, detail));
        }
    })
}

/// Writes a schedule.
fn push_schedule(out: &mut Vec<u8>, details: &ScheduleDetails) {
    let schedule = &details.schedule;
    let (cron, every_ms) = match &schedule.timing {
        Timing::Cron(text) => (Some(text.as_bytes()), None),
        Timing::EveryMs(ms) => (None, Some(*ms)),
    };
    let number = |out: &mut Vec<u8>, name: &str, number: Option<u64>| {
        push_name(out, name);
        match number {
            Some(number) => push_number(out, number),
            None => out.extend_from_slice(b"null"),
        }
    };
    out.push(b'{');
    push_text(out, "name", Some(&schedule.name));
    push_text(out, "cron", cron);
    number(out, "every_ms", every_ms);
    push_text(out, "timezone", Some(schedule.timezone.as_bytes()));
    push_text(out, "queue", Some(&schedule.queue));
    push_name(out, "job");
    push_in_line(schedule.job_text.as_bytes(), out);
    let overlap: &[u8] = if schedule.skips_overlap { b"skip" } else { b"allow" };
    push_text(out, "overlap", Some(overlap));
    let missed: &[u8] = if schedule.skips_missed { b"skip" } else { b"once" };
    push_text(out, "missed", Some(missed));
    push_flag(out, "paused", schedule.paused);
    push_name(out, "next_runs");
    out.push(b'[');
    for (number, &at) in details.next_runs.iter().enumerate() {
        if number > 0 {
            out.push(b',');
        }
        push_moment(out, at);
    }
    out.push(b']');
    push_time(out, "last_run_at", details.last_run.map(|(at, _)| at));
    number(out, "last_job_id", details.last_run.map(|(_, id)| id.0));
    push_last_failure(out, details.last_failure.as_ref());
    out.push(b'}');
}

/// Writes when and why the last put was rejected, or `null`.
fn push_last_failure(out: &mut Vec<u8>, failure: Option<&(Wall, PutOutcome)>) {
    push_name(out, "last_failure");
    let problem = failure.and_then(|(at, outcome)| match *outcome {
        PutOutcome::Added(_) | PutOutcome::Duplicate(_) => None,
        PutOutcome::KeyTaken(id) => Some((*at, key_taken(id))),
        PutOutcome::Rejected(why) => Some((*at, rejected(why))),
    });
    let Some((at, problem)) = problem else {
        return out.extend_from_slice(b"null");
    };
    out.push(b'{');
    push_name(out, "at");
    push_moment(out, at);
    push_text(out, "detail", Some(problem.detail.as_bytes()));
    out.push(b'}');
}
