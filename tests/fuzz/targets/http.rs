//! Any bytes, in any pieces, to the reader of HTTP requests: the requests and the error that ends
//! them are the same as from the whole, and no more than a head is buffered.

#![no_main]

use jobcentre::base::buf::{InBuf, Input, progress};
use jobcentre::base::limits::HTTP_HEAD_MAX_BYTES;
use jobcentre::wire::http::{Body, Framing, ParseError, Piece, next_request, next_response};
use libfuzzer_sys::fuzz_target;

const BODY_MAX: u64 = 10_000;

/// What came out of a stream: its messages in words, the bytes of the body that is under way, and
/// what ended it.
#[derive(Debug, Default)]
struct Read {
    messages: Vec<String>,
    under_way: Option<(String, Body, Vec<u8>)>,
    error: Option<ParseError>,
    responses: bool,
}

impl Read {
    fn take<'a>(&mut self, mut input: Input<'a>) -> Input<'a> {
        while self.error.is_none() {
            match self.step(&mut input) {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => self.error = Some(error),
            }
        }
        input
    }

    fn step(&mut self, input: &mut Input<'_>) -> Result<bool, ParseError> {
        let Some((words, body, bytes)) = &mut self.under_way else {
            let begun = if self.responses {
                let head = next_response(input, false)?;
                head.map(|head| (format!("{head:?}"), head.framing))
            } else {
                let head = next_request(input)?;
                head.map(|head| (format!("{head:?}"), head.framing.unwrap_or(Framing::Length(0))))
            };
            let Some((words, framing)) = begun else { return Ok(false) };
            self.under_way = Some((words, Body::new(framing, BODY_MAX)?, Vec::new()));
            return Ok(true);
        };
        match body.next(input)? {
            Piece::Data(data) => {
                assert!(!data.is_empty());
                bytes.extend_from_slice(data);
                assert!(bytes.len() as u64 <= BODY_MAX);
            }
            Piece::Incomplete => return Ok(false),
            Piece::End => {
                self.messages.push(format!("{words} {}", bytes.escape_ascii()));
                self.under_way = None;
            }
        }
        Ok(true)
    }
}

// The first byte says how long the pieces are at most and what the stream is, the rest is it.
fuzz_target!(|data: &[u8]| {
    let Some((&head, stream)) = data.split_first() else { return };
    let responses = head >= 128;
    let mut whole = Read { responses, ..Read::default() };
    whole.take(Input::new(stream));

    let (mut pieces, mut buffer) = (Read { responses, ..Read::default() }, InBuf::default());
    for piece in stream.chunks(usize::from(head % 128) + 1) {
        buffer.append(piece);
        let (used, scanned) = progress(&pieces.take(buffer.peek()));
        buffer.commit(used, scanned);
        if pieces.error.is_some() {
            break;
        }
        assert!(buffer.len() <= HTTP_HEAD_MAX_BYTES + 1);
    }
    assert_eq!(pieces.messages, whole.messages);
    assert_eq!(pieces.error.is_some(), whole.error.is_some());
});
