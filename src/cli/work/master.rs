//! What the worker asks of its master, each call on a connection of its own.

use super::line::Line;
use crate::model::id::JobId;
use crate::model::job::{Encoding, Payload};
use crate::model::work::{Worker, WorkerId};
use crate::protocol::http::lightjq::messages::{
    Done, Outcome, read_error, read_worker_accepted, write_worker,
};
use crate::wire::http::{
    ResponseHead, next_response, push_field, push_field_number, push_request_line,
};
use crate::wire::url::Url;
use std::io::{self, ErrorKind};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

const CONNECT_PATIENCE: Duration = Duration::from_secs(5);
const ANSWER_PATIENCE: Duration = Duration::from_secs(30);

/// The longest answer that is read: there is no reason for a long one.
const ANSWER_MAX: u64 = 64 * 1024;

/// Ids begin at 1.
const NO_JOB: JobId = JobId(0);

/// The server that hands out the jobs.
#[derive(Debug)]
pub(super) struct Master {
    url: Url,
}

/// What it answered.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    body: Vec<u8>,
}

impl Answer {
    /// Status and reason, for people.
    pub(super) fn explain(&self) -> String {
        match read_error(&self.body) {
            Ok(error) => format!("{}: {error}", self.status),
            Err(_) => self.status.to_string(),
        }
    }
}

/// Why there is no registration.
pub(super) enum NotRegistered {
    /// It may be different later.
    Yet(String),
    /// It makes no sense to try again.
    Ever(String),
}

impl Master {
    pub(super) fn new(url: Url) -> Self {
        Self { url }
    }

    /// Introduces the worker: `POST /worker`.
    pub(super) fn register(&self, worker: &Worker<'_>) -> Result<WorkerId, NotRegistered> {
        let mut body = Vec::new();
        write_worker(worker, &mut body);
        let answer = self.call("POST", "/worker", None, Some(&body)).map_err(NotRegistered::Yet)?;
        match answer.status {
            200..300 => read_worker_accepted(&answer.body)
                .map_err(|problem| NotRegistered::Ever(format!("it makes no sense: {problem}"))),
            400 | 404 | 405 => Err(NotRegistered::Ever(answer.explain())),
            _ => Err(NotRegistered::Yet(answer.explain())),
        }
    }

    /// Takes the worker's leave: `DELETE /worker`.
    pub(super) fn leave(&self, worker: WorkerId) -> Result<Answer, String> {
        self.call("DELETE", "/worker", Some(worker), None)
    }

    /// Asks whether it knows the worker. `None` if it cannot tell.
    ///
    /// There is no request for just that. But a report on a job that was never given out changes
    /// nothing, and the error that answers it names the field at fault: the job if the worker is
    /// known, else the worker.
    pub(super) fn knows(&self, worker: WorkerId) -> Result<Option<bool>, String> {
        let nothing = Payload { encoding: Encoding::MsgPack, bytes: b"\xc0" };
        let outcome = Outcome::Success { result: nothing };
        let mut body = Vec::new();
        Done { job_id: NO_JOB, finished_at: None, outcome }.write(&mut body);
        let answer = self.report(worker, &body)?;
        let error = read_error(&answer.body).unwrap_or_default();
        Ok(match answer.status {
            404 if error.contains("worker-id") => Some(false),
            404 if error.contains("job_id") => Some(true),
            _ => None,
        })
    }

    /// Tells what came of a job: `POST /done`.
    pub(super) fn report(&self, worker: WorkerId, body: &[u8]) -> Result<Answer, String> {
        self.call("POST", "/done", Some(worker), Some(body))
    }

    fn call(
        &self,
        method: &str,
        path: &str,
        worker: Option<WorkerId>,
        body: Option<&[u8]>,
    ) -> Result<Answer, String> {
        let at = |why: &dyn std::fmt::Display| format!("{}: {why}", self.url.authority);
        let mut message = Vec::with_capacity(256 + body.map_or(0, <[u8]>::len));
        push_request_line(&mut message, method, &format!("{}{path}", self.url.base));
        push_field(&mut message, "Host", self.url.authority.as_bytes());
        push_field(&mut message, "Connection", b"close");
        if let Some(worker) = worker {
            push_field_number(&mut message, "worker-id", worker.0);
        }
        if let Some(body) = body {
            push_field(&mut message, "Content-Type", b"application/msgpack");
            push_field_number(&mut message, "Content-Length", body.len() as u64);
        }
        message.extend_from_slice(b"\r\n");
        message.extend_from_slice(body.unwrap_or_default());
        let mut line = Line::new(self.connect().map_err(|error| at(&error))?);
        line.within(ANSWER_PATIENCE);
        // A server may answer before it has read all, and then read no more: hear it first.
        let sent = line.send(&message);
        let head = loop {
            let head = line.head(|input| {
                let head = next_response(input, false)?;
                Ok(head.map(|ResponseHead { status, framing, .. }| (status, framing)))
            });
            match (head, sent.as_ref()) {
                (Ok((100..200, _)), _) => {}
                (Ok(head), _) => break head,
                (Err(_), Err(error)) => return Err(at(error)),
                (Err(broken), Ok(())) => return Err(at(&broken)),
            }
        };
        let (status, framing) = head;
        let body = line.body(framing, ANSWER_MAX).map_err(|broken| at(&broken))?;
        Ok(Answer { status, body })
    }

    fn connect(&self) -> io::Result<TcpStream> {
        let mut last = io::Error::new(ErrorKind::NotFound, "there is no address for this name");
        for address in (&*self.url.host, self.url.port).to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, CONNECT_PATIENCE) {
                Ok(stream) => return Ok(stream),
                Err(error) => last = error,
            }
        }
        Err(last)
    }
}
