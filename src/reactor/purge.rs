//! Purges: memory that was freed goes back to the system.
//!
//! mimalloc keeps freed pages for a while, because most of them are soon used again, and then
//! returns them to the system when a thread happens to free more. An idle server frees nothing, so
//! it would keep them for good; and in a busy one the system calls would be part of a pass. So
//! threads that free never purge. [`PURGE_DELAY`] after a pass the loop hands over the empty pages
//! that it has kept back, and a thread returns all of them to the system.
//!
//! Invariant: a loop without passes wakes once for this, and then no more.

#![expect(unsafe_code, reason = "mimalloc is a C library, and its crate has no safe call for this")]

use crate::base::limits::PURGE_DELAY;
use crate::base::time::Mono;
// Links the library, also where it is not the allocator.
use mimalloc as _;
use std::ffi::{c_int, c_long};
use std::io;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;
use tracing::warn;

// As `mimalloc.h` of versions 2 and 3 declares them.
unsafe extern "C" {
    fn mi_collect(force: bool);
    fn mi_option_set(option: c_int, value: c_long);
}

/// `mi_option_purge_delay`: how long freed pages are kept, in milliseconds.
const OPTION_PURGE_DELAY: c_int = 15;

/// A year: threads that free never purge.
const NO_PURGE_MS: c_long = 365 * 24 * 3_600 * 1_000;

/// An empty page that is the last one of its size class is kept until this many calls of
/// `mi_collect`. That holds for blocks above 8 KiB, whose pages have up to 4 MiB; those of smaller
/// blocks have 64 KiB and may stay.
const COLLECTS: usize = 4;

/// Makes the allocator leave all purges to the reactor. To be called before there is a second
/// thread.
pub fn defer_purges() {
    // SAFETY: it stores a number. It is not thread-safe: the caller has one thread.
    unsafe { mi_option_set(OPTION_PURGE_DELAY, NO_PURGE_MS) }
}

/// With `all`, returns every free page of the process to the system: O(such pages). Otherwise frees
/// empty pages of this thread: O(its pages that are neither full nor empty).
fn collect(all: bool) {
    // SAFETY: any thread may call it at any time, and it invalidates no allocated memory.
    unsafe { mi_collect(all) }
}

/// When to purge, and the thread that does it. That one starts with the first purge, and ends when
/// this is dropped.
#[derive(Debug, Default)]
pub(super) struct Purger {
    due: Option<Mono>,
    thread: Option<SyncSender<()>>,
    failed: bool,
}

impl Purger {
    /// When it is to be called next.
    pub(super) fn next(&self) -> Option<Mono> {
        self.due
    }

    /// Ends a pass that may have freed memory. O(1), but O(pages of the loop that are neither full
    /// nor empty) every [`PURGE_DELAY`].
    #[inline]
    pub(super) fn end_pass(&mut self, now: Mono) {
        match self.due {
            Some(due) if due > now => {}
            // This covers what the pass itself has freed.
            Some(_) => self.purge(),
            None => self.due = Some(now.after(PURGE_DELAY)),
        }
    }

    #[cold]
    fn purge(&mut self) {
        self.due = None;
        (0..COLLECTS).for_each(|_| collect(false));
        if self.thread.is_none() && !self.failed {
            match start() {
                Ok(thread) => self.thread = Some(thread),
                Err(error) => {
                    self.failed = true;
                    warn!(%error, "no thread to return freed memory to the system: it is kept");
                }
            }
        }
        if let Some(thread) = &self.thread {
            // Full: the thread has yet to begin the purge before this one.
            let _ = thread.try_send(());
        }
    }
}

fn start() -> io::Result<SyncSender<()>> {
    let (sender, requests) = sync_channel(1);
    let run = move || {
        while let Ok(()) = requests.recv() {
            collect(true);
        }
    };
    thread::Builder::new().name("purge".to_owned()).spawn(run)?;
    Ok(sender)
}
