//! Open pops between two deliveries.
//!
//! A pop that waits without timeout is not ended by its answer: it is *paused*, and keeps its nodes
//! for the client's next pop from the same queues. That pop arrives anew, so it counts in all of
//! its queues as the last. Neither touches all nodes: what has to be done to a node is done when it
//! comes to the front of its wait queue.
//!
//! - The node of a paused pop is *parked*: taken out of the wait queue. The next pop looks for a
//!   job in the queues of parked nodes only, and puts back those that have none for it.
//! - A node that is older than the last arrival of its pop ([`Waiter::since`]) is moved to where it
//!   belongs.
//!
//! Invariants: only nodes of paused pops are parked; a queue counts its parked nodes; unless its
//! matching is pending, a queue with a job for a paused pop has that pop's node parked.

use super::{WaitNode, WaitNodeIdx, WaitQueues, Waiter, WaiterIdx, WaiterKind, Waiters};
use crate::base::limits::WAIT_NODE_WORK;
use crate::base::slab_index::PackedOption;
use crate::model::id::Ticket;
use crate::store::idx::{QueueIdx, QueueScope};
use std::collections::BTreeMap;

/// The arrival of a parked node, or more: see [`Waiters::keep_parked`].
const PARKED: u64 = 1 << 63;

/// Nodes that one node is moved past, one by one. If there are more, the wait queue is sorted.
const MOVED_PAST_MAX: usize = 32;

impl WaitNode {
    pub(super) fn is_parked(&self) -> bool {
        self.arrival >= PARKED
    }
}

impl Waiter {
    /// Whether it is a pop that is answered, and kept for the client's next one.
    pub(in crate::store) fn is_paused(&self) -> bool {
        self.paused
    }
}

impl Waiters {
    /// Pauses a pop that has no timer and is answered now. O(1).
    pub(in crate::store) fn pause(&mut self, waiter: WaiterIdx) {
        let waiter = &mut self.slots[waiter];
        debug_assert!(waiter.kind == WaiterKind::Pop && waiter.timer.is_none());
        debug_assert!(!waiter.paused, "a pop is answered twice");
        debug_assert!(
            waiter.parked.is_none() && !waiter.deferred,
            "a pop that waits of itself has no parked nodes"
        );
        waiter.paused = true;
        self.paused += 1;
    }

    /// How many are paused.
    pub(in crate::store) fn paused(&self) -> usize {
        self.paused
    }

    /// A paused pop arrives anew; it is still paused. O(1).
    pub(in crate::store) fn arrive_again(&mut self, waiter: WaiterIdx, ticket: Ticket) {
        debug_assert!(self.slots[waiter].paused, "only a pop that was answered arrives again");
        debug_assert_eq!(
            self.slots[waiter].ticket.client, ticket.client,
            "a pop goes on for its own client"
        );
        self.arrivals += 1;
        self.slots[waiter].since = self.arrivals;
        self.slots[waiter].ticket = ticket;
    }

    /// Ends a pause: the pop waits. No node of it may be parked. O(1).
    pub(in crate::store) fn wait_again(&mut self, waiter: WaiterIdx) {
        let waiter = &mut self.slots[waiter];
        assert!(waiter.paused && waiter.parked.is_none(), "a pop waits with parked nodes");
        waiter.paused = false;
        self.paused -= 1;
    }

    /// Makes the first pop of a queue, if there is one, the earliest that waits. Parks and moves
    /// nodes: amortised O(1) for each delivery to their pops, for a queue without pops O(1).
    #[inline]
    pub(in crate::store) fn settle_first_pop(
        &mut self,
        wait_queues: &mut WaitQueues,
        parked: &mut u32,
    ) {
        if !wait_queues.pops.is_empty() {
            self.settle_first_pop_cold(wait_queues, parked);
        }
    }

    #[inline(never)]
    fn settle_first_pop_cold(&mut self, wait_queues: &mut WaitQueues, parked: &mut u32) {
        while let Some(node) = wait_queues.pops.first.expand() {
            let WaitNode { waiter, arrival, .. } = self.nodes.slots[node];
            let Waiter { paused, since, .. } = self.slots[waiter];
            debug_assert_eq!(
                self.slots[waiter].kind,
                WaiterKind::Pop,
                "the wait queue of pops has no reserve"
            );
            if paused {
                self.park(node, wait_queues, parked);
            } else if arrival < since {
                self.move_back(node, since, wait_queues, parked);
            } else {
                return;
            }
        }
    }

    /// Parks all nodes of paused pops in a queue, and brings the others into the order of arrival.
    /// O(p log p) for p pops.
    pub(in crate::store) fn settle_pops(&mut self, wait_queues: &mut WaitQueues, parked: &mut u32) {
        let mut nodes = Vec::new();
        let mut next = wait_queues.pops.first;
        while let Some(node) = next.expand() {
            let WaitNode { waiter, arrival, next: following, .. } = self.nodes.slots[node];
            next = following;
            let Waiter { paused, since, .. } = self.slots[waiter];
            if paused {
                self.park(node, wait_queues, parked);
            } else {
                nodes.push((arrival.max(since), node));
            }
        }
        self.extra_work += nodes.len() * WAIT_NODE_WORK;
        nodes.sort_unstable();
        (wait_queues.pops.first, wait_queues.pops.last) = (PackedOption::NONE, PackedOption::NONE);
        for (arrival, node) in nodes {
            let last = wait_queues.pops.last;
            self.link_behind(node, arrival, last, wait_queues);
        }
    }

    /// Moves a node to where its pop belongs: as a rule near the end.
    fn move_back(
        &mut self,
        node: WaitNodeIdx,
        since: u64,
        wait_queues: &mut WaitQueues,
        parked: &mut u32,
    ) {
        debug_assert!(since <= self.arrivals, "no pop arrives in the future");
        self.extra_work += WAIT_NODE_WORK;
        self.nodes.unlink(node, WaiterKind::Pop, wait_queues);
        let mut before = wait_queues.pops.last;
        for _ in 0..MOVED_PAST_MAX {
            match before.expand() {
                Some(later) if self.nodes.slots[later].arrival > since => {
                    before = self.nodes.slots[later].previous;
                }
                _ => return self.link_behind(node, since, before, wait_queues),
            }
        }
        self.link_behind(node, since, before, wait_queues);
        self.settle_pops(wait_queues, parked);
    }

    /// Links a node of a pop behind another one, or as the first. O(1).
    fn link_behind(
        &mut self,
        node: WaitNodeIdx,
        arrival: u64,
        before: PackedOption<WaitNodeIdx>,
        wait_queues: &mut WaitQueues,
    ) {
        let pops = &mut wait_queues.pops;
        let next = match before.expand() {
            None => std::mem::replace(&mut pops.first, node.into()),
            Some(before) => std::mem::replace(&mut self.nodes.slots[before].next, node.into()),
        };
        debug_assert!(
            next.expand().map_or(pops.last, |next| self.nodes.slots[next].previous) == before,
            "neighbours in a wait queue name each other"
        );
        match next.expand() {
            None => pops.last = node.into(),
            Some(next) => self.nodes.slots[next].previous = node.into(),
        }
        let linked = &mut self.nodes.slots[node];
        (linked.previous, linked.next, linked.arrival) = (before, next, arrival);
    }

    /// Takes a node of a paused pop out of its wait queue. O(1).
    pub(in crate::store) fn park(
        &mut self,
        node: WaitNodeIdx,
        wait_queues: &mut WaitQueues,
        parked: &mut u32,
    ) {
        self.extra_work += WAIT_NODE_WORK;
        self.nodes.unlink(node, WaiterKind::Pop, wait_queues);
        *parked += 1;
        self.keep_parked(node, 0);
    }

    /// Parks a node that is in no list. Its job is one of the best of this `level`, 0: of none.
    /// O(1).
    pub(in crate::store) fn keep_parked(&mut self, node: WaitNodeIdx, level: u32) {
        let parked = &mut self.nodes.slots[node];
        let waiter = &mut self.slots[parked.waiter];
        debug_assert!(waiter.paused, "only nodes of paused pops are parked");
        parked.arrival = PARKED + u64::from(level);
        parked.previous = PackedOption::NONE;
        parked.next = std::mem::replace(&mut waiter.parked, node.into());
        debug_assert!(parked.next != node.into(), "a node is parked once");
    }

    /// The oldest of the nodes that were parked with this level. O(queues of the waiter).
    pub(in crate::store) fn oldest_of_level(&self, waiter: WaiterIdx, level: u32) -> QueueIdx {
        let nodes = self.nodes_of(waiter).map(|node| &self.nodes.slots[node]);
        let oldest = nodes.filter(|node| node.arrival == PARKED + u64::from(level)).last();
        pop_queue(oldest.expect("one node at least has this level"))
    }

    /// Takes the first of a paused pop's parked nodes, with those behind it, out of its list.
    pub(in crate::store) fn take_parked(&mut self, waiter: WaiterIdx) -> Option<WaitNodeIdx> {
        debug_assert!(self.slots[waiter].paused, "only a pop that was answered has parked nodes");
        self.slots[waiter].parked.take()
    }

    /// The queue of a parked node, and the parked node behind it. O(1).
    pub(in crate::store) fn parked_node(
        &self,
        node: WaitNodeIdx,
    ) -> (QueueIdx, Option<WaitNodeIdx>) {
        let node = &self.nodes.slots[node];
        debug_assert!(node.is_parked(), "a node that is not parked is in the list");
        (pop_queue(node), node.next.expand())
    }

    /// Puts a parked node, which is in no list, at the end of its wait queue. Its pop has just
    /// arrived. O(1).
    pub(in crate::store) fn unpark(
        &mut self,
        node: WaitNodeIdx,
        wait_queues: &mut WaitQueues,
        parked: &mut u32,
    ) {
        debug_assert!(self.nodes.slots[node].is_parked(), "only a parked node is put back");
        *parked -= 1;
        self.arrivals += 1;
        let last = wait_queues.pops.last;
        debug_assert!(
            last.expand().is_none_or(|last| self.nodes.slots[last].arrival < self.arrivals),
            "a node that is put back has arrived after all others"
        );
        self.link_behind(node, self.arrivals, last, wait_queues);
    }

    /// The nodes of a waiter, the last one first.
    pub(super) fn nodes_of(&self, waiter: WaiterIdx) -> impl Iterator<Item = WaitNodeIdx> {
        let first = self.slots[waiter].node.expand();
        std::iter::successors(first, |&node| self.nodes.slots[node].sibling.expand())
    }

    /// The node of a pop that was added last. O(1).
    pub(in crate::store) fn last_node(&self, waiter: WaiterIdx) -> Option<WaitNodeIdx> {
        self.slots[waiter].node.expand()
    }

    /// The queue of a pop's node, and the node that was added before it. O(1).
    pub(in crate::store) fn node_before(
        &self,
        node: WaitNodeIdx,
    ) -> (QueueIdx, Option<WaitNodeIdx>) {
        let node = &self.nodes.slots[node];
        (pop_queue(node), node.sibling.expand())
    }

    /// Asserts that the nodes which are parked are those in the lists of paused pops, and that
    /// wait queues are in order. Returns how many are parked in each queue. O(nodes).
    pub(in crate::store) fn check_open_pops(&self) -> BTreeMap<QueueIdx, u32> {
        let mut counts = BTreeMap::new();
        for (_, node) in self.nodes.slots.iter().filter(|(_, node)| node.is_parked()) {
            assert!(self.slots[node.waiter].paused, "a node of a pop that waits is parked");
            *counts.entry(pop_queue(node)).or_default() += 1;
        }
        let mut listed = 0;
        for (slot, waiter) in self.slots.iter() {
            let next = |node: &WaitNodeIdx| self.nodes.slots[*node].next.expand();
            for node in std::iter::successors(waiter.parked.expand(), next) {
                let node = &self.nodes.slots[node];
                assert!(node.is_parked() && node.waiter == slot, "a foreign node is listed");
                listed += 1;
            }
        }
        assert_eq!(listed, counts.values().sum::<u32>(), "a parked node is in no list");
        let paused = self.slots.iter().filter(|(_, waiter)| waiter.paused).count();
        assert_eq!(self.paused, paused, "paused pops are counted wrongly");
        counts
    }

    /// The nodes of pops in a queue that are in its wait queue are in order. O(pops).
    pub(in crate::store) fn check_order(&self, wait_queues: WaitQueues) {
        let arrivals: Vec<u64> =
            self.nodes.from(wait_queues.pops.first).map(|node| node.arrival).collect();
        assert!(arrivals.is_sorted(), "a wait queue is not in order");
    }
}

fn pop_queue(node: &WaitNode) -> QueueIdx {
    match node.queue {
        QueueScope::One(queue) => queue,
        QueueScope::Any => unreachable!("a pop names its queues"),
    }
}
