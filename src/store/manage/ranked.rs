//! The first queues in an order: by ready jobs, or by the age of the oldest one.
//!
//! Nothing keeps such an order, so a request makes a snapshot, over as many passes as that takes:
//! a walk over the names that match, which keeps the first [`RANKED_MAX`], with at most
//! [`ANSWER_BYTES_ENOUGH`] bytes of names. It is shown to all that ask for the same within
//! [`RANKED_KEPT`]; those that have waited for it are answered over several passes too. One
//! snapshot is made at a time.

use super::details::{looked_at, matches_glob};
use crate::base::api_limits::{
    ANSWER_BYTES_ENOUGH, QUEUE_JOBS_SCANNED, RANKED_KEPT, RANKED_MAX, RANKED_PER_STEP,
    RANKED_SNAPSHOTS_MAX,
};
use crate::base::time::{Mono, Now};
use crate::model::id::{ClientId, Ticket};
use crate::model::manage::{ManageReply, QueueDetails, QueueOrder, QueuePage};
use crate::store::idx::QueueIdx;
use crate::store::{Effects, Store};
use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Comparisons with a pattern that cost as much as looking at a name.
const GLOB_STEPS_PER_NAME: usize = 64;

/// What showing a queue costs, in names.
const DETAILS_NAMES: usize = 8;

/// Which queues, and in which order.
type What = (QueueOrder, Option<Box<[u8]>>);

/// The snapshots, and those that are being made. See the module documentation.
#[derive(Debug, Default)]
pub(in crate::store) struct Rankings {
    /// At most [`RANKED_SNAPSHOTS_MAX`], the oldest first.
    snapshots: VecDeque<Snapshot>,
    /// The first one is being made, the others wait. Each is a task of the spread work.
    walks: VecDeque<Walk>,
}

#[derive(Debug)]
struct Snapshot {
    what: What,
    at: Mono,
    queues: Arc<[QueueDetails]>,
}

#[derive(Debug)]
struct Walk {
    what: What,
    /// Those that ask, with the number of queues.
    tickets: Vec<(Ticket, usize)>,
    /// The last name that was looked at.
    behind: Option<Box<[u8]>>,
    /// The first queues so far: equal ones by name.
    best: BTreeMap<(Reverse<u64>, Box<[u8]>), QueueDetails>,
    /// The bytes of their names.
    bytes: usize,
    /// The queues, once all names were looked at: what is left is to answer.
    found: Option<Arc<[QueueDetails]>>,
}

impl Walk {
    /// Adds a queue, and drops the last ones if there are too many.
    fn add(&mut self, rank: u64, name: &[u8], queue: QueueDetails) {
        self.bytes += name.len();
        let former = self.best.insert((Reverse(rank), name.into()), queue);
        debug_assert!(former.is_none(), "a walk looks at each name once");
        while self.best.len() > RANKED_MAX || self.bytes > ANSWER_BYTES_ENOUGH {
            let Some(((_, name), _)) = self.best.pop_last() else { return };
            self.bytes -= name.len();
        }
        debug_assert!(
            (!self.best.is_empty() || self.bytes == 0) && self.best.len() <= RANKED_MAX,
            "the bytes of the names that are kept are counted"
        );
    }

    /// Whether a queue would stay if it was added.
    fn takes(&self, rank: u64, name: &[u8]) -> bool {
        let full = self.best.len() >= RANKED_MAX || self.bytes >= ANSWER_BYTES_ENOUGH;
        let last = self.best.last_key_value();
        !full || last.is_some_and(|((last, other), _)| (Reverse(rank), name) < (*last, other))
    }
}

impl Rankings {
    /// Snapshots that later passes go on with.
    pub(in crate::store) fn unfinished(&self) -> usize {
        self.walks.len()
    }

    /// Drops snapshots that are too old to be shown. O(queues in them).
    pub(in crate::store) fn drop_old(&mut self, now: Mono) {
        self.snapshots.retain(|snapshot| now < snapshot.at.after(RANKED_KEPT));
    }

    /// Whether this ticket waits for a snapshot. O(walks).
    pub(in crate::store) fn is_awaited(&self, ticket: Ticket) -> bool {
        self.walks.iter().any(|walk| walk.tickets.iter().any(|&(other, _)| other == ticket))
    }

    /// The ticket is not answered by a snapshot. Returns whether it waited for one. O(walks).
    pub(in crate::store) fn stop_waiting(&mut self, ticket: Ticket) -> bool {
        self.remove_tickets(|other| other == ticket)
    }

    /// No ticket of a client that has ended is answered. O(walks).
    pub(in crate::store) fn remove_client(&mut self, client: ClientId) {
        self.remove_tickets(|ticket| ticket.client == client);
    }

    fn remove_tickets(&mut self, which: impl Fn(Ticket) -> bool) -> bool {
        let before: usize = self.walks.iter().map(|walk| walk.tickets.len()).sum();
        for walk in &mut self.walks {
            walk.tickets.retain(|&(ticket, _)| !which(ticket));
        }
        self.walks.iter().map(|walk| walk.tickets.len()).sum::<usize>() < before
    }
}

fn page(queues: &[QueueDetails], limit: usize) -> ManageReply {
    let queues = queues.iter().take(limit).cloned().collect();
    ManageReply::Queues(Box::new(QueuePage { queues, next: None }))
}

impl Store {
    /// Answers with the first queues of a snapshot, now or when it is made. O(limit), and O(log q)
    /// for each name up to what is left of the pass.
    pub(super) fn ranked(
        &mut self,
        ticket: Ticket,
        what: (QueueOrder, Option<&[u8]>),
        limit: usize,
        now: Now,
        fx: &mut Effects,
    ) {
        let what: What = (what.0, what.1.map(Into::into));
        let rankings = &mut self.rankings;
        rankings.drop_old(now.mono);
        if let Some(found) = rankings.snapshots.iter().find(|snapshot| snapshot.what == what) {
            return fx.reply(ticket, page(&found.queues, limit));
        }
        if let Some(walk) = rankings.walks.iter_mut().find(|walk| walk.what == what) {
            return walk.tickets.push((ticket, limit));
        }
        let (tickets, best) = (vec![(ticket, limit)], BTreeMap::new());
        let walk = Walk { what, tickets, behind: None, best, bytes: 0, found: None };
        rankings.walks.push_back(walk);
        self.spread.begin_task();
        self.run_rankings(now, fx);
    }

    /// Goes on with snapshots, up to what is left of `SPREAD_STEPS_PER_PASS`.
    #[inline]
    pub(in crate::store) fn run_rankings(&mut self, now: Now, fx: &mut Effects) {
        if !self.rankings.walks.is_empty() {
            self.make_snapshots(now, fx);
        }
    }

    #[cold]
    fn make_snapshots(&mut self, now: Now, fx: &mut Effects) {
        while self.spread.steps_left() > 0
            && let Some(mut walk) = self.rankings.walks.pop_front()
        {
            if walk.found.is_none()
                && !walk.tickets.is_empty()
                && !self.walk_further(&mut walk, now)
            {
                let best = std::mem::take(&mut walk.best);
                walk.found = Some(best.into_values().collect());
                self.keep_snapshot(&walk, now);
            }
            self.answer_ranked(&mut walk, fx);
            if walk.tickets.is_empty() {
                self.spread.end_task();
            } else {
                self.rankings.walks.push_front(walk);
            }
        }
    }

    fn keep_snapshot(&mut self, walk: &Walk, now: Now) {
        let Some(queues) = walk.found.clone() else { return };
        debug_assert!(queues.len() <= RANKED_MAX, "a snapshot is bounded");
        if self.rankings.snapshots.len() >= RANKED_SNAPSHOTS_MAX {
            self.rankings.snapshots.pop_front();
        }
        let snapshot = Snapshot { what: walk.what.clone(), at: now.mono, queues };
        self.rankings.snapshots.push_back(snapshot);
    }

    /// Answers those that have waited for a snapshot, up to what is left of the pass.
    fn answer_ranked(&mut self, walk: &mut Walk, fx: &mut Effects) {
        let Some(queues) = &walk.found else { return };
        while self.spread.steps_left() > 0
            && let Some((ticket, limit)) = walk.tickets.pop()
        {
            self.spread.spend(1 + limit.min(queues.len()) / RANKED_PER_STEP);
            fx.reply(ticket, page(queues, limit));
        }
    }

    /// Looks at names, up to what is left of the pass. Returns whether there are more.
    fn walk_further(&mut self, walk: &mut Walk, now: Now) -> bool {
        let (order, glob) = (walk.what.0, walk.what.1.clone());
        let limit = self.spread.steps_left().saturating_mul(RANKED_PER_STEP);
        let (mut used, mut steps) = (0, 0);
        let behind = walk.behind.take();
        for (name, queue) in self.queues.names_behind(behind.as_deref()) {
            used += 1;
            if glob.as_deref().is_none_or(|glob| matches_glob(glob, name, &mut steps)) {
                let (rank, looked) = self.rank(order, queue, now);
                used += looked;
                if walk.takes(rank, name) {
                    let details = self.queue_details(queue, now);
                    used += DETAILS_NAMES + looked_at(&details);
                    walk.add(rank, name, details);
                }
            }
            if used + steps / GLOB_STEPS_PER_NAME >= limit {
                walk.behind = Some(name.into());
                break;
            }
        }
        self.spread.spend((used + steps / GLOB_STEPS_PER_NAME).div_ceil(RANKED_PER_STEP));
        walk.behind.is_some()
    }

    /// The number by which a queue is ordered, and how many jobs that has looked at.
    fn rank(&self, order: QueueOrder, queue: QueueIdx, now: Now) -> (u64, usize) {
        match order {
            QueueOrder::Ready => (self.ready_count(queue), 0),
            QueueOrder::Oldest => {
                let looked = usize::try_from(self.ready_count(queue)).unwrap_or(usize::MAX);
                let age = self.oldest_ready_ms(queue, now);
                // A queue without ready jobs comes behind one with a job that is just ready.
                (age.map_or(0, |age| age + 1), looked.min(QUEUE_JOBS_SCANNED))
            }
        }
    }
}
