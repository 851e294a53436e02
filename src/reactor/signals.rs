//! Signals: SIGTERM and SIGINT stop the server, those that users send to other servers are ignored
//! and logged. Without that each of them would end the process at once.
//!
//! SIGPIPE never comes (the runtime ignores it: a broken pipe is an error of the write), and
//! SIGTSTP, SIGCONT and SIGQUIT do what they do to every process.

use super::Reactor;
use crate::base::limits::SIGNAL_NOTICE_INTERVAL;
use crate::base::rarely::Rarely;
use crate::model::driver::Core;
use mio::{Interest, Registry, Token};
use signal_hook::consts::{SIGALRM, SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2, SIGXFSZ};
use signal_hook::flag;
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use tracing::{info, warn};

/// What is ignored, and how the log calls it.
const IGNORED: [(i32, &str); 5] = [
    (SIGHUP, "SIGHUP"),
    (SIGUSR1, "SIGUSR1"),
    (SIGUSR2, "SIGUSR2"),
    (SIGALRM, "SIGALRM"),
    // A write that would make a file too large fails then, and says so.
    (SIGXFSZ, "SIGXFSZ"),
];

/// Signals as events of the loop.
pub(super) struct Signals {
    source: signal_hook_mio::v1_0::Signals,
    ignored: [Rarely; IGNORED.len()],
}

/// From now on the signals that a server ignores do not end this process, though it does not serve
/// yet.
///
/// # Errors
/// If the system refuses to handle them.
pub fn ignore_signals() -> io::Result<()> {
    for (signal, _) in IGNORED {
        flag::register(signal, Arc::new(AtomicBool::new(false)))?;
    }
    Ok(())
}

impl Signals {
    /// Takes charge of them, and lets `registry` hear of it as `token`.
    pub(super) fn register(registry: &Registry, token: Token) -> io::Result<Self> {
        let all = IGNORED.iter().map(|&(signal, _)| signal).chain([SIGTERM, SIGINT]);
        let mut source = signal_hook_mio::v1_0::Signals::new(all)?;
        registry.register(&mut source, token, Interest::READABLE)?;
        let ignored = IGNORED.map(|_| Rarely::new(SIGNAL_NOTICE_INTERVAL));
        Ok(Self { source, ignored })
    }
}

impl<C: Core> Reactor<C> {
    pub(super) fn handle_signals(&mut self) {
        // As many as there are kinds of them at most: the system counts none.
        let pending: Vec<i32> = self.signals.source.pending().collect();
        for signal in pending {
            match signal {
                SIGTERM => self.stop_by_signal("SIGTERM"),
                SIGINT => self.stop_by_signal("SIGINT"),
                _ => self.ignore(signal),
            }
        }
    }

    fn ignore(&mut self, signal: i32) {
        let Some(at) = IGNORED.iter().position(|&(known, _)| known == signal) else { return };
        let (rarely, name) = (&mut self.signals.ignored[at], IGNORED[at].1);
        rarely.note();
        let Some(times) = rarely.take(self.now.mono) else { return };
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
