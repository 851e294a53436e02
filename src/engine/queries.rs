//! Searches on their way through the helper that evaluates queries: one at a time, in the order of
//! their coming.
//!
//! The store hands a search out, it is evaluated elsewhere over a snapshot, and what was found goes
//! back to the store; if its time is over the helper says so, and may not be free for the next one
//! for a while. Invariants: each search ends exactly once, unless its client does; its
//! snapshot is of the moment at which the evaluation begins, so that polls behind each other see
//! what those before them have done.

use crate::base::limits::{POLL_CANDIDATES, QUERIES_PER_PASS, QUERIES_WAITING_MAX};
use crate::base::time::{Mono, Now};
use crate::model::figures::QueryFigures;
use crate::model::id::ClientId;
use crate::model::row::Rows;
use crate::query::{Found, Helper, Work};
use crate::store::{Effects, Outcome, Search, Store, Watched};
use std::collections::VecDeque;

/// The searches under way.
#[derive(Debug, Default)]
pub(super) struct Queries {
    helper: Option<Box<dyn Helper>>,
    /// Without their rows.
    waiting: VecDeque<Search>,
    /// What the helper evaluates.
    running: Option<Box<Search>>,
    /// The helper was not free when it was asked last. It wakes the loop when it is.
    blocked: bool,
    begun: u64,
    failed: u64,
}

impl Queries {
    /// From now on searches go to this helper.
    pub(super) fn set_helper(&mut self, helper: Box<dyn Helper>) {
        self.helper = Some(helper);
    }

    /// Whether there is nothing to do or to wait for.
    #[inline]
    pub(super) fn is_idle(&self) -> bool {
        self.running.is_none() && self.waiting.is_empty()
    }

    /// When [`Queries::advance`] would do something without the helper's having ended anything.
    #[inline]
    pub(super) fn poll_timeout(&self) -> Option<Mono> {
        if self.running.is_some() {
            return self.helper.as_ref()?.poll_timeout();
        }
        (!self.waiting.is_empty() && !self.blocked).then_some(Mono(0))
    }

    /// Puts the searches that a command has made at the end of the line. Those that cannot wait are
    /// answered. O(searches).
    #[cold]
    pub(super) fn take(&mut self, fx: &mut Effects) {
        for search in std::mem::take(&mut fx.searches) {
            let why = if self.helper.is_none() {
                "this server evaluates no queries"
            } else if self.waiting.len() >= QUERIES_WAITING_MAX {
                "too many queries wait for their turn: try again later"
            } else {
                self.waiting.push_back(Search { rows: Rows::new(), ..search });
                continue;
            };
            fx.tell(search.ticket, Watched::BadQuery(why.into()));
        }
    }

    /// Nobody waits for the searches of this client any more. O(searches that wait).
    pub(super) fn forget(&mut self, client: ClientId) {
        self.waiting.retain(|search| search.ticket.client != client);
        if self.running.take_if(|search| search.ticket.client == client).is_some()
            && let Some(helper) = &mut self.helper
        {
            helper.stop();
        }
    }

    /// Takes in what the helper has found, and gives it the next search; a bounded number of times.
    /// O(log n) each, and O(candidates log n) for a poll.
    pub(super) fn advance(&mut self, store: &mut Store, now: Now, fx: &mut Effects) {
        for _ in 0..QUERIES_PER_PASS {
            self.dispatch(store, now, fx);
            if self.running.is_none() {
                return;
            }
            let Some(found) = self.helper.as_mut().and_then(|helper| helper.poll(now.mono)) else {
                return;
            };
            self.failed += u64::from(found.is_err());
            if let Some(search) = self.running.take() {
                self.settle(*search, found, store, now, fx);
            }
        }
    }

    /// How many there were, and how they ended.
    pub(super) fn figures(&self) -> QueryFigures {
        QueryFigures {
            waiting: self.waiting.len() as u64,
            begun: self.begun,
            failed: self.failed,
            timed_out: self.helper.as_ref().map_or(0, |helper| helper.timed_out()),
        }
    }

    /// Begins with the next search, if none is under way and the helper is free.
    fn dispatch(&mut self, store: &mut Store, now: Now, fx: &mut Effects) {
        let Some(helper) = &mut self.helper else { return };
        self.blocked = self.running.is_none() && !helper.is_free();
        // Each that turns out to need no search was in the line: it is bounded as the line is.
        while self.running.is_none()
            && !self.blocked
            && let Some(search) = self.waiting.pop_front()
        {
            store.search_again(&search, now, fx);
            if let Some(mut search) = fx.searches.pop() {
                let rows = std::mem::take(&mut search.rows);
                let limit =
                    if search.poll.is_some() { Some(POLL_CANDIDATES) } else { search.limit };
                helper.start(Work { rows, query: search.query.clone(), limit }, now.mono);
                self.begun += 1;
                self.running = Some(Box::new(search));
            }
        }
    }

    fn settle(
        &mut self,
        search: Search,
        found: Found,
        store: &mut Store,
        now: Now,
        fx: &mut Effects,
    ) {
        let rows = match found {
            Ok(rows) => rows,
            Err(why) => return fx.tell(search.ticket, Watched::BadQuery(why.into())),
        };
        let Some(state) = &search.poll else {
            return fx.tell(search.ticket, Watched::Found(rows));
        };
        if rows.is_empty() {
            fx.outcomes.push((search.ticket, Outcome::NoJob));
        } else if !store.advance_first(search.ticket, &rows, state, now, fx) {
            // Somebody has changed them all meanwhile; it has waited already.
            self.waiting.push_front(search);
        }
    }
}
