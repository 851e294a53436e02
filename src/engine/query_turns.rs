//! Whose turn it is among the clients whose queries wait.
//!
//! The client that has had least goes first. What a client has had is halved each second, and it
//! counts by its order of magnitude: so clients that have had about the same take turns, and one
//! with a short query goes before all those with long ones, however many there are. A client with
//! many queries has no more turns than one with a single one: they stand in one line, in the order
//! of their coming.
//!
//! Of those that have had nothing yet, the first in the order of coming is served; in a crowd only
//! every second time, and else the one whose query has the fewest rows to look at, of several the
//! one that came last. A client that sends nothing more comes behind all that do.
//!
//! Nothing has to be counted down: instead of halving what all have had, what somebody has now
//! counts twice as much as a second ago. So the order of those that wait does not change with time.

use crate::base::limits::QUERY_CROWD;
use crate::base::time::Mono;
use crate::model::id::ClientId;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

/// What somebody has had counts half after this.
const HALF_LIFE: Duration = Duration::from_secs(1);

/// Whoever has had less has had nothing.
const USAGE_UNIT: Duration = Duration::from_millis(1);

/// How a client stands among others: the smaller goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Rank {
    /// It sends nothing more.
    pub(super) half_closed: bool,
    /// How much it has had, in powers of two, and how late that was, in times of halving.
    level: u64,
}

/// A query that waits.
#[derive(Clone, Copy, Debug)]
struct QueuedQuery {
    query: u64,
    /// When it came here, among all that did; negative if it comes before those.
    arrival: i64,
    /// The size of its task, if it has not begun.
    rows: Option<usize>,
    at: Mono,
}

/// The queries of a client that wait, never none; the first stands in the order.
#[derive(Debug)]
struct ClientQueue {
    queries: VecDeque<QueuedQuery>,
    key: (Rank, i64),
    /// In the other order, if it is there.
    newcomer: Option<NewcomerKey>,
}

/// How a client that has had nothing stands among those of a crowd.
type NewcomerKey = (Rank, u32, Reverse<i64>);

/// The clients whose queries wait, and what clients have had. Queries are numbers to it.
#[derive(Debug, Default)]
pub(super) struct QueryTurns {
    clients: BTreeMap<ClientId, ClientQueue>,
    order: BTreeMap<(Rank, i64), ClientId>,
    fresh: BTreeMap<NewcomerKey, ClientId>,
    /// The logarithm of what a client has had, in units of [`LITTLE`], plus the moment of that, in
    /// units of [`HALVED`].
    usage: BTreeMap<ClientId, f64>,
    half_closed: BTreeSet<ClientId>,
    waiting_count: usize,
    arrival: i64,
    /// The next of a crowd is not the first that came.
    prefer_smallest: bool,
}

/// A moment in units of [`HALVED`].
fn half_lives(at: Mono) -> f64 {
    at.until(Mono(0)).as_secs_f64() / HALF_LIFE.as_secs_f64()
}

impl QueryTurns {
    /// Queries that wait.
    pub(super) fn len(&self) -> usize {
        self.waiting_count
    }

    /// Whether none waits.
    pub(super) fn is_empty(&self) -> bool {
        self.clients.is_empty()
    }

    /// A query over so many rows comes, behind the others of its client. O(log clients).
    pub(super) fn push(&mut self, client: ClientId, query: u64, rows: usize, now: Mono) {
        self.arrival += 1;
        let place = QueuedQuery { query, arrival: self.arrival, rows: Some(rows), at: now };
        let mut places = self.take_queries(client);
        places.push_back(place);
        self.waiting_count += 1;
        self.put_queries(client, places);
    }

    /// A query that came at this moment has had a turn and waits for the next, before the others of
    /// its client. `first`: before all others that have had as much. O(log clients).
    pub(super) fn requeue(&mut self, client: ClientId, query: u64, first: bool, at: Mono) {
        self.arrival += 1;
        let came = if first { -self.arrival } else { self.arrival };
        let mut places = self.take_queries(client);
        places.push_front(QueuedQuery { query, arrival: came, rows: None, at });
        self.waiting_count += 1;
        self.put_queries(client, places);
    }

    /// Whose turn it is, with the number of the query. O(log clients).
    pub(super) fn next(&self) -> Option<(ClientId, u64)> {
        let (&(rank, _), &first) = self.order.first_key_value()?;
        let first_query = |client: ClientId| {
            self.clients.get(&client)?.queries.front().map(|place| (client, place.query))
        };
        let smallest = self.fresh.first_key_value().filter(|_| self.prefer_smallest);
        if let Some((&(other, _, _), &client)) = smallest
            && other == rank
            && self.fresh.keys().take(QUERY_CROWD + 1).filter(|key| key.0 == rank).count()
                > QUERY_CROWD
        {
            return first_query(client);
        }
        first_query(first)
    }

    /// The turn of the first query of this client begins. O(log clients).
    pub(super) fn start_turn(&mut self, client: ClientId) {
        self.prefer_smallest = !self.prefer_smallest;
        let mut places = self.take_queries(client);
        self.waiting_count -= usize::from(places.pop_front().is_some());
        self.put_queries(client, places);
    }

    /// The query that is to go if there are too many: the last of the client that comes last, and
    /// how that stands. O(log clients).
    pub(super) fn last(&self) -> Option<(Rank, ClientId, u64)> {
        let (&(rank, _), &client) = self.order.last_key_value()?;
        let place = self.clients.get(&client)?.queries.back()?;
        Some((rank, client, place.query))
    }

    /// How the best of those that wait stands. O(log clients).
    pub(super) fn best_rank(&self) -> Option<Rank> {
        self.order.first_key_value().map(|(key, _)| key.0)
    }

    /// How a client stands. O(log clients).
    pub(super) fn rank(&self, client: ClientId, now: Mono) -> Rank {
        let had = self.usage.get(&client).copied().unwrap_or_default();
        Rank { half_closed: self.is_half_closed(client), level: whole(had.max(half_lives(now))) }
    }

    /// How often [`LITTLE`] would have to be doubled to be what a client has had. O(log clients).
    pub(super) fn doublings(&self, client: ClientId, now: Mono) -> u32 {
        let had = self.usage.get(&client).copied().unwrap_or_default();
        u32::try_from(whole(had - half_lives(now))).unwrap_or(u32::MAX)
    }

    /// A client has had so much. O(log clients).
    pub(super) fn charge(&mut self, client: ClientId, spent: Duration, now: Mono) {
        let at = half_lives(now);
        let before = self.usage.get(&client).map_or(0.0, |had| (had - at).exp2());
        let had = (before + spent.as_secs_f64() / USAGE_UNIT.as_secs_f64()).log2();
        let places = self.take_queries(client);
        if had < -3.0 {
            self.usage.remove(&client);
        } else {
            self.usage.insert(client, had + at);
        }
        self.put_queries(client, places);
    }

    /// A client sends nothing more. O(log clients).
    pub(super) fn half_close(&mut self, client: ClientId) {
        let places = self.take_queries(client);
        self.half_closed.insert(client);
        self.put_queries(client, places);
    }

    /// Whether it has said that. O(log clients).
    pub(super) fn is_half_closed(&self, client: ClientId) -> bool {
        self.half_closed.contains(&client)
    }

    /// A query does not wait any more. O(queries of the client).
    pub(super) fn remove(&mut self, client: ClientId, query: u64) {
        let mut places = self.take_queries(client);
        let before = places.len();
        places.retain(|place| place.query != query);
        self.waiting_count -= before - places.len();
        self.put_queries(client, places);
    }

    /// A client has ended. O(its queries).
    pub(super) fn remove_client(&mut self, client: ClientId) {
        self.waiting_count -= self.take_queries(client).len();
        self.usage.remove(&client);
        self.half_closed.remove(&client);
    }

    /// Asserts what always holds; `is_known` says what is a query. O(queries * log n).
    pub(super) fn check_invariants(&self, is_known: impl Fn(u64) -> bool) {
        let mut waiting = 0;
        for (client, line) in &self.clients {
            waiting += line.queries.len();
            assert!(line.queries.iter().all(|place| is_known(place.query)), "it has ended");
            assert_eq!(self.order.get(&line.key), Some(client), "it has a place in the order");
            let first = line.queries.front().map(|place| place.arrival);
            assert_eq!(first, Some(line.key.1), "the first stands for all");
            let is_there = |fresh| self.fresh.get(fresh) == Some(client);
            assert!(
                line.newcomer.as_ref().is_none_or(is_there),
                "it has a place among the new ones"
            );
        }
        let fresh = self.clients.values().filter(|line| line.newcomer.is_some()).count();
        let counts = (self.waiting_count, self.clients.len(), fresh);
        assert_eq!((waiting, self.order.len(), self.fresh.len()), counts);
    }

    /// Takes a client out of the order.
    fn take_queries(&mut self, client: ClientId) -> VecDeque<QueuedQuery> {
        let Some(line) = self.clients.remove(&client) else { return VecDeque::new() };
        self.order.remove(&line.key);
        if let Some(fresh) = line.newcomer {
            self.fresh.remove(&fresh);
        }
        line.queries
    }

    /// Puts it where it belongs.
    fn put_queries(&mut self, client: ClientId, places: VecDeque<QueuedQuery>) {
        let Some(first) = places.front() else { return };
        let rank = self.rank(client, first.at);
        let key = (rank, first.arrival);
        let fresh =
            first.rows.filter(|_| !rank.half_closed && rank.level == whole(half_lives(first.at)));
        let size = |rows: usize| rows.checked_ilog2().map_or(0, |log| log + 1);
        let fresh = fresh.map(|rows| (rank, size(rows), Reverse(first.arrival)));
        self.order.insert(key, client);
        if let Some(fresh) = fresh {
            self.fresh.insert(fresh, client);
        }
        self.clients.insert(client, ClientQueue { queries: places, key, newcomer: fresh });
    }
}

/// Without its fraction; nothing if it is below 0.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it saturates")]
fn whole(number: f64) -> u64 {
    number as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Mono = Mono(0);
    const MS: Duration = Duration::from_millis(1);

    fn client(index: u32) -> ClientId {
        ClientId { index, generation: 1 }
    }

    /// The next query has its turn, and its client has had so much more.
    fn serve(turns: &mut QueryTurns, spent: Duration) -> u64 {
        let (client, query) = turns.next().unwrap();
        turns.start_turn(client);
        turns.charge(client, spent, NOW);
        query
    }

    /// The same with a query that needs further turns. These have the numbers of their clients.
    fn serve_endless(turns: &mut QueryTurns) -> u64 {
        let query = serve(turns, MS * 2);
        turns.requeue(client(u32::try_from(query).unwrap()), query, false, NOW);
        query
    }

    #[test]
    fn a_few_new_clients_are_served_in_the_order_of_their_coming() {
        let mut turns = QueryTurns::default();
        for number in [7, 3, 5] {
            turns.push(client(number), u64::from(number), 10, NOW);
        }
        let order: Vec<u64> = (0..3).map(|_| serve(&mut turns, Duration::ZERO)).collect();
        assert_eq!(order, [7, 3, 5]);
        assert!(turns.is_empty());
    }

    #[test]
    fn a_new_query_beside_endless_ones_waits_for_one_turn_however_many_they_are() {
        for count in [8, 200, 1000] {
            let mut turns = QueryTurns::default();
            for number in 0..count {
                turns.push(client(number), u64::from(number), 50_000, NOW);
            }
            for _ in 0..3 * count {
                serve_endless(&mut turns);
            }
            for _ in 0..10 {
                turns.push(client(9999), 9999, 50_000, NOW);
                assert_eq!(serve(&mut turns, MS / 10), 9999, "beside {count}");
                serve_endless(&mut turns);
            }
        }
    }

    #[test]
    fn a_small_query_that_comes_with_a_crowd_of_large_ones_waits_for_two_turns() {
        for place in [0, 100, 500, 999] {
            let mut turns = QueryTurns::default();
            for number in 0..1000 {
                let rows = if number == place { 10 } else { 50_000 };
                turns.push(client(number), u64::from(number), rows, NOW);
            }
            let served: Vec<u64> = (0..2).map(|_| serve_endless(&mut turns)).collect();
            assert!(served.contains(&u64::from(place)), "{served:?}");
        }
    }

    #[test]
    fn in_a_crowd_the_oldest_is_not_passed_over_by_those_that_come() {
        let mut turns = QueryTurns::default();
        for number in 0..100 {
            turns.push(client(number), u64::from(number), 50_000, NOW);
        }
        for number in 100..300 {
            serve(&mut turns, Duration::ZERO);
            turns.push(client(number), u64::from(number), 1, NOW);
        }
        assert!(!turns.clients.contains_key(&client(99)), "the first hundred have been served");
    }

    #[test]
    fn endless_queries_take_turns() {
        let mut turns = QueryTurns::default();
        for number in 0..5 {
            turns.push(client(number), u64::from(number), 50_000, NOW);
        }
        let mut had = [0; 5];
        for _ in 0..5 * 64 {
            had[usize::try_from(serve_endless(&mut turns)).unwrap()] += 1;
        }
        assert!(had.iter().all(|&turns| (60..=68).contains(&turns)), "{had:?}");
    }

    #[test]
    fn a_client_with_many_queries_has_no_more_turns_than_one_with_one() {
        let mut turns = QueryTurns::default();
        for query in 0..100 {
            turns.push(client(1), query, 50_000, NOW);
        }
        turns.push(client(2), 100, 50_000, NOW);
        let mut had = [0; 2];
        for _ in 0..200 {
            let (client, query) = turns.next().unwrap();
            turns.start_turn(client);
            turns.charge(client, MS * 2, NOW);
            turns.requeue(client, query, false, NOW);
            had[usize::from(client.index == 2)] += 1;
        }
        assert!((95..=105).contains(&had[0]), "{had:?}");
        assert_eq!(turns.len(), 101);
    }

    #[test]
    fn what_was_had_is_forgotten_with_time() {
        let mut turns = QueryTurns::default();
        turns.charge(client(1), MS * 1024, NOW);
        let at = |seconds| NOW.after(Duration::from_secs(seconds));
        let sizes = [0, 1, 9, 11].map(|seconds| turns.doublings(client(1), at(seconds)));
        assert_eq!(sizes, [10, 9, 1, 0]);
        let before = |turns: &QueryTurns, seconds| {
            turns.rank(client(2), at(seconds)) < turns.rank(client(1), at(seconds))
        };
        assert!(before(&turns, 0) && before(&turns, 9) && !before(&turns, 10));
        turns.charge(client(1), Duration::ZERO, at(20));
        assert!(turns.usage.is_empty());
    }

    #[test]
    fn who_sends_nothing_more_comes_last() {
        let mut turns = QueryTurns::default();
        for number in [1, 2, 3] {
            turns.push(client(number), u64::from(number), 10, NOW);
        }
        turns.half_close(client(1));
        turns.charge(client(3), MS * 999, NOW);
        assert_eq!(turns.last().map(|(_, client, query)| (client, query)), Some((client(1), 1)));
        let order: Vec<u64> = (0..3).map(|_| serve(&mut turns, Duration::ZERO)).collect();
        assert_eq!(order, [2, 3, 1]);
    }

    #[test]
    fn what_does_not_wait_any_more_is_gone() {
        let mut turns = QueryTurns::default();
        for query in 0..4 {
            turns.push(client(query % 2), u64::from(query), 10, NOW);
        }
        turns.remove(client(0), 0);
        turns.remove(client(0), 9);
        turns.remove_client(client(1));
        assert_eq!((turns.len(), turns.next()), (1, Some((client(0), 2))));
        turns.remove(client(0), 2);
        assert!(turns.is_empty());
        assert_eq!((turns.len(), turns.best_rank(), turns.last()), (0, None, None));
    }
}
