//! Job Centre: JSON lines.

use super::{Answer, Job, Parsed, Request, queue_index, split_line, unexpected};
use crate::cli::bench::content::{Content, parse_number};
use crate::wire::json::push_number;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::borrow::Cow;

/// The constant parts of lines.
#[derive(Debug)]
pub(super) struct JobCentreCodec {
    put: Vec<Vec<u8>>,
    get: Vec<Vec<u8>>,
}

impl JobCentreCodec {
    pub(super) fn new(names: &[String]) -> Self {
        let put = |name: &String| format!("{{\"request\":\"put\",\"queue\":\"{name}\",\"job\":");
        let get = |name: &String| format!("{{\"request\":\"get\",\"queues\":[\"{name}\"]");
        Self {
            put: names.iter().map(|name| put(name).into_bytes()).collect(),
            get: names.iter().map(|name| get(name).into_bytes()).collect(),
        }
    }

    #[inline]
    pub(super) fn write(&self, request: &Request, content: &Content, out: &mut Vec<u8>) {
        match *request {
            Request::Put { seq } => {
                out.extend_from_slice(&self.put[queue_index(content.queue(seq))]);
                content.push(seq, out);
                out.extend_from_slice(b",\"pri\":");
                push_number(out, content.priority(seq));
                out.extend_from_slice(b"}\n");
            }
            Request::Get { queue, wait, .. } => {
                out.extend_from_slice(&self.get[queue_index(queue)]);
                let end: &[u8] = if wait { b",\"wait\":true}\n" } else { b"}\n" };
                out.extend_from_slice(end);
            }
            Request::Delete { id, .. } => {
                out.extend_from_slice(b"{\"request\":\"delete\",\"id\":");
                push_number(out, id);
                out.extend_from_slice(b"}\n");
            }
        }
    }
}

/// Parses a reply. Lines in the form that this project's server writes are parsed without a JSON
/// parser, others with one.
#[inline]
pub(super) fn parse<'a>(request: &Request, size: usize, bytes: &'a [u8]) -> Parsed<'a> {
    let Some((used, line)) = split_line(bytes) else { return Ok(None) };
    let answer = match parse_expected_form(line, size) {
        Some(answer) => answer,
        None => parse_any_json(line).ok_or_else(|| unexpected(request, line))?,
    };
    match (request, answer) {
        (Request::Put { .. }, Answer::Put { .. })
        | (Request::Get { .. }, Answer::Job(_) | Answer::NoJob)
        | (Request::Delete { .. }, Answer::Deleted | Answer::NoJob) => Ok(Some((used, answer))),
        _ => Err(unexpected(request, line)),
    }
}

#[inline]
fn parse_expected_form(line: &[u8], size: usize) -> Option<Answer<'_>> {
    let rest = line.strip_prefix(b"{\"status\":\"ok\"")?;
    if rest == b"}" {
        return Some(Answer::Deleted);
    }
    let (id, rest) = parse_number(rest.strip_prefix(b",\"id\":")?)?;
    if rest == b"}" {
        return Some(Answer::Put { id });
    }
    let rest = rest.strip_prefix(b",\"job\":")?;
    let (text, rest) = rest.split_at_checked(size)?;
    let (priority, rest) = parse_number(rest.strip_prefix(b",\"pri\":")?)?;
    let queue = rest.strip_prefix(b",\"queue\":\"")?.strip_suffix(b"\"}")?;
    if memchr::memchr2(b'"', b'\\', queue).is_some() {
        return None;
    }
    Some(Answer::Job(Job { id, text, priority: Some(priority), queue: Some(queue) }))
}

#[derive(Deserialize)]
struct Reply<'a> {
    #[serde(borrow)]
    status: Cow<'a, str>,
    id: Option<u64>,
    #[serde(borrow)]
    job: Option<&'a RawValue>,
    pri: Option<u64>,
    #[serde(borrow)]
    queue: Option<&'a RawValue>,
}

#[cold]
fn parse_any_json(line: &[u8]) -> Option<Answer<'_>> {
    let reply: Reply<'_> = serde_json::from_slice(line).ok()?;
    match (&*reply.status, reply.id, reply.job) {
        ("no-job", _, _) => Some(Answer::NoJob),
        ("ok", None, None) => Some(Answer::Deleted),
        ("ok", Some(id), None) => Some(Answer::Put { id }),
        ("ok", Some(id), Some(job)) => {
            // The names of this run need no escapes, so a name with escapes is a wrong queue.
            let queue = reply.queue?.get().strip_prefix('"')?.strip_suffix('"')?.as_bytes();
            let text = job.get().as_bytes();
            Some(Answer::Job(Job { id, text, priority: Some(reply.pri?), queue: Some(queue) }))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::bench::protocols::tests::{DELETE, GET, PUT, parse_byte_by_byte};

    fn read(request: Request, reply: &str) -> String {
        parse_byte_by_byte(|bytes| parse(&request, 7, bytes), reply.as_bytes())
    }

    fn job(id: u64, text: &str, priority: u64, queue: &str) -> String {
        let (text, queue) = (text.as_bytes(), Some(queue.as_bytes()));
        format!("{:?}", Answer::Job(Job { id, text, priority: Some(priority), queue }))
    }

    #[test]
    fn incomplete_reply_is_not_parsed() {
        assert_eq!(read(PUT, "{\"status\":\"ok\",\"id\":12}\n"), "Put { id: 12 }");
        assert_eq!(read(DELETE, "{\"status\":\"ok\"}\n"), "Deleted");
        assert_eq!(read(GET, "{\"status\":\"no-job\"}\n"), "NoJob");
        let reply = "{\"status\":\"ok\",\"id\":12,\"job\":{\"n\":1},\"pri\":3,\"queue\":\"q0\"}\n";
        assert_eq!(read(GET, reply), job(12, "{\"n\":1}", 3, "q0"));
    }

    #[test]
    fn other_json_forms_are_parsed() {
        let reply =
            "{ \"queue\":\"q\", \"pri\":0, \"job\":{\"nn\" : 2}, \"id\":1, \"status\":\"ok\" }\n";
        assert_eq!(read(GET, reply), job(1, "{\"nn\" : 2}", 0, "q"));
        assert_eq!(read(PUT, "{\"id\":3,\"status\":\"\\u006fk\"}\r\n"), "Put { id: 3 }");
    }

    #[test]
    fn reply_to_another_request_is_an_error() {
        for (request, reply) in [
            (PUT, "{\"status\":\"ok\"}\n"),
            (PUT, "{\"status\":\"no-job\"}\n"),
            (GET, "{\"status\":\"ok\",\"id\":12}\n"),
            (DELETE, "{\"status\":\"ok\",\"id\":12}\n"),
            (GET, "{\"status\":\"ok\",\"id\":1,\"job\":{\"n\":1},\"pri\":-3,\"queue\":\"q0\"}\n"),
            (PUT, "{\"status\":\"error\",\"error\":\"full\"}\n"),
            (GET, "hello\n"),
            (GET, "\n"),
        ] {
            let error = parse(&request, 7, reply.as_bytes()).unwrap_err();
            assert!(error.contains("the server answered a "), "{error}");
        }
    }

    #[test]
    fn requests_follow_the_protocol() {
        let content = Content::new(32, 1, 2, 1);
        let lines = JobCentreCodec::new(&["a0".into(), "a1".into()]);
        let mut out = Vec::new();
        let requests = [PUT, Request::Get { queue: 1, seq: 0, id: 0, wait: true }, GET, DELETE];
        for request in requests {
            lines.write(&request, &content, &mut out);
        }
        let text = String::from_utf8(out).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        let start = "{\"request\":\"put\",\"queue\":\"a1\",\"job\":{\"n\":1,\"data\":\"";
        assert!(lines[0].starts_with(start) && lines[0].ends_with("\"},\"pri\":0}"), "{text}");
        assert_eq!(lines[1], "{\"request\":\"get\",\"queues\":[\"a1\"],\"wait\":true}");
        assert_eq!(lines[2], "{\"request\":\"get\",\"queues\":[\"a0\"]}");
        assert_eq!(lines[3], "{\"request\":\"delete\",\"id\":5}");
    }
}
