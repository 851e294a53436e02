//! Whether output matches what a document shows.

/// Stands for whatever is left out.
const LEFT_OUT: char = '…';

/// Whether `found` is what is `shown`: moments, Unix seconds and UUIDs may be others, what is left
/// out may be anything in the same line, and blanks at the ends of lines do not count.
pub(crate) fn fits(shown: &str, found: &str) -> bool {
    let (shown, found) = (mask(shown), mask(found));
    let (shown, found): (Vec<_>, Vec<_>) =
        (shown.trim_end().lines().collect(), found.trim_end().lines().collect());
    shown.len() == found.len() && shown.iter().zip(found).all(|(shown, found)| line(shown, found))
}

fn line(shown: &str, found: &str) -> bool {
    let mut pieces = shown.trim_end().split(LEFT_OUT);
    let Some(mut rest) = found.trim_end().strip_prefix(pieces.next().unwrap_or_default()) else {
        return false;
    };
    let mut pieces = pieces.peekable();
    while let Some(piece) = pieces.next() {
        if pieces.peek().is_none() {
            return rest.ends_with(piece);
        }
        let Some(at) = rest.find(piece) else { return false };
        rest = &rest[at + piece.len()..];
    }
    rest.is_empty()
}

/// Replaces what differs from run to run by words.
fn mask(text: &str) -> String {
    let mut masked = String::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let is_word = |it: char| it.is_ascii_alphanumeric() || "-:.".contains(it);
        if !first.is_ascii_alphanumeric() {
            masked.push(first);
            rest = &rest[first.len_utf8()..];
            continue;
        }
        let end = rest.find(|it| !is_word(it)).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        masked.push_str(known(word).unwrap_or(word));
        rest = after;
    }
    masked
}

/// What a word stands for, if it may be another one every time.
fn known(word: &str) -> Option<&'static str> {
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let is = |form: &str| {
        let fits = |(form, it): (u8, u8)| match form {
            b'0' => it.is_ascii_digit(),
            b'x' => it.is_ascii_hexdigit(),
            same => same == it,
        };
        word.len() == form.len() && form.bytes().zip(word.bytes()).all(fits)
    };
    if is("0000-00-00T00:00:00.000Z") || is("0000-00-00T00:00:00Z") {
        Some("MOMENT")
    } else if is("xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx") {
        Some("UUID")
    } else if word.len() == 10 && word.starts_with('1') && digits(word) {
        Some("SECONDS")
    } else {
        None
    }
}

#[test]
fn values_that_change_between_runs_match() {
    for (shown, found, is_same) in [
        ("a", "a\n", true),
        ("a \n b", "a\n b", true),
        ("a", "b", false),
        ("a\nb", "a", false),
        ("\"modified\":1795302000}", "\"modified\":1763800000}", true),
        ("1795302000", "2795302000", false),
        ("\"2026-11-22T01:17:20.278Z\"", "\"2031-01-01T00:00:00.000Z\"", true),
        ("2026-11-22T01:17:20.278Z", "soon", false),
        (
            "id 2b1e7a9c-0000-4000-8000-0123456789ab.",
            "id 2b1e7a9c-0000-4000-8000-0123456789ab.",
            true,
        ),
        ("{\"uuid\":\"…\",\"n\":1}", "{\"uuid\":\"x-y\",\"n\":1}", true),
        ("{\"uuid\":\"…\",\"n\":1}", "{\"uuid\":\"x-y\",\"n\":2}", false),
        ("…", "anything", true),
        ("a…b…c", "a1b2c", true),
        ("a…b…c", "a1c2b", false),
    ] {
        assert_eq!(fits(shown, found), is_same, "{shown:?} {found:?}");
    }
}
