//! What the verbs print: rows of columns. On a terminal they are aligned below a header; otherwise
//! they are separated by tabs, one row a line, without a header. `-o` says it otherwise.
//!
//! Data goes to stdout, everything else to stderr. A closed stdout ends the output without an
//! error.

use super::failure::{Failure, Outcome};
use super::payload::payload_bytes;
use super::record::Record;
use super::style::{Colours, Style};
use super::table::{Align, Cell, Table};
use crate::base::names::unknown;
use crate::cli::escape::push_escaped;
use clap::{Args, ValueEnum};
use std::io::{self, BufWriter, ErrorKind, IsTerminal as _, Stdout, Write as _};

/// How rows are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// Aligned columns.
    Table,
    /// Columns separated by tabs.
    Tsv,
    /// One array.
    Json,
    /// One object a line.
    Jsonl,
    /// Columns separated by commas (RFC 4180), with a header.
    Csv,
    /// Payloads as they are, each followed by a line end.
    Raw,
}

/// Flags of the output.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Output")]
pub(super) struct OutputArgs {
    /// How to print [default: table on a terminal, or else tsv].
    #[arg(long, short, value_enum, value_name = "FORMAT")]
    output: Option<Format>,

    /// The columns to print, with commas between them: fields of the API, such as
    /// id,lease.worker. An unknown one is answered with those that there are.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    columns: Vec<String>,

    /// Print the names of the columns [default: on a terminal, and with csv].
    #[arg(long, conflicts_with = "no_header")]
    header: bool,

    /// Do not print the names of the columns.
    #[arg(long)]
    no_header: bool,

    /// Whether to use colours. The variable NO_COLOR switches them off as well.
    #[expect(clippy::doc_markdown, reason = "this is what --help prints")]
    #[arg(long, value_enum, value_name = "WHEN", default_value_t)]
    color: Colours,
}

/// What a value means, which is how people read it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    Text,
    /// A moment, which is not cut.
    Moment,
    Number,
    /// A number that people copy, so it has no separators.
    Exact,
    /// Milliseconds.
    Time,
    /// A number with a fraction, a second.
    Rate,
    /// The state of a job.
    State,
    /// True or false.
    Flag,
    /// JSON, as it is.
    Json,
}

/// A column.
#[derive(Clone, Copy, Debug)]
pub(super) struct Column {
    pub(super) name: &'static str,
    /// The field of the API.
    pub(super) path: &'static str,
    pub(super) meaning: Meaning,
}

/// A column of this name, field and meaning.
pub(super) const fn column(name: &'static str, path: &'static str, meaning: Meaning) -> Column {
    Column { name, path, meaning }
}

/// Prints rows as they come.
pub(super) struct Printer {
    out: BufWriter<Stdout>,
    format: Format,
    columns: Vec<(String, String, Meaning)>,
    table: Table,
    rows: u64,
    /// Adds to a row what people read.
    more: Option<fn(&mut Record)>,
    /// Stdout is closed.
    closed: bool,
}

impl OutputArgs {
    /// Fails if a column is asked for that is neither one of these nor one of these fields: see
    /// `fields`. For the beginning of a verb, before anything is sent.
    pub(super) fn check(&self, columns: &[Column], fields: &[&str]) -> Outcome {
        if !self.columns.is_empty() && self.is_json() {
            let why = "--columns is for tables, tsv and raw: -o json and jsonl print all members";
            return Err(Failure::usage(why));
        }
        let paths = columns.iter().map(|it| it.path).chain(fields.iter().copied());
        let names = columns.iter().map(|it| it.name);
        let mut known: Vec<&str> = Vec::new();
        for name in paths.chain(names) {
            if !known.contains(&name) {
                known.push(name);
            }
        }
        let is_known = |asked: &String| {
            known.iter().any(|name| match name.strip_suffix('*') {
                Some(object) => asked.strip_prefix(object).is_some_and(|rest| !rest.is_empty()),
                None => name == asked,
            })
        };
        let Some(wrong) = self.columns.iter().find(|asked| !is_known(asked)) else { return Ok(()) };
        let why = unknown(wrong, &known);
        Err(Failure::usage(format!("--columns: '{}' {why}", wrong.escape_debug())))
    }

    /// A printer of rows with these columns, unless others are asked for.
    pub(super) fn printer(&self, columns: &[Column]) -> Printer {
        let is_terminal = io::stdout().is_terminal();
        let format = self.output.unwrap_or(if is_terminal { Format::Table } else { Format::Tsv });
        let known = |path: &String| {
            let column = columns.iter().find(|it| it.path == path || it.name == path);
            let path = column.map_or(&**path, |it| it.path);
            (path.to_owned(), path.to_owned(), column.map_or(Meaning::Text, |it| it.meaning))
        };
        let own = |it: &Column| {
            let name = if format == Format::Table { it.name } else { it.path };
            (name.to_owned(), it.path.to_owned(), it.meaning)
        };
        let columns: Vec<_> = match &*self.columns {
            [] => columns.iter().map(own).collect(),
            named => named.iter().map(known).collect(),
        };
        let by_default = format == Format::Csv || (format == Format::Table && is_terminal);
        let has_header = self.header || (by_default && !self.no_header);
        let names = || columns.iter().map(|(name, ..)| name.clone()).collect::<Vec<_>>();
        let header = has_header.then(names);
        let style = Style::new(self.color.are_used(is_terminal));
        let table = Table::new(header.clone(), super::terminal_size().0, style);
        let out = BufWriter::new(io::stdout());
        let mut printer =
            Printer { out, format, columns, table, rows: 0, more: None, closed: false };
        if let (Format::Tsv | Format::Csv, Some(names)) = (format, header) {
            printer.write_fields(&names);
        }
        if format == Format::Json {
            printer.write(b"[");
        }
        printer
    }

    /// Whether rows are printed for people.
    pub(super) fn is_for_people(&self) -> bool {
        let is_terminal = io::stdout().is_terminal();
        self.output.map_or(is_terminal, |format| format == Format::Table)
    }

    /// Whether whole objects are printed.
    pub(super) fn is_json(&self) -> bool {
        matches!(self.output, Some(Format::Json | Format::Jsonl))
    }

    /// Whether it was said how to print.
    pub(super) fn is_said(&self) -> bool {
        self.output.is_some() || !self.columns.is_empty()
    }
}

impl Printer {
    fn write(&mut self, bytes: &[u8]) {
        if !self.closed && self.out.write_all(bytes).is_err() {
            self.closed = true;
        }
    }

    /// Adds members to each row, but not to whole objects.
    pub(super) fn with(mut self, more: fn(&mut Record)) -> Self {
        self.more = Some(more).filter(|_| !matches!(self.format, Format::Json | Format::Jsonl));
        self
    }

    /// Prints a row.
    pub(super) fn row(&mut self, record: &Record) {
        let longer = self.more.map(|more| {
            let mut longer = record.clone();
            more(&mut longer);
            longer
        });
        let record = longer.as_ref().unwrap_or(record);
        self.rows += 1;
        match self.format {
            Format::Json => {
                let gap = if self.rows > 1 { ",\n " } else { "" };
                self.write(format!("{gap}{}", record.json()).as_bytes());
            }
            Format::Jsonl => self.write(format!("{}\n", record.json()).as_bytes()),
            Format::Raw => {
                let mut bytes = payload_bytes(record);
                bytes.push(b'\n');
                self.write(&bytes);
            }
            Format::Tsv | Format::Csv => {
                let fields: Vec<String> = self
                    .columns
                    .iter()
                    .map(|(_, path, meaning)| plain(record, path, *meaning))
                    .collect();
                self.write_fields(&fields);
            }
            Format::Table => {
                let cells = self.columns.iter().map(|(_, path, meaning)| {
                    let text = shown(record, path, *meaning);
                    let align = match meaning {
                        Meaning::Number | Meaning::Exact | Meaning::Time | Meaning::Rate => {
                            Align::Right
                        }
                        Meaning::Text
                        | Meaning::Moment
                        | Meaning::State
                        | Meaning::Flag
                        | Meaning::Json => Align::Left,
                    };
                    let is_whole = *meaning == Meaning::Moment;
                    Cell { text, align, is_whole, is_state: *meaning == Meaning::State }
                });
                let cells = cells.collect();
                let text = self.table.push(cells);
                self.write(text.as_bytes());
            }
        }
    }

    fn write_fields(&mut self, fields: &[String]) {
        let line = match self.format {
            Format::Csv => fields.iter().map(|it| csv_field(it)).collect::<Vec<_>>().join(","),
            _ => fields.iter().map(|it| tsv_field(it)).collect::<Vec<_>>().join("\t"),
        };
        self.write(format!("{line}\n").as_bytes());
    }

    /// Whether stdout is closed: nothing is printed any more.
    pub(super) fn is_closed(&self) -> bool {
        self.closed
    }

    /// Hands everything so far to the system. Returns whether that was possible.
    pub(super) fn flush(&mut self) -> Outcome {
        let text = self.table.flush();
        self.write(text.as_bytes());
        match self.out.flush() {
            Ok(()) if !self.closed => Ok(()),
            Err(error) if error.kind() != ErrorKind::BrokenPipe => {
                Err(Failure::failed(format!("cannot write to stdout: {error}")))
            }
            _ => {
                self.closed = true;
                Ok(())
            }
        }
    }

    /// Ends the output.
    pub(super) fn finish(mut self) -> Outcome {
        self.end()
    }

    /// The same.
    pub(super) fn end(&mut self) -> Outcome {
        if self.format == Format::Json {
            self.write(b"]\n");
        }
        self.flush()
    }
}

/// A value for programs: strings unquoted, nothing for `null`.
fn plain(record: &Record, path: &str, meaning: Meaning) -> String {
    match record.at(path) {
        None => String::new(),
        Some(text) if meaning == Meaning::Json => super::payload::json_or_bytes(record, path, text),
        Some(text) if text == "null" => String::new(),
        Some(text) if text.starts_with('"') => serde_json::from_str(&text).unwrap_or(text),
        Some(text) => text,
    }
}

/// A value for people.
fn shown(record: &Record, path: &str, meaning: Meaning) -> String {
    let text = plain(record, path, meaning);
    match meaning {
        _ if text.is_empty() && meaning != Meaning::Json => "-".to_owned(),
        Meaning::Flag => if text == "true" { "yes" } else { "-" }.to_owned(),
        Meaning::Time => text.parse().map_or(text, super::units::time),
        Meaning::Rate => text.parse().map_or(text, super::units::rate),
        Meaning::Number if text.bytes().all(|byte| byte.is_ascii_digit()) => {
            super::units::grouped(&text)
        }
        _ => {
            let mut out = String::new();
            push_escaped(&text, &mut out);
            out
        }
    }
}

/// A value between tabs: tabs, line ends and backslashes are escaped.
fn tsv_field(text: &str) -> String {
    if !text.contains(['\t', '\n', '\r', '\\']) {
        return text.to_owned();
    }
    let mut out = String::with_capacity(text.len() + 8);
    for character in text.chars() {
        match character {
            '\t' => out.push_str("\\t"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\\' => out.push_str("\\\\"),
            other => out.push(other),
        }
    }
    out
}

/// A value between commas: quoted where that is needed.
fn csv_field(text: &str) -> String {
    if text.contains(['"', ',', '\n', '\r']) {
        return format!("\"{}\"", text.replace('"', "\"\""));
    }
    text.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_escaped_for_their_format() {
        assert_eq!(tsv_field("a\tb\nc\\d"), "a\\tb\\nc\\\\d");
        assert_eq!(csv_field("a,\"b\""), "\"a,\"\"b\"\"\"");
        assert_eq!((tsv_field("a b"), csv_field("a b")), ("a b".into(), "a b".into()));
    }

    #[test]
    fn values_are_shown_by_their_meaning() {
        let json = r#"{"a":"x\u001by","b":null,"c":1234567,"d":61000,"e":{"f":0.016}}"#;
        let record = Record::parse(json.as_bytes()).unwrap();
        let all =
            |path: &str, meaning| (plain(&record, path, meaning), shown(&record, path, meaning));
        assert_eq!(all("a", Meaning::Text), ("x\u{1b}y".into(), "x\\u{1b}y".into()));
        assert_eq!(all("b", Meaning::Text), (String::new(), "-".into()));
        assert_eq!(all("c", Meaning::Number), ("1234567".into(), "1,234,567".into()));
        assert_eq!(all("c", Meaning::Exact), ("1234567".into(), "1234567".into()));
        assert_eq!(all("d", Meaning::Time), ("61000".into(), "1m1s".into()));
        assert_eq!(all("e.f", Meaning::Rate), ("0.016".into(), "0.02".into()));
    }
}
