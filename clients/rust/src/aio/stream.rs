//! Opens the stream of bytes to a server: TCP, a Unix socket, or TLS.

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};

use crate::core::address::{Address, Way};
use crate::error::{Error, Result};

pub(crate) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// What is needed for each connection to one server.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) address: Address,
    #[cfg(feature = "tls")]
    tls: Option<crate::tls::Tls>,
}

impl Target {
    #[cfg(feature = "tls")]
    pub(crate) fn new(address: Address) -> Result<Self> {
        let tls = (address.way == Way::Tls).then(|| crate::tls::Tls::of(&address)).transpose()?;
        Ok(Self { address, tls })
    }

    #[cfg(not(feature = "tls"))]
    pub(crate) fn new(address: Address) -> Result<Self> {
        if address.way == Way::Tls {
            return Err(Error::Settings("an address with TLS needs the feature `tls`".into()));
        }
        Ok(Self { address })
    }

    pub(crate) async fn open(&self) -> Result<Box<dyn Stream>> {
        let lost = |error: &std::io::Error| {
            Error::ConnectionLost(format!("no connection to {}: {error}", self.address))
        };
        if let Way::Unix(path) = &self.address.way {
            return Ok(Box::new(UnixStream::connect(path).await.map_err(|e| lost(&e))?));
        }
        let place = (self.address.host.as_str(), self.address.port);
        let tcp = TcpStream::connect(place).await.map_err(|e| lost(&e))?;
        tcp.set_nodelay(true).map_err(|e| lost(&e))?;
        #[cfg(feature = "tls")]
        if let Some(tls) = &self.tls {
            let connector = tokio_rustls::TlsConnector::from(tls.config.clone());
            let stream = connector.connect(tls.name.clone(), tcp).await.map_err(|e| {
                Error::of_certificate(&self.address, &e).unwrap_or_else(|| lost(&e))
            })?;
            return Ok(Box::new(stream));
        }
        Ok(Box::new(tcp))
    }
}
