//! Schedules as lines of JSON.

use super::{push_field_name, push_number_field, push_queue, push_raw, push_timestamp};
use crate::base::time::{Mono, Wall};
use crate::model::schedule::{Schedule, ScheduleState, Timing};
use crate::wire::json::push_string;

/// Appends the fields of a schedule. O(bytes).
pub(super) fn push(schedule: &Schedule, state: &ScheduleState, out: &mut Vec<u8>) {
    let text = |out: &mut Vec<u8>, name: &str, text: &[u8]| {
        push_field_name(out, name);
        push_string(out, text);
    };
    text(out, "name", &schedule.name);
    match &schedule.timing {
        Timing::Cron(cron) => {
            text(out, "cron", cron.as_bytes());
            text(out, "timezone", schedule.timezone.as_bytes());
        }
        Timing::EveryMs(ms) => push_number_field(out, "every_ms", *ms),
    }
    push_queue(&schedule.queue, out);
    push_field_name(out, "job");
    push_raw(out, &schedule.job_text.replace(['\n', '\r'], " "));
    for (name, skips) in [("overlap", schedule.skips_overlap), ("missed", schedule.skips_missed)] {
        if skips {
            text(out, name, b"skip");
        }
    }
    if schedule.paused {
        push_field_name(out, "paused");
        push_raw(out, "true");
    }
    let moment = |Wall(ms): Wall| Mono(ms.saturating_mul(1_000_000));
    if let Some(next) = state.next {
        push_timestamp(out, "next", moment(next));
    }
    if let Some((at, id)) = state.last_run {
        push_timestamp(out, "last_run_at", moment(at));
        push_number_field(out, "last_job_id", id.0);
    }
}
