//! The fields of changes and actions.

use super::field_names::CHANGE_FIELDS;
use super::fields::Fields;
use super::problem::{Problem, ProblemKind};
use super::put_fields::{delay, payload, priority};
use super::table::Operation;
use crate::base::time::Now;
use crate::model::action::{ActionFilter, ActionSpec, ActionVerb, JobChange};
use crate::model::job_state::{JobState, JobStates};
use crate::model::query::Query;
use crate::protocol::query_text::parse_query;
use std::sync::Arc;

/// Most ids of an action.
const IDS_MAX: usize = 10_000;

/// How an action is answered: as such, or by the number of its jobs under this name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::protocol) enum ActionAnswer {
    Details,
    Count(&'static str),
}

/// A query. `name`: that of its field.
pub(super) fn query(text: &str, name: &str) -> Result<Arc<Query>, Problem> {
    parse_query(text).map(Arc::new).map_err(|error| Problem {
        field: Some(name.to_owned()),
        ..Problem::new(ProblemKind::InvalidField, format!("field '{name}'{error}"))
    })
}

/// The number of an action in a path; 0, which none has, if it is no number.
pub(super) fn number(text: &[u8]) -> u64 {
    std::str::from_utf8(text).ok().and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// A change: the fields themselves, or in a line the object `fields`.
pub(super) fn change_of(fields: &Fields<'_>, now: Now) -> Result<JobChange, Problem> {
    if !fields.is_line() {
        return change(fields, now);
    }
    let inner = fields.object("fields", CHANGE_FIELDS)?;
    change(&inner.ok_or_else(|| Problem::missing("fields", "an object"))?, now)
}

fn change(fields: &Fields<'_>, now: Now) -> Result<JobChange, Problem> {
    let has_payload = fields.is_there("payload") || fields.text("payload_base64").is_some();
    Ok(JobChange {
        payload: if has_payload { Some(payload(fields)?) } else { None },
        priority: fields.integer("pri", i64::MIN, i64::MAX)?.map(priority),
        delay_ms: delay(fields, now)?,
        ttl_ms: fields.duration("ttl_ms")?,
        queue: queue_name(fields, "queue")?,
        max_attempts: fields.integer("max_attempts", 1, u32::MAX)?,
    })
}

fn queue_name(fields: &Fields<'_>, field: &'static str) -> Result<Option<Box<[u8]>>, Problem> {
    let name = fields.string(field)?;
    Ok(name.map(|name| name.into_bytes().into_boxed_slice()))
}

/// The states of a purge or a move: some, and not reserved.
fn states(fields: &Fields<'_>) -> Result<JobStates, Problem> {
    let wanted = "an array of states: ready, scheduled, blocked, buried, completed";
    let names = fields.strings("states", 1..=5)?;
    let names = names.ok_or_else(|| Problem::missing("states", wanted))?;
    let states = set_of(&names).filter(|states| !states.contains(JobState::Reserved));
    states.ok_or_else(|| Problem::wrong("states", wanted))
}

/// The states with these names. `None`: there is no such state.
fn set_of(names: &[String]) -> Option<JobStates> {
    names.iter().try_fold(JobStates::default(), |states, name| {
        Some(states.with(JobState::from_name(name)?))
    })
}

fn limit(fields: &Fields<'_>) -> Result<Option<u64>, Problem> {
    fields.integer("limit", 1, u64::MAX)
}

fn target(fields: &Fields<'_>) -> Result<Box<[u8]>, Problem> {
    let to = queue_name(fields, "to")?;
    to.ok_or_else(|| Problem::missing("to", "the name of the queue to move the jobs to"))
}

/// Purge, kick or move of a queue.
pub(super) fn queue_action(
    operation: Operation,
    queue: Vec<u8>,
    fields: &Fields<'_>,
) -> Result<(ActionSpec, ActionAnswer), Problem> {
    let (states, verb, name) = match operation {
        Operation::Purge => (states(fields)?, ActionVerb::Delete, "deleted"),
        Operation::Move => {
            let to = target(fields)?;
            (states(fields)?, ActionVerb::Move { to }, "moved")
        }
        _ => {
            let buried = JobStates::default().with(JobState::Buried);
            (buried, ActionVerb::Kick, "kicked")
        }
    };
    let limit = if operation == Operation::Purge { None } else { limit(fields)? };
    let (queue, filter) = (queue.into(), ActionFilter::States(states));
    let spec = ActionSpec { queue, filter, verb, limit, dry_run: false, wait: true };
    Ok((spec, ActionAnswer::Count(name)))
}

/// Which jobs an action is about.
fn filter(fields: &Fields<'_>) -> Result<ActionFilter, Problem> {
    let wanted = "an object with 'state', 'states', 'query' or 'ids'";
    let filter = fields.object("where", &["state", "states", "query", "ids"])?;
    let filter = filter.ok_or_else(|| Problem::missing("where", wanted))?;
    let terms = filter.text("query").map(|text| query(text, "where.query")).transpose()?;
    let one = filter.state("state")?.map(|state| JobStates::default().with(state));
    let names = filter.strings("states", 1..=JobState::ALL.len())?;
    let some = names.map(|names| {
        set_of(&names).ok_or_else(|| filter.wrong("states", "an array of states of jobs"))
    });
    match (one, some.transpose()?, terms, filter.ids("ids", IDS_MAX)?) {
        (Some(states), None, None, None) | (None, Some(states), None, None) => {
            Ok(ActionFilter::States(states))
        }
        (None, None, Some(terms), None) => Ok(ActionFilter::Query(terms)),
        (None, None, None, Some(ids)) => Ok(ActionFilter::Ids(ids.into())),
        _ => Err(Problem::wrong("where", wanted)),
    }
}

/// `POST /actions`.
pub(super) fn action(fields: &Fields<'_>, now: Now) -> Result<ActionSpec, Problem> {
    let queue = queue_name(fields, "queue")?;
    let queue = queue.ok_or_else(|| Problem::missing("queue", "a string"))?;
    let filter = filter(fields)?;
    let words = [("delete", 0), ("kick", 1), ("bury", 2), ("move", 3), ("change", 4)];
    let verb = fields.word("do", &words)?;
    let wanted = "one of 'delete', 'kick', 'bury', 'move', 'change'";
    let verb = match verb.ok_or_else(|| Problem::missing("do", wanted))? {
        0 => ActionVerb::Delete,
        1 => ActionVerb::Kick,
        2 => ActionVerb::Bury,
        3 => ActionVerb::Move { to: target(fields)? },
        _ => {
            let inner = fields.object("change", CHANGE_FIELDS)?;
            let inner = inner.ok_or_else(|| Problem::missing("change", "an object"))?;
            ActionVerb::Change(change(&inner, now)?)
        }
    };
    for (field, fits) in [
        ("to", matches!(verb, ActionVerb::Move { .. })),
        ("change", matches!(verb, ActionVerb::Change(_))),
    ] {
        if fields.is_there(field) && !fits {
            return Err(Problem::wrong(field, "left out for this 'do'"));
        }
    }
    let (limit, dry_run) = (limit(fields)?, fields.bool("dry_run")?.unwrap_or(false));
    Ok(ActionSpec { queue, filter, verb, limit, dry_run, wait: false })
}
