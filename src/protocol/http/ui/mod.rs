//! The dashboard (`docs/dashboard.md`): files below `/ui/` that are part of the program.
//!
//! Invariants:
//! - nothing is loaded from elsewhere, and no path is absolute: it works behind any prefix;
//! - the page may run its own scripts only, and turns no text into markup (Trusted Types);
//! - a file is asked for anew each time, and sent again only if it has changed (`ETag`).

use super::response::ExtraField;
use std::borrow::Cow;
use std::fmt::Write as _;

/// What a path of the dashboard leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PageRoute {
    /// Further to the page, which is here as seen from the path.
    Redirect(&'static str),
    /// The file of this number.
    Asset(usize),
}

/// A file of the dashboard.
#[derive(Debug)]
struct Asset {
    name: &'static str,
    bytes: &'static [u8],
}

macro_rules! assets {
    ($($name:literal),* $(,)?) => {
        &[$(Asset { name: $name, bytes: include_bytes!(concat!("page/", $name)) }),*]
    };
}

/// All files; the page is the first one.
static ASSETS: &[Asset] = assets![
    "index.html",
    "style.css",
    "theme.js",
    "main.js",
    "api.js",
    "chart.js",
    "dialog.js",
    "dom.js",
    "exact.js",
    "format.js",
    "live.js",
    "table.js",
    "act.js",
    "constraints.js",
    "job.js",
    "overview.js",
    "put.js",
    "queue.js",
    "queues.js",
    "schedules.js",
    "search.js",
    "system.js",
    "workers.js",
];

/// Where the name of the stage stands in the page.
const LABEL_PLACE: &str = "data-label=\"\"";

/// Settings of the dashboard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Whether it is there (`--ui`).
    pub is_on: bool,
    /// The name of the stage (`--ui-label`); empty: none.
    pub label: Box<str>,
}

impl Default for Settings {
    fn default() -> Self {
        Self { is_on: true, label: Box::default() }
    }
}

/// The route of a path, by its segments.
pub(super) fn find(parts: &[&str]) -> Option<PageRoute> {
    match parts {
        ["ui"] => Some(PageRoute::Redirect("ui/")),
        ["ui", ""] => Some(PageRoute::Asset(0)),
        ["ui", name] => {
            let behind_page = ASSETS.iter().skip(1).position(|asset| asset.name == *name)?;
            Some(PageRoute::Asset(behind_page + 1))
        }
        _ => None,
    }
}

/// Text as the value of an attribute.
fn escape(text: &str) -> String {
    let mut out = String::new();
    for char in text.chars() {
        match char {
            '"' | '\'' | '<' | '>' | '&' => {
                // Writing to a string does not fail.
                let _ = write!(out, "&#{};", u32::from(char));
            }
            _ => out.push(char),
        }
    }
    out
}

/// The bytes of a file.
pub(super) fn content(number: usize, settings: &Settings) -> Cow<'static, [u8]> {
    let Some(asset) = ASSETS.get(number) else { return Cow::Borrowed(b"") };
    if number > 0 || settings.label.is_empty() {
        return Cow::Borrowed(asset.bytes);
    }
    let page = String::from_utf8_lossy(asset.bytes);
    let label = format!("data-label=\"{}\"", escape(&settings.label));
    Cow::Owned(page.replacen(LABEL_PLACE, &label, 1).into_bytes())
}

/// The media type of a file.
pub(super) fn media_type(number: usize) -> &'static str {
    let name = ASSETS.get(number).map_or("", |asset| asset.name);
    match name.rsplit('.').next() {
        Some("html") => PAGE,
        Some("css") => "text/css; charset=utf-8",
        _ => "text/javascript; charset=utf-8",
    }
}

/// The media type of the page.
const PAGE: &str = "text/html; charset=utf-8";

/// The version of a file, as `ETag` says it.
pub(super) fn version(content: &[u8]) -> String {
    format!("\"{:08x}\"", crc32c::crc32c(content))
}

/// Whether a client that has these versions has this one.
pub(super) fn is_known(version: &str, if_none_match: Option<&[u8]>) -> bool {
    let known = if_none_match.unwrap_or_default().split(|&byte| byte == b',');
    known.map(<[u8]>::trim_ascii).any(|text| {
        // A proxy that compresses makes a version weak.
        text == b"*" || text.strip_prefix(b"W/").unwrap_or(text) == version.as_bytes()
    })
}

/// The fields of a response with a file of this version.
pub(super) fn fields(number: usize, version: String) -> impl Iterator<Item = ExtraField> {
    let all: [ExtraField; 4] = [
        ("ETag", version.into()),
        ("Cache-Control", "no-cache".into()),
        ("X-Content-Type-Options", "nosniff".into()),
        ("Cross-Origin-Resource-Policy", "same-origin".into()),
    ];
    let page: [ExtraField; 3] = [
        ("Content-Security-Policy", POLICY.into()),
        ("Referrer-Policy", "no-referrer".into()),
        ("Cross-Origin-Opener-Policy", "same-origin".into()),
    ];
    all.into_iter().chain(page.into_iter().filter(move |_| number == 0))
}

const POLICY: &str = concat!(
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; ",
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; ",
    "require-trusted-types-for 'script'; trusted-types 'none'",
);

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes that the files may take.
    const PLAIN_MAX: usize = 220_000;

    /// Lines that a file may have.
    const LINES_MAX: usize = 500;

    #[test]
    fn files_are_small_and_load_nothing_from_elsewhere() {
        let total: usize = ASSETS.iter().map(|asset| asset.bytes.len()).sum();
        assert!(total <= PLAIN_MAX, "the dashboard takes {total} bytes");
        for asset in ASSETS {
            let text = std::str::from_utf8(asset.bytes).unwrap();
            let lines = text.lines().count();
            assert!(asset.name == "style.css" || lines <= LINES_MAX, "{}: {lines}", asset.name);
            for banned in ["innerHTML", "outerHTML", "insertAdjacent", "eval(", "document.write"] {
                assert!(!text.contains(banned), "{}: {banned}", asset.name);
            }
            let urls = text.matches("http://").count() + text.matches("https://").count();
            let spaces = text.matches("http://www.w3.org/2000/svg").count();
            assert_eq!(urls, spaces, "{} names a URL", asset.name);
        }
    }

    #[test]
    fn paths_lead_to_files_that_have_versions() {
        assert_eq!(find(&["ui"]), Some(PageRoute::Redirect("ui/")));
        assert_eq!(find(&["ui", ""]), Some(PageRoute::Asset(0)));
        assert_eq!(find(&["ui", "index.html"]), None, "one page has one address");
        assert_eq!(find(&["ui", "x.js"]), None);
        assert_eq!(find(&["ui", "main.js", ""]), None);
        for (number, asset) in ASSETS.iter().enumerate().skip(1) {
            assert_eq!(find(&["ui", asset.name]), Some(PageRoute::Asset(number)));
        }
        let version = version(b"x");
        assert!(is_known(&version, Some(version.as_bytes())) && is_known(&version, Some(b"*")));
        assert!(is_known(&version, Some(format!("\"y\", W/{version}").as_bytes())));
        assert!(!is_known(&version, None) && !is_known(&version, Some(b"\"y\"")));
    }

    #[test]
    fn label_is_text_in_the_page() {
        let of = |label: &str| {
            let settings = Settings { label: label.into(), ..Settings::default() };
            String::from_utf8(content(0, &settings).into_owned()).unwrap()
        };
        assert!(of("").contains("data-label=\"\""));
        assert!(of("a\"><b>&'").contains("data-label=\"a&#34;&#62;&#60;b&#62;&#38;&#39;\""));
        assert_ne!(version(of("a").as_bytes()), version(of("b").as_bytes()));
    }
}
