//! The HTTP server of a worker: it accepts jobs, `POST /worker-job`.
//!
//! Each connection has a thread; there are at most `max_jobs` and [`EXTRA_CONNECTIONS_MAX`] of
//! them. A job starts after its acceptance has been sent, so that no report overtakes the
//! acceptance.

use super::WorkerContext;
use super::http_connection::{ConnectionError, HttpConnection};
use super::job::{Job, run_job};
use super::run::OUTPUT_MAX_BYTES;
use crate::cli::settings::listen_addr::explain_bind_error;
use crate::model::id::JobId;
use crate::protocol::http::lightjq::messages::{WorkerJob, job_id, write_error};
use crate::wire::http::{
    Expect, Framing, next_request, push_field, push_field_number, push_status_line,
};
use crate::wire::msgpack::to_json;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::Duration;
use tracing::{debug, warn};

/// Connections beyond one for each slot: a server keeps some idle, and may reconnect.
const EXTRA_CONNECTIONS_MAX: usize = 64;

/// Timeouts of the wait for the next request, and of a request or response.
const IDLE_TIMEOUT: Duration = Duration::from_mins(10);
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// The relevant fields of a request head.
struct RequestHead {
    method: String,
    target: String,
    framing: Option<Framing>,
    keep_alive: bool,
    expect: Expect,
    compressed: bool,
    /// A browser sent it for a web page.
    from_web_page: bool,
}

/// A response other than the acceptance: status and message.
struct Rejection(u16, String);

/// Accepts connections, and serves each in a thread. Does not return.
pub(super) fn accept_connections(listener: &TcpListener, context: &Arc<WorkerContext>) {
    let connections = Arc::new(AtomicUsize::new(0));
    let connections_max = context.settings.max_jobs.saturating_add(EXTRA_CONNECTIONS_MAX);
    loop {
        let stream = match listener.accept() {
            Ok((stream, _)) => stream,
            Err(error) => {
                warn!(%error, "cannot accept a connection");
                let _ = context.state.sleep_or_cancel(Duration::from_millis(100));
                continue;
            }
        };
        if connections.load(Ordering::Relaxed) >= connections_max {
            warn!(most = connections_max, "too many connections: one more is closed");
            continue;
        }
        let (context, count) = (Arc::clone(context), ConnectionCount::new(&connections));
        let spawned = thread::Builder::new().name("connection".to_owned()).spawn(move || {
            if let Err(error) = serve(HttpConnection::new(stream), &context) {
                debug!(broken = %error, "a connection of the server has ended");
            }
            drop(count);
        });
        if let Err(error) = spawned {
            warn!(%error, "no thread for a connection: it is closed");
        }
    }
}

/// Counts one connection until it is dropped.
struct ConnectionCount(Arc<AtomicUsize>);

impl ConnectionCount {
    fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(count))
    }
}

impl Drop for ConnectionCount {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Serves a connection to its end.
fn serve(
    mut connection: HttpConnection,
    context: &Arc<WorkerContext>,
) -> Result<(), ConnectionError> {
    loop {
        connection.set_timeout(IDLE_TIMEOUT);
        connection.wait_for_input()?;
        connection.set_timeout(REQUEST_TIMEOUT);
        let request = read(&mut connection);
        let (head, body) = match request {
            Ok(request) => request,
            Err(ConnectionError::Protocol(error)) => {
                let rejection = Rejection(error.status, error.why.to_owned());
                return Ok(connection.send(&rejection_response(&rejection, false))?);
            }
            Err(error) => return Err(error),
        };
        let accepted = accept(&head, &body, context);
        drop(body);
        // The wait for a slot does not count.
        connection.set_timeout(REQUEST_TIMEOUT);
        match accepted {
            Ok(start) => {
                connection.send(&response(202, head.keep_alive, &[]))?;
                // The thread of the job waits for this; it ends if `start` is dropped instead.
                let _ = start.send(());
            }
            Err(rejection) => {
                debug!(status = rejection.0, why = rejection.1, "a job is refused");
                connection.send(&rejection_response(&rejection, head.keep_alive))?;
            }
        }
        if !head.keep_alive {
            return Ok(());
        }
    }
}

fn read(connection: &mut HttpConnection) -> Result<(RequestHead, Vec<u8>), ConnectionError> {
    let head = connection.head(|input| {
        Ok(next_request(input)?.map(|head| RequestHead {
            method: head.method.to_owned(),
            target: head.target.to_owned(),
            framing: head.framing,
            keep_alive: head.keep_alive,
            expect: head.expect,
            compressed: head.coded,
            from_web_page: head.origin.is_some() || head.fetch_site.is_some(),
        }))
    })?;
    if head.expect == Expect::Continue {
        connection.send(b"HTTP/1.1 100 Continue\r\n\r\n")?;
    }
    let body = match head.framing {
        Some(framing) => connection.body(framing, OUTPUT_MAX_BYTES as u64)?,
        None => Vec::new(),
    };
    Ok((head, body))
}

/// Accepts a job. Its thread starts it when the sender is used, and ends when it is dropped.
fn accept(
    head: &RequestHead,
    body: &[u8],
    context: &Arc<WorkerContext>,
) -> Result<Sender<()>, Rejection> {
    if head.target != "/worker-job" && head.target != context.path {
        return Err(Rejection(404, format!("there is nothing at {}", head.target)));
    }
    if head.method != "POST" {
        return Err(Rejection(405, "only POST is possible".to_owned()));
    }
    if head.from_web_page {
        return Err(Rejection(403, "a web page has made a browser send this".to_owned()));
    }
    if head.compressed {
        return Err(Rejection(415, "the body is compressed".to_owned()));
    }
    let malformed = |why: &dyn std::fmt::Display| Rejection(400, why.to_string());
    let request = WorkerJob::read(body).map_err(|problem| malformed(&problem))?;
    let id = job_id(request.id.as_bytes());
    if id == JobId::NEVER {
        return Err(malformed(&"'id' is none that the server gives out"));
    }
    if request.name.contains('\0') {
        return Err(malformed(&"'name' holds a NUL, which no command can be told"));
    }
    let accepted_names = &context.settings.jobs;
    if !accepted_names.is_empty() && !accepted_names.iter().any(|name| name == request.name) {
        return Err(Rejection(404, format!("this worker takes no jobs {:?}", request.name)));
    }
    let mut input = Vec::new();
    to_json(request.argument.bytes, &mut input).map_err(|error| malformed(&error))?;
    let unavailable = |why: &str| Rejection(503, why.to_owned());
    let slot = context.state.take_slot().ok_or_else(|| unavailable("there is no free place"))?;
    let job = Job {
        id,
        name: request.name.to_owned(),
        timeout: request.timeout_ms.map(Duration::from_millis),
        input,
        worker: context.state.worker_id(),
        slot,
    };
    start_thread(job, context).map_err(|error| unavailable(&format!("no thread: {error}")))
}

fn start_thread(job: Job, context: &Arc<WorkerContext>) -> io::Result<Sender<()>> {
    let (start, started) = channel();
    let context = Arc::clone(context);
    thread::Builder::new().name("job".to_owned()).spawn(move || {
        if started.recv().is_ok() {
            run_job(&context, job);
        }
    })?;
    Ok(start)
}

fn response(status: u16, keep_alive: bool, body: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    push_status_line(&mut out, status);
    if !body.is_empty() {
        push_field(&mut out, "Content-Type", b"application/msgpack");
    }
    push_field_number(&mut out, "Content-Length", body.len() as u64);
    if !keep_alive {
        push_field(&mut out, "Connection", b"close");
    }
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(body);
    out
}

fn rejection_response(rejection: &Rejection, keep_alive: bool) -> Vec<u8> {
    let mut body = Vec::new();
    write_error(&rejection.1, &mut body);
    response(rejection.0, keep_alive, &body)
}

/// Binds the listener of `--listen`.
pub(super) fn listen(at: SocketAddr) -> Result<TcpListener, String> {
    TcpListener::bind(at).map_err(|error| explain_bind_error(&at.into(), "--listen", false, &error))
}
