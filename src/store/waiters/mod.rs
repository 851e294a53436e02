//! Waiting reserves and pops, in the wait queues of all queues that they name, in the order of
//! arrival. A queue has one wait queue for reserves and one for pops, because a pop cannot carry
//! every job; the earlier arrival of both is matched first. One more wait queue,
//! [`QueueScope::Any`], is for reserves of tracked jobs without queue names; the earlier arrival of
//! it and of the job's queue is matched first.
//!
//! A pop without timeout outlives its answer: see `open_pops`.
//!
//! A waiter has one [`WaitNode`] for each of its queues. Nodes are linked twice: along the queue
//! and along the waiter.

use super::idx::{QueueIdx, QueueScope, WaitNodeIdx, WaiterIdx};
use crate::base::limits::WAIT_NODE_WORK;
use crate::base::paged::PagedSlab;
use crate::base::slab_index::PackedOption;
use crate::base::time::Mono;
use crate::base::timer_queue::TimerId;
use crate::model::id::Ticket;
use std::ops::{Index, IndexMut};

mod open_pops;

/// A waiting reserve or pop. `previous` and `next` link the waiters of its client.
#[derive(Debug)]
pub(super) struct Waiter {
    pub(super) ticket: Ticket,
    /// The node that was added last, if it is in a wait queue.
    node: PackedOption<WaitNodeIdx>,
    pub(super) previous: PackedOption<WaiterIdx>,
    pub(super) next: PackedOption<WaiterIdx>,
    /// Its timeout, if it has one.
    pub(super) timer: TimerId,
    pub(super) kind: WaiterKind,
    /// Whether it does not wait of itself: its "no job" is deferred.
    deferred: bool,
    /// Whether it is a pop that is answered, and kept for the client's next one: see `open_pops`.
    paused: bool,
    /// The last arrival of a pop that was answered before; its nodes of an earlier one are late.
    since: u64,
    /// Nodes of a paused pop that are in no wait queue.
    parked: PackedOption<WaitNodeIdx>,
    /// Of a reserve that ends before a lease of its client does: when it ends of itself.
    pub(super) until: Option<Mono>,
}

impl Waiter {
    /// Whether it does not wait of itself.
    pub(super) fn is_deferred(&self) -> bool {
        self.deferred
    }
}

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
    waiter: WaiterIdx,
    queue: QueueScope,
    previous: PackedOption<WaitNodeIdx>,
    next: PackedOption<WaitNodeIdx>,
    /// The next node of the same waiter.
    sibling: PackedOption<WaitNodeIdx>,
    /// Its rank in the order of arrival, over all queues. That of a pop may be later, and a parked
    /// node has none: see `open_pops`.
    arrival: u64,
}

const _: () = assert!(size_of::<WaitNode>() == 32 && size_of::<Option<WaitNode>>() == 32);

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

/// A list of nodes, in the order of arrival.
#[derive(Clone, Copy, Debug, Default)]
struct WaitQueue {
    first: PackedOption<WaitNodeIdx>,
    last: PackedOption<WaitNodeIdx>,
}

impl WaitQueue {
    #[inline]
    fn is_empty(self) -> bool {
        debug_assert_eq!(
            self.first.is_none(),
            self.last.is_none(),
            "a wait queue has a first node and a last one, or neither"
        );
        self.first.is_none()
    }
}

/// All nodes by slot.
#[derive(Debug, Default)]
pub(super) struct WaitNodes {
    slots: PagedSlab<WaitNode, WaitNodeIdx>,
}

impl WaitNodes {
    /// Unlinks a node from its wait queue. O(1).
    pub(super) fn unlink(
        &mut self,
        node: WaitNodeIdx,
        kind: WaiterKind,
        wait_queues: &mut WaitQueues,
    ) {
        let wait_queue = wait_queues.of(kind);
        debug_assert!(!self.slots[node].is_parked(), "a parked node is in no wait queue");
        let (previous, next) = (self.slots[node].previous, self.slots[node].next);
        debug_assert!(
            previous.expand().map_or(wait_queue.first, |it| self.slots[it].next) == node.into(),
            "a node is the first of its wait queue, or its neighbour names it"
        );
        debug_assert!(
            next.expand().map_or(wait_queue.last, |it| self.slots[it].previous) == node.into(),
            "a node is the last of its wait queue, or its neighbour names it"
        );
        match previous.expand() {
            None => wait_queue.first = next,
            Some(previous) => self.slots[previous].next = next,
        }
        match next.expand() {
            None => wait_queue.last = previous,
            Some(next) => self.slots[next].previous = previous,
        }
    }

    /// This node and those behind it in its wait queue.
    fn from(&self, first: PackedOption<WaitNodeIdx>) -> impl Iterator<Item = &WaitNode> {
        let first = first.expand().map(|node| &self.slots[node]);
        std::iter::successors(first, |node| node.next.expand().map(|next| &self.slots[next]))
    }
}

/// All waiters.
#[derive(Debug, Default)]
pub(super) struct Waiters {
    slots: PagedSlab<Waiter, WaiterIdx>,
    nodes: WaitNodes,
    arrivals: u64,
    /// Pops that are answered and kept.
    paused: usize,
    /// Work of ended waits, of making queues for waits, and of pops, since last taken.
    extra_work: usize,
}

impl Waiters {
    /// How many wait.
    pub(super) fn len(&self) -> usize {
        self.slots.len() - self.paused
    }

    /// The work of ended waits, and what was noted beside it, since the last call. O(1).
    #[inline]
    pub(super) fn take_work(&mut self) -> usize {
        std::mem::take(&mut self.extra_work)
    }

    /// The same, which is then still to be taken. O(1).
    pub(super) fn noted_work(&self) -> usize {
        self.extra_work
    }

    /// Notes work beside that of ended waits.
    pub(super) fn note_work(&mut self, work: usize) {
        self.extra_work += work;
    }

    /// The same, as long as all work since it was taken is not more than `most`.
    pub(super) fn note_work_below(&mut self, work: usize, most: usize) {
        self.extra_work = (self.extra_work + work).min(most.max(self.extra_work));
    }

    /// Adds a waiter that is in no wait queue yet. O(1).
    #[inline(always)]
    pub(super) fn add(&mut self, ticket: Ticket, kind: WaiterKind) -> WaiterIdx {
        let (node, timer) = (PackedOption::NONE, TimerId::NONE);
        let (previous, next) = (PackedOption::NONE, PackedOption::NONE);
        let (deferred, paused, since, parked) = (false, false, 0, PackedOption::NONE);
        self.slots.insert(Waiter {
            ticket,
            node,
            previous,
            next,
            timer,
            kind,
            deferred,
            paused,
            since,
            parked,
            until: None,
        })
    }

    /// Adds a new waiter at the end of a wait queue, unless it is there already. O(1): it arrived
    /// last, so it can only be there as the last.
    #[inline(always)]
    pub(super) fn join(
        &mut self,
        waiter: WaiterIdx,
        queue: QueueScope,
        wait_queues: &mut WaitQueues,
    ) {
        debug_assert!(!self.slots[waiter].paused, "only a pop that waits joins a wait queue");
        let last = wait_queues.of(self.slots[waiter].kind).last;
        debug_assert!(
            last.expand().is_none_or(|last| self.nodes.slots[last].queue == queue),
            "the nodes of a wait queue name its queue"
        );
        if last.expand().is_none_or(|last| self.nodes.slots[last].waiter != waiter) {
            self.push_back(waiter, queue, wait_queues);
        }
    }

    /// Adds a waiter, which is not there, at the end of a wait queue. O(1).
    #[inline(always)]
    pub(super) fn push_back(
        &mut self,
        waiter: WaiterIdx,
        queue: QueueScope,
        wait_queues: &mut WaitQueues,
    ) {
        debug_assert!(!self.is_queued_in(waiter, queue), "a waiter is in a wait queue twice");
        let Waiter { node: sibling, kind, .. } = self.slots[waiter];
        let wait_queue = wait_queues.of(kind);
        let previous = wait_queue.last;
        self.arrivals += 1;
        let arrival = self.arrivals;
        debug_assert!(
            previous.expand().is_none_or(|last| self.nodes.slots[last].arrival < arrival),
            "a wait queue is in the order of arrival"
        );
        let next = PackedOption::NONE;
        let node = WaitNode { waiter, queue, previous, next, sibling, arrival };
        let node = self.nodes.slots.insert(node);
        self.slots[waiter].node = node.into();
        wait_queue.last = node.into();
        match previous.expand() {
            None => wait_queue.first = node.into(),
            Some(previous) => {
                debug_assert!(
                    self.nodes.slots[previous].next.is_none(),
                    "no node is behind the last one"
                );
                self.nodes.slots[previous].next = node.into();
            }
        }
    }

    /// Marks a waiter as one that does not wait of itself.
    pub(super) fn set_deferred(&mut self, waiter: WaiterIdx) {
        debug_assert!(!self.slots[waiter].paused, "a pop that was answered is not deferred");
        self.slots[waiter].deferred = true;
    }

    /// The queues that a waiter names.
    pub(super) fn queues_of(&self, waiter: WaiterIdx) -> impl Iterator<Item = QueueIdx> {
        self.nodes_of(waiter).filter_map(|node| match self.nodes.slots[node].queue {
            QueueScope::One(queue) => Some(queue),
            QueueScope::Any => None,
        })
    }

    /// Whether a waiter is in a queue's wait queues. O(queues of the waiter).
    pub(super) fn is_queued_in(&self, waiter: WaiterIdx, queue: QueueScope) -> bool {
        let mut node = self.slots[waiter].node;
        while let Some(found) = node.expand() {
            if self.nodes.slots[found].queue == queue {
                return true;
            }
            node = self.nodes.slots[found].sibling;
        }
        false
    }

    /// Removes a waiter from one queue, if it is there. O(queues of the waiter).
    pub(super) fn leave(
        &mut self,
        waiter: WaiterIdx,
        queue: QueueScope,
        wait_queues: &mut WaitQueues,
    ) {
        let (mut before, mut node) = (None, self.slots[waiter].node);
        while let Some(found) = node.expand() {
            if self.nodes.slots[found].queue == queue {
                self.nodes.unlink(found, self.slots[waiter].kind, wait_queues);
                let gone = self.nodes.slots.remove(found).expect("a waiter's node exists");
                debug_assert_eq!(gone.waiter, waiter, "the nodes of a waiter name it");
                match before {
                    None => self.slots[waiter].node = gone.sibling,
                    Some(before) => self.nodes.slots[before].sibling = gone.sibling,
                }
                return;
            }
            (before, node) = (Some(found), self.nodes.slots[found].sibling);
        }
    }

    /// The earliest waiter of a queue, with `reserves_only` the earliest reserve. The caller has
    /// settled the first pop, if pops count. O(1).
    #[inline]
    pub(super) fn first(&self, wait_queues: WaitQueues, reserves_only: bool) -> Option<WaiterIdx> {
        let WaitQueues { reserves, pops } = wait_queues;
        let first =
            |wait_queue: WaitQueue| wait_queue.first.expand().map(|node| &self.nodes.slots[node]);
        debug_assert!(
            reserves_only || first(pops).is_none_or(|node| !self.slots[node.waiter].paused),
            "the caller has parked paused pops at the head"
        );
        let node = match (first(reserves), first(pops)) {
            (Some(reserve), Some(pop)) if !reserves_only && pop.arrival < reserve.arrival => pop,
            (Some(reserve), _) => reserve,
            (None, Some(pop)) if !reserves_only => pop,
            (None, _) => return None,
        };
        debug_assert!(
            !reserves_only || self.slots[node.waiter].kind == WaiterKind::Reserve,
            "the wait queue of reserves has no pop"
        );
        Some(node.waiter)
    }

    /// The earliest waiter of a queue, or of [`QueueScope::Any`], that is eligible. The caller has
    /// settled the pops; paused ones are passed over. O(nodes passed over).
    pub(super) fn first_of(
        &self,
        wait_queues: WaitQueues,
        global: WaitQueues,
        reserves_only: bool,
        is_eligible: impl Fn(&Waiter) -> bool,
    ) -> Option<WaiterIdx> {
        let first = |wait_queue: WaitQueue| {
            let waits = |waiter: &Waiter| !waiter.paused && is_eligible(waiter);
            self.nodes.from(wait_queue.first).find(|node| waits(&self.slots[node.waiter]))
        };
        let pops = if reserves_only { WaitQueue::default() } else { wait_queues.pops };
        let firsts = [wait_queues.reserves, pops, global.reserves].map(first).into_iter().flatten();
        firsts.min_by_key(|node| node.arrival).map(|node| node.waiter)
    }

    /// The earliest waiter of a queue, if all are reserves. O(1).
    #[inline]
    pub(super) fn first_reserve(&self, wait_queues: WaitQueues) -> Option<WaiterIdx> {
        if wait_queues.pops.is_empty() { self.first(wait_queues, true) } else { None }
    }

    /// Removes a waiter; `leave` unlinks each of its nodes. O(queues of the waiter).
    pub(super) fn end(
        &mut self,
        waiter: WaiterIdx,
        mut leave: impl FnMut(QueueScope, WaitNodeIdx, WaiterKind, &mut WaitNodes),
    ) -> Waiter {
        let index = waiter;
        let waiter = self.slots.remove(index).expect("a waiter was removed twice");
        debug_assert!(waiter.parked.is_none(), "a pop ends with parked nodes");
        self.paused -= usize::from(waiter.paused);
        let mut node = waiter.node;
        while let Some(left) = node.expand() {
            leave(self.nodes.slots[left].queue, left, waiter.kind, &mut self.nodes);
            let gone = self.nodes.slots.remove(left).expect("a waiter's node exists");
            debug_assert_eq!(gone.waiter, index, "the nodes of a waiter name it");
            node = gone.sibling;
            self.extra_work += WAIT_NODE_WORK;
        }
        debug_assert!(self.paused <= self.slots.len(), "paused pops are waiters");
        waiter
    }

    /// The waiters of a queue, reserves before pops, each in order. For checks. O(waiters).
    pub(super) fn waiters_of(&self, wait_queues: WaitQueues) -> Vec<WaiterIdx> {
        let heads = [wait_queues.reserves.first, wait_queues.pops.first].into_iter();
        heads.flat_map(|head| self.nodes.from(head)).map(|node| node.waiter).collect()
    }

    /// How many waiters there are, counted up to `most`. O(most).
    pub(super) fn count_of(&self, wait_queues: WaitQueues, most: usize) -> usize {
        let heads = [wait_queues.reserves.first, wait_queues.pops.first].into_iter();
        let nodes = heads.flat_map(|head| self.nodes.from(head)).take(most);
        nodes.filter(|node| !self.slots[node.waiter].is_paused()).count()
    }

    pub(super) fn get(&self, waiter: WaiterIdx) -> Option<&Waiter> {
        self.slots.get(waiter)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (WaiterIdx, &Waiter)> {
        self.slots.iter()
    }

    /// Each pair of waiter and queue that is in a wait queue. For checks. O(nodes).
    pub(super) fn places(&self) -> impl Iterator<Item = (WaiterIdx, QueueScope)> {
        let linked = self.nodes.slots.iter().filter(|(_, node)| !node.is_parked());
        linked.map(|(_, node)| (node.waiter, node.queue))
    }
}

impl Index<WaiterIdx> for Waiters {
    type Output = Waiter;
    fn index(&self, waiter: WaiterIdx) -> &Waiter {
        &self.slots[waiter]
    }
}

impl IndexMut<WaiterIdx> for Waiters {
    fn index_mut(&mut self, waiter: WaiterIdx) -> &mut Waiter {
        &mut self.slots[waiter]
    }
}
