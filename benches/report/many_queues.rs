//! The cost of a get that names many queues. It has its own client, because `jobcentre bench` names
//! one queue in each get.
//!
//! In each of a hundred queues a job of priority 0 waits all the time, so all of them exist and
//! none is empty. A cycle puts a more urgent job into one of them, in turn, reserves and deletes
//! it. Its get names either that queue alone, or all hundred. Everything else is the same, so the
//! difference between two such cycles is the cost of the ninety-nine other names.

use crate::client::Client;
use crate::metric::{Metric, Sample};
use crate::process::Moment;
use crate::stats::float;
use crate::targets::{Programs, Target};
use serde_json::json;
use std::fmt::Write as _;

const QUEUES: usize = 100;
const DEPTH: usize = 16;

/// CPU time of the server for a cycle whose get names `names` queues.
pub(crate) fn measure(programs: &Programs, names: usize, cycles: usize) -> Result<Sample, String> {
    let server = programs.start(Target::JobCentre)?;
    let mut turns = Turns { client: Client::connect(server.address)?, queue: 0 };
    let standing: String = (0..QUEUES).map(|queue| put(queue, 0)).collect();
    turns.client.ids(&standing, QUEUES)?;
    let gets = Gets::new(names);
    // The first ones warm up buffers and caches.
    let warm = (cycles / 20).max(QUEUES);
    turns.cycles(warm, &gets)?;
    let before = Moment::now(server.pid())?;
    let done = turns.cycles(cycles, &gets)?;
    let after = Moment::now(server.pid())?;
    let nanos = after.server - before.server;
    let each = float(nanos) / 1e3 / float(done as u64);
    let raw = json!({ "cycles": done, "queues_named": names, "server_cpu_nanos": nanos });
    let others = before.others_until(&after);
    Ok(Sample { values: [(Metric::CycleCpu, each)].into(), others, raw })
}

fn put(queue: usize, priority: u8) -> String {
    let job =
        "{\"text\":\"a job of a usual size, so that nothing is cheaper than it is elsewhere\"}";
    format!("{{\"request\":\"put\",\"queue\":\"queue{queue}\",\"job\":{job},\"pri\":{priority}}}\n")
}

/// The gets that find the job that was put into a queue.
enum Gets {
    One,
    /// One line for all.
    All(String),
}

impl Gets {
    fn new(names: usize) -> Self {
        if names == 1 {
            return Self::One;
        }
        let names: Vec<String> = (0..names).map(|queue| format!("\"queue{queue}\"")).collect();
        Self::All(format!("{{\"request\":\"get\",\"queues\":[{}]}}\n", names.join(",")))
    }

    fn push(&self, queue: usize, lines: &mut String) {
        match self {
            Self::One => {
                // Strings grow.
                let _ = writeln!(lines, "{{\"request\":\"get\",\"queues\":[\"queue{queue}\"]}}");
            }
            Self::All(line) => lines.push_str(line),
        }
    }
}

/// A client that goes through the queues in turn.
struct Turns {
    client: Client,
    queue: usize,
}

impl Turns {
    /// Runs at least this many cycles, in batches; returns their number.
    fn cycles(&mut self, count: usize, gets: &Gets) -> Result<usize, String> {
        let batches = count.div_ceil(DEPTH);
        for _ in 0..batches {
            let queues: Vec<usize> =
                (0..DEPTH).map(|place| (self.queue + place) % QUEUES).collect();
            self.queue = (self.queue + DEPTH) % QUEUES;
            let puts: String = queues.iter().map(|&queue| put(queue, 9)).collect();
            let mut put_ids = self.client.ids(&puts, DEPTH)?;
            let mut lines = String::new();
            for &queue in &queues {
                gets.push(queue, &mut lines);
            }
            let mut got = self.client.ids(&lines, DEPTH)?;
            put_ids.sort_unstable();
            got.sort_unstable();
            if put_ids != got {
                return Err(format!("put the jobs {put_ids:?} and got {got:?}"));
            }
            self.client.delete(&got)?;
        }
        Ok(batches * DEPTH)
    }
}
