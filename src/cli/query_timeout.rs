//! How long a query may take, as people write it.

use super::times;
use crate::base::limits::{QUERY_TIMEOUT_DEFAULT, QUERY_TIMEOUT_MAX, QUERY_TIMEOUT_MIN};
use serde::Deserialize;
use std::str::FromStr;
use std::time::Duration;

/// The value of `--query-timeout`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct QueryTimeout(pub(super) Duration);

impl Default for QueryTimeout {
    fn default() -> Self {
        Self(QUERY_TIMEOUT_DEFAULT)
    }
}

impl FromStr for QueryTimeout {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let help = "give a time such as 500ms or 5s";
        let range = QUERY_TIMEOUT_MIN..=QUERY_TIMEOUT_MAX;
        times::read(text, range, "from 1ms to 1h", help).map(Self)
    }
}

impl TryFrom<String> for QueryTimeout {
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
        let time = |ms| Ok(QueryTimeout(Duration::from_millis(ms)));
        assert_eq!("1ms".parse(), time(1));
        assert_eq!("5s".parse(), time(5000));
        assert_eq!("1h".parse(), time(3_600_000));
        for wrong in ["", "5", "0s", "999us", "61min", "never", "-1s"] {
            let error = wrong.parse::<QueryTimeout>().unwrap_err();
            assert!(error.contains("500ms or 5s"), "{wrong}: {error}");
        }
    }
}
