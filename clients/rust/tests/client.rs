//! The client against the real server.
#![allow(clippy::unwrap_used, clippy::unit_arg, reason = "a test may panic")]

use std::time::Duration;

use jobcentre_client::test::Server;
use jobcentre_client::{Client, Failure};
use serde_json::{Value, json};

const WAIT: Duration = Duration::from_secs(60);

#[tokio::test]
async fn put_reserve_complete() {
    let server = Server::start().unwrap();
    let client = Client::connect(&server.url()).await.unwrap();
    let placed = client.put("q", &json!({"n": 1})).keep_result(WAIT).await.unwrap();
    let job = client.reserve(["q"]).wait(WAIT).await.unwrap().expect("a job");
    assert_eq!((job.id(), job.payload::<Value>().unwrap()), (placed.id, json!({"n": 1})));
    job.complete_with(&7).await.unwrap();
    assert_eq!(client.result::<u8>(placed.id, WAIT).await.unwrap(), 7);
    assert!(client.reserve(["q"]).await.unwrap().is_none());
    let id = client.put("q", &json!({})).await.unwrap().id;
    let job = client.reserve(["q"]).await.unwrap().expect("a job");
    job.fail(Failure::new("Broken", "no").no_retry()).await.unwrap();
    let error = client.result::<()>(id, WAIT).await.unwrap_err();
    assert_eq!(error.to_string(), "the job has failed: Broken: no");
    assert_eq!(client.put("q", &[1]).await.unwrap_err().kind(), "bad-request");
}
