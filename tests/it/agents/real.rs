//! The real process and workers in threads.

use super::roster::enlist;
use super::worker::{ACCEPTED, Got, HttpWorker};
use crate::outgoing::peers::Authority;
use crate::support::{Server, TempDir, number, put};
use std::sync::Arc;

fn url(scheme: &str, worker: &HttpWorker) -> String {
    format!("{scheme}://{}/base/", worker.address)
}

#[test]
fn a_job_of_another_door_reaches_the_worker_that_names_its_queue() {
    let dir = TempDir::new("agents-reach");
    let worker = HttpWorker::start(None, Arc::new(|_| Some(ACCEPTED)));
    enlist(&dir, &url("http", &worker), 2, &["mail", "post"]);
    let server = Server::start(&["--data", dir.text()]);
    let mut client = server.connect();
    let argument = r#"{"to":"you","n":[1,2.5,null]}"#;
    client.ask(&put("other", 1, "{}"));
    let id = number(&client.ask(&put("mail", 1, argument)), "id");
    let expected = Got {
        id,
        name: "mail".into(),
        argument: argument.into(),
        timeout_ms: None,
        line: 0,
        number: 0,
    };
    assert_eq!(worker.next(), expected);
    let second = number(&client.ask(&put("post", 1, "{}")), "id");
    let got = worker.next();
    assert_eq!((got.id, got.line, got.number), (second, 0, 1), "the connection is kept");
    // A job that is gone leaves its place to the next.
    let third = number(&client.ask(&put("mail", 1, "{}")), "id");
    client.ask(&crate::support::delete(id));
    assert_eq!(worker.next().id, third);
}

#[test]
fn a_job_reaches_a_worker_by_tls() {
    let dir = TempDir::new("agents-tls");
    let authority = Authority::new();
    let identity = authority.identity("127.0.0.1", 3000);
    let worker = HttpWorker::start(Some(identity), Arc::new(|_| Some(ACCEPTED)));
    enlist(&dir, &url("https", &worker), 1, &["mail"]);
    let pem = dir.path().join("ca.pem");
    std::fs::write(&pem, authority.pem()).unwrap();
    let flags = ["--data", dir.text(), "--worker-ca", pem.to_str().unwrap()];
    let server = Server::start(&flags);
    let id = number(&server.connect().ask(&put("mail", 1, "{}")), "id");
    assert_eq!(worker.next().id, id);
}
