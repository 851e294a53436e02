//! Queues by name ([`find`]) and slot. A queue comes into being with its first job or waiter, and
//! is dropped some time after its last one ([`idle`]).

mod find;
mod idle;

use super::buried::Buried;
use super::delays::Delays;
use super::excluded::ExcludedHeaps;
use super::flows::{FlowCounts, QueueHistory};
use super::idx::{DeclarationIdx, JobIdx, QueueIdx};
use super::job::Job;
use super::queue_index::QueueIndex;
use super::queue_interest::Interest;
use super::rare_counts::{RareCounts, RareStatus};
use super::record_tables::RecordTable;
use super::spread_work::HoldMarks;
use super::waiters::WaitQueues;
use crate::base::heap::Heap;
use crate::base::limits::IDLE_QUEUES_DROPPED_PER_PASS;
use crate::base::paged::PagedSlab;
use crate::base::sharded_table::ShardedTable;
use crate::base::slab_index::PackedOption;
use crate::model::id::JobId;
use crate::model::job::Status;
use crate::model::stats::StatusCounts;
use foldhash::fast::FixedState;
use idle::IdleList;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::hash::BuildHasher;
use std::ops::{Bound, Index, IndexMut};
use std::sync::Arc;

/// The queue that always exists.
pub(super) const DEFAULT: &[u8] = b"default";

/// One queue.
#[derive(Debug)]
pub(super) struct Queue {
    /// Unique over the life of the store.
    pub(super) serial: u64,
    pub(super) name: Arc<[u8]>,
    hash: u64,
    /// Ready jobs, except those in `excluded`.
    pub(super) ready: Heap<JobIdx>,
    /// Ready jobs with exclusion sets, if there are any.
    pub(super) excluded: Option<Box<ExcludedHeaps>>,
    /// Waiting reserves and pops.
    pub(super) waiters: WaitQueues,
    /// Pops beside them that are kept for their clients' next ones.
    pub(super) parked_pops: u32,
    /// Buried jobs, in the order of burial.
    pub(super) buried: Buried,
    /// Jobs of this queue in any status.
    pub(super) jobs: u32,
    /// Those with a time to live.
    pub(super) ttl_jobs: u32,
    /// Jobs by status, where the status is rare.
    pub(super) counts: RareCounts,
    /// Changes since the last look of `flows`.
    pub(super) flow: FlowCounts,
    /// Jobs put as far as the changes were looked at, since they were forgotten last.
    pub(super) put_before_walk: u64,
    /// What its users and watchers have of it.
    pub(super) interest: Option<Box<Interest>>,
    /// Its delayed jobs in order.
    pub(super) delays: Delays,
    /// The noted changes, if there are any; counted in [`Queues::histories`].
    pub(super) history: Option<Box<QueueHistory>>,
    /// Job classes of this queue: 0 if no constraint selects any of its jobs.
    pub(super) class_count: u32,
    /// Whether a put has nothing to do but to add its job: the queue is listed, and not indexed.
    pub(super) takes_plain_puts: bool,
    /// Whether the native API knows the queue: see [`Queues::list_name`].
    is_listed: bool,
    /// The index, if the queue is indexed; only queues that exist are.
    pub(super) index: Option<Box<QueueIndex>>,
    /// Work on its jobs that is spread over several passes.
    pub(super) holds: HoldMarks,
    /// Whether it is in the list of idle queues; it may be there while it is no longer idle.
    listed: bool,
    /// The next one in that list.
    next_idle: PackedOption<QueueIdx>,
    /// The queue that [`Queues::find_behind`] found behind this one last, if it is there yet.
    named_behind: Cell<PackedOption<QueueIdx>>,
}

impl Queue {
    /// Whether clients of indexed queues see it. An indexed one exists.
    pub(super) fn exists(&self) -> bool {
        self.jobs > 0 || self.index.is_some()
    }

    /// Whether it has users or watchers. O(1).
    pub(super) fn has_interest(&self) -> bool {
        self.interest.as_ref().is_some_and(|interest| interest.is_any())
    }

    /// Whether the native API knows it: see [`Queues::list_name`].
    pub(super) fn is_listed(&self) -> bool {
        self.is_listed
    }

    /// Whether a ready job of this queue is the head of the queue's heap, or of that of its
    /// exclusion set. O(exclusion sets).
    pub(super) fn is_head(&self, slot: JobIdx, job: &Job) -> bool {
        debug_assert_eq!(job.status(), Status::Ready, "only ready jobs are in heaps");
        let first = match job.excluded_workers() {
            [] => self.ready.peek(),
            workers => self.excluded.as_ref().and_then(|excluded| excluded.first(workers)),
        };
        first.is_some_and(|first| first.slot == slot)
    }

    /// The numbers of jobs by status; nothing else is filled in. O(exclusion sets).
    pub(super) fn status_counts(&self) -> StatusCounts {
        let excluded = self.excluded.iter().flat_map(|excluded| excluded.iter());
        let excluded: usize = excluded.map(|heap| heap.ready.len()).sum();
        let mut counts = StatusCounts {
            ready: (self.ready.len() + excluded) as u64,
            blocked: self.counts.get(RareStatus::Blocked),
            group_only: self.counts.get(RareStatus::GroupOnly),
            delayed: self.counts.get(RareStatus::Delayed),
            completed: self.counts.get(RareStatus::Completed),
            buried: self.counts.get(RareStatus::Buried),
            ..StatusCounts::default()
        };
        let others = counts.total();
        debug_assert!(others <= u64::from(self.jobs), "a queue counts fewer jobs than it has");
        counts.reserved = u64::from(self.jobs) - others;
        counts
    }

    /// The index of an indexed queue.
    ///
    /// # Panics
    /// If it is not indexed.
    pub(super) fn index_mut(&mut self) -> &mut QueueIndex {
        self.index.as_deref_mut().expect("the queue is indexed")
    }

    /// Whether every job has a row. O(1).
    pub(super) fn is_backfilled(&self) -> bool {
        let jobs = self.jobs as usize;
        self.index.as_ref().is_some_and(|index| index.rows().len() == jobs)
    }

    /// Starts indexing a queue that exists. If its index is being switched off, that ends: rows
    /// that are left stay. O(1).
    pub(super) fn start_indexing(&mut self) {
        if let Some(index) = &mut self.index {
            index.ending = false;
        } else {
            self.index = Some(Box::new(QueueIndex::new(&self.name)));
            self.takes_plain_puts = false;
        }
    }

    /// Whether it is indexed, and its index is not being switched off.
    pub(super) fn is_indexed(&self) -> bool {
        self.index.as_ref().is_some_and(|index| !index.ending)
    }

    /// Drops an index without rows. O(1).
    pub(super) fn drop_index(&mut self) {
        debug_assert!(
            self.index.as_ref().is_none_or(|index| index.rows().is_empty()),
            "jobs would have rows that are in no index"
        );
        self.index = None;
        self.takes_plain_puts = self.is_listed;
    }

    /// Drops the index of a queue that no longer exists. O(1).
    pub(super) fn stop_indexing_if_gone(&mut self) {
        if self.jobs == 0
            && self.index.as_ref().is_some_and(|index| index.declared.is_none())
            && *self.name != *DEFAULT
        {
            debug_assert!(self.is_backfilled(), "a queue without jobs has a row");
            self.index = None;
            self.takes_plain_puts = self.is_listed;
        }
    }

    fn is_idle(&self) -> bool {
        let is_awaited = !self.waiters.is_empty() || self.parked_pops > 0;
        let is_awaited = is_awaited || self.has_interest();
        self.jobs == 0 && !is_awaited && self.index.is_none() && !self.holds.any()
    }
}

/// An entry of the table of names. It has the hash, so that a part of the table that grows or
/// shrinks reads no slots: those of a million queues are in no cache.
#[derive(Debug)]
struct NamedQueue {
    hash: u64,
    queue: QueueIdx,
}

/// A queue without its name: its slot, and an entry in the table of names.
const QUEUE_MEMORY_BYTES: usize = size_of::<Queue>() + 2 * size_of::<NamedQueue>();

/// All queues.
#[derive(Debug)]
pub(super) struct Queues {
    slots: PagedSlab<Queue, QueueIdx>,
    by_name: ShardedTable<NamedQueue>,
    hasher: FixedState,
    idle: IdleList,
    /// How many idle queues this pass may still drop.
    idle_drops_left: usize,
    /// Records of declared queues; the place is the queue.
    declared: RecordTable<QueueIdx, DeclarationIdx>,
    /// How many queues were made; the last serial.
    made: u64,
    /// Bytes of all names.
    name_bytes: usize,
    /// Queues with histories of their changes.
    pub(super) histories: usize,
    /// Whether changes of a queue were forgotten with it. For checks.
    flows_forgotten: bool,
    /// The queues that the native API knows, by name.
    names: BTreeMap<Arc<[u8]>, QueueIdx>,
    /// The queue that [`Queues::find_recent`] found last.
    recent: Cell<PackedOption<QueueIdx>>,
}

impl Queues {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            slots: PagedSlab::default(),
            by_name: ShardedTable::default(),
            hasher: FixedState::with_seed(seed),
            idle: IdleList::default(),
            idle_drops_left: IDLE_QUEUES_DROPPED_PER_PASS,
            declared: RecordTable::default(),
            made: 0,
            name_bytes: 0,
            histories: 0,
            flows_forgotten: false,
            names: BTreeMap::new(),
            recent: Cell::new(PackedOption::NONE),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    /// The bytes that queues take beside their jobs. O(1).
    pub(super) fn memory_bytes(&self) -> usize {
        self.slots.len() * QUEUE_MEMORY_BYTES + self.name_bytes
    }

    /// Whether changes of a queue were forgotten with it.
    pub(super) fn flows_forgotten(&self) -> bool {
        self.flows_forgotten
    }

    /// One more than the largest slot in use.
    pub(super) fn end(&self) -> u32 {
        self.slots.end()
    }

    pub(super) fn get(&self, queue: QueueIdx) -> Option<&Queue> {
        self.slots.get(queue)
    }

    pub(super) fn get_mut(&mut self, queue: QueueIdx) -> Option<&mut Queue> {
        self.slots.get_mut(queue)
    }

    /// The queue of this name, if it exists, indexed from now on. O(name).
    pub(super) fn find_indexed(&mut self, name: &[u8]) -> Option<QueueIdx> {
        let found = self.find(name).filter(|&queue| self.slots[queue].exists());
        let default = || (*name == *DEFAULT).then(|| self.find_or_add(name));
        let queue = found.or_else(default)?;
        self.slots[queue].start_indexing();
        self.list_name(queue);
        Some(queue)
    }

    /// The records of declared queues.
    pub(super) fn declared(&self) -> &RecordTable<QueueIdx, DeclarationIdx> {
        &self.declared
    }

    /// Declares a queue that is not declared. Returns its record. O(name + log r) for r declared
    /// queues.
    pub(super) fn declare(&mut self, id: JobId, name: &[u8]) -> DeclarationIdx {
        let queue = self.find_or_add(name);
        self.list_name(queue);
        let record = self.declared.insert(id, queue);
        let known = &mut self.slots[queue];
        known.start_indexing();
        let former = known.index_mut().declared.replace(record);
        debug_assert!(former.is_none(), "a queue is declared twice");
        record
    }

    /// Removes the declaration of a queue, if it has one, and returns its record and id. A queue
    /// that no longer exists is not indexed any more. O(log r) for r declared queues.
    pub(super) fn end_declaration(&mut self, queue: QueueIdx) -> Option<(DeclarationIdx, JobId)> {
        let index = self.slots[queue].index.as_mut();
        let declared = index.and_then(|index| index.declared.take()).map(|record| {
            let entry = self.declared.remove(record);
            debug_assert_eq!(entry.place, queue, "a declaration is of another queue");
            debug_assert!(
                self.slots[queue].index.as_ref().is_some_and(|index| !index.ending),
                "the index of a declared queue is not being switched off"
            );
            (record, entry.id)
        });
        self.slots[queue].stop_indexing_if_gone();
        self.list_if_idle(queue);
        declared
    }

    #[inline(never)]
    fn add(&mut self, name: &[u8]) -> QueueIdx {
        debug_assert!(self.find(name).is_none(), "a name has two queues");
        let hash = self.hasher.hash_one(name);
        self.made += 1;
        self.name_bytes += name.len();
        let queue = self.slots.insert(Queue {
            serial: self.made,
            name: name.into(),
            hash,
            ready: Heap::default(),
            excluded: None,
            waiters: WaitQueues::default(),
            parked_pops: 0,
            buried: Buried::default(),
            ttl_jobs: 0,
            counts: RareCounts::default(),
            flow: FlowCounts::default(),
            put_before_walk: 0,
            interest: None,
            delays: Delays::default(),
            history: None,
            class_count: 0,
            jobs: 0,
            takes_plain_puts: false,
            is_listed: false,
            index: None,
            holds: HoldMarks::default(),
            listed: false,
            next_idle: PackedOption::NONE,
            named_behind: Cell::new(PackedOption::NONE),
        });
        self.by_name.insert_unique(hash, NamedQueue { hash, queue }, |entry| entry.hash);
        debug_assert_eq!(self.by_name.len(), self.slots.len(), "a queue has one name");
        queue
    }

    /// Makes a queue known to the native API: a job was put, it was paused, or its index was
    /// switched on. A queue that is idle is forgotten when it leaves the idle list. O(log q).
    pub(super) fn list_name(&mut self, queue: QueueIdx) {
        let record = &mut self.slots[queue];
        if !std::mem::replace(&mut record.is_listed, true) {
            record.takes_plain_puts = record.index.is_none();
            let former = self.names.insert(Arc::clone(&record.name), queue);
            debug_assert!(former.is_none(), "a name is listed for one queue");
            debug_assert!(self.names.len() <= self.slots.len(), "listed names are of queues");
        }
    }

    /// Reverses [`Queues::list_name`] for a queue without jobs, which is not declared. It is not
    /// indexed any more. O(log q).
    pub(super) fn unlist(&mut self, queue: QueueIdx) {
        let record = &mut self.slots[queue];
        debug_assert_eq!(record.jobs, 0, "a queue with jobs is listed");
        debug_assert!(
            record
                .index
                .as_ref()
                .is_none_or(|index| index.rows().is_empty() && index.declared.is_none()),
            "an index without jobs has no rows, and a declared queue is listed"
        );
        record.index = None;
        record.takes_plain_puts = false;
        self.histories -= usize::from(record.clear_flow());
        self.flows_forgotten = true;
        if std::mem::take(&mut record.is_listed) {
            let known = self.names.remove(&record.name);
            debug_assert_eq!(known, Some(queue), "a listed queue is found by its name");
        }
        self.list_if_idle(queue);
    }

    /// Makes the queues that are idle unknown: what a journal still says of them is over.
    /// O(queues).
    pub(super) fn unlist_idle(&mut self) {
        let known = self.names.values().copied();
        let idle: Vec<_> = known.filter(|&queue| self.slots[queue].is_idle()).collect();
        for queue in idle {
            self.unlist(queue);
        }
    }

    /// The queues that the native API knows behind this name, bytewise.
    pub(super) fn names_behind(
        &self,
        name: Option<&[u8]>,
    ) -> impl Iterator<Item = (&[u8], QueueIdx)> {
        let from = name.map_or(Bound::Unbounded, Bound::Excluded);
        let range = self.names.range::<[u8], _>((from, Bound::Unbounded));
        range.map(|(name, &queue)| (&**name, queue))
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (QueueIdx, &Queue)> {
        self.slots.iter()
    }

    /// Asserts that names, slots and the idle list agree. O(queues).
    pub(super) fn check_invariants(&self) {
        self.by_name.check_invariants();
        assert_eq!(self.by_name.len(), self.slots.len(), "names and queues differ in number");
        self.check_idle_list();
        let name_bytes: usize = self.slots.iter().map(|(_, queue)| queue.name.len()).sum();
        assert_eq!(self.name_bytes, name_bytes, "the bytes of names are counted wrongly");
        let histories = self.slots.iter().filter(|(_, queue)| queue.history.is_some()).count();
        assert_eq!(self.histories, histories, "histories of queues are counted wrongly");
        for (slot, queue) in self.slots.iter() {
            assert_eq!(self.find(&queue.name), Some(slot), "a queue is not found by its name");
            let named = self.names.get(&queue.name) == Some(&slot);
            assert_eq!(queue.is_listed, named, "the list of names is wrong");
            let plain = queue.is_listed && queue.index.is_none();
            assert_eq!(
                queue.takes_plain_puts, plain,
                "puts into a queue do too little or too much"
            );
            assert!(queue.is_listed || queue.jobs == 0, "a queue with jobs is not listed");
            assert!(queue.listed || !queue.is_idle(), "an idle queue is not listed");
        }
    }
}

impl Index<QueueIdx> for Queues {
    type Output = Queue;
    #[inline(always)]
    fn index(&self, queue: QueueIdx) -> &Queue {
        &self.slots[queue]
    }
}

impl IndexMut<QueueIdx> for Queues {
    #[inline(always)]
    fn index_mut(&mut self, queue: QueueIdx) -> &mut Queue {
        &mut self.slots[queue]
    }
}
