//! Work that may be too much for one pass and is spread over several: the end of a client or worker
//! that has reserved many jobs, the pop of a large key group, the return of withheld jobs after a
//! pause, actions, answers to many that wait for the end of a job, and making and removing the rows
//! of an index. All share the steps of a pass.
//!
//! What must look as if it was done at once is made so by marks of its queues.

#[cfg(test)]
use super::{Effects, Store};
use crate::base::api_limits::JOBS_RELEASED_MIN;
use crate::base::limits::{PACKETS_PER_POP_MIN, SPREAD_STEPS_PER_PASS};
#[cfg(test)]
use crate::base::time::{Mono, Now};

/// The steps of a pass, and how many tasks later passes go on with.
#[derive(Debug)]
pub(super) struct SpreadWork {
    tasks: usize,
    steps_used: usize,
    steps_per_pass: usize,
}

impl Default for SpreadWork {
    fn default() -> Self {
        Self { tasks: 0, steps_used: 0, steps_per_pass: SPREAD_STEPS_PER_PASS }
    }
}

impl SpreadWork {
    /// Whether work is left for this or the next pass. O(1).
    #[inline]
    pub(super) fn is_pending(&self) -> bool {
        self.tasks > 0
    }

    #[inline]
    pub(super) fn begin_pass(&mut self) {
        self.steps_used = 0;
        debug_assert!(self.steps_per_pass > 0, "a pass goes on with work that is spread");
    }

    pub(super) fn steps_left(&self) -> usize {
        self.steps_per_pass.saturating_sub(self.steps_used)
    }

    /// How many packets a pop may take beside the selected one.
    pub(super) fn steps_left_for_pop(&self) -> usize {
        self.steps_left().max(PACKETS_PER_POP_MIN.min(self.steps_per_pass))
    }

    /// How many jobs the first thing that ends in a call may release.
    pub(super) fn steps_left_for_release(&self) -> usize {
        self.steps_left().max(JOBS_RELEASED_MIN.min(self.steps_per_pass))
    }

    pub(super) fn spend(&mut self, steps: usize) {
        self.steps_used += steps;
    }

    /// Later passes have one thing more to do.
    pub(super) fn begin_task(&mut self) {
        self.tasks += 1;
    }

    pub(super) fn end_task(&mut self) {
        assert!(self.tasks > 0, "a task of later passes ends twice");
        self.tasks -= 1;
    }

    /// For checks.
    pub(super) fn tasks(&self) -> usize {
        self.tasks
    }

    /// For tests.
    pub(super) fn set_steps_per_pass(&mut self, steps: usize) {
        self.steps_per_pass = steps;
    }
}

/// What spread work is done on a queue, and whether it is paused: marks, as bits of a byte.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct HoldMarks(u8);

impl HoldMarks {
    /// It has got back jobs of a client that has ended (`disconnects`).
    pub(super) const RELEASED: Self = Self(1);
    /// A pop gathers a key group: the queue is on hold (`large_pops`).
    pub(super) const GATHERED: Self = Self(2);
    /// A pop takes packets that it has gathered there: the queue is kept.
    pub(super) const TAKEN: Self = Self(4);
    /// It is paused: on hold until it is resumed (`manage/pause`).
    pub(super) const PAUSED: Self = Self(8);

    /// Whether there is a mark.
    #[inline(always)]
    pub(super) fn any(self) -> bool {
        self.0 != 0
    }

    /// All marks; 0: none.
    #[inline(always)]
    pub(super) fn bits(self) -> u32 {
        u32::from(self.0)
    }

    pub(super) fn has(self, mark: Self) -> bool {
        self.0 & mark.0 != 0
    }

    pub(super) fn set(&mut self, mark: Self) {
        self.0 |= mark.0;
    }

    pub(super) fn clear(&mut self, mark: Self) {
        self.0 &= !mark.0;
    }
}

/// For tests: a store that is observed pass by pass.
#[cfg(test)]
pub(super) trait Passes {
    fn parts(&mut self) -> (&mut Store, &mut Effects, Now);

    /// Looks at what a pass has answered.
    fn note_pass(&mut self);

    fn run_pass(&mut self) {
        let (store, fx, now) = self.parts();
        fx.clear();
        store.expire(16, now, fx);
        self.note_pass();
    }

    /// Passes until nothing is left to do; returns their number.
    fn settle(&mut self) -> usize {
        let mut passes = 0;
        while self.parts().0.next_deadline() == Some(Mono(0)) {
            passes += 1;
            assert!(passes < 10_000, "it never ends");
            self.run_pass();
        }
        passes
    }
}
