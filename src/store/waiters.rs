//! Takes that wait: each in the lists of all the queues that it names, in the order of arrival.
//!
//! A take has one [`Waiter`] and one [`Node`] for each of its queues. Nodes are linked twice: along
//! the queue (who is next here) and along the waiter (where else it stands).

use super::jobs::NONE;
use crate::base::paged::PagedSlab;
use crate::model::id::Ticket;
use std::ops::{Index, IndexMut};

/// A take that waits. `previous` and `next` link the waiting takes of its client.
#[derive(Debug)]
pub(super) struct Waiter {
    pub(super) ticket: Ticket,
    node: u32,
    pub(super) previous: u32,
    pub(super) next: u32,
}

/// A waiter's place in one queue.
#[derive(Debug)]
pub(super) struct Node {
    waiter: u32,
    queue: u32,
    previous: u32,
    next: u32,
    /// The next node of the same waiter.
    sibling: u32,
}

/// The waiters of one queue: first come, first served.
#[derive(Clone, Copy, Debug)]
pub(super) struct Line {
    first: u32,
    last: u32,
}

impl Default for Line {
    fn default() -> Self {
        Self { first: NONE, last: NONE }
    }
}

impl Line {
    pub(super) fn is_empty(self) -> bool {
        self.first == NONE
    }
}

/// All nodes by place.
#[derive(Debug, Default)]
pub(super) struct Nodes {
    slots: PagedSlab<Node>,
}

impl Nodes {
    /// Takes a node out of the line that it stands in. O(1).
    pub(super) fn unlink(&mut self, node: u32, line: &mut Line) {
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
    nodes: Nodes,
}

impl Waiters {
    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    /// A waiter that stands in no line yet. O(1).
    pub(super) fn add(&mut self, ticket: Ticket) -> u32 {
        self.slots.insert(Waiter { ticket, node: NONE, previous: NONE, next: NONE })
    }

    /// Puts a waiter at the end of a queue's line, unless it is there already. O(1): it is the last
    /// to arrive, so if it stands in that line, it is the last one there.
    pub(super) fn join(&mut self, waiter: u32, queue: u32, line: &mut Line) {
        if line.last != NONE && self.nodes.slots[line.last].waiter == waiter {
            return;
        }
        let sibling = self.slots[waiter].node;
        let previous = line.last;
        let node = Node { waiter, queue, previous, next: NONE, sibling };
        let node = self.nodes.slots.insert(node);
        self.slots[waiter].node = node;
        line.last = node;
        if previous == NONE {
            line.first = node;
        } else {
            self.nodes.slots[previous].next = node;
        }
    }

    /// Who is served next in a line. O(1).
    #[inline]
    pub(super) fn first(&self, line: Line) -> Option<u32> {
        if line.is_empty() { None } else { Some(self.nodes.slots[line.first].waiter) }
    }

    /// Ends a wait: `leave` takes each node out of its queue's line. O(queues of the waiter).
    pub(super) fn end(
        &mut self,
        waiter: u32,
        mut leave: impl FnMut(u32, u32, &mut Nodes),
    ) -> Ticket {
        let waiter = self.slots.remove(waiter).expect("a wait ended twice");
        let mut node = waiter.node;
        while node != NONE {
            leave(self.nodes.slots[node].queue, node, &mut self.nodes);
            let gone = self.nodes.slots.remove(node).expect("a waiter's node is there");
            node = gone.sibling;
        }
        waiter.ticket
    }

    /// The waiters of a line in order, for checks. O(line).
    pub(super) fn in_line(&self, line: Line) -> Vec<u32> {
        let follow = |&node: &u32| Some(self.nodes.slots[node].next).filter(|&next| next != NONE);
        std::iter::successors(Some(line.first).filter(|&node| node != NONE), follow)
            .map(|node| self.nodes.slots[node].waiter)
            .collect()
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
