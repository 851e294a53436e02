//! Aligned columns. The first rows are kept until their widths are known; later rows are written as
//! they come, with the same widths.

use super::style::Style;

/// Rows that decide the widths.
const MEASURED_ROWS: usize = 1_000;

/// Blanks between columns.
const GAP: usize = 2;

/// Columns of a text that is cut, at least.
const TEXT_MIN: usize = 8;

/// On which side of its column a text stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Align {
    Left,
    Right,
}

/// A value, as it is shown: one line without control characters.
#[derive(Clone, Debug)]
pub(super) struct Cell {
    pub(super) text: String,
    pub(super) align: Align,
    /// It is not cut.
    pub(super) is_whole: bool,
    /// It is the state of a job, which has a colour.
    pub(super) is_state: bool,
}

/// A table that is being written.
#[derive(Debug)]
pub(super) struct Table {
    header: Option<Vec<String>>,
    kept: Vec<Vec<Cell>>,
    widths: Vec<usize>,
    is_measured: bool,
    /// Columns of the terminal; 0: the last column is not cut.
    columns: usize,
    style: Style,
}

impl Table {
    pub(super) fn new(header: Option<Vec<String>>, columns: usize, style: Style) -> Self {
        let header = header.map(|names| names.iter().map(|it| it.to_uppercase()).collect());
        let (kept, widths) = (Vec::new(), Vec::new());
        Self { header, kept, widths, is_measured: false, columns, style }
    }

    /// Adds a row, and returns what can be written.
    pub(super) fn push(&mut self, row: Vec<Cell>) -> String {
        if self.is_measured {
            return self.line(&row);
        }
        self.kept.push(row);
        if self.kept.len() < MEASURED_ROWS { String::new() } else { self.flush() }
    }

    /// Returns all that was kept.
    pub(super) fn flush(&mut self) -> String {
        if self.is_measured {
            return String::new();
        }
        self.is_measured = true;
        let kept = std::mem::take(&mut self.kept);
        let header = self.header.take().filter(|_| !kept.is_empty()).map(|names| {
            let aligns = kept[0].iter().map(|cell| cell.align);
            let cell = |(text, align)| Cell { text, align, is_whole: false, is_state: false };
            names.into_iter().zip(aligns).map(cell).collect::<Vec<_>>()
        });
        for row in header.iter().chain(&kept) {
            self.widths.resize(self.widths.len().max(row.len()), 0);
            for (width, cell) in self.widths.iter_mut().zip(row) {
                *width = (*width).max(width_of(&cell.text));
            }
        }
        self.narrow(&kept);
        let head = header.map(|row| self.header_line(&row)).unwrap_or_default();
        kept.iter().fold(head, |text, row| text + &self.line(row))
    }

    /// Makes the widest columns of texts narrower if the rows are wider than the terminal.
    /// O(columns of the terminal and of the table).
    fn narrow(&mut self, rows: &[Vec<Cell>]) {
        let Some(first) = rows.first().filter(|_| self.columns > 0) else { return };
        let is_text = |place: usize| {
            let Cell { align, is_whole, is_state, .. } = &first[place];
            *align == Align::Left && !is_whole && !is_state
        };
        let texts: Vec<usize> = (0..first.len()).filter(|&place| is_text(place)).collect();
        for &place in &texts {
            self.widths[place] = self.widths[place].min(self.columns);
        }
        let used: usize = self.widths.iter().map(|width| width + GAP).sum();
        for _ in (self.columns + GAP)..used {
            let widest = texts.iter().copied().max_by_key(|&place| self.widths[place]);
            let Some(widest) = widest.filter(|&place| self.widths[place] > TEXT_MIN) else { break };
            self.widths[widest] -= 1;
        }
    }

    fn header_line(&self, row: &[Cell]) -> String {
        let line = self.plain_line(row, false);
        format!("{}\n", self.style.header(line.trim_end()))
    }

    fn line(&self, row: &[Cell]) -> String {
        self.plain_line(row, true).trim_end().to_owned() + "\n"
    }

    /// A line without its end.
    fn plain_line(&self, row: &[Cell], coloured: bool) -> String {
        let (mut line, mut used) = (String::new(), 0);
        for (place, cell) in row.iter().enumerate() {
            let is_last = place + 1 == row.len();
            let mut text = cell.text.clone();
            if is_last && self.columns > 0 && cell.align == Align::Left && !cell.is_whole {
                text = cut(&text, self.columns.saturating_sub(used).max(TEXT_MIN));
            }
            let width = self.widths.get(place).copied().unwrap_or(0);
            if !is_last && self.columns > 0 && cell.align == Align::Left {
                text = cut(&text, width);
            }
            let blanks = " ".repeat(width.saturating_sub(width_of(&text)));
            let is_right = cell.align == Align::Right;
            if is_right {
                line.push_str(&blanks);
            }
            if coloured && cell.is_state {
                line.push_str(&self.style.state(&text));
            } else {
                line.push_str(&text);
            }
            if !is_last {
                if !is_right {
                    line.push_str(&blanks);
                }
                line.push_str(&" ".repeat(GAP));
            }
            used += width + GAP;
        }
        line
    }
}

/// Columns that a text takes: characters, of which the wide ones of East Asia take two.
pub(super) fn width_of(text: &str) -> usize {
    text.chars().map(character_width).sum()
}

/// Wide characters take two columns, combining ones none. A coarse version of Unicode's table
/// (UAX #11): its large blocks.
fn character_width(character: char) -> usize {
    match u32::from(character) {
        0x300..=0x36f => 0,
        0x1100..=0x115f
        | 0x2e80..=0xa4cf
        | 0xac00..=0xd7a3
        | 0xf900..=0xfaff
        | 0xfe30..=0xfe6f
        | 0xff00..=0xff60
        | 0xffe0..=0xffe6
        | 0x1f300..=0x1f64f
        | 0x1f680..=0x1f6ff
        | 0x1f900..=0x1f9ff
        | 0x20000..=0x3fffd => 2,
        _ => 1,
    }
}

/// A text cut to a width, with a mark that something is missing.
pub(super) fn cut(text: &str, columns: usize) -> String {
    if width_of(text) <= columns {
        return text.to_owned();
    }
    let (mut out, mut used) = (String::new(), 0);
    for character in text.chars() {
        used += character_width(character);
        if used >= columns {
            break;
        }
        out.push(character);
    }
    out.push('…');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(text: &str, align: Align) -> Cell {
        Cell { text: text.to_owned(), align, is_whole: false, is_state: false }
    }

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    #[test]
    fn columns_are_aligned_and_the_last_is_cut() {
        let mut table = Table::new(Some(names(&["id", "name", "payload"])), 24, Style::new(false));
        let row = |id: &str, name: &str, payload: &str| {
            vec![cell(id, Align::Right), cell(name, Align::Left), cell(payload, Align::Left)]
        };
        assert_eq!(table.push(row("7", "日本", "{}")), "");
        assert_eq!(table.push(row("1234", "a", "a long text that is cut")), "");
        let expected = "  ID  NAME  PAYLOAD\n   7  日本  {}\n1234  a     a long text…\n";
        assert_eq!(table.flush(), expected);
        assert_eq!(table.push(row("12345", "a", "b")), "12345  a     b\n");
        let mut empty = Table::new(Some(names(&["id"])), 24, Style::new(false));
        assert_eq!(empty.flush(), "");
    }

    #[test]
    fn widest_texts_are_cut_until_the_last_one_fits() {
        let mut table = Table::new(None, 40, Style::new(false));
        let row = vec![
            cell(&"n".repeat(300), Align::Left),
            cell("1000", Align::Right),
            cell(&"q".repeat(20), Align::Left),
            Cell { is_whole: true, ..cell("2026-11-28", Align::Left) },
        ];
        assert_eq!(table.push(row), "");
        assert_eq!(table.flush(), "nnnnnnnnn…  1000  qqqqqqqqq…  2026-11-28\n");
    }
}
