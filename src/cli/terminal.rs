//! Properties of the terminal: whether stderr is one, its width, and whether colours and redrawn
//! lines can be used.

use rustix::termios::tcgetwinsize;
use std::ffi::OsStr;
use std::io::{IsTerminal, stderr};

/// The width of a terminal that does not report it.
const DEFAULT_COLUMNS: usize = 80;

/// Whether stderr is a terminal.
pub(super) fn is_terminal() -> bool {
    stderr().is_terminal()
}

/// Whether colours may be used on stderr.
pub(super) fn has_colours() -> bool {
    is_terminal() && may_be_coloured()
}

/// Whether colours may be used on what is a terminal: it supports them, and `NO_COLOR` is unset or
/// empty (<https://no-color.org>).
pub(super) fn may_be_coloured() -> bool {
    let no_colour = std::env::var_os("NO_COLOR").is_some_and(|text| !text.is_empty());
    !no_colour && !is_dumb()
}

/// Whether a line on stderr can be redrawn: the terminal can move its cursor.
pub(super) fn can_rewrite() -> bool {
    is_terminal() && !is_dumb()
}

fn is_dumb() -> bool {
    std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == OsStr::new("dumb"))
}

/// Characters in a line on stderr.
pub(super) fn columns() -> usize {
    let reported = tcgetwinsize(stderr()).map_or(0, |size| usize::from(size.ws_col));
    if reported == 0 { DEFAULT_COLUMNS } else { reported }
}
