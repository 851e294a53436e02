//! `jobcentre serve`: settings, data directory, engine, server and reactor are wired together.

use super::machine_memory::machine_memory;
use super::settings::config::{Config, Options};
use super::settings::listen_addr::explain_bind_error;
use super::settings::{constraint_tables, errors, processor};
use super::{data_dir, descriptors, engine, entropy, log, print_error, reload};
use crate::base::time::Now;
use crate::engine::Engine;
use crate::model::driver::Protocol;
use crate::protocol::beanstalkd::Identity;
use crate::query::value_max;
use crate::reactor::query_threads::QueryThreads;
use crate::reactor::{
    CannotListen, Clock, LoopWaker, PassedSockets, Reactor, ServerTls, ServiceManager,
    ShutdownOutcome, TimedOut, TrustStore, defer_purges, ignore_signals,
};
use crate::server::{ConnectionLimits, Server, Settings};
use clap::Args;
use std::io;
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
        if config.protocols.is_empty() && !config.processor {
            print_error(
                "every protocol is off: give --listen, --pinpriq, --http or --beanstalkd an \
                 address, or --processor",
            );
            return ExitCode::from(WRONG_USAGE);
        }
        let wrong = (config.data.is_some() && config.engine.is_some())
            .then(|| "jobs are kept in one place: give --data or --engine, not both".to_owned());
        let wrong = wrong.or_else(|| config.take_passed(&mut passed).err());
        let wrong = wrong.or_else(|| config.tls_files().err());
        let wrong = wrong.or_else(|| config.compiled_users().err());
        let wrong = wrong.or_else(|| refuse_open_listeners(&config));
        if let Some(error) = wrong {
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

/// What has kept a server from running, or ended it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// The data directory cannot be used.
    Data,
    /// An address cannot be listened on.
    Listen,
    /// Anything else.
    Other,
}

#[derive(Debug)]
struct ServeError {
    failure: Failure,
    error: io::Error,
}

impl From<io::Error> for ServeError {
    fn from(error: io::Error) -> Self {
        Self { failure: Failure::Other, error }
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
fn serve(config: &Config, file: Option<&Path>) -> Result<(ShutdownOutcome, bool), ServeError> {
    defer_purges();
    let trust = config.worker_ca.as_deref().map(read_trust).transpose()?;
    let tls = config.tls_files().map_err(io::Error::other)?;
    let shares = descriptors::reserve_descriptors_for_clients(config.max_clients, tls.is_some());
    let max_clients = shares.clients;
    let processor = processor::settings(config.tick, |name| std::env::var(name));
    let processor = processor.map_err(io::Error::other)?;
    let settings = Settings {
        max_request: config.max_request,
        max_clients,
        max_memory: config.max_memory.or_else(machine_memory),
    };
    let mut manager = ServiceManager::of_environment(|name| std::env::var(name).ok());
    let seed = entropy::random_u64();
    let (mut clock, wake) = (Clock::start(), LoopWaker::default());
    let engine = open_engine(config, seed, &mut clock, &mut manager, &wake)?;
    let queries = QueryThreads::new(value_max(config.max_request), &wake);
    let mut engine = engine
        .with_queries(Box::new(queries), config.query_timeout)
        .with_memory_limit(config.max_memory);
    constraint_tables::apply(&mut engine, &config.constraints, || clock.sample())?;
    let server = Server::new(settings, engine)
        .with_result_ttl(config.result_ttl)
        .with_http_names(config.http_names.clone())
        .with_ui(config.ui.clone())
        .with_secret(entropy::secret().map_err(io::Error::other)?)
        .with_worker_net(config.worker_net())
        .with_body_limit(config.beanstalkd_max_job_size)
        .with_identity(identity())
        .with_processor(processor)
        .with_connection_limits(ConnectionLimits {
            outbound: shares.outbound,
            rejected: shares.rejected,
        });
    let server = with_users(server, config, clock.sample())?;
    let tls = tls.map(|files| ServerTls::load(files, clock.sample())).transpose();
    let tls = tls.map_err(io::Error::other)?;
    let mut reactor = Reactor::bind_with(server, &config.protocols, &config.passed, clock, &wake)
        .map_err(|error| explain_reactor_error(&error, config.as_beanstalkd))?;
    reactor.set_lingering_max(shares.lingering);
    reactor.set_handshakes_max(shares.handshakes);
    if max_clients < config.max_clients {
        reactor.set_lacks_descriptors();
    }
    warn_of_open_listeners(config);
    if config.processor {
        reactor.add_stdio(Protocol::Processor)?;
    }
    if let Some(file) = file {
        reactor.set_reload(reload::reload_users(file, config));
    }
    if let Some(trust) = trust {
        reactor.set_trust(trust);
    }
    reactor.set_permitted_addresses(config.worker_net());
    if let Some(tls) = tls {
        reactor.set_server_tls(tls);
    }
    log_limits(config, max_clients);
    manager.ready("serving");
    reactor.set_service_manager(manager);
    let outcome = reactor.run()?;
    if let Some(status) = reactor.core().journal_status() {
        data_dir::log_stats(&status);
    }
    Ok((outcome, !reactor.has_stdio_failed()))
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

/// The same server, with the users of the settings.
fn with_users(server: Server, config: &Config, now: Now) -> io::Result<Server> {
    let mut server = server.with_listener_users(config.listener_users.clone());
    if let Some(users) = config.compiled_users().map_err(io::Error::other)? {
        server.set_users(users, now);
    }
    Ok(server)
}

/// The engine: empty, or with the jobs of the data directory.
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
    } else if let Some(shared) = &config.engine {
        engine::open(shared, (seed, config.max_memory), clock, manager)
            .map_err(|error| ServeError { failure: Failure::Data, error })
    } else {
        info!("jobs live in memory only (--data DIR keeps them)");
        Ok(Engine::in_memory(seed))
    }
}

/// What the process and its machine are called.
fn identity() -> Identity {
    let system = rustix::system::uname();
    let text = |text: &std::ffi::CStr| text.to_string_lossy().into();
    Identity {
        pid: std::process::id(),
        start: entropy::random_u64(),
        hostname: text(system.nodename()),
        os: text(system.version()),
        platform: text(system.machine()),
    }
}

/// Adds to the error of a listener the flag that sets its address, and what to do.
fn explain_reactor_error(error: &io::Error, as_beanstalkd: bool) -> ServeError {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<CannotListen>());
    let failure = inner.map_or(Failure::Other, |_| Failure::Listen);
    let text = match inner {
        Some(cannot) if as_beanstalkd => format!("{cannot} (-l and -p)"),
        Some(CannotListen { protocol, address, error }) => {
            explain_bind_error(address, flag_of(*protocol), true, error)
        }
        None => descriptors::explain(error),
    };
    ServeError { failure, error: io::Error::new(error.kind(), text) }
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

/// The flag with the address of a listener.
fn flag_of(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::JobCentre => "--listen",
        Protocol::Pinpriq => "--pinpriq",
        Protocol::Http => "--http",
        Protocol::Processor => "--processor",
        Protocol::Beanstalkd => "--beanstalkd",
    }
}

/// The trust store with the certificates of `--worker-ca`.
fn read_trust(path: &Path) -> io::Result<TrustStore> {
    let explain = |kind, reason: String| {
        io::Error::new(kind, format!("--worker-ca {}: {reason}", path.display()))
    };
    let pem = std::fs::read(path)
        .map_err(|error| explain(error.kind(), format!("cannot be read: {error}")))?;
    TrustStore::with(&pem).map_err(|reason| explain(io::ErrorKind::InvalidData, reason))
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
    }
}
