//! A thread for work that blocks while a loop serves: the wait of a server that is to lead.
//!
//! It sends reports, each of which wakes the loop, and is told to stop by the loss of a channel, so
//! that its pauses end at once.

use super::LoopWaker;
use std::convert::Infallible;
use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::thread;
use std::time::Duration;

/// The thread, seen from the loop. Dropping it tells the thread to stop, and does not wait for it.
#[derive(Debug)]
pub struct Background<T> {
    reports: Receiver<T>,
    go_on: Option<Sender<Infallible>>,
}

/// The loop, seen from the thread.
#[derive(Debug)]
pub struct Foreground<T> {
    reports: Sender<T>,
    wake: LoopWaker,
    go_on: Receiver<Infallible>,
}

impl<T: Send + 'static> Background<T> {
    /// Starts a thread. `wake` is called with each report.
    ///
    /// # Errors
    /// There is no room for another thread.
    pub fn start(
        name: &str,
        wake: &LoopWaker,
        run: impl FnOnce(Foreground<T>) + Send + 'static,
    ) -> io::Result<Self> {
        let ((sender, reports), (sender_of_stop, go_on)) = (channel(), channel());
        let foreground = Foreground { reports: sender, wake: wake.clone(), go_on };
        thread::Builder::new().name(name.to_owned()).spawn(move || run(foreground))?;
        Ok(Self { reports, go_on: Some(sender_of_stop) })
    }

    /// The next report, if there is one.
    ///
    /// # Panics
    /// If the thread has panicked.
    #[must_use]
    pub fn poll(&self) -> Option<T> {
        match self.reports.try_recv() {
            Ok(report) => Some(report),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => panic!("a thread has ended without its result"),
        }
    }

    /// The next report, waited for as long as this at most.
    ///
    /// # Panics
    /// If the thread has panicked.
    #[must_use]
    pub fn wait(&self, time: Duration) -> Option<T> {
        match self.reports.recv_timeout(time) {
            Ok(report) => Some(report),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => panic!("a thread has ended without its result"),
        }
    }

    /// Tells the thread to stop, and waits for its end for as long as this at most. Its reports
    /// are dropped. Returns whether it has ended.
    #[must_use]
    pub fn stop(mut self, time: Duration) -> bool {
        self.go_on = None;
        loop {
            match self.reports.recv_timeout(time) {
                Ok(_) => {}
                Err(RecvTimeoutError::Timeout) => return false,
                Err(RecvTimeoutError::Disconnected) => return true,
            }
        }
    }
}

impl<T> Foreground<T> {
    /// Reports something. It is dropped if the loop has ended.
    pub fn report(&self, report: T) {
        let _ = self.reports.send(report);
        self.wake.wake();
    }

    /// Whether the thread is to stop.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        matches!(self.go_on.try_recv(), Err(TryRecvError::Disconnected))
    }

    /// Waits, or until the thread is to stop.
    pub fn pause(&self, time: Duration) {
        // Nothing is ever sent.
        let _ = self.go_on.recv_timeout(time);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_come_in_order_and_a_pause_ends_with_the_stop() {
        let thread = Background::start("test", &LoopWaker::default(), |loop_| {
            loop_.report(1);
            loop_.report(2);
            // Longer than any test waits.
            loop_.pause(Duration::from_hours(1));
            assert!(loop_.is_stopped());
        });
        let thread = thread.unwrap();
        let minute = Duration::from_mins(1);
        assert_eq!((thread.wait(minute), thread.wait(minute)), (Some(1), Some(2)));
        assert_eq!(thread.poll(), None);
        assert!(thread.stop(minute), "the thread does not end");
    }
}
