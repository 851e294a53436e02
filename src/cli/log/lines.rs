//! How an event becomes one line.
//!
//! Everything that an event says may come from others: what a command printed, the name of a queue,
//! an answer of another server. So each value is cut to a length, and no character gets into a line
//! that could end it, control a terminal or turn the direction of writing.

use super::Format;
use crate::cli::shown::{Cut, is_plain, push_escaped, push_quoted};
use serde_json::{Number, Value};
use std::fmt::{self, Debug, Write as _};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{self, FormatTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

/// So much is shown of a message, and of the value of each field.
const MESSAGE_MAX: usize = 4_000;
const VALUE_MAX: usize = 1_000;

/// Where seconds and milliseconds end in `2026-11-22T13:32:00.123456Z`, and where hours begin.
const MILLIS: usize = 23;
const HOURS: usize = 11;

/// Writes events as lines.
pub(super) struct Lines {
    pub(super) format: Format,
    /// Lines for people: levels in colours, and the day left out.
    pub(super) colours: bool,
    pub(super) terminal: bool,
}

impl<S, N> FormatEvent<S, N> for Lines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        _: &FmtContext<'_, S, N>,
        mut to: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let (mut said, mut moment) = (Said::default(), String::new());
        event.record(&mut said);
        time::time().format_time(&mut Writer::new(&mut moment))?;
        let line = self.line(*event.metadata().level(), &moment, &said);
        writeln!(to, "{line}")
    }
}

/// What an event says. Values are cut, and not yet escaped.
#[derive(Default)]
struct Said {
    message: String,
    fields: Vec<(&'static str, Value)>,
}

impl Said {
    fn add(&mut self, field: &Field, value: Value) {
        self.fields.push((field.name(), value));
    }
}

impl Visit for Said {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let is_message = field.name() == "message";
        let mut cut = Cut::new(if is_message { MESSAGE_MAX } else { VALUE_MAX });
        // It takes everything.
        let _ = write!(cut, "{value:?}");
        if is_message {
            self.message = cut.finish();
        } else {
            self.add(field, Value::String(cut.finish()));
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.add(field, value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.add(field, value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.add(field, value.into());
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.add(field, Number::from_f64(value).map_or(Value::Null, Value::Number));
    }
}

impl Lines {
    fn line(&self, level: Level, moment: &str, said: &Said) -> String {
        match self.format {
            Format::Human => {
                let day = if self.terminal { HOURS } else { 0 };
                let zone = if self.terminal { "" } else { "Z" };
                let moment = moment.get(day..MILLIS).unwrap_or(moment);
                let (on, off) = self.colour(level);
                let mut line = format!("{moment}{zone} {on}{level:>5}{off} ");
                push_text(said, &mut line);
                line
            }
            Format::Json => {
                let mut line = format!(r#"{{"timestamp":"{moment}","level":"{level}""#);
                push_member("message", &Value::from(&*said.message), &mut line);
                for (name, value) in &said.fields {
                    push_member(name, value, &mut line);
                }
                line.push('}');
                line
            }
            // What belongs to a line besides its message stands behind that.
            Format::Processor => {
                let mut line = format!(r#"{{"log_level":"{level}","created_at":"{moment}""#);
                let mut text = String::new();
                push_text(said, &mut text);
                push_member("log_message", &Value::String(text), &mut line);
                line.push('}');
                line
            }
        }
    }

    fn colour(&self, level: Level) -> (&'static str, &'static str) {
        if !self.colours {
            return ("", "");
        }
        let on = match level {
            Level::ERROR => "\x1b[31m",
            Level::WARN => "\x1b[33m",
            Level::INFO => "\x1b[32m",
            _ => "\x1b[34m",
        };
        (on, "\x1b[0m")
    }
}

/// The message, and behind it `name=value` for each field.
fn push_text(said: &Said, line: &mut String) {
    push_escaped(&said.message, line);
    for (name, value) in &said.fields {
        // A string takes everything.
        let _ = write!(line, " {name}=");
        match value {
            Value::String(text) if is_word(text) => line.push_str(text),
            Value::String(text) => push_quoted(text, line),
            value => {
                let _ = write!(line, "{value}");
            }
        }
    }
}

/// Whether a value is told apart from what stands behind it without quotation marks.
fn is_word(text: &str) -> bool {
    let wants_marks = |c: char| !is_plain(c) || c.is_whitespace() || matches!(c, '"' | '\\' | '=');
    !text.is_empty() && !text.contains(wants_marks)
}

fn push_member(name: &str, value: &Value, line: &mut String) {
    let _ = write!(line, ",\"{name}\":");
    for character in value.to_string().chars() {
        if is_plain(character) {
            line.push(character);
        } else {
            for unit in character.encode_utf16(&mut [0; 2]) {
                let _ = write!(line, "\\u{unit:04x}");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(message: &str) -> Said {
        let fields = vec![
            ("word", Value::from("127.0.0.1:1")),
            ("text", Value::from("a=1 b\n\u{202e}\x1b[2J")),
            ("none", Value::from("")),
            ("count", Value::from(7)),
        ];
        Said { message: message.to_owned(), fields }
    }

    const MOMENT: &str = "2026-11-22T13:32:00.123456Z";

    fn line(format: Format, terminal: bool, message: &str) -> String {
        let lines = Lines { format, colours: terminal, terminal };
        lines.line(Level::WARN, MOMENT, &said(message))
    }

    #[test]
    fn an_event_is_one_line_whatever_is_in_it() {
        assert_eq!(
            line(Format::Human, false, "it \"fails\"\nforged"),
            "2026-11-22T13:32:00.123Z  WARN it \"fails\"\\nforged word=127.0.0.1:1 \
             text=\"a=1 b\\n\\u{202e}\\u{1b}[2J\" none=\"\" count=7"
        );
        assert!(line(Format::Human, true, "m").starts_with("13:32:00.123 \x1b[33m WARN\x1b[0m m "));
        let json = line(Format::Json, false, "it \"fails\"\nforged\u{9b}");
        assert_eq!(
            json,
            "{\"timestamp\":\"2026-11-22T13:32:00.123456Z\",\"level\":\"WARN\",\
             \"message\":\"it \\\"fails\\\"\\nforged\\u009b\",\"word\":\"127.0.0.1:1\",\
             \"text\":\"a=1 b\\n\\u202e\\u001b[2J\",\"none\":\"\",\"count\":7}"
        );
        let value: Value = serde_json::from_str(&json).unwrap();
        assert_eq!(value["text"], "a=1 b\n\u{202e}\x1b[2J");
        let json = line(Format::Processor, false, "m\n");
        let value: Value = serde_json::from_str(&json).unwrap();
        assert_eq!(value["log_level"], "WARN");
        assert!(value["log_message"].as_str().unwrap().starts_with(r"m\n word=127.0.0.1:1 text="));
    }
}
