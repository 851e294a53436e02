//! The generator's HTTP protocols, against the real server and against one with wrong replies.

use super::{failure, measure, number, serve};
use std::io::{Read, Write};
use std::net::TcpListener;

const ONLY_HTTP: &str = "--listen off --http 127.0.0.1:0";

#[test]
fn generator_puts_and_reads_jobs_over_http() {
    let (_process, address) = serve(ONLY_HTTP);
    let report = measure(address, "put --protocol jobq -n 600 -c 4 -d 4 --queues 2 --keep");
    assert_eq!(report["latency_us"]["put"]["count"], 600);
    assert_eq!(report["jobs"]["delivered"], 0);
    let report = measure(address, "drain --protocol jobq --backlog 500 -c 4 -d 4 --queues 2");
    assert_eq!(report["requests"], 500);
    assert_eq!(report["latency_us"]["get"]["count"], 500);
    assert_eq!(report["jobs"]["delivered"], 500, "each was read once");
    let report = measure(address, "cycle --protocol jobq -n 400 -c 4");
    assert_eq!(report["latency_us"]["put"]["count"], report["latency_us"]["get"]["count"]);
    assert!(report["latency_us"]["delete"].is_null(), "{report}");
}

#[test]
fn health_check_workload_is_measured() {
    let (_process, address) = serve(ONLY_HTTP);
    let report = measure(address, "put --protocol health -n 600 -c 4 -d 4 --keep");
    assert_eq!(report["requests"], 600);
    let report = measure(address, "cycle --protocol health -n 600 -c 4");
    assert_eq!(number(&report["latency_us"]["all"]["count"]), 600);
}

#[test]
fn wrong_http_status_fails_the_run() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut bytes = [0; 4096];
            while let Ok(1..) = stream.read(&mut bytes) {
                stream.write_all(b"HTTP/1.1 503 Full\r\nContent-Length: 2\r\n\r\n{}").unwrap();
            }
        }
    });
    let error = failure(address, "put --protocol health -n 1 -c 1 --keep");
    assert!(error.contains("503 Full"), "{error}");
    let error = failure(address, "put --protocol jobq -n 1 -c 1 --keep");
    assert!(error.contains("does not make the queue"), "{error}");
}
