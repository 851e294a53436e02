//! Durable jobs: load on servers that sync, and recovery after a stop.
//!
//! Each run has an empty directory below the report's scratch folder, which must be on a disk, and
//! leaves nothing there. The disk decides how fast a sync is. So, where a threshold is on latency,
//! a bare write and fdatasync of a small block is measured in the same directory and on the
//! server's core (the one interrupted by the disk is faster), right before the server starts and
//! after it has ended; the smaller value counts.

pub(crate) mod compaction;
pub(crate) mod scenarios;
mod storage;

pub(crate) use storage::Syncing;

use crate::load::{drive, number, sample};
use crate::metric::{Metric, Sample};
use crate::process::{resident, settle};
use crate::stats::{Spread, float};
use crate::targets::{Programs, Target};
use serde_json::{Value, json};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};
use storage::{Folder, file_system};

/// Drives a server that syncs; `beside_bare`: with what a bare sync takes.
pub(crate) fn load(
    programs: &Programs,
    scratch: &Path,
    target: Target,
    sync: Syncing,
    words: &[String],
    beside_bare: bool,
) -> Result<Sample, String> {
    let folder = Folder::fresh(scratch)?;
    let before = if beside_bare { Some(bare(programs, folder.path())?) } else { None };
    let arguments = sync.arguments(target, folder.path())?;
    let server = programs.start_with(target, &arguments)?;
    // Files made ahead are work of the start, of which no request has a share.
    settle(server.pid())?;
    let raw = drive(programs, &server, target, words)?;
    drop(server);
    let put = number(&raw, &["latency_us", "put", "p50"]);
    let mut sample = sample(raw);
    if let (Some(before), Some(put)) = (before, put) {
        let after = bare(programs, folder.path())?;
        // A disturbed one is larger, and would make the server look better than the disk.
        let bare = before.min(after);
        sample.values.insert(Metric::PutP50, put);
        sample.values.insert(Metric::BareP50, bare);
        sample.values.insert(Metric::OverBare, put / bare);
        sample.raw["bare_write_and_fdatasync_p50_us"] = json!({ "before": before, "after": after });
    }
    sample.raw["file_system"] = json!(file_system(scratch));
    Ok(sample)
}

/// What is written at a time, and where: over blocks that are there, as a journal does.
const BLOCK: usize = 256;
const BLOCKS: usize = 4096;
const PAGE: usize = 4096;
const SYNCS: usize = 2000;
const SYNCING: Duration = Duration::from_millis(500);

/// What a bare sync takes where the server runs.
fn bare(programs: &Programs, folder: &Path) -> Result<f64, String> {
    let measure = || bare_p50(folder);
    programs.cores.as_ref().map_or_else(measure, |cores| cores.as_server(measure))
}

/// Microseconds for a write and an fdatasync of a small block, the median.
fn bare_p50(folder: &Path) -> Result<f64, String> {
    let path = folder.join("bare");
    let measure = || {
        let file = File::create(&path)?;
        // Page by page: a page cache in larger pieces is slower at small writes.
        for page in 0..BLOCK * BLOCKS / PAGE {
            file.write_all_at(&[0; PAGE], (page * PAGE) as u64)?;
        }
        file.sync_all()?;
        let block = [1; BLOCK];
        let start = Instant::now();
        let mut micros = Vec::new();
        for number in 0..SYNCS {
            let before = Instant::now();
            file.write_all_at(&block, (number % BLOCKS * BLOCK) as u64)?;
            file.sync_data()?;
            micros.push(before.elapsed().as_secs_f64() * 1e6);
            if start.elapsed() > SYNCING {
                break;
            }
        }
        std::fs::remove_file(&path)?;
        Ok(micros)
    };
    let micros = measure()
        .map_err(|error: std::io::Error| format!("cannot sync {}: {error}", path.display()))?;
    Spread::of(&micros).map(|spread| spread.median).ok_or_else(|| "nothing was synced".to_owned())
}

/// Fills a server, stops it in good order, and starts it again over the same directory.
pub(crate) fn recovery(
    programs: &Programs,
    scratch: &Path,
    payload: usize,
    count: u64,
) -> Result<Sample, String> {
    let target = Target::JobCentre;
    let folder = Folder::fresh(scratch)?;
    let arguments = Syncing::Never.arguments(target, folder.path())?;
    let memory = |pid| settle(pid).and_then(|()| resident(pid)).map(float);
    let server = programs.start_with(target, &arguments)?;
    let line = format!("put -c 4 -d 64 --payload {payload} -n {count} --keep");
    let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
    let raw = drive(programs, &server, target, &words)?;
    let before = memory(server.pid())?;
    server.stop()?;
    let start = Instant::now();
    let server = programs.start_with(target, &arguments)?;
    let listening = start.elapsed().as_secs_f64();
    let after = memory(server.pid())?;
    let opened = logged(programs, target, "data opened")?;
    if opened["jobs"].as_u64() != Some(count) {
        return Err(format!("of {count} jobs {} are back", opened["jobs"]));
    }
    let read = logged(programs, target, "recovered")?;
    let told = |name| number(&read, &[name]).ok_or("the server does not tell what it has read");
    let rate = told("records")? / told("seconds")?.max(1e-3);
    let mut sample = Sample {
        raw: json!({
            "run": raw, "opened": opened, "read": read, "seconds_until_it_listens": listening,
            "bytes_before": before, "bytes_after": after, "file_system": file_system(scratch),
        }),
        ..Sample::default()
    };
    sample.values.insert(Metric::RecoveryRate, rate);
    sample.values.insert(Metric::RecoverySeconds, listening);
    sample.values.insert(Metric::MemoryBefore, before / MIB);
    sample.values.insert(Metric::MemoryAfter, after / MIB);
    sample.values.insert(Metric::RecoveryMemory, after / before);
    Ok(sample)
}

const MIB: f64 = 1024.0 * 1024.0;

/// What the server's log says beside this message, without the paths of its files.
fn logged(programs: &Programs, target: Target, message: &str) -> Result<Value, String> {
    let log = std::fs::read_to_string(programs.log(target)).unwrap_or_default();
    let mut lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let line = lines.find(|line| line["message"] == message);
    let mut line = line.ok_or_else(|| format!("the server's log has no line '{message}'"))?;
    if let Value::Object(fields) = &mut line {
        fields.remove("dir");
    }
    Ok(line)
}
