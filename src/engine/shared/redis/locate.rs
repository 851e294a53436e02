//! Which node is to be written to: the one that is named, the primary that Sentinels know, or the
//! node of a cluster that has the slot, to which the others send.
//!
//! A connection to a node begins with its login and the question for its role. A Sentinel is asked
//! on a connection of its own, which ends with the answer.

use crate::model::driver::Target;
use crate::wire::resp::{Raw, push_array, push_bulk};
use std::fmt;
use std::sync::Arc;

/// Where the engine is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// This node.
    Node(Arc<Target>),
    /// The primary of a service.
    Sentinels {
        /// Who is asked for it; at least one.
        sentinels: Vec<Arc<Target>>,
        /// The name of the service.
        service: Box<str>,
    },
    /// The node of a cluster that has the partition's slot; it is asked for at these.
    Cluster(Vec<Arc<Target>>),
}

impl Address {
    /// Whether it is spoken to over TLS.
    #[must_use]
    pub fn has_tls(&self) -> bool {
        match self {
            Self::Node(target) => target.tls,
            Self::Sentinels { sentinels: several, .. } | Self::Cluster(several) => {
                several.iter().any(|target| target.tls)
            }
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Node(target) => write!(f, "{}:{}", target.host, target.port),
            Self::Sentinels { sentinels, service } => {
                write!(f, "{service} (of Sentinels ")?;
                list(sentinels, f)?;
                f.write_str(")")
            }
            Self::Cluster(nodes) => {
                f.write_str("the cluster of ")?;
                list(nodes, f)
            }
        }
    }
}

fn list(targets: &[Arc<Target>], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    for (number, target) in targets.iter().enumerate() {
        let comma = if number > 0 { ", " } else { "" };
        write!(f, "{comma}{}:{}", target.host, target.port)?;
    }
    Ok(())
}

/// Which connection comes next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hop {
    /// To this Sentinel, which is asked.
    Sentinel(Arc<Target>),
    /// To this node.
    Node(Arc<Target>),
}

impl Hop {
    /// What is connected to.
    #[must_use]
    pub fn target(&self) -> &Arc<Target> {
        let (Self::Sentinel(target) | Self::Node(target)) = self;
        target
    }
}

/// Leads from one connection to the next.
#[derive(Clone, Debug)]
pub struct Locator {
    address: Address,
    /// Which Sentinel or node is asked next.
    next: usize,
    /// The primary, as a Sentinel or another node has named it.
    named: Option<Arc<Target>>,
}

impl Locator {
    /// Begins with the first address.
    #[must_use]
    pub fn new(address: Address) -> Self {
        Self { address, next: 0, named: None }
    }

    /// How many connections lead past all addresses once, at most.
    #[must_use]
    pub fn hops_max(&self) -> usize {
        match &self.address {
            Address::Node(_) => 1,
            Address::Sentinels { sentinels: several, .. } | Address::Cluster(several) => {
                2 * several.len()
            }
        }
    }

    /// Whether another node may take the place of the one that was found.
    #[must_use]
    pub fn may_move(&self) -> bool {
        !matches!(self.address, Address::Node(_))
    }

    /// Whether the node at hand may be another one than that which has the slot.
    #[must_use]
    pub fn is_cluster(&self) -> bool {
        matches!(self.address, Address::Cluster(_))
    }

    /// The next connection.
    #[must_use]
    pub fn hop(&self) -> Hop {
        match (&self.address, &self.named) {
            (Address::Node(target), _) | (_, Some(target)) => Hop::Node(Arc::clone(target)),
            (Address::Sentinels { sentinels, .. }, None) => {
                Hop::Sentinel(Arc::clone(&sentinels[self.next % sentinels.len()]))
            }
            (Address::Cluster(nodes), None) => {
                Hop::Node(Arc::clone(&nodes[self.next % nodes.len()]))
            }
        }
    }

    /// What a Sentinel is asked.
    #[must_use]
    pub fn question(&self) -> Vec<u8> {
        let mut out = Vec::new();
        if let Address::Sentinels { service, .. } = &self.address {
            push_array(&mut out, 3);
            push_bulk(&mut out, b"SENTINEL");
            push_bulk(&mut out, b"GET-MASTER-ADDR-BY-NAME");
            push_bulk(&mut out, service.as_bytes());
        }
        out
    }

    /// A Sentinel has named the primary, or a node the one that has the slot: the next connection
    /// is to that.
    pub fn found(&mut self, Primary { host, port }: Primary) {
        // A node that does not know its own name leaves it out.
        let host = if host.is_empty() { self.hop().target().host.clone() } else { host };
        self.named = Some(Arc::new(Target { host, port, tls: self.address.has_tls() }));
    }

    /// The connection was not made, is lost, or leads to a node that is not the primary.
    pub fn fail(&mut self) {
        if self.named.take().is_none() {
            self.next = self.next.wrapping_add(1);
        }
    }
}

/// The primary, as a Sentinel or another node names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Primary {
    host: Box<str>,
    port: u16,
}

impl Primary {
    /// Reads what a Sentinel answers.
    ///
    /// # Errors
    /// A sentence: it names none.
    pub fn read(answer: Raw<'_>) -> Result<Self, String> {
        if let Some((code, text)) = answer.error() {
            let help = if code == b"NOAUTH" {
                ": give its password by JOBCENTRE_ENGINE_SENTINEL_PASSWORD or \
                 --engine-sentinel-password-file"
            } else {
                ""
            };
            let text = String::from_utf8_lossy(text);
            return Err(format!("the Sentinel answers: {text}{help}"));
        }
        let text = |raw: Raw<'_>| Some(String::from_utf8_lossy(raw.data()?).into_owned());
        let mut parts = answer.elements();
        let host = parts.next().and_then(text);
        let port = parts.next().and_then(text).and_then(|port| port.parse().ok());
        let (Some(host), Some(port)) = (host, port) else {
            return Err("the Sentinel knows no service of this name".to_owned());
        };
        Ok(Self { host: host.into(), port })
    }

    /// Reads what a node of a cluster says that has not the slot: `MOVED SLOT HOST:PORT`.
    #[must_use]
    pub fn of_moved(error: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(error).ok()?;
        let (host, port) = text.strip_prefix("MOVED ")?.split_once(' ')?.1.rsplit_once(':')?;
        let host = if host == "?" { "" } else { host };
        Some(Self { host: host.into(), port: port.trim_end().parse().ok()? })
    }
}

/// What a node says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It is the primary, with this many replicas connected.
    Primary(u32),
    /// It is something else.
    Other,
}

impl Role {
    /// Asks for it.
    #[must_use]
    pub fn question() -> &'static [u8] {
        b"*1\r\n$4\r\nROLE\r\n"
    }

    /// Reads the answer.
    ///
    /// # Errors
    /// What the node says instead.
    pub fn read(answer: Raw<'_>) -> Result<Self, String> {
        if let Some((_, text)) = answer.error() {
            return Err(String::from_utf8_lossy(text).into_owned());
        }
        let mut parts = answer.elements();
        if parts.next().and_then(Raw::data) != Some(b"master") {
            return Ok(Self::Other);
        }
        let replicas = parts.nth(1).map_or(0, |replicas| replicas.elements().count());
        Ok(Self::Primary(replicas.try_into().unwrap_or(u32::MAX)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::buf::Input;
    use crate::wire::resp::Framer;

    fn target(host: &str, port: u16) -> Arc<Target> {
        Arc::new(Target { host: host.into(), port, tls: false })
    }

    fn with_answer<T>(bytes: &[u8], read: impl FnOnce(Raw<'_>) -> T) -> T {
        read(Framer::new(1000).next(&mut Input::new(bytes)).unwrap().unwrap())
    }

    #[test]
    fn sentinels_are_asked_in_turn_until_the_primary_that_one_names_is_reached() {
        let sentinels = vec![target("a", 1), target("b", 2)];
        let address = Address::Sentinels { sentinels, service: "jobs".into() };
        assert_eq!(address.to_string(), "jobs (of Sentinels a:1, b:2)");
        let mut locator = Locator::new(address);
        assert_eq!(locator.hop(), Hop::Sentinel(target("a", 1)));
        locator.fail();
        assert_eq!(locator.hop(), Hop::Sentinel(target("b", 2)));
        assert!(locator.question().ends_with(b"$4\r\njobs\r\n"));
        let named = b"*2\r\n$1\r\nh\r\n$4\r\n6380\r\n";
        locator.found(with_answer(named, Primary::read).unwrap());
        assert_eq!(locator.hop(), Hop::Node(target("h", 6380)));
        // The same Sentinel knows first who comes after it.
        locator.fail();
        assert_eq!(locator.hop(), Hop::Sentinel(target("b", 2)));
        assert!(with_answer(b"*-1\r\n", Primary::read).unwrap_err().contains("no service"));
        let shut = with_answer(b"-NOAUTH x\r\n", Primary::read).unwrap_err();
        assert!(shut.contains("--engine-sentinel-password-file"), "{shut}");
        locator.fail();
        assert_eq!(locator.hop(), Hop::Sentinel(target("a", 1)));
    }

    #[test]
    fn node_that_has_the_slot_is_found_by_what_another_one_says() {
        let mut locator = Locator::new(Address::Cluster(vec![target("a", 1), target("b", 2)]));
        assert_eq!(locator.hop(), Hop::Node(target("a", 1)));
        let moved = |text: &str| Primary::of_moved(text.as_bytes());
        locator.found(moved("MOVED 8192 h:7001").unwrap());
        assert_eq!(locator.hop(), Hop::Node(target("h", 7001)));
        locator.found(moved("MOVED 8192 :7002").unwrap());
        assert_eq!(locator.hop(), Hop::Node(target("h", 7002)));
        locator.found(moved("MOVED 8192 ::1:7003").unwrap());
        assert_eq!(locator.hop(), Hop::Node(target("::1", 7003)));
        locator.fail();
        locator.fail();
        assert_eq!(locator.hop(), Hop::Node(target("b", 2)));
        assert_eq!((moved("ASK 8192 h:1"), moved("MOVED 8192")), (None, None));
    }

    #[test]
    fn role_counts_replicas() {
        let replicas = b"*3\r\n$6\r\nmaster\r\n:9\r\n*1\r\n*3\r\n$1\r\nh\r\n$1\r\n1\r\n$1\r\n9\r\n";
        assert_eq!(with_answer(replicas, Role::read), Ok(Role::Primary(1)));
        let alone = b"*3\r\n$6\r\nmaster\r\n:9\r\n*0\r\n";
        assert_eq!(with_answer(alone, Role::read), Ok(Role::Primary(0)));
        let replica = b"*5\r\n$5\r\nslave\r\n$1\r\nh\r\n:1\r\n$9\r\nconnected\r\n:9\r\n";
        assert_eq!(with_answer(replica, Role::read), Ok(Role::Other));
        assert!(with_answer(b"-NOPERM no\r\n", Role::read).unwrap_err().contains("NOPERM"));
    }
}
