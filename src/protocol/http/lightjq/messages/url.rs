//! The URL where a worker, or the master, listens.

/// An HTTP server, and where on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Url<'a> {
    /// Whether it is spoken to by TLS.
    pub tls: bool,
    /// Its name, or its address in numbers; of IPv6 without brackets.
    pub host: &'a str,
    /// Its port.
    pub port: u16,
    /// What goes before the path of a call: empty, or it begins with a slash and does not end
    /// with one.
    pub prefix: &'a str,
    /// Host and port as they are written, for the header `Host`.
    pub authority: &'a str,
}

impl<'a> Url<'a> {
    /// The longest one.
    pub const LENGTH_MAX: usize = 2_048;

    /// Reads `http://host[:port][/path]`, or the same with `https`.
    ///
    /// # Errors
    /// What is wrong with it: a sentence that goes on from its name.
    pub fn parse(text: &'a str) -> Result<Self, &'static str> {
        if text.len() > Self::LENGTH_MAX {
            return Err("is longer than 2048 bytes");
        }
        let (scheme, rest) = text.split_once("://").unwrap_or_default();
        let tls = match scheme {
            _ if scheme.eq_ignore_ascii_case("http") => false,
            _ if scheme.eq_ignore_ascii_case("https") => true,
            _ => return Err("must begin with 'http://' or 'https://'"),
        };
        if !rest.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err("holds blanks or what is not ASCII: write them as %20 and the like");
        }
        if rest.contains(['?', '#']) {
            return Err("must have neither '?' nor '#': a path is put behind it");
        }
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        if authority.contains('@') {
            return Err("must hold no user's name");
        }
        let (host, port) = split(authority).ok_or("names no host, or not as 'host:port'")?;
        let port = match port {
            None if tls => 443,
            None => 80,
            Some(digits) => match digits.parse::<u16>() {
                Ok(port) if port > 0 && !digits.starts_with('+') => port,
                _ => return Err("must have a port from 1 to 65535"),
            },
        };
        Ok(Self { tls, host, port, prefix: path.trim_end_matches('/'), authority })
    }
}

/// Host and port.
fn split(authority: &str) -> Option<(&str, Option<&str>)> {
    if let Some(rest) = authority.strip_prefix('[') {
        let (host, port) = rest.split_once(']')?;
        let numbers = |byte: u8| byte.is_ascii_hexdigit() || matches!(byte, b':' | b'.');
        if !host.contains(':') || !host.bytes().all(numbers) {
            return None;
        }
        return match port.strip_prefix(':') {
            None if port.is_empty() => Some((host, None)),
            None => None,
            port => Some((host, port)),
        };
    }
    let (host, port) = match authority.split_once(':') {
        None => (authority, None),
        Some((host, port)) => (host, Some(port)),
    };
    let letters = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
    (!host.is_empty() && host.bytes().all(letters)).then_some((host, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_taken_apart() {
        for (text, tls, host, port, prefix, authority) in [
            ("http://a", false, "a", 80, "", "a"),
            ("HTTPS://a.b-c_d:8443/", true, "a.b-c_d", 8443, "", "a.b-c_d:8443"),
            ("https://10.0.0.1/x/y//", true, "10.0.0.1", 443, "/x/y", "10.0.0.1"),
            ("http://[::1]:1/%20", false, "::1", 1, "/%20", "[::1]:1"),
            ("http://[fe80::1]", false, "fe80::1", 80, "", "[fe80::1]"),
        ] {
            let url = Url { tls, host, port, prefix, authority };
            assert_eq!(Url::parse(text), Ok(url));
        }
    }

    #[test]
    fn what_is_no_url_of_a_server_is_refused() {
        let long = format!("http://{}", "x".repeat(3_000));
        for text in [
            "",
            "a",
            "a:80",
            "//a",
            "ftp://a",
            "http://",
            "http:///x",
            "http://a b",
            "http://ä",
            "http://a?x",
            "http://a/#x",
            "http://u:p@a",
            "http://a:",
            "http://a:0",
            "http://a:+1",
            "http://a:65536",
            "http://a:1:2",
            "http://::1",
            "http://[::1",
            "http://[a]",
            "http://[::1]x",
            "http://a,b",
            "http://a\r\nx: y",
            &long,
        ] {
            assert!(Url::parse(text).is_err(), "{text}");
        }
    }
}
