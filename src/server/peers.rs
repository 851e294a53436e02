//! Where connections come from.

use crate::base::time::Wall;
use crate::model::id::ClientId;
use crate::model::peer::Peer;

/// When connections were accepted, and from where: beside them, so that they do not grow.
#[derive(Debug, Default)]
pub(super) struct Peers(Vec<(Wall, Option<Box<Peer>>)>);

impl Peers {
    /// A connection was accepted. O(1), amortised.
    pub(super) fn note(&mut self, client: ClientId, at: Wall) {
        let place = client.index as usize;
        if place >= self.0.len() {
            self.0.resize_with(place + 1, Default::default);
        }
        self.0[place] = (at, None);
    }

    /// What is known of its other end.
    pub(super) fn note_peer(&mut self, client: ClientId, peer: Peer) {
        if let Some((_, known)) = self.0.get_mut(client.index as usize) {
            *known = Some(Box::new(peer));
        }
    }

    /// The same, if the driver has said something. O(1).
    pub(super) fn peer(&self, client: ClientId) -> Option<&Peer> {
        self.0.get(client.index as usize)?.1.as_deref()
    }

    pub(super) fn since(&self, client: ClientId) -> Wall {
        self.0.get(client.index as usize).map_or_else(Wall::default, |known| known.0)
    }
}
