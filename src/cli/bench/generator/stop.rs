//! Interruption of a run by signals, and the note about jobs that it leaves at the server.

use super::Generator;
use crate::cli::bench::phase::Phase;
use crate::cli::bench::protocols::BenchProtocol;
use crate::cli::bench::table::{count, grouped};
use std::io::{Write as _, stderr};

impl Generator<'_> {
    /// Handles a signal. The first one ends the measurement, and the jobs are deleted; the next
    /// one, or one during the clean-up, ends the run.
    ///
    /// # Errors
    /// The run has to end.
    pub(super) fn handle_signals(&mut self, now: u64) -> Result<(), String> {
        let Some(signal) = self.interrupts.take() else { return Ok(()) };
        if self.interrupted.replace(signal).is_some() || self.cleaning_up {
            self.aborted = true;
            let snapshot = self.snapshot();
            self.window.abort(snapshot);
            return Err("interrupted".to_owned());
        }
        self.progress.clear();
        if !self.plan.keep {
            let done = if self.plan.protocol.takes() { "taken away" } else { "checked" };
            // A closed stderr is ignored.
            let _ = writeln!(
                stderr(),
                "interrupted: the jobs of this run are {done} (interrupt again to leave them)"
            );
        }
        let schedule = self.phase.rate_schedule.take();
        if self.window.is_open() {
            self.missed = schedule.map_or(0, |schedule| schedule.missed(now));
        }
        self.window.close();
        self.phase.jobs_left = 0;
        self.phase.undelivered_max = u64::MAX;
        self.opens_at_ns = u64::MAX;
        self.closes_at_ns = u64::MAX;
        Ok(())
    }

    /// The phase that gets and deletes the remaining jobs.
    pub(super) fn clean_up_phase(&mut self) -> Phase {
        self.cleaning_up = true;
        Phase::takes("cleaning", &self.tracker)
    }

    /// A note about the jobs that this run has left at the server, if there are any.
    pub(in crate::cli::bench) fn jobs_left_note(&self) -> Option<String> {
        let (protocol, totals, started) =
            (self.plan.protocol, self.tracker.totals(), self.tracker.started());
        let gone = match protocol {
            BenchProtocol::Echo | BenchProtocol::Health => return None,
            BenchProtocol::Jobq => 0,
            _ => totals.deleted,
        };
        let (min, max) = (totals.put.saturating_sub(gone), started.saturating_sub(gone));
        let jobs = match (min, max) {
            (_, 0) => return None,
            (min, max) if min == max => count(min, "job"),
            (min, max) => format!("{} to {} jobs", grouped(min), grouped(max)),
        };
        let queues = self.plan.queues;
        let first = self.codec.name(0);
        let place = match queues {
            1 => format!("in the queue {first}"),
            _ => format!("in the queues {first} to {}", self.codec.name(queues - 1)),
        };
        let has_drop_request = matches!(
            protocol,
            BenchProtocol::JobCentre | BenchProtocol::Pinpriq | BenchProtocol::Jobq
        );
        let advice = if has_drop_request {
            " (DELETE /api/v0/queue/NAME over HTTP removes a queue with its jobs)"
        } else {
            ""
        };
        Some(format!("{jobs} of this run stay {place}{advice}"))
    }

    /// Notes for the report.
    pub(in crate::cli::bench) fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.interrupted.is_some() {
            notes.push("interrupted: this is what was measured until then".to_owned());
        }
        if self.interrupted.is_some() || self.plan.protocol == BenchProtocol::Jobq {
            notes.extend(self.jobs_left_note());
        }
        notes
    }
}
