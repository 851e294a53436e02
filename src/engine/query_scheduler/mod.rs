//! Searches on their way through the helper that evaluates queries, by turns: one at a time, in the
//! order of [`QueryTurns`].
//!
//! The store hands a search out, it is evaluated elsewhere over a snapshot, and what was found goes
//! back to the store. A search whose turn is over and that has not ended waits for its next turn.
//! Its time counts from its arrival; when it is over the search is answered, whatever the helper
//! does. Invariants: each search ends exactly once, unless its client does; its snapshot is of the
//! moment at which the evaluation begins, so that polls behind each other see what those before
//! them have done, unless one takes more than a turn.
//!
//! A turn that others wait for is ended step by step (`pace`): after so many steps or so much time
//! with the next row, then in the middle of one, and if even that does not help it is not waited
//! for: the next turn begins in another lane.

mod pace;

use crate::base::limits::{
    POLL_CANDIDATES, QUERIES_BEGUN_MAX, QUERIES_PER_PASS, QUERIES_WAITING_MAX, QUERY_LANES_LONG,
    QUERY_LAST_STEPS, QUERY_TURN_STEPS,
};
use crate::base::time::{Mono, Now};
use crate::engine::query_turns::QueryTurns;
use crate::model::id::ClientId;
use crate::model::row::Rows;
use crate::model::stats::QueryStats;
use crate::query::{Ended, Pace, QueryExecutor, QueryRows, QueryTask, Spot, Task, TaskEnd};
use crate::store::{Effects, IndexedReply, Outcome, SearchRequest, Store};
use pace::BusyLane;
use std::collections::BTreeMap;
use std::time::Duration;

/// A turn is this many times twice as long as the shortest at most.
const TURN_DOUBLINGS_MAX: u32 = 12;

/// Whoever has had a millisecond, twice as much so many times, has had long queries.
const LONG_DOUBLINGS: u32 = 6;

/// The part of its time after which a query is not left to idle processors any more; after twice
/// that it is begun anew if it could not be taken from there.
const LATE_FRACTION: u32 = 4;

/// The searches under way.
#[derive(Debug, Default)]
pub(super) struct QueryScheduler {
    executor: Option<Box<dyn QueryExecutor>>,
    /// How long a search may take.
    timeout: Duration,
    /// All that are to be answered, in the order of their coming.
    queries: BTreeMap<u64, Query>,
    arrived: u64,
    /// Those that wait for a turn.
    turns: QueryTurns,
    /// The lanes in use.
    busy_lanes: Vec<BusyLane>,
    /// The lane whose turn it is.
    turn_lane: Option<usize>,
    /// No lane was free. One wakes the loop when it is.
    blocked: bool,
    /// When the turn is to be looked at although nothing has happened.
    next_check: Option<Mono>,
    /// Clients have sent their last since the searches were looked through.
    some_half_closed: bool,
    started: u64,
    failed: u64,
    timed_out: u64,
}

/// A search that is to be answered.
#[derive(Debug)]
struct Query {
    /// Without its rows.
    search: SearchRequest,
    arrived: Mono,
    /// How far it has got, while it waits for a further turn.
    task: Option<Task>,
    /// It has had a turn.
    has_run: bool,
    /// How often in a row a turn has ended in the middle of the row at which it began.
    stuck_turns: u32,
}

impl QueryScheduler {
    /// From now on searches go to this helper, and may take so long.
    pub(super) fn set_executor(&mut self, helper: Box<dyn QueryExecutor>, timeout: Duration) {
        (self.executor, self.timeout) = (Some(helper), timeout);
    }

    /// Whether there is nothing to do or to wait for.
    #[inline]
    pub(super) fn is_idle(&self) -> bool {
        self.queries.is_empty() && self.busy_lanes.is_empty()
    }

    /// When [`QueryScheduler::advance`] would do something without the helper's having ended
    /// anything.
    #[inline]
    pub(super) fn poll_timeout(&self) -> Option<Mono> {
        let (_, first) = self.queries.first_key_value()?;
        if self.some_half_closed
            || (self.turn_lane.is_none() && !self.turns.is_empty() && !self.blocked)
        {
            return Some(Mono(0));
        }
        [Some(first.arrived.after(self.timeout)), self.next_check].into_iter().flatten().min()
    }

    /// Puts the searches that a command has made in the line. If there are too many, the one of
    /// the client that has had most is answered. O(searches * log n).
    #[cold]
    pub(super) fn enqueue(&mut self, now: Now, fx: &mut Effects) {
        for search in std::mem::take(&mut fx.searches) {
            if self.executor.is_none() {
                let why = "this server evaluates no queries";
                fx.reply(search.ticket, IndexedReply::BadQuery(why.into()));
                continue;
            }
            let client = search.ticket.client;
            if self.queries.len() >= QUERIES_WAITING_MAX {
                let rank = self.turns.rank(client, now.mono);
                let last = self.turns.last().filter(|(other, _, _)| *other > rank);
                let why = "too many queries wait for their turn: try again later";
                let Some((_, _, number)) = last else {
                    fx.reply(search.ticket, IndexedReply::BadQuery(why.into()));
                    continue;
                };
                self.end_with_error(number, why, now.mono, fx);
            }
            self.arrived += 1;
            self.turns.push(client, self.arrived, search.rows.len(), now.mono);
            let search = SearchRequest { rows: Rows::new(), ..search };
            let query =
                Query { search, arrived: now.mono, task: None, has_run: false, stuck_turns: 0 };
            self.queries.insert(self.arrived, query);
        }
    }

    /// Nobody waits for the searches of this client any more. O(searches).
    pub(super) fn disconnect_client(&mut self, client: ClientId, now: Now) {
        self.turns.remove_client(client);
        for out in self.busy_lanes.iter_mut().filter(|out| out.client == client) {
            out.client_gone = true;
        }
        let of_client = |query: &Query| query.search.ticket.client == client;
        let gone = self.queries.extract_if(.., |_, query| of_client(query));
        for (number, query) in gone {
            if let Some(helper) = &mut self.executor {
                release(helper.as_mut(), &mut self.busy_lanes, number, query, now.mono);
            }
        }
    }

    /// This client sends nothing more: it may be gone. Its searches have one turn each, when nobody
    /// else waits. O(log n).
    pub(super) fn half_close_client(&mut self, client: ClientId) {
        if !self.turns.is_half_closed(client) {
            self.turns.half_close(client);
            self.some_half_closed = true;
        }
    }

    /// Takes in what the helper has found, and begins the next turn; a bounded number of times.
    /// O(log n) each, and O(candidates log n) for a poll.
    pub(super) fn advance(&mut self, store: &mut Store, now: Now, fx: &mut Effects) {
        for _ in 0..QUERIES_PER_PASS {
            self.dispatch(store, now, fx);
            if !self.take_ended_turn(store, now, fx) {
                break;
            }
        }
        self.end_overdue(now.mono, fx);
        if std::mem::take(&mut self.some_half_closed) {
            self.end_half_closed(now.mono, fx);
        }
        self.update_pace(now.mono);
    }

    /// How many there were, and how they ended.
    pub(super) fn stats(&self) -> QueryStats {
        QueryStats {
            waiting: self.turns.len() as u64,
            started: self.started,
            failed: self.failed,
            timed_out: self.timed_out,
        }
    }

    /// Asserts what always holds. O(searches * log n).
    pub(super) fn check_invariants(&self) {
        self.turns.check_invariants(|number| self.queries.contains_key(&number));
        let out = self.busy_lanes.iter().filter_map(|out| out.query);
        let known = out.filter(|number| self.queries.contains_key(number)).count();
        assert_eq!(self.turns.len() + known, self.queries.len(), "each has one place");
        let kept = self.queries.values().filter(|query| query.task.is_some()).count();
        assert!(kept <= QUERIES_BEGUN_MAX, "too many keep their snapshots");
        let turn =
            self.turn_lane.is_none_or(|lane| self.busy_lanes.iter().any(|out| out.lane == lane));
        assert!(turn, "a lane whose turn it is has something to do");
    }

    /// Begins the next turn, if none is under way and a lane is free.
    fn dispatch(&mut self, store: &mut Store, now: Now, fx: &mut Effects) {
        self.blocked = false;
        // Each that turns out to need no search was in the line: it is bounded as the line is.
        while self.turn_lane.is_none()
            && let Some((client, number)) = self.turns.next()
            && let Some(query) = self.queries.get_mut(&number)
            && let Some(helper) = &mut self.executor
        {
            let late = query.arrived.after(self.timeout / LATE_FRACTION);
            let is_long = self.turns.doublings(client, now.mono) >= LONG_DOUBLINGS;
            let used = self.busy_lanes.iter().filter(|out| !out.has_share).count();
            let fits = |spot: &Spot| spot.has_share || !is_long || used < QUERY_LANES_LONG;
            let Some(spot) = helper.find(now.mono >= late).filter(fits) else {
                self.blocked = true;
                self.next_check = Some(late).filter(|&late| now.mono < late);
                return;
            };
            let rank = self.turns.best_rank().unwrap_or_else(|| self.turns.rank(client, now.mono));
            self.turns.start_turn(client);
            let kept = query.task.take();
            let Some(task) = kept.or_else(|| self.snapshot(number, store, now, fx)) else {
                continue;
            };
            let steps = match self.turns.doublings(client, now.mono) {
                _ if rank.half_closed => QUERY_LAST_STEPS,
                size => QUERY_TURN_STEPS << size.min(TURN_DOUBLINGS_MAX),
            };
            let out = BusyLane::new(spot, client, number, rank, &task, now.mono);
            let begun = self.executor.as_mut().map(|helper| helper.begin(spot.lane, task, steps));
            if let Some(Err(why)) = begun {
                self.end_with_error(number, &why, now.mono, fx);
            } else {
                self.busy_lanes.push(out);
                self.turn_lane = Some(spot.lane);
            }
        }
    }

    /// The task of a search that begins, unless the store has answered it.
    fn snapshot(
        &mut self,
        number: u64,
        store: &mut Store,
        now: Now,
        fx: &mut Effects,
    ) -> Option<Task> {
        store.resubmit_search(&self.queries.get(&number)?.search, now, fx);
        let Some(SearchRequest { rows, query, limit, poll, .. }) = fx.searches.pop() else {
            self.queries.remove(&number);
            return None;
        };
        self.started += 1;
        let limit = Some(POLL_CANDIDATES).filter(|_| poll.is_some()).or(limit);
        Some(Task::new(QueryTask { rows, query, limit }))
    }

    /// Takes in the end of a turn, if there is one.
    fn take_ended_turn(&mut self, store: &mut Store, now: Now, fx: &mut Effects) -> bool {
        let Some(helper) = &mut self.executor else { return false };
        let Some(Ended { lane, spent, done }) = helper.poll() else { return false };
        if self.turn_lane == Some(lane) {
            self.turn_lane = None;
        }
        let Some(at) = self.busy_lanes.iter().position(|out| out.lane == lane) else {
            return false;
        };
        let out = self.busy_lanes.swap_remove(at);
        if !out.client_gone {
            self.turns.charge(out.client, spent, now.mono);
        }
        match (out.query, done) {
            (Some(number), TaskEnd::Found(found)) => self.finish(number, found, store, now, fx),
            (Some(number), TaskEnd::Left(task)) => self.requeue(&out, number, task, now.mono, fx),
            (None, TaskEnd::Left(task)) => helper.discard(task),
            (_, TaskEnd::Found(_) | TaskEnd::Dropped) => {}
        }
        true
    }

    /// A search is to have a further turn.
    fn requeue(&mut self, out: &BusyLane, number: u64, task: Task, now: Mono, fx: &mut Effects) {
        let Some(query) = self.queries.get_mut(&number) else { return };
        query.has_run = true;
        let in_vain = out.pace == Pace::GiveBack && task.progress.place() == out.start;
        query.stuck_turns = if in_vain { query.stuck_turns + 1 } else { 0 };
        query.task = Some(task);
        self.turns.requeue(out.client, number, false, query.arrived);
        if self.turns.is_half_closed(out.client) {
            return self.end_with_error(number, ABANDONED, now, fx);
        }
        self.limit_started(now);
    }

    /// Has one of those begin anew that keep what they have found, if these are too many.
    fn limit_started(&mut self, now: Mono) {
        let begun = self.queries.values_mut().filter(|query| query.task.is_some());
        let mut begun: Vec<&mut Query> = begun.collect();
        if begun.len() <= QUERIES_BEGUN_MAX {
            return;
        }
        begun.sort_by_key(|query| self.turns.rank(query.search.ticket.client, now));
        if let (Some(last), Some(helper)) = (begun.pop(), &mut self.executor)
            && let Some(task) = last.task.take()
        {
            helper.discard(task);
        }
    }

    fn finish(
        &mut self,
        number: u64,
        found: QueryRows,
        store: &mut Store,
        now: Now,
        fx: &mut Effects,
    ) {
        self.failed += u64::from(found.is_err());
        let Some(query) = self.queries.get(&number) else { return };
        let ticket = query.search.ticket;
        match (found, &query.search.poll) {
            (Err(why), _) => fx.reply(ticket, IndexedReply::BadQuery(why.into())),
            (Ok(rows), None) => fx.reply(ticket, IndexedReply::Found(rows)),
            (Ok(rows), Some(_)) if rows.is_empty() => {
                fx.outcomes.push((ticket, Outcome::NoJob));
            }
            (Ok(rows), Some(state)) => {
                if !store.advance_first(ticket, &rows, state, now, fx) {
                    // Somebody has changed them all meanwhile; it has waited already.
                    return self.turns.requeue(ticket.client, number, true, query.arrived);
                }
            }
        }
        self.queries.remove(&number);
    }

    /// Answers those whose time is over.
    fn end_overdue(&mut self, now: Mono, fx: &mut Effects) {
        while let Some((&number, query)) = self.queries.first_key_value()
            && query.arrived.after(self.timeout) <= now
        {
            self.timed_out += 1;
            let timeout = humantime::format_duration(self.timeout);
            let why =
                format!("the query took longer than {timeout} (--query-timeout) and was stopped");
            self.end_with_error(number, &why, now, fx);
        }
    }

    /// Answers those that have had a turn and whose clients send nothing more. O(searches).
    fn end_half_closed(&mut self, now: Mono, fx: &mut Effects) {
        let leaving = |(&number, query): (&u64, &Query)| {
            let leaves = self.turns.is_half_closed(query.search.ticket.client);
            (query.has_run && leaves).then_some(number)
        };
        let leaving: Vec<u64> = self.queries.iter().filter_map(leaving).collect();
        for number in leaving {
            self.end_with_error(number, ABANDONED, now, fx);
        }
    }

    /// Ends a search with a sentence, wherever it is.
    fn end_with_error(&mut self, number: u64, why: &str, now: Mono, fx: &mut Effects) {
        let Some(query) = self.queries.remove(&number) else { return };
        self.failed += 1;
        let ticket = query.search.ticket;
        self.turns.remove(ticket.client, number);
        if let Some(helper) = &mut self.executor {
            release(helper.as_mut(), &mut self.busy_lanes, number, query, now);
        }
        fx.reply(ticket, IndexedReply::BadQuery(why.into()));
    }
}

/// What is said to clients that may be gone.
const ABANDONED: &str = "the client has closed its side of the connection, and the query takes \
    longer than a moment: keep the connection open until the answer has come";

/// Nobody waits for a search any more: its lane is told so, or what it keeps is freed.
fn release(
    helper: &mut dyn QueryExecutor,
    out: &mut [BusyLane],
    number: u64,
    query: Query,
    now: Mono,
) {
    if let Some(task) = query.task {
        helper.discard(task);
    }
    for out in out.iter_mut().filter(|out| out.query == Some(number)) {
        out.query = None;
        out.set_pace(Pace::Drop, helper, now);
    }
}
