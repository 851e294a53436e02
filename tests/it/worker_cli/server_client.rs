//! A server that answers as the test says, and a worker as its child process.

use crate::support::{Program, Server, TIMEOUT, plain_command};
use jobcentre::base::buf::Input;
use jobcentre::model::id::JobId;
use jobcentre::model::job::{Encoding, Payload};
use jobcentre::model::worker::WorkerId;
use jobcentre::protocol::http::lightjq::messages::{
    Done, Outcome, WorkerJob, read_error, write_error, write_worker_accepted,
};
use jobcentre::wire::http::{Body, Framing, Piece, next_request, next_response};
use jobcentre::wire::msgpack::{from_json, to_json};
use serde_json::Value;
use std::collections::VecDeque;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;

/// A request that the server got.
#[derive(Debug)]
pub(super) struct Received {
    /// Method and target.
    pub(super) what: String,
    /// The value of the header `worker-id`.
    pub(super) worker: Option<u64>,
    pub(super) body: Vec<u8>,
}

/// What came of a job.
#[derive(Debug)]
pub(super) struct Report {
    pub(super) job: u64,
    /// The result, or the error, as JSON.
    pub(super) value: Value,
    /// Reason, `should_retry` and message of a failure.
    pub(super) failure: Option<(String, bool, String)>,
}

/// Statuses to be answered to the next requests of a kind, instead of the usual one, and why.
type Script = Arc<Mutex<VecDeque<(&'static str, u16, &'static str)>>>;

type Ties = Arc<Mutex<Vec<TcpStream>>>;

/// A listener that plays the server.
pub(super) struct FakeServer {
    pub(super) address: SocketAddr,
    received: Receiver<Received>,
    script: Script,
    /// By which workers have registered.
    ties: Ties,
}

impl FakeServer {
    pub(super) fn start() -> Self {
        Self::on(TcpListener::bind("127.0.0.1:0").unwrap())
    }

    /// Workers get the numbers 1, 2, ..., and everything is taken.
    pub(super) fn on(listener: TcpListener) -> Self {
        let address = listener.local_addr().unwrap();
        let (tell, received) = channel();
        let script = Script::default();
        let ties = Ties::default();
        let (scripted, kept) = (Arc::clone(&script), Arc::clone(&ties));
        thread::spawn(move || {
            let workers = Arc::new(AtomicU64::new(0));
            for stream in listener.incoming() {
                let stream = stream.unwrap();
                let (tell, scripted) = (tell.clone(), Arc::clone(&scripted));
                let (workers, kept) = (Arc::clone(&workers), Arc::clone(&kept));
                thread::spawn(move || serve(stream, &tell, &scripted, &workers, &kept));
            }
        });
        Self { address, received, script, ties }
    }

    /// The connections by which workers have registered end.
    pub(super) fn hang_up(&self) {
        for stream in self.ties.lock().unwrap().drain(..) {
            // It may have ended by itself.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// The next request of this kind is answered so.
    pub(super) fn answer(&self, what: &'static str, status: u16) {
        self.explain(what, status, "because");
    }

    /// The same with such a reason.
    pub(super) fn explain(&self, what: &'static str, status: u16, why: &'static str) {
        self.script.lock().unwrap().push_back((what, status, why));
    }

    /// The next request, which has to be of this kind.
    pub(super) fn receive(&self, what: &str) -> Received {
        let received = self.received.recv_timeout(TIMEOUT).unwrap();
        assert_eq!(received.what, what);
        received
    }

    pub(super) fn report(&self) -> Report {
        let received = self.receive("POST /done");
        let done = Done::read(&received.body).unwrap();
        assert!(done.finished_at.is_some());
        assert!(received.worker.is_some());
        let json = |payload: Payload<'_>| {
            let mut text = Vec::new();
            to_json(payload.bytes, &mut text).unwrap();
            serde_json::from_slice(&text).unwrap()
        };
        let job = done.job_id.0;
        match done.outcome {
            Outcome::Success { result } => Report { job, value: json(result), failure: None },
            Outcome::Failure { reason, should_retry, error, message } => {
                let failure = Some((format!("{reason:?}"), should_retry, message.to_owned()));
                Report { job, value: json(error), failure }
            }
        }
    }

    pub(super) fn is_silent(&self) -> bool {
        self.received.try_recv().is_err()
    }

    /// A worker with these flags that runs a line of shell.
    pub(super) fn worker(&self, flags: &[&str], line: &str) -> Worker {
        Worker::start(self.address, flags, &["sh", "-c", line])
    }
}

fn serve(
    mut stream: TcpStream,
    tell: &Sender<Received>,
    script: &Script,
    workers: &AtomicU64,
    ties: &Ties,
) {
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    while let Some(received) = read_request(&mut stream) {
        let mut script = script.lock().unwrap();
        let next = script.iter().position(|(what, ..)| *what == received.what);
        let scripted = next.and_then(|number| script.remove(number));
        drop(script);
        let mut body = Vec::new();
        let status = match (scripted, received.what.as_str()) {
            (Some((_, status, _)), _) => status,
            (None, "POST /worker") => {
                let id = workers.fetch_add(1, Ordering::Relaxed) + 1;
                write_worker_accepted(WorkerId(id), &mut body);
                ties.lock().unwrap().push(stream.try_clone().unwrap());
                201
            }
            (None, "POST /done" | "DELETE /worker") => 204,
            (None, _) => 405,
        };
        if status >= 400 {
            write_error(&scripted.map_or("because", |(_, _, why)| why), &mut body);
        }
        // The test may be over.
        let _ = tell.send(received);
        let length = body.len();
        let first = format!("HTTP/1.1 {status} X\r\nContent-Length: {length}\r\n\r\n");
        let _ = stream.write_all(&[first.as_bytes(), &body].concat());
    }
}

/// A running worker.
pub(super) struct Worker {
    pub(super) process: Server,
}

impl Worker {
    pub(super) fn start(server: SocketAddr, flags: &[&str], command: &[&str]) -> Self {
        let mut program = plain_command(Program::PATH);
        program.args(["work", "--url", &format!("http://{server}"), "--name", "w"]);
        program.args(["--log-level", "debug"]);
        if !flags.contains(&"--log-format") {
            program.args(["--log-format", "json"]);
        }
        program.args(flags).arg("--").args(command);
        Self { process: Server::spawn(program) }
    }

    pub(super) fn connect(&self) -> Caller {
        let stream = TcpStream::connect(self.process.address).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        Caller { stream, fields: "" }
    }

    /// Hands it a job, with its argument as JSON; the status and what it says is wrong.
    pub(super) fn hand(&self, id: u64, argument: &str, ms: Option<u64>) -> (u16, String) {
        self.connect().hand(id, "job", argument, ms)
    }

    /// Hands it a job that it takes.
    pub(super) fn begin(&self, id: u64, argument: &str) {
        assert_eq!(self.hand(id, argument, Some(60_000)), (202, String::new()));
    }
}

/// A connection to a worker.
pub(super) struct Caller {
    stream: TcpStream,
    /// What else stands in the heads of requests.
    pub(super) fields: &'static str,
}

impl Caller {
    pub(super) fn hand(
        &mut self,
        id: u64,
        name: &str,
        argument: &str,
        timeout_ms: Option<u64>,
    ) -> (u16, String) {
        let mut bytes = Vec::new();
        from_json(argument.as_bytes(), &mut bytes).unwrap();
        let argument = Payload { encoding: Encoding::MsgPack, bytes: &bytes };
        let mut body = Vec::new();
        WorkerJob { id: &JobId(id).0.to_string(), name, argument, timeout_ms }.write(&mut body);
        self.ask("POST /worker-job", &body)
    }

    /// Sends a request and takes the answer.
    pub(super) fn ask(&mut self, what: &str, body: &[u8]) -> (u16, String) {
        let length = body.len();
        let fields = self.fields;
        let head =
            format!("{what} HTTP/1.1\r\nHost: w\r\n{fields}Content-Length: {length}\r\n\r\n");
        self.stream.write_all(&[head.as_bytes(), body].concat()).unwrap();
        let mut bytes = Vec::new();
        loop {
            assert!(read_on(&mut self.stream, &mut bytes), "the worker closes");
            let mut input = Input::new(&bytes);
            let Some(head) = next_response(&mut input, false).unwrap() else { continue };
            let Some(body) = whole(head.framing, input) else { continue };
            let error = if body.is_empty() { "" } else { read_error(&body).unwrap() };
            return (head.status, error.to_owned());
        }
    }
}

fn read_on(stream: &mut TcpStream, bytes: &mut Vec<u8>) -> bool {
    let mut piece = vec![0; 64 * 1024];
    let count = stream.read(&mut piece).unwrap_or(0);
    bytes.extend_from_slice(&piece[..count]);
    count > 0
}

/// The body, if it is all there.
fn whole(framing: Framing, mut input: Input<'_>) -> Option<Vec<u8>> {
    let (mut body, mut whole) = (Body::new(framing, u64::MAX).unwrap(), Vec::new());
    loop {
        match body.next(&mut input).unwrap() {
            Piece::Data(piece) => whole.extend_from_slice(piece),
            Piece::End => return Some(whole),
            Piece::Incomplete => return None,
        }
    }
}

fn read_request(stream: &mut TcpStream) -> Option<Received> {
    let mut bytes = Vec::new();
    loop {
        if !read_on(stream, &mut bytes) {
            return None;
        }
        let mut input = Input::new(&bytes);
        let Some(head) = next_request(&mut input).unwrap() else { continue };
        let Some(body) = whole(head.framing.unwrap_or(Framing::Length(0)), input) else { continue };
        let text = String::from_utf8_lossy(&bytes);
        let field = text.lines().find_map(|line| line.strip_prefix("worker-id: "));
        let worker = field.map(|value| value.parse().unwrap());
        return Some(Received { what: format!("{} {}", head.method, head.target), worker, body });
    }
}
