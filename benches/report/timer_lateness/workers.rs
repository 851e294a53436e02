//! The workers: one loop over connections that always have gets in flight, and one connection that
//! deletes the jobs.

use super::jobs::{DELAYED, HELD, Jobs, MILLISECOND, NEVER_MS};
use crate::client::id;
use crate::socket;
use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};
use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::time::Duration;

/// Connections that wait. Each has this many gets in flight: the first waits, and the others are
/// there when several jobs are due at once, so that nothing waits for want of workers.
const WORKERS: usize = 16;
const DEPTH: usize = 64;

/// How long after the last moment at which something is due it may still come.
const PATIENCE: u64 = 10_000 * MILLISECOND;
/// What must not come has not come so long after its time.
const QUIET: u64 = 100 * MILLISECOND;

const LOOK_UP: Duration = Duration::from_millis(20);
const SCRATCH: usize = 1 << 16;

/// One connection.
struct SimConnection {
    stream: TcpStream,
    input: Vec<u8>,
    output: Vec<u8>,
    /// What it says again for each job that it is given.
    get: String,
}

impl SimConnection {
    fn open(address: SocketAddr, poll: &Poll, number: usize, get: String) -> Result<Self, String> {
        let open = || {
            let stream = std::net::TcpStream::connect(address)?;
            stream.set_nodelay(true)?;
            stream.set_nonblocking(true)?;
            let mut stream = TcpStream::from_std(stream);
            let interest = Interest::READABLE | Interest::WRITABLE;
            poll.registry().register(&mut stream, Token(number), interest)?;
            Ok(Self { stream, input: Vec::new(), output: Vec::new(), get })
        };
        open().map_err(|error: std::io::Error| format!("a worker cannot connect: {error}"))
    }

    /// Writes what the socket takes.
    fn flush(&mut self) -> Result<(), String> {
        socket::flush(&self.stream, &mut self.output)
    }

    /// Reads once; how much there was.
    fn read(&mut self, scratch: &mut [u8]) -> Result<usize, String> {
        match self.stream.read(scratch) {
            Ok(0) => Err("the server has closed a connection".to_owned()),
            Ok(count) => {
                self.input.extend_from_slice(&scratch[..count]);
                Ok(count)
            }
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) =>
            {
                Ok(0)
            }
            Err(error) => Err(format!("the server did not answer: {error}")),
        }
    }

    /// Hands over every whole line that was read.
    fn answers(&mut self, mut take: impl FnMut(&str) -> Result<(), String>) -> Result<(), String> {
        let Some(end) = memchr::memrchr(b'\n', &self.input) else { return Ok(()) };
        let text = str::from_utf8(&self.input[..end])
            .map_err(|_| "the server answered with what is no text".to_owned())?;
        text.split('\n').try_for_each(&mut take)?;
        self.input.drain(..=end);
        Ok(())
    }
}

/// Waits for all jobs; returns the moment at which all workers waited. Missed jobs stay in `jobs`.
pub(super) fn collect(address: SocketAddr, jobs: &mut Jobs) -> Result<u64, String> {
    let poll = Poll::new().map_err(|error| format!("the system has no epoll: {error}"))?;
    let mut lines = Vec::new();
    for number in 0..WORKERS {
        // Half of them wait for so long and no longer: each such wait is a deadline too.
        let wait = if number % 2 == 0 {
            "\"wait\":true".to_owned()
        } else {
            format!("\"timeout\":{NEVER_MS}")
        };
        let get = format!("{{\"request\":\"get\",\"queues\":[\"{DELAYED}\",\"{HELD}\"],{wait}}}\n");
        let mut line = SimConnection::open(address, &poll, number, get)?;
        line.output = line.get.repeat(DEPTH).into_bytes();
        line.flush()?;
        lines.push(line);
    }
    let deleter = SimConnection::open(address, &poll, WORKERS, String::new())?;
    let ready = jobs.now();
    Fleet { poll, lines, deleter, came: 0, deleted: 0 }.work(jobs)?;
    Ok(ready)
}

struct Fleet {
    poll: Poll,
    lines: Vec<SimConnection>,
    deleter: SimConnection,
    came: usize,
    deleted: usize,
}

impl Fleet {
    fn work(&mut self, jobs: &mut Jobs) -> Result<(), String> {
        let expected = jobs.iter().filter(|job| job.kind.comes()).count();
        let last = jobs.iter().map(|job| job.due).max().unwrap_or(0);
        let mut events = Events::with_capacity(2 * WORKERS);
        let mut scratch = vec![0; SCRATCH];
        loop {
            let now = jobs.now();
            let complete = self.came == expected && self.deleted == expected;
            if now > last + if complete { QUIET } else { PATIENCE } {
                return Ok(());
            }
            match self.poll.poll(&mut events, Some(LOOK_UP)) {
                Err(error) if error.kind() != ErrorKind::Interrupted => {
                    return Err(format!("epoll failed: {error}"));
                }
                _ => {}
            }
            for event in &events {
                let number = event.token().0;
                if number == WORKERS {
                    self.hear_deleter(&mut scratch)?;
                } else {
                    self.hear(number, &mut scratch, jobs)?;
                }
            }
            self.deleter.flush()?;
        }
    }

    /// Takes what a worker was given, deletes it, and asks for as many again.
    fn hear(&mut self, number: usize, scratch: &mut [u8], jobs: &mut Jobs) -> Result<(), String> {
        let (line, deleter) = (&mut self.lines[number], &mut self.deleter);
        while line.read(scratch)? == scratch.len() {}
        let now = jobs.now();
        let mut given = 0;
        line.answers(|answer| {
            let id = id(answer)?;
            jobs.arrive(id, now)?;
            given += 1;
            // Buffers grow.
            let _ = writeln!(deleter.output, "{{\"request\":\"delete\",\"id\":{id}}}");
            Ok(())
        })?;
        self.came += given;
        line.output.extend_from_slice(line.get.repeat(given).as_bytes());
        line.flush()
    }

    fn hear_deleter(&mut self, scratch: &mut [u8]) -> Result<(), String> {
        while self.deleter.read(scratch)? == scratch.len() {}
        let deleted = &mut self.deleted;
        self.deleter.answers(|answer| {
            *deleted += 1;
            if answer == "{\"status\":\"ok\"}" {
                return Ok(());
            }
            Err(format!("a delete was answered by {answer}"))
        })
    }
}
