//! What is made of the store's answers.

use super::stream::{Stream, push_job};
use super::{Operation, Problem, Question};
use crate::model::id::JobId;
use crate::model::reply::{Refusal, Reply};
use crate::model::row::{Row, Rows};
use crate::model::watch::QueueSize;
use crate::wire::json::{push_number, push_string};
use std::sync::Arc;

/// A reply that can wait for its turn.
#[derive(Debug)]
pub(in crate::protocol::http) enum Outcome {
    BadQuery(String),
    Conflict(Arc<[u8]>),
    Done,
    Dropped { jobs: u32, more: bool },
    Found(Arc<[Arc<Row>]>),
    NoJob,
    NoQueue,
    NotYet,
    Queue(Vec<u8>),
    Queues { queues: Vec<QueueSize>, next: Option<u32> },
    Refused(Refusal),
    Row(Arc<Row>),
    Rows(Rows),
}

impl Outcome {
    pub(in crate::protocol::http) fn of(reply: &Reply<'_>) -> Self {
        match reply {
            Reply::BadQuery(why) => Self::BadQuery((*why).to_owned()),
            Reply::Conflict(state) => Self::Conflict(Arc::clone(state)),
            Reply::Done => Self::Done,
            Reply::Dropped { jobs, more } => Self::Dropped { jobs: *jobs, more: *more },
            Reply::Found(rows) => Self::Found(Arc::clone(rows)),
            Reply::NoJob => Self::NoJob,
            Reply::NoQueue => Self::NoQueue,
            Reply::NotYet => Self::NotYet,
            Reply::Queue(name) => Self::Queue(name.to_vec()),
            Reply::Queues { queues, next } => Self::Queues { queues: queues.clone(), next: *next },
            Reply::Refused(refusal) => Self::Refused(*refusal),
            Reply::Row(row) => Self::Row(Arc::clone(row)),
            Reply::Rows(rows) => Self::Rows(rows.clone()),
            _ => unreachable!("nobody asks for this here"),
        }
    }
}

/// What an outcome comes to.
pub(in crate::protocol::http) enum Part {
    /// Nothing yet: ask again.
    Again,
    /// The whole answer.
    Whole(u16),
    /// A part of an answer with status 200; is there more, the question is to be asked again.
    Page { more: bool },
    /// An answer with status 200 that may be long.
    Stream(Stream),
    /// An error.
    Error(Problem),
}

/// Writes into `text` what is to be answered, as far as it is known.
pub(in crate::protocol::http) fn answer(
    operation: Operation,
    job: JobId,
    outcome: Outcome,
    question: Option<&mut Question>,
    text: &mut Vec<u8>,
) -> Part {
    match outcome {
        Outcome::NotYet => return Part::Again,
        Outcome::Queues { queues, next } => return page(&queues, next, question, text),
        Outcome::Dropped { jobs, more } => return dropped(u64::from(jobs), more, question, text),
        // Somebody else has removed the rest of it.
        Outcome::NoQueue if is_dropping(question.as_deref()) => {
            return dropped(0, false, question, text);
        }
        Outcome::Rows(rows) => return Part::Stream(Stream::brief(rows)),
        Outcome::Found(rows) => return Part::Stream(Stream::full(rows)),
        Outcome::Row(row) => push_job(&row, text),
        Outcome::Done => text.extend_from_slice(b"{}"),
        Outcome::Queue(name) => {
            text.extend_from_slice(b"{\"id\":");
            push_string(text, &name);
            text.push(b'}');
            return Part::Whole(201);
        }
        Outcome::Conflict(state) => {
            text.extend_from_slice(b"{\"error\":\"the job has another state\",\"state\":");
            text.extend_from_slice(&state);
            text.push(b'}');
            return Part::Whole(409);
        }
        Outcome::BadQuery(why) => return Part::Error(Problem::new(400, why)),
        Outcome::NoQueue => return Part::Error(Problem::new(404, "there is no such queue")),
        Outcome::NoJob if operation == Operation::Poll => {
            return Part::Error(Problem::new(404, "no job of the queue matches"));
        }
        Outcome::NoJob => {
            let why = match job {
                JobId::NEVER => "there is no such job in this queue".to_owned(),
                JobId(id) => format!("there is no job {id} in this queue"),
            };
            return Part::Error(Problem::new(404, why));
        }
        Outcome::Refused(refusal) => return Part::Error(refused(refusal)),
    }
    Part::Whole(200)
}

fn is_dropping(question: Option<&Question>) -> bool {
    matches!(question, Some(Question::Drop { gone: 1.., .. }))
}

fn dropped(jobs: u64, more: bool, question: Option<&mut Question>, text: &mut Vec<u8>) -> Part {
    let Some(Question::Drop { gone, .. }) = question else {
        unreachable!("who drops a queue has asked for it")
    };
    *gone += jobs;
    if more {
        return Part::Again;
    }
    text.extend_from_slice(b"{\"deleted\":");
    push_number(text, *gone);
    text.push(b'}');
    Part::Whole(200)
}

fn page(
    queues: &[QueueSize],
    next: Option<u32>,
    question: Option<&mut Question>,
    text: &mut Vec<u8>,
) -> Part {
    let Some(Question::Queues { from, listed }) = question else {
        unreachable!("who gets a list of queues has asked for it")
    };
    if *from == 0 {
        text.extend_from_slice(b"{\"queues\":[");
    }
    for QueueSize { name, jobs } in queues {
        if std::mem::replace(listed, true) {
            text.push(b',');
        }
        text.extend_from_slice(b"{\"id\":");
        push_string(text, name);
        text.extend_from_slice(b",\"jobs\":");
        push_number(text, *jobs);
        text.push(b'}');
    }
    match next {
        Some(next) => *from = next,
        None => text.extend_from_slice(b"]}"),
    }
    Part::Page { more: next.is_some() }
}

fn refused(refusal: Refusal) -> Problem {
    match refusal {
        Refusal::QueueExists => Problem::new(409, "there is a queue of this name already"),
        Refusal::Full => Problem::new(503, "the server has no place left for another job"),
        Refusal::DiskFull => Problem::new(
            507,
            "the server's disk is full: no job can be put until jobs are deleted or space is made",
        ),
        Refusal::LogFull => Problem::new(507, "the log of the job takes no more events"),
        Refusal::HeldByAnother(_)
        | Refusal::NotHeld(_)
        | Refusal::LeaseOver(_)
        | Refusal::NotBuried(_) => unreachable!("nobody asks for this here"),
    }
}
