//! `json_canonical`: JSON text in the canonical form of states, so that payloads compare as values.

use super::sqlite::PURE;
use crate::wire::json;
use rusqlite::functions::Context;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Error, Result};

/// Registers the function.
pub(super) fn register(connection: &Connection) -> Result<()> {
    connection.create_scalar_function("json_canonical", 1, PURE, canonical)
}

/// NULL for NULL and for text that is not JSON. O(text).
fn canonical(context: &Context<'_>) -> Result<Option<String>> {
    let ValueRef::Text(text) = context.get_raw(0) else { return Ok(None) };
    let Ok(text) = json::value(text) else { return Ok(None) };
    let mut canonical = Vec::with_capacity(text.len());
    json::canonical(text, &mut canonical);
    String::from_utf8(canonical).map(Some).map_err(|error| Error::UserFunctionError(error.into()))
}
