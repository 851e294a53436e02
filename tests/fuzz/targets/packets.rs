//! Any bytes, in any pieces, through the framing of binary requests: the requests are the same as
//! from the whole, they are encoded to the same bytes, and their announced sizes are right.

#![no_main]

use jobcentre::base::buf::{InBuf, Input, progress};
use jobcentre::wire::packets::{Framed, REQUEST_MAX, Size, next, push_request, size};
use libfuzzer_sys::fuzz_target;

/// What came out of a stream: its whole requests as they are written, and where it went no further.
#[derive(Debug, Default, PartialEq, Eq)]
struct Read {
    requests: Vec<Vec<u8>>,
    unknown: Option<u8>,
}

impl Read {
    /// Takes the requests that are there. Says what is left.
    fn take<'a>(&mut self, mut input: Input<'a>) -> Input<'a> {
        loop {
            let before = input.unread();
            let said = size(before);
            match next(&mut input) {
                Framed::Request(request) => {
                    let mut written = Vec::new();
                    push_request(&mut written, &request);
                    assert!(
                        before.starts_with(&written),
                        "a request is written otherwise than it came"
                    );
                    assert_eq!(said, Size::Exactly(written.len()));
                    assert_eq!(input.unread(), &before[written.len()..]);
                    self.requests.push(written);
                }
                other => {
                    assert_eq!(input.unread(), before, "what is no request was consumed");
                    match (other, said) {
                        (Framed::Unknown(kind), Size::Unknown(same)) => {
                            assert_eq!((kind, kind), (before[0], same));
                            self.unknown = Some(kind);
                        }
                        (Framed::Incomplete, Size::AtLeast(size) | Size::Exactly(size)) => {
                            assert!((before.len() + 1..=REQUEST_MAX).contains(&size));
                        }
                        (other, said) => panic!("{other:?} has the size {said:?}"),
                    }
                    return input;
                }
            }
        }
    }
}

// The first byte says how long the pieces are at most, the rest is the stream.
fuzz_target!(|data: &[u8]| {
    let Some((&head, stream)) = data.split_first() else { return };
    let mut whole = Read::default();
    let rest = whole.take(Input::new(stream)).unread();
    assert_eq!([&whole.requests.concat(), rest].concat(), stream);

    let (mut pieces, mut buffer) = (Read::default(), InBuf::default());
    for piece in stream.chunks(usize::from(head) + 1) {
        buffer.append(piece);
        let (used, scanned) = progress(&pieces.take(buffer.peek()));
        buffer.commit(used, scanned);
        if pieces.unknown.is_some() {
            break;
        }
    }
    assert_eq!(pieces, whole);
    let left = buffer.peek().unread();
    let complete = left == rest || (whole.unknown.is_some() && rest.starts_with(left));
    assert!(complete, "bytes were lost or came twice");
});
