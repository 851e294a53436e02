//! The end of connections to a former leader: a bounded number in each pass.
//!
//! Each leader has a term. A connection has the term in which its dial began; when another leader
//! is named, all places are looked at once, and those of a former term end, or wait again.

use super::{Forwarder, Stage};
use crate::base::limits::FORWARD_STEPS_PER_PASS;
use std::ops::Range;

/// Which connections may still lead to a former leader.
#[derive(Debug, Default)]
pub(super) struct FormerLeader {
    /// How many leaders were named.
    pub(super) term: u32,
    /// The places that were not looked at in this term.
    places: Range<usize>,
}

impl FormerLeader {
    pub(super) fn is_due(&self) -> bool {
        !self.places.is_empty()
    }
}

impl Forwarder {
    /// Another leader was named: the connections of now end soon. O(1).
    pub(super) fn begin_term(&mut self) {
        self.former.term = self.former.term.wrapping_add(1);
        self.former.places = 0..self.forwards.capacity();
    }

    /// Ends connections to a former leader. One that is being dialled waits for the leader of now.
    pub(super) fn end_former(&mut self) {
        for _ in 0..FORWARD_STEPS_PER_PASS {
            let Some(place) = self.former.places.next() else { return };
            let Some(forward) = self.forwards.get(place) else { continue };
            if forward.term == self.former.term {
                continue;
            }
            match forward.stage {
                Stage::Paired => self.remove(place),
                Stage::Dialling => {
                    self.dials.cancel(place);
                    self.wait_again(place);
                }
                Stage::Waiting | Stage::Looking => {}
            }
        }
    }

    /// Whether the dial of a connection began when another server led.
    pub(super) fn is_former(&self, place: usize) -> bool {
        self.forwards.get(place).is_some_and(|forward| forward.term != self.former.term)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::time::Mono;
    use crate::base::timer_queue::TimerId;
    use crate::model::driver::Protocol;
    use crate::model::peer::Peer;
    use crate::reactor::forward::Forward;
    use crate::reactor::forward::pair::{End, Flows};
    use crate::reactor::loop_waker::LoopWaker;
    use mio::net::TcpStream;
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixStream;

    fn paired(term: u32) -> Forward {
        let (stream, _) = UnixStream::pair().unwrap();
        Forward {
            client: End::new(TcpStream::from_std(OwnedFd::from(stream).into()), false),
            leader: None,
            flows: Flows::default(),
            peer: Peer::default(),
            client_ends: None,
            leader_ends: None,
            protocol: Protocol::JobCentre,
            is_tls: false,
            stage: Stage::Paired,
            timer: TimerId::NONE,
            gives_up_at: Mono::default(),
            queued: false,
            term,
        }
    }

    #[test]
    fn connections_to_a_former_leader_end_in_parts_and_those_to_the_new_one_stay() {
        let mut forwarder = Forwarder::new(LoopWaker::default());
        for _ in 0..FORWARD_STEPS_PER_PASS + 9 {
            forwarder.forwards.insert(paired(0));
        }
        assert!(!forwarder.has_ready(Mono::default()));
        forwarder.begin_term();
        assert!(forwarder.has_ready(Mono::default()), "they end without another event");
        forwarder.end_former();
        assert_eq!(forwarder.len(), 9);
        let new = forwarder.forwards.insert(paired(forwarder.former.term));
        while forwarder.has_ready(Mono::default()) {
            forwarder.end_former();
        }
        assert_eq!(forwarder.len(), 1);
        assert!(forwarder.forwards.contains(new) && !forwarder.is_former(new));
    }
}
