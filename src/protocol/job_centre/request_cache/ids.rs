//! Cached requests about one job. The deletes of a client differ in the id only, so the text around
//! the id is cached: a line with the same text around other digits is the same request for another
//! job.
//!
//! Measured (`benches/instructions.rs`): a cached delete takes a third of the instructions.
//!
//! Correctness: the digits of the id occurred once in the cached line, so they were the number that
//! the parser found. Replacing a number in JSON text by another changes nothing else; and digits
//! are read as an id only without a leading zero and if they end where the cached ones ended.

use crate::model::command::Command;
use crate::model::id::JobId;
use crate::model::manage::{ManageCommand, RunReport};
use memchr::memmem;

/// Texts that are cached at a time: a few kinds of requests in a few spellings.
const SLOTS: usize = 6;

/// The report of a job that is done, without a result.
static DONE: RunReport = RunReport::Complete { result: None };

/// The longest line that is cached, in bytes.
const LINE_MAX_BYTES: usize = 128;

/// The most digits that are read as an id.
const ID_DIGITS_MAX: usize = 16;

/// The cached requests that name a job.
#[derive(Debug, Default)]
pub(super) struct ByIdCache {
    shapes: Vec<Shape>,
    next: usize,
}

/// A line without its id.
#[derive(Debug)]
struct Shape {
    before: Vec<u8>,
    after: Vec<u8>,
    verb: Verb,
}

#[derive(Clone, Copy, Debug)]
enum Verb {
    Delete,
    Release,
    Touch,
    Done,
}

impl Shape {
    /// The id in a line of this shape.
    #[inline]
    fn id(&self, line: &[u8]) -> Option<u64> {
        let rest = line.strip_prefix(&self.before[..])?;
        let (mut id, mut count) = (0, 0);
        while count < ID_DIGITS_MAX
            && let Some(digit @ b'0'..=b'9') = rest.get(count)
        {
            id = id * 10 + u64::from(digit - b'0');
            count += 1;
        }
        let well_formed = count == 1 || (count > 1 && rest[0] != b'0');
        (well_formed && rest[count..] == self.after).then_some(id)
    }
}

impl ByIdCache {
    /// The slot whose text this line has, and the id. O(line).
    #[inline]
    pub(super) fn find(&self, line: &[u8]) -> Option<(usize, u64)> {
        let mut shapes = self.shapes.iter().enumerate();
        shapes.find_map(|(slot, shape)| Some((slot, shape.id(line)?)))
    }

    /// The command of the text in `slot` for job `id`.
    #[inline]
    pub(super) fn get(&self, slot: usize, id: u64) -> Command<'static> {
        let id = JobId(id);
        match self.shapes[slot].verb {
            Verb::Delete => Command::Delete { id },
            Verb::Release => Command::Release { id, lease: None },
            Verb::Touch => Command::Touch { id, lease: None },
            Verb::Done => Command::Manage(ManageCommand::Report { id, token: None, report: &DONE }),
        }
    }

    /// Caches a line that means `command` for job `id`, in the slot of another. O(line).
    #[cold]
    pub(super) fn insert(&mut self, line: &[u8], id: JobId, command: &Command<'_>) {
        let verb = match command {
            Command::Delete { .. } => Verb::Delete,
            Command::Release { .. } => Verb::Release,
            Command::Touch { .. } => Verb::Touch,
            Command::Manage(ManageCommand::Report { token: None, report, .. })
                if **report == DONE =>
            {
                Verb::Done
            }
            _ => return,
        };
        let digits = id.0.to_string();
        // 0 also stands for numbers that are not ids and are written differently.
        if id.0 == 0 || line.len() > LINE_MAX_BYTES || digits.len() > ID_DIGITS_MAX {
            return;
        }
        let mut places = memmem::find_iter(line, digits.as_bytes());
        let (Some(at), None) = (places.next(), places.next()) else { return };
        let shape =
            Shape { before: line[..at].to_vec(), after: line[at + digits.len()..].to_vec(), verb };
        if self.shapes.len() < SLOTS {
            self.shapes.push(shape);
        } else {
            self.shapes[self.next] = shape;
            self.next = (self.next + 1) % SLOTS;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(cache: &ByIdCache, line: &str) -> Option<u64> {
        cache.find(line.as_bytes()).map(|(_, id)| id)
    }

    fn cache_of(line: &str, id: u64) -> ByIdCache {
        let mut cache = ByIdCache::default();
        let id = JobId(id);
        cache.insert(line.as_bytes(), id, &Command::Delete { id });
        cache
    }

    #[test]
    fn same_text_around_another_id_hits() {
        let cache = cache_of(r#"{"request":"delete","id":17}"#, 17);
        for id in [0, 1, 17, 170, 9_007_199_254_740_991] {
            assert_eq!(known(&cache, &format!(r#"{{"request":"delete","id":{id}}}"#)), Some(id));
        }
        for line in [
            r#"{"request":"delete","id":}"#,
            r#"{"request":"delete","id":017}"#,
            r#"{"request":"delete","id":00}"#,
            r#"{"request":"delete","id":-1}"#,
            r#"{"request":"delete","id":1.0}"#,
            r#"{"request":"delete","id":1e3}"#,
            r#"{"request":"delete","id":17 }"#,
            r#"{"request":"delete","id":17"#,
            r#"{"request":"delete","id":"17"}"#,
            r#"{"request":"delete","id":90071992547409910}"#,
            r#"{"request":"abort","id":17}"#,
            "",
        ] {
            assert_eq!(known(&cache, line), None, "{line}");
        }
    }

    #[test]
    fn id_whose_digits_occur_twice_is_not_cached() {
        let twice = r#"{"request":"delete","x":112,"id":12}"#;
        assert_eq!(known(&cache_of(twice, 12), twice), None);
        let long = format!(r#"{{"request":"delete","id":7,"x":"{}"}}"#, "y".repeat(LINE_MAX_BYTES));
        assert_eq!(known(&cache_of(&long, 7), &long), None);
        for never in ["-5", "-0", "0", "9999999999999999999990"] {
            let cache = cache_of(&format!(r#"{{"request":"delete","id":{never}}}"#), 0);
            assert!(cache.shapes.is_empty(), "{never}");
        }
    }

    #[test]
    fn latest_texts_stay_cached() {
        let mut cache = ByIdCache::default();
        let line = |spelling: usize, id: u64| {
            format!(r#"{{"request":"delete"{}, "id":{id}}}"#, " ".repeat(spelling))
        };
        for spelling in 0..=SLOTS {
            let id = JobId(5);
            cache.insert(line(spelling, 5).as_bytes(), id, &Command::Delete { id });
        }
        assert_eq!(known(&cache, &line(0, 6)), None);
        for spelling in 1..=SLOTS {
            assert_eq!(known(&cache, &line(spelling, 6)), Some(6));
        }
    }
}
