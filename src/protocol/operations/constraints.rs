//! Constraints: their fields, and as JSON.

use super::answer::{Answer, Next, rejected};
use super::fields::{DURATION_MAX_MS, Fields};
use super::job_json::{push_count, push_name, push_text};
use super::problem::{Problem, ProblemKind};
use crate::base::limits::CONSTRAINTS_MAX;
use crate::model::reply::Rejection;
use crate::model::show::ConstraintDetails;
use crate::model::worker::{Condition, Constraint, ConstraintReply, Path, Rate};
use crate::protocol::matcher::{
    A_PATH, CONDITIONS_MAX, MatcherError, push_matcher, push_path, read_matcher, read_path,
};
use crate::wire::json::push_number;
use crate::wire::msgpack::{Raw, from_json, push_json};

/// Longest name of a constraint, in bytes.
const NAME_MAX_BYTES: usize = 255;

const A_MATCHER: &str = "an array of conditions, [path, operator, value] each";

/// The name of a constraint in a path.
pub(super) fn name(bytes: Vec<u8>) -> Result<String, Problem> {
    let name = String::from_utf8(bytes).ok();
    let name = name.filter(|name| (1..=NAME_MAX_BYTES).contains(&name.len()));
    name.ok_or_else(|| Problem::wrong("name", &format!("1 to {NAME_MAX_BYTES} bytes of UTF-8")))
}

/// Reads a constraint.
pub(super) fn read(name: &str, fields: &Fields<'_>) -> Result<Constraint, Problem> {
    let matcher = matcher(fields)?;
    let max_running = fields.integer("max_running", 0, u32::MAX)?;
    let rate = rate(fields)?;
    let per = per(fields)?;
    if max_running.is_none() && rate.is_none() {
        return Err(Problem::missing("max_running", "a number of jobs, or say 'rate'"));
    }
    Ok(Constraint { name: name.into(), matcher, max_running, rate, per })
}

/// The value of a field in MessagePack.
fn packed(fields: &Fields<'_>, field: &str, text: &str, wanted: &str) -> Result<Vec<u8>, Problem> {
    let mut bytes = Vec::new();
    from_json(text.as_bytes(), &mut bytes).map_err(|_| fields.wrong(field, wanted))?;
    Ok(bytes)
}

fn matcher(fields: &Fields<'_>) -> Result<Vec<Condition>, Problem> {
    let Some(text) = fields.text("matcher") else {
        return Err(Problem::missing("matcher", A_MATCHER));
    };
    let bytes = packed(fields, "matcher", text, A_MATCHER)?;
    let value = Raw::new(&bytes).map_err(|_| fields.wrong("matcher", A_MATCHER))?;
    read_matcher(value).map_err(|error| match error {
        MatcherError::NoArray => fields.wrong("matcher", A_MATCHER),
        MatcherError::TooMany => {
            fields.wrong("matcher", &format!("an array of at most {CONDITIONS_MAX} conditions"))
        }
        MatcherError::Condition(number, what) => {
            let field = format!("matcher[{number}]");
            let problem =
                Problem::new(ProblemKind::InvalidField, format!("field '{field}' {what}"));
            Problem { field: Some(field), ..problem }
        }
    })
}

fn rate(fields: &Fields<'_>) -> Result<Option<Rate>, Problem> {
    let Some(rate) = fields.object("rate", &["count", "period_ms", "burst"])? else {
        return Ok(None);
    };
    let count = rate.integer("count", 1, u32::MAX)?;
    let count = count.ok_or_else(|| Problem::missing("rate.count", "a number of jobs"))?;
    let period_ms = rate.duration_between("period_ms", 1, DURATION_MAX_MS)?;
    let period_ms =
        period_ms.ok_or_else(|| Problem::missing("rate.period_ms", "a number of milliseconds"))?;
    let burst = rate.integer("burst", 1, u32::MAX)?.unwrap_or(count);
    Ok(Some(Rate { count, period_ms, burst }))
}

fn per(fields: &Fields<'_>) -> Result<Option<Path>, Problem> {
    let Some(text) = fields.text("per") else { return Ok(None) };
    let bytes = packed(fields, "per", text, A_PATH)?;
    let path = Raw::new(&bytes).ok().and_then(read_path);
    path.map(Some).ok_or_else(|| fields.wrong("per", A_PATH))
}

/// Writes the members of a constraint behind an opening brace.
pub(super) fn push_constraint(out: &mut Vec<u8>, constraint: &Constraint) {
    let Constraint { name, matcher, max_running, rate, per } = constraint;
    push_text(out, "name", Some(name.as_bytes()));
    push_name(out, "matcher");
    let mut bytes = Vec::new();
    push_matcher(&mut bytes, matcher);
    push_json(out, &bytes);
    push_name(out, "max_running");
    match max_running {
        Some(most) => push_number(out, *most),
        None => out.extend_from_slice(b"null"),
    }
    push_name(out, "rate");
    match rate {
        Some(Rate { count, period_ms, burst }) => {
            out.push(b'{');
            push_count(out, "count", *count);
            push_count(out, "period_ms", *period_ms);
            push_count(out, "burst", *burst);
            out.push(b'}');
        }
        None => out.extend_from_slice(b"null"),
    }
    push_name(out, "per");
    match per {
        Some(path) => {
            bytes.clear();
            push_path(&mut bytes, path);
            push_json(out, &bytes);
        }
        None => out.extend_from_slice(b"null"),
    }
}

/// The same, and how much of its limits is used.
pub(super) fn push_details(out: &mut Vec<u8>, details: &ConstraintDetails) {
    push_constraint(out, &details.constraint);
    push_count(out, "running", details.running);
    push_name(out, "tokens");
    match details.tokens {
        Some(tokens) => push_number(out, tokens),
        None => out.extend_from_slice(b"null"),
    }
    push_count(out, "keys", details.keys);
    push_count(out, "blocked_keys", details.blocked_keys);
}

/// The answer that a reply is; `set`: the constraint of a request that sets one.
pub(super) fn answer(reply: ConstraintReply, set: Option<&Constraint>) -> Next {
    match reply {
        ConstraintReply::Set { new } => {
            let mut body = Vec::from(*b"{");
            if let Some(constraint) = set {
                push_constraint(&mut body, constraint);
            }
            body.push(b'}');
            Next::Answer(Answer::new(if new { 201 } else { 200 }, body))
        }
        ConstraintReply::Removed => Next::Answer(Answer::empty()),
        ConstraintReply::NoConstraint => {
            let detail = "there is no constraint of this name: a PUT makes one";
            Next::Problem(Problem::new(ProblemKind::NotFound, detail))
        }
        ConstraintReply::Full => {
            let detail = format!("there are {CONSTRAINTS_MAX} constraints, the most: delete some");
            Next::Problem(Problem::new(ProblemKind::WrongState, detail))
        }
        ConstraintReply::DiskFull => Next::Problem(rejected(Rejection::DiskFull)),
    }
}
