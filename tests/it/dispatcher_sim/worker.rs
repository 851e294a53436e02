//! A worker in threads: an HTTP server that records requests and answers as the test says.

use crate::outbound::peers::Identity;
use jobcentre::protocol::http::lightjq::messages::WorkerJob;
use jobcentre::wire::msgpack::to_json;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

/// A job as a worker got it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Got {
    pub(super) id: u64,
    pub(super) name: String,
    /// Its argument as JSON.
    pub(super) argument: String,
    pub(super) timeout_ms: Option<u64>,
    /// On which connection, and as which of its requests.
    pub(super) line: usize,
    pub(super) number: usize,
}

/// How a worker answers: a whole answer, or nothing, and then the end of the connection.
pub(super) type Manner = dyn Fn(&Got) -> Option<&'static str> + Send + Sync;

pub(super) const ACCEPTED: &str = "HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n";

pub(super) struct HttpWorker {
    pub(super) address: SocketAddr,
    got: Receiver<Got>,
}

impl HttpWorker {
    pub(super) fn start(identity: Option<Identity>, manner: Arc<Manner>) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, got) = channel();
        let identity = identity.map(Arc::new);
        thread::spawn(move || {
            for (line, stream) in listener.incoming().map_while(Result::ok).enumerate() {
                let (sender, manner) = (sender.clone(), Arc::clone(&manner));
                let identity = identity.clone();
                thread::spawn(move || match identity {
                    None => serve(stream, line, &sender, &*manner),
                    Some(identity) => serve(identity.secure(stream), line, &sender, &*manner),
                });
            }
        });
        Self { address, got }
    }

    /// The next job that comes.
    pub(super) fn next(&self) -> Got {
        self.got.recv_timeout(crate::support::TIMEOUT).expect("a job for the worker")
    }
}

/// Serves one connection to its end.
fn serve(stream: impl Read + Write, line: usize, sender: &Sender<Got>, manner: &Manner) {
    let mut stream = BufReader::new(stream);
    for number in 0.. {
        let Some(got) = read_request(&mut stream, line, number) else { return };
        let answer = manner(&got);
        // The test may have ended.
        let _ = sender.send(got);
        let Some(answer) = answer else { return };
        if stream.get_mut().write_all(answer.as_bytes()).is_err()
            || stream.get_mut().flush().is_err()
        {
            return;
        }
    }
}

fn read_request(stream: &mut impl BufRead, line: usize, number: usize) -> Option<Got> {
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let from = head.len();
        if stream.read_line(&mut head).ok()? == 0 {
            return None;
        }
        let field = &head[from..];
        if let Some(value) = field.strip_prefix("Content-Length: ") {
            length = value.trim().parse().unwrap();
        }
        if field == "\r\n" {
            break;
        }
    }
    assert!(head.starts_with("POST /base/worker-job HTTP/1.1\r\nHost: "), "{head}");
    assert!(head.contains("\r\nContent-Type: application/msgpack\r\n"), "{head}");
    let mut body = vec![0; length];
    stream.read_exact(&mut body).ok()?;
    let job = WorkerJob::read(&body).unwrap();
    let mut argument = Vec::new();
    to_json(job.argument.bytes, &mut argument).unwrap();
    Some(Got {
        id: job.id.parse().unwrap(),
        name: job.name.to_owned(),
        argument: String::from_utf8(argument).unwrap(),
        timeout_ms: job.timeout_ms,
        line,
        number,
    })
}
