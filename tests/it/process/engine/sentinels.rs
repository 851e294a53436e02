//! Real Sentinels, a primary and its replicas: what was answered outlives the primary.

use super::Redis;
use super::leaders::{compare, job, load};
use super::redis::Setup;
use crate::support::{Program, Server, TempDir, delete, plain_command, put, until};
use std::process::{Child, Stdio};
use std::thread;

/// A primary with replicas, and three Sentinels that watch it.
struct Watched {
    nodes: Vec<Redis>,
    sentinels: Vec<Redis>,
}

impl Watched {
    /// Starts them, and waits until a failover is possible.
    fn start(replicas: usize) -> Option<Self> {
        let primary = Redis::start()?;
        let port = primary.port();
        let mut nodes = vec![primary];
        for _ in 0..replicas {
            nodes.push(Redis::start_with(&Setup { replica_of: Some(port), ..Setup::default() })?);
        }
        let watched = Setup { watches: Some(port), ..Setup::default() };
        let sentinels: Option<Vec<_>> = (0..3).map(|_| Redis::start_with(&watched)).collect();
        let sentinels = sentinels?;
        until("replicas that are in step", || {
            let info = text(nodes[0].ask(&[b"INFO", b"replication"]));
            info.matches("state=online").count() == replicas
        });
        for sentinel in &sentinels {
            until("Sentinels that know the others and the replicas", || {
                let known = text(sentinel.ask(&[b"INFO", b"sentinel"]));
                known.contains(&format!(
                    "status=ok,address=127.0.0.1:{port},slaves={replicas},sentinels=3"
                ))
            });
        }
        Some(Self { nodes, sentinels })
    }

    fn url(&self) -> String {
        let hosts: Vec<_> =
            self.sentinels.iter().map(|node| format!("127.0.0.1:{}", node.port())).collect();
        format!("redis+sentinel://{}/jobs", hosts.join(","))
    }
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap()
}

fn start(url: &str, name: &str, flags: &[&str]) -> Server {
    let all = ["--engine", url, "--server-name", name];
    Server::start(&[&all[..], &["--engine-patience", "1min"], flags].concat())
}

fn status(url: &str) -> String {
    text(Program::output(&["engine", "status", "--engine", url], &[]).stdout)
}

/// A server that waits all the time. It is killed when it is dropped.
struct Waiting(Child);

impl Waiting {
    fn start(url: &str) -> Self {
        let mut command = plain_command(Program::PATH);
        command.args(["serve", "--engine", url, "--server-name", "spare", "--http", "off"]);
        command.args(["--listen", ":0"]).stderr(Stdio::null());
        Self(command.spawn().unwrap())
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn nothing_answered_is_lost_when_the_primary_is_killed_and_a_replica_takes_its_place() {
    let Some(mut watched) = Watched::start(1) else { return };
    let url = watched.url();
    let leader = start(&url, "only", &[]);
    let waiting = Waiting::start(&url);
    until("a server that waits", || status(&url).contains("waiting to lead: spare"));
    leader.wait_for_log("answers wait until a replica has");
    // A Sentinel that is away is passed over, too.
    watched.sentinels[0].kill();
    let ledger = load(leader.address, 0, || {
        watched.nodes[0].kill();
        let mut client = leader.connect();
        assert!(client.ask(&put("other", 1, "{}")).contains(r#""status":"ok""#));
    });
    leader.wait_for_log("Redis has no replica any more");
    // The one that waits has left it the time to find the new primary.
    assert!(status(&url).starts_with("leader: only "));
    compare(&leader, &ledger);
    drop(waiting);
    drop(leader);
    let next = start(&url, "next", &["--engine-lease", "500ms"]);
    assert!(next.connect().ask(&job(1)).contains(r#""status":"ok""#));
    assert!(status(&url).starts_with("leader: next "));
}

#[test]
fn nothing_answered_is_lost_when_leader_and_primary_are_killed_together() {
    let Some(mut watched) = Watched::start(2) else { return };
    let url = watched.url();
    let mut leader = start(&url, "one", &["--engine-wait", "1", "--engine-lease", "1s"]);
    let (next, ledger) = thread::scope(|scope| {
        let waiting =
            scope.spawn(|| start(&url, "two", &["--engine-wait", "1", "--engine-lease", "1s"]));
        until("a server that waits", || status(&url).contains("waiting to lead: two"));
        let ledger = load(leader.address, 0, || {
            watched.nodes[0].kill();
            leader.signal("KILL");
            leader.wait();
        });
        (waiting.join().unwrap(), ledger)
    });
    compare(&next, &ledger);
}

#[test]
fn nothing_is_answered_without_the_replicas_that_are_asked_for() {
    let Some(primary) = Redis::start() else { return };
    let setup = Setup { replica_of: Some(primary.port()), ..Setup::default() };
    let Some(replica) = Redis::start_with(&setup) else { return };
    until("a replica", || text(primary.ask(&[b"INFO"])).contains("state=online"));
    let url = primary.url();
    let flags = ["--engine", &url, "--engine-wait", "1", "--engine-patience", "3s"];
    let server = Server::start(&[&flags[..], &["--engine-lease", "500ms"]].concat());
    let mut client = server.connect();
    assert_eq!(client.ask(&job(1)), r#"{"status":"ok","id":1}"#);
    replica.signal("STOP");
    client.send(&job(2));
    let answer = text(client.try_receive().unwrap());
    assert!(answer.contains("whether this was carried out is not known"), "{answer}");
    server.wait_for_log("0 of 1 replicas have what was written (--engine-wait)");
    replica.signal("CONT");
    let mut client = server.connect();
    until("an answer", || client.ask(&job(3)).contains(r#""status":"ok""#));
    assert_eq!(client.ask(&delete(1)), r#"{"status":"ok"}"#);
}

#[test]
fn service_that_no_sentinel_knows_and_sentinels_that_are_away_end_the_start() {
    let Some(watched) = Watched::start(0) else { return };
    let refused = |url: &str, why: &str| {
        let flags = ["serve", "--listen", ":0", "--engine-patience", "100ms", "--engine", url];
        let output = Program::output(&flags, &[]);
        let text = text(output.stderr);
        assert_eq!(output.status.code(), Some(1), "{text}");
        assert!(text.contains(why), "{text}");
    };
    refused(&watched.url().replace("/jobs", "/others"), "knows no service of this name");
    let node = format!("redis+sentinel://127.0.0.1:{}/jobs", watched.nodes[0].port());
    refused(&node, "the Sentinel answers: ERR unknown command");
    drop(watched.sentinels);
    refused("redis+sentinel://127.0.0.1:1/jobs", "127.0.0.1:1: Connection refused");
}

#[test]
fn sentinels_that_ask_for_a_password_are_told_it() {
    let Some(watched) = Watched::start(0) else { return };
    // The line of docs/redis.md.
    let page = include_str!("../../../../docs/redis.md");
    let rights = page.lines().find(|line| line.contains(" +sentinel|"));
    let rights = rights.unwrap().replace("PASSWORD", "theirs");
    let rights: Vec<&[u8]> = rights.split(' ').map(str::as_bytes).collect();
    for sentinel in &watched.sentinels {
        assert_eq!(sentinel.ask(&rights), b"+OK\r\n");
        let shut: [&[u8]; 5] = [b"ACL", b"SETUSER", b"default", b"resetpass", b">secret"];
        assert_eq!(sentinel.ask(&shut), b"+OK\r\n");
    }
    let dir = TempDir::new();
    std::fs::create_dir_all(dir.path()).unwrap();
    let file = |name: &str, text: &str| {
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let (secret, theirs) = (file("secret", "secret\n"), file("theirs", "theirs\n"));
    let url = watched.url();
    let refused = |flags: &[&str], password: &str, why: &str| {
        let serve = ["serve", "--listen", ":0", "--engine", &url];
        let variables = [("JOBCENTRE_ENGINE_SENTINEL_PASSWORD", password)];
        let output = Program::output(&[&serve[..], flags].concat(), &variables);
        let text = text(output.stderr);
        assert_eq!(output.status.code(), Some(1), "{text}");
        assert!(text.contains(why), "{text}");
    };
    refused(&[], "", "--engine-sentinel-password-file");
    refused(&[], "wrong", "the Sentinel: the login failed: WRONGPASS");
    refused(&["--engine-sentinel-user", "other"], "secret", "WRONGPASS");

    let secret = ["--engine-sentinel-password-file", &secret];
    let mut leader = start(&url, "one", &secret);
    assert_eq!(leader.connect().ask(&job(1)), r#"{"status":"ok","id":1}"#);
    // The leader asks a Sentinel again.
    watched.nodes[0].ask(&[b"CLIENT", b"KILL", b"TYPE", b"normal"]);
    assert_eq!(leader.connect().ask(&job(2)), r#"{"status":"ok","id":2}"#);
    let status = [&["engine", "status", "--engine", &url], &secret[..]].concat();
    let status = text(Program::output(&status, &[]).stdout);
    assert!(status.starts_with("leader: one "), "{status}");
    leader.signal("TERM");
    assert_eq!(leader.wait().code(), Some(0));

    let theirs =
        ["--engine-sentinel-user", "jobcentre", "--engine-sentinel-password-file", &theirs];
    let leader = start(&url, "two", &theirs);
    assert_eq!(leader.connect().ask(&job(3)), r#"{"status":"ok","id":3}"#);
}
