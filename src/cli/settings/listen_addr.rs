//! The address of a listener, and the message when it cannot be bound.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, ToSocketAddrs};
use std::str::FromStr;

/// The value of `--listen`, `--pinpriq` and `--http`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cli) enum ListenAddr {
    /// The protocol has no listener.
    Disabled,
    /// Port 0 picks a free one.
    Addr(SocketAddr),
}

impl FromStr for ListenAddr {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "off" {
            return Ok(Self::Disabled);
        }
        let help = "give HOST:PORT, :PORT for loopback, or off";
        if let Some(port) = text.strip_prefix(':') {
            let port = port.parse().map_err(|_| format!("'{port}' is no port: {help}"))?;
            return Ok(Self::Addr(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port)));
        }
        let mut addresses = text.to_socket_addrs().map_err(|error| format!("{error}: {help}"))?;
        addresses.next().map(Self::Addr).ok_or_else(|| format!("no address has this name: {help}"))
    }
}

/// The message for the operator when `address`, the value of `flag`, cannot be bound: the reason
/// and what to do.
pub(in crate::cli) fn explain_bind_error(
    address: SocketAddr,
    flag: &str,
    can_be_off: bool,
    error: &io::Error,
) -> String {
    let off = if can_be_off { format!(", or {flag} off") } else { String::new() };
    let advice = match error.kind() {
        ErrorKind::AddrInUse => format!(
            ". Another program listens there, perhaps another jobcentre: stop it, or give another \
             port ({flag} :PORT; :0 picks a free one){off}"
        ),
        ErrorKind::AddrNotAvailable => {
            format!(". This machine does not have this address: give another ({flag} HOST:PORT)")
        }
        ErrorKind::PermissionDenied => {
            format!(". Ports below 1024 need a right: give a higher one ({flag} :PORT){off}")
        }
        _ => format!(" ({flag})"),
    };
    format!("cannot listen on {address}: {error}{advice}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_parsed() {
        let at = |text: &str| Ok(ListenAddr::Addr(text.parse().unwrap()));
        assert_eq!("off".parse(), Ok(ListenAddr::Disabled));
        assert_eq!(":0".parse(), at("127.0.0.1:0"));
        assert_eq!(":11400".parse(), at("127.0.0.1:11400"));
        assert_eq!("0.0.0.0:1".parse(), at("0.0.0.0:1"));
        assert_eq!("[::1]:2".parse(), at("[::1]:2"));
        for invalid in ["", "11400", ":", ":x", ":70000", "127.0.0.1", "no such host:1"] {
            let error = invalid.parse::<ListenAddr>().unwrap_err();
            assert!(error.contains("HOST:PORT"), "{invalid}: {error}");
        }
    }
}
