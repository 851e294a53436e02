//! `jobcentre work`: the reference worker of LightJQ, for commands.
//!
//! A client program with blocking threads: one that the master calls at, one for each connection,
//! two for each running job, and the main one, which keeps the worker registered. They share a
//! [`WorkerState`]; what is unbounded elsewhere (connections, places, what is read) is bounded
//! there and in the modules of this folder.

mod args;
mod guard;
mod http_connection;
mod http_server;
mod job;
mod run;
mod server_client;
mod worker_state;

use super::{complain, log};
use crate::base::strings::StringList;
use crate::model::worker::{Worker, WorkerId};
use args::Plan;
pub(super) use args::Work;
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

/// Waits between the tries to register: the first, and the longest.
const REGISTER_FIRST: Duration = Duration::from_millis(500);
const REGISTER_MOST: Duration = Duration::from_secs(10);

/// How often the master is asked whether it still knows an idle worker: so often that it keeps the
/// connection.
const CHECK_PERIOD: Duration = Duration::from_secs(15);

/// How long killed commands and what waits for them may take to be gone.
const HALT_PATIENCE: Duration = Duration::from_secs(2);

/// What all threads know.
struct WorkerContext {
    plan: Plan,
    /// What the master was told.
    url: String,
    /// Where its calls come.
    path: String,
    master: ServerClient,
    desk: Arc<WorkerState>,
}

impl Work {
    /// Works until a signal.
    pub(super) fn run(self) -> ExitCode {
        let plan = match self.plan() {
            Ok(plan) => plan,
            Err(error) => {
                complain(&error);
                return ExitCode::from(WRONG_USAGE);
            }
        };
        log::start(plan.log.0, plan.log.1);
        match work(plan) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                error!("{error}");
                ExitCode::FAILURE
            }
        }
    }
}

fn work(plan: Plan) -> Result<(), String> {
    let system = |error: io::Error| format!("the system refuses: {error}");
    let listener = http_server::listen(plan.listen)?;
    let address = listener.local_addr().map_err(system)?;
    let url = plan.advertise.clone().unwrap_or_else(|| format!("http://{address}"));
    let path = crate::wire::url::parse(&url).map_err(|why| format!("{url}: {why}"))?.base;
    let desk = WorkerState::new(plan.max_jobs).map_err(system)?;
    hear_signals(&desk).map_err(system)?;
    let master = ServerClient::new(plan.url.clone());
    let path = format!("{path}/worker-job");
    let shop = Arc::new(WorkerContext { plan, url, path, master, desk });
    info!(%address, url = shop.url, max_jobs = shop.plan.max_jobs, "listening");
    let serving = Arc::clone(&shop);
    thread::Builder::new()
        .name("protocol".to_owned())
        .spawn(move || http_server::open(&listener, &serving))
        .map_err(system)?;
    let kept = keep_registered(&shop);
    end(&shop);
    kept
}

/// The first signal stops the worker, the second one kills its commands. SIGHUP is one of them: the
/// terminal of a worker is gone.
fn hear_signals(desk: &Arc<WorkerState>) -> io::Result<()> {
    let (mut heard, signal) = UnixStream::pair()?;
    for each in [SIGTERM, SIGINT, SIGHUP] {
        pipe::register(each, signal.try_clone()?)?;
    }
    ignore_signals()?;
    let desk = Arc::clone(desk);
    thread::Builder::new().name("signals".to_owned()).spawn(move || {
        while heard.read_exact(&mut [0]).is_ok() && !desk.stop() {}
        warn!("second signal: running commands are killed");
        desk.halt();
        // The main thread may be talking to a master that does not answer; a third signal, or some
        // time, ends that.
        let _ = heard.set_read_timeout(Some(2 * HALT_PATIENCE));
        let _ = heard.read(&mut [0]);
        std::process::exit(1);
    })?;
    Ok(())
}

/// Signals that mean nothing to a worker are logged, once a second at most, and do not end it.
fn ignore_signals() -> io::Result<()> {
    let (mut heard, signal) = UnixStream::pair()?;
    for each in [SIGUSR1, SIGUSR2, SIGALRM] {
        pipe::register(each, signal.try_clone()?)?;
    }
    thread::Builder::new().name("ignored".to_owned()).spawn(move || {
        while heard.read(&mut [0; 1024]).is_ok_and(|count| count > 0) {
            info!("SIGUSR1, SIGUSR2 and SIGALRM are ignored: SIGTERM stops the worker");
            thread::sleep(Duration::from_secs(1));
        }
    })?;
    Ok(())
}

/// Sees to it that the master knows the worker, until it is to stop.
///
/// # Errors
/// If the master will never know it.
fn keep_registered(shop: &WorkerContext) -> Result<(), String> {
    let mut tie = None;
    loop {
        match (shop.desk.next_action(CHECK_PERIOD), &mut tie) {
            (NextAction::Stop, _) => return Ok(()),
            (NextAction::Check { worker, doubt }, Some(tie)) => check(shop, tie, worker, doubt),
            (NextAction::Check { .. } | NextAction::Register, _) => tie = register(shop)?,
        }
    }
}

/// Introduces the worker; nothing if it is to stop before.
fn register(shop: &WorkerContext) -> Result<Option<KeepAlive>, String> {
    let Plan { name, max_jobs, jobs, .. } = &shop.plan;
    let mut names = StringList::default();
    for job in jobs {
        names.push(job.as_bytes());
    }
    let worker = Worker {
        name,
        url: &shop.url,
        max_jobs: u32::try_from(*max_jobs).unwrap_or(u32::MAX),
        queues: (!jobs.is_empty()).then(|| names.from(0)),
    };
    let mut rest = REGISTER_FIRST;
    loop {
        match shop.master.register(&worker) {
            Ok((id, tie)) => {
                info!(worker = id.0, name, server = shop.plan.url.authority, "registered");
                shop.desk.set_worker(Some(id));
                return Ok(Some(tie));
            }
            Err(RegisterError::Permanent(why)) => {
                return Err(format!(
                    "the master does not take this worker: {why} (it makes no sense to try again)"
                ));
            }
            Err(RegisterError::Transient(why)) => {
                warn!(why, "not registered: trying again in {}", humantime::format_duration(rest));
            }
        }
        if !shop.desk.sleep_or_stop(rest) {
            return Ok(None);
        }
        rest = (rest * 2).min(REGISTER_MOST);
    }
}

/// A master without a journal forgets its workers when it is restarted; with one, it may hold jobs
/// for this worker that were never sent. As the worker has nothing to do, and takes its own place
/// on the list, it is told again whenever the connection has ended; also one that cannot say
/// whether it knows this worker, if there is reason to doubt.
fn check(shop: &WorkerContext, tie: &mut KeepAlive, worker: WorkerId, doubt: bool) {
    match shop.master.knows(tie, worker) {
        Ok(Some(true)) => shop.desk.set_worker(Some(worker)),
        Ok(Some(false)) => {
            warn!(worker = worker.0, "the master has forgotten this worker");
            shop.desk.set_worker(None);
        }
        Ok(None) if doubt => {
            warn!(worker = worker.0, "the master may have forgotten this worker");
            shop.desk.set_worker(None);
        }
        Ok(None) => {}
        Err(why) => {
            info!(why, "the connection to the master has ended: registering again");
            shop.desk.set_worker(None);
        }
    }
}

/// Lets running commands finish, within the patience, and takes leave.
fn end(shop: &WorkerContext) {
    let desk = &shop.desk;
    desk.stop();
    info!("stopping: no more jobs are taken");
    if !desk.clear(shop.plan.patience) {
        warn!("some commands take too long: they are killed");
    }
    desk.halt();
    desk.clear(HALT_PATIENCE);
    if let Some(worker) = desk.known_as() {
        match shop.master.leave(worker) {
            Ok(answer) if answer.status < 300 => {}
            Ok(answer) => warn!(why = answer.explain(), "the master did not take our leave"),
            Err(why) => warn!(why, "the master was not told"),
        }
    }
    info!("stopped");
}
