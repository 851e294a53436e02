//! HTTP bodies, framed by a length, by chunks, or by the end of the connection.

use super::ParseError;
use super::terms::{Framing, is_token};
use crate::base::buf::Input;
use crate::base::limits::{
    HTTP_CHUNK_LINE_MAX_BYTES, HTTP_EXTENSIONS_MAX_BYTES, HTTP_HEAD_MAX_BYTES,
};
use memchr::memchr;

/// A part of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece<'a> {
    /// These are its next bytes.
    Data(&'a [u8]),
    /// There was no more of it.
    End,
    /// It goes on, and needs more input.
    Incomplete,
}

/// A body that is being read. Holds no bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Body {
    state: State,
    /// How many bytes are still allowed.
    bytes_left: u64,
    /// How many bytes extensions, or trailers, may still have.
    extension_bytes_left: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Bytes left of a body by length.
    Bytes(u64),
    UntilEnd,
    /// The line before a chunk.
    Size,
    /// Bytes left of a chunk.
    Chunk(u64),
    /// The line end behind a chunk.
    ChunkEnd,
    /// The lines behind the last chunk.
    Trailers,
    Over,
}

const TOO_LONG: ParseError =
    ParseError { status: 413, why: "the body is longer than the server takes" };

impl Body {
    /// A body that begins here and may have `max` bytes.
    ///
    /// # Errors
    /// If it is announced to be longer.
    pub fn new(framing: Framing, max: u64) -> Result<Self, ParseError> {
        let state = match framing {
            Framing::Length(length) if length > max => return Err(TOO_LONG),
            Framing::Length(length) => State::Bytes(length),
            Framing::Chunked => State::Size,
            Framing::UntilEnd => State::UntilEnd,
        };
        Ok(Self { state, bytes_left: max, extension_bytes_left: HTTP_EXTENSIONS_MAX_BYTES })
    }

    /// Takes the next part out of the input. O(part).
    ///
    /// # Errors
    /// Says what is wrong, and nothing can be told of what follows.
    pub fn next<'a>(&mut self, input: &mut Input<'a>) -> Result<Piece<'a>, ParseError> {
        loop {
            match self.state {
                State::Bytes(0) => self.state = State::Over,
                State::Chunk(0) => self.state = State::ChunkEnd,
                State::Bytes(left) => return self.data(left, State::Bytes, input),
                State::Chunk(left) => return self.data(left, State::Chunk, input),
                State::UntilEnd => return self.data(u64::MAX, |_| State::UntilEnd, input),
                State::Size => match line(input, HTTP_CHUNK_LINE_MAX_BYTES, LINE_TOO_LONG)? {
                    Some(line) => self.begin_chunk(line)?,
                    None => return Ok(Piece::Incomplete),
                },
                State::ChunkEnd => match *input.unread() {
                    [b'\r', b'\n', ..] => {
                        input.consume(2);
                        self.state = State::Size;
                    }
                    [] | [b'\r'] => return Ok(Piece::Incomplete),
                    _ => return Err(ParseError::bad("a chunk is longer than its size says")),
                },
                State::Trailers => match line(input, self.extension_bytes_left, TRAILERS_TOO_LONG)?
                {
                    Some(b"") => self.state = State::Over,
                    Some(line) => self.note_trailer(line)?,
                    None => return Ok(Piece::Incomplete),
                },
                State::Over => return Ok(Piece::End),
            }
        }
    }

    /// What becomes of the body when the connection ends here: whether it was whole.
    #[must_use]
    pub fn ends_well(&self) -> bool {
        matches!(self.state, State::UntilEnd | State::Over | State::Bytes(0))
    }

    fn data<'a>(
        &mut self,
        left: u64,
        state: impl Fn(u64) -> State,
        input: &mut Input<'a>,
    ) -> Result<Piece<'a>, ParseError> {
        let unread = input.unread();
        if unread.is_empty() {
            return Ok(Piece::Incomplete);
        }
        let count = usize::try_from(left).unwrap_or(usize::MAX).min(unread.len());
        let taken = count as u64;
        self.bytes_left = self.bytes_left.checked_sub(taken).ok_or(TOO_LONG)?;
        self.state = state(left - taken);
        input.consume(count);
        Ok(Piece::Data(&unread[..count]))
    }

    /// Reads `size[;extensions]`.
    fn begin_chunk(&mut self, line: &[u8]) -> Result<(), ParseError> {
        let digits = line.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
        let (digits, rest) = line.split_at(digits);
        let blank = rest.iter().take_while(|&&byte| byte == b' ' || byte == b'\t').count();
        let extended = matches!(rest.get(blank), Some(b';'));
        if digits.is_empty() || digits.len() > SIZE_DIGITS || !(rest.is_empty() || extended) {
            return Err(ParseError::bad("the size of a chunk is no plain hexadecimal number"));
        }
        self.extension_bytes_left =
            self.extension_bytes_left.checked_sub(rest.len()).ok_or(LINE_TOO_LONG)?;
        // Proof: only hexadecimal digits, and no more than 64 bits have.
        let size =
            std::str::from_utf8(digits).ok().and_then(|text| u64::from_str_radix(text, 16).ok());
        let size = size.ok_or(TOO_LONG)?;
        if size > self.bytes_left {
            return Err(TOO_LONG);
        }
        if size == 0 {
            self.state = State::Trailers;
            self.extension_bytes_left = HTTP_HEAD_MAX_BYTES;
        } else {
            self.state = State::Chunk(size);
        }
        Ok(())
    }

    /// Trailers are of no use, but they have to be fields.
    fn note_trailer(&mut self, line: &[u8]) -> Result<(), ParseError> {
        let name = line.iter().take_while(|&&byte| is_token(byte)).count();
        if name == 0 || line.get(name) != Some(&b':') {
            return Err(ParseError::bad("a line behind the last chunk is no field"));
        }
        self.extension_bytes_left =
            self.extension_bytes_left.checked_sub(line.len()).ok_or(TRAILERS_TOO_LONG)?;
        Ok(())
    }
}

/// Takes a line of at most `max` bytes, without its end.
fn line<'a>(
    input: &mut Input<'a>,
    max: usize,
    too_long: ParseError,
) -> Result<Option<&'a [u8]>, ParseError> {
    let unread = input.unread();
    let scanned = input.scanned();
    let Some(found) = memchr(b'\n', &unread[scanned..]) else {
        if unread.len() > max {
            return Err(too_long);
        }
        input.set_scanned(unread.len());
        return Ok(None);
    };
    let end = scanned + found;
    let Some(line) = unread[..end].strip_suffix(b"\r") else {
        return Err(ParseError::bad("a line of the body's framing does not end with CR LF"));
    };
    if line.len() > max {
        return Err(too_long);
    }
    if line.iter().any(|&byte| (byte < b' ' && byte != b'\t') || byte == 0x7f) {
        return Err(ParseError::bad("the body's framing has a control character in it"));
    }
    input.consume(end + 1);
    Ok(Some(line))
}

/// Hexadecimal digits of a chunk size: 64 bits.
const SIZE_DIGITS: usize = 16;

const LINE_TOO_LONG: ParseError = ParseError::bad("the extensions of the chunks are too long");

const TRAILERS_TOO_LONG: ParseError =
    ParseError { status: 431, why: "the trailers are longer than 16 KiB" };
