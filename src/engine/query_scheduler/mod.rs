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
use pace::Out;
use std::collections::BTreeMap;
use std::time::Duration;

/// A turn is this many times twice as long as the shortest at most.
const DOUBLED_MAX: u32 = 12;

/// Whoever has had a millisecond, twice as much so many times, has had long queries.
const LONG: u32 = 6;

/// The part of its time after which a query is not left to idle processors any more; after twice
/// that it is begun anew if it could not be taken from there.
const LATE: u32 = 4;

/// The searches under way.
#[derive(Debug, Default)]
pub(super) struct QueryScheduler {
    helper: Option<Box<dyn QueryExecutor>>,
    /// How long a search may take.
    timeout: Duration,
    /// All that are to be answered, in the order of their coming.
    known: BTreeMap<u64, Query>,
    came: u64,
    /// Those that wait for a turn.
    turns: QueryTurns,
    /// The lanes in use.
    out: Vec<Out>,
    /// The lane whose turn it is.
    turn: Option<usize>,
    /// No lane was free. One wakes the loop when it is.
    blocked: bool,
    /// When the turn is to be looked at although nothing has happened.
    look: Option<Mono>,
    /// Clients have sent their last since the searches were looked through.
    some_left: bool,
    begun: u64,
    failed: u64,
    timed_out: u64,
}

/// A search that is to be answered.
#[derive(Debug)]
struct Query {
    /// Without its rows.
    search: SearchRequest,
    came: Mono,
    /// How far it has got, while it waits for a further turn.
    task: Option<Task>,
    /// It has had a turn.
    tried: bool,
    /// How often in a row a turn has ended in the middle of the row at which it began.
    stuck: u32,
}

impl QueryScheduler {
    /// From now on searches go to this helper, and may take so long.
    pub(super) fn set_helper(&mut self, helper: Box<dyn QueryExecutor>, timeout: Duration) {
        (self.helper, self.timeout) = (Some(helper), timeout);
    }

    /// Whether there is nothing to do or to wait for.
    #[inline]
    pub(super) fn is_idle(&self) -> bool {
        self.known.is_empty() && self.out.is_empty()
    }

    /// When [`QueryScheduler::advance`] would do something without the helper's having ended
    /// anything.
    #[inline]
    pub(super) fn poll_timeout(&self) -> Option<Mono> {
        let (_, first) = self.known.first_key_value()?;
        if self.some_left || (self.turn.is_none() && !self.turns.is_empty() && !self.blocked) {
            return Some(Mono(0));
        }
        [Some(first.came.after(self.timeout)), self.look].into_iter().flatten().min()
    }

    /// Puts the searches that a command has made in the line. If there are too many, the one of
    /// the client that has had most is answered. O(searches * log n).
    #[cold]
    pub(super) fn take(&mut self, now: Now, fx: &mut Effects) {
        for search in std::mem::take(&mut fx.searches) {
            if self.helper.is_none() {
                let why = "this server evaluates no queries";
                fx.reply(search.ticket, IndexedReply::BadQuery(why.into()));
                continue;
            }
            let client = search.ticket.client;
            if self.known.len() >= QUERIES_WAITING_MAX {
                let rank = self.turns.rank(client, now.mono);
                let last = self.turns.last().filter(|(other, _, _)| *other > rank);
                let why = "too many queries wait for their turn: try again later";
                let Some((_, _, number)) = last else {
                    fx.reply(search.ticket, IndexedReply::BadQuery(why.into()));
                    continue;
                };
                self.end(number, why, now.mono, fx);
            }
            self.came += 1;
            self.turns.push(client, self.came, search.rows.len(), now.mono);
            let search = SearchRequest { rows: Rows::new(), ..search };
            let query = Query { search, came: now.mono, task: None, tried: false, stuck: 0 };
            self.known.insert(self.came, query);
        }
    }

    /// Nobody waits for the searches of this client any more. O(searches).
    pub(super) fn forget(&mut self, client: ClientId, now: Now) {
        self.turns.forget(client);
        for out in self.out.iter_mut().filter(|out| out.client == client) {
            out.gone = true;
        }
        let of_client = |query: &Query| query.search.ticket.client == client;
        let gone = self.known.extract_if(.., |_, query| of_client(query));
        for (number, query) in gone {
            if let Some(helper) = &mut self.helper {
                release(helper.as_mut(), &mut self.out, number, query, now.mono);
            }
        }
    }

    /// This client sends nothing more: it may be gone. Its searches have one turn each, when nobody
    /// else waits. O(log n).
    pub(super) fn leave(&mut self, client: ClientId) {
        if !self.turns.is_leaving(client) {
            self.turns.leave(client);
            self.some_left = true;
        }
    }

    /// Takes in what the helper has found, and begins the next turn; a bounded number of times.
    /// O(log n) each, and O(candidates log n) for a poll.
    pub(super) fn advance(&mut self, store: &mut Store, now: Now, fx: &mut Effects) {
        for _ in 0..QUERIES_PER_PASS {
            self.dispatch(store, now, fx);
            if !self.take_in(store, now, fx) {
                break;
            }
        }
        self.end_overdue(now.mono, fx);
        if std::mem::take(&mut self.some_left) {
            self.end_abandoned(now.mono, fx);
        }
        self.press(now.mono);
    }

    /// How many there were, and how they ended.
    pub(super) fn figures(&self) -> QueryStats {
        QueryStats {
            waiting: self.turns.len() as u64,
            begun: self.begun,
            failed: self.failed,
            timed_out: self.timed_out,
        }
    }

    /// Asserts what always holds. O(searches * log n).
    pub(super) fn check_invariants(&self) {
        self.turns.check_invariants(|number| self.known.contains_key(&number));
        let out = self.out.iter().filter_map(|out| out.query);
        let known = out.filter(|number| self.known.contains_key(number)).count();
        assert_eq!(self.turns.len() + known, self.known.len(), "each has one place");
        let kept = self.known.values().filter(|query| query.task.is_some()).count();
        assert!(kept <= QUERIES_BEGUN_MAX, "too many keep their snapshots");
        let turn = self.turn.is_none_or(|lane| self.out.iter().any(|out| out.lane == lane));
        assert!(turn, "a lane whose turn it is has something to do");
    }

    /// Begins the next turn, if none is under way and a lane is free.
    fn dispatch(&mut self, store: &mut Store, now: Now, fx: &mut Effects) {
        self.blocked = false;
        // Each that turns out to need no search was in the line: it is bounded as the line is.
        while self.turn.is_none()
            && let Some((client, number)) = self.turns.next()
            && let Some(query) = self.known.get_mut(&number)
            && let Some(helper) = &mut self.helper
        {
            let late = query.came.after(self.timeout / LATE);
            let is_long = self.turns.size(client, now.mono) >= LONG;
            let used = self.out.iter().filter(|out| !out.has_share).count();
            let fits = |spot: &Spot| spot.has_share || !is_long || used < QUERY_LANES_LONG;
            let Some(spot) = helper.find(now.mono >= late).filter(fits) else {
                self.blocked = true;
                self.look = Some(late).filter(|&late| now.mono < late);
                return;
            };
            let rank = self.turns.best().unwrap_or_else(|| self.turns.rank(client, now.mono));
            self.turns.begin(client);
            let kept = query.task.take();
            let Some(task) = kept.or_else(|| self.snapshot(number, store, now, fx)) else {
                continue;
            };
            let steps = match self.turns.size(client, now.mono) {
                _ if rank.leaving => QUERY_LAST_STEPS,
                size => QUERY_TURN_STEPS << size.min(DOUBLED_MAX),
            };
            let out = Out::new(spot, client, number, rank, &task, now.mono);
            let begun = self.helper.as_mut().map(|helper| helper.begin(spot.lane, task, steps));
            if let Some(Err(why)) = begun {
                self.end(number, &why, now.mono, fx);
            } else {
                self.out.push(out);
                self.turn = Some(spot.lane);
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
        store.resubmit_search(&self.known.get(&number)?.search, now, fx);
        let Some(SearchRequest { rows, query, limit, poll, .. }) = fx.searches.pop() else {
            self.known.remove(&number);
            return None;
        };
        self.begun += 1;
        let limit = Some(POLL_CANDIDATES).filter(|_| poll.is_some()).or(limit);
        Some(Task::new(QueryTask { rows, query, limit }))
    }

    /// Takes in the end of a turn, if there is one.
    fn take_in(&mut self, store: &mut Store, now: Now, fx: &mut Effects) -> bool {
        let Some(helper) = &mut self.helper else { return false };
        let Some(Ended { lane, spent, done }) = helper.poll() else { return false };
        if self.turn == Some(lane) {
            self.turn = None;
        }
        let Some(at) = self.out.iter().position(|out| out.lane == lane) else { return false };
        let out = self.out.swap_remove(at);
        if !out.gone {
            self.turns.charge(out.client, spent, now.mono);
        }
        match (out.query, done) {
            (Some(number), TaskEnd::Found(found)) => self.finish(number, found, store, now, fx),
            (Some(number), TaskEnd::Left(task)) => self.put_back(&out, number, task, now.mono, fx),
            (None, TaskEnd::Left(task)) => helper.discard(task),
            (_, TaskEnd::Found(_) | TaskEnd::Dropped) => {}
        }
        true
    }

    /// A search is to have a further turn.
    fn put_back(&mut self, out: &Out, number: u64, task: Task, now: Mono, fx: &mut Effects) {
        let Some(query) = self.known.get_mut(&number) else { return };
        query.tried = true;
        let in_vain = out.pace == Pace::GiveBack && task.progress.place() == out.from;
        query.stuck = if in_vain { query.stuck + 1 } else { 0 };
        query.task = Some(task);
        self.turns.put_back(out.client, number, false, query.came);
        if self.turns.is_leaving(out.client) {
            return self.end(number, ABANDONED, now, fx);
        }
        self.keep_few(now);
    }

    /// Has one of those begin anew that keep what they have found, if these are too many.
    fn keep_few(&mut self, now: Mono) {
        let begun = self.known.values_mut().filter(|query| query.task.is_some());
        let mut begun: Vec<&mut Query> = begun.collect();
        if begun.len() <= QUERIES_BEGUN_MAX {
            return;
        }
        begun.sort_by_key(|query| self.turns.rank(query.search.ticket.client, now));
        if let (Some(last), Some(helper)) = (begun.pop(), &mut self.helper)
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
        let Some(query) = self.known.get(&number) else { return };
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
                    return self.turns.put_back(ticket.client, number, true, query.came);
                }
            }
        }
        self.known.remove(&number);
    }

    /// Answers those whose time is over.
    fn end_overdue(&mut self, now: Mono, fx: &mut Effects) {
        while let Some((&number, query)) = self.known.first_key_value()
            && query.came.after(self.timeout) <= now
        {
            self.timed_out += 1;
            let timeout = humantime::format_duration(self.timeout);
            let why =
                format!("the query took longer than {timeout} (--query-timeout) and was stopped");
            self.end(number, &why, now, fx);
        }
    }

    /// Answers those that have had a turn and whose clients send nothing more. O(searches).
    fn end_abandoned(&mut self, now: Mono, fx: &mut Effects) {
        let leaving = |(&number, query): (&u64, &Query)| {
            let leaves = self.turns.is_leaving(query.search.ticket.client);
            (query.tried && leaves).then_some(number)
        };
        let leaving: Vec<u64> = self.known.iter().filter_map(leaving).collect();
        for number in leaving {
            self.end(number, ABANDONED, now, fx);
        }
    }

    /// Ends a search with a sentence, wherever it is.
    fn end(&mut self, number: u64, why: &str, now: Mono, fx: &mut Effects) {
        let Some(query) = self.known.remove(&number) else { return };
        self.failed += 1;
        let ticket = query.search.ticket;
        self.turns.remove(ticket.client, number);
        if let Some(helper) = &mut self.helper {
            release(helper.as_mut(), &mut self.out, number, query, now);
        }
        fx.reply(ticket, IndexedReply::BadQuery(why.into()));
    }
}

/// What is said to clients that may be gone.
const ABANDONED: &str = "the client has closed its side of the connection, and the query takes \
    longer than a moment: keep the connection open until the answer has come";

/// Nobody waits for a search any more: its lane is told so, or what it keeps is freed.
fn release(helper: &mut dyn QueryExecutor, out: &mut [Out], number: u64, query: Query, now: Mono) {
    if let Some(task) = query.task {
        helper.discard(task);
    }
    for out in out.iter_mut().filter(|out| out.query == Some(number)) {
        out.query = None;
        out.set(Pace::Drop, helper, now);
    }
}
