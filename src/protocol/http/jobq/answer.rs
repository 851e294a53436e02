//! What is made of the store's answers.

use super::stream::{Stream, push_job};
use super::{HttpError, Operation, PagedRequest};
use crate::base::names::shown;
use crate::model::id::JobId;
use crate::model::indexed_queue::QueueSize;
use crate::model::reply::{Rejection, Reply};
use crate::model::row::{Row, Rows};
use crate::model::stats::StatsPage;
use crate::wire::json::{push_number, push_string};
use std::borrow::Cow;
use std::sync::Arc;

/// A reply that can wait for its turn.
#[derive(Debug)]
pub(in crate::protocol::http) enum JobqReply {
    BadQuery(String),
    Census(StatsPage),
    Conflict(Arc<[u8]>),
    Done,
    Dropped { jobs: u32, more: bool },
    Found(Arc<[Arc<Row>]>),
    NoJob,
    NoQueue,
    NotYet,
    Queue(Vec<u8>),
    Queues { queues: Vec<QueueSize>, next: Option<u32> },
    Refused(Rejection),
    Row(Arc<Row>),
    Rows(Rows),
}

impl JobqReply {
    pub(in crate::protocol::http) fn of(reply: &Reply<'_>) -> Self {
        match reply {
            Reply::Stats(page) => Self::Census((*page).clone()),
            Reply::BadQuery(why) => Self::BadQuery((*why).to_owned()),
            Reply::Conflict(state) => Self::Conflict(Arc::clone(state)),
            Reply::Done => Self::Done,
            Reply::QueueDropped { jobs, more } => Self::Dropped { jobs: *jobs, more: *more },
            Reply::QueryRows(rows) => Self::Found(Arc::clone(rows)),
            Reply::NoJob => Self::NoJob,
            Reply::NoQueue => Self::NoQueue,
            Reply::NotYet => Self::NotYet,
            Reply::Queue(name) => Self::Queue(name.to_vec()),
            Reply::Queues { queues, next } => Self::Queues { queues: queues.to_vec(), next: *next },
            Reply::Rejected(refusal) => Self::Refused(*refusal),
            Reply::Row(row) => Self::Row(Arc::clone(row)),
            Reply::Rows(rows) => Self::Rows((*rows).clone()),
            _ => unreachable!("nobody asks for this here"),
        }
    }
}

/// What an outcome comes to.
pub(in crate::protocol::http) enum BodyKind {
    /// Nothing yet: ask again.
    Again,
    /// The whole answer.
    Whole(u16),
    /// A part of an answer with status 200; is there more, the question is to be asked again.
    Page { more: bool },
    /// An answer with status 200 that may be long.
    Stream(Stream),
    /// An error.
    Error(HttpError),
}

/// Writes into `text` what is to be answered, as far as it is known.
pub(in crate::protocol::http) fn answer(
    operation: Operation,
    job: JobId,
    outcome: JobqReply,
    question: Option<&mut PagedRequest>,
    text: &mut Vec<u8>,
) -> BodyKind {
    let outcome = match (outcome, question) {
        (JobqReply::NotYet, _) => return BodyKind::Again,
        (
            JobqReply::Queues { queues, next },
            Some(PagedRequest::Queues { from, listed, whole }),
        ) => {
            push_queues(&queues, *from == 0, *whole, listed, text);
            if let Some(next) = next {
                *from = next;
            } else {
                text.extend_from_slice(b"]}");
            }
            return BodyKind::Page { more: next.is_some() };
        }
        (JobqReply::Dropped { jobs, more }, Some(PagedRequest::Drop { gone, .. })) => {
            *gone += u64::from(jobs);
            if more {
                return BodyKind::Again;
            }
            push_gone(*gone, text);
            return BodyKind::Whole(200);
        }
        // Somebody else has removed the rest of it.
        (JobqReply::NoQueue, Some(PagedRequest::Drop { gone, .. })) if *gone > 0 => {
            push_gone(*gone, text);
            return BodyKind::Whole(200);
        }
        (outcome, _) => outcome,
    };
    match outcome {
        JobqReply::Rows(rows) => BodyKind::Stream(Stream::brief(rows)),
        JobqReply::Found(rows) => BodyKind::Stream(Stream::full(rows)),
        JobqReply::Row(row) => {
            push_job(&row, text);
            BodyKind::Whole(200)
        }
        JobqReply::Done => {
            text.extend_from_slice(b"{}");
            BodyKind::Whole(200)
        }
        JobqReply::Queue(name) => {
            text.extend_from_slice(b"{\"id\":");
            push_string(text, &name);
            text.push(b'}');
            BodyKind::Whole(201)
        }
        JobqReply::Conflict(state) => {
            text.extend_from_slice(b"{\"error\":\"the job has another state\",\"state\":");
            text.extend_from_slice(&state);
            text.push(b'}');
            BodyKind::Whole(409)
        }
        JobqReply::BadQuery(why) => BodyKind::Error(HttpError::new(400, why)),
        JobqReply::NoQueue => BodyKind::Error(HttpError::new(404, "there is no such queue")),
        JobqReply::NoJob => BodyKind::Error(no_job(operation, job)),
        JobqReply::Refused(refusal) => BodyKind::Error(refused(refusal)),
        JobqReply::Census(_)
        | JobqReply::NotYet
        | JobqReply::Queues { .. }
        | JobqReply::Dropped { .. } => {
            unreachable!("these answer questions")
        }
    }
}

fn no_job(operation: Operation, job: JobId) -> HttpError {
    if operation == Operation::Poll {
        return HttpError::new(404, "no job of the queue matches");
    }
    match job {
        JobId::NEVER => HttpError::new(404, "there is no such job in this queue"),
        JobId(id) => HttpError::new(404, format!("there is no job {id} in this queue")),
    }
}

fn push_gone(jobs: u64, text: &mut Vec<u8>) {
    text.extend_from_slice(b"{\"deleted\":");
    push_number(text, jobs);
    text.push(b'}');
}

fn push_queues(
    queues: &[QueueSize],
    first: bool,
    whole: bool,
    listed: &mut bool,
    text: &mut Vec<u8>,
) {
    if first {
        text.extend_from_slice(b"{\"queues\":[");
    }
    for QueueSize { name, jobs } in queues {
        if std::mem::replace(listed, true) {
            text.push(b',');
        }
        let id = if whole { Cow::Borrowed(&**name) } else { shown(name) };
        text.extend_from_slice(b"{\"id\":");
        push_string(text, &id);
        text.extend_from_slice(b",\"jobs\":");
        push_number(text, *jobs);
        if let Cow::Owned(_) = id {
            text.extend_from_slice(b",\"bytes\":");
            push_number(text, name.len() as u64);
        }
        text.push(b'}');
    }
}

fn refused(refusal: Rejection) -> HttpError {
    match refusal {
        Rejection::QueueExists => HttpError::new(409, "there is a queue of this name already"),
        Rejection::Full => HttpError::new(503, "the server has no place left for another job"),
        Rejection::DiskFull => HttpError::new(
            507,
            "the server's disk is full: no job can be put until jobs are deleted or space is made",
        ),
        Rejection::LogFull => HttpError::new(507, "the log of the job takes no more events"),
        Rejection::ReservedByAnother(_)
        | Rejection::NotReserved(_)
        | Rejection::LeaseExpired(_)
        | Rejection::NotBuried(_)
        | Rejection::NameTaken(_)
        | Rejection::TooLate(_) => unreachable!("nobody asks for this here"),
    }
}
