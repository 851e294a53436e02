//! What stderr is, as far as looks depend on it: a terminal, its width, and whether colours and
//! moving lines are wanted there.

use rustix::termios::tcgetwinsize;
use std::ffi::OsStr;
use std::io::{IsTerminal, stderr};

/// The width of a terminal that does not tell it.
const USUAL_COLUMNS: usize = 80;

/// Stderr is a terminal.
pub(super) fn is_terminal() -> bool {
    stderr().is_terminal()
}

/// Colours may be used on stderr: a terminal that knows them, and a user who has not set `NO_COLOR`
/// (<https://no-color.org>: to anything but nothing).
pub(super) fn has_colours() -> bool {
    let refused = std::env::var_os("NO_COLOR").is_some_and(|text| !text.is_empty());
    is_terminal() && !refused && !is_dumb()
}

/// A line on stderr can be written anew: a terminal that can move its cursor.
pub(super) fn can_rewrite() -> bool {
    is_terminal() && !is_dumb()
}

fn is_dumb() -> bool {
    std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == OsStr::new("dumb"))
}

/// How many characters fit into a line on stderr.
pub(super) fn columns() -> usize {
    let told = tcgetwinsize(stderr()).map_or(0, |size| usize::from(size.ws_col));
    if told == 0 { USUAL_COLUMNS } else { told }
}
