//! A line on the terminal while the user waits. Hand-written: one line needs no crate.

use std::fmt::Display;
use std::io::{IsTerminal, Write, stderr};

/// Rewrites its line a few times a second; times are nanoseconds. Silent if stderr is no terminal.
#[derive(Debug)]
pub(super) struct Progress {
    shown: bool,
    enabled: bool,
    next: u64,
}

const EVERY_NANOS: u64 = 200_000_000;
const BAR: usize = 30;

impl Progress {
    pub(super) fn new() -> Self {
        Self { shown: false, enabled: stderr().is_terminal(), next: 0 }
    }

    #[inline]
    pub(super) fn is_due(&self, now: u64) -> bool {
        self.enabled && now >= self.next
    }

    /// Shows what is going on, how much of it is done, and a word about it.
    pub(super) fn show(&mut self, now: u64, name: &str, done: f64, word: impl Display) {
        self.next = now + EVERY_NANOS;
        self.shown = true;
        // Nothing can be done about a closed stderr.
        let _ = write!(stderr(), "\r{}\x1b[K", line(name, done, word));
    }

    /// Makes room for the result.
    pub(super) fn clear(&mut self) {
        if std::mem::take(&mut self.shown) {
            let _ = write!(stderr(), "\r\x1b[K");
        }
    }
}

fn line(name: &str, done: f64, word: impl Display) -> String {
    let done = done.clamp(0.0, 1.0);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to 100")]
    let percent = (done * 100.0) as usize;
    let full = percent * BAR / 100;
    format!("{name:<10} [{}{}] {percent:>3} % {word}", "#".repeat(full), ".".repeat(BAR - full))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bar_fills_up() {
        assert!(line("measuring", 0.5, 7).contains("[###############...............]  50 %"));
        assert!(line("x", 7.0, 7).contains("100 %"));
        assert!(line("x", f64::NAN, 7).contains("  0 %"));
    }
}
