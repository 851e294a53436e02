//! Group commit: one sync for the records of several passes.

use super::{Journal, Stage, SyncMode};
use crate::base::time::Now;
use crate::journal::limits::{
    GROUP_COMMIT_MAX_DELAY, GROUP_COMMIT_MAX_RECORDS, GROUP_COMMIT_MIN_RECORDS,
};

impl Journal {
    /// Group commit: whether the open batch waits for the next pass. If the last batch had many
    /// client records, the next pass is likely to add some, and one sync costs as much for a
    /// hundred records as for one. A pass that adds none ends the wait.
    pub(super) fn delay_commit(&mut self, now: Now) -> bool {
        let batch = &mut self.batch;
        debug_assert!(
            batch.delayed.is_none_or(|(since, _)| since <= now.mono),
            "the clock of passes does not go back"
        );
        let records = batch.client_count();
        debug_assert!(
            batch.delayed.is_none_or(|(_, before)| before <= records),
            "a delayed batch has lost records"
        );
        let grows = batch.delayed.is_none_or(|(_, before)| records > before);
        let (since, _) = batch.delayed.unwrap_or((now.mono, 0));
        let delays = grows
            && self.stage == Stage::Running
            && self.options.sync == SyncMode::Always
            && self.io.last_client_records >= GROUP_COMMIT_MIN_RECORDS
            && (1..GROUP_COMMIT_MAX_RECORDS).contains(&records)
            && now.mono < since.after(GROUP_COMMIT_MAX_DELAY);
        debug_assert!(
            !delays || self.io.has_no_sealed(),
            "the open batch is delayed although sealed ones wait for the disk"
        );
        batch.delayed = delays.then_some((since, records));
        delays
    }
}
