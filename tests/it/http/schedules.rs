//! Schedules over HTTP, against the real process: every call, every error, and a restart.

use super::real::answer;
use crate::support::{Client, Server, TempDir};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

struct Api(Client);

impl Api {
    fn of(server: &Server) -> Self {
        Self(Client::connect(server.address_of("http")))
    }

    /// The status and the body.
    fn ask(&mut self, method: &str, path: &str, body: Option<&str>) -> (u16, Value) {
        let head = format!("{method} /api/v1{path} HTTP/1.1\r\nHost: localhost\r\n");
        let rest = body.map_or_else(String::new, |body| {
            let length = body.len();
            format!("Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}")
        });
        let end = if rest.is_empty() { "\r\n" } else { "" };
        self.0.send_bytes(format!("{head}{rest}{end}").as_bytes());
        let (status, body) = answer(&mut self.0);
        let status = status.split(' ').nth(1).unwrap().parse().unwrap();
        let body = if body.is_empty() { Value::Null } else { serde_json::from_str(&body).unwrap() };
        (status, body)
    }

    fn put(&mut self, name: &str, schedule: &Value) -> (u16, Value) {
        self.ask("PUT", &format!("/schedules/{name}"), Some(&schedule.to_string()))
    }
}

#[test]
fn schedules_are_made_changed_run_listed_and_removed() {
    let server = Server::start(&["--http", ":0"]);
    let mut api = Api::of(&server);
    let job = json!({"payload": {"a": [1]}, "pri": 3, "max_attempts": 2});
    let schedule = json!({"cron": "@hourly", "queue": "q", "job": job});
    let (status, made) = api.put("a%20b", &schedule);
    assert_eq!(status, 201);
    for (field, expected) in [
        ("name", json!("a b")),
        ("cron", json!("@hourly")),
        ("every_ms", Value::Null),
        ("timezone", json!("UTC")),
        ("queue", json!("q")),
        ("job", job.clone()),
        ("overlap", json!("allow")),
        ("missed", json!("once")),
        ("paused", json!(false)),
        ("last_run_at", Value::Null),
        ("last_job_id", Value::Null),
        ("last_failure", Value::Null),
    ] {
        assert_eq!(made[field], expected, "{field}");
    }
    assert_eq!(made["next_runs"].as_array().unwrap().len(), 5);
    assert_eq!(api.ask("GET", "/schedules/a%20b", None), (200, made.clone()));
    assert_eq!(api.put("a%20b", &schedule), (200, made));
    let paused = json!({"every_ms": 100, "queue": "q", "job": job, "paused": true,
        "overlap": "skip", "missed": "skip", "timezone": "Europe/Berlin", "cron": null});
    let (status, changed) = api.put("a%20b", &paused);
    assert_eq!(
        (status, &changed["next_runs"], &changed["every_ms"]),
        (200, &json!([]), &json!(100))
    );
    let (status, ran) = api.ask("POST", "/schedules/a%20b/run", None);
    assert_eq!(
        (status, &ran["queue"], &ran["pri"], &ran["max_attempts"]),
        (201, &json!("q"), &json!(3), &json!(2))
    );
    let (_, shown) = api.ask("GET", "/schedules/a%20b", None);
    assert_eq!(shown["last_job_id"], ran["id"]);
    assert!(shown["last_run_at"].is_string());
    for name in ["b", "c", "d"] {
        assert_eq!(api.put(name, &schedule).0, 201);
    }
    let (_, first) = api.ask("GET", "/schedules?limit=3", None);
    let names = |page: &Value| -> Vec<String> {
        let items = page["items"].as_array().unwrap();
        items.iter().map(|item| item["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names(&first), ["a b", "b", "c"]);
    let cursor = first["next_cursor"].as_str().unwrap();
    let (_, second) = api.ask("GET", &format!("/schedules?limit=3&cursor={cursor}"), None);
    assert_eq!((names(&second), &second["next_cursor"]), (vec!["d".to_owned()], &Value::Null));
    let (status, problem) = api.ask("GET", &format!("/queues?cursor={cursor}"), None);
    assert_eq!((status, &problem["field"]), (400, &json!("cursor")), "of another list");
    assert_eq!(api.ask("DELETE", "/schedules/d", None), (204, Value::Null));
    for (method, path) in
        [("GET", "/schedules/d"), ("DELETE", "/schedules/d"), ("POST", "/schedules/d/run")]
    {
        let (status, problem) = api.ask(method, path, None);
        assert_eq!((status, &problem["type"]), (404, &json!("/problems/not-found")));
    }
    assert_eq!(api.ask("PATCH", "/schedules/b", Some("{}")).0, 405);
}

#[test]
fn what_is_wrong_with_a_schedule_is_named() {
    let server = Server::start(&["--http", ":0"]);
    let mut api = Api::of(&server);
    let good = json!({"cron": "* * * * *", "queue": "q", "job": {"payload": 1}});
    for (change, kind, field) in [
        (json!({"cron": null}), "missing-field", "cron"),
        (json!({"cron": "* * * *"}), "invalid-field", "cron"),
        (json!({"cron": "0 0 31 FEB,APR *"}), "invalid-field", "cron"),
        (json!({"cron": 5}), "invalid-field", "cron"),
        (json!({"every_ms": 100}), "invalid-field", "every_ms"),
        (json!({"cron": null, "every_ms": 99}), "invalid-field", "every_ms"),
        (json!({"cron": null, "every_ms": "100"}), "invalid-field", "every_ms"),
        (json!({"timezone": "Mars/Olympus"}), "invalid-field", "timezone"),
        (json!({"queue": null}), "missing-field", "queue"),
        (json!({"job": null}), "missing-field", "job"),
        (json!({"job": 5}), "invalid-field", "job"),
        (json!({"job": {}}), "missing-field", "job.payload"),
        (
            json!({"job": {"payload": 1, "run_at": "2026-01-01T00:00:00Z"}}),
            "unknown-field",
            "job.run_at",
        ),
        (json!({"job": {"payload": 1, "after": [1]}}), "unknown-field", "job.after"),
        (
            json!({"job": {"payload": 1, "backoff": {"first_ms": -1}}}),
            "invalid-field",
            "job.backoff.first_ms",
        ),
        (json!({"job": {"payload_base64": "?"}}), "invalid-field", "job.payload_base64"),
        (json!({"overlap": "never"}), "invalid-field", "overlap"),
        (json!({"missed": "all"}), "invalid-field", "missed"),
        (json!({"paused": 1}), "invalid-field", "paused"),
        (json!({"corn": "* * * * *"}), "unknown-field", "corn"),
    ] {
        let mut schedule = good.clone();
        for (name, value) in change.as_object().unwrap() {
            schedule[name] = value.clone();
        }
        let (status, problem) = api.put("s", &schedule);
        let found = (status, &problem["type"], &problem["field"]);
        let kind = json!(format!("/problems/{kind}"));
        assert_eq!(found, (400, &kind, &json!(field)), "{change}");
    }
    let (status, problem) = api.put(&"x".repeat(256), &good);
    assert_eq!((status, &problem["field"]), (400, &json!("name")));
    assert_eq!(api.put(&"x".repeat(255), &good).0, 201);
    assert_eq!(api.ask("GET", "/schedules/s", None).0, 404, "nothing was made");
}

#[test]
fn schedule_whose_put_is_rejected_says_why() {
    let server = Server::start(&["--http", ":0"]);
    let mut api = Api::of(&server);
    let job = json!({"payload": 1, "key": "k", "on_duplicate": "reject"});
    assert_eq!(api.put("s", &json!({"every_ms": 100, "queue": "q", "job": job})).0, 201);
    let start = Instant::now();
    let shown = loop {
        let (_, shown) = api.ask("GET", "/schedules/s", None);
        if shown["last_failure"].is_object() {
            break shown;
        }
        assert!(start.elapsed() < Duration::from_mins(1), "no put is rejected");
        std::thread::sleep(Duration::from_millis(20));
    };
    let failure = &shown["last_failure"];
    let expected = format!("the key is taken by job {}: ", shown["last_job_id"]);
    assert!(failure["detail"].as_str().unwrap().starts_with(&expected), "{failure}");
    assert!(failure["at"].as_str() > shown["last_run_at"].as_str(), "{shown}");
}

#[test]
fn schedule_without_memory_for_its_job_says_so() {
    let server = Server::start(&["--http", ":0", "--max-memory", "1MiB"]);
    let mut api = Api::of(&server);
    let large = json!({"payload": "x".repeat(20_000)});
    assert_eq!(api.put("s", &json!({"every_ms": 100, "queue": "q", "job": large})).0, 201);
    while api.ask("POST", "/queues/q/jobs", Some(&large.to_string())).0 == 201 {}
    let start = Instant::now();
    let failure = loop {
        let (_, shown) = api.ask("GET", "/schedules/s", None);
        if shown["last_failure"].is_object() {
            break shown["last_failure"].clone();
        }
        assert!(start.elapsed() < Duration::from_mins(1), "no failure is shown");
        std::thread::sleep(Duration::from_millis(20));
    };
    assert!(failure["detail"].as_str().unwrap().contains("--max-memory"), "{failure}");
}

#[test]
fn schedule_fires_and_survives_kill_and_drain() {
    let dir = TempDir::new();
    let data = dir.path().join("data");
    let args = ["--http", ":0", "--data", data.to_str().unwrap()];
    let server = Server::start(&args);
    let mut api = Api::of(&server);
    let schedule = json!({"every_ms": 100, "queue": "q", "job": {"payload": {}}});
    assert_eq!(api.put("s", &schedule).0, 201);
    let ready = |api: &mut Api| api.ask("GET", "/queues/q", None).1["counts"]["ready"].as_u64();
    let wait = |api: &mut Api, jobs: u64| {
        let start = Instant::now();
        while ready(api).unwrap_or(0) < jobs {
            assert!(start.elapsed() < Duration::from_mins(1), "it does not fire");
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    wait(&mut api, 3);
    assert_eq!(api.ask("POST", "/server/drain", Some(r#"{"on":true}"#)).0, 200);
    let drained = ready(&mut api);
    assert_eq!(
        api.put(
            "paused",
            &json!({"every_ms": 100, "queue": "p", "job": {"payload": {}}, "paused": true})
        )
        .0,
        201
    );
    std::thread::sleep(Duration::from_millis(400));
    assert_eq!(ready(&mut api), drained, "moments are refused");
    let (status, problem) = api.ask("POST", "/schedules/s/run", None);
    assert_eq!((status, &problem["type"]), (503, &json!("/problems/draining")));
    drop(api);
    drop(server);
    let server = Server::start(&args);
    let mut api = Api::of(&server);
    wait(&mut api, drained.unwrap() + 3);
    let (_, shown) = api.ask("GET", "/schedules/s", None);
    assert!(shown["last_job_id"].as_u64().unwrap() > drained.unwrap());
    assert_eq!(api.ask("GET", "/schedules/paused", None).1["paused"], json!(true));
}
