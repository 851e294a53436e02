//! A progress line on the terminal. Written by hand: one line needs no crate.

use super::terminal;
use std::fmt::Display;
use std::io::{Write, stderr};

/// A line with a bar that is redrawn at an interval. Nothing is printed before a delay has passed,
/// and nothing where stderr is not a terminal that can redraw a line; the line is cleared on drop.
#[derive(Debug)]
pub(super) struct ProgressLine {
    is_shown: bool,
    is_enabled: bool,
    next_draw_ns: Option<u64>,
}

/// How long nothing is printed: short operations need no progress line.
const FIRST_SHOWN_NS: u64 = 500_000_000;
const REDRAW_INTERVAL_NS: u64 = 200_000_000;
const BAR_COLUMNS_MAX: usize = 30;

impl ProgressLine {
    pub(super) fn new() -> Self {
        Self { is_shown: false, is_enabled: terminal::can_rewrite(), next_draw_ns: None }
    }

    #[inline]
    pub(super) fn is_due(&mut self, now_ns: u64) -> bool {
        self.is_enabled
            && now_ns
                >= *self.next_draw_ns.get_or_insert_with(|| now_ns.saturating_add(FIRST_SHOWN_NS))
    }

    /// Draws the line: a name, the fraction done, and details.
    pub(super) fn show(&mut self, now_ns: u64, name: &str, done: f64, details: impl Display) {
        self.next_draw_ns = Some(now_ns + REDRAW_INTERVAL_NS);
        self.is_shown = true;
        let line = format_line(name, done, &details.to_string(), terminal::columns());
        // A closed stderr is ignored.
        let _ = write!(stderr(), "\r{line}\x1b[K");
    }

    /// Clears the line.
    pub(super) fn clear(&mut self) {
        if std::mem::take(&mut self.is_shown) {
            let _ = write!(stderr(), "\r\x1b[K");
        }
    }
}

impl Drop for ProgressLine {
    fn drop(&mut self) {
        self.clear();
    }
}

/// The line, shorter than the terminal, so that it does not wrap: the bar is shortened first, then
/// the details.
fn format_line(name: &str, done: f64, details: &str, columns: usize) -> String {
    let done = done.clamp(0.0, 1.0);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to 100")]
    let percent = (done * 100.0) as usize;
    let rest = format!(" {percent:>3} % {details}");
    let width = columns.saturating_sub(1);
    // The bar has two brackets and a space before them.
    let bar =
        width.saturating_sub(name.chars().count() + rest.chars().count() + 3).min(BAR_COLUMNS_MAX);
    let full = percent * bar / 100;
    let bar = if bar == 0 {
        String::new()
    } else {
        format!(" [{}{}]", "#".repeat(full), ".".repeat(bar - full))
    };
    format!("{name}{bar}{rest}").chars().take(width).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bar_shows_the_fraction_done() {
        assert!(format_line("x", 0.5, "7", 80).contains("[###############...............]  50 %"));
        assert!(format_line("x", 7.0, "7", 80).contains("100 %"));
        assert!(format_line("x", f64::NAN, "7", 80).contains("  0 %"));
    }

    #[test]
    fn the_line_is_shorter_than_the_terminal_is_wide() {
        let details = "1,234,567 records, 1,234 MiB";
        assert_eq!(
            format_line("recovery", 0.5, details, 50),
            "recovery [#..]  50 % 1,234,567 records, 1,234 MiB"
        );
        assert_eq!(format_line("recovery", 0.5, details, 30), "recovery  50 % 1,234,567 reco");
        for columns in 0..200 {
            assert!(
                format_line("recovery", 0.5, details, columns).len() < columns.max(1),
                "{columns}"
            );
        }
    }

    #[test]
    fn progress_line_appears_after_its_delay() {
        let mut progress = ProgressLine { is_shown: false, is_enabled: true, next_draw_ns: None };
        assert!(!progress.is_due(7));
        assert!(!progress.is_due(FIRST_SHOWN_NS));
        assert!(progress.is_due(FIRST_SHOWN_NS + 7));
    }
}
