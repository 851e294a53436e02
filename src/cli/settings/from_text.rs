//! Settings whose value in the file is the text that their flag takes.

use serde::de::Error;
use serde::{Deserialize, Deserializer};
use std::str::FromStr;

/// Deserializes a setting of the file with the parser of its flag.
///
/// # Errors
/// The value is not a string, or [`FromStr`] rejects it.
pub(in crate::cli) fn deserialize<'de, T: FromStr<Err = String>, D: Deserializer<'de>>(
    toml: D,
) -> Result<Option<T>, D::Error> {
    String::deserialize(toml)?.parse().map(Some).map_err(D::Error::custom)
}
