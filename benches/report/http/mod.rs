//! The HTTP protocol: queries and polls over a queue of many jobs.
//!
//! One client in a thread of this process sends queries back to back, while `jobcentre bench` has
//! clients of Job Centre work on other jobs. Each query reads all jobs: the few that match were put
//! last, and they are fewer than its limit. Polls come from several clients at once, one in flight
//! for each; no job may be claimed twice.

mod client;
pub(crate) mod native;
pub(crate) mod scenarios;

use crate::load::{drive, drive_at, sample};
use crate::metric::{Metric, Sample};
use crate::process::Moment;
use crate::stats::float;
use crate::targets::{Programs, Server, Target};
use client::Client;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The queue that is queried: that of the generator with this prefix.
const PREFIX: &str = "watched";
const QUEUE: &str = "/api/v0/queue/watched0";
/// What all jobs of the generator have for a state, and the few that queries find.
const CREATED: &str = r#"["CREATED"]"#;
const RARE: &str = r#"["RARE"]"#;
const RARE_JOBS: usize = 5;
/// It asks for more than there are.
const QUERY: &str = r#"{"query":[["IS","json_extract(state, '$[0]')","RARE"]],"limit":10}"#;
/// `state IS` a literal, in the words of SQL.
const POLL: &str = r#"{"query":[["IS","state","'[\"CREATED\"]'"]],"state":["TAKEN"]}"#;
const POLLERS: usize = 8;
const OK: u16 = 200;
const NOT_FOUND: u16 = 404;

/// A server with this many jobs in an indexed queue.
fn filled(programs: &Programs, jobs: u64) -> Result<Server, String> {
    let target = Target::Jobq;
    let server = programs.start(target)?;
    let line = format!("put -c 4 -d 64 --payload 100 -n {jobs} --keep --queue-prefix {PREFIX}");
    let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
    drive(programs, &server, target, &words)?;
    Ok(server)
}

/// Drives clients of Job Centre beside `jobs` jobs in another queue, with or without queries.
pub(crate) fn beside_queries(
    programs: &Programs,
    words: &[String],
    jobs: u64,
    with_queries: bool,
) -> Result<Sample, String> {
    let few = RARE_JOBS as u64;
    let server = filled(programs, jobs.saturating_sub(few))?;
    let mut client = Client::connect(server.address)?;
    for number in 0..few {
        let body = format!("{{\"payload\":{number},\"state\":{RARE}}}");
        let (status, answer) = client.post(&format!("{QUEUE}/job"), &body)?;
        if status != OK {
            return Err(format!("a job was not put: {answer}"));
        }
    }
    if with_queries {
        // One without load: it must be right before it is measured beside anything.
        query(&mut client)?;
    }
    let ended = AtomicBool::new(false);
    let (raw, queries) = std::thread::scope(|scope| {
        let querying = with_queries.then(|| scope.spawn(|| query_until(&mut client, &ended)));
        let raw = drive_at(programs, &server, server.other, Target::JobCentre, words);
        ended.store(true, Ordering::Relaxed);
        let queries = querying.map(|thread| thread.join().map_err(|_| "the queries panicked"));
        (raw, queries)
    });
    let queries = queries.transpose()?.transpose()?;
    if queries.as_ref().is_some_and(|queries| queries.count == 0) {
        return Err("no query was answered".to_owned());
    }
    let mut sample = sample(raw?);
    let rate = queries.as_ref().map_or(0.0, |queries| float(queries.count) / queries.seconds);
    sample.values.insert(Metric::Queries, rate);
    sample.raw["queries"] = queries.map_or(Value::Null, |queries| {
        let Queries { count, seconds, longest_ms } = queries;
        json!({ "count": count, "seconds": seconds, "longest_ms": longest_ms })
    });
    Ok(sample)
}

/// What came of queries.
struct Queries {
    count: u64,
    seconds: f64,
    longest_ms: f64,
}

fn query_until(client: &mut Client, ended: &AtomicBool) -> Result<Queries, String> {
    stand_back();
    let start = Instant::now();
    let mut queries = Queries { count: 0, seconds: 0.0, longest_ms: 0.0 };
    while !ended.load(Ordering::Relaxed) {
        let before = Instant::now();
        query(client)?;
        queries.longest_ms = queries.longest_ms.max(before.elapsed().as_secs_f64() * 1e3);
        queries.count += 1;
    }
    queries.seconds = start.elapsed().as_secs_f64();
    Ok(queries)
}

/// Gives this thread the lowest priority: what is measured is how the server's queries disturb
/// its clients, not how their asker disturbs the generator beside it.
fn stand_back() {
    #[cfg(target_os = "linux")]
    {
        use thread_priority::{
            NormalThreadSchedulePolicy, ThreadPriority, ThreadSchedulePolicy,
            set_thread_priority_and_policy, thread_native_id,
        };
        let idle = ThreadSchedulePolicy::Normal(NormalThreadSchedulePolicy::Idle);
        // Without it the figures are a little worse.
        let _ = set_thread_priority_and_policy(thread_native_id(), ThreadPriority::Min, idle);
    }
}

fn query(client: &mut Client) -> Result<(), String> {
    let (status, answer) = client.post(&format!("{QUEUE}/query_jobs"), QUERY)?;
    let found = answer.matches(&format!("\"state\":{RARE}")).count();
    let of_any = answer.matches("\"modified\":").count();
    if status == OK && found == RARE_JOBS && of_any == RARE_JOBS {
        return Ok(());
    }
    Err(format!("a query was answered by {status}: {answer:.200}"))
}

/// Polls of several clients over `jobs` jobs, until the time is over or all are claimed.
pub(crate) fn polls(programs: &Programs, jobs: u64, seconds: f64) -> Result<Sample, String> {
    let server = filled(programs, jobs)?;
    let ends = Instant::now() + Duration::from_secs_f64(seconds);
    let start = Instant::now();
    let before = Moment::now(server.pid())?;
    let polled: Vec<Result<Vec<u64>, String>> = std::thread::scope(|scope| {
        let pollers: Vec<_> =
            (0..POLLERS).map(|_| scope.spawn(|| poll_until(server.address, ends))).collect();
        let join = |thread: std::thread::ScopedJoinHandle<'_, _>| {
            thread.join().unwrap_or_else(|_| Err("a poller panicked".to_owned()))
        };
        pollers.into_iter().map(join).collect()
    });
    let after = Moment::now(server.pid())?;
    let elapsed = start.elapsed().as_secs_f64();
    let polled = polled.into_iter().collect::<Result<Vec<_>, _>>()?.concat();
    let count = polled.len();
    if count == 0 {
        return Err("no poll was answered".to_owned());
    }
    if polled.into_iter().collect::<BTreeSet<u64>>().len() != count {
        return Err("a job was polled twice".to_owned());
    }
    let count = float(count as u64);
    let nanos = after.server - before.server;
    let raw = json!({ "polls": count, "seconds": elapsed, "server_cpu_nanos": nanos });
    let values = [
        (Metric::Polls, count / elapsed),
        (Metric::Cpu, float(nanos) / 1e3 / count),
        (Metric::Share, before.share_until(&after)),
    ];
    Ok(Sample { values: values.into(), others: before.others_until(&after), raw })
}

/// The ids of the jobs that a client has polled.
fn poll_until(address: SocketAddr, ends: Instant) -> Result<Vec<u64>, String> {
    let mut client = Client::connect(address)?;
    let path = format!("{QUEUE}/poll_job");
    let mut ids = Vec::new();
    while Instant::now() < ends {
        let (status, answer) = client.post(&path, POLL)?;
        if status == NOT_FOUND {
            break;
        }
        ids.push(
            polled(status, &answer)
                .ok_or_else(|| format!("a poll was answered by {status}: {answer:.200}"))?,
        );
    }
    Ok(ids)
}

/// The id of the job in the answer to a poll, which must have advanced it just now.
fn polled(status: u16, answer: &str) -> Option<u64> {
    let job: Value = serde_json::from_str(answer).ok().filter(|_| status == OK)?;
    let old: Value = serde_json::from_str(CREATED).ok()?;
    let events = job["events"].as_array()?;
    let [tag, event] = &events.last()?.as_array()?[..] else { return None };
    let is_right = events.len() == 2
        && tag == "job_state_advanced"
        && event["old"] == old
        && event["new"] == job["state"]
        && job["state"] == json!(["TAKEN"]);
    job["id"].as_u64().filter(|_| is_right)
}
