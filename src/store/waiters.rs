//! Takes and pops that wait: each in the wait queues of all the queues that it names, in the order
//! of arrival. A queue has one line for reserves and one for pops, because a pop cannot have every
//! job; whoever came first of both is served first. One more line, of no queue, is of those
//! who reserve a tracked job whatever its queue; whoever came first of that line and of those of
//! the job's queue is served first.
//!
//! A reserve has one [`Waiter`] and one [`WaitNode`] for each of its queues. Nodes are linked
//! twice: along the queue (who is next here) and along the waiter (where else it stands).

use super::jobs::NONE;
use crate::base::paged::PagedSlab;
use crate::base::timer_queue::TimerId;
use crate::model::id::Ticket;
use std::ops::{Index, IndexMut};

/// A reserve that waits. `previous` and `next` link the waiting reserves of its client.
#[derive(Debug)]
pub(super) struct Waiter {
    pub(super) ticket: Ticket,
    node: u32,
    pub(super) previous: u32,
    pub(super) next: u32,
    /// When it has waited long enough.
    pub(super) timer: TimerId,
    pub(super) kind: WaiterKind,
}

/// Stands for a queue's place where the line is that of all tracked jobs.
pub(super) const ANY_QUEUE: u32 = NONE;

/// What somebody waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WaiterKind {
    /// To hold a job.
    Reserve,
    /// To have it for good, with its key group.
    Pop,
}

/// A waiter's place in one queue.
#[derive(Debug)]
pub(super) struct WaitNode {
    waiter: u32,
    queue: u32,
    previous: u32,
    next: u32,
    /// The next node of the same waiter.
    sibling: u32,
    /// Its place in time.
    arrival: u64,
}

/// The waiters of one queue: first come, first served.
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

    /// Only the pops.
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

/// All nodes by place.
#[derive(Debug, Default)]
pub(super) struct WaitNodes {
    slots: PagedSlab<WaitNode>,
}

impl WaitNodes {
    /// Takes a node out of the line that it stands in. O(1).
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

/// All waiting reserves.
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

    /// A waiter that stands in no line yet. O(1).
    #[inline(always)]
    pub(super) fn add(&mut self, ticket: Ticket, kind: WaiterKind) -> u32 {
        let timer = TimerId::NONE;
        self.slots.insert(Waiter { ticket, node: NONE, previous: NONE, next: NONE, timer, kind })
    }

    /// Puts a waiter that has just been added at the end of a queue's line, unless it is there
    /// already. O(1): it is the last to arrive, so if it stands in that line, it is the last there.
    #[inline(always)]
    pub(super) fn join(&mut self, waiter: u32, queue: u32, wait_queues: &mut WaitQueues) {
        let last = wait_queues.of(self.slots[waiter].kind).last;
        if last == NONE || self.nodes.slots[last].waiter != waiter {
            self.push_back(waiter, queue, wait_queues);
        }
    }

    /// Puts a waiter that does not stand there at the end of a queue's wait queue. O(1).
    #[inline(always)]
    pub(super) fn push_back(&mut self, waiter: u32, queue: u32, wait_queues: &mut WaitQueues) {
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

    /// Whether a waiter stands in a queue's wait queue. O(queues of the waiter).
    pub(super) fn is_queued_in(&self, waiter: u32, queue: u32) -> bool {
        let mut node = self.slots[waiter].node;
        while node != NONE && self.nodes.slots[node].queue != queue {
            node = self.nodes.slots[node].sibling;
        }
        node != NONE
    }

    /// Takes a waiter out of one queue's line, if it stands there. O(queues of the waiter).
    pub(super) fn leave(&mut self, waiter: u32, queue: u32, wait_queues: &mut WaitQueues) {
        let (mut before, mut node) = (NONE, self.slots[waiter].node);
        while node != NONE && self.nodes.slots[node].queue != queue {
            (before, node) = (node, self.nodes.slots[node].sibling);
        }
        if node == NONE {
            return;
        }
        self.nodes.unlink(node, self.slots[waiter].kind, wait_queues);
        let gone = self.nodes.slots.remove(node).expect("a waiter's node is there");
        if before == NONE {
            self.slots[waiter].node = gone.sibling;
        } else {
            self.nodes.slots[before].sibling = gone.sibling;
        }
    }

    /// Who is served next in a queue; with `reserves_only` among those who can have any
    /// job. O(1).
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

    /// Who is served next with a job that those of a queue's wait queues want and those of
    /// the line of all tracked jobs: the first for whom the job is meant. O(places passed over).
    pub(super) fn first_of(
        &self,
        wait_queues: WaitQueues,
        global: WaitQueues,
        reserves_only: bool,
        is_meant: impl Fn(&Waiter) -> bool,
    ) -> Option<u32> {
        let follow = |&node: &u32| Some(self.nodes.slots[node].next).filter(|&next| next != NONE);
        let first = |wait_queue: WaitQueue| {
            let head = Some(wait_queue.first).filter(|&node| node != NONE);
            let nodes = std::iter::successors(head, follow).map(|node| &self.nodes.slots[node]);
            nodes.into_iter().find(|node| is_meant(&self.slots[node.waiter]))
        };
        let pops = if reserves_only { WaitQueue::default() } else { wait_queues.pops };
        let firsts = [wait_queues.reserves, pops, global.reserves].map(first).into_iter().flatten();
        firsts.min_by_key(|node| node.arrival).map(|node| node.waiter)
    }

    /// Which reserve is served next in a queue, unless a pop came before it. O(1).
    #[inline]
    pub(super) fn first_reserve(&self, wait_queues: WaitQueues) -> Option<u32> {
        if wait_queues.pops.is_empty() { self.first(wait_queues, true) } else { None }
    }

    /// Ends a wait: `leave` reserves each node out of its queue's wait queue. O(queues of the
    /// waiter).
    pub(super) fn end(
        &mut self,
        waiter: u32,
        mut leave: impl FnMut(u32, u32, WaiterKind, &mut WaitNodes),
    ) -> Waiter {
        let waiter = self.slots.remove(waiter).expect("a wait ended twice");
        let mut node = waiter.node;
        while node != NONE {
            leave(self.nodes.slots[node].queue, node, waiter.kind, &mut self.nodes);
            let gone = self.nodes.slots.remove(node).expect("a waiter's node is there");
            node = gone.sibling;
        }
        waiter
    }

    /// The waiters of a queue, reserves before pops, each in order, for checks. O(wait queues).
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

    /// The queues that each waiter stands in, for checks. O(nodes).
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
