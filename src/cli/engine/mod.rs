//! A shared engine (`--engine`): reached, led once no other server leads, read, and handed to the
//! server. Until then everything blocks: there is no loop yet.

mod connection;
mod pump;
mod status;

use super::bench::seconds;
use super::entropy;
use super::settings::engine::EngineConfig;
use crate::base::time::Now;
use crate::engine::Engine;
use crate::engine::shared::redis::{self, Lead, Requests, StartError};
use crate::engine::shared::{Begin, Leader, Settings};
use crate::reactor::{Clock, ServiceManager};
use connection::Connection;
pub(super) use pump::Pump;
pub(super) use status::EngineCommand;
use std::io;
use std::thread::sleep;
use std::time::Duration;
use tracing::{info, warn};

/// The longest pause between two looks at who leads, and between two attempts to connect.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// The pause after a lease is over: so that not all servers try at once.
const CHANCE_MS: u64 = 100;

/// The lease is renewed so often while records are read.
const RENEW_INTERVAL: Duration = Duration::from_millis(150);

impl From<String> for StartError {
    fn from(why: String) -> Self {
        Self::Fatal(why)
    }
}

/// What this server is to the engine.
///
/// # Errors
/// A sentence about the password.
fn settings(config: &EngineConfig) -> Result<Settings, String> {
    let name = config.name.clone().unwrap_or_else(|| {
        let host = rustix::system::uname();
        format!("{}:{}", host.nodename().to_string_lossy(), std::process::id()).into()
    });
    Ok(Settings {
        target: config.url.target.clone(),
        user: config.url.user.clone(),
        password: config.password()?,
        database: config.url.database,
        prefix: config.prefix.clone(),
        lease: config.lease,
        patience: config.patience,
        server: entropy::random_u64().to_be_bytes(),
        name,
    })
}

/// A server that is about to lead, or waits to.
struct Start<'a> {
    settings: Settings,
    requests: Requests,
    seed: u64,
    max_memory: Option<u64>,
    clock: &'a mut Clock,
    manager: &'a mut ServiceManager,
    /// The node was reached once.
    was_reached: bool,
    /// Who leads, as was logged.
    leader: Option<String>,
}

/// Waits until this server leads, and reads all records.
///
/// # Errors
/// A sentence for the operator.
pub(super) fn open(
    config: &EngineConfig,
    (seed, max_memory): (u64, Option<u64>),
    clock: &mut Clock,
    manager: &mut ServiceManager,
) -> io::Result<Engine> {
    let settings = settings(config).map_err(io::Error::other)?;
    let requests = Requests::new(&settings);
    let (was_reached, leader) = (false, None);
    let mut start =
        Start { settings, requests, seed, max_memory, clock, manager, was_reached, leader };
    start.run().map_err(io::Error::other)
}

impl Start<'_> {
    /// Tries until it leads, or something has to be mended.
    fn run(&mut self) -> Result<Engine, String> {
        let begun = self.clock.sample().mono;
        let target = self.settings.target.clone();
        let node = format!("the engine at {}:{}", target.host, target.port);
        let mut is_logged = false;
        loop {
            match self.attempt() {
                Ok(engine) => return Ok(engine),
                Err(StartError::Fatal(why)) => return Err(format!("{node}: {why}")),
                Err(StartError::Fenced(name)) => {
                    warn!(leader = name, "another server has taken the lead during the start");
                }
                Err(StartError::Passing(why)) => {
                    let waited = self.clock.sample().mono.until(begun);
                    if !self.was_reached && waited >= self.settings.patience {
                        return Err(format!("{node} cannot be used: {why}"));
                    }
                    if !std::mem::replace(&mut is_logged, true) {
                        warn!(why, "{node} cannot be used now: trying again");
                    }
                }
            }
            self.pause(LOOK_INTERVAL.min(self.settings.patience / 4));
        }
    }

    /// One connection: from its begin until this server leads and has read everything.
    fn attempt(&mut self) -> Result<Engine, StartError> {
        let mut connection = Connection::open(&self.settings.target)?;
        connection.log_in(self.requests.login())?;
        let warnings = redis::check_node(&mut connection)?;
        if !std::mem::replace(&mut self.was_reached, true) {
            for warning in warnings {
                warn!("{warning}");
            }
        }
        let birth = redis::init(&mut connection, &self.requests, entropy::random_u64())?;
        let begin = self.take_lead(&mut connection, birth)?;
        let from = self.clock.sample().mono;
        let term = (&begin.birth[..], begin.epoch);
        let loaded = redis::load(&mut connection, &self.requests, term)?;
        let now = self.clock.sample();
        let mut renewed = now.mono;
        let seeds = (self.seed, self.max_memory);
        let mut renew = || {
            let now = self.clock.sample().mono;
            if now.until(renewed) < RENEW_INTERVAL {
                return Ok(());
            }
            renewed = now;
            self.requests.renew(&mut connection, term)
        };
        let restored = Engine::restore_shared(&loaded, begin.mark, seeds, now, &mut renew)?;
        self.requests.renew(&mut connection, term)?;
        let took = self.clock.sample().mono.0 - from.0;
        info!(
            epoch = begin.epoch,
            jobs = restored.counts().jobs,
            records = loaded.len(),
            bytes = loaded.bytes(),
            seconds = seconds(took / 1_000_000 * 1_000_000),
            name = &*self.settings.name,
            "this server leads"
        );
        Ok(Engine::leading(restored, Leader::new(self.settings.clone(), begin)))
    }

    /// Waits until no other server leads.
    fn take_lead(
        &mut self,
        connection: &mut Connection,
        birth: Vec<u8>,
    ) -> Result<Begin, StartError> {
        loop {
            match redis::lead(connection, &self.requests, &birth)? {
                Lead::Led { epoch, seq, mark } => return Ok(Begin { birth, epoch, seq, mark }),
                Lead::Held { name, for_ms } => {
                    if self.leader.as_ref() != Some(&name) {
                        info!(leader = name, "another server leads: waiting to take over");
                        self.manager.ready("waiting to lead");
                        self.leader = Some(name);
                    }
                    redis::register(connection, &self.requests)?;
                    let rest = Duration::from_millis(for_ms + entropy::random_u64() % CHANCE_MS);
                    self.pause(rest.min(LOOK_INTERVAL));
                }
            }
        }
    }

    #[expect(clippy::disallowed_methods, reason = "there is no loop yet")]
    fn pause(&mut self, time: Duration) {
        sleep(time);
        let Now { mono, .. } = self.clock.sample();
        self.manager.watch(mono);
    }
}
