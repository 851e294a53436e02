//! A shared engine (`--engine`): reached, led once no other server leads, read, and handed to the
//! server. All that blocks, so it has a thread; `standby` has the loop that serves meanwhile.

mod arguments;
mod check;
mod command;
mod connection;
mod export;
mod import;
mod pump;
mod reach;
pub(super) mod standby;
mod status;

use super::bench::seconds;
use super::entropy;
use super::settings::engine::EngineConfig;
use crate::engine::shared::redis::{self, CallError, Calls, Lead, Locator, Requests, StartError};
use crate::engine::shared::{Begin, Leader, Settings};
use crate::engine::{Engine, RestoredShared};
use crate::reactor::{Background, Clock, Foreground, LoopWaker, TrustStore};
pub(super) use command::EngineCommand;
use connection::Connection;
pub(super) use pump::Pump;
use std::io;
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
        address: config.url.address.clone(),
        user: config.url.user.clone(),
        password: config.password()?,
        database: config.url.database,
        prefix: config.prefix.clone(),
        lease: config.lease,
        patience: config.patience,
        wait: config.wait,
        server: entropy::random_u64().to_be_bytes(),
        name,
    })
}

/// What a server that is about to lead, or waits to, reports meanwhile.
pub(super) enum Report {
    /// It waits: the name of the server that leads, or an empty text if that is not known.
    Waits(String),
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
    leader: Option<String>,
    /// Names the jobs that were there when it was reached first.
    birth: Option<Vec<u8>>,
}

/// Starts a thread that waits until this server leads, and reads all records. `was_reached`: an
/// engine that is not there is waited for.
///
/// # Errors
/// A sentence for the operator.
pub(super) fn start(
    (config, trust): (&EngineConfig, TrustStore),
    (seed, max_memory): (u64, Option<u64>),
    clock: &Clock,
    wake: &LoopWaker,
    was_reached: bool,
) -> io::Result<Background<Report>> {
    let settings = settings(config).map_err(io::Error::other)?;
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
                    if self.was_reached && self.leader.as_deref() != Some("") {
                        self.leader = Some(String::new());
                        self.main.report(Report::Waits(String::new()));
                    }
                }
            }
            self.main.pause(LOOK_INTERVAL.min(self.settings.patience / 4));
        }
        None
    }

    /// One connection: from its begin until this server leads and has read everything.
    fn attempt(&mut self) -> Result<Engine, StartError> {
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
        let begin = self.take_lead(&mut connection, birth)?;
        let from = self.clock.sample().mono;
        let mut calls = Stoppable { connection, main: &self.main };
        let limits = (self.seed, self.max_memory);
        let restored = load(&mut calls, &self.requests, &begin, limits, &mut self.clock);
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
        if self.has_waited {
            // The leader has lost its connection, too, if the primary was replaced: it has the
            // writes that the new one lacks, and leads on if it comes first.
            redis::register(connection, &self.requests)?;
            self.main.pause(self.settings.lease);
        }
        while !self.main.is_stopped() {
            match redis::lead(connection, &self.requests, &birth)? {
                Lead::Led { epoch, seq, mark } => return Ok(Begin { birth, epoch, seq, mark }),
                Lead::Held { name, for_ms } => {
                    self.has_waited = true;
                    if self.leader.as_ref() != Some(&name) {
                        info!(leader = name, "another server leads: waiting to take over");
                        self.main.report(Report::Waits(name.clone()));
                        self.leader = Some(name);
                    }
                    redis::register(connection, &self.requests)?;
                    let rest = Duration::from_millis(for_ms + entropy::random_u64() % CHANCE_MS);
                    self.main.pause(rest.min(LOOK_INTERVAL));
                }
            }
        }
        Err(StartError::Passing("the server stops".to_owned()))
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
