//! beanstalkd: text lines with counted bodies. Its small priorities are the urgent ones, and its
//! `put` goes to the tube that the connection uses at that moment.

use super::{Answer, Job, Parsed, Request, queue_index, split_line, unexpected};
use crate::cli::bench::content::{Content, parse_number};
use crate::wire::json::push_number;

/// Time to run, longer than a run of the benchmark reserves a job.
const TTR_SECONDS: u64 = 3600;

/// Commands that use the first tube and watch exactly the tubes of the run, and the number of their
/// replies.
pub(super) fn set_up_requests(names: &[String]) -> (Vec<u8>, usize) {
    let mut lines = vec![format!("use {}\r\n", names[0])];
    lines.extend(names.iter().map(|name| format!("watch {name}\r\n")));
    lines.push("ignore default\r\n".to_owned());
    (lines.concat().into_bytes(), lines.len())
}

pub(super) fn check_set_up(replies: &[u8]) -> Result<(), String> {
    let mut lines = replies.split(|&byte| byte == b'\n').filter(|line| !line.is_empty());
    match lines.find(|line| !(line.starts_with(b"USING ") || line.starts_with(b"WATCHING "))) {
        None => Ok(()),
        Some(line) => Err(format!(
            "this is no beanstalkd: it answered the set-up with {}",
            crate::cli::bench::job_tracker::quote(line)
        )),
    }
}

#[inline]
pub(super) fn write(
    request: &Request,
    names: &[String],
    content: &Content,
    tube: &mut u64,
    out: &mut Vec<u8>,
) {
    match *request {
        Request::Put { seq } => {
            let queue = content.queue(seq);
            if queue != *tube {
                *tube = queue;
                out.extend_from_slice(b"use ");
                out.extend_from_slice(names[queue_index(queue)].as_bytes());
                out.extend_from_slice(b"\r\n");
            }
            out.extend_from_slice(b"put ");
            push_number(out, u64::from(u32::MAX) - content.priority(seq));
            out.extend_from_slice(b" 0 ");
            push_number(out, TTR_SECONDS);
            out.push(b' ');
            push_number(out, content.size());
            out.extend_from_slice(b"\r\n");
            content.push(seq, out);
            out.extend_from_slice(b"\r\n");
        }
        Request::Get { wait: true, .. } => out.extend_from_slice(b"reserve\r\n"),
        Request::Get { .. } => out.extend_from_slice(b"reserve-with-timeout 0\r\n"),
        Request::Delete { id, .. } => {
            out.extend_from_slice(b"delete ");
            push_number(out, id);
            out.extend_from_slice(b"\r\n");
        }
    }
}

#[inline]
pub(super) fn parse<'a>(request: &Request, bytes: &'a [u8]) -> Parsed<'a> {
    let Some((used, line)) = split_line(bytes) else { return Ok(None) };
    let wrong = || unexpected(request, line);
    if let Some(rest) = line.strip_prefix(b"RESERVED ") {
        let (id, rest) = parse_number(rest).ok_or_else(wrong)?;
        let (length, rest) = rest.strip_prefix(b" ").and_then(parse_number).ok_or_else(wrong)?;
        let is_get = matches!(request, Request::Get { .. });
        let end = usize::try_from(length).ok().and_then(|length| used.checked_add(length));
        let (Some(end), true, true) = (end, rest.is_empty(), is_get) else { return Err(wrong()) };
        return match bytes.get(end..).and_then(|rest| rest.get(..2)) {
            None => Ok(None),
            Some(b"\r\n") => {
                let text = &bytes[used..end];
                let job = Job { id, text, priority: None, queue: None };
                Ok(Some((end + 2, Answer::Job(job))))
            }
            Some(_) => Err(wrong()),
        };
    }
    let answer = match (request, line) {
        (Request::Put { .. }, _) if line.starts_with(b"INSERTED ") => {
            let (id, rest) = parse_number(&line[b"INSERTED ".len()..]).ok_or_else(wrong)?;
            if !rest.is_empty() {
                return Err(wrong());
            }
            Answer::Put { id }
        }
        (Request::Put { .. }, _) if line.starts_with(b"USING ") => Answer::Unsolicited,
        (Request::Delete { .. }, b"DELETED") => Answer::Deleted,
        (Request::Get { .. }, b"TIMED_OUT") | (Request::Delete { .. }, b"NOT_FOUND") => {
            Answer::NoJob
        }
        _ => return Err(wrong()),
    };
    Ok(Some((used, answer)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::bench::protocols::tests::{DELETE, GET, PUT, parse_byte_by_byte};

    fn read(request: Request, reply: &str) -> String {
        parse_byte_by_byte(|bytes| parse(&request, bytes), reply.as_bytes())
    }

    #[test]
    fn incomplete_reply_is_not_parsed() {
        assert_eq!(read(PUT, "USING q1\r\n"), "Unsolicited");
        assert_eq!(read(PUT, "INSERTED 9\r\n"), "Put { id: 9 }");
        assert_eq!(read(DELETE, "DELETED\r\n"), "Deleted");
        assert_eq!(read(DELETE, "NOT_FOUND\r\n"), "NoJob");
        assert_eq!(read(GET, "TIMED_OUT\r\n"), "NoJob");
        let job = Job { id: 3, text: b"a\r\nb", priority: None, queue: None };
        assert_eq!(read(GET, "RESERVED 3 4\r\na\r\nb\r\n"), format!("{:?}", Answer::Job(job)));
    }

    #[test]
    fn unexpected_reply_is_an_error() {
        for (request, reply) in [
            (PUT, "DELETED\r\n"),
            (PUT, "INSERTED x\r\n"),
            (PUT, "OUT_OF_MEMORY\r\n"),
            (PUT, "RESERVED 3 4\r\naaaa\r\n"),
            (GET, "RESERVED 3 4\r\naaaaa\r\n"),
            (GET, "RESERVED 3 18446744073709551615\r\n"),
            (GET, "DEADLINE_SOON\r\n"),
        ] {
            assert!(parse(&request, reply.as_bytes()).is_err(), "{reply}");
        }
    }

    #[test]
    fn a_put_into_another_tube_says_so_first() {
        let content = Content::new(32, 1, 2, 1);
        let names = ["a0".to_owned(), "a1".to_owned()];
        let (mut out, mut tube) = (Vec::new(), 0);
        for request in [PUT, PUT, GET, DELETE] {
            write(&request, &names, &content, &mut tube, &mut out);
        }
        let text = String::from_utf8(out).unwrap();
        let lines: Vec<&str> = text.split("\r\n").collect();
        assert_eq!(lines[0], "use a1");
        assert_eq!((lines[1], lines[3]), ("put 4294967295 0 3600 32", lines[1]));
        assert_eq!((lines[2].len(), lines[4]), (32, lines[2]));
        assert_eq!(&lines[5..], ["reserve-with-timeout 0", "delete 5", ""]);
    }
}
