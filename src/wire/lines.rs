//! Framing by line ends: `\n` or `\r\n`.
//!
//! Invariants: a byte is searched once; a line beyond the limit is reported once and then skipped
//! up to its end without being buffered.

use crate::base::buf::Input;
use memchr::memchr;

/// What is next in the input.
#[derive(Debug, PartialEq, Eq)]
pub enum Framed<'a> {
    /// The rest is no whole line yet.
    Incomplete,
    /// A line without its end.
    Line(&'a [u8]),
    /// A line of more than the allowed length begins or ends here.
    TooLong,
}

/// Cuts an input into lines. Holds no bytes.
#[derive(Debug, Default)]
pub struct LineReader {
    skipping: bool,
}

impl LineReader {
    /// The next line of at most `max` bytes, its end not counted. O(bytes not searched before).
    pub fn next<'a>(&mut self, input: &mut Input<'a>, max: usize) -> Framed<'a> {
        loop {
            let unread = input.unread();
            let scanned = input.scanned();
            let Some(found) = memchr(b'\n', &unread[scanned..]) else {
                return self.hold_on(input, max);
            };
            let end = scanned + found;
            input.consume(end + 1);
            if std::mem::take(&mut self.skipping) {
                continue;
            }
            let line = unread[..end].strip_suffix(b"\r").unwrap_or(&unread[..end]);
            return if line.len() > max { Framed::TooLong } else { Framed::Line(line) };
        }
    }

    /// There is no line end in the input: leave it there for later if it may become a line.
    fn hold_on<'a>(&mut self, input: &mut Input<'a>, max: usize) -> Framed<'a> {
        let unread = input.unread();
        let begun = unread.strip_suffix(b"\r").unwrap_or(unread).len();
        if self.skipping {
            input.consume(unread.len());
        } else if begun > max {
            input.consume(unread.len());
            self.skipping = true;
            return Framed::TooLong;
        } else {
            input.set_scanned(unread.len());
        }
        Framed::Incomplete
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::buf::{InBuf, progress};

    /// Feeds `stream` in pieces of `piece` bytes; returns the lines, too long ones as `None`.
    fn lines(stream: &[u8], piece: usize, max: usize) -> Vec<Option<Vec<u8>>> {
        let (mut reader, mut buffer, mut lines) = (LineReader::default(), InBuf::default(), vec![]);
        for bytes in stream.chunks(piece) {
            buffer.append(bytes);
            let mut input = buffer.peek();
            loop {
                match reader.next(&mut input, max) {
                    Framed::Incomplete => break,
                    Framed::Line(line) => lines.push(Some(line.to_vec())),
                    Framed::TooLong => lines.push(None),
                }
            }
            let (used, scanned) = progress(&input);
            buffer.commit(used, scanned);
            assert!(buffer.len() <= max + 1, "no more than a line is kept");
        }
        lines
    }

    #[test]
    fn lines_are_the_same_however_they_arrive() {
        let stream =
            b"one\r\n\n12345678\n123456789\n12345678\r\nx123456789abcdef\r\n\r\r\nend\npart";
        let some = |line: &str| Some(line.as_bytes().to_vec());
        let expected = vec![
            some("one"),
            some(""),
            some("12345678"),
            None,
            some("12345678"),
            None,
            some("\r"),
            some("end"),
        ];
        for piece in 1..=stream.len() {
            assert_eq!(lines(stream, piece, 8), expected, "in pieces of {piece}");
        }
    }
}
