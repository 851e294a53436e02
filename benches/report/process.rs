//! What the system knows about a server: CPU time and memory.

use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Nanoseconds on a CPU, user and system, summed over the threads.
pub(crate) fn cpu_nanos(pid: u32) -> Result<u64, String> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task"))
        .map_err(|error| format!("the server is gone: {error}"))?;
    let nanos = |task: fs::DirEntry| {
        let text = fs::read_to_string(task.path().join("schedstat")).ok()?;
        text.split_whitespace().next()?.parse::<u64>().ok()
    };
    Ok(tasks.flatten().filter_map(nanos).sum())
}

/// Resident memory in bytes.
pub(crate) fn resident(pid: u32) -> Result<u64, String> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))
        .map_err(|error| format!("the server is gone: {error}"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    kib.map(|kib| kib * 1024).ok_or_else(|| "the system does not tell memory".to_owned())
}

/// Less than this is no work.
const QUIET_NANOS: u64 = 1_000_000;
const LOOK: Duration = Duration::from_millis(150);
const PATIENCE: Duration = Duration::from_secs(20);

/// Waits until the server has nothing more to do.
pub(crate) fn settle(pid: u32) -> Result<(), String> {
    let deadline = Instant::now() + PATIENCE;
    let mut before = cpu_nanos(pid)?;
    let mut quiet = 0;
    while quiet < 2 {
        if Instant::now() > deadline {
            return Err(format!("the server does not come to rest in {PATIENCE:?}"));
        }
        sleep(LOOK);
        let now = cpu_nanos(pid)?;
        quiet = if now - before < QUIET_NANOS { quiet + 1 } else { 0 };
        before = now;
    }
    Ok(())
}
