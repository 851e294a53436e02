//! L1: the moments of schedules: cron expressions in time zones, and intervals. Pure: a moment of
//! the wall clock goes in, the next one comes out. The rules of time zones are in the binary.

mod cron;
#[cfg(test)]
mod tests;

use crate::base::time::Wall;
use cron::Cron;
pub use cron::CronError;
use jiff::Timestamp;
use jiff::tz::{TimeZone, TimeZoneDatabase};
use std::collections::BTreeMap;

/// A time zone of the database of the IANA. Copies share their rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Zone(TimeZone);

impl Zone {
    /// The zone of this name, in any case. O(log zones + bytes of its rules).
    #[must_use]
    pub fn find(name: &str) -> Option<Self> {
        // Other names that the library knows (offsets, "Etc/Unknown") are none of the database.
        if name == "UTC" {
            return Some(Self(TimeZone::UTC));
        }
        TimeZoneDatabase::bundled().get(name).ok().filter(|zone| !zone.is_unknown()).map(Self)
    }
}

/// Zones by name: each is read once. There are at most as many as the database has.
#[derive(Debug, Default)]
pub struct Zones(BTreeMap<Box<str>, Zone>);

impl Zones {
    /// The zone of this name. O(log zones) but for the first time.
    pub fn find(&mut self, name: &str) -> Option<Zone> {
        let key = name.to_ascii_lowercase();
        if let Some(zone) = self.0.get(&*key) {
            return Some(zone.clone());
        }
        let zone = Zone::find(name)?;
        self.0.insert(key.into(), zone.clone());
        Some(zone)
    }
}

/// The moments of one schedule.
#[derive(Clone, Debug)]
pub struct Timetable(Kind);

#[derive(Clone, Debug)]
enum Kind {
    Every { ms: u64, anchor: Wall },
    Cron(Cron, Zone),
}

impl Timetable {
    /// Every `ms` milliseconds; one of the moments is `anchor`.
    ///
    /// # Panics
    /// If `ms` is 0.
    #[must_use]
    pub fn every(ms: u64, anchor: Wall) -> Self {
        assert!(ms > 0, "an interval has a length");
        Self(Kind::Every { ms, anchor })
    }

    /// The moments of a cron expression in a zone.
    ///
    /// # Errors
    /// If the expression is malformed, or its moments never come.
    pub fn cron(text: &str, zone: Zone) -> Result<Self, CronError> {
        Ok(Self(Kind::Cron(Cron::parse(text)?, zone)))
    }

    /// Whether this is an interval.
    #[must_use]
    pub fn is_interval(&self) -> bool {
        matches!(self.0, Kind::Every { .. })
    }

    /// The first moment after this one. `None` at the end of the calendar. O(days until then), at
    /// most eight years, and O(changes of the zone's offset until then).
    #[must_use]
    pub fn next(&self, after: Wall) -> Option<Wall> {
        match &self.0 {
            Kind::Every { ms, anchor } => {
                // Both are at most 2^64: the sum fits.
                let (ms, anchor) = (i128::from(*ms), i128::from(anchor.0));
                let steps = (i128::from(after.0) - anchor).div_euclid(ms) + 1;
                u64::try_from(anchor + steps * ms).ok().map(Wall)
            }
            Kind::Cron(cron, Zone(zone)) => {
                let after = i64::try_from(after.0).ok()?;
                let after = Timestamp::from_millisecond(after).ok()?;
                let next = cron.next(after, zone)?;
                u64::try_from(next.as_millisecond()).ok().map(Wall)
            }
        }
    }
}
