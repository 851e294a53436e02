//! The queue of a name: by the table of names, or where the same name was found last.
//!
//! Invariant: a queue that is remembered for a name is compared with it, so what was remembered of
//! a queue that is gone, or of a list that is not sent any more, costs a comparison and nothing
//! else.

use super::Queues;
use crate::base::limits::NEW_QUEUE_WORK;
use crate::base::slab_index::PackedOption;
use crate::store::idx::QueueIdx;
use crate::store::waiters::Waiters;
use std::cell::Cell;
use std::hash::BuildHasher;

impl Queues {
    /// The queue of this name, if it is known. O(name).
    #[inline(always)]
    pub(in crate::store) fn find(&self, name: &[u8]) -> Option<QueueIdx> {
        let hash = self.hasher.hash_one(name);
        let entry = self.by_name.find(hash, |entry| *self.slots[entry.queue].name == *name)?;
        Some(entry.queue)
    }

    /// [`Queues::find`], beginning with the queue that is remembered. What is found is remembered.
    #[inline(always)]
    fn find_from(
        &self,
        remembered: &Cell<PackedOption<QueueIdx>>,
        name: &[u8],
    ) -> Option<QueueIdx> {
        if let Some(queue) = remembered.get().expand()
            && let Some(known) = self.slots.get(queue)
            && known.name.last() == name.last()
            && *known.name == *name
        {
            debug_assert_eq!(self.find(name), Some(queue), "a name leads to one queue");
            return Some(queue);
        }
        let found = self.find(name)?;
        remembered.set(found.into());
        Some(found)
    }

    /// [`Queues::find`] for a name behind that of another queue in a list: most lists are sent many
    /// times.
    #[inline(always)]
    pub(in crate::store) fn find_behind(
        &self,
        before: Option<QueueIdx>,
        name: &[u8],
    ) -> Option<QueueIdx> {
        // The one before may be gone: its last jobs may have been found to be over their time.
        match before.and_then(|before| self.slots.get(before)) {
            Some(before) => self.find_from(&before.named_behind, name),
            None => self.find(name),
        }
    }

    /// [`Queues::find`] for commands that name one queue: most name the one that was named before.
    #[inline(always)]
    pub(in crate::store) fn find_recent(&self, name: &[u8]) -> Option<QueueIdx> {
        self.find_from(&self.recent, name)
    }

    /// The queue of this name, made if there is none. O(name), amortised.
    #[inline]
    pub(in crate::store) fn find_or_add(&mut self, name: &[u8]) -> QueueIdx {
        match self.find(name) {
            Some(queue) => queue,
            None => self.add(name),
        }
    }

    /// [`Queues::find_or_add`], with the work of making a queue noted.
    #[inline(always)]
    pub(in crate::store) fn find_or_add_noted(
        &mut self,
        name: &[u8],
        waiters: &mut Waiters,
    ) -> QueueIdx {
        if let Some(queue) = self.find_recent(name) {
            return queue;
        }
        waiters.note_work(NEW_QUEUE_WORK);
        self.add(name)
    }
}
