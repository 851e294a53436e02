//! How other threads end the reactor's sleep, and see whether it sleeps.

use mio::{Registry, Token, Waker};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// A way to wake a reactor, to be had before there is one. Waking before that does nothing: nobody
/// sleeps yet.
#[derive(Clone, Debug, Default)]
pub struct Wake(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    waker: OnceLock<Waker>,
    busy: AtomicBool,
}

impl Wake {
    /// Lets `registry` hear of it as `token`.
    pub(super) fn register(&self, registry: &Registry, token: Token) -> io::Result<()> {
        let waker = Waker::new(registry, token)?;
        // A second reactor keeps the first one's.
        let _ = self.0.waker.set(waker);
        Ok(())
    }

    /// Ends the reactor's sleep, or keeps it from falling asleep.
    pub fn wake(&self) {
        if let Some(waker) = self.0.waker.get()
            && let Err(error) = waker.wake()
        {
            tracing::warn!(%error, "cannot wake the event loop");
        }
    }

    /// The reactor goes to sleep, or is at work from now on.
    pub(super) fn set_busy(&self, busy: bool) {
        self.0.busy.store(busy, Ordering::Relaxed);
    }

    /// Whether the reactor was at work a moment ago. A thread that runs meanwhile has a processor
    /// of its own, or has the reactor's.
    pub(super) fn is_busy(&self) -> bool {
        self.0.busy.load(Ordering::Relaxed)
    }
}
