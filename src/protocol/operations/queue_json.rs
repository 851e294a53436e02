//! Queues, their rates and histories as JSON.

use super::answer::Answer;
use super::job_json::{push_count, push_flag, push_name, push_text, push_time};
use crate::model::flow::{FlowKind, NO_WAIT, Rates, StateCounts};
use crate::model::manage::{HistoryDetails, JobState, QueueDetails};
use crate::wire::json::push_number;

/// Writes thousandths as a number, without zeros at its end.
fn push_thousandths(out: &mut Vec<u8>, thousandths: u64) {
    push_number(out, thousandths / 1_000);
    let digits = format!("{:03}", thousandths % 1_000);
    let digits = digits.trim_end_matches('0');
    if !digits.is_empty() {
        out.push(b'.');
        out.extend_from_slice(digits.as_bytes());
    }
}

/// Writes the member `rates`.
pub(super) fn push_rates(out: &mut Vec<u8>, rates: &Rates) {
    push_name(out, "rates");
    out.push(b'{');
    for kind in FlowKind::ALL {
        push_name(out, kind.name());
        push_thousandths(out, rates.0[kind as usize]);
    }
    out.push(b'}');
}

/// Writes the members of a queue behind an opening brace.
pub(super) fn push_queue(out: &mut Vec<u8>, queue: &QueueDetails) {
    push_text(out, "name", Some(&queue.name));
    push_flag(out, "paused", queue.paused);
    push_time(out, "paused_until", queue.paused_until);
    push_flag(out, "index", queue.indexed);
    push_states(out, &queue.counts);
    push_name(out, "oldest_ready_ms");
    match queue.oldest_ready_ms {
        Some(ms) => push_number(out, ms),
        None => out.extend_from_slice(b"null"),
    }
    push_count(out, "waiting_consumers", queue.waiting_consumers);
    push_rates(out, &queue.rates);
}

/// Writes the member `counts`.
pub(super) fn push_states(out: &mut Vec<u8>, counts: &StateCounts) {
    push_name(out, "counts");
    out.push(b'{');
    let order = [
        JobState::Ready,
        JobState::Scheduled,
        JobState::Blocked,
        JobState::Reserved,
        JobState::Buried,
        JobState::Completed,
    ];
    for state in order {
        push_count(out, state.name(), counts[state as usize]);
    }
    out.push(b'}');
}

/// The answer to a request for a history.
pub(super) fn history(details: &HistoryDetails) -> Answer {
    let mut out = Vec::from(*b"{");
    push_count(&mut out, "step_ms", details.step.milliseconds());
    push_time(&mut out, "until", Some(details.until));
    push_name(&mut out, "series");
    out.push(b'{');
    let names = FlowKind::ALL.map(FlowKind::name).into_iter().chain(["ready"]);
    for (number, name) in names.enumerate() {
        push_name(&mut out, name);
        out.push(b'[');
        for (place, step) in details.steps.iter().enumerate() {
            if place > 0 {
                out.push(b',');
            }
            push_number(&mut out, step[number]);
        }
        out.push(b']');
    }
    if !details.waits.is_empty() {
        for (number, name) in ["ready_p50_ms", "ready_p99_ms"].into_iter().enumerate() {
            push_name(&mut out, name);
            push_waits(&mut out, details.waits.iter().map(|step| step[number]));
        }
    }
    out.extend_from_slice(b"}}");
    Answer::new(200, out)
}

/// Writes a list of milliseconds; of a step without any, `null`.
fn push_waits(out: &mut Vec<u8>, waits: impl Iterator<Item = u32>) {
    for (place, wait) in waits.enumerate() {
        out.push(if place > 0 { b',' } else { b'[' });
        match wait {
            NO_WAIT => out.extend_from_slice(b"null"),
            ms => push_number(out, ms),
        }
    }
    out.push(b']');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousandths_are_written_as_short_as_possible() {
        for (thousandths, text) in [(0, "0"), (17, "0.017"), (500, "0.5"), (12_000, "12")] {
            let mut out = Vec::new();
            push_thousandths(&mut out, thousandths);
            assert_eq!(String::from_utf8(out).unwrap(), text);
        }
    }
}
