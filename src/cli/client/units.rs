//! Numbers for people: grouped digits, lengths of time, rates and bytes.

pub(super) use crate::cli::bench::grouped_digits as grouped;

/// A number in at most seven characters: `12,345`, `1.23M`.
pub(super) fn short(number: u64) -> String {
    if number < 1_000_000 {
        return grouped(&number.to_string());
    }
    let mut value = crate::cli::bench::float(number);
    let mut unit = ' ';
    for larger in ['k', 'M', 'G', 'T', 'P', 'E'] {
        if value < 1_000.0 {
            break;
        }
        (value, unit) = (value / 1_000.0, larger);
    }
    let digits = if value < 10.0 { 2 } else { usize::from(value < 100.0) };
    format!("{value:.digits$}{unit}")
}

/// A number of jobs, with the noun.
pub(super) fn jobs(number: u64) -> String {
    let noun = if number == 1 { "job" } else { "jobs" };
    format!("{} {noun}", grouped(&number.to_string()))
}

/// Milliseconds in at most two units: `12ms`, `1.5s`, `1m1s`, `2h5m`, `3d4h`.
pub(super) fn time(milliseconds: u64) -> String {
    let (seconds, rest) = (milliseconds / 1_000, milliseconds % 1_000);
    let two = |large: u64, small: u64, units: [char; 2]| match small {
        0 => format!("{large}{}", units[0]),
        small => format!("{large}{}{small}{}", units[0], units[1]),
    };
    match seconds {
        0 => format!("{milliseconds}ms"),
        1..=9 if rest >= 100 => format!("{seconds}.{}s", rest / 100),
        1..=59 => format!("{seconds}s"),
        60..=3_599 => two(seconds / 60, seconds % 60, ['m', 's']),
        3_600..=86_399 => two(seconds / 3_600, seconds / 60 % 60, ['h', 'm']),
        _ => two(seconds / 86_400, seconds / 3_600 % 24, ['d', 'h']),
    }
}

/// A number a second, with three digits where it is small.
pub(super) fn rate(per_second: f64) -> String {
    match per_second {
        0.0 => "0".to_owned(),
        ..10.0 => format!("{per_second:.2}"),
        10.0..100.0 => format!("{per_second:.1}"),
        _ => grouped(&format!("{per_second:.0}")),
    }
}

/// Bytes in the largest unit that leaves at least one of it: `12.3 MiB`.
pub(super) fn bytes(count: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut number = crate::cli::bench::float(count);
    let mut unit = 0;
    while number >= 1024.0 && unit + 1 < UNITS.len() {
        number /= 1024.0;
        unit += 1;
    }
    let digits = usize::from(unit > 0 && number < 100.0);
    format!("{number:.digits$} {}", UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_and_readable() {
        let groups = ["1", "12", "123", "1234", "1234567"].map(grouped);
        assert_eq!(groups, ["1", "12", "123", "1,234", "1,234,567"]);
        let times = [0, 999, 1_500, 9_050, 59_999, 61_000, 3_600_000, 7_500_000, 273_600_000];
        let shown = times.map(time);
        assert_eq!(shown, ["0ms", "999ms", "1.5s", "9s", "59s", "1m1s", "1h", "2h5m", "3d4h"]);
        let rates = [0.0, 0.016, 9.876, 45.67, 123_456.7].map(rate);
        assert_eq!(rates, ["0", "0.02", "9.88", "45.7", "123,457"]);
        let shorts = [7, 999_999, 1_234_567, 12_345_678, 999_999_999_999, u64::MAX].map(short);
        assert_eq!(shorts, ["7", "999,999", "1.23M", "12.3M", "1000G", "18.4E"]);
        let sizes = [0, 1023, 1024, 21_659_648, 5 << 40].map(bytes);
        assert_eq!(sizes, ["0 B", "1023 B", "1.0 KiB", "20.7 MiB", "5.0 TiB"]);
    }
}
