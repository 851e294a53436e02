//! Durations such as `500ms` and `1h`.

use crate::base::limits::{
    QUERY_TIMEOUT_DEFAULT, QUERY_TIMEOUT_MAX, QUERY_TIMEOUT_MIN, RESULT_TTL_DEFAULT,
    RESULT_TTL_MAX, RESULT_TTL_MIN,
};
use std::marker::PhantomData;
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

/// Parses a duration.
///
/// # Errors
/// The reason, followed by `help`: what to give.
pub(in crate::cli) fn parse(text: &str, help: &str) -> Result<Duration, String> {
    humantime::parse_duration(text).map_err(|error| match error {
        humantime::DurationError::Empty => format!("a time is missing: {help}"),
        humantime::DurationError::NumberOverflow => format!("this is too long: {help}"),
        _ if text.bytes().all(|byte| byte.is_ascii_digit()) => {
            format!("{text} of what? A unit is missing: {help}")
        }
        _ => format!("this is no time: {help}"),
    })
}

/// Parses a duration within `range`, which `bounds` describes.
///
/// # Errors
/// The reason, followed by `help`: what to give.
pub(in crate::cli) fn parse_in_range(
    text: &str,
    range: RangeInclusive<Duration>,
    bounds: &str,
    help: &str,
) -> Result<Duration, String> {
    let time = parse(text, help)?;
    if range.contains(&time) {
        Ok(time)
    } else {
        Err(format!("a time {bounds} is possible: {help}"))
    }
}

/// Default and range of a setting, and their description for messages.
pub(in crate::cli) trait DurationSetting {
    const DEFAULT: Duration;
    const RANGE: RangeInclusive<Duration>;
    const BOUNDS: &'static str;
    const HELP: &'static str;
}

/// The value of the setting `S`, within its range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cli) struct BoundedDuration<S>(pub(in crate::cli) Duration, PhantomData<S>);

impl<S: DurationSetting> Default for BoundedDuration<S> {
    fn default() -> Self {
        Self(S::DEFAULT, PhantomData)
    }
}

impl<S: DurationSetting> FromStr for BoundedDuration<S> {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        parse_in_range(text, S::RANGE, S::BOUNDS, S::HELP).map(|time| Self(time, PhantomData))
    }
}

/// `--query-timeout`: how long a query may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cli) enum QueryTimeout {}

impl DurationSetting for QueryTimeout {
    const DEFAULT: Duration = QUERY_TIMEOUT_DEFAULT;
    const RANGE: RangeInclusive<Duration> = QUERY_TIMEOUT_MIN..=QUERY_TIMEOUT_MAX;
    const BOUNDS: &'static str = "from 1ms to 1h";
    const HELP: &'static str = "give a time such as 500ms or 5s";
}

/// `--result-ttl`: how long results are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cli) enum ResultTtl {}

impl DurationSetting for ResultTtl {
    const DEFAULT: Duration = RESULT_TTL_DEFAULT;
    const RANGE: RangeInclusive<Duration> = RESULT_TTL_MIN..=RESULT_TTL_MAX;
    const BOUNDS: &'static str = "from 1ms to 365days";
    const HELP: &'static str = "give a time such as 30s or 1h";
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check<S: DurationSetting>(valid: &[(&str, u64)], invalid: &[&str], help: &str) {
        let read = |text: &str| text.parse::<BoundedDuration<S>>().map(|time| time.0);
        for &(text, ms) in valid {
            assert_eq!(read(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        for text in invalid {
            let error = read(text).unwrap_err();
            assert!(error.contains(help), "{text}: {error}");
        }
        assert!(S::RANGE.contains(&BoundedDuration::<S>::default().0));
    }

    #[test]
    fn durations_are_parsed() {
        let valid = [("1ms", 1), ("5s", 5_000), ("1h", 3_600_000)];
        let invalid = ["", "5", "0s", "999us", "61min", "never", "-1s"];
        check::<QueryTimeout>(&valid, &invalid, "500ms or 5s");
        let valid =
            [("1ms", 1), ("30s", 30_000), ("1h", 3_600_000), ("365days", 365 * 24 * 3_600_000)];
        let invalid = ["", "5", "0s", "999us", "366days", "never", "-1s"];
        check::<ResultTtl>(&valid, &invalid, "30s or 1h");
    }
}
