//! How long jobs were ready before they were reserved or popped: the median and the 99th percentile
//! of the server, step by step.
//!
//! Nothing is done on the path of a request: what a step was like is the difference between two
//! states of a histogram that is kept anyway.

use super::ring::SHORT_PER_LONG;
use crate::base::api_limits::{SERVER_LONG_STEPS, SERVER_SHORT_STEPS};
use crate::base::histogram::Histogram;
use crate::model::flow::{HistoryStep, NO_WAIT, StepWaits};

/// The last `N` steps.
#[derive(Clone, Debug)]
struct WaitRing<const N: usize> {
    /// The step with number `n` is at `n % N`.
    steps: [StepWaits; N],
    /// The number of the last step.
    last: u64,
    /// What was counted before the last step.
    before: Histogram,
    /// What was counted when it was noted last.
    noted: Histogram,
}

impl<const N: usize> WaitRing<N> {
    fn new() -> Self {
        let (before, noted) = (Histogram::default(), Histogram::default());
        Self { steps: [[NO_WAIT; 2]; N], last: 0, before, noted }
    }

    fn place(step: u64) -> usize {
        usize::try_from(step % N as u64).unwrap_or(0)
    }

    /// Notes what was counted up to a step, which is not before the last one. O(steps since then,
    /// up to `N`).
    fn note(&mut self, step: u64, counted: &Histogram) {
        debug_assert!(step >= self.last, "steps do not go back");
        if step > self.last {
            let first = (self.last + 1).max((step + 1).saturating_sub(N as u64));
            for passed in first..=step {
                self.steps[Self::place(passed)] = [NO_WAIT; 2];
            }
            self.last = step;
            self.before = self.noted;
        }
        let of = |permille| {
            let found = counted.quantile_since(&self.before, permille);
            found.map_or(NO_WAIT, |ms| u32::try_from(ms).unwrap_or(NO_WAIT - 1))
        };
        self.steps[Self::place(step)] = [of(500), of(990)];
        self.noted = *counted;
    }

    /// The steps up to the last one, oldest first, but for those before the start of the server.
    fn series(&self) -> Vec<StepWaits> {
        let first = (self.last + 1).saturating_sub(N as u64);
        (first..=self.last).map(|step| self.steps[Self::place(step)]).collect()
    }
}

/// The history of the server, in short and in long steps.
#[derive(Clone, Debug)]
pub(super) struct Waits {
    short: WaitRing<SERVER_SHORT_STEPS>,
    long: WaitRing<SERVER_LONG_STEPS>,
}

impl Waits {
    pub(super) fn new() -> Self {
        Self { short: WaitRing::new(), long: WaitRing::new() }
    }

    /// Notes what was counted up to a short step. O(steps since the last one).
    pub(super) fn note(&mut self, step: u64, counted: &Histogram) {
        self.short.note(step, counted);
        self.long.note(step / SHORT_PER_LONG, counted);
        debug_assert_eq!(
            self.long.last,
            self.short.last / SHORT_PER_LONG,
            "short and long steps go on together"
        );
    }

    /// The history up to a short step, oldest first; the last step is the running one. O(steps).
    pub(super) fn series(
        &self,
        length: HistoryStep,
        step: u64,
        counted: &Histogram,
    ) -> Vec<StepWaits> {
        match length {
            HistoryStep::Short => {
                let mut ring = self.short.clone();
                ring.note(step, counted);
                ring.series()
            }
            HistoryStep::Long => {
                let mut ring = self.long.clone();
                ring.note(step / SHORT_PER_LONG, counted);
                ring.series()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: StepWaits = [NO_WAIT; 2];

    #[test]
    fn step_is_about_what_was_reserved_in_it() {
        let mut counted = Histogram::default();
        let mut waits = Waits::new();
        counted.note(4, 98);
        counted.note(1_024, 2);
        waits.note(0, &counted);
        assert_eq!(waits.series(HistoryStep::Short, 1, &counted), [[3, 768], NONE]);
        counted.note(16, 1);
        waits.note(2, &counted);
        assert_eq!(waits.series(HistoryStep::Short, 3, &counted), [[3, 768], NONE, [16, 16], NONE]);
        assert_eq!(waits.series(HistoryStep::Long, 3, &counted).len(), 1);
        // A minute is about all of its short steps.
        waits.note(11, &counted);
        let [minute] = waits.series(HistoryStep::Long, 11, &counted)[..] else { panic!() };
        assert_eq!(minute, [3, 768]);
        assert_eq!(waits.series(HistoryStep::Long, 12, &counted), [[3, 768], NONE]);
    }

    #[test]
    fn old_steps_leave() {
        let mut counted = Histogram::default();
        let mut waits = Waits::new();
        counted.note(2, 1);
        waits.note(0, &counted);
        let steps = SERVER_SHORT_STEPS as u64;
        let series = |step| waits.series(HistoryStep::Short, step, &counted);
        assert_eq!((series(steps - 1).len(), series(steps - 1)[0]), (SERVER_SHORT_STEPS, [2, 2]));
        assert_eq!((series(steps).len(), series(steps)[0]), (SERVER_SHORT_STEPS, NONE));
        assert!(series(10 * steps).iter().all(|step| *step == NONE));
    }
}
