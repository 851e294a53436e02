//! The address of a listener, and the message when it cannot be bound.

use crate::cli::system_users::group_id;
use crate::reactor::{ListenAddress, UnixAddress};
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::str::FromStr;

/// The value of `--listen`, `--pinpriq`, `--http` and `--beanstalkd`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::cli) enum ListenAddr {
    /// The protocol has no listener.
    Disabled,
    /// Port 0 picks a free one.
    Addr(SocketAddr),
    /// The same, with TLS.
    Tls(SocketAddr),
    /// A socket that is a file.
    Unix(UnixAddress),
    /// A socket of the service manager, by its name; with TLS or not.
    Passed(Box<str>, bool),
    /// One of these, whose clients are this user.
    As(Box<Self>, Box<str>),
}

impl ListenAddr {
    /// Where to listen, if at all, and which user its clients are.
    pub(in crate::cli) fn address(self) -> (Option<ListenAddress>, Option<Box<str>>) {
        let address = match self {
            Self::Disabled => None,
            Self::Addr(address) => Some(ListenAddress::Tcp(address)),
            Self::Tls(address) => Some(ListenAddress::Tls(address)),
            Self::Unix(address) => Some(ListenAddress::Unix(address)),
            Self::Passed(name, is_tls) => Some(ListenAddress::Passed { name, is_tls }),
            Self::As(inner, user) => return (inner.address().0, Some(user)),
        };
        (address, None)
    }
}

/// Takes `,user=NAME` out of an address.
fn split_user(text: &str) -> Option<(String, &str)> {
    let (before, behind) = text.split_once(",user=")?;
    let end = behind.find(',').unwrap_or(behind.len());
    Some((format!("{before}{}", &behind[end..]), &behind[..end]))
}

/// Parses what stands behind `unix:`: a path, and behind commas the mode and the group of the
/// socket. A part without `=` belongs to the path.
///
/// # Errors
/// A sentence about the value.
pub(in crate::cli) fn parse_unix(text: &str) -> Result<UnixAddress, String> {
    let help = "give unix:PATH, unix:PATH,mode=0660 or unix:PATH,mode=0660,group=NAME";
    let (mut path, mut mode, mut group) = (text, None, None);
    while let Some((rest, option)) = path.rsplit_once(',') {
        if let Some(digits) = option.strip_prefix("mode=") {
            let bits = u32::from_str_radix(digits, 8).ok().filter(|&bits| bits <= 0o777);
            let bits = bits.ok_or_else(|| format!("'{digits}' is no mode in octal: {help}"))?;
            mode = Some(bits);
        } else if let Some(name) = option.strip_prefix("group=") {
            group = Some(group_id(name)?);
        } else if option.contains('=') {
            return Err(format!("'{option}' is no option of a socket: {help}"));
        } else {
            break;
        }
        path = rest;
    }
    if path.is_empty() || path.contains('\0') {
        return Err(format!("the path of the socket is missing: {help}"));
    }
    Ok(UnixAddress { path: PathBuf::from(path), mode, group })
}

impl FromStr for ListenAddr {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some((rest, user)) = split_user(text) {
            return match rest.parse()? {
                Self::As(..) | Self::Disabled => {
                    Err(format!("'{text}' names a user of no address, or two users"))
                }
                _ if user.is_empty() => Err(format!("'{text}' names no user behind user=")),
                address => Ok(Self::As(Box::new(address), user.into())),
            };
        }
        if text == "off" {
            return Ok(Self::Disabled);
        }
        if let Some(rest) = text.strip_prefix("unix:") {
            return parse_unix(rest).map(Self::Unix);
        }
        let (address, is_tls) = text.strip_prefix("tls:").map_or((text, false), |it| (it, true));
        if let Some(name) = address.strip_prefix("fd:") {
            return parse_name(name).map(|name| Self::Passed(name, is_tls));
        }
        let address = parse_tcp(address)?;
        Ok(if is_tls { Self::Tls(address) } else { Self::Addr(address) })
    }
}

/// The name of a socket, as systemd permits it (`FileDescriptorName=`).
fn parse_name(name: &str) -> Result<Box<str>, String> {
    let is_name = !name.is_empty() && name.bytes().all(|it| it.is_ascii_graphic() && it != b':');
    if is_name {
        return Ok(name.into());
    }
    Err(format!(
        "'{name}' names no socket: give fd:NAME or tls:fd:NAME with the FileDescriptorName= of a \
         socket unit of systemd"
    ))
}

fn parse_tcp(text: &str) -> Result<SocketAddr, String> {
    let help = "give HOST:PORT, :PORT for loopback, either with tls: before it, unix:PATH, \
                fd:NAME, or off";
    if let Some(port) = text.strip_prefix(':') {
        let port = port.parse().map_err(|_| format!("'{port}' is no port: {help}"))?;
        return Ok(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port));
    }
    let mut addresses = text.to_socket_addrs().map_err(|error| format!("{error}: {help}"))?;
    addresses.next().ok_or_else(|| format!("no address has this name: {help}"))
}

/// The message for the operator when `address`, the value of `flag`, cannot be bound: the reason
/// and what to do.
pub(in crate::cli) fn explain_bind_error(
    address: &ListenAddress,
    flag: &str,
    can_be_off: bool,
    error: &io::Error,
) -> String {
    let off = if can_be_off { format!(", or {flag} off") } else { String::new() };
    let advice = match error.kind() {
        ErrorKind::AddrInUse if matches!(address, ListenAddress::Unix(_)) => format!(
            ". Another program listens there, perhaps another jobcentre: stop it, or give another \
             path ({flag} unix:PATH){off}"
        ),
        _ if matches!(address, ListenAddress::Unix(_)) => format!(
            ". Give a path in a directory that this user may write to, of at most 107 bytes \
             ({flag} unix:PATH){off}"
        ),
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
        let tls = |text: &str| Ok(ListenAddr::Tls(text.parse().unwrap()));
        assert_eq!("tls::0".parse(), tls("127.0.0.1:0"));
        assert_eq!("tls:0.0.0.0:1".parse(), tls("0.0.0.0:1"));
        let unix = |path: &str, mode, group| {
            Ok(ListenAddr::Unix(UnixAddress { path: path.into(), mode, group }))
        };
        assert_eq!("unix:/run/a".parse(), unix("/run/a", None, None));
        assert_eq!("unix:a,b,mode=0660".parse(), unix("a,b", Some(0o660), None));
        assert_eq!("unix:/a,group=7,mode=600".parse(), unix("/a", Some(0o600), Some(7)));
        assert_eq!("fd:http".parse(), Ok(ListenAddr::Passed("http".into(), false)));
        assert_eq!("tls:fd:a.socket".parse(), Ok(ListenAddr::Passed("a.socket".into(), true)));
        for invalid in ["fd:", "fd:a:b", "fd:a b", "tls:fd:"] {
            let error = invalid.parse::<ListenAddr>().unwrap_err();
            assert!(error.contains("FileDescriptorName="), "{invalid}: {error}");
        }
        let of = |address: ListenAddr| Ok(ListenAddr::As(Box::new(address), "web".into()));
        assert_eq!(":1,user=web".parse(), of(":1".parse().unwrap()));
        let path = "unix:/a,mode=600".parse().unwrap();
        assert_eq!("unix:/a,user=web,mode=600".parse(), of(path));
        for invalid in [":1,user=", "off,user=web", ":1,user=a,user=b"] {
            let error = invalid.parse::<ListenAddr>().unwrap_err();
            assert!(error.contains("user"), "{invalid}: {error}");
        }
        for invalid in
            ["unix:", "unix:,mode=0660", "unix:a,mode=", "unix:a,mode=8", "unix:a,mod=0660,group=0"]
        {
            let error = invalid.parse::<ListenAddr>().unwrap_err();
            assert!(error.contains("unix:PATH"), "{invalid}: {error}");
        }
        let error = "unix:a,group=no such group".parse::<ListenAddr>().unwrap_err();
        assert!(error.contains("no such group"), "{error}");
        for invalid in
            ["", "11400", ":", ":x", ":70000", "127.0.0.1", "no such host:1", "tls:", "tls:unix:a"]
        {
            let error = invalid.parse::<ListenAddr>().unwrap_err();
            assert!(error.contains("HOST:PORT"), "{invalid}: {error}");
        }
    }
}
