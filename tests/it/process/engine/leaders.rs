//! A leader and a server that waits: death, standstill, an orderly end, and Redis away.

use super::Redis;
use crate::support::{
    Client, NO_JOB, Program, Server, delete, get, number, plain_command, put, until,
};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

const CLIENTS: u64 = 4;

/// Answers that clients got before a process is killed.
const ANSWERS: usize = 400;

/// Starts a server, and waits until it leads.
fn start(redis: &Redis, name: &str) -> Server {
    let url = redis.url();
    let server = Server::start(&["--engine", &url, "--server-name", name, "--engine-lease", "1s"]);
    server.wait_for_log("\"serving\"");
    server
}

/// A put of the job with this value.
pub(super) fn job(value: u64) -> String {
    put("q", value % 3, &format!("{{\"n\":{value}}}"))
}

/// The value of the job in an answer.
pub(super) fn value_of(answer: &str) -> u64 {
    let json: Value = serde_json::from_str(answer).unwrap();
    json["job"]["n"].as_u64().unwrap()
}

fn status(redis: &Redis) -> String {
    let output = Program::output(&["engine", "status", "--engine", &redis.url()], &[]);
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// What clients were answered: jobs by what is in them, with their ids, and ids that are deleted.
#[derive(Default)]
pub(super) struct Ledger {
    put: BTreeMap<u64, u64>,
    deleted: BTreeSet<u64>,
    /// Asked for, and not answered.
    perhaps_deleted: BTreeSet<u64>,
    perhaps_put: BTreeSet<u64>,
}

impl Ledger {
    /// Adds what other clients were answered.
    pub(super) fn merge(&mut self, more: Self) {
        self.put.extend(more.put);
        self.deleted.extend(more.deleted);
        self.perhaps_deleted.extend(more.perhaps_deleted);
        self.perhaps_put.extend(more.perhaps_put);
    }

    /// A job with this value was put, and has this id.
    pub(super) fn note_put(&mut self, value: u64, id: u64) {
        self.put.insert(value, id);
    }
}

/// Puts jobs and deletes some of them until the connection ends or it is to stop.
fn work(address: SocketAddr, first: u64, answers: &AtomicUsize, stop: &AtomicBool) -> Ledger {
    let mut ledger = Ledger::default();
    let Ok(stream) = TcpStream::connect(address) else { return ledger };
    let mut client = Client::new(stream);
    let mut ask = |line: &str| {
        let line = format!("{line}\n");
        client.stream().write_all(line.as_bytes()).ok()?;
        let answer = String::from_utf8(client.try_receive()?).unwrap();
        answers.fetch_add(1, Ordering::Relaxed);
        Some(answer)
    };
    for value in first.. {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let Some(answer) = ask(&job(value)) else {
            ledger.perhaps_put.insert(value);
            break;
        };
        let id = number(&answer, "id");
        ledger.put.insert(value, id);
        if value % 3 == 0 {
            let Some(answer) = ask(&delete(id)) else {
                ledger.perhaps_deleted.insert(id);
                break;
            };
            assert_eq!(answer, r#"{"status":"ok"}"#);
            ledger.deleted.insert(id);
        }
    }
    ledger
}

/// Runs clients until `end` is over; it is called once there are enough answers.
pub(super) fn load(address: SocketAddr, round: u64, end: impl FnOnce()) -> Ledger {
    let (answers, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
    let mut whole = Ledger::default();
    thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|client| {
                let first = (round * CLIENTS + client) * 1_000_000;
                let (answers, stop) = (&answers, &stop);
                scope.spawn(move || work(address, first, answers, stop))
            })
            .collect();
        until("answers to the clients", || answers.load(Ordering::Relaxed) >= ANSWERS);
        end();
        stop.store(true, Ordering::Relaxed);
        for client in clients {
            whole.merge(client.join().unwrap());
        }
    });
    whole
}

/// Takes every job, and compares them with what was answered.
pub(super) fn compare(server: &Server, ledger: &Ledger) {
    let mut client = server.connect();
    let mut found = BTreeMap::new();
    loop {
        let answer = client.ask(&get("q"));
        if answer == NO_JOB {
            break;
        }
        let earlier = found.insert(value_of(&answer), number(&answer, "id"));
        assert_eq!(earlier, None, "a job is there twice: {answer}");
    }
    for (value, id) in &ledger.put {
        let is_there = found.remove(value);
        if ledger.deleted.contains(id) {
            assert_eq!(is_there, None, "job {id} was deleted");
        } else if !ledger.perhaps_deleted.contains(id) {
            assert_eq!(is_there, Some(*id), "job {id} was put");
        }
    }
    let unknown: Vec<_> = found.keys().filter(|&it| !ledger.perhaps_put.contains(it)).collect();
    assert!(unknown.is_empty(), "no client has put these: {unknown:?}");
    let ids: BTreeSet<u64> = ledger.put.values().copied().collect();
    assert_eq!(ids.len(), ledger.put.len(), "an id was given twice");
}

#[test]
fn nothing_answered_is_lost_when_leaders_are_killed() {
    let Some(redis) = Redis::start() else { return };
    let mut leader = start(&redis, "s0");
    let mut ledger = Ledger::default();
    for round in 0..3 {
        let name = format!("s{}", round + 1);
        let next = thread::scope(|scope| {
            let waiting = scope.spawn(|| start(&redis, &name));
            let registered = format!("waiting to lead: {name}");
            until("a server that waits", || status(&redis).contains(&registered));
            let more = load(leader.address, round, || {
                leader.signal("KILL");
                leader.wait();
            });
            ledger.merge(more);
            waiting.join().unwrap()
        });
        leader = next;
        leader.wait_for_log("this server leads");
    }
    compare(&leader, &ledger);
}

#[test]
fn reserved_jobs_of_a_killed_leader_are_ready_at_the_next_one() {
    let Some(redis) = Redis::start() else { return };
    let mut leader = start(&redis, "first");
    let mut client = leader.connect();
    for value in [3, 6, 9] {
        client.ask(&job(value));
    }
    assert_eq!(number(&client.ask(&get("q")), "id"), 1);
    assert_eq!(number(&client.ask(&get("q")), "id"), 2);
    assert_eq!(client.ask(&delete(2)), r#"{"status":"ok"}"#);
    leader.signal("KILL");
    leader.wait();
    let next = start(&redis, "second");
    let mut client = next.connect();
    assert_eq!(number(&client.ask(&get("q")), "id"), 1);
    assert_eq!(number(&client.ask(&get("q")), "id"), 3);
    assert_eq!(client.ask(&get("q")), NO_JOB);
    assert!(number(&client.ask(&job(12)), "id") > 3);
}

#[test]
fn leader_that_stood_still_for_longer_than_its_lease_answers_nothing() {
    let Some(redis) = Redis::start() else { return };
    let url = redis.url();
    let flags = ["--engine", &url, "--server-name", "former", "--engine-lease", "1s"];
    let more = ["--http", ":0", "--engine-forward", "off"];
    let mut former = Server::start(&[&flags[..], &more].concat());
    let mut client = former.connect();
    assert_eq!(client.ask(&job(1)), r#"{"status":"ok","id":1}"#);
    former.signal("STOP");
    let leader = start(&redis, "next");
    // It would get the job that the next leader hands out.
    client.send(&get("q"));
    let mut other = leader.connect();
    assert_eq!(number(&other.ask(&get("q")), "id"), 1);
    former.signal("CONT");
    former.wait_for_log("another server leads by now (next)");
    let answer = client.try_receive().map(|answer| String::from_utf8(answer).unwrap());
    assert!(answer.is_none_or(|answer| answer.contains("this server leads no more")));
    assert_eq!(client.try_receive(), None);
    assert_eq!(other.ask(&delete(1)), r#"{"status":"ok"}"#);
    // It waits to lead again, and says so by HTTP only.
    former.wait_for_log("waiting to lead: only");
    TcpStream::connect(former.address).unwrap_err();
    let health = http(&former, "/health");
    assert!(health.starts_with("HTTP/1.1 503 ") && health.contains("\nRetry-After: "), "{health}");
    assert!(health.contains("\"status\":\"standby\""), "{health}");
    until("the name of the leader", || http(&former, "/health").contains("\"next\""));
    let refused = http(&former, "/api/v1/queues");
    assert!(refused.contains("/problems/unavailable") && refused.contains("which is next"));
    assert!(http(&former, "/metrics").contains("\njobcentre_engine_leads 0\n"));
    other.ask(&job(2));
    drop(leader);
    until("the former leader's lead", || http(&former, "/health").starts_with("HTTP/1.1 200 "));
    let mut again = Client::new(TcpStream::connect(address_of(&former, "job-centre")).unwrap());
    assert_eq!(value_of(&again.ask(&get("q"))), 2);
    former.signal("TERM");
    assert_eq!(former.wait().code(), Some(0));
}

#[test]
fn server_that_is_told_to_end_ends_though_another_one_leads_by_then() {
    let Some(redis) = Redis::start() else { return };
    let mut former = start(&redis, "former");
    // Its connection stays open, so the end takes a while.
    let mut client = former.connect();
    client.ask(&job(1));
    former.signal("STOP");
    let leader = start(&redis, "next");
    former.signal("TERM");
    former.signal("CONT");
    assert_eq!(former.wait().code(), Some(0));
    former.wait_for_log("stopped: another server leads by now");
    assert!(!former.log_lines().iter().any(|line| line.contains("waiting to lead")));
    assert_eq!(value_of(&leader.connect().ask(&get("q"))), 1);
}

/// The answer to a GET of the HTTP listener that was opened last.
fn http(server: &Server, path: &str) -> String {
    let Ok(mut stream) = TcpStream::connect(address_of(server, "http")) else {
        return String::new();
    };
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    let mut answer = String::new();
    // A listener may close while it changes hands.
    let _ = stream.write_all(request.as_bytes()).and_then(|()| stream.read_to_string(&mut answer));
    answer.replace('\r', "")
}

/// Where the server listens since it has begun to last.
fn address_of(server: &Server, protocol: &str) -> SocketAddr {
    let lines = server.log_lines();
    let mut json = lines.iter().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let last = json.rfind(|line| line["protocol"] == protocol).unwrap();
    last["address"].as_str().unwrap().parse().unwrap()
}

#[test]
fn orderly_end_gives_the_lead_back_at_once() {
    let Some(redis) = Redis::start() else { return };
    let mut leader = start(&redis, "first");
    leader.connect().ask(&job(1));
    let url = redis.url();
    let mut command = plain_command(Program::PATH);
    command.args(["serve", "--engine", &url, "--listen", ":0"]);
    let waiting = command.stderr(Stdio::piped()).spawn().unwrap();
    until("a server that waits", || !status(&redis).contains("waiting to lead: none"));
    let pid = waiting.id().to_string();
    assert!(Command::new("kill").args(["-s", "TERM", &pid]).status().unwrap().success());
    let output = waiting.wait_with_output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && text.contains("stopping"), "{text}");
    leader.signal("TERM");
    assert_eq!(leader.wait().code(), Some(0));
    let shown = status(&redis);
    assert!(shown.starts_with("leader: none\n") && shown.contains("\nrecords: 1\n"), "{shown}");
    let next = start(&redis, "second");
    let logged = next.log_lines();
    let waited = "another server leads: waiting to take over";
    assert!(!logged.iter().any(|line| line.contains(waited)), "{logged:#?}");
    assert_eq!(number(&next.connect().ask(&get("q")), "id"), 1);
}

#[test]
fn nothing_answered_is_lost_when_redis_is_killed() {
    let Some(mut redis) = Redis::start() else { return };
    let leader = start(&redis, "only");
    let ledger = load(leader.address, 0, || {
        redis.kill();
        redis.restart();
    });
    // The connections are those from before.
    compare(&leader, &ledger);
    drop(leader);
    let again = start(&redis, "again");
    assert_eq!(again.connect().ask(&job(1)).split(',').next(), Some(r#"{"status":"ok""#));
}

#[test]
fn requests_are_refused_while_redis_is_away_and_taken_again() {
    let Some(redis) = Redis::start() else { return };
    let url = redis.url();
    let flags = ["--engine", &url, "--server-name", "only", "--engine-patience", "2s"];
    let mut server = Server::start(&[&flags[..], &["--beanstalkd", ":0"]].concat());
    let mut client = server.connect();
    assert_eq!(client.ask(&job(1)), r#"{"status":"ok","id":1}"#);
    let mut other = TcpStream::connect(address_of(&server, "beanstalkd")).unwrap();
    redis.signal("STOP");
    client.send(&job(2));
    let answer = String::from_utf8(client.try_receive().unwrap()).unwrap();
    assert!(answer.contains("whether this was carried out is not known"), "{answer}");
    assert_eq!(client.try_receive(), None);
    let mut client = server.connect();
    let answer = client.ask(&job(3));
    assert!(answer.contains("nothing was carried out") && answer.contains(&url[8..]), "{answer}");
    other.write_all(b"reserve-with-timeout 0\r\n").unwrap();
    let mut refused = [0; 16];
    other.read_exact(&mut refused).unwrap();
    assert_eq!(&refused, b"INTERNAL_ERROR\r\n");
    redis.signal("CONT");
    until("an answer", || client.ask(&job(4)).contains(r#""status":"ok""#));
    redis.signal("STOP");
    server.signal("TERM");
    assert_eq!(server.wait().code(), Some(1));
    server.wait_for_log(&format!("the engine at {} is away", &url[8..]));
    redis.signal("CONT");
}

#[test]
fn waiting_server_ends_when_the_jobs_are_removed_under_it() {
    let Some(redis) = Redis::start() else { return };
    let leader = start(&redis, "first");
    leader.connect().ask(&job(1));
    let mut command = plain_command(Program::PATH);
    command.args(["serve", "--engine", &redis.url(), "--listen", ":0"]);
    let waiting = command.stderr(Stdio::piped()).spawn().unwrap();
    until("a server that waits", || !status(&redis).contains("waiting to lead: none"));
    redis.ask(&[b"FLUSHALL"]);
    let output = waiting.wait_with_output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success(), "{text}");
    assert!(text.contains("the jobs that were there are gone"), "{text}");
}

#[test]
fn functions_that_are_gone_are_loaded_again() {
    let Some(redis) = Redis::start() else { return };
    let leader = start(&redis, "only");
    let mut client = leader.connect();
    for value in 0..10 {
        client.ask(&job(value));
    }
    redis.ask(&[b"FUNCTION", b"FLUSH"]);
    client.ask(&job(10));
    leader.wait_for_log("functions are gone");
    assert!(status(&redis).contains("\nrecords: 11\n"));
}

/// Takes all jobs and writes away, as if Redis had started with older files.
fn lose_writes(redis: &Redis) {
    let key = String::from_utf8(redis.ask(&[b"KEYS", b"jc:*:jobs"])).unwrap();
    let jobs = key.lines().last().unwrap();
    let meta = jobs.replace("jobs", "meta");
    let script = "redis.call('HSET', KEYS[1], 'seq', '0') redis.call('DEL', KEYS[2]) \
                  redis.call('HSET', KEYS[2], '-', '') return 1";
    let words = [&b"EVAL"[..], script.as_bytes(), b"2", meta.as_bytes(), jobs.as_bytes()];
    assert_eq!(redis.ask(&words), b":1\r\n");
}

#[test]
fn writes_that_redis_has_lost_are_written_again() {
    let Some(redis) = Redis::start() else { return };
    let leader = start(&redis, "only");
    let mut client = leader.connect();
    for value in 0..10 {
        client.ask(&job(value));
    }
    lose_writes(&redis);
    client.ask(&job(10));
    leader.wait_for_log("they are written again");
    assert!(status(&redis).contains("\nrecords: 11\n"));
}

/// The lead is not given back before Redis has everything that was answered.
#[test]
fn writes_that_redis_has_lost_are_written_again_before_a_leader_ends() {
    for patience in ["0s", "20s"] {
        let Some(redis) = Redis::start() else { return };
        let url = redis.url();
        let flags = ["--engine", &url, "--engine-hand-over", patience, "--engine-lease", "1min"];
        let mut leader = Server::start(&flags);
        leader.wait_for_log("\"serving\"");
        let mut client = leader.connect();
        for value in 0..10 {
            client.ask(&job(value));
        }
        lose_writes(&redis);
        drop(client);
        leader.signal("TERM");
        assert!(leader.wait().success());
        let status = status(&redis);
        assert!(status.contains("\nrecords: 10\n"), "{status}");
        assert!(status.starts_with("leader: none\n"), "{status}");
    }
}

#[test]
fn addresses_and_nodes_that_cannot_be_used_are_refused_with_a_sentence() {
    let refused = |flags: &[&str], code: i32, why: &str| {
        let output = Program::output(&[&["serve", "--listen", ":0"], flags].concat(), &[]);
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{text}");
        assert!(text.contains(why), "{text}");
    };
    refused(&["--engine", "redis+cluster://a/1"], 2, "no numbers of databases");
    refused(&["--engine", "redis://a", "--data", "d"], 2, "not both");
    refused(&["--engine-wait", "2"], 2, "--engine-wait has no use without --engine");
    refused(&["--engine", "redis://a:0"], 2, "port 0");
    refused(&["--engine", "redis://me@a"], 1, "names the user me");
    let unused = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let url = format!("redis://{unused}");
    refused(&["--engine", &url, "--engine-patience", "100ms"], 1, "cannot be used");
    let Some(redis) = Redis::start() else { return };
    let url = redis.url();
    redis.ask(&[b"CONFIG", b"SET", b"maxmemory-policy", b"allkeys-lru"]);
    refused(&["--engine", &url], 1, "noeviction");
    redis.ask(&[b"CONFIG", b"SET", b"maxmemory-policy", b"noeviction"]);
    // The line of docs/redis.md, and the same without one of its rights.
    let rights = include_str!("../../../../docs/redis.md");
    let rights =
        rights.lines().find_map(|line| line.strip_prefix("ACL SETUSER jobcentre ")).unwrap();
    let words = rights.replace("PASSWORD", "secret");
    let words = [&["ACL", "SETUSER", "jobcentre"], &words.split(' ').collect::<Vec<_>>()[..]];
    let words: Vec<&[u8]> = words.concat().into_iter().map(str::as_bytes).collect();
    assert_eq!(redis.ask(&words), b"+OK\r\n");
    let url = url.replace("://", "://jobcentre@");
    let mut command = plain_command(Program::PATH);
    command.args(["serve", "--listen", ":0", "--log-format", "json", "--engine", &url]);
    command.env("JOBCENTRE_ENGINE_PASSWORD", "secret");
    let mut server = Server::spawn(command);
    let mut client = server.connect();
    client.ask(&job(1));
    assert_eq!(number(&client.ask(&get("q")), "id"), 1);
    assert_eq!(client.ask(&delete(1)), r#"{"status":"ok"}"#);
    server.signal("TERM");
    assert_eq!(server.wait().code(), Some(0));
    redis.ask(&[b"ACL", b"SETUSER", b"jobcentre", b"-hset"]);
    let secret = [("JOBCENTRE_ENGINE_PASSWORD", "secret")];
    let serve = ["serve", "--listen", ":0", "--engine", &url];
    let output = Program::output(&serve, &secret);
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.contains("docs/redis.md"), "{text}");
    let wrong = [("JOBCENTRE_ENGINE_PASSWORD", "wrong")];
    let output = Program::output(&serve, &wrong);
    assert!(String::from_utf8(output.stderr).unwrap().contains("WRONGPASS"));
    redis.ask(&[b"CONFIG", b"SET", b"requirepass", b"secret"]);
    refused(&["--engine", &redis.url()], 1, "JOBCENTRE_ENGINE_PASSWORD");
}
