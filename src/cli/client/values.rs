//! Values of arguments: lengths of time and JSON.

use super::payload::in_line;
use crate::cli::settings::duration;
use std::time::Duration;

/// A length of time.
///
/// # Errors
/// What to give.
pub(super) fn parse_time(text: &str) -> Result<Duration, String> {
    duration::parse(text, "give a time such as 5s, 90m or 1h")
}

/// A JSON text, in one line.
///
/// # Errors
/// Why it is none.
pub(super) fn parse_json(text: &str) -> Result<String, String> {
    let json = crate::wire::json::value(text.as_bytes());
    json.map(in_line).map_err(|error| format!("this {error}"))
}
