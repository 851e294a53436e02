//! Log lines on stderr, for people or for programs.

mod line_format;

use super::terminal;
use clap::ValueEnum;
use line_format::LineFormat;
use serde::Deserialize;
use tracing::level_filters::LevelFilter;

/// How log lines look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Format {
    /// A line of text with the time in UTC; on a terminal without the day.
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
    /// Start, protocols, stop.
    Info,
    /// Connections that break.
    Debug,
}

/// Starts logging. Must be called once.
pub(super) fn start(format: Format, level: Level) {
    let level = match level {
        Level::Error => LevelFilter::ERROR,
        Level::Warn => LevelFilter::WARN,
        Level::Info => LevelFilter::INFO,
        Level::Debug => LevelFilter::DEBUG,
    };
    let line_format =
        LineFormat { format, colours: terminal::has_colours(), terminal: terminal::is_terminal() };
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_max_level(level)
        // By default a failed write is reported by another write, which panics: a closed stderr
        // must not end the server.
        .log_internal_errors(false)
        .event_format(line_format)
        .init();
}
