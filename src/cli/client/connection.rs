//! Which server a verb speaks to, from flags, variables and the file with targets, and connections
//! to it.

use super::address::{Address, ServerUrl};
use super::failure::{Failure, Outcome};
use super::stream::Stream;
use super::targets;
use super::values::parse_patience;
use crate::cli::client_token::{ClientToken, TOKEN_VARIABLE, TokenSource};
use crate::reactor::TrustStore;
use clap::Args;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The variable with the address of the server.
pub(in crate::cli) const URL_VARIABLE: &str = "JOBCENTRE_URL";

/// The variable with the name of a target.
pub(in crate::cli) const TARGET_VARIABLE: &str = "JOBCENTRE_TARGET";

/// The variable with the address of the server's HTTP listener.
pub(in crate::cli) const HTTP_URL_VARIABLE: &str = "JOBCENTRE_HTTP_URL";

/// Flags that say which server it is.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Connection")]
pub(super) struct ConnectArgs {
    /// The server: HOST:PORT, tls:HOST:PORT, unix:PATH, jobcentre://HOST:PORT or, with TLS,
    /// jobcentres://HOST:PORT [default: the variable JOBCENTRE_URL, or 127.0.0.1:11400].
    #[expect(clippy::doc_markdown, reason = "this is what --help prints")]
    #[arg(long, value_name = "ADDRESS")]
    url: Option<String>,

    /// A server of ~/.config/jobcentre/client.toml, by its name [default: the variable
    /// JOBCENTRE_TARGET].
    #[expect(clippy::doc_markdown, reason = "this is what --help prints")]
    #[arg(long, value_name = "NAME", conflicts_with = "url", add = targets::target_names())]
    target: Option<String>,

    /// Its HTTP listener, for the verbs that need it [default: the variable JOBCENTRE_HTTP_URL, or
    /// what the server says].
    #[expect(clippy::doc_markdown, reason = "this is what --help prints")]
    #[arg(long, value_name = "ADDRESS", hide_short_help = true)]
    http_url: Option<String>,

    #[command(flatten)]
    token: TokenSource,

    /// Certificates (PEM) of authorities that may vouch for the server, besides those that browsers
    /// trust.
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    tls_ca: Option<PathBuf>,

    /// The certificate (PEM) by which the server knows this client.
    #[arg(long, value_name = "FILE", requires = "tls_key", hide_short_help = true)]
    tls_cert: Option<PathBuf>,

    /// The key of this certificate (PEM).
    #[arg(long, value_name = "FILE", requires = "tls_cert", hide_short_help = true)]
    tls_key: Option<PathBuf>,

    /// Give up connecting, and waiting for an answer that the server need not wait for, after this
    /// time.
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = parse_patience)]
    #[arg(hide_short_help = true)]
    timeout: Option<Duration>,
}

/// A server, and how it is reached.
#[derive(Clone, Debug)]
pub(super) struct Server {
    pub(super) address: Address,
    /// Where its HTTP listener is, if that was said.
    pub(super) http_address: Option<Address>,
    pub(super) token: Option<ClientToken>,
    pub(super) timeout: Duration,
    tls_ca: Option<PathBuf>,
    tls_identity: Option<(PathBuf, PathBuf)>,
    /// The name in its certificate, if that is not its host.
    certificate_name: Option<String>,
}

/// A variable that is not empty.
fn variable(name: &str) -> Outcome<Option<String>> {
    match std::env::var_os(name).map(OsString::into_string) {
        None => Ok(None),
        Some(Ok(text)) => Ok(Some(text).filter(|text| !text.is_empty())),
        Some(Err(_)) => Err(Failure::usage(format!("{name}: this is no text in UTF-8"))),
    }
}

impl ConnectArgs {
    /// The flags once more, for another verb.
    pub(super) fn flags(&self) -> Vec<OsString> {
        let text = |text: &Option<String>| text.as_ref().map(OsString::from);
        let path = |path: &Option<PathBuf>| path.as_ref().map(OsString::from);
        let timeout = self.timeout.map(|time| format!("{}ms", time.as_millis()).into());
        let flags = [
            ("--url", text(&self.url)),
            ("--target", text(&self.target)),
            ("--http-url", text(&self.http_url)),
            ("--token-file", self.token.file().map(OsString::from)),
            ("--tls-ca", path(&self.tls_ca)),
            ("--tls-cert", path(&self.tls_cert)),
            ("--tls-key", path(&self.tls_key)),
            ("--timeout", timeout),
        ];
        let given = flags.into_iter().filter_map(|(flag, value)| Some([flag.into(), value?]));
        given.flatten().collect()
    }

    /// The server that flags, variables and the file name, in this order.
    pub(super) fn server(&self) -> Outcome<Server> {
        if let Some(text) = &self.url {
            let url = parse("--url", text)?;
            if url.token.is_some() {
                let why = "other programs of this machine can read a token in an argument: put \
                           the URL into the variable JOBCENTRE_URL, or use --token-file";
                return Err(Failure::usage(format!("--url: {why}")));
            }
            return self.with_url(url);
        }
        if let Some(name) = &self.target {
            return self.of_target("--target", name);
        }
        if let Some(text) = variable(URL_VARIABLE)? {
            return self.with_url(parse(URL_VARIABLE, &text)?);
        }
        if let Some(name) = variable(TARGET_VARIABLE)? {
            return self.of_target(TARGET_VARIABLE, &name);
        }
        self.with_url(ServerUrl::default())
    }

    fn of_target(&self, source: &str, name: &str) -> Outcome<Server> {
        let explain = |why: String| Failure::usage(format!("{source} {name}: {why}"));
        let table = targets::find(name).map_err(explain)?;
        let mut server = self.with_url(table.url().map_err(explain)?)?;
        if !self.token.has_file()
            && let Some(token) = table.token().map_err(explain)?
        {
            server.token = Some(token);
        }
        if server.http_address.is_none() {
            server.http_address = table.http_address().map_err(explain)?;
        }
        server.tls_ca = server.tls_ca.or(table.tls_ca);
        let of_table = table.tls_cert.zip(table.tls_key);
        server.tls_identity = server.tls_identity.or(of_table);
        Ok(server)
    }

    fn with_url(&self, url: ServerUrl) -> Outcome<Server> {
        let http_address = match (&self.http_url, variable(HTTP_URL_VARIABLE)?) {
            (Some(text), _) => Some(parse_http("--http-url", text)?),
            (None, Some(text)) => Some(parse_http(HTTP_URL_VARIABLE, &text)?),
            (None, None) => None,
        };
        let of_file = url.token_file.as_deref().filter(|_| !self.token.has_file());
        let of_file = of_file.map(ClientToken::of_file).transpose().map_err(Failure::usage)?;
        let of_url = of_file.or(url.token);
        let of_variable = std::env::var_os(TOKEN_VARIABLE).filter(|_| of_url.is_none());
        let token = self.token.token(of_variable).map_err(Failure::usage)?;
        let identity = self.tls_cert.clone().zip(self.tls_key.clone());
        Ok(Server {
            address: url.address,
            http_address,
            token: token.or(of_url),
            timeout: self.timeout.unwrap_or(Duration::from_secs(30)),
            tls_ca: self.tls_ca.clone().or(url.ca),
            tls_identity: identity.or_else(|| url.cert.zip(url.key)),
            certificate_name: url.server_name,
        })
    }
}

fn parse(source: &str, text: &str) -> Outcome<ServerUrl> {
    ServerUrl::parse(text).map_err(|why| Failure::usage(format!("{source}: {why}")))
}

fn parse_http(source: &str, text: &str) -> Outcome<Address> {
    ServerUrl::parse_http(text).map_err(|why| Failure::usage(format!("{source}: {why}")))
}

fn read(file: &Path) -> Outcome<Vec<u8>> {
    let explain = |error| Failure::usage(format!("cannot read {}: {error}", file.display()));
    std::fs::read(file).map_err(explain)
}

impl Server {
    /// A connection to this address of the server.
    pub(super) fn connect(&self, address: &Address) -> Outcome<Stream> {
        let trust = match address {
            Address::Tls { .. } => self.trust()?,
            Address::Tcp { .. } | Address::Unix(_) => TrustStore::default(),
        };
        let name = self.certificate_name.as_deref();
        Stream::connect(address, (&trust, name), self.timeout).map_err(Failure::unreachable)
    }

    fn trust(&self) -> Outcome<TrustStore> {
        let trust = match &self.tls_ca {
            None => TrustStore::default(),
            Some(file) => TrustStore::with(&read(file)?).map_err(|why| {
                Failure::usage(format!("the file of authorities {}: {why}", file.display()))
            })?,
        };
        let Some((certificate, key)) = &self.tls_identity else { return Ok(trust) };
        let explain = |why| Failure::usage(format!("{}: {why}", certificate.display()));
        trust.with_identity(&read(certificate)?, &read(key)?).map_err(explain)
    }
}
