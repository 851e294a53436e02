//! Addresses of listeners, as the settings give them.

use super::unix_socket::UnixAddress;
use std::fmt;
use std::net::SocketAddr;

/// Where a listener is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListenAddress {
    /// An address of this machine; port 0 picks a free one.
    Tcp(SocketAddr),
    /// The same, with TLS.
    Tls(SocketAddr),
    /// A file.
    Unix(UnixAddress),
    /// A socket of the service manager, of which only the name is known yet.
    Passed {
        /// Its name.
        name: Box<str>,
        /// Whether its connections begin with a TLS handshake.
        is_tls: bool,
    },
}

impl From<SocketAddr> for ListenAddress {
    fn from(address: SocketAddr) -> Self {
        Self::Tcp(address)
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Tls(address) => write!(f, "tls:{address}"),
            Self::Unix(address) => address.fmt(f),
            Self::Passed { name, is_tls } => {
                write!(f, "{}fd:{name}", if *is_tls { "tls:" } else { "" })
            }
        }
    }
}
