//! Connections of this server to itself: an address of the leader leads back here. They are found
//! by their two ends, when the one side is dialled and when the other is accepted.

use super::Side;
use mio::net::TcpStream;
use std::collections::HashSet;
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
    accepted: HashSet<Ends>,
    dialled: HashSet<Ends>,
}

impl Loops {
    fn of(&mut self, side: Side) -> &mut HashSet<Ends> {
        match side {
            Side::Client => &mut self.accepted,
            Side::Leader => &mut self.dialled,
        }
    }

    /// Notes a connection. Returns whether its other side is here, too.
    pub(super) fn note(&mut self, side: Side, ends: Option<Ends>) -> bool {
        let Some(ends) = ends else { return false };
        self.of(side).insert(ends);
        let other = if side == Side::Client { Side::Leader } else { Side::Client };
        self.of(other).contains(&ends)
    }

    pub(super) fn forget(&mut self, side: Side, ends: Option<Ends>) {
        if let Some(ends) = ends {
            self.of(side).remove(&ends);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connection(client: &str, server: &str) -> Option<Ends> {
        Some((client.parse().unwrap(), server.parse().unwrap()))
    }

    #[test]
    fn only_the_two_sides_of_one_connection_are_a_loop() {
        let mut loops = Loops::default();
        let one = connection("127.0.0.1:9", "127.0.0.1:1");
        // A system gives one port to connections of several destinations.
        let two = connection("127.0.0.1:9", "127.0.0.1:2");
        assert!(!loops.note(Side::Leader, one) && !loops.note(Side::Client, two));
        assert!(loops.note(Side::Client, one) && loops.note(Side::Leader, two));
        loops.forget(Side::Leader, one);
        loops.forget(Side::Client, one);
        assert!(!loops.note(Side::Client, one));
        assert!(!loops.note(Side::Client, None) && !loops.note(Side::Leader, None));
    }
}
