//! Parsing of `Accept` fields.

/// One kind of body that a client would take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted<'a> {
    /// The media type, or a range of them such as `text/*`, without parameters.
    pub essence: &'a [u8],
    parameters: &'a [u8],
    /// How much it is wanted, in thousandths; not at all: 0.
    pub quality: u16,
}

impl<'a> Wanted<'a> {
    /// Whether it is this media type, or range.
    #[must_use]
    pub fn is(&self, essence: &str) -> bool {
        self.essence.eq_ignore_ascii_case(essence.as_bytes())
    }

    /// The value of a parameter, without quotation marks.
    #[must_use]
    pub fn parameter(&self, name: &str) -> Option<&'a [u8]> {
        parameter(self.parameters, name)
    }
}

/// The media ranges of a field, in its order. Commas in quoted values end an element like all
/// others. O(field) for all.
pub fn wanted(field: &[u8]) -> impl Iterator<Item = Wanted<'_>> {
    field.split(|&byte| byte == b',').filter_map(|element| {
        let end = memchr::memchr(b';', element).unwrap_or(element.len());
        let (essence, parameters) = (element[..end].trim_ascii(), &element[end..]);
        let quality = parameter(parameters, "q").map_or(1_000, thousandths);
        (!essence.is_empty()).then_some(Wanted { essence, parameters, quality })
    })
}

fn parameter<'a>(parameters: &'a [u8], name: &str) -> Option<&'a [u8]> {
    parameters.split(|&byte| byte == b';').find_map(|parameter| {
        let at = memchr::memchr(b'=', parameter)?;
        let is_it = parameter[..at].trim_ascii().eq_ignore_ascii_case(name.as_bytes());
        let value = parameter[at + 1..].trim_ascii();
        let bare = value.strip_prefix(b"\"").and_then(|rest| rest.strip_suffix(b"\""));
        is_it.then_some(bare.unwrap_or(value))
    })
}

/// `0.75` as 750; 1000 if it is no such number.
fn thousandths(value: &[u8]) -> u16 {
    let (first, rest) = match value {
        [first @ (b'0' | b'1')] => (*first, &b""[..]),
        [first @ (b'0' | b'1'), b'.', rest @ ..] => (*first, rest),
        _ => return 1_000,
    };
    if first == b'1' || rest.len() > 3 || !rest.iter().all(u8::is_ascii_digit) {
        return 1_000;
    }
    let digits = rest.iter().chain(b"000").take(3);
    digits.fold(0, |sum, digit| sum * 10 + u16::from(digit - b'0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wanted_comes_with_its_quality() {
        let field = b"text/html, a/b;v=\"1\" ;Q=0.25,,*/*;q=0;x=2, c/d;q=0.5555, e/f ; q=.5";
        let found: Vec<_> = wanted(field).map(|one| (one.essence, one.quality)).collect();
        let expected: [(&[u8], u16); 5] =
            [(b"text/html", 1_000), (b"a/b", 250), (b"*/*", 0), (b"c/d", 1_000), (b"e/f", 1_000)];
        assert_eq!(found, expected);
        let one = wanted(b"A/B; v = \"1\"").next().unwrap();
        assert!(one.is("a/b"));
        assert_eq!((one.parameter("V"), one.parameter("w")), (Some(&b"1"[..]), None));
        assert_eq!(wanted(b" , ").next(), None);
    }
}
