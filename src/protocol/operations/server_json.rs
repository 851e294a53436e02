//! The server as JSON.

use super::answer::{Answer, Next};
use super::job_json::{push_count, push_flag, push_name, push_text, push_time};
use super::problem::{Problem, ProblemKind};
use super::queue_json::{push_rates, push_states};
use crate::base::time::Now;
use crate::model::driver::Protocol;
use crate::model::reload::ReloadReport;
use crate::model::stats::{JobCounter, JournalStats, ServerStats};
use crate::protocol::{Caller, SessionSettings};
use crate::wire::json::{push_number, push_string};

/// What the server was started with.
#[derive(Clone, Copy, Debug)]
pub(in crate::protocol) struct ServerLimits<'a> {
    max_request: usize,
    max_clients: usize,
    listeners: &'a [(Protocol, Box<str>)],
}

impl<'a> ServerLimits<'a> {
    pub(in crate::protocol) fn of(settings: &'a SessionSettings) -> Self {
        let SessionSettings { max_request, max_clients, listeners, .. } = settings;
        Self { max_request: *max_request, max_clients: *max_clients, listeners }
    }
}

fn push_optional(out: &mut Vec<u8>, name: &str, number: Option<u64>) {
    push_name(out, name);
    match number {
        Some(number) => push_number(out, number),
        None => out.extend_from_slice(b"null"),
    }
}

/// The answer about the server.
pub(super) fn server(stats: &ServerStats, limits: ServerLimits<'_>, now: Now) -> Answer {
    let mut out = Vec::from(*b"{");
    push_text(&mut out, "version", Some(env!("CARGO_PKG_VERSION").as_bytes()));
    push_count(&mut out, "uptime_ms", now.mono.0 / 1_000_000);
    push_text(
        &mut out,
        "engine",
        Some(match (&stats.journal, &stats.shared) {
            (Some(_), _) => b"journal",
            (None, Some(_)) => b"redis",
            (None, None) => b"memory",
        }),
    );
    push_flag(&mut out, "draining", stats.draining);
    push_listeners(&mut out, limits.listeners);
    push_name(&mut out, "limits");
    out.push(b'{');
    push_count(&mut out, "max_request", limits.max_request);
    push_count(&mut out, "max_clients", limits.max_clients);
    push_optional(&mut out, "max_memory", stats.memory.limit_bytes);
    out.push(b'}');
    for (name, number) in [
        ("jobs", stats.store.jobs),
        ("queues", stats.store.queues),
        ("waiting_consumers", stats.store.waiters),
    ] {
        push_count(&mut out, name, number);
    }
    push_states(&mut out, &stats.store.counts);
    push_rates(&mut out, &stats.store.rates);
    push_name(&mut out, "totals");
    out.push(b'{');
    for counter in JobCounter::ALL {
        push_count(&mut out, counter.name(), stats.store.totals.counters[counter as usize]);
    }
    out.push(b'}');
    push_name(&mut out, "connections");
    out.push(b'{');
    for protocol in Protocol::ALL {
        push_count(&mut out, protocol.name(), stats.protocols[protocol.number()].open);
    }
    out.push(b'}');
    push_name(&mut out, "memory");
    out.push(b'{');
    push_count(&mut out, "jobs_bytes", stats.memory.store_bytes);
    push_count(&mut out, "buffers_bytes", stats.memory.buffer_bytes);
    push_optional(&mut out, "resident_bytes", stats.resident_bytes);
    push_count(&mut out, "refused", stats.memory.refused);
    out.push(b'}');
    push_name(&mut out, "loop");
    out.push(b'{');
    push_count(&mut out, "busy_millionths", stats.passes.busy_millionths);
    push_count(&mut out, "longest_pass_ns", stats.passes.longest_ns);
    push_count(&mut out, "longest_pass_cpu_ns", stats.passes.longest_pass_cpu_ns);
    out.push(b'}');
    push_histogram(&mut out, "ready_ms", stats.store.totals.ready_ms.classes(0, 36));
    push_histogram(&mut out, "answered_ns", stats.answered_ns.classes(12, 36));
    push_journal(&mut out, stats.journal.as_ref());
    out.push(b'}');
    Answer::new(200, out)
}

fn push_listeners(out: &mut Vec<u8>, listeners: &[(Protocol, Box<str>)]) {
    push_name(out, "listeners");
    out.push(b'[');
    for (number, (protocol, address)) in listeners.iter().enumerate() {
        out.extend_from_slice(if number > 0 { b",{" } else { b"{" });
        push_text(out, "protocol", Some(protocol.name().as_bytes()));
        push_text(out, "address", Some(address.as_bytes()));
        out.push(b'}');
    }
    out.push(b']');
}

/// Writes the bounds of classes of values, and how many values are in each: up to the first bound,
/// above that up to the next one, and so on; at last above the last one.
fn push_histogram(
    out: &mut Vec<u8>,
    name: &str,
    classes: impl Iterator<Item = (Option<u64>, u64)> + Clone,
) {
    let push_list = |out: &mut Vec<u8>, name: &str, numbers: &mut dyn Iterator<Item = u64>| {
        push_name(out, name);
        out.push(b'[');
        for (place, number) in numbers.enumerate() {
            if place > 0 {
                out.push(b',');
            }
            push_number(out, number);
        }
        out.push(b']');
    };
    push_name(out, name);
    out.push(b'{');
    push_list(out, "bounds", &mut classes.clone().filter_map(|class| class.0));
    push_list(out, "counts", &mut classes.map(|class| class.1));
    out.push(b'}');
}

fn push_journal(out: &mut Vec<u8>, journal: Option<&JournalStats>) {
    push_name(out, "journal");
    let Some(journal) = journal else { return out.extend_from_slice(b"null") };
    out.push(b'{');
    for (name, number) in [
        ("live_bytes", journal.live_bytes),
        ("total_bytes", journal.total_bytes),
        ("segments", journal.segments),
        ("batches", journal.batches),
        ("records", journal.records),
        ("sync_ns", journal.sync_ns),
        ("sync_max_ns", journal.sync_max_ns),
    ] {
        push_count(out, name, number);
    }
    push_flag(out, "full", journal.full);
    push_histogram(out, "synced_ns", journal.syncs.iter().copied());
    out.push(b'}');
}

/// The answer about the caller: without users, all permissions are given.
pub(super) fn me(caller: Option<&Caller>) -> Answer {
    let Some(caller) = caller else {
        let text =
            br#"{"user":null,"permissions":["put","take","peek","manage","observe","admin"]}"#;
        return Answer::new(200, text.to_vec());
    };
    let mut out = Vec::from(*b"{\"user\":");
    push_string(&mut out, caller.user.as_bytes());
    out.extend_from_slice(b",\"permissions\":[");
    for (number, permission) in caller.permissions.iter().enumerate() {
        out.extend_from_slice(if number > 0 { b"," } else { b"" });
        push_string(&mut out, permission.as_bytes());
    }
    out.extend_from_slice(b"]}");
    Answer::new(200, out)
}

/// The answer to a drain.
pub(super) fn draining(on: bool) -> Answer {
    let mut out = Vec::from(*b"{");
    push_flag(&mut out, "draining", on);
    out.push(b'}');
    Answer::new(200, out)
}

/// The answer to a reload.
pub(super) fn reloaded(report: &ReloadReport) -> Next {
    if !report.failures.is_empty() {
        let detail = report.failures.join("; ");
        return Next::Problem(Problem::new(ProblemKind::WrongState, detail));
    }
    let mut out = Vec::from(*b"{");
    push_time(&mut out, "certificate_expires_at", report.certificate_expires);
    push_optional(&mut out, "users", report.users.map(|users| users as u64));
    out.push(b'}');
    Next::Answer(Answer::new(200, out))
}
