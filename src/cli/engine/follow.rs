//! A server that waits follows a leader that is about to end, until it has read all records and the
//! leader leads no more.

use super::Start;
use super::connection::Connection;
use super::takeover::RENEW_INTERVAL;
use crate::engine::shared::redis::{self, Calls, StartError};
use crate::engine::{Follower, Step};
use std::time::Duration;
use tracing::info;

/// How often a server that has everything asks whether the leader has ended.
const READY_INTERVAL: Duration = Duration::from_millis(2);

/// How often a server says that it waits.
const REGISTER_INTERVAL: Duration = Duration::from_secs(1);

impl Start {
    /// Returns what can lead now. `None`: another server follows, or there is nothing to follow any
    /// more.
    pub(super) fn follow(
        &mut self,
        connection: &mut Connection,
        birth: &[u8],
    ) -> Result<Option<Follower>, StartError> {
        let mut follower = Follower::new(birth, (self.seed, self.max_memory));
        let mut registered = self.clock.sample().mono;
        let mut clock = self.clock.clone();
        let (mut renewed, mut is_told) = (registered, false);
        let mut renew = |calls: &mut dyn Calls, request: &[u8]| {
            let now = clock.sample().mono;
            if now.until(renewed) < RENEW_INTERVAL {
                return Ok(());
            }
            renewed = now;
            calls.call(request)?;
            Ok(())
        };
        while !self.main.is_stopped() {
            let now = self.clock.sample();
            if now.mono.until(registered) >= REGISTER_INTERVAL {
                registered = now.mono;
                redis::register(connection, &self.requests)?;
            }
            match follower.step(connection, &self.requests, now, &mut renew)? {
                Step::Lost => return Ok(None),
                Step::Behind => {}
                Step::Current { led_ms: 0 } => return Ok(Some(follower)),
                Step::Current { .. } => self.main.pause(READY_INTERVAL),
            }
            if !std::mem::replace(&mut is_told, true) {
                info!("the leader is about to end: reading its jobs, to lead next");
            }
        }
        let _ = redis::leave(connection, &self.requests);
        Err(StartError::Passing("the server stops".to_owned()))
    }
}
