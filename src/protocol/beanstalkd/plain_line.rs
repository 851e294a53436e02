//! The commands that make up the load, in the form in which clients write them: one space between
//! words, numbers without leading spaces. A line is recognised and parsed in one go, eight digits
//! at a time.
//!
//! Invariant: what is recognised here means the same as by [`super::line`]; everything else is left
//! to that.

use super::line::{Put, Request, WAIT_MAX_S};

/// What a number is multiplied by when this number of digits follows.
const TENS: [u64; 9] = [1, 10, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000];

/// The eight bytes, each of which is a digit.
const ZEROS: u64 = u64::from_ne_bytes([b'0'; 8]);

/// Recognises a line at the front of the input. Returns its length with its CRLF too. O(1).
#[inline(always)]
pub(super) fn recognise(input: &[u8]) -> Option<(Request<'static>, usize)> {
    let mut rest = Rest(input);
    let request = match input.first()? {
        b'p' => {
            rest.skip(b"put ")?;
            let (priority, delay_s) = (rest.small(b" ")?, rest.small(b" ")?);
            let (ttr_s, bytes) = (rest.small(b" ")?, rest.small(b"\r\n")?);
            Request::Put(Put { priority, delay_s, ttr_s, bytes, has_trailing: false })
        }
        b'd' => {
            rest.skip(b"delete ")?;
            Request::Delete(rest.number(b"\r\n")?)
        }
        b'r' => {
            rest.skip(b"reserve")?;
            if rest.skip(b"\r\n").is_some() {
                Request::Reserve
            } else {
                rest.skip(b"-with-timeout ")?;
                let wait_s = rest.number(b"\r\n")?;
                if wait_s > WAIT_MAX_S {
                    return None;
                }
                Request::ReserveWithTimeout(wait_s)
            }
        }
        _ => return None,
    };
    Some((request, input.len() - rest.0.len()))
}

/// What is left of the input.
struct Rest<'a>(&'a [u8]);

impl Rest<'_> {
    #[inline(always)]
    fn skip<const N: usize>(&mut self, word: &[u8; N]) -> Option<()> {
        let (first, rest) = self.0.split_first_chunk::<N>()?;
        (first == word).then(|| self.0 = rest)
    }

    /// A number of at most 16 digits, and this behind it.
    #[inline(always)]
    fn number<const N: usize>(&mut self, end: &[u8; N]) -> Option<u64> {
        if let [digit @ b'0'..=b'9', rest @ ..] = self.0
            && let Some((first, rest)) = rest.split_first_chunk::<N>()
            && first == end
        {
            self.0 = rest;
            return Some(u64::from(digit - b'0'));
        }
        let (mut number, _) = self.up_to_8_digits()?;
        if self.skip(end).is_none() {
            let (more, count) = self.up_to_8_digits()?;
            number = number * TENS[count] + more;
            self.skip(end)?;
        }
        Some(number)
    }

    /// The same of 32 bits.
    #[inline(always)]
    fn small<const N: usize>(&mut self, end: &[u8; N]) -> Option<u32> {
        u32::try_from(self.number(end)?).ok()
    }

    /// The number that the first digits say, at least one and at most eight of them, and how many
    /// there were.
    #[inline(always)]
    fn up_to_8_digits(&mut self) -> Option<(u64, usize)> {
        let bytes = match self.0.first_chunk::<8>() {
            Some(chunk) => *chunk,
            None => self.padded(),
        };
        // Digits become 0 to 9, the first one in the lowest byte.
        let values = u64::from_le_bytes(bytes) ^ ZEROS;
        // The upper bit of each byte above 9. What is carried out of a byte spoils later ones only.
        let others = (values.wrapping_add(0x7676_7676_7676_7676) | values) & 0x8080_8080_8080_8080;
        let count = (others.trailing_zeros() / 8) as usize;
        if count == 0 {
            return None;
        }
        self.0 = self.0.get(count..)?;
        // Digits that are missing are zeros before the others.
        let values = values << (64 - 8 * count);
        let pairs = (values * 10 + (values >> 8)) & 0x00ff_00ff_00ff_00ff;
        let fours = (pairs * 100 + (pairs >> 16)) & 0x0000_ffff_0000_ffff;
        Some(((fours * 10_000 + (fours >> 32)) & 0xffff_ffff, count))
    }

    /// What is left, fewer than eight bytes, with others behind that are no digits.
    #[inline(always)]
    fn padded(&self) -> [u8; 8] {
        let mut bytes = [0; 8];
        for (to, &from) in bytes.iter_mut().zip(self.0) {
            *to = from;
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::rng::Rng;
    use crate::protocol::beanstalkd::line::{Framed, first_line, parse};

    fn check(line: &[u8]) -> bool {
        let Some((request, length)) = recognise(line) else { return false };
        let Framed::Line(text, framed) = first_line(line) else { panic!("{line:?} is no line") };
        assert_eq!((Ok(request), length), (parse(text), framed), "{}", line.escape_ascii());
        true
    }

    #[test]
    fn plain_lines_are_recognised() {
        for line in [
            "put 0 0 1 0\r\n",
            "put 4294967295 12345678 120 65535\r\nabc",
            "delete 1\r\n",
            "delete 12345678\r\n",
            "delete 123456789\r\ndelete 1\r\n",
            "delete 1234567890123456\r\n",
            "reserve\r\n",
            "reserve-with-timeout 0\r\n",
            "reserve-with-timeout 2147483647\r\nput",
        ] {
            assert!(check(line.as_bytes()), "{line}");
        }
    }

    #[test]
    fn other_lines_are_left_to_the_parser() {
        for line in [
            "put 4294967296 0 1 0\r\n",
            "put 1 2 3\r\n",
            "put 1 2 3 4 \r\n",
            "put  1 2 3 4\r\n",
            "put 1\r\n 2 3 4\r\n",
            "delete \r\n",
            "delete 1",
            "delete 1\r",
            "delete 12345678901234567\r\n",
            "delete 1\n\r\n",
            "delete 00x\r\n",
            "reserve",
            "reserve \r\n",
            "reserve-with-timeout\r\n",
            "reserve-with-timeout -1\r\n",
            "reserve-with-timeout 2147483648\r\n",
            "release 1 2 3\r\n",
            "",
        ] {
            assert_eq!(recognise(line.as_bytes()), None, "{line}");
        }
    }

    #[test]
    fn random_lines_mean_what_the_parser_says() {
        let mut rng = Rng::new(7);
        let mut pick = |count: usize| usize::try_from(rng.below(count as u64)).unwrap();
        let verbs = [("put", 4), ("delete", 1), ("reserve", 0), ("reserve-with-timeout", 1)];
        let mut recognised = 0;
        for _ in 0..20_000 {
            let (verb, numbers) = verbs[pick(4)];
            let mut line = verb.as_bytes().to_vec();
            for _ in 0..numbers {
                line.extend_from_slice(b" ");
                (0..=pick(12)).for_each(|_| line.push(b"0123456789"[pick(10)]));
            }
            for _ in 0..pick(3) {
                let byte = b" \r\n0:/-\x80\xffp"[pick(10)];
                let place = pick(line.len());
                line[place] = byte;
            }
            line.extend_from_slice(if pick(8) == 0 { b"\n" } else { b"\r\n" });
            line.extend_from_slice(&b"delete 1\r\n"[..pick(11)]);
            recognised += usize::from(check(&line));
        }
        assert!(recognised > 4_000, "{recognised} of them are plain");
    }
}
