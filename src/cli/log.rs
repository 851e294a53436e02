//! Log lines on stderr, for people or for programs.

use clap::ValueEnum;
use serde::Deserialize;
use serde_json::Value;
use std::fmt;
use std::io::IsTerminal;
use tracing::level_filters::LevelFilter;
use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{self, FormatTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

/// How log lines look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Format {
    /// A line of text with the time in UTC.
    Human,
    /// A JSON object a line.
    Json,
    /// A JSON object a line, as the services around the processor log: `log_level`, `created_at`
    /// and `log_message`.
    Processor,
}

/// How important a log line has to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Level {
    /// What the server cannot do.
    Error,
    /// What an operator should look at.
    Warn,
    /// Start, doors, stop.
    Info,
    /// Connections that break.
    Debug,
}

/// Starts logging. To be called once.
pub(super) fn start(format: Format, level: Level) {
    let level = match level {
        Level::Error => LevelFilter::ERROR,
        Level::Warn => LevelFilter::WARN,
        Level::Info => LevelFilter::INFO,
        Level::Debug => LevelFilter::DEBUG,
    };
    let lines = tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_max_level(level)
        .with_target(false)
        // By default a failed write is reported by another write, which panics: a log that nobody
        // reads any more must not end the server.
        .log_internal_errors(false)
        .with_ansi(std::io::stderr().is_terminal());
    match format {
        Format::Human => lines.init(),
        Format::Json => lines.json().flatten_event(true).init(),
        Format::Processor => lines.event_format(ProcessorLines).init(),
    }
}

/// The lines of [`Format::Processor`]. What belongs to a line besides its message stands behind
/// that, as `name=value`.
struct ProcessorLines;

impl<S, N> FormatEvent<S, N> for ProcessorLines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut to: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let (mut message, mut moment) = (String::new(), String::new());
        context.format_fields(Writer::new(&mut message), event)?;
        time::time().format_time(&mut Writer::new(&mut moment))?;
        let level = event.metadata().level();
        let message = Value::String(message);
        let stamp = format_args!(r#""log_level":"{level}","created_at":"{moment}""#);
        writeln!(to, r#"{{{stamp},"log_message":{message}}}"#)
    }
}
