//! `jobcentre journal`: what an operator can do with a data directory while no server runs on it.

mod dump;

use super::complain;
use super::data_dir::{RestoreProgress, explain};
use super::shown::push_escaped;
use crate::base::limits::JOURNAL_SEGMENT_BYTES;
use crate::engine::read_record;
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

/// Why a command could not be carried out.
enum JournalCommandError {
    /// A sentence for the operator.
    Reason(String),
    /// Nobody reads the output any more.
    Unreadable,
}

impl From<io::Error> for JournalCommandError {
    fn from(error: io::Error) -> Self {
        if error.kind() == ErrorKind::BrokenPipe {
            return Self::Unreadable;
        }
        Self::Reason(format!("cannot write the output: {error}"))
    }
}

impl Journal {
    /// Does what was asked.
    pub(super) fn run(&self) -> ExitCode {
        let mut out = BufWriter::new(stdout().lock());
        let done = match &self.command {
            Command::Check { dir } => check(dir, &mut out),
            Command::Dump { dir } => dump(dir, &mut out),
            Command::Salvage { dir, out: to } => rescue(dir, to, &mut out),
        };
        // What was printed so far comes before the complaint.
        match done.and_then(|()| Ok(out.flush()?)) {
            Ok(()) | Err(JournalCommandError::Unreadable) => ExitCode::SUCCESS,
            Err(JournalCommandError::Reason(why)) => {
                // If this fails too, there is nothing better to say.
                let _ = out.flush();
                complain(why);
                ExitCode::FAILURE
            }
        }
    }
}

fn open(dir: &Path, access: LockMode) -> Result<Directory, JournalCommandError> {
    Directory::open(dir, access).map_err(|fault| JournalCommandError::Reason(fault.to_string()))
}

/// Reads all records of a directory.
fn read_all(
    dir: &Path,
    each: &mut dyn FnMut(Record<'_>, RecordLocation) -> Result<(), String>,
) -> Result<RecoveryReport, JournalCommandError> {
    let mut files = open(dir, LockMode::ReadOnly)?;
    let (mut clock, mut reading) = (Clock::start(), RestoreProgress::new());
    let report = read(
        &mut files,
        &mut |bytes, origin| each(read_record(bytes)?, origin),
        &mut |progress: RecoveryProgress| reading.show(clock.sample().mono.0, progress),
    );
    reading.clear();
    let report = report.map_err(|refused| JournalCommandError::Reason(explain(dir, &refused)))?;
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
            | Record::Worker(..)
            | Record::Constraint(..) => false,
        };
        Ok(())
    })?;
    let RecoveryReport { records, batches, bytes, segments, high_id: mark, torn, foreign } = report;
    writeln!(out, "jobs       {}", jobs.len())?;
    writeln!(out, "records    {records}\nbatches    {batches}\nbytes      {bytes}")?;
    writeln!(out, "segments   {segments}\nnext id    {mark} or higher")?;
    if let Some(torn) = torn {
        let file = dir.join(&torn.file);
        writeln!(
            out,
            "torn tail  {}, byte {}, {} bytes at most: a crash cut these writes short, and nobody \
             was told that they were done, unless --fsync allowed it. The server cuts them off",
            file.display(),
            torn.offset,
            torn.bytes
        )?;
    }
    for name in &foreign {
        // Whoever has made it may have called it anything.
        let mut path = String::new();
        push_escaped(&dir.join(name).display().to_string(), &mut path);
        writeln!(out, "foreign    {path}: left alone")?;
    }
    writeln!(out, "sound: everything that counts verifies")?;
    Ok(())
}

fn dump(dir: &Path, out: &mut impl Write) -> Result<(), JournalCommandError> {
    let (mut line, mut failed) = (Vec::new(), None);
    let read = read_all(dir, &mut |record, origin| {
        line.clear();
        dump::push(&record, origin, &mut line);
        out.write_all(&line).map_err(|error| {
            let why = error.to_string();
            failed = Some(error);
            why
        })
    });
    match failed {
        Some(error) => Err(error.into()),
        None => read.map(drop),
    }
}

fn rescue(dir: &Path, to: &Path, out: &mut impl Write) -> Result<(), JournalCommandError> {
    let mut from = open(dir, LockMode::ReadOnly)?;
    let mut into = open(to, LockMode::Exclusive)?;
    let salvaged = salvage(&mut from, &mut into, JOURNAL_SEGMENT_BYTES)
        .map_err(|refused| JournalCommandError::Reason(explain(dir, &refused)))?;
    let SalvageReport {
        batches,
        records,
        lost_batches,
        missing,
        skipped,
        suspicious: doubtful,
        superseded,
    } = salvaged;
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
    for doubt in &doubtful {
        writeln!(out, "doubtful   {}: {}", dir.join(&doubt.file).display(), doubt.what)?;
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
