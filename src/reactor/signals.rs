//! Signals: SIGTERM and SIGINT stop the server, and SIGUSR1 makes it refuse new jobs; signals that
//! other servers react to are logged and ignored, because by default each of them would kill the
//! process.
//!
//! Rust's runtime ignores SIGPIPE (the write fails instead). SIGTSTP, SIGCONT and SIGQUIT have
//! their default action.

use super::Reactor;
use crate::base::limits::SIGNAL_NOTICE_INTERVAL;
use crate::base::rate_limited_counter::RateLimitedCounter;
use crate::model::driver::Core;
use crate::model::reload::ReloadReport;
use mio::{Interest, Registry, Token};
use signal_hook::consts::{SIGALRM, SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2, SIGXFSZ};
use signal_hook::flag;
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use tracing::{info, warn};

/// Ignored signals and their names.
const IGNORED: [(i32, &str); 4] = [
    (SIGHUP, "SIGHUP"),
    (SIGUSR2, "SIGUSR2"),
    (SIGALRM, "SIGALRM"),
    // A write beyond the file size limit fails with an error instead.
    (SIGXFSZ, "SIGXFSZ"),
];

/// Signals as events of the loop.
pub(super) struct Signals {
    source: signal_hook_mio::v1_0::Signals,
    ignored: [RateLimitedCounter; IGNORED.len()],
    drains: RateLimitedCounter,
}

/// Ignores SIGHUP, SIGUSR1, SIGUSR2, SIGALRM and SIGXFSZ from now on, before a reactor runs.
///
/// # Errors
/// If a handler cannot be installed.
pub fn ignore_signals() -> io::Result<()> {
    for signal in IGNORED.iter().map(|&(signal, _)| signal).chain([SIGUSR1]) {
        flag::register(signal, Arc::new(AtomicBool::new(false)))?;
    }
    Ok(())
}

impl Signals {
    /// Installs the handlers; signals become events of `registry` under `token`.
    pub(super) fn register(registry: &Registry, token: Token) -> io::Result<Self> {
        let all = IGNORED.iter().map(|&(signal, _)| signal).chain([SIGTERM, SIGINT, SIGUSR1]);
        let mut source = signal_hook_mio::v1_0::Signals::new(all)?;
        registry.register(&mut source, token, Interest::READABLE)?;
        let ignored = IGNORED.map(|_| RateLimitedCounter::new(SIGNAL_NOTICE_INTERVAL));
        let drains = RateLimitedCounter::new(SIGNAL_NOTICE_INTERVAL);
        Ok(Self { source, ignored, drains })
    }

    /// The signals that have come and were not handled.
    pub(super) fn pending(&mut self) -> impl Iterator<Item = i32> {
        self.source.pending()
    }
}

impl<C: Core> Reactor<C> {
    pub(super) fn handle_signals(&mut self) {
        // At most one per kind: pending signals are not counted.
        let pending: Vec<i32> = self.signals.pending().collect();
        for signal in pending {
            self.handle_signal(signal);
        }
    }

    pub(super) fn handle_signal(&mut self, signal: i32) {
        match signal {
            SIGTERM => self.stop_by_signal("SIGTERM"),
            SIGINT => self.stop_by_signal("SIGINT"),
            SIGUSR1 => self.drain(),
            SIGHUP => self.reload_by_signal(),
            _ => self.ignore(signal),
        }
    }

    fn reload_by_signal(&mut self) {
        if self.server_tls.is_none() && self.reload.is_none() {
            self.ignore(SIGHUP);
        } else {
            info!("SIGHUP: reading certificate and users once more; other settings need a restart");
        }
        self.reload();
    }

    /// The same, because clients have asked for it.
    pub(super) fn reload_by_request(&mut self) {
        info!("a client asks to read certificate and users once more");
        let report = self.reload();
        self.core.handle_reload(report);
    }

    /// Reads once more what can be: the certificate of TLS listeners, and the users.
    fn reload(&mut self) -> ReloadReport {
        let mut report = ReloadReport::default();
        self.service_manager.reloading();
        if let Some(tls) = &mut self.server_tls {
            let failure = tls.reload(self.now).err();
            report.failures.extend(failure);
            report.certificate_expires = Some(tls.expires());
            self.core.record_certificate(tls.expires());
        }
        if let Some(reload) = &mut self.reload {
            match reload(&mut self.core, self.now) {
                Ok(users) => report.users = users,
                Err(why) => report.failures.push(why),
            }
        }
        self.service_manager.ready("serving");
        report
    }

    fn drain(&mut self) {
        let is_draining = self.core.handle_drain();
        self.signals.drains.count();
        match self.signals.drains.take_report(self.now.mono) {
            Some(times) if is_draining => {
                info!(times, "SIGUSR1: new jobs are refused from now on, everything else goes on");
            }
            Some(times) => {
                warn!(times, "SIGUSR1: this server waits to lead, so it is the leader that can");
            }
            None => {}
        }
    }

    fn ignore(&mut self, signal: i32) {
        let Some(at) = IGNORED.iter().position(|&(known, _)| known == signal) else { return };
        let (counter, name) = (&mut self.signals.ignored[at], IGNORED[at].1);
        counter.count();
        let Some(times) = counter.take_report(self.now.mono) else { return };
        match signal {
            SIGHUP => info!(
                times,
                "{name}: nothing to reload, settings are read at the start only: restart to \
                 change them"
            ),
            SIGXFSZ => warn!(times, "{name}: a file may not grow as it has to (ulimit -f)"),
            _ => info!(times, "{name} is ignored: SIGTERM stops the server"),
        }
    }
}
