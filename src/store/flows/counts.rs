//! What a queue keeps of its flows.

use super::ring::{Changes, History};
use crate::base::api_limits::{QUEUE_LONG_STEPS, QUEUE_SHORT_STEPS};
use crate::model::flow::FlowKind;

/// The history of a queue.
pub(in crate::store) type QueueHistory = History<QUEUE_SHORT_STEPS, QUEUE_LONG_STEPS>;

/// Changes in a queue since they were noted last.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::store) struct FlowCounts(pub(super) Changes);

impl FlowCounts {
    /// Counts one change.
    #[inline(always)]
    pub(in crate::store) fn count(&mut self, kind: FlowKind) {
        let count = &mut self.0[kind as usize];
        *count = count.wrapping_add(1);
    }

    /// Reverses a count that is made, or will be made, in the same command.
    #[inline(always)]
    pub(in crate::store) fn uncount(&mut self, kind: FlowKind) {
        let count = &mut self.0[kind as usize];
        *count = count.wrapping_sub(1);
    }

    /// The changes of a kind since they were noted.
    pub(in crate::store) fn get(&self, kind: FlowKind) -> u32 {
        self.0[kind as usize]
    }

    pub(super) fn is_quiet(&self) -> bool {
        self.0 == Changes::default()
    }
}
