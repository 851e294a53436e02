//! Request lines of the Job Centre protocol.

use crate::wire::json::push_string;
use std::time::Duration;

/// A line that is being written.
#[derive(Clone, Debug)]
pub(super) struct Request(Vec<u8>);

impl Request {
    pub(super) fn new(name: &str) -> Self {
        let mut line = Vec::from(*b"{\"request\":");
        push_string(&mut line, name.as_bytes());
        Self(line)
    }

    /// Fields without the name of a request: the end of one.
    pub(super) fn empty() -> Self {
        Self(Vec::new())
    }

    /// Adds a field whose value is this JSON text, which has no line end.
    pub(super) fn json(mut self, name: &str, json: impl AsRef<str>) -> Self {
        self.0.push(b',');
        push_string(&mut self.0, name.as_bytes());
        self.0.push(b':');
        self.0.extend_from_slice(json.as_ref().as_bytes());
        self
    }

    pub(super) fn text(self, name: &str, text: &str) -> Self {
        let value = super::record::quoted(text);
        self.json(name, value)
    }

    pub(super) fn number(self, name: &str, number: u64) -> Self {
        self.json(name, number.to_string())
    }

    /// A length of time, in milliseconds.
    pub(super) fn time(self, name: &str, time: Duration) -> Self {
        self.number(name, u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
    }

    pub(super) fn texts(self, name: &str, texts: &[impl AsRef<str>]) -> Self {
        let quoted = texts.iter().map(|text| super::record::quoted(text.as_ref()));
        let list = quoted.collect::<Vec<_>>().join(",");
        self.json(name, format!("[{list}]"))
    }

    /// Adds a field if it has a value.
    pub(super) fn maybe<T>(self, value: Option<T>, add: impl FnOnce(Self, T) -> Self) -> Self {
        match value {
            Some(value) => add(self, value),
            None => self,
        }
    }

    /// The line with its end.
    pub(super) fn line(mut self) -> Vec<u8> {
        self.0.extend_from_slice(b"}\n");
        self.0
    }
}
