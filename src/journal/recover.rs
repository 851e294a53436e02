//! Recovery (skeleton).

use super::disk::{Disk, Fault, Files};
use super::{Journal, Options};
use crate::base::time::Now;
use std::fmt;

/// Where a record lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The segment.
    pub epoch: u64,
    /// Where its batch begins in the segment.
    pub offset: u64,
    /// The batch.
    pub sequence: u64,
}

/// What the owner of the records makes of one: as if it had just been appended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Note {
    /// It is the base record of this owner now; its former one is dead.
    Base(u32),
    /// The base record of this owner is dead.
    Forget(u32),
    /// Neither.
    Nothing,
}

/// How far recovery has come, in bytes of the segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Read.
    pub done: u64,
    /// To be read at most.
    pub of: u64,
    /// Records so far.
    pub records: u64,
}

/// A tail that was not written to its end: cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Torn {
    /// The file.
    pub file: String,
    /// Where the cut is.
    pub offset: u64,
    /// Bytes behind it that held something.
    pub bytes: u64,
    /// Whole batches among them.
    pub batches: u64,
}

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Records handed over.
    pub records: u64,
    /// Batches they were in.
    pub batches: u64,
    /// Bytes of these batches.
    pub bytes: u64,
    /// Segments read.
    pub segments: u64,
    /// The owner's number: the highest that was acknowledged, or higher.
    pub mark: u64,
    /// The torn tail, if there was one.
    pub torn: Option<Torn>,
    /// Files that are none of the journal's.
    pub foreign: Vec<String>,
}

/// Why a journal is not opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The disk failed.
    Fault(Fault),
    /// What was acknowledged is damaged.
    Damaged {
        /// The file.
        file: String,
        /// Where in it.
        offset: u64,
        /// What is wrong there.
        what: String,
    },
    /// A newer program wrote it.
    Newer {
        /// The file.
        file: String,
        /// Its format.
        format: u32,
    },
    /// The owner could not make sense of a record.
    Record {
        /// The file.
        file: String,
        /// Where its batch begins.
        offset: u64,
        /// What the owner said.
        what: String,
    },
}

impl fmt::Display for Refused {
    fn fmt(&self, _f: &mut fmt::Formatter<'_>) -> fmt::Result {
        unimplemented!()
    }
}

impl std::error::Error for Refused {}

/// What recovery leaves for the journal to go on with.
pub struct Recovered {
    _private: (),
}

impl Recovered {
    /// The journal goes on behind what was recovered.
    #[must_use]
    pub fn start(self, _disk: Box<dyn Disk>, _now: Now) -> Journal {
        unimplemented!()
    }
}

/// Reads all records in their order, and makes the directory fit to go on with.
///
/// # Errors
/// See [`Refused`]: then nothing has been changed.
pub fn recover(
    _files: &mut dyn Files,
    _options: &Options,
    _each: &mut dyn FnMut(&[u8], Origin) -> Result<Note, String>,
    _progress: &mut dyn FnMut(Progress),
) -> Result<(Recovered, Report), Refused> {
    unimplemented!()
}

/// Like [`recover`], but changes nothing: for checks and dumps.
///
/// # Errors
/// See [`Refused`].
pub fn read(
    _files: &mut dyn Files,
    _each: &mut dyn FnMut(&[u8], Origin) -> Result<(), String>,
    _progress: &mut dyn FnMut(Progress),
) -> Result<Report, Refused> {
    unimplemented!()
}
