//! The request line of a put: the same for all lines of stdin but for the payload.

use super::payload::in_line;
use super::record::quoted;
use base64::prelude::{BASE64_STANDARD, Engine as _};
use serde::de::IgnoredAny;
use std::borrow::Cow;

/// What texts of stdin and of the argument are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PayloadKind {
    Json,
    Text,
    Bytes,
}

/// A put without its payload: the same for all lines.
#[derive(Clone, Debug)]
pub(super) struct PutRequest {
    start: Vec<u8>,
    end: Vec<u8>,
    kind: PayloadKind,
}

impl PutRequest {
    /// A request that begins and ends with these bytes.
    pub(super) fn new(start: Vec<u8>, end: Vec<u8>, kind: PayloadKind) -> Self {
        Self { start, end, kind }
    }

    /// What the payloads are.
    pub(super) fn kind(&self) -> PayloadKind {
        self.kind
    }

    /// Writes the request with this payload.
    ///
    /// # Errors
    /// A phrase: it is not what it has to be.
    pub(super) fn write(&self, payload: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
        out.extend_from_slice(&self.start);
        match self.kind {
            PayloadKind::Json => {
                let text = json_text(payload)?;
                // Only objects are plain puts, of which many are executed in one pass.
                let is_object = text.starts_with('{');
                out.extend_from_slice(if is_object { b",\"job\":" } else { b",\"payload\":" });
                out.extend_from_slice(text.as_bytes());
            }
            PayloadKind::Text => {
                let text = std::str::from_utf8(payload)
                    .map_err(|_| "this is no text in UTF-8: --bytes takes any bytes".to_owned())?;
                out.extend_from_slice(b",\"payload\":");
                out.extend_from_slice(quoted(text).as_bytes());
            }
            PayloadKind::Bytes => {
                out.extend_from_slice(b",\"payload_base64\":\"");
                out.extend_from_slice(BASE64_STANDARD.encode(payload).as_bytes());
                out.push(b'"');
            }
        }
        out.extend_from_slice(&self.end);
        Ok(())
    }
}

/// The JSON text that bytes are, in one line.
fn json_text(bytes: &[u8]) -> Result<Cow<'_, str>, String> {
    let text = std::str::from_utf8(bytes.trim_ascii());
    let text = text.map_err(|_| "this is no UTF-8: --bytes takes any bytes".to_owned())?;
    serde_json::from_str::<IgnoredAny>(text).map_err(|error| {
        let why = error.to_string();
        let why = why.split(" at line ").next().unwrap_or_default();
        format!("this is no JSON ({why}): --text takes any text")
    })?;
    Ok(if text.contains(['\n', '\r']) { in_line(text).into() } else { text.into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(kind: PayloadKind, payload: &[u8]) -> Result<String, String> {
        let request = PutRequest { start: b"<".to_vec(), end: b">".to_vec(), kind };
        let mut out = Vec::new();
        request.write(payload, &mut out)?;
        Ok(String::from_utf8(out).unwrap())
    }

    #[test]
    fn payload_is_one_json_value_in_one_line() {
        let json = |text: &str| written(PayloadKind::Json, text.as_bytes());
        assert_eq!(json(" {\"a\":\n0.10}\n").unwrap(), "<,\"job\":{\"a\": 0.10}>");
        assert_eq!(json("17").unwrap(), "<,\"payload\":17>");
        // It would be a request of its own, or another queue.
        for wrong in ["1},\"queue\":{", "{} {}", "{}\n{\"request\":\"drain\"}", "", "ann"] {
            assert!(json(wrong).unwrap_err().contains("no JSON"), "{wrong}");
        }
        assert_eq!(written(PayloadKind::Text, b"a\n").unwrap(), "<,\"payload\":\"a\\n\">");
        assert!(written(PayloadKind::Text, b"\xff").is_err());
        assert_eq!(written(PayloadKind::Bytes, b"\xff").unwrap(), "<,\"payload_base64\":\"/w==\">");
    }
}
