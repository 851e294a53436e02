//! A server that waits to lead. It forwards the connections of its clients to the one that leads;
//! over plain HTTP it says itself that it waits, so that a load balancer can send clients to the
//! leader straight away. With `--engine-forward off` it only does the latter, and its other
//! listeners stay closed.

use super::addresses::{self, Asks};
use super::{Report, Seen, start};
use crate::base::limits::SHUTDOWN_TIMEOUT;
use crate::base::time::Now;
use crate::cli::serve_error::{Failure, ServeError};
use crate::cli::server_parts::ServerParts;
use crate::cli::settings::config::Config;
use crate::cli::settings::engine::EngineConfig;
use crate::engine::Engine;
use crate::protocol::http::is_served_by_standby;
use crate::reactor::{
    Background, Clock, Forwarding, Leader, Listeners, LoopWaker, Reactor, Remains, ShutdownOutcome,
};
use crate::server::Server;
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
/// this, with the listeners if they stay open, and becomes that of the one that waits.
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
    let listeners = remains.take_listeners().filter(|_| config.forwards);
    let asks = Asks { users: parts.has_users(), ..Asks::of(parts.config) };
    let places = places(config, (parts.config, asks), listeners.as_ref());
    let thread = start((config, trust, &places), limits, clock, &wake, has_led).map_err(failed)?;
    if let Some(listeners) = listeners {
        remains.set_listeners(listeners);
    }
    let mut leader = None;
    while !has_led && leader.is_none() {
        let Now { mono, .. } = clock.clone().sample();
        remains.service_manager().watch(mono);
        match thread.wait(WATCH_INTERVAL) {
            Some(Report::Ended(ended)) => {
                return ended.map(Waited::Leads).map_err(|why| failed(io::Error::other(why)));
            }
            Some(Report::Waits(seen)) => leader = Some(seen),
            None => {}
        }
    }
    let leader = leader.unwrap_or_default();
    serve_meanwhile(config, (parts, asks), clock, &wake, (remains, thread, leader))
}

/// What others are told of the listeners of this server: of those that are bound, or else of those
/// in the settings whose ports are known.
fn places(
    engine: &EngineConfig,
    (config, asks): (&Config, Asks),
    listeners: Option<&Listeners>,
) -> Box<str> {
    let (users, host) = (&config.listener_users, engine.advertise.as_deref());
    if let Some(listeners) = listeners {
        return addresses::text(listeners.addresses(), (users, asks), host);
    }
    let known = config.protocols.iter().map(|(protocol, address)| (*protocol, address));
    addresses::text(known, (users, asks), host)
}

/// Tells the loop who leads. One that is not known leaves what was known before: it may be this
/// server that has lost sight of it.
fn follow(reactor: &mut Reactor<Server>, (config, asks): (&Config, Asks), seen: &Seen) {
    reactor.core_mut().set_standby(&seen.name);
    if !seen.addresses.is_empty() || !seen.name.is_empty() {
        let listeners = config.protocols.iter().map(|(protocol, address)| (*protocol, address));
        let own = (&config.listener_users[..], asks);
        let targets = addresses::targets(&seen.addresses, listeners, own);
        reactor.set_leader(Leader { name: seen.name.as_str().into(), targets });
    }
}

fn serve_meanwhile(
    engine: &EngineConfig,
    (parts, asks): (&ServerParts<'_>, Asks),
    clock: &Clock,
    wake: &LoopWaker,
    (remains, thread, leader): (&mut Remains, Background<Report>, Seen),
) -> Result<Waited, ServeError> {
    let config = parts.config;
    let mut reactor = parts.standby_reactor(remains.take_listeners(), clock, wake)?;
    if engine.forwards {
        let (patience, max) = (engine.patience, parts.max_forwards());
        reactor.forward(Forwarding { patience, max, serves: is_served_by_standby });
        info!("waiting to lead: clients are forwarded to the server that leads");
    } else {
        info!("waiting to lead: only the HTTP listener is open, and answers 503 (standby)");
    }
    follow(&mut reactor, (config, asks), &leader);
    reactor.inherit(std::mem::take(remains));
    reactor.tell_ready("waiting to lead");
    let mut ended = None;
    let stopped = reactor.run_until(|reactor| {
        while ended.is_none()
            && let Some(report) = thread.poll()
        {
            match report {
                Report::Waits(seen) => follow(reactor, (config, asks), &seen),
                Report::Ended(result) => ended = Some(result),
            }
        }
        ended.is_some()
    })?;
    *remains = reactor.into_remains();
    if !engine.forwards {
        // That of HTTP alone: the leader opens all.
        drop(remains.take_listeners());
    }
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
