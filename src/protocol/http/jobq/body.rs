//! Request bodies: JSON objects.

use super::{
    HttpError, Operation, PagedCommand, PagedRequest, Scratch, SharedQuery, SingleRequest,
};
use crate::base::names;
use crate::protocol::query_text::{QueryTextError, parse_query, string};
use crate::wire::json::{self, Fields, JsonError};
use std::ops::Range;
use std::sync::Arc;

/// The members that any operation reads.
struct Members;

const NAMES: [&str; 7] = ["payload", "state", "old", "new", "id", "query", "limit"];
const PAYLOAD: usize = 0;
const STATE: usize = 1;
const OLD: usize = 2;
const NEW: usize = 3;
const ID: usize = 4;
const QUERY: usize = 5;
const LIMIT: usize = 6;

impl Fields<{ NAMES.len() }> for Members {
    fn number(name: &[u8]) -> Option<usize> {
        NAMES.iter().position(|known| known.as_bytes() == name)
    }
}

type Found<'a> = [Option<&'a str>; NAMES.len()];

/// A request whose body is parsed.
#[derive(Debug)]
pub(in crate::protocol::http) enum Prepared {
    /// The body is in the scratch memory, for [`super::command`].
    Single(SingleRequest),
    Paged(Box<PagedRequest>),
}

/// Parses the body of a request. `whole_names`: names in lists are written whole.
pub(in crate::protocol::http) fn prepare(
    operation: Operation,
    whole_names: bool,
    body: &[u8],
    work: &mut Scratch,
) -> Result<Prepared, HttpError> {
    work.text = 0..0;
    let queue = || work.queue.clone();
    let paged = |command| Ok(Prepared::Paged(Box::new(PagedRequest::new(command, whole_names))));
    Ok(Prepared::Single(match operation {
        Operation::Queues => return paged(PagedCommand::Queues),
        Operation::DropQueue => return paged(PagedCommand::Drop { queue: queue() }),
        Operation::List => return paged(PagedCommand::List { queue: queue() }),
        Operation::Find => {
            let members = members(body, &[QUERY, LIMIT])?;
            let (query, limit) = (query(members[QUERY])?, limit(members[LIMIT])?);
            return paged(PagedCommand::Find { queue: queue(), query, limit });
        }
        Operation::Poll => {
            let members = members(body, &[QUERY, STATE])?;
            let (query, queue, mut state) = (query(members[QUERY])?, queue(), Vec::new());
            json::canonical(members[STATE].unwrap_or("null"), &mut state);
            return paged(PagedCommand::Poll { queue, query, state });
        }
        Operation::GetJob => SingleRequest::GetJob,
        Operation::Delete => SingleRequest::Delete,
        Operation::CreateQueue => {
            declare(members(body, &[ID])?[ID], work)?;
            SingleRequest::CreateQueue
        }
        Operation::Put => {
            let members = members(body, &[PAYLOAD, STATE])?;
            work.text = place(required(&members, PAYLOAD)?, body);
            work.new.clear();
            json::canonical(members[STATE].unwrap_or("null"), &mut work.new);
            SingleRequest::Put
        }
        Operation::CompareAndSetState => {
            let members = members(body, &[OLD, NEW])?;
            let (old, new) = (required(&members, OLD)?, required(&members, NEW)?);
            work.old.clear();
            work.new.clear();
            json::canonical(old, &mut work.old);
            json::canonical(new, &mut work.new);
            SingleRequest::CompareAndSetState
        }
        Operation::AppendEvent => {
            work.text = place(json::value(body).map_err(|e| not_json(&e))?, body);
            SingleRequest::AppendEvent
        }
    }))
}

fn not_json(error: &JsonError) -> HttpError {
    HttpError::new(400, format!("the body {error}"))
}

/// The members of a body that may have those of `known`. Any other member is an error, as it is
/// probably a typing mistake.
fn members<'a>(body: &'a [u8], known: &[usize]) -> Result<Found<'a>, HttpError> {
    let (found, other) = json::members::<Members, _>(body).map_err(|error| not_json(&error))?;
    let is_out_of_place = |number: &usize| found[*number].is_some() && !known.contains(number);
    match (other, (0..NAMES.len()).find(is_out_of_place)) {
        (Some(name), _) => Err(unknown(&string(name).unwrap_or_default(), known)),
        (None, Some(number)) => Err(unknown(NAMES[number], known)),
        (None, None) => Ok(found),
    }
}

#[cold]
fn unknown(name: &str, known: &[usize]) -> HttpError {
    let known: Vec<&str> = known.iter().map(|&number| NAMES[number]).collect();
    let shown: String = name.chars().take(40).collect();
    let what = names::unknown(&shown, &known);
    HttpError::new(400, format!("member '{shown}' {what}"))
}

fn required<'a>(members: &Found<'a>, number: usize) -> Result<&'a str, HttpError> {
    members[number]
        .ok_or_else(|| HttpError::new(400, format!("the body has no member '{}'", NAMES[number])))
}

/// The range of `part` in `body`.
fn place(part: &str, body: &[u8]) -> Range<usize> {
    let start = part.as_ptr().addr() - body.as_ptr().addr();
    start..start + part.len()
}

fn declare(id: Option<&str>, work: &mut Scratch) -> Result<(), HttpError> {
    work.named = id.is_some();
    let Some(text) = id else { return Ok(()) };
    let Some(name) = string(text) else {
        return Err(HttpError::new(400, "member 'id': give the queue's name as a string"));
    };
    if name.is_empty() {
        return Err(HttpError::new(400, "member 'id': the name of the queue is empty"));
    }
    work.queue.clear();
    work.queue.extend_from_slice(name.as_bytes());
    Ok(())
}

fn limit(text: Option<&str>) -> Result<Option<u64>, HttpError> {
    let Some(text) = text else { return Ok(None) };
    let mut number = Vec::new();
    json::canonical(text, &mut number);
    let whole = number.iter().all(u8::is_ascii_digit);
    // A whole number in another notation has an exponent and exceeds 64 bits.
    let huge = number.first().is_some_and(u8::is_ascii_digit)
        && number.contains(&b'e')
        && !number.windows(2).any(|pair| pair == b"e-")
        && !text.starts_with('-');
    match std::str::from_utf8(&number) {
        Ok(digits) if whole => Ok(Some(digits.parse().unwrap_or(u64::MAX))),
        _ if huge => Ok(Some(u64::MAX)),
        _ => Err(HttpError::new(400, "member 'limit': give a whole number from 0 on")),
    }
}

/// Parses a query; without text: the empty one.
fn query(text: Option<&str>) -> Result<SharedQuery, HttpError> {
    let Some(text) = text else { return Ok(Arc::default()) };
    let bad = |error: QueryTextError| HttpError::new(400, format!("member 'query'{error}"));
    parse_query(text).map(Arc::new).map_err(bad)
}
