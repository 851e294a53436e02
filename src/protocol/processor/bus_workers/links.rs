//! Doubly linked lists of workers, linked through the workers' rows. All operations are O(1).

use super::{NONE, WorkerTable};

/// The list of all workers, the one that was silent for longest first.
pub(super) const AGE: usize = 0;
/// The list of a queue: the workers that reserve next.
pub(super) const ASKS: usize = 1;

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
    fn line(&mut self, which: usize, worker: u32) -> &mut IntrusiveList {
        match which {
            AGE => &mut self.age,
            _ => &mut self.queues[self.workers[worker].queue].asking,
        }
    }

    pub(super) fn append(&mut self, which: usize, worker: u32) {
        self.lined[which] += 1;
        let line = self.line(which, worker);
        let previous = std::mem::replace(&mut line.last, worker);
        if previous == NONE {
            line.first = worker;
        } else {
            self.workers[previous].links[which].next = worker;
        }
        self.workers[worker].links[which] = Links { previous, next: NONE };
    }

    pub(super) fn unlink(&mut self, which: usize, worker: u32) {
        self.lined[which] -= 1;
        let Links { previous, next } =
            std::mem::replace(&mut self.workers[worker].links[which], ALONE);
        if previous == NONE {
            self.line(which, worker).first = next;
        } else {
            self.workers[previous].links[which].next = next;
        }
        if next == NONE {
            self.line(which, worker).last = previous;
        } else {
            self.workers[next].links[which].previous = previous;
        }
    }
}
