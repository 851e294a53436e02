//! Job ids and their slots.
//!
//! Ids rise by one, so the slots of 64 neighbours share a page, and only pages are hashed: a lookup
//! touches a table a sixty-fourth of the size, and growing that table stalls a sixty-fourth as
//! long. In the worst case, one job left in every page, a job costs 280 bytes here; in the usual
//! one it costs 5.

use super::idx::JobIdx;
use crate::base::slab_index::PackedOption;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

const SHIFT: u32 = 6;
const PAGE: usize = 1 << SHIFT;
/// Smallest capacity of the table that is worth shrinking, in pages.
const SMALL: usize = 1024;

#[derive(Debug)]
struct Page {
    slots: [PackedOption<JobIdx>; PAGE],
    live: u32,
}

/// Mixes page numbers. The server chooses the ids, so clients cannot make them collide.
#[derive(Debug, Default)]
struct PageHasher(u64);

impl Hasher for PageHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("page numbers are hashed as u64");
    }

    #[inline]
    fn write_u64(&mut self, number: u64) {
        // The table takes the bucket from the low bits and its tag from the high ones.
        let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ (mixed >> 32);
    }
}

/// The slot of each job id.
#[derive(Debug, Default)]
pub(super) struct Ids {
    pages: HashMap<u64, Box<Page>, BuildHasherDefault<PageHasher>>,
}

#[expect(clippy::cast_possible_truncation, reason = "the remainder is below PAGE")]
fn offset(id: u64) -> usize {
    (id % PAGE as u64) as usize
}

impl Ids {
    /// The slot of `id`, if there is such a job. O(1).
    #[inline]
    pub(super) fn find(&self, id: u64) -> Option<JobIdx> {
        self.pages.get(&(id >> SHIFT))?.slots[offset(id)].expand()
    }

    /// Adds an id. O(1) amortised.
    #[inline(always)]
    pub(super) fn insert(&mut self, id: u64, slot: JobIdx) {
        let page = self
            .pages
            .entry(id >> SHIFT)
            .or_insert_with(|| Box::new(Page { slots: [PackedOption::NONE; PAGE], live: 0 }));
        let place = &mut page.slots[offset(id)];
        assert!(place.is_none(), "an id was given out twice");
        *place = slot.into();
        page.live += 1;
    }

    /// Removes `id` and returns its slot, if there is such a job. The page of `next_id`, the id
    /// that is given next, is kept, so that a job that comes and goes alone costs no allocation.
    /// O(1).
    #[inline(always)]
    pub(super) fn remove(&mut self, id: u64, next_id: u64) -> Option<JobIdx> {
        let number = id >> SHIFT;
        let page = self.pages.get_mut(&number)?;
        let slot = page.slots[offset(id)].take()?;
        page.live -= 1;
        if page.live == 0 && number != next_id >> SHIFT {
            self.pages.remove(&number);
            if self.pages.capacity() > SMALL && self.pages.len() < self.pages.capacity() / 16 {
                self.pages.shrink_to(self.pages.capacity() / 4);
            }
        }
        Some(slot)
    }

    /// The number of ids. O(pages): for tests.
    pub(super) fn count(&self) -> usize {
        self.pages.values().map(|page| page.live as usize).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::rng::Rng;
    use crate::base::slab_index::SlabIndex;
    use std::collections::BTreeMap;

    #[test]
    fn id_is_found_until_removed() {
        let (mut ids, mut model) = (Ids::default(), BTreeMap::new());
        let mut rng = Rng::new(3);
        let mut next_id = 1;
        for _ in 0..20_000 {
            if rng.below(5) < 3 {
                let slot = JobIdx::from_slot(u32::try_from(next_id % 1_000).unwrap());
                ids.insert(next_id, slot);
                model.insert(next_id, slot);
                next_id += 1;
            } else if let Some((&id, _)) = model.range(rng.below(next_id)..).next() {
                assert_eq!(ids.remove(id, next_id), model.remove(&id));
                assert_eq!(ids.remove(id, next_id), None);
            }
            let id = rng.below(next_id + 2);
            assert_eq!(ids.find(id), model.get(&id).copied());
        }
        assert_eq!(ids.count(), model.len());
        for &id in model.keys() {
            ids.remove(id, next_id);
        }
        assert!(ids.pages.len() <= 2, "pages of removed ids are freed");
        assert_eq!(ids.find(u64::MAX), None);
    }
}
