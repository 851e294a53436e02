//! Moments of schedules: the fields of cron expressions, and both changes of summer time.

use super::*;

fn timetable(cron: &str, zone: &str) -> Timetable {
    Timetable::cron(cron, Zone::find(zone).unwrap()).unwrap()
}

fn wall(text: &str) -> Wall {
    let moment: Timestamp = text.parse().unwrap();
    Wall(u64::try_from(moment.as_millisecond()).unwrap())
}

/// The first `count` moments after `after`, as `zone` shows them.
fn moments(cron: &str, zone: &str, after: &str, count: usize) -> Vec<String> {
    let table = timetable(cron, zone);
    let Zone(shown) = Zone::find(zone).unwrap();
    let mut at = wall(after);
    let mut found = Vec::new();
    for _ in 0..count {
        let next = table.next(at).unwrap();
        assert!(next > at, "moments rise");
        at = next;
        let moment = Timestamp::from_millisecond(i64::try_from(at.0).unwrap()).unwrap();
        let offset = shown.to_offset(moment);
        let time = offset.to_datetime(moment);
        let date = time.date();
        found.push(format!("{date} {:02}:{:02} {offset}", time.hour(), time.minute()));
    }
    found
}

/// Moments of an expression on the clock of UTC, after 2026-01-01T00:00:00Z (a Thursday).
fn in_utc(cron: &str, count: usize) -> Vec<String> {
    let found = moments(cron, "UTC", "2026-01-01T00:00:00Z", count);
    found.iter().map(|text| text.trim_end_matches(" +00").to_owned()).collect()
}

#[test]
fn fields_are_stars_lists_ranges_steps_and_names() {
    for (cron, expected) in [
        ("*/20 * * * *", ["2026-01-01 00:20", "2026-01-01 00:40", "2026-01-01 01:00"]),
        ("5,7 3 * * *", ["2026-01-01 03:05", "2026-01-01 03:07", "2026-01-02 03:05"]),
        ("0 9-17/4 * * *", ["2026-01-01 09:00", "2026-01-01 13:00", "2026-01-01 17:00"]),
        ("0 0 31 * *", ["2026-01-31 00:00", "2026-03-31 00:00", "2026-05-31 00:00"]),
        ("0 0 29 FEB *", ["2028-02-29 00:00", "2032-02-29 00:00", "2036-02-29 00:00"]),
        ("0 12 * jan,Dec 7", ["2026-01-04 12:00", "2026-01-11 12:00", "2026-01-18 12:00"]),
        ("0 12 * * SAT-SUN", ["2026-01-03 12:00", "2026-01-04 12:00", "2026-01-10 12:00"]),
        ("0 12 * * SUN-MON", ["2026-01-04 12:00", "2026-01-05 12:00", "2026-01-11 12:00"]),
        ("0 12 * * 0,7", ["2026-01-04 12:00", "2026-01-11 12:00", "2026-01-18 12:00"]),
        // Either day field suffices.
        ("0 0 10 * FRI", ["2026-01-02 00:00", "2026-01-09 00:00", "2026-01-10 00:00"]),
        ("0 0 31 2 MON", ["2026-02-02 00:00", "2026-02-09 00:00", "2026-02-16 00:00"]),
        ("@hourly", ["2026-01-01 01:00", "2026-01-01 02:00", "2026-01-01 03:00"]),
        ("@Daily", ["2026-01-02 00:00", "2026-01-03 00:00", "2026-01-04 00:00"]),
        ("@midnight", ["2026-01-02 00:00", "2026-01-03 00:00", "2026-01-04 00:00"]),
        ("@weekly", ["2026-01-04 00:00", "2026-01-11 00:00", "2026-01-18 00:00"]),
        ("@monthly", ["2026-02-01 00:00", "2026-03-01 00:00", "2026-04-01 00:00"]),
        ("@yearly", ["2027-01-01 00:00", "2028-01-01 00:00", "2029-01-01 00:00"]),
        (" 0  0\t1 1 * ", ["2027-01-01 00:00", "2028-01-01 00:00", "2029-01-01 00:00"]),
    ] {
        assert_eq!(in_utc(cron, 3), expected, "{cron}");
    }
    let days = moments("0 0 29 2 *", "UTC", "2096-03-01T00:00:00Z", 1);
    assert_eq!(days, ["2104-02-29 00:00 +00"], "eight years");
}

#[test]
fn what_is_no_expression_is_refused() {
    for cron in [
        "",
        "* * * *",
        "* * * * * *",
        "60 * * * *",
        "* 24 * * *",
        "* * 0 * *",
        "* * 32 * *",
        "* * * 13 *",
        "* * * 0 *",
        "* * * * 8",
        "*/0 * * * *",
        "5/10 * * * *",
        "/5 * * * *",
        "1,,2 * * * *",
        "1, * * * *",
        "5-3 * * * *",
        "a * * * *",
        "MON * * * *",
        "* * * FRI *",
        "* * L * *",
        "* * 1W * *",
        "* * * * 1#2",
        "* * ? * *",
        "* * * * +1",
        "@reboot",
        "@every 5m",
        "-1 * * * *",
        "1-2-3 * * * *",
        "1/2/3 * * * *",
        "* * * * MO",
        "99999999999 * * * *",
        "\u{661} * * * *",
    ] {
        assert_eq!(Cron::parse(cron), Err(CronError::Malformed), "{cron}");
    }
    for cron in ["0 0 30 2 *", "0 0 31 2,4,6,9,11 *", "* * 31 FEB *"] {
        assert_eq!(Cron::parse(cron), Err(CronError::NeverComes), "{cron}");
    }
    assert!(Cron::parse("0,*/30,45-50/2,* * * * *").is_ok());
    for zone in ["Mars/Olympus", "", "CEST", "+01:00", "Etc/Unknown", "Europe/Berlin "] {
        assert_eq!(Zone::find(zone), None, "{zone}");
    }
    for zone in ["UTC", "Europe/Berlin", "europe/berlin", "Etc/GMT+5", "America/St_Johns"] {
        assert!(Zone::find(zone).is_some(), "{zone}");
    }
}

#[test]
fn a_time_that_is_left_out_runs_at_the_end_of_the_gap() {
    // Berlin leaves out 02:00 to 03:00 on 29 March 2026, New York on 8 March.
    let before = "2026-03-28T12:00:00Z";
    assert_eq!(
        moments("30 2 * * *", "Europe/Berlin", before, 3),
        ["2026-03-29 03:00 +02", "2026-03-30 02:30 +02", "2026-03-31 02:30 +02"]
    );
    assert_eq!(
        moments("0,30 2,3 * * *", "Europe/Berlin", before, 3),
        ["2026-03-29 03:00 +02", "2026-03-29 03:30 +02", "2026-03-30 02:00 +02"],
        "three of them fall together"
    );
    assert_eq!(
        moments("15 2 8 3 *", "America/New_York", "2026-03-01T00:00:00Z", 2),
        ["2026-03-08 03:00 -04", "2027-03-08 02:15 -05"]
    );
    // Half an hour is left out on Lord Howe Island on 4 October 2026: 02:00 to 02:30.
    assert_eq!(
        moments("10 2 * * *", "Australia/Lord_Howe", "2026-10-03T00:00:00Z", 2),
        ["2026-10-04 02:30 +11", "2026-10-05 02:10 +11"]
    );
    // A whole day was left out in Samoa: 30 December 2011.
    assert_eq!(
        moments("0 12 * * *", "Pacific/Apia", "2011-12-29T12:00:00Z", 3),
        ["2011-12-29 12:00 -10", "2011-12-31 00:00 +14", "2011-12-31 12:00 +14"]
    );
}

#[test]
fn a_time_that_comes_twice_runs_at_its_first() {
    // Berlin shows 02:00 to 03:00 twice on 25 October 2026.
    assert_eq!(
        moments("30 2 * * *", "Europe/Berlin", "2026-10-24T12:00:00Z", 3),
        ["2026-10-25 02:30 +02", "2026-10-26 02:30 +01", "2026-10-27 02:30 +01"]
    );
    assert_eq!(
        moments("30 1,3 * * *", "Europe/Berlin", "2026-10-25T00:15:00Z", 2),
        ["2026-10-25 03:30 +01", "2026-10-26 01:30 +01"]
    );
    // Asked between the two.
    assert_eq!(
        moments("0-59 2 * * *", "Europe/Berlin", "2026-10-25T01:10:00Z", 1),
        ["2026-10-26 02:00 +01"]
    );
    assert_eq!(
        moments("15 1 * * *", "America/New_York", "2026-10-31T12:00:00Z", 2),
        ["2026-11-01 01:15 -04", "2026-11-02 01:15 -05"]
    );
    assert_eq!(
        moments("45 1 * * *", "Australia/Lord_Howe", "2026-04-03T18:00:00Z", 2),
        ["2026-04-05 01:45 +11", "2026-04-06 01:45 +10:30"]
    );
}

#[test]
fn with_a_star_moments_are_taken_as_they_come() {
    assert_eq!(
        moments("*/30 * * * *", "Europe/Berlin", "2026-03-29T00:15:00Z", 3),
        ["2026-03-29 01:30 +01", "2026-03-29 03:00 +02", "2026-03-29 03:30 +02"]
    );
    assert_eq!(
        moments("*/30 * * * *", "Europe/Berlin", "2026-10-24T23:45:00Z", 5),
        [
            "2026-10-25 02:00 +02",
            "2026-10-25 02:30 +02",
            "2026-10-25 02:00 +01",
            "2026-10-25 02:30 +01",
            "2026-10-25 03:00 +01"
        ]
    );
    assert_eq!(
        moments("0 * * * *", "Europe/Berlin", "2026-10-24T23:45:00Z", 3),
        ["2026-10-25 02:00 +02", "2026-10-25 02:00 +01", "2026-10-25 03:00 +01"]
    );
    assert_eq!(
        moments("*/30 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z", 2),
        ["2026-03-30 02:00 +02", "2026-03-30 02:30 +02"],
        "the hour is left out"
    );
    assert_eq!(
        moments("45 */1 * * *", "Australia/Lord_Howe", "2026-04-04T14:00:00Z", 3),
        ["2026-04-05 01:45 +11", "2026-04-05 01:45 +10:30", "2026-04-05 02:45 +10:30"]
    );
}

#[test]
fn intervals_keep_their_moments() {
    let table = Timetable::every(250, Wall(1_000));
    for (after, next) in [(0, 250), (999, 1_000), (1_000, 1_250), (1_249, 1_250), (9_999, 10_000)] {
        assert_eq!(table.next(Wall(after)), Some(Wall(next)));
    }
    assert!(Timetable::every(u64::MAX, Wall(1)).next(Wall(1)).is_none());
}

/// Each moment is the first minute after the one before that fits, by a walk over all minutes.
#[test]
fn moments_agree_with_a_walk_over_all_minutes() {
    let crons =
        ["*/7 * * * *", "13 */5 * * *", "0-59/20 1-3 * * *", "30 2 * 3,10 SUN", "5 0 1 * 6"];
    for zone in ["Europe/Berlin", "Australia/Lord_Howe"] {
        let Zone(rules) = Zone::find(zone).unwrap();
        for text in crons {
            let (cron, table) = (Cron::parse(text).unwrap(), timetable(text, zone));
            // Clocks change on 29 March and 25 October, and on 5 April and 4 October.
            for day in ["03-28", "04-03", "10-03", "10-24"] {
                let start = wall(&format!("2026-{day}T00:00:00Z")).0;
                let mut next = table.next(Wall(start)).unwrap().0;
                for minute in 1..3 * 24 * 60 {
                    let at = start + minute * 60_000;
                    let moment = Timestamp::from_millisecond(i64::try_from(at).unwrap()).unwrap();
                    let shown = rules.to_datetime(moment);
                    let first = rules.to_ambiguous_timestamp(shown).earlier().unwrap();
                    let fits = cron.fits(shown) && (cron.as_they_come || first == moment);
                    let early = next == at && !fits && !cron.as_they_come;
                    // The end of a gap.
                    assert!(fits == (next == at) || early, "{text} {zone} {shown}");
                    if next == at {
                        next = table.next(Wall(at)).unwrap().0;
                    }
                }
            }
        }
    }
}
