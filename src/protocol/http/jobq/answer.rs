//! From replies to the bodies of responses.

use super::stream::{Stream, push_job};
use super::{HttpError, PagedRequest};
use crate::base::names::shown;
use crate::model::id::JobId;
use crate::model::indexed_queue::QueueSize;
use crate::model::reply::{Rejection, Reply};
use crate::model::row::{Row, Rows};
use crate::wire::json::{push_number, push_string};
use std::borrow::Cow;
use std::sync::Arc;

/// A reply that the session owns until its next turn.
#[derive(Debug)]
pub(in crate::protocol::http) enum JobqReply {
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
    Rejected(Rejection),
    Row(Arc<Row>),
    Rows(Rows),
}

impl JobqReply {
    pub(in crate::protocol::http) fn of(reply: &Reply<'_>) -> Self {
        match reply {
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
            Reply::Rejected(rejection) => Self::Rejected(*rejection),
            Reply::Row(row) => Self::Row(Arc::clone(row)),
            Reply::Rows(rows) => Self::Rows((*rows).clone()),
            other => other.unexpected(),
        }
    }
}

/// How the session writes a response.
pub(in crate::protocol::http) enum BodyKind {
    /// Nothing is written yet: submit the next command.
    Again,
    /// The whole body, with this status.
    Whole(u16),
    /// A part of a body with status 200. `more`: submit the next command.
    Page {
        more: bool,
    },
    /// A body with status 200 that may be long.
    Stream(Stream),
    Error(HttpError),
}

/// Writes a page of the response to a paged request into `text`, or the whole response.
pub(in crate::protocol::http) fn answer_page(
    request: &mut PagedRequest,
    reply: JobqReply,
    text: &mut Vec<u8>,
) -> BodyKind {
    match (reply, request) {
        (JobqReply::NotYet, _) => BodyKind::Again,
        (JobqReply::Queues { queues, next }, PagedRequest::Queues { from, listed, whole }) => {
            push_queues(&queues, *from == 0, *whole, listed, text);
            match next {
                Some(next) => *from = next,
                None => text.extend_from_slice(b"]}"),
            }
            BodyKind::Page { more: next.is_some() }
        }
        (JobqReply::Dropped { jobs, more }, PagedRequest::Drop { deleted, .. }) => {
            *deleted += u64::from(jobs);
            if more {
                return BodyKind::Again;
            }
            push_deleted(*deleted, text);
            BodyKind::Whole(200)
        }
        // Another client has removed the last jobs.
        (JobqReply::NoQueue, PagedRequest::Drop { deleted, .. }) if *deleted > 0 => {
            push_deleted(*deleted, text);
            BodyKind::Whole(200)
        }
        (JobqReply::NoJob, PagedRequest::Poll { .. }) => {
            BodyKind::Error(HttpError::new(404, "no job of the queue matches"))
        }
        (reply, _) => answer(JobId::NEVER, reply, text),
    }
}

/// Writes the response to a request that takes one command into `text`.
pub(in crate::protocol::http) fn answer(
    job: JobId,
    reply: JobqReply,
    text: &mut Vec<u8>,
) -> BodyKind {
    match reply {
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
        JobqReply::NoJob => BodyKind::Error(no_job(job)),
        JobqReply::Rejected(rejection) => BodyKind::Error(rejected(rejection)),
        page @ (JobqReply::NotYet | JobqReply::Queues { .. } | JobqReply::Dropped { .. }) => {
            unreachable!("{page:?} does not answer the request")
        }
    }
}

fn no_job(job: JobId) -> HttpError {
    match job {
        JobId::NEVER => HttpError::new(404, "there is no such job in this queue"),
        JobId(id) => HttpError::new(404, format!("there is no job {id} in this queue")),
    }
}

fn push_deleted(jobs: u64, text: &mut Vec<u8>) {
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

fn rejected(rejection: Rejection) -> HttpError {
    match rejection {
        Rejection::QueueExists => HttpError::new(409, "there is a queue of this name already"),
        Rejection::Full => HttpError::new(503, "the server has no place left for another job"),
        Rejection::DiskFull => HttpError::new(
            507,
            "the server's disk is full: no job can be put until jobs are deleted or space is made",
        ),
        Rejection::LogFull => HttpError::new(507, "the log of the job takes no more events"),
        other => Reply::Rejected(other).unexpected(),
    }
}
