//! Pushers and workers: one loop over all their sockets.

use super::http_connection::HttpConnection;
use crate::process::Moment;
use crate::stats::float;
use jobcentre::model::id::JobId;
use jobcentre::model::job::{Encoding, Payload};
use jobcentre::model::worker::Worker;
use jobcentre::protocol::http::lightjq::messages::{
    Done, NewJob, Outcome, WorkerJob, job_id, read_worker_accepted, write_worker,
};
use jobcentre::wire::msgpack::{push_integer, to_json};
use mio::net::TcpListener;
use mio::{Events, Interest, Poll, Token};
use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

const PUSHERS: usize = 8;

/// How long after the last push all jobs must be done.
const PATIENCE: f64 = 20.0;
const TICK: Duration = Duration::from_millis(1);

/// What a connection is for.
#[derive(Clone, Copy)]
enum Role {
    Push,
    /// A call of this worker.
    Call(usize),
    /// Reports of one.
    Report,
}

/// What came of it.
pub(super) struct Found {
    pub(super) pushed: u64,
    /// Of the time that counts.
    pub(super) done: u64,
    pub(super) seconds: f64,
    pub(super) waits: Vec<u64>,
    pub(super) before: Moment,
    pub(super) after: Moment,
}

/// What is known of a job, by its number.
struct Job {
    pushed: u64,
    called: bool,
}

pub(super) struct Fleet {
    poll: Poll,
    /// Where workers listen: their numbers are their tokens.
    listeners: Vec<TcpListener>,
    /// The head of each worker's reports, but for the length.
    reports: Vec<String>,
    /// Behind the listeners; the first ones are the pushers', then each worker's reports.
    lines: Vec<Option<(HttpConnection, Role)>>,
    /// Lines that have something to say.
    dirty: Vec<usize>,
    start: Instant,
    jobs: Vec<Job>,
    answered: u64,
    done: u64,
    /// From when waits count.
    counts: u64,
    waits: Vec<u64>,
}

impl Fleet {
    /// Has `workers` workers listen and register.
    pub(super) fn assemble(
        master: SocketAddr,
        workers: usize,
        places: u32,
    ) -> Result<Self, String> {
        let open = || -> std::io::Result<Self> {
            let poll = Poll::new()?;
            let mut listeners = Vec::new();
            for number in 0..workers {
                let mut listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0).into())?;
                poll.registry().register(&mut listener, Token(number), Interest::READABLE)?;
                listeners.push(listener);
            }
            let mut lines = Vec::new();
            for number in 0..PUSHERS + workers {
                let line =
                    HttpConnection::connect(master, poll.registry(), Token(workers + number))?;
                lines.push(Some((line, if number < PUSHERS { Role::Push } else { Role::Report })));
            }
            Ok(Self {
                poll,
                listeners,
                reports: Vec::new(),
                lines,
                dirty: Vec::new(),
                start: Instant::now(),
                jobs: Vec::new(),
                answered: 0,
                done: 0,
                counts: 0,
                waits: Vec::new(),
            })
        };
        let mut fleet = open().map_err(|error| format!("no sockets for workers: {error}"))?;
        fleet.register(places)?;
        Ok(fleet)
    }

    fn register(&mut self, places: u32) -> Result<(), String> {
        for number in 0..self.listeners.len() {
            let address = self.listeners[number].local_addr().map_err(|error| error.to_string())?;
            let (name, url) = (format!("worker-{number}"), format!("http://{address}"));
            let mut body = Vec::new();
            let worker = Worker { name: &name, url: &url, max_jobs: places, queues: None };
            write_worker(&worker, &mut body);
            let Some((line, _)) = &mut self.lines[PUSHERS + number] else { unreachable!() };
            line.say("POST /worker HTTP/1.1\r\nHost: localhost\r\n", &body);
            line.flush()?;
            let deadline = Instant::now() + Duration::from_secs(10);
            let id = loop {
                if Instant::now() > deadline || !line.read()? {
                    return Err("a worker is not registered".to_owned());
                }
                if let Some((status, body)) = line.next()? {
                    let id = read_worker_accepted(body);
                    break id
                        .map_err(|error| format!("a worker was answered {status}: {error}"))?;
                }
                std::thread::sleep(Duration::from_micros(100));
            };
            let head =
                "POST /done HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/msgpack";
            self.reports.push(format!("{head}\r\nWorker-Id: {}\r\n", id.0));
        }
        Ok(())
    }

    fn now(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// Pushes at this rate until the end of the time that counts, and waits until all is done.
    pub(super) fn work(
        mut self,
        server: u32,
        rate: u32,
        [warm, end]: [f64; 2],
    ) -> Result<Found, String> {
        let [warm, end, last] = [warm, end, end + PATIENCE].map(nanos);
        self.counts = warm;
        self.start = Instant::now();
        let (mut begun, mut ended) = (None, None);
        let mut events = Events::with_capacity(1024);
        loop {
            let now = self.now();
            if begun.is_none() && now >= warm {
                begun = Some((now, self.done, Moment::now(server)?));
            }
            // One that is very slow gets the time that its first job takes.
            let any = begun.is_some_and(|(_, before, _)| self.done > before);
            if ended.is_none() && now >= end && any {
                ended = Some((now, self.done, Moment::now(server)?));
            }
            let due = u128::from(now.min(end)) * u128::from(rate) / 1_000_000_000;
            while (self.jobs.len() as u128) < due {
                self.push();
            }
            self.flush()?;
            let pushed = self.jobs.len() as u64;
            if let (Some((from, before, first)), Some((to, after, second))) = (begun, ended)
                && self.done == pushed
            {
                if self.answered != pushed {
                    return Err(format!("{pushed} pushes had {} answers", self.answered));
                }
                return Ok(Found {
                    pushed,
                    done: after - before,
                    seconds: float(to - from) / 1e9,
                    waits: self.waits,
                    before: first,
                    after: second,
                });
            }
            if now > last {
                return Err(format!("of {pushed} jobs only {} were done", self.done));
            }
            match self.poll.poll(&mut events, Some(TICK)) {
                Err(error) if error.kind() != ErrorKind::Interrupted => {
                    return Err(format!("epoll failed: {error}"));
                }
                _ => {}
            }
            for event in &events {
                self.attend(event.token().0, event.is_readable())?;
            }
        }
    }

    fn push(&mut self) {
        let number = self.jobs.len();
        let mut argument = Vec::new();
        push_integer(&mut argument, number as u64);
        let payload = Payload { encoding: Encoding::MsgPack, bytes: &argument };
        let mut body = Vec::new();
        NewJob::new("bench", payload).write(&mut body);
        let place = number % PUSHERS;
        if let Some((line, _)) = &mut self.lines[place] {
            line.say("POST /job HTTP/1.1\r\nHost: localhost\r\n", &body);
        }
        self.dirty.push(place);
        self.jobs.push(Job { pushed: self.now(), called: false });
    }

    fn flush(&mut self) -> Result<(), String> {
        for place in std::mem::take(&mut self.dirty) {
            if let Some((line, _)) = &mut self.lines[place] {
                line.flush()?;
            }
        }
        Ok(())
    }

    fn attend(&mut self, token: usize, readable: bool) -> Result<(), String> {
        let workers = self.listeners.len();
        if token < workers {
            return self.accept(token);
        }
        let place = token - workers;
        let Some((mut line, role)) = self.lines[place].take() else { return Ok(()) };
        line.flush()?;
        let open = !readable || line.read()?;
        match role {
            Role::Push => self.hear(&mut line, "HTTP/1.1 201 ")?,
            Role::Report => self.hear(&mut line, "HTTP/1.1 204 ")?,
            Role::Call(worker) => self.take(&mut line, worker)?,
        }
        line.flush()?;
        match role {
            // The server keeps connections to workers as it likes.
            Role::Call(_) if !open => return Ok(()),
            _ if !open => return Err("the server has closed a connection".to_owned()),
            _ => self.lines[place] = Some((line, role)),
        }
        Ok(())
    }

    fn accept(&mut self, worker: usize) -> Result<(), String> {
        loop {
            let stream = match self.listeners[worker].accept() {
                Ok((stream, _)) => stream,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(format!("a worker cannot be called: {error}")),
            };
            let token = Token(self.listeners.len() + self.lines.len());
            let line = HttpConnection::of(stream, self.poll.registry(), token);
            let line = line.map_err(|error| format!("a worker cannot be called: {error}"))?;
            self.lines.push(Some((line, Role::Call(worker))));
        }
    }

    /// Answers of the server, which are all to be like this.
    fn hear(&mut self, line: &mut HttpConnection, expected: &str) -> Result<(), String> {
        let is_report = expected.contains("204");
        while let Some((status, body)) = line.next()? {
            if !status.starts_with(expected) {
                let mut said = Vec::new();
                // What is no MessagePack says nothing more.
                let _ = to_json(body, &mut said);
                return Err(format!("{status}: {}", String::from_utf8_lossy(&said)));
            }
            if is_report { self.done += 1 } else { self.answered += 1 }
        }
        Ok(())
    }

    /// A worker is called: it accepts, and reports.
    fn take(&mut self, line: &mut HttpConnection, worker: usize) -> Result<(), String> {
        let now = self.now();
        let mut accepted = 0;
        while let Some((request, body)) = line.next()? {
            if !request.starts_with("POST /worker-job ") {
                return Err(format!("a worker was asked {request}"));
            }
            let job = WorkerJob::read(body).map_err(|error| error.to_string())?;
            let (id, number) = (job_id(job.id.as_bytes()), number(job.argument)?);
            let known = self.jobs.get_mut(number).ok_or("a job that was not pushed")?;
            if std::mem::replace(&mut known.called, true) {
                return Err(format!("job {} was sent twice", id.0));
            }
            if known.pushed >= self.counts {
                self.waits.push(now - known.pushed);
            }
            self.report(worker, id);
            accepted += 1;
        }
        for _ in 0..accepted {
            line.say("HTTP/1.1 202 Accepted\r\n", b"");
        }
        Ok(())
    }

    fn report(&mut self, worker: usize, id: JobId) {
        let result = Payload { encoding: Encoding::MsgPack, bytes: b"\xc0" };
        let mut body = Vec::new();
        let outcome = Outcome::Success { result };
        Done { job_id: id, finished_at: None, outcome }.write(&mut body);
        let place = PUSHERS + worker;
        if let Some((line, _)) = &mut self.lines[place] {
            line.say(&self.reports[worker], &body);
        }
        self.dirty.push(place);
    }
}

/// The number of a job, which is its argument.
fn number(argument: Payload<'_>) -> Result<usize, String> {
    let mut text = Vec::new();
    to_json(argument.bytes, &mut text).map_err(|error| error.to_string())?;
    let number = str::from_utf8(&text).ok().and_then(|text| text.parse().ok());
    number.ok_or_else(|| "an argument is no number".to_owned())
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a few seconds")]
fn nanos(seconds: f64) -> u64 {
    (seconds * 1e9) as u64
}
