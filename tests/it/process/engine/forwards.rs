//! Servers that wait to lead: they forward the connections of their clients to the leader.

use super::Redis;
use crate::process::tls::{Setup, ask as ask_securely, connect as connect_securely};
use crate::support::{Client, Program, Server, TempDir, delete, get, plain_command, put, wait};
use crate::support::{number, until};
use jobcentre::wire::packets::{Request, push_request};
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;

/// All protocols, each on a port of its own.
const ALL: [&str; 6] = ["--http", ":0", "--beanstalkd", ":0", "--pinpriq", ":0"];

/// Starts a server, which leads or waits.
fn start(redis: &Redis, name: &str, flags: &[&str]) -> Server {
    let url = redis.url();
    let all = ["--engine", &url, "--server-name", name, "--engine-lease", "1s"];
    Server::start(&[&all[..], flags].concat())
}

/// Starts one that leads.
fn lead(redis: &Redis, name: &str, flags: &[&str]) -> Server {
    let server = start(redis, name, flags);
    server.wait_for_log("\"serving\"");
    server
}

/// Starts one that waits.
fn stand_by(redis: &Redis, name: &str, flags: &[&str]) -> Server {
    let server = start(redis, name, flags);
    server.wait_for_log("clients are forwarded to the server that leads");
    server
}

/// The answer to a request over HTTP whose connection ends with it.
fn http(address: SocketAddr, line: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    let length = body.len();
    let head = "HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
                Content-Type: application/json";
    let request = format!("{line} {head}\r\nContent-Length: {length}\r\n\r\n{body}");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// A value in the metrics of a server that waits.
fn metric(server: &Server, name: &str) -> String {
    let text = http(server.address_of("http"), "GET /metrics", "");
    let line = text.lines().find_map(|line| line.strip_prefix(&format!("jobcentre_{name} ")));
    line.unwrap_or_else(|| panic!("no {name}: {text}")).to_owned()
}

#[test]
fn clients_of_several_servers_work_on_the_same_jobs() {
    let Some(redis) = Redis::start() else { return };
    let leader = lead(&redis, "one", &["--http", ":0"]);
    let (second, third) =
        (stand_by(&redis, "two", &["--http", ":0"]), stand_by(&redis, "three", &[]));
    let (mut here, mut there) = (second.connect(), third.connect());
    assert_eq!(here.ask(&put("q", 1, "{\"n\":1}")), r#"{"status":"ok","id":1}"#);
    assert!(there.ask(&get("q")).contains("\"n\":1"));
    assert_eq!(there.ask(&delete(1)), r#"{"status":"ok"}"#);
    // A worker that waits is woken through both.
    there.send(&wait("q"));
    here.ask(&put("q", 1, "{\"n\":2}"));
    assert!(there.receive().contains("\"n\":2"));
    // Its end gives the job back, wherever the next one asks.
    drop(there);
    assert!(leader.connect().ask(&wait("q")).contains("\"n\":2"));
    assert!(here.ask(&wait("q")).contains("\"n\":2"), "the leader's client has ended");
    assert_eq!(metric(&second, "engine_forwards"), "1");
    assert_eq!(metric(&second, "engine_forwards_begun_total"), "1");
    assert_eq!(metric(&leader, "engine_forwards"), "0");
    drop(here);
    until("the end of the connection", || metric(&second, "engine_forwards") == "0");
}

#[test]
fn megabytes_are_pipelined_through_a_server_that_waits() {
    let Some(redis) = Redis::start() else { return };
    let _leader = lead(&redis, "one", &[]);
    let second = stand_by(&redis, "two", &[]);
    let mut client = second.connect();
    let job = format!("{{\"x\":\"{}\"}}", "y".repeat(1000));
    let count = 2_000;
    let puts = (put("q", 1, &job) + "\n").repeat(count);
    let answers = client.exchange(puts.as_bytes(), count);
    assert!(answers.iter().all(|answer| answer.contains(r#""status":"ok""#)));
    let gets = (get("q") + "\n").repeat(count);
    let answers = client.exchange(gets.as_bytes(), count);
    for (number, answer) in (1..).zip(&answers) {
        assert!(answer.contains(&format!("\"id\":{number},")) && answer.contains(&job), "{answer}");
    }
    // One line of a megabyte, near the longest.
    let long = put("long", 1, &format!("{{\"z\":\"{}\"}}", "z".repeat(1_000_000)));
    assert!(client.ask(&long).contains(r#""status":"ok""#));
    assert!(client.ask(&get("long")).len() > 1_000_000);
}

#[test]
fn every_protocol_is_forwarded_and_health_is_served_by_the_server_itself() {
    let Some(redis) = Redis::start() else { return };
    let leader = lead(&redis, "one", &ALL);
    let second = stand_by(&redis, "two", &ALL);
    let mut tube = Client::connect(second.address_of("beanstalkd"));
    tube.send_bytes(b"put 1 0 60 3\r\nabc\r\n");
    assert_eq!(tube.receive(), "INSERTED 1\r");
    tube.send_bytes(b"reserve\r\n");
    assert_eq!([tube.receive(), tube.receive()], ["RESERVED 1 3\r", "abc\r"]);
    let mut packets = Client::connect(second.address_of("pinpriq"));
    let mut bytes = Vec::new();
    let (queue, packet) = (&b"p"[..], &b"xyz"[..]);
    push_request(&mut bytes, &Request::Push { queue, ttl_ms: 0, priority: 1, key_len: 0, packet });
    push_request(&mut bytes, &Request::Pop { queue });
    packets.send_bytes(&bytes);
    let expected = b"\0\x01\0\0\0\x03xyz";
    assert_eq!(packets.receive_like(expected), expected);
    let at = second.address_of("http");
    let made = http(at, "POST /api/v1/queues/h/jobs", r#"{"payload":1}"#);
    assert!(made.starts_with("HTTP/1.1 201 "), "{made}");
    assert!(leader.connect().ask(&get("h")).contains(r#""status":"ok""#));
    for (line, status) in [("GET /health", 503), ("HEAD /health", 503), ("GET /metrics", 200)] {
        let answer = http(at, line, "");
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{line}: {answer}");
    }
    let health = http(at, "GET /health", "");
    assert!(health.contains("\"standby\"") && health.contains("\"leader\":\"one\""), "{health}");
    // One byte at a time, it is recognised as well.
    let mut slow = TcpStream::connect(at).unwrap();
    slow.set_nodelay(true).unwrap();
    for byte in b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n" {
        slow.write_all(&[*byte]).unwrap();
    }
    let mut answer = String::new();
    slow.read_to_string(&mut answer).unwrap();
    assert!(answer.contains("\"standby\""), "{answer}");
}

#[test]
fn clients_of_a_killed_leader_end_and_new_ones_are_served_after_the_takeover() {
    let Some(redis) = Redis::start() else { return };
    let mut leader = lead(&redis, "one", &[]);
    let (second, third) = (stand_by(&redis, "two", &[]), stand_by(&redis, "three", &[]));
    let mut client = second.connect();
    assert_eq!(client.ask(&put("q", 1, "{}")), r#"{"status":"ok","id":1}"#);
    assert!(client.ask(&get("q")).contains("\"id\":1"));
    leader.signal("KILL");
    leader.wait();
    assert_eq!(client.try_receive(), None, "it ends with the leader");
    // Both are tried before one of them leads: no connection is refused, and both are answered.
    let mut clients = [second.connect(), third.connect()];
    for client in &mut clients {
        client.send(&put("q", 1, "{}"));
    }
    for client in &mut clients {
        assert!(number(&client.receive(), "id") > 1);
    }
    let mut found: Vec<u64> = (0..3).map(|_| number(&clients[0].ask(&get("q")), "id")).collect();
    found.sort_unstable();
    assert_eq!(found[0], 1, "what its client had reserved is ready again: {found:?}");
}

#[test]
fn clients_of_a_leader_that_stands_still_end_when_another_server_leads() {
    let Some(redis) = Redis::start() else { return };
    let leader = lead(&redis, "one", &[]);
    let servers = [stand_by(&redis, "two", &[]), stand_by(&redis, "three", &[])];
    let mut clients = servers.each_ref().map(Server::connect);
    for client in &mut clients {
        client.ask(&put("q", 1, "{}"));
    }
    leader.signal("STOP");
    for client in &mut clients {
        assert_eq!(client.try_receive(), None);
    }
    for server in &servers {
        let answer = server.connect().ask(&get("q"));
        assert!(answer.contains(r#""status":"ok""#), "{answer}");
    }
}

#[test]
fn tls_is_between_the_client_and_the_leader() {
    let Some(redis) = Redis::start() else { return };
    let setup = Setup::new();
    let url = redis.url();
    let serve = |name: &str| {
        let mut command = plain_command(Program::PATH);
        command.args(["serve", "--listen", "tls::0", "--log-format", "json", "--engine", &url]);
        command.args(["--server-name", name, "--tls-client-ca"]).arg(setup.path("ca.pem"));
        command.arg("--tls-cert").arg(setup.path("cert.pem"));
        command.arg("--tls-key").arg(setup.path("key.pem"));
        Server::spawn(command)
    };
    let leader = serve("one");
    leader.wait_for_log("\"serving\"");
    let second = serve("two");
    let own = setup.authority.certificate("a client", 2100, 7);
    let config = setup.authority.client(Some(&own));
    let mut client = connect_securely(second.address, &config);
    let request = put("q", 1, &format!("{{\"x\":\"{}\"}}", "x".repeat(100_000))) + "\n";
    let answer = ask_securely(&mut client, &request).unwrap();
    assert_eq!(answer, "{\"status\":\"ok\",\"id\":1}\n");
    // The leader asks for the certificate.
    let mut unknown = connect_securely(second.address, &setup.authority.client(None));
    ask_securely(&mut unknown, &request).unwrap_err();
    let mut direct = connect_securely(leader.address, &config);
    let answer = ask_securely(&mut direct, &(get("q") + "\n")).unwrap();
    assert!(answer.contains("\"id\":1,"), "{answer}");
}

#[test]
fn half_close_is_passed_on_and_a_file_goes_to_the_listener_without_tls() {
    let Some(redis) = Redis::start() else { return };
    let _leader = lead(&redis, "one", &[]);
    let dir = TempDir::new();
    std::fs::create_dir_all(dir.path()).unwrap();
    let path = dir.path().join("s");
    let listen = format!("unix:{}", path.display());
    let mut command = plain_command(Program::PATH);
    command.args(["serve", "--listen", &listen, "--beanstalkd", ":0", "--log-format", "json"]);
    command.args(["--engine", &redis.url(), "--server-name", "two"]);
    let second = Server::spawn(command);
    second.wait_for_log("clients are forwarded");
    let mut stream = UnixStream::connect(&path).unwrap();
    let requests = (put("q", 1, "{}") + "\n").repeat(1_000);
    stream.write_all(requests.as_bytes()).unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut answers = String::new();
    stream.read_to_string(&mut answers).unwrap();
    assert_eq!(answers.lines().count(), 1_000);
    // The leader has none for beanstalkd.
    let mut tube = TcpStream::connect(second.address_of("beanstalkd")).unwrap();
    let mut said = String::new();
    tube.read_to_string(&mut said).unwrap();
    assert_eq!(said, "INTERNAL_ERROR\r\n");
    second.wait_for_log("beanstalkd: the leader has no listener for this protocol");
}

#[test]
fn server_that_is_told_to_stop_leaves_its_clients_their_answers() {
    let Some(redis) = Redis::start() else { return };
    let _leader = lead(&redis, "one", &[]);
    let mut second = stand_by(&redis, "two", &[]);
    let mut client = second.connect();
    assert_eq!(client.ask(&put("q", 1, "{}")), r#"{"status":"ok","id":1}"#);
    let requests = (put("q", 1, "{}") + "\n").repeat(100);
    client.send_bytes(requests.as_bytes());
    second.signal("TERM");
    let answers = client.receive_all();
    assert_eq!(answers.lines().count(), 100, "{answers}");
    assert_eq!(second.wait().code(), Some(0));
}

/// A client hears why it is not passed on, and its connection ends.
fn assert_refusal(client: &mut Client, why: &str) {
    let answer = client.receive();
    let begin = r#"{"status":"error","error":"this server does not lead, and cannot pass its"#;
    assert!(answer.starts_with(begin) && answer.contains(why), "{answer}");
    assert_eq!(client.try_receive(), None);
}

#[test]
fn connections_are_bounded_by_max_clients() {
    let Some(redis) = Redis::start() else { return };
    let _leader = lead(&redis, "one", &[]);
    let second = stand_by(&redis, "two", &["--max-clients", "2"]);
    let mut clients = [second.connect(), second.connect()];
    for client in &mut clients {
        client.ask(&put("q", 1, "{}"));
    }
    assert_refusal(&mut second.connect(), "as many connections are forwarded as --max-clients");
    second.wait_for_log("as many connections are forwarded as --max-clients");
    let [first, _second] = clients;
    drop(first);
    until("a place", || {
        let mut client = second.connect();
        client.send(&put("q", 1, "{}"));
        client.try_receive().is_some_and(|answer| answer.starts_with(br#"{"status":"ok""#))
    });
}

#[test]
fn address_that_leads_back_is_found() {
    let Some(redis) = Redis::start() else { return };
    let leader = lead(&redis, "one", &["--advertise", "127.0.0.2"]);
    let port = leader.address.port();
    let mut command = plain_command(Program::PATH);
    let listen = format!("127.0.0.2:{port}");
    command.args(["serve", "--listen", &listen, "--log-format", "json"]);
    command.args(["--engine", &redis.url(), "--server-name", "two", "--engine-patience", "1s"]);
    let second = Server::spawn(command);
    second.wait_for_log("clients are forwarded");
    for _ in 0..3 {
        assert_refusal(&mut second.connect(), "leads back to this server");
    }
    second.wait_for_log("leads back to this server");
    let status = Program::output(&["engine", "status", "--engine", &redis.url()], &[]);
    let status = String::from_utf8(status.stdout).unwrap();
    let shown = format!("\nclients of the leader: job-centre=127.0.0.2:{port}\n");
    assert!(status.contains(&shown), "{status}");
}

#[test]
fn server_with_users_forwards_to_no_leader_without() {
    let Some(redis) = Redis::start() else { return };
    let _leader = lead(&redis, "one", &[]);
    let dir = TempDir::new();
    std::fs::create_dir_all(dir.path()).unwrap();
    let file = dir.path().join("jobcentre.toml");
    let digest = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    let user = format!("[[user]]\nname = \"a\"\ntokens = [\"{digest}\"]\nallow = [\"put:*\"]\n");
    std::fs::write(&file, user).unwrap();
    let second = stand_by(&redis, "two", &["--config", file.to_str().unwrap()]);
    assert_refusal(&mut second.connect(), "with users or certificates of clients as here");
    second.wait_for_log("with users or certificates of clients as here");
}

/// A port that was free just now.
fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// The lines of docs/redis.md, with other ports, as bash runs them.
#[test]
fn three_servers_of_the_document_survive_the_death_of_their_leader() {
    let Some(redis) = Redis::start() else { return };
    let page = include_str!("../../../../docs/redis.md");
    let (_, section) = page.split_once("\n## Three servers and one Redis\n").unwrap();
    let (_, block) = section.split_once("```bash\n").unwrap();
    let (script, _) = block.split_once("```\n").unwrap();
    let (start, script) = script.split_once('\n').unwrap();
    assert!(start.starts_with("redis-server --port 6379 "), "{start}");
    let mut script = script.replace("6379", &redis.port().to_string());
    for port in ["11400", "11401", "11402"] {
        script = script.replace(port, &free_port().to_string());
    }
    // A reader waits two seconds; here it takes as long as it takes.
    let (_, third) = script.split_once("--server-name three --listen ").unwrap();
    let third = third.split(' ').next().unwrap();
    let ready = format!("until jobcentre ping --url {third} > ping 2>&1; do sleep 0.1; done\n");
    let script = script.replace("sleep 2\n", &ready);
    let dir = TempDir::new();
    std::fs::create_dir_all(dir.path()).unwrap();
    let folder = std::path::Path::new(Program::PATH).parent().unwrap();
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap());
    let script = format!("set -e\ntrap 'kill $(jobs -p) || true' EXIT\n{script}");
    let mut command = plain_command("timeout");
    command.args(["120", "bash", "-c", &script]).env("PATH", path).current_dir(dir.path());
    let output = command.output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    let (said, log) = (text(output.stdout), text(output.stderr));
    assert!(output.status.success(), "{said}{log}");
    let mut lines = said.lines();
    assert_eq!([lines.next(), lines.next()], [Some("1"), Some(r#"{"to":"ann"}"#)], "{said}{log}");
    let leader = lines.next().unwrap();
    assert!(leader.starts_with("leader: t"), "two or three: {leader}");
}

#[test]
fn clients_of_a_leader_that_cannot_be_reached_wait_for_the_patience() {
    let Some(redis) = Redis::start() else { return };
    let _leader = lead(&redis, "one", &["--advertise", "127.0.0.3"]);
    let second = stand_by(&redis, "two", &["--engine-patience", "1s"]);
    let mut clients = [second.connect(), second.connect(), second.connect()];
    clients[0].send(&put("q", 1, "{}"));
    for client in &mut clients {
        assert_refusal(client, "the leader (one) cannot be reached: no connection: 127.0.0.3:");
    }
    second
        .wait_for_log("job-centre: the leader (one) cannot be reached: no connection: 127.0.0.3:");
}

/// The leader that Redis still names is its own former life, at its own address.
#[test]
fn server_that_is_started_again_at_once_serves_the_clients_that_wait() {
    let Some(redis) = Redis::start() else { return };
    let (url, listen) = (redis.url(), format!("127.0.0.1:{}", free_port()));
    let serve = || {
        let mut command = plain_command(Program::PATH);
        command.args(["serve", "--listen", &listen, "--log-format", "json", "--engine", &url]);
        Server::spawn(command)
    };
    let mut server = serve();
    assert_eq!(server.connect().ask(&put("q", 1, "{}")), r#"{"status":"ok","id":1}"#);
    server.signal("KILL");
    server.wait();
    let again = serve();
    let mut clients = [again.connect(), again.connect(), again.connect()];
    for client in &mut clients {
        assert!(client.ask(&put("q", 1, "{}")).contains(r#""status":"ok""#));
    }
    let is_back = |line: &String| line.contains("were not passed on");
    assert!(!again.log_lines().iter().any(is_back), "{:?}", again.log_lines());
}
