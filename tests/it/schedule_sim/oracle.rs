//! What schedules are, as `docs/schedules.md` says it.

use super::moments::Cron;
use crate::seeds::Seen;
use jiff::tz::TimeZone;
use std::collections::{BTreeMap, BTreeSet};

/// A clock that is set is noticed within this time.
const LOOK_MS: u64 = 60_000;

/// While nothing can be put, due schedules are looked at again after this time.
const HELD_LOOK_MS: u64 = 1_000;

/// A moment that is noticed later was missed.
const LATE_MS: u64 = 5_000;

/// The clock was set back by more than the two clocks differ of themselves.
const SET_BACK_MS: u64 = 1_000;

/// Moments of cron expressions come again if it was set back by more.
const AGAIN_MS: u64 = 3 * 3_600_000;

#[derive(Clone, Debug)]
pub(super) enum Timing {
    Cron(Box<Cron>, &'static str),
    EveryMs(u64),
}

impl Timing {
    fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Cron(one, zone), Self::Cron(two, other)) => {
                one.text() == two.text() && zone == other
            }
            (Self::EveryMs(one), Self::EveryMs(two)) => one == two,
            _ => false,
        }
    }
}

/// When the next moment is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Next {
    At(u64),
    /// So far ahead that no run comes there.
    Later,
    Never,
}

impl Next {
    fn is_due(self, wall: u64) -> bool {
        matches!(self, Self::At(at) if at <= wall)
    }
}

#[derive(Clone, Debug)]
pub(super) struct Schedule {
    pub(super) timing: Timing,
    pub(super) skips_overlap: bool,
    pub(super) skips_missed: bool,
    pub(super) paused: bool,
    pub(super) next: Next,
    /// The same as its record has it.
    recorded: Next,
    anchor: u64,
    pub(super) last_run: Option<(u64, u64)>,
}

impl Schedule {
    pub(super) fn new(timing: Timing, policies: [bool; 3]) -> Self {
        let [skips_overlap, skips_missed, paused] = policies;
        let (next, recorded) = (Next::Never, Next::Never);
        let (anchor, last_run) = (0, None);
        Self { timing, skips_overlap, skips_missed, paused, next, recorded, anchor, last_run }
    }

    pub(super) fn next_after(&self, wall: u64) -> Next {
        if self.paused {
            return Next::Never;
        }
        match &self.timing {
            &Timing::EveryMs(ms) => {
                // One step after the other would take days of an interval of 100 ms.
                let (wall, anchor, ms) =
                    (i128::from(wall), i128::from(self.anchor), i128::from(ms));
                let mut at = anchor + (wall - anchor) / ms * ms - ms;
                while at <= wall {
                    at += ms;
                }
                Next::At(u64::try_from(at).unwrap())
            }
            Timing::Cron(cron, zone) => match cron.next(wall, &zone_of(zone)) {
                Some(at) => Next::At(at),
                None => Next::Later,
            },
        }
    }
}

pub(super) fn zone_of(name: &str) -> TimeZone {
    jiff::tz::TimeZoneDatabase::bundled().get(name).unwrap()
}

/// A job that a schedule is to put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Put {
    Yes,
    No,
}

/// All schedules, and the unfinished jobs.
#[derive(Clone, Debug, Default)]
pub(super) struct Oracle {
    pub(super) schedules: BTreeMap<usize, Schedule>,
    pub(super) unfinished: BTreeSet<u64>,
    /// Moments pass: nothing can be put.
    pub(super) draining: bool,
    /// The last look while that was so.
    drained_at: u64,
    /// The last pass has written records of schedules.
    pub(super) rewritten: bool,
    /// A restart has found other moments than the records: they are written in the first pass.
    unrecorded: bool,
    /// The last look at both clocks, in milliseconds.
    looked: (u64, u64),
    /// When the clocks are looked at next, on the one that is never set.
    look_at: Option<u64>,
    pub(super) seen: Seen,
}

impl Oracle {
    pub(super) fn see(&mut self, what: &'static str) {
        *self.seen.entry(what).or_default() += 1;
    }

    /// After each change: when is the next look? At the next moment, and within a minute.
    pub(super) fn arm(&mut self, (mono, wall): (u64, u64)) {
        if self.look_at.is_none() {
            self.looked = (mono, wall);
        }
        let waits = self.schedules.values().filter_map(|schedule| match schedule.next {
            Next::At(at) if at <= wall && self.draining => Some(HELD_LOOK_MS),
            Next::At(at) => Some(at.saturating_sub(wall).min(LOOK_MS)),
            Next::Later => Some(LOOK_MS),
            Next::Never => None,
        });
        self.look_at = waits.min().map(|wait| mono + wait);
        if self.unrecorded {
            self.look_at = Some(mono);
        }
    }

    pub(super) fn set(&mut self, name: usize, schedule: Schedule, now: (u64, u64)) {
        let known = self.schedules.get(&name).cloned();
        let mut schedule = schedule;
        (schedule.anchor, schedule.last_run) = (now.1, None);
        self.see(if known.is_some() { "changed" } else { "made" });
        if let Some(known) = known {
            schedule.last_run = known.last_run;
            if known.timing.is_same(&schedule.timing) && known.paused == schedule.paused {
                (schedule.anchor, schedule.next) = (known.anchor, known.next);
                self.see("changed: its timing stays");
            }
        }
        if schedule.next == Next::Never {
            schedule.next = schedule.next_after(now.1);
        }
        if schedule.paused {
            self.see("paused");
        }
        schedule.recorded = schedule.next;
        self.schedules.insert(name, schedule);
        self.arm(now);
    }

    pub(super) fn remove(&mut self, name: usize, now: (u64, u64)) {
        if self.schedules.remove(&name).is_some() {
            self.see("removed");
            self.arm(now);
        }
    }

    /// The job of a schedule was put out of turn.
    pub(super) fn ran(&mut self, name: usize, id: u64, wall: u64) {
        let schedule = self.schedules.get_mut(&name).expect("it is there");
        schedule.last_run = Some((wall, id));
        schedule.recorded = schedule.next;
        let paused = schedule.paused;
        self.unfinished.insert(id);
        self.see(if paused { "run: a paused one" } else { "run" });
    }

    /// A pass. `put`: the schedules that are to put a job now.
    pub(super) fn pass(&mut self, now: (u64, u64)) -> Vec<usize> {
        self.rewritten = false;
        if self.look_at.is_none_or(|at| at > now.0) {
            return Vec::new();
        }
        if std::mem::take(&mut self.unrecorded) {
            self.rewritten = true;
            for schedule in self.schedules.values_mut() {
                schedule.recorded = schedule.next;
            }
        }
        let wall = now.1;
        let expected = self.looked.1 + (now.0 - self.looked.0);
        self.looked = now;
        let back = expected.saturating_sub(wall);
        if back > SET_BACK_MS {
            self.set_back(back, wall);
            self.drained_at = self.drained_at.min(wall);
        }
        if self.draining {
            self.drained_at = wall;
        }
        let due = |schedule: &Schedule| schedule.next.is_due(wall);
        let due = self.schedules.iter().filter(|(_, schedule)| due(schedule));
        let due: Vec<usize> = due.map(|(&name, _)| name).collect();
        let mut puts = Vec::new();
        for name in due {
            while !self.draining && self.schedules[&name].next.is_due(wall) {
                if self.fire(name, wall) == Put::Yes {
                    puts.push(name);
                }
            }
        }
        self.arm(now);
        puts
    }

    fn set_back(&mut self, back: u64, wall: u64) {
        let mut seen = Vec::new();
        for schedule in self.schedules.values_mut() {
            let is_cron = matches!(schedule.timing, Timing::Cron(..));
            let again = !is_cron || back > AGAIN_MS;
            self.rewritten |= again;
            if matches!(schedule.next, Next::Never) || schedule.next.is_due(wall) {
                if again {
                    schedule.recorded = schedule.next;
                }
                continue;
            }
            if !again {
                seen.push("a clock that is set back: a cron expression waits");
                continue;
            }
            schedule.next = schedule.next_after(wall);
            schedule.recorded = schedule.next;
            seen.push(if is_cron {
                "a clock that is set back: by hours"
            } else {
                "a clock that is set back: intervals go on"
            });
        }
        for what in seen {
            self.see(what);
        }
    }

    fn is_missed(&self, at: u64, wall: u64) -> bool {
        wall - at > LATE_MS || at <= self.drained_at || self.draining
    }

    /// The newest moment up to now, if it was not missed.
    fn newest_in_time(&self, schedule: &Schedule, wall: u64) -> Option<u64> {
        let mut newest = None;
        let mut next = schedule.next_after(wall.saturating_sub(LATE_MS + 1));
        while let Next::At(at) = next
            && at <= wall
        {
            newest = Some(at);
            next = schedule.next_after(at);
        }
        newest.filter(|&at| !self.is_missed(at, wall))
    }

    /// The first moment that is shown of a schedule.
    pub(super) fn first_shown(&self, name: usize, wall: u64) -> Next {
        let schedule = &self.schedules[&name];
        match schedule.next {
            Next::At(at) if at <= wall && schedule.skips_missed && self.is_missed(at, wall) => {
                match self.newest_in_time(schedule, wall) {
                    Some(_) => Next::At(wall),
                    None => schedule.next_after(wall),
                }
            }
            Next::At(at) => Next::At(at.max(wall)),
            next => next,
        }
    }

    fn fire(&mut self, name: usize, wall: u64) -> Put {
        let Next::At(at) = self.schedules[&name].next else { panic!("it is due") };
        let missed = self.is_missed(at, wall);
        let in_time = self.newest_in_time(&self.schedules[&name], wall);
        let unfinished = &self.unfinished;
        let schedule = self.schedules.get_mut(&name).expect("it is due");
        let is_unfinished = schedule.last_run.is_some_and(|(_, id)| unfinished.contains(&id));
        let in_time = in_time.filter(|_| missed && schedule.skips_missed);
        schedule.next = in_time.map_or_else(|| schedule.next_after(wall), Next::At);
        schedule.recorded = schedule.next;
        self.rewritten = true;
        let mut what = "a moment";
        if let Timing::Cron(cron, zone) = &schedule.timing {
            let (minute, zone) = (at / 60_000, zone_of(zone));
            what = cron.why(minute, &zone).expect("it was a moment");
            if Cron::is_shown_twice(minute, &zone) {
                what = "a moment that was shown twice";
            }
        }
        let (what, put) = if missed && schedule.skips_missed {
            let newest_comes = in_time.is_some();
            let what = ["a moment passes: it was missed", "a moment passes: the newest is in time"];
            (what[usize::from(newest_comes)], Put::No)
        } else if schedule.skips_overlap && is_unfinished {
            ("a moment passes: the last job is unfinished", Put::No)
        } else {
            (if missed { "a moment that was missed" } else { what }, Put::Yes)
        };
        self.see(what);
        put
    }

    /// A schedule has put this job at its moment.
    pub(super) fn put(&mut self, name: usize, id: u64, wall: u64) {
        self.schedules.get_mut(&name).expect("it is there").last_run = Some((wall, id));
        self.unfinished.insert(id);
    }

    /// The server is started again.
    pub(super) fn restart(&mut self, now: (u64, u64)) {
        let (wall, mut seen) = (now.1, vec!["a restart"]);
        self.unrecorded = false;
        for schedule in self.schedules.values_mut() {
            let is_set_back = match schedule.timing {
                Timing::EveryMs(ms) => {
                    matches!(schedule.recorded, Next::At(at) if at.saturating_sub(wall) > ms)
                }
                Timing::Cron(..) => match schedule.last_run {
                    Some((at, _)) => at.saturating_sub(wall) > AGAIN_MS,
                    None => match (schedule.next_after(wall), schedule.recorded) {
                        (Next::At(next), Next::At(recorded)) => next < recorded,
                        _ => false,
                    },
                },
            };
            let missed = schedule.recorded.is_due(wall);
            if missed {
                let passes = schedule.skips_missed;
                let what = ["a restart: a moment was missed", "a restart: a missed moment passes"];
                seen.push(what[usize::from(passes)]);
            }
            let keeps = if missed { !schedule.skips_missed } else { !is_set_back };
            let keeps = keeps && schedule.recorded != Next::Never;
            schedule.next = if keeps { schedule.recorded } else { schedule.next_after(wall) };
            self.unrecorded |= schedule.next != schedule.recorded;
        }
        for what in seen {
            self.see(what);
        }
        (self.draining, self.drained_at) = (false, 0);
        self.look_at = None;
        self.arm(now);
    }
}
