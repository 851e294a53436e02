//! What the worker asks of its master: most on a connection of its own.

use super::http_connection::HttpConnection;
use crate::model::id::JobId;
use crate::model::job::{Encoding, Payload};
use crate::model::worker::{Worker, WorkerId};
use crate::protocol::http::lightjq::messages::{
    Done, Outcome, read_error, read_worker_accepted, write_worker,
};
use crate::wire::http::{
    ResponseHead, next_response, push_field, push_field_number, push_request_line,
};
use crate::wire::url::Url;
use std::fmt;
use std::io::{self, ErrorKind};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

const CONNECT_PATIENCE: Duration = Duration::from_secs(5);
const ANSWER_PATIENCE: Duration = Duration::from_secs(30);

/// The longest answer that is read: there is no reason for a long one.
const ANSWER_MAX: u64 = 64 * 1024;

/// How every answer of the server begins where it speaks no HTTP but lines.
const JSON_LINE: &[u8] = b"{\"status\":";

const NOT_HTTP: &str = "this port is the server's for JSON lines (--listen); --url wants the one \
                        for HTTP (--http, 127.0.0.1:11480 unless set)";

/// Interim answers (100 to 199) that are passed over before an answer.
const INTERIM_MAX: usize = 64;

/// Ids begin at 1.
const NO_JOB: JobId = JobId(0);

/// The server that hands out the jobs.
#[derive(Debug)]
pub(super) struct ServerClient {
    url: Url,
}

/// A connection that goes on.
pub(super) struct KeepAlive(HttpConnection);

/// What it is asked.
#[derive(Clone, Copy)]
struct Asked<'a> {
    /// Method and path.
    what: (&'a str, &'a str),
    worker: Option<WorkerId>,
    body: Option<&'a [u8]>,
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
pub(super) enum RegisterError {
    /// It may be different later.
    Transient(String),
    /// It makes no sense to try again.
    Permanent(String),
}

impl ServerClient {
    pub(super) fn new(url: Url) -> Self {
        Self { url }
    }

    /// Introduces the worker: `POST /worker`. Comes with the connection by which that was done.
    pub(super) fn register(
        &self,
        worker: &Worker<'_>,
    ) -> Result<(WorkerId, KeepAlive), RegisterError> {
        let mut body = Vec::new();
        write_worker(worker, &mut body);
        let mut tie = self.tie().map_err(RegisterError::Transient)?;
        let asked = Asked { what: ("POST", "/worker"), worker: None, body: Some(&body) };
        let answer = self.exchange(&mut tie.0, asked, true).map_err(|why| {
            if tie.0.begins_with(JSON_LINE) {
                RegisterError::Permanent(format!("{}: {NOT_HTTP}", self.url.authority))
            } else {
                RegisterError::Transient(why)
            }
        })?;
        match answer.status {
            200..300 => match read_worker_accepted(&answer.body) {
                Ok(id) => Ok((id, tie)),
                Err(problem) => {
                    Err(RegisterError::Permanent(format!("it makes no sense: {problem}")))
                }
            },
            400 | 404 | 405 => Err(RegisterError::Permanent(answer.explain())),
            _ => Err(RegisterError::Transient(answer.explain())),
        }
    }

    /// Takes the worker's leave: `DELETE /worker`.
    pub(super) fn leave(&self, worker: WorkerId) -> Result<Answer, String> {
        self.call(Asked { what: ("DELETE", "/worker"), worker: Some(worker), body: None })
    }

    /// Asks whether it knows the worker. `None` if it cannot tell; an error if the connection has
    /// ended.
    ///
    /// There is no request for just that. But a report on a job that was never given out changes
    /// nothing, and the error that answers it names the field at fault: the job if the worker is
    /// known, else the worker. It is asked by the connection of the registration: behind another
    /// one may be a master that was begun anew and has given the number to another worker.
    pub(super) fn knows(
        &self,
        tie: &mut KeepAlive,
        worker: WorkerId,
    ) -> Result<Option<bool>, String> {
        let nothing = Payload { encoding: Encoding::MsgPack, bytes: b"\xc0" };
        let outcome = Outcome::Success { result: nothing };
        let mut body = Vec::new();
        Done { job_id: NO_JOB, finished_at: None, outcome }.write(&mut body);
        let asked = Asked { what: ("POST", "/done"), worker: Some(worker), body: Some(&body) };
        let answer = self.exchange(&mut tie.0, asked, true)?;
        let error = read_error(&answer.body).unwrap_or_default();
        Ok(match answer.status {
            404 if error.contains("worker-id") => Some(false),
            404 if error.contains("job_id") => Some(true),
            _ => None,
        })
    }

    /// Tells what came of a job: `POST /done`.
    pub(super) fn report(&self, worker: WorkerId, body: &[u8]) -> Result<Answer, String> {
        self.call(Asked { what: ("POST", "/done"), worker: Some(worker), body: Some(body) })
    }

    /// By a connection of its own.
    fn call(&self, asked: Asked<'_>) -> Result<Answer, String> {
        self.exchange(&mut self.tie()?.0, asked, false)
    }

    fn tie(&self) -> Result<KeepAlive, String> {
        let stream = self.connect();
        stream.map(|stream| KeepAlive(HttpConnection::new(stream))).map_err(|error| self.at(&error))
    }

    fn at(&self, why: &dyn fmt::Display) -> String {
        format!("{}: {why}", self.url.authority)
    }

    fn exchange(
        &self,
        line: &mut HttpConnection,
        asked: Asked<'_>,
        goes_on: bool,
    ) -> Result<Answer, String> {
        let Asked { what: (method, path), worker, body } = asked;
        let at = |why: &dyn fmt::Display| self.at(why);
        let mut message = Vec::with_capacity(256 + body.map_or(0, <[u8]>::len));
        push_request_line(&mut message, method, &format!("{}{path}", self.url.base));
        push_field(&mut message, "Host", self.url.authority.as_bytes());
        if !goes_on {
            push_field(&mut message, "Connection", b"close");
        }
        if let Some(worker) = worker {
            push_field_number(&mut message, "worker-id", worker.0);
        }
        if let Some(body) = body {
            push_field(&mut message, "Content-Type", b"application/msgpack");
            push_field_number(&mut message, "Content-Length", body.len() as u64);
        }
        message.extend_from_slice(b"\r\n");
        message.extend_from_slice(body.unwrap_or_default());
        line.within(ANSWER_PATIENCE);
        // A server may answer before it has read all, and then read no more: hear it first.
        let sent = line.send(&message);
        let mut interim = 0..INTERIM_MAX;
        let head = loop {
            let head = line.head(|input| {
                let head = next_response(input, false)?;
                Ok(head.map(|ResponseHead { status, framing, .. }| (status, framing)))
            });
            match (head, sent.as_ref()) {
                (Ok((100..200, _)), _) if interim.next().is_some() => {}
                (Ok((100..200, _)), _) => {
                    return Err(at(&"it sends interim answers (1xx) and no final one"));
                }
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
