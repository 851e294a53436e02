//! Cron expressions: five fields, or a name for them.
//!
//! Texts are parsed by a library, whose further notations are refused; which moments they mean is
//! said here. If the minute or the hour begins with `*`, the moments are those at which a clock on
//! the wall shows a time that fits. Otherwise each time that fits is one moment: one that the clock
//! leaves out, the end of the gap; one that it shows twice, its first.

use croner::parser::{CronParser, Seconds, Year};
use jiff::civil::{Date, DateTime};
use jiff::tz::{AmbiguousOffset, Offset, TimeZone};
use jiff::{SignedDuration, Timestamp};
use std::fmt;

/// Longest expression, in bytes: lists of all minutes, hours and days fit.
const TEXT_MAX_BYTES: usize = 1_024;

/// Between two moments of an expression there are at most this many days: 29 February of 2096 and
/// 2104, and a change of the calendar of a zone.
const DAYS_BETWEEN_MAX: usize = 8 * 366 + 2;

/// Most changes of an offset that are looked at for one moment: zones have at most a few a year.
const CHANGES_MAX: usize = 256;

const NAMES: [(&str, &str); 7] = [
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
    ("@monthly", "0 0 1 * *"),
    ("@weekly", "0 0 * * 0"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@hourly", "0 * * * *"),
];

const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];

const WEEKDAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

/// Days of the months, in leap years.
const MONTH_DAYS: [i8; 12] = [31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];

/// What is wrong with an expression. As text: what it must be, behind "must be".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CronError {
    /// Not an expression.
    Malformed,
    /// No year has such a day.
    NeverComes,
}

impl fmt::Display for CronError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Malformed => {
                "five fields (minute 0-59, hour 0-23, day 1-31, month 1-12 or JAN-DEC, weekday 0-7 \
                 or SUN-SAT), each *, numbers, ranges a-b, steps */n or a-b/n, or a list of those \
                 with commas; or @hourly, @daily, @weekly, @monthly or @yearly"
            }
            Self::NeverComes => "an expression that comes: its months have no such day",
        })
    }
}

/// An expression: sets of numbers, as bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cron {
    minutes: u64,
    hours: u64,
    days: u64,
    months: u64,
    /// 0 is Sunday.
    weekdays: u64,
    any_day: bool,
    any_weekday: bool,
    /// The minute or the hour begins with `*`.
    pub(super) as_they_come: bool,
}

fn has(set: u64, number: i8) -> bool {
    u8::try_from(number).is_ok_and(|number| set >> number & 1 == 1)
}

/// The first element of a set that is at least this number.
fn first_from(set: u64, number: i8) -> Option<i8> {
    let from = u32::try_from(number).ok()?;
    let rest = set.checked_shr(from)?;
    let skipped = (rest != 0).then(|| rest.trailing_zeros())?;
    i8::try_from(from + skipped).ok()
}

/// Writes the names in a field as numbers, from `first` on. `None`: there is another word, or a
/// character that no expression has.
fn without_names(field: &str, names: &[&str], first: usize) -> Option<String> {
    let mut out = String::new();
    for item in field.split(',') {
        let (range, step) = match item.split_once('/') {
            Some((range, step)) => (range, Some(step)),
            None => (item, None),
        };
        let mut ends = Vec::new();
        for (place, end) in range.split('-').enumerate() {
            let name = end.to_ascii_lowercase();
            let known = names.iter().position(|known| *known == name);
            let is_sunday = known == Some(0) && first == 0;
            ends.push(match known {
                // The week of a range may end with Sunday.
                Some(_) if is_sunday && place > 0 => "7".to_owned(),
                Some(number) => (number + first).to_string(),
                None => end.to_owned(),
            });
        }
        let plain = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let is_range = range == "*" || ends.iter().all(|end| plain(end));
        if !is_range || !step.is_none_or(plain) {
            return None;
        }
        if !out.is_empty() {
            out.push(',');
        }
        // A star in a list is the whole range, which the library takes alone only.
        let is_alone = item == field || step.is_some();
        out.push_str(&if range == "*" && !is_alone { "*/1".to_owned() } else { ends.join("-") });
        if let Some(step) = step {
            out.push('/');
            out.push_str(step);
        }
    }
    Some(out)
}

impl Cron {
    /// Parses an expression. O(bytes).
    pub(super) fn parse(text: &str) -> Result<Self, CronError> {
        let text = text.trim();
        let text = NAMES
            .iter()
            .find(|(name, _)| name.eq_ignore_ascii_case(text))
            .map_or(text, |&(_, fields)| fields);
        let fields: Vec<&str> = text.split_ascii_whitespace().collect();
        let &[minute, hour, day, month, weekday] = &*fields else {
            return Err(CronError::Malformed);
        };
        if text.len() > TEXT_MAX_BYTES {
            return Err(CronError::Malformed);
        }
        let plain = [
            without_names(minute, &[], 0),
            without_names(hour, &[], 0),
            without_names(day, &[], 0),
            without_names(month, &MONTHS, 1),
            without_names(weekday, &WEEKDAYS, 0),
        ];
        let plain: Option<Vec<String>> = plain.into_iter().collect();
        let plain = plain.ok_or(CronError::Malformed)?.join(" ");
        let parser =
            CronParser::builder().seconds(Seconds::Disallowed).year(Year::Disallowed).build();
        let parsed = parser.parse(&plain).map_err(|_| CronError::Malformed)?.pattern;
        let set = |values: Vec<u16>| values.into_iter().fold(0, |set, value| set | 1_u64 << value);
        let cron = Self {
            minutes: set(parsed.minutes.values()),
            hours: set(parsed.hours.values()),
            days: set(parsed.days.values()),
            months: set(parsed.months.values()),
            weekdays: set(parsed.days_of_week.values()),
            any_day: day == "*",
            any_weekday: weekday == "*",
            as_they_come: minute.starts_with('*') || hour.starts_with('*'),
        };
        if cron.comes() { Ok(cron) } else { Err(CronError::NeverComes) }
    }

    /// Whether some year has such a day.
    fn comes(&self) -> bool {
        let fits = |(month, &days): (i8, &i8)| {
            has(self.months, month) && first_from(self.days, 1).is_some_and(|day| day <= days)
        };
        !self.any_weekday || (1..).zip(&MONTH_DAYS).any(fits)
    }

    /// Whether a day fits: either of its fields suffices when both are restricted.
    fn fits_day(&self, date: Date) -> bool {
        let day = has(self.days, date.day());
        let weekday = has(self.weekdays, date.weekday().to_sunday_zero_offset());
        match (self.any_day, self.any_weekday) {
            (false, false) => day || weekday,
            _ => day && weekday,
        }
    }

    /// Whether a time fits.
    #[cfg(test)]
    pub(super) fn fits(&self, time: DateTime) -> bool {
        let fits = has(self.hours, time.hour()) && has(self.minutes, time.minute());
        fits && has(self.months, time.month()) && self.fits_day(time.date())
    }

    /// The first time from `from` on that fits, in whole minutes. O(days until then).
    fn first_time(&self, from: DateTime) -> Option<DateTime> {
        let (mut date, mut hour, mut minute) = (from.date(), from.hour(), from.minute());
        for _ in 0..DAYS_BETWEEN_MAX {
            if has(self.months, date.month()) && self.fits_day(date) {
                while let Some(found) = first_from(self.hours, hour) {
                    let start = if found == hour { minute } else { 0 };
                    if let Some(minute) = first_from(self.minutes, start) {
                        return Some(date.at(found, minute, 0, 0));
                    }
                    (hour, minute) = (found + 1, 0);
                }
            }
            (hour, minute) = (0, 0);
            if !has(self.months, date.month()) {
                date = date.last_of_month();
            }
            date = date.tomorrow().ok()?;
        }
        None
    }

    /// The first moment after `after`. O(days + changes of the offset until then).
    pub(super) fn next(&self, after: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        if self.as_they_come { self.next_shown(after, zone) } else { self.next_once(after, zone) }
    }

    /// The first moment at which the clock shows a time that fits.
    fn next_shown(&self, after: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        let mut offset = zone.to_offset(after);
        let mut from = whole_minute_after(offset.to_datetime(after))?;
        let mut changes = zone.following(after);
        for _ in 0..CHANGES_MAX {
            let change = changes.next().map(|change| (change.timestamp(), change.offset()));
            let found = self.first_time(from).and_then(|time| offset.to_timestamp(time).ok());
            match (found, change) {
                (Some(found), Some((at, _))) if found < at => return Some(found),
                (found, None) => return found,
                (_, Some((at, next))) => (offset, from) = (next, whole_minute_from(next, at)?),
            }
        }
        None
    }

    /// The first moment of a time that fits, each time being one moment.
    fn next_once(&self, after: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        // Proof that earlier times need no look: a time that was shown, or left out, is the moment
        // at which that happened first.
        let mut from = whole_minute_after(zone.to_datetime(after))?;
        // A clock that is set back shows at most a day twice.
        for _ in 0..=24 * 60 {
            let time = self.first_time(from)?;
            let moment = first_moment(time, zone)?;
            if moment > after {
                return Some(moment);
            }
            from = time.checked_add(SignedDuration::from_mins(1)).ok()?;
        }
        None
    }
}

/// The next time in whole minutes.
fn whole_minute_after(time: DateTime) -> Option<DateTime> {
    let minute = time.date().at(time.hour(), time.minute(), 0, 0);
    minute.checked_add(SignedDuration::from_mins(1)).ok()
}

/// The time in whole minutes that is shown at a moment, or next.
fn whole_minute_from(offset: Offset, at: Timestamp) -> Option<DateTime> {
    let time = offset.to_datetime(at);
    if time.second() == 0 && time.subsec_nanosecond() == 0 {
        return Some(time);
    }
    whole_minute_after(time)
}

/// The moment at which a time is shown first; of one that is left out, the end of the gap.
fn first_moment(time: DateTime, zone: &TimeZone) -> Option<Timestamp> {
    match zone.to_ambiguous_timestamp(time).offset() {
        AmbiguousOffset::Unambiguous { offset } => offset.to_timestamp(time).ok(),
        AmbiguousOffset::Fold { before, .. } => before.to_timestamp(time).ok(),
        AmbiguousOffset::Gap { after, .. } => {
            // With the later offset the time lies before the gap.
            let before = after.to_timestamp(time).ok()?;
            zone.following(before).next().map(|change| change.timestamp())
        }
    }
}
