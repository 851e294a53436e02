//! Job ids and their slots, and which id is given out next.
//!
//! Ids are given out upwards to jobs and registered workers, and downwards from the end of the id
//! space to records that no protocol can name (declared queues, constraints, pauses). None is given
//! out twice.
//!
//! Ids rise by one, so the slots of 64 neighbours share a page, and only pages are hashed: a lookup
//! touches a table a sixty-fourth of the size, and growing that table stalls a sixty-fourth as
//! long. In the worst case, one job left in every page, a job costs 280 bytes here; in the usual
//! one it costs 5.

use super::idx::JobIdx;
use crate::base::limits::JOB_ID_END;
use crate::base::prefetch::prefetch;
use crate::base::slab_index::PackedOption;
use crate::model::id::JobId;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

const SHIFT: u32 = 6;
const PAGE: usize = 1 << SHIFT;
/// Up to this many pages a walk sorts their numbers, and passes over gaps for nothing.
const LISTED_PAGES_MAX: usize = 4096;
/// Smallest capacity of the table that is worth shrinking, in pages.
const SMALL: usize = 1024;

/// The count is not in the box: its block would take the next size class of the allocator, a byte
/// more for each job.
#[derive(Debug)]
struct Page {
    slots: Box<[PackedOption<JobIdx>; PAGE]>,
    live: u32,
}

/// Mixes page numbers. The server chooses the ids, so clients cannot make them collide.
#[derive(Debug, Default)]
struct PageHasher(u64);

impl Hasher for PageHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    /// Page numbers are hashed by [`write_u64`](Self::write_u64); a hasher has to take bytes, too.
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(self.0.rotate_left(8) ^ u64::from(byte));
        }
    }

    #[inline]
    fn write_u64(&mut self, number: u64) {
        // The table takes the bucket from the low bits and its tag from the high ones.
        let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ (mixed >> 32);
    }
}

/// The slot of each job id, and the ids that are given out next.
#[derive(Debug)]
pub(super) struct Ids {
    pages: HashMap<u64, Page, BuildHasherDefault<PageHasher>>,
    /// The next id of a job or worker: all that were given out to these are below it.
    next: u64,
    /// Ids from here on belong to hidden records.
    first_hidden: u64,
}

impl Default for Ids {
    fn default() -> Self {
        Self { pages: HashMap::default(), next: 1, first_hidden: JOB_ID_END }
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the remainder is below PAGE")]
fn offset(id: u64) -> usize {
    (id % PAGE as u64) as usize
}

impl Ids {
    /// Whether the ids are used up: those given out upwards have met those given out downwards.
    #[inline(always)]
    pub(super) fn is_exhausted(&self) -> bool {
        self.next >= self.first_hidden
    }

    /// A new id for a job or worker. The caller has checked that there is one. O(1).
    #[inline(always)]
    pub(super) fn take(&mut self) -> u64 {
        debug_assert!(!self.is_exhausted(), "an id of a hidden record would be given out again");
        let id = self.next;
        debug_assert!(self.find(id).is_none(), "no job has the id that is given out next");
        self.next += 1;
        id
    }

    /// A new id for a record that no protocol can name. As [`Ids::take`].
    pub(super) fn take_hidden(&mut self) -> JobId {
        assert!(!self.is_exhausted(), "an id of a job or worker would be given out again");
        self.first_hidden -= 1;
        JobId(self.first_hidden)
    }

    /// The id that is given out next to a job or worker.
    #[inline]
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    /// Makes all ids that are given out from now on to jobs and workers at least `next`.
    pub(super) fn skip_to(&mut self, next: u64) {
        self.next = self.next.max(next);
    }

    /// Makes `next`, which no job has and which is below those of hidden records, the id that is
    /// given out next; returns the former one, which the caller sets again.
    pub(super) fn replace_next(&mut self, next: u64) -> u64 {
        debug_assert!(next <= self.first_hidden, "ids of jobs are below those of hidden records");
        std::mem::replace(&mut self.next, next)
    }

    /// Notes that a restored hidden record has this id.
    pub(super) fn skip_hidden(&mut self, id: JobId) {
        self.first_hidden = self.first_hidden.min(id.0);
    }

    /// Whether a job or worker has, or had, this id.
    pub(super) fn was_given_out(&self, id: u64) -> bool {
        (1..self.next).contains(&id)
    }

    /// Whether a hidden record has, or had, this id.
    pub(super) fn is_hidden(&self, id: JobId) -> bool {
        id.0 >= self.first_hidden
    }

    /// The slot of `id`, if there is such a job. O(1).
    #[inline]
    pub(super) fn find(&self, id: u64) -> Option<JobIdx> {
        self.pages.get(&(id >> SHIFT))?.slots[offset(id)].expand()
    }

    /// Prefetches what [`Ids::find`] and [`Ids::remove`] of this id read. O(1).
    #[inline]
    pub(super) fn prefetch(&self, id: u64) {
        if let Some(page) = self.pages.get(&(id >> SHIFT)) {
            prefetch(&page.slots[offset(id)..=offset(id)], usize::MAX);
        }
    }

    /// Adds an id. O(1) amortised.
    #[inline(always)]
    pub(super) fn insert(&mut self, id: u64, slot: JobIdx) {
        let page = self
            .pages
            .entry(id >> SHIFT)
            .or_insert_with(|| Page { slots: Box::new([PackedOption::NONE; PAGE]), live: 0 });
        let place = &mut page.slots[offset(id)];
        assert!(place.is_none(), "an id was given out twice");
        *place = slot.into();
        page.live += 1;
        debug_assert!(page.live as usize <= PAGE, "a page counts the ids that it has");
    }

    /// Removes `id` and returns its slot, if there is such a job and `may` says so: see
    /// [`Ids::remove`]. O(1).
    #[inline(always)]
    pub(super) fn remove_if(
        &mut self,
        id: u64,
        may: impl FnOnce(JobIdx) -> bool,
    ) -> Option<JobIdx> {
        let number = id >> SHIFT;
        let page = self.pages.get_mut(&number)?;
        let place = &mut page.slots[offset(id)];
        let slot = place.expand().filter(|&slot| may(slot))?;
        *place = PackedOption::NONE;
        debug_assert!(page.live > 0, "a page counts fewer ids than it has");
        page.live -= 1;
        if page.live == 0 && number != self.next >> SHIFT {
            self.drop_page(number);
        }
        Some(slot)
    }

    #[cold]
    fn drop_page(&mut self, number: u64) {
        debug_assert!(
            self.pages[&number].slots.iter().all(|slot| slot.is_none()),
            "a page with an id is kept"
        );
        self.pages.remove(&number);
        if self.pages.capacity() > SMALL && self.pages.len() < self.pages.capacity() / 16 {
            self.pages.shrink_to(self.pages.capacity() / 4);
        }
    }

    /// Removes `id` and returns its slot, if there is such a job. The page of the id that is given
    /// out next is kept, so that a job that comes and goes alone costs no allocation. O(1).
    #[inline(always)]
    pub(super) fn remove(&mut self, id: u64) -> Option<JobIdx> {
        self.remove_if(id, |_| true)
    }

    /// Shows jobs by id, from `from` on, until `visit` returns false or about `budget` places were
    /// looked at. Returns the id to go on with; `None`: there are no more. O(budget).
    pub(super) fn visit(
        &self,
        from: u64,
        mut budget: usize,
        mut visit: impl FnMut(u64, JobIdx) -> bool,
    ) -> Option<u64> {
        let mut listed: Vec<u64> = Vec::new();
        let few = self.pages.len() <= LISTED_PAGES_MAX;
        if few {
            listed.extend(self.pages.keys().filter(|&&number| number >= from >> SHIFT));
            listed.sort_unstable();
        }
        let end = (self.next >> SHIFT) + 1;
        let mut listed = listed.into_iter();
        let mut all = from >> SHIFT..end;
        let mut next_number = || if few { listed.next() } else { all.next() };
        while let Some(number) = next_number() {
            let first = (number << SHIFT).max(from);
            if budget == 0 {
                return Some(first);
            }
            let Some(page) = self.pages.get(&number) else {
                budget -= 1;
                continue;
            };
            budget = budget.saturating_sub(PAGE);
            for id in first..(number + 1) << SHIFT {
                if let Some(slot) = page.slots[offset(id)].expand()
                    && !visit(id, slot)
                {
                    return Some(id + 1);
                }
            }
        }
        None
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
        for _ in 0..20_000 {
            if rng.below(5) < 3 {
                let id = ids.take();
                let slot = JobIdx::from_slot(u32::try_from(id % 1_000).unwrap());
                ids.insert(id, slot);
                model.insert(id, slot);
            } else if let Some((&id, _)) = model.range(rng.below(ids.next())..).next() {
                assert_eq!(ids.remove(id), model.remove(&id));
                assert_eq!(ids.remove(id), None);
            }
            let id = rng.below(ids.next() + 2);
            assert_eq!(ids.find(id), model.get(&id).copied());
        }
        assert_eq!(ids.count(), model.len());
        for &id in model.keys() {
            ids.remove(id);
        }
        assert!(ids.pages.len() <= 2, "pages of removed ids are freed");
        assert_eq!(ids.find(u64::MAX), None);
    }
    #[test]
    fn ids_are_exhausted_when_both_ends_meet() {
        let mut ids = Ids::default();
        ids.skip_to(7);
        ids.skip_hidden(JobId(10));
        assert_eq!((ids.take(), ids.take_hidden(), ids.take()), (7, JobId(9), 8));
        assert!(ids.is_exhausted());
        assert!(ids.was_given_out(8) && !ids.was_given_out(9) && ids.is_hidden(JobId(9)));
    }
}
