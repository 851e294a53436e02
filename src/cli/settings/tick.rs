//! The interval of the processor's ticks.

use super::duration;
use crate::base::limits::{TICK_DEFAULT, TICK_MAX, TICK_MIN};
use serde::de::{Error, Unexpected, Visitor};
use serde::{Deserialize, Deserializer};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// The value of `--tick`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cli) struct Tick(pub(in crate::cli) Duration);

const HELP: &str = "give milliseconds such as 3000, or a time such as 3s";

impl Default for Tick {
    fn default() -> Self {
        Self(TICK_DEFAULT)
    }
}

impl FromStr for Tick {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let time = if digits { format!("{text}ms") } else { text.to_owned() };
        duration::parse_in_range(&time, TICK_MIN..=TICK_MAX, "from 1ms to 1h", HELP).map(Self)
    }
}

impl<'de> Deserialize<'de> for Tick {
    fn deserialize<D: Deserializer<'de>>(toml: D) -> Result<Self, D::Error> {
        toml.deserialize_any(TickVisitor)
    }
}

/// Accepts milliseconds as a number, or a duration as text.
struct TickVisitor;

impl Visitor<'_> for TickVisitor {
    type Value = Tick;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("milliseconds, or a time as text")
    }

    fn visit_i64<E: Error>(self, ms: i64) -> Result<Tick, E> {
        let invalid = || E::invalid_value(Unexpected::Signed(ms), &self);
        u64::try_from(ms).map_err(|_| invalid())?.to_string().parse().map_err(E::custom)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Tick, E> {
        text.parse().map_err(E::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_parsed() {
        let tick = |ms| Ok(Tick(Duration::from_millis(ms)));
        assert_eq!("3000".parse(), tick(3_000));
        assert_eq!("1".parse(), tick(1));
        assert_eq!("3s".parse(), tick(3_000));
        assert_eq!("1h".parse(), tick(3_600_000));
        for invalid in ["", "0", "-1", "1.5", "3600001", "2h", "soon", "99999999999999999999999"] {
            let error = invalid.parse::<Tick>().unwrap_err();
            assert!(error.contains("3000"), "{invalid}: {error}");
        }
    }
}
