//! What a signal does to a run, and what a run leaves at the server.

use super::Generator;
use crate::cli::bench::phase::Phase;
use crate::cli::bench::protocols::BenchProtocol;
use crate::cli::bench::table::{count, grouped};
use std::io::{Write as _, stderr};

impl Generator<'_> {
    /// Heeds a signal: the first one ends the measurement, and what was put is taken away; the next
    /// one, or one that comes while that is done anyway, ends the run.
    ///
    /// # Errors
    /// If the run is to end.
    pub(super) fn heed_signals(&mut self, now: u64) -> Result<(), String> {
        let Some(signal) = self.interrupts.take() else { return Ok(()) };
        if self.interrupted.replace(signal).is_some() || self.cleans {
            self.gave_up = true;
            let mark = self.mark();
            self.window.cut(mark);
            return Err("interrupted".to_owned());
        }
        self.progress.clear();
        if !self.plan.keep {
            let done = if self.plan.protocol.takes() { "taken away" } else { "checked" };
            // Nothing can be done about a closed stderr.
            let _ = writeln!(
                stderr(),
                "interrupted: the jobs of this run are {done} (interrupt again to leave them)"
            );
        }
        let pace = self.phase.pace.take();
        if self.window.is_open() {
            self.missed = pace.map_or(0, |pace| pace.missed(now));
        }
        self.window.close();
        self.phase.jobs_left = 0;
        self.phase.undelivered_max = u64::MAX;
        self.opens_at = u64::MAX;
        self.closes_at = u64::MAX;
        Ok(())
    }

    /// The phase that takes away what is left, as far as somebody takes it.
    pub(super) fn cleaning(&mut self) -> Phase {
        self.cleans = true;
        Phase::takes("cleaning", &self.ledger)
    }

    /// A sentence about the jobs that this run has left, if there are any.
    pub(in crate::cli::bench) fn left(&self) -> Option<String> {
        let (protocol, totals, begun) =
            (self.plan.protocol, self.ledger.totals(), self.ledger.begun());
        let gone = match protocol {
            BenchProtocol::Echo | BenchProtocol::Health => return None,
            BenchProtocol::Jobq => 0,
            _ => totals.deleted,
        };
        let (sure, most) = (totals.put.saturating_sub(gone), begun.saturating_sub(gone));
        let jobs = match (sure, most) {
            (_, 0) => return None,
            (sure, most) if sure == most => count(sure, "job"),
            (sure, most) => format!("{} to {} jobs", grouped(sure), grouped(most)),
        };
        let queues = self.plan.queues;
        let first = self.wire.name(0);
        let place = match queues {
            1 => format!("in the queue {first}"),
            _ => format!("in the queues {first} to {}", self.wire.name(queues - 1)),
        };
        let ours = matches!(
            protocol,
            BenchProtocol::JobCentre | BenchProtocol::Pinpriq | BenchProtocol::Jobq
        );
        let advice = if ours {
            " (DELETE /api/v0/queue/NAME over HTTP removes a queue with its jobs)"
        } else {
            ""
        };
        Some(format!("{jobs} of this run stay {place}{advice}"))
    }

    /// What is to be said besides the figures.
    pub(in crate::cli::bench) fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.interrupted.is_some() {
            notes.push("interrupted: this is what was measured until then".to_owned());
        }
        if self.interrupted.is_some() || self.plan.protocol == BenchProtocol::Jobq {
            notes.extend(self.left());
        }
        notes
    }
}
