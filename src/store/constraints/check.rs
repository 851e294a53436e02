//! Invariant checks of constraints.

use super::Constraints;
use super::job_class::OrderKey;
use super::limiter::Limiter;
use crate::base::slab_index::PackedOption;
use crate::base::timer_queue::{TimerId, TimerQueue};
use crate::model::job::Status;
use crate::model::worker::WorkerId;
use crate::store::excluded::ExcludedHeaps;
use crate::store::idx::{JobClassIdx, JobIdx, LimiterIdx, QueueScope};
use crate::store::jobs::Jobs;
use crate::store::queues::Queues;
use crate::store::ready_heaps::GlobalReady;
use crate::store::{Due, Store};
use std::collections::{BTreeMap, BTreeSet};

impl Store {
    /// Asserts that counts, classes, waitlists and limiters agree with the jobs. O(everything).
    pub(in crate::store) fn check_constraints(&self) {
        let all = &self.constraints;
        all.records.check_invariants();
        for (number, record) in all.records.iter() {
            let state = &all.states[record.place];
            assert_eq!(state.record, Some(number), "a constraint's record is not its own");
            let found = all.by_name.get(&state.definition.name);
            assert_eq!(
                found,
                Some(&record.place),
                "a constraint is missing from the index by name"
            );
        }
        assert_eq!(
            all.by_name.len(),
            all.records.len(),
            "an inactive constraint is in the index by name"
        );
        for (number, state) in all.states.iter() {
            assert!(
                state.is_active() || !state.limiter_by_value.is_empty(),
                "an inactive constraint without limiters is kept"
            );
            for (value, &limiter) in &state.limiter_by_value {
                assert_eq!(
                    all.limiters[limiter].constraint, number,
                    "a limiter of another constraint"
                );
                assert_eq!(all.limiters[limiter].value, *value, "a limiter of another key value");
            }
        }
        let limiters: usize =
            all.states.iter().map(|(_, state)| state.limiter_by_value.len()).sum();
        assert_eq!(limiters, all.limiters.len(), "a limiter without constraint");
        all.check_classes(&self.jobs, &self.queues, &self.global_ready);
        all.check_waitlists(&self.jobs);
        all.check_limiters(&self.jobs, &self.deadlines);
        let left = [&all.dirty, &all.limiters_scanned].iter().any(|list| !list.is_empty());
        let left = left || !all.changed_limits.is_empty() || !all.queues_to_match.is_empty();
        let left = left || !all.queues_to_recheck.is_empty();
        assert!(all.pending || !left, "work is left and nothing is pending");
        let deferred = all.deferred_replies.iter();
        let mut deferred = deferred.filter(|&&(_, ticket)| self.is_waiting(ticket));
        assert!(
            all.pending || deferred.next().is_none(),
            "a deferred reply is left and nothing is pending"
        );
        assert!(
            all.pending || all.change_replies.is_empty(),
            "a change of a constraint is not answered and nothing is pending"
        );
        assert!(
            all.change_replies.iter().is_sorted_by_key(|reply| reply.in_force_at),
            "answers to changes of constraints are not in the order of the scan"
        );
        assert!(all.pending || !all.is_scanning(), "a scan is unfinished and nothing is pending");
    }
}

impl Constraints {
    fn check_classes(&self, jobs: &Jobs, queues: &Queues, global: &GlobalReady) {
        let (mut counts, mut blocked) = (BTreeMap::<JobClassIdx, u32>::new(), BTreeSet::new());
        let mut pinned: BTreeMap<(QueueScope, &[WorkerId]), u32> = BTreeMap::new();
        for (slot, job) in jobs.iter() {
            let Some(class) = job.class() else {
                assert!(job.status() != Status::Blocked, "a blocked job without class");
                continue;
            };
            assert_eq!(
                self.classes[class].queue, job.queue,
                "a job is in a class of another queue"
            );
            *counts.entry(class).or_default() += 1;
            let waits = matches!(job.status(), Status::Ready | Status::Blocked);
            let eligibility = &self.classes[class].eligibility;
            assert!(
                !waits || eligibility.fits(job),
                "a waiting job is in a class of another eligibility"
            );
            if waits && !job.excluded_workers().is_empty() {
                *pinned.entry((job.queue.into(), job.excluded_workers())).or_insert(0) += 1;
                if job.is_tracked() {
                    *pinned.entry((QueueScope::Any, job.excluded_workers())).or_insert(0) += 1;
                }
            }
            match job.status() {
                Status::Ready => {
                    let ready_job = self.classes[class].ready_job;
                    assert_eq!(ready_job, slot.into(), "a ready job is not its class's ready job");
                }
                Status::Blocked => assert!(blocked.insert(slot)),
                _ => {}
            }
        }
        for (_, list) in global.all_withheld() {
            for excluded in list.iter().map(|&slot| jobs[slot].excluded_workers()) {
                if !excluded.is_empty() {
                    *pinned.entry((QueueScope::Any, excluded)).or_insert(0) += 1;
                }
            }
        }
        assert_eq!(
            pinned_exclusion_sets(queues, global),
            pinned,
            "exclusion sets are pinned for other jobs than the waiting and withheld ones"
        );
        for (number, class) in self.classes.iter() {
            assert_eq!(counts.get(&number), Some(&class.jobs), "job count of a class");
        }
        for (queue, record) in queues.iter() {
            let classes = self.classes.iter().filter(|(_, class)| class.queue == queue).count();
            assert_eq!(classes, record.class_count as usize, "class count of a queue");
        }
        self.check_class_heads(blocked, jobs);
    }

    /// Asserts that classes know their blocked jobs, which are exactly `blocked`, and their heads.
    fn check_class_heads(&self, mut blocked: BTreeSet<JobIdx>, jobs: &Jobs) {
        for (number, class) in self.classes.iter() {
            let key = (class.queue, class.eligibility.clone(), class.limiters.clone());
            assert_eq!(
                self.class_index.get(&key),
                Some(&number),
                "a class is missing from the index"
            );
            class.blocked_jobs.check_invariants(jobs, |entry, position| {
                let job = &jobs[entry.slot];
                assert_eq!(
                    (job.class(), jobs.heap_position(entry.slot)),
                    (Some(number), position),
                    "class or heap position of a blocked job"
                );
                assert!(blocked.remove(&{ entry.slot }), "a job is blocked in two classes");
            });
            if let Some(ready_job) = class.ready_job.expand() {
                assert_eq!(
                    jobs[ready_job].status(),
                    Status::Ready,
                    "a class's ready job is not ready"
                );
            }
            let key = class.head(jobs).map(|head| OrderKey::of(head, jobs));
            assert_eq!(class.key, key, "order key of a class");
            assert_eq!(
                key.is_none(),
                class.waitlist.is_none(),
                "a class is in a waitlist if and only if it has a waiting job"
            );
        }
        assert!(blocked.is_empty(), "a blocked job is in no class's heap");
        assert_eq!(
            self.class_index.len(),
            self.classes.len(),
            "the class index has an entry too many"
        );
    }

    fn check_waitlists(&self, jobs: &Jobs) {
        let mut classes = 0;
        for (number, waitlist) in self.waitlists.iter() {
            let key = (waitlist.limiter, waitlist.queue, waitlist.eligibility.clone());
            assert_eq!(
                self.waitlist_index.get(&key),
                Some(&number),
                "a waitlist is missing from the index"
            );
            for (key, class) in &waitlist.classes {
                let class = &self.classes[*class];
                assert_eq!(
                    class.key.as_ref(),
                    Some(key),
                    "a class is in its waitlist under another key"
                );
                assert_eq!(
                    (class.waitlist.expand(), class.queue),
                    (Some(number), waitlist.queue),
                    "a class of another waitlist or queue"
                );
                assert_eq!(
                    class.eligibility, waitlist.eligibility,
                    "a class of another eligibility than its waitlist"
                );
                assert!(
                    class.limiters.contains(&waitlist.limiter),
                    "a class waits at a limiter that is not its own"
                );
            }
            classes += waitlist.classes.len();
            let (key, first) =
                waitlist.classes.first().expect("a waitlist without classes is kept");
            if let Some(blocked) = &waitlist.blocked_key {
                assert_eq!(
                    (waitlist.ready_job, blocked),
                    (PackedOption::NONE, key),
                    "a blocked waitlist has a ready job, or another key"
                );
                let listed = self.limiters[waitlist.limiter]
                    .blocked_waitlists
                    .contains(&(key.clone(), number));
                assert!(listed, "a blocked waitlist is missing from its limiter");
            } else {
                let head = self.classes[*first].head(jobs);
                assert_eq!(
                    head,
                    waitlist.ready_job.expand(),
                    "an open waitlist's ready job is not its head"
                );
            }
        }
        let in_waitlists =
            self.classes.iter().filter(|(_, class)| class.waitlist.is_some()).count();
        assert_eq!(classes, in_waitlists, "number of classes in waitlists");
        let class_heads =
            self.classes.iter().filter(|(_, class)| class.ready_job.is_some()).count();
        let waitlist_heads =
            self.waitlists.iter().filter(|(_, waitlist)| waitlist.ready_job.is_some()).count();
        assert_eq!(class_heads, waitlist_heads, "number of ready jobs of classes and waitlists");
        assert_eq!(
            self.waitlist_index.len(),
            self.waitlists.len(),
            "the waitlist index has an entry too many"
        );
    }

    /// Asserts what holds for a paused limiter.
    fn check_pause(&self, number: LimiterIdx, limiter: &Limiter) {
        let Some(queue) = limiter.paused_for else { return };
        assert!(self.paused.contains(&(queue, number)), "a paused limiter is missing from the set");
        assert!(
            self.queues_to_match.contains(queue.into()),
            "a limiter is paused for a queue without a scheduled match"
        );
        assert!(!limiter.dirty, "a paused limiter is dirty");
        let first = limiter.blocked_waitlists.first().map(|(key, _)| key);
        let first = limiter.paused_first_key.as_ref() <= first || first.is_none();
        assert!(first, "a paused limiter's first key is larger than that of its first waitlist");
    }

    fn check_limiters(&self, jobs: &Jobs, deadlines: &TimerQueue<Due>) {
        let (mut running, mut classes) = (BTreeMap::<_, u32>::new(), BTreeMap::new());
        for (_, class) in self.classes.iter() {
            for &limiter in &class.limiters {
                *classes.entry(limiter).or_insert(0) += 1;
            }
        }
        let held = jobs.iter().filter(|(_, job)| job.status() == Status::Reserved);
        for class in held.filter_map(|(_, job)| job.class()) {
            for &limiter in &self.classes[class].limiters {
                *running.entry(limiter).or_default() += 1;
            }
        }
        let mut blocked = 0;
        for (number, limiter) in self.limiters.iter() {
            let expected = running.get(&number).copied().unwrap_or_default();
            assert_eq!(limiter.running, expected, "running count of a limiter");
            let expected = classes.get(&number).copied().unwrap_or_default();
            assert_eq!(limiter.class_count, expected, "class count of a limiter");
            assert_eq!(
                limiter.dirty,
                self.dirty.contains(&number),
                "the dirty flag and the dirty list differ"
            );
            self.check_pause(number, limiter);
            let listed = self.limiters_awaiting_scan.contains(&number)
                || self.limiters_scanned.contains(&number);
            assert!(listed || !limiter.awaits_scan, "a limiter that awaits the scan is on no list");
            blocked += limiter.blocked_waitlists.len();
            let state = &self.states[limiter.constraint];
            let at_limit = state.is_at_max(limiter.running);
            // The bucket may have been refilled before the timer for its next token was handled.
            let due =
                limiter.tokens.next_token_at().unwrap_or_else(|| limiter.tokens.refilled_at());
            let timer_due =
                limiter.timer != TimerId::NONE && deadlines.moment(limiter.timer) <= due;
            let awaits_scan = self.scan_pos < state.scanned_at && limiter.awaits_scan;
            if limiter.blocked_waitlists.is_empty() {
                let kept = limiter.class_count > 0 || limiter.timer != TimerId::NONE;
                assert!(kept || limiter.dirty, "a limiter without classes and timer is kept");
            } else {
                let is_full = at_limit || timer_due || awaits_scan || self.pending;
                assert!(is_full, "a waitlist is blocked at a limiter with capacity");
            }
        }
        let paused =
            self.limiters.iter().filter(|(_, limiter)| limiter.paused_for.is_some()).count();
        assert_eq!(paused, self.paused.len(), "number of paused limiters");
        let by_key = self.limiters.iter().filter_map(|(number, limiter)| {
            limiter.paused_first_key.clone().map(|key| (key, number))
        });
        assert!(by_key.collect::<BTreeSet<_>>() == self.paused_by_key, "keys of paused limiters");
        let blocked_keys =
            self.waitlists.iter().filter(|(_, waitlist)| waitlist.blocked_key.is_some()).count();
        assert_eq!(blocked_keys, blocked, "number of blocked waitlists");
    }
}

/// Number of jobs for which each exclusion set is pinned, of queues and of the global ready
/// heap.
fn pinned_exclusion_sets<'a>(
    queues: &'a Queues,
    global: &'a GlobalReady,
) -> BTreeMap<(QueueScope, &'a [WorkerId]), u32> {
    let of_queues = queues.iter().map(|(queue, record)| (queue.into(), record.excluded.as_deref()));
    let all = of_queues.chain([(QueueScope::Any, Some(&global.excluded))]);
    all.flat_map(|(queue, excluded)| {
        let reserved = excluded.into_iter().flat_map(ExcludedHeaps::reserved);
        reserved.map(move |(excluded, count)| ((queue, excluded), count))
    })
    .collect()
}
