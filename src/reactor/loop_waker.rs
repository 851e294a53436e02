//! How other threads end the reactor's sleep.

use mio::{Registry, Token, Waker};
use std::io;
use std::sync::{Arc, OnceLock};

/// A way to wake a reactor, to be had before there is one. Waking before that does nothing: nobody
/// sleeps yet.
#[derive(Clone, Debug, Default)]
pub struct LoopWaker(Arc<OnceLock<Waker>>);

impl LoopWaker {
    /// Lets `registry` hear of it as `token`.
    pub(super) fn register(&self, registry: &Registry, token: Token) -> io::Result<()> {
        let waker = Waker::new(registry, token)?;
        // A second reactor keeps the first one's.
        let _ = self.0.set(waker);
        Ok(())
    }

    /// Ends the reactor's sleep, or keeps it from falling asleep.
    pub fn wake(&self) {
        if let Some(waker) = self.0.get()
            && let Err(error) = waker.wake()
        {
            tracing::warn!(%error, "cannot wake the event loop");
        }
    }
}
