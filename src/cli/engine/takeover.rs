//! Takeover: one connection from its begin until this server leads and has read all records.

use super::connection::Connection;
use super::{LOOK_INTERVAL, Report, Seen, Start, Stoppable};
use crate::cli::bench::seconds;
use crate::cli::entropy;
use crate::engine::shared::redis::{self, Calls, Lead, Offered, Requests, StartError};
use crate::engine::shared::{Begin, Leader};
use crate::engine::{Engine, Follower, RestoredShared};
use crate::reactor::Clock;
use std::time::Duration;
use tracing::{info, warn};

/// The pause after a lease is over: so that not all servers try at once.
const CHANCE_MS: u64 = 100;

/// The lease is renewed so often while records are read.
pub(super) const RENEW_INTERVAL: Duration = Duration::from_millis(150);

/// How often it is looked whether a former leader is there.
const FORMER_LOOK_INTERVAL: Duration = Duration::from_millis(200);

/// How often it is looked who leads while a leader hands over to another server.
const HAND_OVER_LOOK_INTERVAL: Duration = Duration::from_millis(20);

impl Start {
    /// One connection: from its begin until this server leads and has read everything.
    pub(super) fn attempt(&mut self) -> Result<Engine, StartError> {
        let reached = Connection::reach(&mut self.locator, &self.requests, &self.trust);
        let mut connection = reached.map_err(|why| match why {
            // A certificate may be renewed while this server waits.
            StartError::Fatal(why) if self.was_reached => StartError::Passing(why),
            why => why,
        })?;
        let checked = redis::check_node(&mut connection, &self.settings.address);
        let warnings = checked.inspect_err(|_| self.locator.fail())?;
        if !std::mem::replace(&mut self.was_reached, true) {
            for warning in warnings {
                warn!("{warning}");
            }
        }
        let known = (entropy::random_u64(), self.birth.as_deref());
        let birth = redis::init(&mut connection, &self.requests, known)?;
        self.birth = Some(birth.clone());
        let (begin, followed) = self.take_lead(&mut connection, birth)?;
        let now = self.clock.sample();
        let from = now.mono;
        let mut calls = Stoppable { connection, main: &self.main };
        let limits = (self.seed, self.max_memory);
        let followed = followed.and_then(|follower| follower.finish(&begin, now));
        let has_followed = followed.is_some();
        let restored = followed
            .map_or_else(|| load(&mut calls, &self.requests, &begin, limits, &mut self.clock), Ok);
        if self.main.is_stopped() {
            let _ = self.requests.give_back(&mut calls.connection, (&begin.birth, begin.epoch));
            return Err(StartError::Passing("the server stops".to_owned()));
        }
        let restored = restored?;
        let (records, bytes) = restored.records_read();
        let took = self.clock.sample().mono.0 - from.0;
        info!(
            epoch = begin.epoch,
            jobs = restored.counts().jobs,
            records,
            bytes,
            seconds = seconds(took / 1_000_000 * 1_000_000),
            read_before = has_followed,
            name = &*self.settings.name,
            "this server leads"
        );
        Ok(Engine::leading(restored, Leader::new(self.settings.clone(), begin)))
    }

    /// Waits until no other server leads. If the last leader has offered its lead, this server has
    /// perhaps followed it, and read all records.
    fn take_lead(
        &mut self,
        connection: &mut Connection,
        birth: Vec<u8>,
    ) -> Result<(Begin, Option<Follower>), StartError> {
        let mut follower = None;
        if self.has_waited {
            follower = self.wait_for_former_leader(connection, &birth)?;
        }
        while !self.main.is_stopped() {
            match redis::lead(connection, &self.requests, &birth)? {
                Lead::Led { epoch, seq, mark } => {
                    return Ok((Begin { birth, epoch, seq, mark }, follower));
                }
                Lead::Held { name, addresses, for_ms, offered } => {
                    // What another leader writes is not in it.
                    follower = None;
                    self.has_waited = true;
                    let leader = Seen { name, addresses };
                    if self.leader.as_ref() != Some(&leader) {
                        let Seen { name, addresses } = &leader;
                        info!(
                            leader = name,
                            addresses, "another server leads: waiting to take over"
                        );
                        self.main.report(Report::Waits(leader.clone()));
                        self.leader = Some(leader);
                    }
                    redis::register(connection, &self.requests)?;
                    if offered == Offered::Yes {
                        follower = self.follow(connection, &birth)?;
                        if follower.is_some() {
                            continue;
                        }
                    }
                    let rest = Duration::from_millis(for_ms + entropy::random_u64() % CHANCE_MS);
                    let longest = match offered {
                        Offered::No => LOOK_INTERVAL,
                        Offered::Yes | Offered::Followed => HAND_OVER_LOOK_INTERVAL,
                    };
                    self.main.pause(rest.min(longest));
                }
            }
        }
        let _ = redis::leave(connection, &self.requests);
        Err(StartError::Passing("the server stops".to_owned()))
    }

    /// The leader has lost its connection, too, if the primary was replaced: it has the writes that
    /// the new one lacks, and leads on if it comes first. One that offers its lead is there.
    fn wait_for_former_leader(
        &mut self,
        connection: &mut Connection,
        birth: &[u8],
    ) -> Result<Option<Follower>, StartError> {
        let end = self.clock.sample().mono.after(self.settings.lease);
        while !self.main.is_stopped() {
            if redis::register(connection, &self.requests)? {
                return self.follow(connection, birth);
            }
            let left = end.until(self.clock.sample().mono);
            if left.is_zero() {
                break;
            }
            self.main.pause(left.min(FORMER_LOOK_INTERVAL));
        }
        Ok(None)
    }
}

/// Reads all records under a term, and renews the lease meanwhile.
fn load(
    calls: &mut Stoppable<'_>,
    requests: &Requests,
    begin: &Begin,
    limits: (u64, Option<u64>),
    clock: &mut Clock,
) -> Result<RestoredShared, StartError> {
    let term = (&begin.birth[..], begin.epoch);
    let now = clock.sample();
    let mut renewed = now.mono;
    let mut renew = |calls: &mut dyn Calls| {
        let now = clock.sample().mono;
        if now.until(renewed) < RENEW_INTERVAL {
            return Ok(());
        }
        renewed = now;
        requests.renew(calls, term)
    };
    let restored = Engine::load_shared(calls, requests, begin, limits, now, &mut renew)?;
    requests.renew(calls, term)?;
    Ok(restored)
}
