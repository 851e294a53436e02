//! What the master asks of a worker: `POST /worker-job`.
//!
//! Each connection has a thread, and there are not more than [`MORE_CONNECTIONS`] beyond the
//! places. A job begins when its acceptance has been sent: no report can overtake that.

use super::WorkerContext;
use super::http_connection::{ConnectionError, HttpConnection};
use super::job::{Job, work};
use super::run::OUTPUT_MAX;
use crate::cli::address::cannot_listen;
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

/// Connections beyond one for each place: a master pools some, and may come anew.
const MORE_CONNECTIONS: usize = 64;

/// How long a connection may wait for its next request, and a request or an answer take.
const IDLE_PATIENCE: Duration = Duration::from_mins(10);
const REQUEST_PATIENCE: Duration = Duration::from_secs(30);

/// What of a head matters here.
struct Head {
    method: String,
    target: String,
    framing: Option<Framing>,
    keep_alive: bool,
    expect: Expect,
    coded: bool,
    /// A browser sends it, for a web page.
    of_page: bool,
}

/// An answer that is no acceptance.
struct Refusal(u16, String);

/// Accepts connections for ever.
pub(super) fn open(listener: &TcpListener, shop: &Arc<WorkerContext>) {
    let connections = Arc::new(AtomicUsize::new(0));
    let most = shop.plan.max_jobs.saturating_add(MORE_CONNECTIONS);
    loop {
        let stream = match listener.accept() {
            Ok((stream, _)) => stream,
            Err(error) => {
                warn!(%error, "cannot accept a connection");
                let _ = shop.desk.sleep_or_end(Duration::from_millis(100));
                continue;
            }
        };
        if connections.load(Ordering::Relaxed) >= most {
            warn!(most, "too many connections: one more is closed");
            continue;
        }
        let (shop, count) = (Arc::clone(shop), Counted::new(&connections));
        let spawned = thread::Builder::new().name("connection".to_owned()).spawn(move || {
            if let Err(broken) = serve(HttpConnection::new(stream), &shop) {
                debug!(%broken, "a connection of the master has ended");
            }
            drop(count);
        });
        if let Err(error) = spawned {
            warn!(%error, "no thread for a connection: it is closed");
        }
    }
}

/// One of so many, until it is dropped.
struct Counted(Arc<AtomicUsize>);

impl Counted {
    fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(count))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Serves a connection to its end.
fn serve(mut line: HttpConnection, shop: &Arc<WorkerContext>) -> Result<(), ConnectionError> {
    loop {
        line.within(IDLE_PATIENCE);
        line.begin()?;
        line.within(REQUEST_PATIENCE);
        let request = read(&mut line);
        let (head, body) = match request {
            Ok(request) => request,
            Err(ConnectionError::Protocol(fault)) => {
                let refusal = Refusal(fault.status, fault.why.to_owned());
                return Ok(line.send(&refuse(&refusal, false))?);
            }
            Err(lost) => return Err(lost),
        };
        let accepted = accept(&head, &body, shop);
        drop(body);
        // Waiting for a place was not the connection's fault.
        line.within(REQUEST_PATIENCE);
        match accepted {
            Ok(go) => {
                line.send(&answer(202, head.keep_alive, &[]))?;
                // Its thread waits for this, or for `go` being dropped.
                let _ = go.send(());
            }
            Err(refusal) => {
                debug!(status = refusal.0, why = refusal.1, "a job is refused");
                line.send(&refuse(&refusal, head.keep_alive))?;
            }
        }
        if !head.keep_alive {
            return Ok(());
        }
    }
}

fn read(line: &mut HttpConnection) -> Result<(Head, Vec<u8>), ConnectionError> {
    let head = line.head(|input| {
        Ok(next_request(input)?.map(|head| Head {
            method: head.method.to_owned(),
            target: head.target.to_owned(),
            framing: head.framing,
            keep_alive: head.keep_alive,
            expect: head.expect,
            coded: head.coded,
            of_page: head.origin.is_some() || head.fetch_site.is_some(),
        }))
    })?;
    if head.expect == Expect::Continue {
        line.send(b"HTTP/1.1 100 Continue\r\n\r\n")?;
    }
    let body = match head.framing {
        Some(framing) => line.body(framing, OUTPUT_MAX as u64)?,
        None => Vec::new(),
    };
    Ok((head, body))
}

/// Takes a job, whose thread waits for a word to begin; without it, it ends.
fn accept(head: &Head, body: &[u8], shop: &Arc<WorkerContext>) -> Result<Sender<()>, Refusal> {
    if head.target != "/worker-job" && head.target != shop.path {
        return Err(Refusal(404, format!("there is nothing at {}", head.target)));
    }
    if head.method != "POST" {
        return Err(Refusal(405, "only POST is possible".to_owned()));
    }
    if head.of_page {
        return Err(Refusal(403, "a web page has made a browser send this".to_owned()));
    }
    if head.coded {
        return Err(Refusal(415, "the body is compressed".to_owned()));
    }
    let bad = |why: &dyn std::fmt::Display| Refusal(400, why.to_string());
    let asked = WorkerJob::read(body).map_err(|problem| bad(&problem))?;
    let id = job_id(asked.id.as_bytes());
    if id == JobId::NEVER {
        return Err(bad(&"'id' is none that the master gives out"));
    }
    if asked.name.contains('\0') {
        return Err(bad(&"'name' holds a NUL, which no command can be told"));
    }
    let wanted = &shop.plan.jobs;
    if !wanted.is_empty() && !wanted.iter().any(|name| name == asked.name) {
        return Err(Refusal(404, format!("this worker takes no jobs {:?}", asked.name)));
    }
    let mut input = Vec::new();
    to_json(asked.argument.bytes, &mut input).map_err(|error| bad(&error))?;
    let busy = |why: &str| Refusal(503, why.to_owned());
    let place = shop.desk.take_place().ok_or_else(|| busy("there is no free place"))?;
    let job = Job {
        id,
        name: asked.name.to_owned(),
        timeout: asked.timeout_ms.map(Duration::from_millis),
        input,
        worker: shop.desk.known_as(),
        place,
    };
    begin(job, shop).map_err(|error| busy(&format!("no thread: {error}")))
}

fn begin(job: Job, shop: &Arc<WorkerContext>) -> io::Result<Sender<()>> {
    let (go, gone) = channel();
    let shop = Arc::clone(shop);
    thread::Builder::new().name("job".to_owned()).spawn(move || {
        if gone.recv().is_ok() {
            work(&shop, job);
        }
    })?;
    Ok(go)
}

fn answer(status: u16, keep_alive: bool, body: &[u8]) -> Vec<u8> {
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

fn refuse(refusal: &Refusal, keep_alive: bool) -> Vec<u8> {
    let mut body = Vec::new();
    write_error(&refusal.1, &mut body);
    answer(refusal.0, keep_alive, &body)
}

/// Where the master's calls are awaited.
pub(super) fn listen(at: SocketAddr) -> Result<TcpListener, String> {
    TcpListener::bind(at).map_err(|error| cannot_listen(at, "--listen", false, &error))
}
