//! Searches on their way through the helper that evaluates queries: one at a time, in the order of
//! their coming.
//!
//! The store hands a search out, it is evaluated elsewhere over a snapshot, and what was found goes
//! back to the store. Invariants: each search ends exactly once, unless its client does; its
//! snapshot is of the moment at which the evaluation begins, so that polls behind each other see
//! what those before them have done.

use crate::base::limits::{POLL_CANDIDATES, QUERIES_PER_PASS, QUERIES_WAITING_MAX};
use crate::base::time::Now;
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
    running: Running,
}

/// What the helper does.
#[derive(Debug, Default)]
enum Running {
    #[default]
    Nothing,
    /// It evaluates this one.
    Search(Box<Search>),
    /// It evaluates something that nobody waits for any more.
    Forgotten,
}

impl Queries {
    /// From now on searches go to this helper.
    pub(super) fn set_helper(&mut self, helper: Box<dyn Helper>) {
        self.helper = Some(helper);
    }

    /// Whether there is nothing to do or to wait for.
    #[inline]
    pub(super) fn is_idle(&self) -> bool {
        matches!(self.running, Running::Nothing) && self.waiting.is_empty()
    }

    /// Whether [`Queries::advance`] would do something without the helper's having ended anything.
    #[inline]
    pub(super) fn is_due(&self) -> bool {
        matches!(self.running, Running::Nothing) && !self.waiting.is_empty()
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
        if let Running::Search(search) = &self.running
            && search.ticket.client == client
        {
            self.running = Running::Forgotten;
            if let Some(helper) = &mut self.helper {
                helper.stop();
            }
        }
    }

    /// Takes in what the helper has found, and gives it the next search; a bounded number of times.
    /// O(log n) each, and O(candidates log n) for a poll.
    pub(super) fn advance(&mut self, store: &mut Store, now: Now, fx: &mut Effects) {
        for _ in 0..QUERIES_PER_PASS {
            self.dispatch(store, now, fx);
            let Some(found) = self.poll() else { return };
            match std::mem::take(&mut self.running) {
                Running::Search(search) => self.settle(*search, found, store, now, fx),
                Running::Nothing | Running::Forgotten => {}
            }
        }
    }

    fn poll(&mut self) -> Option<Found> {
        match self.running {
            Running::Nothing => None,
            Running::Search(_) | Running::Forgotten => self.helper.as_mut()?.poll(),
        }
    }

    /// Begins with the next search, if none is under way.
    fn dispatch(&mut self, store: &mut Store, now: Now, fx: &mut Effects) {
        let Some(helper) = &mut self.helper else { return };
        // Each that turns out to need no search was in the line: it is bounded as the line is.
        while matches!(self.running, Running::Nothing)
            && let Some(search) = self.waiting.pop_front()
        {
            store.search_again(&search, now, fx);
            if let Some(mut search) = fx.searches.pop() {
                let rows = std::mem::take(&mut search.rows);
                let limit =
                    if search.poll.is_some() { Some(POLL_CANDIDATES) } else { search.limit };
                helper.start(Work { rows, query: search.query.clone(), limit });
                self.running = Running::Search(Box::new(search));
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
