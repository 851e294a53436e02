//! Jobq over HTTP/1.1, and `GET /health`, which is what HTTP costs without a job.
//!
//! Status, length and body of every answer are checked. A job must come back with the very payload
//! and state that it was put with, and under the id that was asked for; fields are read in the
//! order in which this project's server writes them.

use super::{Answer, BenchProtocol, Job, Parsed, Request, queue_index, unexpected};
use crate::cli::bench::content::{Content, parse_number};
use crate::cli::bench::job_tracker::quote;
use crate::cli::client_token::ClientToken;
use crate::wire::json::push_number;
use std::io::{Read, Write};

/// What follows the target of each request: the version, and the same fields.
fn fields(token: Option<&ClientToken>) -> String {
    let authorization = token.map(|token| format!("Authorization: {}\r\n", token.bearer()));
    format!(" HTTP/1.1\r\nHost: localhost\r\n{}", authorization.unwrap_or_default())
}

/// The body of a put, before and after the job's text. All jobs have the same state.
const BEFORE_PAYLOAD: &[u8] = b"{\"payload\":";
const AFTER_PAYLOAD: &[u8] = b",\"state\":[\"CREATED\"]}";

/// The parts of a response after the payload.
const EVENTS: &[u8] = b",\"events\":[[\"job_created\",{\"timestamp\":\"";
const STATE: &[u8] = b"\"}]],\"state\":[\"CREATED\"],\"modified\":";

/// More fields than a response head of the server has.
const FIELDS_MAX: usize = 16;

const OK: u16 = 200;
const CREATED: u16 = 201;
const CONFLICT: u16 = 409;

/// The constant parts of requests.
#[derive(Debug)]
pub(super) struct HttpCodec {
    post: Vec<Vec<u8>>,
    get: Vec<Vec<u8>>,
    fields: String,
}

impl HttpCodec {
    /// For jobs whose text has `size` bytes, in queues of these names.
    pub(super) fn new(names: &[String], size: usize, token: Option<&ClientToken>) -> Self {
        let fields = fields(token);
        let length = BEFORE_PAYLOAD.len() + size + AFTER_PAYLOAD.len();
        let post = |name: &String| {
            format!("POST /api/v0/queue/{name}/job{fields}Content-Length: {length}\r\n\r\n")
        };
        let get = |name: &String| format!("GET /api/v0/queue/{name}/job/");
        Self {
            post: names.iter().map(|name| post(name).into_bytes()).collect(),
            get: names.iter().map(|name| get(name).into_bytes()).collect(),
            fields,
        }
    }

    #[inline]
    pub(super) fn write(&self, request: &Request, content: &Content, out: &mut Vec<u8>) {
        match *request {
            Request::Put { seq } => {
                out.extend_from_slice(&self.post[queue_index(content.queue(seq))]);
                out.extend_from_slice(BEFORE_PAYLOAD);
                content.push(seq, out);
                out.extend_from_slice(AFTER_PAYLOAD);
            }
            Request::Get { queue, id, .. } => {
                out.extend_from_slice(&self.get[queue_index(queue)]);
                push_number(out, id);
                out.extend_from_slice(self.fields.as_bytes());
                out.extend_from_slice(b"\r\n");
            }
            Request::Delete { .. } => unreachable!("nothing is taken, so nothing is deleted"),
        }
    }

    /// Creates the queues that do not exist yet, blocking.
    pub(super) fn set_up(
        &self,
        stream: &mut (impl Read + Write),
        names: &[String],
    ) -> Result<(), String> {
        let fields = &self.fields;
        let error = |cause| format!("the server did not answer the set-up: {cause}");
        let mut scratch = [0; 4096];
        let mut received = Vec::new();
        for name in names {
            let body = format!("{{\"id\":\"{name}\"}}");
            let length = body.len();
            let head = format!("POST /api/v0/queue{fields}Content-Length: {length}\r\n\r\n");
            stream.write_all(format!("{head}{body}").as_bytes()).map_err(error)?;
            let (used, status) = loop {
                let answer = parse_response(&received);
                let answer = answer.map_err(|why| BenchProtocol::Jobq.explain(why, &received))?;
                if let Some((used, status, _)) = answer {
                    break (used, status);
                }
                match stream.read(&mut scratch).map_err(error)? {
                    0 => return Err("the server closed a connection during the set-up".to_owned()),
                    count => received.extend_from_slice(&scratch[..count]),
                }
            };
            if !matches!(status, CREATED | CONFLICT) {
                let answer = quote(&received);
                return Err(format!("the server does not make the queue {name}: {answer}"));
            }
            received.drain(..used);
        }
        Ok(())
    }
}

/// The request of the protocol health.
pub(super) fn health(token: Option<&ClientToken>) -> Vec<u8> {
    format!("GET /health{}\r\n", fields(token)).into_bytes()
}

/// Parses the response to `GET /health`.
#[inline]
pub(super) fn parse_health<'a>(request: &Request, bytes: &'a [u8]) -> Parsed<'a> {
    let Some((used, status, body)) = parse_response(bytes)? else { return Ok(None) };
    let version = body.strip_prefix(b"{\"status\":\"ok\",\"version\":\"");
    let version = version.and_then(|rest| rest.strip_suffix(b"\"}"));
    match (status, version) {
        (OK, Some(version)) if !version.contains(&b'"') => Ok(Some((used, Answer::Echo))),
        _ => Err(unexpected(request, &bytes[..used])),
    }
}

/// Parses the response to a put or a get: the job in both cases.
#[inline]
pub(super) fn parse<'a>(request: &Request, content: &Content, bytes: &'a [u8]) -> Parsed<'a> {
    let Some((used, status, body)) = parse_response(bytes)? else { return Ok(None) };
    let wrong = || unexpected(request, &bytes[..used]);
    if status != OK {
        return Err(wrong());
    }
    let (id, text) = parse_job(body, content.size()).ok_or_else(wrong)?;
    match *request {
        Request::Put { seq } if content.recognise(text) == Some(seq) => {
            Ok(Some((used, Answer::Put { id })))
        }
        Request::Get { id: wanted, .. } if id == wanted => {
            Ok(Some((used, Answer::Job(Job { id, text, priority: None, queue: None }))))
        }
        _ => Err(wrong()),
    }
}

/// Id and payload of a job without further events.
#[inline]
fn parse_job(body: &[u8], size: usize) -> Option<(u64, &[u8])> {
    let (id, rest) = parse_number(body.strip_prefix(b"{\"id\":")?)?;
    let (text, rest) = rest.strip_prefix(b",\"payload\":")?.split_at_checked(size)?;
    let (_, rest) = parse_number(rest.strip_prefix(EVENTS)?)?;
    let (_, rest) = parse_number(rest.strip_prefix(STATE)?)?;
    (rest == b"}").then_some((id, text))
}

/// A response: length, status, and body without its line end.
type Response<'a> = (usize, u16, &'a [u8]);

/// Parses a response at the front. `None`: it is incomplete.
#[inline]
fn parse_response(bytes: &[u8]) -> Result<Option<Response<'_>>, String> {
    let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
    let mut head = httparse::Response::new(&mut fields);
    let wrong = |why: &str| format!("the server's answer is no HTTP ({why}): {}", quote(bytes));
    let start = match head.parse(bytes).map_err(|error| wrong(&error.to_string()))? {
        httparse::Status::Complete(length) => length,
        httparse::Status::Partial => return Ok(None),
    };
    let mut lengths =
        head.headers.iter().filter(|field| field.name.eq_ignore_ascii_case("Content-Length"));
    let length = lengths.next().and_then(|field| parse_number(field.value));
    let length = length.filter(|(_, rest)| rest.is_empty()).and_then(|(n, _)| n.try_into().ok());
    let length: usize = length.ok_or_else(|| wrong("no length"))?;
    let end = start.checked_add(length).ok_or_else(|| wrong("its length"))?;
    let status = head.code.ok_or_else(|| wrong("no status"))?;
    let body = bytes.get(start..end).map(|body| body.strip_suffix(b"\n").unwrap_or(body));
    Ok(body.map(|body| (end, status, body)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::bench::protocols::tests::parse_byte_by_byte;

    const PUT: Request = Request::Put { seq: 1 };
    const GET: Request = Request::Get { queue: 0, seq: 1, id: 12, wait: false };

    fn content() -> Content {
        Content::new(32, 1, 2, 1)
    }

    fn text(seq: u64) -> String {
        let mut text = Vec::new();
        content().push(seq, &mut text);
        String::from_utf8(text).unwrap()
    }

    fn reply(status: &str, body: &str) -> String {
        let body = format!("{body}\n");
        let length = body.len();
        let fields = format!("Date: now\r\ncontent-length: {length}");
        format!("HTTP/1.1 {status}\r\n{fields}\r\n\r\n{body}")
    }

    fn job(id: u64, text: &str) -> String {
        format!(
            "{{\"id\":{id},\"payload\":{text},\
             \"events\":[[\"job_created\",{{\"timestamp\":\"17\"}}]],\
             \"state\":[\"CREATED\"],\"modified\":17}}"
        )
    }

    #[test]
    fn incomplete_reply_is_not_parsed() {
        let read = |request: Request, reply: &str| {
            parse_byte_by_byte(|bytes| parse(&request, &content(), bytes), reply.as_bytes())
        };
        let text = text(1);
        let reply_of_job = reply("200 OK", &job(12, &text));
        assert_eq!(read(PUT, &reply_of_job), "Put { id: 12 }");
        let job = Job { id: 12, text: text.as_bytes(), priority: None, queue: None };
        assert_eq!(read(GET, &reply_of_job), format!("{:?}", Answer::Job(job)));
        let health = reply("200 OK", "{\"status\":\"ok\",\"version\":\"1.2\"}");
        let read = parse_byte_by_byte(|bytes| parse_health(&PUT, bytes), health.as_bytes());
        assert_eq!(read, "Echo");
    }

    #[test]
    fn unexpected_reply_is_an_error() {
        let right = job(12, &text(1));
        for (request, reply) in [
            (PUT, reply("404 Not Found", &right)),
            (PUT, reply("200 OK", &job(12, &text(2)))),
            (GET, reply("200 OK", &job(13, &text(1)))),
            (GET, reply("200 OK", &right.replace("CREATED", "DONE"))),
            (GET, reply("200 OK", &right.replace("job_created", "user_event"))),
            (GET, reply("200 OK", "{}")),
            (GET, reply("200 OK", &right).replace("content-length", "x")),
            (GET, "HTP".to_owned()),
        ] {
            assert!(parse(&request, &content(), reply.as_bytes()).is_err(), "{reply}");
        }
        for reply in [
            reply("503 No", "{\"status\":\"ok\",\"version\":\"1\"}"),
            reply("200 OK", "{\"status\":\"bad\",\"version\":\"1\"}"),
            reply("200 OK", "{\"status\":\"ok\",\"version\":\"1\",\"x\":\"1\"}"),
        ] {
            assert!(parse_health(&PUT, reply.as_bytes()).is_err(), "{reply}");
        }
    }

    #[test]
    fn requests_are_http() {
        let heads = HttpCodec::new(&["a0".into(), "a1".into()], content().size(), None);
        let written = |request| {
            let mut out = Vec::new();
            heads.write(&request, &content(), &mut out);
            String::from_utf8(out).unwrap()
        };
        let post = written(PUT);
        let (head, body) = post.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("POST /api/v0/queue/a1/job HTTP/1.1\r\nHost: "), "{head}");
        assert!(head.ends_with(&format!("\r\nContent-Length: {}", body.len())), "{head}");
        assert_eq!(body, format!("{{\"payload\":{},\"state\":[\"CREATED\"]}}", text(1)));
        let get = written(GET);
        assert!(get.starts_with("GET /api/v0/queue/a0/job/12 HTTP/1.1\r\nHost: "), "{get}");
        assert!(get.ends_with("\r\n\r\n"), "{get}");
    }
}
