//! One run: one program after another over one disk, and two clocks, one of which is set.

use super::messages::{details_of, for_engine};
use super::moments::Cron;
use super::oracle::{Next, Oracle, Schedule, Timing};
use crate::journal::disk::{End, SimDisk};
use crate::rng::TestRng;
use crate::seeds::{self, Seen};
use jobcentre::base::strings::StringList;
use jobcentre::base::time::{Mono, Now, Wall};
use jobcentre::engine::{CommandExecutor, Engine};
use jobcentre::journal::{JournalOptions, SyncMode};
use jobcentre::model::command::{Command, Wait};
use jobcentre::model::id::{ClientId, JobId, Ticket};
use jobcentre::model::job::{Encoding, Payload};
use jobcentre::model::manage::{ManageCommand, ManageReply};
use jobcentre::model::reply::Reply;
use jobcentre::model::schedule::{ScheduleCommand, ScheduleDetails, ScheduleReply};
use std::collections::BTreeSet;

const SECOND: u64 = 1_000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;

/// No run is longer: see `HORIZON_MINUTES`.
const LONGEST: u64 = 7 * 24 * HOUR;

/// The longest wait for a moment: also if the clock is set back by a day, it ends within the
/// horizon.
const LONGEST_WAIT: u64 = 18 * 24 * HOUR;

/// Each schedule has its own queue, of its name.
const NAMES: [&[u8]; 5] = [b"a", b"b", b"c", b"d", b"e"];

/// Hours before a change of summer time in 2026 and later, in seconds since 1970, with a zone.
const CHANGES: [(u64, &str); 8] = [
    // 29 March 2026, 01:00 UTC.
    (1_774_746_000, "Europe/Berlin"),
    // 25 October 2026, 01:00 UTC.
    (1_792_890_000, "Europe/Berlin"),
    // 8 March 2026, 07:00 UTC; 1 November 2026, 06:00 UTC.
    (1_772_953_200, "America/New_York"),
    (1_793_512_800, "America/New_York"),
    // 4 April 2026, 15:00 UTC; 3 October 2026, 15:30 UTC: half an hour.
    (1_775_314_800, "Australia/Lord_Howe"),
    (1_791_041_400, "Australia/Lord_Howe"),
    // 24 April 2026, at midnight; 29 October 2026.
    (1_776_981_600, "Africa/Cairo"),
    (1_793_307_600, "Africa/Cairo"),
];

const JUMPS: [u64; 7] = [500, 3 * SECOND, 90 * SECOND, 30 * MINUTE, 2 * HOUR, 5 * HOUR, 26 * HOUR];

/// What the engine says.
#[derive(Debug)]
enum Said {
    Manage(ManageReply),
    Job(JobId),
    Done,
    Nothing,
}

pub(super) struct Simulation {
    rng: TestRng,
    disk: SimDisk,
    options: JournalOptions,
    engine: Option<Engine>,
    oracle: Oracle,
    /// Before what is not durable yet.
    durable: Oracle,
    /// Of the clock that is never set, in milliseconds.
    mono: u64,
    wall: u64,
    end: u64,
    /// Two passes never have the same moment.
    passes: u64,
    serial: u32,
    zone: &'static str,
    /// Jobs that were put: when, by which schedule, and which.
    puts: Vec<(u64, usize, u64)>,
    /// All jobs that were ever seen, and those that are there.
    known: BTreeSet<u64>,
    jobs: usize,
}

impl Simulation {
    pub(super) fn play(seed: u64) -> Self {
        let mut simulation = Self::new(seed);
        simulation.start();
        for _ in 0..60 {
            if simulation.wall > simulation.end {
                break;
            }
            simulation.something();
            simulation.engine().check_invariants();
        }
        simulation
    }

    pub(super) fn seen(self) -> Seen {
        self.oracle.seen
    }

    pub(super) fn told(self) -> Vec<(u64, usize, u64)> {
        self.puts
    }

    fn new(seed: u64) -> Self {
        let mut rng = TestRng::new(seed);
        let (change, zone) = *rng.pick(&CHANGES);
        // Most begin some hours before the change, others at any time.
        let wall = if rng.percent(85) {
            let hours = *rng.pick(&[2, 4, 30]);
            change * SECOND - rng.below(hours * 3_600_000) as u64
        } else {
            (1_700_000_000 + rng.below(900_000_000) as u64) * SECOND
        };
        let options =
            JournalOptions { segment_bytes: 65_536, sync: SyncMode::Always, salt: rng.seed() };
        let disk = SimDisk::new(rng.seed());
        Self {
            rng,
            disk,
            options,
            engine: None,
            oracle: Oracle::default(),
            durable: Oracle::default(),
            mono: 1_000,
            wall,
            end: wall + LONGEST,
            passes: 0,
            serial: 0,
            zone,
            puts: Vec::new(),
            known: BTreeSet::new(),
            jobs: 0,
        }
    }

    fn engine(&mut self) -> &mut Engine {
        self.engine.as_mut().expect("it runs")
    }

    fn clocks(&self) -> (u64, u64) {
        (self.mono, self.wall)
    }

    fn now(&self) -> Now {
        Now { mono: Mono(self.mono * 1_000_000 + self.passes), wall: Wall(self.wall) }
    }

    fn start(&mut self) {
        self.passes += 1;
        let now = self.now();
        self.engine = Some(self.disk.start_engine(&self.options, 3, now));
        self.settle();
        self.passes_that_are_due();
    }

    /// Everything becomes durable. Returns the last answer.
    fn settle(&mut self) -> Option<Said> {
        let (now, mut last) = (self.now(), None);
        for _ in 0..8 {
            let disk = self.disk.clone();
            let engine = self.engine();
            engine.commit(now);
            disk.work(20);
            engine.commit(now);
            while let Some(completion) = engine.poll_completion() {
                last = Some(match completion.reply {
                    Reply::Manage(reply) => Said::Manage(reply.clone()),
                    Reply::Job(job) => Said::Job(job.id),
                    Reply::Done => Said::Done,
                    Reply::NoJob => Said::Nothing,
                    other => panic!("{other:?}"),
                });
            }
        }
        self.durable = self.oracle.clone();
        last
    }

    fn ask(&mut self, command: &Command<'_>) -> Said {
        self.passes += 1;
        self.serial += 1;
        let ticket = Ticket { client: ClientId { index: 0, generation: 1 }, serial: self.serial };
        let now = self.now();
        self.engine().submit(ticket, command, now);
        // A compaction may be under way.
        (0..20).find_map(|_| self.settle()).expect("it is answered")
    }

    fn ask_schedule(&mut self, command: ScheduleCommand<'_>) -> ManageReply {
        match self.ask(&Command::Manage(ManageCommand::Schedule(command))) {
            Said::Manage(reply) => reply,
            other => panic!("{other:?}"),
        }
    }

    /// One pass: schedules put their jobs.
    fn pass(&mut self) {
        self.passes += 1;
        let now = self.now();
        self.engine().expire(now);
        let expected = self.oracle.pass(self.clocks());
        for &name in &expected {
            let id = self.new_job(name);
            self.oracle.put(name, id, self.wall);
            self.puts.push((self.wall, name, id));
            seeds::say(|| format!("{:?} puts {id}", NAMES[name].escape_ascii().to_string()));
        }
        let there = self.engine().counts().jobs;
        assert_eq!(there, self.jobs, "jobs at {} ({:?})", self.wall, self.oracle.schedules);
        if !self.oracle.rewritten {
            let now = self.now();
            return self.engine().commit(now);
        }
        if self.rng.percent(5) {
            self.crash();
        } else {
            self.settle();
        }
    }

    /// The one job of a queue that was not seen before.
    fn new_job(&mut self, name: usize) -> u64 {
        let known = std::mem::take(&mut self.known);
        let jobs = self.engine().snapshots();
        let new = jobs.filter(|job| job.queue == NAMES[name] && !known.contains(&job.id.0));
        let new: Vec<u64> = new.map(|job| job.id.0).collect();
        self.known = known;
        let wall = self.wall;
        assert_eq!(new.len(), 1, "jobs of {name} at {wall}: {:?}", self.oracle.schedules[&name]);
        self.known.insert(new[0]);
        self.jobs += 1;
        new[0]
    }

    fn passes_that_are_due(&mut self) {
        for _ in 0..1_000 {
            let (next, now) = (self.engine().poll_timeout(), self.now().mono);
            if next.is_none_or(|at| at.0 > now.0 + 1) {
                return;
            }
            self.pass();
        }
        panic!("something is always due");
    }

    /// Both clocks go on, with a pass whenever something is due.
    fn go_on(&mut self, ms: u64) {
        let end = self.mono + ms;
        // A crash may last longer.
        while self.mono < end {
            self.passes_that_are_due();
            let next = self.engine().poll_timeout().map_or(end, |at| at.0 / 1_000_000);
            let at = next.min(end).max(self.mono);
            self.wall += at - self.mono;
            self.mono = at;
            if at == end {
                return self.passes_that_are_due();
            }
            self.pass();
        }
    }

    fn something(&mut self) {
        match self.rng.below(20) {
            0..4 => self.set(),
            4 => self.remove(),
            5 => self.run(),
            6 | 7 => self.finish_last(),
            8 | 9 => self.set_clock(),
            10 => self.restart(),
            11 => self.drain(),
            12..14 => self.show(),
            _ => {
                let ms = match self.rng.below(8) {
                    0 => self.rng.below(2_000) as u64,
                    1 | 2 => self.rng.below(300_000) as u64,
                    3 | 4 => self.until_next(),
                    5 | 6 => self.rng.below(8 * 3_600_000) as u64,
                    _ => self.rng.below(30 * 3_600_000) as u64,
                };
                seeds::say(|| format!("{ms} ms pass"));
                self.go_on(ms);
            }
        }
    }

    /// How long it is to the next moment, or nearly.
    fn until_next(&mut self) -> u64 {
        let nexts = self.oracle.schedules.values().filter_map(|schedule| match schedule.next {
            Next::At(at) => at.checked_sub(self.wall),
            _ => None,
        });
        let wait = nexts.min().unwrap_or(MINUTE).min(LONGEST_WAIT);
        (wait + self.rng.below(3) as u64).saturating_sub(1)
    }

    fn a_name(&mut self) -> usize {
        self.rng.below(NAMES.len())
    }

    fn set(&mut self) {
        let name = self.a_name();
        let known = self.oracle.schedules.get(&name).map(|known| known.timing.clone());
        let timing = match known {
            Some(timing) if self.rng.percent(30) => timing,
            // A short interval would fire all the time.
            _ if self.rng.percent(30) => {
                let ms = *self.rng.pick(&[10 * MINUTE, HOUR, 5 * HOUR + 1, 100 * SECOND]);
                Timing::EveryMs(ms)
            }
            _ => {
                let zone = if self.rng.percent(80) { self.zone } else { "UTC" };
                Timing::Cron(Box::new(Cron::draw(&mut self.rng)), zone)
            }
        };
        let policies = [self.rng.percent(30), self.rng.percent(40), self.rng.percent(15)];
        let model = Schedule::new(timing, policies);
        let schedule = for_engine(NAMES[name], &model);
        seeds::say(|| format!("at {}: set {name} {model:?}", self.wall));
        let reply = self.ask_schedule(ScheduleCommand::Set { schedule: &schedule });
        let known = self.oracle.schedules.contains_key(&name);
        let (details, made) = details_of(reply);
        assert_eq!(made, !known);
        self.oracle.set(name, model, self.clocks());
        self.compare(name, &details);
        self.durable = self.oracle.clone();
    }

    fn remove(&mut self) {
        let name = self.a_name();
        let reply = self.ask_schedule(ScheduleCommand::Remove { name: NAMES[name] });
        let known = self.oracle.schedules.contains_key(&name);
        let expected = if known { ScheduleReply::Removed } else { ScheduleReply::Missing };
        assert_eq!(reply, ManageReply::Schedule(Box::new(expected)));
        self.oracle.remove(name, self.clocks());
        self.durable = self.oracle.clone();
    }

    fn run(&mut self) {
        let name = self.a_name();
        match self.ask_schedule(ScheduleCommand::Run { name: NAMES[name] }) {
            ManageReply::Job(job) => {
                self.known.insert(job.id.0);
                self.jobs += 1;
                self.oracle.ran(name, job.id.0, self.wall);
            }
            ManageReply::Schedule(reply) => {
                assert_eq!(*reply, ScheduleReply::Missing);
                assert!(!self.oracle.schedules.contains_key(&name));
            }
            ManageReply::Rejected(_) => assert!(self.oracle.draining),
            other => panic!("{other:?}"),
        }
        self.durable = self.oracle.clone();
    }

    /// The first job of a schedule is done, and gone or completed; or the last one is deleted.
    fn finish_last(&mut self) {
        let name = self.a_name();
        let last = self.oracle.schedules.get(&name).and_then(|schedule| schedule.last_run);
        let Some((_, last)) = last else { return };
        if self.rng.percent(50) {
            let reply = self.ask(&Command::Delete { id: JobId(last) });
            let was_there = matches!(reply, Said::Done);
            self.jobs -= usize::from(was_there);
            self.finished(last);
            return;
        }
        let mut names = StringList::default();
        names.push(NAMES[name]);
        let reserve = Command::Reserve { queues: names.from(0), wait: Wait::No };
        let Said::Job(id) = self.ask(&reserve) else { return };
        let result = Payload { encoding: Encoding::Json, bytes: b"1" };
        let reply = self.ask(&Command::Finish { id, lease: None, result });
        assert!(matches!(reply, Said::Done));
        self.finished(id.0);
    }

    fn finished(&mut self, id: u64) {
        if self.oracle.unfinished.remove(&id) {
            self.oracle.see("the last job is finished");
        }
        self.durable = self.oracle.clone();
    }

    fn set_clock(&mut self) {
        let jump = *self.rng.pick(&JUMPS);
        let (forward, rest) = (self.rng.percent(50), self.end.saturating_sub(self.wall));
        if forward && jump > rest {
            return;
        }
        seeds::say(|| format!("at {}: the clock is set by {jump}, forward: {forward}", self.wall));
        if forward {
            self.oracle.see("the clock is set forward");
            self.wall += jump;
        } else {
            self.oracle.see("the clock is set back");
            self.wall -= jump;
        }
    }

    fn drain(&mut self) {
        let draining = !self.oracle.draining;
        self.engine().set_draining(draining);
        self.oracle.draining = draining;
        self.oracle.see("the server is being drained");
    }

    /// An end that costs nothing, and a new begin after a while.
    fn restart(&mut self) {
        self.settle();
        drop(self.engine.take());
        let end = if self.rng.percent(50) { End::PowerCut } else { End::Kill };
        self.disk.end(end);
        self.begin_again();
    }

    /// An end before anything of this pass is on the disk: its jobs are not there.
    fn crash(&mut self) {
        drop(self.engine.take());
        self.disk.end(End::PowerCut);
        let lost = self.oracle.unfinished.difference(&self.durable.unfinished).copied();
        for id in lost.collect::<Vec<_>>() {
            self.known.remove(&id);
            self.jobs -= 1;
            self.puts.retain(|&(_, _, put)| put != id);
        }
        let seen = std::mem::take(&mut self.oracle.seen);
        self.oracle = self.durable.clone();
        self.oracle.seen = seen;
        self.oracle.see("a crash takes a moment back");
        self.begin_again();
    }

    fn begin_again(&mut self) {
        let down = match self.rng.below(4) {
            0 => 0,
            1 => self.rng.below(10_000) as u64,
            2 => self.rng.below(3_600_000) as u64,
            _ => self.rng.below(20 * 3_600_000) as u64,
        };
        (self.mono, self.wall) = (self.mono + down, self.wall + down);
        if self.rng.percent(20) {
            self.set_clock();
        }
        seeds::say(|| format!("at {}: a new program", self.wall));
        self.oracle.restart(self.clocks());
        self.start();
    }

    fn show(&mut self) {
        let name = self.a_name();
        let reply = self.ask_schedule(ScheduleCommand::Show { name: NAMES[name] });
        if !self.oracle.schedules.contains_key(&name) {
            assert_eq!(reply, ManageReply::Schedule(Box::new(ScheduleReply::Missing)));
            return;
        }
        let (details, _) = details_of(reply);
        self.compare(name, &details);
    }

    fn compare(&self, name: usize, details: &ScheduleDetails) {
        let model = &self.oracle.schedules[&name];
        let last_run = details.last_run.map(|(at, id)| (at.0, id.0));
        assert_eq!(last_run, model.last_run, "the last run of {name} at {}", self.wall);
        let mut shown = details.next_runs.iter().map(|at| at.0);
        let mut next = self.oracle.first_shown(name, self.wall);
        while let Next::At(at) = next {
            let Some(said) = shown.next() else { return };
            assert_eq!(said, at, "a next run of {name} at {}: {model:?}", self.wall);
            next = model.next_after(at);
        }
        assert_eq!(next == Next::Never, details.next_runs.is_empty(), "{model:?}");
    }
}
