//! Direct I/O: writes past the page cache, so that a write and its sync are one disk request.
//!
//! Direct writes are whole blocks from block-aligned memory. The bytes before the offset in the
//! first block are kept from the previous write, or read again; behind the end of the data the
//! block is filled with zeros, where the file holds nothing live. Bytes of earlier writes are
//! rewritten with the values that they have, so a torn write does not damage them.
//!
//! Invariant: the buffer begins at a multiple of [`BLOCK`] in the file.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Alignment of memory, offset and length, in bytes: no disk has larger blocks.
pub(super) const BLOCK: usize = 4096;

/// A larger buffer is freed after its write: it was for a huge record. In bytes.
const KEPT_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Whether the error means that the file system does not support direct I/O.
pub(super) fn is_refusal(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported)
}

/// Opens a file for direct writes. If `synced`, each write is durable when it returns: the data and
/// the metadata needed to read it, but not the file's times, which would cost another write and
/// flush. (`rustix` sets `O_SYNC` for `DSYNC`, which includes the times; hence the flag of `libc`.)
///
/// # Errors
/// Also if the file system does not support it ([`is_refusal`]).
#[cfg(target_os = "linux")]
pub(super) fn open(path: &Path, synced: bool) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;

    let flags = if synced { libc::O_DIRECT | libc::O_DSYNC } else { libc::O_DIRECT };
    std::fs::OpenOptions::new().write(true).custom_flags(flags).open(path)
}

/// Direct I/O is not supported on this system.
///
/// # Errors
/// Always.
#[cfg(not(target_os = "linux"))]
pub(super) fn open(_: &Path, _: bool) -> io::Result<File> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Allocates `size` bytes of an empty file, contiguous if possible.
///
/// # Errors
/// Also if the file system does not support it.
#[cfg(target_os = "linux")]
pub(super) fn reserve(file: &File, size: u64) -> io::Result<()> {
    use rustix::fs::{FallocateFlags, fallocate};

    Ok(rustix::io::retry_on_intr(|| fallocate(file, FallocateFlags::empty(), 0, size))?)
}

/// Not supported on this system.
///
/// # Errors
/// Always.
#[cfg(not(target_os = "linux"))]
pub(super) fn reserve(_: &File, _: u64) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Data of one direct write, with the bytes before it in its first block.
#[derive(Debug, Default)]
pub(super) struct DirectBuffer {
    /// Offset in the file.
    at: u64,
    /// In bytes.
    length: usize,
    /// Holds the data from its first aligned address on.
    bytes: Vec<u8>,
}

impl DirectBuffer {
    /// Whether bytes at this offset can be added without a gap.
    pub(super) fn covers(&self, offset: u64) -> bool {
        (self.at..=self.at + self.length as u64).contains(&offset)
    }

    /// Clears the buffer and loads the block of this offset up to the offset.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub(super) fn begin(&mut self, file: &File, offset: u64) -> io::Result<()> {
        let before = usize::try_from(offset % BLOCK as u64).unwrap_or_default();
        (self.at, self.length) = (offset - before as u64, 0);
        let at = self.at;
        file.read_exact_at(self.aligned(before), at)?;
        self.length = before;
        Ok(())
    }

    /// Adds bytes at an offset that is [covered](Self::covers). They become the end of the data.
    pub(super) fn add(&mut self, offset: u64, bytes: &[u8]) {
        debug_assert!(self.covers(offset), "a gap would be written");
        let from = usize::try_from(offset - self.at).unwrap_or(self.length);
        let length = from + bytes.len();
        self.aligned(length)[from..].copy_from_slice(bytes);
        self.length = length;
    }

    /// End of the padded write in the file.
    pub(super) fn end(&self) -> u64 {
        self.at + self.length.next_multiple_of(BLOCK) as u64
    }

    /// Writes the data, padded with zeros to whole blocks, to a file from [`open`].
    ///
    /// # Errors
    /// The error of the write.
    pub(super) fn write(&mut self, file: &File) -> io::Result<()> {
        let (at, length) = (self.at, self.length);
        let blocks = self.aligned(length.next_multiple_of(BLOCK));
        blocks[length..].fill(0);
        file.write_all_at(blocks, at)?;
        // The next write begins in the last block if that is not full.
        let whole = length - length % BLOCK;
        blocks.copy_within(whole.., 0);
        self.at += whole as u64;
        self.length = length - whole;
        if self.bytes.len() > KEPT_BYTES_MAX {
            let rest = self.aligned(self.length).to_vec();
            self.bytes = Vec::new();
            self.aligned(rest.len()).copy_from_slice(&rest);
        }
        Ok(())
    }

    /// The first `length` bytes of the buffer, grown if needed; existing bytes are kept.
    fn aligned(&mut self, length: usize) -> &mut [u8] {
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
    use crate::reactor::disk::testing::new_dir;
    use std::fs;
    use std::os::fd::AsRawFd;

    /// The flags of an open file.
    fn flags(file: &File) -> i32 {
        let info = fs::read_to_string(format!("/proc/self/fdinfo/{}", file.as_raw_fd())).unwrap();
        let flags = info.lines().find_map(|line| line.strip_prefix("flags:")).unwrap();
        i32::from_str_radix(flags.trim(), 8).unwrap()
    }

    #[test]
    fn synced_file_is_opened_with_o_dsync_only() {
        let dir = new_dir("flags");
        let path = dir.join("file");
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
        fs::remove_dir_all(&dir).unwrap();
    }
}
