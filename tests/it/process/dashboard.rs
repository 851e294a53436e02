//! The dashboard over HTTP: its files, their headers, sessions of browsers.

use super::users::Setup;
use crate::dispatcher_sim::server_client::protocol;
use crate::support::Server;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

/// Sends a request and returns the whole response.
fn ask(server: SocketAddr, line: &str, fields: &str) -> String {
    let mut stream = TcpStream::connect(server).unwrap();
    let text = format!("{line} HTTP/1.1\r\nHost: {server}\r\nConnection: close\r\n{fields}\r\n");
    stream.write_all(text.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn start(flags: &[&str]) -> (Server, SocketAddr) {
    let server = Server::start(&[&["--http", ":0"], flags].concat());
    let port = protocol(&server).port();
    (server, SocketAddr::from(([127, 0, 0, 1], port)))
}

fn field<'a>(answer: &'a str, name: &str) -> Option<&'a str> {
    let head = answer.split("\r\n\r\n").next()?;
    head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
}

#[test]
fn page_and_its_files_are_served_with_their_headers() {
    let (_server, at) = start(&["--ui-label", "<production>"]);
    let html = "Accept: text/html\r\n";
    let begin = ask(at, "GET /", html);
    assert!(begin.starts_with("HTTP/1.1 302 "), "{begin}");
    assert_eq!(field(&begin, "Location"), Some("ui/"));
    assert!(ask(at, "GET /", "").contains("\"openapi\""), "programs get links");
    assert_eq!(field(&ask(at, "GET /ui", ""), "Location"), Some("ui/"));
    let page = ask(at, "GET /ui/", html);
    assert!(
        page.starts_with("HTTP/1.1 200 ") && page.contains("data-label=\"&#60;production&#62;\"")
    );
    let policy = field(&page, "Content-Security-Policy").unwrap();
    for part in ["default-src 'none'", "script-src 'self'", "require-trusted-types-for 'script'"] {
        assert!(policy.contains(part), "{policy}");
    }
    for (name, value) in [
        ("Cache-Control", "no-cache"),
        ("X-Content-Type-Options", "nosniff"),
        ("Referrer-Policy", "no-referrer"),
        ("Cross-Origin-Opener-Policy", "same-origin"),
        ("Cross-Origin-Resource-Policy", "same-origin"),
    ] {
        assert_eq!(field(&page, name), Some(value), "{name}");
    }
    let script = ask(at, "GET /ui/main.js", "");
    assert_eq!(field(&script, "Content-Type"), Some("text/javascript; charset=utf-8"));
    let version = field(&script, "ETag").unwrap();
    let again = ask(at, "GET /ui/main.js", &format!("If-None-Match: {version}\r\n"));
    assert!(again.starts_with("HTTP/1.1 304 ") && again.ends_with("\r\n\r\n"), "{again}");
    let head = ask(at, "HEAD /ui/style.css", "");
    assert!(head.starts_with("HTTP/1.1 200 ") && head.ends_with("\r\n\r\n"));
    for (line, status) in
        [("GET /ui/x.js", 404), ("GET /ui/../x", 404), ("POST /ui/", 405), ("OPTIONS /ui/", 204)]
    {
        let answer = ask(at, line, "Content-Length: 0\r\n");
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{line}: {answer}");
    }
}

#[test]
fn dashboard_can_be_left_out() {
    let (_server, at) = start(&["--ui", "off"]);
    for path in ["/ui", "/ui/", "/ui/main.js"] {
        assert!(ask(at, &format!("GET {path}"), "").starts_with("HTTP/1.1 404 "), "{path}");
    }
    assert!(ask(at, "GET /", "Accept: text/html\r\n").contains("<h1>jobcentre"));
}

#[test]
fn token_is_exchanged_for_a_cookie_that_ends() {
    let setup = Setup::new();
    let token = setup.add("ops", "observe");
    let token = token.lines().find(|line| line.starts_with("jc_")).unwrap();
    let server = setup.serve(&["--http", ":0"]);
    let at = SocketAddr::from(([127, 0, 0, 1], protocol(&server).port()));
    assert!(ask(at, "GET /ui/", "").starts_with("HTTP/1.1 200 "), "the page itself is open");
    let unknown = ask(at, "GET /api/v1/me", "");
    assert!(unknown.starts_with("HTTP/1.1 401 "));
    assert_eq!(field(&unknown, "WWW-Authenticate"), Some("Bearer realm=\"jobcentre\""));
    let open =
        |fields: &str| ask(at, "POST /api/v1/session", &format!("Content-Length: 0\r\n{fields}"));
    assert!(open("").starts_with("HTTP/1.1 401 "));
    assert!(open("Authorization: Bearer jc_wrong\r\n").starts_with("HTTP/1.1 401 "));
    let bearer = format!("Authorization: Bearer {token}\r\n");
    let opened = open(&bearer);
    assert!(opened.starts_with("HTTP/1.1 204 "), "{opened}");
    let cookie = field(&opened, "Set-Cookie").unwrap();
    assert!(
        cookie.contains("; HttpOnly; SameSite=Strict") && !cookie.contains("Secure"),
        "{cookie}"
    );
    let secure = open(&format!("{bearer}Sec-Fetch-Site: same-origin\r\nOrigin: https://{at}\r\n"));
    let secure = field(&secure, "Set-Cookie").unwrap();
    assert!(secure.starts_with("__Host-") && secure.ends_with("; Secure"), "{secure}");
    let pair = cookie.split(';').next().unwrap();
    let with = |line: &str| ask(at, line, &format!("Cookie: a=b; {pair}\r\n"));
    assert!(with("GET /api/v1/me").contains("\"user\":\"ops\""));
    let foreign = ask(
        at,
        "DELETE /api/v1/session",
        &format!("Cookie: {pair}\r\nSec-Fetch-Site: cross-site\r\n"),
    );
    assert!(foreign.starts_with("HTTP/1.1 403 "), "{foreign}");
    let closed = with("DELETE /api/v1/session");
    assert!(field(&closed, "Set-Cookie").is_some_and(|cookie| cookie.contains("Max-Age=0")));
    assert!(with("GET /api/v1/me").starts_with("HTTP/1.1 401 "));
}
