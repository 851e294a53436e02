//! The floor: a server that sends every line back as it is.

use super::job_centre::JobCentreCodec;
use super::{Answer, Parsed, Request, split_line, unexpected};
use crate::cli::bench::content::Content;

/// Writes the Job Centre line.
#[inline]
pub(super) fn write(
    request: &Request,
    lines: &JobCentreCodec,
    content: &Content,
    out: &mut Vec<u8>,
) {
    lines.write(request, content, out);
}

/// Reads a line and compares it with what was sent.
#[inline]
pub(super) fn parse<'a>(
    request: &Request,
    lines: &JobCentreCodec,
    content: &Content,
    bytes: &'a [u8],
) -> Parsed<'a> {
    let Some((used, line)) = split_line(bytes) else { return Ok(None) };
    let mut sent = Vec::with_capacity(used);
    lines.write(request, content, &mut sent);
    if sent == bytes[..used] {
        Ok(Some((used, Answer::Echo)))
    } else {
        Err(unexpected(request, line))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::bench::protocols::tests::parse_byte_by_byte;

    #[test]
    fn only_the_request_itself_is_an_echo() {
        let content = Content::new(32, 1, 1, 1);
        let lines = JobCentreCodec::new(&["q".into()]);
        let request = Request::Put { seq: 7 };
        let mut line = Vec::new();
        write(&request, &lines, &content, &mut line);
        let read = parse_byte_by_byte(|bytes| parse(&request, &lines, &content, bytes), &line);
        assert_eq!(read, "Echo");
        line[3] ^= 1;
        assert!(parse(&request, &lines, &content, &line).unwrap_err().contains("answered a put"));
    }
}
