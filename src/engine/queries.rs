//! Searches on their way through the helper that evaluates queries: one at a time, in the order of
//! their coming.
//!
//! A search is taken out of the store, evaluated elsewhere over a snapshot, and its result given
//! back to the store. Invariants: each search ends exactly once, unless its client does; the
//! snapshot is the one of the moment at which the evaluation begins, so that polls behind each
//! other see what those before them have done.

use crate::base::limits::QUERIES_WAITING_MAX;
use crate::model::id::{ClientId, Ticket};
use crate::query::{Found, Helper, Work};
use std::collections::VecDeque;

/// A search as the store hands it out.
pub(super) trait Searching {
    /// Who asks.
    fn ticket(&self) -> Ticket;
}

/// The searches under way.
#[derive(Debug)]
pub(super) struct Queries<S> {
    helper: Option<Box<dyn Helper>>,
    waiting: VecDeque<S>,
    running: Option<Running<S>>,
}

#[derive(Debug)]
enum Running<S> {
    /// This one is being evaluated.
    Search(S),
    /// So is something that nobody waits for any more.
    Nobody,
}

impl<S> Default for Queries<S> {
    fn default() -> Self {
        Self { helper: None, waiting: VecDeque::new(), running: None }
    }
}

impl<S: Searching> Queries<S> {
    /// From now on searches go to this helper.
    pub(super) fn set_helper(&mut self, helper: Box<dyn Helper>) {
        self.helper = Some(helper);
    }

    /// Puts a search at the end of the line. O(1).
    ///
    /// # Errors
    /// A sentence for its client, if it cannot wait.
    pub(super) fn push(&mut self, search: S) -> Result<(), &'static str> {
        if self.helper.is_none() {
            return Err("this server evaluates no queries");
        }
        if self.waiting.len() >= QUERIES_WAITING_MAX {
            return Err("too many queries wait for their turn: try again later");
        }
        self.waiting.push_back(search);
        Ok(())
    }

    /// Puts a search whose result has been overtaken in front of the line: it has waited.
    pub(super) fn again(&mut self, search: S) {
        self.waiting.push_front(search);
    }

    /// Nobody waits for the searches of this client any more. O(searches that wait).
    pub(super) fn forget(&mut self, client: ClientId) {
        self.waiting.retain(|search| search.ticket().client != client);
        if let Some(Running::Search(search)) = &self.running
            && search.ticket().client == client
        {
            self.running = Some(Running::Nobody);
            if let Some(helper) = &mut self.helper {
                helper.stop();
            }
        }
    }

    /// A search that has ended, with what was found.
    pub(super) fn poll(&mut self) -> Option<(S, Found)> {
        self.running.as_ref()?;
        let found = self.helper.as_mut()?.poll()?;
        match self.running.take()? {
            Running::Search(search) => Some((search, found)),
            Running::Nobody => None,
        }
    }

    /// Begins with the next search, if none is under way. `work` takes its snapshot; where there is
    /// nothing to search in any more it deals with that by itself and gives nothing.
    pub(super) fn dispatch(&mut self, mut work: impl FnMut(&S) -> Option<Work>) {
        let Some(helper) = &mut self.helper else { return };
        while self.running.is_none()
            && let Some(search) = self.waiting.pop_front()
        {
            if let Some(work) = work(&search) {
                helper.start(work);
                self.running = Some(Running::Search(search));
            }
        }
    }

    /// How many searches have not ended.
    pub(super) fn len(&self) -> usize {
        self.waiting.len() + usize::from(matches!(self.running, Some(Running::Search(_))))
    }
}
