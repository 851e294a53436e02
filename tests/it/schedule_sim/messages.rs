//! What the simulation says to the engine, and hears of it.

use super::oracle::{Schedule, Timing};
use jobcentre::model::job::{Encoding, JobOptions, OwnedPriority};
use jobcentre::model::manage::{ManageReply, NewJob};
use jobcentre::model::schedule::{self, ScheduleDetails, ScheduleReply};

/// The schedule that is answered, and whether it was made.
pub(super) fn details_of(reply: ManageReply) -> (Box<ScheduleDetails>, bool) {
    match reply {
        ManageReply::Schedule(reply) => match *reply {
            ScheduleReply::Schedule { details, made } => (details, made),
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

/// A schedule of the oracle, as the engine takes it.
pub(super) fn for_engine(name: &[u8], model: &Schedule) -> schedule::Schedule {
    let (timing, timezone) = match &model.timing {
        Timing::Cron(cron, zone) => (schedule::Timing::Cron(cron.text().into()), *zone),
        &Timing::EveryMs(ms) => (schedule::Timing::EveryMs(ms), "UTC"),
    };
    let options = JobOptions { result_retention_ms: 1 << 40, ..JobOptions::default() };
    let job = NewJob {
        priority: OwnedPriority::Number(0),
        encoding: Encoding::Json,
        payload: b"{}"[..].into(),
        options,
        key: None,
        dependencies: None,
    };
    schedule::Schedule {
        name: name.into(),
        timing,
        timezone: timezone.into(),
        queue: name.into(),
        job,
        job_text: "{\"payload\":{}}".into(),
        skips_overlap: model.skips_overlap,
        skips_missed: model.skips_missed,
        paused: model.paused,
    }
}
