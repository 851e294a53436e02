//! ISO 8601 timestamps of messages.

use crate::base::time::Wall;
use crate::protocol::queue_listing::push_time;
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

/// Parses a timestamp; without an offset it is UTC. Times before 1970 become 1970.
pub(super) fn parse(text: &str) -> Option<Wall> {
    let moment = text.parse::<Timestamp>().ok().or_else(|| {
        let local: DateTime = text.parse().ok()?;
        Some(local.to_zoned(TimeZone::UTC).ok()?.timestamp())
    })?;
    Some(Wall(u64::try_from(moment.as_millisecond()).unwrap_or(0)))
}

/// The time of a pass as text, formatted once.
#[derive(Debug, Default)]
pub(super) struct CachedTimestamp {
    at: Option<Wall>,
    text: Vec<u8>,
}

impl CachedTimestamp {
    pub(super) fn at(&mut self, wall: Wall) -> &[u8] {
        if self.at != Some(wall) {
            self.text.clear();
            push_time(wall, &mut self.text);
            self.at = Some(wall);
        }
        &self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_have_milliseconds_and_parse_with_any_offset() {
        let mut stamp = CachedTimestamp::default();
        assert_eq!(stamp.at(Wall(1_700_000_000_500)), b"2023-11-14T22:13:20.500Z");
        assert_eq!(stamp.at(Wall(0)), b"1970-01-01T00:00:00.000Z");
        assert!(stamp.at(Wall(u64::MAX)).starts_with(b"9999-12-30T"));
        for text in
            ["2023-11-14T22:13:20.5Z", "2023-11-15T07:13:20.5+09:00", "2023-11-14T22:13:20.500"]
        {
            assert_eq!(parse(text), Some(Wall(1_700_000_000_500)), "{text}");
        }
        assert_eq!(parse("1969-12-31T23:59:59Z"), Some(Wall(0)));
        for text in ["", "now", "2023-02-30T00:00:00Z", "1700000000"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
