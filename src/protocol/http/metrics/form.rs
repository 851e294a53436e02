//! The two text formats of metrics: the classic one of Prometheus, which browsers show and every
//! scraper reads, and `OpenMetrics` for scrapers that request it.
//!
//! ```text
//! OpenMetrics                          classic
//! # HELP x Help.   # TYPE x counter    # HELP x_total Help.   # TYPE x_total counter
//! # HELP y Help.   # TYPE y info       # HELP y_info Help.    # TYPE y_info gauge
//! # UNIT z seconds                     (nothing)
//! # EOF                                (nothing)
//! ```
//!
//! Samples are the same in both.

use crate::wire::http::{Wanted, wanted};

pub(in crate::protocol::http) const CLASSIC: &str = "text/plain; version=0.0.4; charset=utf-8";

pub(in crate::protocol::http) const OPENMETRICS: &str =
    "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The text format of metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::protocol::http) enum Form {
    #[default]
    Classic,
    OpenMetrics,
}

impl Form {
    /// The format that an `Accept` field requests: `OpenMetrics` if it names the version that is
    /// written here and does not prefer the classic format.
    pub(in crate::protocol::http) fn of(accept: Option<&[u8]>) -> Self {
        let accept = accept.unwrap_or_default();
        let is_version = |one: &Wanted<'_>, version: &[u8]| {
            one.parameter("version").is_none_or(|asked| asked == version)
        };
        let best = |essence: &str, version: &[u8]| {
            let named = |one: &Wanted<'_>| one.is(essence) && is_version(one, version);
            wanted(accept).filter(named).map(|one| one.quality).max()
        };
        let open = best("application/openmetrics-text", b"1.0.0").unwrap_or(0);
        let classic = best("text/plain", b"0.0.4");
        let classic = classic.or_else(|| best("text/*", b"")).or_else(|| best("*/*", b""));
        let is_open = open > 0 && open >= classic.unwrap_or(0);
        if is_open { Self::OpenMetrics } else { Self::Classic }
    }

    pub(in crate::protocol::http) fn media_type(self) -> &'static str {
        match self {
            Self::Classic => CLASSIC,
            Self::OpenMetrics => OPENMETRICS,
        }
    }

    /// The end marker of the text.
    pub(super) fn end(self) -> &'static str {
        match self {
            Self::Classic => "",
            Self::OpenMetrics => "# EOF\n",
        }
    }
}

/// Writes `OpenMetrics` text as classic text. O(text).
pub(super) fn write_classic(text: &str, out: &mut Vec<u8>) {
    // The help line precedes the line that names the metric's type, on which its classic name
    // depends.
    let mut help = "";
    for line in text.split_inclusive('\n') {
        let Some(comment) = line.strip_prefix("# ") else {
            out.extend_from_slice(line.as_bytes());
            continue;
        };
        let (keyword, rest) = comment.split_once(' ').unwrap_or((comment, ""));
        let (name, rest) = rest.split_once(' ').unwrap_or((rest, "\n"));
        match keyword {
            "HELP" => help = rest,
            "TYPE" => {
                let (end, kind) = match rest {
                    "counter\n" => ("_total", rest),
                    "info\n" => ("_info", "gauge\n"),
                    "unknown\n" => ("", "untyped\n"),
                    _ => ("", rest),
                };
                for piece in ["# HELP ", name, end, " ", help, "# TYPE ", name, end, " ", kind] {
                    out.extend_from_slice(piece.as_bytes());
                }
            }
            _ => {}
        }
    }
}
