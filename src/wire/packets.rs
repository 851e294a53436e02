//! Framing by lengths that stand in front: binary requests, and packets of a key and a payload.
//! Integers are unsigned, big endian.
//!
//! ```text
//! packet       key length u16, payload length u16, key, payload
//! push         0x70, name length u16, TTL in ms u16, priority u8, packet, name
//! pop          0x50, name length u16, name
//! subscribe    0x73, name length u16, name
//! ready        0x41
//! unsubscribe  0x75, name length u16, name
//! answer       number of packets u16, packets
//! ```
//!
//! Invariants: a request is taken whole or not at all; its content is neither copied nor looked at,
//! so everything here but the writing of bytes is O(1).

use crate::base::buf::Input;

const PUSH: u8 = 0x70;
const POP: u8 = 0x50;
const SUBSCRIBE: u8 = 0x73;
const READY: u8 = 0x41;
const UNSUBSCRIBE: u8 = 0x75;

/// What stands before the name of a queue that is all the rest.
const NAMED_HEAD: usize = 3;

/// What stands before the key of a push.
const PUSH_HEAD: usize = 10;

/// Where the lengths of a name, a key and a payload stand.
const NAME_LEN: usize = 1;
const KEY_LEN: usize = 6;
const PAYLOAD_LEN: usize = 8;

/// Bytes of the largest request: a push with the longest name, key and payload.
pub const REQUEST_MAX: usize = PUSH_HEAD + 3 * u16::MAX as usize;

/// What is next in the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framed<'a> {
    /// The rest is no whole request yet.
    Incomplete,
    /// A request.
    Request(Request<'a>),
    /// No request begins with this byte. Nothing says where the next one would.
    Unknown(u8),
}

/// One request. Names, keys and payloads are bytes, at most 65,535 each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request<'a> {
    /// Adds a packet to a queue.
    Push {
        /// The queue's name.
        queue: &'a [u8],
        /// Milliseconds that the packet has to live.
        ttl_ms: u16,
        /// As it stands there.
        priority: u8,
        /// How much of `packet` is the key, at most all of it.
        key_len: u16,
        /// Key and payload, adjacent as on the wire.
        packet: &'a [u8],
    },
    /// Takes a packet.
    Pop {
        /// The queue's name.
        queue: &'a [u8],
    },
    /// Asks for the packets of a queue.
    Subscribe {
        /// The queue's name.
        queue: &'a [u8],
    },
    /// Is ready for one more.
    Ready,
    /// Takes a subscription back.
    Unsubscribe {
        /// The queue's name.
        queue: &'a [u8],
    },
}

/// What is known of the size of a request whose beginning is known, its first byte included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// The request has at least this many bytes, which is more than there are.
    AtLeast(usize),
    /// The request has this many bytes.
    Exactly(usize),
    /// No request begins with this byte.
    Unknown(u8),
}

/// The size of the request at the front of `bytes`, as far as they tell: exactly as soon as its
/// last length is there.
#[must_use]
#[inline]
pub fn size(bytes: &[u8]) -> Size {
    let Some(&kind) = bytes.first() else { return Size::AtLeast(1) };
    let (head, lengths): (usize, &[usize]) = match kind {
        PUSH => (PUSH_HEAD, &[NAME_LEN, KEY_LEN, PAYLOAD_LEN]),
        POP | SUBSCRIBE | UNSUBSCRIBE => (NAMED_HEAD, &[NAME_LEN]),
        READY => (1, &[]),
        _ => return Size::Unknown(kind),
    };
    let known = lengths.iter().filter_map(|&at| number(bytes, at)).map(usize::from);
    let size = head + known.sum::<usize>();
    if bytes.len() < head { Size::AtLeast(size) } else { Size::Exactly(size) }
}

/// Takes the next request, if it is there whole.
#[inline]
pub fn next<'a>(input: &mut Input<'a>) -> Framed<'a> {
    let bytes = input.unread();
    let size = match size(bytes) {
        Size::Exactly(size) if size <= bytes.len() => size,
        Size::Exactly(_) | Size::AtLeast(_) => return Framed::Incomplete,
        Size::Unknown(kind) => return Framed::Unknown(kind),
    };
    input.consume(size);
    Framed::Request(request(&bytes[..size]))
}

/// Reads one request, which is all of `whole`.
#[inline]
fn request(whole: &[u8]) -> Request<'_> {
    // Proof: `size` has read the same lengths.
    let length = |at| number(whole, at).expect("a whole request has its lengths");
    match whole[0] {
        PUSH => {
            let key_len = length(KEY_LEN);
            let end = PUSH_HEAD + usize::from(key_len) + usize::from(length(PAYLOAD_LEN));
            Request::Push {
                queue: &whole[end..],
                ttl_ms: length(3),
                priority: whole[5],
                key_len,
                packet: &whole[PUSH_HEAD..end],
            }
        }
        POP => Request::Pop { queue: &whole[NAMED_HEAD..] },
        SUBSCRIBE => Request::Subscribe { queue: &whole[NAMED_HEAD..] },
        UNSUBSCRIBE => Request::Unsubscribe { queue: &whole[NAMED_HEAD..] },
        kind => {
            assert!(kind == READY, "a request of unknown kind has no size");
            Request::Ready
        }
    }
}

/// The two bytes at this place, if they are there.
#[inline]
fn number(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|pair| u16::from_be_bytes(*pair))
}

/// Writes a request. O(bytes).
///
/// # Panics
/// If a name or a payload is longer than 65,535 bytes, or the packet shorter than its key.
pub fn push_request(out: &mut Vec<u8>, request: &Request<'_>) {
    let mut named = |kind: u8, queue: &[u8]| {
        out.push(kind);
        out.extend_from_slice(&short(queue).to_be_bytes());
        out.extend_from_slice(queue);
    };
    match *request {
        Request::Push { queue, ttl_ms, priority, key_len, packet } => {
            begin_push(out, short(queue), ttl_ms, priority);
            push_packet(out, key_len, packet);
            out.extend_from_slice(queue);
        }
        Request::Pop { queue } => named(POP, queue),
        Request::Subscribe { queue } => named(SUBSCRIBE, queue),
        Request::Unsubscribe { queue } => named(UNSUBSCRIBE, queue),
        Request::Ready => out.push(READY),
    }
}

/// Begins a push; its packet and its queue's name are to follow.
#[inline]
pub fn begin_push(out: &mut Vec<u8>, name_len: u16, ttl_ms: u16, priority: u8) {
    out.push(PUSH);
    out.extend_from_slice(&name_len.to_be_bytes());
    out.extend_from_slice(&ttl_ms.to_be_bytes());
    out.push(priority);
}

/// Begins an answer of `count` packets.
#[inline]
pub fn push_count(out: &mut Vec<u8>, count: u16) {
    out.extend_from_slice(&count.to_be_bytes());
}

/// Writes a packet, which is a key of `key_len` bytes and its payload. O(bytes).
///
/// # Panics
/// If the packet is shorter than its key, or its payload longer than 65,535 bytes.
#[inline]
pub fn push_packet(out: &mut Vec<u8>, key_len: u16, packet: &[u8]) {
    let payload = packet.get(usize::from(key_len)..).expect("a packet has room for its key");
    begin_packet(out, key_len, short(payload));
    out.extend_from_slice(packet);
}

/// Begins a packet; its key and its payload are to follow.
#[inline]
pub fn begin_packet(out: &mut Vec<u8>, key_len: u16, payload_len: u16) {
    out.extend_from_slice(&key_len.to_be_bytes());
    out.extend_from_slice(&payload_len.to_be_bytes());
}

/// The length of what may be no longer than the field for it says.
#[inline]
fn short(bytes: &[u8]) -> u16 {
    u16::try_from(bytes.len()).expect("names and payloads have at most 65,535 bytes")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::buf::{InBuf, progress};

    const LONGEST: usize = u16::MAX as usize;

    /// One of each kind, and some at the edges, as `docs/protocols/pinpriq.md` has them.
    fn samples() -> Vec<(&'static [u8], Request<'static>)> {
        let push = |queue, ttl_ms, priority, key_len, packet| Request::Push {
            queue,
            ttl_ms,
            priority,
            key_len,
            packet,
        };
        vec![
            (b"\x70\x00\x02\x03\xe8\x05\x00\x01\x00\x03kabcqq", push(b"qq", 1000, 5, 1, b"kabc")),
            (b"\x70\x00\x00\x00\x00\x00\x00\x00\x00\x00", push(b"", 0, 0, 0, b"")),
            (b"\x70\x00\x01\xff\xff\xff\x00\x02\x00\x00AAP", push(b"P", 65_535, 255, 2, b"AA")),
            (b"\x50\x00\x03qqq", Request::Pop { queue: b"qqq" }),
            (b"\x50\x00\x00", Request::Pop { queue: b"" }),
            (b"\x73\x00\x01\x41", Request::Subscribe { queue: b"A" }),
            (b"\x41", Request::Ready),
            (b"\x75\x00\x02\x00\xff", Request::Unsubscribe { queue: b"\x00\xff" }),
        ]
    }

    /// Feeds `stream` in pieces of `piece` bytes; returns the requests as they are written.
    fn requests(stream: &[u8], piece: usize) -> Vec<Vec<u8>> {
        let (mut buffer, mut requests) = (InBuf::default(), vec![]);
        for bytes in stream.chunks(piece) {
            buffer.append(bytes);
            let mut input = buffer.peek();
            while let Framed::Request(request) = next(&mut input) {
                let mut written = Vec::new();
                push_request(&mut written, &request);
                requests.push(written);
            }
            let (used, scanned) = progress(&input);
            buffer.commit(used, scanned);
        }
        assert!(buffer.is_empty(), "the last request is whole");
        requests
    }

    #[test]
    fn requests_stand_on_the_wire_as_the_page_says() {
        for (bytes, expected) in samples() {
            let mut input = Input::new(bytes);
            assert_eq!(next(&mut input), Framed::Request(expected));
            assert_eq!(next(&mut input), Framed::Incomplete, "nothing is left");
            let mut written = Vec::new();
            push_request(&mut written, &expected);
            assert_eq!(written, bytes);
        }
    }

    #[test]
    fn requests_are_the_same_however_they_arrive() {
        let expected: Vec<Vec<u8>> = samples().iter().map(|(bytes, _)| bytes.to_vec()).collect();
        let stream = expected.concat();
        for piece in 1..=stream.len() {
            assert_eq!(requests(&stream, piece), expected, "in pieces of {piece}");
        }
    }

    #[test]
    fn of_an_incomplete_request_nothing_is_taken_and_its_size_is_known_early() {
        for (bytes, _) in samples() {
            let head = if bytes[0] == PUSH { PUSH_HEAD } else { NAMED_HEAD.min(bytes.len()) };
            let mut least = 0;
            for end in 0..bytes.len() {
                let mut input = Input::new(&bytes[..end]);
                assert_eq!(next(&mut input), Framed::Incomplete, "{end} of {bytes:?}");
                assert_eq!(input.unread().len(), end);
                match size(&bytes[..end]) {
                    Size::AtLeast(size) if end < head => {
                        assert!(size > end && size >= least && size <= bytes.len());
                        least = size;
                    }
                    other => {
                        assert_eq!((other, end >= head), (Size::Exactly(bytes.len()), true));
                    }
                }
            }
            let behind = [bytes, b"\x00\x00"].concat();
            assert_eq!(size(&behind), Size::Exactly(bytes.len()), "what is behind says nothing");
        }
        let push = b"\x70\x01\x00\x00\x00\x00\x00\x02\x00\x03";
        let known = [1, 10, 10, 266, 266, 266, 266, 266, 268, 268];
        for (end, least) in known.into_iter().enumerate() {
            assert_eq!(size(&push[..end]), Size::AtLeast(least), "after {end} bytes");
        }
        assert_eq!(size(push), Size::Exactly(271));
    }

    #[test]
    fn everything_may_be_as_long_as_its_length_can_say() {
        let (name, packet) = (vec![b'n'; LONGEST], vec![b'p'; 2 * LONGEST]);
        let largest = Request::Push {
            queue: &name,
            ttl_ms: 1,
            priority: 1,
            key_len: u16::MAX,
            packet: &packet,
        };
        let mut bytes = Vec::new();
        push_request(&mut bytes, &largest);
        assert_eq!(bytes.len(), REQUEST_MAX);
        for end in [PUSH_HEAD, PUSH_HEAD + LONGEST, REQUEST_MAX - LONGEST, REQUEST_MAX - 1] {
            assert_eq!(size(&bytes[..end]), Size::Exactly(REQUEST_MAX));
            assert_eq!(next(&mut Input::new(&bytes[..end])), Framed::Incomplete);
        }
        assert_eq!(next(&mut Input::new(&bytes)), Framed::Request(largest));
        for make in [
            |queue| Request::Pop { queue },
            |queue| Request::Subscribe { queue },
            |queue| Request::Unsubscribe { queue },
        ] {
            let mut bytes = Vec::new();
            push_request(&mut bytes, &make(&name));
            assert_eq!(bytes.len(), NAMED_HEAD + LONGEST);
            let cut = &bytes[..bytes.len() - 1];
            assert_eq!(next(&mut Input::new(cut)), Framed::Incomplete);
            assert_eq!(next(&mut Input::new(&bytes)), Framed::Request(make(&name)));
        }
    }

    #[test]
    fn an_unknown_byte_stays_where_it_is() {
        let known = [READY, POP, PUSH, SUBSCRIBE, UNSUBSCRIBE];
        for kind in (0..=255).filter(|kind| !known.contains(kind)) {
            let bytes = [READY, kind, READY];
            let mut input = Input::new(&bytes);
            assert_eq!(next(&mut input), Framed::Request(Request::Ready));
            assert_eq!(next(&mut input), Framed::Unknown(kind));
            assert_eq!(input.unread(), [kind, READY]);
            assert_eq!(size(input.unread()), Size::Unknown(kind));
        }
    }

    #[test]
    fn answers_are_a_count_and_packets() {
        let mut out = Vec::new();
        push_count(&mut out, 258);
        push_packet(&mut out, 1, b"kabc");
        push_packet(&mut out, 0, b"");
        push_packet(&mut out, 2, b"kk");
        assert_eq!(out, b"\x01\x02\x00\x01\x00\x03kabc\x00\x00\x00\x00\x00\x02\x00\x00kk");
        out.clear();
        push_packet(&mut out, 0, &vec![b'p'; LONGEST]);
        assert_eq!((out.len(), &out[..4]), (4 + LONGEST, &b"\x00\x00\xff\xff"[..]));
    }

    #[test]
    #[should_panic(expected = "at most 65,535 bytes")]
    fn a_payload_that_is_too_long_is_not_written() {
        push_packet(&mut Vec::new(), 1, &vec![b'p'; LONGEST + 2]);
    }

    #[test]
    #[should_panic(expected = "room for its key")]
    fn a_key_that_is_longer_than_its_packet_is_not_written() {
        push_packet(&mut Vec::new(), 2, b"k");
    }
}
