//! Command lines: where one ends, and what it asks for. Nothing is allocated.
//!
//! Verbs are compared as a whole. A line of a known verb whose arguments are wrong is malformed; a
//! line of any other verb is unknown.

use memchr::memchr;

/// The longest line with its CRLF, in bytes: a pause of a tube with the longest name fits.
pub(super) const LINE_MAX_BYTES: usize = 224;

/// The longest name of a tube, in bytes.
pub(super) const TUBE_NAME_MAX_BYTES: usize = 200;

/// The longest wait of a reserve in seconds.
pub(super) const WAIT_MAX_S: u64 = i32::MAX as u64;

/// The line of a put. Times are in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Put {
    pub(super) priority: u32,
    pub(super) delay_s: u32,
    pub(super) ttr_s: u32,
    pub(super) bytes: u32,
    /// The line goes on behind its last number.
    pub(super) has_trailing: bool,
}

/// A parsed line. Times are in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Request<'a> {
    Put(Put),
    Reserve,
    ReserveWithTimeout(u64),
    ReserveJob(u64),
    Delete(u64),
    Release {
        id: u64,
        priority: u32,
        delay_s: u32,
    },
    Bury {
        id: u64,
        priority: u32,
    },
    Touch(u64),
    Use(&'a [u8]),
    Watch(&'a [u8]),
    Ignore(&'a [u8]),
    Peek(u64),
    PeekReady,
    PeekDelayed,
    PeekBuried,
    Kick(u32),
    KickJob(u64),
    StatsJob(u64),
    StatsTube(&'a [u8]),
    Stats,
    ListTubes,
    ListTubesWatched,
    ListTubeUsed,
    PauseTube {
        /// At least one byte that a name may have.
        tube: &'a [u8],
        delay_s: u32,
    },
    Quit,
}

/// Why a line is not executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LineError {
    BadFormat,
    UnknownCommand,
}

/// What is next in the input.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Framed<'a> {
    /// No whole line yet.
    Incomplete,
    /// A line without its CRLF, and its length with that.
    Line(&'a [u8], usize),
    /// There is no CRLF within [`LINE_MAX_BYTES`].
    TooLong,
}

/// Finds the first line: only CRLF ends one. O(bytes of a line).
#[inline]
pub(super) fn first_line(input: &[u8]) -> Framed<'_> {
    let begin = &input[..input.len().min(LINE_MAX_BYTES)];
    match find_crlf(begin) {
        Some(end) => Framed::Line(&begin[..end], end + 2),
        None if input.len() < LINE_MAX_BYTES => Framed::Incomplete,
        None => Framed::TooLong,
    }
}

/// Where the first CRLF begins. O(bytes).
#[inline]
pub(super) fn find_crlf(bytes: &[u8]) -> Option<usize> {
    let mut from = 0;
    loop {
        let end = from + memchr(b'\n', &bytes[from..])?;
        if end > 0 && bytes[end - 1] == b'\r' {
            return Some(end - 1);
        }
        from = end + 1;
    }
}

/// Whether a tube may have this name.
#[inline]
pub(super) fn is_tube_name(name: &[u8]) -> bool {
    (1..=TUBE_NAME_MAX_BYTES).contains(&name.len())
        && name[0] != b'-'
        && name.iter().all(|&byte| is_name_byte(byte))
}

fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-+/;.$_()".contains(&byte)
}

/// What is left of a line.
struct Args<'a>(&'a [u8]);

impl<'a> Args<'a> {
    /// The next number: digits, perhaps with spaces before them.
    #[inline]
    fn number(&mut self) -> Result<u64, LineError> {
        let spaces = self.0.iter().take_while(|&&byte| byte == b' ').count();
        let (mut number, mut rest) = (0_u64, &self.0[spaces..]);
        let all = rest.len();
        while let [digit @ b'0'..=b'9', behind @ ..] = rest {
            number = number
                .checked_mul(10)
                .and_then(|number| number.checked_add(u64::from(digit - b'0')))
                .ok_or(LineError::BadFormat)?;
            rest = behind;
        }
        if rest.len() == all {
            return Err(LineError::BadFormat);
        }
        self.0 = rest;
        Ok(number)
    }

    /// The next number, or 0 if there is none.
    fn number_or_0(&mut self) -> Result<u64, LineError> {
        let first = self.0.iter().find(|&&byte| byte != b' ');
        if first.is_some_and(u8::is_ascii_digit) { self.number() } else { Ok(0) }
    }

    fn is_negative(&self) -> bool {
        self.0.iter().find(|&&byte| byte != b' ') == Some(&b'-')
    }

    #[inline]
    fn small(&mut self) -> Result<u32, LineError> {
        u32::try_from(self.number()?).map_err(|_| LineError::BadFormat)
    }

    /// A number at the end of the line.
    #[inline]
    fn last_number(mut self) -> Result<u64, LineError> {
        let number = self.number()?;
        self.end().map(|()| number)
    }

    #[inline]
    fn last_small(mut self) -> Result<u32, LineError> {
        let number = self.small()?;
        self.end().map(|()| number)
    }

    #[inline]
    fn end(&self) -> Result<(), LineError> {
        if self.0.is_empty() { Ok(()) } else { Err(LineError::BadFormat) }
    }

    /// The name of a tube, which is the rest of the line.
    #[inline]
    fn tube(self) -> Result<&'a [u8], LineError> {
        if is_tube_name(self.0) { Ok(self.0) } else { Err(LineError::BadFormat) }
    }

    /// The bound of a kick, as upstream reads it: blanks, a sign, digits, and anything behind. A
    /// negative number is one of 64 bits without sign, of which the lower 32 count.
    fn bound(self) -> Result<u32, LineError> {
        let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t'..=b'\r');
        let rest = &self.0[self.0.iter().take_while(|byte| is_blank(byte)).count()..];
        let (negative, rest) = match rest {
            [b'-', rest @ ..] => (true, rest),
            [b'+', rest @ ..] => (false, rest),
            _ => (false, rest),
        };
        if rest.first() == Some(&b' ') || self.0.contains(&0) {
            return Err(LineError::BadFormat);
        }
        let number = Self(rest).number()?;
        let number = if negative { number.wrapping_neg() } else { number };
        #[expect(clippy::cast_possible_truncation, reason = "as the reference does")]
        Ok(number as u32)
    }
}

fn put(mut args: Args<'_>) -> Result<Request<'_>, LineError> {
    let (priority, delay_s) = (args.small()?, args.small()?);
    let (ttr_s, bytes) = (args.small()?, args.small()?);
    let has_trailing = !args.0.is_empty();
    Ok(Request::Put(Put { priority, delay_s, ttr_s, bytes, has_trailing }))
}

/// Parses a line without its CRLF.
///
/// # Errors
/// If it is malformed, or its verb unknown.
#[inline]
pub(super) fn parse(line: &[u8]) -> Result<Request<'_>, LineError> {
    let Some(space) = memchr(b' ', line) else { return without_arguments(line) };
    let mut args = Args(&line[space + 1..]);
    Ok(match &line[..space] {
        b"put" => put(args)?,
        b"delete" => Request::Delete(args.last_number()?),
        b"reserve-with-timeout" => {
            // As in the reference, what is no number is 0.
            let wait_s = if args.is_negative() { WAIT_MAX_S + 1 } else { args.number_or_0()? };
            if wait_s > WAIT_MAX_S || args.0.contains(&0) {
                return Err(LineError::BadFormat);
            }
            Request::ReserveWithTimeout(wait_s)
        }
        b"release" => {
            let (id, priority) = (args.number()?, args.small()?);
            Request::Release { id, priority, delay_s: args.last_small()? }
        }
        b"bury" => {
            let id = args.number()?;
            Request::Bury { id, priority: args.last_small()? }
        }
        b"touch" => Request::Touch(args.last_number()?),
        b"use" => Request::Use(args.tube()?),
        b"watch" => Request::Watch(args.tube()?),
        b"ignore" => Request::Ignore(args.tube()?),
        b"reserve-job" => Request::ReserveJob(args.last_number()?),
        b"peek" => Request::Peek(args.last_number()?),
        b"kick" => Request::Kick(args.bound()?),
        b"kick-job" => Request::KickJob(args.last_number()?),
        b"stats-job" => Request::StatsJob(args.last_number()?),
        b"stats-tube" => Request::StatsTube(args.tube()?),
        b"pause-tube" => {
            let name = args.0;
            let spaces = name.iter().take_while(|&&byte| byte == b' ').count();
            let name = &name[spaces..];
            let length = name.iter().take_while(|&&byte| is_name_byte(byte)).count();
            let delay_s = Args(&name[length..]).last_small()?;
            if length == 0 {
                return Err(LineError::BadFormat);
            }
            Request::PauseTube { tube: &name[..length], delay_s }
        }
        b"reserve"
        | b"peek-ready"
        | b"peek-delayed"
        | b"peek-buried"
        | b"stats"
        | b"list-tubes"
        | b"list-tubes-watched"
        | b"list-tube-used"
        | b"quit" => return Err(LineError::BadFormat),
        _ => return Err(unknown(line)),
    })
}

/// A line that is one word.
#[inline]
fn without_arguments(line: &[u8]) -> Result<Request<'_>, LineError> {
    Ok(match line {
        b"reserve" => Request::Reserve,
        b"peek-ready" => Request::PeekReady,
        b"peek-delayed" => Request::PeekDelayed,
        b"peek-buried" => Request::PeekBuried,
        b"stats" => Request::Stats,
        b"list-tubes" => Request::ListTubes,
        b"list-tubes-watched" => Request::ListTubesWatched,
        b"list-tube-used" => Request::ListTubeUsed,
        b"quit" => Request::Quit,
        b"reserve-with-timeout" | b"reserve-job" | b"stats-job" | b"stats-tube" | b"pause-tube" => {
            return Err(LineError::BadFormat);
        }
        _ => return Err(unknown(line)),
    })
}

#[cold]
fn unknown(line: &[u8]) -> LineError {
    if line.contains(&0) { LineError::BadFormat } else { LineError::UnknownCommand }
}

#[cfg(test)]
mod tests {
    use super::LineError::{BadFormat, UnknownCommand};
    use super::*;

    #[test]
    fn numbers_may_have_spaces_before_them_and_nothing_else() {
        let put = |bytes, has_trailing| {
            Ok(Request::Put(Put { priority: 1, delay_s: 2, ttr_s: 3, bytes, has_trailing }))
        };
        assert_eq!(parse(b"put 1 2 3 4"), put(4, false));
        assert_eq!(parse(b"put  1   2 3 0004"), put(4, false));
        assert_eq!(parse(b"put 1 2 3 4 "), put(4, true));
        assert_eq!(parse(b"put 1 2 3 4x"), put(4, true));
        assert_eq!(parse(b"put 1 2 3 4294967295"), put(u32::MAX, false));
        let lines: [&[u8]; 8] = [
            b"put 1 2 3",
            b"put 1 2 3 4294967296",
            b"put 1 2 3 99999999999999999999999",
            b"put 1\t2 3 4",
            b"put -1 2 3 4",
            b"put 1x 2 3 4",
            b"put ",
            b"release 1 2 3 4",
        ];
        for line in lines {
            assert_eq!(parse(line), Err(BadFormat), "{line:?}");
        }
        assert_eq!(parse(b"peek 18446744073709551615"), Ok(Request::Peek(u64::MAX)));
        assert_eq!(parse(b"peek 18446744073709551616"), Err(BadFormat));
        assert_eq!(parse(b"touch 1 "), Err(BadFormat));
    }

    #[test]
    fn verbs_are_compared_as_a_whole() {
        for line in [&b""[..], b" ", b"PUT 1 2 3 4", b"statsfoo", b"quitfoo", b"peek", b"stat"] {
            assert_eq!(parse(line), Err(UnknownCommand), "{line:?}");
        }
        for line in
            [&b"stats 1"[..], b"reserve 1", b"stats-job", b"quit 1", b"foo\0", b"list-tubes "]
        {
            assert_eq!(parse(line), Err(BadFormat), "{line:?}");
        }
        assert_eq!(parse(b"list-tubes-watched"), Ok(Request::ListTubesWatched));
        assert_eq!(parse(b"list-tubes"), Ok(Request::ListTubes));
    }

    #[test]
    fn names_of_tubes_have_their_bytes_and_their_length() {
        let longest = [b'a'; TUBE_NAME_MAX_BYTES];
        assert!(is_tube_name(&longest) && is_tube_name(b"A-+/;.$_()9"));
        for name in [&b""[..], b"-a", b"a b", b"a:b", b"a\0", b"\xc3\xa4", &[b'a'; 201]] {
            assert!(!is_tube_name(name), "{name:?}");
        }
        assert_eq!(parse(b"use  a"), Err(BadFormat));
        let pause = Request::PauseTube { tube: b"a", delay_s: 7 };
        assert_eq!(parse(b"pause-tube  a  7"), Ok(pause));
        assert_eq!(parse(b"pause-tube a"), Err(BadFormat));
        assert_eq!(parse(b"pause-tube a 7 "), Err(BadFormat));
    }

    #[test]
    fn bounds_and_timeouts_are_read_as_by_the_reference() {
        let bounds: [(&[u8], u32); 6] = [
            (b"kick 5", 5),
            (b"kick 5abc", 5),
            (b"kick  \t+5 6", 5),
            (b"kick -1", u32::MAX),
            (b"kick 4294967297", 1),
            (b"kick 0", 0),
        ];
        for (line, bound) in bounds {
            assert_eq!(parse(line), Ok(Request::Kick(bound)), "{line:?}");
        }
        for line in [&b"kick "[..], b"kick x", b"kick - 1", b"kick 99999999999999999999"] {
            assert_eq!(parse(line), Err(BadFormat), "{line:?}");
        }
        for line in [&b"reserve-with-timeout 0 junk"[..], b"reserve-with-timeout x"] {
            assert_eq!(parse(line), Ok(Request::ReserveWithTimeout(0)), "{line:?}");
        }
        for line in [&b"reserve-with-timeout -1"[..], b"reserve-with-timeout 2147483648"] {
            assert_eq!(parse(line), Err(BadFormat), "{line:?}");
        }
    }

    #[test]
    fn only_crlf_within_the_bound_ends_a_line() {
        assert_eq!(first_line(b"a\nb\rc\r\nd"), Framed::Line(b"a\nb\rc", 7));
        assert_eq!(first_line(b"\n\r"), Framed::Incomplete);
        let line = |length: usize| [&vec![b'x'; length][..], b"\r\n"].concat();
        let longest = line(LINE_MAX_BYTES - 2);
        assert_eq!(
            first_line(&longest),
            Framed::Line(&longest[..LINE_MAX_BYTES - 2], LINE_MAX_BYTES)
        );
        assert_eq!(first_line(&line(LINE_MAX_BYTES - 1)), Framed::TooLong);
        assert_eq!(first_line(&[b'x'; LINE_MAX_BYTES - 1]), Framed::Incomplete);
    }
}
