//! Payloads of jobs: JSON as it is, or bytes that no JSON is.

use super::record::Record;
use base64::prelude::{BASE64_STANDARD, Engine as _};

/// The bytes of a job: those that are no JSON as they are, JSON as its text.
pub(super) fn payload_bytes(record: &Record) -> Vec<u8> {
    if let Some(text) = record.text("payload_base64") {
        return BASE64_STANDARD.decode(&text).unwrap_or_else(|_| text.into_bytes());
    }
    match record.get("payload") {
        Some(text) => text.as_bytes().to_vec(),
        None => Vec::new(),
    }
}

/// The text of a member that is JSON; of a payload that is none, its bytes in base64.
pub(super) fn json_or_bytes(record: &Record, path: &str, json: String) -> String {
    if path == "payload"
        && let Some(text) = record.text("payload_base64")
    {
        return format!("base64:{text}");
    }
    json
}

/// A JSON text in one line: line ends between its tokens become blanks.
pub(super) fn in_line(json: &str) -> String {
    json.replace(['\n', '\r'], " ")
}
