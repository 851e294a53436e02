//! Calls of a web API that permits 10 calls a second, and 3 at a time.
//!
//! A constraint of the server holds the jobs back, however many workers there are; it is made once:
//!
//! ```text
//! jobcentre constraints set api-calls '{"matcher": [["name", "=", "api-calls"]],
//!     "max_running": 3, "rate": {"count": 10, "period_ms": 1000}}'
//! ```
//!
//! `cargo run -p jobcentre-client --example api_calls -- work` makes the calls, until Ctrl-C;
//! `... -- PATH...` puts a job for each path of `$API_URL`, and prints the answers. `jobcentre
//! constraints` shows the limits, `jobcentre constraints delete api-calls` removes them.
//!
//! If the API refuses a call for now, its Retry-After says when it is made again.

use std::time::Duration;

use jobcentre_client::{Backoff, Client, Context, Failure, Result, Worker};
use serde::{Deserialize, Serialize};
use serde_json::Value;

#[derive(Serialize, Deserialize)]
struct Call {
    path: String,
}

#[tokio::main]
async fn main() -> Result<()> {
    let url = std::env::var("JOBCENTRE_URL").unwrap_or_else(|_| "127.0.0.1:11400".into());
    let client = Client::connect(&url).await?;
    let paths: Vec<String> = std::env::args().skip(1).collect();
    if paths == ["work"] {
        let api = std::env::var("API_URL").unwrap_or_else(|_| "https://api.example.com".into());
        let agent = ureq::Agent::config_builder()
            .timeout_global(Some(Duration::from_secs(30)))
            .http_status_as_error(false)
            .build()
            .new_agent();
        Worker::builder(client)
            .queue_blocking("api-calls", move |job: Call, _: Context| call(&agent, &api, &job.path))
            .run_until(tokio::signal::ctrl_c())
            .await?;
        return Ok(());
    }
    let mut jobs = Vec::new();
    for path in paths {
        let placed = client
            .put("api-calls", &Call { path: path.clone() })
            .max_attempts(8)
            .backoff(Backoff::exponential(Duration::from_millis(500), Duration::from_secs(300)))
            .keep_result(Duration::from_secs(600))
            .await?;
        jobs.push((path, placed.id));
    }
    for (path, id) in jobs {
        println!("{path} {}", client.result::<Value>(id, Duration::from_secs(300)).await?);
    }
    Ok(())
}

/// A job may run twice: the call is one that may be made twice.
fn call(agent: &ureq::Agent, api: &str, path: &str) -> std::result::Result<Value, Failure> {
    let mut answer = agent.get(format!("{api}{path}")).call()?;
    let status = answer.status().as_u16();
    if answer.status().is_success() {
        return Ok(serde_json::from_reader(answer.body_mut().as_reader())?);
    }
    let failure = Failure::new("Status", format!("{path}: {status}"));
    // It may be a date as well; then the pauses are those of the job.
    let header = answer.headers().get("Retry-After").and_then(|value| value.to_str().ok());
    let pause = header.and_then(|seconds| seconds.parse().ok()).map(Duration::from_secs);
    Err(match (status, pause) {
        (429 | 503, Some(pause)) => failure.retry_in(pause),
        (408 | 429 | 500.., _) => failure,
        _ => failure.no_retry(),
    })
}
