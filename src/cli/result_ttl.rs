//! How long results are kept, as people write it.

use super::times;
use crate::base::limits::{RESULT_TTL_DEFAULT, RESULT_TTL_MAX, RESULT_TTL_MIN};
use serde::Deserialize;
use std::str::FromStr;
use std::time::Duration;

/// The value of `--result-ttl`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct ResultTtl(pub(super) Duration);

impl Default for ResultTtl {
    fn default() -> Self {
        Self(RESULT_TTL_DEFAULT)
    }
}

impl FromStr for ResultTtl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let help = "give a time such as 30s or 1h";
        let range = RESULT_TTL_MIN..=RESULT_TTL_MAX;
        times::read(text, range, "from 1ms to 365days", help).map(Self)
    }
}

impl TryFrom<String> for ResultTtl {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_people_write_them() {
        let time = |ms| Ok(ResultTtl(Duration::from_millis(ms)));
        assert_eq!("1ms".parse(), time(1));
        assert_eq!("30s".parse(), time(30_000));
        assert_eq!("1h".parse(), time(3_600_000));
        assert_eq!("365days".parse(), time(365 * 24 * 3_600_000));
        for wrong in ["", "5", "0s", "999us", "366days", "never", "-1s"] {
            let error = wrong.parse::<ResultTtl>().unwrap_err();
            assert!(error.contains("30s or 1h"), "{wrong}: {error}");
        }
    }
}
