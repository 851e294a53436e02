//! When changes are made durable.

use super::duration;
use crate::journal::SyncMode;
use std::str::FromStr;
use std::time::Duration;

/// The value of `--fsync`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cli) struct Fsync(pub(in crate::cli) SyncMode);

const EVERY_MIN: Duration = Duration::from_millis(1);
const EVERY_MAX: Duration = Duration::from_hours(1);

impl FromStr for Fsync {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "always" => return Ok(Self(SyncMode::Always)),
            "never" => return Ok(Self(SyncMode::Never)),
            _ => {}
        }
        let help = "give always, never, or a time such as 50ms or 1s";
        let every = duration::parse_in_range(text, EVERY_MIN..=EVERY_MAX, "from 1ms to 1h", help)?;
        Ok(Self(SyncMode::Every(every)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_are_parsed() {
        assert_eq!("always".parse(), Ok(Fsync(SyncMode::Always)));
        assert_eq!("never".parse(), Ok(Fsync(SyncMode::Never)));
        let every = |ms| Ok(Fsync(SyncMode::Every(Duration::from_millis(ms))));
        assert_eq!("50ms".parse(), every(50));
        assert_eq!("1s".parse(), every(1000));
        for invalid in ["", "50", "0ms", "999us", "2h", "sometimes", "-1s"] {
            let error = invalid.parse::<Fsync>().unwrap_err();
            assert!(error.contains("50ms or 1s"), "{invalid}: {error}");
        }
    }
}
