//! What a reload of the users changes for connections that are there.

use super::{Setup, ask, auth, bearer, connect, http};
use crate::support::{get, put, until, wait};
use std::fs;
use std::io::{BufRead, Write};

fn table(name: &str, tokens: &[&str], allow: &str) -> String {
    let tokens: Vec<String> = tokens.iter().map(|line| format!("\"{line}\"")).collect();
    format!("[[user]]\nname = '{name}'\ntokens = [{}]\nallow = [{allow}]\n", tokens.join(","))
}

/// A token and its digest.
fn token(setup: &Setup) -> (String, String) {
    let output = String::from_utf8(setup.run(&["token", "new"]).stdout).unwrap();
    let digest = output.split('"').nth(1).unwrap().to_owned();
    (output.lines().next().unwrap().to_owned(), digest)
}

/// Writes the file and lets the server read it; returns when it has.
fn reload(setup: &Setup, server: &crate::support::Server, text: &str, expected: &str) {
    let count = |lines: Vec<String>| lines.iter().filter(|line| line.contains(expected)).count();
    let before = count(server.log_lines());
    fs::write(setup.file(), text).unwrap();
    server.signal("HUP");
    until(expected, || count(server.log_lines()) > before);
}

const READ: &str = "the users were read again";

#[test]
fn tokens_are_rotated_without_a_moment_in_which_none_is_good() {
    let setup = Setup::new();
    let ((old, old_digest), (new, new_digest)) = (token(&setup), token(&setup));
    fs::write(setup.file(), table("web", &[&old_digest], "'put:*'")).unwrap();
    let server = setup.serve(&["--http", "off"]);
    let mut first = connect(server.address);
    assert!(ask(&mut first, &auth(&old)).contains("\"ok\""));
    let mut second = connect(server.address);
    assert!(ask(&mut second, &auth(&new)).contains("no user"));
    reload(&setup, &server, &table("web", &[&old_digest, &new_digest], "'put:*'"), READ);
    assert!(ask(&mut second, &auth(&new)).contains("\"ok\""));
    let put_it = format!("{}\n", put("q", 1, "{}"));
    assert!(ask(&mut first, &put_it).contains("\"ok\""));
    reload(&setup, &server, &table("web", &[&new_digest], "'put:*'"), READ);
    assert!(ask(&mut first, "").contains("authenticate first"), "its token is gone");
    assert_eq!(ask(&mut first, ""), "");
    assert!(ask(&mut second, &put_it).contains("\"ok\""));
    assert!(ask(&mut connect(server.address), &auth(&old)).contains("no user"));
}

#[test]
fn wait_whose_right_is_withdrawn_is_ended_and_others_go_on() {
    let setup = Setup::new();
    let ((one, one_digest), (two, two_digest)) = (token(&setup), token(&setup));
    let users = |allow: &str| {
        let both = [table("one", &[&one_digest], allow), table("two", &[&two_digest], "'take:*'")];
        both.concat()
    };
    fs::write(setup.file(), users("'take:a','take:b','put:*'")).unwrap();
    let server = setup.serve(&["--http", ":0", "--beanstalkd", ":0"]);
    let mut loses = connect(server.address);
    assert!(ask(&mut loses, &auth(&one)).contains("\"ok\""));
    loses.get_mut().write_all(format!("{}\n", wait("a")).as_bytes()).unwrap();
    let mut keeps = connect(server.address);
    assert!(ask(&mut keeps, &auth(&two)).contains("\"ok\""));
    keeps.get_mut().write_all(format!("{}\n", wait("a")).as_bytes()).unwrap();
    let address = server.address_of("http");
    let poll = std::thread::spawn({
        let fields = format!("Content-Type: application/json\r\n{}", bearer(&one));
        let body = "{\"queues\":[\"a\"],\"wait_ms\":60000}";
        move || http(address, "POST /api/v1/reserve", &fields, body)
    });
    let waiting =
        |count: usize| super::metrics(address).1.contains(&format!("jobcentre_waiters {count}\n"));
    until("three waits", || waiting(3));
    reload(&setup, &server, &users("'take:b','put:*'"), READ);
    let ended = ask(&mut loses, "");
    assert!(ended.contains("have changed before the request was answered"), "{ended}");
    let (status, answer) = poll.join().unwrap();
    assert!(status == 403 && answer.contains("have changed"), "{status} {answer}");
    assert!(ask(&mut loses, &format!("{}\n", get("a"))).contains("lacks the right 'take:a'"));
    assert!(ask(&mut loses, &format!("{}\n", get("b"))).contains("no-job"), "it goes on");
    assert!(ask(&mut loses, &format!("{}\n", put("a", 1, "{}"))).contains("\"ok\""));
    let mut line = String::new();
    keeps.read_line(&mut line).unwrap();
    assert!(line.contains("\"id\":1"), "{line}");
}

#[test]
fn event_stream_of_a_user_who_is_gone_ends_although_others_observe_the_same() {
    let setup = Setup::new();
    let ((one, one_digest), (two, two_digest)) = (token(&setup), token(&setup));
    let users = |first: &str| {
        let both =
            [table(first, &[&one_digest], "'observe'"), table("two", &[&two_digest], "'observe'")];
        both.concat()
    };
    fs::write(setup.file(), users("one")).unwrap();
    let server = setup.serve(&["--http", ":0"]);
    let mut streams = [one, two].map(|token| {
        let mut stream = connect(server.address_of("http"));
        let fields = bearer(&token);
        let request = format!(
            "GET /api/v1/stream?topics=overview HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n"
        );
        assert!(ask(&mut stream, &request).contains("200"));
        stream
    });
    let mut frame = |stream: usize| loop {
        let mut line = String::new();
        streams[stream].read_line(&mut line).unwrap();
        if line.is_empty() || line.starts_with("data:") || line == "0\r\n" {
            return line.starts_with("data:");
        }
    };
    assert!(frame(0) && frame(1));
    let without_one = table("two", &[&two_digest], "'observe'");
    reload(&setup, &server, &without_one, READ);
    until("the end of the first stream", || !frame(0));
    assert!(frame(1), "the second one goes on");
}

#[test]
fn beanstalkd_client_that_uses_and_watches_queues_is_closed_when_its_user_is_gone() {
    let setup = Setup::new();
    let ((one, one_digest), (_, other_digest)) = (token(&setup), token(&setup));
    let other = table("other", &[&other_digest], "'put:*'");
    fs::write(setup.file(), table("one", &[&one_digest], "'put:*','take:*'") + &other).unwrap();
    let server = setup.serve(&["--http", "off", "--beanstalkd", ":0"]);
    let mut client = connect(server.address_of("beanstalkd"));
    assert_eq!(ask(&mut client, &format!("auth {one}\r\n")), "OK");
    assert_eq!(ask(&mut client, "use mail\r\n"), "USING mail");
    assert_eq!(ask(&mut client, "watch mail\r\n"), "WATCHING 2");
    reload(&setup, &server, &other, READ);
    assert_eq!(ask(&mut client, ""), "UNAUTHORIZED");
    assert_eq!(ask(&mut client, ""), "", "it is closed");
    let mut lines = connect(server.address);
    assert!(ask(&mut lines, &format!("{}\n", get("mail"))).contains("authenticate first"));
}

#[test]
fn file_that_cannot_be_used_changes_nothing() {
    let setup = Setup::new();
    let (one, digest) = token(&setup);
    let good = table("web", &[&digest], "'put:*','admin'");
    fs::write(setup.file(), &good).unwrap();
    let server = setup.serve(&["--http", "off", "--pinpriq", ":0,user=web"]);
    let mut client = connect(server.address);
    assert!(ask(&mut client, &auth(&one)).contains("\"ok\""));
    for wrong in ["[[user]", "", "[[user]]\nname = 'a'\nallow = ['put']", &good.replace("web", "x")]
    {
        reload(&setup, &server, wrong, "the former users stay");
        assert!(ask(&mut client, &format!("{}\n", put("q", 1, "{}"))).contains("\"ok\""));
    }
    // Who asks for it is told.
    let request = "{\"request\":\"reload\"}\n";
    let answer = ask(&mut client, request);
    assert!(answer.contains("\"error\"") && answer.contains("the former users stay"), "{answer}");
    let (_, other) = token(&setup);
    fs::write(setup.file(), good + &table("new", &[&other], "'put:*'")).unwrap();
    let expected = "{\"status\":\"ok\",\"certificate_expires_at\":null,\"users\":2}";
    assert_eq!(ask(&mut client, request), expected);
}

#[test]
fn user_who_has_expired_is_nobody() {
    let setup = Setup::new();
    let (one, digest) = token(&setup);
    let mut text = table("web", &[&digest], "'put:*'");
    text.push_str("until = '2020-01-01T00:00:00Z'\n");
    fs::write(setup.file(), &text).unwrap();
    let server = setup.serve(&["--http", "off"]);
    assert!(ask(&mut connect(server.address), &auth(&one)).contains("no user"));
    reload(&setup, &server, &text.replace("2020", "2120"), READ);
    assert!(ask(&mut connect(server.address), &auth(&one)).contains("\"ok\""));
    text.push_str("protocols = ['http']\n");
    reload(&setup, &server, &text.replace("2020", "2120"), READ);
    assert!(ask(&mut connect(server.address), &auth(&one)).contains("no user"));
}

#[test]
fn users_that_come_to_a_server_without_any_close_it_for_others() {
    let setup = Setup::new();
    fs::write(setup.file(), "").unwrap();
    let server = setup.serve(&["--http", "off", "--pinpriq", ":0"]);
    let mut client = connect(server.address);
    assert!(ask(&mut client, &auth("x")).contains("has no users"));
    assert!(ask(&mut client, &format!("{}\n", put("q", 1, "{}"))).contains("\"ok\""));
    let (one, digest) = token(&setup);
    reload(&setup, &server, &table("web", &[&digest], "'take:*'"), READ);
    assert!(ask(&mut client, "").contains("authenticate first"));
    assert_eq!(ask(&mut client, ""), "");
    let mut client = connect(server.address);
    assert!(ask(&mut client, &auth(&one)).contains("\"ok\""));
    assert!(ask(&mut client, &format!("{}\n", get("q"))).contains("\"id\":1"));
}

/// Who has asked for a reload that takes its rights away is answered before it is closed.
#[test]
fn client_whose_own_reload_removes_its_user_is_answered_and_then_closed() {
    let setup = Setup::new();
    let ((one, one_digest), (two, two_digest)) = (token(&setup), token(&setup));
    let second = table("two", &[&two_digest], "'put:*'");
    let both = table("one", &[&one_digest], "'admin'") + &second;
    let request = "{\"request\":\"reload\"}\n";
    let expected = "{\"status\":\"ok\",\"certificate_expires_at\":null,\"users\":1}";
    fs::write(setup.file(), &both).unwrap();
    let server = setup.serve(&["--http", ":0"]);
    let mut clients = [(); 3].map(|()| connect(server.address));
    for client in &mut clients {
        assert!(ask(client, &auth(&one)).contains("\"ok\""));
    }
    fs::write(setup.file(), &second).unwrap();
    for client in &mut clients {
        client.get_mut().write_all(request.as_bytes()).unwrap();
    }
    // The first is answered for certain: the others may have asked after the reload.
    assert_eq!(ask(&mut clients[0], ""), expected);
    for client in &mut clients {
        while let line = ask(client, "")
            && !line.is_empty()
        {
            assert!(line == expected || line.contains("authenticate first"), "{line}");
        }
    }
    assert!(ask(&mut connect(server.address), &auth(&two)).contains("\"ok\""));
    // Over HTTP the next request is refused, and this one is answered.
    reload(&setup, &server, &both, READ);
    fs::write(setup.file(), &second).unwrap();
    let (address, fields) = (server.address_of("http"), bearer(&one));
    let reload_it = || {
        let fields = format!("Content-Type: application/json\r\n{fields}");
        http(address, "POST /api/v1/server/reload", &fields, "")
    };
    assert_eq!(reload_it().0, 200);
    assert_eq!(reload_it().0, 401);
}

/// Without users every client may do everything, so also this; with users it takes `admin`.
#[test]
fn client_that_brings_users_to_a_server_without_any_is_answered_and_then_closed() {
    let setup = Setup::new();
    let (one, digest) = token(&setup);
    fs::write(setup.file(), "").unwrap();
    let server = setup.serve(&["--http", "off"]);
    let request = "{\"request\":\"reload\"}\n";
    let mut client = connect(server.address);
    let none = "{\"status\":\"ok\",\"certificate_expires_at\":null,\"users\":null}";
    assert_eq!(ask(&mut client, request), none);
    fs::write(setup.file(), table("web", &[&digest], "'put:*'")).unwrap();
    assert_eq!(ask(&mut client, request), none.replace("null}", "1}"));
    assert!(ask(&mut client, "").contains("authenticate first"));
    assert_eq!(ask(&mut client, ""), "");
    let mut client = connect(server.address);
    assert!(ask(&mut client, &auth(&one)).contains("\"ok\""));
    assert!(ask(&mut client, request).contains("lacks the right 'admin'"));
}
