//! `http` and `https` URLs of other servers, up to their paths.

use http::Uri;
use std::fmt;

/// A server, and where on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    /// Whether it is `https`.
    pub tls: bool,
    /// The server's name, or its address in numbers; of IPv6 without brackets.
    pub host: Box<str>,
    /// The port, 80 or 443 if none is given.
    pub port: u16,
    /// Host and port as they are written: for the `Host` header.
    pub authority: Box<str>,
    /// The path without slashes at its end, so that `/path` can be added: often empty.
    pub base: Box<str>,
}

/// Why a text is no such URL. Displays as a sentence without its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UrlError {
    /// It is no URL, or not one with only ASCII characters.
    Malformed,
    /// It begins neither with `http://` nor with `https://`.
    Scheme,
    /// It has a user name, or a password.
    User,
    /// It has a query or a fragment, and nothing could be added to its path.
    Tail,
    /// There can be no server with this name.
    Host,
    /// There is no port with this number.
    Port,
}

impl fmt::Display for UrlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Malformed => "it is no URL, or has characters that are to be percent-encoded",
            Self::Scheme => "it begins neither with http:// nor with https://",
            Self::User => "it has a user name, for which there is no use here",
            Self::Tail => "it has a query or a fragment, where only a path is possible",
            Self::Host => "its host is neither a name nor an address in numbers",
            Self::Port => "its port is not a number from 1 to 65535",
        })
    }
}

/// Reads a URL. O(its length).
///
/// # Errors
/// Says what is wrong with it.
pub fn parse(text: &str) -> Result<Url, UrlError> {
    if !text.is_ascii() {
        return Err(UrlError::Malformed);
    }
    if text.contains(['?', '#']) {
        return Err(UrlError::Tail);
    }
    let uri: Uri = text.parse().map_err(|_| UrlError::Malformed)?;
    let tls = match uri.scheme_str() {
        Some("http") => false,
        Some("https") => true,
        _ => return Err(UrlError::Scheme),
    };
    let authority = uri.authority().ok_or(UrlError::Host)?;
    if authority.as_str().contains('@') {
        return Err(UrlError::User);
    }
    let host = check_host(authority.host()).ok_or(UrlError::Host)?;
    let port = match (authority.port_u16(), &authority.as_str()[authority.host().len()..]) {
        // The library takes a sign for a part of the number.
        (Some(port @ 1..), digits) if !digits.contains('+') => port,
        (None, "" | ":") => {
            if tls {
                443
            } else {
                80
            }
        }
        _ => return Err(UrlError::Port),
    };
    Ok(Url {
        tls,
        host: host.into(),
        port,
        authority: authority.as_str().trim_end_matches(':').into(),
        base: uri.path().trim_end_matches('/').into(),
    })
}

/// The host without brackets, if there can be such a one.
fn check_host(host: &str) -> Option<&str> {
    let numbers = |inner: &str| inner.chars().all(|c| c.is_ascii_hexdigit() || ":.".contains(c));
    let name = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
    match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
        Some(inner) => (inner.contains(':') && numbers(inner)).then_some(inner),
        None => (!host.is_empty() && host.chars().all(name)).then_some(host),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        match parse(text) {
            Ok(Url { tls, host, port, authority, base }) => {
                format!("{tls} {host} {port} {authority} {base}")
            }
            Err(why) => format!("{why:?}"),
        }
    }

    #[test]
    fn urls_are_taken_apart() {
        assert_eq!(shown("http://worker"), "false worker 80 worker ");
        assert_eq!(shown("https://worker/"), "true worker 443 worker ");
        assert_eq!(
            shown("http://w-1.example:8080/a/b//"),
            "false w-1.example 8080 \
             w-1.example:8080 /a/b"
        );
        assert_eq!(shown("HTTPS://10.0.0.1:1/%C3%A4"), "true 10.0.0.1 1 10.0.0.1:1 /%C3%A4");
        assert_eq!(shown("http://[::1]:7/x"), "false ::1 7 [::1]:7 /x");
        assert_eq!(shown("http://[fe80::1]"), "false fe80::1 80 [fe80::1] ");
        assert_eq!(shown("http://worker:/x"), "false worker 80 worker /x");
        assert_eq!(shown("HTTPS://a.b-c_d:8443/"), "true a.b-c_d 8443 a.b-c_d:8443 ");
        assert_eq!(shown("https://10.0.0.1/x/y//"), "true 10.0.0.1 443 10.0.0.1 /x/y");
        assert_eq!(shown("http://[::1]:1/%20"), "false ::1 1 [::1]:1 /%20");
    }

    #[test]
    fn what_cannot_be_called_is_refused() {
        for text in ["", "http", "http://", "http:///x", "//worker", "http://a b/", "http://a/ b"] {
            let Err(UrlError::Malformed | UrlError::Host | UrlError::Scheme) = parse(text) else {
                panic!("{text} is taken for {}", shown(text));
            };
        }
        assert_eq!(shown("http://w\u{f6}rker/"), "Malformed");
        assert_eq!(shown("http://worker/\u{f6}"), "Malformed");
        assert_eq!(shown("http://worker/a\r\nHost:b"), "Malformed");
        for text in ["worker:80", "worker", "/path", "ftp://worker", "unix://worker"] {
            assert_eq!(shown(text), "Scheme", "{text}");
        }
        for text in ["http://me@worker/", "http://me:secret@worker/", "http://@worker/"] {
            assert_eq!(shown(text), "User", "{text}");
        }
        for text in ["http://worker/?", "http://worker?a=b", "http://worker/#a"] {
            assert_eq!(shown(text), "Tail", "{text}");
        }
        for text in ["http://:80/", "http://[]/", "http://[x]/", "http://a%41b/", "http://a!b/"] {
            let Err(UrlError::Host | UrlError::Malformed) = parse(text) else {
                panic!("{text} is taken for {}", shown(text));
            };
        }
        for text in [
            "http://worker:+1",
            "http://worker:0",
            "http://worker:65536",
            "http://worker:x",
            "http://w:-1",
        ] {
            let Err(UrlError::Port | UrlError::Malformed) = parse(text) else {
                panic!("{text} is taken for {}", shown(text));
            };
        }
    }
}
