//! Names by which HTTP clients may know the server (`--http-name`).

use crate::wire::host::{Host, host, is_name};
use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use std::fmt;
use std::str::FromStr;

/// One such name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct HttpName(pub(super) Box<str>);

impl FromStr for HttpName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.contains("://") || text.contains('/') {
            return Err(format!("'{text}' is a URL: give the host's name alone"));
        }
        if let Some(Host::Unspecified(_)) = host(text) {
            return Err(format!(
                "'{text}' is never answered to (web pages could use it): give the host's name"
            ));
        }
        if !is_name(text) {
            return Err(match host(text) {
                Some(Host::Name(name)) => {
                    format!("'{text}' has a port: give the name alone, {name}; it is good for all")
                }
                Some(_) => {
                    format!("'{text}' is an address in numbers: those are answered to anyway")
                }
                None if text.contains('*') => {
                    format!("'{text}' has a '*': give each name by itself")
                }
                None => format!(
                    "'{text}' is no name of a host: give one such as jobs.example, in ASCII letters"
                ),
            });
        }
        Ok(Self(text.into()))
    }
}

/// Reads one name, or a list of them.
///
/// # Errors
/// It is neither, or one of them is no name.
pub(super) fn read<'de, D: Deserializer<'de>>(toml: D) -> Result<Option<Vec<HttpName>>, D::Error> {
    toml.deserialize_any(Names).map(Some)
}

struct Names;

impl<'de> Visitor<'de> for Names {
    type Value = Vec<HttpName>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a host, or a list of such names")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        Ok(vec![text.parse().map_err(E::custom)?])
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let mut names = Vec::new();
        while let Some(Text(name)) = list.next_element()? {
            names.push(name);
        }
        Ok(names)
    }
}

/// A name as an element of a list.
struct Text(HttpName);

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(toml: D) -> Result<Self, D::Error> {
        String::deserialize(toml)?.parse().map(Text).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_a_name_alone() {
        for name in ["jobs.example", "h", "a_b-c.d.", "Jobs"] {
            assert_eq!(name.parse(), Ok(HttpName(name.into())));
        }
        for (text, why) in [
            ("http://jobs.example", "is a URL"),
            ("jobs.example/", "is a URL"),
            ("jobs.example:11480", "give the name alone, jobs.example"),
            ("[::1]", "address in numbers"),
            ("0.0.0.0", "is never answered to"),
            ("[::]", "is never answered to"),
            ("0.0.0.0:11480", "is never answered to"),
            ("*.example", "has a '*'"),
            ("", "no name of a host"),
            ("a b", "no name of a host"),
            ("j\u{f6}bs.example", "no name of a host"),
        ] {
            let error = text.parse::<HttpName>().unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
