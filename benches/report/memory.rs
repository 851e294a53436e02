//! Memory: of waiting jobs, after their deletion, and of connections.

use crate::load::{drive, number};
use crate::metric::{Metric, Sample};
use crate::process::{resident, settle};
use crate::stats::float;
use crate::targets::{Programs, Server, Target};
use serde_json::json;
use std::io::Write;
use std::net::TcpStream;
use std::thread::sleep;
use std::time::Duration;

/// An allocator gives memory back some time later.
const LATER: Duration = Duration::from_secs(3);

/// Fills a server with jobs; then takes and deletes them all, if `drained`.
pub(crate) fn jobs(
    programs: &Programs,
    target: Target,
    payload: usize,
    count: u64,
    drained: bool,
) -> Result<Sample, String> {
    let server = programs.start(target)?;
    let line = format!("put -c 4 -d 64 --payload {payload} -n {count}");
    let mut words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
    if !drained {
        words.push("--keep".to_owned());
    }
    let raw = drive(programs, &server, target, &words)?;
    let bytes = |name| number(&raw, &["server", name]).ok_or("the generator tells no memory");
    let (before, full) = (bytes("memory_before_bytes")?, bytes("memory_after_bytes")?);
    let mut sample = Sample::default();
    sample.values.insert(Metric::JobBytes, (full - before) / float(count));
    sample.raw = json!({ "run": raw });
    if drained {
        let at_once = float(resident(server.pid())?);
        sleep(LATER);
        let after = |requests: &str| {
            let further = ["cycle", "-c", "4", "-n", requests].map(str::to_owned);
            drive(programs, &server, target, &further)?;
            resident(server.pid()).map(float)
        };
        let later = after("1000")?;
        let last = after("9000")?;
        let kept = |now: f64| (now - before) / (full - before);
        sample.values.insert(Metric::KeptAtOnce, kept(at_once));
        sample.values.insert(Metric::KeptLater, kept(later));
        sample.values.insert(Metric::KeptLast, kept(last));
        sample.raw["drained_bytes"] =
            json!({ "at_once": at_once, "after_1000": later, "after_10000": last });
    }
    Ok(sample)
}

/// What makes a client of this server wait for a job. An echo has nothing to wait for.
fn waiting(target: Target) -> Option<&'static [u8]> {
    match target {
        Target::Echo => None,
        Target::Beanstalkd | Target::Tubes => Some(b"reserve\r\n"),
        // Its own command: a script cannot wait.
        Target::Redis => Some(b"BZPOPMIN jobs 0\r\n"),
        _ => Some(b"{\"request\":\"get\",\"queues\":[\"jobs\"],\"wait\":true}\n"),
    }
}

/// Connects clients that do nothing, and then has all of them wait for a job.
pub(crate) fn connections(
    programs: &Programs,
    target: Target,
    count: usize,
) -> Result<Sample, String> {
    let server = programs.start(target)?;
    let memory = |server: &Server| {
        settle(server.pid())?;
        // The tables have grown by copies, whose memory goes back later.
        sleep(LATER);
        resident(server.pid()).map(float)
    };
    let fresh = memory(&server)?;
    let mut clients = Vec::new();
    for number in 0..count {
        let client = TcpStream::connect(server.address)
            .map_err(|error| format!("client {number} cannot connect: {error}"))?;
        clients.push(client);
    }
    let connected = memory(&server)?;
    let each = |now: f64| (now - fresh) / float(count as u64);
    let mut sample = Sample::default();
    sample.values.insert(Metric::IdleBytes, each(connected));
    sample.raw = json!({ "fresh_bytes": fresh, "connected_bytes": connected });
    if let Some(request) = waiting(target) {
        for client in &mut clients {
            client.write_all(request).map_err(|error| format!("a client lost: {error}"))?;
        }
        let waiting = memory(&server)?;
        sample.values.insert(Metric::WaitingBytes, each(waiting));
        sample.raw["waiting_bytes"] = json!(waiting);
    }
    let is_quiet = |client: &TcpStream| {
        let peeked = client.set_nonblocking(true).and_then(|()| client.peek(&mut [0]));
        peeked.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock)
    };
    match clients.iter().filter(|client| !is_quiet(client)).count() {
        0 => Ok(sample),
        lost => Err(format!("the server has closed {lost} connections, or said something")),
    }
}
