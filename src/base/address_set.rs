//! Which addresses may be called: `--worker-net`.
//!
//! An IPv4 address that is written as one of IPv6 counts as the IPv4 address. The address `0.0.0.0`
//! (and `::`) reaches the machine itself, so it is one of loopback.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use ipnet::IpNet;
use std::fmt;
use std::str::FromStr;

/// A set of addresses: kinds of them, and networks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressSet {
    members: Box<[Member]>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Member {
    Any,
    Kind(AddressKind),
    Network(IpNet),
}

/// What an address is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressKind {
    /// The machine itself.
    Loopback,
    /// A network of an organisation: RFC 1918, RFC 6598 (shared by a provider's customers) and
    /// RFC 4193.
    Private,
    /// The Internet.
    Public,
    /// Anything else: link-local (where clouds serve credentials), multicast, documentation,
    /// reserved.
    Special,
}

impl AddressKind {
    /// The kind of an address. O(1).
    #[must_use]
    pub fn of(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(address) => Self::of_v4(address),
            IpAddr::V6(address) => Self::of_v6(address),
        }
    }

    fn of_v4(address: Ipv4Addr) -> Self {
        let [a, b, c, _] = address.octets();
        let shared = a == 100 && (64..128).contains(&b);
        // "This network", protocol assignments, relays, benchmarks; multicast and reserved.
        let assigned = matches!(
            (a, b, c),
            (0 | 224..=255, _, _) | (192, 0, 0) | (192, 88, 99) | (198, 18 | 19, _)
        );
        if address.is_loopback() || address.is_unspecified() {
            Self::Loopback
        } else if address.is_private() || shared {
            Self::Private
        } else if assigned || address.is_link_local() || address.is_documentation() {
            Self::Special
        } else {
            Self::Public
        }
    }

    fn of_v6(address: Ipv6Addr) -> Self {
        let [first, second, ..] = address.segments();
        let global = (0x2000..0x4000).contains(&first);
        // 6to4, whose addresses of IPv4 could be of any kind (those of NAT64 are not global);
        // Teredo and other protocol assignments; documentation.
        let assigned = matches!(
            (first, second),
            (0x2002, _) | (0x2001, 0..=0x1ff | 0xdb8) | (0x3fff, 0..=0xfff)
        );
        if address.is_loopback() || address.is_unspecified() {
            Self::Loopback
        } else if address.is_unique_local() {
            Self::Private
        } else if global && !assigned {
            Self::Public
        } else {
            Self::Special
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Loopback => "loopback",
            Self::Private => "private",
            Self::Public => "public",
            Self::Special => "special",
        }
    }
}

impl fmt::Display for AddressKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl AddressSet {
    /// All addresses.
    #[must_use]
    pub fn any() -> Self {
        Self { members: Box::new([Member::Any]) }
    }

    /// The addresses of the Internet.
    #[must_use]
    pub fn public() -> Self {
        Self { members: Box::new([Member::Kind(AddressKind::Public)]) }
    }

    /// Whether the set has this address. O(members).
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.members.iter().any(|member| match member {
            Member::Any => true,
            Member::Kind(kind) => *kind == AddressKind::of(address),
            Member::Network(network) => network.contains(&address),
        })
    }

    /// Why an address is not called: a sentence without its end. None if it may be called.
    #[must_use]
    pub fn refusal(&self, address: IpAddr) -> Option<String> {
        if self.contains(address) {
            return None;
        }
        let address = address.to_canonical();
        let kind = AddressKind::of(address);
        // No word permits special ones: each has to be meant.
        let permit = match kind {
            AddressKind::Special => address.to_string(),
            _ => kind.to_string(),
        };
        Some(format!(
            "workers may have addresses of {self} only, and {address} is a {kind} one: start the \
             server with --worker-net {self},{permit} to permit it"
        ))
    }
}

impl fmt::Display for AddressSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, member) in self.members.iter().enumerate() {
            if at > 0 {
                f.write_str(",")?;
            }
            match member {
                Member::Any => f.write_str("any")?,
                Member::Kind(kind) => kind.fmt(f)?,
                Member::Network(network) if network.prefix_len() == network.max_prefix_len() => {
                    network.addr().fmt(f)?;
                }
                Member::Network(network) => network.fmt(f)?,
            }
        }
        Ok(())
    }
}

impl FromStr for AddressSet {
    type Err = String;

    /// Reads members with commas between them: `any`, `public`, `private`, `loopback`, an address,
    /// a network such as `10.1.0.0/16`.
    fn from_str(text: &str) -> Result<Self, String> {
        let members = text.split(',').map(|word| member(word.trim())).collect::<Result<_, _>>()?;
        Ok(Self { members })
    }
}

fn member(word: &str) -> Result<Member, String> {
    let kinds = [AddressKind::Loopback, AddressKind::Private, AddressKind::Public];
    if word == "any" {
        return Ok(Member::Any);
    }
    if let Some(kind) = kinds.into_iter().find(|kind| kind.name() == word) {
        return Ok(Member::Kind(kind));
    }
    let network = word.parse().or_else(|_| word.parse().map(|ip: IpAddr| IpNet::from(ip)));
    let Ok(network): Result<IpNet, _> = network else {
        return Err(format!(
            "'{word}' is none of any, public, private, loopback, an address, and a network such \
             as 10.1.0.0/16"
        ));
    };
    if network.trunc() != network {
        return Err(format!("'{word}' has bits beyond its length: {} is meant?", network.trunc()));
    }
    Ok(Member::Network(network))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(text: &str) -> AddressKind {
        AddressKind::of(text.parse().unwrap())
    }

    #[test]
    fn addresses_have_the_kinds_of_the_registries() {
        let loopback = "127.0.0.1 127.9.9.9 0.0.0.0 ::1 :: ::ffff:127.0.0.1";
        let private = "10.0.0.1 172.16.0.1 172.31.255.255 192.168.1.1 100.64.0.1 fd00::1 \
                       ::ffff:10.1.1.1";
        let public = "1.1.1.1 172.32.0.1 100.128.0.1 192.0.1.1 2606:4700::1111";
        let special = "169.254.169.254 0.1.2.3 192.0.2.1 198.18.0.1 203.0.113.9 224.0.0.1 \
                       255.255.255.255 240.0.0.1 fe80::1 ff02::1 2001:db8::1 64:ff9b::a00:1 \
                       2002:a00:1::1 ::a00:1 ::ffff:169.254.169.254 fec0::1";
        for (texts, wanted) in [
            (loopback, AddressKind::Loopback),
            (private, AddressKind::Private),
            (public, AddressKind::Public),
            (special, AddressKind::Special),
        ] {
            for text in texts.split_whitespace() {
                assert_eq!(kind(text), wanted, "{text}");
            }
        }
    }

    #[test]
    fn set_contains_what_its_members_contain() {
        let contains = |set: &str, address: &str| {
            set.parse::<AddressSet>().unwrap().contains(address.parse().unwrap())
        };
        assert!(contains("any", "169.254.1.1"));
        assert!(contains("public,loopback", "127.0.0.1"));
        assert!(!contains("public,loopback", "10.0.0.1"));
        assert!(contains("public, 10.1.0.0/16", "10.1.2.3"));
        assert!(contains("10.1.0.0/16", "::ffff:10.1.2.3"), "the same address");
        assert!(!contains("10.1.0.0/16", "10.2.0.1"));
        assert!(contains("169.254.169.254", "169.254.169.254"));
        assert!(!contains("169.254.169.254", "169.254.169.253"));
        assert!(contains("fd00::/8", "fd12::1"));
    }

    #[test]
    fn wrong_members_are_named() {
        let refused = |text: &str| text.parse::<AddressSet>().unwrap_err();
        assert!(refused("publik").contains("'publik'"));
        assert!(refused("").contains("none of any"));
        assert!(refused("special").contains("'special'"));
        assert!(refused("10.1.0.0/8").contains("10.0.0.0/8 is meant"));
    }

    #[test]
    fn refusal_says_what_would_permit_the_address() {
        let set: AddressSet = "public,10.0.0.1".parse().unwrap();
        assert_eq!(set.refusal("10.0.0.1".parse().unwrap()), None);
        let why = set.refusal("10.0.0.2".parse().unwrap()).unwrap();
        assert_eq!(
            why,
            "workers may have addresses of public,10.0.0.1 only, and 10.0.0.2 is a private one: \
             start the server with --worker-net public,10.0.0.1,private to permit it"
        );
    }
}
