//! ISO 8601 timestamps, in milliseconds since 1970.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

/// Parses a timestamp; without an offset it is UTC.
pub(super) fn parse(text: &str) -> Option<i64> {
    let moment = text.parse::<Timestamp>().ok();
    let moment = moment.or_else(|| {
        let local: DateTime = text.parse().ok()?;
        Some(local.to_zoned(TimeZone::UTC).ok()?.timestamp())
    });
    moment.map(Timestamp::as_millisecond)
}

/// Formats a timestamp. Times beyond the year 9999 become its end.
pub(super) fn format(ms: i64) -> String {
    let latest = if ms < 0 { Timestamp::MIN } else { Timestamp::MAX };
    Timestamp::from_millisecond(ms).unwrap_or(latest).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_parse_with_any_offset() {
        let half_past = 1_700_000_000_500;
        for text in [
            "2023-11-14T22:13:20.5Z",
            "2023-11-14T22:13:20.500000+00:00",
            "2023-11-15T07:13:20.5+09:00",
            "2023-11-14 17:13:20.5-05",
            "2023-11-14T22:13:20.500499",
            "20231114T221320,5Z",
        ] {
            assert_eq!(parse(text), Some(half_past), "{text}");
        }
        assert_eq!(parse("1970-01-01"), Some(0));
        assert_eq!(parse("1969-12-31T23:59:59Z"), Some(-1_000));
        for text in ["", "now", "2023-02-30T00:00:00Z", "1700000000", "2023-11-14T25:00:00Z"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn timestamps_round_trip() {
        for ms in [0, -1, 1_700_000_000_500, 253_402_200_000_000] {
            assert_eq!(parse(&format(ms)), Some(ms));
        }
        assert_eq!(format(1_700_000_000_500), "2023-11-14T22:13:20.5Z");
        assert!(parse(&format(i64::MAX)).is_some_and(|ms| ms > 253_402_200_000_000));
    }
}
