//! Exports, imports and backups over HTTP, against the real process.

use super::real::answer;
use crate::rng::TestRng;
use crate::support::{Client, Server, TempDir};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// A request on a connection of its own, which the server closes; the status and the whole body.
fn whole(server: &Server, head: &str, body: &[u8]) -> (String, Vec<u8>) {
    let mut client = Client::connect(server.address_of("http"));
    let length = body.len();
    let text = format!(
        "{head} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
         Content-Type: application/x-ndjson\r\nContent-Length: {length}\r\n\r\n"
    );
    client.send_bytes(&[text.as_bytes(), body].concat());
    let status = client.receive();
    let mut chunked = false;
    let mut length = 0;
    loop {
        let field = client.receive();
        chunked |= field.starts_with("Transfer-Encoding: chunked");
        if let Some(value) = field.strip_prefix("Content-Length: ") {
            length = value.trim_end().parse().unwrap();
        }
        if field == "\r" {
            break;
        }
    }
    if !chunked {
        return (status, client.receive_count(length));
    }
    let mut whole = Vec::new();
    loop {
        let size = client.receive();
        let size = usize::from_str_radix(size.trim_end(), 16).unwrap();
        whole.extend(client.receive_count(size));
        client.receive();
        if size == 0 {
            return (status, whole);
        }
    }
}

fn ask(client: &mut Client, method: &str, path: &str, body: &Value) -> (String, Value) {
    let body = body.to_string();
    let request = format!(
        "{method} /api/v1{path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    client.send_bytes(request.as_bytes());
    let (status, body) = answer(client);
    (status, serde_json::from_str(&body).unwrap_or(Value::Null))
}

fn export(server: &Server) -> Vec<Value> {
    let (status, body) = whole(server, "GET /api/v1/export", b"");
    assert!(status.contains("200"), "{status}");
    let text = String::from_utf8(body).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// A put with random fields.
fn a_put(rng: &mut TestRng, number: usize) -> Value {
    let mut put = match rng.below(4) {
        0 => json!({"payload_base64": "AP8BAg=="}),
        1 => json!({"payload_base64": "AAA=", "packet_key_base64": "a2V5"}),
        2 => json!({"payload": {"number": number, "text": "x".repeat(rng.below(200))}}),
        _ => json!({"payload": [null, true, "\u{e9}\n", 1.5]}),
    };
    let fields: [(&str, Value); 9] = [
        ("pri", json!(i64::try_from(rng.below(2_000)).unwrap() - 1_000)),
        ("delay_ms", json!(3_600_000 + rng.below(1_000_000))),
        ("ttl_ms", json!(7_200_000 + rng.below(1_000_000))),
        ("ttr_ms", json!(1 + rng.below(100_000))),
        ("max_attempts", json!(1 + rng.below(5))),
        ("backoff", json!({"kind": "fixed", "first_ms": 1, "max_ms": 9, "jitter": 0.07})),
        ("keep_result_ms", json!(3_600_000)),
        ("key", json!(format!("key {number}"))),
        ("pri", json!(i64::MAX)),
    ];
    for (name, value) in fields {
        if rng.percent(30) {
            put[name] = value;
        }
    }
    if put.get("key").is_some() && rng.percent(50) {
        put["key_ttl_ms"] = json!(rng.below(1_000_000));
    }
    // The ids that were given out are 1 to `number`.
    let mut after: Vec<usize> = (0..rng.below(3)).map(|_| 1 + rng.below(number.max(1))).collect();
    after.sort_unstable();
    after.dedup();
    let group = rng.below(3);
    let bonds = [
        ("after", json!(after), number > 0),
        ("group", json!(format!("group {group}")), true),
        ("after_group", json!(format!("group {}", (group + 1) % 3)), true),
        ("on_dependency_lost", json!("run"), true),
    ];
    for (name, value, can_be) in bonds {
        if can_be && rng.percent(20) {
            put[name] = value;
        }
    }
    put
}

/// Puts random jobs, and does something to some of them.
fn fill(server: &Server, rng: &mut TestRng, count: usize) {
    let mut client = Client::connect(server.address_of("http"));
    for number in 0..count {
        let queue = rng.below(3);
        let (status, job) =
            ask(&mut client, "POST", &format!("/queues/q{queue}/jobs"), &a_put(rng, number));
        assert!(status.contains("201"), "{status} {job}");
        let id = &job["id"];
        let (path, body) = match rng.below(6) {
            0 => (format!("/jobs/{id}/bury"), json!({})),
            1 => {
                let body = json!({"queues": [format!("q{queue}")], "worker": "w"});
                let (_, reserved) = ask(&mut client, "POST", "/reserve", &body);
                let Some(job) = reserved["jobs"].get(0) else { continue };
                let (id, token) = (&job["id"], &job["token"]);
                match rng.below(4) {
                    0 => continue,
                    1 => (
                        format!("/jobs/{id}/complete"),
                        json!({"token": token, "result": {"r": number}}),
                    ),
                    2 => (
                        format!("/jobs/{id}/fail"),
                        json!({"token": token, "error": "E", "message": "m", "retry": false}),
                    ),
                    _ => (
                        format!("/jobs/{id}/fail"),
                        json!({"token": token, "message": "m", "delay_ms": 3_600_000}),
                    ),
                }
            }
            _ => continue,
        };
        ask(&mut client, "POST", &path, &body);
    }
}

/// Milliseconds since 1970 of a moment.
fn moment(text: &Value) -> Option<i64> {
    Some(text.as_str()?.parse::<jiff::Timestamp>().unwrap().as_millisecond())
}

/// The moments of a job that say something: when it was put first.
fn times_of(job: &Value) -> Vec<&'static str> {
    let mut times = vec!["created_at", "expires_at", "kept_until"];
    if job["state"] == "scheduled" {
        times.push("available_at");
    }
    times
}

fn forget_times(job: &mut Value) {
    for time in ["created_at", "available_at", "expires_at", "kept_until"] {
        job[time] = Value::Null;
    }
}

/// These moments are about the same.
fn assert_near(one: &Value, other: &Value, times: &[&str]) {
    for time in times {
        let near = match (moment(&one[time]), moment(&other[time])) {
            (Some(first), Some(second)) => (first - second).abs() < 3_000,
            (first, second) => first == second,
        };
        assert!(near, "{time}: {one} {other}");
    }
}

/// What must be the same on another server: all but the id, and the lease of a reserved job, which
/// is ready there. Moments may differ by what an import takes.
fn assert_same(one: &Value, other: &Value, new_ids: &BTreeMap<u64, u64>) {
    let (mut one, mut other) = (one.clone(), other.clone());
    let after = one["after"].as_array().unwrap();
    let after = after.iter().filter_map(|id| new_ids.get(&id.as_u64().unwrap()));
    one["after"] = json!(after.collect::<Vec<_>>());
    if one["after"] == json!([]) && one["group"].is_null() && one["after_group"].is_null() {
        // There is nothing that it may be lost with.
        one["on_dependency_lost"] = json!("cancel");
    }
    let was_reserved = one["state"] == "reserved";
    if was_reserved {
        one["state"] = json!("ready");
        one["lease"] = Value::Null;
        one["attempts"] = json!(one["attempts"].as_u64().unwrap() - 1);
    }
    assert_near(&one, &other, &times_of(&one));
    for job in [&mut one, &mut other] {
        forget_times(job);
        job["id"] = Value::Null;
    }
    assert_eq!(one, other);
}

#[test]
fn export_of_one_server_is_the_same_jobs_in_another() {
    for seed in 0..6 {
        let mut rng = TestRng::new(seed);
        let (from, to) = (Server::start(&["--http", ":0"]), Server::start(&["--http", ":0"]));
        fill(&from, &mut rng, 120);
        let (_, lines) = whole(&from, "GET /api/v1/export", b"");
        let jobs = export(&from);
        assert!(jobs.is_sorted_by_key(|job| job["id"].as_u64()), "by id");
        let (status, body) = whole(&to, "POST /api/v1/import", &lines);
        let body = String::from_utf8_lossy(&body).into_owned();
        assert!(status.contains("200"), "{status} {body}");
        let said: Value = serde_json::from_str(&body).unwrap();
        assert_eq!(said, json!({"imported": jobs.len(), "duplicates": 0, "errors": []}));
        let came = export(&to);
        assert_eq!(came.len(), jobs.len());
        let id = |job: &Value| job["id"].as_u64().unwrap();
        let new_ids = jobs.iter().map(id).zip(came.iter().map(id)).collect();
        for (one, other) in jobs.iter().zip(&came) {
            assert_same(one, other, &new_ids);
        }
        assert!(came.iter().any(|job| job["blocked_by"] == "dependency"), "no job waits");
        // Once more: what has a key is there already.
        let keyed = |job: &&Value| job["key"].is_string() && job["state"] != "completed";
        let (_, body) = whole(&to, "POST /api/v1/import", &lines);
        let said: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(said["duplicates"], json!(jobs.iter().filter(keyed).count()));
    }
}

/// Everything but the moment of the put survives a crash, whatever the kind of payload; and an
/// index is as it was switched.
#[test]
fn jobs_and_indexes_are_the_same_after_a_crash() {
    let dir = TempDir::new();
    let data = dir.path().join("data");
    let args = ["--http", ":0", "--data", data.to_str().unwrap()];
    let mut server = Server::start(&args);
    fill(&server, &mut TestRng::new(77), 150);
    let (_, lines) = whole(&server, "GET /api/v1/export", b"");
    whole(&server, "POST /api/v1/import", &lines);
    let mut client = Client::connect(server.address_of("http"));
    let none = json!({});
    for (queue, on) in [("q0", true), ("q1", true), ("q1", false), ("new", true)] {
        let method = if on { "PUT" } else { "DELETE" };
        let (_, said) = ask(&mut client, method, &format!("/queues/{queue}/index"), &none);
        assert_eq!(said["index"], json!(on));
    }
    let before = export(&server);
    server.signal("KILL");
    server.wait();
    let server = Server::start(&args);
    let after = export(&server);
    assert_eq!(before.len(), after.len());
    for (one, other) in before.iter().zip(&after) {
        let (mut one, mut other) = (one.clone(), other.clone());
        // A lease under a token goes on.
        assert_near(&one, &other, &times_of(&one)[1..]);
        for job in [&mut one, &mut other] {
            forget_times(job);
            job["lease"]["until"] = Value::Null;
        }
        assert_eq!(one, other);
    }
    let mut client = Client::connect(server.address_of("http"));
    for (queue, on) in [("q0", true), ("q1", false), ("new", true)] {
        let (_, shown) = ask(&mut client, "GET", &format!("/queues/{queue}"), &none);
        assert_eq!(shown["index"], json!(on), "{queue}");
    }
}

/// A job that is exported while it runs is ready on the other server: its next run begins anew.
#[test]
fn imported_job_has_no_progress_of_its_former_run() {
    let server = Server::start(&["--http", ":0"]);
    let line = json!({"queue": "q", "payload": 1, "state": "reserved", "attempts": 1,
                      "progress": 0.5, "progress_message": "half", "ttr_ms": 60_000});
    let (_, said) = whole(&server, "POST /api/v1/import", format!("{line}\n").as_bytes());
    assert_eq!(serde_json::from_slice::<Value>(&said).unwrap()["imported"], json!(1));
    let mut client = Client::connect(server.address_of("http"));
    let (_, reserved) = ask(&mut client, "POST", "/reserve", &json!({"queues": ["q"]}));
    let job = &reserved["jobs"][0];
    assert_eq!((&job["progress"], &job["progress_message"]), (&Value::Null, &Value::Null));
}

/// What a client does not read is not made.
#[test]
fn export_waits_for_a_slow_reader() {
    let server = Server::start(&["--http", ":0"]);
    let line = format!("{{\"queue\":\"q\",\"payload\":\"{}\"}}\n", "x".repeat(50_000));
    let (_, said) = whole(&server, "POST /api/v1/import", line.repeat(1_000).as_bytes());
    assert_eq!(serde_json::from_slice::<Value>(&said).unwrap()["imported"], json!(1_000));
    let mut slow = Client::connect(server.address_of("http"));
    slow.send_bytes(b"GET /api/v1/export HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert!(slow.receive().contains("200"));
    thread::sleep(Duration::from_millis(500));
    let mut client = Client::connect(server.address_of("http"));
    let (_, shown) = ask(&mut client, "GET", "/server", &json!({}));
    let buffered = shown["memory"]["buffers_bytes"].as_u64().unwrap();
    assert!(buffered < 2_000_000, "{buffered} bytes wait for a client that does not read");
    assert_eq!(export(&server).len(), 1_000);
}

#[test]
fn long_import_is_streamed_in_pieces_and_long_lines_are_errors() {
    let server = Server::start(&["--http", ":0", "--max-request", "10KiB"]);
    let mut lines = Vec::new();
    for number in 0..20_000 {
        lines.extend(format!("{{\"queue\":\"q\",\"payload\":{number}}}\n").bytes());
        if number % 5_000 == 0 {
            let long = "x".repeat(100_000);
            lines.extend(format!("{{\"queue\":\"q\",\"payload\":\"{long}\"}}\n").bytes());
        }
    }
    let (status, body) = whole(&server, "POST /api/v1/import", &lines);
    assert!(status.contains("200"), "{status}");
    let said: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!((&said["imported"], &said["duplicates"]), (&json!(20_000), &json!(0)));
    let lines: Vec<u64> =
        said["errors"].as_array().unwrap().iter().filter_map(|it| it["line"].as_u64()).collect();
    assert_eq!(lines, [2, 5_003, 10_004, 15_005]);
    assert_eq!(said["errors"][0]["error"]["type"], "/problems/too-large");
    let jobs = export(&server);
    assert!((0..20_000).all(|number| jobs[number]["payload"] == json!(number)));
}

#[test]
fn longest_job_of_any_protocol_is_exported_and_imported() {
    let flags = ["--http", ":0", "--beanstalkd", ":0", "--beanstalkd-max-job-size", "1MiB"];
    let [from, to] = [Server::start(&flags), Server::start(&flags)];
    let text = "x".repeat((1 << 20) - 100);
    let put =
        format!("{{\"request\":\"put\",\"queue\":\"q\",\"pri\":1,\"job\":{{\"a\":\"{text}\"}}}}");
    assert!(from.connect().ask(&put).contains("ok"));
    let put = r#"{"request":"put","queue":"q","pri":1,"job":{},"ttr":10000000000000}"#;
    assert!(from.connect().ask(put).contains("ok"));
    let mut client = Client::connect(from.address_of("beanstalkd"));
    client.send_bytes(format!("put 0 0 4294967295 {}\r\n", 1 << 20).as_bytes());
    client.send_bytes(&[&vec![0xff; 1 << 20][..], b"\r\n"].concat());
    assert_eq!(client.receive(), "INSERTED 3\r");
    let (_, lines) = whole(&from, "GET /api/v1/export", b"");
    let (_, body) = whole(&to, "POST /api/v1/import", &lines);
    let body = String::from_utf8_lossy(&body).into_owned();
    assert_eq!(body.trim_end(), r#"{"imported":3,"duplicates":0,"errors":[]}"#);
    for (mut one, mut other) in export(&from).into_iter().zip(export(&to)) {
        forget_times(&mut one);
        forget_times(&mut other);
        assert!(one == other, "job {} differs", one["id"]);
    }
    let long = format!("{{\"queue\":\"q\",\"payload\":\"{}\"}}\n", "x".repeat(1_200_000));
    let (_, body) = whole(&to, "POST /api/v1/import", long.as_bytes());
    assert!(String::from_utf8_lossy(&body).contains("the payload is longer than 1114112 bytes"));
}

/// Clients put and delete while backups are made; each backup has every job that was answered
/// before it, but for those that were deleted.
#[test]
fn backup_under_load_is_a_directory_that_a_server_starts_from() {
    let dir = TempDir::new();
    let data = dir.path().join("data");
    let args = ["--http", ":0", "--data", data.to_str().unwrap()];
    let server = Server::start(&args);
    let stop = Arc::new(AtomicBool::new(false));
    let puts: Arc<Mutex<BTreeMap<u64, u64>>> = Arc::default();
    let mut clients = Vec::new();
    for number in 0..4_u64 {
        let mut client = Client::connect(server.address_of("http"));
        let (stop, puts) = (Arc::clone(&stop), Arc::clone(&puts));
        clients.push(thread::spawn(move || {
            let mut own = Vec::new();
            for count in 0.. {
                if stop.load(Ordering::Relaxed) {
                    return;
                }
                let filler = "x".repeat(2_000);
                let body = json!({"payload": [number, count, filler]});
                let (status, job) = ask(&mut client, "POST", "/queues/q/jobs", &body);
                assert!(status.contains("201"), "{status}");
                let id = job["id"].as_u64().unwrap();
                puts.lock().unwrap().insert(id, count);
                own.push(id);
                if count % 3 == 0 {
                    let id = own.remove(0);
                    puts.lock().unwrap().remove(&id);
                    ask(&mut client, "DELETE", &format!("/jobs/{id}"), &json!({}));
                }
            }
        }));
    }
    for round in 0..3 {
        thread::sleep(Duration::from_millis(400));
        let answered = puts.lock().unwrap().clone();
        let (status, archive) = whole(&server, "POST /api/v1/backup", b"");
        assert!(status.contains("200"), "{status}");
        let still_there: Vec<u64> = {
            let later = puts.lock().unwrap();
            answered.keys().copied().filter(|id| later.contains_key(id)).collect()
        };
        let copy = dir.path().join(format!("copy{round}"));
        std::fs::create_dir(&copy).unwrap();
        let file = dir.path().join(format!("{round}.tar"));
        std::fs::write(&file, archive).unwrap();
        let unpacked = Command::new("tar").arg("-xf").arg(&file).arg("-C").arg(&copy).status();
        assert!(unpacked.unwrap().success());
        let restored = Server::start(&["--http", ":0", "--data", copy.to_str().unwrap()]);
        let jobs = export(&restored);
        let ids: Vec<u64> = jobs.iter().map(|job| job["id"].as_u64().unwrap()).collect();
        for id in still_there {
            assert!(ids.binary_search(&id).is_ok(), "job {id} is not in backup {round}");
        }
        // It is a server like any other.
        let mut client = Client::connect(restored.address_of("http"));
        let (status, _) = ask(&mut client, "POST", "/queues/q/jobs", &json!({"payload": 1}));
        assert!(status.contains("201"), "{status}");
    }
    stop.store(true, Ordering::Relaxed);
    for client in clients {
        client.join().unwrap();
    }
}

/// A second backup is refused while the first one is being read, and not after its client has left.
#[test]
fn one_backup_at_a_time() {
    let dir = TempDir::new();
    let data = dir.path().join("data");
    let server = Server::start(&["--http", ":0", "--data", data.to_str().unwrap()]);
    let mut client = Client::connect(server.address_of("http"));
    for _ in 0..20 {
        let body = json!({"payload": "x".repeat(900_000)});
        ask(&mut client, "POST", "/queues/q/jobs", &body);
    }
    let mut slow = Client::connect(server.address_of("http"));
    slow.send_bytes(b"POST /api/v1/backup HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert!(slow.receive().contains("200"));
    let (status, problem) = ask(&mut client, "POST", "/backup", &json!({}));
    assert!(status.contains("409"), "{status} {problem}");
    assert_eq!(problem["type"], "/problems/wrong-state");
    drop(slow);
    let began = Instant::now();
    crate::support::until("the first client is gone", || {
        whole(&server, "POST /api/v1/backup", b"").0.contains("200")
    });
    // Its 140 parts do not wait for other work of the server.
    assert!(began.elapsed() < Duration::from_mins(1), "{:?}", began.elapsed());
}
