//! Requests on schedules.

use super::cursor::queue_cursor;
use super::field_names::{PUT_FIELDS, SCHEDULE_FIELDS};
use super::fields::{DURATION_MAX_MS, Fields};
use super::problem::Problem;
use super::put_fields::job_of;
use super::table::Operation;
use crate::base::api_limits::SCHEDULE_INTERVAL_MIN_MS;
use crate::base::time::Now;
use crate::model::schedule::{Schedule, ScheduleCommand, Timing};
use crate::schedule::{Timetable, Zone};

/// Longest name of a schedule, in bytes.
const NAME_MAX_BYTES: usize = 255;

/// The zone of a schedule that says none.
const ZONE_DEFAULT: &str = "UTC";

/// A request on schedules, parsed.
#[derive(Debug)]
pub(in crate::protocol) enum ScheduleArgs {
    List { behind: Option<Vec<u8>>, limit: usize },
    Show { name: Vec<u8> },
    Set { schedule: Box<Schedule> },
    Remove { name: Vec<u8> },
    Run { name: Vec<u8> },
}

impl ScheduleArgs {
    pub(super) fn command(&self) -> ScheduleCommand<'_> {
        match self {
            Self::List { behind, limit } => {
                ScheduleCommand::List { behind: behind.as_deref(), limit: *limit }
            }
            Self::Show { name } => ScheduleCommand::Show { name },
            Self::Set { schedule } => ScheduleCommand::Set { schedule },
            Self::Remove { name } => ScheduleCommand::Remove { name },
            Self::Run { name } => ScheduleCommand::Run { name },
        }
    }
}

/// Cursors of this list begin with another letter than those of queues.
fn cursor(text: &str) -> Result<Vec<u8>, Problem> {
    let digits = text.strip_prefix('s').unwrap_or("-");
    queue_cursor(&format!("q{digits}"))
}

/// Parses a request; a schedule is parsed by [`set`].
pub(super) fn parse(
    operation: Operation,
    name: Vec<u8>,
    fields: &Fields<'_>,
) -> Result<ScheduleArgs, Problem> {
    Ok(match operation {
        Operation::ShowSchedule => ScheduleArgs::Show { name },
        Operation::RemoveSchedule => ScheduleArgs::Remove { name },
        Operation::RunSchedule => ScheduleArgs::Run { name },
        _ => {
            let limit = fields.limit()?;
            let behind = fields.string("cursor")?.map(|text| cursor(&text)).transpose()?;
            ScheduleArgs::List { behind, limit }
        }
    })
}

/// The fields of the job of a schedule: those of a put that mean the same at each moment.
pub(in crate::protocol) fn scheduled_put_fields() -> Vec<&'static str> {
    PUT_FIELDS.iter().copied().filter(|field| !["run_at", "after"].contains(field)).collect()
}

/// Parses a schedule.
pub(super) fn set(name: &[u8], body: &[u8], now: Now) -> Result<ScheduleArgs, Problem> {
    if !(1..=NAME_MAX_BYTES).contains(&name.len()) {
        return Err(Problem::wrong("name", &format!("1 to {NAME_MAX_BYTES} bytes")));
    }
    let fields = Fields::of_object(body, SCHEDULE_FIELDS)?;
    let (timing, timezone) = timing(&fields)?;
    let queue = fields.string("queue")?;
    let queue = queue.ok_or_else(|| Problem::missing("queue", "the name of a queue"))?;
    let job_text = fields.text("job").unwrap_or_default();
    let Some(job) = fields.object("job", scheduled_put_fields())? else {
        return Err(Problem::missing("job", "an object with the fields of a put"));
    };
    let schedule = Schedule {
        name: name.into(),
        timing,
        timezone: timezone.into(),
        queue: queue.into_bytes().into(),
        job: job_of(&job, now)?,
        job_text: job_text.into(),
        skips_overlap: fields.word("overlap", &[("allow", false), ("skip", true)])? == Some(true),
        skips_missed: fields.word("missed", &[("once", false), ("skip", true)])? == Some(true),
        paused: fields.bool("paused")?.unwrap_or(false),
    };
    Ok(ScheduleArgs::Set { schedule: Box::new(schedule) })
}

/// `cron` or `every_ms`, and `timezone`.
fn timing(fields: &Fields<'_>) -> Result<(Timing, String), Problem> {
    let cron = fields.string("cron")?;
    let every_ms =
        fields.duration_between("every_ms", SCHEDULE_INTERVAL_MIN_MS, DURATION_MAX_MS)?;
    let timezone = fields.string("timezone")?.unwrap_or_else(|| ZONE_DEFAULT.to_owned());
    let wanted = "the name of a time zone of the IANA database, as Europe/Berlin";
    let zone = Zone::find(&timezone).ok_or_else(|| Problem::wrong("timezone", wanted))?;
    let timing = match (cron, every_ms) {
        (Some(cron), None) => {
            Timetable::cron(&cron, zone)
                .map_err(|error| Problem::wrong("cron", &error.to_string()))?;
            Timing::Cron(cron.into())
        }
        (None, Some(ms)) => Timing::EveryMs(ms),
        (Some(_), Some(_)) => {
            return Err(Problem::wrong("every_ms", "left out where 'cron' is said"));
        }
        (None, None) => {
            return Err(Problem::missing("cron", "a cron expression, or say 'every_ms'"));
        }
    };
    Ok((timing, timezone))
}
