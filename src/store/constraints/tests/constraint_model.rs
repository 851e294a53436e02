//! The naive model of one constraint: computed from all jobs and all starts.

use crate::model::job::Status;
use crate::model::worker::Constraint;
use crate::store::Store;
use crate::store::constraints::matcher::{self, PayloadView};
use crate::store::idx::JobIdx;
use crate::wire::Paths;

/// A constraint and the history that counts for it.
pub(super) struct ConstraintModel {
    pub(super) constraint: Constraint,
    pub(super) set_at: u64,
    /// Time in ns, key value, and whether it is a refund.
    pub(super) starts: Vec<(u64, Box<[u8]>, bool)>,
}

impl ConstraintModel {
    pub(super) fn value(&self, store: &Store, slot: JobIdx) -> Option<Box<[u8]>> {
        let job = &store.jobs[slot];
        let (name, payload) = (&*store.queues[job.queue].name, job.payload());
        if job.is_packet() || job.is_group_only() {
            return None;
        }
        let per = self.constraint.per.as_ref();
        let mut paths = Paths::default();
        matcher::add_paths(&self.constraint, &mut paths);
        let arguments = PayloadView::new(payload, &paths);
        matcher::matches(&self.constraint, name, &arguments)
            .then(|| per.map_or_else(Box::default, |path| matcher::value(path, name, &arguments)))
    }

    pub(super) fn running(&self, store: &Store, value: &[u8]) -> usize {
        let held = store.jobs.iter().filter(|(_, job)| job.status() == Status::Reserved);
        held.filter(|(slot, _)| self.value(store, *slot).as_deref() == Some(value)).count()
    }

    /// Tokens left beside one, in parts, replayed from the start; negative: none. Panics if a job
    /// was started without a token.
    pub(super) fn tokens(&self, value: &[u8], now: u64) -> Option<i128> {
        let rate = self.constraint.rate?;
        let token = i128::from(rate.period_ms) * 1_000_000;
        let most = i128::from(rate.burst) * token;
        let (mut level, mut at) = (most, self.set_at);
        let refill = |level: i128, passed: u64| {
            (level + i128::from(passed) * i128::from(rate.count)).min(most)
        };
        for (start, of, back) in &self.starts {
            if **of == *value {
                level = refill(level, start - at);
                level = if *back { (level + token).min(most) } else { level - token };
                assert!(level >= 0, "{} started faster than its rate", self.constraint.name);
                at = *start;
            }
        }
        Some(refill(level, now - at) - token)
    }
}
