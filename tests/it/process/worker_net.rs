//! `--worker-net`: which addresses the server calls.

use crate::dispatcher_sim::server_client::{ask, protocol};
use crate::support::{Server, until};
use serde_json::{Value, json};
use std::net::{SocketAddr, TcpListener};

/// The port of a server that other machines reach, on this machine.
fn start(net: &[&str]) -> (Server, SocketAddr) {
    let server = Server::start(&[&["--http", "0.0.0.0:0", "--allow-anyone"], net].concat());
    let at = SocketAddr::from(([127, 0, 0, 1], protocol(&server).port()));
    (server, at)
}

fn register(server: SocketAddr, url: &str) -> (u16, Value) {
    ask(server, "POST /worker", None, &json!({"name": "w", "max_jobs": 1, "url": url}))
}

fn put(server: SocketAddr) {
    assert_eq!(ask(server, "POST /job", None, &json!({"name": "j", "argument": 1})).0, 201);
}

#[test]
fn server_that_others_reach_calls_only_public_addresses() {
    let worker = TcpListener::bind("127.0.0.1:0").unwrap();
    worker.set_nonblocking(true).unwrap();
    let port = worker.local_addr().unwrap().port();
    let (server, at) = start(&[]);
    for host in ["127.0.0.1", "[::1]", "[::ffff:10.1.1.1]", "169.254.169.254", "0.0.0.0"] {
        let (status, body) = register(at, &format!("http://{host}:{port}"));
        assert_eq!(status, 403, "{host}: {body}");
        assert!(body.to_string().contains("--worker-net public,"), "{body}");
    }
    drop(server);
    // What a name means is known when it is looked up.
    for name in ["localhost", "127.1", "0x7f000001", "2130706433"] {
        let (server, at) = start(&[]);
        assert_eq!(register(at, &format!("http://{name}:{port}")).0, 201, "{name}");
        put(at);
        until("the worker is not called", || {
            let refused = format!("{name}:{port} is not called");
            let lines = server.log_lines();
            lines.iter().any(|line| line.contains(&refused) && line.contains("--worker-net"))
        });
    }
    assert!(worker.accept().is_err(), "a worker was called");
}

#[test]
fn permitted_network_is_called() {
    let worker = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = worker.local_addr().unwrap().port();
    let (_server, at) = start(&["--worker-net", "public,127.0.0.0/8"]);
    assert_eq!(register(at, &format!("http://127.0.0.1:{port}")).0, 201);
    assert_eq!(register(at, "http://10.1.1.1").0, 403);
    put(at);
    worker.accept().unwrap();
}

#[test]
fn server_on_loopback_calls_any_address() {
    let server = Server::start(&["--http", ":0"]);
    assert_eq!(register(protocol(&server), "http://127.0.0.1:9").0, 201);
}
