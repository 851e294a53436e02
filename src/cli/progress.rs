//! A line on the terminal while the user waits. Hand-written: one line needs no crate.

use super::terminal;
use std::fmt::Display;
use std::io::{Write, stderr};

/// Rewrites its line a few times a second; times are nanoseconds. Silent while there is nothing to
/// wait for yet, and where a line cannot be written anew; gone when it is dropped.
#[derive(Debug)]
pub(super) struct Progress {
    shown: bool,
    enabled: bool,
    next: Option<u64>,
}

/// So long nothing is shown.
const FIRST_NANOS: u64 = 500_000_000;
const EVERY_NANOS: u64 = 200_000_000;
const BAR: usize = 30;

impl Progress {
    pub(super) fn new() -> Self {
        Self { shown: false, enabled: terminal::can_rewrite(), next: None }
    }

    #[inline]
    pub(super) fn is_due(&mut self, now: u64) -> bool {
        self.enabled && now >= *self.next.get_or_insert_with(|| now.saturating_add(FIRST_NANOS))
    }

    /// Shows what is going on, how much of it is done, and a word about it.
    pub(super) fn show(&mut self, now: u64, name: &str, done: f64, word: impl Display) {
        self.next = Some(now + EVERY_NANOS);
        self.shown = true;
        let line = line(name, done, &word.to_string(), terminal::columns());
        // Nothing can be done about a closed stderr.
        let _ = write!(stderr(), "\r{line}\x1b[K");
    }

    /// Makes room for the result.
    pub(super) fn clear(&mut self) {
        if std::mem::take(&mut self.shown) {
            let _ = write!(stderr(), "\r\x1b[K");
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}

/// The line is shorter than the terminal is wide, so that it is one line there: the bar gives way,
/// then the word.
fn line(name: &str, done: f64, word: &str, columns: usize) -> String {
    let done = done.clamp(0.0, 1.0);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to 100")]
    let percent = (done * 100.0) as usize;
    let rest = format!(" {percent:>3} % {word}");
    let room = columns.saturating_sub(1);
    // Its brackets, and a blank before them.
    let bar = room.saturating_sub(name.chars().count() + rest.chars().count() + 3).min(BAR);
    let full = percent * bar / 100;
    let bar = if bar == 0 {
        String::new()
    } else {
        format!(" [{}{}]", "#".repeat(full), ".".repeat(bar - full))
    };
    format!("{name}{bar}{rest}").chars().take(room).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bar_fills_up() {
        assert!(line("x", 0.5, "7", 80).contains("[###############...............]  50 %"));
        assert!(line("x", 7.0, "7", 80).contains("100 %"));
        assert!(line("x", f64::NAN, "7", 80).contains("  0 %"));
    }

    #[test]
    fn the_line_is_shorter_than_the_terminal_is_wide() {
        let word = "1,234,567 records, 1,234 MiB";
        assert_eq!(
            line("recovery", 0.5, word, 50),
            "recovery [#..]  50 % 1,234,567 records, 1,234 MiB"
        );
        assert_eq!(line("recovery", 0.5, word, 30), "recovery  50 % 1,234,567 reco");
        for columns in 0..200 {
            assert!(line("recovery", 0.5, word, columns).len() < columns.max(1), "{columns}");
        }
    }

    #[test]
    fn nothing_is_shown_before_there_is_something_to_wait_for() {
        let mut progress = Progress { shown: false, enabled: true, next: None };
        assert!(!progress.is_due(7));
        assert!(!progress.is_due(FIRST_NANOS));
        assert!(progress.is_due(FIRST_NANOS + 7));
    }
}
