//! Histories in rings: the last steps of one length, each with its counts.

use crate::base::api_limits::{FLOW_STEP, LONG_STEP, RATE_STEPS};
use crate::base::time::Mono;
use crate::model::flow::{FlowKind, HistoryStep, Rates, StepCounts};

/// Changes by [`FlowKind`].
pub(super) type Changes = [u32; FlowKind::ALL.len()];

/// Where ready jobs stand in [`StepCounts`].
const READY: usize = FlowKind::ALL.len();

/// Short steps in a long one.
pub(super) const SHORT_PER_LONG: u64 = LONG_STEP.as_secs() / FLOW_STEP.as_secs();

/// The number of the short step of a moment.
pub(super) fn step_of(at: Mono) -> u64 {
    u128::from(at.0).div_euclid(FLOW_STEP.as_nanos()).try_into().unwrap_or(u64::MAX)
}

/// The last `N` steps.
#[derive(Clone, Debug)]
struct Ring<const N: usize> {
    /// The step with number `n` is at `n % N`.
    steps: [StepCounts; N],
    /// The number of the last step.
    last: u64,
}

impl<const N: usize> Ring<N> {
    /// Steps in which nothing happened.
    fn new(last: u64, ready: u32) -> Self {
        let mut quiet = StepCounts::default();
        quiet[READY] = ready;
        Self { steps: [quiet; N], last }
    }

    fn place(step: u64) -> usize {
        usize::try_from(step % N as u64).unwrap_or(0)
    }

    /// Goes on to a step; in those between nothing happened. O(min(steps, `N`)).
    fn go_on(&mut self, step: u64) {
        let mut quiet = StepCounts::default();
        quiet[READY] = self.steps[Self::place(self.last)][READY];
        let first = (self.last + 1).max((step + 1).saturating_sub(N as u64));
        for passed in first..=step {
            self.steps[Self::place(passed)] = quiet;
        }
        self.last = self.last.max(step);
    }

    fn add(&mut self, step: u64, changes: &Changes, ready: u32) {
        self.go_on(step);
        let counts = &mut self.steps[Self::place(self.last)];
        for (count, &change) in counts.iter_mut().zip(changes) {
            *count = count.saturating_add(change);
        }
        counts[READY] = ready;
    }

    /// The steps up to the last one, oldest first, but for those before the start of the server.
    fn series(&self) -> Vec<StepCounts> {
        let first = (self.last + 1).saturating_sub(N as u64);
        (first..=self.last).map(|step| self.steps[Self::place(step)]).collect()
    }
}

/// A history in short and in long steps.
#[derive(Clone, Debug)]
pub(in crate::store) struct History<const SHORT: usize, const LONG: usize> {
    short: Ring<SHORT>,
    long: Ring<LONG>,
    /// The short step of the last change.
    changed: u64,
}

impl<const SHORT: usize, const LONG: usize> History<SHORT, LONG> {
    /// Nothing has happened up to this short step.
    pub(super) fn new(step: u64, ready: u32) -> Self {
        let long = Ring::new(step / SHORT_PER_LONG, ready);
        Self { short: Ring::new(step, ready), long, changed: step }
    }

    /// Adds what happened in a short step, which is not before the last one that was added to.
    /// O(steps since then, up to those of the history).
    pub(super) fn add(&mut self, step: u64, changes: &Changes, ready: u32) {
        debug_assert!(step >= self.short.last, "steps of a history do not go back");
        if changes.iter().any(|&count| count > 0) {
            self.changed = step;
        }
        self.short.add(step, changes, ready);
        self.long.add(step / SHORT_PER_LONG, changes, ready);
        debug_assert!(
            self.long.last == self.short.last / SHORT_PER_LONG && self.changed <= self.short.last,
            "short and long steps go on together"
        );
    }

    /// For how many short steps nothing has changed.
    pub(super) fn quiet_steps(&self, step: u64) -> u64 {
        step.saturating_sub(self.changed)
    }

    /// The rates at a moment, with changes that were not added yet. The oldest step counts in part,
    /// so that the steps together are a minute. O(1).
    pub(super) fn rates(&self, now: Mono, further: &Changes) -> Rates {
        let step = step_of(now);
        let step_ms = HistoryStep::Short.milliseconds();
        let left_ms = step_ms - (now.0 / 1_000_000) % step_ms;
        let mut rates = Rates::default();
        for (number, rate) in rates.0.iter_mut().enumerate() {
            let mut sum = u64::from(further[number]) * step_ms;
            for back in 0..=RATE_STEPS {
                let Some(past) = step.checked_sub(back) else { break };
                if past + SHORT as u64 <= self.short.last || past > self.short.last {
                    continue;
                }
                let weight = if back == RATE_STEPS { left_ms } else { step_ms };
                sum += u64::from(self.short.steps[Ring::<SHORT>::place(past)][number]) * weight;
            }
            *rate = sum * 1_000 / (step_ms * LONG_STEP.as_secs());
        }
        rates
    }

    /// The history up to a moment, with changes that were not added yet, oldest first; the last
    /// step is the running one. O(steps).
    pub(super) fn series(
        &self,
        length: HistoryStep,
        now: Mono,
        further: &Changes,
        ready: u32,
    ) -> Vec<StepCounts> {
        let mut whole = self.clone();
        whole.add(step_of(now), further, ready);
        match length {
            HistoryStep::Short => whole.short.series(),
            HistoryStep::Long => whole.long.series(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn seconds(number: u64) -> Mono {
        Mono(number * 1_000_000_000)
    }

    #[test]
    fn rates_are_those_of_the_last_minute() {
        let mut history = History::<60, 30>::new(0, 0);
        history.add(0, &[120, 60, 6, 0], 60);
        assert_eq!(history.rates(seconds(1), &[0, 0, 0, 60]).0, [2_000, 1_000, 100, 1_000]);
        assert_eq!(history.rates(seconds(59), &[0; 4]).0, [2_000, 1_000, 100, 0]);
        // The step has left the minute in part, then as a whole.
        assert_eq!(history.rates(seconds(62), &[0; 4]).0, [1_200, 600, 60, 0]);
        assert_eq!(history.rates(seconds(65), &[0; 4]).0, [0; 4]);
        history.add(14, &[60, 0, 0, 0], 0);
        assert_eq!(history.rates(seconds(70), &[0; 4]).0, [1_000, 0, 0, 0]);
    }

    #[test]
    fn series_end_with_the_running_step() {
        let mut history = History::<4, 3>::new(0, 0);
        history.add(1, &[3, 1, 0, 0], 2);
        let short = history.series(HistoryStep::Short, seconds(16), &[0, 2, 2, 0], 0);
        assert_eq!(short, [[0; 5], [3, 1, 0, 0, 2], [0, 0, 0, 0, 2], [0, 2, 2, 0, 0]]);
        let long = history.series(HistoryStep::Long, seconds(130), &[0; 4], 2);
        assert_eq!(long, [[3, 1, 0, 0, 2], [0, 0, 0, 0, 2], [0, 0, 0, 0, 2]]);
        let late = history.series(HistoryStep::Short, seconds(1_000), &[1, 0, 0, 0], 3);
        let quiet = [0, 0, 0, 0, 2];
        assert_eq!(late, [quiet, quiet, quiet, [1, 0, 0, 0, 3]]);
    }

    #[test]
    fn step_of_a_moment_is_whole() {
        assert_eq!(
            [seconds(0), seconds(4), seconds(5), Mono(u64::MAX)].map(step_of)[..3],
            [0, 0, 1]
        );
    }
}
