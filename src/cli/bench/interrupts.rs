//! Signals that ask a run to stop.

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// What was heard of SIGINT and SIGTERM.
#[derive(Debug)]
pub(super) struct Interrupts {
    /// The number of a signal, or 0.
    heard: Arc<AtomicUsize>,
    /// There is nothing to be put in order: a signal ends the process as usual.
    fatal: Arc<AtomicBool>,
}

impl Interrupts {
    /// Signals are fatal until it is said otherwise.
    pub(super) fn listen() -> io::Result<Self> {
        let (heard, fatal) = (Arc::default(), Arc::new(AtomicBool::new(true)));
        for (signal, number) in [(SIGINT, 2), (SIGTERM, 15)] {
            flag::register_conditional_default(signal, Arc::clone(&fatal))?;
            flag::register_usize(signal, Arc::clone(&heard), number)?;
        }
        Ok(Self { heard, fatal })
    }

    pub(super) fn set_fatal(&self, fatal: bool) {
        self.fatal.store(fatal, Ordering::Relaxed);
    }

    /// The signal that has come since this was asked last.
    #[inline]
    pub(super) fn take(&self) -> Option<u8> {
        if self.heard.load(Ordering::Relaxed) == 0 {
            return None;
        }
        u8::try_from(self.heard.swap(0, Ordering::Relaxed)).ok()
    }
}
