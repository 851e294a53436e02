//! System calls of the server for a request, counted by perf, or by strace where perf cannot.
//!
//! perf counts in the kernel and hardly slows the server down. strace stops it at every call, so
//! more requests arrive in each pass and the count gets smaller. It also names the calls.

use crate::load::{drive, finish, requests};
use crate::metric::{Metric, Sample};
use crate::stats::float;
use crate::targets::{Programs, Server, Target, in_path, jobcentre};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Counts the calls of a run of cycles over 64 connections.
pub(crate) fn count(
    programs: &Programs,
    scratch: &Path,
    depth: usize,
    requests: u64,
) -> Result<Sample, String> {
    let words = |requests: u64| {
        let line = format!("cycle -c 64 -d {depth} -n {requests}");
        line.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    let by_perf = by_perf(programs, scratch, &words(requests));
    // It is slow: a part of the requests will do.
    let by_strace = by_strace(programs, scratch, &words(requests / 6));
    let (calls, tool) = match (&by_perf, &by_strace) {
        (Ok(counted), _) => (counted.each, "perf"),
        (Err(_), Ok(counted)) => (counted.each, "strace"),
        (Err(perf), Err(strace)) => {
            return Err(format!(
                "nothing counts system calls here. perf: {perf}; strace: {strace}"
            ));
        }
    };
    let told = |counted: Result<Counted, String>| match counted {
        Ok(counted) => json!({ "calls_a_request": counted.each, "which": counted.which }),
        Err(why) => json!({ "failed": why }),
    };
    let raw = json!({ "tool": tool, "perf": told(by_perf), "strace": told(by_strace) });
    Ok(Sample { values: [(Metric::Calls, calls)].into(), others: None, raw })
}

struct Counted {
    each: f64,
    which: BTreeMap<String, f64>,
}

fn by_perf(programs: &Programs, scratch: &Path, words: &[String]) -> Result<Counted, String> {
    let perf = in_path("perf")?;
    let server = programs.start(Target::JobCentre)?;
    let file = scratch.join("perf.csv");
    // With a command, perf counts until that ends.
    let mut command = Command::new(perf);
    command.args(["stat", "-x,", "-e", "raw_syscalls:sys_enter", "-p", &server.pid().to_string()]);
    command.arg("-o").arg(&file).arg("--");
    if let Some(cores) = &programs.cores {
        command.args(["taskset", "-c", &cores.generator.to_string()]);
    }
    command.arg(jobcentre()).arg("bench").args(words);
    command.args(["--address", &server.address.to_string(), "--json", "-"]);
    let raw = finish(&mut command)?;
    let text = fs::read_to_string(&file).map_err(|error| format!("perf wrote nothing: {error}"))?;
    let line = text.lines().find(|line| line.contains("raw_syscalls"));
    let calls = line.and_then(|line| line.split(',').next()?.parse::<u64>().ok());
    let calls = calls.ok_or("perf could not count")?;
    Ok(Counted { each: float(calls) / requests(&raw), which: BTreeMap::new() })
}

fn by_strace(programs: &Programs, scratch: &Path, words: &[String]) -> Result<Counted, String> {
    let strace = in_path("strace")?;
    let server = programs.start(Target::JobCentre)?;
    let file = scratch.join("strace.txt");
    let mut child = Command::new(strace)
        .args(["-c", "-f", "-p", &server.pid().to_string(), "-o"])
        .arg(&file)
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| format!("strace does not start: {error}"))?;
    let raw = attached(&mut child, &server)
        .and_then(|()| drive(programs, &server, Target::JobCentre, words));
    let raw = match raw {
        Ok(raw) => raw,
        Err(error) => {
            // It may have ended by itself.
            let _ = child.kill();
            let _ = child.wait();
            return Err(error);
        }
    };
    // It ends, and sums up, with the server.
    drop(server);
    child.wait().map_err(|error| format!("strace is lost: {error}"))?;
    let which = table(&file, requests(&raw))?;
    let each = which.values().sum();
    Ok(Counted { each, which })
}

/// Waits until strace has taken hold of the server.
fn attached(strace: &mut Child, server: &Server) -> Result<(), String> {
    let deadline = Instant::now() + Duration::from_secs(10);
    let is_traced = || {
        let status = fs::read_to_string(format!("/proc/{}/status", server.pid()));
        let status = status.unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("TracerPid:"));
        line.is_some_and(|pid| pid.trim() != "0")
    };
    while !is_traced() {
        if matches!(strace.try_wait(), Ok(Some(_))) || Instant::now() > deadline {
            return Err("strace may not look at another process".to_owned());
        }
        sleep(Duration::from_millis(10));
    }
    Ok(())
}

/// Calls for a request by name, of the table that strace writes: its fourth column are the calls,
/// its last one the names.
fn table(file: &PathBuf, requests: f64) -> Result<BTreeMap<String, f64>, String> {
    let text =
        fs::read_to_string(file).map_err(|error| format!("strace wrote nothing: {error}"))?;
    let row = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let calls: u64 = words.get(3)?.parse().ok()?;
        let name = words.last().filter(|name| **name != "total")?;
        words[0].parse::<f64>().ok()?;
        Some(((*name).to_owned(), float(calls) / requests))
    };
    let which: BTreeMap<String, f64> = text.lines().filter_map(row).collect();
    if which.is_empty() { Err("strace counted nothing".to_owned()) } else { Ok(which) }
}

/// The calls by name, most frequent first, of a sample's raw data.
pub(crate) fn by_name(raw: &Value) -> Vec<(String, f64)> {
    let which = raw["strace"]["which"].as_object();
    let mut which: Vec<(String, f64)> = which
        .into_iter()
        .flatten()
        .filter_map(|(name, calls)| Some((name.clone(), calls.as_f64()?)))
        .collect();
    which.sort_by(|one, other| other.1.total_cmp(&one.1));
    which
}
