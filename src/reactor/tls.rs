//! TLS of outgoing connections, and the only place of it.
//!
//! [`Tls`] reads and writes like a socket that does not block. Invariants: what is encrypted counts
//! as sent only when its last byte is with the system, so a close never cuts off what was reported;
//! `WouldBlock` is only said when the system has said it and nothing is buffered, so no edge is
//! lost; the end of a stream without farewell is an error, never an end.

use crate::base::limits::{READ_BUDGET_BYTES, TLS_HANDSHAKE_MAX_BYTES, TLS_RECORD_BYTES};
use mio::net::TcpStream;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{CertificateError, ClientConfig, ClientConnection, Error, RootCertStore};
use std::io::{self, ErrorKind, Read, Write};
use std::sync::Arc;

/// Whose word is taken for who another server is.
#[derive(Clone, Debug)]
pub struct TrustStore(Arc<ClientConfig>);

impl Default for TrustStore {
    /// The authorities that browsers trust (Mozilla's list, as of the build).
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

    /// The usual authorities and the certificates of this text in PEM.
    ///
    /// # Errors
    /// Says what is wrong with the text, or that it holds no certificate.
    pub fn with(pem: &[u8]) -> Result<Self, String> {
        let mut roots = system_roots();
        let usual = roots.len();
        for certificate in CertificateDer::pem_slice_iter(pem) {
            let certificate = certificate.map_err(|error| format!("is no PEM: {error}"))?;
            let number = roots.len() - usual + 1;
            roots
                .add(certificate)
                .map_err(|error| format!("certificate {number} is not sound: {error}"))?;
        }
        if roots.len() == usual {
            return Err("holds no certificate (-----BEGIN CERTIFICATE-----)".to_owned());
        }
        Ok(Self::new(roots))
    }
}

/// A connection that is encrypted, or about to be.
#[derive(Debug)]
pub(super) struct Tls {
    stream: TcpStream,
    session: ClientConnection,
    /// Bytes at the beginning of the output that are encrypted, but not all with the system.
    taken: usize,
    /// Bytes of the handshake that have come in.
    heard: usize,
    /// Nothing can be sent any more.
    broken: bool,
}

impl Tls {
    /// Begins to speak TLS with `host` over a connection. The error is a sentence.
    pub(super) fn begin(
        stream: TcpStream,
        host: &str,
        trust: &TrustStore,
    ) -> Result<Box<Self>, String> {
        let name = ServerName::try_from(host.to_owned())
            .map_err(|_| format!("there can be no certificate for a name like {host:?}"))?;
        let session = ClientConnection::new(Arc::clone(&trust.0), name).map_err(|e| explain(&e))?;
        Ok(Box::new(Self { stream, session, taken: 0, heard: 0, broken: false }))
    }

    pub(super) fn tcp(&self) -> &TcpStream {
        &self.stream
    }

    /// What it runs over, once nothing more is to be said.
    pub(super) fn into_tcp(self) -> TcpStream {
        self.stream
    }

    /// Goes on with the handshake as far as it goes without waiting. Whether it is over; the error
    /// is a sentence.
    pub(super) fn handshake(&mut self) -> Result<bool, String> {
        let lost = |error: &io::Error| match error.kind() {
            ErrorKind::InvalidData => error.to_string(),
            _ => format!("the connection broke during the handshake: {error}"),
        };
        loop {
            // What the system does not take now goes with the next event, or with the first write.
            self.push().map_err(|error| lost(&error))?;
            if !self.session.is_handshaking() {
                return Ok(true);
            }
            match self.pull() {
                Ok(0) => return Err("it closed the connection during the handshake".to_owned()),
                Ok(count) => self.heard += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(lost(&error)),
            }
            if self.heard > TLS_HANDSHAKE_MAX_BYTES {
                return Err(format!(
                    "its handshake is longer than {TLS_HANDSHAKE_MAX_BYTES} bytes"
                ));
            }
        }
    }

    /// Reads what is decrypted: at most one record. `Interrupted` means that there may be more
    /// although there is nothing yet.
    ///
    /// # Errors
    /// `InvalidData` with a sentence if the peer breaks the rules, `UnexpectedEof` if its end comes
    /// without farewell, otherwise what a socket says.
    pub(super) fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let mut heard = 0;
        loop {
            match self.session.reader().read(into) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                read => return read,
            }
            if heard > READ_BUDGET_BYTES {
                return Err(ErrorKind::Interrupted.into());
            }
            heard += self.pull()?;
        }
    }

    /// Whether something is encrypted and not yet with the system.
    pub(super) fn wants_write(&self) -> bool {
        self.session.wants_write()
    }

    /// Sends from `output`, whose beginning is what the last call did not report as sent. Returns
    /// how many bytes are sent, and whether the system would take more. Not more than
    /// [`READ_BUDGET_BYTES`] and a piece are sent at a time.
    ///
    /// # Errors
    /// What a socket says, once.
    pub(super) fn write(&mut self, output: &[u8]) -> io::Result<(usize, bool)> {
        if self.broken {
            return Ok((0, false));
        }
        let written = self.write_pieces(output);
        self.broken = written.is_err();
        written
    }

    fn write_pieces(&mut self, output: &[u8]) -> io::Result<(usize, bool)> {
        let mut sent = 0;
        loop {
            if !self.push()? {
                return Ok((sent, false));
            }
            sent = output.len().min(sent + std::mem::take(&mut self.taken));
            if sent == output.len() || sent > READ_BUDGET_BYTES {
                return Ok((sent, true));
            }
            let piece = &output[sent..output.len().min(sent + TLS_RECORD_BYTES)];
            self.taken = self.session.writer().write(piece)?;
            if self.taken == 0 {
                return Err(ErrorKind::WriteZero.into());
            }
        }
    }

    /// Tells the peer that nothing more will be sent, as far as the system takes it now;
    /// [`Tls::write`] sends the rest.
    pub(super) fn send_close_notify(&mut self) {
        self.session.send_close_notify();
        if !self.broken {
            self.broken = self.push().is_err();
        }
    }

    /// Hands what is encrypted to the system. Whether it has taken all.
    fn push(&mut self) -> io::Result<bool> {
        while self.session.wants_write() {
            match self.session.write_tls(&mut self.stream) {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// One read from the socket, decrypted. 0 is the end.
    fn pull(&mut self) -> io::Result<usize> {
        let count = loop {
            match self.session.read_tls(&mut self.stream) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                read => break read?,
            }
        };
        if let Err(error) = self.session.process_new_packets() {
            // The peer is told why, if it still listens.
            let _ = self.session.write_tls(&mut self.stream);
            return Err(io::Error::new(ErrorKind::InvalidData, explain(&error)));
        }
        Ok(count)
    }
}

fn explain(error: &Error) -> String {
    match error {
        Error::InvalidCertificate(CertificateError::UnknownIssuer) => {
            "its certificate is signed by nobody who is trusted here".to_owned()
        }
        Error::InvalidCertificate(
            why @ (CertificateError::NotValidForName
            | CertificateError::NotValidForNameContext { .. }),
        ) => format!("its certificate is for another name: {why}"),
        Error::InvalidCertificate(
            why @ (CertificateError::Expired | CertificateError::ExpiredContext { .. }),
        ) => format!("its certificate is out of date: {why}"),
        Error::InvalidCertificate(why) => format!("its certificate is not accepted: {why}"),
        Error::InvalidMessage(_) => format!("it does not speak TLS: {error}"),
        Error::AlertReceived(_) => format!("it refuses: {error}"),
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::TrustStore;

    #[test]
    fn a_text_without_sound_certificates_is_refused() {
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
