//! Where the server is, and how to get in: `jobcentre://HOST:PORT`, `jobcentres://HOST:PORT`,
//! `jobcentre+unix:///PATH`, with `TOKEN@` before the host; `unix:PATH`, `HOST:PORT`. All clients
//! and the program `jobcentre` take the same texts: `clients/scenarios/addresses.json`.

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
    /// The files with the certificate of the client and its key.
    pub(crate) identity: Option<(PathBuf, PathBuf)>,
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

const HELP: &str = "give HOST:PORT, tls:HOST:PORT, unix:PATH, jobcentre://HOST:PORT or, for TLS, \
                    jobcentres://HOST:PORT";

fn wrong(what: &dyn fmt::Display) -> Error {
    Error::Settings(format!("{what}: {HELP}"))
}

impl std::str::FromStr for Address {
    type Err = Error;

    /// Errors do not show a token.
    fn from_str(text: &str) -> Result<Self> {
        let mut address = Self {
            way: Way::Tcp,
            host: "127.0.0.1".into(),
            port: DEFAULT_PORT,
            token: None,
            ca: None,
            identity: None,
            server_name: None,
        };
        if let Some(path) = text.strip_prefix("unix:") {
            address.way = socket(path.strip_prefix("//").unwrap_or(path))?;
            return Ok(address);
        }
        if let Some((scheme, rest)) = text.split_once("://") {
            address.set_url(scheme, rest)?;
            return Ok(address);
        }
        if text.contains(['@', '?']) {
            return Err(wrong(&"a token and parameters need a URL"));
        }
        if let Some(place) = text.strip_prefix("tls:") {
            address.way = Way::Tls;
            address.set_place(place, true)?;
        } else {
            address.set_place(text, true)?;
        }
        Ok(address)
    }
}

impl Address {
    fn set_url(&mut self, scheme: &str, rest: &str) -> Result<()> {
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let user = match scheme {
            "jobcentre" | "jobcentres" | "jobcentre+tls" => {
                let (user, place) = rest.rfind('@').map_or(("", rest), |at| rest.split_at(at + 1));
                let place = place.strip_suffix('/').unwrap_or(place);
                if place.contains('/') {
                    return Err(wrong(&"nothing may follow the port but parameters"));
                }
                self.way = if scheme == "jobcentre" { Way::Tcp } else { Way::Tls };
                self.set_place(place, false)?;
                user
            }
            "jobcentre+unix" => {
                let (user, path) = rest.find('/').map_or((rest, ""), |slash| rest.split_at(slash));
                if !user.is_empty() && !user.ends_with('@') {
                    return Err(no_path());
                }
                self.way = socket(&decoded(path))?;
                user
            }
            "http" | "https" => {
                return Err(wrong(&format_args!(
                    "'{scheme}://' is the address of an HTTP listener, and this client needs the \
                     listener for lines"
                )));
            }
            _ => return Err(wrong(&format_args!("the scheme '{scheme}' is unknown"))),
        };
        let user = user.trim_end_matches('@');
        let token = decoded(user.split_once(':').map_or(user, |(_, token)| token));
        self.token = Some(token).filter(|token| !token.is_empty());
        self.set_parameters(query)
    }

    fn set_parameters(&mut self, query: &str) -> Result<()> {
        let (mut cert, mut key, mut token_file) = (None, None, None);
        for parameter in query.split('&').filter(|text| !text.is_empty()) {
            let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
            let wrong = |what: &str| Error::Settings(format!("the parameter '{name}' {what}"));
            let value = decoded(value);
            match name {
                "ca" | "cert" | "key" | "server_name" if self.way != Way::Tls => {
                    return Err(wrong("is for TLS: jobcentres://HOST:PORT"));
                }
                "ca" | "cert" | "key" | "server_name" | "token_file" if value.is_empty() => {
                    return Err(wrong("is empty"));
                }
                "ca" => self.ca = Some(value.into()),
                "cert" => cert = Some(value.into()),
                "key" => key = Some(value.into()),
                "server_name" => self.server_name = Some(value),
                "token_file" => token_file = Some(value),
                _ => {
                    return Err(wrong(
                        "is unknown: there are ca, cert, key, server_name, token_file",
                    ));
                }
            }
        }
        if cert.is_some() != key.is_some() {
            let what = "the parameters 'cert' and 'key' belong together";
            return Err(Error::Settings(what.into()));
        }
        self.identity = cert.zip(key);
        if let Some(path) = token_file {
            self.token = Some(token_of_file(&path)?);
        }
        Ok(())
    }

    fn set_place(&mut self, place: &str, needs_port: bool) -> Result<()> {
        let nothing = || wrong(&format_args!("'{place}' names no host and port"));
        let (host, port) = if let Some(rest) = place.strip_prefix('[') {
            let (host, behind) = rest.split_once(']').ok_or_else(nothing)?;
            let port = behind.strip_prefix(':');
            if host.is_empty() || (port.is_none() && !behind.is_empty()) {
                return Err(nothing());
            }
            (host, port)
        } else {
            match place.split_once(':') {
                Some((_, rest)) if rest.contains(':') => {
                    return Err(wrong(&"an IPv6 address stands in brackets"));
                }
                Some((host, port)) => (host, Some(port)),
                None => (place, None),
            }
        };
        let is_host = |byte: u8| byte.is_ascii_alphanumeric() || b"-._%:".contains(&byte);
        if !host.bytes().all(is_host) || (port.is_none() && needs_port) {
            return Err(nothing());
        }
        if let Some(port) = port {
            let digits = Some(port).filter(|it| it.bytes().all(|byte| byte.is_ascii_digit()));
            let number = digits.and_then(|it| it.parse().ok()).filter(|port| *port > 0);
            self.port = number.ok_or_else(|| wrong(&"the port must be 1 to 65535"))?;
        }
        if !host.is_empty() {
            host.clone_into(&mut self.host);
        }
        Ok(())
    }
}

fn no_path() -> Error {
    wrong(&"the path of the socket is missing")
}

fn socket(path: &str) -> Result<Way> {
    let is_path = !path.is_empty() && !path.contains('\0');
    if is_path { Ok(Way::Unix(path.into())) } else { Err(no_path()) }
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
    use serde_json::Value;

    #[test]
    fn addresses_are_parsed_as_by_all_clients() {
        let table = include_str!("../../../scenarios/addresses.json");
        let table: Value = serde_json::from_str(table).expect("the table");
        let cases = |name: &str| table[name].as_array().cloned().unwrap_or_default();
        let path = |path: Option<&PathBuf>| path.and_then(|it| it.to_str().map(str::to_owned));
        let (accepted, refused) = (cases("accepted"), cases("refused"));
        assert!(accepted.len() > 20 && refused.len() > 20, "the table is not read");
        for case in accepted {
            let of = |name: &str| case[name].as_str();
            let url = of("url").expect("a URL");
            let found: Address = url.parse().unwrap_or_else(|error| panic!("{url}: {error}"));
            assert_eq!(Some(&*found.to_string()), of("address"), "{url}");
            assert_eq!(found.token.as_deref(), of("token"), "{url}");
            assert_eq!(path(found.ca.as_ref()).as_deref(), of("ca"), "{url}");
            let (cert, key) = found.identity.clone().unzip();
            assert_eq!(path(cert.as_ref()).as_deref(), of("cert"), "{url}");
            assert_eq!(path(key.as_ref()).as_deref(), of("key"), "{url}");
            assert_eq!(found.server_name.as_deref(), of("server_name"), "{url}");
            let shown = format!("{found:?}");
            assert!(found.token.is_none_or(|token| !shown.contains(&token)), "{url}");
        }
        for case in refused {
            let url = case["url"].as_str().expect("a URL");
            let error = url.parse::<Address>().expect_err(url);
            assert_eq!(error.kind(), "settings");
            let (says, error) = (case["says"].as_str().expect("words"), error.to_string());
            assert!(error.contains(says) && !error.contains("secret"), "{url}: {error}");
        }
    }
}
