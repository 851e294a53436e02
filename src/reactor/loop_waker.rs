//! Wakes the event loop from other threads.

use mio::{Registry, Token, Waker};
use std::io;
use std::sync::{Arc, OnceLock};

/// Wakes a reactor. It can be created before the reactor; waking does nothing until then.
#[derive(Clone, Debug, Default)]
pub struct LoopWaker(Arc<OnceLock<Waker>>);

impl LoopWaker {
    /// Connects it to the poll of `registry`, with events under `token`.
    pub(super) fn register(&self, registry: &Registry, token: Token) -> io::Result<()> {
        let waker = Waker::new(registry, token)?;
        // A second reactor keeps the first one's.
        let _ = self.0.set(waker);
        Ok(())
    }

    /// Interrupts the current poll, or the next one.
    pub fn wake(&self) {
        if let Some(waker) = self.0.get()
            && let Err(error) = waker.wake()
        {
            tracing::warn!(%error, "cannot wake the event loop");
        }
    }
}
