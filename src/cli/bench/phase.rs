//! The phases of a run. A token is the right to have one request in flight; it carries the next
//! step. A phase ends when all its tokens are spent.
//!
//! ```text
//! puts:   Put -> Put -> ...
//! takes:  Next -> Delete -> Next -> ...
//! cycles: Put -> Get -> Delete -> Put -> ...
//! feeds:  Put -> Put -> ...                      the jobs go to workers that wait
//! probes: Next -> Next -> ...                    nothing must be found
//! ```
//!
//! In a cycle every get follows an acknowledged put into the same queue, so it finds a job: its
//! own, or that of another token, which then gets this one.

use super::clock::float;
use super::content::Content;
use super::job_tracker::JobTracker;
use super::protocols::Request;

/// The next request of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TokenStep {
    /// Put a new job.
    Put,
    /// Get from the queue of this job.
    Get { seq: u64 },
    /// Get from the queue of the next job that is to be taken.
    Next,
    /// Delete what was delivered.
    Delete { seq: u64, id: u64 },
}

/// The cycle of steps of the tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PhaseKind {
    Puts,
    Takes,
    Cycles,
    /// Puts of jobs that waiting workers get.
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
    pub(super) kind: PhaseKind,
    pub(super) name: &'static str,
    /// Jobs that are not started yet.
    pub(super) jobs_left: u64,
    /// Jobs to get, the next one last.
    to_take: Vec<u64>,
    pub(super) rate_schedule: Option<RateSchedule>,
    /// The largest number of jobs that are put and not delivered (`Feeds`).
    pub(super) undelivered_max: u64,
}

impl Phase {
    pub(super) fn new(name: &'static str, kind: PhaseKind, jobs: u64) -> Self {
        let undelivered_max = u64::MAX;
        Self {
            kind,
            name,
            jobs_left: jobs,
            to_take: Vec::new(),
            rate_schedule: None,
            undelivered_max,
        }
    }

    /// Gets and deletes the undelivered jobs of the run, in the order of the puts.
    pub(super) fn takes(name: &'static str, tracker: &JobTracker) -> Self {
        let mut phase = Self::new(name, PhaseKind::Takes, u64::MAX);
        phase.to_take = tracker.undelivered().collect();
        phase.to_take.reverse();
        phase
    }

    /// Checks that every queue is empty.
    pub(super) fn probes(name: &'static str, content: &Content) -> Self {
        let mut phase = Self::new(name, PhaseKind::Probes, u64::MAX);
        // The first jobs are spread over all queues.
        phase.to_take = (0..content.queues()).collect();
        phase
    }

    /// The first step of a token.
    pub(super) fn first(&self) -> TokenStep {
        match self.kind {
            PhaseKind::Puts | PhaseKind::Cycles | PhaseKind::Feeds => TokenStep::Put,
            PhaseKind::Takes | PhaseKind::Probes => TokenStep::Next,
        }
    }

    #[inline]
    pub(super) fn after_put(&self, seq: u64) -> TokenStep {
        match self.kind {
            PhaseKind::Cycles => TokenStep::Get { seq },
            PhaseKind::Puts | PhaseKind::Takes | PhaseKind::Feeds | PhaseKind::Probes => {
                TokenStep::Put
            }
        }
    }

    /// The request of a step. `None`: no job is left, the token is spent.
    #[inline]
    pub(super) fn start_step(
        &mut self,
        step: TokenStep,
        tracker: &mut JobTracker,
        content: &Content,
    ) -> Option<Request> {
        let get = |seq, tracker: &JobTracker| {
            let (queue, id) = (content.queue(seq), tracker.id(seq));
            Request::Get { queue, seq, id, wait: false }
        };
        match step {
            TokenStep::Get { seq } => return Some(get(seq, tracker)),
            TokenStep::Delete { seq, id } => return Some(Request::Delete { seq, id }),
            TokenStep::Put | TokenStep::Next => {}
        }
        if self.jobs_left == 0 {
            return None;
        }
        let request = match step {
            TokenStep::Next => get(self.to_take.pop()?, tracker),
            _ => Request::Put { seq: tracker.start() },
        };
        self.jobs_left -= 1;
        Some(request)
    }

    /// The sending time of the next request, if it may be sent now.
    #[inline]
    pub(super) fn permit(&self, now: u64, undelivered: u64) -> Option<u64> {
        if self.kind == PhaseKind::Feeds && undelivered >= self.undelivered_max {
            return None;
        }
        match &self.rate_schedule {
            None => Some(now),
            Some(rate_schedule) => Some(rate_schedule.due()).filter(|&due| due <= now),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cycle_puts_gets_and_deletes_until_its_jobs_are_used_up() {
        let content = Content::new(32, 1, 3, 1);
        let mut tracker = JobTracker::default();
        let mut phase = Phase::new("", PhaseKind::Cycles, 2);
        let mut start = |step| phase.start_step(step, &mut tracker, &content);
        assert_eq!(start(TokenStep::Put), Some(Request::Put { seq: 0 }));
        assert_eq!(start(TokenStep::Put), Some(Request::Put { seq: 1 }));
        assert_eq!(start(TokenStep::Put), None, "two jobs were allowed");
        let get = Request::Get { queue: 1, seq: 4, id: 0, wait: false };
        assert_eq!(start(TokenStep::Get { seq: 4 }), Some(get), "what is begun is ended");
        let delete = Request::Delete { seq: 4, id: 9 };
        assert_eq!(start(TokenStep::Delete { seq: 4, id: 9 }), Some(delete));
        assert_eq!(phase.after_put(3), TokenStep::Get { seq: 3 });
    }

    #[test]
    fn takes_request_each_undelivered_job_once() {
        let content = Content::new(32, 1, 2, 1);
        let mut tracker = JobTracker::default();
        for seq in [0, 1, 2] {
            assert_eq!(tracker.start(), seq);
            tracker.acknowledge(seq, seq + 10).unwrap();
        }
        tracker.record_delivery(1, 11).unwrap();
        let mut phase = Phase::takes("", &tracker);
        let mut queues = Vec::new();
        while let Some(Request::Get { queue, seq, id, .. }) =
            phase.start_step(TokenStep::Next, &mut tracker, &content)
        {
            queues.push((queue, seq, id));
        }
        assert_eq!(queues, [(0, 0, 10), (0, 2, 12)]);
    }

    #[test]
    fn late_request_keeps_its_intended_time() {
        let mut rate_schedule = RateSchedule::new(1000.0, 500);
        assert_eq!(rate_schedule.due(), 500);
        for _ in 0..5 {
            rate_schedule.advance();
        }
        assert_eq!(rate_schedule.due(), 5_000_500);
        assert_eq!(rate_schedule.missed(10_000_500), 5);
        assert_eq!(rate_schedule.missed(1), 0);
        let mut phase = Phase::new("", PhaseKind::Feeds, 1);
        phase.rate_schedule = Some(rate_schedule);
        phase.undelivered_max = 2;
        assert_eq!(phase.permit(5_000_499, 0), None, "too early");
        assert_eq!(phase.permit(9_000_000, 0), Some(5_000_500), "late: the intended time counts");
        assert_eq!(phase.permit(9_000_000, 2), None, "enough jobs are on the kind");
    }
}
