//! Moments by a walk over minutes: of the library only what a clock on the wall shows is used.

use crate::rng::TestRng;
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

const MINUTE_MS: u64 = 60_000;

/// The walk ends here: no run comes so far, though clocks are set back in it.
const HORIZON_MINUTES: u64 = 20 * 24 * 60;

/// No clock shows a time twice that is further back, nor leaves out more.
const CHANGE_MINUTES: u64 = 3 * 60;

/// One field of an expression.
#[derive(Clone, Debug)]
struct Field {
    text: String,
    values: Vec<i8>,
    is_any: bool,
}

impl Field {
    fn any(low: i8, high: i8) -> Self {
        Self { text: "*".into(), values: (low..=high).collect(), is_any: true }
    }

    /// A step goes through all values, from `low` up to `most`; others are at most `high`.
    fn draw(rng: &mut TestRng, (low, high): (i8, i8), most: i8) -> Self {
        let number = |rng: &mut TestRng, from: i8| {
            let count = usize::try_from(high - from).unwrap();
            from + i8::try_from(rng.below(count + 1)).unwrap()
        };
        let step = |rng: &mut TestRng| *rng.pick(&[1_usize, 2, 5, 7, 15, 20]);
        match rng.below(5) {
            0 => {
                let step = step(rng);
                let values = (low..=most).step_by(step).collect();
                Self { text: format!("*/{step}"), values, is_any: false }
            }
            1 => {
                let first = number(rng, low);
                let last = number(rng, first);
                let step = step(rng);
                let values = (first..=last).step_by(step).collect();
                Self { text: format!("{first}-{last}/{step}"), values, is_any: false }
            }
            _ => {
                let values: Vec<i8> = (0..rng.between(1, 3)).map(|_| number(rng, low)).collect();
                let text = values.iter().map(i8::to_string).collect::<Vec<_>>().join(",");
                Self { text, values, is_any: false }
            }
        }
    }

    fn has(&self, value: i8) -> bool {
        self.values.contains(&value)
    }
}

/// A cron expression: its fields as sets and as text.
#[derive(Clone, Debug)]
pub(super) struct Cron([Field; 5]);

impl Cron {
    /// Mostly one with moments near the changes of summer time.
    pub(super) fn draw(rng: &mut TestRng) -> Self {
        let minute =
            if rng.percent(15) { Field::any(0, 59) } else { Field::draw(rng, (0, 59), 59) };
        let hour = match rng.below(4) {
            0 => Field::any(0, 23),
            1 => Field::draw(rng, (0, 23), 23),
            // Most changes of summer time are in these.
            _ => Field::draw(rng, (0, 3), 23),
        };
        let day = if rng.percent(85) { Field::any(1, 31) } else { Field::draw(rng, (1, 28), 31) };
        let month = if rng.percent(95) { Field::any(1, 12) } else { Field::draw(rng, (1, 12), 12) };
        let weekday = if rng.percent(80) { Field::any(0, 6) } else { Field::draw(rng, (0, 6), 6) };
        Self([minute, hour, day, month, weekday])
    }

    pub(super) fn text(&self) -> String {
        self.0.iter().map(|field| field.text.as_str()).collect::<Vec<_>>().join(" ")
    }

    fn fits(&self, time: DateTime) -> bool {
        let [minute, hour, day, month, weekday] = &self.0;
        let (date, by_week) = (time.date(), weekday.has(time.weekday().to_sunday_zero_offset()));
        let by_month = day.has(date.day());
        let fits_day =
            if day.is_any || weekday.is_any { by_month && by_week } else { by_month || by_week };
        minute.has(time.minute()) && hour.has(time.hour()) && month.has(date.month()) && fits_day
    }

    /// Whether moments are taken as the clock shows them.
    fn as_they_come(&self) -> bool {
        self.0[..2].iter().any(|field| field.text.starts_with('*'))
    }

    /// Why this is a moment, if it is one.
    pub(super) fn why(&self, minute: u64, zone: &TimeZone) -> Option<&'static str> {
        let here = shown(minute, zone);
        let fits = self.fits(here);
        if self.as_they_come() {
            return fits.then_some("a moment");
        }
        let before = shown(minute - 1, zone);
        let regular = next_minute(before) == here;
        if fits {
            // An offset that changed lately may have shown this before.
            let past = zone.to_offset(timestamp(minute - CHANGE_MINUTES));
            let is_again = past != zone.to_offset(timestamp(minute))
                && (1..=CHANGE_MINUTES).any(|back| shown(minute - back, zone) == here);
            return (!is_again).then_some("a moment");
        }
        let mut left_out = next_minute(before);
        while !regular && left_out < here {
            if self.fits(left_out) {
                return Some("a moment at the end of a gap");
            }
            left_out = next_minute(left_out);
        }
        None
    }

    /// Whether a clock shows this time for the second time: of a moment, as it comes.
    pub(super) fn is_shown_twice(minute: u64, zone: &TimeZone) -> bool {
        let here = shown(minute, zone);
        (1..=CHANGE_MINUTES).any(|ahead| shown(minute + ahead, zone) == here)
    }

    /// The first moment after this one, in milliseconds; `None`: beyond the horizon.
    pub(super) fn next(&self, after_ms: u64, zone: &TimeZone) -> Option<u64> {
        let first = after_ms / MINUTE_MS + 1;
        let mut minutes = first..first + HORIZON_MINUTES;
        let mut past = zone.to_offset(timestamp(first - 1));
        let found = minutes.find(|&minute| {
            let offset = zone.to_offset(timestamp(minute));
            // Only a change leaves times out.
            let changes = std::mem::replace(&mut past, offset) != offset;
            let may = changes || self.fits(offset.to_datetime(timestamp(minute)));
            may && self.why(minute, zone).is_some()
        });
        found.map(|minute| minute * MINUTE_MS)
    }
}

fn timestamp(minute: u64) -> Timestamp {
    Timestamp::from_second(i64::try_from(minute * 60).unwrap()).unwrap()
}

/// What a clock shows.
fn shown(minute: u64, zone: &TimeZone) -> DateTime {
    let at = timestamp(minute);
    zone.to_offset(at).to_datetime(at)
}

fn next_minute(time: DateTime) -> DateTime {
    time.checked_add(jiff::SignedDuration::from_mins(1)).unwrap()
}
