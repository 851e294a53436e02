//! Cached gets of the native API: like those of the protocol, but with all their arguments.

use super::gets::{LINE_MAX_BYTES, SLOTS};
use crate::protocol::operations::Args;
use foldhash::fast::FixedState;
use std::hash::BuildHasher;
use std::sync::Arc;

/// A line and its arguments.
type CachedGet = (Box<[u8]>, Arc<Args>);

/// The cached gets. Memory: a small multiple of [`LINE_MAX_BYTES`] for each slot in use.
#[derive(Debug, Default)]
pub(super) struct NativeGetCache {
    hasher: FixedState,
    entries: Vec<Option<CachedGet>>,
}

impl NativeGetCache {
    /// The slot of this line. O(line).
    #[cold]
    pub(super) fn find(&self, line: &[u8]) -> Option<usize> {
        if line.len() > LINE_MAX_BYTES {
            return None;
        }
        let slot = self.slot(line);
        let (known, _) = self.entries.get(slot)?.as_ref()?;
        (**known == *line).then_some(slot)
    }

    /// The arguments of the line in `slot`.
    #[cold]
    pub(super) fn get(&self, slot: usize) -> Arc<Args> {
        let entry = self.entries[slot].as_ref();
        Arc::clone(&entry.expect("`find` found it there").1)
    }

    /// Caches a line in the slot of another. O(line).
    pub(super) fn insert(&mut self, line: &[u8], args: &Arc<Args>) {
        if line.len() > LINE_MAX_BYTES {
            return;
        }
        if self.entries.is_empty() {
            self.entries.resize_with(SLOTS, || None);
        }
        let slot = self.slot(line);
        self.entries[slot] = Some((line.into(), Arc::clone(args)));
    }

    fn slot(&self, line: &[u8]) -> usize {
        usize::from(self.hasher.hash_one(line).to_le_bytes()[0]) % SLOTS
    }
}
