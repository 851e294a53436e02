//! The order of jobs, and the backoff of a retry.

use super::Job;
use jobcentre::model::job::{Retry, TieBreak};

/// Whether a reserve or pop selects `one` rather than `other`.
pub(crate) fn leaves_before(one: &Job, other: &Job) -> bool {
    let newest = |job: &Job| job.tie_break == TieBreak::Lifo;
    one.priority
        .cmp(&other.priority)
        .then(newest(other).cmp(&newest(one)))
        .then(if newest(one) { one.id.cmp(&other.id) } else { other.id.cmp(&one.id) })
        .is_gt()
}

/// The time before retry `number`, before chance has its say. In milliseconds.
pub(crate) fn backoff(retry: &Retry, number: u32) -> u128 {
    let mut wait = u128::from(retry.first_ms);
    for _ in 1..number {
        wait = wait.saturating_mul(u128::from(retry.factor.max(1)));
    }
    wait.min(u128::from(retry.max_ms))
}

mod tests {
    use super::backoff;
    use crate::oracle::types::{Answer, Load};
    use crate::oracle::{NewJob, Oracle};
    use jobcentre::base::slab::SlabKey;
    use jobcentre::model::command::Wait;
    use jobcentre::model::id::Ticket;
    use jobcentre::model::job::{Retry, TieBreak};

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
    fn fifo_jobs_precede_lifo_jobs() {
        let mut oracle = Oracle::new(&[b"a", b"b"]);
        let ticket = Ticket { client: SlabKey { index: 0, generation: 0 }, serial: 0 };
        let turns = [TieBreak::Lifo, TieBreak::Fifo, TieBreak::Lifo, TieBreak::Fifo];
        for (number, tie_break) in turns.into_iter().enumerate() {
            let job = NewJob { tie_break, ..NewJob::plain(number % 2, Some(1), Load::json("{}")) };
            oracle.run(|oracle| oracle.put(ticket, job));
        }
        let ids = (0..5).map(|_| {
            let said = oracle.run(|oracle| oracle.reserve(ticket, &[0, 1, 0], Wait::No));
            match &said[..] {
                [(_, Answer::Job(view))] => view.id,
                _ => 0,
            }
        });
        assert_eq!(ids.collect::<Vec<_>>(), [2, 4, 3, 1, 0]);
    }
}
