//! The TLS of both clients: which authorities are trusted.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};

use crate::core::address::Address;
use crate::error::{Error, Result};

/// What a TLS connection to an address needs.
#[derive(Clone, Debug)]
pub(crate) struct Tls {
    pub(crate) config: Arc<ClientConfig>,
    pub(crate) name: ServerName<'static>,
}

impl Tls {
    pub(crate) fn of(address: &Address) -> Result<Self> {
        let mut roots = RootCertStore::empty();
        if let Some(path) = &address.ca {
            for certificate in certificates(path)? {
                let wrong = |e| Error::Settings(format!("{}: {e}", path.display()));
                roots.add(certificate).map_err(wrong)?;
            }
        } else {
            roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|e| Error::Settings(e.to_string()))?
            .with_root_certificates(roots);
        let config = match &address.identity {
            None => config.with_no_client_auth(),
            Some((certificate, key)) => {
                let chain = certificates(certificate)?;
                let wrong =
                    |e: &dyn fmt::Display| Error::Settings(format!("{}: {e}", key.display()));
                let key = PrivateKeyDer::from_pem_file(key).map_err(|e| wrong(&e))?;
                config.with_client_auth_cert(chain, key).map_err(|e| wrong(&e))?
            }
        };
        let name = address.server_name.clone().unwrap_or_else(|| address.host.clone());
        let name = ServerName::try_from(name.clone())
            .map_err(|_| Error::Settings(format!("{name:?} is not the name of a server")))?;
        Ok(Self { config: Arc::new(config), name })
    }
}

/// The certificates of a file: one at least.
fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let wrong = |what: &dyn fmt::Display| Error::Settings(format!("{}: {what}", path.display()));
    let found = CertificateDer::pem_file_iter(path).map_err(|e| wrong(&e))?;
    let found: Vec<_> = found.collect::<std::result::Result<_, _>>().map_err(|e| wrong(&e))?;
    if found.is_empty() {
        return Err(wrong(&"there is no certificate in this file"));
    }
    Ok(found)
}

/// Whose certificate a connection failed for, if it was for one: waiting does not make it better.
pub(crate) fn refused_certificate(error: &std::io::Error) -> Option<&'static str> {
    use rustls::AlertDescription as Alert;
    match error.get_ref()?.downcast_ref()? {
        rustls::Error::InvalidCertificate(_) => Some("the certificate of the server"),
        // With TLS 1.3 this arrives after the handshake, in place of the first answer.
        rustls::Error::AlertReceived(
            Alert::BadCertificate
            | Alert::CertificateExpired
            | Alert::CertificateRequired
            | Alert::CertificateRevoked
            | Alert::CertificateUnknown
            | Alert::UnknownCA
            | Alert::UnsupportedCertificate,
        ) => Some("the certificate of this client"),
        _ => None,
    }
}
