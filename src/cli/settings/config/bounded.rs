//! Settings with bounds, from text and from TOML.

use crate::base::limits::MAX_CLIENTS_MAX;
use crate::cli::settings::size::Size;
use crate::cli::settings::whole_number;
use serde::Deserialize;

/// Smallest `--max-memory`: some jobs fit.
const MEMORY_FLOOR_BYTES: usize = 64 * 1024;

fn check_max_memory(size: Size) -> Result<Size, String> {
    if size.0 >= MEMORY_FLOOR_BYTES {
        Ok(size)
    } else {
        Err(format!("a size from {} KiB on is possible", MEMORY_FLOOR_BYTES >> 10))
    }
}

fn check_max_clients(count: usize) -> Result<usize, String> {
    if (1..=MAX_CLIENTS_MAX).contains(&count) {
        Ok(count)
    } else {
        Err(format!("a number from 1 to {MAX_CLIENTS_MAX} is possible"))
    }
}

pub(super) fn parse_max_request(text: &str) -> Result<Size, String> {
    text.parse::<Size>()?.of_request()
}

pub(super) fn parse_max_memory(text: &str) -> Result<Size, String> {
    check_max_memory(text.parse()?)
}

pub(super) fn parse_max_clients(text: &str) -> Result<usize, String> {
    check_max_clients(whole_number::parse(text)?)
}

pub(super) fn deserialize_max_request<'de, D: serde::Deserializer<'de>>(
    toml: D,
) -> Result<Option<Size>, D::Error> {
    let size = Size::deserialize(toml)?;
    size.of_request().map(Some).map_err(serde::de::Error::custom)
}

pub(super) fn deserialize_max_memory<'de, D: serde::Deserializer<'de>>(
    toml: D,
) -> Result<Option<Size>, D::Error> {
    let size = Size::deserialize(toml)?;
    check_max_memory(size).map(Some).map_err(serde::de::Error::custom)
}

pub(super) fn deserialize_max_clients<'de, D: serde::Deserializer<'de>>(
    toml: D,
) -> Result<Option<usize>, D::Error> {
    // Any integer of TOML is accepted here, so that the message about the range is ours.
    let count = usize::try_from(i64::deserialize(toml)?).unwrap_or(0);
    check_max_clients(count).map(Some).map_err(serde::de::Error::custom)
}
