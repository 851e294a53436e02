//! The result with its conditions, as JSON. [`super::table`] prints it as text.

use super::args::{BenchSettings, RunLength, Workload};
use super::clock::{float, seconds};
use super::generator::Generator;
use super::job_tracker::JobTotals;
use super::latency::{LatencyKind, Summary};
use super::process::{Machine, Sample};
use super::protocols::BenchProtocol;
use super::table::count;
use super::window::Snapshot;
use clap::ValueEnum;
use serde::Serialize;

/// The result of a run.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Report {
    /// Version of this format: incremented when a field changes its meaning.
    format: u32,
    version: &'static str,
    workload: Workload,
    protocol: BenchProtocol,
    address: String,
    connections: usize,
    depth: usize,
    payload_bytes: usize,
    queues: u64,
    priorities: u64,
    backlog: u64,
    waiters: usize,
    idle: usize,
    rate: Option<f64>,
    warmup_seconds: f64,
    seed: u64,
    /// Length of the measurement window.
    pub(super) seconds: f64,
    /// Measured requests.
    pub(super) requests: u64,
    pub(super) requests_per_second: f64,
    /// At a fixed rate: requests that should have been sent in time and were not.
    missed: u64,
    /// Of the whole run, all of them checked.
    pub(super) jobs: JobTotals,
    pub(super) latency_us: Latency,
    pub(super) server: Option<Server>,
    pub(super) generator: Option<Cpu>,
    /// Busy share of all CPUs of this machine together.
    pub(super) machine_busy: Option<f64>,
    pub(super) machine: Machine,
    /// Reservations about the numbers.
    pub(super) notes: Vec<String>,
}

#[derive(Clone, Debug, Serialize)]
pub(super) struct Latency {
    pub(super) all: Option<Summary>,
    pub(super) put: Option<Summary>,
    pub(super) get: Option<Summary>,
    pub(super) delete: Option<Summary>,
    pub(super) delivery: Option<Summary>,
    /// At a fixed rate: how late the generator itself sent.
    pub(super) lateness: Option<Summary>,
}

#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Cpu {
    seconds: f64,
    /// 1 is one CPU all the time.
    pub(super) share: f64,
    pub(super) microseconds_per_request: f64,
}

#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Server {
    pub(super) cpu: Cpu,
    pub(super) memory_before_bytes: u64,
    pub(super) memory_after_bytes: u64,
    /// For `put`: growth of memory for each job.
    pub(super) bytes_per_job: Option<f64>,
    /// For `idle`: growth of memory for each connection.
    pub(super) bytes_per_connection: Option<f64>,
}

/// Above this share of a CPU the generator may be what limits the result.
const SATURATED_SHARE: f64 = 0.95;

/// Above this share of a CPU, other programs disturb the measurement.
const OTHER_PROGRAMS_SHARE: f64 = 0.3;

impl Report {
    /// The report of a finished run.
    pub(super) fn new(plan: &BenchSettings, generator: &Generator<'_>) -> Self {
        let (start, end) = (&generator.window.start, &generator.window.end);
        let latencies = &generator.window.latencies;
        let all = latencies.all();
        let elapsed = seconds(end.at - start.at);
        let of = |kind| Summary::of(latencies.of(kind));
        let mut report = Self {
            format: 1,
            version: env!("CARGO_PKG_VERSION"),
            workload: plan.workload,
            protocol: plan.protocol,
            address: plan.address.clone(),
            connections: plan.connections,
            depth: plan.depth,
            payload_bytes: plan.payload,
            queues: plan.queues,
            priorities: plan.priorities,
            backlog: plan.backlog,
            waiters: plan.waiters,
            idle: plan.idle,
            rate: plan.rate,
            warmup_seconds: plan.warmup.as_secs_f64(),
            seed: plan.seed,
            seconds: elapsed,
            requests: all.len(),
            requests_per_second: float(all.len()) / elapsed,
            missed: generator.missed,
            jobs: generator.tracker.totals(),
            latency_us: Latency {
                all: Summary::of(&all),
                put: of(LatencyKind::Put),
                get: of(LatencyKind::Get),
                delete: of(LatencyKind::Delete),
                delivery: of(LatencyKind::Delivery),
                lateness: Summary::of(latencies.lateness()),
            },
            server: server(plan, generator),
            generator: cpu(start, end, |snapshot| snapshot.own),
            machine_busy: busy(start, end),
            machine: Machine::this(),
            notes: generator.notes(),
        };
        report.add_notes(plan);
        report
    }

    fn add_notes(&mut self, plan: &BenchSettings) {
        let busy = self.generator.filter(|cpu| cpu.share > SATURATED_SHARE);
        if let (Some(cpu), None) = (busy, plan.rate) {
            self.notes.push(format!(
                "the generator used {:.0} % of a CPU: the server may be able to do more",
                100.0 * cpu.share
            ));
        }
        if plan.rate.is_some() {
            self.notes.push(
                "at a fixed rate the generator waits awake, so its CPU time says nothing".into(),
            );
        }
        if let (Some(busy), Some(server), Some(own)) =
            (self.machine_busy, &self.server, &self.generator)
        {
            let others = busy * float(self.machine.cpus as u64) - server.cpu.share - own.share;
            if others > OTHER_PROGRAMS_SHARE {
                self.notes.push(format!(
                    "other programs used {:.0} % of a CPU meanwhile: on a quiet machine the \
                     numbers are better",
                    100.0 * others
                ));
            }
        }
        if self.missed > 0 {
            self.notes.push(format!(
                "the rate was too high: {} requests were not even sent, so the real latencies are \
                 worse than these",
                self.missed
            ));
        }
        if plan.protocol == BenchProtocol::Pinpriq {
            self.notes.push(
                "a push has no answer: a put counts until an answer to something behind it has \
                 come, if need be to a pop of an empty queue, which the server does besides"
                    .into(),
            );
        }
        if plan.server_pid.is_some() && self.server.is_none() {
            self.notes.push("--server-pid: nothing is known about this process".into());
        }
        if let (RunLength::Requests(wanted), true) =
            (plan.run_length, plan.workload == Workload::Drain)
            && self.requests < wanted
            && wanted != u64::MAX
        {
            self.notes.push("the backlog was gone before all requests were sent".into());
        }
    }

    /// The run in one line.
    pub(super) fn title(&self) -> String {
        let mut parts = vec![
            format!("{} x {} in flight", count(self.connections as u64, "connection"), self.depth),
            format!("{} B", self.payload_bytes),
        ];
        if self.queues > 1 {
            parts.push(format!("{} queues", self.queues));
        }
        if self.backlog > 0 {
            parts.push(format!("backlog {}", self.backlog));
        }
        if self.waiters > 0 {
            parts.push(count(self.waiters as u64, "waiter"));
        }
        if self.idle > 0 {
            parts.push(format!("{} idle", self.idle));
        }
        parts.extend(self.rate.map(|rate| format!("{rate} a second")));
        format!("{} ({}): {}", name(&self.workload), name(&self.protocol), parts.join(", "))
    }

    /// The whole report as one JSON object.
    pub(super) fn json(&self) -> Result<String, String> {
        serde_json::to_string_pretty(self).map_err(|error| format!("cannot write JSON: {error}"))
    }
}

/// The name of an argument value.
fn name(value: &impl ValueEnum) -> String {
    value.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}

fn server(plan: &BenchSettings, generator: &Generator<'_>) -> Option<Server> {
    let (start, end) = (&generator.window.start, &generator.window.end);
    let (before, after) = (start.server?, end.server?);
    let growth = |from: Sample, to: Sample| float(to.memory_bytes) - float(from.memory_bytes);
    let put = end.put - start.put;
    let is_put = plan.workload == Workload::Put && put > 0;
    let (unconnected, connected) = (generator.unconnected.server?, before);
    let connections = (plan.connections + plan.idle) as u64;
    Some(Server {
        cpu: cpu(start, end, |snapshot| snapshot.server)?,
        memory_before_bytes: before.memory_bytes,
        memory_after_bytes: after.memory_bytes,
        bytes_per_job: is_put.then(|| growth(before, after) / float(put)),
        bytes_per_connection: (plan.workload == Workload::Idle)
            .then(|| growth(unconnected, connected) / float(connections)),
    })
}

fn cpu(start: &Snapshot, end: &Snapshot, of: impl Fn(&Snapshot) -> Option<Sample>) -> Option<Cpu> {
    let nanos = of(end)?.cpu_nanos.saturating_sub(of(start)?.cpu_nanos);
    let replies = (end.replies - start.replies).max(1);
    Some(Cpu {
        seconds: seconds(nanos),
        share: float(nanos) / float((end.at - start.at).max(1)),
        microseconds_per_request: float(nanos) / 1e3 / float(replies),
    })
}

fn busy(start: &Snapshot, end: &Snapshot) -> Option<f64> {
    let ((busy_before, before), (busy_after, after)) = (start.machine?, end.machine?);
    let total = after.checked_sub(before).filter(|&total| total > 0)?;
    Some(float(busy_after.saturating_sub(busy_before)) / float(total))
}
