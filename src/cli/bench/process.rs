//! CPU time and memory of a process, from /proc; `None` on systems without it.

use serde::Serialize;
use std::fs;

/// CPU time and memory of a process at one time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sample {
    pub(super) cpu_nanos: u64,
    pub(super) memory_bytes: u64,
}

/// The unit of CPU times in `stat`: `USER_HZ` is 100.
const TICK_NANOS: u64 = 10_000_000;

/// Samples a process, `self` or a process id.
pub(super) fn sample(process: &str) -> Option<Sample> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let memory_bytes = resident_bytes(&status)?;
    let cpu_nanos = cpu_nanos_of_threads(process).or_else(|| {
        ticks(&fs::read_to_string(format!("/proc/{process}/stat")).ok()?)
            .map(|ticks| ticks * TICK_NANOS)
    })?;
    Some(Sample { cpu_nanos, memory_bytes })
}

/// Nanoseconds on a CPU, summed over the threads.
fn cpu_nanos_of_threads(process: &str) -> Option<u64> {
    let mut sum = 0;
    for task in fs::read_dir(format!("/proc/{process}/task")).ok()? {
        let text = fs::read_to_string(task.ok()?.path().join("schedstat")).ok()?;
        sum += text.split_whitespace().next()?.parse::<u64>().ok()?;
    }
    Some(sum)
}

/// User and system time of a `stat` file. The name of the program, in parentheses, may
/// contain anything.
fn ticks(stat: &str) -> Option<u64> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(user + system)
}

/// Resident memory of a `status` file.
fn resident_bytes(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

/// Busy and total ticks of all CPUs together since the machine started.
pub(super) fn machine_ticks() -> Option<(u64, u64)> {
    busy(&fs::read_to_string("/proc/stat").ok()?)
}

fn busy(stat: &str) -> Option<(u64, u64)> {
    let line = stat.lines().next()?.strip_prefix("cpu ")?;
    // user nice system idle iowait irq softirq steal; what follows is contained in these.
    let fields: Vec<u64> = line.split_whitespace().take(8).flat_map(str::parse).collect();
    let total: u64 = fields.iter().sum();
    Some((total - fields.get(3)? - fields.get(4)?, total))
}

/// CPUs of a `/proc/stat`, which has a line for each.
fn cpus(stat: &str) -> usize {
    let is_cpu = |line: &&str| {
        line.strip_prefix("cpu").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    };
    stat.lines().filter(is_cpu).count()
}

/// The machine of the measurement.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Machine {
    pub(super) cpus: usize,
    pub(super) model: Option<String>,
    pub(super) kernel: Option<String>,
}

impl Machine {
    pub(super) fn this() -> Self {
        let read = |path| fs::read_to_string(path).ok();
        let model = read("/proc/cpuinfo").and_then(|text| {
            let line = text.lines().find(|line| line.starts_with("model name"))?;
            Some(line.split_once(':')?.1.trim().to_owned())
        });
        // Not `available_parallelism`: this process may be bound to some of them.
        let cpus = read("/proc/stat").map(|text| cpus(&text)).filter(|&cpus| cpus > 0);
        let allowed = || std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            cpus: cpus.unwrap_or_else(allowed),
            model,
            kernel: read("/proc/sys/kernel/osrelease").map(|text| text.trim().to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_the_system_are_read() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194560 100 0 0 0 21 34 0 0 20 0 1 0 100 1000 10";
        assert_eq!(ticks(stat), Some(55));
        assert_eq!(ticks("nonsense"), None);
        assert_eq!(resident_bytes("Name:\tx\nVmRSS:\t    2048 kB\nRssAnon: 1 kB\n"), Some(2 << 20));
        assert_eq!(resident_bytes("Name:\tx\n"), None);
        assert_eq!(busy("cpu  1 2 3 10 20 4 5 6 99 99\ncpu0 1"), Some((21, 51)));
        assert_eq!(busy("cpu  1 2"), None);
        assert_eq!(cpus("cpu  1 2\ncpu0 1\ncpu1 1\nintr 5\n"), 2);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn this_process_uses_memory_and_time() {
        let sample = sample("self").unwrap();
        assert!(sample.memory_bytes > 0 && sample.cpu_nanos > 0, "{sample:?}");
        assert_eq!(super::sample("no such process"), None);
    }
}
