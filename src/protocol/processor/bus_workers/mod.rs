//! The workers of the bus: queue, idle or busy, time of the last message, and the reserve of each
//! that waits in the store.
//!
//! ```text
//!            reserves            job
//!   None ------------> Open ------------> None, the worker is busy
//!                      |  ^
//!    busy or expired   |  |  idle again in this queue
//!                      v  |
//!                   Cancelling --- answered ---> None; it is listed if it is idle
//! ```
//!
//! Invariants:
//! - a worker belongs to one queue and has at most one reserve; the reserve's serial is the
//!   worker's slot, so a slot is not reused before its reserve is answered;
//! - the idle workers of a queue without a reserve are in the queue's list, in the order in which
//!   they became idle; they reserve when jobs of the queue are dispatched;
//! - all workers are in one list by the time of their last message.
//!
//! Operations are O(1) unless they say otherwise.

mod links;
mod views;

use crate::base::hash_index::remove_entry;
use crate::base::limits::PROCESSOR_WORKERS_MAX;
use crate::base::paged::PagedSlab;
use crate::base::time::{Mono, Now, Wall};
use foldhash::fast::FixedState;
use hashbrown::HashTable;
use links::{ALONE, BY_AGE, EMPTY, IntrusiveList, LISTED, Links};
use std::collections::VecDeque;
use std::hash::BuildHasher;
use std::time::Duration;

/// No slot: the end of a list.
const NONE: u32 = u32::MAX;

/// The reserve of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reserve {
    None,
    /// It waits for a job.
    Open,
    /// It has to be cancelled, or was.
    Cancelling,
}

#[derive(Debug)]
struct Worker {
    uuid: Box<str>,
    hash: u64,
    /// Its queue; [`NONE`] if it has expired.
    queue: u32,
    busy: bool,
    /// It is in the list of its queue.
    is_listed: bool,
    /// It reserves as soon as it can, not with the next dispatch.
    reserves_at_once: bool,
    reserve: Reserve,
    /// The queue of its reserve.
    reserve_queue: u32,
    seen: Mono,
    seen_at: Wall,
    links: [Links; 2],
}

#[derive(Debug)]
struct Queue {
    name: Box<[u8]>,
    hash: u64,
    idle: u32,
    busy: u32,
    listed: IntrusiveList,
    /// Reserves in this queue that are not answered.
    open_reserves: u32,
    /// The workers in its list are about to reserve.
    dispatching: bool,
}

#[derive(Debug)]
pub(super) struct WorkerTable {
    workers: PagedSlab<Worker>,
    by_uuid: HashTable<u32>,
    queues: PagedSlab<Queue>,
    by_name: HashTable<u32>,
    hasher: FixedState,
    age: IntrusiveList,
    /// Queues whose listed workers are about to reserve.
    dispatching: VecDeque<u32>,
    /// Workers whose reserves have to be cancelled.
    to_cancel: VecDeque<u32>,
    /// Reserves that are not answered.
    open_reserves: usize,
    /// Lengths of the list of all workers, and of those of the queues together.
    list_lens: [usize; 2],
    /// No further reserves.
    closed: bool,
    /// How long a silent worker keeps its row.
    period: Duration,
}

impl WorkerTable {
    pub(super) fn new(seed: u64, period: Duration) -> Self {
        Self {
            workers: PagedSlab::default(),
            by_uuid: HashTable::new(),
            queues: PagedSlab::default(),
            by_name: HashTable::new(),
            hasher: FixedState::with_seed(seed),
            age: EMPTY,
            dispatching: VecDeque::new(),
            to_cancel: VecDeque::new(),
            open_reserves: 0,
            list_lens: [0; 2],
            closed: false,
            period,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.by_uuid.len()
    }

    /// Reserves that are not answered.
    pub(super) fn open_reserves(&self) -> usize {
        self.open_reserves
    }

    fn find(&self, uuid: &str) -> Option<u32> {
        let hash = self.hasher.hash_one(uuid);
        self.by_uuid.find(hash, |&slot| *self.workers[slot].uuid == *uuid).copied()
    }

    fn find_queue(&self, name: &[u8]) -> Option<u32> {
        let hash = self.hasher.hash_one(name);
        self.by_name.find(hash, |&slot| *self.queues[slot].name == *name).copied()
    }

    fn find_or_add_queue(&mut self, name: &[u8]) -> u32 {
        if let Some(slot) = self.find_queue(name) {
            return slot;
        }
        let hash = self.hasher.hash_one(name);
        let slot = self.queues.insert(Queue {
            name: name.into(),
            hash,
            idle: 0,
            busy: 0,
            listed: EMPTY,
            open_reserves: 0,
            dispatching: false,
        });
        let queues = &self.queues;
        self.by_name.insert_unique(hash, slot, |&slot| queues[slot].hash);
        slot
    }

    /// Removes a queue without workers and reserves.
    fn leave_queue(&mut self, slot: u32) {
        let queue = &self.queues[slot];
        if queue.idle + queue.busy + queue.open_reserves > 0 || queue.dispatching {
            return;
        }
        remove_entry(&mut self.by_name, queue.hash, |&other| other == slot);
        self.queues.remove(slot);
    }

    /// Creates or updates the row of the worker of this name. `None`: the table is full.
    fn upsert(&mut self, uuid: &str, queue: &[u8], busy: bool, now: Now) -> Option<u32> {
        let known = self.find(uuid);
        if known.is_none() && self.len() >= PROCESSOR_WORKERS_MAX {
            return None;
        }
        let queue = self.find_or_add_queue(queue);
        let Some(worker) = known else {
            return Some(self.add(uuid, queue, busy, now));
        };
        let record = &mut self.workers[worker];
        (record.seen, record.seen_at) = (now.mono, now.wall);
        if self.age.last != worker {
            self.unlink(BY_AGE, worker);
            self.append(BY_AGE, worker);
        }
        if (self.workers[worker].queue, self.workers[worker].busy) != (queue, busy) {
            let former = self.leave(worker);
            self.enter(worker, queue, busy);
            if former != queue {
                self.leave_queue(former);
            }
        }
        Some(worker)
    }

    fn add(&mut self, uuid: &str, queue: u32, busy: bool, now: Now) -> u32 {
        let hash = self.hasher.hash_one(uuid);
        let worker = self.workers.insert(Worker {
            uuid: uuid.into(),
            hash,
            queue: NONE,
            busy,
            is_listed: false,
            reserves_at_once: false,
            reserve: Reserve::None,
            reserve_queue: NONE,
            seen: now.mono,
            seen_at: now.wall,
            links: [ALONE; 2],
        });
        let workers = &self.workers;
        self.by_uuid.insert_unique(hash, worker, |&slot| workers[slot].hash);
        self.append(BY_AGE, worker);
        self.enter(worker, queue, busy);
        worker
    }

    /// Adds a worker to a queue, or to another state in it.
    fn enter(&mut self, worker: u32, queue: u32, busy: bool) {
        let record = &mut self.workers[worker];
        (record.queue, record.busy, record.reserves_at_once) = (queue, busy, false);
        let (reserve, reserve_queue) = (record.reserve, record.reserve_queue);
        let counts = &mut self.queues[queue];
        if busy {
            counts.busy += 1;
            return;
        }
        counts.idle += 1;
        match reserve {
            Reserve::None => {
                self.workers[worker].is_listed = true;
                self.append(LISTED, worker);
            }
            // The reserve that was to be cancelled is wanted again.
            Reserve::Cancelling if reserve_queue == queue => {
                self.workers[worker].reserve = Reserve::Open;
            }
            Reserve::Open | Reserve::Cancelling => {}
        }
    }

    /// Takes a worker out of its queue, which is returned, or out of its state in it; it wants no
    /// job then. An empty queue is kept for now.
    fn leave(&mut self, worker: u32) -> u32 {
        let record = &mut self.workers[worker];
        let (queue, busy, is_listed) = (record.queue, record.busy, record.is_listed);
        if record.reserve == Reserve::Open {
            record.reserve = Reserve::Cancelling;
            self.to_cancel.push_back(worker);
        }
        if is_listed {
            self.unlink(LISTED, worker);
            self.workers[worker].is_listed = false;
        }
        let counts = &mut self.queues[queue];
        if busy {
            counts.busy -= 1;
        } else {
            counts.idle -= 1;
        }
        self.workers[worker].queue = NONE;
        queue
    }

    /// Marks a worker as idle; if that is news, the workers of its queue are about to reserve.
    /// `false`: the table is full.
    pub(super) fn idle(&mut self, uuid: &str, queue: &[u8], is_news: bool, now: Now) -> bool {
        let worker = self.upsert(uuid, queue, false, now);
        if let Some(worker) = worker {
            self.workers[worker].reserves_at_once |= is_news;
        }
        if is_news {
            self.dispatch(queue);
        }
        worker.is_some()
    }

    /// Marks a worker as busy. `false`: the table is full.
    pub(super) fn busy(&mut self, uuid: &str, queue: &[u8], now: Now) -> bool {
        self.upsert(uuid, queue, true, now).is_some()
    }

    /// Lets the idle workers of a queue reserve.
    pub(super) fn dispatch(&mut self, queue: &[u8]) {
        if let Some(queue) = self.find_queue(queue) {
            self.dispatch_at(queue);
        }
    }

    fn dispatch_at(&mut self, slot: u32) {
        let queue = &mut self.queues[slot];
        if queue.listed.first != NONE && !queue.dispatching && !self.closed {
            queue.dispatching = true;
            self.dispatching.push_back(slot);
        }
    }

    /// The same for all queues. O(queues).
    pub(super) fn dispatch_all(&mut self) {
        for slot in 0..self.queues.end() {
            if self.queues.get(slot).is_some() {
                self.dispatch_at(slot);
            }
        }
    }

    /// Whether a reserve or a cancellation is due.
    pub(super) fn is_due(&self) -> bool {
        !self.dispatching.is_empty() || !self.to_cancel.is_empty()
    }

    /// Whether idle workers wait for the next dispatch.
    pub(super) fn has_waiting(&self) -> bool {
        self.list_lens[LISTED] > 0
    }

    /// The next worker that reserves, and its queue; its reserve is open from now on.
    pub(super) fn next_to_reserve(&mut self) -> Option<(u32, &[u8])> {
        let (worker, slot) = loop {
            let slot = *self.dispatching.front()?;
            let worker = self.queues[slot].listed.first;
            if worker != NONE {
                break (worker, slot);
            }
            self.dispatching.pop_front();
            self.queues[slot].dispatching = false;
            self.leave_queue(slot);
        };
        self.unlink(LISTED, worker);
        let record = &mut self.workers[worker];
        assert!(record.reserve == Reserve::None && !record.busy, "a worker reserves twice");
        (record.is_listed, record.reserve, record.reserve_queue) = (false, Reserve::Open, slot);
        self.open_reserves += 1;
        let queue = &mut self.queues[slot];
        queue.open_reserves += 1;
        Some((worker, &queue.name))
    }

    /// The next worker whose reserve has to be cancelled.
    pub(super) fn next_to_cancel(&mut self) -> Option<u32> {
        while let Some(worker) = self.to_cancel.pop_front() {
            let reserve = self.workers.get(worker).map(|record| record.reserve);
            if reserve == Some(Reserve::Cancelling)
                || (self.closed && reserve == Some(Reserve::Open))
            {
                return Some(worker);
            }
        }
        None
    }

    /// Ends all reserves: they have to be cancelled, and there are no further ones. `wanted`: jobs
    /// that answer them all the same are assigned. O(workers).
    pub(super) fn end_reserves(&mut self, wanted: bool) {
        self.closed = true;
        while let Some(slot) = self.dispatching.pop_front() {
            self.queues[slot].dispatching = false;
        }
        for worker in 0..self.workers.end() {
            if let Some(record) = self.workers.get_mut(worker)
                && record.reserve == Reserve::Open
            {
                if !wanted {
                    record.reserve = Reserve::Cancelling;
                }
                self.to_cancel.push_back(worker);
            }
        }
    }

    /// Assigns the job that has answered the worker's reserve: the worker is busy then. `None`: it
    /// no longer wants one, or expires at this moment.
    pub(super) fn assign(&mut self, worker: u32, now: Now) -> Option<&str> {
        let reserve = self.answer(worker);
        let record = &mut self.workers[worker];
        let late = record.seen.after(self.period) <= now.mono;
        if reserve != Reserve::Open || late {
            record.reserves_at_once &= !late;
            self.settle(worker);
            return None;
        }
        let queue = self.workers[worker].queue;
        self.workers[worker].busy = true;
        let counts = &mut self.queues[queue];
        counts.idle -= 1;
        counts.busy += 1;
        Some(&self.workers[worker].uuid)
    }

    /// The worker's reserve was cancelled. A worker that has become idle since reserves again.
    pub(super) fn cancelled(&mut self, worker: u32) {
        self.answer(worker);
        self.settle(worker);
    }

    fn answer(&mut self, worker: u32) -> Reserve {
        let record = &mut self.workers[worker];
        let reserve = std::mem::replace(&mut record.reserve, Reserve::None);
        assert!(reserve != Reserve::None, "a reserve was answered twice");
        let slot = std::mem::replace(&mut record.reserve_queue, NONE);
        self.open_reserves -= 1;
        self.queues[slot].open_reserves -= 1;
        if record.queue != slot {
            self.leave_queue(slot);
        }
        reserve
    }

    /// Ends a worker's reserve without a job.
    fn settle(&mut self, worker: u32) {
        let record = &mut self.workers[worker];
        let queue = record.queue;
        if queue == NONE {
            self.workers.remove(worker);
        } else if !record.busy && !record.is_listed {
            record.is_listed = true;
            let reserves_at_once = record.reserves_at_once;
            self.append(LISTED, worker);
            if reserves_at_once {
                self.dispatch_at(queue);
            }
        }
    }

    /// When the next worker expires.
    pub(super) fn deadline(&self) -> Option<Mono> {
        let oldest = self.workers.get(self.age.first)?;
        Some(oldest.seen.after(self.period))
    }

    /// Removes the worker that was silent for longest if its time is over; returns its name and its
    /// queue.
    pub(super) fn expire(&mut self, now: Now) -> Option<(Box<str>, Box<[u8]>)> {
        if self.deadline()? > now.mono {
            return None;
        }
        let worker = self.age.first;
        self.unlink(BY_AGE, worker);
        let record = &self.workers[worker];
        let (hash, uuid) = (record.hash, record.uuid.clone());
        let queue = self.queues[record.queue].name.clone();
        remove_entry(&mut self.by_uuid, hash, |&other| other == worker);
        let former = self.leave(worker);
        self.leave_queue(former);
        if self.workers[worker].reserve == Reserve::None {
            self.workers.remove(worker);
        }
        Some((uuid, queue))
    }
}
