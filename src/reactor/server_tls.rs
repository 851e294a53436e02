//! The certificate with which TLS listeners identify the server, and what they ask of clients.
//!
//! The files are read at the start, by a reload (SIGHUP, or a client), and when a look every
//! [`CERTIFICATE_LOOK_INTERVAL`] finds that one of them has changed. Invariant: files that cannot
//! be used change nothing: the former configuration stays, and the log says why. Connections keep
//! the configuration with which they began.

use super::tls;
use crate::base::limits::CERTIFICATE_LOOK_INTERVAL;
use crate::base::time::{Mono, Now, Wall};
use rustix::fs::OFlags;
use rustls::crypto::CryptoProvider;
use rustls::crypto::ring::{self, Ticketer, sign};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::{RootCertStore, ServerConfig, SignatureAlgorithm, SupportedCipherSuite};
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tracing::{info, warn};
use x509_cert::Certificate;
use x509_cert::der::Decode;

/// The longest of these files.
const PEM_MAX_BYTES: u64 = 1024 * 1024;

/// What says in PEM that a key has a password.
const ENCRYPTED: &[u8] = b"ENCRYPTED";

/// Tickets that a TLS 1.3 client gets for its next connections.
const TICKETS_SENT: usize = 1;

/// Certificates that clients show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientCertificates {
    /// Certificates (PEM) of the authorities that issue them.
    pub authorities: PathBuf,
    /// Lists (PEM) of those that are revoked.
    pub revoked: Option<PathBuf>,
    /// Whether a client without one is refused.
    pub required: bool,
}

/// The files of TLS listeners.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate of the server and those of the authorities that lead to it (PEM).
    pub certificate: PathBuf,
    /// Its private key (PEM).
    pub key: PathBuf,
    /// Asked of clients.
    pub clients: Option<ClientCertificates>,
}

impl TlsFiles {
    fn paths(&self) -> impl Iterator<Item = &Path> {
        let clients = self.clients.iter().flat_map(|clients| {
            [Some(&clients.authorities), clients.revoked.as_ref()].into_iter().flatten()
        });
        [&self.certificate, &self.key].into_iter().chain(clients).map(PathBuf::as_path)
    }
}

/// What tells one state of a file from another: device, inode, size and time of change. A symbolic
/// link is followed, so a link that is exchanged counts.
type FileState = Option<(u64, u64, u64, i64, i64)>;

fn file_state(path: &Path) -> FileState {
    let data = fs::metadata(path).ok()?;
    Some((data.dev(), data.ino(), data.size(), data.mtime(), data.mtime_nsec()))
}

/// The files as they were read.
#[derive(Clone, Debug)]
struct Loaded {
    config: Arc<ServerConfig>,
    /// When the server's certificate expires.
    expires: Wall,
    /// Its key is of RSA, whose handshakes cost many times those of others.
    is_rsa: bool,
}

/// See the module documentation.
#[derive(Debug)]
pub struct ServerTls {
    files: TlsFiles,
    states: Vec<FileState>,
    loaded: Loaded,
    next_look: Mono,
}

impl ServerTls {
    /// Reads the files.
    ///
    /// # Errors
    /// A sentence that names the file.
    pub fn load(files: TlsFiles, now: Now) -> Result<Self, String> {
        let states = files.paths().map(file_state).collect();
        let loaded = load(&files)?;
        let tls =
            Self { files, states, loaded, next_look: now.mono.after(CERTIFICATE_LOOK_INTERVAL) };
        tls.log(now);
        Ok(tls)
    }

    /// The configuration of new connections.
    pub(super) fn config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.loaded.config)
    }

    /// When the server's certificate expires.
    pub(super) fn expires(&self) -> Wall {
        self.loaded.expires
    }

    /// When the files are looked at next.
    pub(super) fn next_look(&self) -> Mono {
        self.next_look
    }

    /// Reads the files once more if the time has come and one has changed, and says so. A few
    /// system calls.
    pub(super) fn look(&mut self, now: Now) -> bool {
        if now.mono < self.next_look {
            return false;
        }
        self.next_look = now.mono.after(CERTIFICATE_LOOK_INTERVAL);
        let changed = !self.files.paths().map(file_state).eq(self.states.iter().copied());
        if changed {
            // The log says what is wrong.
            let _ = self.reload(now);
        }
        changed
    }

    /// Reads the files once more. If they cannot be used, the former ones stay in use.
    ///
    /// # Errors
    /// A sentence that says so, and why.
    pub(super) fn reload(&mut self, now: Now) -> Result<(), String> {
        self.states = self.files.paths().map(file_state).collect();
        match load(&self.files) {
            Ok(loaded) => {
                self.loaded = loaded;
                info!("the certificate was read again: new connections are shown it");
                self.log(now);
                Ok(())
            }
            Err(why) => {
                let why = format!("{why}: the former certificate stays in use");
                warn!("{why}");
                Err(why)
            }
        }
    }

    fn log(&self, now: Now) {
        let Loaded { expires, is_rsa, .. } = self.loaded;
        let certificate = self.files.certificate.display();
        if expires <= now.wall {
            warn!(%certificate, "the certificate has expired: clients will refuse it");
        }
        if is_rsa {
            warn!(
                %certificate,
                "the key is of RSA: a handshake costs five times that of ECDSA (openssl ecparam \
                 -name prime256v1 -genkey)"
            );
        }
    }
}

/// The bytes of a regular file of at most [`PEM_MAX_BYTES`]. Nothing else is read: the loop may not
/// wait for a pipe.
fn read(path: &Path, flag: &str) -> Result<Vec<u8>, String> {
    let shown = path.display();
    let cannot = |error: io::Error| format!("{flag} {shown} cannot be read: {error}");
    let nonblocking = OFlags::NONBLOCK.bits().cast_signed();
    let file = File::options().read(true).custom_flags(nonblocking).open(path).map_err(cannot)?;
    if !file.metadata().map_err(cannot)?.is_file() {
        return Err(format!("{flag} {shown} is no file"));
    }
    let mut bytes = Vec::new();
    file.take(PEM_MAX_BYTES + 1).read_to_end(&mut bytes).map_err(cannot)?;
    if bytes.len() as u64 > PEM_MAX_BYTES {
        return Err(format!("{flag} {shown} is longer than {PEM_MAX_BYTES} bytes"));
    }
    Ok(bytes)
}

/// The certificates of a PEM text, of which there is at least one.
fn certificates(path: &Path, flag: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    let text = read(path, flag)?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    let found = found.map_err(|error| format!("{flag} {} is no PEM: {error}", path.display()))?;
    if found.is_empty() {
        let path = path.display();
        return Err(format!("{flag} {path} holds no certificate (-----BEGIN CERTIFICATE-----)"));
    }
    Ok(found)
}

/// Where a client has both, AES with keys of 128 bits is taken, which costs a third less than with
/// 256 and is not weaker against any attack that is known to be possible.
fn provider() -> CryptoProvider {
    use rustls::CipherSuite::{
        TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
        TLS13_AES_128_GCM_SHA256,
    };
    let is_later = |suite: &SupportedCipherSuite| {
        let first = [
            TLS13_AES_128_GCM_SHA256,
            TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
            TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
        ];
        !first.contains(&suite.suite())
    };
    let mut provider = ring::default_provider();
    provider.cipher_suites.sort_by_key(is_later);
    provider
}

fn load(files: &TlsFiles) -> Result<Loaded, String> {
    let (path, key_path) = (files.certificate.display(), files.key.display());
    let chain = certificates(&files.certificate, "--tls-cert")?;
    let expires = expiry(&chain[0])
        .map_err(|why| format!("--tls-cert {path}: its first certificate is not sound: {why}"))?;
    let text = read(&files.key, "--tls-key")?;
    if text.windows(ENCRYPTED.len()).any(|part| part == ENCRYPTED) {
        return Err(format!(
            "--tls-key {key_path} is encrypted, and a server cannot ask for its password: give it \
             without one (openssl pkey -in FILE -out FILE), readable by the server only"
        ));
    }
    let key = PrivateKeyDer::from_pem_slice(&text)
        .map_err(|error| format!("--tls-key {key_path} holds no private key in PEM: {error}"))?;
    let signing = sign::any_supported_type(&key)
        .map_err(|error| format!("--tls-key {key_path} is of no use: {error}"))?;
    let provider = Arc::new(provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .expect("ring has what every version of TLS needs");
    let builder = match &files.clients {
        None => builder.with_no_client_auth(),
        Some(clients) => builder.with_client_cert_verifier(verifier(clients, &provider)?),
    };
    let mut config = builder.with_single_cert(chain, key).map_err(|error| {
        format!("--tls-key {key_path} does not fit --tls-cert {path}: {}", tls::explain(&error))
    })?;
    config.ticketer = Ticketer::new().map_err(|error| format!("no keys of tickets: {error}"))?;
    config.send_tls13_tickets = TICKETS_SENT;
    config.ignore_client_order = true;
    let is_rsa = signing.algorithm() == SignatureAlgorithm::RSA;
    Ok(Loaded { config: Arc::new(config), expires, is_rsa })
}

/// What checks the certificates of clients.
fn verifier(
    clients: &ClientCertificates,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, String> {
    let path = clients.authorities.display();
    let mut roots = RootCertStore::empty();
    for certificate in certificates(&clients.authorities, "--tls-client-ca")? {
        let number = roots.len() + 1;
        roots.add(certificate).map_err(|error| {
            format!("--tls-client-ca {path}: certificate {number} is not sound: {error}")
        })?;
    }
    let roots = Arc::new(roots);
    let mut builder = WebPkiClientVerifier::builder_with_provider(roots, Arc::clone(provider));
    if let Some(revoked) = &clients.revoked {
        let text = read(revoked, "--tls-client-crl")?;
        let lists: Result<Vec<_>, _> =
            CertificateRevocationListDer::pem_slice_iter(&text).collect();
        let revoked = revoked.display();
        let lists =
            lists.map_err(|error| format!("--tls-client-crl {revoked} is no PEM: {error}"))?;
        if lists.is_empty() {
            return Err(format!(
                "--tls-client-crl {revoked} holds no list (-----BEGIN X509 CRL-----)"
            ));
        }
        // Authorities between the roots and a client may have no list.
        builder = builder.with_crls(lists).only_check_end_entity_revocation();
        builder = builder.allow_unknown_revocation_status();
    }
    if !clients.required {
        builder = builder.allow_unauthenticated();
    }
    builder.build().map_err(|error| format!("--tls-client-ca {path}: {error}"))
}

/// When a certificate expires.
fn expiry(certificate: &CertificateDer<'_>) -> Result<Wall, String> {
    let certificate = Certificate::from_der(certificate).map_err(|error| error.to_string())?;
    let end = certificate.tbs_certificate().validity().not_after.to_unix_duration();
    Ok(Wall(u64::try_from(end.as_millis()).unwrap_or(u64::MAX)))
}
