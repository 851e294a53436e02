//! What the oracle knows of one client: its input, what it waits for, how far its close has come,
//! and what the server has sent it.

use super::access::Access;
use super::beanstalkd::Tubes;
use super::http::{self, GO_ON};
use super::types::{HttpOptions, Page, Queue, Reply, Request};
use crate::oracle::wire;
use jobcentre::base::limits::{
    HTTP_BODY_MIN_BYTES_PER_SECOND, HTTP_BODY_TIMEOUT, HTTP_HEAD_TIMEOUT, HTTP_IDLE_TIMEOUT,
    OUTPUT_HIGH_WATER_BYTES, POP_COPIED_MAX_BYTES,
};
use jobcentre::base::time::Mono;
use jobcentre::model::driver::Protocol;
use std::collections::VecDeque;
use std::time::Duration;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Open,
    /// A line waits for a job.
    Waiting,
    /// A question waits for the end of the pass.
    Asked(HttpOptions),
    /// Its reply is known, and will be written in this many turns.
    Writing(Page, HttpOptions, usize),
    /// What it writes is passed over.
    Ended,
}

/// How far a request has come of which a part is there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Begun {
    head: bool,
    /// Since when its body is on its way.
    body: Option<Mono>,
}

/// What a client of packets has said about packets that it wants.
#[derive(Default)]
pub(crate) struct Subscriptions {
    pub(crate) queues: Vec<Queue>,
    pub(crate) credits: usize,
}

pub(crate) enum Taken {
    Nothing,
    TooLong,
    Request(Request),
}

fn without_cr(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// One client.
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub(crate) struct Client {
    pub(crate) protocol: Protocol,
    pub(crate) state: State,
    pub(crate) wishes: Subscriptions,
    /// Of beanstalkd's protocol.
    pub(crate) tubes: Tubes,
    /// Who it is; `None`: there are no users, as far as it is concerned.
    pub(super) access: Option<Access>,
    /// The user of those who come to its listener.
    pub(super) listener: Option<&'static str>,
    /// It has to say who it is.
    pub(super) locked: bool,
    /// The request of HTTP whose head is there comes from a user.
    pub(super) admitted: bool,
    /// The body of a put is passed over.
    pub(super) refuses_put: bool,
    /// Requests that the client writes, the first one being what is next in the input.
    pub(crate) script: VecDeque<(Vec<u8>, Request)>,
    /// Bytes handed over and not served.
    pub(crate) handed: usize,
    pub(crate) stalled: bool,
    pub(crate) resumed: bool,
    pub(crate) peer_closed: bool,
    pub(crate) eof: bool,
    pub(crate) broken: bool,
    /// It is sent away.
    pub(crate) over: bool,
    /// There was no place for it.
    pub(crate) refused: bool,
    /// How much of the first line was passed over because it is too long.
    passed: usize,
    skipping: bool,
    /// When it is cut off, and how many timers were armed before.
    pub(crate) deadline: Option<(Mono, usize)>,
    /// Of HTTP: when it will have been too slow.
    pub(crate) reply_deadline: Option<Mono>,
    /// When the server looks whether it was, and how many timers were armed before.
    pub(crate) check: Option<(Mono, usize)>,
    pub(crate) begun: Begun,
    /// What was unsent when it was found too slow, and spared.
    pub(crate) spared: usize,
    /// How much of the server's output has been looked at or is in `fresh`.
    pub(crate) shown: usize,
    /// What the server has sent and the oracle has not looked at yet.
    pub(crate) fresh: Vec<u8>,
    /// How much of that counts as unsent already.
    counted: usize,
    pub(crate) unsent: usize,
    /// What the server writes behind that, piece by piece, once less is unsent: packets of a long
    /// answer, and answers behind it.
    pub(crate) unwritten: VecDeque<Vec<u8>>,
}

impl Client {
    pub(crate) fn new(protocol: Protocol, now: Mono) -> Self {
        Self {
            protocol,
            state: State::Open,
            wishes: Subscriptions::default(),
            tubes: Tubes::default(),
            access: None,
            listener: None,
            locked: false,
            admitted: false,
            refuses_put: false,
            script: VecDeque::new(),
            handed: 0,
            stalled: false,
            resumed: false,
            peer_closed: false,
            eof: false,
            broken: false,
            over: false,
            refused: false,
            passed: 0,
            skipping: false,
            deadline: None,
            reply_deadline: (protocol == Protocol::Http).then(|| now.after(HTTP_IDLE_TIMEOUT)),
            check: None,
            begun: Begun::default(),
            spared: 0,
            shown: 0,
            fresh: Vec::new(),
            counted: 0,
            unsent: 0,
            unwritten: VecDeque::new(),
        }
    }

    /// The next request, if enough of it is there. `max`: the length of a line.
    pub(crate) fn take(&mut self, max: usize) -> Taken {
        if self.protocol == Protocol::JobCentre {
            return self.take_line(max);
        }
        let Some((bytes, request)) = self.script.front() else { return Taken::Nothing };
        let wanted = match request {
            Request::Wire(wire::Request::Junk) => 1,
            Request::Http(_, manner) if manner.fatal => manner.head,
            _ => bytes.len(),
        };
        if self.handed < wanted {
            return Taken::Nothing;
        }
        self.handed -= wanted;
        Taken::Request(self.script.pop_front().unwrap().1)
    }

    /// The next line of the input, if it is there, or if it is already too long.
    fn take_line(&mut self, max: usize) -> Taken {
        loop {
            let Some((bytes, _)) = self.script.front() else { return Taken::Nothing };
            let rest = &bytes[self.passed..];
            if self.handed >= rest.len() {
                self.handed -= rest.len();
                let too_long = without_cr(&rest[..rest.len() - 1]).len() > max;
                self.passed = 0;
                let (_, request) = self.script.pop_front().unwrap();
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

    /// A part of a request is there, or nothing: how long the rest may take.
    pub(crate) fn await_rest(&mut self, now: Mono) {
        let Some((_, Request::Http(_, manner))) = self.script.front() else { return };
        if self.handed == 0 {
            return;
        }
        if self.handed < manner.head {
            if !std::mem::replace(&mut self.begun.head, true) {
                self.reply_deadline = Some(now.after(HTTP_HEAD_TIMEOUT));
            }
            return;
        }
        let since = *self.begun.body.get_or_insert(now);
        let earned = (self.handed - manner.head) as u64 / HTTP_BODY_MIN_BYTES_PER_SECOND;
        let earned = Duration::from_secs(earned);
        self.reply_deadline = Some(since.after(HTTP_BODY_TIMEOUT).after(earned));
    }

    /// Whether a part of a request is there.
    pub(crate) fn has_begun(&self) -> bool {
        self.begun != Begun::default()
    }

    /// An answer of HTTP is all written.
    pub(crate) fn finish(&mut self, manner: HttpOptions, now: Mono) {
        self.begun = Begun::default();
        self.admitted = false;
        if manner.close {
            self.end();
        } else {
            self.state = State::Open;
            self.reply_deadline = Some(now.after(HTTP_IDLE_TIMEOUT));
        }
    }

    pub(crate) fn end(&mut self) {
        (self.state, self.over, self.reply_deadline) = (State::Ended, true, None);
    }

    /// Whether it wants to be given packets, and would be told of them.
    pub(crate) fn wants_packets(&self) -> bool {
        let wishes = self.wishes.credits > 0 && !self.wishes.queues.is_empty();
        wishes && self.state == State::Open && !self.broken
    }

    /// Whether its end has begun.
    pub(crate) fn is_leaving(&self) -> bool {
        self.peer_closed || self.over
    }

    /// Whether there is an answer that is on its way.
    pub(crate) fn has_pending_reply(&self) -> bool {
        matches!(self.state, State::Waiting | State::Asked(_) | State::Writing(..))
    }

    /// Whether a part of a long answer is written. None is while it is found and its turn has not
    /// come, as when the connections before it have used up the pass.
    pub(crate) fn has_begun_to_answer(&self) -> bool {
        let State::Writing(ref page, manner, turns) = self.state else { return false };
        !manner.to_head && turns < page.turns
    }

    /// The server has this for it, some of which may be new.
    pub(crate) fn receive(&mut self, output: &[u8]) {
        self.fresh.extend_from_slice(output.get(self.shown..).unwrap_or_default());
        self.shown = output.len();
    }

    fn look_past(&mut self, length: usize) {
        self.fresh.drain(..length);
        self.unsent += length - self.counted.min(length);
        self.counted -= self.counted.min(length);
    }

    /// Asserts that this is what was sent next.
    pub(crate) fn expect(&mut self, reply: &Reply, manner: HttpOptions) {
        if self.broken {
            return;
        }
        let length = match reply {
            Reply::Page(page) => http::check(&self.fresh, page, manner),
            Reply::Bytes(bytes) if self.protocol == Protocol::Pinpriq => {
                return self.expect_packets(bytes);
            }
            Reply::Bytes(bytes) => return self.expect_bytes(bytes),
            Reply::Nothing | Reply::Later => 0,
        };
        self.look_past(length);
    }

    fn expect_bytes(&mut self, bytes: &[u8]) {
        let show = |bytes: &[u8]| bytes.escape_ascii().to_string();
        let sent = &self.fresh[..bytes.len().min(self.fresh.len())];
        assert!(sent == bytes, "sent:     {}\nexpected: {}", show(sent), show(bytes));
        self.look_past(bytes.len());
    }

    /// An answer of packets: a long one is written piece by piece, and others behind it.
    fn expect_packets(&mut self, bytes: &[u8]) {
        let Some((count, mut rest)) = bytes.split_at_checked(2) else {
            return self.expect_bytes(bytes);
        };
        let packets = usize::from(u16::from_be_bytes([count[0], count[1]]));
        let is_long = rest.len() - 4 * packets > POP_COPIED_MAX_BYTES;
        let is_behind = !self.unwritten.is_empty();
        if !is_long && !is_behind {
            return self.expect_bytes(bytes);
        }
        if !is_long {
            return self.unwritten.push_back(bytes.to_vec());
        }
        if is_behind {
            self.unwritten.push_back(count.to_vec());
        } else {
            self.expect_bytes(count);
        }
        while let [a, b, c, d, ..] = *rest {
            let length = |high, low| usize::from(u16::from_be_bytes([high, low]));
            let (packet, others) = rest.split_at(4 + length(a, b) + length(c, d));
            self.unwritten.push_back(packet.to_vec());
            rest = others;
        }
    }

    /// Pieces of long answers, as long as not too much is unsent.
    pub(crate) fn expect_more(&mut self) {
        while self.unsent <= OUTPUT_HIGH_WATER_BYTES
            && let Some(piece) = self.unwritten.pop_front()
        {
            if !self.broken {
                self.expect_bytes(&piece);
            }
        }
    }

    /// A call of the server has ended, with so much unsent: nothing may be left to be looked at but
    /// a part of an answer that goes on.
    pub(crate) fn count(&mut self, unsent: usize) {
        let goes_on = matches!(self.state, State::Writing(..));
        let told_to = self.begun.body.is_some() && self.fresh == GO_ON;
        let all_seen = self.fresh.is_empty() || goes_on || told_to;
        assert!(all_seen, "unexpected output: {}", self.fresh.escape_ascii());
        (self.counted, self.unsent) = (self.fresh.len(), unsent);
    }
}
