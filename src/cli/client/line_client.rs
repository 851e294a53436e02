//! A connection of the Job Centre protocol: requests out, answers in, in their order.

use super::connection::Server;
use super::failure::{Failure, Outcome};
use super::interrupts::Interrupts;
use super::record::Record;
use super::request::Request;
use super::stream::Stream;
use memchr::memchr;
use rustix::event::{PollFd, PollFlags};
use std::io::{self, ErrorKind, Write as _};
use std::os::fd::AsFd as _;
use std::time::Duration;

const READ_BYTES: usize = 256 * 1024;

/// A connection.
#[derive(Debug)]
pub(super) struct LineClient {
    stream: Stream,
    shown: String,
    timeout: Duration,
    /// What has arrived; the part before `taken` is done with.
    input: Vec<u8>,
    taken: usize,
    scratch: Box<[u8]>,
    /// That there is no such job is no failure: --ignore-missing.
    pub(super) ignores_missing: bool,
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Reply {
    /// The members besides the status.
    Ok(Record),
    /// There is no such job or queue.
    Missing,
    /// A sentence.
    Error(String),
}

impl LineClient {
    /// Connects, and says which user it is.
    pub(super) fn connect(server: &Server) -> Outcome<Self> {
        let mut client = Self {
            stream: server.connect(&server.address)?,
            shown: server.address.to_string(),
            timeout: server.timeout,
            input: Vec::new(),
            taken: 0,
            ignores_missing: false,
            scratch: vec![0; READ_BYTES].into_boxed_slice(),
        };
        if let Some(token) = &server.token {
            client.send(&token.auth_line())?;
            if let Reply::Error(sentence) = client.receive()? {
                return Err(Failure::refused(sentence));
            }
        }
        Ok(client)
    }

    /// Sends whole lines.
    pub(super) fn send(&mut self, lines: &[u8]) -> Outcome {
        let sent = self.stream.write_all(lines).and_then(|()| self.stream.flush());
        sent.map_err(|error| self.lost(&error))
    }

    /// The next answer.
    pub(super) fn receive(&mut self) -> Outcome<Reply> {
        loop {
            if let Some(line) = self.buffered_line() {
                return parse(line);
            }
            self.read_more()?;
        }
    }

    /// The next line that has arrived, without its end.
    pub(super) fn buffered_line(&mut self) -> Option<&[u8]> {
        let Some(end) = memchr(b'\n', &self.input[self.taken..]) else {
            self.input.drain(..self.taken);
            self.taken = 0;
            return None;
        };
        let start = self.taken;
        self.taken += end + 1;
        Some(&self.input[start..start + end])
    }

    /// Reads once, which waits if there is no input. With TLS what comes may be no answer: then it
    /// does not wait for one.
    pub(super) fn read_more(&mut self) -> Outcome {
        let count = loop {
            match self.stream.read_once(&mut self.scratch) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                read => break read,
            }
        };
        match count {
            Ok(None) => Ok(()),
            Ok(Some(0)) => Err(self.lost(&ErrorKind::UnexpectedEof.into())),
            Ok(Some(count)) => {
                self.input.extend_from_slice(&self.scratch[..count]);
                Ok(())
            }
            Err(error) => Err(self.lost(&error)),
        }
    }

    /// To wait for input beside other descriptors.
    pub(super) fn poll_fd(&self) -> PollFd<'_> {
        PollFd::from_borrowed_fd(self.stream.as_fd(), PollFlags::IN)
    }

    /// How long an answer may take.
    pub(super) fn timeout(&self) -> Duration {
        self.timeout
    }

    /// The server has not answered in time.
    pub(super) fn silent(&self) -> Failure {
        self.lost(&ErrorKind::TimedOut.into())
    }

    /// How the server is called in messages.
    pub(super) fn shown(&self) -> &str {
        &self.shown
    }

    #[cold]
    fn lost(&self, error: &io::Error) -> Failure {
        let shown = &self.shown;
        Failure::unreachable(match error.kind() {
            ErrorKind::UnexpectedEof => format!("{shown} has closed the connection"),
            ErrorKind::WouldBlock | ErrorKind::TimedOut => {
                format!("{shown} does not answer within {:?} (--timeout)", self.timeout)
            }
            _ => format!("the connection to {shown} was lost: {error}"),
        })
    }

    /// Sends a request and returns its answer.
    pub(super) fn reply(&mut self, request: Request) -> Outcome<Reply> {
        self.send(&request.line())?;
        self.receive()
    }

    /// Sends a request that finds something, or fails with `missing`.
    pub(super) fn ask(&mut self, request: Request, missing: &str) -> Outcome<Record> {
        self.send(&request.line())?;
        self.answered(missing)
    }

    /// The same, unless a signal arrives while it waits: then `None`, and the answer is still to
    /// come.
    pub(super) fn ask_unless(
        &mut self,
        request: Request,
        missing: &str,
        interrupts: &Interrupts,
    ) -> Outcome<Option<Record>> {
        self.send(&request.line())?;
        while memchr(b'\n', &self.input[self.taken..]).is_none() {
            let waited = interrupts.wait_beside(self.stream.as_fd(), self.timeout);
            if waited.map_err(|error| self.lost(&error))? {
                return Ok(None);
            }
            self.read_more()?;
        }
        self.answered(missing).map(Some)
    }

    /// Answers may take this time at most from now on.
    pub(super) fn hurry(&mut self, timeout: Duration) {
        self.timeout = self.timeout.min(timeout);
        // A socket that refuses this has its former timeout.
        let _ = self.stream.set_timeout(Some(self.timeout));
    }

    /// The answer to what was sent, which finds something or fails with `missing`.
    pub(super) fn answered(&mut self, missing: &str) -> Outcome<Record> {
        match self.receive()? {
            Reply::Ok(record) => Ok(record),
            Reply::Missing => Err(Failure::nothing(missing)),
            Reply::Error(sentence) => Err(Failure::refused(sentence)),
        }
    }

    /// Waits as long as it takes from now on, or at most the time of `--timeout` and this one.
    pub(super) fn allow_wait(&self, wait: Option<Duration>) {
        let timeout = wait.map(|wait| wait.saturating_add(self.timeout));
        // A socket that refuses this has its former timeout, which ends the wait with a message.
        let _ = self.stream.set_timeout(timeout);
    }
}

/// Parses an answer.
pub(super) fn parse(line: &[u8]) -> Outcome<Reply> {
    let mut record = Record::parse(line)
        .map_err(|failure| Failure::unreachable(format!("{}: {NO_SERVER}", failure.sentence)))?;
    let status = record.text("status").unwrap_or_default();
    record.remove("status");
    Ok(match &*status {
        "ok" => Reply::Ok(record),
        "no-job" => Reply::Missing,
        _ => Reply::Error(record.text("error").unwrap_or_else(|| NO_SERVER.to_owned())),
    })
}

const NO_SERVER: &str = "this does not look like the listener of a jobcentre server for JSON lines \
                         (--listen)";
