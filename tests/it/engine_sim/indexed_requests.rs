//! Requests about indexed queues: what the engine is asked, and what the oracle is.

use super::requests::QUEUES;
use crate::oracle::indexed_queues::State;
use crate::oracle::types::{Load, Queue, Text};
use crate::oracle::{Job, Oracle};
use jobcentre::model::id::{JobId, Ticket};
use jobcentre::model::indexed_queue::IndexedCommand;
use jobcentre::model::job::Encoding;
use jobcentre::model::query::{Expr, Op, Query, Term};
use std::sync::Arc;

/// All states there are, and how a query asks for them.
pub(super) const STATES: [(State, &str); 4] =
    [(b"null", ""), (b"\"A\"", "'\"A\"'"), (b"[1,\"x\"]", "'[1,\"x\"]'"), (b"word", "word")];

/// A request; states are numbers in [`STATES`].
#[derive(Clone, Debug)]
pub(super) enum IndexedRequest {
    Queues,
    CreateQueue(Queue),
    DropQueue(Queue),
    List(Queue),
    Find { queue: Queue, state: Option<usize>, limit: Option<u64> },
    Poll { queue: Queue, state: Option<usize>, new: usize },
    Put { queue: Queue, text: Text, state: usize },
    Show(Queue, JobId),
    Delete(Queue, JobId),
    CompareAndSetState { queue: Queue, id: JobId, old: usize, new: usize },
    AppendEvent { queue: Queue, id: JobId, event: Text },
}

pub(super) fn query(state: Option<usize>) -> Arc<Query> {
    let left = Expr::Text("j.state".into());
    let options = state.map(|state| match STATES[state].1 {
        "" => Term { op: Op::Is, left, right: Expr::Null },
        literal => Term { op: Op::Is, left: Expr::Text(literal.into()), right: left },
    });
    Arc::new(Query { terms: options.into_iter().collect() })
}

pub(super) fn is_in(state: Option<usize>) -> impl Fn(&Job) -> bool {
    move |job| state.is_none_or(|state| job.state() == Some(STATES[state].0))
}

impl IndexedRequest {
    /// Hands it, in the model's form, to `submit`.
    pub(super) fn with_command(&self, submit: impl FnOnce(&IndexedCommand<'_>)) {
        let queue = |queue: Queue| QUEUES[queue];
        let state = |state: usize| STATES[state].0;
        let query = &match *self {
            Self::Find { state, .. } | Self::Poll { state, .. } => query(state),
            _ => query(None),
        };
        let command = match *self {
            Self::Queues => IndexedCommand::Queues { from: 0 },
            Self::CreateQueue(named) => IndexedCommand::CreateQueue { queue: Some(queue(named)) },
            Self::DropQueue(named) => IndexedCommand::DropQueue { queue: queue(named) },
            Self::List(named) => IndexedCommand::List { queue: queue(named) },
            Self::Find { queue: named, limit, .. } => {
                IndexedCommand::Find { queue: queue(named), query, limit }
            }
            Self::Poll { queue: named, new, .. } => {
                IndexedCommand::Poll { queue: queue(named), query, state: state(new) }
            }
            Self::Put { queue: named, ref text, state: first } => IndexedCommand::Put {
                queue: queue(named),
                payload: text.bytes(),
                state: state(first),
            },
            Self::Show(named, id) => IndexedCommand::Show { queue: queue(named), id },
            Self::Delete(named, id) => IndexedCommand::Delete { queue: queue(named), id },
            Self::CompareAndSetState { queue: named, id, old, new } => {
                IndexedCommand::CompareAndSetState {
                    queue: queue(named),
                    id,
                    old: state(old),
                    new: state(new),
                }
            }
            Self::AppendEvent { queue: named, id, ref event } => {
                IndexedCommand::AppendEvent { queue: queue(named), id, event: event.bytes() }
            }
        };
        submit(&command);
    }

    /// Has the oracle perform it.
    pub(super) fn perform(&self, oracle: &mut Oracle, ticket: Ticket) {
        match *self {
            Self::Queues => oracle.queues(ticket),
            Self::CreateQueue(queue) => oracle.create_queue(ticket, queue),
            Self::DropQueue(queue) => oracle.drop_queue(ticket, queue),
            Self::List(queue) => oracle.list(ticket, queue),
            Self::Find { queue, state, limit } => {
                oracle.find_rows(ticket, queue, &is_in(state), limit);
            }
            Self::Poll { queue, state, new } => {
                oracle.poll(ticket, queue, &is_in(state), STATES[new].0);
            }
            Self::Put { queue, ref text, state } => {
                let load = Load { encoding: Encoding::Json, text: text.clone() };
                oracle.put_row(ticket, queue, load, STATES[state].0);
            }
            Self::Show(queue, id) => oracle.show(ticket, queue, id),
            Self::Delete(queue, id) => oracle.delete_row(ticket, queue, id),
            Self::CompareAndSetState { queue, id, old, new } => {
                let (old, new) = (STATES[old].0, STATES[new].0);
                oracle.compare_and_set_state(ticket, (queue, id), old, new);
            }
            Self::AppendEvent { queue, id, ref event } => {
                oracle.append_event(ticket, queue, id, event.bytes());
            }
        }
    }

    pub(super) fn id_mut(&mut self) -> Option<&mut JobId> {
        match self {
            Self::Show(_, id)
            | Self::Delete(_, id)
            | Self::CompareAndSetState { id, .. }
            | Self::AppendEvent { id, .. } => Some(id),
            _ => None,
        }
    }
}
