//! The files of TLS listeners, from the settings about them.

use crate::reactor::{ClientCertificates, ListenAddress, TlsFiles};
use clap::ValueEnum;
use serde::Deserialize;
use std::path::PathBuf;

/// The value of `--tls-client-auth`.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(in crate::cli) enum ClientAuth {
    /// Clients without a certificate are refused.
    Required,
    /// Clients may have a certificate; one that is not valid is refused.
    Optional,
}

/// The settings about TLS listeners.
#[derive(Clone, Debug, Default)]
pub(in crate::cli) struct TlsSettings {
    pub(in crate::cli) certificate: Option<PathBuf>,
    pub(in crate::cli) key: Option<PathBuf>,
    pub(in crate::cli) client_authorities: Option<PathBuf>,
    pub(in crate::cli) client_revoked: Option<PathBuf>,
    pub(in crate::cli) client_auth: Option<ClientAuth>,
}

impl TlsSettings {
    /// Whether clients of TLS listeners are refused without a certificate.
    pub(in crate::cli) fn asks_clients(&self) -> bool {
        self.client_authorities.is_some() && self.client_auth != Some(ClientAuth::Optional)
    }

    /// The files, if a listener among these needs them.
    ///
    /// # Errors
    /// A sentence about what is missing, or has no use.
    pub(in crate::cli) fn files<'a>(
        self,
        listeners: impl IntoIterator<Item = &'a ListenAddress>,
    ) -> Result<Option<TlsFiles>, String> {
        let Self { certificate, key, client_authorities, client_revoked, client_auth } = self;
        let is_tls = |address: &&ListenAddress| matches!(address, ListenAddress::Tls(_));
        let Some(first) = listeners.into_iter().find(is_tls) else {
            return match (&certificate, &client_authorities) {
                (None, None) => Ok(None),
                _ => {
                    Err("--tls-cert and --tls-client-ca are given, and no listener has TLS: give \
                          one an address that begins with tls: (--http tls:0.0.0.0:11480)"
                        .to_owned())
                }
            };
        };
        let (Some(certificate), Some(key)) = (certificate, key) else {
            return Err(format!("the listener {first} needs --tls-cert FILE and --tls-key FILE"));
        };
        let clients = match (client_authorities, client_revoked, client_auth) {
            (Some(authorities), revoked, auth) => {
                let required = auth != Some(ClientAuth::Optional);
                Some(ClientCertificates { authorities, revoked, required })
            }
            (None, None, None) => None,
            (None, Some(_), _) => return Err(useless("--tls-client-crl")),
            (None, None, Some(_)) => return Err(useless("--tls-client-auth")),
        };
        Ok(Some(TlsFiles { certificate, key, clients }))
    }
}

fn useless(flag: &str) -> String {
    format!("{flag} has no use without --tls-client-ca, which names who vouches for clients")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> TlsSettings {
        TlsSettings {
            certificate: Some("c".into()),
            key: Some("k".into()),
            ..TlsSettings::default()
        }
    }

    fn files(settings: TlsSettings, listener: &str) -> Result<Option<TlsFiles>, String> {
        let address = ListenAddress::Tcp("127.0.0.1:1".parse().unwrap());
        let tls = ListenAddress::Tls("127.0.0.1:2".parse().unwrap());
        settings.files(if listener == "tls" { vec![&address, &tls] } else { vec![&address] })
    }

    #[test]
    fn files_are_wanted_where_a_listener_has_tls_and_only_there() {
        assert_eq!(files(TlsSettings::default(), "tcp"), Ok(None));
        assert!(files(settings(), "tcp").unwrap_err().contains("tls:0.0.0.0"));
        assert!(files(TlsSettings::default(), "tls").unwrap_err().contains("needs --tls-cert"));
        let without_key = TlsSettings { key: None, ..settings() };
        assert!(files(without_key, "tls").unwrap_err().contains("--tls-key"));
        let found = files(settings(), "tls").unwrap().unwrap();
        assert_eq!((found.certificate, found.clients), (PathBuf::from("c"), None));
    }

    #[test]
    fn certificates_of_clients_are_required_unless_they_are_said_to_be_optional() {
        let with = |auth| TlsSettings {
            client_authorities: Some("a".into()),
            client_auth: auth,
            ..settings()
        };
        let required = |auth| files(with(auth), "tls").unwrap().unwrap().clients.unwrap().required;
        assert!(required(None) && required(Some(ClientAuth::Required)));
        assert!(!required(Some(ClientAuth::Optional)));
        let useless = TlsSettings { client_auth: Some(ClientAuth::Optional), ..settings() };
        assert!(files(useless, "tls").unwrap_err().contains("--tls-client-ca"));
    }
}
