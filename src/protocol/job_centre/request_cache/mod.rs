//! Requests that were asked before, or nearly: what a line says does not change, so a line that is
//! known, as a whole or up to the id in it, is compared and not parsed.
//!
//! Invariant: recalling a line gives exactly the command that parsing it would give.

mod gets;
mod ids;

use crate::model::command::Command;
use gets::GetCache;
use ids::ByIdCache;

/// What is remembered of the lines of all Job Centre clients.
#[derive(Debug, Default)]
pub(in crate::protocol) struct RequestCache {
    gets: GetCache,
    ids: ByIdCache,
}

/// Where a line is remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CachedRequest {
    Get(usize),
    WithId(usize, u64),
}

/// What a line asks for, to judge by the two bytes at which most clients name the request:
/// `{"request":"get"`, with or without a blank. Only a hint on where to look.
#[inline]
fn prefix_key(line: &[u8]) -> [u8; 2] {
    match line.get(12..14) {
        Some(&[first, second]) => [first, second],
        _ => [0, 0],
    }
}

impl RequestCache {
    /// Where this line is remembered. O(line) if it looks like one that may be, or else O(1).
    #[inline]
    pub(super) fn find(&self, line: &[u8]) -> Option<CachedRequest> {
        match prefix_key(line) {
            [b'g', _] | [_, b'g'] => self.gets.find(line).map(CachedRequest::Get),
            [b'd' | b'a' | b't', _] | [_, b'd' | b'a' | b't'] => {
                self.ids.find(line).map(|(place, id)| CachedRequest::WithId(place, id))
            }
            _ => None,
        }
    }

    /// What the line says that was found to be known.
    #[inline]
    pub(super) fn get(&self, known: CachedRequest) -> Command<'_> {
        match known {
            CachedRequest::Get(place) => self.gets.get(place),
            CachedRequest::WithId(place, id) => self.ids.get(place, id),
        }
    }

    /// Remembers what a line says if it is of a kind that comes again. O(line).
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
