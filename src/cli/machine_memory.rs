//! How much memory the process may have: that of the machine, or of its control group.

use std::fs;

/// Bytes; `None` where the system does not tell. Reads two files of the system.
pub(super) fn machine_memory() -> Option<u64> {
    let total = fs::read_to_string("/proc/meminfo").ok().as_deref().and_then(total_bytes);
    let group = fs::read_to_string("/proc/self/cgroup").ok();
    let group = group.as_deref().and_then(group_path).and_then(|path| {
        let limit = fs::read_to_string(format!("/sys/fs/cgroup{path}/memory.max")).ok()?;
        limit.trim().parse().ok()
    });
    total.into_iter().chain(group).min()
}

/// The memory of the machine in `/proc/meminfo`.
fn total_bytes(meminfo: &str) -> Option<u64> {
    let rest = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kibibytes: u64 = rest.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

/// The path of the control group in `/proc/self/cgroup`, version 2.
fn group_path(groups: &str) -> Option<&str> {
    let path = groups.lines().find_map(|line| line.strip_prefix("0::"))?;
    Some(path.trim_end_matches('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_the_system_are_parsed() {
        assert_eq!(total_bytes("MemTotal:       24576 kB\nMemFree: 1 kB\n"), Some(24576 * 1024));
        assert_eq!(total_bytes("MemFree: 1 kB\n"), None);
        assert_eq!(
            group_path("1:name=x:/a\n0::/system.slice/b.service\n"),
            Some("/system.slice/b.service")
        );
        assert_eq!(group_path("0::/\n"), Some(""));
        assert_eq!(group_path("5:cpu:/a\n"), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn memory_of_this_machine_is_known() {
        assert!(machine_memory().is_some_and(|bytes| bytes > 1 << 20));
    }
}
