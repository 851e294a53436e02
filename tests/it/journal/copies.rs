//! Copies of the journal while it runs: what is read of one is a directory from which everything up
//! to its begin is restored, whatever happens meanwhile.

use super::disk::SimDisk;
use super::harness::Harness;
use super::simulation::{Simulation, recover_into};
use jobcentre::journal::{BatchSeq, SegmentCopy};
use std::collections::BTreeMap;

/// A copy that is being made.
pub(crate) struct Copy {
    left: Vec<SegmentCopy>,
    until: BatchSeq,
    read: BTreeMap<String, Vec<u8>>,
}

impl Simulation {
    /// Begins a copy, or reads a file of the one that is being made.
    pub(crate) fn copy_some(&mut self) {
        let Some(mut copy) = self.copy.take() else {
            let (left, until) = self.journal.begin_copy();
            self.copy = Some(Copy { left, until, read: BTreeMap::new() });
            return;
        };
        if self.journal.durable() < copy.until {
            self.copy = Some(copy);
            return;
        }
        if let Some(file) = copy.left.pop() {
            let image = self.disk.image();
            let whole = image.get(&file.name).expect("no segment is freed while it is copied");
            let size = usize::try_from(file.size).unwrap();
            let bytes = [&file.head, &whole[file.head.len()..size]].concat();
            copy.read.insert(file.name, bytes);
            self.copy = Some(copy);
            return;
        }
        self.journal.end_copy();
        self.compare_copy(copy);
    }

    /// The copy that is being made is given up.
    pub(crate) fn end_copy(&mut self) {
        if self.copy.take().is_some() {
            self.journal.end_copy();
        }
    }

    fn compare_copy(&mut self, copy: Copy) {
        self.see("a copy");
        if copy.read.len() > 1 {
            self.see("a copy of several segments");
        }
        let found = recover_into(&mut SimDisk::of(copy.read), &self.options);
        // A tail that was torn before the journal began is copied with its segment, as it is.
        let found = found.unwrap_or_else(|refused| panic!("a copy is refused: {refused}"));
        let last = found.batches.keys().last().copied().unwrap_or(0);
        assert!(last <= copy.until, "a copy has batch {last} behind its end");
        let mut expected = Harness::default();
        for record in self.records_up_to(copy.until) {
            expected.apply(record).unwrap();
        }
        assert_eq!(found.harness.values(), expected.values(), "a copy up to {}", copy.until);
    }
}
