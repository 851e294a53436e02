//! An import with dependencies: files are read side by side, and the report comes after all.
//!
//! `cargo run -p jobcentre-client --example import_orders -- FILE.csv ...` puts the jobs, runs a
//! worker, and prints the report. Each line of a file is CUSTOMER,AMOUNT.

use std::collections::BTreeMap;
use std::time::Duration;

use jobcentre_client::{Backoff, Client, Context, Failure, NewJob, Result, Worker};
use serde::{Deserialize, Serialize};

/// What the customers have ordered.
type Sums = BTreeMap<String, u64>;

const KEPT: Duration = Duration::from_secs(600);

#[derive(Serialize, Deserialize)]
struct File {
    path: String,
}

/// The jobs that have read the files.
#[derive(Serialize, Deserialize)]
struct Report {
    files: Vec<u64>,
}

#[tokio::main]
async fn main() -> Result<()> {
    let url = std::env::var("JOBCENTRE_URL").unwrap_or_else(|_| "127.0.0.1:11400".into());
    let client = Client::connect(&url).await?;
    let pauses = || Backoff::exponential(Duration::from_millis(500), Duration::from_secs(60));
    let jobs = std::env::args().skip(1).map(|path| {
        let job = NewJob::new("orders-files", &File { path })?;
        Ok(job.keep_result(KEPT).max_attempts(5).backoff(pauses()))
    });
    let mut files = Vec::new();
    for placed in client.put_many(jobs.collect::<Result<Vec<_>>>()?).await? {
        files.push(placed?.id);
    }
    // A file that cannot be read holds it up, until its job is kicked or deleted.
    let report = client.put("orders-report", &Report { files: files.clone() }).after(files);
    let report = report.keep_result(KEPT).await?.id;

    let results = client.clone();
    let worker = Worker::builder(client.clone())
        .queue_blocking("orders-files", |file: File, _: Context| read_file(&file.path))
        .queue("orders-report", move |report: Report, _: Context| sum(results.clone(), report))
        .concurrency(4);
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let working = tokio::spawn(worker.run_until(stopped));
    let sums = client.result::<Sums>(report, Duration::from_secs(300)).await;
    drop(stop);
    working.await.expect("the worker does not panic")?;
    for (customer, amount) in sums? {
        println!("{customer} {amount}");
    }
    Ok(())
}

/// A job may run twice: its result is the same.
fn read_file(path: &str) -> std::result::Result<Sums, Failure> {
    let mut sums = Sums::new();
    for (number, line) in std::fs::read_to_string(path)?.lines().enumerate() {
        let order = line.split_once(',').and_then(|(customer, amount)| {
            Some((customer.to_owned(), amount.trim().parse::<u64>().ok()?))
        });
        let Some((customer, amount)) = order else {
            let place = format!("{path} has no CUSTOMER,AMOUNT in line {}", number + 1);
            return Err(Failure::new("BadFile", place).no_retry());
        };
        *sums.entry(customer).or_default() += amount;
    }
    Ok(sums)
}

async fn sum(client: Client, report: Report) -> std::result::Result<Sums, Failure> {
    let mut sums = Sums::new();
    for id in report.files {
        // It is there: this job waits for those.
        for (customer, amount) in client.result::<Sums>(id, Duration::ZERO).await? {
            *sums.entry(customer).or_default() += amount;
        }
    }
    Ok(sums)
}
