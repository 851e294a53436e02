//! Authorities of HTTP: hosts and ports in `Host` fields and request targets.

use core::net::{Ipv4Addr, Ipv6Addr};

/// A host, as it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Host<'a> {
    /// An address in numbers, as every program writes it: no name server decides where it leads.
    Address,
    /// An address of no machine (`0.0.0.0`, `[::]`), or one of IPv4 written as IPv6. Systems
    /// connect them to the machine itself, and browsers do not protect them as they protect
    /// loopback.
    Unspecified(&'a str),
    /// Anything else: for all that is known a name.
    Name(&'a str),
}

/// The host of `HOST` or `HOST:PORT`, or nothing if it is none of them. O(its length).
#[must_use]
pub fn host(authority: &str) -> Option<Host<'_>> {
    let (host, port) = match authority.find(']') {
        Some(end) => authority.split_at(end + 1),
        None => authority.split_at(authority.find(':').unwrap_or(authority.len())),
    };
    let digits = match port.strip_prefix(':') {
        Some(digits) => digits,
        None if port.is_empty() => "",
        None => return None,
    };
    let plain = digits.bytes().all(|byte| byte.is_ascii_digit());
    if !plain || (!digits.is_empty() && digits.parse::<u16>().is_err()) {
        return None;
    }
    if let Some(inner) = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
        // A zone is for the client's machine alone.
        let address = inner.split_once('%').map_or(inner, |(address, _)| address);
        let address = address.parse::<Ipv6Addr>().ok()?;
        // `to_ipv4` is for `::a.b.c.d`, too, and for `::1`, which is loopback.
        let is_plain = address.is_loopback() || address.to_ipv4().is_none();
        return Some(if is_plain { Host::Address } else { Host::Unspecified(host) });
    }
    if let Ok(address) = host.parse::<Ipv4Addr>() {
        // All of 0.0.0.0/8 is "this network".
        let is_plain = address.octets()[0] != 0;
        return Some(if is_plain { Host::Address } else { Host::Unspecified(host) });
    }
    is_name(host).then_some(Host::Name(host))
}

/// Whether there can be a host of this name: letters, digits, `-`, `_` and dots between them, and
/// perhaps one at the end.
#[must_use]
pub fn is_name(text: &str) -> bool {
    let labels = text.strip_suffix('.').unwrap_or(text);
    let fits = |label: &str| {
        !label.is_empty()
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
    };
    text.len() <= 254 && labels.split('.').all(fits)
}

/// Whether two authorities are the same, if `usual` is the port that need not be said.
#[must_use]
pub fn is_same(one: &str, other: &str, usual: &str) -> bool {
    let bare = |authority: &str| {
        let port = authority.strip_suffix(usual).and_then(|rest| rest.strip_suffix(':'));
        port.unwrap_or(authority).trim_end_matches(':').len()
    };
    one[..bare(one)].eq_ignore_ascii_case(&other[..bare(other)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_in_numbers_are_told_from_names() {
        for text in ["127.0.0.1", "10.0.0.1:0", "[::1]", "[::1]:80", "[FE80::1%eth0]:7", "1.2.3.4:"]
        {
            assert_eq!(host(text), Some(Host::Address), "{text}");
        }
        for (text, name) in [
            ("localhost", "localhost"),
            ("LocalHost:11480", "LocalHost"),
            ("localhost.", "localhost."),
            ("a_b-c.example:65535", "a_b-c.example"),
            // What some resolvers take for an address is not written as one.
            ("0x7f.1", "0x7f.1"),
            ("127.1", "127.1"),
            ("2130706433", "2130706433"),
            ("127.0.0.01", "127.0.0.01"),
            ("127.0.0.1.", "127.0.0.1."),
        ] {
            assert_eq!(host(text), Some(Host::Name(name)), "{text}");
        }
    }

    #[test]
    fn addresses_of_no_machine_and_mapped_ones_are_told_from_others() {
        for text in
            ["0.0.0.0", "0.1.2.3", "[::]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::127.0.0.1]"]
        {
            assert_eq!(host(&format!("{text}:80")), Some(Host::Unspecified(text)), "{text}");
        }
    }

    #[test]
    fn what_names_no_host_is_refused() {
        for text in [
            "",
            ":80",
            ".",
            "a..b",
            "..",
            "a:x",
            "a:+1",
            "a:65536",
            "a:1:2",
            "::1",
            "[::1",
            "::1]",
            "[]",
            "[127.0.0.1]",
            "[a]",
            "[::1]x",
            "x[::1]",
            "[[::1]]",
            "u@localhost",
            "u:p@127.0.0.1",
            "localhost/",
            "localhost,evil.example",
            "a%2eb",
            "*.localhost",
        ] {
            assert_eq!(host(text), None, "{text}");
        }
        assert!(!is_name(&"a".repeat(255)) && is_name(&"a".repeat(254)));
    }

    #[test]
    fn the_usual_port_need_not_be_said() {
        for (one, other) in [("a", "a"), ("A:80", "a"), ("a", "a:80"), ("[::1]:80", "[::1]")] {
            assert!(is_same(one, other, "80"), "{one} {other}");
        }
        for (one, other) in [("a", "b"), ("a:81", "a"), ("a:80", "a:8080"), ("a80", "a"), ("", "a")]
        {
            assert!(!is_same(one, other, "80"), "{one} {other}");
        }
        assert!(!is_same("a:80", "a", "443"));
    }
}
