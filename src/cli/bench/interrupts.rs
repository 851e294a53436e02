//! Signals that ask a run to stop.

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// The last SIGINT or SIGTERM.
#[derive(Debug)]
pub(super) struct Interrupts {
    /// The number of a signal, or 0.
    signal: Arc<AtomicUsize>,
    /// No clean-up is due: a signal ends the process by default.
    fatal: Arc<AtomicBool>,
}

impl Interrupts {
    /// Installs the handlers. Signals are fatal until [`Self::set_fatal`].
    pub(super) fn install() -> io::Result<Self> {
        let (signal, fatal) = (Arc::default(), Arc::new(AtomicBool::new(true)));
        for (signal_number, exit_number) in [(SIGINT, 2), (SIGTERM, 15)] {
            flag::register_conditional_default(signal_number, Arc::clone(&fatal))?;
            flag::register_usize(signal_number, Arc::clone(&signal), exit_number)?;
        }
        Ok(Self { signal, fatal })
    }

    pub(super) fn set_fatal(&self, fatal: bool) {
        self.fatal.store(fatal, Ordering::Relaxed);
    }

    /// The signal since the last call.
    #[inline]
    pub(super) fn take(&self) -> Option<u8> {
        if self.signal.load(Ordering::Relaxed) == 0 {
            return None;
        }
        u8::try_from(self.signal.swap(0, Ordering::Relaxed)).ok()
    }
}
