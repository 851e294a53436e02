//! `jobcentre work`: the reference worker of LightJQ, for commands.
//!
//! A client program with blocking threads: one that accepts connections from the server, one for
//! each connection, two for each running job, and the main one, which keeps the worker registered.
//! They share a [`WorkerState`]. Connections, running jobs and input are bounded.

mod args;
mod guard;
mod http_connection;
mod http_server;
mod job;
mod run;
mod server_client;
mod worker_state;

use super::{log, print_error};
use crate::base::strings::StringList;
use crate::model::worker::{Worker, WorkerId};
pub(super) use args::Work;
use args::WorkSettings;
pub(super) use guard::Guard;
use server_client::{KeepAlive, RegisterError, ServerClient};
use signal_hook::consts::{SIGALRM, SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::low_level::pipe;
use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use tracing::{error, info, warn};
use worker_state::{NextAction, WorkerState};

const WRONG_USAGE: u8 = 2;

/// The backoff between attempts to register: the first, and the longest.
const REGISTER_BACKOFF_MIN: Duration = Duration::from_millis(500);
const REGISTER_BACKOFF_MAX: Duration = Duration::from_secs(10);

/// The interval in which an idle worker checks its registration, short enough that the server keeps
/// the connection open.
const CHECK_PERIOD: Duration = Duration::from_secs(15);

/// How long the threads of killed commands may take to end.
const KILL_TIMEOUT: Duration = Duration::from_secs(2);

/// What the threads share.
struct WorkerContext {
    settings: WorkSettings,
    /// The registered URL of this worker.
    url: String,
    /// The path to which the server sends jobs.
    path: String,
    server: ServerClient,
    state: Arc<WorkerState>,
}

impl Work {
    /// Works until a signal ends it.
    pub(super) fn run(self) -> ExitCode {
        let settings = match self.settings() {
            Ok(settings) => settings,
            Err(error) => {
                print_error(&error);
                return ExitCode::from(WRONG_USAGE);
            }
        };
        log::start(settings.log.0, settings.log.1);
        match work(settings) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                error!("{error}");
                ExitCode::FAILURE
            }
        }
    }
}

fn work(settings: WorkSettings) -> Result<(), String> {
    let system = |error: io::Error| format!("the system refuses: {error}");
    let listener = http_server::listen(settings.listen)?;
    let address = listener.local_addr().map_err(system)?;
    let url = settings.advertise.clone().unwrap_or_else(|| format!("http://{address}"));
    let path = crate::wire::url::parse(&url).map_err(|why| format!("{url}: {why}"))?.base;
    let state = WorkerState::new(settings.max_jobs).map_err(system)?;
    handle_signals(&state).map_err(system)?;
    let server = ServerClient::new(settings.url.clone(), settings.token.clone());
    let path = format!("{path}/worker-job");
    let context = Arc::new(WorkerContext { settings, url, path, server, state });
    info!(%address, url = context.url, max_jobs = context.settings.max_jobs, "listening");
    let serving = Arc::clone(&context);
    thread::Builder::new()
        .name("protocol".to_owned())
        .spawn(move || http_server::accept_connections(&listener, &serving))
        .map_err(system)?;
    let result = keep_registered(&context);
    shut_down(&context);
    result
}

/// The first signal stops the worker, the second one kills its commands. SIGHUP counts as one: the
/// terminal of the worker was closed.
fn handle_signals(state: &Arc<WorkerState>) -> io::Result<()> {
    let (mut receiver, signal) = UnixStream::pair()?;
    for number in [SIGTERM, SIGINT, SIGHUP] {
        pipe::register(number, signal.try_clone()?)?;
    }
    ignore_signals()?;
    let state = Arc::clone(state);
    thread::Builder::new().name("signals".to_owned()).spawn(move || {
        while receiver.read_exact(&mut [0]).is_ok() && !state.stop() {}
        warn!("second signal: running commands are killed");
        state.cancel_all();
        // The main thread may wait for a server that does not answer: the process exits after a
        // third signal or a timeout.
        let _ = receiver.set_read_timeout(Some(2 * KILL_TIMEOUT));
        let _ = receiver.read(&mut [0]);
        #[expect(clippy::disallowed_methods, reason = "the main thread may be blocked")]
        std::process::exit(1);
    })?;
    Ok(())
}

/// Logs the signals that have no meaning for a worker, once a second at most; by default they would
/// end it.
fn ignore_signals() -> io::Result<()> {
    let (mut receiver, signal) = UnixStream::pair()?;
    for number in [SIGUSR1, SIGUSR2, SIGALRM] {
        pipe::register(number, signal.try_clone()?)?;
    }
    thread::Builder::new().name("ignored".to_owned()).spawn(move || {
        while receiver.read(&mut [0; 1024]).is_ok_and(|count| count > 0) {
            info!("SIGUSR1, SIGUSR2 and SIGALRM are ignored: SIGTERM stops the worker");
            #[expect(clippy::disallowed_methods, reason = "this thread has nothing else to do")]
            thread::sleep(Duration::from_secs(1));
        }
    })?;
    Ok(())
}

/// Keeps the worker registered until it stops.
///
/// # Errors
/// The server rejects the registration for good.
fn keep_registered(context: &WorkerContext) -> Result<(), String> {
    let mut connection = None;
    loop {
        match (context.state.next_action(CHECK_PERIOD), &mut connection) {
            (NextAction::Stop, _) => return Ok(()),
            (NextAction::Check { worker, suspect }, Some(connection)) => {
                check_registration(context, connection, worker, suspect);
            }
            (NextAction::Check { .. } | NextAction::Register, _) => connection = register(context)?,
        }
    }
}

/// Registers the worker, with retries. `None`: it is stopped before that succeeds.
fn register(context: &WorkerContext) -> Result<Option<KeepAlive>, String> {
    let WorkSettings { name, max_jobs, jobs, .. } = &context.settings;
    let mut names = StringList::default();
    for job in jobs {
        names.push(job.as_bytes());
    }
    let worker = Worker {
        name,
        url: &context.url,
        max_jobs: u32::try_from(*max_jobs).unwrap_or(u32::MAX),
        queues: (!jobs.is_empty()).then_some(&names),
    };
    let mut backoff = REGISTER_BACKOFF_MIN;
    loop {
        match context.server.register(&worker) {
            Ok((id, connection)) => {
                info!(worker = id.0, name, server = context.settings.url.authority, "registered");
                context.state.set_worker_id(Some(id));
                return Ok(Some(connection));
            }
            Err(RegisterError::Permanent(why)) => {
                return Err(format!(
                    "the server does not take this worker: {why} (it makes no sense to try again)"
                ));
            }
            Err(RegisterError::Transient(why)) => {
                warn!(
                    why,
                    "not registered: trying again in {}",
                    humantime::format_duration(backoff)
                );
            }
        }
        if !context.state.sleep_or_stop(backoff) {
            return Ok(None);
        }
        backoff = (backoff * 2).min(REGISTER_BACKOFF_MAX);
    }
}

/// Checks whether the server still has this worker in its registry. A server without a journal
/// forgets its workers at a restart; one with a journal may hold reservations for jobs that it
/// never sent. So an idle worker registers again (which replaces its entry) when the connection has
/// ended, and, if there is a `suspect` sign, when the server cannot say.
fn check_registration(
    context: &WorkerContext,
    connection: &mut KeepAlive,
    worker: WorkerId,
    suspect: bool,
) {
    match context.server.is_registered(connection, worker) {
        Ok(Some(true)) => context.state.set_worker_id(Some(worker)),
        Ok(Some(false)) => {
            warn!(worker = worker.0, "the server has forgotten this worker");
            context.state.set_worker_id(None);
        }
        Ok(None) if suspect => {
            warn!(worker = worker.0, "the server may have forgotten this worker");
            context.state.set_worker_id(None);
        }
        Ok(None) => {}
        Err(why) => {
            info!(why, "the connection to the server has ended: registering again");
            context.state.set_worker_id(None);
        }
    }
}

/// Lets running commands finish within `--patience`, kills the others, and deregisters.
fn shut_down(context: &WorkerContext) {
    let state = &context.state;
    state.stop();
    info!("stopping: no more jobs are taken");
    if !state.wait_until_idle(context.settings.patience) {
        warn!("some commands take too long: they are killed");
    }
    state.cancel_all();
    state.wait_until_idle(KILL_TIMEOUT);
    if let Some(worker) = state.worker_id() {
        match context.server.deregister(worker) {
            Ok(answer) if answer.status < 300 => {}
            Ok(answer) => {
                warn!(why = answer.explain(), "the server did not deregister this worker");
            }
            Err(why) => warn!(why, "the server could not be told that this worker ends"),
        }
    }
    info!("stopped");
}
