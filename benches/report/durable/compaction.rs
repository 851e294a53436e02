//! Latency during compaction.
//!
//! Some jobs stay and others pass through, until the journal is about to hold 1.5 times its live
//! bytes; then compaction begins, and goes on until all that stays has been moved. Meanwhile the
//! server gets half of its maximum load. The journal's own figures, which the server logs at its
//! end, say how much was moved.

use super::storage::{Folder, Syncing};
use crate::load::{drive, number, sample};
use crate::metric::{Metric, Sample};
use crate::targets::{Programs, Target};
use serde_json::json;
use std::path::Path;

/// What is to be in the journal when the load begins.
#[derive(Clone, Copy, Debug, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Journal {
    /// Hardly anything that is dead.
    Dense,
    /// So much that is dead that compaction begins.
    Sparse,
}

const SERVER: Target = Target::JobCentre;
const SYNC: Syncing = Syncing::Always;
/// The standing jobs, and bytes of such a job in the journal, about.
const PAYLOAD: usize = 100;
const STANDING_BYTES: u64 = 132;
/// The jobs that go through, which are larger because it is sooner done.
const THROUGH: u64 = 1000;
/// What must go through at least: more than a segment.
const THROUGH_BYTES: u64 = 40 * 1024 * 1024;

/// Requests a second with this load, on a journal that was empty.
pub(crate) fn reached(
    programs: &Programs,
    scratch: &Path,
    words: &[String],
) -> Result<f64, String> {
    let folder = Folder::fresh(scratch)?;
    let server = programs.start_with(SERVER, &SYNC.arguments(SERVER, folder.path())?)?;
    let raw = drive(programs, &server, SERVER, words)?;
    number(&raw, &["requests_per_second"]).ok_or_else(|| "no rate was told".to_owned())
}

/// Drives a server with `standing` jobs at this rate.
pub(crate) fn load(
    programs: &Programs,
    scratch: &Path,
    words: &[String],
    standing: u64,
    journal: Journal,
    rate: f64,
) -> Result<Sample, String> {
    let folder = Folder::fresh(scratch)?;
    let server = programs.start_with(SERVER, &SYNC.arguments(SERVER, folder.path())?)?;
    let run = |words: &[String]| drive(programs, &server, SERVER, words);
    let line = |line: String| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    run(&line(format!("put -c 4 -d 64 --payload {PAYLOAD} -n {standing} --keep")))?;
    if matches!(journal, Journal::Sparse) {
        let jobs = (standing * STANDING_BYTES / 2).max(THROUGH_BYTES) / THROUGH;
        let requests = 3 * jobs;
        run(&line(format!("cycle -c 64 -d 16 --payload {THROUGH} -n {requests}")))?;
    }
    let raw = run(&[words, &["--rate".into(), rate.to_string()]].concat())?;
    server.stop()?;
    let closed = super::logged(programs, SERVER, "closed the data directory")?;
    let moved = number(&closed, &["moved_bytes"]).ok_or("the server does not say what it moved")?;
    match journal {
        Journal::Dense if moved > 0.0 => return Err("the journal was compacted".to_owned()),
        Journal::Sparse if moved <= 0.0 => return Err("the journal was not compacted".to_owned()),
        _ => {}
    }
    let mut sample = sample(raw);
    sample.values.insert(Metric::Moved, moved / super::MIB);
    sample.raw["closed"] = json!(closed);
    Ok(sample)
}
