//! Writing and syncing segments: all that has come for one is written together and synced together.
//!
//! What is to be synced at once is written past the page cache ([`super::direct`]) where the file
//! system can do that, and through it, with a sync behind, everywhere else.

use super::direct::{self, DirectBuffer};
use super::directory::fault;
use super::reserve::Reserve;
use crate::journal::disk::DiskError;
use crate::journal::segment_name;
use crate::reactor::shortage;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;
use tracing::debug;

/// Segments whose files stay open: the head and the one before it.
const OPEN_FILES: usize = 2;

/// A segment's files.
#[derive(Debug)]
struct Open {
    epoch: u64,
    file: File,
    /// For writes past the page cache, once there were any.
    direct: Option<File>,
    size: u64,
}

/// The segments of a directory.
#[derive(Debug)]
pub(super) struct SegmentFiles {
    path: PathBuf,
    /// The last is the one used last.
    open: Vec<Open>,
    /// The end of the segment that was written to past the page cache.
    tail: Option<u64>,
    gathered: DirectBuffer,
    /// Whether this file system has refused such writes.
    refuses_direct: bool,
    /// Descriptors for what is to be opened.
    reserve: Arc<Reserve>,
    /// What went wrong: nothing more is written or synced.
    fault: Option<DiskError>,
}

impl SegmentFiles {
    pub(super) fn new(path: PathBuf, reserve: Arc<Reserve>) -> Self {
        Self {
            path,
            open: Vec::new(),
            tail: None,
            gathered: DirectBuffer::default(),
            refuses_direct: false,
            reserve,
            fault: None,
        }
    }

    /// Writes bytes at places that follow each other, and makes them durable.
    pub(super) fn write_durably(
        &mut self,
        epoch: u64,
        writes: &[(u64, Vec<u8>)],
    ) -> Result<(), DiskError> {
        if self.write_directly(epoch, writes)? {
            return self.check_name(epoch);
        }
        for (offset, bytes) in writes {
            self.write(epoch, *offset, bytes)?;
        }
        self.sync(epoch)
    }

    pub(super) fn write(&mut self, epoch: u64, offset: u64, bytes: &[u8]) -> Result<(), DiskError> {
        let open = self.open(epoch)?;
        // Goes on after an interruption and after a short write.
        let written = self.open[open].file.write_all_at(bytes, offset);
        written.map_err(|error| self.fail("write", epoch, &error))
    }

    pub(super) fn sync(&mut self, epoch: u64) -> Result<(), DiskError> {
        let open = self.open(epoch)?;
        let synced = self.open[open].file.sync_data();
        synced.map_err(|error| self.fail("sync", epoch, &error))?;
        self.check_name(epoch)
    }

    /// The same past the page cache. False if that cannot be done: nothing has changed then that
    /// another write does not change in the same way.
    fn write_directly(&mut self, epoch: u64, writes: &[(u64, Vec<u8>)]) -> Result<bool, DiskError> {
        let at = self.open(epoch)?;
        let Some(&(first, _)) = writes.first() else { return Ok(true) };
        if self.refuses_direct {
            return Ok(false);
        }
        let written = self.try_directly(at, first, writes);
        if !matches!(written, Ok(true)) {
            self.tail = None;
        }
        written.or_else(|error| {
            if !direct::is_refusal(&error) {
                return Err(self.fail("write", epoch, &error));
            }
            debug!(%error, "no writes past the page cache here");
            self.refuses_direct = true;
            Ok(false)
        })
    }

    fn try_directly(
        &mut self,
        at: usize,
        first: u64,
        writes: &[(u64, Vec<u8>)],
    ) -> io::Result<bool> {
        let Open { epoch, file, direct, size } = &mut self.open[at];
        let direct = if let Some(direct) = direct {
            direct
        } else {
            let path = self.path.join(segment_name(*epoch));
            direct.insert(self.reserve.open(|| direct::open(&path, true))?)
        };
        if self.tail.replace(*epoch) != Some(*epoch) || !self.gathered.covers(first) {
            self.gathered.begin(file, first)?;
        }
        for (offset, bytes) in writes {
            self.gathered.add(*offset, bytes);
        }
        // A segment of one huge record ends anywhere.
        let fits = self.gathered.end() <= *size;
        if fits {
            self.gathered.write(direct)?;
        }
        Ok(fits)
    }

    /// A segment that somebody has removed is still written to, and will not be there again.
    fn check_name(&mut self, epoch: u64) -> Result<(), DiskError> {
        // Asking the file for its links would cost a write of the disk: a moment of change that was
        // looked at is changed by the next write, and the next sync has to write that down. To read
        // the name as a link, which it is not, looks at no moment.
        match fs::read_link(self.path.join(segment_name(epoch))) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let error = io::Error::new(ErrorKind::NotFound, "somebody has removed it");
                Err(self.fail("go on with", epoch, &error))
            }
            _ => Ok(()),
        }
    }

    fn fail(&mut self, operation: &'static str, epoch: u64, error: &io::Error) -> DiskError {
        let fault = fault(operation, &self.path.join(segment_name(epoch)), error);
        self.fault.insert(fault).clone()
    }

    /// The place of a segment's files among those that are open. Waits for a descriptor if there is
    /// none.
    fn open(&mut self, epoch: u64) -> Result<usize, DiskError> {
        let reserve = Arc::clone(&self.reserve);
        self.open_by(epoch, |open| reserve.open(open))
            .map_err(|error| self.fail("open", epoch, &error))?
    }

    /// Opens a segment unless there is no descriptor for it: then this is false. Another error is
    /// left to whoever uses the segment.
    pub(super) fn can_open(&mut self, epoch: u64) -> bool {
        let reserve = Arc::clone(&self.reserve);
        let opened = self.open_by(epoch, |open| reserve.try_open(open));
        !opened.is_err_and(|error| shortage::of_descriptors(&error))
    }

    fn open_by(
        &mut self,
        epoch: u64,
        by: impl FnOnce(&dyn Fn() -> io::Result<File>) -> io::Result<File>,
    ) -> io::Result<Result<usize, DiskError>> {
        if let Some(fault) = &self.fault {
            return Ok(Err(fault.clone()));
        }
        if let Some(at) = self.open.iter().position(|open| open.epoch == epoch) {
            return Ok(Ok(at));
        }
        if self.open.len() == OPEN_FILES {
            // Its descriptors are those of the next one.
            self.open.remove(0);
        }
        let path = self.path.join(segment_name(epoch));
        let file = by(&|| OpenOptions::new().read(true).write(true).open(&path))?;
        let size = file.metadata()?.len();
        self.open.push(Open { epoch, file, direct: None, size });
        Ok(Ok(self.open.len() - 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reactor::disk::testing::place;
    use std::path::Path;

    const SIZE: usize = 64 * 1024;

    fn byte(number: usize) -> u8 {
        u8::try_from(number % 127).unwrap() + 1
    }

    /// A segment with a header and what a recycled one holds.
    fn make(place: &Path, epoch: u64, size: usize) -> Vec<u8> {
        let old: Vec<u8> = (0..size).map(byte).collect();
        fs::write(place.join(segment_name(epoch)), &old).unwrap();
        old
    }

    /// What a segment must hold, up to its end.
    struct Expected {
        bytes: Vec<u8>,
        end: usize,
    }

    impl Expected {
        /// Some batches, each of which begins in the zeros behind the one before.
        fn batches(&mut self, round: usize) -> Vec<(u64, Vec<u8>)> {
            let mut writes = Vec::new();
            for part in 0..=round % 3 {
                let length = 8 * (1 + (round * 37 + part * 11) % 60);
                let mut batch = vec![byte(round); length];
                batch.extend([0; 8]);
                let end = self.end + batch.len();
                if end <= self.bytes.len() {
                    self.bytes[self.end..end].copy_from_slice(&batch);
                    writes.push((self.end as u64, batch));
                    self.end += length;
                }
            }
            writes
        }
    }

    #[test]
    fn what_was_written_stands_behind_what_was_there_before() {
        let place = place("order");
        for refuses_direct in [false, true] {
            // The second one does not end where a block does.
            let mut expected = [(1, SIZE), (2, SIZE - 100)]
                .map(|(epoch, size)| Expected { bytes: make(&place, epoch, size), end: 64 });
            let new = || SegmentFiles {
                refuses_direct,
                ..SegmentFiles::new(place.clone(), Arc::default())
            };
            let mut segments = new();
            for round in 0..400 {
                if round % 50 == 49 {
                    // Another run goes on where this one was.
                    segments = new();
                }
                let which = usize::from(round % 7 == 3);
                let writes = expected[which].batches(round);
                segments.write_durably(1 + which as u64, &writes).unwrap();
                for (epoch, Expected { bytes, end }) in (1..).zip(&expected) {
                    let found = fs::read(place.join(segment_name(epoch))).unwrap();
                    assert_eq!(found.len(), bytes.len(), "it keeps its size");
                    let end = if *end == 64 { 64 } else { (end + 8).min(bytes.len()) };
                    assert!(found[..end] == bytes[..end], "round {round}, segment {epoch}");
                }
            }
            assert!(expected[0].end > SIZE * 9 / 10 && expected[1].end > SIZE / 4);
        }
        fs::remove_dir_all(&place).unwrap();
    }

    #[test]
    fn a_segment_that_is_gone_is_a_fault_from_then_on() {
        let place = place("gone");
        make(&place, 1, SIZE);
        make(&place, 2, SIZE);
        let mut segments = SegmentFiles::new(place.clone(), Arc::default());
        segments.write_durably(1, &[(64, vec![1; 100])]).unwrap();
        fs::remove_file(place.join(segment_name(1))).unwrap();
        let fault = segments.write_durably(1, &[(164, vec![1; 100])]).unwrap_err();
        assert!(fault.to_string().contains("somebody has removed it"), "{fault}");
        assert_eq!(segments.write_durably(2, &[(64, vec![1; 100])]), Err(fault));
        fs::remove_dir_all(&place).unwrap();
    }
}
