//! What has changed when a server begins, or begins to lead: its users, and the memory of Redis.

use super::Redis;
use super::leaders::job;
use crate::support::{Server, TempDir, delete, plain_command, put, until};

/// Settings with a user whose token is `abc`, or with another one.
fn users(name: &str, digest: &str) -> String {
    format!("[[user]]\nname = \"{name}\"\ntokens = [\"sha256:{digest}\"]\nallow = [\"put:*\"]\n")
}

const ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

/// The digest of a token that no client has.
const OTHER: &str = "0000000000000000000000000000000000000000000000000000000000000001";

const AUTH: &str = r#"{"request":"auth","token":"abc"}"#;

#[test]
fn server_that_takes_over_has_the_users_of_now() {
    let Some(redis) = Redis::start() else { return };
    let dir = TempDir::new();
    std::fs::create_dir_all(dir.path()).unwrap();
    let file = dir.path().join("jobcentre.toml");
    std::fs::write(&file, users("web", ABC)).unwrap();
    let url = redis.url();
    let start = |name: &str| {
        let flags = ["--engine", &url, "--engine-lease", "1s", "--server-name", name];
        Server::start(&[&flags[..], &["--config", file.to_str().unwrap()]].concat())
    };
    let mut leader = start("one");
    leader.wait_for_log("\"serving\"");
    let waiting = start("two");
    waiting.wait_for_log("clients are forwarded to the server that leads");
    let mut client = waiting.connect();
    assert_eq!(client.ask(AUTH), r#"{"status":"ok","user":"web"}"#);
    assert!(client.ask(&job(1)).contains(r#""status":"ok""#));
    // Only the leader is told.
    std::fs::write(&file, users("ops", OTHER)).unwrap();
    leader.signal("HUP");
    leader.wait_for_log("the users were read again");
    leader.signal("KILL");
    leader.wait();
    waiting.wait_for_log("this server leads");
    waiting.wait_for_log("\"serving\"");
    let mut client = waiting.connect();
    assert!(client.ask(AUTH).contains(r#""status":"error""#));
}

#[test]
fn server_that_starts_while_redis_is_full_leads_and_deletes() {
    let Some(redis) = Redis::start() else { return };
    let url = redis.url();
    let start = |name: &str| {
        let mut command = plain_command(crate::support::Program::PATH);
        command.args(["serve", "--listen", ":0", "--log-format", "json", "--engine", &url]);
        command.args(["--server-name", name, "--engine-lease", "1s"]);
        Server::spawn(command)
    };
    let mut first = start("one");
    assert_eq!(first.connect().ask(&job(1)), r#"{"status":"ok","id":1}"#);
    redis.ask(&[b"CONFIG", b"SET", b"maxmemory", b"1"]);
    first.signal("KILL");
    first.wait();
    let second = start("two");
    second.wait_for_log("\"serving\"");
    let mut client = second.connect();
    until("a put that is refused", || client.ask(&put("q", 1, "{}")).contains("full"));
    assert_eq!(client.ask(&delete(1)), r#"{"status":"ok"}"#);
    redis.ask(&[b"CONFIG", b"SET", b"maxmemory", b"0"]);
    until("a put", || client.ask(&job(2)).contains(r#""status":"ok""#));
}
