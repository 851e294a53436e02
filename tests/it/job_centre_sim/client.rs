//! What the oracle knows of one client: its input, what it waits for, and how far its close has
//! come.

use crate::oracle::wire::Request;
use jobcentre::base::time::Mono;
use jobcentre::model::driver::Protocol;
use std::collections::VecDeque;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Open,
    Waiting,
    Ended,
    /// It has sent a byte that begins no request.
    Failed,
    Refused,
}

/// What a client of packets has said about packets that it wants.
#[derive(Default)]
pub(super) struct Wishes {
    pub(super) queues: Vec<usize>,
    pub(super) credits: usize,
}

/// One client.
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub(super) struct Client {
    pub(super) state: State,
    /// It speaks packets, not lines.
    pub(super) wishes: Option<Wishes>,
    /// Requests that the client writes, the first one being what is next in the input.
    pub(super) lines: VecDeque<(Vec<u8>, Request)>,
    /// How much of the first line was passed over because it is too long.
    pub(super) passed: usize,
    pub(super) skipping: bool,
    /// Bytes handed over and not served.
    pub(super) handed: usize,
    /// What must be sent to it.
    pub(super) output: Vec<u8>,
    pub(super) stalled: bool,
    pub(super) resumed: bool,
    pub(super) peer_closed: bool,
    pub(super) eof: bool,
    pub(super) broken: bool,
    /// When it is cut off, and how many were given a deadline before it.
    pub(super) deadline: Option<(Mono, usize)>,
}

pub(super) enum Taken {
    Nothing,
    TooLong,
    Request(Request),
}

fn without_cr(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

impl Client {
    pub(super) fn new(state: State, protocol: Protocol, output: Vec<u8>) -> Self {
        Self {
            state,
            wishes: (protocol == Protocol::Pinpriq).then(Wishes::default),
            lines: VecDeque::new(),
            passed: 0,
            skipping: false,
            handed: 0,
            output,
            stalled: false,
            resumed: false,
            peer_closed: false,
            eof: false,
            broken: false,
            deadline: None,
        }
    }

    /// Whether it is sent away.
    pub(super) fn is_over(&self) -> bool {
        matches!(self.state, State::Refused | State::Failed)
    }

    /// The next request of packets, if it is there whole.
    pub(super) fn take_packets(&mut self) -> Taken {
        let Some((bytes, request)) = self.lines.front() else { return Taken::Nothing };
        let wanted = if matches!(request, Request::Junk) { 1 } else { bytes.len() };
        if self.handed < wanted {
            return Taken::Nothing;
        }
        self.handed -= wanted;
        Taken::Request(self.lines.pop_front().unwrap().1)
    }

    /// The next line of the input, if it is there, or if it is already too long.
    pub(super) fn take(&mut self, max: usize) -> Taken {
        if self.wishes.is_some() {
            return self.take_packets();
        }
        loop {
            let Some((bytes, _)) = self.lines.front() else { return Taken::Nothing };
            let rest = &bytes[self.passed..];
            if self.handed >= rest.len() {
                self.handed -= rest.len();
                let too_long = without_cr(&rest[..rest.len() - 1]).len() > max;
                self.passed = 0;
                let (_, request) = self.lines.pop_front().unwrap();
                if std::mem::take(&mut self.skipping) {
                    continue;
                }
                return if too_long { Taken::TooLong } else { Taken::Request(request) };
            }
            let begun_too_long = without_cr(&rest[..self.handed]).len() > max;
            if !self.skipping && !begun_too_long {
                return Taken::Nothing;
            }
            self.passed += std::mem::take(&mut self.handed);
            let first_time = !std::mem::replace(&mut self.skipping, true);
            return if first_time { Taken::TooLong } else { Taken::Nothing };
        }
    }

    /// The answer to a line, for which it may have waited.
    pub(super) fn answer_line(&mut self, line: &[u8]) {
        self.send(line);
        if self.state == State::Waiting {
            self.state = State::Open;
        }
    }

    pub(super) fn send(&mut self, bytes: &[u8]) {
        if !self.broken {
            self.output.extend_from_slice(bytes);
        }
    }
}
