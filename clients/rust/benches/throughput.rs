//! Puts and jobs a second, with a server in memory that the bench starts: run by `cargo bench`.
//!
//! Each round measures `jobcentre bench put` over one connection first, then the client: with the
//! same requests, with the options and keys that a put has unless it says otherwise, by many tasks
//! that put one job at a time, and the jobs of a worker.

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use jobcentre_client::test::Server;
use jobcentre_client::{Client, Context, Failure, NewJob, Result, Worker};
use serde::Serialize;
use serde_json::Value;
use tokio::sync::Notify;
use tokio::task::JoinSet;

/// Requests that `jobcentre bench` keeps unanswered, and tasks that put at a time.
const DEPTH: u64 = 1_024;

fn main() -> Result<()> {
    // `cargo test` runs benches, too: a size that only shows that it works.
    let is_bench = std::env::args().any(|a| a == "--bench");
    let (jobs, rounds) = if is_bench { (200_000, 5) } else { (100, 1) };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime");
    for _ in 0..rounds {
        runtime.block_on(measure(jobs))?;
    }
    Ok(())
}

#[allow(clippy::cast_precision_loss, reason = "a figure for people")]
fn show(what: &str, jobs: u64, since: Instant, reference: Option<f64>) {
    let rate = jobs as f64 / since.elapsed().as_secs_f64();
    let part = reference.map(|other| format!(", {:.0} % of the reference", 100.0 * rate / other));
    println!("{what}: {rate:.0} a second{}", part.unwrap_or_default());
}

/// What the bench of the server reaches over one connection.
fn reference(server: &Server, jobs: u64) -> Option<f64> {
    let program = std::env::var_os("JOBCENTRE_BINARY").unwrap_or_else(|| "jobcentre".into());
    let mut bench = Command::new(program);
    bench.args(["bench", "put", "--connections", "1", "--payload", "32", "--json", "-"]);
    bench.args(["--address", server.address(), "--depth", &DEPTH.to_string()]);
    let output = bench.args(["--requests", &jobs.to_string()]).output().ok()?;
    let result: Value = serde_json::from_slice(&output.stdout).ok()?;
    let rate = result["requests_per_second"].as_f64()?;
    println!("jobcentre bench put, the reference: {rate:.0} a second");
    Some(rate)
}

async fn put_all(client: &Client, what: &str, jobs: u64, make: fn(u64) -> NewJob) -> Result<()> {
    let started = Instant::now();
    for placed in client.put_many((0..jobs).map(make)).await? {
        placed?;
    }
    show(what, jobs, started, None);
    Ok(())
}

/// 32 bytes as JSON, as the payloads of the reference.
#[derive(Serialize)]
struct Numbers {
    number: u64,
    x: u64,
}

fn job(queue: &str, n: u64) -> NewJob {
    let payload = Numbers { number: 1_000_000_000_000_000 + n, x: 0 };
    NewJob::new(queue, &payload).expect("numbers are JSON")
}

fn bare(n: u64) -> NewJob {
    let job = job("bare", n);
    job.ttr(Duration::ZERO).max_attempts(0).safe(false)
}

async fn measure(jobs: u64) -> Result<()> {
    let server = Server::start()?;
    let reference = reference(&server, jobs);
    let client = Client::connect(&server.url()).await?;
    let started = Instant::now();
    for placed in client.put_many((0..jobs).map(bare)).await? {
        placed?;
    }
    show("puts, the same requests", jobs, started, reference);
    put_all(&client, "puts, without keys", jobs, |n| job("q", n).safe(false)).await?;
    put_all(&client, "puts, safe", jobs, |n| job("keyed", n)).await?;

    let started = Instant::now();
    let mut tasks = JoinSet::new();
    for _ in 0..DEPTH.min(jobs) {
        let client = client.clone();
        let share = jobs / DEPTH.min(jobs);
        tasks.spawn(async move {
            for n in 0..share {
                client.put_job(bare(n)).await?;
            }
            Ok(share)
        });
    }
    let mut placed = 0;
    for share in tasks.join_all().await {
        placed += share.inspect_err(|e: &jobcentre_client::Error| eprintln!("{e}"))?;
    }
    show("puts, one at a time by many tasks", placed, started, reference);
    work(client, jobs).await
}

async fn work(client: Client, jobs: u64) -> Result<()> {
    let (done, all) = (Arc::new(AtomicU64::new(0)), Arc::new(Notify::new()));
    let (done2, all2) = (done.clone(), all.clone());
    let started = Instant::now();
    Worker::builder(client)
        .concurrency(64)
        .queue("q", move |_: Value, _: Context| {
            if done2.fetch_add(1, Ordering::Relaxed) + 1 == jobs {
                all2.notify_one();
            }
            std::future::ready(Ok::<_, Failure>(()))
        })
        .run_until(all.notified())
        .await?;
    show("jobs of a worker", jobs, started, None);
    Ok(())
}
