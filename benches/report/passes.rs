//! The loads that make a pass of the loop long (`tests/attacks`): the longest pass, and what a
//! client beside the load notices. The loads are programs of their own, which start their server;
//! started by root, they have its loop and that client run before all else.

use crate::chapters::Chapter;
use crate::load::finish;
use crate::metric::{Metric, Sample};
use crate::scenarios::{Entry, Scenario, Sizes, Task};
use crate::targets::{Programs, Target, in_path};
use std::path::Path;
use std::process::Command;

/// The attacks, with what each of them is.
pub(crate) const ATTACKS: [(&str, &str); 15] = [
    ("large_key_group", "a large key group is popped"),
    ("waiting_gets", "gets that name many new queues end together"),
    ("lease_ends", "leases end in one moment"),
    ("silent_workers", "workers of the processor fall silent together"),
    ("long_priorities", "deletes of jobs with priorities of a million digits"),
    ("holder_leaves", "a client that holds many jobs leaves"),
    ("busy_clients", "many clients fill what one pass reads of each"),
    ("unreachable_workers", "workers that cannot be reached, and jobs for them"),
    ("subscriptions", "subscribers with as many subscriptions as allowed get packets"),
    ("queue_names", "the tables grow with the names of queues"),
    ("expired_jobs", "a reserve meets jobs whose time to live is over"),
    ("many_dependents", "a job ends for which many others wait"),
    ("event_streams", "ten event streams beside many jobs in 10,000 queues"),
    ("tls_clients", "ten thousand clients begin TLS at once"),
    ("long_chain", "each of many jobs waits for the one before it"),
];

/// The name of the scenario of an attack.
pub(crate) fn id(attack: &str) -> String {
    format!("pass-{}", attack.replace('_', "-"))
}

/// The attack whose streams are there in every second turn.
pub(crate) const STREAMS: &str = "event_streams";

fn columns(attack: &str) -> Vec<Metric> {
    use Metric::{BesideStreams, LongestPass, Max, P50, P99, P999, PassCpu, StreamsShare};
    let own: &[Metric] = if attack == STREAMS { &[StreamsShare, BesideStreams] } else { &[] };
    [&[PassCpu, LongestPass, P50, P99, P999, Max], own].concat()
}

/// One for each attack.
pub(crate) fn all(sizes: &Sizes) -> Vec<Scenario> {
    let scenario = |&(attack, title): &(&'static str, &str)| Scenario {
        id: id(attack),
        group: Chapter::Passes,
        title: title.to_owned(),
        entries: vec![Entry {
            label: Target::JobCentre.name().to_owned(),
            target: Target::JobCentre,
            task: Task::Attack { attack, small: sizes.small_attacks },
        }],
        columns: columns(attack),
        compared: Vec::new(),
        note: None,
    };
    ATTACKS.iter().map(scenario).collect()
}

/// Runs an attack. Latencies are those of the client beside it.
pub(crate) fn measure(programs: &Programs, attack: &str, small: bool) -> Result<Sample, String> {
    let server = programs.program(Target::JobCentre).ok_or("absent")?;
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/attacks/run.py");
    let python = in_path("python3")?;
    let mut command = match &programs.cores {
        Some(cores) => cores.command_on_both(python),
        None => Command::new(python),
    };
    command.arg(script).arg(server).arg("--json").arg(attack);
    if small {
        command.arg("--small");
    }
    let raw = finish(&mut command)?;
    let value = |name: &str, scale: f64| raw[name].as_f64().map(|value| value * scale);
    let canary = |name: &str| raw["canary_ms"][name].as_f64().map(|value| value * 1e3);
    let found = [
        (Metric::LongestPass, value("longest_pass_ms", 1.0)),
        (Metric::PassCpu, value("cpu_ms", 1.0)),
        (Metric::P50, canary("p50")),
        (Metric::P99, canary("p99")),
        (Metric::P999, canary("p99.9")),
        (Metric::Max, canary("max")),
        (Metric::StreamsShare, value("streams_share", 1.0)),
        (Metric::BesideStreams, value("beside_over_without", 1.0)),
    ];
    let values = found.into_iter().filter_map(|(metric, value)| Some((metric, value?))).collect();
    Ok(Sample { values, others: None, raw })
}
