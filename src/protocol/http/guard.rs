//! Protection against requests that web pages make. A browser sends what any page tells it to, so a
//! page of a foreign origin can send requests to a server that only this machine can reach. The
//! rules, for every path, in this order:
//!
//! 1. the requested host is an IP address, `localhost`, or a name that the operator has given
//!    (`--http-name`), so that a page whose name is rebound to this server (DNS rebinding) is
//!    rejected;
//! 2. a request with an effect is rejected if it comes from a page of a foreign origin: browsers
//!    say so in `Sec-Fetch-Site`, or in `Origin`;
//! 3. a page has to declare the type of its body in `Content-Type` (see [`media`]), so that a
//!    browser asks first (preflight).
//!
//! Programs send none of these fields and are not affected.

use super::media::{self, Said};
use super::response::{HttpError, JSON, MSGPACK};
use super::route::{self, Operation, RouteMatch, reads_body};
use crate::wire::host::{Host, host, is_same};
use crate::wire::http::{Framing, RequestHead};

/// Whether the request is admitted. `takes`: it has an effect whatever its method.
///
/// # Errors
/// The response for the rule that it breaks.
pub(super) fn admit(
    head: &RequestHead<'_>,
    names: &[Box<str>],
    takes: bool,
) -> Result<(), HttpError> {
    // The codec has checked that it is ASCII.
    let said = head.host.map(|host| std::str::from_utf8(host).unwrap_or_default());
    let meant = route::authority(head.target);
    for authority in [said, meant].into_iter().flatten() {
        check_host(authority, names)?;
    }
    if takes || !matches!(head.method, "GET" | "HEAD" | "OPTIONS") {
        check_origin(head, meant.or(said))?;
    }
    Ok(())
}

fn check_host(authority: &str, names: &[Box<str>]) -> Result<(), HttpError> {
    match host(authority) {
        Some(Host::Address) => Ok(()),
        Some(Host::Name(name)) if name.eq_ignore_ascii_case("localhost") => Ok(()),
        Some(Host::Name(name)) if names.iter().any(|known| known.eq_ignore_ascii_case(name)) => {
            Ok(())
        }
        Some(Host::Name(name)) => Err(misdirected(name)),
        Some(Host::Unspecified(host)) => Err(unspecified(host)),
        None => Err(no_host(authority)),
    }
}

#[cold]
fn misdirected(name: &str) -> HttpError {
    let why = format!(
        "the request is for the host '{name}', and this server answers only to addresses in \
         numbers, to localhost, and to names that it was started with: --http-name {name}"
    );
    HttpError::new(421, why)
}

#[cold]
fn unspecified(host: &str) -> HttpError {
    let why = format!(
        "the request is for the host '{host}', which is the address of no machine, or one of IPv4 \
         written as IPv6: browsers do not protect those from web pages as they protect 127.0.0.1. \
         Use 127.0.0.1, localhost, or the address of this machine"
    );
    HttpError::new(421, why)
}

#[cold]
fn no_host(authority: &str) -> HttpError {
    let shown: String = authority.chars().take(80).collect();
    let why = format!(
        "the request is for '{shown}', which is no HOST or HOST:PORT: the host must be an address \
         in numbers, localhost, or a name given by --http-name"
    );
    HttpError::new(421, why)
}

fn check_origin(head: &RequestHead<'_>, authority: Option<&str>) -> Result<(), HttpError> {
    if let Some(site) = head.fetch_site {
        return match site {
            b"same-origin" | b"none" => Ok(()),
            other => Err(foreign("Sec-Fetch-Site", other)),
        };
    }
    match head.origin {
        Some(origin) if !authority.is_some_and(|own| is_own(origin, own)) => {
            Err(foreign("Origin", origin))
        }
        _ => Ok(()),
    }
}

/// Whether the origin is the one that this server serves.
fn is_own(origin: &[u8], authority: &str) -> bool {
    let origin = std::str::from_utf8(origin).ok();
    origin.and_then(|origin| origin.split_once("://")).is_some_and(|(scheme, own)| {
        is_same(own, authority, if scheme == "https" { "443" } else { "80" })
    })
}

/// Whether a page has declared the type of its body.
///
/// # Errors
/// The response that names the type.
pub(super) fn check_type(head: &RequestHead<'_>, call: &RouteMatch) -> Result<(), HttpError> {
    let empty = matches!(head.framing, None | Some(Framing::Length(0)));
    if head.origin.is_none() || empty || !reads_body(call) {
        return Ok(());
    }
    let is_import = matches!(call.operation, Operation::Native(route) if route.is_import());
    if is_import && media::is_lines(head.content_type) {
        return Ok(());
    }
    let packed = matches!(call.operation, Operation::LightJq(_));
    match media::said(head.content_type) {
        Said::Json => Ok(()),
        Said::Packed if packed => Ok(()),
        _ => Err(missing_content_type(packed)),
    }
}

#[cold]
fn missing_content_type(packed: bool) -> HttpError {
    let or_packed = if packed { format!(" or {MSGPACK}") } else { String::new() };
    let why = format!(
        "the request comes from a web page (it has an Origin), so it must say what its body is: \
         Content-Type {JSON}{or_packed}"
    );
    HttpError::new(415, why)
}

#[cold]
fn foreign(field: &str, value: &[u8]) -> HttpError {
    let value = String::from_utf8_lossy(value);
    let shown: String = value.chars().take(80).collect();
    let why = format!(
        "a web page of another origin has made a browser send this ({field}: {shown}): nothing was \
         done, and its answers are for pages of this server and for programs"
    );
    HttpError::new(403, why)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::buf::Input;
    use crate::wire::http::next_request;

    fn status(line: &str, fields: &str, takes: bool) -> u16 {
        let text = format!("{line}\r\n{fields}\r\n\r\n");
        let mut input = Input::new(text.as_bytes());
        let head = match next_request(&mut input) {
            Ok(head) => head.expect("a whole head"),
            Err(parse_error) => return parse_error.status,
        };
        admit(&head, &["Jobs.example".into(), "h".into()], takes).map_or_else(|p| p.status, |()| 0)
    }

    fn get(host: &str) -> u16 {
        status("GET / HTTP/1.1", &format!("Host: {host}"), false)
    }

    #[test]
    fn host_must_be_an_address_localhost_or_configured() {
        for host in [
            "127.0.0.1:11480",
            "192.168.1.7",
            "[::1]:11480",
            "localhost",
            "LOCALHOST:7",
            "jobs.EXAMPLE:80",
            "h",
        ] {
            assert_eq!(get(host), 0, "{host}");
        }
        for host in [
            "evil.example",
            "0.0.0.0:11480",
            "[::]:11480",
            "[::ffff:127.0.0.1]",
            "localhost.",
            "x.localhost",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "127.0.0.1.",
            "0x7f.1",
            "2130706433",
            "127.1",
            "u@localhost",
            "localhost:x",
            "localhost:65536",
            "jobs.example.",
            "x.jobs.example",
            "",
        ] {
            assert_eq!(get(host), 421, "{host}");
        }
        assert_eq!(get("localhost\r\nHost: localhost"), 400);
        assert_eq!(status("GET / HTTP/1.1", "X: y", false), 400);
    }

    #[test]
    fn http_1_0_may_omit_the_host_but_not_forge_it() {
        assert_eq!(status("GET / HTTP/1.0", "X: y", false), 0);
        assert_eq!(status("POST / HTTP/1.0", "X: y", false), 0);
        assert_eq!(status("POST / HTTP/1.0", "Origin: http://localhost", false), 403);
        assert_eq!(status("GET / HTTP/1.0", "Host: evil.example", false), 421);
    }

    #[test]
    fn host_of_an_absolute_target_is_checked() {
        let get = |target: &str| {
            let line = format!("GET {target} HTTP/1.1");
            status(&line, "Host: localhost", false)
        };
        assert_eq!(get("http://127.0.0.1:1/x"), 0);
        assert_eq!(get("HTTP://h?x"), 0);
        for target in
            ["http://evil.example/", "https://u@localhost/", "http://", "http:///x", "http://a:x"]
        {
            assert_eq!(get(target), 421, "{target}");
        }
        let post = |target: &str, origin: &str| {
            let fields = format!("Host: localhost:1\r\nOrigin: {origin}");
            status(&format!("POST {target} HTTP/1.1"), &fields, false)
        };
        assert_eq!(post("http://localhost:2/", "http://localhost:2"), 0);
        assert_eq!(post("http://localhost:2/", "http://localhost:1"), 403);
    }

    #[test]
    fn foreign_origin_is_rejected_for_requests_with_effects() {
        let ask = |method: &str, fields: &str, takes: bool| {
            let fields = format!("Host: localhost:11480\r\n{fields}");
            status(&format!("{method} / HTTP/1.1"), &fields, takes)
        };
        for (fields, expected) in [
            ("X: y", 0),
            ("Sec-Fetch-Site: none", 0),
            ("Sec-Fetch-Site: same-origin", 0),
            ("Sec-Fetch-Site: same-origin\r\nOrigin: null", 0),
            ("Sec-Fetch-Site: same-site", 403),
            ("sec-fetch-site: cross-site", 403),
            ("Sec-Fetch-Site: cross-site\r\nOrigin: http://localhost:11480", 403),
            ("Sec-Fetch-Site:", 403),
            ("Sec-Fetch-Site: x", 403),
            ("Sec-Fetch-Site: same-origin\r\nSec-Fetch-Site: none", 400),
            ("Origin: http://localhost:11480", 0),
            ("Origin: http://LocalHost:11480", 0),
            ("Origin: http://localhost", 403),
            ("Origin: http://localhost:80", 403),
            ("Origin: http://127.0.0.1:11480", 403),
            ("Origin: http://evil.example", 403),
            ("Origin: null", 403),
            ("Origin:", 403),
            ("Origin: localhost:11480", 403),
            ("Origin: http://localhost:11480\r\nOrigin: http://localhost:11480", 400),
        ] {
            for method in ["POST", "PUT", "DELETE", "PATCH", "get"] {
                assert_eq!(ask(method, fields, false), expected, "{method} {fields}");
            }
            assert_eq!(ask("GET", fields, true), expected, "{fields}");
            if expected != 400 {
                for method in ["GET", "HEAD", "OPTIONS"] {
                    assert_eq!(ask(method, fields, false), 0, "{method} {fields}");
                }
            }
        }
        let fields = "Host: h\r\nOrigin: https://h:443";
        assert_eq!(status("POST / HTTP/1.1", fields, false), 0);
    }
}
