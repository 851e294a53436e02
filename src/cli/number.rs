//! Whole numbers, as arguments of commands.

use std::num::{IntErrorKind, ParseIntError};
use std::str::FromStr;

/// Reads a whole number.
///
/// # Errors
/// Says what to give.
pub(super) fn whole<T: FromStr<Err = ParseIntError>>(text: &str) -> Result<T, String> {
    text.parse().map_err(|error: ParseIntError| match error.kind() {
        IntErrorKind::PosOverflow => "this number is too large".to_owned(),
        _ => "give a whole number, such as 16".to_owned(),
    })
}

/// Reads a whole number from 1 up.
///
/// # Errors
/// Says what to give.
pub(super) fn at_least_one(text: &str) -> Result<usize, String> {
    match whole(text)? {
        0 => Err("give at least 1".to_owned()),
        number => Ok(number),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_and_the_rest_is_explained() {
        assert_eq!(whole::<u64>("0"), Ok(0));
        assert_eq!(at_least_one("7"), Ok(7));
        for wrong in ["", "x", "-1", "1.5", "0x1"] {
            assert!(whole::<usize>(wrong).unwrap_err().contains("whole number"), "{wrong}");
        }
        assert!(whole::<u32>("4294967296").unwrap_err().contains("too large"));
        assert!(at_least_one("0").unwrap_err().contains("at least 1"));
    }
}
