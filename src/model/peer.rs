//! The other end of a connection, as far as the system vouches for it.

use core::net::{Ipv6Addr, SocketAddr};
use std::fmt;

/// An address of IPv6, or of IPv4 mapped into it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PeerAddress(pub [u8; 16]);

impl PeerAddress {
    /// The network of those who have this address: of IPv4 only itself, of IPv6 its /64.
    #[must_use]
    pub fn network(self) -> Self {
        const MAPPED: [u8; 12] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff];
        let mut bytes = self.0;
        if !bytes.starts_with(&MAPPED) {
            bytes[8..].fill(0);
        }
        Self(bytes)
    }
}

/// A name in the certificate of a client.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum CertificateName {
    /// The common name of its subject.
    Common(Box<str>),
    /// A name of the DNS, of its subject's alternative names.
    Dns(Box<str>),
    /// A URI among them.
    Uri(Box<str>),
}

impl CertificateName {
    /// Reads `CN=NAME`, `DNS:NAME` or `URI:NAME`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (kind, name) = text.split_at_checked(3)?;
        if let ("CN=", false) = (kind, name.is_empty()) {
            return Some(Self::Common(name.into()));
        }
        let name = name.strip_prefix(':').filter(|name| !name.is_empty())?;
        match kind {
            "DNS" => Some(Self::Dns(name.to_ascii_lowercase().into())),
            "URI" => Some(Self::Uri(name.into())),
            _ => None,
        }
    }
}

impl fmt::Display for CertificateName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Common(name) => write!(f, "CN={name}"),
            Self::Dns(name) => write!(f, "DNS:{name}"),
            Self::Uri(name) => write!(f, "URI:{name}"),
        }
    }
}

/// The other end of a connection that was accepted. Every connection has one: it is kept small.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Peer {
    /// Its address, if it has one of a network.
    pub address: Option<PeerAddress>,
    /// Its port, if it has an address.
    pub port: u16,
    /// Whether it is on the same machine.
    pub is_local: bool,
    /// The user of a process on the same machine, who has connected to a file.
    pub uid: Option<u32>,
    /// Of the certificate that it has shown, if that is valid.
    pub names: Box<[CertificateName]>,
    /// The number of the listener, in the order of `Core::handle_listening`.
    pub listener: u32,
}

/// For people: `127.0.0.1:9`, `[::1]:9`, `unix, user 1000`.
impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.address, self.uid) {
            (Some(address), _) => {
                let ip = Ipv6Addr::from(address.0).to_canonical();
                write!(f, "{}", SocketAddr::new(ip, self.port))
            }
            (None, Some(uid)) => write!(f, "unix, user {uid}"),
            (None, None) => f.write_str("unix"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peers_are_small_and_readable() {
        assert!(size_of::<Peer>() <= 48, "every connection has one");
        let of = |address: [u8; 16]| Peer {
            address: Some(PeerAddress(address)),
            port: 9,
            ..Peer::default()
        };
        let mut bytes = [0; 16];
        bytes[15] = 1;
        assert_eq!(of(bytes).to_string(), "[::1]:9");
        bytes[10..].copy_from_slice(&[0xff, 0xff, 127, 0, 0, 1]);
        assert_eq!(of(bytes).to_string(), "127.0.0.1:9");
        let local = |uid| Peer { uid, ..Peer::default() }.to_string();
        assert_eq!((&*local(Some(7)), &*local(None)), ("unix, user 7", "unix"));
    }

    #[test]
    fn network_of_an_address_is_its_own_in_ipv4_and_the_first_half_in_ipv6() {
        let six = [0x20, 1, 0xd, 0xb8, 0, 1, 0, 2, 0, 3, 0, 4, 0, 5, 0, 6];
        let network = [0x20, 1, 0xd, 0xb8, 0, 1, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(PeerAddress(six).network(), PeerAddress(network));
        let four = PeerAddress([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 192, 0, 2, 1]);
        assert_eq!(four.network(), four);
    }

    #[test]
    fn names_are_read_as_they_are_written() {
        for text in ["CN=web 1", "DNS:a.example", "URI:spiffe://a/B", "CN=x:y=z"] {
            assert_eq!(CertificateName::parse(text).unwrap().to_string(), text);
        }
        let dns = CertificateName::parse("DNS:A.Example");
        assert_eq!(dns, Some(CertificateName::Dns("a.example".into())));
        for wrong in ["", "CN", "CN=", "CN:x", "DNS:", "DNS=x", "URI:", "IP:1", "é=x"] {
            assert_eq!(CertificateName::parse(wrong), None, "{wrong}");
        }
    }
}
