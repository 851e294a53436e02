//! Key groups: the waiting packets of one queue with the same key, which a pop removes together. A
//! group is a list from the newest to the oldest, linked through the jobs while they are ready or
//! group-only; its key is that of any member.
//!
//! A packet that is requeued is older than the newest one, and its place in the list is not known,
//! so it is in an ordered set beside the list. A packet joins and leaves in O(1), a requeued one in
//! O(log r) for the r of them, and reading k packets, newest first, costs O(k log r).
//!
//! Invariant: a group has a member; every packet that is ready or group-only is in one.

use super::idx::{JobIdx, KeyGroupIdx, QueueIdx};
use super::job::NewerPacket;
use super::jobs::Jobs;
use crate::base::hash_index::remove_entry;
use crate::base::paged::PagedSlab;
use crate::base::slab_index::{PackedOption, SlabIndex};
use foldhash::fast::FixedState;
use hashbrown::HashTable;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::BuildHasher;

#[derive(Debug)]
struct KeyGroup {
    hash: u64,
    /// The ends of the list; none if all members are requeued ones.
    newest: PackedOption<JobIdx>,
    oldest: PackedOption<JobIdx>,
    /// Requeued members, which are in the set beside the list.
    requeued: u32,
}

impl KeyGroup {
    /// Takes the packet in `slot` out of the list, where it is the oldest, the newest or both.
    fn unlink_end(
        &mut self,
        slot: JobIdx,
        older: PackedOption<JobIdx>,
        newer: PackedOption<JobIdx>,
    ) {
        debug_assert!(older.is_none() || newer.is_none(), "a packet inside the list");
        if older.is_none() {
            assert!(self.oldest == slot.into(), "a packet is not the oldest of its group");
            self.oldest = newer;
        }
        if newer.is_none() {
            assert!(self.newest == slot.into(), "a packet is not the newest of its group");
            self.newest = older;
        }
    }
}

/// Number of tables, chosen by hash: growing one moves a small part of the entries.
const SHARDS: usize = 64;

/// Largest capacity, in entries, that an empty shard keeps.
const SMALL: usize = 256;

/// All groups, by queue and key.
#[derive(Debug)]
pub(super) struct KeyGroups {
    slots: PagedSlab<KeyGroup, KeyGroupIdx>,
    shards: Vec<HashTable<KeyGroupIdx>>,
    hasher: FixedState,
    /// Group, id and slot of requeued packets, the newest of a group first.
    requeued: BTreeSet<(KeyGroupIdx, Reverse<u64>, JobIdx)>,
    /// By the queue of a group that is walked, the packet of the list that is next.
    walks: BTreeMap<QueueIdx, PackedOption<JobIdx>>,
}

/// Identifies a group.
struct GroupKey<'a> {
    hash: u64,
    queue: QueueIdx,
    key: &'a [u8],
}

impl KeyGroups {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            slots: PagedSlab::default(),
            shards: std::iter::repeat_with(HashTable::new).take(SHARDS).collect(),
            hasher: FixedState::with_seed(seed),
            requeued: BTreeSet::new(),
            walks: BTreeMap::new(),
        }
    }

    fn group_key<'a>(&self, slot: JobIdx, jobs: &'a Jobs) -> GroupKey<'a> {
        let job = &jobs[slot];
        let key = job.key().expect("only packets have groups");
        GroupKey { hash: self.hasher.hash_one((job.queue, key)), queue: job.queue, key }
    }

    fn shard(hash: u64) -> usize {
        // Other bits than those that the table itself uses first.
        ((hash >> 40) % SHARDS as u64) as usize
    }

    fn find(&self, group_key: &GroupKey<'_>, jobs: &Jobs) -> Option<KeyGroupIdx> {
        let shard = &self.shards[Self::shard(group_key.hash)];
        let found = shard.find(group_key.hash, |&group| {
            let member = &jobs[self.any_member(group)];
            member.queue == group_key.queue && member.key() == Some(group_key.key)
        });
        found.copied()
    }

    fn any_member(&self, group: KeyGroupIdx) -> JobIdx {
        let newest = self.slots[group].newest.expand();
        newest.unwrap_or_else(|| self.newest_other(group).expect("a group has a member").1)
    }

    /// Id and slot of the newest requeued packet of a group.
    fn newest_other(&self, group: KeyGroupIdx) -> Option<(u64, JobIdx)> {
        let from = (group, Reverse(u64::MAX), JobIdx::from_slot(0));
        let &(of, Reverse(id), slot) = self.requeued.range(from..).next()?;
        (of == group).then_some((id, slot))
    }

    /// The group of the packet's key, if it has a member. O(key).
    pub(super) fn of(&self, slot: JobIdx, jobs: &Jobs) -> Option<KeyGroupIdx> {
        self.find(&self.group_key(slot, jobs), jobs)
    }

    /// Adds the packet in `slot` to its group. O(key), amortised; O(log r) more for a requeued one.
    pub(super) fn join(&mut self, slot: JobIdx, jobs: &mut Jobs) {
        debug_assert!(!jobs[slot].is_linked(), "a packet is in one key group");
        let group_key = self.group_key(slot, jobs);
        let hash = group_key.hash;
        let Some(number) = self.find(&group_key, jobs) else {
            let ends = (slot.into(), slot.into());
            let group = KeyGroup { hash, newest: ends.0, oldest: ends.1, requeued: 0 };
            let group = self.slots.insert(group);
            let slots = &self.slots;
            let shard = &mut self.shards[Self::shard(hash)];
            shard.insert_unique(hash, group, |&group| slots[group].hash);
            return Self::link(slot, PackedOption::NONE, NewerPacket::None, jobs);
        };
        let group = &mut self.slots[number];
        let (second, id) = (group.newest, jobs[slot].id());
        if second.expand().is_some_and(|second| id < jobs[second].id()) {
            group.requeued += 1;
            self.requeued.insert((number, Reverse(id), slot));
            return Self::link(slot, PackedOption::NONE, NewerPacket::Beside, jobs);
        }
        group.newest = slot.into();
        debug_assert!(second.is_none() == group.oldest.is_none(), "a list has both ends or none");
        Self::link(slot, second, NewerPacket::None, jobs);
        match second.expand() {
            None => group.oldest = slot.into(),
            Some(second) => jobs[second].set_newer_packet(NewerPacket::Some(slot)),
        }
    }

    fn link(slot: JobIdx, older: PackedOption<JobIdx>, newer: NewerPacket, jobs: &mut Jobs) {
        jobs[slot].set_older_packet(older);
        jobs[slot].set_newer_packet(newer);
    }

    /// Removes the packet in `slot` from its group. O(key); O(log r) more for a requeued one.
    pub(super) fn leave(&mut self, slot: JobIdx, jobs: &mut Jobs) {
        let (older, newer) = (jobs[slot].older_packet(), jobs[slot].newer_packet());
        if let Some(next) = self.walks.get_mut(&jobs[slot].queue)
            && *next == slot.into()
        {
            *next = older;
        }
        if older.is_none() || newer == NewerPacket::None {
            let group_key = self.group_key(slot, jobs);
            let number = self.find(&group_key, jobs).expect("a packet is in a group");
            let group = &mut self.slots[number];
            if newer == NewerPacket::Beside {
                group.requeued -= 1;
                let was_there = self.requeued.remove(&(number, Reverse(jobs[slot].id()), slot));
                assert!(was_there, "a requeued packet is not in the ordered set");
                debug_assert!(older.is_none(), "a packet beside the list has no older neighbour");
            } else {
                let newer = match newer {
                    NewerPacket::Some(newer) => newer.into(),
                    NewerPacket::None | NewerPacket::Beside => PackedOption::NONE,
                };
                group.unlink_end(slot, older, newer);
            }
            if group.newest.is_none() && group.requeued == 0 {
                self.remove_group(number);
            }
        }
        if let NewerPacket::Some(newer) = newer {
            debug_assert!(
                jobs[newer].older_packet() == slot.into() && jobs[newer].id() > jobs[slot].id(),
                "neighbours in a key group name each other, and ids fall along it"
            );
            jobs[newer].set_older_packet(older);
        }
        if let Some(older) = older.expand() {
            debug_assert_eq!(
                jobs[older].newer_packet(),
                NewerPacket::Some(slot),
                "neighbours in a key group name each other"
            );
            jobs[older].set_newer_packet(newer);
        }
        Self::link(slot, PackedOption::NONE, NewerPacket::None, jobs);
    }

    /// Whether a group has more than `most` packets. O(most).
    pub(super) fn has_more(&self, group: KeyGroupIdx, most: usize, jobs: &Jobs) -> bool {
        let record = &self.slots[group];
        let listed = std::iter::successors(record.newest.expand(), |&slot| {
            jobs[slot].older_packet().expand()
        });
        listed.take(most + 1).count() + record.requeued as usize > most
    }

    /// Begins a walk over a group of this queue, from the newest packet to the oldest. Packets may
    /// join and leave meanwhile.
    pub(super) fn begin_walk(&mut self, queue: QueueIdx, group: KeyGroupIdx) {
        let former = self.walks.insert(queue, self.slots[group].newest);
        assert!(former.is_none(), "two groups of a queue are walked");
    }

    /// The newest packet with an id below `below` that the walk in this queue has not passed over;
    /// `group`: the group that has the key of the walk now, if there is one. O(log r).
    pub(super) fn next_in_walk(
        &self,
        queue: QueueIdx,
        group: Option<KeyGroupIdx>,
        below: u64,
        jobs: &Jobs,
    ) -> Option<JobIdx> {
        let listed = self.walks.get(&queue).and_then(|next| next.expand());
        let from = |group| (group, Reverse(below.saturating_sub(1)), JobIdx::from_slot(0));
        let beside = group.and_then(|group| {
            let &(of, Reverse(id), slot) = self.requeued.range(from(group)..).next()?;
            (of == group && id < below).then_some((id, slot))
        });
        debug_assert!(
            listed.is_none_or(|slot| jobs[slot].queue == queue && jobs[slot].id() < below),
            "a walk goes from newer packets of its queue to older ones"
        );
        match (listed, beside) {
            (Some(listed), Some((id, slot))) if id > jobs[listed].id() => Some(slot),
            (None, Some((_, slot))) => Some(slot),
            (listed, _) => listed,
        }
    }

    pub(super) fn end_walk(&mut self, queue: QueueIdx) {
        let walk = self.walks.remove(&queue);
        assert!(walk.is_some(), "a walk over a group ends twice");
    }

    /// Whether any group is walked. O(1).
    pub(super) fn is_walked(&self) -> bool {
        !self.walks.is_empty()
    }

    fn remove_group(&mut self, number: KeyGroupIdx) {
        let group = self.slots.remove(number).expect("a group was removed twice");
        debug_assert!(
            group.newest.is_none() && group.oldest.is_none() && group.requeued == 0,
            "a group with a packet is not removed"
        );
        let shard = &mut self.shards[Self::shard(group.hash)];
        remove_entry(shard, group.hash, |&other| other == number);
        if shard.is_empty() && shard.capacity() > SMALL {
            *shard = HashTable::new();
        }
    }

    /// The newest packet of a group, and whether it is the only one. O(1), or O(log r) with
    /// requeued ones.
    pub(super) fn newest(&self, number: KeyGroupIdx, jobs: &Jobs) -> (JobIdx, bool) {
        let group = &self.slots[number];
        let newest = group.newest.expand();
        let other = if group.requeued == 0 { None } else { self.newest_other(number) };
        let Some((id, slot)) = other else {
            // Proof: a group without members is removed, and this one has no requeued ones.
            return (newest.expect("a group has a member"), group.newest == group.oldest);
        };
        match newest {
            Some(newest) if id < jobs[newest].id() => (newest, false),
            newest => (slot, newest.is_none() && group.requeued == 1),
        }
    }

    /// The packets in the list of a group. O(g).
    fn members(&self, group: KeyGroupIdx, jobs: &Jobs) -> Vec<JobIdx> {
        let newest = self.slots[group].newest.expand();
        std::iter::successors(newest, |&slot| jobs[slot].older_packet().expand()).collect()
    }

    /// Asserts that groups and table agree, and returns all members. O(packets): for checks.
    pub(super) fn check_invariants(&self, jobs: &Jobs) -> Vec<JobIdx> {
        let listed: usize = self.shards.iter().map(HashTable::len).sum();
        assert_eq!(listed, self.slots.len(), "groups and table entries differ in number");
        let mut all = Vec::new();
        for (number, group) in self.slots.iter() {
            let members = self.members(number, jobs);
            let beside: Vec<JobIdx> = self
                .requeued
                .iter()
                .filter(|&&(of, ..)| of == number)
                .map(|&(_, Reverse(id), slot)| {
                    assert_eq!(
                        (jobs[slot].id(), jobs[slot].newer_packet()),
                        (id, NewerPacket::Beside),
                        "an entry of a requeued packet is wrong"
                    );
                    slot
                })
                .collect();
            let first = &jobs[self.any_member(number)];
            for (place, &slot) in members.iter().enumerate() {
                let newer = place.checked_sub(1).map(|before| members[before]);
                let newer = newer.map_or(NewerPacket::None, NewerPacket::Some);
                assert_eq!(jobs[slot].newer_packet(), newer, "a group is linked wrongly");
            }
            let falling = members.windows(2).all(|pair| jobs[pair[0]].id() > jobs[pair[1]].id());
            assert!(falling, "a group is out of order");
            assert_eq!(
                members.last().copied(),
                group.oldest.expand(),
                "the oldest of a group is wrong"
            );
            assert_eq!(beside.len(), group.requeued as usize, "a count of a group is wrong");
            for &slot in members.iter().chain(&beside) {
                assert_eq!(jobs[slot].queue, first.queue, "a packet is in a foreign group");
                assert_eq!(jobs[slot].key(), first.key(), "a packet is in a foreign group");
                assert_eq!(self.of(slot, jobs), Some(number), "a group is not found");
            }
            all.extend(members.into_iter().chain(beside));
        }
        for (&queue, next) in &self.walks {
            let Some(next) = next.expand() else { continue };
            assert_eq!(jobs[next].queue, queue, "a walk is in another queue");
            assert!(jobs[next].newer_packet() != NewerPacket::Beside, "a walk is beside the list");
        }
        all
    }
}
