//! TLS of connections, of both sides; beside [`server_tls`](super::server_tls), which reads the
//! server's certificates, and [`client_tls`](super::client_tls) no other module uses rustls.
//!
//! [`Tls`] reads and writes like a non-blocking socket. Invariants: encrypted bytes count as sent
//! only when the kernel has the last of them, so a close does not cut off what was reported as
//! sent; `WouldBlock` is returned only if the kernel has returned it and nothing is buffered, so no
//! edge is lost; the end of a stream without `close_notify` is an error.

use crate::base::limits::{READ_BUDGET_BYTES, TLS_HANDSHAKE_MAX_BYTES, TLS_RECORD_BYTES};
use mio::net::TcpStream;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{
    CertificateError, ClientConfig, ClientConnection, Connection, Error, RootCertStore,
    ServerConfig, ServerConnection,
};
use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::sync::Arc;

/// Trusted root certificates of outbound TLS.
#[derive(Clone, Debug)]
pub struct TrustStore(Arc<ClientConfig>);

impl Default for TrustStore {
    /// Mozilla's root certificates, as of the build.
    fn default() -> Self {
        Self::new(system_roots())
    }
}

fn system_roots() -> RootCertStore {
    webpki_roots::TLS_SERVER_ROOTS.iter().cloned().collect()
}

impl TrustStore {
    fn new(roots: RootCertStore) -> Self {
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("ring has what every version of TLS needs")
            .with_root_certificates(roots)
            .with_no_client_auth();
        Self(Arc::new(config))
    }

    /// The default roots and the certificates of this PEM text.
    ///
    /// # Errors
    /// A phrase if the text is malformed or holds no certificate.
    pub fn with(pem: &[u8]) -> Result<Self, String> {
        Self::beside(system_roots(), pem)
    }

    /// The certificates of this PEM text, and no others.
    ///
    /// # Errors
    /// As above.
    pub fn only(pem: &[u8]) -> Result<Self, String> {
        Self::beside(RootCertStore::empty(), pem)
    }

    fn beside(mut roots: RootCertStore, pem: &[u8]) -> Result<Self, String> {
        let builtin = roots.len();
        for certificate in CertificateDer::pem_slice_iter(pem) {
            let certificate = certificate.map_err(|error| format!("is no PEM: {error}"))?;
            let number = roots.len() - builtin + 1;
            roots
                .add(certificate)
                .map_err(|error| format!("certificate {number} is not sound: {error}"))?;
        }
        if roots.len() == builtin {
            return Err("holds no certificate (-----BEGIN CERTIFICATE-----)".to_owned());
        }
        Ok(Self::new(roots))
    }

    /// The same authorities, and a certificate with its key (PEM) by which servers know the client.
    ///
    /// # Errors
    /// A phrase if one of the texts is malformed, or they do not belong together.
    pub fn with_identity(&self, certificates: &[u8], key: &[u8]) -> Result<Self, String> {
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(certificates).collect();
        let chain = chain.map_err(|error| format!("the certificate is no PEM: {error}"))?;
        if chain.is_empty() {
            return Err("the file of the certificate holds none".to_owned());
        }
        let key = PrivateKeyDer::from_pem_slice(key)
            .map_err(|error| format!("the key is no PEM: {error}"))?;
        let provider = self.0.crypto_provider();
        let key = provider
            .key_provider
            .load_private_key(key)
            .map_err(|error| format!("the key cannot be used: {error}"))?;
        let identity = CertifiedKey::new(chain, key);
        identity.keys_match().map_err(|_| "the key is that of another certificate".to_owned())?;
        let mut config = ClientConfig::clone(&self.0);
        config.client_auth_cert_resolver = Arc::new(SingleCertAndKey::from(identity));
        Ok(Self(Arc::new(config)))
    }

    /// The client's side of a connection to `host`.
    ///
    /// # Errors
    /// A sentence: no certificate can be for such a host.
    pub(super) fn session(&self, host: &str) -> Result<ClientConnection, String> {
        let name = ServerName::try_from(host.to_owned())
            .map_err(|_| format!("there can be no certificate for a name like {host:?}"))?;
        ClientConnection::new(Arc::clone(&self.0), name).map_err(|error| explain(&error))
    }
}

/// A TLS connection, during or after its handshake.
#[derive(Debug)]
pub struct Tls {
    stream: TcpStream,
    session: Connection,
    /// Bytes at the beginning of the output that are encrypted, but not all passed to the kernel.
    encrypted: usize,
    /// Bytes of the handshake that were received.
    received: usize,
    /// A write has failed.
    broken: bool,
    /// The last [`Tls::read`] has taken all that was there.
    drained: bool,
}

/// A socket, and whether the last read has left room in its buffer.
struct Source<'a> {
    stream: &'a mut TcpStream,
    is_short: bool,
}

impl Read for Source<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = self.stream.read(into)?;
        self.is_short = count < into.len();
        Ok(count)
    }
}

/// A socket to which one record at a time is written: `write` costs less than `writev`.
struct Sink<'a>(&'a mut TcpStream);

impl Write for Sink<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn write_vectored(&mut self, all: &[IoSlice<'_>]) -> io::Result<usize> {
        if let [only] = all { self.0.write(only) } else { self.0.write_vectored(all) }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Tls {
    /// Begins TLS with `host` over a TCP connection.
    ///
    /// # Errors
    /// A sentence: no certificate can be for such a host.
    pub fn begin(stream: TcpStream, host: &str, trust: &TrustStore) -> Result<Box<Self>, String> {
        Ok(Self::new(stream, trust.session(host)?.into()))
    }

    /// Begins TLS with the client of an accepted connection. The error is a sentence.
    pub(super) fn accept(
        stream: TcpStream,
        config: Arc<ServerConfig>,
    ) -> Result<Box<Self>, String> {
        let session = ServerConnection::new(config).map_err(|error| explain(&error))?;
        Ok(Self::new(stream, session.into()))
    }

    fn new(stream: TcpStream, session: Connection) -> Box<Self> {
        Box::new(Self { stream, session, encrypted: 0, received: 0, broken: false, drained: false })
    }

    pub(super) fn tcp(&self) -> &TcpStream {
        &self.stream
    }

    /// The underlying TCP connection.
    pub fn tcp_mut(&mut self) -> &mut TcpStream {
        &mut self.stream
    }

    /// Bytes of the handshake that were received.
    pub(super) fn received(&self) -> usize {
        self.received
    }

    /// The certificate (DER) of the other end, which was checked in the handshake.
    pub(super) fn peer_certificate(&self) -> Option<&[u8]> {
        self.session.peer_certificates()?.first().map(AsRef::as_ref)
    }

    /// The underlying TCP connection, once no more TLS records are to be sent.
    pub(super) fn into_tcp(self) -> TcpStream {
        self.stream
    }

    /// Advances the handshake as far as possible without waiting. True when it is complete.
    ///
    /// # Errors
    /// A sentence: what is wrong with the peer's certificate or its TLS, or with the connection.
    pub fn handshake(&mut self) -> Result<bool, String> {
        let lost = |error: &io::Error| match error.kind() {
            ErrorKind::InvalidData => error.to_string(),
            _ => format!("the connection broke during the handshake: {error}"),
        };
        loop {
            // The rest is sent at the next event, or with the first write.
            self.push().map_err(|error| lost(&error))?;
            if !self.session.is_handshaking() {
                return Ok(true);
            }
            match self.pull() {
                Ok((0, _)) => {
                    return Err("it closed the connection during the handshake".to_owned());
                }
                Ok((count, _)) => self.received += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(lost(&error)),
            }
            if self.received > TLS_HANDSHAKE_MAX_BYTES {
                return Err(format!(
                    "its handshake is longer than {TLS_HANDSHAKE_MAX_BYTES} bytes"
                ));
            }
        }
    }

    /// Reads decrypted bytes. `Interrupted`: the read budget is used up before a record was
    /// complete.
    ///
    /// # Errors
    /// `InvalidData` with a sentence if the peer violates the protocol, `UnexpectedEof` if the
    /// stream ends without `close_notify`, otherwise the error of the socket.
    pub fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        // What an earlier call has read of the socket says nothing of it now: bytes may have come
        // since, and their event too.
        let (mut count, mut received, mut is_short) = (0, 0, false);
        self.drained = false;
        loop {
            let ended = match self.session.reader().read(&mut into[count..]) {
                Ok(0) => Ok(0),
                Ok(more) => {
                    count += more;
                    if count < into.len() {
                        continue;
                    }
                    return Ok(count);
                }
                Err(error) if error.kind() != ErrorKind::WouldBlock => Err(error),
                Err(_) if count > 0 && is_short => {
                    self.drained = true;
                    return Ok(count);
                }
                Err(_) if received > READ_BUDGET_BYTES => Err(ErrorKind::Interrupted.into()),
                Err(_) => match self.pull() {
                    Ok((more, took_all)) => {
                        received += more;
                        is_short = took_all;
                        continue;
                    }
                    Err(error) => Err(error),
                },
            };
            // An end, and an error of TLS, is there once more at the next read.
            return if count > 0 { Ok(count) } else { ended };
        }
    }

    /// Whether the last [`Tls::read`] has taken all that the socket had: an event follows.
    pub fn is_drained(&self) -> bool {
        self.drained
    }

    /// Whether there are encrypted bytes that the kernel does not have yet.
    pub(super) fn wants_write(&self) -> bool {
        self.session.wants_write()
    }

    /// Sends from `output`, which must begin with the bytes that the last call did not report as
    /// sent. Returns the count of bytes sent, and whether the socket is still writable. One call
    /// sends at most [`READ_BUDGET_BYTES`] and one record.
    ///
    /// # Errors
    /// The error of the socket, once; later calls send nothing.
    pub fn write(&mut self, output: &[u8]) -> io::Result<(usize, bool)> {
        if self.broken {
            return Ok((0, false));
        }
        let written = self.write_records(output);
        self.broken = written.is_err();
        written
    }

    fn write_records(&mut self, output: &[u8]) -> io::Result<(usize, bool)> {
        let mut sent = 0;
        loop {
            if !self.push()? {
                return Ok((sent, false));
            }
            sent = output.len().min(sent + std::mem::take(&mut self.encrypted));
            if sent == output.len() || sent > READ_BUDGET_BYTES {
                return Ok((sent, true));
            }
            let record = &output[sent..output.len().min(sent + TLS_RECORD_BYTES)];
            self.encrypted = self.session.writer().write(record)?;
            if self.encrypted == 0 {
                return Err(ErrorKind::WriteZero.into());
            }
        }
    }

    /// Sends `close_notify`; [`Tls::write`] sends what the socket does not accept now.
    pub(super) fn send_close_notify(&mut self) {
        self.session.send_close_notify();
        if !self.broken {
            self.broken = self.push().is_err();
        }
    }

    /// Writes encrypted bytes to the socket. True if all were accepted.
    fn push(&mut self) -> io::Result<bool> {
        while self.session.wants_write() {
            match self.session.write_tls(&mut Sink(&mut self.stream)) {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Reads from the socket once and decrypts. Returns the bytes read, 0 at the end of the stream,
    /// and whether that was all that was there.
    fn pull(&mut self) -> io::Result<(usize, bool)> {
        let mut source = Source { stream: &mut self.stream, is_short: false };
        let count = loop {
            match self.session.read_tls(&mut source) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                read => break read?,
            }
        };
        let is_short = source.is_short;
        if let Err(error) = self.session.process_new_packets() {
            // Sends the alert, if the peer still reads.
            let _ = self.session.write_tls(&mut self.stream);
            return Err(io::Error::new(ErrorKind::InvalidData, explain(&error)));
        }
        Ok((count, is_short))
    }
}

pub(super) fn explain(error: &Error) -> String {
    match error {
        Error::InvalidCertificate(CertificateError::UnknownIssuer) => {
            "its certificate is not valid: its issuer is not among the trusted CAs".to_owned()
        }
        Error::InvalidCertificate(
            why @ (CertificateError::NotValidForName
            | CertificateError::NotValidForNameContext { .. }),
        ) => format!("its certificate is for another name: {why}"),
        Error::InvalidCertificate(
            why @ (CertificateError::Expired | CertificateError::ExpiredContext { .. }),
        ) => format!("its certificate is out of date: {why}"),
        Error::InvalidCertificate(CertificateError::Other(why))
            if format!("{why:?}").contains("CaUsedAsEndEntity") =>
        {
            "its certificate is that of an authority (CA:TRUE), which may issue certificates but \
             not be a server's own: issue one for the server, or make the server's with openssl \
             req -x509 -addext basicConstraints=critical,CA:FALSE"
                .to_owned()
        }
        Error::InvalidCertificate(CertificateError::Other(why))
            if format!("{why:?}").contains("UnsupportedCertVersion") =>
        {
            "its certificate is of X.509 version 1: it has to be issued with extensions, as \
             version 3 has them (openssl x509 -copy_extensions copy)"
                .to_owned()
        }
        Error::InvalidCertificate(why) => format!("its certificate is not accepted: {why}"),
        Error::InvalidMessage(_) => format!("it does not speak TLS: {error}"),
        Error::AlertReceived(_) => format!("it refuses: {error}"),
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Both ends of a connection after their handshakes.
    fn pair() -> (Box<Tls>, Box<Tls>) {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let key = PrivateKeyDer::from_pem_slice(made.signing_key.serialize_pem().as_bytes());
        let provider = Arc::new(ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key.unwrap())
            .unwrap();
        let trust = TrustStore::with(made.cert.pem().as_bytes()).unwrap();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let [client, server] = [client, listener.accept().unwrap().0].map(|stream| {
            stream.set_nonblocking(true).unwrap();
            TcpStream::from_std(stream)
        });
        let mut client = Tls::begin(client, "localhost", &trust).unwrap();
        let mut server = Tls::accept(server, Arc::new(config)).unwrap();
        while !(client.handshake().unwrap() & server.handshake().unwrap()) {}
        (client, server)
    }

    #[test]
    fn bytes_that_arrive_behind_a_decrypted_rest_are_read() {
        let (mut client, mut server) = pair();
        assert_eq!(server.write(&[1; 100]).unwrap(), (100, true));
        let mut into = [0; 100];
        let mut read = client.read(&mut into[..40]);
        while read.as_ref().is_err_and(|error| error.kind() == ErrorKind::WouldBlock) {
            read = client.read(&mut into[..40]);
        }
        assert_eq!((read.unwrap(), client.is_drained()), (40, false));
        assert_eq!(server.write(&[2; 10]).unwrap(), (10, true));
        // Their event comes now, before the rest of the first record is read.
        while client.stream.peek(&mut [0]).is_err() {}
        assert_eq!(client.read(&mut into).unwrap(), 70);
        assert!(client.is_drained());
        assert_eq!(into[..70], [&[1; 60][..], &[2; 10]].concat());
    }

    #[test]
    fn pem_without_valid_certificates_is_rejected() {
        let wrong = |pem: &[u8]| TrustStore::with(pem).unwrap_err();
        assert!(wrong(b"").starts_with("holds no certificate"));
        assert!(wrong(b"words\n").starts_with("holds no certificate"));
        let block = |inner: &str| {
            format!("-----BEGIN CERTIFICATE-----\n{inner}\n-----END CERTIFICATE-----\n")
        };
        assert!(wrong(block("?").as_bytes()).starts_with("is no PEM: "));
        assert!(wrong(b"-----BEGIN CERTIFICATE-----\nAAAA\n").starts_with("is no PEM: "));
        assert!(wrong(block("AAAA").as_bytes()).starts_with("certificate 1 is not sound: "));
    }
}
