//! Cached gets. A worker sends the same line again and again, and so do other workers of its kind.
//! A line always means the same, so it is parsed once.
//!
//! Measured (`benches/instructions.rs`): a get of one queue takes a third fewer instructions if its
//! line is cached.
//!
//! Invariant: an entry holds a line and exactly what the parser made of it.

use crate::base::strings::{StringList, Strings};
use crate::model::command::{Command, Wait};
use foldhash::fast::FixedState;
use std::hash::BuildHasher;

/// Lines that are cached at a time. A line hashes to one slot; the latest line stays.
pub(super) const SLOTS: usize = 64;

/// The longest line that is cached, in bytes. A hundred queues fit.
pub(super) const LINE_MAX_BYTES: usize = 4096;

/// The cached gets. Memory: a small multiple of [`LINE_MAX_BYTES`] for each slot in use.
#[derive(Debug, Default)]
pub(super) struct GetCache {
    hasher: FixedState,
    entries: Vec<Entry>,
}

#[derive(Debug)]
struct Entry {
    line: Vec<u8>,
    queues: StringList,
    wait: Wait,
}

impl Entry {
    fn vacant() -> Self {
        Self { line: Vec::new(), queues: StringList::default(), wait: Wait::No }
    }
}

impl GetCache {
    /// The slot of this line. O(line).
    #[inline]
    pub(super) fn find(&self, line: &[u8]) -> Option<usize> {
        if line.len() > LINE_MAX_BYTES {
            return None;
        }
        let slot = self.slot(line);
        (self.entries.get(slot)?.line == line).then_some(slot)
    }

    /// The command of the line in `slot`.
    #[inline]
    pub(super) fn get(&self, slot: usize) -> Command<'_> {
        let entry = &self.entries[slot];
        Command::Reserve { queues: entry.queues.from(0), wait: entry.wait }
    }

    /// Caches a line in the slot of another. O(line).
    pub(super) fn insert(&mut self, line: &[u8], queues: Strings<'_>, wait: Wait) {
        if line.len() > LINE_MAX_BYTES {
            return;
        }
        if self.entries.is_empty() {
            self.entries.resize_with(SLOTS, Entry::vacant);
        }
        let slot = self.slot(line);
        let entry = &mut self.entries[slot];
        entry.line.clear();
        entry.line.extend_from_slice(line);
        entry.queues.clear();
        for queue in queues {
            entry.queues.push(queue);
        }
        entry.wait = wait;
    }

    fn slot(&self, line: &[u8]) -> usize {
        usize::from(self.hasher.hash_one(line).to_le_bytes()[0]) % SLOTS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wait(number: usize) -> Wait {
        if number.is_multiple_of(2) { Wait::Forever } else { Wait::Milliseconds(number as u64) }
    }

    #[test]
    fn cached_line_yields_its_command_and_other_lines_miss() {
        let mut cache = GetCache::default();
        let mut queues = StringList::default();
        let lines: Vec<String> = (0..500)
            .map(|number| format!("{{\"request\":\"get\",\"queues\":[\"{number}\",\"x\"]}}"))
            .collect();
        let mut known = 0;
        let long =
            format!("{{\"request\":\"get\",\"queues\":[\"{}\"]}}", "x".repeat(LINE_MAX_BYTES));
        cache.insert(long.as_bytes(), queues.from(0), Wait::No);
        assert_eq!(cache.find(long.as_bytes()), None);
        for (number, line) in lines.iter().enumerate() {
            assert_eq!(cache.find(line.as_bytes()), None);
            queues.clear();
            queues.push(number.to_string().as_bytes());
            queues.push(b"x");
            cache.insert(line.as_bytes(), queues.from(0), wait(number));
        }
        for (number, line) in lines.iter().enumerate() {
            let Some(slot) = cache.find(line.as_bytes()) else { continue };
            let Command::Reserve { queues, wait: found } = cache.get(slot) else {
                panic!("a reserve was cached")
            };
            let expected = [number.to_string().into_bytes(), b"x".to_vec()];
            assert!(queues.into_iter().eq(&expected), "{line}");
            assert_eq!(found, wait(number));
            known += 1;
        }
        assert!(known > 30, "each slot remembers its last line: {known}");
    }
}
