//! The order of jobs, and the backoff of a retry.

use super::store_model::Job;
use jobcentre::model::job::{Priority, Retry, TieBreak};
use std::cmp::Ordering;

/// Bigger is more urgent.
pub(super) fn compare(one: Priority<'_>, other: Priority<'_>) -> Ordering {
    let rank = |priority| match priority {
        Priority::Unselected => (0, 0, 0, ""),
        Priority::Small(number) => (1, number, 0, ""),
        Priority::Big(digits) => (2, 0, digits.len(), digits),
    };
    rank(one).cmp(&rank(other))
}

/// Whether a reserve or pop selects `one` rather than `other`.
pub(super) fn leaves_before(one: &Job, other: &Job) -> bool {
    let newest = |job: &Job| job.tie_break == TieBreak::Lifo;
    compare(one.priority, other.priority)
        .then(newest(other).cmp(&newest(one)))
        .then(if newest(one) { one.id.cmp(&other.id) } else { other.id.cmp(&one.id) })
        .is_gt()
}

/// The time before retry `number`, before chance has its say. In milliseconds.
pub(super) fn backoff(retry: &Retry, number: u32) -> u128 {
    let mut wait = u128::from(retry.first_ms);
    for _ in 1..number {
        wait = wait.saturating_mul(u128::from(retry.factor.max(1)));
    }
    wait.min(u128::from(retry.max_ms))
}

mod tests {
    use super::{backoff, compare};
    use crate::engine_sim::store_model::Model;
    use crate::engine_sim::types::{Answer, Load, Request, Text, URGENCIES};
    use jobcentre::base::slab::SlabKey;
    use jobcentre::model::command::Wait;
    use jobcentre::model::id::Ticket;
    use jobcentre::model::job::{Encoding, Priority, Retry, TieBreak};

    #[test]
    fn backoff_grows_to_its_limit() {
        let mut retry = Retry { limit: 9, first_ms: 5, factor: 3, max_ms: 100, jitter_percent: 10 };
        assert_eq!([1, 2, 3, 4, 5].map(|number| backoff(&retry, number)), [5, 15, 45, 100, 100]);
        retry.factor = 0;
        assert_eq!(backoff(&retry, 1_000), 5, "a factor of 0 counts as 1");
        (retry.factor, retry.max_ms) = (u32::MAX, u64::MAX);
        assert_eq!(backoff(&retry, 1_000), u64::MAX.into());
    }

    #[test]
    fn priorities_are_compared_as_numbers() {
        assert!(URGENCIES.windows(2).all(|pair| compare(pair[0], pair[1]).is_lt()));
    }

    #[test]
    fn fifo_jobs_precede_lifo_jobs() {
        let mut model = Model::default();
        let client = SlabKey { index: 0, generation: 0 };
        let turns = [TieBreak::Lifo, TieBreak::Fifo, TieBreak::Lifo, TieBreak::Fifo];
        for (serial, tie_break) in (0..).zip(turns) {
            let load = Load { encoding: Encoding::Json, text: Text::new(b"{}") };
            let priority = Priority::Small(1);
            let ask = Request::Put {
                queue: serial as usize % 2,
                priority,
                tie_break,
                load,
                options: None,
            };
            model.submit(Ticket { client, serial }, &ask);
        }
        model.said.clear();
        for serial in 4..9 {
            let ask = Request::Take { queues: vec![0, 1, 0], wait: Wait::No };
            model.submit(Ticket { client, serial }, &ask);
        }
        let ids = model.said.iter().map(|(_, said)| match said {
            Answer::Job(view) => view.id,
            _ => 0,
        });
        assert_eq!(ids.collect::<Vec<_>>(), [2, 4, 3, 1, 0]);
    }
}
