//! `jobcentre serve`: settings, data directory, engine, server and reactor are wired together.
//! `server_parts` has what each of the servers is made of that may follow each other in a process.

use super::engine::standby::{self, Waited};
use super::serve_error::{Failure, ServeError, flag_of};
use super::server_parts::ServerParts;
use super::settings::config::{Config, Options};
use super::settings::{constraint_tables, errors};
use super::{data_dir, descriptors, log, print_error};
use crate::engine::Engine;
use crate::model::driver::Protocol;
use crate::reactor::{
    Clock, LoopWaker, PassedSockets, Remains, ServiceManager, ShutdownOutcome, TimedOut,
    defer_purges, ignore_signals,
};
use clap::Args;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tracing::{error, info, warn};

/// The arguments of `serve`.
#[derive(Args, Debug)]
pub(super) struct Serve {
    #[command(flatten)]
    options: Options,

    /// A TOML file that sets what neither flags nor variables set; its keys are the flags' names.
    /// It may have tables `[[constraint]]`, which hold jobs back, and `[[user]]`, which say who may
    /// do what and are read again on SIGHUP.
    #[arg(long, value_name = "FILE", env = "JOBCENTRE_CONFIG")]
    config: Option<PathBuf>,
}

const WRONG_USAGE: u8 = 2;

impl Serve {
    /// Runs the server.
    pub(super) fn run(self) -> ExitCode {
        let file = match &self.config {
            Some(path) => match Options::from_file(path) {
                Ok(options) => options,
                Err(error) => {
                    print_error(&error);
                    return ExitCode::from(WRONG_USAGE);
                }
            },
            None => Options::default(),
        };
        // Before any other file is opened: it could get the number of a missing socket.
        let mut passed = PassedSockets::of_environment(|name| std::env::var(name).ok());
        let mut config = self.options.or(file).complete();
        let wrong = config.take_passed(&mut passed).err();
        if let Some(error) = wrong.or_else(|| wrong_settings(&config)) {
            print_error(&error);
            return ExitCode::from(WRONG_USAGE);
        }
        log::start(config.log_format, config.log_level);
        errors::warn_of_unknown_variables();
        for name in passed.left() {
            warn!(name, "systemd has passed on a socket that no listener uses (fd:NAME)");
        }
        if let Err(error) = ignore_signals() {
            warn!(%error, "SIGHUP, SIGUSR1, SIGUSR2 and SIGALRM would end this server");
        }
        run_server(&config, self.config.as_deref())
            .map_or(ExitCode::FAILURE, |()| ExitCode::SUCCESS)
    }
}

/// Runs the server to its end, and logs what comes of it. `file`: the settings file, which is read
/// once more on SIGHUP.
///
/// # Errors
/// What has failed; the log says why.
pub(super) fn run_server(config: &Config, file: Option<&Path>) -> Result<(), Failure> {
    match serve(config, file) {
        Ok((outcome, true)) => {
            log_outcome(outcome);
            Ok(())
        }
        Ok((_, false)) => {
            error!("stopped because stdin or stdout failed");
            Err(Failure::Other)
        }
        Err(ServeError { failure, error }) => {
            error!("{}", descriptors::explain(&error));
            Err(failure)
        }
    }
}

/// Runs the server. Returns how it was shut down, and whether stdin and stdout worked to the end.
///
/// A server that shares its engine first waits to lead, and does so again when it leads no more.
fn serve(config: &Config, file: Option<&Path>) -> Result<(ShutdownOutcome, bool), ServeError> {
    defer_purges();
    let parts = ServerParts::prepare(config, file)?;
    let mut clock = Clock::start();
    let manager = ServiceManager::of_environment(|name| std::env::var(name).ok());
    let mut remains = Remains::new(manager);
    let mut has_led = false;
    let forwards = config.engine.as_ref().is_some_and(|engine| engine.forwards);
    if forwards {
        warn_of_open_listeners(config);
        remains.set_listeners(parts.listeners()?);
    }
    loop {
        let wake = LoopWaker::default();
        let engine = match &config.engine {
            Some(shared) => match standby::wait(shared, &parts, &clock, &mut remains, has_led)? {
                Waited::Leads(engine) => *engine,
                Waited::Stopped(outcome) => return Ok((outcome, true)),
            },
            None => open_engine(config, parts.seed, &mut clock, remains.service_manager(), &wake)?,
        };
        let mut engine = parts.with_limits(engine, &wake);
        let mut pump = parts.pump();
        constraint_tables::apply(&mut engine, &mut pump, &config.constraints, || clock.sample())?;
        let mut reactor = parts.reactor(engine, remains.take_listeners(), &clock, &wake)?;
        if !forwards {
            warn_of_open_listeners(config);
        }
        if config.processor {
            reactor.add_stdio(Protocol::Processor)?;
        }
        log_limits(config, parts.max_clients());
        reactor.inherit(remains);
        reactor.tell_ready("serving");
        let outcome = match reactor.run() {
            // Its stdin could not be opened again.
            Err(error) if reactor.core().has_lost_lead() && !config.processor => {
                warn!("{error}");
                if reactor.is_stopping() {
                    return Ok((ShutdownOutcome::LostLead, true));
                }
                remains = reactor.into_remains();
                has_led = true;
                continue;
            }
            outcome => outcome?,
        };
        if let Some(status) = reactor.core().journal_status() {
            data_dir::log_stats(&status);
        }
        return Ok((outcome, !reactor.has_stdio_failed()));
    }
}

fn log_limits(config: &Config, max_clients: usize) {
    let max_memory = config.max_memory.map_or_else(|| "none".to_owned(), |max| max.to_string());
    info!(max_memory, "limit on memory");
    info!(
        version = env!("CARGO_PKG_VERSION"),
        max_clients,
        max_request = config.max_request,
        "serving"
    );
}

/// An engine of this server alone: empty, or with the jobs of the data directory.
fn open_engine(
    config: &Config,
    seed: u64,
    clock: &mut Clock,
    manager: &mut ServiceManager,
    wake: &LoopWaker,
) -> Result<Engine, ServeError> {
    if let Some(dir) = &config.data {
        let limits = (config.fsync, config.max_memory);
        data_dir::open(dir, limits, seed, clock, manager, wake)
            .map_err(|error| ServeError { failure: Failure::Data, error })
    } else {
        info!("jobs live in memory only (--data DIR keeps them)");
        Ok(Engine::in_memory(seed))
    }
}

/// What is wrong with settings that do not fit each other, or name users and files that cannot be.
pub(super) fn wrong_settings(config: &Config) -> Option<String> {
    let engine_error = |flag: &str| {
        format!("{flag} has no use without --engine: without it jobs are not kept in Redis")
    };
    let wrong = (config.protocols.is_empty() && !config.processor).then(|| {
        "every protocol is off: give --listen, --pinpriq, --http or --beanstalkd an address, or \
         --processor"
            .to_owned()
    });
    let two_places = || {
        (config.data.is_some() && config.engine.is_some())
            .then(|| "jobs are kept in one place: give --data or --engine, not both".to_owned())
    };
    let no_directory = || {
        config.data.as_ref().filter(|dir| dir.as_os_str().is_empty()).map(|_| {
            "--data is empty: name a directory, or leave it out to keep jobs in memory".to_owned()
        })
    };
    wrong
        .or_else(two_places)
        .or_else(no_directory)
        .or_else(|| config.wrong_listener())
        .or_else(|| config.stray_engine_setting.map(engine_error))
        .or_else(|| config.engine.as_ref()?.check().err())
        .or_else(|| config.tls_files().err())
        .or_else(|| config.compiled_users().err())
        .or_else(|| refuse_open_listeners(config))
}

/// The error about listeners that other machines reach without being asked who they are.
pub(super) fn refuse_open_listeners(config: &Config) -> Option<String> {
    let (protocol, address) = config.open_listeners().next().filter(|_| !config.allow_anyone)?;
    Some(format!(
        "{} {address} is open to other machines, and every client that connects could take and \
         delete every job: add users ([[user]] in the settings file), ask for certificates (tls: \
         with --tls-client-ca), listen on 127.0.0.1 or a file, or say --allow-anyone",
        flag_of(*protocol)
    ))
}

/// Warns of listeners that are open to other machines because that is permitted.
fn warn_of_open_listeners(config: &Config) {
    for address in config.readable_listeners() {
        warn!(
            %address,
            "tokens travel over this listener as they are, and can be read on the way: give it TLS \
             (tls: before its address)"
        );
    }
    // The program in place of beanstalkd listens as that does.
    for (_, address) in config.open_listeners().filter(|_| !config.as_beanstalkd) {
        warn!(
            %address,
            "open to other machines, and there is no authentication (--allow-anyone): every \
             client that connects can take and delete every job"
        );
    }
}

fn log_outcome(outcome: ShutdownOutcome) {
    match outcome {
        ShutdownOutcome::Graceful { unread: 0 } => {
            info!("stopped: everything received was answered");
        }
        ShutdownOutcome::Graceful { unread } => info!(
            unread,
            "stopped: everything received was answered, and bytes that clients sent after that \
             were not read"
        ),
        ShutdownOutcome::TimedOut(TimedOut { clients: 0, unsent: 0, sending: 0, calls }) => warn!(
            calls,
            "stopped: every client was answered; workers did not answer their calls in time"
        ),
        ShutdownOutcome::TimedOut(TimedOut { clients: 0, unsent: 0, sending, calls }) => warn!(
            sending,
            calls,
            "stopped: every client was answered; some went on sending, and may not have received \
             the end of it"
        ),
        ShutdownOutcome::TimedOut(TimedOut { clients, unsent, sending, calls }) => warn!(
            clients,
            unsent_bytes = unsent,
            sending,
            calls,
            "stopped: some clients did not take their answers in time"
        ),
        ShutdownOutcome::Forced => warn!("stopped at once"),
        ShutdownOutcome::LostLead => warn!(
            "stopped: another server leads by now; what clients asked last may be done or not"
        ),
    }
}
