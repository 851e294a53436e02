//! Whole numbers as arguments, with messages that say what to give.

use std::num::{IntErrorKind, ParseIntError};
use std::str::FromStr;

/// Parses a whole number.
///
/// # Errors
/// Says what to give.
pub(in crate::cli) fn parse<T: FromStr<Err = ParseIntError>>(text: &str) -> Result<T, String> {
    text.parse().map_err(|error: ParseIntError| match error.kind() {
        IntErrorKind::PosOverflow => "this number is too large".to_owned(),
        _ => "give a whole number, such as 16".to_owned(),
    })
}

/// Parses a whole number that is not 0.
///
/// # Errors
/// Says what to give.
pub(in crate::cli) fn parse_at_least_one(text: &str) -> Result<usize, String> {
    match parse(text)? {
        0 => Err("give at least 1".to_owned()),
        number => Ok(number),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_are_parsed_and_others_rejected() {
        assert_eq!(parse::<u64>("0"), Ok(0));
        assert_eq!(parse_at_least_one("7"), Ok(7));
        for invalid in ["", "x", "-1", "1.5", "0x1"] {
            assert!(parse::<usize>(invalid).unwrap_err().contains("whole number"), "{invalid}");
        }
        assert!(parse::<u32>("4294967296").unwrap_err().contains("too large"));
        assert!(parse_at_least_one("0").unwrap_err().contains("at least 1"));
    }
}
