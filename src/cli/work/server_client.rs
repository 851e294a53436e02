//! The requests of the worker to the server, most of them on a new connection.

use super::http_connection::HttpConnection;
use crate::cli::client_token::ClientToken;
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

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(30);

/// The longest response body.
const RESPONSE_MAX_BYTES: u64 = 64 * 1024;

/// The start of every reply of the Job Centre protocol.
const JSON_LINE: &[u8] = b"{\"status\":";

const NOT_HTTP: &str = "this port is the server's for JSON lines (--listen); --url wants the one \
                        for HTTP (--http, 127.0.0.1:11480 unless set)";

const NO_RIGHT: &str = "give it the token of a user with the rights 'admin' and 'take' \
                        (--token-file, or the variable JOBCENTRE_TOKEN)";

/// Interim responses (100 to 199) that are skipped before a final one.
const INTERIM_RESPONSES_MAX: usize = 64;

/// Ids begin at 1.
const NO_JOB: JobId = JobId(0);

/// The server of the jobs.
#[derive(Debug)]
pub(super) struct ServerClient {
    url: Url,
    token: Option<ClientToken>,
}

/// A connection for several requests.
pub(super) struct KeepAlive(HttpConnection);

/// A request.
#[derive(Clone, Copy)]
struct Request<'a> {
    /// Method and path.
    method_and_path: (&'a str, &'a str),
    worker: Option<WorkerId>,
    body: Option<&'a [u8]>,
}

/// A response.
#[derive(Debug)]
pub(super) struct Response {
    pub(super) status: u16,
    body: Vec<u8>,
}

impl Response {
    /// Status and reason as text.
    pub(super) fn explain(&self) -> String {
        match read_error(&self.body) {
            Ok(error) => format!("{}: {error}", self.status),
            Err(_) => self.status.to_string(),
        }
    }
}

/// Why a registration failed.
pub(super) enum RegisterError {
    /// A retry may succeed.
    Transient(String),
    /// A retry cannot succeed.
    Permanent(String),
}

impl ServerClient {
    pub(super) fn new(url: Url, token: Option<ClientToken>) -> Self {
        Self { url, token }
    }

    /// Registers the worker: `POST /worker`. Also returns the connection, for
    /// [`Self::is_registered`].
    pub(super) fn register(
        &self,
        worker: &Worker<'_>,
    ) -> Result<(WorkerId, KeepAlive), RegisterError> {
        let mut body = Vec::new();
        write_worker(worker, &mut body);
        let mut connection = self.connection().map_err(RegisterError::Transient)?;
        let request =
            Request { method_and_path: ("POST", "/worker"), worker: None, body: Some(&body) };
        let response = self.exchange(&mut connection.0, request, true).map_err(|reason| {
            if connection.0.begins_with(JSON_LINE) {
                RegisterError::Permanent(format!("{}: {NOT_HTTP}", self.url.authority))
            } else {
                RegisterError::Transient(reason)
            }
        })?;
        match response.status {
            200..300 => match read_worker_accepted(&response.body) {
                Ok(id) => Ok((id, connection)),
                Err(error) => Err(RegisterError::Permanent(format!("it makes no sense: {error}"))),
            },
            401 | 403 => {
                Err(RegisterError::Permanent(format!("{}; {NO_RIGHT}", response.explain())))
            }
            400 | 404 | 405 => Err(RegisterError::Permanent(response.explain())),
            _ => Err(RegisterError::Transient(response.explain())),
        }
    }

    /// Deregisters the worker: `DELETE /worker`.
    pub(super) fn deregister(&self, worker: WorkerId) -> Result<Response, String> {
        self.call(Request {
            method_and_path: ("DELETE", "/worker"),
            worker: Some(worker),
            body: None,
        })
    }

    /// Whether the server has the worker in its registry. `None`: unknown; an error: the connection
    /// has ended.
    ///
    /// No request is for just that. But a report on a job that does not exist changes nothing, and
    /// its error names the wrong field: the job if the worker is registered, else the worker. It is
    /// sent on the connection of the registration: on another one may be a server that was
    /// restarted and has given the id to another worker.
    pub(super) fn is_registered(
        &self,
        connection: &mut KeepAlive,
        worker: WorkerId,
    ) -> Result<Option<bool>, String> {
        let nothing = Payload { encoding: Encoding::MsgPack, bytes: b"\xc0" };
        let outcome = Outcome::Success { result: nothing };
        let mut body = Vec::new();
        Done { job_id: NO_JOB, finished_at: None, outcome }.write(&mut body);
        let request =
            Request { method_and_path: ("POST", "/done"), worker: Some(worker), body: Some(&body) };
        let response = self.exchange(&mut connection.0, request, true)?;
        let error = read_error(&response.body).unwrap_or_default();
        Ok(match response.status {
            404 if error.contains("worker-id") => Some(false),
            404 if error.contains("job_id") => Some(true),
            _ => None,
        })
    }

    /// Reports the outcome of a job: `POST /done`.
    pub(super) fn report(&self, worker: WorkerId, body: &[u8]) -> Result<Response, String> {
        self.call(Request {
            method_and_path: ("POST", "/done"),
            worker: Some(worker),
            body: Some(body),
        })
    }

    /// Sends a request on a new connection.
    fn call(&self, request: Request<'_>) -> Result<Response, String> {
        self.exchange(&mut self.connection()?.0, request, false)
    }

    fn connection(&self) -> Result<KeepAlive, String> {
        let stream = self.connect();
        stream
            .map(|stream| KeepAlive(HttpConnection::new(stream)))
            .map_err(|error| self.with_address(&error))
    }

    fn with_address(&self, reason: &dyn fmt::Display) -> String {
        format!("{}: {reason}", self.url.authority)
    }

    fn exchange(
        &self,
        connection: &mut HttpConnection,
        request: Request<'_>,
        keep_alive: bool,
    ) -> Result<Response, String> {
        let Request { method_and_path: (method, path), worker, body } = request;
        let with_address = |reason: &dyn fmt::Display| self.with_address(reason);
        let mut message = Vec::with_capacity(256 + body.map_or(0, <[u8]>::len));
        push_request_line(&mut message, method, &format!("{}{path}", self.url.base));
        push_field(&mut message, "Host", self.url.authority.as_bytes());
        if let Some(token) = &self.token {
            push_field(&mut message, "Authorization", token.bearer().as_bytes());
        }
        if !keep_alive {
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
        connection.set_timeout(RESPONSE_TIMEOUT);
        // A server may respond before it has read the whole request, and read no more: its
        // response is read before an error of the write is returned.
        let sent = connection.send(&message);
        let mut interim = 0..INTERIM_RESPONSES_MAX;
        let head = loop {
            let head = connection.head(|input| {
                let head = next_response(input, false)?;
                Ok(head.map(|ResponseHead { status, framing, .. }| (status, framing)))
            });
            match (head, sent.as_ref()) {
                (Ok((100..200, _)), _) if interim.next().is_some() => {}
                (Ok((100..200, _)), _) => {
                    return Err(with_address(&"it sends interim answers (1xx) and no final one"));
                }
                (Ok(head), _) => break head,
                (Err(_), Err(error)) => return Err(with_address(error)),
                (Err(error), Ok(())) => return Err(with_address(&error)),
            }
        };
        let (status, framing) = head;
        let body =
            connection.body(framing, RESPONSE_MAX_BYTES).map_err(|error| with_address(&error))?;
        Ok(Response { status, body })
    }

    fn connect(&self) -> io::Result<TcpStream> {
        let mut last = io::Error::new(ErrorKind::NotFound, "there is no address for this name");
        for address in (&*self.url.host, self.url.port).to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, CONNECT_TIMEOUT) {
                Ok(stream) => return Ok(stream),
                Err(error) => last = error,
            }
        }
        Err(last)
    }
}
