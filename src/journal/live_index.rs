//! The live base records: two arrays by record key, and a linked list for each segment.
//!
//! Invariants, asserted by [`LiveIndex::check_invariants`]: a record key has at most one base
//! record, and is then in exactly one list, that of the segment with the record or of the open
//! batch; the bytes and counts of the lists add up; the epochs of the segments have no gaps.

use super::format::SEGMENT_HEADER_BYTES;
use crate::base::paged::PagedVec;
use std::collections::VecDeque;

/// The end of a list: no record key.
const NONE: u32 = u32::MAX;

/// Record keys from here on index an array of their own, so that the caller has two ranges of keys
/// that cost memory only up to the highest one in use.
pub const UPPER_KEYS: u32 = 0xf000_0000;

const _: () = assert!(UPPER_KEYS < NONE, "the end of a list is no key of the lower range");
const _: () = assert!(size_of::<IndexEntry>() == 16, "each record key costs this memory");

/// The live base records of one segment, in the order of appending.
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
    /// The offset of the next frame.
    pub(super) used: u64,
    /// The segment key: the salt of its checksums.
    pub(super) key: u32,
    /// Whether the file is prepared.
    pub(super) ready: bool,
    /// Its live base records.
    pub(super) live: RecordList,
}

/// The base record of a key. 0 bytes: there is none, as a record is never empty.
#[derive(Clone, Copy, Debug)]
struct IndexEntry {
    bytes: u32,
    /// The low bits of the segment's epoch, or [`OPEN_BATCH`].
    epoch: u32,
    prev: u32,
    next: u32,
}

const NO_ENTRY: IndexEntry = IndexEntry { bytes: 0, epoch: 0, prev: NONE, next: NONE };

/// The low epoch bits of the open batch, whose segment is decided when it is sealed. No segment has
/// them: see [`LiveIndex::epoch_low_bits`].
const OPEN_BATCH: u32 = u32::MAX;

#[derive(Debug, Default)]
pub(super) struct LiveIndex {
    lower: PagedVec<IndexEntry>,
    /// By the distance from [`UPPER_KEYS`].
    upper: PagedVec<IndexEntry>,
    /// From the oldest to the last prepared segment.
    pub(super) segments: VecDeque<Segment>,
    /// The epoch of the first segment.
    pub(super) first_epoch: u64,
    open: RecordList,
    /// Bytes of all live base records.
    pub(super) live_bytes: u64,
    /// Record keys that have one.
    pub(super) record_keys: u64,
}

impl Segment {
    /// A planned segment.
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

    /// The index of `epoch` among the segments.
    pub(super) fn segment_index(&self, epoch: u64) -> usize {
        let index = usize::try_from(epoch - self.first_epoch).expect("segments fit into memory");
        assert!(index < self.segments.len(), "segment {epoch} is not there");
        index
    }

    pub(super) fn segment(&mut self, epoch: u64) -> &mut Segment {
        let index = self.segment_index(epoch);
        &mut self.segments[index]
    }

    /// The low bits of an epoch, as entries store them: modulo [`OPEN_BATCH`], so that no segment
    /// has that value. The distance from the first segment's makes them unique.
    fn epoch_low_bits(epoch: u64) -> u32 {
        u32::try_from(epoch % u64::from(OPEN_BATCH)).expect("the remainder is below OPEN")
    }

    fn index_of_low_bits(&self, low_bits: u32) -> usize {
        let first = Self::epoch_low_bits(self.first_epoch);
        let modulus = u64::from(OPEN_BATCH);
        let ahead = (u64::from(low_bits) + modulus - u64::from(first)) % modulus;
        usize::try_from(ahead).expect("segments fit into memory")
    }

    fn list(&mut self, low_bits: u32) -> &mut RecordList {
        if low_bits == OPEN_BATCH {
            return &mut self.open;
        }
        let index = self.index_of_low_bits(low_bits);
        &mut self.segments[index].live
    }

    /// The base record of a key, if it has one. O(1).
    #[inline]
    fn find(&self, record_key: u32) -> Option<IndexEntry> {
        let (entries, index) = match record_key.checked_sub(UPPER_KEYS) {
            None => (&self.lower, record_key as usize),
            Some(index) => (&self.upper, index as usize),
        };
        if index >= entries.len() {
            return None;
        }
        Some(entries.at(index)).filter(|entry| entry.bytes > 0)
    }

    /// The entry of a key: one that has a base record, or that [`Self::reach`] has added.
    #[inline]
    fn entry(&mut self, record_key: u32) -> &mut IndexEntry {
        match record_key.checked_sub(UPPER_KEYS) {
            None => self.lower.at_mut(record_key as usize),
            Some(index) => self.upper.at_mut(index as usize),
        }
    }

    /// Adds vacant entries up to and with that of a key. O(keys skipped).
    fn reach(&mut self, record_key: u32) {
        let (entries, index) = match record_key.checked_sub(UPPER_KEYS) {
            None => (&mut self.lower, record_key as usize),
            Some(index) => (&mut self.upper, index as usize),
        };
        while entries.len() <= index {
            entries.push(NO_ENTRY);
        }
    }

    /// The bytes of a key's base record, if it has one. O(1).
    pub(super) fn bytes(&self, record_key: u32) -> Option<u32> {
        self.find(record_key).map(|entry| entry.bytes)
    }

    /// Removes a key's base record. Returns its bytes, if there was one. O(1).
    pub(super) fn mark_dead(&mut self, record_key: u32) -> Option<u32> {
        let entry = self.find(record_key)?;
        *self.entry(record_key) = NO_ENTRY;
        match entry.prev {
            NONE => {
                let first = std::mem::replace(&mut self.list(entry.epoch).first, entry.next);
                debug_assert_eq!(first, record_key, "a list does not begin with its first record");
            }
            prev => {
                let next = std::mem::replace(&mut self.entry(prev).next, entry.next);
                debug_assert_eq!(next, record_key, "a record's predecessor names another one");
            }
        }
        match entry.next {
            NONE => {
                let last = std::mem::replace(&mut self.list(entry.epoch).last, entry.prev);
                debug_assert_eq!(last, record_key, "a list does not end with its last record");
            }
            next => {
                let prev = std::mem::replace(&mut self.entry(next).prev, entry.prev);
                debug_assert_eq!(prev, record_key, "a record's successor names another one");
            }
        }
        let list = self.list(entry.epoch);
        debug_assert!(
            list.count > 0 && list.bytes >= u64::from(entry.bytes),
            "a list has fewer records or bytes than one of its records"
        );
        list.count -= 1;
        list.bytes -= u64::from(entry.bytes);
        debug_assert!(
            (list.count == 0) == (list.first == NONE) && (list.count == 0) == (list.bytes == 0),
            "the sums of a list are not those of its records"
        );
        self.live_bytes -= u64::from(entry.bytes);
        self.record_keys -= 1;
        debug_assert_eq!(
            self.live_bytes == 0,
            self.record_keys == 0,
            "live bytes are left without a record, or a record without bytes"
        );
        Some(entry.bytes)
    }

    /// Inserts a base record of the open batch in place of the key's former one. O(1); for a new
    /// key O(keys skipped).
    pub(super) fn open(&mut self, record_key: u32, bytes: u32) {
        self.put(OPEN_BATCH, record_key, bytes);
    }

    /// Inserts a base record of segment `epoch` in place of the key's former one. O(1), as above.
    pub(super) fn insert_recovered(&mut self, epoch: u64, record_key: u32, bytes: u32) {
        assert!(
            self.index_of_low_bits(Self::epoch_low_bits(epoch)) < self.segments.len(),
            "no segment has this epoch"
        );
        self.put(Self::epoch_low_bits(epoch), record_key, bytes);
    }

    fn put(&mut self, low_bits: u32, record_key: u32, bytes: u32) {
        assert!(record_key != NONE && bytes > 0, "the record key or the record is invalid");
        self.mark_dead(record_key);
        self.reach(record_key);
        let list = self.list(low_bits);
        debug_assert_eq!(list.last == NONE, list.count == 0, "a list without an end has records");
        let prev = std::mem::replace(&mut list.last, record_key);
        list.count += 1;
        list.bytes += u64::from(bytes);
        if prev == NONE {
            list.first = record_key;
        } else {
            let next = std::mem::replace(&mut self.entry(prev).next, record_key);
            debug_assert_eq!(next, NONE, "the last record of a list has a successor");
        }
        *self.entry(record_key) = IndexEntry { bytes, epoch: low_bits, prev, next: NONE };
        self.live_bytes += u64::from(bytes);
        self.record_keys += 1;
        debug_assert!(
            self.live_bytes >= self.list(low_bits).bytes
                && self.record_keys >= u64::from(self.list(low_bits).count),
            "one list has more records or bytes than all of them"
        );
    }

    /// Moves the records of the open batch to segment `epoch`. O(base records in the batch).
    pub(super) fn seal(&mut self, epoch: u64) {
        let open = std::mem::take(&mut self.open);
        debug_assert_eq!(
            open.first == NONE,
            open.count == 0,
            "the open batch has live records, but none is the first"
        );
        if open.count == 0 {
            return;
        }
        let low_bits = Self::epoch_low_bits(epoch);
        let index = self.segment_index(epoch);
        let successor = self.segments.get(index + 1);
        assert!(
            successor.is_none_or(|segment| segment.live.count == 0),
            "a batch is sealed into a segment before one that has records"
        );
        let list = &mut self.segments[index].live;
        let prev = std::mem::replace(&mut list.last, open.last);
        list.count += open.count;
        list.bytes += open.bytes;
        if prev == NONE {
            list.first = open.first;
        } else {
            self.entry(prev).next = open.first;
            self.entry(open.first).prev = prev;
        }
        let (mut record_key, mut prev, mut count) = (open.first, NONE, 0);
        while record_key != NONE {
            let entry = self.entry(record_key);
            debug_assert_eq!(entry.epoch, OPEN_BATCH, "the open batch lists a sealed record");
            entry.epoch = low_bits;
            (prev, record_key) = (record_key, entry.next);
            count += 1;
        }
        debug_assert_eq!((prev, count), (open.last, open.count), "the open batch lost a record");
    }

    /// Bytes of the base records in the open batch.
    pub(super) fn open_bytes(&self) -> u64 {
        self.open.bytes
    }

    /// The record key that was appended first of those in segment `index`.
    pub(super) fn first_record_key(&self, index: usize) -> Option<u32> {
        let first = Some(self.segments[index].live.first).filter(|&record_key| record_key != NONE);
        debug_assert!(
            first.is_none_or(|first| self.find(first).is_some_and(|entry| entry.prev == NONE)),
            "the first record of a segment has a predecessor, or is dead"
        );
        first
    }

    /// The epoch of the first segment before `head` with a live base record, else `head`. Older
    /// segments are not needed. O(segments that are to be freed).
    pub(super) fn oldest(&self, head: u64) -> u64 {
        let before = self.segment_index(head);
        let live = self.segments.iter().take(before).position(|segment| segment.live.count > 0);
        self.first_epoch + live.unwrap_or(before) as u64
    }

    /// Asserts the invariants. O(record keys + segments).
    pub(super) fn check_invariants(&self) {
        let lists = self.segments.iter().enumerate().map(|(index, segment)| {
            (Self::epoch_low_bits(self.first_epoch + index as u64), segment.live)
        });
        let (mut record_keys, mut live_bytes) = (0, 0);
        for (low_bits, list) in lists.chain([(OPEN_BATCH, self.open)]) {
            let (mut count, mut bytes, mut prev, mut record_key) = (0, 0, NONE, list.first);
            while record_key != NONE {
                let entry = self.find(record_key).expect("a listed key has a base record");
                assert_eq!(
                    (entry.prev, entry.epoch),
                    (prev, low_bits),
                    "the list of record key {record_key} is wrong"
                );
                count += 1;
                bytes += u64::from(entry.bytes);
                (prev, record_key) = (record_key, entry.next);
            }
            assert_eq!((list.last, list.count, list.bytes), (prev, count, bytes));
            record_keys += u64::from(count);
            live_bytes += bytes;
        }
        assert_eq!(
            (self.record_keys, self.live_bytes),
            (record_keys, live_bytes),
            "the sums are wrong"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::rng::Rng;

    /// Random operations against lists of record keys; the low epoch bits overflow meanwhile.
    #[test]
    fn random_operations_match_a_list_of_lists() {
        let mut rng = Rng::new(3);
        let mut live_index =
            LiveIndex { first_epoch: u64::from(u32::MAX) * 5 - 4, ..LiveIndex::default() };
        let mut lists: VecDeque<Vec<(u32, u32)>> = VecDeque::new();
        let mut open: Vec<(u32, u32)> = Vec::new();
        for _ in 0..20_000 {
            let record_key = u32::try_from(rng.below(60)).unwrap();
            let record_key = record_key % 30 + if record_key < 30 { 0 } else { UPPER_KEYS };
            let before =
                lists.iter().flatten().chain(&open).find(|(other, _)| *other == record_key);
            let before = before.map(|&(_, bytes)| bytes);
            assert_eq!(live_index.bytes(record_key), before);
            match rng.below(8) {
                0..4 => {
                    let bytes = u32::try_from(rng.below(100)).unwrap() + 1;
                    live_index.open(record_key, bytes);
                    lists.iter_mut().chain([&mut open]).for_each(|list| {
                        list.retain(|(other, _)| *other != record_key);
                    });
                    open.push((record_key, bytes));
                }
                4..6 => {
                    assert_eq!(live_index.mark_dead(record_key), before);
                    lists.iter_mut().chain([&mut open]).for_each(|list| {
                        list.retain(|(other, _)| *other != record_key);
                    });
                }
                _ => {
                    if lists.is_empty() || rng.one_in(4) {
                        live_index.segments.push_back(Segment::new(1, 0));
                        lists.push_back(Vec::new());
                    }
                    let head = live_index.end_epoch() - 1;
                    live_index.seal(head);
                    lists.back_mut().unwrap().append(&mut open);
                    let oldest = lists.iter().position(|list| !list.is_empty());
                    let oldest = oldest.unwrap_or(lists.len() - 1);
                    assert_eq!(live_index.oldest(head), live_index.first_epoch + oldest as u64);
                    if oldest > 0 {
                        live_index.segments.pop_front();
                        live_index.first_epoch += 1;
                        lists.pop_front();
                    }
                }
            }
            for (index, list) in lists.iter().enumerate() {
                assert_eq!(
                    live_index.first_record_key(index),
                    list.first().map(|&(record_key, _)| record_key)
                );
            }
            let bytes: u64 = open.iter().map(|&(_, bytes)| u64::from(bytes)).sum();
            assert_eq!(live_index.open_bytes(), bytes);
            live_index.check_invariants();
        }
        assert!(live_index.first_epoch > u64::from(u32::MAX) * 5, "the low bits did not overflow");
    }
}
