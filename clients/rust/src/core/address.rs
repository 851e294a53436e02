//! Where the server is, and how to get in: `jobcentre://HOST:PORT`, `jobcentre+tls://HOST:PORT`,
//! `jobcentre+unix:///PATH`, with `TOKEN@` before the host.

use std::fmt;
use std::path::PathBuf;

use crate::error::{Error, Result};

const DEFAULT_PORT: u16 = 11400;

/// How the bytes travel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Tcp,
    Unix(PathBuf),
    Tls,
}

/// An address that was parsed.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) way: Way,
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) token: Option<String>,
    /// The file with the authorities that are trusted.
    pub(crate) ca: Option<PathBuf>,
    pub(crate) server_name: Option<String>,
}

impl fmt::Display for Address {
    /// Without the token.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { way, host, port, .. } = self;
        let host = if host.contains(':') { format!("[{host}]") } else { host.clone() };
        match way {
            Way::Unix(path) => write!(f, "unix:{}", path.display()),
            Way::Tls => write!(f, "tls:{host}:{port}"),
            Way::Tcp => write!(f, "{host}:{port}"),
        }
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::str::FromStr for Address {
    type Err = Error;

    fn from_str(url: &str) -> Result<Self> {
        let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (user, place) = match rest.rsplit_once('@') {
            Some((user, place)) => (Some(user), place),
            None => (None, rest),
        };
        let wrong = |what: &str| Error::Settings(format!("the address {scheme}://{place} {what}"));
        let mut address = Self {
            way: Way::Tcp,
            host: "127.0.0.1".into(),
            port: DEFAULT_PORT,
            token: user.map(|user| decoded(user.trim_start_matches(':'))).filter(|t| !t.is_empty()),
            ca: None,
            server_name: None,
        };
        match scheme {
            "jobcentre" => address.set_place(place, wrong)?,
            "jobcentre+tls" => {
                address.way = Way::Tls;
                address.set_place(place, wrong)?;
            }
            "jobcentre+unix" if place.starts_with('/') => {
                address.way = Way::Unix(decoded(place).into());
            }
            "jobcentre+unix" => return Err(wrong("needs a path: jobcentre+unix:///PATH")),
            _ => {
                return Err(wrong(
                    "must begin with jobcentre://, jobcentre+tls:// or jobcentre+unix://",
                ));
            }
        }
        for parameter in query.split('&').filter(|text| !text.is_empty()) {
            let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
            match name {
                "ca" | "server_name" if address.way != Way::Tls => {
                    return Err(wrong("has a parameter of jobcentre+tls:// only"));
                }
                "ca" => address.ca = Some(decoded(value).into()),
                "server_name" => address.server_name = Some(decoded(value)),
                "token_file" => address.token = Some(token_of_file(&decoded(value))?),
                _ => {
                    return Err(wrong(
                        "has an unknown parameter: there are ca, server_name, token_file",
                    ));
                }
            }
        }
        Ok(address)
    }
}

impl Address {
    fn set_place(&mut self, place: &str, wrong: impl Fn(&str) -> Error) -> Result<()> {
        let place = place.strip_suffix('/').unwrap_or(place);
        if place.contains('/') {
            return Err(wrong("must end after the port"));
        }
        // An IPv6 address is in brackets.
        let (host, port) = match place.rsplit_once(':') {
            Some((host, port)) if !host.contains(':') || host.ends_with(']') => (host, Some(port)),
            _ => (place, None),
        };
        if let Some(port) = port {
            self.port = port
                .parse()
                .ok()
                .filter(|p| *p > 0)
                .ok_or_else(|| wrong("needs a port of 1 to 65535"))?;
        }
        let host = host.trim_start_matches('[').trim_end_matches(']');
        if !host.is_empty() {
            host.clone_into(&mut self.host);
        }
        Ok(())
    }
}

fn token_of_file(path: &str) -> Result<String> {
    let text = std::fs::read_to_string(path).map_err(|wrong| {
        Error::Settings(format!("the token file {path} cannot be read: {wrong}"))
    })?;
    Ok(text.trim().to_owned())
}

/// Percent-decoded; what is no code stays as it is.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, others @ ..] = rest {
        let hex =
            |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
        if let (b'%', [high, low, after @ ..]) = (first, others)
            && let (Some(high), Some(low)) = (hex(*high), hex(*low))
        {
            bytes.push(high * 16 + low);
            rest = after;
        } else {
            bytes.push(*first);
            rest = others;
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(url: &str) -> String {
        url.parse::<Address>().map_or_else(|error| error.to_string(), |address| address.to_string())
    }

    #[test]
    fn addresses_are_parsed() {
        assert_eq!(shown("jobcentre://"), "127.0.0.1:11400");
        assert_eq!(shown("jobcentre://h:5/"), "h:5");
        assert_eq!(shown("jobcentre://[::1]:5"), "[::1]:5");
        assert_eq!(shown("jobcentre://[::1]"), "[::1]:11400");
        assert_eq!(shown("jobcentre+tls://h?ca=%2Fa%20b"), "tls:h:11400");
        assert_eq!(shown("jobcentre+unix:///run/j.sock"), "unix:/run/j.sock");
        let address: Address = "jobcentre://s%40ecret@h".parse().expect("an address");
        assert_eq!(
            (address.token.as_deref(), format!("{address:?}")),
            (Some("s@ecret"), "h:11400".into())
        );
    }

    #[test]
    fn wrong_addresses_are_refused_without_their_tokens() {
        for url in [
            "h:1",
            "http://h",
            "jobcentre://h:0",
            "jobcentre://h:70000",
            "jobcentre://h/x",
            "jobcentre+unix://x",
            "jobcentre://h?ca=x",
            "jobcentre://secret@h?x=1",
            "jobcentre://secret@h:x",
        ] {
            let error = url.parse::<Address>().expect_err(url);
            assert_eq!(error.kind(), "settings");
            assert!(!error.to_string().contains("secret"), "{error}");
        }
    }
}
