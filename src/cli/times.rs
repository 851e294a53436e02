//! Lengths of time, as people write them.

use crate::base::limits::{
    QUERY_TIMEOUT_DEFAULT, QUERY_TIMEOUT_MAX, QUERY_TIMEOUT_MIN, RESULT_TTL_DEFAULT,
    RESULT_TTL_MAX, RESULT_TTL_MIN,
};
use std::marker::PhantomData;
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

/// Reads a time. `help` says what to give.
///
/// # Errors
/// Says what is wrong with it, and what to give.
pub(super) fn parse(text: &str, help: &str) -> Result<Duration, String> {
    humantime::parse_duration(text).map_err(|error| match error {
        humantime::DurationError::Empty => format!("a time is missing: {help}"),
        humantime::DurationError::NumberOverflow => format!("this is too long: {help}"),
        _ if text.bytes().all(|byte| byte.is_ascii_digit()) => {
            format!("{text} of what? A unit is missing: {help}")
        }
        _ => format!("this is no time: {help}"),
    })
}

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
    let time = parse(text, help)?;
    if range.contains(&time) {
        Ok(time)
    } else {
        Err(format!("a time {bounds} is possible: {help}"))
    }
}

/// Which times a setting can be, and the words for that.
pub(super) trait Setting {
    const DEFAULT: Duration;
    const RANGE: RangeInclusive<Duration>;
    const BOUNDS: &'static str;
    const HELP: &'static str;
}

/// The value of such a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Time<S>(pub(super) Duration, PhantomData<S>);

impl<S: Setting> Default for Time<S> {
    fn default() -> Self {
        Self(S::DEFAULT, PhantomData)
    }
}

impl<S: Setting> FromStr for Time<S> {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        read(text, S::RANGE, S::BOUNDS, S::HELP).map(|time| Self(time, PhantomData))
    }
}

/// `--query-timeout`: how long a query may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum QueryTimeout {}

impl Setting for QueryTimeout {
    const DEFAULT: Duration = QUERY_TIMEOUT_DEFAULT;
    const RANGE: RangeInclusive<Duration> = QUERY_TIMEOUT_MIN..=QUERY_TIMEOUT_MAX;
    const BOUNDS: &'static str = "from 1ms to 1h";
    const HELP: &'static str = "give a time such as 500ms or 5s";
}

/// `--result-ttl`: how long results are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ResultTtl {}

impl Setting for ResultTtl {
    const DEFAULT: Duration = RESULT_TTL_DEFAULT;
    const RANGE: RangeInclusive<Duration> = RESULT_TTL_MIN..=RESULT_TTL_MAX;
    const BOUNDS: &'static str = "from 1ms to 365days";
    const HELP: &'static str = "give a time such as 30s or 1h";
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check<S: Setting>(right: &[(&str, u64)], wrong: &[&str], help: &str) {
        let read = |text: &str| text.parse::<Time<S>>().map(|time| time.0);
        for &(text, ms) in right {
            assert_eq!(read(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        for text in wrong {
            let error = read(text).unwrap_err();
            assert!(error.contains(help), "{text}: {error}");
        }
        assert!(S::RANGE.contains(&Time::<S>::default().0));
    }

    #[test]
    fn times_are_read_as_people_write_them() {
        let right = [("1ms", 1), ("5s", 5_000), ("1h", 3_600_000)];
        let wrong = ["", "5", "0s", "999us", "61min", "never", "-1s"];
        check::<QueryTimeout>(&right, &wrong, "500ms or 5s");
        let right =
            [("1ms", 1), ("30s", 30_000), ("1h", 3_600_000), ("365days", 365 * 24 * 3_600_000)];
        let wrong = ["", "5", "0s", "999us", "366days", "never", "-1s"];
        check::<ResultTtl>(&right, &wrong, "30s or 1h");
    }
}
