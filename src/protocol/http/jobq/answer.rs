//! From replies to the bodies of responses.

use super::stream::{Stream, push_job};
use super::{HttpError, PagedRequest};
use crate::base::names::shown;
use crate::model::id::JobId;
use crate::model::indexed_queue::{IndexedPage, IndexedReply, QueueSize};
use crate::wire::json::{push_number, push_string};
use std::borrow::Cow;

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

/// Writes a page of the response to a paged request into `text`.
pub(in crate::protocol::http) fn answer_page(
    request: &mut PagedRequest,
    page: &IndexedPage,
    text: &mut Vec<u8>,
) -> BodyKind {
    match page {
        IndexedPage::NotYet => BodyKind::Again,
        IndexedPage::Queues { queues, next } => {
            push_queues(queues, request, text);
            match next {
                Some(next) => request.from = *next,
                None => text.extend_from_slice(b"]}"),
            }
            BodyKind::Page { more: next.is_some() }
        }
        IndexedPage::QueueDropped { jobs, more } => {
            request.deleted += u64::from(*jobs);
            if *more {
                return BodyKind::Again;
            }
            push_deleted(request.deleted, text);
            BodyKind::Whole(200)
        }
    }
}

/// Writes the response to a request that ends with this reply into `text`. `request`: it may have
/// taken several commands.
pub(in crate::protocol::http) fn answer(
    job: JobId,
    request: Option<&PagedRequest>,
    reply: IndexedReply,
    text: &mut Vec<u8>,
) -> BodyKind {
    let (status, why) = match reply {
        IndexedReply::Rows(rows) => return BodyKind::Stream(Stream::brief(rows)),
        IndexedReply::QueryRows(rows) => return BodyKind::Stream(Stream::full(rows)),
        IndexedReply::Row(row) => {
            push_job(&row, text);
            return BodyKind::Whole(200);
        }
        IndexedReply::Done => {
            text.extend_from_slice(b"{}");
            return BodyKind::Whole(200);
        }
        IndexedReply::Queue(name) => {
            text.extend_from_slice(b"{\"id\":");
            push_string(text, &name);
            text.push(b'}');
            return BodyKind::Whole(201);
        }
        IndexedReply::Conflict(state) => {
            text.extend_from_slice(b"{\"error\":\"the job has another state\",\"state\":");
            text.extend_from_slice(&state);
            text.push(b'}');
            return BodyKind::Whole(409);
        }
        IndexedReply::BadQuery(why) => {
            return BodyKind::Error(HttpError::new(400, String::from(why)));
        }
        IndexedReply::NoJob => return BodyKind::Error(no_job(job, request)),
        IndexedReply::NoQueue => match request {
            // Another client has removed the last jobs.
            Some(request) if request.deleted > 0 => {
                push_deleted(request.deleted, text);
                return BodyKind::Whole(200);
            }
            _ => (404, "there is no such queue"),
        },
        IndexedReply::QueueExists => (409, "there is a queue of this name already"),
        IndexedReply::Full => (503, "the server has no place left for another job"),
        IndexedReply::DiskFull => (
            507,
            "the server's disk is full, or with --engine its Redis: no job can be put until jobs \
             are deleted or space is made",
        ),
        IndexedReply::MemoryFull => (
            507,
            "the server's jobs take as much memory as it may use (--max-memory): no job can be put \
             until jobs are deleted",
        ),
        IndexedReply::Draining => {
            (503, "the server is being drained: it takes no new jobs until drain mode ends")
        }
        IndexedReply::LogFull => (507, "the log of the job takes no more events"),
    };
    BodyKind::Error(HttpError::new(status, why))
}

fn no_job(job: JobId, request: Option<&PagedRequest>) -> HttpError {
    match job {
        JobId::NEVER if request.is_some() => HttpError::new(404, "no job of the queue matches"),
        JobId::NEVER => HttpError::new(404, "there is no such job in this queue"),
        JobId(id) => HttpError::new(404, format!("there is no job {id} in this queue")),
    }
}

fn push_deleted(jobs: u64, text: &mut Vec<u8>) {
    text.extend_from_slice(b"{\"deleted\":");
    push_number(text, jobs);
    text.push(b'}');
}

fn push_queues(queues: &[QueueSize], request: &mut PagedRequest, text: &mut Vec<u8>) {
    if request.from == 0 {
        text.extend_from_slice(b"{\"queues\":[");
    }
    for QueueSize { name, jobs } in queues {
        if std::mem::replace(&mut request.listed, true) {
            text.push(b',');
        }
        let id = if request.whole_names { Cow::Borrowed(&**name) } else { shown(name) };
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
