//! The segment keys of a directory without any valid header, from its frames.
//!
//! A frame yields its segment key, and two keys of a directory yield the XOR of their epochs, but
//! not the epochs. The epoch of one key gives those of all others. Names and the oldest segments
//! that are needed give candidates for it, and any of them may be wrong. A wrong one changes the
//! order of the segments, has a frame in a segment before the oldest one that it needs, or needs
//! many segments of which nothing is there. So the candidate is taken with which most bytes are in
//! segments whose sequences ascend; among equal ones that which agrees with most names and misses
//! few segments, and then the lowest.

use super::disk::DiskError;
use super::frame_search::{EPOCHS_AHEAD, Frame, FrameSearch, KeyFilter, likely_head};
use super::keys::DirectoryKeys;
use super::reader::SegmentReader;
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

/// How many keys of a file are tried, and how many are counted.
const KEYS_TRIED: usize = 16;
const KEYS_COUNTED: usize = 1 << 20;

/// How far the latest segment may be from the oldest one that it needs, if no name shows it.
const EPOCHS_TRIED: u64 = 64;

/// At most this many candidates are compared.
const CANDIDATES_COMPARED: usize = 1024;

/// Bytes in a file whose name contains an epoch weigh more than others, by this shift.
const NAMED_WEIGHT_BITS: u32 = 8;

/// The name of the file with the latest frames weighs more than others, by this factor: theirs may
/// have frames of a former use only. A missing segment weighs as much as a name of average weight.
const LATEST_NAME_FACTOR: u64 = 8;

/// A file that may contain frames.
#[derive(Clone, Copy, Debug)]
pub(super) struct NamedFile<'n> {
    pub(super) name: &'n str,
    /// In bytes.
    pub(super) size: u64,
    /// The epoch in its name.
    pub(super) epoch: Option<u64>,
}

/// What the frames with one segment key show.
#[derive(Clone, Copy, Debug)]
struct KeyEvidence {
    /// The lowest and the highest sequence.
    first: u64,
    last: u64,
    /// The latest of the oldest needed segments.
    oldest: u64,
    /// The bytes of the frames, those in named files with their weight.
    weight: u64,
}

impl KeyEvidence {
    fn merge(&mut self, other: &Self) {
        debug_assert!(
            self.first <= self.last && other.first <= other.last,
            "the lowest sequence of a key is above the highest"
        );
        self.first = self.first.min(other.first);
        self.last = self.last.max(other.last);
        self.oldest = self.oldest.max(other.oldest);
        self.weight = self.weight.saturating_add(other.weight);
    }
}

/// The keys that occur most often in plausible batch headers of a file. O(bytes).
fn likely_keys(
    reader: &mut SegmentReader<'_>,
    file: &NamedFile<'_>,
) -> Result<Vec<u32>, DiskError> {
    let mut counts: HashMap<u32, u64> = HashMap::new();
    let mut search = FrameSearch::new(reader, file.name, file.size);
    while let Some((_, key)) = search.seek(|bytes, room| Some(likely_head(bytes, room)?.1))? {
        if counts.len() < KEYS_COUNTED || counts.contains_key(&key) {
            *counts.entry(key).or_default() += 1;
        }
        search.step();
    }
    let mut keys: Vec<(u64, u32)> = counts.into_iter().map(|(key, count)| (count, key)).collect();
    keys.sort_unstable_by(|a, b| b.cmp(a));
    Ok(keys.into_iter().take(KEYS_TRIED).map(|(_, key)| key).collect())
}

/// The keys of frames in a file that verify. O(bytes) for each key tried.
fn evidence(
    reader: &mut SegmentReader<'_>,
    file: &NamedFile<'_>,
) -> Result<BTreeMap<u32, KeyEvidence>, DiskError> {
    let keys = likely_keys(reader, file)?;
    let mut found: BTreeMap<u32, KeyEvidence> = BTreeMap::new();
    let mut search = FrameSearch::new(reader, file.name, file.size);
    while let Some(Frame { head, key, .. }) = search.next(&KeyFilter::Listed(&keys))? {
        let bits = file.epoch.map_or(0, |_| NAMED_WEIGHT_BITS);
        let weight = u64::from(head.length) << bits;
        let (first, last, oldest) = (head.sequence, head.sequence, head.oldest);
        let one = KeyEvidence { first, last, oldest, weight };
        found.entry(key).and_modify(|known| known.merge(&one)).or_insert(one);
    }
    Ok(found)
}

/// The name of a file says that this key is the one of this epoch.
#[derive(Clone, Copy, Debug)]
struct NameEvidence {
    epoch: u64,
    key: u32,
    /// The highest sequence with the key in this file.
    last: u64,
    weight: u64,
}

/// How plausible a candidate is.
#[derive(Clone, Copy, Debug)]
struct Rating {
    /// The weight of the keys that have a plausible epoch and sequences that ascend with the epoch.
    weight: u64,
    highest: u64,
    /// How many of the needed segments have no frame.
    missing: u64,
}

/// The keys found, and what the epoch of one of them may be.
#[derive(Debug, Default)]
struct KeySurvey {
    keys: BTreeMap<u32, KeyEvidence>,
    names: Vec<NameEvidence>,
    /// By what is the same for all keys of a directory: the epoch that key 0 would have. With the
    /// weight of the names that agree.
    candidates: BTreeMap<u64, (DirectoryKeys, u64)>,
}

impl KeySurvey {
    fn add_candidate(&mut self, epoch: u64, key: u32, weight: u64) {
        let family = DirectoryKeys::new(epoch, key);
        let candidate = self.candidates.entry(family.epoch_of(0)).or_insert((family, 0));
        candidate.1 = candidate.1.saturating_add(weight);
    }

    fn add_file(&mut self, file: &NamedFile<'_>, found: &BTreeMap<u32, KeyEvidence>) {
        let latest = found.values().map(|one| one.last).max();
        for (&key, one) in found {
            if let Some(epoch) = file.epoch {
                // Other keys in it are of former uses of the file, or were misplaced.
                let weight = if latest == Some(one.last) { one.weight } else { 0 };
                self.names.push(NameEvidence { epoch, key, last: one.last, weight });
            }
            self.keys.entry(key).and_modify(|known| known.merge(one)).or_insert(*one);
        }
    }

    /// Adds the epochs that names show, and those that none shows: a key may be the one of the
    /// oldest needed segment, and the latest one is not far from that.
    fn add_candidates(&mut self) {
        let latest = self.keys.iter().max_by_key(|(_, one)| one.last);
        let Some((&latest, &KeyEvidence { oldest, last, .. })) = latest else { return };
        for name in std::mem::take(&mut self.names) {
            let factor = if name.last == last { LATEST_NAME_FACTOR } else { 1 };
            self.add_candidate(name.epoch, name.key, name.weight.saturating_mul(factor));
        }
        for key in self.keys.keys().copied().collect::<Vec<_>>() {
            self.add_candidate(oldest, key, 0);
        }
        for epoch in oldest..oldest + EPOCHS_TRIED {
            self.add_candidate(epoch, latest, 0);
        }
    }

    /// How plausible the epochs are that a candidate gives to the keys. O(n log n) in the keys.
    fn rate(&self, family: &DirectoryKeys) -> Rating {
        let end = family.anchor().0 + EPOCHS_AHEAD;
        let placed = self.keys.iter().map(|(&key, one)| (family.epoch_of(key), one.first, one));
        let mut placed: Vec<_> = placed
            .filter(|(epoch, _, one)| (1..=end).contains(epoch) && one.oldest <= *epoch)
            .map(|(epoch, first, one)| (epoch, first, one.weight))
            .collect();
        placed.sort_unstable();
        let (mut weight, mut before, mut highest, mut there) = (0_u64, 0, 0, 0);
        let needed = self.keys.values().map(|one| one.oldest).max().unwrap_or_default();
        for (epoch, first, own) in placed {
            if first >= before {
                weight = weight.saturating_add(own);
                before = first;
            }
            debug_assert!(epoch > highest, "two keys have the same epoch");
            there += u64::from(epoch >= needed);
            highest = epoch;
        }
        let missing = (highest + 1).saturating_sub(needed).saturating_sub(there);
        Rating { weight, highest, missing }
    }

    fn best(&self) -> Option<DirectoryKeys> {
        let mut candidates: Vec<_> = self.candidates.values().copied().collect();
        // Stable, so that the result does not depend on the order of the files.
        candidates.sort_by_key(|(_, names)| Reverse(*names));
        candidates.truncate(CANDIDATES_COMPARED);
        let all: u64 = self.keys.values().fold(0, |sum, one| sum.saturating_add(one.weight));
        let segment = i128::from(all) / self.keys.len().max(1) as i128;
        let rated = candidates.into_iter().map(|(family, names)| {
            let Rating { weight, highest, missing } = self.rate(&family);
            let names = i128::from(names) - i128::from(missing) * segment;
            ((weight, names, Reverse(highest)), family)
        });
        rated.max_by_key(|(rating, _)| *rating).map(|(_, family)| family)
    }
}

/// The keys of the directory of most frames in these files. `None`: there is no frame. O(bytes) for
/// each key tried; memory for each key found.
pub(super) fn keys_from_frames<'n>(
    reader: &mut SegmentReader<'_>,
    files: impl Iterator<Item = NamedFile<'n>>,
) -> Result<Option<DirectoryKeys>, DiskError> {
    let mut survey = KeySurvey::default();
    for file in files {
        let found = evidence(reader, &file)?;
        survey.add_file(&file, &found);
    }
    survey.add_candidates();
    debug_assert_eq!(
        survey.keys.is_empty(),
        survey.candidates.is_empty(),
        "keys were found and no epoch that one of them may have, or the reverse"
    );
    Ok(survey.best())
}
