//! Key groups: the waiting packets of one queue with the same key, which a pop removes together. A
//! group is a list from the newest to the oldest, linked through the jobs while they are ready or
//! group-only; its key is that of any member.
//!
//! A packet that is requeued is older than the newest one, and its place in the list is not known,
//! so it is in an ordered set beside the list. A packet joins and leaves in O(1), a requeued one in
//! O(log r) for the r of them, and reading k packets, newest first, costs O(k log r).
//!
//! Invariant: a group has a member; every packet that is ready or group-only is in one.

use super::idx::{KeyGroupIdx, QueueIdx};
use super::jobs::{Jobs, NONE};
use crate::base::paged::PagedSlab;
use foldhash::fast::FixedState;
use hashbrown::HashTable;
use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::hash::BuildHasher;

#[derive(Debug)]
struct KeyGroup {
    hash: u64,
    newest: u32,
    oldest: u32,
    /// Requeued members, which are in the set beside the list.
    requeued: u32,
}

/// In place of the next newer packet: the packet is in the set beside the list.
const REINSERTED: u32 = NONE - 1;

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
    requeued: BTreeSet<(KeyGroupIdx, Reverse<u64>, u32)>,
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
        }
    }

    fn group_key<'a>(&self, slot: u32, jobs: &'a Jobs) -> GroupKey<'a> {
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

    fn any_member(&self, group: KeyGroupIdx) -> u32 {
        match self.slots[group].newest {
            NONE => self.newest_other(group).expect("a group has a member").1,
            newest => newest,
        }
    }

    /// Id and slot of the newest requeued packet of a group.
    fn newest_other(&self, group: KeyGroupIdx) -> Option<(u64, u32)> {
        let from = (group, Reverse(u64::MAX), 0);
        let &(of, Reverse(id), slot) = self.requeued.range(from..).next()?;
        (of == group).then_some((id, slot))
    }

    /// The group of the packet's key, if it has a member. O(key).
    pub(super) fn of(&self, slot: u32, jobs: &Jobs) -> Option<KeyGroupIdx> {
        self.find(&self.group_key(slot, jobs), jobs)
    }

    /// Adds the packet in `slot` to its group. O(key), amortised; O(log r) more for a requeued one.
    pub(super) fn join(&mut self, slot: u32, jobs: &mut Jobs) {
        let group_key = self.group_key(slot, jobs);
        let hash = group_key.hash;
        let Some(number) = self.find(&group_key, jobs) else {
            let group =
                self.slots.insert(KeyGroup { hash, newest: slot, oldest: slot, requeued: 0 });
            let slots = &self.slots;
            let shard = &mut self.shards[Self::shard(hash)];
            shard.insert_unique(hash, group, |&group| slots[group].hash);
            (jobs[slot].next, jobs[slot].holder) = (NONE, NONE);
            return;
        };
        let group = &mut self.slots[number];
        let (second, id) = (group.newest, jobs[slot].id);
        if second != NONE && id < jobs[second].id {
            group.requeued += 1;
            self.requeued.insert((number, Reverse(id), slot));
            (jobs[slot].next, jobs[slot].holder) = (NONE, REINSERTED);
            return;
        }
        group.newest = slot;
        (jobs[slot].next, jobs[slot].holder) = (second, NONE);
        if second == NONE {
            group.oldest = slot;
        } else {
            jobs[second].holder = slot;
        }
    }

    /// Removes the packet in `slot` from its group. O(key); O(log r) more for a requeued one.
    pub(super) fn leave(&mut self, slot: u32, jobs: &mut Jobs) {
        let (older, newer) = (jobs[slot].next, jobs[slot].holder);
        if older == NONE || newer == NONE {
            let group_key = self.group_key(slot, jobs);
            let number = self.find(&group_key, jobs).expect("a packet is in a group");
            let group = &mut self.slots[number];
            if newer == REINSERTED {
                group.requeued -= 1;
                let was_there = self.requeued.remove(&(number, Reverse(jobs[slot].id), slot));
                assert!(was_there, "a requeued packet is not in the ordered set");
            } else {
                if older == NONE {
                    assert!(group.oldest == slot, "a packet is not the oldest of its group");
                    group.oldest = newer;
                }
                if newer == NONE {
                    assert!(group.newest == slot, "a packet is not the newest of its group");
                    group.newest = older;
                }
            }
            if group.newest == NONE && group.requeued == 0 {
                self.remove_group(number);
            }
        }
        if newer != NONE && newer != REINSERTED {
            jobs[newer].next = older;
        }
        if older != NONE {
            jobs[older].holder = newer;
        }
        (jobs[slot].next, jobs[slot].holder) = (NONE, NONE);
    }

    fn remove_group(&mut self, number: KeyGroupIdx) {
        let group = self.slots.remove(number).expect("a group was removed twice");
        let shard = &mut self.shards[Self::shard(group.hash)];
        match shard.find_entry(group.hash, |&other| other == number) {
            Ok(entry) => entry.remove(),
            Err(_) => unreachable!("every group is found by its key"),
        };
        if shard.is_empty() && shard.capacity() > SMALL {
            *shard = HashTable::new();
        }
    }

    /// The newest packet of a group, and whether it is the only one. O(1), or O(log r) with
    /// requeued ones.
    pub(super) fn newest(&self, number: KeyGroupIdx, jobs: &Jobs) -> (u32, bool) {
        let group = &self.slots[number];
        let (newest, alone) = (group.newest, group.newest == group.oldest);
        if group.requeued == 0 {
            return (newest, alone);
        }
        match self.newest_other(number) {
            Some((id, slot)) if newest == NONE || jobs[newest].id < id => {
                (slot, newest == NONE && group.requeued == 1)
            }
            _ => (newest, false),
        }
    }

    /// The packets in the list of a group. O(g).
    fn members(&self, group: KeyGroupIdx, jobs: &Jobs) -> Vec<u32> {
        let follow = |&slot: &u32| Some(jobs[slot].next).filter(|&next| next != NONE);
        let newest = Some(self.slots[group].newest).filter(|&slot| slot != NONE);
        std::iter::successors(newest, follow).collect()
    }

    /// Asserts that groups and table agree, and returns all members. O(packets): for checks.
    pub(super) fn check_invariants(&self, jobs: &Jobs) -> Vec<u32> {
        let listed: usize = self.shards.iter().map(HashTable::len).sum();
        assert_eq!(listed, self.slots.len(), "groups and table entries differ in number");
        let mut all = Vec::new();
        for (number, group) in self.slots.iter() {
            let members = self.members(number, jobs);
            let beside: Vec<u32> = self
                .requeued
                .iter()
                .filter(|&&(of, ..)| of == number)
                .map(|&(_, Reverse(id), slot)| {
                    assert_eq!(
                        (jobs[slot].id, jobs[slot].holder),
                        (id, REINSERTED),
                        "an entry of a requeued packet is wrong"
                    );
                    slot
                })
                .collect();
            let first = &jobs[self.any_member(number)];
            for (place, &slot) in members.iter().enumerate() {
                let newer = place.checked_sub(1).map_or(NONE, |before| members[before]);
                assert_eq!(jobs[slot].holder, newer, "a group is linked wrongly");
            }
            let falling = members.windows(2).all(|pair| jobs[pair[0]].id > jobs[pair[1]].id);
            assert!(falling, "a group is out of order");
            assert_eq!(
                members.last().copied().unwrap_or(NONE),
                group.oldest,
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
        all
    }
}
