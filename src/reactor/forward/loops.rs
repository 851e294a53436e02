//! Connections of this server to itself: an address of the leader leads back here, as after a
//! restart, when the leader that is still named is a former life of this server. They are found by
//! their two ends, when the one side is dialled and when the other is accepted.

use super::Side;
use mio::net::TcpStream;
use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;

/// The end of the one that has connected, and of the one that has accepted.
pub(super) type Ends = (SocketAddr, SocketAddr);

/// The two ends of a connection with a client, or with the leader; `None`: it is no longer there,
/// or a file.
pub(super) fn ends(stream: &TcpStream, side: Side) -> Option<Ends> {
    // An address of IPv4 may stand in one of IPv6.
    let plain = |address: SocketAddr| SocketAddr::new(address.ip().to_canonical(), address.port());
    let (own, other) = (plain(stream.local_addr().ok()?), plain(stream.peer_addr().ok()?));
    Some(match side {
        Side::Client => (other, own),
        Side::Leader => (own, other),
    })
}

/// All connections, by their ends.
#[derive(Debug, Default)]
pub(super) struct Loops {
    /// Those that were accepted, with their places.
    accepted: HashMap<Ends, usize>,
    dialled: HashSet<Ends>,
}

impl Loops {
    /// Whether a connection that was accepted is one that this server has made.
    pub(super) fn is_own(&self, ends: Option<Ends>) -> bool {
        ends.is_some_and(|ends| self.dialled.contains(&ends))
    }

    /// Notes a connection that was accepted.
    pub(super) fn accept(&mut self, ends: Option<Ends>, place: usize) {
        self.accepted.extend(ends.map(|ends| (ends, place)));
    }

    /// Notes a connection to the leader, unless its other side is here: then the place of that.
    pub(super) fn dial(&mut self, ends: Option<Ends>) -> Option<usize> {
        let ends = ends?;
        let place = self.accepted.get(&ends).copied();
        if place.is_none() {
            self.dialled.insert(ends);
        }
        place
    }

    pub(super) fn forget(&mut self, side: Side, ends: Option<Ends>) {
        let Some(ends) = ends else { return };
        match side {
            Side::Client => drop(self.accepted.remove(&ends)),
            Side::Leader => drop(self.dialled.remove(&ends)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connection(client: &str, server: &str) -> Ends {
        (client.parse().unwrap(), server.parse().unwrap())
    }

    #[test]
    fn only_the_two_sides_of_one_connection_are_a_loop() {
        let mut loops = Loops::default();
        let one = Some(connection("127.0.0.1:9", "127.0.0.1:1"));
        // A system gives one port to connections of several destinations.
        let two = Some(connection("127.0.0.1:9", "127.0.0.1:2"));
        assert_eq!(loops.dial(one), None);
        assert!(loops.is_own(one) && !loops.is_own(two) && !loops.is_own(None));
        loops.accept(two, 7);
        assert_eq!(loops.dial(two), Some(7));
        assert!(!loops.is_own(two), "it is not forwarded");
        loops.forget(Side::Leader, one);
        loops.forget(Side::Client, two);
        assert!(!loops.is_own(one) && loops.dial(two).is_none());
        assert_eq!(loops.dial(None), None);
    }
}
