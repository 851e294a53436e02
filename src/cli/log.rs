//! Log lines on stderr, for people or for programs.

use clap::ValueEnum;
use serde::Deserialize;
use std::io::IsTerminal;
use tracing::level_filters::LevelFilter;

/// How log lines look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Format {
    /// A line of text with the time in UTC.
    Human,
    /// A JSON object a line.
    Json,
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
    }
}
