//! A worker with a result and retries, and the producer of its jobs.
//!
//! `jobcentre serve`, then `cargo run -p jobcentre-client --example worker`; Ctrl-C stops it.

use std::time::Duration;

use jobcentre_client::{Backoff, Client, Context, Failure, Result, Worker};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct Count {
    text: String,
}

#[tokio::main]
async fn main() -> Result<()> {
    let url =
        std::env::var("JOBCENTRE_URL").unwrap_or_else(|_| "jobcentre://127.0.0.1:11400".into());
    let client = Client::connect(&url).await?;
    let mut ids = Vec::new();
    for text in ["one word", "", "a few words more"] {
        let placed = client
            .put("count", &Count { text: text.into() })
            .keep_result(Duration::from_secs(60))
            .backoff(Backoff::exponential(Duration::from_secs(1), Duration::from_secs(60)))
            .await?;
        ids.push(placed.id);
    }
    let results = client.clone();
    let producer = tokio::spawn(async move {
        for id in ids {
            match results.result::<usize>(id, Duration::from_secs(60)).await {
                Ok(words) => println!("job {id}: {words} words"),
                Err(error) => println!("job {id}: {error}"),
            }
        }
    });
    let stopped = Worker::builder(client)
        .queue("count", |count: Count, context: Context| async move {
            context.progress(0.5, None).await?;
            match count.text.split_whitespace().count() {
                0 => Err(Failure::new("Empty", "there is no text").no_retry()),
                words => Ok(words),
            }
        })
        .run_until(tokio::signal::ctrl_c())
        .await?;
    producer.abort();
    println!("{} finished, {} failed", stopped.finished, stopped.failed);
    Ok(())
}
