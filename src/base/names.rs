//! Names chosen by users, in messages: long ones are cut, misspelt ones are corrected.

use crate::base::limits::NAME_SHOWN_MAX_BYTES;
use std::borrow::Cow;
use strsim::jaro_winkler;

/// A name for lists, logs and pages: whole, or its first [`NAME_SHOWN_MAX_BYTES`] bytes, cut
/// between characters, with its length: `xxx...(921600 bytes)`.
#[must_use]
pub fn shown(name: &[u8]) -> Cow<'_, [u8]> {
    let Some(start) = name.get(..NAME_SHOWN_MAX_BYTES) else { return Cow::Borrowed(name) };
    if name.len() == NAME_SHOWN_MAX_BYTES {
        return Cow::Borrowed(name);
    }
    // A character has four bytes at most; what is no text is cut anywhere.
    let is_start = |&end: &usize| name[end] & 0b1100_0000 != 0b1000_0000;
    let end = (NAME_SHOWN_MAX_BYTES - 3..=NAME_SHOWN_MAX_BYTES)
        .rev()
        .find(is_start)
        .unwrap_or(NAME_SHOWN_MAX_BYTES);
    let length = format!("...({} bytes)", name.len());
    Cow::Owned([&start[..end], length.as_bytes()].concat())
}

/// The same as text; invalid UTF-8 is replaced.
#[must_use]
pub fn shown_text(name: &[u8]) -> Cow<'_, str> {
    match shown(name) {
        Cow::Borrowed(name) => String::from_utf8_lossy(name),
        Cow::Owned(name) => Cow::Owned(String::from_utf8_lossy(&name).into_owned()),
    }
}

/// Jaro-Winkler similarity from which on a name is suggested.
const ALIKE: f64 = 0.85;

/// The known name most similar to a wrong one, if it is similar enough. O(names).
#[must_use]
pub fn nearest<'a>(wrong: &str, names: &[&'a str]) -> Option<&'a str> {
    let plain = |name: &str| name.chars().take(64).filter(|it| !"-_ ".contains(*it)).collect();
    let alike = |name: &str| {
        let [wrong, name]: [String; 2] = [plain(wrong), plain(name)];
        jaro_winkler(&wrong.to_lowercase(), &name.to_lowercase())
    };
    let best = names.iter().max_by(|a, b| alike(a).total_cmp(&alike(b)))?;
    (alike(best) >= ALIKE).then_some(*best)
}

/// Why a name is none of these: the predicate of a sentence whose subject is the name.
#[must_use]
pub fn unknown(wrong: &str, names: &[&str]) -> String {
    let known = names.join(", ");
    if names.is_empty() {
        return "is unknown here: none is known".to_owned();
    }
    match nearest(wrong, names) {
        Some(right) => format!("is unknown here: did you mean '{right}'? Known are {known}"),
        None if names.len() == 1 => format!("is unknown here: the only one known is {known}"),
        None => format!("is unknown here: known are {known}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_name_is_cut_between_characters() {
        for name in ["", "a", &"x".repeat(1_024)] {
            assert_eq!(shown(name.as_bytes()), name.as_bytes());
        }
        let long = "x".repeat(921_600);
        assert_eq!(shown_text(long.as_bytes()), format!("{}...(921600 bytes)", &long[..1_024]));
        let just = "x".repeat(1_025);
        assert_eq!(shown_text(just.as_bytes()), format!("{}...(1025 bytes)", &just[..1_024]));
        for (unit, whole) in [("\u{e9}", 1_024), ("\u{20ac}", 1_023), ("\u{1f600}", 1_024)] {
            for shift in 0..4 {
                let name = "x".repeat(shift) + &unit.repeat(2_000);
                let text = shown_text(name.as_bytes()).into_owned();
                let (start, length) = text.split_once("...").unwrap();
                assert!(name.starts_with(start) && start.len() + 4 > 1_024, "{shift} {unit}");
                assert_eq!(length, format!("({} bytes)", name.len()));
                assert!(shift > 0 || start.len() == whole, "{unit}: {}", start.len());
            }
        }
        // What is no text is cut anywhere, and nothing panics.
        assert!(shown(&[0x80; 3_000]).len() < 1_100);
        assert!(shown(&[0xff; 3_000]).starts_with(&[0xff; 1_024]));
    }

    #[test]
    fn a_mistyped_name_leads_to_the_right_one() {
        let names = ["name", "argument", "priority", "max_retry", "keep_result", "timeout"];
        for (wrong, right) in [
            ("timeot", Some("timeout")),
            ("maxRetry", Some("max_retry")),
            ("max-retry", Some("max_retry")),
            ("arguments", Some("argument")),
            ("prioritiy", Some("priority")),
            ("keep_results", Some("keep_result")),
            ("colour", None),
            ("", None),
        ] {
            assert_eq!(nearest(wrong, &names), right, "{wrong}");
        }
        assert_eq!(nearest("x", &[]), None);
        let said = unknown("dealy", &["delay", "ttl"]);
        assert_eq!(said, "is unknown here: did you mean 'delay'? Known are delay, ttl");
        assert_eq!(unknown("x", &["delay"]), "is unknown here: the only one known is delay");
        assert_eq!(unknown("x", &["ttr", "ttl"]), "is unknown here: known are ttr, ttl");
    }
}
