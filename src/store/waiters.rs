//! Waiting reserves and pops, in the wait queues of all queues that they name, in the order of
//! arrival. A queue has one wait queue for reserves and one for pops, because a pop cannot carry
//! every job; the earlier arrival of both is matched first. One more wait queue, [`ANY_QUEUE`], is
//! for reserves of tracked jobs without queue names; the earlier arrival of it and of the job's
//! queue is matched first.
//!
//! A waiter has one [`WaitNode`] for each of its queues. Nodes are linked twice: along the queue
//! and along the waiter.

use super::jobs::NONE;
use crate::base::paged::PagedSlab;
use crate::base::timer_queue::TimerId;
use crate::model::id::Ticket;
use std::ops::{Index, IndexMut};

/// A waiting reserve or pop. `previous` and `next` link the waiters of its client.
#[derive(Debug)]
pub(super) struct Waiter {
    pub(super) ticket: Ticket,
    node: u32,
    pub(super) previous: u32,
    pub(super) next: u32,
    /// Its timeout, if it has one.
    pub(super) timer: TimerId,
    pub(super) kind: WaiterKind,
}

/// In place of a queue: any queue, for reserves of tracked jobs.
pub(super) const ANY_QUEUE: u32 = NONE;

/// What a waiter does with a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WaiterKind {
    /// Reserves it.
    Reserve,
    /// Removes it, with its key group.
    Pop,
}

/// A waiter's node in one queue.
#[derive(Debug)]
pub(super) struct WaitNode {
    waiter: u32,
    queue: u32,
    previous: u32,
    next: u32,
    /// The next node of the same waiter.
    sibling: u32,
    /// Its rank in the order of arrival, over all queues.
    arrival: u64,
}

/// The two wait queues of one queue.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct WaitQueues {
    reserves: WaitQueue,
    pops: WaitQueue,
}

impl WaitQueues {
    #[inline]
    pub(super) fn is_empty(self) -> bool {
        self.reserves.is_empty() && self.pops.is_empty()
    }

    /// The same without reserves.
    pub(super) fn pops(self) -> Self {
        Self { reserves: WaitQueue::default(), pops: self.pops }
    }

    fn of(&mut self, kind: WaiterKind) -> &mut WaitQueue {
        match kind {
            WaiterKind::Reserve => &mut self.reserves,
            WaiterKind::Pop => &mut self.pops,
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct WaitQueue {
    first: u32,
    last: u32,
}

impl Default for WaitQueue {
    fn default() -> Self {
        Self { first: NONE, last: NONE }
    }
}

impl WaitQueue {
    #[inline]
    fn is_empty(self) -> bool {
        self.first == NONE
    }
}

/// All nodes by slot.
#[derive(Debug, Default)]
pub(super) struct WaitNodes {
    slots: PagedSlab<WaitNode>,
}

impl WaitNodes {
    /// Unlinks a node from its wait queue. O(1).
    pub(super) fn unlink(&mut self, node: u32, kind: WaiterKind, wait_queues: &mut WaitQueues) {
        let wait_queue = wait_queues.of(kind);
        let (previous, next) = (self.slots[node].previous, self.slots[node].next);
        if previous == NONE {
            wait_queue.first = next;
        } else {
            self.slots[previous].next = next;
        }
        if next == NONE {
            wait_queue.last = previous;
        } else {
            self.slots[next].previous = previous;
        }
    }
}

/// All waiters.
#[derive(Debug, Default)]
pub(super) struct Waiters {
    slots: PagedSlab<Waiter>,
    nodes: WaitNodes,
    arrivals: u64,
}

impl Waiters {
    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    /// Adds a waiter that is in no wait queue yet. O(1).
    #[inline(always)]
    pub(super) fn add(&mut self, ticket: Ticket, kind: WaiterKind) -> u32 {
        let timer = TimerId::NONE;
        self.slots.insert(Waiter { ticket, node: NONE, previous: NONE, next: NONE, timer, kind })
    }

    /// Adds a new waiter at the end of a wait queue, unless it is there already. O(1): it arrived
    /// last, so it can only be there as the last.
    #[inline(always)]
    pub(super) fn join(&mut self, waiter: u32, queue: u32, wait_queues: &mut WaitQueues) {
        let last = wait_queues.of(self.slots[waiter].kind).last;
        if last == NONE || self.nodes.slots[last].waiter != waiter {
            self.push_back(waiter, queue, wait_queues);
        }
    }

    /// Adds a waiter, which is not there, at the end of a wait queue. O(1).
    #[inline(always)]
    pub(super) fn push_back(&mut self, waiter: u32, queue: u32, wait_queues: &mut WaitQueues) {
        debug_assert!(!self.is_queued_in(waiter, queue), "a waiter is in a wait queue twice");
        let Waiter { node: sibling, kind, .. } = self.slots[waiter];
        let wait_queue = wait_queues.of(kind);
        let previous = wait_queue.last;
        self.arrivals += 1;
        let arrival = self.arrivals;
        let node = WaitNode { waiter, queue, previous, next: NONE, sibling, arrival };
        let node = self.nodes.slots.insert(node);
        self.slots[waiter].node = node;
        wait_queue.last = node;
        if previous == NONE {
            wait_queue.first = node;
        } else {
            self.nodes.slots[previous].next = node;
        }
    }

    /// Whether a waiter is in a queue's wait queues. O(queues of the waiter).
    pub(super) fn is_queued_in(&self, waiter: u32, queue: u32) -> bool {
        let mut node = self.slots[waiter].node;
        while node != NONE && self.nodes.slots[node].queue != queue {
            node = self.nodes.slots[node].sibling;
        }
        node != NONE
    }

    /// Removes a waiter from one queue, if it is there. O(queues of the waiter).
    pub(super) fn leave(&mut self, waiter: u32, queue: u32, wait_queues: &mut WaitQueues) {
        let (mut before, mut node) = (NONE, self.slots[waiter].node);
        while node != NONE && self.nodes.slots[node].queue != queue {
            (before, node) = (node, self.nodes.slots[node].sibling);
        }
        if node == NONE {
            return;
        }
        self.nodes.unlink(node, self.slots[waiter].kind, wait_queues);
        let gone = self.nodes.slots.remove(node).expect("a waiter's node exists");
        if before == NONE {
            self.slots[waiter].node = gone.sibling;
        } else {
            self.nodes.slots[before].sibling = gone.sibling;
        }
    }

    /// The earliest waiter of a queue, with `reserves_only` the earliest reserve. O(1).
    #[inline]
    pub(super) fn first(&self, wait_queues: WaitQueues, reserves_only: bool) -> Option<u32> {
        let WaitQueues { reserves, pops } = wait_queues;
        let first = |wait_queue: WaitQueue| {
            (!wait_queue.is_empty()).then(|| &self.nodes.slots[wait_queue.first])
        };
        let node = match (first(reserves), first(pops)) {
            (Some(reserve), Some(pop)) if !reserves_only && pop.arrival < reserve.arrival => pop,
            (Some(reserve), _) => reserve,
            (None, Some(pop)) if !reserves_only => pop,
            (None, _) => return None,
        };
        Some(node.waiter)
    }

    /// The earliest waiter of a queue, or of [`ANY_QUEUE`], that is eligible. O(nodes passed over).
    pub(super) fn first_of(
        &self,
        wait_queues: WaitQueues,
        global: WaitQueues,
        reserves_only: bool,
        is_eligible: impl Fn(&Waiter) -> bool,
    ) -> Option<u32> {
        let follow = |&node: &u32| Some(self.nodes.slots[node].next).filter(|&next| next != NONE);
        let first = |wait_queue: WaitQueue| {
            let head = Some(wait_queue.first).filter(|&node| node != NONE);
            let nodes = std::iter::successors(head, follow).map(|node| &self.nodes.slots[node]);
            nodes.into_iter().find(|node| is_eligible(&self.slots[node.waiter]))
        };
        let pops = if reserves_only { WaitQueue::default() } else { wait_queues.pops };
        let firsts = [wait_queues.reserves, pops, global.reserves].map(first).into_iter().flatten();
        firsts.min_by_key(|node| node.arrival).map(|node| node.waiter)
    }

    /// The earliest waiter of a queue, if all are reserves. O(1).
    #[inline]
    pub(super) fn first_reserve(&self, wait_queues: WaitQueues) -> Option<u32> {
        if wait_queues.pops.is_empty() { self.first(wait_queues, true) } else { None }
    }

    /// Removes a waiter; `leave` unlinks each of its nodes. O(queues of the waiter).
    pub(super) fn end(
        &mut self,
        waiter: u32,
        mut leave: impl FnMut(u32, u32, WaiterKind, &mut WaitNodes),
    ) -> Waiter {
        let waiter = self.slots.remove(waiter).expect("a waiter was removed twice");
        let mut node = waiter.node;
        while node != NONE {
            leave(self.nodes.slots[node].queue, node, waiter.kind, &mut self.nodes);
            let gone = self.nodes.slots.remove(node).expect("a waiter's node exists");
            node = gone.sibling;
        }
        waiter
    }

    /// The waiters of a queue, reserves before pops, each in order. For checks. O(waiters).
    pub(super) fn waiters_of(&self, wait_queues: WaitQueues) -> Vec<u32> {
        let follow = |&node: &u32| Some(self.nodes.slots[node].next).filter(|&next| next != NONE);
        let heads = [wait_queues.reserves.first, wait_queues.pops.first]
            .into_iter()
            .filter(|&node| node != NONE);
        heads
            .flat_map(|head| std::iter::successors(Some(head), follow))
            .map(|node| self.nodes.slots[node].waiter)
            .collect()
    }

    pub(super) fn get(&self, waiter: u32) -> Option<&Waiter> {
        self.slots.get(waiter)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &Waiter)> {
        self.slots.iter()
    }

    /// Each pair of waiter and queue. For checks. O(nodes).
    pub(super) fn places(&self) -> impl Iterator<Item = (u32, u32)> {
        self.nodes.slots.iter().map(|(_, node)| (node.waiter, node.queue))
    }
}

impl Index<u32> for Waiters {
    type Output = Waiter;
    fn index(&self, waiter: u32) -> &Waiter {
        &self.slots[waiter]
    }
}

impl IndexMut<u32> for Waiters {
    fn index_mut(&mut self, waiter: u32) -> &mut Waiter {
        &mut self.slots[waiter]
    }
}
