//! LightJQ: deliveries to workers.
//!
//! All workers and pushers are one loop of this process (`fleet`): a thread for each would measure
//! the scheduler. Pushers send jobs at a fixed rate, whether or not earlier ones were answered. A
//! worker accepts a delivery and reports at once, by a connection of its own. The wait of a job
//! counts from before its push is written until after the read that brought it to a worker.
//!
//! Every job is accounted for: one that is rejected, sent twice or not accepted as reported, or
//! that is not done some seconds after the last push, makes the run fail.

mod fleet;
mod http_connection;
pub(crate) mod scenarios;

use crate::metric::{Metric, Sample};
use crate::stats::float;
use crate::targets::{Programs, Target};
use fleet::Fleet;
use serde_json::json;

/// Workers, and how many jobs each takes at a time.
const WORKERS: usize = 100;
const PLACES: u32 = 4;

/// Before it counts.
const WARMUP: f64 = 0.2;

/// Pushes `rate` jobs a second for `seconds` seconds.
pub(crate) fn measure(programs: &Programs, rate: u32, seconds: f64) -> Result<Sample, String> {
    let server = programs.start(Target::Jobq)?;
    let fleet = Fleet::assemble(server.address, WORKERS, PLACES)?;
    let found = fleet.work(server.pid(), rate, [WARMUP, WARMUP + seconds])?;
    let (before, after) = (found.before, found.after);
    let nanos = after.server - before.server;
    let done = float(found.done);
    if found.done == 0 {
        return Err("no job was done".to_owned());
    }
    let mut waits = found.waits;
    waits.sort_unstable();
    let wait = |share: f64| {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a place")]
        let place = (float(waits.len() as u64) * share).ceil() as usize;
        waits.get(place.clamp(1, waits.len().max(1)) - 1).map(|&nanos| float(nanos) / 1e3)
    };
    let raw = json!({
        "offered_per_second": rate, "pushed": found.pushed, "done_while_it_counts": found.done,
        "seconds": found.seconds, "server_cpu_nanos": nanos,
        "wait_us": { "count": waits.len(), "min": wait(0.0), "p50": wait(0.5), "p90": wait(0.9),
            "p99": wait(0.99), "p99_9": wait(0.999), "max": wait(1.0) },
        "workers_share": before.own_share_until(&after),
    });
    let mut sample = Sample { others: before.others_until(&after), raw, ..Sample::default() };
    sample.values.insert(Metric::Jobs, done / found.seconds);
    sample.values.insert(Metric::JobCpu, float(nanos) / 1e3 / done);
    sample.values.insert(Metric::Share, before.share_until(&after));
    for (metric, share) in [(Metric::P50, 0.5), (Metric::P99, 0.99), (Metric::Max, 1.0)] {
        sample.values.extend(wait(share).map(|micros| (metric, micros)));
    }
    Ok(sample)
}
