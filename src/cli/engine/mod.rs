//! A shared engine (`--engine`): reached, led once no other server leads, read, and handed to the
//! server. All that blocks, so it has a thread; `standby` has the loop that serves meanwhile.

mod addresses;
mod arguments;
mod check;
mod command;
mod connection;
mod export;
mod follow;
mod import;
mod pump;
mod reach;
pub(super) mod standby;
mod status;
mod takeover;

use super::entropy;
use super::settings::engine::EngineConfig;
use crate::engine::Engine;
use crate::engine::shared::Settings;
use crate::engine::shared::redis::{CallError, Calls, Locator, Requests, StartError};
use crate::reactor::{Background, Clock, Foreground, LoopWaker, TrustStore};
pub(super) use command::EngineCommand;
use connection::Connection;
pub(super) use pump::Pump;
use std::io;
use std::time::Duration;
use tracing::warn;

/// The longest pause between two looks at who leads, and between two attempts to connect.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

impl From<String> for StartError {
    fn from(why: String) -> Self {
        Self::Fatal(why)
    }
}

/// What this server is to the engine. `addresses`: where its clients connect.
///
/// # Errors
/// A sentence about a password.
fn settings(config: &EngineConfig, addresses: &str) -> Result<Settings, String> {
    let name = config.name.clone().unwrap_or_else(|| {
        let host = rustix::system::uname();
        format!("{}:{}", host.nodename().to_string_lossy(), std::process::id()).into()
    });
    let (address, server) = (config.url.address.clone(), entropy::random_u64().to_be_bytes());
    Ok(Settings {
        login: config.node_login()?,
        sentinel_login: config.sentinel_login()?,
        database: config.url.database,
        prefix: config.prefix.clone(),
        lease: config.lease,
        patience: config.patience,
        hand_over: config.hand_over,
        wait: config.wait,
        addresses: addresses.into(),
        ..Settings::new(address, server, &name)
    })
}

/// The server that leads, as others see it. The default one is not known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Seen {
    name: String,
    /// Where its clients connect: see `addresses`.
    addresses: String,
}

/// What a server that is about to lead, or waits to, reports meanwhile.
pub(super) enum Report {
    /// It waits while this server leads.
    Waits(Seen),
    /// It leads, or something has to be mended: a sentence.
    Ended(Result<Box<Engine>, String>),
}

/// A server that is about to lead, or waits to. It blocks, so it has a thread.
struct Start {
    settings: Settings,
    requests: Requests,
    locator: Locator,
    trust: TrustStore,
    seed: u64,
    max_memory: Option<u64>,
    clock: Clock,
    main: Foreground<Report>,
    /// The node was reached once.
    was_reached: bool,
    /// Another server has led while this one was connected.
    has_waited: bool,
    /// Who leads, as was reported.
    leader: Option<Seen>,
    /// Names the jobs that were there when it was reached first.
    birth: Option<Vec<u8>>,
}

/// Starts a thread that waits until this server leads, and reads all records. `was_reached`: an
/// engine that is not there is waited for.
///
/// # Errors
/// A sentence for the operator.
pub(super) fn start(
    (config, trust, addresses): (&EngineConfig, TrustStore, &str),
    (seed, max_memory): (u64, Option<u64>),
    clock: &Clock,
    wake: &LoopWaker,
    was_reached: bool,
) -> io::Result<Background<Report>> {
    let settings = settings(config, addresses).map_err(io::Error::other)?;
    let requests = Requests::new(&settings);
    let clock = clock.clone();
    Background::start("start", wake, move |main| {
        let (leader, locator) = (None, Locator::new(settings.address.clone()));
        let mut start = Start {
            settings,
            requests,
            locator,
            trust,
            seed,
            max_memory,
            clock,
            main,
            was_reached,
            has_waited: false,
            leader,
            birth: None,
        };
        if let Some(ended) = start.run() {
            start.main.report(Report::Ended(ended.map(Box::new)));
        }
    })
}

/// A connection on which nothing is asked any more once the thread is to stop.
struct Stoppable<'a> {
    connection: Connection,
    main: &'a Foreground<Report>,
}

impl Calls for Stoppable<'_> {
    fn send(&mut self, request: &[u8]) -> Result<(), CallError> {
        if self.main.is_stopped() {
            return Err(CallError("the server stops".to_owned()));
        }
        self.connection.send(request)
    }

    fn receive(&mut self) -> Result<Vec<u8>, CallError> {
        self.connection.receive()
    }
}

impl Start {
    /// Tries until it leads, or something has to be mended. `None`: it was stopped.
    fn run(&mut self) -> Option<Result<Engine, String>> {
        let begun = self.clock.sample().mono;
        let node = format!("the engine at {}", self.settings.address);
        let mut is_logged = false;
        while !self.main.is_stopped() {
            match self.attempt() {
                Ok(engine) => return Some(Ok(engine)),
                Err(_) if self.main.is_stopped() => {}
                Err(StartError::Fatal(why)) => return Some(Err(format!("{node}: {why}"))),
                Err(StartError::Fenced(name)) => {
                    warn!(leader = name, "another server has taken the lead during the start");
                }
                Err(StartError::Passing(why)) => {
                    let waited = self.clock.sample().mono.until(begun);
                    if !self.was_reached && waited >= self.settings.patience {
                        return Some(Err(format!("{node} cannot be used: {why}")));
                    }
                    if !std::mem::replace(&mut is_logged, true) {
                        warn!(why, "{node} cannot be used now: trying again");
                    }
                    let unknown = Seen::default();
                    if self.was_reached && self.leader.as_ref() != Some(&unknown) {
                        self.leader = Some(unknown.clone());
                        self.main.report(Report::Waits(unknown));
                    }
                }
            }
            self.main.pause(LOOK_INTERVAL.min(self.settings.patience / 4));
        }
        None
    }
}
