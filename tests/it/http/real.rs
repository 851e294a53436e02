//! A plain client of the real process.

use crate::support::{Client, Server};

fn ask(client: &mut Client, request: &[u8]) -> (String, String) {
    client.send_bytes(request);
    answer(client)
}

/// The status line and the body of the next answer.
pub(super) fn answer(client: &mut Client) -> (String, String) {
    let (status, mut length) = (client.receive(), 0);
    loop {
        let field = client.receive();
        if let Some(value) = field.strip_prefix("Content-Length: ") {
            length = value.trim_end().parse().unwrap();
        }
        if field == "\r" {
            break;
        }
    }
    let body = String::from_utf8(client.receive_count(length)).unwrap();
    (status.trim_end().to_owned(), body)
}

fn post(path: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!("POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n\r\n{body}")
        .into_bytes()
}

fn get(path: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").into_bytes()
}

/// Ten connections put the same key, each a hundred times without waiting for answers.
#[test]
fn simultaneous_puts_of_one_key_make_one_job() {
    let server = Server::start(&["--http", ":0"]);
    let body = r#"{"payload":1,"key":"k"}"#;
    let put = format!(
        "POST /api/v1/queues/q/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: \
         application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let address = server.address_of("http");
    let mut clients: Vec<Client> = (0..10).map(|_| Client::connect(address)).collect();
    for client in &mut clients {
        client.send_bytes(put.repeat(100).as_bytes());
    }
    let mut added = 0;
    for client in &mut clients {
        for _ in 0..100 {
            let (status, body) = answer(client);
            let job: serde_json::Value = serde_json::from_str(&body).unwrap();
            let is_new = job.get("duplicate").is_none();
            let wanted = if is_new { "HTTP/1.1 201 Created" } else { "HTTP/1.1 200 OK" };
            assert_eq!(
                (status.as_str(), &job["id"], &job["key"]),
                (wanted, &1.into(), &"k".into())
            );
            added += u32::from(is_new);
        }
    }
    assert_eq!(added, 1);
    // Done, it is free.
    let client = &mut clients[0];
    let json = "Content-Type: application/json";
    let reserve = r#"{"queues":["q"]}"#;
    let reserve = format!(
        "POST /api/v1/reserve HTTP/1.1\r\nHost: localhost\r\n{json}\r\nContent-Length: \
         {}\r\n\r\n{reserve}",
        reserve.len()
    );
    let (_, body) = ask(client, reserve.as_bytes());
    let jobs: serde_json::Value = serde_json::from_str(&body).unwrap();
    let done = format!("{{\"token\":{}}}", jobs["jobs"][0]["token"]);
    let done = format!(
        "POST /api/v1/jobs/1/complete HTTP/1.1\r\nHost: localhost\r\n{json}\r\nContent-Length: \
         {}\r\n\r\n{done}",
        done.len()
    );
    client.send_bytes(done.as_bytes());
    while client.receive() != "\r" {}
    let (status, body) = ask(client, put.as_bytes());
    assert!(status.ends_with("201 Created") && body.starts_with("{\"id\":2,"), "{status} {body}");
}

#[test]
fn requests_of_one_connection_may_arrive_in_any_pieces() {
    let server = Server::start(&["--http", ":0"]);
    let mut client = Client::connect(server.address_of("http"));
    assert_eq!(ask(&mut client, &get("/health")).0, "HTTP/1.1 200 OK");
    // Byte by byte, each in a segment of its own.
    let bytes = post("/api/v0/job/create", r#"{"payload":{"n":1},"state":["NEW"]}"#);
    for byte in &bytes {
        client.send_bytes(&[*byte]);
    }
    let (status, body) = answer(&mut client);
    let job: serde_json::Value = serde_json::from_str(&body).unwrap();
    assert_eq!(
        (status.as_str(), &job["state"][0], &job["id"]),
        ("HTTP/1.1 200 OK", &"NEW".into(), &1.into())
    );
    // Many at once.
    client.send_bytes(&get("/api/v0/job/1").repeat(100));
    for _ in 0..100 {
        assert_eq!(answer(&mut client), ("HTTP/1.1 200 OK".to_owned(), body.clone()));
    }
    // A large body, which comes in many reads.
    let large = format!(r#"{{"payload":"{}"}}"#, "x".repeat(1024 * 1024));
    let (status, body) = ask(&mut client, &post("/api/v0/job/create", &large));
    assert_eq!((status.as_str(), body.len() > 1024 * 1024), ("HTTP/1.1 200 OK", true));
    let (status, _) = ask(&mut client, &post("/api/v0/job/create", &"x".repeat(1_114_112 + 1)));
    assert_eq!(status, "HTTP/1.1 413 Content Too Large");
    assert_eq!(client.receive_all(), "");
}

#[test]
fn job_centre_and_http_clients_see_the_same_jobs() {
    let server = Server::start(&["--http", ":0"]);
    let (mut lines, mut http) = (server.connect(), Client::connect(server.address_of("http")));
    lines.ask(r#"{"request":"put","queue":"q","pri":1,"job":{"n":1}}"#);
    let (_, body) = ask(&mut http, &get("/api/v0/queue/q/job"));
    assert_eq!(body, "{\"jobs\":[{\"id\":1,\"state\":null}]}\n");
    let (status, _) = ask(&mut http, &post("/api/v0/queue/q/job", r#"{"payload":[2]}"#));
    assert_eq!(status, "HTTP/1.1 200 OK");
    let delivered = |lines: &mut Client| lines.ask(r#"{"request":"get","queues":["q"]}"#);
    assert!(delivered(&mut lines).contains(r#""job":{"n":1}"#));
    assert!(delivered(&mut lines).contains(r#""job":[2]"#));
}

#[test]
fn state_and_history_survive_a_restart() {
    let dir = crate::support::TempDir::new();
    let start = || Server::start(&["--http", ":0", "--data", dir.text()]);
    let mut server = start();
    let mut client = Client::connect(server.address_of("http"));
    for (path, body) in [
        ("/api/v0/queue", r#"{"id":"kept"}"#),
        ("/api/v0/queue/kept/job", r#"{"payload":{"n":1},"state":["A"]}"#),
    ] {
        assert!(ask(&mut client, &post(path, body)).0.starts_with("HTTP/1.1 20"));
    }
    let (_, list) = ask(&mut client, &get("/api/v0/queue/kept/job"));
    let json: serde_json::Value = serde_json::from_str(&list).unwrap();
    let path = format!("/api/v0/queue/kept/job/{}", json["jobs"][0]["id"]);
    let advance = post(&format!("{path}/state"), r#"{"old":["A"],"new":["B"]}"#);
    let (status, before) = ask(&mut client, &advance);
    assert_eq!(status, "HTTP/1.1 200 OK");
    server.signal("KILL");
    server.wait();
    let server = start();
    let mut client = Client::connect(server.address_of("http"));
    assert_eq!(ask(&mut client, &get(&path)), (status, before));
}

#[test]
fn endless_query_delays_no_other_client_and_ends_with_its_client() {
    // As good as for ever: a piece with a wildcard that is found nowhere, in a long text.
    let slow = "printf('%.*c', 1000000, 'a') LIKE '%' || printf('%.*c', 40000, 'a') || '_b%'";
    let slow = post("/api/v0/job", &format!(r#"{{"query":[["IS","{slow}",null]]}}"#));
    let quick = post("/api/v0/job", r#"{"query":[["IS","id + 0",1]]}"#);
    let server = Server::start(&["--http", ":0", "--query-timeout", "1h"]);
    let connect = || Client::connect(server.address_of("http"));
    let mut other = connect();
    ask(&mut other, &post("/api/v0/job/create", r#"{"payload":1}"#));
    let endless = |end: fn(Client) -> Option<Client>| {
        let asking = |_| {
            let mut client = connect();
            client.send_bytes(&slow);
            end(client)
        };
        (0..8).filter_map(asking).collect::<Vec<Client>>()
    };
    let half_closed = endless(|client| {
        client.half_close();
        Some(client)
    });
    endless(|_| None);
    endless(|client| {
        client.reset();
        None
    });
    let staying = endless(Some);
    for _ in 0..10 {
        let (status, body) = ask(&mut other, &quick);
        assert!(status == "HTTP/1.1 200 OK" && body.contains(r#""id":1"#), "{status} {body}");
    }
    drop(staying);
    for client in half_closed {
        let answer = client.receive_all();
        assert!(answer.contains("the client has closed its side"), "{answer}");
    }
    let mut hasty = connect();
    hasty.send_bytes(&quick);
    hasty.half_close();
    let answer = hasty.receive_all();
    assert!(answer.starts_with("HTTP/1.1 200 OK") && answer.contains(r#""id":1"#), "{answer}");
}
