//! Doubly linked lists of workers, linked through the workers' rows. All operations are O(1).

use super::{NONE, WorkerTable};

/// The list of all workers, the one that was silent for longest first.
pub(super) const BY_AGE: usize = 0;
/// The list of a queue: the workers that reserve next.
pub(super) const LISTED: usize = 1;

#[derive(Clone, Copy, Debug)]
pub(super) struct IntrusiveList {
    pub(super) first: u32,
    pub(super) last: u32,
}

pub(super) const EMPTY: IntrusiveList = IntrusiveList { first: NONE, last: NONE };

#[derive(Clone, Copy, Debug)]
pub(super) struct Links {
    pub(super) previous: u32,
    pub(super) next: u32,
}

pub(super) const ALONE: Links = Links { previous: NONE, next: NONE };

impl WorkerTable {
    fn list(&mut self, which: usize, worker: u32) -> &mut IntrusiveList {
        match which {
            BY_AGE => &mut self.age,
            _ => &mut self.queues[self.workers[worker].queue].listed,
        }
    }

    pub(super) fn append(&mut self, which: usize, worker: u32) {
        self.list_lens[which] += 1;
        let list = self.list(which, worker);
        let previous = std::mem::replace(&mut list.last, worker);
        if previous == NONE {
            list.first = worker;
        } else {
            self.workers[previous].links[which].next = worker;
        }
        self.workers[worker].links[which] = Links { previous, next: NONE };
    }

    pub(super) fn unlink(&mut self, which: usize, worker: u32) {
        self.list_lens[which] -= 1;
        let Links { previous, next } =
            std::mem::replace(&mut self.workers[worker].links[which], ALONE);
        if previous == NONE {
            self.list(which, worker).first = next;
        } else {
            self.workers[previous].links[which].next = next;
        }
        if next == NONE {
            self.list(which, worker).last = previous;
        } else {
            self.workers[next].links[which].previous = previous;
        }
    }
}
