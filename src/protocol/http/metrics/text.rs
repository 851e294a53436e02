//! The text, written by the encoders of `prometheus-client`.

use super::Queue;
use super::form::{Form, write_classic};
use crate::base::histogram::Histogram;
use crate::model::driver::Protocol;
use crate::model::forward::ForwardStats;
use crate::model::stats::{
    BusWorkerStats, JobCounter, JournalStats, ProtocolStats, ServerStats, SharedStats, StatusCounts,
};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode_registry;
use prometheus_client::encoding::{
    DescriptorEncoder, EncodeCounterValue, EncodeGaugeValue, MetricEncoder, NoLabelSet,
};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};
use std::fmt::{Error, Write as _};
use std::ops::Range;
use std::sync::Arc;

/// Writes the metrics of a collector; the comment lines only if it is the `first` part of its
/// metric. O(text).
pub(super) fn write(collector: impl Collector, first: bool, form: Form, out: &mut Vec<u8>) {
    let mut registry = Registry::with_prefix(env!("CARGO_PKG_NAME"));
    registry.register_collector(Box::new(collector));
    let mut text = String::new();
    // Proof: writing to a `String` does not fail, and no collector here fails.
    encode_registry(&mut text, &registry).expect("text is written to memory");
    let mut rest = &*text;
    while !first && rest.starts_with('#') {
        rest = rest.split_once('\n').map_or("", |(_, rest)| rest);
    }
    match form {
        Form::Classic => write_classic(rest, out),
        Form::OpenMetrics => out.extend_from_slice(rest.as_bytes()),
    }
}

/// The server's own counters, and those of the queues without metrics of their own.
#[derive(Debug)]
pub(super) struct General {
    pub(super) figures: Box<ServerStats>,
    pub(super) others: StatusCounts,
    pub(super) other_queues: u64,
}

type Label<'a> = [(&'static str, &'a str); 1];

struct Writer<'a>(DescriptorEncoder<'a>);

impl Writer<'_> {
    fn begin(
        &mut self,
        name: &str,
        unit: Option<&Unit>,
        help: &str,
        kind: MetricType,
        fill: impl FnOnce(MetricEncoder<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        fill(self.0.encode_descriptor(name, help, unit, kind)?)
    }

    fn gauge(
        &mut self,
        name: &str,
        unit: Option<&Unit>,
        help: &str,
        value: &impl EncodeGaugeValue,
    ) -> Result<(), Error> {
        self.begin(name, unit, help, MetricType::Gauge, |mut metric| metric.encode_gauge(value))
    }

    fn counter(
        &mut self,
        name: &str,
        unit: Option<&Unit>,
        help: &str,
        value: &impl EncodeCounterValue,
    ) -> Result<(), Error> {
        self.begin(name, unit, help, MetricType::Counter, |mut metric| {
            metric.encode_counter::<NoLabelSet, _, u64>(value, None)
        })
    }

    fn gauges<'l>(
        &mut self,
        name: &str,
        help: &str,
        values: impl Iterator<Item = (Label<'l>, u64)>,
    ) -> Result<(), Error> {
        self.begin(name, None, help, MetricType::Gauge, |mut metric| {
            for (label, value) in values {
                metric.encode_family(&label)?.encode_gauge(&value)?;
            }
            Ok(())
        })
    }

    fn counters<'l>(
        &mut self,
        name: &str,
        unit: Option<&Unit>,
        help: &str,
        values: impl Iterator<Item = (Label<'l>, u64)>,
    ) -> Result<(), Error> {
        self.begin(name, unit, help, MetricType::Counter, |mut metric| {
            for (label, value) in values {
                let mut one = metric.encode_family(&label)?;
                one.encode_counter::<NoLabelSet, _, u64>(&value, None)?;
            }
            Ok(())
        })
    }

    /// A histogram of durations; a second has `per_second` units.
    fn times(
        &mut self,
        name: &str,
        help: &str,
        (sum, classes): (u64, impl Iterator<Item = (Option<u64>, u64)>),
        per_second: u64,
    ) -> Result<(), Error> {
        let seconds = |value: u64| write_ratio(value, per_second);
        let buckets: Vec<(f64, u64)> =
            classes.map(|(bound, count)| (bound.map_or(f64::INFINITY, seconds), count)).collect();
        let count = buckets.iter().map(|(_, count)| count).sum();
        self.begin(name, Some(&Unit::Seconds), help, MetricType::Histogram, |mut metric| {
            metric.encode_histogram::<NoLabelSet>(seconds(sum), count, &buckets, None)
        })
    }
}

/// `value` in a larger unit.
#[expect(clippy::cast_precision_loss, reason = "15 digits are enough to look at")]
fn write_ratio(value: u64, per_unit: u64) -> f64 {
    value as f64 / per_unit as f64
}

const NANOSECONDS: u64 = 1_000_000_000;
const MILLISECONDS: u64 = 1_000;

/// Buckets from about a microsecond to about a minute.
fn nanoseconds(histogram: &Histogram) -> (u64, impl Iterator<Item = (Option<u64>, u64)>) {
    (histogram.sum(), histogram.classes(10, 36))
}

impl Collector for General {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> Result<(), Error> {
        let mut out = Writer(encoder);
        let version = [("version", env!("CARGO_PKG_VERSION"))];
        out.begin("build", None, "The program.", MetricType::Info, |mut metric| {
            metric.encode_info(&version)
        })?;
        self.encode_store(&mut out)?;
        self.encode_protocols(&mut out)?;
        self.encode_loop(&mut out)?;
        if let Some(workers) = &self.figures.bus_workers {
            encode_bus_workers(workers, &mut out)?;
        }
        if let Some(journal) = &self.figures.journal {
            encode_journal(journal, &mut out)?;
        }
        if self.figures.is_standby || self.figures.shared.is_some() {
            let help = "1 if this server leads its engine (--engine), 0 while it waits to.";
            out.gauge("engine_leads", None, help, &u64::from(!self.figures.is_standby))?;
            encode_forwards(&self.figures.forwards, &mut out)?;
        }
        if let Some(shared) = &self.figures.shared {
            encode_shared(shared, &mut out)?;
        }
        Ok(())
    }
}

impl General {
    fn encode_store(&self, out: &mut Writer<'_>) -> Result<(), Error> {
        let store = &self.figures.store;
        out.gauge("jobs", None, "Jobs of any status.", &store.jobs)?;
        let help = "Queues in the table, with idle ones.";
        out.gauge("queues", None, help, &store.queues)?;
        out.gauge("waiters", None, "Reserves and pops that wait.", &store.waiters)?;
        let counters = JobCounter::ALL.iter().zip(store.totals.counters);
        let help = "Changes of jobs since the start, by kind.";
        let counters = counters.map(|(counter, count)| ([("event", counter.name())], count));
        out.counters("job_events", None, help, counters)?;
        let ready = &store.totals.ready_ms;
        let help = "How long jobs were ready before they were handed out.";
        let classes = (ready.sum(), ready.classes(0, 22));
        out.times("job_ready", help, classes, MILLISECONDS)?;
        let help = "How long commands took until they were answered: those answered in the pass \
            that read them as long as that pass, others until the batch on which they depend was \
            durable. The time that a reserve or pop waits for a job is left out.";
        let answered = nanoseconds(&self.figures.answered_ns);
        out.times("command", help, answered, NANOSECONDS)?;
        let help = "Queues that have no figures of their own: those with the fewest jobs when \
            there are more than 1,000, and those with names of more than 256 bytes.";
        out.gauge("other_queues", None, help, &self.other_queues)?;
        let help = "Jobs of queues that have no figures of their own, and of those that came \
            while jobs were counted, by status.";
        let others = by_status(&self.others).map(|(status, count)| ([("status", status)], count));
        out.gauges("other_queue_jobs", help, others.into_iter())?;
        let help = "Age of the oldest ready job of these queues; 0 if there is none.";
        let age = write_ratio(u64::from(self.others.oldest_ms), MILLISECONDS);
        out.gauge("other_queue_oldest_ready", Some(&Unit::Seconds), help, &age)
    }

    fn encode_protocols(&self, out: &mut Writer<'_>) -> Result<(), Error> {
        let protocols = Protocol::ALL.iter().zip(&self.figures.protocols);
        let protocols =
            protocols.map(|(protocol, figures)| ([("protocol", protocol.name())], figures));
        let by = |value: fn(&ProtocolStats) -> u64| {
            protocols.clone().map(move |(label, figures)| (label, value(figures)))
        };
        let help = "Open connections, by protocol.";
        out.gauges("connections", help, by(|protocol| protocol.open))?;
        let help = "Connections accepted, by protocol.";
        out.counters("connections_accepted", None, help, by(|protocol| protocol.accepted))?;
        let help = "Connections rejected beyond --max-clients, by protocol.";
        out.counters("connections_rejected", None, help, by(|protocol| protocol.rejected))?;
        let help = "Bytes received, by protocol.";
        out.counters("received", Some(&Unit::Bytes), help, by(|protocol| protocol.bytes_in))?;
        let help = "Bytes sent, by protocol.";
        out.counters("sent", Some(&Unit::Bytes), help, by(|protocol| protocol.bytes_out))
    }

    fn encode_tls(&self, out: &mut Writer<'_>) -> Result<(), Error> {
        let tls = &self.figures.tls;
        let Some(expires) = tls.certificate_expires else { return Ok(()) };
        let help = "When the certificate of TLS listeners expires, in Unix time; absent without \
            such listeners.";
        out.gauge("tls_certificate_expiry", Some(&Unit::Seconds), help, &(expires.0 / 1_000))?;
        let help = "TLS handshakes of clients, by result.";
        let counted = [("complete", tls.handshakes), ("failed", tls.failures)];
        let counted = counted.into_iter().map(|(result, count)| ([("result", result)], count));
        out.counters("tls_handshakes", None, help, counted)
    }

    fn encode_access(&self, out: &mut Writer<'_>) -> Result<(), Error> {
        let access = &self.figures.access;
        let Some(users) = access.users else { return Ok(()) };
        let help = "Users of the settings; absent if there are none, so that clients need not say \
            who they are.";
        out.gauge("users", None, help, &users)?;
        let help = "Tokens that clients have shown and no user has.";
        out.counter("authentication_failures", None, help, &access.failures)?;
        let help = "Requests that were not carried out because their user lacks a right.";
        out.counter("requests_denied", None, help, &access.denied)
    }

    fn encode_loop(&self, out: &mut Writer<'_>) -> Result<(), Error> {
        let passes = &self.figures.passes;
        let help = "Durations of passes of the loop, from the wake-up to the last write.";
        out.times("loop_pass", help, nanoseconds(&passes.took_ns), NANOSECONDS)?;
        let help = "The longest pass since the start.";
        let longest = write_ratio(passes.longest_ns, NANOSECONDS);
        out.gauge("loop_longest_pass", Some(&Unit::Seconds), help, &longest)?;
        let help = "The most CPU time that a pass has taken since the start, of those over \
            0.25 ms; where it is far below the longest pass the machine had other work.";
        let longest = write_ratio(passes.longest_pass_cpu_ns, NANOSECONDS);
        out.gauge("loop_longest_pass_cpu", Some(&Unit::Seconds), help, &longest)?;
        let help = "Part of the time in which the loop was busy, over the last 10 seconds or more.";
        let busy = write_ratio(passes.busy_millionths, 1_000_000);
        out.gauge("loop_utilisation_ratio", None, help, &busy)?;
        if let Some(resident) = self.figures.resident_bytes {
            let help = "Resident memory, sampled every 10 seconds at most.";
            out.gauge("resident_memory", Some(&Unit::Bytes), help, &resident)?;
        }
        self.encode_tls(out)?;
        self.encode_access(out)?;
        let memory = &self.figures.memory;
        let help = "Memory of jobs and the tables about them (store), and of unfinished requests \
            and unsent replies (buffers).";
        let used = [("store", memory.store_bytes), ("buffers", memory.buffer_bytes)];
        let used = used.into_iter().map(|(part, bytes)| ([("part", part)], bytes));
        out.gauges("memory_used_bytes", help, used)?;
        if let Some(limit) = memory.limit_bytes {
            let help = "The limit on memory (--max-memory); absent without one.";
            out.gauge("memory_limit", Some(&Unit::Bytes), help, &limit)?;
            let help = "Puts refused because of --max-memory.";
            out.counter("memory_refused_puts", None, help, &memory.refused)?;
        }
        let queries = &self.figures.queries;
        out.gauge("queries_waiting", None, "Queries that wait for a turn.", &queries.waiting)?;
        out.counter("queries", None, "Queries whose evaluation was started.", &queries.started)?;
        let help = "Queries that ended with an error, timeouts included.";
        out.counter("queries_failed", None, help, &queries.failed)?;
        let help = "Queries that took longer than --query-timeout.";
        out.counter("queries_timed_out", None, help, &queries.timed_out)
    }
}

fn encode_bus_workers(workers: &[BusWorkerStats], out: &mut Writer<'_>) -> Result<(), Error> {
    let help = "Workers of the processor in a queue, by status; of 1,000 queues.";
    out.begin("processor_workers", None, help, MetricType::Gauge, |mut metric| {
        for BusWorkerStats { queue, idle, busy } in workers {
            let name = label(queue);
            for (status, count) in [("idle", *idle), ("busy", *busy)] {
                let labels = [("queue", &*name), ("status", status)];
                metric.encode_family(&labels)?.encode_gauge(&count)?;
            }
        }
        Ok(())
    })
}

fn encode_journal(journal: &JournalStats, out: &mut Writer<'_>) -> Result<(), Error> {
    let help = "Bytes of the journal: of live records, of dead records in segments that are not \
        freed yet, free for new records, and pending before they are submitted to the disk.";
    let bytes = [
        ("live", journal.live_bytes),
        ("dead", journal.dead_bytes),
        ("free", journal.free_bytes),
        ("pending", journal.pending_bytes),
    ];
    let bytes = bytes.map(|(kind, count)| ([("kind", kind)], count));
    out.gauges("journal_bytes", help, bytes.into_iter())?;
    let help = "Bytes of all segments of the journal.";
    out.gauge("journal_files", Some(&Unit::Bytes), help, &journal.total_bytes)?;
    out.gauge("journal_segments", None, "Segments in use or prepared.", &journal.segments)?;
    let help = "1 if the last attempt to allocate a segment found no space, else 0.";
    out.gauge("journal_full", None, help, &u64::from(journal.full))?;
    out.counter("journal_batches", None, "Batches written.", &journal.batches)?;
    out.counter("journal_records", None, "Records written.", &journal.records)?;
    let help = "Bytes written, those of compaction included.";
    out.counter("journal_written", Some(&Unit::Bytes), help, &journal.written_bytes)?;
    let help = "Bytes of records that compaction has moved.";
    out.counter("journal_moved", Some(&Unit::Bytes), help, &journal.moved_bytes)?;
    let help = "Durations of syncs.";
    let classes = (journal.sync_ns, journal.syncs.iter().copied());
    out.times("journal_sync", help, classes, NANOSECONDS)?;
    let worst = write_ratio(journal.sync_max_ns, NANOSECONDS);
    out.gauge("journal_longest_sync", Some(&Unit::Seconds), "The longest sync.", &worst)
}

fn encode_forwards(forwards: &ForwardStats, out: &mut Writer<'_>) -> Result<(), Error> {
    let help = "Connections that this server forwards to the one that leads (--engine).";
    out.gauge("engine_forwards", None, help, &forwards.open)?;
    let help = "Connections that were forwarded since this server waits to lead.";
    out.counter("engine_forwards_begun", None, help, &forwards.begun)?;
    let help = "Connections that were closed because they could not be forwarded, since then.";
    out.counter("engine_forwards_refused", None, help, &forwards.refused)?;
    let help = "Bytes of forwarded connections, by where they go.";
    let bytes = [("leader", forwards.bytes_to_leader), ("client", forwards.bytes_to_client)];
    let bytes = bytes.map(|(to, count)| ([("to", to)], count));
    out.counters("engine_forwarded", Some(&Unit::Bytes), help, bytes.into_iter())
}

fn encode_shared(shared: &SharedStats, out: &mut Writer<'_>) -> Result<(), Error> {
    let help = "The epoch under which this server leads its engine (--engine).";
    out.gauge("engine_epoch", None, help, &shared.epoch)?;
    let help = "1 while what was to be written to the engine is not answered, else 0.";
    out.gauge("engine_away", None, help, &u64::from(shared.is_away))?;
    let help = "1 while the engine's memory is full, so that nothing is put, else 0.";
    out.gauge("engine_full", None, help, &u64::from(shared.is_full))?;
    let help = "Bytes of batches that the engine has not accepted yet.";
    out.gauge("engine_pending", Some(&Unit::Bytes), help, &shared.pending_bytes)?;
    let help = "Batches that the engine has accepted.";
    out.counter("engine_batches", None, help, &shared.batches)?;
    out.counter("engine_records", None, "Records that went into batches.", &shared.records)?;
    let help = "Fields that batches have set or deleted.";
    out.counter("engine_changes", None, help, &shared.changes)?;
    let help = "Bytes of batches that the engine has accepted.";
    out.counter("engine_written", Some(&Unit::Bytes), help, &shared.bytes)?;
    let help = "Batches that the engine had lost, and that were written again.";
    out.counter("engine_rewritten_batches", None, help, &shared.rewritten)?;
    let help = "Connections to the engine after the first.";
    out.counter("engine_reconnects", None, help, &shared.reconnects)?;
    let help = "Replicas that the engine's primary had connected when it was asked last.";
    out.gauge("engine_replicas", None, help, &shared.replicas)?;
    let help = "Replicas that have a batch before its answers are sent (--engine-wait).";
    out.gauge("engine_waits_for_replicas", None, help, &shared.waits_for)?;
    let help = "Times from the sending of a batch to its answer.";
    let classes = (shared.write_ns.sum(), shared.write_ns.classes(12, 36));
    out.times("engine_write", help, classes, NANOSECONDS)
}

/// The counts by status, with the names of the statuses.
fn by_status(tally: &StatusCounts) -> [(&'static str, u64); 7] {
    [
        ("ready", tally.ready),
        ("blocked", tally.blocked),
        ("group_only", tally.group_only),
        ("delayed", tally.delayed),
        ("reserved", tally.reserved),
        ("buried", tally.buried),
        ("completed", tally.completed),
    ]
}

/// A metric with a sample for each queue.
#[derive(Clone, Copy, Debug)]
pub(super) enum Family {
    Jobs,
    Oldest,
    Processor,
}

impl Family {
    pub(super) const ALL: [Self; 3] = [Self::Jobs, Self::Oldest, Self::Processor];

    /// Whether only servers with a processor have it.
    pub(super) fn is_of_processor(self) -> bool {
        matches!(self, Self::Processor)
    }
}

/// One metric of some queues.
#[derive(Debug)]
pub(super) struct Queues {
    pub(super) family: Family,
    pub(super) all: Arc<[Queue]>,
    pub(super) range: Range<usize>,
}

impl Collector for Queues {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> Result<(), Error> {
        let queues = &self.all[self.range.clone()];
        let mut out = Writer(encoder);
        match self.family {
            Family::Jobs => {
                let help = "Jobs of a queue, by status; of the 1,000 queues with the most jobs, \
                    for the others see other_queue_jobs. Counted over several passes.";
                out.begin("queue_jobs", None, help, MetricType::Gauge, |mut metric| {
                    for queue in queues {
                        let name = label(&queue.name);
                        for (status, count) in by_status(&queue.tally) {
                            let labels = [("queue", &*name), ("status", status)];
                            metric.encode_family(&labels)?.encode_gauge(&count)?;
                        }
                    }
                    Ok(())
                })
            }
            Family::Processor => {
                let help = "Jobs of a queue that the processor has assigned: dispatched until they \
                    are accepted, processing from then on.";
                out.begin("processor_jobs", None, help, MetricType::Gauge, |mut metric| {
                    for Queue { name, tally } in queues {
                        let name = label(name);
                        let counts = [tally.dispatched, tally.processing];
                        for (status, count) in ["dispatched", "processing"].into_iter().zip(counts)
                        {
                            let labels = [("queue", &*name), ("status", status)];
                            metric.encode_family(&labels)?.encode_gauge(&count)?;
                        }
                    }
                    Ok(())
                })
            }
            Family::Oldest => {
                let (unit, help) = (
                    Some(&Unit::Seconds),
                    "Age of the oldest ready job of a queue, 0 if there is none: for how long it \
                     has been ready.",
                );
                out.begin("queue_oldest_ready", unit, help, MetricType::Gauge, |mut metric| {
                    for queue in queues {
                        let age = write_ratio(u64::from(queue.tally.oldest_ms), MILLISECONDS);
                        let labels = [("queue", &*label(&queue.name))];
                        metric.encode_family(&labels)?.encode_gauge(&age)?;
                    }
                    Ok(())
                })
            }
        }
    }
}

/// A queue's name as a label value; distinct names stay distinct: backslashes are doubled, and
/// bytes that are not UTF-8 are written as `\xHH`.
pub(super) fn label(name: &[u8]) -> String {
    let mut text = String::new();
    for chunk in name.utf8_chunks() {
        text.push_str(&chunk.valid().replace('\\', "\\\\"));
        for byte in chunk.invalid() {
            // Proof: writing to a `String` does not fail.
            write!(text, "\\x{byte:02x}").expect("text is written to memory");
        }
    }
    text
}
