//! Writes and syncs of segment files.
//!
//! Synced writes use direct I/O ([`super::direct`]) where the file system supports it; otherwise
//! they go through the page cache, followed by one sync.

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

/// Segments whose files stay open: the head segment and the one before it.
const OPEN_FILES: usize = 2;

/// A segment's files.
#[derive(Debug)]
struct Open {
    epoch: u64,
    file: File,
    /// For direct writes, opened with the first one.
    direct: Option<File>,
    size: u64,
}

/// The segments of a directory.
#[derive(Debug)]
pub(super) struct SegmentFiles {
    path: PathBuf,
    /// In the order in which they were opened.
    open: Vec<Open>,
    /// Epoch of the segment whose tail `buffer` holds.
    tail: Option<u64>,
    buffer: DirectBuffer,
    /// The file system has rejected direct I/O.
    refuses_direct: bool,
    reserve: Arc<Reserve>,
    /// The first error; every later operation fails with it.
    fault: Option<DiskError>,
}

impl SegmentFiles {
    pub(super) fn new(path: PathBuf, reserve: Arc<Reserve>) -> Self {
        Self {
            path,
            open: Vec::new(),
            tail: None,
            buffer: DirectBuffer::default(),
            refuses_direct: false,
            reserve,
            fault: None,
        }
    }

    /// Writes at adjacent, ascending offsets, and makes the data durable.
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
        // Retries after an interruption and after a short write.
        let written = self.open[open].file.write_all_at(bytes, offset);
        written.map_err(|error| self.fail("write", epoch, &error))
    }

    pub(super) fn sync(&mut self, epoch: u64) -> Result<(), DiskError> {
        let open = self.open(epoch)?;
        let synced = self.open[open].file.sync_data();
        synced.map_err(|error| self.fail("sync", epoch, &error))?;
        self.check_name(epoch)
    }

    /// The same with direct I/O. False if that is not possible: the caller repeats the writes
    /// through the page cache, which overwrite whatever a failed attempt has written.
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
        if self.tail.replace(*epoch) != Some(*epoch) || !self.buffer.covers(first) {
            self.buffer.begin(file, first)?;
        }
        for (offset, bytes) in writes {
            self.buffer.add(*offset, bytes);
        }
        // A segment of one huge record ends anywhere.
        let fits = self.buffer.end() <= *size;
        if fits {
            self.buffer.write(direct)?;
        }
        Ok(fits)
    }

    /// Fails if the file was removed by another process: writes to it still succeed, but it would
    /// not be there after a restart.
    fn check_name(&mut self, epoch: u64) -> Result<(), DiskError> {
        // `fstat` would cost a disk write: once a file's times were read (multigrain timestamps),
        // the next write changes them, and the next sync has to write the inode. `readlink` on the
        // name fails without reading times.
        match fs::read_link(self.path.join(segment_name(epoch))) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let error =
                    io::Error::new(ErrorKind::NotFound, "the file was removed by another process");
                Err(self.fail("go on with", epoch, &error))
            }
            _ => Ok(()),
        }
    }

    fn fail(&mut self, operation: &'static str, epoch: u64, error: &io::Error) -> DiskError {
        let fault = fault(operation, &self.path.join(segment_name(epoch)), error);
        self.fault.insert(fault).clone()
    }

    /// Index in `open` of a segment's files, opened if needed. Waits for a free descriptor.
    fn open(&mut self, epoch: u64) -> Result<usize, DiskError> {
        let reserve = Arc::clone(&self.reserve);
        self.open_by(epoch, |open| reserve.open(open))
            .map_err(|error| self.fail("open", epoch, &error))?
    }

    /// Opens a segment. False if descriptors are short; other errors are left to the next use of
    /// the segment.
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
            // Frees its descriptors for the next segment.
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
    use crate::reactor::disk::testing::new_dir;
    use std::path::Path;

    const SIZE: usize = 64 * 1024;

    fn byte(number: usize) -> u8 {
        u8::try_from(number % 127).unwrap() + 1
    }

    /// Makes a segment with nonzero bytes, like a recycled one.
    fn make(dir: &Path, epoch: u64, size: usize) -> Vec<u8> {
        let old: Vec<u8> = (0..size).map(byte).collect();
        fs::write(dir.join(segment_name(epoch)), &old).unwrap();
        old
    }

    /// Expected content of a segment up to `end`.
    struct Expected {
        bytes: Vec<u8>,
        end: usize,
    }

    impl Expected {
        /// Some batches, each of which begins in the zeros after the previous one.
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
    fn writes_append_and_keep_earlier_bytes() {
        let dir = new_dir("order");
        for refuses_direct in [false, true] {
            // The second one does not end where a block does.
            let mut expected = [(1, SIZE), (2, SIZE - 100)]
                .map(|(epoch, size)| Expected { bytes: make(&dir, epoch, size), end: 64 });
            let new = || SegmentFiles {
                refuses_direct,
                ..SegmentFiles::new(dir.clone(), Arc::default())
            };
            let mut segments = new();
            for round in 0..400 {
                if round % 50 == 49 {
                    // A restart.
                    segments = new();
                }
                let which = usize::from(round % 7 == 3);
                let writes = expected[which].batches(round);
                segments.write_durably(1 + which as u64, &writes).unwrap();
                for (epoch, Expected { bytes, end }) in (1..).zip(&expected) {
                    let found = fs::read(dir.join(segment_name(epoch))).unwrap();
                    assert_eq!(found.len(), bytes.len(), "it keeps its size");
                    let end = if *end == 64 { 64 } else { (end + 8).min(bytes.len()) };
                    assert!(found[..end] == bytes[..end], "round {round}, segment {epoch}");
                }
            }
            assert!(expected[0].end > SIZE * 9 / 10 && expected[1].end > SIZE / 4);
        }
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn removed_segment_is_an_error_from_then_on() {
        let dir = new_dir("gone");
        make(&dir, 1, SIZE);
        make(&dir, 2, SIZE);
        let mut segments = SegmentFiles::new(dir.clone(), Arc::default());
        segments.write_durably(1, &[(64, vec![1; 100])]).unwrap();
        fs::remove_file(dir.join(segment_name(1))).unwrap();
        let fault = segments.write_durably(1, &[(164, vec![1; 100])]).unwrap_err();
        assert!(fault.to_string().contains("the file was removed by another process"), "{fault}");
        assert_eq!(segments.write_durably(2, &[(64, vec![1; 100])]), Err(fault));
        fs::remove_dir_all(&dir).unwrap();
    }
}
