//! Packets of one queue with the same key belong together: a pop of one takes all of them. A group
//! is a list from the newest to the oldest, linked through the jobs themselves while they are Ready
//! or Aside; its key is that of any of its members.
//!
//! A packet that comes back (its holder has given it back) would have to be put into the middle. It
//! is put in front instead, and the list is sorted when it is next read. So a packet joins and
//! leaves in O(1), and reading k packets costs O(k), or O(g log g) after somebody came back to a
//! group of g.
//!
//! Invariant: a group has a member; every packet that is Ready or Aside is in one.

use super::jobs::{Jobs, NONE};
use crate::base::paged::PagedSlab;
use foldhash::fast::FixedState;
use hashbrown::HashTable;
use std::hash::BuildHasher;

#[derive(Debug)]
struct Group {
    hash: u64,
    newest: u32,
    oldest: u32,
    /// Whether somebody came back to the wrong place.
    unsorted: bool,
}

/// The table is cut into so many by hash, so that when one grows, nobody waits for all.
const SHARDS: usize = 64;

/// An empty shard with room for more than this gives it back.
const SMALL: usize = 256;

/// All groups, by queue and key.
#[derive(Debug)]
pub(super) struct Groups {
    slots: PagedSlab<Group>,
    shards: Vec<HashTable<u32>>,
    hasher: FixedState,
}

/// Finds a group of a key in a queue.
struct Sought<'a> {
    hash: u64,
    queue: u32,
    key: &'a [u8],
}

impl Groups {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            slots: PagedSlab::default(),
            shards: std::iter::repeat_with(HashTable::new).take(SHARDS).collect(),
            hasher: FixedState::with_seed(seed),
        }
    }

    fn seek<'a>(&self, slot: u32, jobs: &'a Jobs) -> Sought<'a> {
        let job = &jobs[slot];
        let key = job.key().expect("only packets have groups");
        Sought { hash: self.hasher.hash_one((job.queue, key)), queue: job.queue, key }
    }

    fn shard(hash: u64) -> usize {
        // Other bits than those that the table itself uses first.
        ((hash >> 40) % SHARDS as u64) as usize
    }

    fn find(&self, sought: &Sought<'_>, jobs: &Jobs) -> Option<u32> {
        let shard = &self.shards[Self::shard(sought.hash)];
        let found = shard.find(sought.hash, |&group| {
            let member = &jobs[self.slots[group].newest];
            member.queue == sought.queue && member.key() == Some(sought.key)
        });
        found.copied()
    }

    /// The group that the packet in `slot` belongs to, if it has other members. O(key).
    pub(super) fn of(&self, slot: u32, jobs: &Jobs) -> Option<u32> {
        self.find(&self.seek(slot, jobs), jobs)
    }

    /// Adds the packet in `slot` to its group. O(key), amortised.
    pub(super) fn join(&mut self, slot: u32, jobs: &mut Jobs) {
        let sought = self.seek(slot, jobs);
        let hash = sought.hash;
        let Some(group) = self.find(&sought, jobs) else {
            let group =
                self.slots.insert(Group { hash, newest: slot, oldest: slot, unsorted: false });
            let slots = &self.slots;
            let shard = &mut self.shards[Self::shard(hash)];
            shard.insert_unique(hash, group, |&group| slots[group].hash);
            (jobs[slot].next, jobs[slot].holder) = (NONE, NONE);
            return;
        };
        let group = &mut self.slots[group];
        let second = std::mem::replace(&mut group.newest, slot);
        group.unsorted |= jobs[slot].id < jobs[second].id;
        (jobs[slot].next, jobs[slot].holder) = (second, NONE);
        jobs[second].holder = slot;
    }

    /// Takes the packet in `slot` out of its group. O(key).
    pub(super) fn leave(&mut self, slot: u32, jobs: &mut Jobs) {
        let (older, newer) = (jobs[slot].next, jobs[slot].holder);
        if older == NONE || newer == NONE {
            let sought = self.seek(slot, jobs);
            let number = self.find(&sought, jobs).expect("a packet is in a group");
            let group = &mut self.slots[number];
            if older == NONE {
                assert!(group.oldest == slot, "a packet is not the oldest of its group");
                group.oldest = newer;
            }
            if newer == NONE {
                assert!(group.newest == slot, "a packet is not the newest of its group");
                group.newest = older;
            }
            if older == NONE && newer == NONE {
                self.forget(number);
            }
        }
        if newer != NONE {
            jobs[newer].next = older;
        }
        if older != NONE {
            jobs[older].holder = newer;
        }
        (jobs[slot].next, jobs[slot].holder) = (NONE, NONE);
    }

    fn forget(&mut self, number: u32) {
        let group = self.slots.remove(number).expect("a group was forgotten twice");
        let shard = &mut self.shards[Self::shard(group.hash)];
        match shard.find_entry(group.hash, |&other| other == number) {
            Ok(entry) => entry.remove(),
            Err(_) => unreachable!("every group is found by its key"),
        };
        if shard.is_empty() && shard.capacity() > SMALL {
            *shard = HashTable::new();
        }
    }

    /// The newest packet of a group. O(1), but O(g log g) after somebody came back to it.
    pub(super) fn newest(&mut self, group: u32, jobs: &mut Jobs) -> u32 {
        if std::mem::take(&mut self.slots[group].unsorted) {
            let mut members = self.members(group, jobs);
            members.sort_unstable_by_key(|&slot| std::cmp::Reverse(jobs[slot].id));
            let group = &mut self.slots[group];
            (group.newest, group.oldest) = (members[0], members[members.len() - 1]);
            let mut newer = NONE;
            for &slot in &members {
                (jobs[slot].next, jobs[slot].holder) = (NONE, newer);
                if newer != NONE {
                    jobs[newer].next = slot;
                }
                newer = slot;
            }
        }
        self.slots[group].newest
    }

    /// The packets of a group as they are linked. O(g).
    fn members(&self, group: u32, jobs: &Jobs) -> Vec<u32> {
        let follow = |&slot: &u32| Some(jobs[slot].next).filter(|&next| next != NONE);
        std::iter::successors(Some(self.slots[group].newest), follow).collect()
    }

    /// Asserts that groups and table agree, and returns all members. O(packets): for checks.
    pub(super) fn check_invariants(&self, jobs: &Jobs) -> Vec<u32> {
        let listed: usize = self.shards.iter().map(HashTable::len).sum();
        assert_eq!(listed, self.slots.len(), "groups and keys differ in number");
        let mut all = Vec::new();
        for (number, group) in self.slots.iter() {
            let members = self.members(number, jobs);
            let first = &jobs[group.newest];
            for (place, &slot) in members.iter().enumerate() {
                let newer = place.checked_sub(1).map_or(NONE, |before| members[before]);
                assert_eq!(jobs[slot].holder, newer, "a group is linked wrongly");
                assert_eq!(jobs[slot].queue, first.queue, "a packet is in a foreign group");
                assert_eq!(jobs[slot].key(), first.key(), "a packet is in a foreign group");
            }
            let falling = members.windows(2).all(|pair| jobs[pair[0]].id > jobs[pair[1]].id);
            assert!(group.unsorted || falling, "a group is out of order");
            assert_eq!(members.last(), Some(&group.oldest), "a group ends elsewhere");
            assert_eq!(self.of(group.newest, jobs), Some(number), "a group is not found");
            all.extend(members);
        }
        all
    }
}
