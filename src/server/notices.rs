//! What the operator is told: some of each kind of trouble and its count, so that whoever makes
//! trouble cannot fill the log.

use crate::base::limits::{NOTICE_WINDOW, NOTICES_PER_WINDOW, REJECTION_NOTICE_INTERVAL};
use crate::base::rarely::Rarely;
use crate::base::time::{Mono, Now};
use crate::model::driver::{Incident, Notice};
use crate::model::id::ClientId;
use std::collections::VecDeque;

/// Notices that are to be told, and how much there was of each kind of trouble.
#[derive(Debug)]
pub(super) struct Notices {
    untold: VecDeque<Notice>,
    kinds: [Kind; KINDS],
    /// Clients that were refused.
    refusals: Rarely,
}

impl Default for Notices {
    fn default() -> Self {
        let refusals = Rarely::new(REJECTION_NOTICE_INTERVAL);
        Self { untold: VecDeque::new(), kinds: <[Kind; KINDS]>::default(), refusals }
    }
}

/// How many kinds of trouble there are.
const KINDS: usize = 8;

#[derive(Debug, Default)]
struct Kind {
    total: u64,
    /// When the current window began.
    since: Mono,
    /// Notices in the current window.
    told: u32,
}

fn kind(trouble: &Incident) -> usize {
    match trouble {
        Incident::JobDropped => 0,
        Incident::TooLarge(_) => 1,
        Incident::TooManySubscriptions => 2,
        Incident::UnknownRequest(_) => 3,
        Incident::WorkerDropped(_) => 4,
        Incident::LogLine(_) => 5,
        Incident::ClientsRefused(_) => 6,
        Incident::OtherProtocol => 7,
    }
}

impl Notices {
    /// Counts trouble, and tells it unless enough of its kind was told lately. A remark is told in
    /// any case: whoever makes them bounds how many there are in a turn.
    #[cold]
    pub(super) fn note(&mut self, client: ClientId, trouble: Incident, now: Now) {
        let kind = &mut self.kinds[kind(&trouble)];
        kind.total += 1;
        if let Incident::LogLine(_) = trouble {
            let total = kind.total;
            return self.untold.push_back(Notice {
                client: Some(client),
                incident: trouble,
                total,
            });
        }
        if now.mono >= kind.since.after(NOTICE_WINDOW) {
            kind.told = 0;
        }
        if kind.told == 0 {
            kind.since = now.mono;
        }
        if kind.told < NOTICES_PER_WINDOW {
            kind.told += 1;
            self.untold.push_back(Notice {
                client: Some(client),
                incident: trouble,
                total: kind.total,
            });
        }
    }

    /// A client was refused: that is told now and then, with how many there were.
    #[cold]
    pub(super) fn note_refusal(&mut self) {
        self.kinds[kind(&Incident::ClientsRefused(0))].total += 1;
        self.refusals.note();
    }

    /// When refusals are to be told.
    pub(super) fn next_refusals(&self) -> Option<Mono> {
        self.refusals.next()
    }

    /// Tells of refusals, if it is time.
    pub(super) fn tell_refusals(&mut self, now: Now) {
        if let Some(count) = self.refusals.take(now.mono) {
            let trouble = Incident::ClientsRefused(count);
            let total = self.kinds[kind(&trouble)].total;
            self.untold.push_back(Notice { client: None, incident: trouble, total });
        }
    }

    /// The next one to be told.
    pub(super) fn poll(&mut self) -> Option<Notice> {
        self.untold.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLIENT: ClientId = ClientId { index: 1, generation: 1 };

    const NONE: [u64; 0] = [];

    #[test]
    fn much_trouble_of_one_kind_is_counted_and_told_in_part() {
        let mut notices = Notices::default();
        let mut told = |at: Mono, troubles: &[Incident]| {
            for trouble in troubles {
                notices.note(CLIENT, trouble.clone(), Now { mono: at, ..Now::default() });
            }
            std::iter::from_fn(|| notices.poll()).map(|notice| notice.total).collect::<Vec<_>>()
        };
        let most: Vec<u64> = (1..=u64::from(NOTICES_PER_WINDOW)).collect();
        let start = Mono(5);
        assert_eq!(told(start, &vec![Incident::UnknownRequest(0); 100]), most);
        assert_eq!(told(start, &[Incident::UnknownRequest(1)]), NONE);
        assert_eq!(told(start, &[Incident::JobDropped, Incident::TooManySubscriptions]), [1, 1]);
        let end = start.after(NOTICE_WINDOW);
        assert_eq!(told(Mono(end.0 - 1), &[Incident::UnknownRequest(2)]), NONE);
        assert_eq!(told(end, &[Incident::UnknownRequest(2)]), [103]);
    }
}
