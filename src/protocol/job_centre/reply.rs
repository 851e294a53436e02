//! From replies to lines.

use super::request::RequestError;
use crate::access::Denial;
use crate::model::job::{Encoding, Priority};
use crate::model::manage::ManageReply;
use crate::model::reply::{JobView, Rejection, Reply};
use crate::protocol::Closing;
use crate::protocol::operations::{
    Problem, ProblemKind, write_line_problem, write_puts, write_rejected,
};
use crate::wire::json::{push_bytes, push_number, push_packet, push_string};
use crate::wire::msgpack::push_json;
use memchr::memchr;
use std::fmt::Display;

/// Writes the reply line; nothing for a reserve that was cancelled.
#[inline]
pub(super) fn write(reply: &Reply<'_>, out: &mut Vec<u8>) {
    match reply {
        Reply::Cancelled => {}
        Reply::Done => out.extend_from_slice(b"{\"status\":\"ok\"}\n"),
        Reply::Job(job) => write_job(job, out),
        // Of a touch.
        Reply::Manage(ManageReply::Cancelled) => {
            out.extend_from_slice(b"{\"status\":\"ok\",\"cancelled\":true}\n");
        }
        // Of a put of the native API.
        Reply::Manage(ManageReply::Puts(outcomes)) => write_puts(outcomes, out),
        Reply::Manage(ManageReply::Rejected(rejection)) => write_rejected(*rejection, out),
        Reply::NoJob => out.extend_from_slice(b"{\"status\":\"no-job\"}\n"),
        Reply::Put(id) => {
            out.extend_from_slice(b"{\"status\":\"ok\",\"id\":");
            push_number(out, id.0);
            out.extend_from_slice(b"}\n");
        }
        Reply::Rejected(refusal) => write_refusal(*refusal, out),
        other => other.unexpected(),
    }
}

/// Bytes of a job reply besides payload and queue name, at most.
const FIXED_PART: usize = 128;

#[inline]
fn write_job(job: &JobView<'_>, out: &mut Vec<u8>) {
    // One capacity check instead of one per piece: the fixed text and two numbers fit.
    out.reserve(FIXED_PART + job.payload.bytes.len() + job.queue.len());
    out.extend_from_slice(b"{\"status\":\"ok\",\"id\":");
    push_number(out, job.id.0);
    out.extend_from_slice(b",\"job\":");
    match job.payload.encoding {
        Encoding::Json => push_in_line(job.payload.bytes, out),
        Encoding::JsonLine => out.extend_from_slice(job.payload.bytes),
        Encoding::MsgPack => push_json(out, job.payload.bytes),
        Encoding::Packet { key_len } => push_packet(out, key_len, job.payload.bytes),
        Encoding::Bytes => push_bytes(out, job.payload.bytes),
    }
    out.extend_from_slice(b",\"pri\":");
    match job.priority {
        Priority::Small(number) => push_number(out, number),
        Priority::Big(digits) => out.extend_from_slice(digits.as_bytes()),
        Priority::Unselected => unreachable!("no take selects a job without priority"),
    }
    out.extend_from_slice(b",\"queue\":");
    push_string(out, job.queue);
    out.extend_from_slice(b"}\n");
}

/// Writes JSON in which other protocols may have left line ends between tokens, with spaces for
/// them: a line is a message here.
#[inline]
fn push_in_line(mut text: &[u8], out: &mut Vec<u8>) {
    while let Some(end) = memchr(b'\n', text) {
        out.extend_from_slice(&text[..end]);
        out.push(b' ');
        text = &text[end + 1..];
    }
    out.extend_from_slice(text);
}

#[cold]
fn write_refusal(refusal: Rejection, out: &mut Vec<u8>) {
    match refusal {
        Rejection::Full => write_error(&"the server has no place left for another job", out),
        Rejection::DiskFull => write_error(
            &"the server's disk is full, or with --engine its Redis: no job and no result can be \
              kept until jobs are deleted or space is made",
            out,
        ),
        Rejection::MemoryFull => write_error(
            &"the server's jobs take as much memory as it may use (--max-memory): no job can be \
              put until jobs are deleted",
            out,
        ),
        Rejection::Draining => write_error(
            &"the server is being drained: it takes no new jobs until drain mode ends",
            out,
        ),
        Rejection::ReservedByAnother(id) => write_error(
            &format_args!("field 'id': job {} is being worked on by another client", id.0),
            out,
        ),
        Rejection::NotReserved(id) => {
            write_error(&format_args!("field 'id': job {} is not reserved", id.0), out);
        }
        Rejection::LeaseExpired(id) => write_error(
            &format_args!("field 'id': the lease of job {} is over, it was handed out again", id.0),
            out,
        ),
        Rejection::NotBuried(id) => {
            write_error(&format_args!("field 'id': job {} is not buried", id.0), out);
        }
        other @ (Rejection::NameTaken(_)
        | Rejection::UnknownJob(_)
        | Rejection::ReplaceAfter(_)
        | Rejection::ReplaceInGroup(_)) => Reply::Rejected(other).unexpected(),
    }
}

/// An error of the protocol's own requests, which has no kind.
#[cold]
fn write_error(error: &dyn Display, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"status\":\"error\",\"error\":");
    push_string(out, error.to_string().as_bytes());
    out.extend_from_slice(b"}\n");
}

/// What is wrong with a line. Beyond the protocol's own requests it has a kind.
#[cold]
pub(super) fn write_request_error(error: &RequestError, out: &mut Vec<u8>) {
    match error {
        RequestError::Problem(problem) => write_line_problem(problem, out),
        RequestError::Denied(kind, why) => write_line_problem(&Problem::new(*kind, &**why), out),
        error => write_error(error, out),
    }
}

/// Why a request is not executed.
#[cold]
pub(super) fn write_denial(denial: &Denial, out: &mut Vec<u8>) {
    let kind = match denial {
        Denial::Unauthenticated => ProblemKind::Unauthorized,
        Denial::Changed | Denial::OfJob { .. } | Denial::Missing { .. } => ProblemKind::Forbidden,
        Denial::Unavailable(_) => ProblemKind::Unavailable,
    };
    write_line_problem(&Problem::new(kind, denial.to_string()), out);
}

/// Writes the error line before a connection is closed.
pub(in crate::protocol) fn write_closing(why: Closing<'_>, out: &mut Vec<u8>) {
    match why {
        Closing::Memory(why) => write_error(&why, out),
        Closing::Denied(denial) => write_denial(denial, out),
    }
}

/// Writes the error line for a connection beyond `--max-clients`.
pub(in crate::protocol) fn write_full(max_clients: usize, out: &mut Vec<u8>) {
    write_error(
        &format_args!(
            "the server already serves {max_clients} clients (--max-clients): try again later"
        ),
        out,
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::id::JobId;
    use crate::model::job::{LeaseEpoch, Payload};

    fn line(encoding: Encoding, bytes: &[u8]) -> String {
        let payload = Payload { encoding, bytes };
        let priority = Priority::Small(-7);
        let view = JobView {
            id: JobId(5),
            queue: b"q\n\"",
            priority,
            payload,
            lease: LeaseEpoch(0),
            named: false,
        };
        let mut out = Vec::new();
        write(&Reply::Job(view), &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn line_ends_from_other_protocols_become_spaces() {
        let line = line(Encoding::Json, b"{\n \"a\":\n1\n}");
        let expected = r#"{"status":"ok","id":5,"job":{  "a": 1 },"pri":-7,"queue":"q\n\""}"#;
        assert_eq!(line.strip_suffix('\n'), Some(expected));
    }

    #[test]
    fn messagepack_from_other_protocols_becomes_json() {
        for (bytes, shown) in [
            (&b"\x82\xa1a\xa1\n\x01\xc4\x01\xff"[..], r#"{"a":"\n","1":"/w=="}"#),
            (b"\xc0", "null"),
            // A payload that was never validated: still one line.
            (b"\xc1\n", "\"wQo=\""),
        ] {
            let expected =
                format!(r#"{{"status":"ok","id":5,"job":{shown},"pri":-7,"queue":"q\n\""}}"#);
            let line = line(Encoding::MsgPack, bytes);
            assert_eq!(line.strip_suffix('\n'), Some(&expected[..]));
        }
    }
}
