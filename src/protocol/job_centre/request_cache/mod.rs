//! Recently parsed lines. A line always means the same, so a line that is cached, as a whole or up
//! to its id, is compared and not parsed.
//!
//! Invariant: a cached line yields exactly the command that parsing it yields.

mod gets;
mod ids;

use crate::model::command::Command;
use gets::GetCache;
use ids::ByIdCache;

/// The cached lines of all Job Centre connections.
#[derive(Debug, Default)]
pub(in crate::protocol) struct RequestCache {
    gets: GetCache,
    ids: ByIdCache,
}

/// The slot of a cached line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CachedRequest {
    Get(usize),
    WithId(usize, u64),
}

/// The kind of request, judged by the two bytes at which most clients name it: `{"request":"get"`,
/// with or without a blank. Only a hint where to search.
#[inline]
fn prefix_key(line: &[u8]) -> [u8; 2] {
    match line.get(12..14) {
        Some(&[first, second]) => [first, second],
        _ => [0, 0],
    }
}

impl RequestCache {
    /// The slot of this line. O(line) if it may be cached, otherwise O(1).
    #[inline]
    pub(super) fn find(&self, line: &[u8]) -> Option<CachedRequest> {
        match prefix_key(line) {
            [b'g', _] | [_, b'g'] => self.gets.find(line).map(CachedRequest::Get),
            [b'd' | b'a' | b't', _] | [_, b'd' | b'a' | b't'] => {
                self.ids.find(line).map(|(slot, id)| CachedRequest::WithId(slot, id))
            }
            _ => None,
        }
    }

    /// The command of a cached line.
    #[inline]
    pub(super) fn get(&self, known: CachedRequest) -> Command<'_> {
        match known {
            CachedRequest::Get(slot) => self.gets.get(slot),
            CachedRequest::WithId(slot, id) => self.ids.get(slot, id),
        }
    }

    /// Caches a line if it is of a kind that is repeated. O(line).
    pub(super) fn insert(&mut self, line: &[u8], command: &Command<'_>) {
        match (prefix_key(line), *command) {
            ([b'g', _] | [_, b'g'], Command::Reserve { queues, wait }) => {
                self.gets.insert(line, queues, wait);
            }
            (
                _,
                Command::Delete { id } | Command::Release { id, .. } | Command::Touch { id, .. },
            ) => self.ids.insert(line, id, command),
            _ => {}
        }
    }
}
