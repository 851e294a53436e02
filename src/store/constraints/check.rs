//! What must hold of constraints between two commands.

use super::job_class::OrderKey;
use crate::base::timer_queue::TimerId;
use crate::model::job::Status;
use crate::model::worker::WorkerId;
use crate::store::Store;
use crate::store::excluded::ExcludedHeaps;
use crate::store::jobs::NONE;
use crate::store::waiters::ANY_QUEUE;
use std::collections::{BTreeMap, BTreeSet};

impl Store {
    /// Asserts that counts, strands, groups and buckets are what the jobs say. O(everything).
    pub(in crate::store) fn check_constraints(&self) {
        let all = &self.constraints;
        for (&id, &rule) in &all.by_id {
            let record = &all.rules[rule];
            let place = &self.jobs[record.slot];
            assert_eq!((place.id, place.queue), (id, NONE), "a constraint is not in its place");
            let found = all.by_name.get(&record.constraint.name);
            assert_eq!(found, Some(&rule), "a constraint is not found by its name");
        }
        assert_eq!(all.by_name.len(), all.by_id.len(), "a constraint is found that does not hold");
        for (number, rule) in all.rules.iter() {
            assert!(rule.holds() || !rule.values.is_empty(), "a constraint is remembered in vain");
            for (value, &bucket) in &rule.values {
                assert_eq!(all.limiters[bucket].rule, number, "a bucket is somebody else's");
                assert_eq!(all.limiters[bucket].value, *value, "a bucket is for another value");
            }
        }
        let buckets: usize = all.rules.iter().map(|(_, rule)| rule.values.len()).sum();
        assert_eq!(buckets, all.limiters.len(), "a bucket of nobody");
        self.check_strands();
        self.check_groups();
        self.check_buckets();
        let left = [&all.dirty, &all.limiters_ready].iter().any(|list| !list.is_empty());
        let left = left || !all.changed_limits.is_empty() || !all.queues_to_match.is_empty();
        let left = left || !all.unblocked.is_empty();
        assert!(all.pending || !left, "nobody looks after what is left");
        let asked = all.deferred_replies.iter();
        let mut asked = asked.filter(|&&(_, ticket)| self.is_waiting(ticket));
        assert!(all.pending || asked.next().is_none(), "a take that does not wait is forgotten");
        assert!(all.pending || all.scan_pos >= all.sweep_until, "a sweep is forgotten");
    }

    fn check_strands(&self) {
        let all = &self.constraints;
        let (mut jobs, mut waiting) = (BTreeMap::<u32, u32>::new(), BTreeSet::new());
        let mut shelved: BTreeMap<(u32, &[WorkerId]), u32> = BTreeMap::new();
        for (slot, job) in self.jobs.iter().filter(|(slot, _)| self.is_job(*slot)) {
            let strand = job.strand();
            if strand == NONE {
                assert!(job.status != Status::Blocked, "a job is held back by nothing");
                continue;
            }
            assert_eq!(all.classes[strand].queue, job.queue, "a job is in a foreign strand");
            *jobs.entry(strand).or_default() += 1;
            let waits = matches!(job.status, Status::Ready | Status::Blocked);
            let takers = &all.classes[strand].takers;
            assert!(!waits || takers.are_of(job), "a job is in a strand for others");
            if waits && !job.excluded_workers().is_empty() {
                *shelved.entry((job.queue, job.excluded_workers())).or_insert(0) += 1;
                if job.is_tracked() {
                    *shelved.entry((ANY_QUEUE, job.excluded_workers())).or_insert(0) += 1;
                }
            }
            match job.status {
                Status::Ready => assert_eq!(all.classes[strand].shown, slot, "a job is not shown"),
                Status::Blocked => assert!(waiting.insert(slot)),
                _ => {}
            }
        }
        assert_eq!(self.reserved_shelves(), shelved, "shelves stay for others than who waits");
        for (number, strand) in all.classes.iter() {
            assert_eq!(jobs.get(&number), Some(&strand.jobs), "a strand's jobs are miscounted");
            let seat = (strand.queue, strand.takers.clone(), strand.buckets.clone());
            assert_eq!(all.class_index.get(&seat), Some(&number), "a strand is not found");
            strand.parked.check_invariants(&self.jobs, |entry, position| {
                let job = &self.jobs[entry.slot];
                assert_eq!((job.strand(), job.place), (number, position), "a wrong place");
                assert!(waiting.remove(&{ entry.slot }), "a job is held back twice");
            });
            if strand.shown != NONE {
                assert_eq!(self.jobs[strand.shown].status, Status::Ready, "it is not shown");
            }
            let key = strand.head(&self.jobs).map(|head| OrderKey::of(head, &self.jobs));
            assert_eq!(strand.key, key, "a strand's key is stale");
            assert_eq!(key.is_none(), strand.group == NONE, "a strand is at a wrong place");
        }
        assert!(waiting.is_empty(), "a job is held back nowhere");
        assert_eq!(
            all.class_index.len(),
            all.classes.len(),
            "a strand is found without being there"
        );
        for (queue, record) in self.queues.iter() {
            let strands = all.classes.iter().filter(|(_, strand)| strand.queue == queue).count();
            assert_eq!(strands, record.strands as usize, "a queue's strands are miscounted");
        }
    }

    /// For how many jobs shelves stay: those of queues, and of all followed jobs.
    fn reserved_shelves(&self) -> BTreeMap<(u32, &[WorkerId]), u32> {
        let of_queues =
            self.queues.iter().map(|(queue, record)| (queue, record.excluded.as_deref()));
        let all = of_queues.chain([(ANY_QUEUE, Some(&self.global_ready.excluded))]);
        all.flat_map(|(queue, shelves)| {
            let reserved = shelves.into_iter().flat_map(ExcludedHeaps::reserved);
            reserved.map(move |(refused_by, count)| ((queue, refused_by), count))
        })
        .collect()
    }

    fn check_groups(&self) {
        let all = &self.constraints;
        let mut strands = 0;
        for (number, group) in all.waitlists.iter() {
            let place = (group.bucket, group.queue, group.takers.clone());
            assert_eq!(all.waitlist_index.get(&place), Some(&number), "a group is not found");
            for (key, strand) in &group.strands {
                let strand = &all.classes[*strand];
                assert_eq!(strand.key.as_ref(), Some(key), "a strand stands at a wrong place");
                assert_eq!((strand.group, strand.queue), (number, group.queue), "a foreign strand");
                assert_eq!(strand.takers, group.takers, "a strand for others than its group");
                assert!(strand.buckets.contains(&group.bucket), "it waits for a foreign bucket");
            }
            strands += group.strands.len();
            let (key, first) = group.strands.first().expect("an empty group is kept");
            if let Some(asleep) = &group.asleep {
                assert_eq!((group.shown, asleep), (NONE, key), "a sleeping group is awake");
                let sleeps = all.limiters[group.bucket].asleep.contains(&(key.clone(), number));
                assert!(sleeps, "a group sleeps nowhere");
            } else {
                let head = all.classes[*first].head(&self.jobs);
                assert_eq!(head, Some(group.shown), "a group does not show its first job");
            }
        }
        let standing = all.classes.iter().filter(|(_, strand)| strand.group != NONE).count();
        assert_eq!(strands, standing, "a strand is in no group");
        let shown = all.classes.iter().filter(|(_, strand)| strand.shown != NONE).count();
        let showing = all.waitlists.iter().filter(|(_, group)| group.shown != NONE).count();
        assert_eq!(shown, showing, "a job is shown that is not the first");
        assert_eq!(
            all.waitlist_index.len(),
            all.waitlists.len(),
            "a group is found without being there"
        );
    }

    fn check_buckets(&self) {
        let all = &self.constraints;
        let (mut running, mut strands) = (BTreeMap::<u32, u32>::new(), BTreeMap::new());
        for (_, strand) in all.classes.iter() {
            for &bucket in &strand.buckets {
                *strands.entry(bucket).or_insert(0) += 1;
            }
        }
        let held = self.jobs.iter().filter(|(_, job)| job.status == Status::Reserved);
        for (_, job) in held.filter(|(_, job)| job.strand() != NONE) {
            for &bucket in &all.classes[job.strand()].buckets {
                *running.entry(bucket).or_default() += 1;
            }
        }
        let mut asleep = 0;
        for (number, bucket) in all.limiters.iter() {
            let expected = running.get(&number).copied().unwrap_or_default();
            assert_eq!(bucket.running, expected, "a bucket's running jobs are miscounted");
            let expected = strands.get(&number).copied().unwrap_or_default();
            assert_eq!(bucket.classes, expected, "a bucket's strands are miscounted");
            assert_eq!(bucket.dirty, all.dirty.contains(&number), "a list and its flag differ");
            if let Some(queue) = bucket.paused_for {
                assert!(all.paused.contains(&(queue, number)), "a bucket rests for nobody");
                assert!(
                    all.queues_to_match.contains(queue),
                    "a bucket rests for a queue without waiters"
                );
                assert!(!bucket.dirty, "a bucket rests that is to be looked at");
                let first = bucket.asleep.first().map(|(key, _)| key);
                let first = bucket.paused_before.as_ref() <= first || first.is_none();
                assert!(first, "a bucket rests before somebody");
            }
            let listed =
                all.limiters_waiting.contains(&number) || all.limiters_ready.contains(&number);
            assert!(listed || !bucket.limiters_waiting, "a bucket waits on no list");
            asleep += bucket.asleep.len();
            let rule = &all.rules[bucket.rule];
            let most = rule.constraint.max_running;
            let runs = most.is_some_and(|most| bucket.running >= most);
            // Somebody may have looked at the tokens before the timer is handled that brings one.
            let soon = bucket.tokens.next().unwrap_or_else(|| bucket.tokens.at());
            let alarm =
                bucket.timer != TimerId::NONE && self.deadlines.moment(bucket.timer) <= soon;
            let waits = all.scan_pos < rule.settled && bucket.limiters_waiting;
            if bucket.asleep.is_empty() {
                let kept = bucket.classes > 0 || bucket.timer != TimerId::NONE;
                assert!(kept || bucket.dirty, "an empty bucket is kept");
            } else {
                let obstacle = runs || alarm || waits || all.pending;
                assert!(obstacle, "somebody sleeps where there is room");
            }
        }
        let resting = all.limiters.iter().filter(|(_, bucket)| bucket.paused_for.is_some()).count();
        assert_eq!(resting, all.paused.len(), "a bucket rests without knowing it");
        let by_key = all
            .limiters
            .iter()
            .filter_map(|(number, bucket)| bucket.paused_before.clone().map(|key| (key, number)));
        assert!(by_key.collect::<BTreeSet<_>>() == all.paused_by_key, "keys of resting buckets");
        let sleeping = all.waitlists.iter().filter(|(_, group)| group.asleep.is_some()).count();
        assert_eq!(sleeping, asleep, "somebody sleeps without knowing it");
    }

    /// How many deadlines of buckets are armed, for checks.
    pub(in crate::store) fn bucket_timers(&self) -> usize {
        let timers = self.constraints.limiters.iter().map(|(_, bucket)| bucket.timer);
        timers.filter(|timer| !timer.is_none()).count()
    }

    /// The timer of a bucket, for checks.
    pub(in crate::store) fn bucket_timer(&self, bucket: u32) -> Option<TimerId> {
        self.constraints.limiters.get(bucket).map(|bucket| bucket.timer)
    }
}
