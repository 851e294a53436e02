//! `jobcentre engine check`, `pause`, `export` and `import`, with as many jobs as a server has.

use super::Redis;
use crate::support::{Program, Server, TempDir, delete, get, number, put, until};
use serde_json::Value;

const JOBS: usize = 100_000;

/// Jobs that are put before their answers are read.
const PIPELINED: usize = 10_000;

/// Runs `engine`, which must end with this status. Returns what it prints, or says.
fn engine(redis: &Redis, arguments: &[&str], status: i32) -> String {
    let url = redis.url();
    let arguments = [&["engine"], arguments, &["--engine", &url]].concat();
    let output = Program::output(&arguments, &[]);
    let (text, complaint) = [output.stdout, output.stderr].map(String::from_utf8).into();
    let (text, complaint) = (text.unwrap(), complaint.unwrap());
    assert_eq!(output.status.code(), Some(status), "{arguments:?}: {text}{complaint}");
    assert_eq!(complaint.is_empty(), status == 0, "{complaint}");
    text + &complaint
}

fn lead(redis: &Redis, name: &str, more: &[&str]) -> Server {
    let url = redis.url();
    Server::start(&[&["--engine", &url, "--server-name", name, "--http", ":0"], more].concat())
}

fn end(mut server: Server) {
    server.signal("TERM");
    assert_eq!(server.wait().code(), Some(0));
}

/// Jobs, some of them deleted, delayed, buried or under a key; and a constraint and a schedule.
fn fill(server: &Server) {
    let mut client = server.connect();
    for first in (0..JOBS).step_by(PIPELINED) {
        let jobs = first..(first + PIPELINED).min(JOBS);
        let lines: String = jobs
            .clone()
            .map(|n| put(&format!("q{}", n % 3), (n % 7) as u64, &format!("{{\"n\":{n}}}")) + "\n")
            .collect();
        let answers = client.exchange(lines.as_bytes(), jobs.len());
        assert!(answers.iter().all(|answer| answer.contains(r#""status":"ok""#)));
    }
    let deletes: String = (1..=JOBS as u64).step_by(10).map(|id| delete(id) + "\n").collect();
    let answers = client.exchange(deletes.as_bytes(), JOBS.div_ceil(10));
    assert!(answers.iter().all(|answer| answer == r#"{"status":"ok"}"#));
    for line in [
        r#"{"request":"put","queue":"later","pri":1,"job":{},"delay":3600000}"#,
        r#"{"request":"put","queue":"keyed","pri":1,"payload":1,"key":"k"}"#,
        r#"{"request":"bury","id":2}"#,
        r#"{"request":"pause","queue":"q1"}"#,
    ] {
        let answer = client.ask(line);
        assert!(answer.contains(r#""status":"ok""#), "{line}: {answer}");
    }
}

/// What a server has, as far as it can be asked.
fn census(server: &Server) -> Vec<String> {
    let mut client = server.connect();
    let mut facts: Vec<String> = ["q0", "q1", "q2", "later", "keyed"]
        .map(|queue| client.ask(&format!(r#"{{"request":"stats","queue":"{queue}"}}"#)))
        .iter()
        .map(|answer| {
            // Ages and rates differ from moment to moment.
            let json: Value = serde_json::from_str(answer).unwrap();
            assert_eq!(json["status"], "ok", "{answer}");
            format!("{} {}", json["counts"], json["paused"])
        })
        .collect();
    facts.push(client.ask(r#"{"request":"put","queue":"keyed","pri":1,"payload":1,"key":"k"}"#));
    facts.push(client.ask(&get("q0")));
    facts.push(client.ask(&get("q2")));
    facts
}

#[test]
fn jobs_move_from_redis_to_a_directory_and_back() {
    let Some(redis) = Redis::start() else { return };
    let server = lead(&redis, "one", &[]);
    fill(&server);
    let dir = TempDir::new();
    let to = ["--data", dir.text()];
    let refused = engine(&redis, &[&["export"], &to[..]].concat(), 1);
    assert!(refused.contains("a server leads (one)"), "{refused}");
    end(server);
    let sound = engine(&redis, &["check"], 0);
    assert!(sound.contains("sound: every record is read, and they fit each other"), "{sound}");
    let jobs = JOBS - JOBS / 10 + 2;
    assert!(sound.starts_with(&format!("jobs       {jobs}\n")), "{sound}");
    let text = engine(&redis, &[&["export"], &to[..]].concat(), 0);
    assert!(text.starts_with(&format!("jobs       {jobs}\n")), "{text}");
    let again = engine(&redis, &[&["export"], &to[..]].concat(), 1);
    assert!(again.contains("is not empty"), "{again}");

    // One after the other, since each census takes jobs.
    let server = lead(&redis, "two", &[]);
    let before = census(&server);
    let next = number(&server.connect().ask(&put("ids", 1, "{}")), "id");
    end(server);
    let server = Server::start(&["--data", dir.text(), "--http", ":0"]);
    assert_eq!(census(&server), before);
    let refused = engine(&redis, &["import", "--engine-prefix", "b", "--data", dir.text()], 1);
    assert!(refused.contains("another process uses this directory"), "{refused}");
    end(server);

    let taken = engine(&redis, &["import", "--data", dir.text()], 1);
    assert!(taken.contains("there are jobs or queues with this prefix already"), "{taken}");
    let text = engine(&redis, &["import", "--engine-prefix", "b", "--data", dir.text()], 0);
    assert!(text.starts_with(&format!("jobs       {jobs}\n")), "{text}");
    let sound = engine(&redis, &["check", "--engine-prefix", "b"], 0);
    assert!(sound.contains("they fit each other"), "{sound}");
    let server = lead(&redis, "three", &["--engine-prefix", "b"]);
    assert_eq!(census(&server), before);
    assert!(number(&server.connect().ask(&put("ids", 1, "{}")), "id") >= next);
    let refused = engine(&redis, &["import", "--engine-prefix", "b", "--data", dir.text()], 1);
    assert!(refused.contains("a server leads (three)"), "{refused}");
}

#[test]
fn import_that_ended_early_leaves_nothing_and_is_done_again() {
    let Some(redis) = Redis::start() else { return };
    let dir = TempDir::new();
    let mut server = Server::start(&["--data", dir.text()]);
    server.connect().ask(&put("q", 1, "{}"));
    server.signal("TERM");
    server.wait();
    // What such an import leaves: records and a write, under a lease that is over.
    let import = ["import", "--data", dir.text()];
    engine(&redis, &import, 0);
    let keys = String::from_utf8(redis.ask(&[b"KEYS", b"jc:{*"])).unwrap();
    for key in keys.lines().filter(|line| line.starts_with("jc:")) {
        let left = key.replacen("jc:", "jc:+import:", 1);
        assert_eq!(redis.ask(&[b"RENAME", key.as_bytes(), left.as_bytes()]), b"+OK\r\n");
    }
    let none = engine(&redis, &["status"], 1);
    assert!(none.contains("there are no jobs with the prefix jc"), "{none}");
    engine(&redis, &import, 0);
    let left = String::from_utf8(redis.ask(&[b"KEYS", b"jc:+*"])).unwrap();
    assert_eq!(left, "*0\r\n");
    let server = lead(&redis, "one", &[]);
    assert_eq!(number(&server.connect().ask(&get("q")), "id"), 1);
}

#[test]
fn import_that_is_refused_leaves_nothing_in_redis() {
    let Some(redis) = Redis::start() else { return };
    let dir = TempDir::new();
    let mut server = Server::start(&["--data", dir.text()]);
    let job = put("q", 1, &format!(r#"{{"text":"{}"}}"#, "x".repeat(1_000))) + "\n";
    let mut client = server.connect();
    // More than what may be under way when Redis refuses a write.
    for _ in 0..4 {
        client.exchange(job.repeat(5_000).as_bytes(), 5_000);
    }
    server.signal("TERM");
    server.wait();
    let memory = String::from_utf8(redis.ask(&[b"INFO", b"memory"])).unwrap();
    let used = memory.lines().find_map(|line| line.strip_prefix("used_memory:")).unwrap();
    let limit = used.trim().parse::<u64>().unwrap() + (3 << 20);
    redis.ask(&[b"CONFIG", b"SET", b"maxmemory", limit.to_string().as_bytes()]);
    let full = engine(&redis, &["import", "--data", dir.text()], 1);
    assert!(full.contains("no room") && full.contains("maxmemory"), "{full}");
    assert_eq!(redis.ask(&[b"KEYS", b"jc:*"]), b"*0\r\n", "what was copied takes the room");
    redis.ask(&[b"CONFIG", b"SET", b"maxmemory", b"0"]);
    engine(&redis, &["import", "--data", dir.text()], 0);
}

#[test]
fn paused_engine_is_not_written_and_goes_on_where_it_was() {
    let Some(redis) = Redis::start() else { return };
    let none = engine(&redis, &["pause"], 1);
    assert!(none.contains("there are no jobs with the prefix jc"), "{none}");
    let server = lead(&redis, "one", &["--engine-lease", "1s", "--engine-patience", "1min"]);
    let mut client = server.connect();
    client.ask(&put("q", 1, "{}"));
    let text = engine(&redis, &["pause"], 0);
    assert!(text.ends_with("leader: one\n"), "{text}");
    client.send(&put("q", 1, r#"{"n":2}"#));
    // The lease has ended meanwhile, and no other server begins to lead.
    until("the end of the lease", || engine(&redis, &["status"], 0).contains("leader: none\n"));
    let status = engine(&redis, &["status"], 0);
    assert!(status.contains("\npaused: ") && status.contains("\nrecords: 1\n"), "{status}");
    let url = redis.url();
    let mut waiting = crate::support::plain_command(Program::PATH);
    waiting.args(["serve", "--listen", ":0", "--engine", &url]);
    waiting.args(["--server-name", "two"]);
    let mut waiting = waiting.stderr(std::process::Stdio::piped()).spawn().unwrap();
    let sound = engine(&redis, &["check"], 0);
    assert!(sound.contains("they fit each other") && sound.contains("paused "), "{sound}");
    let dir = TempDir::new();
    engine(&redis, &["export", "--data", dir.text()], 0);
    let text = engine(&redis, &["resume"], 0);
    assert!(text.starts_with("the pause has ended\n"), "{text}");
    assert_eq!(client.receive(), r#"{"status":"ok","id":2}"#);
    assert_eq!(number(&client.ask(&get("q")), "id"), 1);
    assert!(engine(&redis, &["status"], 0).starts_with("leader: one "));
    waiting.kill().unwrap();
    waiting.wait().unwrap();
    assert!(engine(&redis, &["resume"], 0).starts_with("it was not paused\n"));
}

#[test]
fn address_of_another_kind_is_named_before_missing_jobs() {
    let Some(redis) = Redis::start() else { return };
    let url = redis.url().replace("redis://", "redis+cluster://");
    for verb in ["status", "resume"] {
        let output = Program::output(&["engine", verb, "--engine", &url], &[]);
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.contains("it is no node of a cluster"), "{said}");
    }
}

#[test]
fn check_names_what_is_wrong() {
    let Some(redis) = Redis::start() else { return };
    let server = lead(&redis, "one", &[]);
    let mut client = server.connect();
    for _ in 0..5 {
        client.ask(&put("q", 1, "{}"));
    }
    end(server);
    let keys = String::from_utf8(redis.ask(&[b"KEYS", b"jc:*"])).unwrap();
    let key = |name: &str| keys.lines().find(|line| line.ends_with(name)).unwrap().as_bytes();
    let id = |id: u64| id.to_be_bytes();
    let ask = |words: &[&[u8]]| drop(redis.ask(words));
    ask(&[b"HSET", key(":jobs"), &id(2), b"no record"]);
    let of_3 = redis.ask(&[b"HGET", key(":jobs"), &id(3)]);
    let of_3 = &of_3[of_3.iter().position(|&byte| byte == b'\n').unwrap() + 1..];
    ask(&[b"HSET", key(":jobs"), &id(4), of_3.strip_suffix(b"\r\n").unwrap()]);
    ask(&[b"HSET", key(":jobs"), b"other", b"1"]);
    ask(&[b"HDEL", key(":more"), b"-"]);
    let wrong = engine(&redis, &["check"], 1);
    for part in
        ["4 things are wrong", "record 2 cannot be read", "record 4 is another record, of 3"]
    {
        assert!(wrong.contains(part), "{part}: {wrong}");
    }
    assert!(wrong.contains("the field other is no record's"), "{wrong}");
    assert!(wrong.contains("keeps a hash from being empty is missing"), "{wrong}");
    let dir = TempDir::new();
    let refused = engine(&redis, &["export", "--data", dir.text()], 1);
    assert!(refused.contains("engine check"), "{refused}");
    assert!(!dir.path().exists());
    ask(&[b"HSET", key(":meta"), b"seq", b"x"]);
    assert!(engine(&redis, &["check"], 1).contains("seq of its meta"), "not a number");
}
