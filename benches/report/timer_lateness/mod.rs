//! Lateness of timers. The scenario has its own client, because `jobcentre bench` puts jobs that
//! are ready at once.
//!
//! Most of very many jobs have a delay, some are reserved until their lease ends, and others have a
//! ttl and must never be reserved. The due moments are spread at random over some seconds, and
//! workers wait for the jobs. Lateness counts from the moment before the put (or the get that
//! reserved the job) was sent, plus its delay (or ttr), until after the read that brought the job.
//! So both ways through the kernel are part of it, and so is the millisecond resolution of epoll.
//!
//! Every job is accounted for: one that comes too early, twice, or after its ttl makes the run
//! fail; one that never comes is counted as missed.

mod jobs;
mod workers;

use crate::client::Client;
use crate::metric::{Metric, Sample};
use crate::process::Moment;
use crate::stats::float;
use crate::targets::{Programs, Target};
use jobs::{DELAYED, EXPIRING, HELD, Job, Jobs, Kind, Plan};
use serde_json::{Value, json};

/// Puts `jobs` jobs that are due within `spread_ms`, and waits for them.
pub(crate) fn measure(programs: &Programs, count: usize, spread_ms: u64) -> Result<Sample, String> {
    let server = programs.start(Target::JobCentre)?;
    let mut client = Client::connect(server.address)?;
    let mut jobs = Jobs::put(&mut client, Plan { count, spread_ms })?;
    let put_nanos = jobs.now();
    let before = Moment::now(server.pid())?;
    let ready = workers::collect(server.address, &mut jobs)?;
    let after = Moment::now(server.pid())?;
    let missed = jobs.iter().filter(|job| job.kind.comes() && job.came.is_none()).count();
    if missed == 0 {
        check_empty(&mut Client::connect(server.address)?)?;
    }
    let lateness = |held: bool| {
        let of = move |job: &&Job| job.kind.comes() && (job.kind == Kind::Held) == held;
        // No job can be reserved before a worker waits for it.
        let late = |job: &Job| Some(job.came?.saturating_sub(job.due.max(ready)));
        Lateness::of(jobs.iter().filter(of).filter_map(late).collect())
    };
    let (delays, leases) = (lateness(false), lateness(true));
    let count_of = |kind: Kind| jobs.iter().filter(|job| job.kind == kind).count();
    let unattended = jobs.iter().filter(|job| job.kind.comes() && job.due < ready).count();
    let raw = json!({
        "jobs": count, "spread_ms": spread_ms, "missed": missed,
        "put_seconds": float(put_nanos) / 1e9,
        "due_before_anybody_waited": unattended,
        "delayed": count_of(Kind::Delayed), "delayed_with_ttl": count_of(Kind::DelayedWithTtl),
        "held": count_of(Kind::Held),
        "never_come": count_of(Kind::Cut) + count_of(Kind::Expiring),
        "late_us": { "delays": delays.told(), "leases": leases.told() },
        "server_cpu_nanos": after.server - before.server,
        "workers_share": before.own_share_until(&after),
    });
    let mut sample = Sample { others: before.others_until(&after), raw, ..Sample::default() };
    sample.values.insert(Metric::Missed, float(missed as u64));
    sample.values.insert(Metric::Share, before.share_until(&after));
    for (lateness, metrics) in [
        (delays, [Metric::DelayP50, Metric::DelayP99, Metric::DelayWorst]),
        (leases, [Metric::LeaseP50, Metric::LeaseP99, Metric::LeaseWorst]),
    ] {
        let figures = [lateness.share(0.5), lateness.share(0.99), lateness.share(1.0)];
        let found = metrics.into_iter().zip(figures);
        sample.values.extend(found.filter_map(|(metric, micros)| Some((metric, micros?))));
    }
    Ok(sample)
}

/// What is left must be nothing.
fn check_empty(client: &mut Client) -> Result<(), String> {
    for queue in [DELAYED, HELD, EXPIRING] {
        client.send(&format!("{{\"request\":\"get\",\"queues\":[\"{queue}\"]}}\n"))?;
        let answer = client.answer()?;
        if answer != "{\"status\":\"no-job\"}\n" {
            return Err(format!("in the end queue {queue} is not empty: {answer}"));
        }
    }
    Ok(())
}

/// How late jobs were, in nanoseconds, rising.
struct Lateness(Vec<u64>);

impl Lateness {
    fn of(mut nanos: Vec<u64>) -> Self {
        nanos.sort_unstable();
        Self(nanos)
    }

    /// The microseconds that this share of them does not exceed.
    fn share(&self, share: f64) -> Option<f64> {
        let last = self.0.len().checked_sub(1)?;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a place")]
        let place = (float(last as u64) * share).ceil() as usize;
        self.0.get(place.min(last)).map(|&nanos| float(nanos) / 1e3)
    }

    fn told(&self) -> Value {
        json!({
            "count": self.0.len(), "min": self.share(0.0), "p50": self.share(0.5),
            "p90": self.share(0.9), "p99": self.share(0.99), "p99_9": self.share(0.999),
            "p99_99": self.share(0.9999), "max": self.share(1.0),
        })
    }
}
