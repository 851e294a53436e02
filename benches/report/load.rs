//! Runs of `jobcentre bench`, and what its JSON says.

use crate::metric::{Metric, Sample};
use crate::stats::float;
use crate::targets::{Programs, Server, Target, jobcentre};
use serde_json::Value;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::process::{Command, Stdio};

/// A figure at a path of names.
pub(crate) fn number(json: &Value, path: &[&str]) -> Option<f64> {
    path.iter().try_fold(json, |json, name| json.get(name))?.as_f64()
}

/// Drives a server, and gives everything that the generator reports.
///
/// # Errors
/// Says what the generator said.
pub(crate) fn drive(
    programs: &Programs,
    server: &Server,
    target: Target,
    arguments: &[String],
) -> Result<Value, String> {
    drive_at(programs, server, server.address, target, arguments)
}

/// The same by a certain protocol of the server.
///
/// # Errors
/// Says what the generator said.
pub(crate) fn drive_at(
    programs: &Programs,
    server: &Server,
    address: SocketAddr,
    target: Target,
    arguments: &[String],
) -> Result<Value, String> {
    let mut command = match &programs.cores {
        Some(cores) => cores.command(cores.generator, jobcentre()),
        None => Command::new(jobcentre()),
    };
    command
        .arg("bench")
        .args(arguments)
        .args(["--dialect", target.dialect()])
        .args(programs.address(target, address))
        .args(["--server-pid", &server.pid().to_string(), "--json", "-"]);
    let raw = finish(&mut command)?;
    if raw["requests"].as_u64() == Some(0) {
        // Nothing at all for a request would look like the best of all figures.
        return Err("nothing was answered while it was measured".to_owned());
    }
    Ok(raw)
}

/// Runs a command that ends with the generator's JSON.
///
/// # Errors
/// Says what it said on stderr.
pub(crate) fn finish(command: &mut Command) -> Result<Value, String> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("the generator does not start: {error}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(said.lines().last().unwrap_or("the generator failed").trim().to_owned());
    }
    serde_json::from_slice(&output.stdout)
        .map_err(|error| format!("the generator's JSON makes no sense: {error}"))
}

/// The figures in the generator's JSON.
pub(crate) fn sample(mut raw: Value) -> Sample {
    let latency = if raw["latency_us"]["delivery"].is_null() { "all" } else { "delivery" };
    let places: [(Metric, &[&str]); 10] = [
        (Metric::Cpu, &["server", "cpu", "microseconds_per_request"]),
        (Metric::Share, &["server", "cpu", "share"]),
        (Metric::Throughput, &["requests_per_second"]),
        (Metric::Min, &["latency_us", latency, "min"]),
        (Metric::P50, &["latency_us", latency, "p50"]),
        (Metric::P90, &["latency_us", latency, "p90"]),
        (Metric::P99, &["latency_us", latency, "p99"]),
        (Metric::P999, &["latency_us", latency, "p99_9"]),
        (Metric::P9999, &["latency_us", latency, "p99_99"]),
        (Metric::Max, &["latency_us", latency, "max"]),
    ];
    let found = places.iter().filter_map(|(metric, path)| Some((*metric, number(&raw, path)?)));
    let mut values: BTreeMap<Metric, f64> = found.collect();
    if let (Some(cpu), Some(requests)) = (values.get(&Metric::Cpu), requests_of_job(&raw)) {
        values.insert(Metric::JobCpu, cpu * requests);
    }
    let others = others(&raw);
    if let Some(fields) = raw.as_object_mut() {
        // Said once, in the head of the report.
        fields.remove("machine");
    }
    Sample { values, others, raw }
}

/// Replies for each job, including deliveries to waiters.
fn requests_of_job(raw: &Value) -> Option<f64> {
    let count = |kind| number(raw, &["latency_us", kind, "count"]);
    let jobs = count("delivery").or_else(|| count("get"))?;
    let answers: f64 = ["put", "get", "delete", "delivery"].into_iter().filter_map(count).sum();
    (jobs > 0.0).then(|| answers / jobs)
}

/// CPUs that neither the server nor the generator used.
fn others(raw: &Value) -> Option<f64> {
    let busy = number(raw, &["machine_busy"])? * number(raw, &["machine", "cpus"])?;
    let server = number(raw, &["server", "cpu", "share"])?;
    let generator = number(raw, &["generator", "share"])?;
    Some((busy - server - generator).max(0.0))
}

/// Jobs that were put, delivered and deleted, each a request of its own.
pub(crate) fn requests(raw: &Value) -> f64 {
    let of = |name| raw["jobs"][name].as_u64().unwrap_or_default();
    float(of("put") + of("delivered") + of("deleted"))
}
