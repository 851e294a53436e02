//! Puts and jobs a second, with a server in memory that the bench starts: run by `cargo bench`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use jobcentre_client::test::Server;
use jobcentre_client::{Client, Context, Failure, NewJob, Worker};
use serde_json::{Value, json};
use tokio::sync::Notify;

fn main() -> jobcentre_client::Result<()> {
    // `cargo test` runs benches, too: a size that only shows that it works.
    let jobs: u64 = if std::env::args().any(|a| a == "--bench") { 100_000 } else { 100 };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(measure(jobs))
}

fn show(what: &str, jobs: u64, since: Instant) {
    let seconds = since.elapsed().as_secs_f64();
    #[allow(clippy::cast_precision_loss, reason = "a figure for people")]
    let rate = jobs as f64 / seconds;
    println!("{what}: {jobs} in {seconds:.2} s, {rate:.0} a second");
}

async fn measure(jobs: u64) -> jobcentre_client::Result<()> {
    let server = Server::start()?;
    let client = Client::connect(&server.url()).await?;
    let started = Instant::now();
    let new = (0..jobs).map(|n| NewJob::new("q", &json!({"n": n})).map(|job| job.safe(false)));
    let new = new.collect::<jobcentre_client::Result<Vec<_>>>()?;
    for placed in client.put_many(new).await? {
        placed?;
    }
    show("puts, pipelined, without keys", jobs, started);
    let started = Instant::now();
    let new = (0..jobs).map(|n| NewJob::new("keyed", &json!({"n": n})));
    let new = new.collect::<jobcentre_client::Result<Vec<_>>>()?;
    for placed in client.put_many(new).await? {
        placed?;
    }
    show("puts, pipelined, safe", jobs, started);

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
    show("jobs of a worker", jobs, started);
    Ok(())
}
