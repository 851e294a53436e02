//! Lengths of time, as people write them.

use std::ops::RangeInclusive;
use std::time::Duration;

/// Reads a time between two others. `bounds` and `help` are the words for what is possible.
///
/// # Errors
/// Says what is wrong with it, and what to give.
pub(super) fn read(
    text: &str,
    range: RangeInclusive<Duration>,
    bounds: &str,
    help: &str,
) -> Result<Duration, String> {
    let time = humantime::parse_duration(text).map_err(|error| format!("{error}: {help}"))?;
    if range.contains(&time) {
        Ok(time)
    } else {
        Err(format!("a time {bounds} is possible: {help}"))
    }
}
