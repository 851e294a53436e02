//! Takes and pops that wait: each in the lines of all the queues that it names, in the order of
//! arrival. A queue has one line for takes and one for pops, because a pop cannot have every job;
//! whoever came first of both is served first. One more line, of no queue, is of those who take a
//! followed job whatever its queue; whoever came first of that line and of those of the job's queue
//! is served first.
//!
//! A take has one [`Waiter`] and one [`WaitNode`] for each of its queues. Nodes are linked twice:
//! along the queue (who is next here) and along the waiter (where else it stands).

use super::jobs::NONE;
use crate::base::paged::PagedSlab;
use crate::base::timer_queue::TimerId;
use crate::model::id::Ticket;
use std::ops::{Index, IndexMut};

/// A take that waits. `previous` and `next` link the waiting takes of its client.
#[derive(Debug)]
pub(super) struct Waiter {
    pub(super) ticket: Ticket,
    node: u32,
    pub(super) previous: u32,
    pub(super) next: u32,
    /// When it has waited long enough.
    pub(super) timer: TimerId,
    pub(super) kind: Kind,
}

/// Stands for a queue's place where the line is that of all followed jobs.
pub(super) const ANY_QUEUE: u32 = NONE;

/// What somebody waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// To hold a job.
    Take,
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
    takes: WaitQueue,
    pops: WaitQueue,
}

impl WaitQueues {
    #[inline]
    pub(super) fn is_empty(self) -> bool {
        self.takes.is_empty() && self.pops.is_empty()
    }

    /// Only the pops.
    pub(super) fn pops(self) -> Self {
        Self { takes: WaitQueue::default(), pops: self.pops }
    }

    fn of(&mut self, kind: Kind) -> &mut WaitQueue {
        match kind {
            Kind::Take => &mut self.takes,
            Kind::Pop => &mut self.pops,
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
    pub(super) fn unlink(&mut self, node: u32, kind: Kind, lines: &mut WaitQueues) {
        let line = lines.of(kind);
        let (previous, next) = (self.slots[node].previous, self.slots[node].next);
        if previous == NONE {
            line.first = next;
        } else {
            self.slots[previous].next = next;
        }
        if next == NONE {
            line.last = previous;
        } else {
            self.slots[next].previous = previous;
        }
    }
}

/// All waiting takes.
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
    pub(super) fn add(&mut self, ticket: Ticket, kind: Kind) -> u32 {
        let timer = TimerId::NONE;
        self.slots.insert(Waiter { ticket, node: NONE, previous: NONE, next: NONE, timer, kind })
    }

    /// Puts a waiter that has just been added at the end of a queue's line, unless it is there
    /// already. O(1): it is the last to arrive, so if it stands in that line, it is the last there.
    #[inline(always)]
    pub(super) fn join(&mut self, waiter: u32, queue: u32, lines: &mut WaitQueues) {
        let last = lines.of(self.slots[waiter].kind).last;
        if last == NONE || self.nodes.slots[last].waiter != waiter {
            self.push_back(waiter, queue, lines);
        }
    }

    /// Puts a waiter that does not stand there at the end of a queue's line. O(1).
    #[inline(always)]
    pub(super) fn push_back(&mut self, waiter: u32, queue: u32, lines: &mut WaitQueues) {
        let Waiter { node: sibling, kind, .. } = self.slots[waiter];
        let line = lines.of(kind);
        let previous = line.last;
        self.arrivals += 1;
        let arrival = self.arrivals;
        let node = WaitNode { waiter, queue, previous, next: NONE, sibling, arrival };
        let node = self.nodes.slots.insert(node);
        self.slots[waiter].node = node;
        line.last = node;
        if previous == NONE {
            line.first = node;
        } else {
            self.nodes.slots[previous].next = node;
        }
    }

    /// Whether a waiter stands in a queue's line. O(queues of the waiter).
    pub(super) fn is_queued_in(&self, waiter: u32, queue: u32) -> bool {
        let mut node = self.slots[waiter].node;
        while node != NONE && self.nodes.slots[node].queue != queue {
            node = self.nodes.slots[node].sibling;
        }
        node != NONE
    }

    /// Takes a waiter out of one queue's line, if it stands there. O(queues of the waiter).
    pub(super) fn leave(&mut self, waiter: u32, queue: u32, lines: &mut WaitQueues) {
        let (mut before, mut node) = (NONE, self.slots[waiter].node);
        while node != NONE && self.nodes.slots[node].queue != queue {
            (before, node) = (node, self.nodes.slots[node].sibling);
        }
        if node == NONE {
            return;
        }
        self.nodes.unlink(node, self.slots[waiter].kind, lines);
        let gone = self.nodes.slots.remove(node).expect("a waiter's node is there");
        if before == NONE {
            self.slots[waiter].node = gone.sibling;
        } else {
            self.nodes.slots[before].sibling = gone.sibling;
        }
    }

    /// Who is served next in a queue; with `takes_only` among those who can have any job. O(1).
    #[inline]
    pub(super) fn first(&self, lines: WaitQueues, takes_only: bool) -> Option<u32> {
        let WaitQueues { takes, pops } = lines;
        let first = |line: WaitQueue| (!line.is_empty()).then(|| &self.nodes.slots[line.first]);
        let node = match (first(takes), first(pops)) {
            (Some(take), Some(pop)) if !takes_only && pop.arrival < take.arrival => pop,
            (Some(take), _) => take,
            (None, Some(pop)) if !takes_only => pop,
            (None, _) => return None,
        };
        Some(node.waiter)
    }

    /// Who is served next with a job that those of a queue's lines want and those of the line of
    /// all followed jobs: the first for whom the job is meant. O(places passed over).
    pub(super) fn first_of(
        &self,
        lines: WaitQueues,
        anywhere: WaitQueues,
        takes_only: bool,
        is_meant: impl Fn(&Waiter) -> bool,
    ) -> Option<u32> {
        let follow = |&node: &u32| Some(self.nodes.slots[node].next).filter(|&next| next != NONE);
        let first = |line: WaitQueue| {
            let head = Some(line.first).filter(|&node| node != NONE);
            let nodes = std::iter::successors(head, follow).map(|node| &self.nodes.slots[node]);
            nodes.into_iter().find(|node| is_meant(&self.slots[node.waiter]))
        };
        let pops = if takes_only { WaitQueue::default() } else { lines.pops };
        let firsts = [lines.takes, pops, anywhere.takes].map(first).into_iter().flatten();
        firsts.min_by_key(|node| node.arrival).map(|node| node.waiter)
    }

    /// Which take is served next in a queue, unless a pop came before it. O(1).
    #[inline]
    pub(super) fn first_take(&self, lines: WaitQueues) -> Option<u32> {
        if lines.pops.is_empty() { self.first(lines, true) } else { None }
    }

    /// Ends a wait: `leave` takes each node out of its queue's line. O(queues of the waiter).
    pub(super) fn end(
        &mut self,
        waiter: u32,
        mut leave: impl FnMut(u32, u32, Kind, &mut WaitNodes),
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

    /// The waiters of a queue, takes before pops, each in order, for checks. O(lines).
    pub(super) fn waiters_of(&self, lines: WaitQueues) -> Vec<u32> {
        let follow = |&node: &u32| Some(self.nodes.slots[node].next).filter(|&next| next != NONE);
        let heads = [lines.takes.first, lines.pops.first].into_iter().filter(|&node| node != NONE);
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
