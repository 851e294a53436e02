//! `jobcentre journal`: checks, prints or salvages a data directory that no server uses.

mod dump;

use super::data_dir::{RestoreProgress, explain_open_error};
use super::escape::push_escaped;
use super::print_error;
use crate::engine::read_record;
use crate::journal::limits::JOURNAL_SEGMENT_BYTES;
use crate::journal::{
    RecordLocation, RecoveryProgress, RecoveryReport, SalvageReport, read, salvage,
};
use crate::model::snapshot::Record;
use crate::reactor::Clock;
use crate::reactor::disk::{Directory, LockMode};
use clap::{Args, Subcommand};
use std::collections::HashSet;
use std::io::{self, BufWriter, ErrorKind, Write, stdout};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The arguments of `journal`.
#[derive(Args, Debug)]
pub(super) struct Journal {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Read everything in a data directory and say whether it is sound. Changes nothing.
    ///
    /// Every checksum is verified and every record is read, as the server does when it starts.
    /// Exit status 0: the server would start with what is in it. 1: it would not, or nothing is in
    /// it; the file, the place in it and what to do are on stderr. The server must be stopped, or
    /// the directory be a copy.
    Check {
        /// The data directory (what --data names), or a copy of it.
        dir: PathBuf,
    },

    /// Print what a data directory holds, oldest first: JSON, one object a line. Changes nothing.
    ///
    /// "record" says what a line is. "job": a whole job, in place of what was known of the job
    /// with this id. "state": what has become of it since. "gone": it was deleted, popped,
    /// finished, or its time to live was over. What a client held is "waiting", as it is after a
    /// restart.
    /// "batch" is written whole or not at all; "segment" and "offset" say where its bytes begin.
    /// The server must be stopped, or the directory be a copy.
    Dump {
        /// The data directory (what --data names), or a copy of it.
        dir: PathBuf,
    },

    /// Copy what can be read of a damaged data directory into a new one.
    ///
    /// Every batch whose checksums are right is copied, wherever it is found: in a file that has
    /// another name, is cut short, has lost its header or was partly written over. What is not
    /// copied is listed. The damaged directory is not changed: keep it until you know that you do
    /// not need it. What was lost with a damaged batch is lost: its jobs are missing, and jobs that
    /// it had deleted may be back. Then start the server with --data OUT.
    Salvage {
        /// The damaged data directory.
        dir: PathBuf,
        /// The new one: not there yet, or empty.
        out: PathBuf,
    },
}

/// Why a command failed.
enum JournalCommandError {
    /// A message for the operator.
    Reason(String),
    /// The reader of the output has closed it.
    OutputClosed,
}

impl From<io::Error> for JournalCommandError {
    fn from(error: io::Error) -> Self {
        if error.kind() == ErrorKind::BrokenPipe {
            return Self::OutputClosed;
        }
        Self::Reason(format!("cannot write the output: {error}"))
    }
}

impl Journal {
    /// Runs the command.
    pub(super) fn run(&self) -> ExitCode {
        let mut out = BufWriter::new(stdout().lock());
        let result = match &self.command {
            Command::Check { dir } => check(dir, &mut out),
            Command::Dump { dir } => dump(dir, &mut out),
            Command::Salvage { dir, out: to } => copy_readable(dir, to, &mut out),
        };
        // The output so far comes before the error message.
        match result.and_then(|()| Ok(out.flush()?)) {
            Ok(()) | Err(JournalCommandError::OutputClosed) => ExitCode::SUCCESS,
            Err(JournalCommandError::Reason(message)) => {
                // If this fails too, the first error is the one to report.
                let _ = out.flush();
                print_error(message);
                ExitCode::FAILURE
            }
        }
    }
}

fn open(dir: &Path, access: LockMode) -> Result<Directory, JournalCommandError> {
    Directory::open(dir, access).map_err(|error| JournalCommandError::Reason(error.to_string()))
}

/// Reads all records of a directory.
fn read_all(
    dir: &Path,
    each: &mut dyn FnMut(Record<'_>, RecordLocation) -> Result<(), String>,
) -> Result<RecoveryReport, JournalCommandError> {
    let mut files = open(dir, LockMode::ReadOnly)?;
    let (mut clock, mut progress_line) = (Clock::start(), RestoreProgress::new());
    let report = read(
        &mut files,
        &mut |bytes, location| each(read_record(bytes)?, location),
        &mut |progress: RecoveryProgress| progress_line.show(clock.sample().mono.0, progress),
    );
    progress_line.clear();
    let report =
        report.map_err(|error| JournalCommandError::Reason(explain_open_error(dir, &error)))?;
    if report.segments == 0 {
        let dir = dir.display();
        return Err(JournalCommandError::Reason(format!(
            "{dir} holds no journal, and the server would begin a new one in it: is it the right \
             one?"
        )));
    }
    Ok(report)
}

fn check(dir: &Path, out: &mut impl Write) -> Result<(), JournalCommandError> {
    let mut jobs = HashSet::new();
    let report = read_all(dir, &mut |record, _| {
        match record {
            Record::Job(job) => jobs.insert(job.id.0),
            Record::Deleted(id) => jobs.remove(&id.0),
            Record::State(..)
            | Record::Event(..)
            | Record::Queue(..)
            | Record::Pause(..)
            | Record::Schedule(..)
            | Record::PastKey(..)
            | Record::PastRun(..)
            | Record::Loss(..)
            | Record::Worker(..)
            | Record::Constraint(..) => false,
        };
        Ok(())
    })?;
    let RecoveryReport { records, batches, bytes, segments, high_id, torn, foreign } = report;
    writeln!(out, "jobs       {}", jobs.len())?;
    writeln!(out, "records    {records}\nbatches    {batches}\nbytes      {bytes}")?;
    writeln!(out, "segments   {segments}\nnext id    {high_id} or higher")?;
    if let Some(torn) = torn {
        let file = dir.join(&torn.file);
        writeln!(
            out,
            "torn tail  {}, byte {}, {} bytes at most: it does not verify, as after a crash during \
             a write. Nothing in it was acknowledged, unless --fsync allows that or the disk has \
             damaged the last batch since. The server skips it",
            file.display(),
            torn.offset,
            torn.bytes
        )?;
    }
    for name in &foreign {
        // The name of a foreign file can contain anything.
        let mut path = String::new();
        push_escaped(&dir.join(name).display().to_string(), &mut path);
        writeln!(out, "foreign    {path}: left alone")?;
    }
    writeln!(out, "sound: everything that counts verifies")?;
    Ok(())
}

fn dump(dir: &Path, out: &mut impl Write) -> Result<(), JournalCommandError> {
    let (mut line, mut write_error) = (Vec::new(), None);
    let read = read_all(dir, &mut |record, location| {
        line.clear();
        dump::push(&record, location, &mut line);
        out.write_all(&line).map_err(|error| {
            let message = error.to_string();
            write_error = Some(error);
            message
        })
    });
    match write_error {
        Some(error) => Err(error.into()),
        None => read.map(drop),
    }
}

fn copy_readable(dir: &Path, to: &Path, out: &mut impl Write) -> Result<(), JournalCommandError> {
    let mut from = open(dir, LockMode::ReadOnly)?;
    let mut into = open(to, LockMode::Exclusive)?;
    let report = salvage(&mut from, &mut into, JOURNAL_SEGMENT_BYTES)
        .map_err(|error| JournalCommandError::Reason(explain_open_error(dir, &error)))?;
    let SalvageReport { batches, records, lost_batches, missing, skipped, suspicious, superseded } =
        report;
    for name in &missing {
        writeln!(out, "missing    {}", dir.join(name).display())?;
    }
    for part in &skipped {
        let (file, offset, bytes) = (dir.join(&part.file), part.offset, part.bytes);
        writeln!(
            out,
            "skipped    {}, byte {offset}, {bytes} bytes: {}",
            file.display(),
            part.what
        )?;
    }
    for part in &suspicious {
        writeln!(out, "doubtful   {}: {}", dir.join(&part.file).display(), part.what)?;
    }
    if superseded > 0 {
        writeln!(out, "left out   batches: {superseded}, which no longer counted")?;
    }
    if batches == 0 {
        let dir = dir.display();
        return Err(JournalCommandError::Reason(format!("{dir} holds nothing that can be read")));
    }
    writeln!(out, "copied     {records} records (batches: {batches})")?;
    if lost_batches > 0 {
        writeln!(
            out,
            "lost       batches: {lost_batches}. Jobs put in them are missing, and jobs deleted in \
             them may be back"
        )?;
    }
    writeln!(out, "start the server with --data {}", to.display())?;
    Ok(())
}
