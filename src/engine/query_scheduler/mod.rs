//! Scheduling of queries on the [`QueryExecutor`]: one turn at a time, in the order of
//! [`QueryTurns`].
//!
//! The store emits a search; it is evaluated elsewhere over a snapshot, and its rows go back to the
//! store. A query whose turn ends before the query does waits for its next turn. Its timeout counts
//! from its arrival; then it is answered, whatever the executor does. Invariants: each query
//! completes exactly once, unless its client is disconnected; its snapshot is taken when its
//! evaluation starts, so a poll sees what earlier polls have changed, unless one takes more than a
//! turn.
//!
//! A turn for which others wait is ended in stages (`stop_requests`): after a number of steps or a
//! time, at the next row; then within a row; and if that does not end it either, the next turn
//! starts in another lane.

mod stop_requests;

use crate::base::limits::{
    POLL_ROWS_PER_STEP, QUERIES_PER_PASS, QUERIES_SUSPENDED_MAX, QUERIES_WAITING_MAX,
    QUERY_LAST_TURN_STEPS, QUERY_THREADS_LONG_MAX, QUERY_TURN_STEPS,
};
use crate::base::time::{Mono, Now};
use crate::engine::query_turns::QueryTurns;
use crate::model::id::{ClientId, JobId};
use crate::model::indexed_queue::IndexedReply;
use crate::model::row::Rows;
use crate::model::stats::QueryStats;
use crate::query::{
    Ended, FreeLane, QueryExecutor, QueryRows, QueryTask, ResultShape, StopRequest, Task, TaskEnd,
};
use crate::store::{Effects, NativeSearch, SearchRequest, Store};
use std::collections::BTreeMap;
use std::time::Duration;
use stop_requests::BusyLane;

/// The longest turn is the shortest one doubled this many times.
const TURN_DOUBLINGS_MAX: u32 = 12;

/// A client whose usage is a millisecond doubled this many times has long queries.
const LONG_DOUBLINGS: u32 = 6;

/// After its timeout divided by this, a query is moved to a lane with a share of its own; after
/// twice that it is restarted there if its lane has not returned it.
const LATE_FRACTION: u32 = 4;

/// The queries that are not answered.
#[derive(Debug, Default)]
pub(super) struct QueryScheduler {
    executor: Option<Box<dyn QueryExecutor>>,
    /// The time within which each query is answered.
    timeout: Duration,
    /// All queries, in order of arrival.
    queries: BTreeMap<u64, Query>,
    arrived: u64,
    /// The queries that wait for a turn.
    turns: QueryTurns,
    /// The lanes that evaluate a query.
    busy_lanes: Vec<BusyLane>,
    /// The lane that has the turn.
    turn_lane: Option<usize>,
    /// No lane was free. A lane that becomes free wakes the loop.
    blocked: bool,
    /// When the stop request of a turn is due to change.
    next_check: Option<Mono>,
    /// Clients have half-closed since the last scan for their queries.
    some_half_closed: bool,
    /// Actions whose queries have failed, and why; the store is told in the next commit.
    failed_actions: Vec<(u64, Box<str>)>,
    started: u64,
    failed: u64,
    timed_out: u64,
}

/// A query that is not answered.
#[derive(Debug)]
struct Query {
    /// The request without its rows.
    search: SearchRequest,
    arrived: Mono,
    /// The state of its evaluation, while it waits for a further turn.
    task: Option<Task>,
    /// Whether it has had a turn.
    has_run: bool,
    /// Consecutive turns that ended within the row at which they started.
    turns_without_progress: u32,
}

impl QueryScheduler {
    /// Sets the executor, and the timeout of queries.
    pub(super) fn set_executor(&mut self, executor: Box<dyn QueryExecutor>, timeout: Duration) {
        (self.executor, self.timeout) = (Some(executor), timeout);
    }

    /// Whether there are neither queries nor busy lanes.
    #[inline]
    pub(super) fn is_idle(&self) -> bool {
        self.queries.is_empty() && self.busy_lanes.is_empty() && self.failed_actions.is_empty()
    }

    /// When [`QueryScheduler::advance`] is due without a completion of the executor. O(1).
    #[inline]
    pub(super) fn poll_timeout(&self) -> Option<Mono> {
        if !self.failed_actions.is_empty() {
            return Some(Mono(0));
        }
        let (_, first) = self.queries.first_key_value()?;
        if self.some_half_closed
            || (self.turn_lane.is_none() && !self.turns.is_empty() && !self.blocked)
        {
            return Some(Mono(0));
        }
        [Some(first.arrived.after(self.timeout)), self.next_check].into_iter().flatten().min()
    }

    /// Queues the searches of a command. Beyond [`QUERIES_WAITING_MAX`] the query of the client
    /// with the most usage is rejected. O(searches * log n).
    #[cold]
    pub(super) fn enqueue(&mut self, now: Now, fx: &mut Effects) {
        for search in std::mem::take(&mut fx.searches) {
            debug_assert!(
                self.queries.last_key_value().is_none_or(|(&last, _)| last <= self.arrived),
                "a query has a number that was not given out"
            );
            if self.executor.is_none() {
                let why = "this server evaluates no queries";
                self.say_failed(&search, why, fx);
                continue;
            }
            let client = search.ticket.client;
            if self.queries.len() >= QUERIES_WAITING_MAX {
                let rank = self.turns.rank(client, now.mono);
                let last = self.turns.last().filter(|(other, _, _)| *other > rank);
                let why = "too many queries wait for their turn: try again later";
                let Some((_, _, number)) = last else {
                    self.say_failed(&search, why, fx);
                    continue;
                };
                self.end_with_error(number, why, now.mono, fx);
            }
            self.arrived += 1;
            self.turns.push(client, self.arrived, search.rows.len(), now.mono);
            let search = SearchRequest { rows: Rows::new(), ..search };
            let query = Query {
                search,
                arrived: now.mono,
                task: None,
                has_run: false,
                turns_without_progress: 0,
            };
            self.queries.insert(self.arrived, query);
            assert!(self.queries.len() <= QUERIES_WAITING_MAX, "more queries wait than permitted");
        }
    }

    /// Drops the queries of a client that has ended. O(queries).
    pub(super) fn disconnect_client(&mut self, client: ClientId, now: Now) {
        self.turns.remove_client(client);
        for out in self.busy_lanes.iter_mut().filter(|out| out.client == client) {
            out.client_gone = true;
        }
        let of_client = |query: &Query| query.search.ticket.client == client;
        let gone = self.queries.extract_if(.., |_, query| of_client(query));
        for (number, query) in gone {
            if let Some(executor) = &mut self.executor {
                release(executor.as_mut(), &mut self.busy_lanes, number, query, now.mono);
            }
        }
        debug_assert_eq!(
            self.turns.len() + self.running_count(),
            self.queries.len(),
            "a query of a client that has ended waits for its turn"
        );
    }

    /// Notes that a client has half-closed: it may be gone, so each of its queries gets one turn,
    /// after those of all other clients. O(log n).
    pub(super) fn half_close_client(&mut self, client: ClientId) {
        if !self.turns.is_half_closed(client) {
            self.turns.half_close(client);
            self.some_half_closed = true;
        }
    }

    /// Takes in ended turns and starts the next, up to [`QUERIES_PER_PASS`] times. O(log n) each,
    /// and O(candidates log n) for a poll.
    pub(super) fn advance(&mut self, store: &mut Store, now: Now, fx: &mut Effects) {
        for _ in 0..QUERIES_PER_PASS {
            self.dispatch(store, now, fx);
            if !self.take_ended_turn(store, now, fx) {
                break;
            }
        }
        self.end_overdue(now.mono, fx);
        for (action, why) in std::mem::take(&mut self.failed_actions) {
            store.begin_found_action(action, Err(why), now, fx);
        }
        if std::mem::take(&mut self.some_half_closed) {
            self.end_half_closed(now.mono, fx);
        }
        self.update_stop_requests(now.mono);
        debug_assert_eq!(
            self.turns.len() + self.running_count(),
            self.queries.len(),
            "a query waits for its turn or has a lane"
        );
    }

    /// Counters since the start.
    pub(super) fn stats(&self) -> QueryStats {
        QueryStats {
            waiting: self.turns.len() as u64,
            started: self.started,
            failed: self.failed,
            timed_out: self.timed_out,
        }
    }

    /// The number of queries that are not answered and have a lane. O(lanes * log n).
    fn running_count(&self) -> usize {
        let running = self.busy_lanes.iter().filter_map(|out| out.query);
        running.filter(|number| self.queries.contains_key(number)).count()
    }

    /// Asserts the invariants. O(queries * log n).
    pub(super) fn check_invariants(&self) {
        self.turns.check_invariants(|number| self.queries.contains_key(&number));
        let running = self.running_count();
        assert_eq!(
            self.turns.len() + running,
            self.queries.len(),
            "a query neither waits nor runs"
        );
        let kept = self.queries.values().filter(|query| query.task.is_some()).count();
        assert!(kept <= QUERIES_SUSPENDED_MAX, "too many queries keep their snapshots");
        let turn =
            self.turn_lane.is_none_or(|lane| self.busy_lanes.iter().any(|out| out.lane == lane));
        assert!(turn, "the lane that has the turn is not busy");
    }

    /// Starts the next turn, if no lane has the turn and one is free.
    fn dispatch(&mut self, store: &mut Store, now: Now, fx: &mut Effects) {
        self.blocked = false;
        // Bounded: each iteration removes a waiting query, as some need no search any more.
        while self.turn_lane.is_none()
            && let Some((client, number)) = self.turns.next()
            && let Some(query) = self.queries.get_mut(&number)
            && let Some(executor) = &mut self.executor
        {
            let late = query.arrived.after(self.timeout / LATE_FRACTION);
            let is_long = self.turns.doublings(client, now.mono) >= LONG_DOUBLINGS;
            let used = self.busy_lanes.iter().filter(|out| !out.has_share).count();
            let fits =
                |free: &FreeLane| free.has_share || !is_long || used < QUERY_THREADS_LONG_MAX;
            let Some(free) = executor.find(now.mono >= late).filter(fits) else {
                self.blocked = true;
                self.next_check = Some(late).filter(|&late| now.mono < late);
                return;
            };
            assert!(
                self.busy_lanes.iter().all(|out| out.lane != free.lane),
                "a lane that evaluates a query is offered as free"
            );
            let rank = self.turns.best_rank().unwrap_or_else(|| self.turns.rank(client, now.mono));
            self.turns.start_turn(client);
            let kept = query.task.take();
            let Some(task) = kept.or_else(|| self.snapshot(number, store, now, fx)) else {
                continue;
            };
            let steps = match self.turns.doublings(client, now.mono) {
                _ if rank.half_closed => QUERY_LAST_TURN_STEPS,
                size => QUERY_TURN_STEPS << size.min(TURN_DOUBLINGS_MAX),
            };
            let out = BusyLane::new(free, client, number, rank, &task, now.mono);
            let begun =
                self.executor.as_mut().map(|executor| executor.begin(free.lane, task, steps));
            if let Some(Err(why)) = begun {
                self.end_with_error(number, &why, now.mono, fx);
            } else {
                self.busy_lanes.push(out);
                self.turn_lane = Some(free.lane);
            }
        }
    }

    /// The task of a query that starts; `None` if the store has answered it.
    fn snapshot(
        &mut self,
        number: u64,
        store: &mut Store,
        now: Now,
        fx: &mut Effects,
    ) -> Option<Task> {
        store.resubmit_search(&self.queries.get(&number)?.search, now, fx);
        let Some(SearchRequest { rows, query, limit, poll, native, .. }) = fx.searches.pop() else {
            self.queries.remove(&number);
            return None;
        };
        debug_assert!(fx.searches.is_empty(), "a query makes one search");
        self.started += 1;
        let limit = Some(POLL_ROWS_PER_STEP).filter(|_| poll.is_some()).or(limit);
        let mut task = Task::new(QueryTask { rows, query, limit });
        task.progress.shape = match native {
            None => ResultShape::Rows,
            Some(NativeSearch::Page(limit)) => ResultShape::LowestIds(limit),
            Some(NativeSearch::Action(_)) => ResultShape::Versions,
        };
        Some(task)
    }

    /// Takes in a turn that has ended; whether there was one.
    fn take_ended_turn(&mut self, store: &mut Store, now: Now, fx: &mut Effects) -> bool {
        let Some(executor) = &mut self.executor else { return false };
        let Some(Ended { lane, spent, done }) = executor.poll() else { return false };
        if self.turn_lane == Some(lane) {
            self.turn_lane = None;
        }
        let Some(at) = self.busy_lanes.iter().position(|out| out.lane == lane) else {
            return false;
        };
        let out = self.busy_lanes.swap_remove(at);
        assert!(
            self.busy_lanes.iter().all(|other| other.lane != lane),
            "a lane evaluates two queries at a time"
        );
        if !out.client_gone {
            self.turns.charge(out.client, spent, now.mono);
        }
        match (out.query, done) {
            (Some(number), TaskEnd::Complete(found)) => self.finish(number, found, store, now, fx),
            (Some(number), TaskEnd::CompleteVersions(found)) => {
                self.finish_action(number, found, store, now, fx);
            }
            (Some(number), TaskEnd::Unfinished(task)) => {
                let query = self.queries.get(&number);
                if let Some(NativeSearch::Action(id)) = query.and_then(|it| it.search.native) {
                    store.answer_searching_action(id, fx);
                }
                self.requeue(&out, number, task, now.mono, fx);
            }
            (None, TaskEnd::Unfinished(task)) => executor.discard(task),
            (_, TaskEnd::Complete(_) | TaskEnd::CompleteVersions(_) | TaskEnd::Cancelled) => {}
        }
        true
    }

    /// Queues a query for a further turn.
    fn requeue(&mut self, out: &BusyLane, number: u64, task: Task, now: Mono, fx: &mut Effects) {
        let Some(query) = self.queries.get_mut(&number) else { return };
        assert!(query.task.is_none(), "a query is evaluated twice at a time");
        query.has_run = true;
        let without_progress = out.stop == StopRequest::Now && task.progress.place() == out.start;
        query.turns_without_progress =
            if without_progress { query.turns_without_progress + 1 } else { 0 };
        query.task = Some(task);
        self.turns.requeue(out.client, number, false, query.arrived);
        if self.turns.is_half_closed(out.client) {
            return self.end_with_error(number, ABANDONED, now, fx);
        }
        self.limit_started(now);
    }

    /// Beyond [`QUERIES_SUSPENDED_MAX`] started queries, resets those of the lowest rank: they
    /// start again in their next turns. O(queries log queries).
    fn limit_started(&mut self, now: Mono) {
        let Some(executor) = &mut self.executor else { return };
        let begun = self.queries.values_mut().filter(|query| query.task.is_some());
        let mut begun: Vec<&mut Query> = begun.collect();
        if begun.len() <= QUERIES_SUSPENDED_MAX {
            return;
        }
        begun.sort_by_key(|query| self.turns.rank(query.search.ticket.client, now));
        for query in begun.drain(QUERIES_SUSPENDED_MAX..) {
            query.task.take().into_iter().for_each(|task| executor.discard(task));
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
        debug_assert!(query.task.is_none(), "a query that has ended waits for no turn");
        let ticket = query.search.ticket;
        match (found, &query.search.native, &query.search.poll) {
            (Err(why), Some(NativeSearch::Action(id)), _) => {
                store.begin_found_action(*id, Err(why.into()), now, fx);
            }
            (Err(why), ..) => fx.reply(ticket, IndexedReply::BadQuery(why.into())),
            (Ok(rows), Some(NativeSearch::Page(limit)), _) => {
                store.answer_found((ticket, &query.search.queue), &rows, *limit, now, fx);
            }
            (Ok(rows), Some(NativeSearch::Action(id)), _) => {
                let versions = rows.iter().map(|row| (row.id, row.version)).collect();
                store.begin_found_action(*id, Ok(versions), now, fx);
            }
            (Ok(rows), None, None) => fx.reply(ticket, IndexedReply::QueryRows(rows)),
            (Ok(rows), None, Some(_)) if rows.is_empty() => {
                fx.reply(ticket, IndexedReply::NoJob);
            }
            (Ok(rows), None, Some(state)) => {
                if !store.advance_first(ticket, &rows, state, now, fx) {
                    // All these rows have changed meanwhile: the poll starts again, first.
                    return self.turns.requeue(ticket.client, number, true, query.arrived);
                }
            }
        }
        self.queries.remove(&number);
    }

    /// Goes on with the action whose query has ended.
    fn finish_action(
        &mut self,
        number: u64,
        found: Vec<(JobId, u64)>,
        store: &mut Store,
        now: Now,
        fx: &mut Effects,
    ) {
        let Some(query) = self.queries.remove(&number) else { return };
        if let Some(NativeSearch::Action(id)) = query.search.native {
            store.begin_found_action(id, Ok(found), now, fx);
        }
    }

    /// Answers a query with an error, or keeps it for the action that waits for it.
    fn say_failed(&mut self, search: &SearchRequest, why: &str, fx: &mut Effects) {
        match search.native {
            Some(NativeSearch::Action(id)) => self.failed_actions.push((id, why.into())),
            _ => fx.reply(search.ticket, IndexedReply::BadQuery(why.into())),
        }
    }

    /// Answers the queries whose timeout has passed.
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

    /// Answers the queries of half-closed clients that have had a turn. O(queries).
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

    /// Answers a query with an error, whether it waits or runs.
    fn end_with_error(&mut self, number: u64, why: &str, now: Mono, fx: &mut Effects) {
        let Some(query) = self.queries.remove(&number) else { return };
        self.failed += 1;
        self.say_failed(&query.search, why, fx);
        self.turns.remove(query.search.ticket.client, number);
        if let Some(executor) = &mut self.executor {
            release(executor.as_mut(), &mut self.busy_lanes, number, query, now);
        }
    }
}

/// The error for half-closed clients.
const ABANDONED: &str = "the client has closed its side of the connection, and the query takes \
    longer than a moment: keep the connection open until the answer has come";

/// Stops a query that is answered: its lane drops it, or its snapshot is freed.
fn release(
    executor: &mut dyn QueryExecutor,
    out: &mut [BusyLane],
    number: u64,
    query: Query,
    now: Mono,
) {
    if let Some(task) = query.task {
        executor.discard(task);
    }
    for out in out.iter_mut().filter(|out| out.query == Some(number)) {
        out.query = None;
        out.request_stop(StopRequest::Cancel, executor, now);
    }
}
