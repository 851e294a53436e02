//! Limits on clients and on descriptors: the server reports them, survives, and recovers.

use crate::support::{
    Client, NO_JOB, Program, Server, get, number, plain_command, put, until, wait,
};
use rlimit::Resource;

/// Connects until a client is really served.
fn connect_until_served(server: &Server) -> Client {
    let mut found = None;
    until("a free place", || {
        let mut client = server.connect();
        client.send(&get("none"));
        found = client.try_receive().filter(|line| line == NO_JOB.as_bytes()).map(|_| client);
        found.is_some()
    });
    found.unwrap()
}

#[test]
fn client_beyond_max_clients_is_rejected_until_another_leaves() {
    let server = Server::start(&["--max-clients", "2"]);
    let (mut first, mut second) = (server.connect(), server.connect());
    first.ask(&put("q", 1, "{}"));
    assert_eq!(number(&second.ask(&get("q")), "id"), 1);
    for _ in 0..5 {
        let mut refused = server.connect();
        refused.send(r#"{"request":"delete","id":1}"#);
        let reply = refused.receive();
        let json: serde_json::Value = serde_json::from_str(&reply).unwrap();
        assert_eq!(json["status"], "error");
        let message = json["error"].as_str().unwrap();
        assert!(message.contains("2 clients") && message.contains("--max-clients"), "{message}");
        assert_eq!(refused.receive_all(), "", "nothing follows");
    }
    first.send(&wait("q"));
    drop(second);
    assert_eq!(number(&first.receive(), "id"), 1, "what refused clients ask for is not done");
    let mut third = connect_until_served(&server);
    assert!(third.ask(r#"{"request":"abort","id":1}"#).contains("another client"));
}

#[test]
fn rejected_clients_that_stay_are_closed() {
    let server = Server::start(&["--max-clients", "1"]);
    let mut first = server.connect();
    assert_eq!(first.ask(&get("q")), NO_JOB);
    // More than the server talks to at a time; none of them closes.
    let refused: Vec<Client> = (0..300).map(|_| server.connect()).collect();
    let answered = refused.into_iter().filter_map(|mut client| client.try_receive()).count();
    assert!(answered > 0, "no client got the reason");
    assert_eq!(first.ask(&get("q")), NO_JOB);
    drop(first);
    connect_until_served(&server);
}

#[test]
fn server_without_descriptors_continues_when_some_are_closed() {
    let mut server = Server::start(&[]);
    let mut first = server.connect();
    assert_eq!(first.ask(&get("q")), NO_JOB);
    // Too late for the server to count with it.
    let pid = i32::try_from(server.pid()).unwrap();
    rlimit::prlimit(pid, Resource::NOFILE, Some((40, 40)), None).unwrap();
    let mut clients: Vec<Client> = (0..100).map(|_| server.connect()).collect();
    for client in &mut clients {
        client.send(&get("q"));
    }
    server.wait_for_log("cannot accept a connection");
    assert_eq!(first.ask(&get("q")), NO_JOB, "accepted clients are served");
    // They were accepted in order, so each one that closes lets another one in.
    for mut client in clients {
        assert_eq!(client.receive(), NO_JOB);
    }
    assert_eq!(server.connect().ask(&get("q")), NO_JOB);
    assert!(server.is_alive());
    let warnings = server.log_lines().iter().filter(|line| line.contains("cannot accept")).count();
    assert!(warnings < 50, "{warnings} lines about the same");
}

#[test]
fn low_descriptor_limit_lowers_max_clients() {
    let mut command = plain_command("sh");
    command.args(["-c", "ulimit -n 40; exec \"$@\"", "sh", Program::PATH]);
    command.args(["serve", "--listen", ":0", "--log-format", "json"]);
    let mut server = Server::spawn(command);
    server.wait_for_log("few open files");
    let mut first = connect_until_served(&server);
    let clients: Vec<Client> = (0..80).map(|_| server.connect()).collect();
    // All are closed; those for which there are descriptors left get the reason.
    let replies: Vec<String> = clients.into_iter().map(Client::receive_all).collect();
    let rejected = replies.iter().filter(|reply| reply.contains("--max-clients")).count();
    let closed = replies.iter().filter(|reply| reply.is_empty()).count();
    assert_eq!(rejected + closed, replies.len(), "{replies:?}");
    assert_eq!(first.ask(&get("q")), NO_JOB);
    drop(first);
    connect_until_served(&server);
    assert!(server.is_alive());
}

#[test]
fn soft_descriptor_limit_is_raised() {
    let mut command = plain_command("sh");
    command.args(["-c", "ulimit -Sn 40; exec \"$@\"", "sh", Program::PATH]);
    command.args(["serve", "--listen", ":0", "--log-format", "json", "--max-clients", "100"]);
    let server = Server::spawn(command);
    let mut clients: Vec<Client> = (0..100).map(|_| server.connect()).collect();
    for client in &mut clients {
        assert_eq!(client.ask(&get("q")), NO_JOB);
    }
}
