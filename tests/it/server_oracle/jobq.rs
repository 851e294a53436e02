//! Jobq: what its questions ask of the oracle, and how the oracle's answers are written.

use super::types::{Body, Page, QUEUES, Question, Queue, Reply, STATES, Want};
use crate::oracle::types::{Answer, Load, Replies};
use crate::oracle::{Job, Oracle, wire};
use jobcentre::model::event::{Event, EventKind};
use jobcentre::model::id::{ClientId, JobId, Ticket};
use jobcentre::model::row::Row;
use serde_json::Value as Json;

fn state(number: usize) -> &'static [u8] {
    STATES[number].shown.as_bytes()
}

impl Want {
    fn fits(self, job: &Job) -> bool {
        let has = |n: usize| {
            let payload = serde_json::from_slice::<Json>(job.load.text.bytes());
            payload.is_ok_and(|payload| payload["n"] == n)
        };
        self.state.is_none_or(|wanted| job.state() == Some(state(wanted))) && self.n.is_none_or(has)
    }
}

/// Has the oracle answer a question. One that has to be looked at elsewhere is answered later: go
/// on with [`begin_search`]. What others are told is returned too.
pub(crate) fn ask(oracle: &mut Oracle, client: ClientId, question: &Question) -> (Reply, Replies) {
    if let Question::Wrong(status, allow) = *question {
        let body = if status == 204 { Body::None } else { Body::Error(None) };
        let page = Page { allow, ..Page::new(status, body) };
        return (Reply::Page(page), Replies::new());
    }
    let ticket = Ticket { client, serial: 0 };
    let mut said = oracle.submit(|oracle| match *question {
        Question::Queues => oracle.queues(ticket),
        Question::Declare(queue) => oracle.create_queue(ticket, queue),
        Question::Drop(queue) => oracle.drop_queue(ticket, queue),
        Question::List(queue) => oracle.list(ticket, queue),
        Question::Find { queue, want: Want { n: Some(_), .. }, .. }
        | Question::Poll { queue, want: Want { n: Some(_), .. }, .. } => {
            oracle.index_all(ticket, queue);
        }
        Question::Find { queue, want, limit } => {
            let limit = limit.map(|limit| limit as u64);
            oracle.find_rows(ticket, queue, &|job| want.fits(job), limit);
        }
        Question::Poll { queue, want, new } => {
            oracle.poll(ticket, queue, &|job| want.fits(job), state(new));
        }
        Question::Post { queue, ref payload, state: first } => {
            oracle.put_row(ticket, queue, Load::json(payload), state(first));
        }
        Question::Show(queue, id) => oracle.show(ticket, queue, JobId(id)),
        Question::Delete(queue, id) => oracle.delete_row(ticket, queue, JobId(id)),
        Question::Advance { queue, id, old, new } => {
            oracle.compare_and_set_state(ticket, (queue, JobId(id)), state(old), state(new));
        }
        Question::Note { queue, id, event } => {
            oracle.append_event(ticket, queue, JobId(id), event.as_bytes());
        }
        Question::Wrong(..) => unreachable!("answered already"),
    });
    if said.is_empty() {
        return (Reply::Later, said);
    }
    let (_, answer) = said.remove(0);
    (Reply::Page(page(&answer)), said)
}

/// What is there at this moment of what a search is for; `None` if there is no such queue.
pub(crate) fn begin_search(
    oracle: &mut Oracle,
    client: ClientId,
    question: &Question,
) -> Option<Vec<Row>> {
    let (Question::Find { queue, want, .. } | Question::Poll { queue, want, .. }) = *question
    else {
        panic!("nothing to search for: {question:?}")
    };
    let (mut found, ticket) = (None, Ticket { client, serial: 0 });
    oracle.run(|oracle| found = oracle.search(ticket, queue, &|job| want.fits(job)));
    found
}

/// What is made of what was found; `None` if all that a poll could have has changed since.
pub(crate) fn end_search(
    oracle: &mut Oracle,
    client: ClientId,
    question: &Question,
    found: &[Row],
) -> Option<Page> {
    oracle.see("a search");
    match *question {
        Question::Poll { new, .. } => {
            let ticket = Ticket { client, serial: 0 };
            let said = oracle.submit(|oracle| {
                oracle.poll_found(ticket, found, state(new));
            });
            said.first().map(|(_, answer)| page(answer))
        }
        Question::Find { limit, .. } => {
            Some(jobs(&found[..limit.unwrap_or(found.len()).min(found.len())]))
        }
        _ => panic!("nothing to search for: {question:?}"),
    }
}

fn page(said: &Answer) -> Page {
    match said {
        Answer::NoQueue | Answer::NoJob => Page::error(404),
        Answer::QueueExists => Page::error(409),
        Answer::Conflict(state) => Page::new(409, Body::Error(Some(text(state.bytes())))),
        Answer::Queue(queue) => {
            Page::new(201, Body::Json(format!("{{\"id\":{}}}", QUEUES[*queue].shown)))
        }
        Answer::Done => Page::json("{}".to_owned()),
        Answer::Dropped(count) => Page::json(format!("{{\"deleted\":{count}}}")),
        Answer::Row(row) => Page::json(job(row)),
        Answer::Found(rows) => jobs(rows),
        Answer::Rows(rows) => {
            let job = |row: &Row| format!("{{\"id\":{},\"state\":{}}}", row.id.0, text(&row.state));
            Page::jobs(&rows.iter().map(job).collect::<Vec<_>>())
        }
        Answer::Queues(sizes) => queues(sizes),
        other => panic!("no question is answered by {other:?}"),
    }
}

fn text(json: &[u8]) -> String {
    String::from_utf8(json.to_vec()).unwrap()
}

/// All queues, sorted as they are named.
fn queues(sizes: &[(Queue, u32)]) -> Page {
    let mut sizes = sizes.to_vec();
    sizes.sort_by_key(|&(queue, _)| QUEUES[queue].bytes);
    let row =
        |(queue, jobs): (Queue, u32)| format!("{{\"id\":{},\"jobs\":{jobs}}}", QUEUES[queue].shown);
    let rows: Vec<String> = sizes.into_iter().map(row).collect();
    Page::json(format!("{{\"queues\":[{}]}}", rows.join(",")))
}

fn jobs(rows: &[Row]) -> Page {
    Page::jobs(&rows.iter().map(job).collect::<Vec<_>>())
}

/// Everything about a job.
fn job(row: &Row) -> String {
    let events: Vec<String> = row.events.oldest_first().into_iter().map(event).collect();
    format!(
        "{{\"id\":{},\"payload\":{},\"events\":[{}],\"state\":{},\"modified\":{}}}",
        row.id.0,
        wire::json(row.encoding, &row.payload),
        events.join(","),
        text(&row.state),
        row.modified
    )
}

fn event(event: &Event) -> String {
    let (tag, details) = match &event.kind {
        EventKind::Created => ("job_created", String::new()),
        EventKind::Reserved { by } => ("job_taken", format!("\"by\":{},", by.unwrap().index)),
        EventKind::Aborted => ("job_aborted", String::new()),
        EventKind::Abandoned => ("job_abandoned", String::new()),
        EventKind::Advanced { old, new } => {
            let [old, new] = [old, new].map(|state| text(state));
            ("job_state_advanced", format!("\"old\":{old},\"new\":{new},"))
        }
        EventKind::User(event) => ("user_event", format!("\"event\":{},", text(event))),
        EventKind::Expired | EventKind::Buried | EventKind::Kicked | EventKind::Due => {
            (event.kind.tag(), String::new())
        }
        other => panic!("that does not happen here: {other:?}"),
    };
    format!("[\"{tag}\",{{{details}\"timestamp\":\"{}\"}}]", event.at)
}
