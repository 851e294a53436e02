//! Which owner's base record lies in which segment: side arrays by owner, one list a segment.
//!
//! Invariants, asserted by [`LiveIndex::check_invariants`]: an owner has at most one base record
//! and is in exactly one list then, that of the segment which holds it, or that of the open batch;
//! the lists' bytes and counts add up; the epochs of the segments have no gaps.

use super::format::SEGMENT_HEADER_BYTES;
use crate::base::paged::PagedVec;
use std::collections::VecDeque;

/// No owner: the end of a list.
const NONE: u32 = u32::MAX;

/// The base records of one segment, in the order in which they were appended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RecordList {
    first: u32,
    last: u32,
    pub(super) count: u32,
    pub(super) bytes: u64,
}

impl Default for RecordList {
    fn default() -> Self {
        Self { first: NONE, last: NONE, count: 0, bytes: 0 }
    }
}

/// A segment, in use or prepared.
#[derive(Clone, Debug)]
pub(super) struct Segment {
    pub(super) size: u64,
    /// Where the next frame goes.
    pub(super) used: u64,
    /// What checksums continue from.
    pub(super) key: u32,
    /// Whether the file is there.
    pub(super) ready: bool,
    /// The base records in it that are in force.
    pub(super) live: RecordList,
}

/// Where an owner's base record is. A record is never empty: 0 bytes say that there is none.
#[derive(Clone, Copy, Debug)]
struct IndexEntry {
    bytes: u32,
    /// The lower half of the segment's epoch, if not in the open batch.
    epoch: u32,
    prev: u32,
    next: u32,
}

const NO_ENTRY: IndexEntry = IndexEntry { bytes: 0, epoch: 0, prev: NONE, next: NONE };

/// The epoch of the open batch, whose segment is decided when it is sealed. Never that of a
/// segment: see [`LiveIndex::index`].
const OPEN_BATCH: u32 = u32::MAX;

#[derive(Debug, Default)]
pub(super) struct LiveIndex {
    entries: PagedVec<IndexEntry>,
    /// From the oldest to the last prepared one.
    pub(super) segments: VecDeque<Segment>,
    /// The epoch of the first of them.
    pub(super) first_epoch: u64,
    open: RecordList,
    /// Bytes of all base records in force.
    pub(super) live_bytes: u64,
    /// Owners that have one.
    pub(super) record_keys: u64,
}

impl Segment {
    /// One that is planned.
    pub(super) fn new(size: u64, key: u32) -> Self {
        Self {
            size,
            used: SEGMENT_HEADER_BYTES as u64,
            key,
            ready: false,
            live: RecordList::default(),
        }
    }
}

impl LiveIndex {
    /// The epoch behind the last segment.
    pub(super) fn end_epoch(&self) -> u64 {
        self.first_epoch + self.segments.len() as u64
    }

    /// The place of `epoch` among the segments.
    pub(super) fn segment_index(&self, epoch: u64) -> usize {
        let index = usize::try_from(epoch - self.first_epoch).expect("segments fit into memory");
        assert!(index < self.segments.len(), "segment {epoch} is not there");
        index
    }

    pub(super) fn segment(&mut self, epoch: u64) -> &mut Segment {
        let index = self.segment_index(epoch);
        &mut self.segments[index]
    }

    /// The half of an epoch that places keep. Halves are told apart by their distance from the
    /// first segment's, so one of them can be spared for [`OPEN`].
    fn epoch_low_bits(epoch: u64) -> u32 {
        u32::try_from(epoch % u64::from(OPEN_BATCH)).expect("the remainder is below OPEN")
    }

    fn index_of_low_bits(&self, half: u32) -> usize {
        let first = Self::epoch_low_bits(self.first_epoch);
        let modulus = u64::from(OPEN_BATCH);
        let ahead = (u64::from(half) + modulus - u64::from(first)) % modulus;
        usize::try_from(ahead).expect("segments fit into memory")
    }

    fn list(&mut self, half: u32) -> &mut RecordList {
        if half == OPEN_BATCH {
            return &mut self.open;
        }
        let index = self.index_of_low_bits(half);
        &mut self.segments[index].live
    }

    /// How many bytes the base record of `owner` has. O(1).
    pub(super) fn bytes(&self, owner: u32) -> Option<u32> {
        if owner as usize >= self.entries.len() {
            return None;
        }
        Some(self.entries.at(owner as usize).bytes).filter(|&bytes| bytes > 0)
    }

    /// The base record of `owner` is dead. Says how many bytes it had. O(1).
    pub(super) fn forget(&mut self, owner: u32) -> Option<u32> {
        self.bytes(owner)?;
        let place = self.entries.at(owner as usize);
        self.entries.set(owner as usize, NO_ENTRY);
        match place.prev {
            NONE => self.list(place.epoch).first = place.next,
            prev => {
                let before = self.entries.at(prev as usize);
                self.entries.set(prev as usize, IndexEntry { next: place.next, ..before });
            }
        }
        match place.next {
            NONE => self.list(place.epoch).last = place.prev,
            next => {
                let after = self.entries.at(next as usize);
                self.entries.set(next as usize, IndexEntry { prev: place.prev, ..after });
            }
        }
        let list = self.list(place.epoch);
        list.count -= 1;
        list.bytes -= u64::from(place.bytes);
        self.live_bytes -= u64::from(place.bytes);
        self.record_keys -= 1;
        Some(place.bytes)
    }

    /// The open batch has a base record of `owner`, of so many bytes. O(1) and, for an owner that
    /// is new, as many as there are new numbers.
    pub(super) fn open(&mut self, owner: u32, bytes: u32) {
        self.put(OPEN_BATCH, owner, bytes);
    }

    /// Segment `epoch` has a base record of `owner`, which is its latest. O(1), as above.
    pub(super) fn insert_recovered(&mut self, epoch: u64, owner: u32, bytes: u32) {
        assert!(
            self.index_of_low_bits(Self::epoch_low_bits(epoch)) < self.segments.len(),
            "the segment is there"
        );
        self.put(Self::epoch_low_bits(epoch), owner, bytes);
    }

    fn put(&mut self, half: u32, owner: u32, bytes: u32) {
        assert!(owner != NONE && bytes > 0, "an owner has a number, and a record bytes");
        self.forget(owner);
        while self.entries.len() <= owner as usize {
            self.entries.push(NO_ENTRY);
        }
        let list = self.list(half);
        let prev = std::mem::replace(&mut list.last, owner);
        list.count += 1;
        list.bytes += u64::from(bytes);
        if prev == NONE {
            list.first = owner;
        } else {
            let before = self.entries.at(prev as usize);
            self.entries.set(prev as usize, IndexEntry { next: owner, ..before });
        }
        self.entries.set(owner as usize, IndexEntry { bytes, epoch: half, prev, next: NONE });
        self.live_bytes += u64::from(bytes);
        self.record_keys += 1;
    }

    /// The open batch lies in segment `epoch`. O(base records in the batch).
    pub(super) fn seal(&mut self, epoch: u64) {
        let open = std::mem::take(&mut self.open);
        if open.count == 0 {
            return;
        }
        let half = Self::epoch_low_bits(epoch);
        let index = self.segment_index(epoch);
        let list = &mut self.segments[index].live;
        let prev = std::mem::replace(&mut list.last, open.last);
        list.count += open.count;
        list.bytes += open.bytes;
        if prev == NONE {
            list.first = open.first;
        } else {
            let before = self.entries.at(prev as usize);
            self.entries.set(prev as usize, IndexEntry { next: open.first, ..before });
            let first = self.entries.at(open.first as usize);
            self.entries.set(open.first as usize, IndexEntry { prev, ..first });
        }
        let mut owner = open.first;
        while owner != NONE {
            let place = self.entries.at(owner as usize);
            self.entries.set(owner as usize, IndexEntry { epoch: half, ..place });
            owner = place.next;
        }
    }

    /// Bytes of the base records in the open batch.
    pub(super) fn open_bytes(&self) -> u64 {
        self.open.bytes
    }

    /// The owner that has been in segment `index` for longest.
    pub(super) fn first_record_key(&self, index: usize) -> Option<u32> {
        Some(self.segments[index].live.first).filter(|&owner| owner != NONE)
    }

    /// The epoch of the first segment, up to `head`, whose base records are in force, or else
    /// `head`: nothing older is needed. O(segments that are given up).
    pub(super) fn oldest(&self, head: u64) -> u64 {
        let before = self.segment_index(head);
        let live = self.segments.iter().take(before).position(|segment| segment.live.count > 0);
        self.first_epoch + live.unwrap_or(before) as u64
    }

    /// Asserts what always holds. O(owners + segments).
    pub(super) fn check_invariants(&self) {
        let lists = self.segments.iter().enumerate().map(|(index, segment)| {
            (Self::epoch_low_bits(self.first_epoch + index as u64), segment.live)
        });
        let (mut owners, mut live_bytes) = (0, 0);
        for (half, list) in lists.chain([(OPEN_BATCH, self.open)]) {
            let (mut count, mut bytes, mut prev, mut owner) = (0, 0, NONE, list.first);
            while owner != NONE {
                let place = self.entries.at(owner as usize);
                assert_eq!((place.prev, place.epoch), (prev, half), "owner {owner} is elsewhere");
                count += 1;
                bytes += u64::from(place.bytes);
                (prev, owner) = (owner, place.next);
            }
            assert_eq!((list.last, list.count, list.bytes), (prev, count, bytes));
            owners += u64::from(count);
            live_bytes += bytes;
        }
        assert_eq!((self.record_keys, self.live_bytes), (owners, live_bytes), "sums are wrong");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::rng::Rng;

    /// Random operations against lists of owners; the halves of the epochs overflow meanwhile.
    #[test]
    fn the_ledger_is_a_list_of_lists() {
        let mut rng = Rng::new(3);
        let mut ledger =
            LiveIndex { first_epoch: u64::from(u32::MAX) * 5 - 4, ..LiveIndex::default() };
        let mut lists: VecDeque<Vec<(u32, u32)>> = VecDeque::new();
        let mut open: Vec<(u32, u32)> = Vec::new();
        for _ in 0..20_000 {
            let owner = u32::try_from(rng.below(60)).unwrap();
            let before = lists.iter().flatten().chain(&open).find(|(other, _)| *other == owner);
            let before = before.map(|&(_, bytes)| bytes);
            assert_eq!(ledger.bytes(owner), before);
            match rng.below(8) {
                0..4 => {
                    let bytes = u32::try_from(rng.below(100)).unwrap() + 1;
                    ledger.open(owner, bytes);
                    lists.iter_mut().chain([&mut open]).for_each(|list| {
                        list.retain(|(other, _)| *other != owner);
                    });
                    open.push((owner, bytes));
                }
                4..6 => {
                    assert_eq!(ledger.forget(owner), before);
                    lists.iter_mut().chain([&mut open]).for_each(|list| {
                        list.retain(|(other, _)| *other != owner);
                    });
                }
                _ => {
                    if lists.is_empty() || rng.one_in(4) {
                        ledger.segments.push_back(Segment::new(1, 0));
                        lists.push_back(Vec::new());
                    }
                    let head = ledger.end_epoch() - 1;
                    ledger.seal(head);
                    lists.back_mut().unwrap().append(&mut open);
                    let oldest = lists.iter().position(|list| !list.is_empty());
                    let oldest = oldest.unwrap_or(lists.len() - 1);
                    assert_eq!(ledger.oldest(head), ledger.first_epoch + oldest as u64);
                    if oldest > 0 {
                        ledger.segments.pop_front();
                        ledger.first_epoch += 1;
                        lists.pop_front();
                    }
                }
            }
            for (index, list) in lists.iter().enumerate() {
                assert_eq!(ledger.first_record_key(index), list.first().map(|&(owner, _)| owner));
            }
            let bytes: u64 = open.iter().map(|&(_, bytes)| u64::from(bytes)).sum();
            assert_eq!(ledger.open_bytes(), bytes);
            ledger.check_invariants();
        }
        assert!(ledger.first_epoch > u64::from(u32::MAX) * 5, "no half has come round");
    }
}
