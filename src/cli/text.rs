//! Settings that a file gives as text, and the command line by the same words.

use serde::de::Error;
use serde::{Deserialize, Deserializer};
use std::str::FromStr;

/// Reads a setting in a file as its flag is read.
///
/// # Errors
/// It is no text, or what [`FromStr`] says is wrong with it.
pub(super) fn read<'de, T: FromStr<Err = String>, D: Deserializer<'de>>(
    toml: D,
) -> Result<Option<T>, D::Error> {
    String::deserialize(toml)?.parse().map(Some).map_err(D::Error::custom)
}
