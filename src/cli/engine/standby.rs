//! A server that waits to lead: its HTTP listener says so, so that a load balancer sends clients to
//! the one that leads, and the other listeners stay closed, so that clients go to the next server.

use super::{Report, start};
use crate::base::limits::SHUTDOWN_TIMEOUT;
use crate::base::time::Now;
use crate::cli::serve_error::{Failure, ServeError};
use crate::cli::server_parts::ServerParts;
use crate::cli::settings::engine::EngineConfig;
use crate::engine::Engine;
use crate::reactor::{Background, Clock, LoopWaker, Remains, ShutdownOutcome};
use std::io;
use std::time::Duration;
use tracing::{info, warn};

/// How often the service manager hears of a start that waits for no leader yet.
const WATCH_INTERVAL: Duration = Duration::from_secs(1);

/// How a wait ends.
pub(in crate::cli) enum Waited {
    /// This server leads.
    Leads(Box<Engine>),
    /// It was told to stop before.
    Stopped(ShutdownOutcome),
}

/// Waits until this server leads. `has_led`: it has led before. `remains` is of the reactor before
/// this, and becomes that of the one that waits.
///
/// # Errors
/// What has to be mended.
pub(in crate::cli) fn wait(
    config: &EngineConfig,
    parts: &ServerParts<'_>,
    clock: &Clock,
    remains: &mut Remains,
    has_led: bool,
) -> Result<Waited, ServeError> {
    let failed = |error| ServeError { failure: Failure::Data, error };
    let (wake, limits) = (LoopWaker::default(), (parts.seed, parts.config.max_memory));
    let trust = parts.engine_trust.clone().unwrap_or_default();
    let thread = start((config, trust), limits, clock, &wake, has_led).map_err(failed)?;
    let mut leader = None;
    while !has_led && leader.is_none() {
        let Now { mono, .. } = clock.clone().sample();
        remains.service_manager().watch(mono);
        match thread.wait(WATCH_INTERVAL) {
            Some(Report::Ended(ended)) => {
                return ended.map(Waited::Leads).map_err(|why| failed(io::Error::other(why)));
            }
            Some(Report::Waits(name)) => leader = Some(name),
            None => {}
        }
    }
    serve_meanwhile(parts, clock, &wake, (remains, thread, leader.unwrap_or_default()))
}

fn serve_meanwhile(
    parts: &ServerParts<'_>,
    clock: &Clock,
    wake: &LoopWaker,
    (remains, thread, leader): (&mut Remains, Background<Report>, String),
) -> Result<Waited, ServeError> {
    let mut reactor = parts.standby_reactor(clock, wake)?;
    reactor.core_mut().set_standby(&leader);
    reactor.inherit(std::mem::take(remains));
    reactor.tell_ready("waiting to lead");
    info!("waiting to lead: only the HTTP listener is open, and answers 503 (standby)");
    let mut ended = None;
    let stopped = reactor.run_until(|server| {
        while ended.is_none()
            && let Some(report) = thread.poll()
        {
            match report {
                Report::Waits(leader) => server.set_standby(&leader),
                Report::Ended(result) => ended = Some(result),
            }
        }
        ended.is_some()
    })?;
    *remains = reactor.into_remains();
    if let Some(outcome) = stopped {
        if !thread.stop(SHUTDOWN_TIMEOUT) {
            warn!("the engine does not answer: this server ends without a word to it");
        }
        return Ok(Waited::Stopped(outcome));
    }
    let ended = ended.unwrap_or_else(|| Err("the wait to lead has ended without a result".into()));
    let failed = |why: String| ServeError { failure: Failure::Data, error: io::Error::other(why) };
    ended.map(Waited::Leads).map_err(failed)
}
