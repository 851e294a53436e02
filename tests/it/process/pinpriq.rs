//! pinpriq in the real process: beside Job Centre or alone, in real time, and what is logged of
//! errors for which the protocol has no reply.

use crate::support::{Client, NO_JOB, Program, Server, get, plain_command, put, until};
use jobcentre::wire::packets::{Request, push_request};

const PINPRIQ: [&str; 2] = ["--pinpriq", ":0"];

const EMPTY: &[u8] = b"\0\0";

fn connect(server: &Server) -> Client {
    Client::connect(server.address_of("pinpriq"))
}

fn ask(client: &mut Client, request: Request<'_>) {
    let mut bytes = Vec::new();
    push_request(&mut bytes, &request);
    client.send_bytes(&bytes);
}

/// Pushes a packet of an empty key.
fn push(client: &mut Client, priority: u8, ttl_ms: u16, payload: &[u8]) {
    let (queue, packet) = (&b"q"[..], payload);
    ask(client, Request::Push { queue, ttl_ms, priority, key_len: 0, packet });
}

fn pop(client: &mut Client) {
    ask(client, Request::Pop { queue: b"q" });
}

#[track_caller]
fn expect(client: &mut Client, bytes: &[u8]) {
    assert_eq!(client.receive_like(bytes), bytes);
}

#[test]
fn job_centre_and_pinpriq_share_the_jobs() {
    let server = Server::start(&PINPRIQ);
    let (mut lines, mut packets) = (server.connect(), connect(&server));
    lines.ask(&put("q", 0, r#"{"n":1}"#));
    pop(&mut packets);
    expect(&mut packets, b"\0\x01\0\0\0\x07{\"n\":1}");
    push(&mut packets, 7, 0, b"\xff");
    pop(&mut packets);
    expect(&mut packets, b"\0\x01\0\0\0\x01\xff");
    assert_eq!(lines.ask(&get("q")), NO_JOB);
    push(&mut packets, 7, 0, b"\xff");
    let job = r#"{"status":"ok","id":3,"job":{"key":"","payload":"/w=="},"pri":-7,"queue":"q"}"#;
    let wait = r#"{"request":"get","queues":["q"],"wait":true}"#;
    assert_eq!(lines.ask(wait), job);
}

#[test]
fn pinpriq_may_be_the_only_listener() {
    let mut command = plain_command(Program::PATH);
    command.args(["serve", "--listen", "off", "--pinpriq", ":0", "--log-format", "json"]);
    let server = Server::spawn(command);
    let mut client = Client::connect(server.address);
    push(&mut client, 1, 0, b"a");
    pop(&mut client);
    expect(&mut client, b"\0\x01\0\0\0\x01a");
    let protocols = server.log_lines().iter().filter(|line| line.contains("\"address\"")).count();
    assert_eq!(protocols, 1);
}

#[test]
fn packets_expire_after_their_ttl() {
    let server = Server::start(&PINPRIQ);
    let mut client = connect(&server);
    // However slow the machine is, at last a packet is gone before it is asked for.
    until("a packet that has expired", || {
        push(&mut client, 1, 1, b"x");
        std::thread::sleep(std::time::Duration::from_millis(2));
        pop(&mut client);
        if client.arrived().starts_with(EMPTY) {
            return true;
        }
        expect(&mut client, b"\0\x01\0\0\0\x01x");
        false
    });
    expect(&mut client, EMPTY);
    push(&mut client, 1, 0, b"a");
    pop(&mut client);
    expect(&mut client, b"\0\x01\0\0\0\x01a");
}

/// The fields of the lines that warn.
fn warnings(server: &Server) -> Vec<serde_json::Value> {
    let lines = server.log_lines();
    let json = lines.iter().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    json.filter(|line| line["level"] == "WARN").collect()
}

#[test]
fn unknown_request_byte_is_logged_and_closes_the_connection() {
    let server = Server::start(&PINPRIQ);
    let mut other = connect(&server);
    let mut client = connect(&server);
    push(&mut client, 1, 0, b"kept");
    ask(&mut client, Request::Pop { queue: b"another" });
    let port = client.port();
    client.send_bytes(b"GET / HTTP/1.1\r\n\r\nP\0\x01q");
    assert_eq!(client.receive_all().as_bytes(), EMPTY, "what is behind it is passed over");
    server.wait_for_log("begins no request");
    let warnings = warnings(&server);
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    let line = &warnings[0];
    assert_eq!((&line["byte"], &line["total"]), (&"0x47".into(), &1.into()));
    assert_eq!(line["client"], format!("127.0.0.1:{port}"));
    pop(&mut other);
    expect(&mut other, b"\0\x01\0\0\0\x04kept");
}

#[test]
fn job_too_large_for_a_packet_is_logged_and_stays() {
    let server = Server::start(&PINPRIQ);
    let (mut lines, mut packets) = (server.connect(), connect(&server));
    let job = format!(r#"{{"a":"{}"}}"#, "x".repeat(65_535));
    lines.ask(&put("q", 1, &job));
    for _ in 0..1_000 {
        pop(&mut packets);
    }
    expect(&mut packets, &[0; 2_000]);
    server.wait_for_log("too large");
    lines.settle();
    let warnings = warnings(&server);
    assert!(warnings.len() < 100, "{} lines for one job", warnings.len());
    assert_eq!((&warnings[0]["job"], &warnings[0]["total"]), (&1.into(), &1.into()));
    assert!(lines.ask(&get("q")).contains(&job));
}

#[test]
fn too_many_subscriptions_close_the_connection() {
    let server = Server::start(&PINPRIQ);
    let mut client = connect(&server);
    for queue in 0..10_000_u32 {
        ask(&mut client, Request::Subscribe { queue: &queue.to_be_bytes() });
    }
    assert_eq!(client.receive_all(), "");
    server.wait_for_log("subscribed to more queues");
}

#[test]
fn subscriber_of_many_queues_gets_packets_in_push_order() {
    const COUNT: u16 = 500;
    let server = Server::start(&PINPRIQ);
    let (mut subscriber, mut producer) = (connect(&server), connect(&server));
    for queue in 0..2_000_u32 {
        ask(&mut subscriber, Request::Subscribe { queue: &queue.to_be_bytes() });
    }
    ask(&mut subscriber, Request::Subscribe { queue: b"q" });
    subscriber.send_bytes(&vec![b'A'; COUNT.into()]);
    // It is known to be ready once it is answered.
    ask(&mut subscriber, Request::Pop { queue: b"none" });
    expect(&mut subscriber, EMPTY);
    let (mut pushes, mut deliveries) = (Vec::new(), Vec::new());
    for number in 0..COUNT {
        let packet = &number.to_be_bytes();
        let push = Request::Push { queue: b"q", ttl_ms: 0, priority: 1, key_len: 0, packet };
        push_request(&mut pushes, &push);
        deliveries.extend_from_slice(&[b"\0\x01\0\0\0\x02", &packet[..]].concat());
    }
    producer.send_bytes(&pushes);
    expect(&mut subscriber, &deliveries);
}

#[test]
fn connection_beyond_max_clients_is_closed_without_a_reply() {
    let server = Server::start(&["--pinpriq", ":0", "--max-clients", "1"]);
    let mut first = connect(&server);
    pop(&mut first);
    expect(&mut first, EMPTY);
    assert_eq!(connect(&server).receive_all(), "");
    let reply = server.connect().receive_all();
    assert!(reply.contains("already serves 1 clients"), "{reply}");
    pop(&mut first);
    expect(&mut first, EMPTY);
}
