//! The result as text, within 80 columns.

use super::clock::float;
use super::report::Report;
use std::fmt;

const COLUMNS: usize = 80;
/// The column of the text in a line with a name.
const TEXT_COLUMN: usize = 13;

/// From this many microseconds on, times are printed in seconds.
const SECONDS_FROM_MICROS: f64 = 1e7;

pub(super) fn count(number: u64, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{} {noun}s", grouped(number)) }
}

/// A number with grouped digits: 1,234,567.
pub(super) fn grouped(number: u64) -> String {
    grouped_digits(&number.to_string())
}

/// Digits in groups of three.
pub(in crate::cli) fn grouped_digits(digits: &str) -> String {
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn rounded(number: f64) -> String {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "shown, rounded")]
    let whole = number.round().max(0.0) as u64;
    grouped(whole)
}

fn mib(bytes: u64) -> f64 {
    float(bytes) / float(1 << 20)
}

/// Microseconds in at most seven characters.
fn format_micros(micros: f64) -> String {
    match micros {
        _ if micros < 9_999.95 => format!("{micros:.1}"),
        _ if micros < SECONDS_FROM_MICROS => format!("{micros:.0}"),
        _ => format!("{:.1} s", micros / 1e6),
    }
}

/// A count, with grouped digits if it fits ten characters.
fn format_count(number: u64) -> String {
    let text = grouped(number);
    if text.len() > 10 { number.to_string() } else { text }
}

/// Writes `head`, then `text` from column `indent` on, wrapped.
fn push_wrapped(f: &mut fmt::Formatter<'_>, head: &str, indent: usize, text: &str) -> fmt::Result {
    write!(f, "{head:<indent$}")?;
    let mut column = indent;
    for (number, word) in text.split_whitespace().enumerate() {
        let length = word.chars().count();
        if number > 0 && column + 1 + length > COLUMNS {
            write!(f, "\n{:indent$}", "")?;
            column = indent;
        } else if number > 0 {
            f.write_str(" ")?;
            column += 1;
        }
        f.write_str(word)?;
        column += length;
    }
    writeln!(f)
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        push_wrapped(f, "", 0, &self.title())?;
        let requests = format!(
            "{} requests in {:.3} s: {} a second",
            grouped(self.requests),
            self.seconds,
            rounded(self.requests_per_second)
        );
        push_wrapped(f, "", 2, &requests)?;
        self.fmt_latency(f)?;
        if let Some(server) = &self.server {
            let cpu = server.cpu;
            let (us, share) = (cpu.microseconds_per_request, 100.0 * cpu.share);
            let text = format!("{us:.2} us CPU a request, {share:.0} % of a CPU");
            push_wrapped(f, "  server", TEXT_COLUMN, &text)?;
            let (before, after) = (mib(server.memory_before_bytes), mib(server.memory_after_bytes));
            let text = format!("memory {before:.1} MiB before, {after:.1} after");
            push_wrapped(f, "", TEXT_COLUMN, &text)?;
            if let Some(bytes) = server.bytes_per_job {
                push_wrapped(f, "", TEXT_COLUMN, &format!("{bytes:.0} bytes of memory a job"))?;
            }
            if let Some(bytes) = server.bytes_per_connection {
                push_wrapped(
                    f,
                    "",
                    TEXT_COLUMN,
                    &format!("{bytes:.0} bytes of memory a connection"),
                )?;
            }
        }
        if let Some(cpu) = &self.generator {
            let (us, share) = (cpu.microseconds_per_request, 100.0 * cpu.share);
            let text = format!("{us:.2} us CPU a request, {share:.0} % of a CPU");
            push_wrapped(f, "  generator", TEXT_COLUMN, &text)?;
        }
        if let Some(busy) = self.machine_busy {
            let cpus = count(self.machine.cpus as u64, "CPU");
            push_wrapped(
                f,
                "  machine",
                TEXT_COLUMN,
                &format!("{:.0} % busy, {cpus}", 100.0 * busy),
            )?;
        }
        let checked = format!(
            "{} jobs put, {} delivered, {} deleted, each once and unchanged",
            grouped(self.jobs.put),
            grouped(self.jobs.delivered),
            grouped(self.jobs.deleted)
        );
        push_wrapped(f, "  checked", TEXT_COLUMN, &checked)?;
        self.notes.iter().try_for_each(|note| push_wrapped(f, "  note", TEXT_COLUMN, note))
    }
}

impl Report {
    fn fmt_latency(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\n  {:<9} {:>10}", "us", "count")?;
        for head in ["mean", "p50", "p90", "p99", "p99.9", "p99.99", "max"] {
            write!(f, " {head:>7}")?;
        }
        writeln!(f)?;
        let latency = &self.latency_us;
        let lines = [
            ("put", latency.put),
            ("get", latency.get),
            ("delete", latency.delete),
            ("all", latency.all),
            ("delivery", latency.delivery),
            ("late send", latency.lateness),
        ];
        for (name, summary) in lines {
            let Some(line) = summary else { continue };
            write!(f, "  {name:<9} {:>10}", format_count(line.count))?;
            for micros in
                [line.mean, line.p50, line.p90, line.p99, line.p99_9, line.p99_99, line.max]
            {
                write!(f, " {:>7}", format_micros(micros))?;
            }
            writeln!(f)?;
        }
        writeln!(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(1_000), "1,000");
        assert_eq!(grouped(1_234_567), "1,234,567");
        assert_eq!(rounded(1999.6), "2,000");
        assert_eq!(rounded(f64::NAN), "0");
        assert_eq!(count(1, "queue"), "1 queue");
        assert_eq!(count(0, "queue"), "0 queues");
    }

    #[test]
    fn times_and_counts_fit_their_columns() {
        for (micros, text) in [
            (0.04, "0.0"),
            (12.34, "12.3"),
            (9_999.94, "9999.9"),
            (9_999.96, "10000"),
            (9_999_999.0, "9999999"),
            (1e7, "10.0 s"),
            (3.6e9, "3600.0 s"),
        ] {
            assert_eq!(format_micros(micros), text);
        }
        assert_eq!(format_count(99_999_999), "99,999,999");
        assert_eq!(format_count(123_456_789), "123456789");
    }

    struct Wrapped(&'static str);

    impl fmt::Display for Wrapped {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            push_wrapped(f, "  note", TEXT_COLUMN, self.0)
        }
    }

    #[test]
    fn a_long_note_is_wrapped_under_itself() {
        let text = "the rate was too high: 12345 requests were not even sent, so the real \
                    latencies are worse than these";
        assert_eq!(
            Wrapped(text).to_string(),
            "  note       the rate was too high: 12345 requests were not even sent, so the\n\
             \u{20}            real latencies are worse than these\n"
        );
    }
}
