//! The server's HTTP API as pushers and workers use it: each request by its own connection, in
//! JSON.

use crate::support::{Server, TIMEOUT};
use jobcentre::wire::msgpack::{from_json, to_json};
use serde_json::Value;
use std::fmt::Write as _;
use std::io::{self, ErrorKind, Read, Write as _};
use std::net::{SocketAddr, TcpStream};

/// Where it is asked.
pub(crate) fn protocol(server: &Server) -> SocketAddr {
    server.address_of("http")
}

/// Asks, as a worker if one is named: the answer's status, and what it says.
pub(crate) fn ask(
    protocol: SocketAddr,
    what: &str,
    worker: Option<u64>,
    body: &Value,
) -> (u16, Value) {
    try_ask(protocol, what, worker, body).unwrap()
}

/// The same of a server that may die.
pub(crate) fn try_ask(
    protocol: SocketAddr,
    what: &str,
    worker: Option<u64>,
    body: &Value,
) -> io::Result<(u16, Value)> {
    let mut packed = Vec::new();
    if !body.is_null() {
        from_json(body.to_string().as_bytes(), &mut packed).unwrap();
    }
    let mut head = format!("{what} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n");
    write!(head, "Content-Length: {}\r\n", packed.len()).unwrap();
    if let Some(worker) = worker {
        write!(head, "Worker-Id: {worker}\r\n").unwrap();
    }
    let mut stream = TcpStream::connect(protocol)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.write_all(&[head.as_bytes(), b"\r\n", &packed].concat())?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n");
    let end = end.ok_or(ErrorKind::UnexpectedEof)? + 4;
    let mut length = std::str::from_utf8(&answer[..end]).unwrap().lines();
    let length = length.find_map(|line| line.strip_prefix("Content-Length: "));
    if answer.len() < end + length.map_or(0, |length| length.parse().unwrap()) {
        return Err(ErrorKind::UnexpectedEof.into());
    }
    let status = std::str::from_utf8(&answer[9..12]).unwrap().parse().unwrap();
    let (mut text, body) = (Vec::new(), &answer[end..]);
    if body.is_empty() {
        return Ok((status, Value::Null));
    }
    to_json(body, &mut text).unwrap();
    Ok((status, serde_json::from_slice(&text).unwrap()))
}

fn id(answer: &(u16, Value), field: &str) -> u64 {
    assert_eq!(answer.0, 201, "{answer:?}");
    answer.1[field].as_str().unwrap().parse().unwrap()
}

/// Registers a worker.
pub(super) fn register(protocol: SocketAddr, worker: &Value) -> u64 {
    id(&ask(protocol, "POST /worker", None, worker), "worker_id")
}

/// Puts a job.
pub(super) fn push(protocol: SocketAddr, job: &Value) -> u64 {
    id(&ask(protocol, "POST /job", None, job), "job_id")
}

/// Tells what came of a job: the answer's status.
pub(super) fn report(protocol: SocketAddr, worker: u64, report: &Value) -> u16 {
    ask(protocol, "POST /done", Some(worker), report).0
}

/// How a job ends.
pub(super) fn end_of(protocol: SocketAddr, id: u64) -> Value {
    let (status, body) =
        ask(protocol, &format!("GET /job/{id}/polling?timeout=50"), None, &Value::Null);
    assert_eq!(status, 200, "{body}");
    body
}
