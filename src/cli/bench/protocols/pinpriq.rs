//! The networked priority queue: binary requests with their lengths in front.
//!
//! A push has no reply; to count it as done when it is sent would measure the generator's own
//! writes. But a server executes the requests of a connection in order, so a reply to a later
//! request confirms the pushes before it. If no other request follows a push, a pop of a queue that
//! is always empty does: its reply is a receipt of two bytes. One confirms all pushes that were
//! written together, so with many in flight it costs little, and with one in flight the server does
//! two requests for each put. The time of a put runs until it is confirmed; receipts are not
//! counted as requests.
//!
//! The key of a packet is the number of its job, so each packet is a key group of its own. A pop
//! deletes: there is no delete request. A waiting worker subscribes once, and gives a credit for
//! each job. Nothing expires.

use super::{Answer, Job, Parsed, Request, queue_index, unexpected};
use crate::cli::bench::content::Content;
use crate::wire::packets;

/// Priorities from 1, the most urgent, to 255; one of 0 is never selected.
pub(super) const PRIORITIES_MAX: u64 = u8::MAX as u64;

/// Payloads have a length of 16 bits.
pub(super) const PAYLOAD_MAX_BYTES: usize = u16::MAX as usize;

/// Packets do not expire.
const TTL_MS: u16 = 0;

/// Bytes of a key: the number of its job.
const KEY_BYTES: u16 = 8;

/// A reply starts with the number of packets, a packet with two lengths.
const COUNT_BYTES: usize = 2;
const LENGTHS_BYTES: usize = 4;

/// The request that is answered as soon as everything before it is done.
pub(super) fn receipt(prefix: &str) -> Vec<u8> {
    // The queues of jobs are called the prefix and a number.
    let queue = format!("{prefix}receipts").into_bytes();
    let mut out = Vec::new();
    packets::push_request(&mut out, &packets::Request::Pop { queue: &queue });
    out
}

/// Writes a request. `subscribed` is the number of the connection's queue, counted from 1.
#[inline]
pub(super) fn write(
    request: &Request,
    names: &[String],
    content: &Content,
    subscribed: &mut u64,
    out: &mut Vec<u8>,
) {
    match *request {
        Request::Put { seq } => {
            let name = names[queue_index(content.queue(seq))].as_bytes();
            packets::begin_push(out, to_u16(name.len()), TTL_MS, priority(content, seq));
            packets::begin_packet(out, KEY_BYTES, to_u16(content.size()));
            out.extend_from_slice(&seq.to_be_bytes());
            content.push(seq, out);
            out.extend_from_slice(name);
        }
        Request::Get { queue, wait: false, .. } => {
            let queue = names[queue_index(queue)].as_bytes();
            packets::push_request(out, &packets::Request::Pop { queue });
        }
        Request::Get { queue: number, wait: true, .. } => {
            if *subscribed == 0 {
                *subscribed = number + 1;
                let queue = names[queue_index(number)].as_bytes();
                packets::push_request(out, &packets::Request::Subscribe { queue });
            }
            assert!(*subscribed == number + 1, "a worker waits for one queue");
            packets::push_request(out, &packets::Request::Ready);
        }
        Request::Delete { .. } => unreachable!("a delivery deletes"),
    }
}

/// For the generator a high priority is urgent, in this protocol a low one.
#[inline]
fn priority(content: &Content, seq: u64) -> u8 {
    // Proof: there are at most as many priorities as there is room for.
    u8::try_from(PRIORITIES_MAX - content.priority(seq)).expect("the arguments are checked")
}

#[inline]
fn to_u16(length: usize) -> u16 {
    // Proof: names and jobs that are longer are not accepted.
    u16::try_from(length).expect("the arguments are checked")
}

/// Parses the reply to a pop, a delivery, or the confirmation of a push.
#[inline]
pub(super) fn parse<'a>(request: &Request, receipt: bool, bytes: &'a [u8]) -> Parsed<'a> {
    if let (Request::Put { seq }, false) = (request, receipt) {
        // The reply to a later request has begun.
        return Ok((!bytes.is_empty()).then_some((0, Answer::Put { id: *seq })));
    }
    let Some(count) = number(bytes, 0) else { return Ok(None) };
    match (request, count) {
        (Request::Put { seq }, 0) => Ok(Some((COUNT_BYTES, Answer::Put { id: *seq }))),
        (Request::Get { wait: false, .. }, 0) => Ok(Some((COUNT_BYTES, Answer::NoJob))),
        (Request::Get { .. }, 1) => parse_job(request, bytes),
        _ => Err(unexpected(request, bytes)),
    }
}

/// Parses the only packet of a reply.
#[inline]
fn parse_job<'a>(request: &Request, bytes: &'a [u8]) -> Parsed<'a> {
    let key_len = number(bytes, COUNT_BYTES);
    let (Some(key_len), Some(payload_len)) = (key_len, number(bytes, COUNT_BYTES + 2)) else {
        return Ok(None);
    };
    let end = COUNT_BYTES + LENGTHS_BYTES + key_len + payload_len;
    let Some(packet) = bytes.get(COUNT_BYTES + LENGTHS_BYTES..end) else { return Ok(None) };
    let (key, text) = packet.split_at(key_len);
    let Ok(key) = key.try_into() else { return Err(unexpected(request, &bytes[..end])) };
    let id = u64::from_be_bytes(key);
    Ok(Some((end, Answer::Job(Job { id, text, priority: None, queue: None }))))
}

/// The two bytes at offset `at`, if they are there.
#[inline]
fn number(bytes: &[u8], at: usize) -> Option<usize> {
    bytes.get(at..)?.first_chunk().map(|pair| usize::from(u16::from_be_bytes(*pair)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::bench::protocols::tests::{GET, PUT, parse_byte_by_byte};

    const WAIT: Request = Request::Get { queue: 1, seq: 0, id: 0, wait: true };

    fn read(request: Request, reply: &[u8]) -> String {
        parse_byte_by_byte(|bytes| parse(&request, true, bytes), reply)
    }

    #[test]
    fn incomplete_reply_is_not_parsed() {
        assert_eq!(read(PUT, b"\0\0"), "Put { id: 1 }");
        assert_eq!(read(GET, b"\0\0"), "NoJob");
        let job = Job { id: 258, text: b"abc", priority: None, queue: None };
        let reply = b"\0\x01\0\x08\0\x03\0\0\0\0\0\0\x01\x02abc";
        assert_eq!(read(GET, reply), format!("{:?}", Answer::Job(job)));
        assert_eq!(read(WAIT, reply), format!("{:?}", Answer::Job(job)));
    }

    #[test]
    fn later_reply_confirms_a_push_without_receipt() {
        assert_eq!(parse(&PUT, false, b""), Ok(None));
        assert_eq!(parse(&PUT, false, b"\0"), Ok(Some((0, Answer::Put { id: 1 }))));
        assert_eq!(parse(&PUT, false, b"\0\x01\0"), Ok(Some((0, Answer::Put { id: 1 }))));
    }

    #[test]
    fn unexpected_reply_is_an_error() {
        for (request, reply) in [
            (PUT, &b"\0\x01"[..]),
            (GET, b"\0\x02"),
            (WAIT, b"\0\0"),
            (GET, b"\0\x01\0\0\0\x01a"),
            (GET, b"\0\x01\0\x09\0\0ninebytes"),
        ] {
            let error = parse(&request, true, reply).unwrap_err();
            assert!(error.contains("the server answered a "), "{error}");
        }
    }

    #[test]
    fn requests_follow_the_protocol() {
        let content = Content::new(32, 255, 2, 1);
        let names = ["a0".to_owned(), "a1".to_owned()];
        let write = |request: &Request, subscribed: &mut u64| {
            let mut out = Vec::new();
            write(request, &names, &content, subscribed, &mut out);
            out
        };
        let push = write(&PUT, &mut 0);
        let mut job = Vec::new();
        content.push(1, &mut job);
        let priority = u8::try_from(255 - content.priority(1)).unwrap();
        let head = [b"\x70\0\x02\0\0", &[priority][..], b"\0\x08\0\x20\0\0\0\0\0\0\0\x01"].concat();
        assert_eq!(push, [&head, &job[..], b"a1"].concat());
        assert_eq!(write(&GET, &mut 0), b"\x50\0\x02a0");
        let mut subscribed = 0;
        assert_eq!(write(&WAIT, &mut subscribed), b"\x73\0\x02a1\x41");
        assert_eq!(write(&WAIT, &mut subscribed), b"\x41", "it has subscribed");
        assert_eq!(receipt("a"), b"\x50\0\x09areceipts");
    }

    #[test]
    fn all_priorities_but_the_unselected_one_are_used() {
        let content = Content::new(32, PRIORITIES_MAX, 1, 1);
        let mut used: Vec<u8> = (0..10_000).map(|seq| priority(&content, seq)).collect();
        used.sort_unstable();
        used.dedup();
        assert_eq!(used, (1..=255).collect::<Vec<u8>>());
    }
}
