//! From replies to lines and bodies. Each is written in one piece.

use super::asked::Asked;
use super::stats;
use super::text::text_reply;
use crate::access::Denial;
use crate::base::strings::StringList;
use crate::model::consumer::ConsumerReply;
use crate::model::id::JobId;
use crate::model::job::{Encoding, Payload};
use crate::model::manage::ManageReply;
use crate::model::reply::{JobView, Rejection, Reply};
use crate::protocol::Closing;
use crate::wire::json::push_number;
use crate::wire::msgpack::push_json;

pub(super) const BAD_FORMAT: &[u8] = b"BAD_FORMAT\r\n";
pub(super) const EXPECTED_CRLF: &[u8] = b"EXPECTED_CRLF\r\n";
pub(super) const JOB_TOO_BIG: &[u8] = b"JOB_TOO_BIG\r\n";
pub(super) const NOT_FOUND: &[u8] = b"NOT_FOUND\r\n";
pub(super) const NOT_IGNORED: &[u8] = b"NOT_IGNORED\r\n";
pub(super) const OUT_OF_MEMORY: &[u8] = b"OUT_OF_MEMORY\r\n";
/// What beanstalkd answers when it cannot do what it should: nothing was carried out.
pub(super) const INTERNAL_ERROR: &[u8] = b"INTERNAL_ERROR\r\n";

pub(super) const UNAUTHORIZED: &[u8] = b"UNAUTHORIZED\r\n";
pub(super) const UNKNOWN_COMMAND: &[u8] = b"UNKNOWN_COMMAND\r\n";

/// Writes what a connection is told that is not served: the reply that any command may have.
pub(in crate::protocol) fn write_full(out: &mut Vec<u8>) {
    out.extend_from_slice(OUT_OF_MEMORY);
}

/// Writes the reply before a connection is closed.
pub(in crate::protocol) fn write_closing(why: Closing<'_>, out: &mut Vec<u8>) {
    match why {
        Closing::Memory(_) => write_full(out),
        Closing::Denied(Denial::Unavailable(_)) => out.extend_from_slice(INTERNAL_ERROR),
        Closing::Denied(_) => out.extend_from_slice(UNAUTHORIZED),
    }
}

/// Writes the reply to a command.
#[inline]
pub(super) fn write(asked: Asked, reply: &Reply<'_>, out: &mut Vec<u8>) {
    match (asked, reply) {
        (Asked::Put, Reply::Put(id)) => {
            let mut line = Line::new();
            line.number(id.0);
            line.word(b"INSERTED ");
            out.extend_from_slice(line.text());
        }
        (Asked::Put, Reply::Rejected(Rejection::Draining)) => {
            out.extend_from_slice(b"DRAINING\r\n");
        }
        (Asked::Put | Asked::Pause, Reply::Rejected(_)) => out.extend_from_slice(OUT_OF_MEMORY),
        (Asked::Reserve | Asked::ReserveJob, Reply::Job(job)) => {
            write_job(b"RESERVED ", job, out);
        }
        (Asked::Reserve, Reply::NoJob | Reply::Cancelled) => {
            out.extend_from_slice(b"TIMED_OUT\r\n");
        }
        (Asked::Reserve, Reply::LeaseEnding) => out.extend_from_slice(b"DEADLINE_SOON\r\n"),
        (Asked::Delete, Reply::Done) => out.extend_from_slice(b"DELETED\r\n"),
        (Asked::Touch, Reply::Done) => out.extend_from_slice(b"TOUCHED\r\n"),
        (Asked::Release, Reply::Done) => out.extend_from_slice(b"RELEASED\r\n"),
        (Asked::Bury, Reply::Done) => out.extend_from_slice(b"BURIED\r\n"),
        (Asked::Kick, Reply::Done) => out.extend_from_slice(b"KICKED\r\n"),
        (Asked::Pause, Reply::Done) => out.extend_from_slice(b"PAUSED\r\n"),
        (Asked::Peek, Reply::Peeked(info)) => write_job(b"FOUND ", &info.job, out),
        (Asked::JobStats, Reply::Consumer(ConsumerReply::Job(job))) => stats::write_job(job, out),
        (_, Reply::NoJob | Reply::Rejected(_) | Reply::Manage(ManageReply::Cancelled)) => {
            out.extend_from_slice(NOT_FOUND);
        }
        (_, other) => other.unexpected(),
    }
}

/// Bytes of a reply with a body besides that, at most.
const FIXED_PART: usize = 64;

/// Writes a job behind a word. A payload of another protocol is its text, that of a packet its
/// bytes without the key.
#[inline]
fn write_job<const N: usize>(word: &[u8; N], job: &JobView<'_>, out: &mut Vec<u8>) {
    let Payload { encoding, bytes } = job.payload;
    match encoding {
        Encoding::Bytes | Encoding::Json | Encoding::JsonLine => {
            write_body(word, job.id, bytes, out);
        }
        Encoding::Packet { key_len } => {
            write_body(word, job.id, &bytes[usize::from(key_len)..], out);
        }
        Encoding::MsgPack => {
            let mut text = Vec::new();
            push_json(&mut text, bytes);
            write_body(word, job.id, &text, out);
        }
    }
}

#[inline]
fn write_body<const N: usize>(word: &[u8; N], id: JobId, bytes: &[u8], out: &mut Vec<u8>) {
    let mut line = Line::new();
    line.number(bytes.len() as u64);
    line.word(b" ");
    line.number(id.0);
    line.word(word);
    out.reserve(FIXED_PART + bytes.len());
    out.extend_from_slice(line.text());
    out.extend_from_slice(bytes);
    out.extend_from_slice(b"\r\n");
}

/// The line of a reply, written from its end to its begin, so that it is copied once.
struct Line {
    bytes: [u8; FIXED_PART],
    begin: usize,
}

impl Line {
    /// The end of a line.
    #[inline]
    fn new() -> Self {
        let mut bytes = [0; FIXED_PART];
        let begin = FIXED_PART - 2;
        bytes[begin..].copy_from_slice(b"\r\n");
        Self { bytes, begin }
    }

    #[inline]
    fn word<const N: usize>(&mut self, word: &[u8; N]) {
        self.begin -= N;
        self.bytes[self.begin..][..N].copy_from_slice(word);
    }

    /// O(digits).
    #[inline]
    fn number(&mut self, mut number: u64) {
        while number >= 10_000 {
            let rest = (number % 10_000) as usize;
            let ([a, b], [c, d]) = (TWO_DIGITS[rest / 100], TWO_DIGITS[rest % 100]);
            self.word(&[a, b, c, d]);
            number /= 10_000;
        }
        if number >= 100 {
            self.word(&TWO_DIGITS[(number % 100) as usize]);
            number /= 100;
        }
        let [ten, one] = TWO_DIGITS[(number % 100) as usize];
        if number >= 10 {
            self.word(&[ten, one]);
        } else {
            self.word(&[one]);
        }
    }

    #[inline]
    fn text(&self) -> &[u8] {
        &self.bytes[self.begin..]
    }
}

/// The decimal digits of the numbers below 100.
const TWO_DIGITS: [[u8; 2]; 100] = {
    let mut digits = [[b'0'; 2]; 100];
    let mut number = 0;
    while number < 100 {
        #[expect(clippy::cast_possible_truncation, reason = "both are below 10")]
        let pair = [number as u8 / 10, number as u8 % 10];
        digits[number] = [b'0' + pair[0], b'0' + pair[1]];
        number += 1;
    }
    digits
};

/// Writes the reply with the tube that is used.
pub(super) fn write_using(tube: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(b"USING ");
    out.extend_from_slice(tube);
    out.extend_from_slice(b"\r\n");
}

/// Writes the reply with the number of tubes that are watched.
pub(super) fn write_watching(count: usize, out: &mut Vec<u8>) {
    out.extend_from_slice(b"WATCHING ");
    push_number(out, count);
    out.extend_from_slice(b"\r\n");
}

/// Writes a list of names.
pub(super) fn write_list(names: &StringList, out: &mut Vec<u8>) {
    let mut text = b"---\n".to_vec();
    for name in names {
        text.extend_from_slice(b"- ");
        text.extend_from_slice(name);
        text.push(b'\n');
    }
    out.extend_from_slice(&text_reply(&text));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_all_lengths_are_written() {
        let powers = (0..20).map(|digits| 10_u64.pow(digits));
        for number in powers.flat_map(|power| [power - 1, power, power + 1]).chain([u64::MAX]) {
            let mut line = Line::new();
            line.number(number);
            line.word(b" ");
            line.number(number);
            line.word(b"RESERVED ");
            assert_eq!(line.text(), format!("RESERVED {number} {number}\r\n").as_bytes());
        }
    }
}
