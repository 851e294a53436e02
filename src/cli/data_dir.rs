//! The data directory: opened, read back, and handed to the engine.

use super::bench::{float, seconds};
use super::entropy;
use super::progress_line::ProgressLine;
use crate::engine::Engine;
use crate::journal::disk::{DiskError, Files};
use crate::journal::limits::JOURNAL_SEGMENT_BYTES;
use crate::journal::{
    self, JournalOptions, LogStats, OpenError, RecoveryReport, SPACE_MIN_BYTES, SyncMode,
};
use crate::reactor::disk::{BackupReader, Directory, FileDisk, LockMode, Notify};
use crate::reactor::{Clock, LoopWaker, ServiceManager};
use std::io;
use std::path::Path;
use std::sync::Arc;
use tracing::{debug, info, warn};

/// Foreign files that are reported by name.
const FOREIGN_WARNINGS_MAX: usize = 5;

/// Opens `dir`, restores the store from its journal, and logs what was recovered.
///
/// # Errors
/// A sentence for the operator.
pub(super) fn open(
    dir: &Path,
    (sync, max_memory): (SyncMode, Option<u64>),
    seed: u64,
    clock: &mut Clock,
    manager: &mut ServiceManager,
    wake: &LoopWaker,
) -> io::Result<Engine> {
    let failed = |error: &OpenError| io::Error::other(explain_open_error(dir, error));
    let mut files = Directory::open(dir, LockMode::Exclusive)
        .map_err(|error| failed(&OpenError::Disk(error)))?;
    // Not the seed: files must not reveal the seed of hashes in memory.
    let salt = entropy::random_u64();
    let segment_bytes = segment_bytes(dir, &mut files).map_err(|error| failed(&error.into()))?;
    let options = JournalOptions { segment_bytes, sync, salt };
    let start = clock.sample();
    let mut progress_line = RestoreProgress::new();
    let mut show = |progress: journal::RecoveryProgress| {
        let now = clock.sample().mono;
        let percent = progress.read_bytes * 100 / progress.total_bytes.max(1);
        manager.extend_start(now, percent);
        progress_line.show(now.0 - start.mono.0, progress);
    };
    let restored = Engine::restore(&mut files, &options, max_memory, seed, start, &mut show);
    progress_line.clear();
    let (restored, report) = restored.map_err(|error| failed(&error))?;
    let now = clock.sample();
    log_recovery(dir, sync, &report, restored.counts().jobs, now.mono.0 - start.mono.0);
    let wake = wake.clone();
    let wake: Notify = Arc::new(move || wake.wake());
    let reader = BackupReader::new(files.path().to_owned(), Arc::clone(&wake));
    let disk =
        FileDisk::start(files, sync, wake).map_err(|error| failed(&OpenError::Disk(error)))?;
    Ok(Engine::durable(restored, Box::new(disk), now).with_backups(Box::new(reader)))
}

/// The size of segments: a small part of the space for the directory. Warns if that space is too
/// small.
pub(super) fn segment_bytes(dir: &Path, files: &mut Directory) -> Result<u64, DiskError> {
    let free = match files.free_bytes() {
        Ok(free) => free,
        Err(reason) => {
            debug!(why = %reason, "so segments have the usual size");
            return Ok(JOURNAL_SEGMENT_BYTES);
        }
    };
    let used: u64 = files.list()?.iter().map(|entry| entry.size).sum();
    let space = free.saturating_add(used);
    if space < SPACE_MIN_BYTES {
        warn!(
            dir = %dir.display(),
            free_bytes = free,
            needed_bytes = SPACE_MIN_BYTES - used,
            "there is too little space for the data directory: puts may be refused"
        );
    }
    Ok(journal::segment_bytes_for(space))
}

/// The progress line while a journal is read.
pub(super) struct RestoreProgress(ProgressLine);

impl RestoreProgress {
    pub(super) fn new() -> Self {
        Self(ProgressLine::new())
    }

    /// Draws the line, `nanos` nanoseconds after the start.
    pub(super) fn show(&mut self, nanos: u64, progress: journal::RecoveryProgress) {
        if self.0.is_due(nanos) {
            let done = float(progress.read_bytes) / float(progress.total_bytes.max(1));
            let (records, mib) = (progress.records, progress.read_bytes >> 20);
            let details =
                format_args!("{records} records, {mib} of {} MiB", progress.total_bytes >> 20);
            self.0.show(nanos, "recovery", done, details);
        }
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}

/// The mode as a value of `--fsync`.
fn fsync_setting(sync: SyncMode) -> String {
    match sync {
        SyncMode::Always => "always".to_owned(),
        SyncMode::Every(time) => humantime::format_duration(time).to_string(),
        SyncMode::Never => "never".to_owned(),
    }
}

fn log_recovery(dir: &Path, sync: SyncMode, report: &RecoveryReport, jobs: usize, nanos: u64) {
    info!(
        records = report.records,
        bytes = report.bytes,
        seconds = seconds(nanos / 1_000_000 * 1_000_000),
        "recovered"
    );
    info!(dir = %dir.display(), fsync = fsync_setting(sync), jobs, "data opened");
    if let Some(torn) = &report.torn {
        warn!(
            file = %dir.join(&torn.file).display(),
            offset = torn.offset,
            bytes = torn.bytes,
            batches = torn.batches,
            "the end of the journal does not verify and is skipped, as after a crash during a \
             write. Nothing in it was acknowledged, unless --fsync allows that or the disk has \
             damaged the last batch since"
        );
    }
    for name in report.foreign.iter().take(FOREIGN_WARNINGS_MAX) {
        let file = dir.join(name);
        warn!(file = %file.display(), "this is no file of the journal: it is left alone");
    }
    if report.foreign.len() > FOREIGN_WARNINGS_MAX {
        let more = report.foreign.len() - FOREIGN_WARNINGS_MAX;
        warn!(more, "there are more files that are none of the journal's");
    }
}

/// Logs the journal's counters at the end of a run. The percentiles of sync latency are upper
/// bounds of histogram buckets.
pub(super) fn log_stats(status: &LogStats) {
    let syncs = status.syncs.max(1);
    info!(
        live_bytes = status.live_bytes,
        dead_bytes = status.dead_bytes,
        total_bytes = status.total_bytes,
        segments = status.segments,
        batches = status.batches,
        records = status.records,
        written_bytes = status.written_bytes,
        moved_bytes = status.moved_bytes,
        syncs = status.syncs,
        records_per_sync = float(status.synced_records * 10 / syncs) / 10.0,
        sync_mean_us = status.sync_ns / syncs / 1_000,
        sync_p50_us = status.sync_permille_ns(500) / 1_000,
        sync_p99_us = status.sync_permille_ns(990) / 1_000,
        sync_max_us = status.sync_max_ns / 1_000,
        "closed the data directory"
    );
}

/// The message for the operator when the journal in `dir` cannot be opened, with what to do.
pub(super) fn explain_open_error(dir: &Path, error: &OpenError) -> String {
    let path = |file: &String| dir.join(file).display().to_string();
    let salvage = format!(
        "Nothing was changed. Take the directory from a backup, or copy what can be read into a \
         new one: jobcentre journal salvage {} OUT",
        dir.display()
    );
    match error {
        OpenError::Disk(_) | OpenError::Stopped(_) => error.to_string(),
        OpenError::Damaged { file, offset, what } => {
            format!("the journal is damaged: {}, byte {offset}: {what}. {salvage}", path(file))
        }
        OpenError::Missing { file } => {
            format!("the journal is damaged: {} is missing. {salvage}", path(file))
        }
        OpenError::Gone => format!(
            "the journal is gone: {} has held segments (files with .seg), and holds none. Nothing \
             was changed. Put them back, from a backup if need be. To begin anew without the jobs \
             that were in them, remove {}",
            dir.display(),
            path(&journal::LOCK_FILE.to_owned())
        ),
        OpenError::Newer { file, format } => format!(
            "{} has format {format}, which is newer than this program (version {}): start the \
             version that wrote it, or a later one. Nothing was changed",
            path(file),
            env!("CARGO_PKG_VERSION")
        ),
        OpenError::Record { file, offset, what } => format!(
            "the batch at byte {offset} of {} was written whole, but {what}. It may come from a \
             later version; if not, this is a bug. {salvage}",
            path(file)
        ),
    }
}
