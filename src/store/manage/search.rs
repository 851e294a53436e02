//! Searches of the native API: pages of the jobs that match a query, and actions on them. The
//! engine evaluates the query outside the event loop, over a snapshot of the queue's rows.
//!
//! A page has the matching jobs with the lowest ids behind that of the page before, as they are
//! when the query has ended, so a job that matches all the time is shown exactly once.

use super::actions::{Action, Cursor};
use crate::base::api_limits::ANSWER_BYTES_ENOUGH;
use crate::base::limits::{EXTRA_WORK_PER_TURN, ROWS_PER_CHUNK};
use crate::base::time::Now;
use crate::model::action::ActionState;
use crate::model::id::{ClientId, JobId, Ticket};
use crate::model::indexed_queue::{IndexedPage, IndexedReply};
use crate::model::manage::{JobCursor, JobPage, ManageReply};
use crate::model::query::{Expr, Op, Query, Term};
use crate::model::reply::Rejection;
use crate::model::row::Row;
use crate::store::idx::QueueIdx;
use crate::store::{Effects, NativeSearch, SearchRequest, Store};
use std::sync::Arc;

/// The client in whose name the queries of actions take turns: no connection has it.
const ACTIONS_CLIENT: ClientId = ClientId { index: u32::MAX, generation: 0 };

/// The same query, for jobs with greater ids only.
fn behind_id(query: &Arc<Query>, behind: JobId) -> Arc<Query> {
    if behind.0 == 0 {
        return Arc::clone(query);
    }
    let (left, right) = (Expr::Text("id".into()), Expr::Number(behind.0.to_string().into()));
    let first = Term { op: Op::Greater, left, right };
    let terms = std::iter::once(first).chain(query.terms.iter().cloned()).collect();
    Arc::new(Query { terms })
}

impl Store {
    /// Whether a queue can be searched; if not, answers the ticket. O(log n) for a bounded number
    /// of jobs, while the index is made.
    pub(super) fn is_searchable(
        &mut self,
        ticket: Ticket,
        queue: QueueIdx,
        fx: &mut Effects,
    ) -> bool {
        if !self.queues[queue].is_indexed() {
            fx.reply(ticket, ManageReply::NoIndex);
            return false;
        }
        let built = self.queues.backfill_step(queue, &mut self.jobs, fx);
        if !built {
            fx.reply(ticket, IndexedPage::NotYet);
        }
        built
    }

    /// Searches a queue for a page. Few rows that all match are answered at once. O(log states),
    /// beside the evaluation.
    pub(super) fn search_page(
        &mut self,
        ticket: Ticket,
        name: &[u8],
        query: &Arc<Query>,
        (behind, limit): (JobId, usize),
        now: Now,
        fx: &mut Effects,
    ) {
        let Some(queue) = self.known_queue_or_answer(ticket, name, fx) else { return };
        if !self.is_searchable(ticket, queue, fx) {
            return;
        }
        let (rows, search) = self.queues[queue].index_mut().candidates(query);
        if search || rows.len() > ROWS_PER_CHUNK {
            let query = behind_id(query, behind);
            return self.push_search(ticket, queue, query, NativeSearch::Page(limit), fx);
        }
        let found = rows.values().filter(|row| row.id > behind);
        let mut found: Vec<Arc<Row>> = found.cloned().collect();
        found.sort_unstable_by_key(|row| row.id.0);
        found.truncate(limit);
        self.answer_found((ticket, name), &found, limit, now, fx);
    }

    fn push_search(
        &mut self,
        ticket: Ticket,
        queue: QueueIdx,
        query: Arc<Query>,
        native: NativeSearch,
        fx: &mut Effects,
    ) {
        let index = self.queues[queue].index_mut();
        let (rows, _) = index.candidates(&query);
        let (queue, native) = (index.name().clone(), Some(native));
        let search = SearchRequest { ticket, queue, rows, query, limit: None, poll: None, native };
        fx.searches.push(search);
    }

    /// Runs a search again, because its snapshot is taken when its evaluation starts: answers the
    /// ticket, or pushes a new search. O(log states).
    pub(in crate::store) fn resubmit_native_search(
        &mut self,
        search: &SearchRequest,
        fx: &mut Effects,
    ) {
        let Some(native) = search.native else { return };
        let found = self.queues.find(&search.queue);
        let indexed = found.filter(|&queue| self.queues[queue].is_indexed());
        match (indexed, native) {
            (Some(queue), _) => {
                self.push_search(search.ticket, queue, Arc::clone(&search.query), native, fx);
            }
            (None, NativeSearch::Page(_)) => fx.reply(search.ticket, ManageReply::NoIndex),
            (None, NativeSearch::Action(_)) => {
                let (queue, rows) = (Arc::clone(&search.queue), crate::model::row::Rows::new());
                fx.searches.push(SearchRequest { queue, rows, ..search.clone() });
            }
        }
    }

    /// Answers with the jobs of a page that a query has found, in order, as they are now. O(bytes).
    pub fn answer_found(
        &mut self,
        (ticket, queue): (Ticket, &[u8]),
        rows: &[Arc<Row>],
        limit: usize,
        now: Now,
        fx: &mut Effects,
    ) {
        let (mut page, mut bytes) = (JobPage::default(), 0);
        for (number, row) in rows.iter().enumerate() {
            let slot = self.ids.find(row.id.0).filter(|&slot| {
                let job = &self.jobs[slot];
                *self.queues[job.queue].name == *queue && !job.is_expired_waiting(now)
            });
            if let Some(slot) = slot {
                let job = self.details(slot, now);
                bytes += job.text_bytes();
                page.jobs.push(job);
            }
            let is_last = number + 1 == rows.len();
            if bytes >= ANSWER_BYTES_ENOUGH || is_last {
                let more = !is_last || rows.len() >= limit;
                page.next = more.then_some(JobCursor::ById(row.id.0, None));
                break;
            }
        }
        fx.reply(ticket, ManageReply::JobPage(Box::new(page)));
    }

    /// Begins an action whose jobs a query finds. It is answered when the query has had its first
    /// turn: one that is no query makes no action. O(log a).
    pub(super) fn begin_action_search(
        &mut self,
        ticket: Ticket,
        (mut action, queue): (Action, QueueIdx),
        query: &Arc<Query>,
        fx: &mut Effects,
    ) {
        if self.actions.is_full() {
            return fx.reply(ticket, ManageReply::Rejected(Rejection::Full));
        }
        debug_assert!(is_searching(&action), "the jobs of the action are not known yet");
        let id = action.details.id;
        debug_assert!(id > self.actions.last_id, "the ids of actions rise");
        self.actions.last_id = id;
        self.actions.searching += 1;
        action.ticket = Some(ticket);
        self.actions.awaited_searches.push(id);
        // The client's next request waits: see `Store::is_deferred`.
        self.waiters.note_work(EXTRA_WORK_PER_TURN + 1);
        self.actions.by_id.insert(id, action);
        self.actions.trim();
        let own = Ticket { client: ACTIONS_CLIENT, serial: 0 };
        let native = NativeSearch::Action(id);
        self.push_search(own, queue, Arc::clone(query), native, fx);
    }

    /// The query of an action was evaluated for a while, and goes on: the action is answered, if it
    /// was not. O(log a).
    pub fn answer_searching_action(&mut self, id: u64, fx: &mut Effects) {
        let Some(action) = self.actions.by_id.get_mut(&id).filter(|it| is_searching(it)) else {
            return;
        };
        self.actions.awaited_searches.retain(|&other| other != id);
        if let Some(ticket) = action.ticket.take() {
            fx.reply(ticket, ManageReply::Action(Box::new(action.details.clone())));
        }
    }

    /// Goes on with an action whose query has ended: it found these jobs, with these versions of
    /// their rows, or it failed; if nothing was answered yet, there is no action then. O(log a).
    pub fn begin_found_action(
        &mut self,
        id: u64,
        found: Result<Vec<(JobId, u64)>, Box<str>>,
        now: Now,
        fx: &mut Effects,
    ) {
        let Some(action) = self.actions.by_id.get_mut(&id) else { return };
        if !is_searching(action) {
            return;
        }
        let ticket = action.ticket.take();
        self.actions.awaited_searches.retain(|&other| other != id);
        if let Some(ticket) = ticket {
            match &found {
                Ok(_) => fx.reply(ticket, ManageReply::Action(Box::new(action.details.clone()))),
                Err(why) => fx.reply(ticket, IndexedReply::BadQuery(why.clone())),
            }
        }
        match found {
            Ok(jobs) => {
                debug_assert!(self.actions.searching > 0, "an action that searches is counted");
                self.actions.searching -= 1;
                action.details.matched = Some(jobs.len() as u64);
                action.cursor = Cursor::Found(jobs.into());
                debug_assert_eq!(
                    action.details.state,
                    ActionState::Running,
                    "an action goes on that runs"
                );
                self.actions.running.push_back(id);
                self.spread.begin_task();
            }
            Err(_) if ticket.is_some() => {
                self.actions.by_id.remove(&id);
                self.actions.searching -= 1;
            }
            Err(why) => {
                action.details.error = Some(why);
                self.end_search(id, ActionState::Failed, now, fx);
            }
        }
    }

    /// Cancels an action that waits for its query, if it does.
    pub(super) fn cancel_search(&mut self, id: u64, now: Now, fx: &mut Effects) {
        if self.actions.by_id.get(&id).is_some_and(is_searching) {
            self.end_search(id, ActionState::Cancelled, now, fx);
        }
    }

    fn end_search(&mut self, id: u64, state: ActionState, now: Now, fx: &mut Effects) {
        let Some(mut action) = self.actions.by_id.remove(&id) else { return };
        debug_assert!(self.actions.searching > 0, "an action that waits for its query is counted");
        self.actions.searching -= 1;
        self.actions.awaited_searches.retain(|&other| other != id);
        self.end_action(&mut action, state, now, fx);
        self.actions.by_id.insert(id, action);
    }
}

fn is_searching(action: &Action) -> bool {
    matches!(action.cursor, Cursor::Searching) && action.details.state == ActionState::Running
}
