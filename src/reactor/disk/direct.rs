//! Writes past the page cache: one request of the disk for what would be a write, a sync, and the
//! work of the kernel between the two.
//!
//! Such a write is of whole blocks, from memory that is aligned like them. So the bytes before its
//! place in the first block are kept from the write before, or read again, and behind its end zeros
//! follow, where nothing is that counts. Bytes of earlier writes only ever get the values that they
//! have: a write that is torn harms none of them.
//!
//! Invariant: what is gathered begins at a multiple of [`BLOCK`] of the file.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// What writes are multiples of, as memory, in place and in length: no disk has larger blocks.
pub(super) const BLOCK: usize = 4096;

/// A larger buffer is given back once it is written: it was for a huge record.
const KEPT: usize = 4 * 1024 * 1024;

/// Whether this says that there are no such writes here.
pub(super) fn is_refusal(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported)
}

/// Opens a file for such writes; if they are to be `synced` each is durable when it is done: its
/// data, and what is needed to read them. The file's times are not, which would take the disk
/// another write and another flush. (So the flag is `libc`'s: what `rustix` calls `DSYNC` asks for
/// the times, too.)
///
/// # Errors
/// Also if its file system knows no such writes.
#[cfg(target_os = "linux")]
pub(super) fn open(path: &Path, synced: bool) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;

    let flags = if synced { libc::O_DIRECT | libc::O_DSYNC } else { libc::O_DIRECT };
    std::fs::OpenOptions::new().write(true).custom_flags(flags).open(path)
}

/// Opens a file for such writes, which this system does not know.
///
/// # Errors
/// Always.
#[cfg(not(target_os = "linux"))]
pub(super) fn open(_: &Path, _: bool) -> io::Result<File> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Makes an empty file so long, with blocks that lie together.
///
/// # Errors
/// Also if its file system cannot do that.
#[cfg(target_os = "linux")]
pub(super) fn reserve(file: &File, size: u64) -> io::Result<()> {
    use rustix::fs::{FallocateFlags, fallocate};

    Ok(rustix::io::retry_on_intr(|| fallocate(file, FallocateFlags::empty(), 0, size))?)
}

/// Makes an empty file so long, on a system where it is not needed.
///
/// # Errors
/// Always.
#[cfg(not(target_os = "linux"))]
pub(super) fn reserve(_: &File, _: u64) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// What is written together, with all that is before it in its first block.
#[derive(Debug, Default)]
pub(super) struct DirectBuffer {
    /// Where in the file it begins.
    at: u64,
    /// How many bytes there are.
    length: usize,
    /// Has them at the first place that is aligned.
    bytes: Vec<u8>,
}

impl DirectBuffer {
    /// Whether bytes for this place can be added: they begin among those that are there, or right
    /// behind them.
    pub(super) fn covers(&self, offset: u64) -> bool {
        (self.at..=self.at + self.length as u64).contains(&offset)
    }

    /// Forgets everything, and begins with the block of this place as it is in the file.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub(super) fn begin(&mut self, file: &File, offset: u64) -> io::Result<()> {
        let before = usize::try_from(offset % BLOCK as u64).unwrap_or_default();
        (self.at, self.length) = (offset - before as u64, 0);
        let at = self.at;
        file.read_exact_at(self.room(before), at)?;
        self.length = before;
        Ok(())
    }

    /// Adds bytes; what is behind them is forgotten.
    pub(super) fn add(&mut self, offset: u64, bytes: &[u8]) {
        debug_assert!(self.covers(offset), "a gap would be written");
        let from = usize::try_from(offset - self.at).unwrap_or(self.length);
        let length = from + bytes.len();
        self.room(length)[from..].copy_from_slice(bytes);
        self.length = length;
    }

    /// Where the write will end in the file.
    pub(super) fn end(&self) -> u64 {
        self.at + self.length.next_multiple_of(BLOCK) as u64
    }

    /// Writes everything to a file that was opened for this.
    ///
    /// # Errors
    /// What the system says.
    pub(super) fn write(&mut self, file: &File) -> io::Result<()> {
        let (at, length) = (self.at, self.length);
        let blocks = self.room(length.next_multiple_of(BLOCK));
        blocks[length..].fill(0);
        file.write_all_at(blocks, at)?;
        // The next write begins in the last block, if that is not full.
        let whole = length - length % BLOCK;
        blocks.copy_within(whole.., 0);
        self.at += whole as u64;
        self.length = length - whole;
        if self.bytes.len() > KEPT {
            let rest = self.room(self.length).to_vec();
            self.bytes = Vec::new();
            self.room(rest.len()).copy_from_slice(&rest);
        }
        Ok(())
    }

    /// The first `length` bytes, of which those that are there already stay.
    fn room(&mut self, length: usize) -> &mut [u8] {
        if self.bytes.len() < length + BLOCK {
            let from = self.bytes.as_ptr().align_offset(BLOCK).min(self.bytes.len());
            let mut larger = vec![0; (length + BLOCK).next_power_of_two()];
            let to = larger.as_ptr().align_offset(BLOCK);
            let kept = self.length.min(self.bytes.len() - from);
            larger[to..to + kept].copy_from_slice(&self.bytes[from..from + kept]);
            self.bytes = larger;
        }
        let from = self.bytes.as_ptr().align_offset(BLOCK);
        &mut self.bytes[from..from + length]
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use crate::reactor::disk::testing::place;
    use std::fs;
    use std::os::fd::AsRawFd;

    /// The flags of an open file, as the system tells them.
    fn flags(file: &File) -> i32 {
        let info = fs::read_to_string(format!("/proc/self/fdinfo/{}", file.as_raw_fd())).unwrap();
        let flags = info.lines().find_map(|line| line.strip_prefix("flags:")).unwrap();
        i32::from_str_radix(flags.trim(), 8).unwrap()
    }

    #[test]
    fn a_synced_write_asks_for_the_data_alone() {
        let place = place("flags");
        let path = place.join("file");
        fs::write(&path, []).unwrap();
        for synced in [true, false] {
            match open(&path, synced) {
                Ok(file) => {
                    let expected = if synced { libc::O_DSYNC } else { 0 };
                    // O_SYNC is O_DSYNC and one bit more.
                    assert_eq!(flags(&file) & libc::O_SYNC, expected, "synced: {synced}");
                    assert_eq!(flags(&file) & libc::O_DIRECT, libc::O_DIRECT);
                }
                Err(error) => assert!(is_refusal(&error), "{error}"),
            }
        }
        fs::remove_dir_all(&place).unwrap();
    }
}
