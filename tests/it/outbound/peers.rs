//! The peers: listeners with a thread each, and their certificates.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jobcentre::reactor::TrustStore;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, date_time_ymd};
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use socket2::{Domain, SockAddr, SockRef, Socket, Type};
use std::fmt::Write as _;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// A peer's end of an encrypted connection.
pub(crate) type Secure = StreamOwned<ServerConnection, TcpStream>;

/// A listener that hands its first connection to a thread.
pub(crate) fn peer<T: Send + 'static>(
    serve: impl FnOnce(TcpStream) -> T + Send + 'static,
) -> (SocketAddr, JoinHandle<T>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    // A small buffer, so that large writes block.
    SockRef::from(&listener).set_recv_buffer_size(16 * 1024).unwrap();
    let thread = thread::spawn(move || {
        let stream = listener.accept().unwrap().0;
        stream.set_read_timeout(Some(crate::support::TIMEOUT)).unwrap();
        serve(stream)
    });
    (address, thread)
}

/// A socket that keeps a port without listening.
pub(crate) fn closed_port() -> (Socket, SocketAddr) {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.bind(&SockAddr::from(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))).unwrap();
    let address = socket.local_addr().unwrap().as_socket().unwrap();
    (socket, address)
}

/// Ends a connection so that the other side meets an error.
pub(crate) fn reset(stream: TcpStream) {
    SockRef::from(&stream).set_linger(Some(Duration::ZERO)).unwrap();
    drop(stream);
}

/// An authority that is not trusted yet.
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: CertificateDer<'static>,
}

/// The name and the key of a server.
pub(crate) struct Identity(Arc<ServerConfig>);

impl Authority {
    pub(crate) fn new() -> Self {
        Self::named("ours")
    }

    pub(crate) fn named(name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap().der().clone();
        Self { issuer: Issuer::new(params, key), certificate }
    }

    /// Its certificate as text.
    pub(crate) fn pem(&self) -> String {
        let mut text = "-----BEGIN CERTIFICATE-----\n".to_owned();
        for line in STANDARD.encode(&self.certificate).as_bytes().chunks(64) {
            writeln!(text, "{}", str::from_utf8(line).unwrap()).unwrap();
        }
        text.push_str("-----END CERTIFICATE-----\n");
        text
    }

    /// Trust in it.
    pub(crate) fn trust(&self) -> TrustStore {
        TrustStore::with(self.pem().as_bytes()).unwrap()
    }

    /// A certificate for `name`, sound until the end of that year.
    pub(crate) fn identity(&self, name: &str, year: i32) -> Identity {
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        params.not_after = date_time_ymd(year, 12, 31);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap().der().clone();
        let key = PrivatePkcs8KeyDer::from(key.serialize_der());
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key.into())
            .unwrap();
        Identity(Arc::new(config))
    }
}

impl Identity {
    /// The peer's end of an encrypted connection; hands are shaken with the first bytes.
    pub(crate) fn secure(&self, stream: TcpStream) -> Secure {
        StreamOwned::new(ServerConnection::new(Arc::clone(&self.0)).unwrap(), stream)
    }

    /// Shakes hands only. The error is what the peer hears.
    pub(crate) fn handshake(&self, stream: &mut TcpStream) -> std::io::Result<()> {
        let mut session = ServerConnection::new(Arc::clone(&self.0)).unwrap();
        while session.is_handshaking() {
            session.complete_io(stream)?;
        }
        Ok(())
    }
}
