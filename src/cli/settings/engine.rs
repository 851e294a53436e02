//! `--engine`: where the engine is that servers share, and what is not supported of that yet.

use crate::cli::settings::duration::{BoundedDuration, DurationSetting};
use crate::cli::settings::engine_url::{EngineUrl, PASSWORD_VARIABLE, SENTINEL_PASSWORD_VARIABLE};
use crate::engine::shared::limits::{HAND_OVER_DEFAULT, LEASE_DEFAULT, PATIENCE_DEFAULT};
use crate::engine::shared::redis::Address;
use crate::engine::shared::{Login, PREFIX_DEFAULT};
use crate::model::driver::Protocol;
use crate::reactor::{ListenAddress, TrustStore};
use clap::ValueEnum;
use serde::Deserialize;
use std::net::Ipv6Addr;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

const PREFIX_MAX_BYTES: usize = 64;
const NAME_MAX_BYTES: usize = 128;
const WAIT_MAX: u32 = 100;
/// The longest name of the DNS.
const HOST_MAX_BYTES: usize = 253;

/// `--engine-wait`: how many replicas have a write before it is answered. `None`: auto.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cli) struct EngineWait(pub(in crate::cli) Option<u32>);

/// The text before all keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::cli) struct EnginePrefix(pub(in crate::cli) Box<str>);

/// The name of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::cli) struct ServerName(pub(in crate::cli) Box<str>);

/// `--advertise`: the host by which other servers reach this one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::cli) struct AdvertisedHost(pub(in crate::cli) Box<str>);

/// `--engine-forward`.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(in crate::cli) enum ForwardSwitch {
    On,
    Off,
}

/// `--engine-lease`: for how long a server leads after a word of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cli) enum EngineLease {}

impl DurationSetting for EngineLease {
    const DEFAULT: Duration = LEASE_DEFAULT;
    const RANGE: RangeInclusive<Duration> = Duration::from_millis(500)..=Duration::from_mins(1);
    const BOUNDS: &'static str = "from 500ms to 1min";
    const HELP: &'static str = "give a time such as 3s";
}

/// `--engine-patience`: how long it may be away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cli) enum EnginePatience {}

impl DurationSetting for EnginePatience {
    const DEFAULT: Duration = PATIENCE_DEFAULT;
    const RANGE: RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_hours(1);
    const BOUNDS: &'static str = "from 100ms to 1h";
    const HELP: &'static str = "give a time such as 10s";
}

/// `--engine-hand-over`: how long the end of a server waits until another one can lead at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cli) enum EngineHandOver {}

impl DurationSetting for EngineHandOver {
    const DEFAULT: Duration = HAND_OVER_DEFAULT;
    const RANGE: RangeInclusive<Duration> = Duration::ZERO..=Duration::from_hours(1);
    const BOUNDS: &'static str = "from 0s to 1h";
    const HELP: &'static str = "give a time such as 20s";
}

impl FromStr for EngineWait {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "auto" {
            return Ok(Self(None));
        }
        match text.parse() {
            Ok(count) if count <= WAIT_MAX => Ok(Self(Some(count))),
            _ => Err(format!("give auto, or a number of replicas from 0 to {WAIT_MAX}")),
        }
    }
}

impl FromStr for EnginePrefix {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte);
        if (1..=PREFIX_MAX_BYTES).contains(&text.len()) && text.bytes().all(is_plain) {
            Ok(Self(text.into()))
        } else {
            Err(format!("give 1 to {PREFIX_MAX_BYTES} letters, digits and any of - _ . :"))
        }
    }
}

impl FromStr for ServerName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if (1..=NAME_MAX_BYTES).contains(&text.len()) && text.bytes().all(|byte| byte > b' ') {
            Ok(Self(text.into()))
        } else {
            Err(format!("give a name of 1 to {NAME_MAX_BYTES} bytes without spaces"))
        }
    }
}

impl FromStr for AdvertisedHost {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        let is_name = (1..=HOST_MAX_BYTES).contains(&text.len()) && text.bytes().all(is_plain);
        let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
        if is_name || bare.parse::<Ipv6Addr>().is_ok() {
            Ok(Self(bare.into()))
        } else {
            Err("give the name or the address of this machine, without a port".to_owned())
        }
    }
}

/// The files of `rediss://`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::cli) struct EngineTls {
    pub(in crate::cli) ca: Option<PathBuf>,
    pub(in crate::cli) cert: Option<PathBuf>,
    pub(in crate::cli) key: Option<PathBuf>,
}

/// Who a server is to nodes and to Sentinels, beside the user in the address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::cli) struct EngineLogin {
    pub(in crate::cli) password_file: Option<PathBuf>,
    pub(in crate::cli) sentinel_user: Option<String>,
    pub(in crate::cli) sentinel_password_file: Option<PathBuf>,
}

/// The complete settings of a shared engine.
#[derive(Clone, Debug)]
pub(in crate::cli) struct EngineConfig {
    pub(in crate::cli) url: EngineUrl,
    pub(in crate::cli) login: EngineLogin,
    pub(in crate::cli) tls: EngineTls,
    pub(in crate::cli) lease: Duration,
    pub(in crate::cli) patience: Duration,
    pub(in crate::cli) hand_over: Duration,
    pub(in crate::cli) wait: Option<u32>,
    pub(in crate::cli) prefix: Box<str>,
    pub(in crate::cli) name: Option<Box<str>>,
    /// The host by which others reach this server; `None`: the address of each listener.
    pub(in crate::cli) advertise: Option<Box<str>>,
    /// Whether connections are forwarded while this server waits to lead.
    pub(in crate::cli) forwards: bool,
}

/// The lease, the patience, and the time for a hand-over.
pub(in crate::cli) type EngineTimes = (
    Option<BoundedDuration<EngineLease>>,
    Option<BoundedDuration<EnginePatience>>,
    Option<BoundedDuration<EngineHandOver>>,
);

impl EngineConfig {
    /// The settings, if there is an engine.
    pub(in crate::cli) fn new(
        url: Option<EngineUrl>,
        login: EngineLogin,
        tls: EngineTls,
        (lease, patience, hand_over): EngineTimes,
        wait: Option<EngineWait>,
        (prefix, name): (Option<EnginePrefix>, Option<ServerName>),
        (advertise, forward): (Option<AdvertisedHost>, Option<ForwardSwitch>),
    ) -> Option<Self> {
        Some(Self {
            url: url?,
            login,
            tls,
            lease: lease.unwrap_or_default().0,
            patience: patience.unwrap_or_default().0,
            hand_over: hand_over.unwrap_or_default().0,
            wait: wait.and_then(|wait| wait.0),
            prefix: prefix.map_or_else(|| PREFIX_DEFAULT.into(), |prefix| prefix.0),
            name: name.map(|name| name.0),
            advertise: advertise.map(|host| host.0),
            forwards: forward != Some(ForwardSwitch::Off),
        })
    }

    /// Names a server that was given no name by where its clients connect, so that a client that
    /// asks another one is told. An address that other machines cannot use is replaced by the name
    /// of this one.
    pub(in crate::cli) fn name_by(&mut self, protocols: &[(Protocol, ListenAddress)]) {
        let address = protocols.iter().find_map(|(_, address)| match address {
            ListenAddress::Tcp(address) | ListenAddress::Tls(address) => Some(*address),
            ListenAddress::Unix(_) | ListenAddress::Passed { .. } => None,
        });
        let Some(address) = address.filter(|address| address.port() > 0) else { return };
        let is_local = address.ip().is_loopback() || address.ip().is_unspecified();
        self.name.get_or_insert_with(|| {
            if !is_local {
                return address.to_string().into();
            }
            let host = rustix::system::uname();
            format!("{}:{}", host.nodename().to_string_lossy(), address.port()).into()
        });
    }

    /// Checks what can be checked without a file.
    ///
    /// # Errors
    /// A sentence about what is missing, or has no use.
    pub(in crate::cli) fn check(&self) -> Result<(), String> {
        let EngineLogin { sentinel_user, sentinel_password_file, .. } = &self.login;
        let has_sentinels = matches!(self.url.address, Address::Sentinels { .. });
        if !has_sentinels && (sentinel_user.is_some() || sentinel_password_file.is_some()) {
            return Err("--engine-sentinel-user and --engine-sentinel-password-file have no use \
                        without Sentinels: the address of --engine has to begin redis+sentinel"
                .to_owned());
        }
        let EngineTls { ca, cert, key } = &self.tls;
        let is_plain = !self.url.address.has_tls();
        let given = [(ca, "--engine-ca"), (cert, "--engine-cert"), (key, "--engine-key")];
        match given.iter().find(|(file, _)| file.is_some()) {
            Some((_, flag)) if is_plain => Err(format!(
                "{flag} has no use without TLS: the address of --engine has to begin rediss"
            )),
            _ if cert.is_some() != key.is_some() => {
                Err("--engine-cert and --engine-key are given together".to_owned())
            }
            _ => Ok(()),
        }
    }

    /// Who is trusted to be the engine, and who this server is to it.
    ///
    /// # Errors
    /// A sentence about a file.
    pub(in crate::cli) fn trust(&self) -> Result<TrustStore, String> {
        self.check()?;
        let read = |flag: &str, file: &Path| {
            std::fs::read(file)
                .map_err(|error| format!("{flag} {}: it cannot be read: {error}", file.display()))
        };
        let trust = match &self.tls.ca {
            None => TrustStore::default(),
            Some(file) => TrustStore::only(&read("--engine-ca", file)?)
                .map_err(|why| format!("--engine-ca {}: it {why}", file.display()))?,
        };
        let (Some(cert), Some(key)) = (&self.tls.cert, &self.tls.key) else { return Ok(trust) };
        trust
            .with_identity(&read("--engine-cert", cert)?, &read("--engine-key", key)?)
            .map_err(|why| format!("--engine-cert {}: {why}", cert.display()))
    }

    /// Who this server is to nodes.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(in crate::cli) fn node_login(&self) -> Result<Login, String> {
        let flag = "--engine-password-file";
        let password = password(self.login.password_file.as_deref(), flag, PASSWORD_VARIABLE)?;
        if let (Some(user), None) = (&self.url.user, &password) {
            return Err(format!(
                "the address of --engine names the user {user}, and without a password no user is \
                 logged in: give it by {PASSWORD_VARIABLE} or {flag}"
            ));
        }
        Ok(Login { user: self.url.user.clone(), password })
    }

    /// Who it is to Sentinels.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(in crate::cli) fn sentinel_login(&self) -> Result<Login, String> {
        let EngineLogin { sentinel_user: user, sentinel_password_file: file, .. } = &self.login;
        let variable = SENTINEL_PASSWORD_VARIABLE;
        let password = password(file.as_deref(), "--engine-sentinel-password-file", variable)?;
        Ok(Login { user: user.as_deref().map(Into::into), password })
    }
}

/// A password: the first line of the file, or else the variable.
fn password(file: Option<&Path>, flag: &str, variable: &str) -> Result<Option<Box<[u8]>>, String> {
    let Some(file) = file else {
        let value = std::env::var_os(variable).filter(|value| !value.is_empty());
        return Ok(value.map(|value| value.as_encoded_bytes().into()));
    };
    let text = std::fs::read(file)
        .map_err(|error| format!("{flag} {}: it cannot be read: {error}", file.display()))?;
    let line = text.split(|&byte| byte == b'\n').next().unwrap_or_default().trim_ascii();
    if line.is_empty() {
        return Err(format!("{flag} {}: its first line is empty", file.display()));
    }
    Ok(Some(line.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn server_without_a_name_is_called_by_its_first_address() {
        let url = "redis://h".parse().unwrap();
        let (login, tls, none) = (EngineLogin::default(), EngineTls::default(), (None, None, None));
        let mut config =
            EngineConfig::new(Some(url), login, tls, none, None, (None, None), (None, None));
        let config = config.as_mut().unwrap();
        let tcp = |text: &str| ListenAddress::Tcp(text.parse().unwrap());
        config.name_by(&[(Protocol::JobCentre, tcp("127.0.0.1:0"))]);
        assert_eq!(config.name, None);
        config.name_by(&[(Protocol::JobCentre, tcp("127.0.0.1:7"))]);
        let name = config.name.take().unwrap();
        assert!(name.ends_with(":7") && !name.starts_with("127."), "{name}");
        config.name_by(&[
            (Protocol::Pinpriq, tcp("10.0.0.1:8")),
            (Protocol::Http, tcp("10.0.0.1:9")),
        ]);
        assert_eq!(config.name.as_deref(), Some("10.0.0.1:8"));
        config.name_by(&[(Protocol::JobCentre, tcp("10.0.0.2:8"))]);
        assert_eq!(config.name.as_deref(), Some("10.0.0.1:8"), "it has a name");
    }

    #[test]
    fn names_are_plain() {
        assert!("".parse::<EnginePrefix>().is_err());
        assert!("a{b}".parse::<EnginePrefix>().is_err());
        assert!("jc.test:1".parse::<EnginePrefix>().is_ok());
        assert!("two words".parse::<ServerName>().is_err());
        for host in ["10.0.0.1", "queue-1.example", "::1"] {
            assert_eq!(host.parse(), Ok(AdvertisedHost(host.into())));
        }
        assert_eq!("[::1]".parse(), Ok(AdvertisedHost("::1".into())));
        for wrong in ["", "a:1", "a b", "http://a", "a,user=b"] {
            assert!(wrong.parse::<AdvertisedHost>().is_err(), "{wrong}");
        }
        assert!("host-1:9".parse::<ServerName>().is_ok());
        assert_eq!("auto".parse(), Ok(EngineWait(None)));
        assert_eq!("2".parse(), Ok(EngineWait(Some(2))));
        assert!("101".parse::<EngineWait>().is_err() && "-1".parse::<EngineWait>().is_err());
    }
}
