//! Where a server is: `HOST:PORT`, `tls:HOST:PORT` and `unix:PATH` as `serve` names listeners, or
//! a URL, `jobcentre://[TOKEN@]HOST[:PORT]` and `jobcentres://` with TLS.

use crate::cli::client_token::ClientToken;
use std::fmt;
use std::path::PathBuf;

/// The port of the Job Centre protocol.
pub(super) const LINE_PORT: u16 = 11400;

/// The address of a listener, as a client reaches it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Address {
    Tcp { host: String, port: u16 },
    Tls { host: String, port: u16 },
    Unix(PathBuf),
}

impl Default for Address {
    fn default() -> Self {
        Self::Tcp { host: "127.0.0.1".to_owned(), port: LINE_PORT }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { host, port } => write!(f, "{host}:{port}"),
            Self::Tls { host, port } => write!(f, "tls:{host}:{port}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// An address, and the token that stands in its URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ServerUrl {
    pub(super) address: Address,
    pub(super) token: Option<ClientToken>,
}

const HELP: &str = "give HOST:PORT, tls:HOST:PORT, unix:PATH, jobcentre://HOST:PORT or, for TLS, \
                    jobcentres://HOST:PORT";

impl ServerUrl {
    /// # Errors
    /// A sentence, which does not show a token.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        if let Some(path) = text.strip_prefix("unix:") {
            let path = path.strip_prefix("//").unwrap_or(path);
            if path.is_empty() || path.contains('\0') {
                return Err(format!("the path of the socket is missing: {HELP}"));
            }
            return Ok(Self { address: Address::Unix(path.into()), token: None });
        }
        let (rest, is_tls, is_url) = match text.split_once("://") {
            Some(("jobcentre", rest)) => (rest, false, true),
            Some(("jobcentres", rest)) => (rest, true, true),
            Some((scheme, _)) => return Err(format!("'{scheme}://' is no such URL: {HELP}")),
            None => match text.strip_prefix("tls:") {
                Some(rest) => (rest, true, false),
                None => (text, false, false),
            },
        };
        let (token, place) = match rest.rsplit_once('@') {
            Some((token, place)) if is_url => (Some(ClientToken::of(token)?), place),
            Some(_) => return Err(format!("an address has no '@': {HELP}")),
            None => (None, rest),
        };
        let place = if is_url { place.trim_end_matches('/') } else { place };
        let (host, port) = host_and_port(place, is_url)?;
        let address =
            if is_tls { Address::Tls { host, port } } else { Address::Tcp { host, port } };
        Ok(Self { address, token })
    }
}

/// Splits `HOST:PORT`, `:PORT` and `[IPV6]:PORT`; a URL may leave the port out.
fn host_and_port(text: &str, may_lack_port: bool) -> Result<(String, u16), String> {
    let wrong = || format!("'{text}' names no host and port: {HELP}");
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => {
            (host, port.parse().map_err(|_| format!("'{port}' is no port: {HELP}"))?)
        }
        _ if may_lack_port => (text, LINE_PORT),
        _ => return Err(wrong()),
    };
    let is_bracketed = host.starts_with('[') && host.ends_with(']');
    let bare = if is_bracketed { &host[1..host.len() - 1] } else { host };
    let is_host = |byte: u8| byte.is_ascii_alphanumeric() || b"-._%:".contains(&byte);
    if (bare.contains(':') && !is_bracketed) || !bare.bytes().all(is_host) {
        return Err(wrong());
    }
    Ok((if bare.is_empty() { "127.0.0.1" } else { bare }.to_owned(), port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_urls_are_parsed() {
        let shown = |text: &str| ServerUrl::parse(text).map(|url| url.address.to_string());
        for (text, address) in [
            ("localhost:1", "localhost:1"),
            (":7", "127.0.0.1:7"),
            ("[::1]:7", "::1:7"),
            ("tls:a.example:443", "tls:a.example:443"),
            ("unix:/run/a b", "unix:/run/a b"),
            ("unix:///run/a", "unix:/run/a"),
            ("jobcentre://a", "a:11400"),
            ("jobcentre://a:5/", "a:5"),
            ("jobcentres://[::1]", "tls:::1:11400"),
        ] {
            assert_eq!(shown(text).as_deref(), Ok(address), "{text}");
        }
        let url = ServerUrl::parse("jobcentres://jc_1@a:5").unwrap();
        assert_eq!(url.token, Some(ClientToken::of("jc_1").unwrap()));
        for wrong in ["", "a", "a:x", "http://a:1", "unix:", "a@b:1", "a/b:1", "::1:7"] {
            assert!(ServerUrl::parse(wrong).unwrap_err().contains("HOST:PORT"), "{wrong}");
        }
        assert!(!ServerUrl::parse("jobcentre://sec ret@a:1").unwrap_err().contains("ret"));
    }
}
