//! Objects of the server's answers. Values are kept as the JSON texts that the server has sent, so
//! that `0.10`, `1e400` and integers of any length come out as they were put in.

use super::failure::{Failure, Outcome};
use crate::wire::json::{elements, object_members, push_string};

/// The members of a JSON object, in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Record(Vec<(String, String)>);

impl Record {
    /// The members of a JSON object.
    pub(super) fn parse(text: &[u8]) -> Outcome<Self> {
        let members = object_members(text)
            .map_err(|error| Failure::failed(format!("the server's answer {error}")))?;
        let own =
            |(name, text): (std::borrow::Cow<'_, str>, &str)| (name.into_owned(), text.to_owned());
        Ok(Self(members.into_iter().map(own).collect()))
    }

    /// Adds a member whose value is this JSON text.
    pub(super) fn push(&mut self, name: &str, json: impl Into<String>) {
        self.0.push((name.to_owned(), json.into()));
    }

    /// Adds a member whose value is this string.
    pub(super) fn push_text(&mut self, name: &str, text: &str) {
        self.push(name, quoted(text));
    }

    pub(super) fn remove(&mut self, name: &str) {
        self.0.retain(|(known, _)| known != name);
    }

    /// Gives a member another name.
    pub(super) fn rename(&mut self, from: &str, to: &str) {
        for (name, _) in self.0.iter_mut().filter(|(name, _)| name == from) {
            to.clone_into(name);
        }
    }

    pub(super) fn members(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, text)| (&**name, &**text))
    }

    /// The JSON text of a member.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.members().find(|(known, _)| *known == name).map(|(_, text)| text)
    }

    /// The JSON text of a member, or of a member of a member: `counts.ready`. `None`: there is no
    /// such member.
    pub(super) fn at(&self, path: &str) -> Option<String> {
        if let Some(text) = self.get(path) {
            return Some(text.to_owned());
        }
        let (first, rest) = path.split_once('.')?;
        Self::parse(self.get(first)?.as_bytes()).ok()?.at(rest)
    }

    /// A string, unescaped.
    pub(super) fn text(&self, path: &str) -> Option<String> {
        serde_json::from_str(&self.at(path)?).ok()
    }

    /// A number that is no less than 0.
    pub(super) fn number(&self, path: &str) -> Option<u64> {
        self.at(path)?.parse().ok()
    }

    /// A number with a fraction.
    pub(super) fn fraction(&self, path: &str) -> Option<f64> {
        self.at(path)?.parse().ok()
    }

    pub(super) fn is_true(&self, path: &str) -> bool {
        self.at(path).is_some_and(|text| text == "true")
    }

    /// The objects of an array.
    pub(super) fn records(&self, name: &str) -> Outcome<Vec<Self>> {
        let list = self.get(name).and_then(elements).unwrap_or_default();
        list.into_iter().map(|text| Self::parse(text.as_bytes())).collect()
    }

    /// The object as JSON.
    pub(super) fn json(&self) -> String {
        let mut out = Vec::from(*b"{");
        for (place, (name, text)) in self.members().enumerate() {
            if place > 0 {
                out.push(b',');
            }
            push_string(&mut out, name.as_bytes());
            out.push(b':');
            out.extend_from_slice(text.as_bytes());
        }
        out.push(b'}');
        String::from_utf8_lossy(&out).into_owned()
    }
}

/// A text as a JSON string.
pub(super) fn quoted(text: &str) -> String {
    let mut out = Vec::new();
    push_string(&mut out, text.as_bytes());
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_keep_their_digits_and_paths_lead_into_objects() {
        let text =
            r#"{"a":{"b":0.10,"c":null},"d":"x\"y","e":[{"f":1}],"g":123456789012345678901}"#;
        let record = Record::parse(text.as_bytes()).unwrap();
        assert_eq!(record.json(), text);
        assert_eq!(record.at("a.b").unwrap(), "0.10");
        assert_eq!((record.at("a.x"), record.at("d.x"), record.at("y")), (None, None, None));
        assert_eq!(record.text("d").unwrap(), "x\"y");
        assert_eq!(record.records("e").unwrap()[0].number("f"), Some(1));
        assert!(Record::parse(b"[]").is_err());
    }
}
