//! Backups: a copy of the journal, read step by step while the server runs.

/// A step of a backup. One client at a time makes one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackupStep {
    /// It begins. Answered by `Files`, or by `Refused`.
    Begin,
    /// Reads a part of a file. Answered by `Bytes`, or by `Failed`.
    Read {
        /// [`BackupFile::number`].
        number: u64,
        /// From this byte on.
        offset: u64,
        /// This many bytes.
        length: usize,
    },
    /// It is complete. Answered by `Ended`.
    End,
}

/// The answer to a [`BackupStep`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BackupReply {
    /// What it consists of: everything that was answered before it began.
    Files(Vec<BackupFile>),
    /// What was read.
    Bytes(Vec<u8>),
    /// Nothing is held back for it any more.
    Ended,
    /// There is nothing to copy, or another client does: a sentence.
    Refused(&'static str),
    /// A file cannot be read: a sentence.
    Failed(String),
}

/// A file of a backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackupFile {
    /// Names it in [`BackupStep::Read`].
    pub number: u64,
    /// Without a path.
    pub name: String,
    /// In bytes.
    pub size: u64,
    /// Its first bytes, which are not read.
    pub head: Vec<u8>,
}
