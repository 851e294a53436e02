//! Style sheets as they are served.

use super::{comment, letters, string};
use std::collections::BTreeMap;

/// A style sheet without comments and needless spaces, its own properties with short names: no
/// script uses them.
///
/// # Errors
/// A comment or a string has no end.
pub(crate) fn style(text: &str) -> Result<String, String> {
    let text = without_spaces(text)?;
    let is_name = |char: char| char.is_ascii_alphanumeric() || char == '-';
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for part in text.split("var(").skip(1) {
        let end = part.find(|char| !is_name(char)).unwrap_or(part.len());
        *counts.entry(&part[..end]).or_default() += 1;
    }
    let mut order: Vec<_> = counts.into_iter().collect();
    order.sort_by_key(|&(name, count)| (std::cmp::Reverse(count), name));
    let names = order.iter().enumerate().map(|(at, &(name, _))| (name, letters(at)));
    let names: BTreeMap<&str, String> = names.collect();
    let mut out = String::new();
    let mut rest = &*text;
    while let Some(at) = rest.find("--") {
        let end = rest[at..].find(|char| !is_name(char)).map_or(rest.len(), |end| at + end);
        out.push_str(&rest[..at]);
        match names.get(&rest[at..end]) {
            Some(short) => out.extend(["--", short]),
            None => out.push_str(&rest[at..end]),
        }
        rest = &rest[end..];
    }
    out.push_str(rest);
    Ok(out)
}

/// A style sheet without comments and needless spaces.
fn without_spaces(text: &str) -> Result<String, String> {
    let mut out = String::new();
    let mut rest = text;
    let mut is_gap = false;
    while let Some(char) = rest.chars().next() {
        if rest.starts_with("/*") {
            rest = &rest[comment(rest)?.unwrap_or(1)..];
            is_gap = true;
            continue;
        }
        if char.is_whitespace() {
            is_gap = true;
            rest = &rest[char.len_utf8()..];
            continue;
        }
        let is_closed = out.is_empty() || out.ends_with(['{', '}', ';', ',', ':', '(', '>']);
        if is_gap && !is_closed && !matches!(char, '{' | '}' | ';' | ',' | ')' | '>') {
            out.push(' ');
        }
        is_gap = false;
        if let Some([red, green, blue]) = short_colour(rest) {
            out.extend(['#', red, green, blue]);
            rest = &rest[7..];
            continue;
        }
        let length = if char == '"' { string(rest)? } else { char.len_utf8() };
        if char == '}' && out.ends_with(';') {
            out.pop();
        }
        out.push_str(&rest[..length]);
        rest = &rest[length..];
    }
    out.push('\n');
    Ok(out)
}

/// The digits of a colour that has each of them twice: `#aabbcc`.
fn short_colour(text: &str) -> Option<[char; 3]> {
    let digits: Vec<char> = text.strip_prefix('#')?.chars().take(7).collect();
    let is_long = digits.get(6).is_some_and(char::is_ascii_hexdigit);
    let is_colour = digits.iter().take(6).all(char::is_ascii_hexdigit);
    match digits[..] {
        [red, red2, green, green2, blue, blue2, ..]
            if is_colour && !is_long && (red, green, blue) == (red2, green2, blue2) =>
        {
            Some([red, green, blue])
        }
        _ => None,
    }
}
