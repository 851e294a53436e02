//! The client of threads against the real server.
#![cfg(feature = "blocking")]
#![allow(clippy::unwrap_used, clippy::unit_arg, reason = "a test may panic")]

mod support;

use std::time::Duration;

use jobcentre_client::blocking::Client;
use jobcentre_client::test::Server;
use jobcentre_client::{Failure, NewJob};
use serde_json::{Value, json};

const PATIENCE: Duration = Duration::from_secs(60);

fn work_through(client: &Client) {
    let job = NewJob::new("q", &json!({"n": 1})).unwrap().keep_result(PATIENCE);
    let id = client.put_job(job).unwrap().id;
    let mut job = client.reserve(&["q"], PATIENCE).unwrap().expect("a job");
    assert_eq!((job.id(), job.payload::<Value>().unwrap()), (id, json!({"n": 1})));
    assert!(job.touch().unwrap() && job.progress(0.5, Some("half")).unwrap());
    job.complete_with("yes").unwrap();
    assert_eq!(client.result::<String>(id, PATIENCE).unwrap(), "yes");

    let id = client.put("q", &json!({})).unwrap().id;
    drop(client.reserve(&["q"], Duration::ZERO).unwrap().expect("a job"));
    let job = client.reserve(&["q"], PATIENCE).unwrap().expect("the job that was given back");
    assert_eq!(client.peek(id).unwrap().unwrap().attempts, 1);
    job.fail(Failure::new("Broken", "no").no_retry()).unwrap();
    assert_eq!(client.result::<()>(id, PATIENCE).unwrap_err().kind(), "job-failed");

    client.pause("paused").unwrap();
    let id = client.put("paused", &json!({})).unwrap().id;
    assert!(client.reserve(&["paused"], Duration::ZERO).unwrap().is_none());
    client.resume("paused").unwrap();
    assert!(client.bury(id).unwrap() && client.kick(id).unwrap());
    client.drain(true).unwrap();
    assert_eq!(client.put("q", &json!({})).unwrap_err().kind(), "draining");
    client.drain(false).unwrap();

    let jobs = (0..1_500).map(|n| NewJob::new("many", &json!({"n": n})).unwrap());
    let mut ids: Vec<u64> =
        client.put_many(jobs).unwrap().into_iter().map(|placed| placed.unwrap().id).collect();
    ids.dedup();
    assert_eq!(ids.len(), 1_500);
    assert_eq!(client.queue("many").unwrap().unwrap().counts.ready, 1_500);
}

#[test]
fn tcp() {
    let server = Server::start().unwrap();
    work_through(&Client::connect(&server.url()).unwrap());
}

#[test]
fn unix() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let server = Server::builder().listen(format!("unix:{}", path.display())).start().unwrap();
    work_through(&Client::connect(&server.url()).unwrap());
}

#[cfg(feature = "tls")]
#[test]
fn tls() {
    let folder = tempfile::tempdir().unwrap();
    let (certificate, key) = support::write_certificate(folder.path());
    let server = Server::builder()
        .listen("tls:127.0.0.1:0")
        .argument("--tls-cert")
        .argument(certificate.display().to_string())
        .argument("--tls-key")
        .argument(key.display().to_string())
        .start()
        .unwrap();
    let url = format!("{}?ca={}", server.url(), certificate.display());
    work_through(&Client::connect(&url).unwrap());
    assert_eq!(Client::connect(&server.url()).unwrap_err().kind(), "untrusted");
}

#[cfg(feature = "tls")]
#[test]
fn tls_with_a_client_certificate() {
    let folder = tempfile::tempdir().unwrap();
    let (certificate, key) = support::write_certificate(folder.path());
    let [trusted, own, own_key] = support::write_client_certificate(folder.path());
    let mut server = Server::builder().listen("tls:127.0.0.1:0");
    for (flag, file) in
        [("--tls-cert", &certificate), ("--tls-key", &key), ("--tls-client-ca", &trusted)]
    {
        server = server.argument(flag).argument(file.display().to_string());
    }
    let server = server.start().unwrap();
    let url = format!("{}?ca={}", server.url(), certificate.display());
    let identity = format!("&cert={}&key={}", own.display(), own_key.display());
    work_through(&Client::connect(&(url.clone() + &identity)).unwrap());
    // The handshake of TLS 1.3 ends before the server has looked for a certificate.
    let refused = Client::connect(&url).and_then(|client| client.put("q", &json!({})));
    let refused = refused.unwrap_err();
    assert_eq!(refused.kind(), "untrusted");
    assert!(refused.to_string().contains("the certificate of this client"), "{refused}");
}

#[test]
fn puts_outlive_the_server_and_lost_answers() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = Server::builder().data(folder.path().join("data")).start().unwrap();
    let proxy = support::LossyProxy::start(server.address().to_owned());
    let url = format!("jobcentre://{}", proxy.address);
    let client = Client::connect_with(&url, None, PATIENCE).unwrap();
    proxy.lose_answer();
    assert!(!client.put("q", &json!({"n": 1})).unwrap().duplicate);
    assert!(proxy.has_lost());
    server.kill();
    server.restart().unwrap();
    client.put("q", &json!({"n": 2})).unwrap();
    assert_eq!(client.queue("q").unwrap().unwrap().counts.ready, 2);
    proxy.lose_answer();
    let unsafe_job = NewJob::new("q", &json!({"n": 3})).unwrap().safe(false);
    assert_eq!(client.put_job(unsafe_job).unwrap_err().kind(), "answer-lost");
    assert_eq!(client.queue("q").unwrap().unwrap().counts.ready, 3);
}
