//! Fair share: which client's query gets the next turn.
//!
//! The client that has used least processor time comes first. Usage halves each second and is
//! compared by its order of magnitude (powers of two), so clients with similar usage alternate, and
//! a short query precedes all long ones, however many they are. The queries of one client share its
//! turns, in order of arrival.
//!
//! Clients without usage are served in order of arrival. If there are more than
//! [`QUERY_FIFO_CLIENTS_MAX`] of them, every second turn goes to the one whose query has the fewest
//! rows, of several to the latest. Half-closed clients come after all others.
//!
//! Usage is not decayed in place: new usage is weighted by twice the weight of a second ago
//! instead, so the order of the waiting clients does not change with time.

use crate::base::limits::QUERY_FIFO_CLIENTS_MAX;
use crate::base::time::Mono;
use crate::model::id::ClientId;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

/// Usage counts half after this time.
const HALF_LIFE: Duration = Duration::from_secs(1);

/// The unit of usage. Less usage counts as none.
const USAGE_UNIT: Duration = Duration::from_millis(1);

/// The order of clients: the smallest comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Rank {
    pub(super) half_closed: bool,
    /// The logarithm of the usage, in doublings of [`USAGE_UNIT`], plus its time, in half-lives.
    level: u64,
}

/// A waiting query.
#[derive(Clone, Copy, Debug)]
struct QueuedQuery {
    query: u64,
    /// A number that rises with each arrival; negative if the query precedes all others.
    arrival: i64,
    /// The rows to scan, if it has not started.
    rows: Option<usize>,
    at: Mono,
}

/// The waiting queries of a client, at least one. The first determines the client's position.
#[derive(Debug)]
struct ClientQueue {
    queries: VecDeque<QueuedQuery>,
    key: (Rank, i64),
    /// The client's key among the newcomers, if it is one.
    unused_client: Option<UnusedClientKey>,
}

/// The order of clients without usage: by rank, by rows in powers of two, the latest first.
type UnusedClientKey = (Rank, u32, Reverse<i64>);

/// The waiting queries by client, and the usage of all clients. Queries are known by number.
#[derive(Debug, Default)]
pub(super) struct QueryTurns {
    clients: BTreeMap<ClientId, ClientQueue>,
    order: BTreeMap<(Rank, i64), ClientId>,
    fresh: BTreeMap<UnusedClientKey, ClientId>,
    /// The binary logarithm of a client's usage in [`USAGE_UNIT`], plus its time in [`HALF_LIFE`].
    usage: BTreeMap<ClientId, f64>,
    half_closed: BTreeSet<ClientId>,
    waiting_count: usize,
    arrival: i64,
    /// In a crowd of newcomers the next turn goes to the smallest query.
    prefer_smallest: bool,
}

/// A time in units of [`HALF_LIFE`].
fn half_lives(at: Mono) -> f64 {
    at.until(Mono(0)).as_secs_f64() / HALF_LIFE.as_secs_f64()
}

impl QueryTurns {
    /// The number of waiting queries.
    pub(super) fn len(&self) -> usize {
        self.waiting_count
    }

    /// Whether no query waits.
    pub(super) fn is_empty(&self) -> bool {
        self.clients.is_empty()
    }

    /// Adds a query over `rows` rows behind the others of its client. O(log clients).
    pub(super) fn push(&mut self, client: ClientId, query: u64, rows: usize, now: Mono) {
        self.arrival += 1;
        let entry = QueuedQuery { query, arrival: self.arrival, rows: Some(rows), at: now };
        let mut queries = self.take_queries(client);
        queries.push_back(entry);
        self.waiting_count += 1;
        self.put_queries(client, queries);
    }

    /// Adds a query that arrived at `at` and has had a turn, before the others of its client.
    /// `first`: also before all clients of the same rank. O(log clients).
    pub(super) fn requeue(&mut self, client: ClientId, query: u64, first: bool, at: Mono) {
        self.arrival += 1;
        let came = if first { -self.arrival } else { self.arrival };
        let mut queries = self.take_queries(client);
        queries.push_front(QueuedQuery { query, arrival: came, rows: None, at });
        self.waiting_count += 1;
        self.put_queries(client, queries);
    }

    /// The client of the next turn, and the number of its query. O(log clients).
    pub(super) fn next(&self) -> Option<(ClientId, u64)> {
        debug_assert!(
            self.order.len() == self.clients.len() && self.fresh.len() <= self.clients.len(),
            "a client is in no order, or in one although it does not wait"
        );
        let (&(rank, _), &first) = self.order.first_key_value()?;
        let first_query = |client: ClientId| {
            self.clients.get(&client)?.queries.front().map(|entry| (client, entry.query))
        };
        let smallest = self.fresh.first_key_value().filter(|_| self.prefer_smallest);
        if let Some((&(other, _, _), &client)) = smallest
            && other == rank
            && self
                .fresh
                .keys()
                .take(QUERY_FIFO_CLIENTS_MAX + 1)
                .filter(|key| key.0 == rank)
                .count()
                > QUERY_FIFO_CLIENTS_MAX
        {
            return first_query(client);
        }
        first_query(first)
    }

    /// Removes the first query of a client, whose turn starts. O(log clients).
    pub(super) fn start_turn(&mut self, client: ClientId) {
        self.prefer_smallest = !self.prefer_smallest;
        let mut queries = self.take_queries(client);
        assert!(queries.pop_front().is_some(), "a client without a waiting query has its turn");
        self.waiting_count -= 1;
        self.put_queries(client, queries);
    }

    /// The query to reject if there are too many: the last one of the last client, with that
    /// client's rank. O(log clients).
    pub(super) fn last(&self) -> Option<(Rank, ClientId, u64)> {
        let (&(rank, _), &client) = self.order.last_key_value()?;
        let entry = self.clients.get(&client)?.queries.back()?;
        Some((rank, client, entry.query))
    }

    /// The rank of the first waiting client. O(log clients).
    pub(super) fn best_rank(&self) -> Option<Rank> {
        self.order.first_key_value().map(|(key, _)| key.0)
    }

    /// The rank of a client. O(log clients).
    pub(super) fn rank(&self, client: ClientId, now: Mono) -> Rank {
        let had = self.usage.get(&client).copied().unwrap_or_default();
        Rank { half_closed: self.is_half_closed(client), level: whole(had.max(half_lives(now))) }
    }

    /// The usage of a client in doublings of [`USAGE_UNIT`]. O(log clients).
    pub(super) fn doublings(&self, client: ClientId, now: Mono) -> u32 {
        let had = self.usage.get(&client).copied().unwrap_or_default();
        u32::try_from(whole(had - half_lives(now))).unwrap_or(u32::MAX)
    }

    /// Adds to the usage of a client. O(log clients).
    pub(super) fn charge(&mut self, client: ClientId, spent: Duration, now: Mono) {
        let at = half_lives(now);
        let before = self.usage.get(&client).map_or(0.0, |had| (had - at).exp2());
        let had = (before + spent.as_secs_f64() / USAGE_UNIT.as_secs_f64()).log2();
        assert!(!had.is_nan(), "the usage of a client has no order");
        let queries = self.take_queries(client);
        if had < -3.0 {
            self.usage.remove(&client);
        } else {
            self.usage.insert(client, had + at);
        }
        self.put_queries(client, queries);
    }

    /// Notes that a client has closed its sending side. O(log clients).
    pub(super) fn half_close(&mut self, client: ClientId) {
        let queries = self.take_queries(client);
        self.half_closed.insert(client);
        self.put_queries(client, queries);
    }

    /// Whether a client has closed its sending side. O(log clients).
    pub(super) fn is_half_closed(&self, client: ClientId) -> bool {
        self.half_closed.contains(&client)
    }

    /// Removes a query. O(queries of the client).
    pub(super) fn remove(&mut self, client: ClientId, query: u64) {
        let mut queries = self.take_queries(client);
        let before = queries.len();
        queries.retain(|entry| entry.query != query);
        self.waiting_count -= before - queries.len();
        self.put_queries(client, queries);
    }

    /// Removes a client with its queries and usage. O(queries of the client).
    pub(super) fn remove_client(&mut self, client: ClientId) {
        self.waiting_count -= self.take_queries(client).len();
        self.usage.remove(&client);
        self.half_closed.remove(&client);
    }

    /// Asserts the invariants; `is_known` says whether a number is a query's. O(queries * log n).
    pub(super) fn check_invariants(&self, is_known: impl Fn(u64) -> bool) {
        let mut waiting = 0;
        for (client, line) in &self.clients {
            waiting += line.queries.len();
            assert!(line.queries.iter().all(|entry| is_known(entry.query)), "an ended query waits");
            assert_eq!(self.order.get(&line.key), Some(client), "a client is missing in the order");
            let first = line.queries.front().map(|entry| entry.arrival);
            assert_eq!(first, Some(line.key.1), "the key is not that of the first query");
            let is_there = |fresh| self.fresh.get(fresh) == Some(client);
            assert!(
                line.unused_client.as_ref().is_none_or(is_there),
                "an unused client is missing in its order"
            );
        }
        let fresh = self.clients.values().filter(|line| line.unused_client.is_some()).count();
        let counts = (self.waiting_count, self.clients.len(), fresh);
        assert_eq!((waiting, self.order.len(), self.fresh.len()), counts);
    }

    /// Takes a client out of the orders.
    fn take_queries(&mut self, client: ClientId) -> VecDeque<QueuedQuery> {
        let Some(line) = self.clients.remove(&client) else { return VecDeque::new() };
        let former = self.order.remove(&line.key);
        assert!(former == Some(client), "a waiting client is not in the order");
        if let Some(fresh) = line.unused_client {
            let former = self.fresh.remove(&fresh);
            assert!(former == Some(client), "a client without usage is not in their order");
        }
        line.queries
    }

    /// Puts a client into the orders, if it has queries.
    fn put_queries(&mut self, client: ClientId, queries: VecDeque<QueuedQuery>) {
        let Some(first) = queries.front() else { return };
        let rank = self.rank(client, first.at);
        let key = (rank, first.arrival);
        let fresh =
            first.rows.filter(|_| !rank.half_closed && rank.level == whole(half_lives(first.at)));
        let size = |rows: usize| rows.checked_ilog2().map_or(0, |log| log + 1);
        let fresh = fresh.map(|rows| (rank, size(rows), Reverse(first.arrival)));
        let former = self.order.insert(key, client);
        assert!(former.is_none(), "two clients have the same position");
        if let Some(fresh) = fresh {
            let former = self.fresh.insert(fresh, client);
            assert!(former.is_none(), "two clients without usage have the same position");
        }
        let queue = ClientQueue { queries, key, unused_client: fresh };
        let former = self.clients.insert(client, queue);
        assert!(former.is_none(), "the queries of a client that waits already are replaced");
        debug_assert!(
            self.order.len() == self.clients.len() && self.clients.len() <= self.waiting_count,
            "a waiting client is in the order once, and has a query"
        );
    }
}

/// The whole part; 0 of a negative number.
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

    /// Gives the next query its turn, and adds to its client's usage.
    fn serve(turns: &mut QueryTurns, spent: Duration) -> u64 {
        let (client, query) = turns.next().unwrap();
        turns.start_turn(client);
        turns.charge(client, spent, NOW);
        query
    }

    /// The same with a query that needs further turns and has the number of its client.
    fn serve_endless(turns: &mut QueryTurns) -> u64 {
        let query = serve(turns, MS * 2);
        turns.requeue(client(u32::try_from(query).unwrap()), query, false, NOW);
        query
    }

    #[test]
    fn few_new_clients_are_served_in_order_of_arrival() {
        let mut turns = QueryTurns::default();
        for number in [7, 3, 5] {
            turns.push(client(number), u64::from(number), 10, NOW);
        }
        let order: Vec<u64> = (0..3).map(|_| serve(&mut turns, Duration::ZERO)).collect();
        assert_eq!(order, [7, 3, 5]);
        assert!(turns.is_empty());
    }

    #[test]
    fn new_query_beside_endless_ones_waits_for_one_turn() {
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
    fn small_query_among_many_large_newcomers_waits_for_two_turns() {
        for small in [0, 100, 500, 999] {
            let mut turns = QueryTurns::default();
            for number in 0..1000 {
                let rows = if number == small { 10 } else { 50_000 };
                turns.push(client(number), u64::from(number), rows, NOW);
            }
            let served: Vec<u64> = (0..2).map(|_| serve_endless(&mut turns)).collect();
            assert!(served.contains(&u64::from(small)), "{served:?}");
        }
    }

    #[test]
    fn oldest_newcomer_is_not_starved_by_later_small_ones() {
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
    fn endless_queries_alternate() {
        let mut turns = QueryTurns::default();
        for number in 0..5 {
            turns.push(client(number), u64::from(number), 50_000, NOW);
        }
        let mut turns_had = [0; 5];
        for _ in 0..5 * 64 {
            turns_had[usize::try_from(serve_endless(&mut turns)).unwrap()] += 1;
        }
        assert!(turns_had.iter().all(|&turns| (60..=68).contains(&turns)), "{turns_had:?}");
    }

    #[test]
    fn client_with_many_queries_gets_as_many_turns_as_one_with_one() {
        let mut turns = QueryTurns::default();
        for query in 0..100 {
            turns.push(client(1), query, 50_000, NOW);
        }
        turns.push(client(2), 100, 50_000, NOW);
        let mut turns_had = [0; 2];
        for _ in 0..200 {
            let (client, query) = turns.next().unwrap();
            turns.start_turn(client);
            turns.charge(client, MS * 2, NOW);
            turns.requeue(client, query, false, NOW);
            turns_had[usize::from(client.index == 2)] += 1;
        }
        assert!((95..=105).contains(&turns_had[0]), "{turns_had:?}");
        assert_eq!(turns.len(), 101);
    }

    #[test]
    fn usage_decays_with_time() {
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
    fn half_closed_client_comes_last() {
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
    fn removed_query_or_client_has_no_turn() {
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
