//! Schedules of the native API: jobs that are put again and again, at moments of the wall clock.

use crate::base::time::Wall;
use crate::model::id::JobId;
use crate::model::new_job::{NewJob, PutOutcome};

/// A command on schedules. Answered by a [`ScheduleReply`].
#[derive(Clone, Copy, Debug)]
pub enum ScheduleCommand<'a> {
    /// Some schedules, by name, bytewise. Answered by `Page`.
    List {
        /// Those behind this name; `None`: from the first one on.
        behind: Option<&'a [u8]>,
        /// Most schedules in the answer.
        limit: usize,
    },
    /// Reads a schedule. Answered by `Schedule` or `Missing`.
    Show {
        /// Its name: any bytes.
        name: &'a [u8],
    },
    /// Makes a schedule, or changes the one of this name. Answered by `Schedule`, or by
    /// `TooMany` or `ManageReply::Rejected`.
    Set {
        /// All of it.
        schedule: &'a Schedule,
    },
    /// Removes a schedule; its jobs stay. Answered by `Removed` or `Missing`.
    Remove {
        /// Its name: any bytes.
        name: &'a [u8],
    },
    /// Puts the job of a schedule now, paused or not. Answered by `ManageReply::Job`, by
    /// `ManageReply::Rejected` or by `Missing`.
    Run {
        /// Its name: any bytes.
        name: &'a [u8],
    },
}

/// The answer to a [`ScheduleCommand`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScheduleReply {
    /// The schedule after the command.
    Schedule {
        /// Everything that is shown of it.
        details: Box<ScheduleDetails>,
        /// The command has made it.
        made: bool,
    },
    /// Some schedules.
    Page {
        /// By name, bytewise.
        schedules: Vec<ScheduleDetails>,
        /// The next page is behind this name; `None`: this was the last one.
        next: Option<Box<[u8]>>,
    },
    /// It is gone.
    Removed,
    /// There is no schedule of this name.
    Missing,
    /// There are as many schedules as there may be.
    TooMany,
}

/// When the jobs of a schedule are put.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Timing {
    /// A cron expression, as it was given.
    Cron(Box<str>),
    /// An interval in milliseconds.
    EveryMs(u64),
}

/// A schedule as it was set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// Unique among schedules: any bytes.
    pub name: Box<[u8]>,
    /// When its jobs are put.
    pub timing: Timing,
    /// Name of the time zone of a cron expression.
    pub timezone: Box<str>,
    /// Queue name: any bytes.
    pub queue: Box<[u8]>,
    /// The job.
    pub job: NewJob,
    /// The job as it was given: a JSON object.
    pub job_text: Box<str>,
    /// No job is put while the last one is unfinished.
    pub skips_overlap: bool,
    /// Moments that were missed are passed over; otherwise one job is put for all of them.
    pub skips_missed: bool,
    /// No job is put.
    pub paused: bool,
}

/// The part of a schedule that changes by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScheduleState {
    /// The next moment; `None`: paused, or there is none.
    pub next: Option<Wall>,
    /// One of the moments of an interval, and with it all.
    pub anchor: Wall,
    /// When its job was put last, and that job.
    pub last_run: Option<(Wall, JobId)>,
}

/// Everything that is shown of a schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScheduleDetails {
    /// As it was set.
    pub schedule: Schedule,
    /// When its job was put last, and that job.
    pub last_run: Option<(Wall, JobId)>,
    /// Its next moments: none of a paused one.
    pub next_runs: Vec<Wall>,
    /// The last moment whose put was rejected, if no job was put since: why. Not kept over a
    /// restart.
    pub last_failure: Option<(Wall, PutOutcome)>,
}
