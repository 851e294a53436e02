//! Values of arguments: lengths of time and JSON.

use super::payload::in_line;
use crate::cli::settings::duration;
use std::time::Duration;

/// A length of time, in whole milliseconds as the server takes it: a part of one counts as one,
/// because 0 means none.
///
/// # Errors
/// What to give.
pub(super) fn parse_time(text: &str) -> Result<Duration, String> {
    let time = duration::parse(text, "give a time such as 5s, 90m or 1h")?;
    let milliseconds = time.as_nanos().div_ceil(1_000_000);
    Ok(Duration::from_millis(u64::try_from(milliseconds).unwrap_or(u64::MAX)))
}

/// A time to wait for a server: more than none.
///
/// # Errors
/// What to give.
pub(super) fn parse_patience(text: &str) -> Result<Duration, String> {
    match parse_time(text)? {
        Duration::ZERO => Err("no server answers in no time: give a time such as 2s".to_owned()),
        time => Ok(time),
    }
}

/// The priority of a job that is put.
///
/// # Errors
/// What to give.
pub(super) fn parse_priority(text: &str) -> Result<u64, String> {
    let max = u64::MAX;
    text.parse().map_err(|_| format!("give a whole number from 0 to {max}: bigger is more urgent"))
}

/// A JSON text, in one line.
///
/// # Errors
/// Why it is none.
pub(super) fn parse_json(text: &str) -> Result<String, String> {
    let json = crate::wire::json::value(text.as_bytes());
    json.map(in_line).map_err(|error| format!("this {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::client::request::Request;

    #[test]
    fn priority_that_no_put_can_have_is_refused_with_what_can() {
        assert_eq!(parse_priority("18446744073709551615"), Ok(u64::MAX));
        for text in ["-3", "1.5", "18446744073709551616", ""] {
            assert!(parse_priority(text).unwrap_err().starts_with("give a whole number from 0 to"));
        }
    }

    #[test]
    fn server_is_given_some_time() {
        assert_eq!(parse_patience("1ns"), Ok(Duration::from_millis(1)));
        assert!(parse_patience("0s").unwrap_err().contains("no time"));
    }

    #[test]
    fn part_of_a_millisecond_is_not_no_time() {
        for (nanos, milliseconds) in [(0, 0), (1, 1), (500_000, 1), (1_000_000, 1), (1_000_001, 2)]
        {
            let time = parse_time(&format!("{nanos}ns")).unwrap();
            assert_eq!(time, Duration::from_millis(milliseconds));
            let line = Request::new("put").time("ttr", time).line();
            let expected = format!("{{\"request\":\"put\",\"ttr\":{milliseconds}}}\n");
            assert_eq!(String::from_utf8(line).unwrap(), expected);
        }
    }
}
