//! Each operation of HTTP with each right: the table says which one an operation needs.

use super::{Setup, ask as ask_line, bearer, connect, http, metrics};
use crate::support::{Server, until};
use serde_json::Value;
use std::io::Read;
use std::net::SocketAddr;

/// What an operation needs: a permission as in the settings, `user` for any user, or `open`.
/// `Some`: a body.
const OPERATIONS: &[(&str, &str, Option<&str>)] = &[
    ("index", "open", None),
    ("health", "open", None),
    // On loopback.
    ("metrics", "open", None),
    ("openapi", "open", None),
    ("processor", "peek:q", None),
    ("list_default_jobs", "peek:default", None),
    ("query_default_jobs", "peek:default", Some("{}")),
    ("create_default_job", "put:default", Some("{\"payload\":1}")),
    ("poll_default_job", "take:default", Some("{\"state\":1}")),
    ("show_default_job", "peek:default", None),
    ("delete_default_job", "manage:default", None),
    ("append_default_event", "take:default", Some("{}")),
    ("advance_default_job", "take:default", Some("{\"old\":1,\"new\":2}")),
    ("list_queues", "observe", None),
    ("create_queue", "put:q", Some("{\"id\":\"q\"}")),
    ("delete_queue", "manage:q", None),
    ("list_jobs", "peek:q", None),
    ("create_job", "put:q", Some("{\"payload\":1}")),
    ("show_job", "peek:q", None),
    ("delete_job", "manage:q", None),
    ("append_event", "take:q", Some("{}")),
    ("advance_job", "take:q", Some("{\"old\":1,\"new\":2}")),
    ("poll_job", "take:q", Some("{\"state\":1}")),
    ("query_jobs", "peek:q", Some("{}")),
    ("list_actions", "observe", None),
    (
        "begin_action",
        "manage:q",
        Some("{\"queue\":\"q\",\"where\":{\"state\":\"buried\"},\"do\":\"kick\"}"),
    ),
    ("get_action", "observe", None),
    ("cancel_action", "manage:*", None),
    ("backup_server", "admin", None),
    ("list_connections", "admin", None),
    ("close_connection", "admin", None),
    ("list_constraints", "observe", None),
    ("get_constraint", "observe", None),
    ("put_constraint", "manage:*", Some("{\"matcher\":[],\"max_running\":3}")),
    ("remove_constraint", "manage:*", None),
    ("export_jobs", "peek:*", None),
    ("import_jobs", "put:q", Some("{\"queue\":\"q\",\"payload\":1}\n")),
    ("get_job", "peek:q", None),
    ("delete_job_of_any_state", "manage:q", None),
    ("change_job", "manage:q", Some("{\"pri\":3}")),
    ("bury_job", "manage:q", None),
    ("cancel_job_of_any_state", "manage:q", None),
    ("complete_job", "take:q", Some("{\"token\":\"0123456789abcdef\"}")),
    ("fail_job", "take:q", Some("{\"token\":\"0123456789abcdef\",\"error\":\"e\"}")),
    ("kick_job", "manage:q", None),
    ("report_progress", "take:q", Some("{\"token\":\"0123456789abcdef\",\"progress\":0.5}")),
    ("release_job", "take:q", Some("{\"token\":\"0123456789abcdef\"}")),
    ("get_result", "peek:q", None),
    ("touch_job", "take:q", Some("{\"token\":\"0123456789abcdef\"}")),
    ("get_me", "user", None),
    ("open_session", "user", None),
    ("close_session", "user", None),
    ("list_all_queues", "observe", None),
    ("get_queue", "observe", None),
    ("delete_queue_and_jobs", "manage:q", None),
    ("get_queue_history", "observe", None),
    ("put_index", "manage:q", None),
    ("delete_index", "manage:q", None),
    ("list_jobs_of_queue", "peek:q", None),
    ("put_jobs", "put:q", Some("{\"payload\":1}")),
    ("kick_queue", "manage:q", None),
    ("move_jobs", "manage:q and put:r", Some("{\"to\":\"r\",\"states\":[\"ready\"]}")),
    ("pause_queue", "manage:q", None),
    ("purge_queue", "manage:q", Some("{\"states\":[\"buried\"]}")),
    ("resume_queue", "manage:q", None),
    ("search_queue", "peek:q", Some("{\"query\":[]}")),
    ("reserve_jobs", "take:q", Some("{\"queues\":[\"q\"]}")),
    ("list_schedules", "peek:*", None),
    ("get_schedule", "peek:*", None),
    (
        "put_schedule",
        "manage:*",
        Some("{\"every_ms\":100000,\"queue\":\"q\",\"job\":{\"payload\":1}}"),
    ),
    ("delete_schedule", "manage:*", None),
    ("run_schedule", "manage:*", None),
    ("get_server", "observe", None),
    ("drain_server", "admin", Some("{\"on\":false}")),
    ("reload_server", "admin", None),
    ("get_server_history", "observe", None),
    ("follow_server", "observe", None),
    ("list_workers", "observe", None),
    ("show_constraint", "observe", None),
    ("set_constraint", "manage:*", Some("{\"matcher\":[],\"max_running\":3}")),
    ("delete_constraint", "manage:*", None),
    ("report_job", "take:q", Some("{\"job_id\":\"JOB\",\"type\":\"success\",\"result\":1}")),
    ("push_job", "put:q", Some("{\"name\":\"q\",\"argument\":1}")),
    ("follow_job", "peek:q", None),
    ("cancel_job", "manage:q", None),
    ("await_job", "peek:q", None),
    (
        "enlist_worker",
        "admin",
        Some("{\"name\":\"w\",\"url\":\"http://127.0.0.1:9/\",\"max_jobs\":1}"),
    ),
    ("dismiss_worker", "admin", None),
];

/// The permissions of the users, one each, besides those of the user who may do all.
const PERMISSIONS: [&str; 12] = [
    "put:q",
    "put:*",
    "take:q",
    "take:*",
    "peek:q",
    "peek:*",
    "manage:q",
    "manage:*",
    "put:r",
    "take:default",
    "observe",
    "admin",
];

/// Whether a permission is enough for a need.
fn is_enough(permission: &str, need: &str) -> bool {
    let all = |need: &str| format!("{}:*", need.split(':').next().unwrap());
    match need {
        "open" | "user" => true,
        // Two rights, of which each user has one.
        _ if need.contains(" and ") => false,
        _ => permission == need || (need.contains(':') && permission == all(need)),
    }
}

struct Asked {
    line: String,
    fields: String,
    name: String,
}

/// The operations of the document, with paths that name what there may be.
fn operations(address: SocketAddr) -> Vec<Asked> {
    let mut document = String::new();
    {
        use std::io::{Read, Write};
        let mut stream = std::net::TcpStream::connect(address).unwrap();
        stream.write_all(b"GET /openapi.json HTTP/1.0\r\n\r\n").unwrap();
        stream.read_to_string(&mut document).unwrap();
    }
    let (_, body) = document.split_once("\r\n\r\n").unwrap();
    let document: Value = serde_json::from_str(body).unwrap();
    let mut all = Vec::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let Some(name) = operation["operationId"].as_str() else { continue };
            let target = path
                .replace("{queue}", "q")
                .replace("{connection}", "16777216")
                .replace("{action}", "1")
                .replace("{name}", "n")
                .replace("{constraint}", "n");
            let is_lines = operation["requestBody"]["content"]["application/x-ndjson"].is_object();
            let kind = if is_lines { "x-ndjson" } else { "json" };
            let fields = format!("Content-Type: application/{kind}\r\nWorker-Id: 1\r\n");
            let query = if name == "follow_server" { "?topics=overview" } else { "" };
            let line = format!("{} {target}{query}", method.to_uppercase());
            all.push(Asked { line, fields, name: name.to_owned() });
        }
    }
    all
}

/// Puts a job, and returns its id.
fn with_job(server: &Server, token: &str) -> String {
    let fields = format!("Content-Type: application/json\r\n{}", bearer(token));
    let address = server.address_of("http");
    let (status, answer) = http(address, "POST /api/v1/queues/q/jobs", &fields, "{\"payload\":1}");
    assert_eq!(status, 201, "{answer}");
    let (_, rest) = answer.split_once("{\"id\":").unwrap();
    rest.split(',').next().unwrap().to_owned()
}

#[test]
fn operation_is_carried_out_for_those_who_have_its_right_and_only_for_them() {
    let setup = Setup::new();
    let mut tokens: Vec<(&str, String)> = Vec::new();
    for (number, permission) in PERMISSIONS.iter().enumerate() {
        tokens.push((permission, setup.add(&format!("user-{number}"), permission)));
    }
    let all = setup.add("all", "put:*,take:*,peek:*,manage:*,observe,admin");
    let server = setup.serve(&["--http", ":0"]);
    let address = server.address_of("http");
    let operations = operations(address);
    assert!(operations.len() > 70, "{}", operations.len());
    let mut wrong = Vec::new();
    for Asked { line, fields, name } in &operations {
        let Some((_, need, body)) = OPERATIONS.iter().find(|row| row.0 == name) else {
            wrong.push(format!("{name} has no row: which right does it need?"));
            continue;
        };
        let id = with_job(&server, &all);
        let line = &line.replace("{id}", &id).replace("{job_id}", &id);
        let body = &body.unwrap_or_default().replace("JOB", &id);
        let mut check = |who: &str, authorization: &str, expected: Option<u16>| {
            let fields = format!("{fields}{authorization}");
            let (status, answer) = http(address, line, &fields, body);
            let denied = [401, 403].contains(&status).then_some(status);
            if denied != expected || status == 400 {
                let sentence = answer.lines().last().unwrap_or_default().to_owned();
                wrong.push(format!("{name} as {who}: {status}, not {expected:?}: {sentence}"));
            }
        };
        check("no user", "", (*need != "open").then_some(401));
        for (permission, token) in &tokens {
            if !is_enough(permission, need) {
                check(permission, &bearer(token), Some(403));
            }
        }
        for (permission, token) in &tokens {
            if is_enough(permission, need) {
                check(permission, &bearer(token), None);
            }
        }
        check("all", &bearer(&all), None);
    }
    let first: Vec<&str> = wrong.iter().take(20).map(String::as_str).collect();
    assert!(wrong.is_empty(), "{} are wrong: {}", wrong.len(), first.join("\n"));
    for (name, ..) in OPERATIONS {
        assert!(operations.iter().any(|asked| asked.name == *name), "there is no {name}");
    }
    until("the counters", || metrics(address).1.contains("jobcentre_requests_denied_total"));
}

#[test]
fn answer_shows_contents_of_a_job_of_others_only_with_the_right_to_peek() {
    let setup = Setup::new();
    let all = setup.add("all", "put:*,take:*,peek:*,manage:*,observe,admin");
    let put = setup.add("put", "put:q");
    let manage = setup.add("manage", "manage:q");
    let take = setup.add("take", "take:q");
    let seeing = setup.add("seeing", "put:q,manage:q,peek:q");
    let server = setup.serve(&["--http", ":0"]);
    let address = server.address_of("http");
    let ask = |token: &str, line: &str, body: &str| {
        let mut connection = connect(address);
        let request = format!(
            "{line} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {}\r\n\
             Content-Type: application/json\r\n{}\r\n{body}",
            body.len(),
            bearer(token)
        );
        let mut answer = ask_line(&mut connection, &request);
        connection.read_to_string(&mut answer).unwrap();
        answer.lines().last().unwrap_or_default().to_owned()
    };
    let job = r#"{"payload":"secret","key":"k","keep_result_ms":9000,"key_ttl_ms":9000}"#;
    ask(&all, "POST /api/v1/queues/q/jobs", job);
    let reserved = ask(&all, "POST /api/v1/reserve", r#"{"queues":["q"]}"#);
    let (_, rest) = reserved.split_once("\"token\":").expect(&reserved);
    let token = rest.split(['}', ',']).next().unwrap();
    let failed = format!("{{\"token\":{token},\"error\":\"secret\",\"retry\":false}}");
    let shown = ask(&all, "POST /api/v1/jobs/1/fail", &failed);
    assert!(shown.contains("\"state\":\"buried\""), "{shown}");
    let mine = r#"{"payload":"mine","key":"k"}"#;
    let requests = [
        (&put, "POST /api/v1/queues/q/jobs", mine),
        (&manage, "PATCH /api/v1/jobs/1", r#"{"pri":3}"#),
        (&manage, "POST /api/v1/jobs/1/kick", ""),
        (&manage, "POST /api/v1/jobs/1/bury", ""),
    ];
    for (token, line, body) in requests {
        for (token, is_seen) in [(token, false), (&seeing, true)] {
            let shown = ask(token, line, body);
            assert!(shown.contains("\"id\":1,\"queue\":\"q\""), "{line}: {shown}");
            assert_eq!(shown.contains("secret"), is_seen, "{line}: {shown}");
            assert_eq!(shown.contains("\"payload\":null"), !is_seen, "{line}: {shown}");
            ask(&all, "POST /api/v1/jobs/1/bury", "");
        }
    }
    // A holder sees what it holds, and a job that was just put is shown to its client.
    ask(&all, "POST /api/v1/jobs/1/kick", "");
    let reserved = ask(&take, "POST /api/v1/reserve", r#"{"queues":["q"]}"#);
    assert!(reserved.contains("\"payload\":\"secret\""), "{reserved}");
    let (_, rest) = reserved.split_once("\"token\":").expect(&reserved);
    let token = rest.split(['}', ',']).next().unwrap();
    let released = ask(&take, "POST /api/v1/jobs/1/release", &format!("{{\"token\":{token}}}"));
    assert!(!released.contains("\"payload\":null"), "{released}");
    let fresh = ask(&put, "POST /api/v1/queues/q/jobs", r#"{"payload":"fresh"}"#);
    assert!(fresh.contains("\"payload\":\"fresh\""), "{fresh}");
}
