//! What is made of the store's answers.

use super::stream::{Stream, push_job};
use super::{Operation, Problem, Question};
use crate::base::names::shown;
use crate::model::figures::Page;
use crate::model::id::JobId;
use crate::model::reply::{Refusal, Reply};
use crate::model::row::{Row, Rows};
use crate::model::watch::QueueSize;
use crate::wire::json::{push_number, push_string};
use std::borrow::Cow;
use std::sync::Arc;

/// A reply that can wait for its turn.
#[derive(Debug)]
pub(in crate::protocol::http) enum Outcome {
    BadQuery(String),
    Census(Page),
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
            Reply::Census(page) => Self::Census((*page).clone()),
            Reply::BadQuery(why) => Self::BadQuery((*why).to_owned()),
            Reply::Conflict(state) => Self::Conflict(Arc::clone(state)),
            Reply::Done => Self::Done,
            Reply::Dropped { jobs, more } => Self::Dropped { jobs: *jobs, more: *more },
            Reply::Found(rows) => Self::Found(Arc::clone(rows)),
            Reply::NoJob => Self::NoJob,
            Reply::NoQueue => Self::NoQueue,
            Reply::NotYet => Self::NotYet,
            Reply::Queue(name) => Self::Queue(name.to_vec()),
            Reply::Queues { queues, next } => Self::Queues { queues: queues.to_vec(), next: *next },
            Reply::Refused(refusal) => Self::Refused(*refusal),
            Reply::Row(row) => Self::Row(Arc::clone(row)),
            Reply::Rows(rows) => Self::Rows((*rows).clone()),
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
    let outcome = match (outcome, question) {
        (Outcome::NotYet, _) => return Part::Again,
        (Outcome::Queues { queues, next }, Some(Question::Queues { from, listed, whole })) => {
            push_queues(&queues, *from == 0, *whole, listed, text);
            if let Some(next) = next {
                *from = next;
            } else {
                text.extend_from_slice(b"]}");
            }
            return Part::Page { more: next.is_some() };
        }
        (Outcome::Dropped { jobs, more }, Some(Question::Drop { gone, .. })) => {
            *gone += u64::from(jobs);
            if more {
                return Part::Again;
            }
            push_gone(*gone, text);
            return Part::Whole(200);
        }
        // Somebody else has removed the rest of it.
        (Outcome::NoQueue, Some(Question::Drop { gone, .. })) if *gone > 0 => {
            push_gone(*gone, text);
            return Part::Whole(200);
        }
        (outcome, _) => outcome,
    };
    match outcome {
        Outcome::Rows(rows) => Part::Stream(Stream::brief(rows)),
        Outcome::Found(rows) => Part::Stream(Stream::full(rows)),
        Outcome::Row(row) => {
            push_job(&row, text);
            Part::Whole(200)
        }
        Outcome::Done => {
            text.extend_from_slice(b"{}");
            Part::Whole(200)
        }
        Outcome::Queue(name) => {
            text.extend_from_slice(b"{\"id\":");
            push_string(text, &name);
            text.push(b'}');
            Part::Whole(201)
        }
        Outcome::Conflict(state) => {
            text.extend_from_slice(b"{\"error\":\"the job has another state\",\"state\":");
            text.extend_from_slice(&state);
            text.push(b'}');
            Part::Whole(409)
        }
        Outcome::BadQuery(why) => Part::Error(Problem::new(400, why)),
        Outcome::NoQueue => Part::Error(Problem::new(404, "there is no such queue")),
        Outcome::NoJob => Part::Error(no_job(operation, job)),
        Outcome::Refused(refusal) => Part::Error(refused(refusal)),
        Outcome::Census(_) | Outcome::NotYet | Outcome::Queues { .. } | Outcome::Dropped { .. } => {
            unreachable!("these answer questions")
        }
    }
}

fn no_job(operation: Operation, job: JobId) -> Problem {
    if operation == Operation::Poll {
        return Problem::new(404, "no job of the queue matches");
    }
    match job {
        JobId::NEVER => Problem::new(404, "there is no such job in this queue"),
        JobId(id) => Problem::new(404, format!("there is no job {id} in this queue")),
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
        | Refusal::NotBuried(_)
        | Refusal::NameTaken(_)
        | Refusal::TooLate(_) => unreachable!("nobody asks for this here"),
    }
}
