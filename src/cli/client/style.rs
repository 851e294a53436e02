//! Colours of the terminal, as ANSI sequences (ECMA-48), or none.

use crate::cli::terminal;
use clap::ValueEnum;

/// Whether colours are used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum Colours {
    /// On a terminal.
    #[default]
    Auto,
    Always,
    Never,
}

impl Colours {
    /// Whether they are used on stdout.
    pub(super) fn are_used(self, is_terminal: bool) -> bool {
        match self {
            Self::Always => true,
            Self::Never => false,
            Self::Auto => is_terminal && terminal::may_be_coloured(),
        }
    }
}

/// A colour of the terminal's palette, or an emphasis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ink {
    Plain,
    Bold,
    Dim,
    Red,
    Green,
    Yellow,
    Blue,
    Cyan,
    /// Black on green, as the header of htop.
    Header,
    /// Black on cyan: the column by which rows are sorted.
    SortedHeader,
    /// Black on cyan: names of keys.
    Footer,
    /// The line that is chosen.
    Reverse,
}

impl Ink {
    /// The parameters of "select graphic rendition".
    fn code(self) -> &'static str {
        match self {
            Self::Plain => "0",
            Self::Bold => "1",
            Self::Dim => "2",
            Self::Red => "31",
            Self::Green => "32",
            Self::Yellow => "33",
            Self::Blue => "34",
            Self::Cyan => "36",
            Self::Header => "30;42",
            Self::SortedHeader | Self::Footer => "30;46",
            Self::Reverse => "7",
        }
    }
}

/// Puts colours around texts, or does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Style {
    is_coloured: bool,
}

impl Style {
    pub(super) const fn new(is_coloured: bool) -> Self {
        Self { is_coloured }
    }

    /// A text in a colour.
    pub(super) fn paint(self, ink: Ink, text: &str) -> String {
        if self.is_coloured && ink != Ink::Plain && !text.is_empty() {
            return format!("\u{1b}[{}m{text}\u{1b}[0m", ink.code());
        }
        text.to_owned()
    }

    pub(super) fn header(self, text: &str) -> String {
        self.paint(Ink::Bold, text)
    }

    /// The state of a job in its colour.
    pub(super) fn state(self, text: &str) -> String {
        self.paint(state_ink(text), text)
    }
}

/// The colour of a state.
pub(super) fn state_ink(state: &str) -> Ink {
    match state {
        "ready" => Ink::Green,
        "reserved" => Ink::Cyan,
        "scheduled" => Ink::Blue,
        "blocked" => Ink::Yellow,
        "buried" => Ink::Red,
        "completed" => Ink::Dim,
        _ => Ink::Plain,
    }
}
