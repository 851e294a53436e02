//! Resident memory of the process.

/// Resident bytes; `None` without `/proc`. Takes some tens of microseconds.
pub(super) fn resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    parse(&status)
}

fn parse(status: &str) -> Option<u64> {
    let rest = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: u64 = rest.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kilobytes.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vm_rss_line_is_parsed() {
        let status = "Name:\tx\nVmHWM:\t    99 kB\nVmRSS:\t    1234 kB\nRssAnon:\t 7 kB\n";
        assert_eq!(parse(status), Some(1234 * 1024));
        assert_eq!(parse("Name:\tx\n"), None);
        assert_eq!(parse("VmRSS:\tmany kB\n"), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn own_resident_memory_is_readable() {
        assert!(resident_bytes().is_some_and(|bytes| bytes > 100 * 1024));
    }
}
