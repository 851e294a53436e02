//! The dashboard (`docs/dashboard.md`): files below `/ui/` that are part of the program.
//!
//! Invariants:
//! - what is served is made from `page` by the build (`minify`), compressed once in each coding;
//! - nothing is loaded from elsewhere, and no path is absolute: it works behind any prefix;
//! - the page may run its own scripts only, and turns no text into markup (Trusted Types);
//! - a file is asked for anew each time, and sent again only if it has changed (`ETag`).

#[cfg(test)]
mod minify;

use super::response::ExtraField;
use crate::wire::http::wanted;
use std::borrow::Cow;
use std::fmt::Write as _;

/// What a path of the dashboard leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PageRoute {
    /// Further to the page, which is here as seen from the path.
    Redirect(&'static str),
    /// The file of this number.
    Asset(usize),
    /// The same, compressed.
    Packed(usize, Coding),
}

/// How a file is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Coding {
    Brotli,
    Gzip,
}

impl Coding {
    /// All of them, the one with the fewest bytes first.
    const ALL: [Self; 2] = [Self::Brotli, Self::Gzip];

    /// Its name in fields of HTTP.
    const fn name(self) -> &'static str {
        match self {
            Self::Brotli => "br",
            Self::Gzip => "gzip",
        }
    }
}

/// A file of the dashboard.
#[derive(Debug)]
struct Asset {
    name: &'static str,
    plain: &'static [u8],
    brotli: &'static [u8],
    gzip: &'static [u8],
}

macro_rules! built {
    ($name:expr) => {
        include_bytes!(concat!(env!("OUT_DIR"), "/page/", $name))
    };
}

macro_rules! assets {
    ($($name:literal),* $(,)?) => {
        &[$(Asset {
            name: $name,
            plain: built!($name),
            brotli: built!(concat!($name, ".br")),
            gzip: built!(concat!($name, ".gz")),
        }),*]
    };
}

/// All files; the page is the first one.
static ASSETS: &[Asset] = assets!["index.html", "style.css", "theme.js", "main.js"];

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

/// The compressed file instead of the plain one, if the client takes it and there is one: a name of
/// the stage is written into the page when it is asked for.
pub(super) fn pack(
    page: PageRoute,
    accept_encoding: Option<&[u8]>,
    settings: &Settings,
) -> PageRoute {
    let PageRoute::Asset(number) = page else { return page };
    if number == 0 && !settings.label.is_empty() {
        return page;
    }
    let takes = |coding: &Coding| {
        let mut codings = wanted(accept_encoding.unwrap_or_default());
        codings.any(|one| one.is(coding.name()) && one.quality > 0)
    };
    let coding = Coding::ALL.into_iter().find(takes);
    coding.map_or(page, |coding| PageRoute::Packed(number, coding))
}

/// The bytes that a path leads to.
pub(super) fn content(page: PageRoute, settings: &Settings) -> Cow<'static, [u8]> {
    let (number, coding) = match page {
        PageRoute::Asset(number) => (number, None),
        PageRoute::Packed(number, coding) => (number, Some(coding)),
        PageRoute::Redirect(_) => return Cow::Borrowed(b""),
    };
    let Some(asset) = ASSETS.get(number) else { return Cow::Borrowed(b"") };
    match coding {
        Some(Coding::Brotli) => return Cow::Borrowed(asset.brotli),
        Some(Coding::Gzip) => return Cow::Borrowed(asset.gzip),
        None => {}
    }
    if number > 0 || settings.label.is_empty() {
        return Cow::Borrowed(asset.plain);
    }
    let page = String::from_utf8_lossy(asset.plain);
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
pub(super) fn fields(
    number: usize,
    coding: Option<Coding>,
    version: String,
) -> impl Iterator<Item = ExtraField> {
    let all: [ExtraField; 5] = [
        ("ETag", version.into()),
        ("Cache-Control", "no-cache".into()),
        ("Vary", "Accept-Encoding".into()),
        ("X-Content-Type-Options", "nosniff".into()),
        ("Cross-Origin-Resource-Policy", "same-origin".into()),
    ];
    let packed = coding.map(|coding| ("Content-Encoding", coding.name().into()));
    let page: [ExtraField; 3] = [
        ("Content-Security-Policy", POLICY.into()),
        ("Referrer-Policy", "no-referrer".into()),
        ("Cross-Origin-Opener-Policy", "same-origin".into()),
    ];
    all.into_iter().chain(packed).chain(page.into_iter().filter(move |_| number == 0))
}

const POLICY: &str = concat!(
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; ",
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; ",
    "require-trusted-types-for 'script'; trusted-types 'none'",
);

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes that the files may take as they are served, plain and compressed. The bar of the
    /// design is 100,000 and 30,000: these go down until they are there, and never up.
    const PLAIN_MAX: usize = 84_000;
    const GZIP_MAX: usize = 33_700;
    const BROTLI_MAX: usize = 30_000;

    #[test]
    fn served_files_are_small() {
        let plain: usize = ASSETS.iter().map(|asset| asset.plain.len()).sum();
        let gzip: usize = ASSETS.iter().map(|asset| asset.gzip.len()).sum();
        let brotli: usize = ASSETS.iter().map(|asset| asset.brotli.len()).sum();
        assert!(plain <= PLAIN_MAX, "the dashboard takes {plain} bytes");
        assert!(gzip <= GZIP_MAX, "the dashboard takes {gzip} bytes by gzip");
        assert!(brotli <= BROTLI_MAX, "the dashboard takes {brotli} bytes by Brotli");
        for asset in ASSETS {
            let text = std::str::from_utf8(asset.plain).unwrap();
            for banned in ["innerHTML", "outerHTML", "insertAdjacent", "eval(", "document.write"] {
                assert!(!text.contains(banned), "{}: {banned}", asset.name);
            }
            let urls = text.matches("http://").count() + text.matches("https://").count();
            let spaces = text.matches("http://www.w3.org/2000/svg").count();
            assert_eq!(urls, spaces, "{} names a URL", asset.name);
            // The mark of gzip, and the length of what it packs at its end.
            assert_eq!(asset.gzip[..2], [0x1f, 0x8b]);
            let length = asset.gzip.last_chunk::<4>().copied().map(u32::from_le_bytes).unwrap();
            assert_eq!(length as usize, asset.plain.len(), "{}", asset.name);
        }
    }

    #[test]
    fn who_takes_a_coding_gets_it() {
        let plain = Settings::default();
        let of = |accept: Option<&str>, number| {
            pack(PageRoute::Asset(number), accept.map(str::as_bytes), &plain)
        };
        let [brotli, gzip] = Coding::ALL.map(|coding| PageRoute::Packed(1, coding));
        assert_eq!(of(Some("deflate, gzip;q=0.5, br"), 1), brotli);
        assert_eq!(of(Some("br;q=0, gzip"), 1), gzip);
        assert_eq!(of(Some("GZIP"), 0), PageRoute::Packed(0, Coding::Gzip));
        for not in [None, Some(""), Some("br;q=0"), Some("gzip;q=0"), Some("xgzip, brx")] {
            assert_eq!(of(not, 1), PageRoute::Asset(1), "{not:?}");
        }
        let labelled = Settings { label: "x".into(), ..Settings::default() };
        let page = |number| pack(PageRoute::Asset(number), Some(b"gzip"), &labelled);
        assert_eq!((page(0), page(1)), (PageRoute::Asset(0), gzip));
        let of = |page| version(&content(page, &plain));
        let versions = [PageRoute::Asset(1), brotli, gzip].map(of);
        assert!(versions[0] != versions[1] && versions[0] != versions[2]);
        assert_ne!(versions[1], versions[2]);
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
            let page = content(PageRoute::Asset(0), &settings);
            String::from_utf8(page.into_owned()).unwrap()
        };
        assert!(of("").contains("data-label=\"\""));
        assert!(of("a\"><b>&'").contains("data-label=\"a&#34;&#62;&#60;b&#62;&#38;&#39;\""));
        assert_ne!(version(of("a").as_bytes()), version(of("b").as_bytes()));
    }
}
