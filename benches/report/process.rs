//! CPU time and memory of a server process, from `/proc`.

use crate::stats::float;
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
    memory(pid, "VmRSS:")
}

/// The most that it ever was.
pub(crate) fn peak(pid: u32) -> Result<u64, String> {
    memory(pid, "VmHWM:")
}

fn memory(pid: u32, field: &str) -> Result<u64, String> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))
        .map_err(|error| format!("the server is gone: {error}"))?;
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    let kib = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    kib.map(|kib| kib * 1024).ok_or_else(|| "the system does not tell memory".to_owned())
}

/// A moment of a measurement that this process makes itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    at: Instant,
    /// CPU time of the server in nanoseconds.
    pub(crate) server: u64,
    own: u64,
    /// Of all CPUs.
    busy: Option<u64>,
}

impl Moment {
    pub(crate) fn now(server: u32) -> Result<Self, String> {
        let own = cpu_nanos(std::process::id())?;
        Ok(Self { at: Instant::now(), server: cpu_nanos(server)?, own, busy: busy_nanos() })
    }

    /// CPUs that the server has used since.
    pub(crate) fn share_until(&self, end: &Self) -> f64 {
        float(end.server - self.server) / 1e9 / (end.at - self.at).as_secs_f64()
    }

    /// CPUs that this process has used since.
    pub(crate) fn own_share_until(&self, end: &Self) -> f64 {
        float(end.own - self.own) / 1e9 / (end.at - self.at).as_secs_f64()
    }

    /// CPUs that others than the server and this process have used since.
    pub(crate) fn others_until(&self, end: &Self) -> Option<f64> {
        let busy = float(end.busy?.saturating_sub(self.busy?));
        let known = float(end.server - self.server) + float(end.own - self.own);
        let elapsed = (end.at - self.at).as_secs_f64() * 1e9;
        Some(((busy - known) / elapsed).max(0.0))
    }
}

/// The kernel shows clock ticks to programs in units of a hundredth of a second.
const TICK_NANOS: u64 = 10_000_000;

fn busy_nanos() -> Option<u64> {
    let stat = fs::read_to_string("/proc/stat").ok()?;
    let line = stat.lines().next()?.strip_prefix("cpu ")?;
    // user nice system idle iowait irq softirq steal
    let fields: Vec<u64> = line.split_whitespace().take(8).flat_map(str::parse).collect();
    let idle = fields.get(3)? + fields.get(4)?;
    Some((fields.iter().sum::<u64>() - idle) * TICK_NANOS)
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
