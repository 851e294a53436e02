//! Jobq (`docs/protocols/jobq.md`): from requests to commands, and from replies to responses.

mod answer;
mod body;
mod schema;
mod stream;

pub(super) use answer::{BodyKind, answer, answer_page};
pub(super) use body::{Prepared, prepare};
pub(super) use schema::{ID_MAX, describe, parameters};

use super::Scratch;
use super::response::HttpError;
use crate::model::id::JobId;
use crate::model::indexed_queue::IndexedCommand;
use crate::model::query::Query;
use percent_encoding::percent_decode_str;
use std::sync::Arc;

/// A query, shared with the engine.
pub(super) type SharedQuery = Arc<Query>;

/// The operations of `docs/protocols/jobq.md`, "Calls".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    Queues,
    CreateQueue,
    DropQueue,
    List,
    Find,
    Poll,
    Put,
    GetJob,
    Delete,
    CompareAndSetState,
    AppendEvent,
}

/// A request that takes one command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SingleRequest {
    CreateQueue,
    Put,
    GetJob,
    Delete,
    CompareAndSetState,
    AppendEvent,
}

/// A request that may take several commands, because its reply is bounded in each pass.
#[derive(Debug)]
pub(super) struct PagedRequest {
    command: PagedCommand,
    /// The slot from which the next page lists queues.
    from: u32,
    /// The list of queues has an element already.
    listed: bool,
    /// Long names of queues are written whole.
    whole_names: bool,
    /// Jobs that are removed already.
    deleted: u64,
}

/// What the commands of a paged request do.
#[derive(Debug)]
enum PagedCommand {
    /// List the queues.
    Queues,
    /// Remove a queue.
    Drop { queue: Vec<u8> },
    /// List the jobs of a queue.
    List { queue: Vec<u8> },
    /// List the jobs that match.
    Find { queue: Vec<u8>, query: SharedQuery, limit: Option<u64> },
    /// Give the first job that matches a new state.
    Poll { queue: Vec<u8>, query: SharedQuery, state: Vec<u8> },
}

impl PagedRequest {
    fn new(command: PagedCommand, whole_names: bool) -> Self {
        Self { command, from: 0, listed: false, whole_names, deleted: 0 }
    }

    /// The command for the next page; it borrows from `scratch`.
    pub(super) fn next_command<'s>(&self, scratch: &'s mut Scratch) -> IndexedCommand<'s> {
        let name = match &self.command {
            PagedCommand::Queues => return IndexedCommand::Queues { from: self.from },
            PagedCommand::Drop { queue } | PagedCommand::List { queue } => queue,
            PagedCommand::Find { queue, query, .. } | PagedCommand::Poll { queue, query, .. } => {
                scratch.query = Some(Arc::clone(query));
                queue
            }
        };
        scratch.queue.clone_from(name);
        if let PagedCommand::Poll { state, .. } = &self.command {
            scratch.new.clone_from(state);
        }
        let Scratch { queue, new, query, .. } = scratch;
        match (&self.command, query) {
            (PagedCommand::Drop { .. }, _) => IndexedCommand::DropQueue { queue },
            (PagedCommand::Find { limit, .. }, Some(query)) => {
                IndexedCommand::Find { queue, query, limit: *limit }
            }
            (PagedCommand::Poll { .. }, Some(query)) => {
                IndexedCommand::Poll { queue, query, state: new }
            }
            _ => IndexedCommand::List { queue },
        }
    }
}

/// The query parameter for whole names, and its only value.
pub(super) const NAMES_PARAMETER: (&str, &str) = ("names", "whole");

/// Whether a target asks for whole names of queues.
pub(super) fn wants_whole_names(target: &str) -> Result<bool, HttpError> {
    let (name, whole) = NAMES_PARAMETER;
    let query = target.split_once('?').map_or("", |(_, query)| query);
    let mut wants = false;
    for parameter in query.split('&') {
        let (key, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        if percent_decode_str(key).eq(name.bytes()) {
            if !percent_decode_str(value).eq(whole.bytes()) {
                let why = format!("parameter '{name}': the only value is '{whole}'");
                return Err(HttpError::new(400, why));
            }
            wants = true;
        }
    }
    Ok(wants)
}

/// The command of a request that takes one, after [`prepare`].
pub(super) fn command<'s>(
    request: SingleRequest,
    job: JobId,
    body: &'s [u8],
    work: &'s Scratch,
) -> IndexedCommand<'s> {
    let Scratch { queue, old, new, .. } = work;
    let text = &body[work.text.clone()];
    match request {
        SingleRequest::CreateQueue => {
            IndexedCommand::CreateQueue { queue: work.named.then_some(queue) }
        }
        SingleRequest::Put => IndexedCommand::Put { queue, payload: text, state: new },
        SingleRequest::GetJob => IndexedCommand::Show { queue, id: job },
        SingleRequest::Delete => IndexedCommand::Delete { queue, id: job },
        SingleRequest::CompareAndSetState => {
            IndexedCommand::CompareAndSetState { queue, id: job, old, new }
        }
        SingleRequest::AppendEvent => IndexedCommand::AppendEvent { queue, id: job, event: text },
    }
}
