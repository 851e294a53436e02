//! Where a server is: `HOST:PORT`, `tls:HOST:PORT` and `unix:PATH` as `serve` names listeners, or
//! a URL. The clients in other languages take the same texts: `clients/scenarios/addresses.json`
//! is the test of all of them, `docs/protocols/README.md` their description.

use crate::cli::client_token::ClientToken;
use percent_encoding::percent_decode_str;
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

/// A host as it stands before a port.
pub(super) fn bracketed(host: &str) -> String {
    if host.contains(':') { format!("[{host}]") } else { host.to_owned() }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { host, port } => write!(f, "{}:{port}", bracketed(host)),
            Self::Tls { host, port } => write!(f, "tls:{}:{port}", bracketed(host)),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// An address, and what stands in its URL besides.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ServerUrl {
    pub(super) address: Address,
    pub(super) token: Option<ClientToken>,
    pub(super) token_file: Option<PathBuf>,
    /// Certificates of authorities.
    pub(super) ca: Option<PathBuf>,
    pub(super) cert: Option<PathBuf>,
    pub(super) key: Option<PathBuf>,
    /// The name in the certificate of the server.
    pub(super) server_name: Option<String>,
}

const HELP: &str = "give HOST:PORT, tls:HOST:PORT, unix:PATH, jobcentre://HOST:PORT or, for TLS, \
                    jobcentres://HOST:PORT";

/// How bytes travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Transport {
    Tcp,
    Tls,
    Unix,
}

impl ServerUrl {
    /// # Errors
    /// A sentence, which does not show a token.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        if let Some(path) = text.strip_prefix("unix:") {
            let path = path.strip_prefix("//").unwrap_or(path);
            return Ok(Self { address: socket(path)?, ..Self::default() });
        }
        if let Some((scheme, rest)) = text.split_once("://") {
            let transport = match scheme {
                "jobcentre" => Transport::Tcp,
                "jobcentres" | "jobcentre+tls" => Transport::Tls,
                "jobcentre+unix" => Transport::Unix,
                "http" | "https" => {
                    return Err(format!(
                        "'{scheme}://' is the address of an HTTP listener, and this is about the \
                         listener for lines: {HELP}"
                    ));
                }
                _ => return Err(format!("the scheme '{scheme}' is unknown: {HELP}")),
            };
            return Self::of_url(transport, rest);
        }
        if text.contains(['@', '?']) {
            return Err(format!("a token and parameters need a URL: {HELP}"));
        }
        let (place, is_tls) =
            text.strip_prefix("tls:").map_or((text, false), |place| (place, true));
        let (host, port) = host_and_port(place, None)?;
        Ok(Self { address: tcp(is_tls, host, port), ..Self::default() })
    }

    /// The address of an HTTP listener: as that of another one, or a URL of HTTP.
    ///
    /// # Errors
    /// A sentence.
    pub(super) fn parse_http(text: &str) -> Result<Address, String> {
        let (rest, is_tls) = match text.split_once("://") {
            Some(("http", rest)) => (rest, false),
            Some(("https", rest)) => (rest, true),
            _ => return Self::parse(text).map(|url| url.address),
        };
        let place = rest.strip_suffix('/').unwrap_or(rest);
        let (host, port) = host_and_port(place, Some(if is_tls { 443 } else { 80 }))?;
        Ok(tcp(is_tls, host, port))
    }

    fn of_url(transport: Transport, rest: &str) -> Result<Self, String> {
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (user, place) = match transport {
            Transport::Unix => rest.find('/').map_or((rest, ""), |slash| rest.split_at(slash)),
            Transport::Tcp | Transport::Tls => {
                rest.rfind('@').map_or(("", rest), |at| rest.split_at(at + 1))
            }
        };
        let mut url = Self { token: token(user)?, ..Self::default() };
        url.address = match transport {
            Transport::Unix => socket(&decoded(place))?,
            Transport::Tcp | Transport::Tls => {
                let place = place.strip_suffix('/').unwrap_or(place);
                if place.contains('/') {
                    return Err(format!("nothing may follow the port but parameters: {HELP}"));
                }
                let (host, port) = host_and_port(place, Some(LINE_PORT))?;
                tcp(transport == Transport::Tls, host, port)
            }
        };
        for parameter in query.split('&').filter(|text| !text.is_empty()) {
            url.set_parameter(transport, parameter)?;
        }
        if url.cert.is_some() != url.key.is_some() {
            return Err("the parameters 'cert' and 'key' belong together".to_owned());
        }
        Ok(url)
    }

    fn set_parameter(&mut self, transport: Transport, parameter: &str) -> Result<(), String> {
        let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        let value = decoded(value);
        match name {
            "ca" | "cert" | "key" | "server_name" if transport != Transport::Tls => {
                return Err(format!("the parameter '{name}' is for TLS: jobcentres://HOST:PORT"));
            }
            "ca" | "cert" | "key" | "server_name" | "token_file" if value.is_empty() => {
                return Err(format!("the parameter '{name}' is empty"));
            }
            "ca" => self.ca = Some(value.into()),
            "cert" => self.cert = Some(value.into()),
            "key" => self.key = Some(value.into()),
            "server_name" => self.server_name = Some(value),
            "token_file" => self.token_file = Some(value.into()),
            _ => {
                return Err(format!(
                    "the parameter '{name}' is unknown: there are ca, cert, key, server_name, \
                     token_file"
                ));
            }
        }
        Ok(())
    }
}

fn tcp(is_tls: bool, host: String, port: u16) -> Address {
    if is_tls { Address::Tls { host, port } } else { Address::Tcp { host, port } }
}

fn no_path() -> String {
    format!("the path of the socket is missing: {HELP}")
}

fn socket(path: &str) -> Result<Address, String> {
    let is_path = !path.is_empty() && !path.contains('\0');
    if is_path { Ok(Address::Unix(path.into())) } else { Err(no_path()) }
}

/// The token in `TOKEN@` or `USER:TOKEN@`.
fn token(user: &str) -> Result<Option<ClientToken>, String> {
    if user.is_empty() {
        return Ok(None);
    }
    // Only before the path of a socket stands something else.
    let user = user.strip_suffix('@').ok_or_else(no_path)?;
    match decoded(user.split_once(':').map_or(user, |(_, token)| token)) {
        text if text.is_empty() => Ok(None),
        text => ClientToken::of(&text).map(Some),
    }
}

/// Percent-decoded; what is no code stays as it is.
fn decoded(text: &str) -> String {
    let bytes: Vec<u8> = percent_decode_str(text).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Splits `HOST:PORT`, `:PORT` and `[IPV6]:PORT`. `default`: the port that may be left out.
fn host_and_port(text: &str, default: Option<u16>) -> Result<(String, u16), String> {
    let wrong = || format!("'{text}' names no host and port: {HELP}");
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, behind) = rest.split_once(']').ok_or_else(wrong)?;
            let port = behind.strip_prefix(':');
            if host.is_empty() || (port.is_none() && !behind.is_empty()) {
                return Err(wrong());
            }
            (host, port)
        }
        None => match text.split_once(':') {
            Some((_, rest)) if rest.contains(':') => {
                return Err(format!("an IPv6 address stands in brackets: {HELP}"));
            }
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        },
    };
    let is_host = |byte: u8| byte.is_ascii_alphanumeric() || b"-._%:".contains(&byte);
    if !host.bytes().all(is_host) {
        return Err(wrong());
    }
    let port = match port {
        None => default.ok_or_else(wrong)?,
        Some(port) => {
            let digits = Some(port).filter(|it| it.bytes().all(|byte| byte.is_ascii_digit()));
            let number = digits.and_then(|it| it.parse().ok()).filter(|port| *port > 0);
            number.ok_or_else(|| format!("the port must be 1 to 65535: {HELP}"))?
        }
    };
    Ok((if host.is_empty() { "127.0.0.1" } else { host }.to_owned(), port))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    #[test]
    fn addresses_are_parsed_as_by_the_clients_in_other_languages() {
        let table = include_str!("../../../clients/scenarios/addresses.json");
        let table: Value = serde_json::from_str(table).unwrap();
        for case in table["accepted"].as_array().unwrap() {
            let text = case["url"].as_str().unwrap();
            let url = ServerUrl::parse(text).unwrap_or_else(|why| panic!("{text}: {why}"));
            assert_eq!(url.address.to_string(), case["address"].as_str().unwrap(), "{text}");
            let token = case["token"].as_str().map(|token| ClientToken::of(token).unwrap());
            assert_eq!(url.token, token, "{text}");
            let files = [(&url.ca, "ca"), (&url.cert, "cert"), (&url.key, "key")];
            for (path, name) in files {
                assert_eq!(path.as_ref().and_then(|it| it.to_str()), case[name].as_str(), "{text}");
            }
            assert_eq!(url.server_name.as_deref(), case["server_name"].as_str(), "{text}");
        }
        for case in table["refused"].as_array().unwrap() {
            let text = case["url"].as_str().unwrap();
            let why = ServerUrl::parse(text).expect_err(text);
            assert!(why.contains(case["says"].as_str().unwrap()), "{text}: {why}");
            assert!(!why.contains("secret"), "{text}: {why}");
        }
    }

    #[test]
    fn address_of_the_http_listener_may_be_a_url_of_http() {
        let shown = |text: &str| ServerUrl::parse_http(text).map(|address| address.to_string());
        for (text, address) in [
            ("http://h:11480", "h:11480"),
            ("http://[::1]/", "[::1]:80"),
            ("https://h", "tls:h:443"),
            ("h:5", "h:5"),
            ("tls:h:5", "tls:h:5"),
            ("unix:/run/h", "unix:/run/h"),
        ] {
            assert_eq!(shown(text).as_deref(), Ok(address), "{text}");
        }
        assert!(shown("http://h/path").is_err() && shown("ftp://h").is_err());
    }
}
