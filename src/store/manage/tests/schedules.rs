//! Schedules: when they fire, clocks that are set, and restarts.

use super::*;
use crate::base::api_limits::{MOMENT_MISSED_AFTER_MS, SCHEDULES_MAX, SCHEDULES_PER_PASS};
use crate::base::time::Mono;
use crate::model::job::OwnedPriority;
use crate::model::manage::{JobDetails, NewJob, NewKey, OnDuplicate, PutOutcome, RunReport};
use crate::model::rejection::Rejection;
use crate::model::schedule::{
    Schedule, ScheduleCommand, ScheduleDetails, ScheduleReply, ScheduleState, Timing,
};
use crate::model::snapshot::Record;
use crate::store::{DirtyRecord, RecordKey, ScheduleHold};
use std::time::Duration;

const MINUTE: u64 = 60_000;
const HOUR: u64 = 60 * MINUTE;

/// 2023-11-14T22:13:20Z, what the harness begins with.
const START: u64 = 1_700_000_000_000;

fn schedule(name: &str, timing: Timing) -> Schedule {
    let job = NewJob {
        priority: OwnedPriority::Number(0),
        encoding: Encoding::Json,
        payload: b"{}"[..].into(),
        options: JobOptions::default(),
        key: None,
        dependencies: None,
    };
    Schedule {
        name: name.as_bytes().into(),
        timing,
        timezone: "UTC".into(),
        queue: b"q"[..].into(),
        job,
        job_text: "{\"payload\":{}}".into(),
        skips_overlap: false,
        skips_missed: false,
        paused: false,
    }
}

fn cron(text: &str) -> Schedule {
    schedule("s", Timing::Cron(text.into()))
}

fn every(ms: u64) -> Schedule {
    schedule("s", Timing::EveryMs(ms))
}

impl Harness {
    fn ask(&mut self, command: ScheduleCommand<'_>) -> ScheduleReply {
        match self.manage(ManageCommand::Schedule(command)).remove(0) {
            Answer::Manage(ManageReply::Schedule(reply)) => *reply,
            other => panic!("{other:?}"),
        }
    }

    fn set(&mut self, schedule: &Schedule) -> ScheduleDetails {
        match self.ask(ScheduleCommand::Set { schedule }) {
            ScheduleReply::Schedule { details, .. } => *details,
            other => panic!("{other:?}"),
        }
    }

    fn show(&mut self) -> ScheduleDetails {
        match self.ask(ScheduleCommand::Show { name: b"s" }) {
            ScheduleReply::Schedule { details, made: false } => *details,
            other => panic!("{other:?}"),
        }
    }

    fn run(&mut self) -> Box<JobDetails> {
        let run = ScheduleCommand::Run { name: b"s" };
        match self.manage(ManageCommand::Schedule(run)).remove(0) {
            Answer::Manage(ManageReply::Job(job)) => job,
            other => panic!("{other:?}"),
        }
    }

    /// Both clocks go on, and passes run as deadlines come.
    pub(super) fn go_on(&mut self, ms: u64) {
        let end = self.now.mono.after(Duration::from_millis(ms));
        let end_wall = self.now.wall.0 + ms;
        while let Some(at) = self.store.next_deadline().filter(|&at| at <= end) {
            let passed = at.0.saturating_sub(self.now.mono.0);
            self.now.mono = Mono(self.now.mono.0 + passed);
            let ahead = u64::try_from(end.until(self.now.mono).as_millis()).unwrap();
            self.now.wall.0 = end_wall - ahead;
            self.pass();
        }
        self.now = Now { mono: end, wall: Wall(end_wall) };
    }

    fn jobs(&self) -> usize {
        self.store.counts().jobs
    }

    /// The server is started again, `ms` later: the records that schedules and jobs have.
    fn restart(&mut self, ms: u64) {
        let mut store = Store::new(4);
        let now = Now { mono: Mono(5), wall: Wall(self.now.wall.0 + ms) };
        for (_, job) in self.store.jobs.iter() {
            let slot = self.store.slot(JobId(job.id())).unwrap();
            store.restore(&self.store.snapshot(slot), now);
        }
        for id in self.store.schedules.record_ids().collect::<Vec<_>>() {
            let place = self.store.schedules.find(id).unwrap();
            match self.store.base_record(RecordKey::Schedule(place)) {
                Record::Schedule(id, schedule, state) => {
                    store.restore_schedule(id, schedule.into_owned(), state);
                }
                other => panic!("{other:?}"),
            }
        }
        store.finish_restore(now);
        store.begin_pass();
        (self.store, self.now) = (store, now);
        self.store.check_invariants();
    }
}

fn walls(details: &ScheduleDetails) -> Vec<u64> {
    details.next_runs.iter().map(|at| at.0 - START).collect()
}

#[test]
fn schedule_puts_its_job_at_its_moments() {
    let mut harness = Harness::new(100);
    let details = harness.set(&every(1_000));
    assert_eq!(walls(&details), [1_000, 2_000, 3_000, 4_000, 5_000]);
    harness.go_on(999);
    assert_eq!((harness.jobs(), harness.show().last_run), (0, None));
    harness.go_on(1);
    let shown = harness.show();
    assert_eq!(harness.jobs(), 1);
    assert_eq!(shown.last_run, Some((Wall(START + 1_000), JobId(1))));
    assert_eq!(walls(&shown)[0], 2_000);
    harness.go_on(60_000);
    assert_eq!(harness.jobs(), 61);
    harness.set(&cron("*/5 * * * *"));
    assert_eq!(harness.show().last_run.unwrap().1, JobId(61), "the last run stays");
    harness.go_on(HOUR);
    assert_eq!(harness.jobs(), 61 + 12);
    assert_eq!(harness.ask(ScheduleCommand::Remove { name: b"s" }), ScheduleReply::Removed);
    assert_eq!(harness.ask(ScheduleCommand::Remove { name: b"s" }), ScheduleReply::Missing);
    harness.go_on(HOUR);
    assert_eq!((harness.jobs(), harness.store.counts().deadlines), (61 + 12, 0));
}

#[test]
fn record_is_written_with_the_job() {
    let mut harness = Harness::new(100);
    harness.set(&every(1_000));
    harness.fx = Effects::with_changes();
    harness.now.mono = harness.now.mono.after(Duration::from_secs(1));
    harness.now.wall.0 += 1_000;
    harness.store.expire(10, harness.now, &mut harness.fx);
    let dirty: Vec<_> = harness.fx.changes.iter().collect();
    assert!(matches!(
        dirty[..],
        [
            DirtyRecord::Put(RecordKey::Job(_), JobId(1)),
            DirtyRecord::Put(RecordKey::Schedule(_), _)
        ]
    ));
}

#[test]
fn setting_the_same_timing_again_keeps_its_moments() {
    let mut harness = Harness::new(100);
    harness.set(&every(1_000));
    harness.go_on(600);
    let changed = Schedule { queue: b"other"[..].into(), ..every(1_000) };
    assert_eq!(walls(&harness.set(&changed))[0], 1_000);
    assert_eq!(walls(&harness.set(&every(500)))[0], 1_100);
}

#[test]
fn paused_schedule_puts_nothing_but_when_it_is_run() {
    let mut harness = Harness::new(100);
    let paused = Schedule { paused: true, ..every(1_000) };
    assert_eq!(harness.set(&paused).next_runs, []);
    harness.go_on(HOUR);
    assert_eq!(harness.jobs(), 0);
    let job = harness.run();
    assert_eq!((&*job.queue, harness.jobs()), (&b"q"[..], 1));
    assert_eq!(harness.show().last_run, Some((harness.now.wall, job.id)));
    let details = harness.set(&every(1_000));
    assert_eq!(details.next_runs[0].0, harness.now.wall.0 + 1_000, "what has passed is no moment");
    assert_eq!(harness.ask(ScheduleCommand::Run { name: b"none" }), ScheduleReply::Missing);
}

#[test]
fn overlap_skips_while_the_last_job_is_unfinished() {
    let mut harness = Harness::new(100);
    harness.set(&Schedule { skips_overlap: true, ..every(1_000) });
    harness.go_on(5_000);
    assert_eq!(harness.jobs(), 1);
    assert_eq!(harness.reserve(&[b"q"], Wait::No), [Answer::Job(1)]);
    harness.go_on(5_000);
    assert_eq!(harness.jobs(), 1, "reserved is unfinished");
    let bury = Command::Bury { id: JobId(1), lease: None };
    harness.apply(1, &bury);
    harness.go_on(5_000);
    assert_eq!(harness.jobs(), 1, "buried is unfinished");
    harness.apply(1, &Command::Delete { id: JobId(1) });
    assert_eq!(harness.jobs(), 0);
    harness.go_on(1_000);
    assert_eq!(harness.show().last_run.unwrap().1, JobId(2));
    // A completed job that is kept for its result is finished.
    let mut keeps = Schedule { skips_overlap: true, ..every(1_000) };
    keeps.job.options.result_retention_ms = HOUR;
    harness.set(&keeps);
    harness.apply(1, &Command::Delete { id: JobId(2) });
    harness.go_on(1_000);
    assert_eq!(harness.reserve(&[b"q"], Wait::No), [Answer::Job(3)]);
    let report = RunReport::Complete { result: None };
    let report = ManageCommand::Report { id: JobId(3), token: None, report: &report };
    harness.apply(1, &Command::Manage(report));
    harness.go_on(1_000);
    assert_eq!((harness.jobs(), harness.show().last_run.unwrap().1), (2, JobId(4)));
}

#[test]
fn clock_that_is_set_forward_is_noticed_within_a_minute() {
    for (skips_missed, jobs) in [(false, 1), (true, 0)] {
        let mut harness = Harness::new(100);
        harness.set(&Schedule { skips_missed, ..cron("0 * * * *") });
        harness.go_on(10);
        harness.now.wall.0 += 5 * HOUR;
        harness.go_on(MINUTE);
        assert_eq!(harness.jobs(), jobs, "one for five");
        harness.go_on(HOUR);
        assert_eq!(harness.jobs(), jobs + 1);
    }
}

#[test]
fn clock_that_is_set_back_repeats_no_moment_and_stops_no_interval() {
    let mut harness = Harness::new(100);
    harness.set(&cron("*/10 * * * *"));
    harness.set(&schedule("i", Timing::EveryMs(MINUTE)));
    let jobs = |harness: &Harness| {
        let cron = harness.store.schedules.by_name_for_tests(b"s");
        (harness.jobs() as u64, cron.last_run.map(|(at, _)| at.0 - START))
    };
    // It is 22:13:20: at 22:20 and 22:30.
    harness.go_on(20 * MINUTE);
    assert_eq!(jobs(&harness), (22, Some(1_000 * (16 * 60 + 40))));
    harness.now.wall.0 -= HOUR;
    harness.go_on(30 * MINUTE);
    let (after, last) = jobs(&harness);
    assert!((22 + 28..=22 + 30).contains(&after), "the interval goes on: {after}");
    assert_eq!(last, Some(1_000 * (16 * 60 + 40)), "no moment comes twice");
    harness.go_on(40 * MINUTE);
    assert_eq!(jobs(&harness).1, Some(1_000 * (26 * 60 + 40)), "it goes on where it was");
    // By more than some hours: moments come again.
    harness.now.wall.0 -= 48 * HOUR;
    harness.go_on(12 * MINUTE);
    let last = harness.show().last_run.unwrap().0;
    assert!(harness.now.wall.0 - last.0 < 11 * MINUTE, "it runs by the new clock");
}

#[test]
fn moment_that_is_computed_again_is_recorded() {
    let mut harness = Harness::new(100);
    harness.set(&cron("0 0,6,12,18 * * *"));
    harness.go_on(MINUTE);
    harness.now.wall.0 -= 24 * HOUR;
    harness.now.mono = harness.now.mono.after(Duration::from_mins(1));
    harness.fx = Effects::with_changes();
    harness.store.expire(10, harness.now, &mut harness.fx);
    let dirty: Vec<_> = harness.fx.changes.iter().collect();
    assert!(matches!(dirty[..], [DirtyRecord::Put(RecordKey::Schedule(_), _)]), "{dirty:?}");
    let next = harness.show().next_runs[0].0;
    assert!(next - harness.now.wall.0 <= 6 * HOUR, "a moment of the new clock");
}

#[test]
fn restart_keeps_everything_and_makes_up_for_missed_moments() {
    for (skips_missed, jobs) in [(false, 2), (true, 1)] {
        let mut harness = Harness::new(100);
        harness.set(&Schedule { skips_missed, ..every(10_000) });
        harness.go_on(10_000);
        let (before, id) = (harness.show(), harness.store.schedules.record_ids().next());
        harness.restart(1_000);
        assert_eq!((harness.show(), harness.store.schedules.record_ids().next()), (before, id));
        harness.go_on(8_999);
        assert_eq!(harness.jobs(), 1, "nothing was missed");
        harness.restart(45_000);
        harness.go_on(10);
        assert_eq!(harness.jobs(), jobs, "one for five");
        harness.go_on(10_000);
        assert_eq!(harness.jobs(), jobs + 1);
        // Less than what is noticed late while the server runs.
        harness.go_on(9_990 - (harness.now.wall.0 - START) % 10_000);
        let jobs = harness.jobs();
        harness.restart(MOMENT_MISSED_AFTER_MS / 2);
        harness.go_on(1);
        assert_eq!(harness.jobs(), jobs + usize::from(!skips_missed));
    }
}

#[test]
fn restart_with_a_clock_that_was_set_back_stops_no_schedule() {
    let mut harness = Harness::new(100);
    harness.now.wall.0 += 100 * 24 * HOUR;
    harness.set(&cron("0 * * * *"));
    harness.set(&schedule("i", Timing::EveryMs(HOUR)));
    harness.go_on(HOUR);
    assert_eq!(harness.jobs(), 2);
    harness.now.wall.0 = START;
    harness.restart(0);
    harness.go_on(HOUR);
    assert_eq!(harness.jobs(), 4);
}

#[test]
fn held_schedules_are_made_up_for() {
    for (skips_missed, jobs) in [(false, 1), (true, 0)] {
        let mut harness = Harness::new(100);
        harness.set(&Schedule { skips_missed, ..every(MINUTE) });
        harness.go_on(MINUTE - 1);
        assert_eq!(harness.store.due_schedule_bytes(harness.now), None);
        harness.store.hold_schedules(ScheduleHold::NoSpace(Rejection::DiskFull));
        harness.go_on(5 * MINUTE + 30_000);
        assert_eq!(harness.jobs(), 0);
        assert!(harness.store.due_schedule_bytes(harness.now).is_some());
        harness.store.hold_schedules(ScheduleHold::No);
        harness.go_on(2_000);
        assert_eq!(harness.jobs(), jobs);
    }
}

/// However soon that ends after the moment.
#[test]
fn moment_that_has_come_while_the_server_was_drained_is_missed() {
    for (skips_missed, jobs) in [(false, 1), (true, 0)] {
        let mut harness = Harness::new(100);
        harness.set(&Schedule { skips_missed, ..every(MINUTE) });
        harness.store.hold_schedules(ScheduleHold::Drained);
        harness.go_on(MINUTE + 1_500);
        harness.store.hold_schedules(ScheduleHold::No);
        harness.go_on(2_000);
        assert_eq!(harness.jobs(), jobs);
        harness.go_on(MINUTE);
        assert_eq!(harness.jobs(), jobs + 1, "the next moment is none of those");
    }
}

#[test]
fn moment_that_is_passed_over_is_not_shown_as_the_next() {
    let late = MOMENT_MISSED_AFTER_MS + 1;
    for (hold, skips_missed, after, passes) in [
        (ScheduleHold::Drained, false, 200, false),
        (ScheduleHold::Drained, true, 200, true),
        (ScheduleHold::NoSpace(Rejection::DiskFull), true, 200, false),
        (ScheduleHold::NoSpace(Rejection::DiskFull), true, late, true),
        (ScheduleHold::NoSpace(Rejection::DiskFull), false, late, false),
    ] {
        let mut harness = Harness::new(100);
        // The moment of another schedule comes just before: the clocks are not looked at again.
        harness.set(&schedule("before", Timing::EveryMs(MINUTE)));
        harness.go_on(300);
        harness.set(&Schedule { skips_missed, ..every(MINUTE) });
        harness.store.hold_schedules(hold);
        harness.go_on(MINUTE + after);
        let first = 300 + MINUTE;
        let next = if passes { first + MINUTE } else { first + after };
        assert_eq!(walls(&harness.show())[0], next, "{hold:?} {skips_missed} {after}");
    }
}

#[test]
fn rejected_put_of_a_moment_is_shown_until_a_job_is_put() {
    let mut harness = Harness::new(100);
    let mut keyed = every(MINUTE);
    let key = NewKey { bytes: b"k"[..].into(), ttl_ms: 0, on_duplicate: OnDuplicate::Reject };
    keyed.job.key = Some(Box::new(key));
    assert_eq!(harness.set(&keyed).last_failure, None);
    harness.go_on(MINUTE);
    let first = harness.show();
    let (at, id) = first.last_run.unwrap();
    assert_eq!((at.0 - START, first.last_failure), (MINUTE, None));
    harness.go_on(MINUTE);
    let second = harness.show();
    assert_eq!(second.last_run, first.last_run);
    let failure = (Wall(START + 2 * MINUTE), PutOutcome::KeyTaken(id));
    assert_eq!(second.last_failure, Some(failure));
    harness.apply(0, &Command::Delete { id });
    assert_eq!(harness.show().last_failure, Some(failure));
    harness.go_on(MINUTE);
    assert_eq!(harness.show().last_failure, None);
}

#[test]
fn many_schedules_fire_a_bounded_number_in_each_pass() {
    let mut harness = Harness::new(100);
    let many = 3 * SCHEDULES_PER_PASS;
    for number in 0..many {
        harness.set(&schedule(&format!("{number:03}"), Timing::Cron("0 * * * *".into())));
    }
    let ahead = HOUR - START % HOUR;
    harness.now.mono = harness.now.mono.after(Duration::from_millis(ahead));
    harness.now.wall.0 += ahead;
    for passes in 1..=3 {
        harness.pass();
        assert_eq!(harness.jobs(), passes * SCHEDULES_PER_PASS);
        harness.now.mono.0 += 1;
    }
    let (mut names, mut behind) = (Vec::new(), None::<Box<[u8]>>);
    loop {
        let list = ScheduleCommand::List { behind: behind.as_deref(), limit: 50 };
        let ScheduleReply::Page { schedules, next } = harness.ask(list) else { panic!() };
        assert!(schedules.len() <= 50);
        names.extend(schedules.into_iter().map(|details| details.schedule.name));
        behind = next;
        if behind.is_none() {
            break;
        }
    }
    assert_eq!(names.len(), many);
    assert!(names.is_sorted());
}

#[test]
fn there_are_at_most_so_many_schedules() {
    let mut store = Store::new(3);
    let now = Now { mono: Mono(1), wall: Wall(START) };
    for id in 0..SCHEDULES_MAX as u64 {
        let state = ScheduleState { anchor: Wall(START), ..ScheduleState::default() };
        let schedule = schedule(&id.to_string(), Timing::EveryMs(MINUTE));
        store.restore_schedule(JobId(1_000_000 + id), schedule, state);
    }
    store.finish_restore(now);
    let mut harness = Harness { store, now, ..Harness::new(100) };
    let one_more = schedule("more", Timing::EveryMs(MINUTE));
    let set = ScheduleCommand::Set { schedule: &one_more };
    assert_eq!(harness.ask(set), ScheduleReply::TooMany);
    let known = schedule("7", Timing::EveryMs(HOUR));
    harness.set(&known);
}
