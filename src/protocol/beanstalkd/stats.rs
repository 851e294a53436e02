//! Statistics, with the keys and in the order of the reference.

use super::SessionContext;
use super::counters::{Counters, Verb};
use super::text::text_reply;
use crate::model::consumer::{JobStats, QueueStats, QueueTotals};
use crate::model::driver::Protocol;
use crate::model::flow::StateCounts;
use crate::model::job_state::JobState;
use crate::model::stats::{JournalStats, ServerStats};
use std::fmt::{Display, Write};

/// What `stats` says of the process and its machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// Number of the process.
    pub pid: u32,
    /// A random number of this start.
    pub start: u64,
    /// As the system says.
    pub hostname: Box<str>,
    /// Version of the system.
    pub os: Box<str>,
    /// Kind of the machine.
    pub platform: Box<str>,
}

/// Lines of `key: value`.
struct Lines(String);

impl Lines {
    fn new() -> Self {
        Self("---\n".to_owned())
    }

    fn push(&mut self, key: &str, value: impl Display) {
        // Proof: writing into a string does not fail.
        let _ = writeln!(self.0, "{key}: {value}");
    }

    fn push_text(&mut self, key: &str, value: &[u8]) {
        let text = String::from_utf8_lossy(value).replace(['"', '\\', '\n'], "_");
        let _ = writeln!(self.0, "{key}: \"{text}\"");
    }

    fn reply(&self) -> Vec<u8> {
        text_reply(self.0.as_bytes())
    }
}

/// The priority of beanstalkd, where smaller is more urgent.
fn priority_of(number: i64) -> u32 {
    let priority = number.saturating_neg().clamp(0, i64::from(u32::MAX));
    u32::try_from(priority).unwrap_or(u32::MAX)
}

fn count_of(counts: &StateCounts, state: JobState) -> u64 {
    JobState::ALL.iter().position(|&other| other == state).map_or(0, |number| counts[number])
}

fn push_counts(lines: &mut Lines, urgent: u64, counts: &StateCounts) {
    let of = |state| count_of(counts, state);
    lines.push("current-jobs-urgent", urgent);
    lines.push("current-jobs-ready", of(JobState::Ready));
    lines.push("current-jobs-reserved", of(JobState::Reserved));
    lines.push("current-jobs-delayed", of(JobState::Scheduled) + of(JobState::Blocked));
    lines.push("current-jobs-buried", of(JobState::Buried));
}

/// Writes the statistics of a job.
pub(super) fn write_job(job: &JobStats, out: &mut Vec<u8>) {
    let mut lines = Lines::new();
    lines.push("id", job.id.0);
    lines.push_text("tube", &job.queue);
    lines.push("state", job.state);
    lines.push("pri", priority_of(job.priority));
    lines.push("age", job.age_s);
    lines.push("delay", job.delay_ms / 1000);
    lines.push("ttr", job.lease_ms.div_ceil(1000));
    lines.push("time-left", job.left_s);
    lines.push("file", 0);
    lines.push("reserves", job.reserves);
    lines.push("timeouts", job.timeouts);
    lines.push("releases", job.tally.releases);
    lines.push("buries", job.tally.buries);
    lines.push("kicks", job.tally.kicks);
    out.extend_from_slice(&lines.reply());
}

/// Writes the statistics of a tube.
pub(super) fn write_tube(tube: &[u8], queue: &QueueStats, counters: &Counters, out: &mut Vec<u8>) {
    let default = |counter: u64| if tube == super::DEFAULT { counter } else { 0 };
    let jobs: u64 = queue.counts.iter().sum();
    let mut lines = Lines::new();
    lines.push_text("name", tube);
    push_counts(&mut lines, queue.urgent, &queue.counts);
    lines.push("total-jobs", queue.put);
    lines.push("current-using", queue.using + default(counters.using_default.get()));
    lines.push("current-watching", queue.watching + default(counters.watching_default.get()));
    lines.push("current-waiting", queue.waiting);
    lines.push("cmd-delete", queue.put.saturating_sub(jobs));
    lines.push("cmd-pause-tube", queue.pauses);
    lines.push("pause", queue.pause_s);
    lines.push("pause-time-left", queue.pause_left_s);
    out.extend_from_slice(&lines.reply());
}

/// The statistics of the server.
pub(super) fn server_reply(
    totals: &QueueTotals,
    server: &ServerStats,
    counters: &Counters,
    shared: &SessionContext,
) -> Vec<u8> {
    let mut lines = Lines::new();
    push_counts(&mut lines, totals.urgent, &totals.counts);
    for (verb, name) in Verb::ALL {
        lines.push(&format!("cmd-{name}"), counters.get(verb));
    }
    lines.push("job-timeouts", totals.timeouts);
    lines.push("total-jobs", totals.put);
    lines.push("max-job-size", shared.settings.max_body);
    lines.push("current-tubes", totals.queues);
    let connections = server.protocols[Protocol::Beanstalkd.number()];
    lines.push("current-connections", connections.open);
    lines.push("current-producers", counters.producers.get());
    lines.push("current-workers", counters.workers.get());
    lines.push("current-waiting", counters.waiting.get());
    lines.push("total-connections", connections.accepted);
    let identity = &shared.settings.identity;
    lines.push("pid", identity.pid);
    lines.push("version", concat!("\"jobcentre ", env!("CARGO_PKG_VERSION"), "\""));
    let seconds = |us: u64| format!("{}.{:06}", us / 1_000_000, us % 1_000_000);
    lines.push("rusage-utime", seconds(server.user_us));
    lines.push("rusage-stime", seconds(server.system_us));
    lines.push("uptime", shared.turn.now.mono.0 / 1_000_000_000);
    push_journal(&mut lines, server.journal.as_ref());
    lines.push("draining", server.draining);
    lines.push("id", format_args!("{:016x}", identity.start));
    lines.push_text("hostname", identity.hostname.as_bytes());
    lines.push_text("os", identity.os.as_bytes());
    lines.push_text("platform", identity.platform.as_bytes());
    lines.reply()
}

/// The journal in the terms of a binlog; zeros without one.
fn push_journal(lines: &mut Lines, journal: Option<&JournalStats>) {
    let none = JournalStats::default();
    let journal = journal.unwrap_or(&none);
    let segments = journal.segments;
    lines.push("binlog-oldest-index", segments.min(1));
    lines.push("binlog-current-index", segments);
    lines.push("binlog-records-migrated", journal.moved_bytes.min(journal.records));
    lines.push("binlog-records-written", journal.records);
    lines.push("binlog-max-size", journal.total_bytes.checked_div(segments).unwrap_or(0));
}
