//! Formats an event as one line.
//!
//! The values of an event may be foreign: the output of a command, the name of a queue, a response
//! of another server. So each value is truncated, and characters that end a line, control a
//! terminal or change the direction of writing are escaped.

use super::Format;
use crate::cli::escape::{TruncatedText, is_printable, push_escaped, push_quoted};
use serde_json::{Number, Value};
use std::fmt::{self, Debug, Write as _};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{self, FormatTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

/// Longer messages, and longer values of a field, are truncated.
const MESSAGE_MAX_BYTES: usize = 4_000;
const VALUE_MAX_BYTES: usize = 1_000;

/// Offsets in `2026-11-22T13:32:00.123456Z`: the end of the milliseconds, and the start of the
/// hours.
const MILLIS_END: usize = 23;
const HOURS_START: usize = 11;

/// Formats events as lines.
pub(super) struct LineFormat {
    pub(super) format: Format,
    /// Levels in colours (`Format::Human`).
    pub(super) colours: bool,
    /// The day is left out (`Format::Human`).
    pub(super) terminal: bool,
}

impl<S, N> FormatEvent<S, N> for LineFormat
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
        let (mut fields, mut timestamp) = (EventFields::default(), String::new());
        event.record(&mut fields);
        time::time().format_time(&mut Writer::new(&mut timestamp))?;
        let line = self.line(*event.metadata().level(), &timestamp, &fields);
        writeln!(to, "{line}")
    }
}

/// Message and fields of an event: truncated, and not yet escaped.
#[derive(Default)]
struct EventFields {
    message: String,
    values: Vec<(&'static str, Value)>,
}

impl EventFields {
    fn add(&mut self, field: &Field, value: Value) {
        self.values.push((field.name(), value));
    }
}

impl Visit for EventFields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let is_message = field.name() == "message";
        let mut text =
            TruncatedText::new(if is_message { MESSAGE_MAX_BYTES } else { VALUE_MAX_BYTES });
        // Writing to a string does not fail.
        let _ = write!(text, "{value:?}");
        if is_message {
            self.message = text.finish();
        } else {
            self.add(field, Value::String(text.finish()));
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

impl LineFormat {
    fn line(&self, level: Level, timestamp: &str, fields: &EventFields) -> String {
        match self.format {
            Format::Human => {
                let day = if self.terminal { HOURS_START } else { 0 };
                let zone = if self.terminal { "" } else { "Z" };
                let timestamp = timestamp.get(day..MILLIS_END).unwrap_or(timestamp);
                let (on, off) = self.colour(level);
                let mut line = format!("{timestamp}{zone} {on}{level:>5}{off} ");
                push_text(fields, &mut line);
                line
            }
            Format::Json => {
                let mut line = format!(r#"{{"timestamp":"{timestamp}","level":"{level}""#);
                push_field("message", &Value::from(&*fields.message), &mut line);
                for (name, value) in &fields.values {
                    push_field(name, value, &mut line);
                }
                line.push('}');
                line
            }
            // The fields follow the message, in the same string.
            Format::Processor => {
                let mut line = format!(r#"{{"log_level":"{level}","created_at":"{timestamp}""#);
                let mut text = String::new();
                push_text(fields, &mut text);
                push_field("log_message", &Value::String(text), &mut line);
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

/// Appends the message, followed by `name=value` for each field.
fn push_text(fields: &EventFields, line: &mut String) {
    push_escaped(&fields.message, line);
    for (name, value) in &fields.values {
        // Writing to a string does not fail.
        let _ = write!(line, " {name}=");
        match value {
            Value::String(text) if needs_no_quotes(text) => line.push_str(text),
            Value::String(text) => push_quoted(text, line),
            value => {
                let _ = write!(line, "{value}");
            }
        }
    }
}

/// Whether the end of a value is unambiguous without quotation marks.
fn needs_no_quotes(text: &str) -> bool {
    let needs_quotes =
        |c: char| !is_printable(c) || c.is_whitespace() || matches!(c, '"' | '\\' | '=');
    !text.is_empty() && !text.contains(needs_quotes)
}

fn push_field(name: &str, value: &Value, line: &mut String) {
    let _ = write!(line, ",\"{name}\":");
    for character in value.to_string().chars() {
        if is_printable(character) {
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

    fn fields(message: &str) -> EventFields {
        let values = vec![
            ("word", Value::from("127.0.0.1:1")),
            ("text", Value::from("a=1 b\n\u{202e}\x1b[2J")),
            ("none", Value::from("")),
            ("count", Value::from(7)),
        ];
        EventFields { message: message.to_owned(), values }
    }

    const TIMESTAMP: &str = "2026-11-22T13:32:00.123456Z";

    fn line(format: Format, terminal: bool, message: &str) -> String {
        let line_format = LineFormat { format, colours: terminal, terminal };
        line_format.line(Level::WARN, TIMESTAMP, &fields(message))
    }

    #[test]
    fn event_with_control_characters_is_one_line() {
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
