//! Cursors of lists as texts: opaque to clients, and good for the same list only.

use super::problem::Problem;
use crate::model::id::JobId;
use crate::model::manage::{JobCursor, JobState, ListKey};
use std::cmp::Reverse;

/// A number that tells lists of jobs apart.
fn list_tag(queue: &[u8], state: Option<JobState>) -> u32 {
    let word = state.map_or("all", JobState::name);
    crc32c::crc32c_append(crc32c::crc32c(queue), word.as_bytes())
}

/// A number in hexadecimal digits, and nothing else.
fn hex(text: &str) -> Option<u64> {
    let digits = text.bytes().all(|byte| byte.is_ascii_hexdigit());
    digits.then(|| u64::from_str_radix(text, 16).ok()).flatten()
}

#[cold]
fn wrong_cursor() -> Problem {
    Problem::wrong("cursor", "the 'next_cursor' of an answer to the same list")
}

fn write_key(key: &ListKey) -> String {
    let digits = key.digits.as_ref().map_or("", |Reverse((_, digits))| digits);
    format!("{:x}.{:x}.{digits}", key.rank, key.tie)
}

/// Writes the cursor of a list of jobs.
pub(super) fn write_job_cursor(
    cursor: &JobCursor,
    queue: &[u8],
    state: Option<JobState>,
) -> String {
    let place = match cursor {
        JobCursor::Start => String::new(),
        JobCursor::Ordered(key, shown) => format!("o.{shown:x}.{}", write_key(key)),
        JobCursor::ById(id, None) => format!("i.{id:x}"),
        JobCursor::ById(id, Some(key)) => format!("b.{id:x}.{}", write_key(key)),
    };
    format!("{:08x}.{place}", list_tag(queue, state))
}

/// Reads the cursor of a list of jobs.
pub(super) fn job_cursor(
    text: &str,
    queue: &[u8],
    state: Option<JobState>,
) -> Result<JobCursor, Problem> {
    let read = || {
        let parts: Vec<&str> = text.split('.').collect();
        let (tag, parts) = parts.split_first()?;
        if hex(tag)? != u64::from(list_tag(queue, state)) {
            return None;
        }
        let key = |rank: &str, tie: &str, digits: &str| {
            let known = digits.bytes().all(|byte| byte.is_ascii_digit());
            let number = (!digits.is_empty()).then(|| Reverse((digits.len(), digits.into())));
            known.then_some(ListKey { rank: hex(rank)?, digits: number, tie: hex(tie)? })
        };
        match *parts {
            ["o", shown, rank, tie, digits] => {
                let shown = u32::try_from(hex(shown)?).ok()?;
                Some(JobCursor::Ordered(key(rank, tie, digits)?, shown))
            }
            ["i", id] => Some(JobCursor::ById(hex(id)?, None)),
            ["b", id, rank, tie, digits] => {
                Some(JobCursor::ById(hex(id)?, Some(key(rank, tie, digits)?)))
            }
            _ => None,
        }
    };
    read().ok_or_else(wrong_cursor)
}

/// The cursor of a list of queues: the name of the last one, in hexadecimal digits.
pub(super) fn write_queue_cursor(name: &[u8]) -> String {
    use std::fmt::Write as _;
    let mut text = "q".to_owned();
    for byte in name {
        // Proof: writing to a string does not fail.
        write!(text, "{byte:02x}").expect("a string takes text");
    }
    text
}

/// Reads the cursor of a list of queues.
pub(super) fn queue_cursor(text: &str) -> Result<Vec<u8>, Problem> {
    let digits = text.strip_prefix('q').filter(|digits| digits.len() % 2 == 0 && text.is_ascii());
    let byte = |at: usize, digits: &str| u8::try_from(hex(&digits[at..at + 2])?).ok();
    let name = digits.and_then(|digits| {
        (0..digits.len()).step_by(2).map(|at| byte(at, digits)).collect::<Option<Vec<u8>>>()
    });
    name.ok_or_else(wrong_cursor)
}

/// A number that tells searches apart.
pub(super) fn search_tag(queue: &[u8], query: &str) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(queue), query.as_bytes())
}

/// The cursor of a search: the id of the last job.
pub(super) fn write_search_cursor(last: u64, tag: u32) -> String {
    format!("s{tag:08x}.{last:x}")
}

/// Reads the cursor of a search.
pub(super) fn search_cursor(text: &str, tag: u32) -> Result<JobId, Problem> {
    let read = || {
        let (digits, last) = text.strip_prefix('s')?.split_once('.')?;
        (hex(digits)? == u64::from(tag)).then_some(JobId(hex(last)?))
    };
    read().ok_or_else(wrong_cursor)
}

/// The cursor of a list of actions.
pub(super) fn write_action_cursor(last: u64) -> String {
    write_number_cursor(last, 'a')
}

/// Reads the cursor of a list of actions.
pub(super) fn action_cursor(text: &str) -> Result<u64, Problem> {
    number_cursor(text, 'a')
}

/// The cursor of a list by numbers: `mark` tells lists apart.
pub(super) fn write_number_cursor(number: u64, mark: char) -> String {
    format!("{mark}{number:x}")
}

/// Reads the cursor of a list by numbers.
pub(super) fn number_cursor(text: &str, mark: char) -> Result<u64, Problem> {
    text.strip_prefix(mark).and_then(hex).ok_or_else(wrong_cursor)
}

/// Reads the cursor of a list of connections: a place.
pub(super) fn place_cursor(text: &str) -> Result<u32, Problem> {
    u32::try_from(number_cursor(text, 'c')?).map_err(|_| wrong_cursor())
}

/// The cursor of a list of constraints: the name of the last one.
pub(super) fn write_name_cursor(name: &str) -> String {
    write_queue_cursor(name.as_bytes()).replacen('q', "n", 1)
}

/// Reads the cursor of a list of constraints.
pub(super) fn name_cursor(text: &str) -> Result<String, Problem> {
    let digits = text.strip_prefix('n').unwrap_or("-");
    let name = queue_cursor(&format!("q{digits}"))?;
    String::from_utf8(name).map_err(|_| wrong_cursor())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursor_is_good_for_its_list_only() {
        let key = |digits: Option<&str>| ListKey {
            rank: u64::MAX,
            digits: digits.map(|digits| Reverse((digits.len(), digits.into()))),
            tie: 7,
        };
        let ready = Some(JobState::Ready);
        for cursor in [
            JobCursor::Ordered(key(None), 17),
            JobCursor::Ordered(key(Some("18446744073709551616")), 17),
            JobCursor::ById(99, None),
            JobCursor::ById(99, Some(key(None))),
        ] {
            let text = write_job_cursor(&cursor, b"q", ready);
            assert_eq!(job_cursor(&text, b"q", ready), Ok(cursor));
            for (queue, state) in [(b"r", ready), (b"q", Some(JobState::Buried)), (b"q", None)] {
                assert!(job_cursor(&text, queue, state).is_err());
            }
        }
        for text in ["", "x", "00000000.i.1", "\u{e9}", "-"] {
            assert!(job_cursor(text, b"q", ready).is_err(), "{text}");
            assert!(queue_cursor(text).is_err(), "{text}");
        }
        for text in ["q+1", "q-1", "q1", "q0x", "Q61"] {
            assert!(queue_cursor(text).is_err(), "{text}");
        }
        let text = write_job_cursor(&JobCursor::ById(9, None), b"q", ready);
        assert!(job_cursor(&text.replace(".9", ".+9"), b"q", ready).is_err());
        let search = write_search_cursor(17, search_tag(b"q", "[]"));
        assert_eq!(search_cursor(&search, search_tag(b"q", "[]")), Ok(JobId(17)));
        assert!(search_cursor(&search, search_tag(b"q", "[ ]")).is_err());
        assert_eq!(queue_cursor(&write_queue_cursor(b"a\xff")), Ok(b"a\xff".to_vec()));
    }
}
