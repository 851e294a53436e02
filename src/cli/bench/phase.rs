//! What the tokens of one phase do. A token is the right to have one request in flight: it carries
//! the next step, and whoever holds all of them holds all of the work.
//!
//! ```text
//! puts:   Put -> Put -> ...
//! takes:  Next -> Delete -> Next -> ...
//! cycles: Put -> Get -> Delete -> Put -> ...
//! feeds:  Put -> Put -> ...                      the jobs go to workers that wait
//! probes: Next -> Next -> ...                    nothing must be found
//! ```
//!
//! In a cycle every get follows an acknowledged put into the same queue, so it finds a job: its own
//! or somebody else's, whose token then finds this one.

use super::clock::float;
use super::content::Content;
use super::job_tracker::JobTracker;
use super::protocols::Request;

/// What a token does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Put a new job.
    Put,
    /// Get from the queue of this job.
    Get { seq: u64 },
    /// Get from the queue of the next job that is to be taken.
    Next,
    /// Delete what was delivered.
    Delete { seq: u64, id: u64 },
}

/// Which way the tokens go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PhaseKind {
    Puts,
    Takes,
    Cycles,
    /// Puts, while others wait for the jobs.
    Feeds,
    /// Gets that must find nothing.
    Probes,
}

/// Intended sending times, evenly spaced.
#[derive(Clone, Copy, Debug)]
pub(super) struct RateSchedule {
    start: u64,
    interval: f64,
    sent: u64,
}

impl RateSchedule {
    pub(super) fn new(rate: f64, start: u64) -> Self {
        Self { start, interval: 1e9 / rate, sent: 0 }
    }

    /// When the next request is to be sent.
    #[inline]
    pub(super) fn due(&self) -> u64 {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "nanoseconds")]
        let offset = (float(self.sent) * self.interval) as u64;
        self.start + offset
    }

    #[inline]
    pub(super) fn advance(&mut self) {
        self.sent += 1;
    }

    /// How many requests should have been sent before `end` and were not.
    pub(super) fn missed(&self, end: u64) -> u64 {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count")]
        let planned = (float(end.saturating_sub(self.start)) / self.interval) as u64;
        planned.saturating_sub(self.sent)
    }
}

/// One phase of a run.
#[derive(Debug)]
pub(super) struct Phase {
    pub(super) way: PhaseKind,
    pub(super) name: &'static str,
    /// Jobs that are still to be begun.
    pub(super) jobs_left: u64,
    /// Jobs that are to be taken, the next one last.
    to_take: Vec<u64>,
    pub(super) pace: Option<RateSchedule>,
    /// How many jobs may be put and not delivered (`Feeds`).
    pub(super) undelivered_max: u64,
}

impl Phase {
    pub(super) fn new(name: &'static str, way: PhaseKind, jobs: u64) -> Self {
        let undelivered_max = u64::MAX;
        Self { way, name, jobs_left: jobs, to_take: Vec::new(), pace: None, undelivered_max }
    }

    /// Takes what the run has put and not got back, in the order of the puts.
    pub(super) fn takes(name: &'static str, ledger: &JobTracker) -> Self {
        let mut phase = Self::new(name, PhaseKind::Takes, u64::MAX);
        phase.to_take = ledger.undelivered().collect();
        phase.to_take.reverse();
        phase
    }

    /// Looks into every queue once.
    pub(super) fn probes(name: &'static str, content: &Content) -> Self {
        let mut phase = Self::new(name, PhaseKind::Probes, u64::MAX);
        // The first jobs are spread over all queues.
        phase.to_take = (0..content.queues()).collect();
        phase
    }

    /// What a fresh token does.
    pub(super) fn first(&self) -> Step {
        match self.way {
            PhaseKind::Puts | PhaseKind::Cycles | PhaseKind::Feeds => Step::Put,
            PhaseKind::Takes | PhaseKind::Probes => Step::Next,
        }
    }

    #[inline]
    pub(super) fn after_put(&self, seq: u64) -> Step {
        match self.way {
            PhaseKind::Cycles => Step::Get { seq },
            PhaseKind::Puts | PhaseKind::Takes | PhaseKind::Feeds | PhaseKind::Probes => Step::Put,
        }
    }

    /// The request of a step. None if there is nothing left to be begun: the token is spent.
    #[inline]
    pub(super) fn begin(
        &mut self,
        step: Step,
        ledger: &mut JobTracker,
        content: &Content,
    ) -> Option<Request> {
        let get = |seq, ledger: &JobTracker| {
            let (queue, id) = (content.queue(seq), ledger.id(seq));
            Request::Get { queue, seq, id, wait: false }
        };
        match step {
            Step::Get { seq } => return Some(get(seq, ledger)),
            Step::Delete { seq, id } => return Some(Request::Delete { seq, id }),
            Step::Put | Step::Next => {}
        }
        if self.jobs_left == 0 {
            return None;
        }
        let request = match step {
            Step::Next => get(self.to_take.pop()?, ledger),
            _ => Request::Put { seq: ledger.begin() },
        };
        self.jobs_left -= 1;
        Some(request)
    }

    /// When a token that has something to do may go: its sending time, if that has come.
    #[inline]
    pub(super) fn permit(&self, now: u64, undelivered: u64) -> Option<u64> {
        if self.way == PhaseKind::Feeds && undelivered >= self.undelivered_max {
            return None;
        }
        match &self.pace {
            None => Some(now),
            Some(pace) => Some(pace.due()).filter(|&due| due <= now),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cycle_puts_gets_and_deletes_until_nothing_is_left() {
        let content = Content::new(32, 1, 3, 1);
        let mut ledger = JobTracker::default();
        let mut phase = Phase::new("", PhaseKind::Cycles, 2);
        let mut begin = |step| phase.begin(step, &mut ledger, &content);
        assert_eq!(begin(Step::Put), Some(Request::Put { seq: 0 }));
        assert_eq!(begin(Step::Put), Some(Request::Put { seq: 1 }));
        assert_eq!(begin(Step::Put), None, "two jobs were allowed");
        let get = Request::Get { queue: 1, seq: 4, id: 0, wait: false };
        assert_eq!(begin(Step::Get { seq: 4 }), Some(get), "what is begun is ended");
        let delete = Request::Delete { seq: 4, id: 9 };
        assert_eq!(begin(Step::Delete { seq: 4, id: 9 }), Some(delete));
        assert_eq!(phase.after_put(3), Step::Get { seq: 3 });
    }

    #[test]
    fn takes_ask_once_for_each_job_that_is_there() {
        let content = Content::new(32, 1, 2, 1);
        let mut ledger = JobTracker::default();
        for seq in [0, 1, 2] {
            assert_eq!(ledger.begin(), seq);
            ledger.acknowledge(seq, seq + 10).unwrap();
        }
        ledger.take(1, 11).unwrap();
        let mut phase = Phase::takes("", &ledger);
        let mut queues = Vec::new();
        while let Some(Request::Get { queue, seq, id, .. }) =
            phase.begin(Step::Next, &mut ledger, &content)
        {
            queues.push((queue, seq, id));
        }
        assert_eq!(queues, [(0, 0, 10), (0, 2, 12)]);
    }

    #[test]
    fn a_pace_is_even_and_forgives_nothing() {
        let mut pace = RateSchedule::new(1000.0, 500);
        assert_eq!(pace.due(), 500);
        for _ in 0..5 {
            pace.advance();
        }
        assert_eq!(pace.due(), 5_000_500);
        assert_eq!(pace.missed(10_000_500), 5);
        assert_eq!(pace.missed(1), 0);
        let mut phase = Phase::new("", PhaseKind::Feeds, 1);
        phase.pace = Some(pace);
        phase.undelivered_max = 2;
        assert_eq!(phase.permit(5_000_499, 0), None, "too early");
        assert_eq!(phase.permit(9_000_000, 0), Some(5_000_500), "late: the intended time counts");
        assert_eq!(phase.permit(9_000_000, 2), None, "enough jobs are on the way");
    }
}
