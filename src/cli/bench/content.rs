//! The content of jobs. All of it follows from the number of the job, so that a delivered job can
//! be checked without a copy of what was sent.

use crate::base::rng::Rng;
use crate::wire::json::push_number;

/// The job's text is `{"n":` number `,"data":"` filler `"}`.
const HEAD: &[u8] = b"{\"n\":";
const MIDDLE: &[u8] = b",\"data\":\"";
const TAIL: &[u8] = b"\"}";

/// The shortest job text: every job number fits.
pub(super) const PAYLOAD_MIN: usize = 32;

/// Distinct fillers come from different places in a random text of at least this length.
const TEXT_MIN: usize = 64 * 1024;

/// Generates and recognises jobs.
#[derive(Debug)]
pub(super) struct Content {
    size: usize,
    text: Vec<u8>,
    priorities: u64,
    queues: u64,
}

impl Content {
    /// Jobs of exactly `size` bytes, with `priorities` different priorities in `queues` queues.
    pub(super) fn new(size: usize, priorities: u64, queues: u64, seed: u64) -> Self {
        const ALPHABET: &[u8; 64] =
            b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789 -";
        assert!(size >= PAYLOAD_MIN && priorities > 0 && queues > 0, "the arguments are checked");
        let mut rng = Rng::new(seed);
        let mut text = vec![0; TEXT_MIN.max(2 * size)];
        for chunk in text.chunks_mut(8) {
            for (byte, random) in chunk.iter_mut().zip(rng.next_u64().to_le_bytes()) {
                *byte = ALPHABET[usize::from(random % 64)];
            }
        }
        Self { size, text, priorities, queues }
    }

    pub(super) fn size(&self) -> usize {
        self.size
    }

    pub(super) fn queues(&self) -> u64 {
        self.queues
    }

    #[inline]
    pub(super) fn priority(&self, seq: u64) -> u64 {
        mix(seq) % self.priorities
    }

    #[inline]
    pub(super) fn queue(&self, seq: u64) -> u64 {
        seq % self.queues
    }

    /// Writes the job's text.
    #[inline]
    pub(super) fn push(&self, seq: u64, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(HEAD);
        push_number(out, seq);
        out.extend_from_slice(MIDDLE);
        let length = self.size - (out.len() - start) - TAIL.len();
        out.extend_from_slice(self.filler(seq, length));
        out.extend_from_slice(TAIL);
    }

    /// The number of the job with this text, if it is exactly the text that the run gave it.
    #[inline]
    pub(super) fn recognise(&self, job: &[u8]) -> Option<u64> {
        let rest = job.strip_prefix(HEAD)?;
        let (seq, rest) = parse_number(rest)?;
        let filler = rest.strip_prefix(MIDDLE)?.strip_suffix(TAIL)?;
        (job.len() == self.size && filler == self.filler(seq, filler.len())).then_some(seq)
    }

    #[inline]
    fn filler(&self, seq: u64, length: usize) -> &[u8] {
        let offsets = (self.text.len() - self.size) as u64;
        let start = ((mix(seq) >> 16) % offsets) as usize;
        &self.text[start..start + length]
    }
}

/// Scatters consecutive numbers.
#[inline]
fn mix(seq: u64) -> u64 {
    Rng::new(seq).next_u64()
}

/// Parses a decimal number at the front. `None`: there is none, or it overflows.
#[inline]
pub(super) fn parse_number(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut number: u64 = 0;
    let mut length = 0;
    for byte in bytes {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            break;
        }
        number = number.checked_mul(10)?.checked_add(u64::from(digit))?;
        length += 1;
    }
    (length > 0).then(|| (number, &bytes[length..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_has_the_size_asked_for_and_is_recognised() {
        for size in [PAYLOAD_MIN, 100, 100_000] {
            let content = Content::new(size, 10, 3, 1);
            let mut texts = Vec::new();
            for seq in [0, 1, 9, 10, 123_456_789, 9_999_999_999_999_999] {
                let mut text = Vec::new();
                content.push(seq, &mut text);
                assert_eq!(text.len(), size);
                assert_eq!(content.recognise(&text), Some(seq));
                serde_json::from_slice::<serde_json::Value>(&text).unwrap();
                texts.push(text);
            }
            let filler = |text: &[u8]| text[text.len() - 10..].to_vec();
            assert_ne!(filler(&texts[0]), filler(&texts[1]), "fillers differ");
        }
    }

    #[test]
    fn a_changed_job_is_not_recognised() {
        let content = Content::new(64, 10, 1, 1);
        let mut text = Vec::new();
        content.push(77, &mut text);
        for at in 0..text.len() {
            let mut other = text.clone();
            other[at] ^= 1;
            assert_eq!(content.recognise(&other), None, "byte {at}");
            assert_eq!(content.recognise(&text[..at]), None, "cut at {at}");
        }
        assert_eq!(Content::new(64, 10, 1, 2).recognise(&text), None, "a job of another run");
    }

    #[test]
    fn numbers_are_taken_whole() {
        assert_eq!(parse_number(b"12}"), Some((12, &b"}"[..])));
        assert_eq!(parse_number(b"}"), None);
        assert_eq!(parse_number(b""), None);
        assert_eq!(parse_number(b"99999999999999999999999"), None);
    }
}
