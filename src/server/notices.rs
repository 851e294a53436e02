//! Notices for the log: a bounded number per window of each kind of incident, with its total, so
//! that a client cannot fill the log.

use crate::base::limits::{NOTICE_WINDOW, NOTICES_PER_WINDOW, REJECTION_NOTICE_INTERVAL};
use crate::base::rate_limited_counter::RateLimitedCounter;
use crate::base::time::{Mono, Now};
use crate::model::driver::{Incident, Notice};
use crate::model::id::ClientId;
use std::collections::VecDeque;

/// Notices to be logged, and counters of each kind of incident.
#[derive(Debug)]
pub(super) struct Notices {
    pending: VecDeque<Notice>,
    kinds: [Kind; KINDS],
    /// Rejected clients.
    rejections: RateLimitedCounter,
}

impl Default for Notices {
    fn default() -> Self {
        let rejections = RateLimitedCounter::new(REJECTION_NOTICE_INTERVAL);
        Self { pending: VecDeque::new(), kinds: <[Kind; KINDS]>::default(), rejections }
    }
}

/// Variants of [`Incident`].
const KINDS: usize = 11;

#[derive(Debug, Default)]
struct Kind {
    total: u64,
    /// Start of the current window.
    since: Mono,
    /// Notices in the current window.
    logged: u32,
}

fn kind(incident: &Incident) -> usize {
    match incident {
        Incident::JobDropped(_) => 0,
        Incident::TooLarge(_) => 1,
        Incident::TooManySubscriptions => 2,
        Incident::UnknownRequest(_) => 3,
        Incident::WorkerDropped(_) => 4,
        Incident::LogLine(_) => 5,
        Incident::ClientsRejected(_) => 6,
        Incident::OtherProtocol => 7,
        Incident::BuffersFull(_) => 8,
        Incident::NotAuthenticated => 9,
        Incident::Denied(_) => 10,
    }
}

impl Notices {
    /// Counts an incident, and logs it unless its kind has used up its window. Log lines are not
    /// limited here: their source bounds how many it makes in a turn.
    #[cold]
    pub(super) fn note(&mut self, client: ClientId, incident: Incident, now: Now) {
        let kind = &mut self.kinds[kind(&incident)];
        kind.total += 1;
        if let Incident::LogLine(_) = incident {
            let total = kind.total;
            return self.pending.push_back(Notice { client: Some(client), incident, total });
        }
        if now.mono >= kind.since.after(NOTICE_WINDOW) {
            kind.logged = 0;
        }
        if kind.logged == 0 {
            kind.since = now.mono;
        }
        assert!(
            kind.logged <= NOTICES_PER_WINDOW && u64::from(kind.logged) < kind.total,
            "more notices were logged than permitted, or than there were incidents"
        );
        if kind.logged < NOTICES_PER_WINDOW {
            kind.logged += 1;
            self.pending.push_back(Notice { client: Some(client), incident, total: kind.total });
        }
    }

    /// Counts a rejected client. Rejections are logged at intervals, with their number.
    #[cold]
    pub(super) fn record_rejection(&mut self) {
        self.kinds[kind(&Incident::ClientsRejected(0))].total += 1;
        self.rejections.count();
    }

    /// When rejections are to be logged next.
    pub(super) fn next_rejections(&self) -> Option<Mono> {
        self.rejections.next_report()
    }

    /// Logs the rejections since the last time, if they are due.
    pub(super) fn log_rejections(&mut self, now: Now) {
        if let Some(count) = self.rejections.take_report(now.mono) {
            let incident = Incident::ClientsRejected(count);
            let total = self.kinds[kind(&incident)].total;
            self.pending.push_back(Notice { client: None, incident, total });
        }
    }

    /// The next notice to be logged.
    pub(super) fn poll(&mut self) -> Option<Notice> {
        self.pending.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::reply::Rejection;

    const CLIENT: ClientId = ClientId { index: 1, generation: 1 };

    const NONE: [u64; 0] = [];

    #[test]
    fn incidents_of_one_kind_are_all_counted_and_logged_up_to_the_limit_of_a_window() {
        let mut notices = Notices::default();
        let mut logged = |at: Mono, incidents: &[Incident]| {
            for incident in incidents {
                notices.note(CLIENT, incident.clone(), Now { mono: at, ..Now::default() });
            }
            std::iter::from_fn(|| notices.poll()).map(|notice| notice.total).collect::<Vec<_>>()
        };
        let most: Vec<u64> = (1..=u64::from(NOTICES_PER_WINDOW)).collect();
        let start = Mono(5);
        assert_eq!(logged(start, &vec![Incident::UnknownRequest(0); 100]), most);
        assert_eq!(logged(start, &[Incident::UnknownRequest(1)]), NONE);
        let others = [Incident::JobDropped(Rejection::Full), Incident::TooManySubscriptions];
        assert_eq!(logged(start, &others), [1, 1]);
        let end = start.after(NOTICE_WINDOW);
        assert_eq!(logged(Mono(end.0 - 1), &[Incident::UnknownRequest(2)]), NONE);
        assert_eq!(logged(end, &[Incident::UnknownRequest(2)]), [103]);
    }
}
