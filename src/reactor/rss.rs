//! Resident memory and processor time of the process.

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

/// Microseconds of a tick in which Linux counts processor time for programs.
const TICK_US: u64 = 10_000;

/// Processor time in user mode and in the system, in microseconds; `None` without `/proc`.
pub(super) fn processor_us() -> Option<(u64, u64)> {
    parse_times(&std::fs::read_to_string("/proc/self/stat").ok()?)
}

/// The fields behind the name of the program, which is in parentheses, begin with the third.
fn parse_times(stat: &str) -> Option<(u64, u64)> {
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
    let user: u64 = fields.nth(14 - 3)?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some((user.checked_mul(TICK_US)?, system.checked_mul(TICK_US)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_times_stand_behind_the_name() {
        let stat = "7 (a ) b) S 1 2 3 4 5 6 7 8 9 10 42 43 0 0 20";
        assert_eq!(parse_times(stat), Some((420_000, 430_000)));
        assert_eq!(parse_times("7 (a) S 1"), None);
    }

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
