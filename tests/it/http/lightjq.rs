//! LightJQ in the real process: a pusher with a plain socket, observed by a client of another
//! protocol.

use crate::support::{Client, Server};
use jobcentre::wire::msgpack::{from_json, to_json};
use serde_json::{Value, json};
use std::net::TcpStream;

/// A pusher, or a worker that does not listen.
struct Peer(Client);

impl Peer {
    fn connect(server: &Server) -> Self {
        Self(Client::new(TcpStream::connect(server.address_of("http")).unwrap()))
    }

    /// The status and the body, as JSON.
    fn ask(&mut self, line: &str, fields: &str, body: &Value) -> (u16, Value) {
        self.send(line, fields, body);
        self.answer()
    }

    fn send(&mut self, line: &str, fields: &str, body: &Value) {
        let mut bytes = Vec::new();
        if !body.is_null() {
            from_json(body.to_string().as_bytes(), &mut bytes).unwrap();
        }
        let length = bytes.len();
        let head = format!(
            "{line} HTTP/1.1\r\nHost: localhost\r\n{fields}Content-Type: application/msgpack\r\n\
             Content-Length: {length}\r\n\r\n"
        );
        self.0.send_bytes(&[head.as_bytes(), &bytes].concat());
    }

    fn answer(&mut self) -> (u16, Value) {
        let status = self.0.receive()["HTTP/1.1 ".len()..][..3].parse().unwrap();
        let (mut length, mut packed) = (0, false);
        loop {
            let field = self.0.receive();
            if let Some(value) = field.strip_prefix("Content-Length: ") {
                length = value.trim_end().parse().unwrap();
            }
            packed |= field == "Content-Type: application/msgpack\r";
            if field == "\r" {
                break;
            }
        }
        let bytes = self.0.receive_count(length);
        assert_eq!(packed, length > 0, "what there is, is MessagePack");
        if bytes.is_empty() {
            return (status, Value::Null);
        }
        let mut text = Vec::new();
        to_json(&bytes, &mut text).unwrap();
        (status, serde_json::from_slice(&text).unwrap())
    }
}

fn push(peer: &mut Peer, job: &Value) -> String {
    let (status, body) = peer.ask("POST /job", "", job);
    assert_eq!(status, 201, "{body}");
    body["job_id"].as_str().unwrap().to_owned()
}

#[test]
fn tracked_job_is_put_reserved_by_job_centre_awaited_and_cancelled() {
    let server = Server::start(&["--http", ":0", "--result-ttl", "30s"]);
    let mut pusher = Peer::connect(&server);
    let job = json!({"name": "sum", "argument": {"numbers": [1, 2.5, null]}, "priority": -3,
        "keep_result": true, "timeout": 600});
    let first = push(&mut pusher, &job);
    let second = push(&mut pusher, &json!({"name": "sum", "argument": "x"}));
    assert_eq!((first.as_str(), second.as_str()), ("1", "2"));
    let status = |peer: &mut Peer, id: &str| {
        let (code, body) = peer.ask(&format!("GET /job/{id}"), "", &Value::Null);
        (code, body["status"].as_str().map(str::to_owned))
    };
    assert_eq!(status(&mut pusher, "1"), (200, Some("queued".to_owned())));
    let mut other = server.connect();
    let taken = other.ask(r#"{"request":"get","queues":["sum"]}"#);
    let expected = r#""id":1,"job":{"numbers":[1,2.5,null]},"pri":3,"queue":"sum"}"#;
    assert!(taken.ends_with(expected), "{taken}");
    assert_eq!(status(&mut pusher, "1"), (200, Some("running".to_owned())));
    let late = pusher.ask("GET /job/1/polling?timeout=0.01", "", &Value::Null);
    assert_eq!(late.0, 408, "{late:?}");
    assert_eq!(pusher.ask("DELETE /job/1", "", &Value::Null).0, 409);
    // One waits for the end of the job, and is answered.
    let mut waiter = Peer::connect(&server);
    waiter.send("GET /job/1/polling?timeout=600", "", &Value::Null);
    // Another one goes away while it waits.
    let mut fickle = Peer::connect(&server);
    fickle.send("GET /job/1/polling?timeout=600", "", &Value::Null);
    fickle.0.reset();
    assert_eq!(other.ask(r#"{"request":"delete","id":1}"#), r#"{"status":"ok"}"#);
    assert_eq!(waiter.answer(), (200, Value::Null), "there is no result");
    assert_eq!(status(&mut pusher, "1"), (200, None));
    assert_eq!(pusher.ask("DELETE /job/2", "", &Value::Null).0, 204);
    assert_eq!(status(&mut pusher, "2"), (200, None));
    assert_eq!(pusher.ask("DELETE /job/2", "", &Value::Null).0, 404);
    assert_eq!(status(&mut pusher, "3"), (404, None));
    // What the operator sees counts it as all others.
    let nothing = other.ask(r#"{"request":"get","queues":["sum"]}"#);
    assert!(nothing.contains("no-job"), "{nothing}");
}

/// What the settings file says wins at each start; what was set under other names stays, until it
/// is deleted.
#[test]
fn constraints_survive_a_restart_and_the_config_file_overrides_them() {
    let dir = crate::support::TempDir::new();
    let data = dir.text().to_owned();
    let file = format!("{data}.toml");
    let table = "[[constraint]]\nname = 'both'\nmatcher = [['name', '=', 'b']]\nmax_running = 2\n";
    std::fs::write(&file, table).unwrap();
    let flags = ["--http", ":0", "--data", &data];
    let server = Server::start(&flags);
    let mut peer = Peer::connect(&server);
    let mut set = |line: &str, name: &str| {
        let constraint = json!({"matcher": [["name", "=", name]], "max_running": 1});
        peer.ask(line, "", &constraint).0
    };
    assert_eq!(set("PUT /constraint/both", "b"), 201);
    assert_eq!(set("PUT /constraint/other", "o"), 201);
    assert_eq!(set("PUT /constraint/gone", "b"), 201);
    assert_eq!(peer.ask("DELETE /constraint/gone", "", &Value::Null), (204, Value::Null));
    for name in ["b", "b", "b", "o", "o"] {
        push(&mut peer, &json!({"name": name, "argument": 1}));
    }
    drop(server);

    let mut more = flags.to_vec();
    more.extend(["--config", &file]);
    let server = Server::start(&more);
    std::fs::remove_file(&file).unwrap();
    let mut peer = Peer::connect(&server);
    let mut most = |name: &str| {
        let (status, body) = peer.ask(&format!("GET /constraint/{name}"), "", &Value::Null);
        (status, body["max_running"].as_u64())
    };
    assert_eq!(most("both"), (200, Some(2)), "the file wins");
    assert_eq!(most("other"), (200, Some(1)));
    assert_eq!(most("gone"), (404, None));
    let mut other = server.connect();
    let mut taken = |queue: &str| {
        let answer = other.ask(&format!(r#"{{"request":"get","queues":["{queue}"]}}"#));
        !answer.contains("no-job")
    };
    assert_eq!(["b", "b", "b", "o", "o"].map(&mut taken), [true, true, false, true, false]);
    drop(server);

    let server = Server::start(&flags);
    let mut peer = Peer::connect(&server);
    let (status, body) = peer.ask("GET /constraint/both", "", &Value::Null);
    assert_eq!((status, &body["max_running"]), (200, &json!(2)), "also without the file");
}

#[test]
fn workers_and_jobs_survive_a_restart() {
    let dir = crate::support::TempDir::new();
    let data = dir.text().to_owned();
    let flags = ["--http", ":0", "--data", &data];
    let server = Server::start(&flags);
    let mut peer = Peer::connect(&server);
    let worker = json!({"name": "w", "max_jobs": 2, "url": "http://127.0.0.1:9", "jobs": ["a"]});
    let (status, body) = peer.ask("POST /worker", "", &worker);
    assert_eq!((status, &body["worker_id"]), (201, &json!("1")));
    let id = push(&mut peer, &json!({"name": "b", "argument": 1, "max_retry": 3}));
    let report = json!({"job_id": id, "type": "success", "result": 1});
    assert_eq!(peer.ask("POST /done", "Worker-Id: 1\r\n", &report).0, 404);
    drop(server);
    let server = Server::start(&flags);
    let mut peer = Peer::connect(&server);
    let (status, body) = peer.ask(&format!("GET /job/{id}"), "", &Value::Null);
    assert_eq!((status, &body["status"]), (200, &json!("queued")));
    assert_eq!(peer.ask("DELETE /worker", "Worker-Id: 1\r\n", &Value::Null).0, 204);
    assert_eq!(peer.ask("DELETE /worker", "Worker-Id: 1\r\n", &Value::Null).0, 404);
}
