//! Connections before they are passed on: accepted, looked at, and handed on with nothing read.

use super::loops::ends;
use super::pair::{End, Flows};
use super::{Forward, Forwarder, Forwarding, Side, Stage, id};
use crate::base::limits::{FORWARD_LOOK_BYTES, FORWARDS_MAX, HTTP_HEAD_TIMEOUT};
use crate::base::time::Mono;
use crate::base::timer_queue::TimerId;
use crate::model::driver::Protocol;
use crate::model::peer::Peer;
use crate::reactor::socket::{self, Stream};
use mio::net::TcpStream;
use mio::{Interest, Registry};
use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use tracing::{debug, warn};

/// An accepted connection of which nothing was read.
#[derive(Debug)]
pub(in crate::reactor) struct Arrival {
    pub(in crate::reactor) stream: Stream,
    pub(in crate::reactor) peer: Peer,
    pub(in crate::reactor) protocol: Protocol,
}

fn plain_or_unix(stream: TcpStream, is_unix: bool) -> Stream {
    if is_unix { Stream::Unix(stream) } else { Stream::Plain(stream) }
}

impl Forwarder {
    /// Forwards from now on.
    pub(in crate::reactor) fn begin(&mut self, settings: Forwarding, now: Mono) {
        self.settings = Some(settings);
        self.dials.miss_leader(now);
    }

    /// The connections that are to be served here.
    pub(in crate::reactor) fn take_served(&mut self) -> Vec<Arrival> {
        std::mem::take(&mut self.served)
    }

    /// Whether connections of a listener are accepted now, or left in its backlog. One whose first
    /// bytes decide is accepted in any case.
    pub(in crate::reactor) fn accepts(&self, protocol: Protocol, is_tls: bool, now: Mono) -> bool {
        let Some(settings) = &self.settings else { return true };
        let looks = !is_tls && (settings.serves)(protocol, b"").is_none();
        looks || self.dials.has_leader() || self.has_given_up(now)
    }

    /// Takes an accepted connection.
    pub(in crate::reactor) fn take(
        &mut self,
        arrival: Arrival,
        is_tls: bool,
        registry: &Registry,
        now: Mono,
    ) {
        let Some(settings) = self.settings else { return };
        let Arrival { stream, peer, protocol } = arrival;
        let is_unix = matches!(stream, Stream::Unix(_));
        let Some(mut stream) = stream.into_socket() else { return };
        if self.forwards.len() >= settings.max.min(FORWARDS_MAX as usize) {
            let why = "as many connections are forwarded as --max-clients, or the limit on open \
                       files, allows";
            let arrival = Arrival { stream: plain_or_unix(stream, is_unix), peer, protocol };
            return self.turn_away(arrival, is_tls, why);
        }
        let client_ends = ends(&stream, Side::Client);
        if self.dials.loops.is_own(client_ends) {
            return debug!("a connection of this server has come back to it: closed");
        }
        let entry = self.forwards.vacant_entry();
        let place = entry.key();
        let interest = Interest::READABLE | Interest::WRITABLE;
        let token = socket::token(id(place, Side::Client));
        if let Err(error) = registry.register(&mut stream, token, interest) {
            return warn!(%error, "cannot watch a new connection: closed");
        }
        let mut client = End::new(stream, false);
        client.has_short_reads = is_unix;
        self.dials.loops.accept(client_ends, place);
        entry.insert(Forward {
            client,
            leader: None,
            flows: Flows::default(),
            peer,
            client_ends,
            leader_ends: None,
            protocol,
            is_tls,
            stage: Stage::Looking,
            timer: TimerId::NONE,
            gives_up_at: now,
            queued: false,
            term: 0,
        });
        if is_tls || (settings.serves)(protocol, b"").is_some() {
            self.wait_for_leader(place, registry, now);
        } else {
            self.arm(place, now.after(HTTP_HEAD_TIMEOUT));
        }
    }

    /// Decides by the first bytes of a connection where it is served.
    pub(super) fn look(
        &mut self,
        place: usize,
        registry: &Registry,
        scratch: &mut [u8],
        now: Mono,
    ) {
        let (Some(settings), Some(forward)) = (self.settings, self.forwards.get_mut(place)) else {
            return;
        };
        if !forward.client.readable {
            return;
        }
        let end = FORWARD_LOOK_BYTES.min(scratch.len());
        let seen = forward.client.stream.peek(&mut scratch[..end]);
        let serves = match seen {
            Ok(0) => return self.remove(place),
            Ok(count) => (settings.serves)(forward.protocol, &scratch[..count])
                // More bytes than these decide nothing, and no more will come after the end.
                .or_else(|| (count == end || forward.client.hung_up).then_some(false)),
            Err(error) if error.kind() == ErrorKind::WouldBlock => None,
            Err(error) if error.kind() == ErrorKind::Interrupted => return self.queue(place),
            Err(_) => return self.remove(place),
        };
        match serves {
            None => forward.client.readable = false,
            Some(false) => self.wait_for_leader(place, registry, now),
            Some(true) => {
                let arrival = self.take_back(place, registry);
                self.served.extend(arrival);
            }
        }
    }

    /// Forgets a connection of which nothing was read. `None`: it is closed.
    fn take_back(&mut self, place: usize, registry: &Registry) -> Option<Arrival> {
        self.disarm(place);
        let forward = self.forwards.try_remove(place)?;
        let Forward { client, peer, protocol, client_ends, stage, .. } = forward;
        debug_assert_ne!(stage, Stage::Paired, "a connection that was read is taken back");
        if stage == Stage::Dialling {
            self.dials.cancel(place);
        }
        self.dials.loops.forget(Side::Client, client_ends);
        let (is_unix, mut stream) = (client.has_short_reads, client.stream);
        // It gets another token.
        if let Err(error) = registry.deregister(&mut stream) {
            warn!(%error, "cannot watch a connection: closed");
            return None;
        }
        Some(Arrival { stream: plain_or_unix(stream, is_unix), peer, protocol })
    }

    /// Turns a connection away that cannot be passed on.
    pub(super) fn refuse(&mut self, place: usize, why: &str, registry: &Registry) {
        let Some(&Forward { is_tls, .. }) = self.forwards.get(place) else { return };
        if let Some(arrival) = self.take_back(place, registry) {
            self.turn_away(arrival, is_tls, why);
        }
    }

    /// Counts a refusal, and lets the client be told why. One over TLS would have to be served a
    /// handshake for that, and is closed.
    fn turn_away(&mut self, arrival: Arrival, is_tls: bool, why: &str) {
        self.stats.refused += 1;
        self.refusals.count();
        self.last_refusal = format!("{}: {why}", arrival.protocol.name());
        if !is_tls {
            let sentence =
                format!("this server does not lead, and cannot pass its clients on: {why}");
            self.refused.push((arrival, sentence));
        }
    }

    /// The connections that are to be closed with these sentences.
    pub(in crate::reactor) fn take_refused(&mut self) -> Vec<(Arrival, String)> {
        std::mem::take(&mut self.refused)
    }

    /// The connections of which nothing was read, for another reactor. All others end.
    pub(in crate::reactor) fn into_arrivals(self) -> Vec<Arrival> {
        let unread = self.forwards.into_iter().map(|(_, forward)| forward);
        let unread = unread.filter(|forward| forward.stage != Stage::Paired);
        let unread = unread.map(|Forward { client, peer, protocol, .. }| {
            let is_unix = client.has_short_reads;
            // A socket of mio that was registered belongs to its poll.
            let stream = TcpStream::from_std(OwnedFd::from(client.stream).into());
            Arrival { stream: plain_or_unix(stream, is_unix), peer, protocol }
        });
        let refused = self.refused.into_iter().map(|(arrival, _)| arrival);
        unread.chain(self.served).chain(refused).collect()
    }
}
