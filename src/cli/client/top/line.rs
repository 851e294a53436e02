//! A line of the screen: texts in colours, cut and filled to a width.

use crate::cli::client::style::{Ink, Style};
use crate::cli::client::table::{cut, width_of};
use crate::cli::escape::push_escaped;

/// A line that is being written.
#[derive(Debug)]
pub(super) struct Line {
    text: String,
    used: usize,
    columns: usize,
    style: Style,
    /// All of it is in this colour.
    ground: Option<Ink>,
}

impl Line {
    pub(super) fn new(columns: usize, style: Style) -> Self {
        Self { text: String::new(), used: 0, columns, style, ground: None }
    }

    /// A line on a ground of its own, to the edge of the screen.
    pub(super) fn on(ground: Ink, columns: usize, style: Style) -> Self {
        Self { ground: Some(ground), ..Self::new(columns, style) }
    }

    /// Columns that are left.
    pub(super) fn left(&self) -> usize {
        self.columns - self.used
    }

    /// Adds a text, or what there is room for.
    pub(super) fn push(&mut self, ink: Ink, text: &str) {
        let mut plain = String::new();
        push_escaped(text, &mut plain);
        if self.left() == 0 {
            return;
        }
        let shown = cut(&plain, self.left());
        self.used += width_of(&shown);
        let ink = self.ground.filter(|_| ink == Ink::Plain).unwrap_or(ink);
        self.text.push_str(&self.style.paint(ink, &shown));
    }

    /// Adds blanks up to a column.
    pub(super) fn pad_to(&mut self, column: usize) {
        let blanks = column.min(self.columns).saturating_sub(self.used);
        self.push(Ink::Plain, &" ".repeat(blanks));
    }

    /// Adds a text in a column of this width, at its left end.
    pub(super) fn push_left(&mut self, ink: Ink, text: &str, width: usize) {
        let end = self.used + width;
        let mut plain = String::new();
        push_escaped(text, &mut plain);
        self.push(ink, &cut(&plain, width));
        self.pad_to(end);
    }

    /// Adds a text in a column of this width, at its right end.
    pub(super) fn push_right(&mut self, ink: Ink, text: &str, width: usize) {
        let end = (self.used + width).saturating_sub(width_of(text));
        self.pad_to(end);
        self.push(ink, text);
    }

    /// The line, without blanks at its end unless it has a ground.
    pub(super) fn finish(mut self) -> String {
        if self.ground.is_some() {
            self.pad_to(self.columns);
            return self.text;
        }
        self.text.truncate(self.text.trim_end_matches(' ').len());
        self.text
    }
}
