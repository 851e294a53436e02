//! Redis and Valkey: one Lua script per request over a sorted set for each queue, a hash of
//! payloads and a set of reserved ids.

use super::{Answer, Job, Parsed, Request, queue_index, split_line, unexpected};
use crate::cli::bench::content::{Content, parse_number};
use crate::wire::json::push_number;

/// KEYS: next id, payloads, queue. ARGV: priority, payload.
const PUT: &str = "local id = redis.call('INCR', KEYS[1]) \
    redis.call('HSET', KEYS[2], id, ARGV[2]) \
    redis.call('ZADD', KEYS[3], ARGV[1], id) \
    return id";

/// KEYS: reserved ids, payloads, queue.
const GET: &str = "local top = redis.call('ZPOPMAX', KEYS[3]) \
    if #top == 0 then return false end \
    redis.call('SADD', KEYS[1], top[1]) \
    return {top[1], top[2], redis.call('HGET', KEYS[2], top[1])}";

/// KEYS: reserved ids, payloads. ARGV: id.
const DELETE: &str = "redis.call('SREM', KEYS[1], ARGV[1]) \
    return redis.call('HDEL', KEYS[2], ARGV[1])";

/// The SHA-1 digests of the scripts, by which they are called.
const DIGESTS: [&str; 3] = [
    "eeabbe9900592952be450f5e2ac21b4dfafd9184",
    "9f1d4650fe9ef9bf00ef1afbdc865ca91ead6ba7",
    "33596fece2e4cf0d07e03e20e38dbd975616e89f",
];

/// The constant parts of commands.
#[derive(Debug)]
pub(super) struct RespCodec {
    put: Vec<Vec<u8>>,
    get: Vec<Vec<u8>>,
    delete: Vec<u8>,
}

impl RespCodec {
    pub(super) fn new(prefix: &str, names: &[String]) -> Self {
        let [ids, jobs, reserved] = ["ids", "jobs", "held"].map(|name| format!("{prefix}:{name}"));
        let put = |name: &String| {
            let mut out = Vec::new();
            push_words(&mut out, 8, &["EVALSHA", DIGESTS[0], "3", &ids, &jobs, name]);
            out
        };
        let get = |name: &String| {
            let mut out = Vec::new();
            push_words(&mut out, 6, &["EVALSHA", DIGESTS[1], "3", &reserved, &jobs, name]);
            out
        };
        let mut delete = Vec::new();
        push_words(&mut delete, 6, &["EVALSHA", DIGESTS[2], "2", &reserved, &jobs]);
        Self { put: names.iter().map(put).collect(), get: names.iter().map(get).collect(), delete }
    }

    #[inline]
    pub(super) fn write(&self, request: &Request, content: &Content, out: &mut Vec<u8>) {
        match *request {
            Request::Put { seq } => {
                out.extend_from_slice(&self.put[queue_index(content.queue(seq))]);
                push_number_word(out, content.priority(seq));
                out.push(b'$');
                push_number(out, content.size());
                out.extend_from_slice(b"\r\n");
                content.push(seq, out);
                out.extend_from_slice(b"\r\n");
            }
            Request::Get { queue, .. } => out.extend_from_slice(&self.get[queue_index(queue)]),
            Request::Delete { id, .. } => {
                out.extend_from_slice(&self.delete);
                push_number_word(out, id);
            }
        }
    }
}

/// Appends the start of a command of `count` words: the header and its first words.
fn push_words(out: &mut Vec<u8>, count: usize, words: &[&str]) {
    out.extend_from_slice(format!("*{count}\r\n").as_bytes());
    for word in words {
        out.extend_from_slice(format!("${}\r\n{word}\r\n", word.len()).as_bytes());
    }
}

#[inline]
fn push_number_word(out: &mut Vec<u8>, number: u64) {
    let mut buffer = itoa::Buffer::new();
    let digits = buffer.format(number);
    out.push(b'$');
    push_number(out, digits.len());
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(digits.as_bytes());
    out.extend_from_slice(b"\r\n");
}

/// The commands that load the scripts, and the number of lines in their replies.
pub(super) fn set_up_requests() -> (Vec<u8>, usize) {
    let mut request = Vec::new();
    for script in [PUT, GET, DELETE] {
        push_words(&mut request, 3, &["SCRIPT", "LOAD", script]);
    }
    (request, 2 * DIGESTS.len())
}

pub(super) fn check_set_up(replies: &[u8]) -> Result<(), String> {
    let expected = DIGESTS.map(|digest| format!("$40\r\n{digest}\r\n")).concat();
    if replies == expected.as_bytes() {
        return Ok(());
    }
    Err(format!(
        "this is no Redis: it answered SCRIPT LOAD with {}",
        crate::cli::bench::job_tracker::quote(replies)
    ))
}

#[inline]
pub(super) fn parse<'a>(request: &Request, bytes: &'a [u8]) -> Parsed<'a> {
    let Some((used, line)) = split_line(bytes) else { return Ok(None) };
    let wrong = || unexpected(request, line);
    let number = || line.strip_prefix(b":").and_then(parse_number).map(|(number, _)| number);
    match request {
        Request::Put { .. } => {
            let id = number().ok_or_else(wrong)?;
            Ok(Some((used, Answer::Put { id })))
        }
        Request::Delete { .. } => match number() {
            Some(1) => Ok(Some((used, Answer::Deleted))),
            Some(0) => Ok(Some((used, Answer::NoJob))),
            _ => Err(wrong()),
        },
        Request::Get { .. } => match line {
            b"$-1" | b"*-1" | b"_" => Ok(Some((used, Answer::NoJob))),
            b"*3" => parse_job(&bytes[used..])
                .map(|found| found.map(|(length, job)| (used + length, Answer::Job(job))))
                .ok_or_else(wrong),
            _ => Err(wrong()),
        },
    }
}

/// Parses id, priority and payload. Outer `None`: this is not a job; inner `None`: it is
/// incomplete.
#[inline]
#[expect(clippy::option_option, reason = "not yet and never are different things")]
fn parse_job(bytes: &[u8]) -> Option<Option<(usize, Job<'_>)>> {
    let mut used = 0;
    let mut words: [&[u8]; 3] = [b""; 3];
    for word in &mut words {
        let Some((header, line)) = split_line(&bytes[used..]) else { return Some(None) };
        let (length, _) = parse_number(line.strip_prefix(b"$")?)?;
        let start = used + header;
        let end = start.checked_add(usize::try_from(length).ok()?)?;
        if bytes.len() < end.checked_add(2)? {
            return Some(None);
        }
        *word = &bytes[start..end];
        used = end + 2;
    }
    let [id, priority, text] = words;
    let (id, _) = parse_number(id)?;
    let (priority, _) = parse_number(priority)?;
    Some(Some((used, Job { id, text, priority: Some(priority), queue: None })))
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
        assert_eq!(read(PUT, ":12\r\n"), "Put { id: 12 }");
        assert_eq!(read(DELETE, ":1\r\n"), "Deleted");
        assert_eq!(read(DELETE, ":0\r\n"), "NoJob");
        assert_eq!(read(GET, "$-1\r\n"), "NoJob");
        let job = Job { id: 12, text: b"\r\n", priority: Some(7), queue: None };
        let reply = "*3\r\n$2\r\n12\r\n$1\r\n7\r\n$2\r\n\r\n\r\n";
        assert_eq!(read(GET, reply), format!("{:?}", Answer::Job(job)));
    }

    #[test]
    fn unexpected_reply_is_an_error() {
        for (request, reply) in [
            (PUT, "-OOM command not allowed\r\n"),
            (PUT, "$2\r\n12\r\n"),
            (DELETE, ":2\r\n"),
            (GET, ":1\r\n"),
            (GET, "*3\r\n:1\r\n"),
            (GET, "*3\r\n$18446744073709551615\r\n"),
            (GET, "*3\r\n$1\r\nx\r\n$1\r\n7\r\n$1\r\nx\r\n"),
        ] {
            assert!(parse(&request, reply.as_bytes()).is_err(), "{reply}");
        }
    }

    #[test]
    fn command_header_has_the_number_of_words() {
        let content = Content::new(32, 1, 1, 1);
        let commands = RespCodec::new("p", &["p0".into()]);
        for (request, words) in [(PUT, 8), (GET, 6), (DELETE, 6)] {
            let mut out = Vec::new();
            commands.write(&request, &content, &mut out);
            let text = String::from_utf8(out).unwrap();
            assert!(text.starts_with(&format!("*{words}\r\n")) && text.ends_with("\r\n"));
            assert_eq!(text.matches("\r\n").count(), 1 + 2 * words, "{text}");
        }
    }
}
